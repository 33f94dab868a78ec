//! Requests to a guardian. Pure.

use a2s::{CapabilityName, InputLocation, Task};
use a2s_api::Principal;
use aos::message::{
    Agent, AgentProvider, McpStep, Session, StepContext, TextPart, ToolArgumentValue,
    ToolCallRequest, ToolCallRequestStep, ToolCallResultStep, ToolResult, User,
};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::apply_verdict::JudgedResult;
use super::sent::{RequestFacts, add_hidden};
use super::{AskReason, GuardedStep, MethodCall};
use crate::request::{self, McpMessage};
use crate::secrets::{HiddenPaths, Masked, MaskedInputs, join_pointer};

/// Creates the question about a request before it is sent.
pub(super) fn request_call(
    asker: &GuardedStep<'_>,
    task: &Task,
    inputs: &MaskedInputs,
    sent: RequestFacts,
    occasion: AskReason,
    now: Timestamp,
) -> MethodCall {
    let shown = inputs.shown().iter();
    let shown =
        shown.map(|(place, value)| ToolArgumentValue::new(place.to_string(), value.clone()));
    let request = ToolCallRequest::new(
        asker.execution_id.to_string(),
        tool_id(&asker.capability.name, asker.step),
        shown.collect::<Vec<_>>(),
    );
    let mut context = step_context(asker, task, occasion, now);
    // Conditions read dotted names as nested members.
    sent.add_to(&mut context, inputs, |place| {
        place
            .to_string()
            .split('.')
            .fold("/inputs".to_owned(), |path, name| join_pointer(&path, name))
    });
    let mut step = ToolCallRequestStep::new(context, request);
    step.reasoning = Some(reasoning_text(asker, occasion, "sends nothing"));
    step.into()
}

/// Creates the question about the call of an MCP tool before it is sent. `inputs` are its arguments.
pub(super) fn outgoing_message_call(
    asker: &GuardedStep<'_>,
    task: &Task,
    message: McpMessage,
    inputs: &MaskedInputs,
    sent: RequestFacts,
    (occasion, now): (AskReason, Timestamp),
) -> MethodCall {
    let mut context = step_context(asker, task, occasion, now);
    sent.add_to(&mut context, inputs, |place| match place {
        InputLocation::Argument(name) => join_pointer("/inputs", name),
        _ => "/inputs".to_owned(),
    });
    message_call(asker, context, message, occasion)
}

/// Creates the question about a received MCP message before it is read.
pub(super) fn received_message_call(
    asker: &GuardedStep<'_>,
    task: &Task,
    message: &Masked<Value>,
    occasion: AskReason,
    now: Timestamp,
) -> MethodCall {
    let mut context = step_context(asker, task, occasion, now);
    let mut hidden = HiddenPaths::default();
    hidden.compare_masked("/params/message", message);
    add_hidden(&mut context, hidden);
    let shown = message.shown().as_object().cloned().unwrap_or_default();
    message_call(asker, context, shown, occasion)
}

/// The AOS text defines no member for the step of a message; the schema allows additional members.
fn message_call(
    asker: &GuardedStep<'_>,
    context: StepContext,
    message: McpMessage,
    occasion: AskReason,
) -> MethodCall {
    let mut step = McpStep::new(message);
    step.context = Some(context);
    step.reasoning = Some(reasoning_text(asker, occasion, "sends nothing"));
    step.extra.insert("executionId".to_owned(), json!(asker.execution_id));
    step.extra.insert("toolId".to_owned(), json!(tool_id(&asker.capability.name, asker.step)));
    step.into()
}

