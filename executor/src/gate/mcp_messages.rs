//! Asks the guardians about MCP messages (`protocols/MCP`): the call of a tool before it is sent, after
//! `steps/toolCallRequest`, and its response before it is read, before `steps/toolCallResult`. A guardian
//! that knows MCP sees the message; one that knows steps sees its meaning.

use a2s::{InputLocation, McpTask, Task};
use aos::GuardianChain;
use aos::message::{MethodCall, Request};
use indexmap::IndexMap;
use serde_json::{Map, Value};

use super::apply_verdict::{BadModification, changes_of, note_changes, restore_inputs};
use super::{
    AskReason, GateVerdict, GuardedInputs, GuardedStep, GuardianGate, HookPhase, RawVerdict,
    guardian_request,
};
use crate::request::{self, McpMessage, PreparedRequest, read_message};
use crate::secrets::restore_masked;

/// A call that is about to be sent.
pub(super) struct OutgoingCall<'a> {
    pub(super) tool: &'a McpTask,
    /// The arguments of the call, after the changes of the guardians so far.
    pub(super) inputs: GuardedInputs<'a>,
    /// Set when the inputs of the step contain secrets.
    pub(super) has_secrets: bool,
    /// The request that contains the call, as guardians see it.
    pub(super) sent: Map<String, Value>,
}

impl GuardianGate {
    /// Asks whether the message of a call may be sent. Returns the replacement request of the guardians, if
    /// they have one: `prepare` makes it. They may change the arguments and nothing else.
    pub(super) async fn judge_call(
        &self,
        guardians: &GuardianChain,
        asker: &GuardedStep<'_>,
        task: &Task,
        call: OutgoingCall<'_>,
        occasion: AskReason,
        prepare: impl Fn(
            &IndexMap<InputLocation, Value>,
        ) -> Result<PreparedRequest, request::PrepareError>,
    ) -> RawVerdict<Option<PreparedRequest>> {
        let OutgoingCall { tool, inputs, has_secrets, sent } = call;
        let message = match request::mcp_call(tool, inputs.masked) {
            Ok(message) => message,
            Err(error) => return RawVerdict { decisions: Vec::new(), verdict: Err(error.into()) },
        };
        let now = self.clock.now();
        let call =
            guardian_request::message_call(asker, task, message.clone(), Some(sent), occasion, now);
        let (mut truth, mut shown) = (inputs.actual.clone(), inputs.masked.clone());
        let mut prepared = None;
        let follow = |modified: &_| {
            let made = modified_arguments(&message, modified)?;
            let changes = changes_of(&shown, &made);
            let inputs = GuardedInputs { actual: &truth, masked: &shown };
            let restored = restore_inputs(inputs, made.clone(), has_secrets)?;
            let request = prepare(&restored)
                .map_err(|error| {
                    format!("the arguments do not result in a valid request: {error}")
                })?
                .with_masked_inputs(made.clone());
            (prepared, truth, shown) = (Some(request), restored, made);
            Ok(changes)
        };
        let call = (call, &**asker.trace);
        let asking = HookPhase::MCP_OUTBOUND;
        let (decisions, verdict) =
            self.ask_guardians(guardians, asking, occasion, call, follow).await;
        RawVerdict { decisions, verdict: verdict.map(|()| prepared) }
    }

    /// Asks whether the message in the response of a server may be read. The guardians may change it; a
    /// failed call stays a failed call.
    pub(crate) async fn ask_message(
        &self,
        asker: &GuardedStep<'_>,
        task: &Task,
        message: McpMessage,
    ) -> GateVerdict<McpMessage> {
        self.judge_answer(asker, task, message, AskReason::Send).await.permit()
    }

    pub(super) async fn judge_answer(
        &self,
        asker: &GuardedStep<'_>,
        task: &Task,
        message: McpMessage,
        occasion: AskReason,
    ) -> RawVerdict<McpMessage> {
        let asking = HookPhase::MCP_INBOUND;
        let Some(guardians) = self.guardians() else {
            return self.skip_guardians(asking, occasion, Ok(message));
        };
        let mut truth = Value::Object(message);
        let mut shown = asker.secrets.mask(&truth);
        let asked = shown.as_object().cloned().unwrap_or_default();
        let now = self.clock.now();
        let call = guardian_request::message_call(asker, task, asked, None, occasion, now);
        let follow = |modified: &_| {
            let made = Value::Object(modified_answer(&shown, modified)?);
            let mut changes = Vec::new();
            note_changes("message", &shown, &made, &mut changes);
            truth = restore_masked(&shown, &truth, made.clone());
            shown = made;
            Ok(changes)
        };
        let call = (call, &**asker.trace);
        let said = self.ask_guardians(guardians, asking, occasion, call, follow).await;
        let (decisions, verdict) = said;
        let message = match truth {
            Value::Object(message) => message,
            _ => Map::new(),
        };
        RawVerdict { decisions, verdict: verdict.map(|()| message) }
    }
}

fn message_in(modified: &Request) -> Result<&McpMessage, BadModification> {
    match &modified.call {
        MethodCall::Mcp(step) => Ok(&step.message),
        _ => Err("its method is not an MCP message".to_owned()),
    }
}

/// Returns the arguments that a guardian requires instead of those of a call.
fn modified_arguments(
    asked: &McpMessage,
    modified: &Request,
) -> Result<IndexMap<InputLocation, Value>, BadModification> {
    let mut made = message_in(modified)?.clone();
    let params = made.get_mut("params").and_then(Value::as_object_mut);
    let arguments = params.and_then(|params| params.get_mut("arguments"));
    let Some(Value::Object(arguments)) = arguments.map(Value::take) else {
        return Err("its arguments are not an object".to_owned());
    };
    let mut rest = asked.clone();
    if let Some(arguments) = rest.get_mut("params").and_then(|params| params.get_mut("arguments")) {
        *arguments = Value::Null;
    }
    if made != rest {
        return Err("it changes more than the arguments of the call".to_owned());
    }
    Ok(arguments.into_iter().map(|(name, value)| (InputLocation::Argument(name), value)).collect())
}

/// Returns the response that a guardian requires instead of the original.
fn modified_answer(asked: &Value, modified: &Request) -> Result<McpMessage, BadModification> {
    let made = message_in(modified)?;
    let asked = asked.as_object().ok_or("the original message is missing")?;
    for name in ["jsonrpc", "id", "method"] {
        if made.get(name) != asked.get(name) {
            return Err(format!("`{name}` differs from the original message"));
        }
    }
    if read_message(asked).is_err() && read_message(made).is_ok() {
        return Err("a modification cannot turn a failed call into a success".to_owned());
    }
    Ok(made.clone())
}
