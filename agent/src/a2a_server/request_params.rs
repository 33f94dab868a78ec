//! Parameters of requests. Pure.

use serde_json::Value;
use uuid::Uuid;

use super::list::Wanted;
use super::no_task;
use crate::a2a::model::{Message, Role};
use crate::a2a::rpc::{Call, Fault, Kind, Method, Object};
use crate::a2a::wire_versions;
use crate::a2a_server::status_messages::Wish;
use crate::agent::MAX_SESSION;
use crate::guard::Hidden;

/// What is asked for.
#[derive(Debug)]
pub(super) enum Asked {
    Message(Box<Incoming>),
    Task { id: Uuid, history: Option<usize> },
    List(Wanted),
    Cancel { id: Uuid },
    Follow { id: Uuid },
}

/// A message.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) message: Message,
    pub(super) wish: Wish,
    /// The conversation, where it is one that goes on.
    pub(super) context: Option<String>,
    /// The task whose question it answers.
    pub(super) task: Option<Uuid>,
    /// Whether the answer is wanted when the task is over, or waits.
    pub(super) waits: bool,
    pub(super) history: Option<usize>,
}

impl Asked {
    pub(super) fn read(call: &Call) -> Result<Self, Fault> {
        let params = &call.params;
        match call.method {
            Method::Send | Method::Stream => Incoming::read(call).map(Box::new).map(Self::Message),
            Method::List => Wanted::read(call.version, params).map(Self::List),
            Method::Cancel => Ok(Self::Cancel { id: task_id(params)? }),
            Method::Follow => Ok(Self::Follow { id: task_id(params)? }),
            _ => Ok(Self::Task { id: task_id(params)?, history: history(params)? }),
        }
    }

    /// Gives a message the values back that were hidden, where their places are as they were. What is
    /// kept of the message stays without them.
    pub(super) fn reveal(&mut self, before: &Self, hidden: &Hidden) {
        if let (Self::Message(now), Self::Message(before)) = (self, before) {
            hidden.reveal(&mut now.wish.inputs, &before.wish.inputs);
        }
    }
}

/// Hides the values of inputs in a request.
pub(super) fn hide_inputs(request: &mut Object, hidden: &Hidden) {
    let message = request.get_mut("params").and_then(|params| params.get_mut("message"));
    let parts = message.and_then(|message| message.get_mut("parts")?.as_array_mut());
    for part in parts.into_iter().flatten() {
        let inputs = part.get_mut("data").and_then(|data| data.get_mut("inputs")?.as_object_mut());
        if let Some(inputs) = inputs {
            hidden.hide(inputs);
        }
    }
}

impl Incoming {
    fn read(call: &Call) -> Result<Self, Fault> {
        let value = call.params.get("message").ok_or_else(|| bad("`message` is missing"))?;
        let message = call.version.read_message(value).map_err(bad)?;
        if message.role != Role::User {
            return Err(bad("a message to an agent has the role of a user"));
        }
        let empty = Object::new();
        let configuration = match call.params.get("configuration") {
            None | Some(Value::Null) => &empty,
            Some(Value::Object(configuration)) => configuration,
            Some(_) => return Err(bad("`configuration` is no object")),
        };
        let given = |name: &str| configuration.get(name).filter(|value| !value.is_null());
        let notified = ["pushNotificationConfig", "taskPushNotificationConfig"];
        if notified.into_iter().any(|name| given(name).is_some()) {
            return Err(super::never(Method::Push));
        }
        let flag = |name: &str| match given(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(_) => Err(bad(format!("`{name}` is true or false"))),
        };
        let waits =
            flag("blocking")?.unwrap_or(true) && !flag("returnImmediately")?.unwrap_or(false);
        let is_session =
            |name: &str| name.len() <= MAX_SESSION && name.bytes().all(|b| b.is_ascii_graphic());
        if message.context.as_deref().is_some_and(|name| !is_session(name)) {
            let text = format!("`contextId` has 1 to {MAX_SESSION} visible ASCII characters");
            return Err(bad(text));
        }
        let task = message.task.as_deref().map(|id| id.parse().map_err(|_| no_task()));
        let task = task.transpose()?;
        Ok(Self {
            wish: Wish::read(&message.parts, task.is_some())?,
            context: message.context.clone(),
            task,
            waits,
            history: history(configuration)?,
            message,
        })
    }
}

/// The id of a task. Ours are UUIDs; no other is known.
fn task_id(params: &Object) -> Result<Uuid, Fault> {
    let id = wire_versions::id(params, "id").map_err(bad)?.ok_or_else(|| bad("`id` is missing"))?;
    id.parse().map_err(|_| no_task())
}

pub(super) fn history(params: &Object) -> Result<Option<usize>, Fault> {
    match params.get("historyLength") {
        None | Some(Value::Null) => Ok(None),
        Some(length) => match length.as_u64() {
            Some(length) => Ok(Some(usize::try_from(length).unwrap_or(usize::MAX))),
            None => Err(bad("`historyLength` is a whole number, 0 or more")),
        },
    }
}

pub(super) fn bad(text: impl Into<String>) -> Fault {
    Fault::new(Kind::Params, text)
}
