//! Asks the guardians about messages of MCP (`protocols/MCP`): the call of a tool before it leaves,
//! behind `steps/toolCallRequest`, and its answer before anything of it is read, ahead of
//! `steps/toolCallResult`. A guardian that knows MCP sees what travels; one that knows steps sees
//! what it means.

use a2s::{McpTask, Place, Task};
use aos::GuardianChain;
use aos::message::{Call, Request};
use indexmap::IndexMap;
use serde_json::{Map, Value};

use super::apply_verdict::{Unusable, changes_of, note_changes, restore_inputs};
use super::{Asked, Asker, Asking, Gate, Inputs, Judged, Occasion, guardian_request};
use crate::request::{self, Message, PreparedRequest, read_message};
use crate::secrets::restore;

/// A call that is about to leave.
pub(super) struct Outbound<'a> {
    pub(super) tool: &'a McpTask,
    /// Its arguments, as the guardians have left them so far.
    pub(super) inputs: Inputs<'a>,
    /// Whether there were secrets among those of the step.
    pub(super) has_secrets: bool,
    /// The request that carries it, as guardians see it.
    pub(super) sent: Map<String, Value>,
}

impl Gate {
    /// Asks whether the message of a call may leave. Gives the request that the guardians want
    /// instead, if they do: `prepare` makes it. They may change the arguments and nothing else.
    pub(super) async fn judge_call(
        &self,
        guardians: &GuardianChain,
        asker: &Asker<'_>,
        task: &Task,
        call: Outbound<'_>,
        occasion: Occasion,
        prepare: impl Fn(&IndexMap<Place, Value>) -> Result<PreparedRequest, request::Error>,
    ) -> Judged<Option<PreparedRequest>> {
        let Outbound { tool, inputs, has_secrets, sent } = call;
        let message = match request::mcp_call(tool, inputs.shown) {
            Ok(message) => message,
            Err(error) => return Judged { decisions: Vec::new(), verdict: Err(error.into()) },
        };
        let now = self.clock.now();
        let call = guardian_request::about_message(
            asker,
            task,
            message.clone(),
            Some(sent),
            occasion,
            now,
        );
        let (mut truth, mut shown) = (inputs.truth.clone(), inputs.shown.clone());
        let mut prepared = None;
        let follow = |modified: &_| {
            let made = modified_arguments(&message, modified)?;
            let changes = changes_of(&shown, &made);
            let inputs = Inputs { truth: &truth, shown: &shown };
            let restored = restore_inputs(inputs, made.clone(), has_secrets)?;
            let request = prepare(&restored)
                .map_err(|error| format!("the arguments fit no request: {error}"))?
                .with_shown_inputs(made.clone());
            (prepared, truth, shown) = (Some(request), restored, made);
            Ok(changes)
        };
        let call = (call, &**asker.trace);
        let asking = Asking::MCP_OUTBOUND;
        let (decisions, verdict) = self.consult(guardians, asking, occasion, call, follow).await;
        Judged { decisions, verdict: verdict.map(|()| prepared) }
    }

    /// Asks whether the message that a server has answered with may be read. The guardians may
    /// change it; a call that failed stays one.
    pub(crate) async fn ask_message(
        &self,
        asker: &Asker<'_>,
        task: &Task,
        message: Message,
    ) -> Asked<Message> {
        self.judge_answer(asker, task, message, Occasion::Run).await.permit()
    }

    pub(super) async fn judge_answer(
        &self,
        asker: &Asker<'_>,
        task: &Task,
        message: Message,
        occasion: Occasion,
    ) -> Judged<Message> {
        let asking = Asking::MCP_INBOUND;
        let Some(guardians) = self.guardians() else {
            return self.unguarded(asking, occasion, Ok(message));
        };
        let mut truth = Value::Object(message);
        let mut shown = asker.secrets.mask(&truth);
        let asked = shown.as_object().cloned().unwrap_or_default();
        let now = self.clock.now();
        let call = guardian_request::about_message(asker, task, asked, None, occasion, now);
        let follow = |modified: &_| {
            let made = Value::Object(modified_answer(&shown, modified)?);
            let mut changes = Vec::new();
            note_changes("message", &shown, &made, &mut changes);
            truth = restore(&shown, &truth, made.clone());
            shown = made;
            Ok(changes)
        };
        let call = (call, &**asker.trace);
        let said = self.consult(guardians, asking, occasion, call, follow).await;
        let (decisions, verdict) = said;
        let message = match truth {
            Value::Object(message) => message,
            _ => Map::new(),
        };
        Judged { decisions, verdict: verdict.map(|()| message) }
    }
}

fn message_in(modified: &Request) -> Result<&Message, Unusable> {
    match &modified.call {
        Call::Mcp(step) => Ok(&step.message),
        _ => Err("it is not about an MCP message".to_owned()),
    }
}

/// The arguments that a guardian wants instead of those of a call.
fn modified_arguments(
    asked: &Message,
    modified: &Request,
) -> Result<IndexMap<Place, Value>, Unusable> {
    let mut made = message_in(modified)?.clone();
    let params = made.get_mut("params").and_then(Value::as_object_mut);
    let arguments = params.and_then(|params| params.get_mut("arguments"));
    let Some(Value::Object(arguments)) = arguments.map(Value::take) else {
        return Err("its arguments are no object".to_owned());
    };
    let mut rest = asked.clone();
    if let Some(arguments) = rest.get_mut("params").and_then(|params| params.get_mut("arguments")) {
        *arguments = Value::Null;
    }
    if made != rest {
        return Err("something else than the arguments of the call differs".to_owned());
    }
    Ok(arguments.into_iter().map(|(name, value)| (Place::Argument(name), value)).collect())
}

/// The answer that a guardian wants instead.
fn modified_answer(asked: &Value, modified: &Request) -> Result<Message, Unusable> {
    let made = message_in(modified)?;
    let asked = asked.as_object().ok_or("there was no message")?;
    for name in ["jsonrpc", "id", "method"] {
        if made.get(name) != asked.get(name) {
            return Err(format!("`{name}` differs from the message that was asked about"));
        }
    }
    if read_message(asked).is_err() && read_message(made).is_ok() {
        return Err("a failed call cannot be made to succeed".to_owned());
    }
    Ok(made.clone())
}
