//! Builds a message from its short form. Members that are not stated have default values.

use aos::message::{Method, MethodCall, Request};
use serde_json::{Map, Value, json};

use super::text::RequestText;
use crate::policy::parse_hook;

/// The execution of a message that names none.
const EXECUTION: &str = "execution";

/// Returns the message with a separate execution, unless the message names one.
pub(super) fn with_execution_id(request: &Request, number: u32) -> Request {
    let mut request = request.clone();
    let id = match &mut request.call {
        MethodCall::ToolCallRequest(step) => &mut step.tool_call_request.execution_id,
        MethodCall::ToolCallResult(step) => &mut step.execution_id,
        _ => return request,
    };
    if id == EXECUTION {
        *id = format!("{EXECUTION}-{number}");
    }
    request
}

/// Builds the message.
///
/// # Errors
/// Returns the reason when the message cannot be built.
pub(super) fn build_message(text: &RequestText) -> Result<Request, String> {
    if let Some(aos) = &text.aos {
        return parse_message(aos.clone());
    }
    let method = match &text.hook {
        None => Method::ToolCallRequest,
        Some(hook) => parse_hook(hook).map_err(|fault| format!("hook {fault}"))?,
    };
    check_fields(text, method)?;
    let mut params = params(text, method);
    if let Some(reasoning) = &text.reasoning {
        params.insert("reasoning".to_owned(), reasoning.as_str().into());
    }
    let is_a2a = !method.as_str().starts_with("steps/") && method != Method::Mcp;
    let is_mcp_call = text.message.as_ref().is_some_and(|message| message.contains_key("method"));
    let states_request =
        method == Method::ToolCallRequest || (method == Method::Mcp && is_mcp_call);
    let context = context(text, states_request);
    match is_a2a {
        false => drop(params.insert("context".to_owned(), context)),
        // An A2A message is between agents; only its context names users.
        true => {
            let who = ["user", "caller"].into_iter();
            let who = who.filter_map(|name| Some((name.to_owned(), context.get(name)?.clone())));
            params.insert("context".to_owned(), who.collect::<Map<_, _>>().into());
        }
    }
    parse_message(json!({"jsonrpc": "2.0", "id": "case", "method": method, "params": params}))
}

fn parse_message(message: Value) -> Result<Request, String> {
    Request::from_value(message).map_err(|rejection| format!("the request is invalid: {rejection}"))
}

/// Rejects members that do not belong to a message of this hook: they were meant for another one.
fn check_fields(text: &RequestText, method: Method) -> Result<(), String> {
    use Method as M;
    let given = [
        ("tool", text.tool.is_some(), &[M::ToolCallRequest, M::ToolCallResult][..]),
        ("inputs", !text.inputs.is_empty(), &[M::ToolCallRequest]),
        ("outputs", !text.outputs.is_empty(), &[M::ToolCallResult]),
        ("is_error", text.is_error, &[M::ToolCallResult]),
        (
            "texts",
            !text.texts.is_empty(),
            &[
                M::Message,
                M::AgentTrigger,
                M::KnowledgeRetrieval,
                M::MemoryStore,
                M::MemoryContextRetrieval,
            ],
        ),
        ("role", text.role.is_some(), &[M::Message]),
        ("query", text.query.is_some(), &[M::KnowledgeRetrieval]),
    ];
    let misplaced =
        given.iter().find(|(_, is_given, methods)| *is_given && !methods.contains(&method));
    if let Some((name, ..)) = misplaced {
        return Err(format!("{name} is not allowed in {method}"));
    }
    if text.message.is_some() && method.as_str().starts_with("steps/") {
        return Err(format!("message is only for MCP and A2A, and is not allowed in {method}"));
    }
    Ok(())
}

