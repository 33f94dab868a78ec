//! Reading what another agent has written. Nothing of it is believed: what has the wrong type is
//! refused where it is needed, and left out where it is not.

use serde_json::{Map, Value};

use super::{
    A2aTask, A2aVersion, Message, MessageReply, Part, Role, STATES, TaskArtifact, TaskState,
    TaskStatus, TaskUpdate,
};

/// The maximum number of parts of a message or an artifact, of artifacts of a task and of messages of a
/// history.
const MAX_ITEMS: usize = 64;
/// The maximum length of an id, in bytes.
const MAX_ID: usize = 200;

type Object = Map<String, Value>;

impl A2aVersion {
    /// Reads a message. In both versions it needs an id, a role and at least one part.
    pub(crate) fn read_message(self, value: &Value) -> Result<Message, String> {
        let members = object(value, "a message")?;
        let role = members.get("role").and_then(Value::as_str).unwrap_or_default();
        let role = match (self, role) {
            (Self::V0_3, "user") | (Self::V1_0, "ROLE_USER") => Role::User,
            (Self::V0_3, "agent") | (Self::V1_0, "ROLE_AGENT") => Role::Agent,
            _ => return Err("`role` of a message must be user or agent".to_owned()),
        };
        Ok(Message {
            id: id(members, "messageId")?
                .ok_or_else(|| "a message requires a `messageId`".to_owned())?,
            context: id(members, "contextId")?,
            task: id(members, "taskId")?,
            role,
            parts: self.read_parts(members)?,
        })
    }

    /// The response to a message.
    pub(crate) fn read_reply(self, value: &Value) -> Result<MessageReply, String> {
        match self.read_update(value)? {
            TaskUpdate::Reply(reply) => Ok(reply),
            TaskUpdate::Status(_) | TaskUpdate::Artifact(_) => {
                Err("it must be a task or a message".to_owned())
            }
        }
    }

    /// An update of a stream.
    pub(crate) fn read_update(self, value: &Value) -> Result<TaskUpdate, String> {
        let members = object(value, "a response")?;
        let (kind, inner) = match self {
            Self::V0_3 => (members.get("kind").and_then(Value::as_str).unwrap_or_default(), value),
            Self::V1_0 => {
                let mut given = members.iter().filter(|(_, value)| !value.is_null());
                match (given.next(), given.next()) {
                    (Some((name, inner)), None) => (name.as_str(), inner),
                    _ => return Err("a response must have exactly one member".to_owned()),
                }
            }
        };
        match kind {
            "task" => self.read_task(inner).map(MessageReply::Task).map(TaskUpdate::Reply),
            "message" => self.read_message(inner).map(MessageReply::Message).map(TaskUpdate::Reply),
            "status-update" | "statusUpdate" => {
                let members = object(inner, "an update")?;
                Ok(TaskUpdate::Status(self.read_status(members.get("status"))?))
            }
            "artifact-update" | "artifactUpdate" => {
                let members = object(inner, "an update")?;
                let artifact = members.get("artifact").unwrap_or(&Value::Null);
                Ok(TaskUpdate::Artifact(self.read_artifact(artifact)?))
            }
            _ => Err("it must be a task, a message or an update".to_owned()),
        }
    }

    /// A task.
    pub(crate) fn read_task(self, value: &Value) -> Result<A2aTask, String> {
        let members = object(value, "a task")?;
        Ok(A2aTask {
            id: id(members, "id")?.ok_or_else(|| "a task requires an `id`".to_owned())?,
            context: id(members, "contextId")?.unwrap_or_default(),
            status: self.read_status(members.get("status"))?,
            artifacts: items(members, "artifacts")?
                .iter()
                .map(|artifact| self.read_artifact(artifact))
                .collect::<Result<_, _>>()?,
            // The sender knows the earlier messages.
            history: Vec::new(),
            metadata: Map::new(),
        })
    }

