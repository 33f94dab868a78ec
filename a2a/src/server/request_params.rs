//! Parameters of requests. Pure.

use serde_json::Value;
use uuid::Uuid;

use super::list::TaskListQuery;
use super::task_not_found;
use crate::model::{Message, Role};
use crate::rpc::{Kind, Object, RpcError, RpcMethod, RpcRequest};
use crate::server::status_messages::A2aIntent;
use crate::wire_versions;
use agent::MAX_SESSION_CHARS;
use agent::RedactedInputs;

/// The requested action.
#[derive(Debug)]
pub(crate) enum ParsedRequest {
    Message(Box<IncomingMessage>),
    Task { id: Uuid, history: Option<usize> },
    List(TaskListQuery),
    Cancel { id: Uuid },
    Follow { id: Uuid },
}

/// A message.
#[derive(Debug)]
pub(crate) struct IncomingMessage {
    pub(super) message: Message,
    pub(crate) intent: A2aIntent,
    /// The conversation, if the message continues one.
    pub(super) context: Option<String>,
    /// The task with the question that the message answers.
    pub(super) task: Option<Uuid>,
    /// Set when the response must wait until the task is over or waits.
    pub(super) waits: bool,
    pub(super) history: Option<usize>,
}

impl ParsedRequest {
    pub(crate) fn read(call: &RpcRequest) -> Result<Self, RpcError> {
        let params = &call.params;
        match call.method {
            RpcMethod::Send | RpcMethod::Stream => {
                IncomingMessage::read(call).map(Box::new).map(Self::Message)
            }
            RpcMethod::List => TaskListQuery::read(call.version, params).map(Self::List),
            RpcMethod::Cancel => Ok(Self::Cancel { id: task_id(params)? }),
            RpcMethod::Follow => Ok(Self::Follow { id: task_id(params)? }),
            _ => Ok(Self::Task { id: task_id(params)?, history: read_history_length(params)? }),
        }
    }

    /// Restores the hidden values in a message, where their locations are unchanged. The stored message
    /// does not get them.
    pub(crate) fn restore_inputs(&mut self, before: &Self, hidden: &RedactedInputs) {
        if let (Self::Message(now), Self::Message(before)) = (self, before) {
            hidden.restore(&mut now.intent.inputs, &before.intent.inputs);
        }
    }
}

/// Hides the values of the inputs in a request.
pub(crate) fn hide_inputs(request: &mut Object, hidden: &RedactedInputs) {
    let message = request.get_mut("params").and_then(|params| params.get_mut("message"));
    let parts = message.and_then(|message| message.get_mut("parts")?.as_array_mut());
    for part in parts.into_iter().flatten() {
        let inputs = part.get_mut("data").and_then(|data| data.get_mut("inputs")?.as_object_mut());
        if let Some(inputs) = inputs {
            hidden.redact(inputs);
        }
    }
}

impl IncomingMessage {
    fn read(call: &RpcRequest) -> Result<Self, RpcError> {
        let value =
            call.params.get("message").ok_or_else(|| invalid_params("`message` is missing"))?;
        let message = call.version.read_message(value).map_err(invalid_params)?;
        if message.role != Role::User {
            return Err(invalid_params("a message to an agent must have the role of a user"));
        }
        let empty = Object::new();
        let configuration = match call.params.get("configuration") {
            None | Some(Value::Null) => &empty,
            Some(Value::Object(configuration)) => configuration,
            Some(_) => return Err(invalid_params("`configuration` must be an object")),
        };
        let given = |name: &str| configuration.get(name).filter(|value| !value.is_null());
        let notified = ["pushNotificationConfig", "taskPushNotificationConfig"];
        if notified.into_iter().any(|name| given(name).is_some()) {
            return Err(super::unsupported_error(RpcMethod::Push));
        }
        let flag = |name: &str| match given(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(_) => Err(invalid_params(format!("`{name}` must be true or false"))),
        };
        let waits =
            flag("blocking")?.unwrap_or(true) && !flag("returnImmediately")?.unwrap_or(false);
        let is_session = |name: &str| {
            name.len() <= MAX_SESSION_CHARS && name.bytes().all(|b| b.is_ascii_graphic())
        };
        if message.context.as_deref().is_some_and(|name| !is_session(name)) {
            let text =
                format!("`contextId` must have 1 to {MAX_SESSION_CHARS} visible ASCII characters");
            return Err(invalid_params(text));
        }
        let task = message.task.as_deref().map(|id| id.parse().map_err(|_| task_not_found()));
        let task = task.transpose()?;
        Ok(Self {
            intent: A2aIntent::read(&message.parts, task.is_some())?,
            context: message.context.clone(),
            task,
            waits,
            history: read_history_length(configuration)?,
            message,
        })
    }
}

/// Reads the id of a task. Valid ids are UUIDs; the task of any other id is not found.
fn task_id(params: &Object) -> Result<Uuid, RpcError> {
    let id = wire_versions::id(params, "id")
        .map_err(invalid_params)?
        .ok_or_else(|| invalid_params("`id` is missing"))?;
    id.parse().map_err(|_| task_not_found())
}

pub(super) fn read_history_length(params: &Object) -> Result<Option<usize>, RpcError> {
    match params.get("historyLength") {
        None | Some(Value::Null) => Ok(None),
        Some(length) => match length.as_u64() {
            Some(length) => Ok(Some(usize::try_from(length).unwrap_or(usize::MAX))),
            None => Err(invalid_params("`historyLength` must be a whole number, 0 or more")),
        },
    }
}

pub(super) fn invalid_params(text: impl Into<String>) -> RpcError {
    RpcError::new(Kind::Params, text)
}