fn params(text: &RequestText, method: Method) -> Map<String, Value> {
    let tool = text.tool.as_deref().unwrap_or("tool");
    let parts = || text.texts.iter().map(|text| json!({"kind": "text", "text": text}));
    let params = match method {
        Method::ToolCallRequest => {
            let inputs =
                text.inputs.iter().map(|(name, value)| json!({"name": name, "value": value}));
            let inputs: Value = inputs.collect();
            json!({"toolCallRequest": {"executionId": EXECUTION, "toolId": tool, "inputs": inputs}})
        }
        Method::ToolCallResult => {
            // Other values are sent as their JSON text, as agents do.
            let text_of =
                |output: &Value| output.as_str().map_or_else(|| output.to_string(), str::to_owned);
            let outputs =
                text.outputs.iter().map(|output| json!({"kind": "text", "text": text_of(output)}));
            let result = json!({"outputs": outputs.collect::<Value>(), "isError": text.is_error});
            json!({"toolCallResult": {"executionId": EXECUTION, "result": result}, "toolId": tool})
        }
        Method::Message => json!({"message": {
            "id": "message", "role": text.role.as_deref().unwrap_or("user"), "content": parts().collect::<Value>()
        }}),
        Method::AgentTrigger => json!({"trigger": {
            "type": "autonomous", "event": {"type": "event", "id": "event"}, "content": parts().collect::<Value>()
        }}),
        Method::KnowledgeRetrieval => {
            let results = text.texts.iter().enumerate();
            let results = results.map(|(n, text)| json!({"id": n.to_string(), "content": text}));
            json!({"knowledgeStep": {"query": text.query, "results": results.collect::<Value>()}})
        }
        Method::MemoryStore | Method::MemoryContextRetrieval => json!({"memory": text.texts}),
        Method::Mcp | Method::A2aWrapped => {
            json!({"message": text.message.clone().unwrap_or_default()})
        }
        _ => json!({"payload": text.message.clone().unwrap_or_default()}),
    };
    if let Value::Object(params) = params { params } else { Map::new() }
}

/// Returns the prepared request. Members that are not stated are empty, and known to be.
fn prepared_request(stated: Map<String, Value>) -> Value {
    let defaults = json!({
        "method": "", "url": "", "host": "", "path": "", "query": "", "headers": {}, "body": {},
    });
    let mut request = defaults.as_object().cloned().unwrap_or_default();
    request.extend(stated);
    if let Some(Value::Object(body)) = request.get_mut("body") {
        let text = body.entry("text").or_insert_with(|| "".into());
        let bytes = text.as_str().map_or(0, str::len);
        body.entry("bytes").or_insert_with(|| bytes.into());
        body.entry("checksum").or_insert_with(|| "".into());
    }
    request.into()
}

fn context(text: &RequestText, states_request: bool) -> Value {
    let agent = text.agent.as_deref().unwrap_or("agent");
    let mut context = json!({
        "agent": {
            "id": agent, "name": agent, "instructions": "", "version": "1",
            "url": "https://agent.example", "provider": {"name": "Example", "url": "https://example.org"}
        },
        "session": {"id": text.session.as_deref().unwrap_or("session")},
        "turnId": "turn", "stepId": "step", "timestamp": "1970-01-01T00:00:00Z"
    });
    match &text.user {
        None => {}
        Some(Value::String(user)) if user.contains('@') => {
            context["user"] = json!({"id": user, "email": user});
        }
        Some(Value::String(user)) => context["user"] = json!({"id": user}),
        Some(user) => context["user"] = user.clone(),
    }
    if let Some(caller) = &text.caller {
        context["caller"] = json!({"id": caller});
    }
    let mut capability = match &text.capability {
        None => json!({}),
        Some(Value::String(name)) => json!({"name": name}),
        Some(capability) => capability.clone(),
    };
    if let (Value::Object(members), Some(host)) = (&mut capability, &text.host) {
        members.insert("host".to_owned(), host.as_str().into());
    }
    context["capability"] = capability;
    if states_request {
        context["request"] = prepared_request(text.request.clone().unwrap_or_default());
    } else if let Some(request) = &text.request {
        context["request"] = Value::Object(request.clone());
    }
    if !text.hidden.is_empty() {
        context["hidden"] = json!({ "paths": text.hidden });
    }
    context
}