/// Creates the question about a result before it is used. Structured results are sent as their JSON text,
/// failures as their message. The outputs that the step takes from status and headers are a second part.
pub(super) fn result_call(
    asker: &GuardedStep<'_>,
    task: &Task,
    result: &JudgedResult,
    occasion: AskReason,
    now: Timestamp,
) -> MethodCall {
    let mut context = step_context(asker, task, occasion, now);
    let parts: Vec<(String, bool)> = match result {
        Ok(parts) => {
            let parts = parts.iter();
            parts.map(|part| (part.shown().to_string(), part.shown() == part.actual())).collect()
        }
        Err(error) => vec![(error.shown().message.clone(), error.shown() == error.actual())],
    };
    let mut hidden = HiddenPaths::default();
    for (index, _) in parts.iter().enumerate().filter(|(_, (_, is_true))| !is_true) {
        hidden.add(format!("/outputs/{index}"));
    }
    add_hidden(&mut context, hidden);
    let parts: Vec<_> = parts.into_iter().map(|(text, _)| TextPart::new(text)).collect();
    let result = ToolResult::new(parts, result.is_err());
    let mut step = ToolCallResultStep::new(context, asker.execution_id.to_string(), result);
    step.reasoning = Some(reasoning_text(asker, occasion, "uses no result"));
    step.tool_id = Some(tool_id(&asker.capability.name, asker.step));
    step.into()
}

/// The name of the tool for people and policies: the capability with the document that contains the step,
/// and the id of the step there, `PostWeatherTweet.getWeather`. It is the same for every user of the
/// capability and for every iteration.
pub(crate) fn tool_id(capability: &CapabilityName, step: &str) -> String {
    let id = step.rsplit('/').next().unwrap_or(step);
    let id = id.split('[').next().unwrap_or(id);
    format!("{capability}.{id}")
}

/// The reasoning of a step. A preview states the `effect` that a question for it has.
fn reasoning_text(asker: &GuardedStep<'_>, occasion: AskReason, effect: &str) -> String {
    let text = format!("Step {} of {}: {}", asker.step, asker.root.name, asker.description);
    match occasion {
        AskReason::Send => text,
        AskReason::Preview => format!("Preview: the executor {effect}. {text}"),
    }
}

/// The acting principal, the session, the run and the step, and under `capability` the data about it that a
/// policy may use. The schema accepts objects there. A preview is marked with `preview: true` and has no
/// run: its turn id belongs to this preview only.
fn step_context(
    asker: &GuardedStep<'_>,
    task: &Task,
    occasion: AskReason,
    now: Timestamp,
) -> StepContext {
    let (method, url) = request::method_and_url(task);
    let target = task.url();
    let host = target.host_str().unwrap_or_default();
    let mut capability = json!({
        "name": asker.capability.name,
        "version": asker.capability.version,
        "checksum": asker.capability.checksum,
        "root": asker.root,
        "format": task.format(),
        "method": method,
        "url": url,
        "host": target.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}")),
        "readOnly": task.is_read_only(),
        "permissions": asker.permissions,
    });
    let (mark, value) = match occasion {
        AskReason::Send => ("run", json!(asker.run)),
        AskReason::Preview => ("preview", json!(true)),
    };
    capability[mark] = value;
    let session = Session::new(asker.session.to_owned());
    let mut context =
        StepContext::new(executor_agent(), session, asker.run.to_string(), asker.step, now);
    if let Value::Object(members) = capability {
        context.extra.insert("capability".to_owned(), members);
    }
    set_principal(&mut context, asker.principal);
    context
}

/// Adds the principal of a step: its user, and its token when the token acts for an end user.
pub(super) fn set_principal(context: &mut StepContext, principal: &Principal) {
    context.user = Some(User::new(principal.user_id().to_owned()));
    if let Some(token) = principal.caller_id() {
        let caller = Map::from_iter([("id".to_owned(), token.into())]);
        context.extra.insert("caller".to_owned(), caller);
    }
}

/// Returns this executor as an agent. The schema requires a URL. The executor is not hosted at one address,
/// so it uses a URN.
pub(crate) fn executor_agent() -> Agent {
    let provider = AgentProvider::new("A2S".to_owned(), "urn:a2s".to_owned());
    Agent::new(
        "a2s-executor".to_owned(),
        "A2S executor".to_owned(),
        "Run published capabilities exactly as their documents say.".to_owned(),
        env!("CARGO_PKG_VERSION").to_owned(),
        provider,
        "urn:a2s:executor".to_owned(),
    )
}
