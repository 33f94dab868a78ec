//! The tools and the prompt of the conformance suite that ask the client for something and are called
//! again with its answer (MCP 2026-07-28).

use std::collections::BTreeMap;

use rmcp::RoleServer;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ErrorData, GetPromptRequestParams,
    GetPromptResponse, GetPromptResult, InputRequest, InputRequiredResult, InputResponses,
};
use rmcp::service::RequestContext;
use serde_json::{Value, json};

use super::{complete, of, text};

pub(super) const TOOLS: [&str; 8] = [
    "test_input_required_result_elicitation",
    "test_input_required_result_sampling",
    "test_input_required_result_list_roots",
    "test_input_required_result_request_state",
    "test_input_required_result_multiple_inputs",
    "test_input_required_result_multi_round",
    "test_input_required_result_tampered_state",
    "test_input_required_result_capabilities",
];
pub(super) const PROMPT: &str = "test_input_required_result_prompt";

/// A form with one field.
fn form(message: &str, field: &str, kind: &str) -> Value {
    let schema = json!({
        "type": "object", "properties": {field: {"type": kind}}, "required": [field],
    });
    let params = json!({"mode": "form", "message": message, "requestedSchema": schema});
    json!({"method": "elicitation/create", "params": params})
}

fn sampling(question: &str) -> Value {
    let message = json!({"role": "user", "content": text(question)});
    let params = json!({"messages": [message], "maxTokens": 100});
    json!({"method": "sampling/createMessage", "params": params})
}

fn roots() -> Value {
    json!({"method": "roots/list", "params": {}})
}

/// What a tool asks for in its first round, and the state that it wants back.
fn first(tool: &str) -> (Vec<(&'static str, Value)>, Option<&'static str>) {
    match tool {
        "test_input_required_result_sampling" => {
            (vec![("capital_question", sampling("What is the capital of France?"))], None)
        }
        "test_input_required_result_list_roots" => (vec![("client_roots", roots())], None),
        "test_input_required_result_request_state"
        | "test_input_required_result_tampered_state" => {
            (vec![("confirm", form("Please confirm", "ok", "boolean"))], Some("state-of-one"))
        }
        "test_input_required_result_multiple_inputs" => {
            let asked = vec![
                ("user_name", form("What is your name?", "name", "string")),
                ("greeting", sampling("Generate a greeting")),
                ("client_roots", roots()),
            ];
            (asked, Some("state-of-three"))
        }
        "test_input_required_result_multi_round" => {
            (vec![("step1", form("Step 1: What is your name?", "name", "string"))], Some("round-1"))
        }
        _ => (vec![("user_name", form("What is your name?", "name", "string"))], None),
    }
}

fn asks(requests: Vec<(&str, Value)>, state: Option<&str>) -> InputRequiredResult {
    let requests = requests.into_iter().map(|(key, request)| (key.to_owned(), of(request)));
    let requests: BTreeMap<String, InputRequest> = requests.collect();
    InputRequiredResult::new(Some(requests), state.map(str::to_owned))
}

/// Whether something usable is there for all that was asked for.
fn are_answered(requests: &[(&str, Value)], answers: &InputResponses) -> bool {
    requests.iter().all(|(key, request)| {
        let member = match request["method"].as_str() {
            Some("elicitation/create") => "action",
            Some("roots/list") => "roots",
            _ => "content",
        };
        answers.get(*key).is_some_and(|answer| answer.get(member).is_some())
    })
}

pub(super) fn call(
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    let tool = &*request.name;
    let (mut wanted, state) = first(tool);
    if tool == "test_input_required_result_capabilities" {
        let can = json!(context.client_capabilities());
        wanted.push(("greeting", sampling("Generate a greeting")));
        let can = |name: &str| can.get(name).is_some_and(|one| !one.is_null());
        wanted.retain(|(_, asked)| match asked["method"].as_str() {
            Some("elicitation/create") => can("elicitation"),
            _ => can("sampling"),
        });
    }
    let empty = InputResponses::default();
    let answers = request.input_responses.as_ref().unwrap_or(&empty);
    let came = request.request_state.as_deref();
    if tool == "test_input_required_result_multi_round" && came == Some("round-1") {
        let next = form("Step 2: What is your favorite color?", "color", "string");
        return Ok(asks(vec![("step2", next)], Some("round-2")).into());
    }
    let is_last = tool == "test_input_required_result_multi_round" && came == Some("round-2");
    if !is_last {
        if answers.is_empty() || (came.is_none() && state.is_some()) {
            return Ok(asks(wanted, state).into());
        }
        if came.is_some() && came != state {
            return Err(ErrorData::invalid_params("the request state was changed", None));
        }
        if !are_answered(&wanted, answers) {
            return Ok(asks(wanted, state).into());
        }
    }
    let words = [text(&format!("state-ok: {}", json!(answers)))];
    Ok(complete::<CallToolResult>(json!({ "content": words })).into())
}

pub(super) fn prompt(request: &GetPromptRequestParams) -> GetPromptResponse {
    let wanted =
        vec![("user_context", form("What context should the prompt use?", "context", "string"))];
    match &request.input_responses {
        Some(answers) if are_answered(&wanted, answers) => {
            let message = json!({"role": "user", "content": text("Use the context.")});
            complete::<GetPromptResult>(json!({ "messages": [message] })).into()
        }
        _ => GetPromptResponse::InputRequired(asks(wanted, None)),
    }
}