    /// Finds the state with a name.
    pub(crate) fn read_state(self, name: &str) -> Option<TaskState> {
        let state = STATES.iter().find(|(_, old, new)| match self {
            Self::V0_3 => *old == name,
            Self::V1_0 => *new == name,
        });
        state.map(|(state, ..)| *state)
    }

    /// Finds the state with a number: the JSON of Protocol Buffers has both.
    pub(crate) fn read_state_number(self, number: u64) -> Option<TaskState> {
        let (state, ..) = STATES.get(usize::try_from(number).ok()?)?;
        (self == Self::V1_0).then_some(*state)
    }

    fn read_status(self, value: Option<&Value>) -> Result<TaskStatus, String> {
        let members = object(value.unwrap_or(&Value::Null), "a status")?;
        let name = members.get("state").and_then(Value::as_str).unwrap_or_default();
        let state = self.read_state(name);
        let message = members.get("message").filter(|message| !message.is_null());
        let timestamp = members.get("timestamp").and_then(Value::as_str);
        Ok(TaskStatus {
            state: state.unwrap_or(TaskState::Unknown),
            message: message.map(|message| self.read_message(message)).transpose()?,
            timestamp: timestamp.and_then(|timestamp| timestamp.parse().ok()),
        })
    }

    fn read_artifact(self, value: &Value) -> Result<TaskArtifact, String> {
        let members = object(value, "an artifact")?;
        let text = |name: &str| members.get(name).and_then(Value::as_str).map(str::to_owned);
        Ok(TaskArtifact {
            id: id(members, "artifactId")?
                .ok_or_else(|| "an artifact requires an `artifactId`".to_owned())?,
            name: text("name"),
            description: text("description"),
            parts: self.read_parts(members)?,
        })
    }

    fn read_parts(self, members: &Object) -> Result<Vec<Part>, String> {
        let parts = items(members, "parts")?;
        if parts.is_empty() {
            return Err("`parts` is empty".to_owned());
        }
        parts.iter().map(|part| self.read_part(part)).collect()
    }

    fn read_part(self, value: &Value) -> Result<Part, String> {
        let members = object(value, "a part")?;
        let given = |name: &str| members.get(name).filter(|value| !value.is_null());
        let kind = match self {
            Self::V0_3 => members.get("kind").and_then(Value::as_str),
            Self::V1_0 => {
                ["text", "data", "raw", "url"].into_iter().find(|name| given(name).is_some())
            }
        };
        match kind {
            Some("text") => match given("text") {
                Some(Value::String(text)) => Ok(Part::Text(text.clone())),
                _ => Err("`text` of a part must be a text".to_owned()),
            },
            Some("data") => match given("data") {
                Some(data) => Ok(Part::Data(data.clone())),
                None => Err("a part has no `data`".to_owned()),
            },
            Some("file" | "raw" | "url") => Ok(Part::File),
            _ => Err("a part must be text, data or a file".to_owned()),
        }
    }
}

fn object<'v>(value: &'v Value, what: &str) -> Result<&'v Object, String> {
    value.as_object().ok_or_else(|| format!("{what} must be an object"))
}

/// Returns the items of a list, and rejects a list with too many items.
fn items<'v>(members: &'v Object, name: &str) -> Result<&'v [Value], String> {
    match members.get(name) {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(items)) if items.len() <= MAX_ITEMS => Ok(items),
        Some(Value::Array(_)) => Err(format!("`{name}` has more than {MAX_ITEMS} items")),
        Some(_) => Err(format!("`{name}` must be a list")),
    }
}

/// Returns an id; an empty id counts as none, as in Protocol Buffers.
pub(crate) fn id(members: &Object, name: &str) -> Result<Option<String>, String> {
    match members.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(id)) if id.is_empty() => Ok(None),
        Some(Value::String(id)) if id.len() <= MAX_ID => Ok(Some(id.clone())),
        Some(Value::String(_)) => Err(format!("`{name}` has more than {MAX_ID} bytes")),
        Some(_) => Err(format!("`{name}` must be a text")),
    }
}
