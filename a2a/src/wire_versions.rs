//! Both versions of the protocol as JSON. 0.3 marks kinds with `kind` and lower case; 1.0 is the JSON of
//! Protocol Buffers (A2A 1.0, sections 4, 5.5 and A.2).

mod read;

pub(crate) use read::id;

use serde_json::{Map, Value, json};

use super::model::{
    A2aTask, Message, MessageReply, Part, Role, TaskArtifact, TaskState, TaskStatus, TaskUpdate,
};

/// A supported version of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum A2aVersion {
    /// 0.3, with method names such as `message/send`.
    V0_3,
    /// 1.0, with method names such as `SendMessage`.
    V1_0,
}

/// The states, with their names in 0.3 and in 1.0, in the order of their numbers in Protocol Buffers.
const STATES: [(TaskState, &str, &str); 9] = [
    (TaskState::Unknown, "unknown", "TASK_STATE_UNSPECIFIED"),
    (TaskState::Submitted, "submitted", "TASK_STATE_SUBMITTED"),
    (TaskState::Working, "working", "TASK_STATE_WORKING"),
    (TaskState::Completed, "completed", "TASK_STATE_COMPLETED"),
    (TaskState::Failed, "failed", "TASK_STATE_FAILED"),
    (TaskState::Canceled, "canceled", "TASK_STATE_CANCELED"),
    (TaskState::InputRequired, "input-required", "TASK_STATE_INPUT_REQUIRED"),
    (TaskState::Rejected, "rejected", "TASK_STATE_REJECTED"),
    (TaskState::AuthRequired, "auth-required", "TASK_STATE_AUTH_REQUIRED"),
];

impl A2aVersion {
    /// Reads the header A2A-Version. Only its first two numbers count (1.0, section 3.6).
    pub(crate) fn from_text(text: &str) -> Option<Self> {
        let mut numbers = text.trim().split('.');
        match (numbers.next(), numbers.next()) {
            (Some("0"), Some("3")) => Some(Self::V0_3),
            (Some("1"), Some("0")) => Some(Self::V1_0),
            _ => None,
        }
    }

    /// Returns the version as in a header.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V0_3 => "0.3",
            Self::V1_0 => "1.0",
        }
    }

    /// The name of a state.
    #[must_use]
    pub fn state(self, state: TaskState) -> &'static str {
        let named = STATES.iter().find(|(known, ..)| *known == state);
        match (self, named) {
            (Self::V0_3, Some((_, name, _))) | (Self::V1_0, Some((.., name))) => name,
            (_, None) => "unknown",
        }
    }

    fn role(self, role: Role) -> &'static str {
        match (self, role) {
            (Self::V0_3, Role::User) => "user",
            (Self::V0_3, Role::Agent) => "agent",
            (Self::V1_0, Role::User) => "ROLE_USER",
            (Self::V1_0, Role::Agent) => "ROLE_AGENT",
        }
    }

    /// The response to a message.
    pub(crate) fn reply(self, reply: &MessageReply) -> Value {
        match (self, reply) {
            (Self::V0_3, MessageReply::Task(task)) => self.task(task),
            (Self::V0_3, MessageReply::Message(message)) => self.message(message),
            (Self::V1_0, MessageReply::Task(task)) => json!({ "task": self.task(task) }),
            (Self::V1_0, MessageReply::Message(message)) => {
                json!({ "message": self.message(message) })
            }
        }
    }

    /// An update of a task in a stream.
    pub(crate) fn update(self, task: &str, context: &str, update: &TaskUpdate) -> Value {
        let mut written = Map::from_iter([
            ("taskId".to_owned(), task.into()),
            ("contextId".to_owned(), context.into()),
        ]);
        let name = match update {
            TaskUpdate::Reply(reply) => return self.reply(reply),
            TaskUpdate::Status(status) => {
                written.insert("status".to_owned(), self.status(status));
                if self == Self::V0_3 {
                    written.insert("final".to_owned(), status.state.is_settled().into());
                }
                ["status-update", "statusUpdate"]
            }
            TaskUpdate::Artifact(artifact) => {
                written.insert("artifact".to_owned(), self.artifact(artifact));
                written.insert("lastChunk".to_owned(), true.into());
                ["artifact-update", "artifactUpdate"]
            }
        };
        match self {
            Self::V0_3 => {
                written.insert("kind".to_owned(), name[0].into());
                Value::Object(written)
            }
            Self::V1_0 => Value::Object(Map::from_iter([(name[1].to_owned(), written.into())])),
        }
    }

    /// A task.
    pub(crate) fn task(self, task: &A2aTask) -> Value {
        let mut written = Map::from_iter([
            ("id".to_owned(), task.id.as_str().into()),
            ("contextId".to_owned(), task.context.as_str().into()),
            ("status".to_owned(), self.status(&task.status)),
        ]);
        self.kind(&mut written, "task");
        if !task.artifacts.is_empty() {
            let artifacts = task.artifacts.iter().map(|artifact| self.artifact(artifact));
            written.insert("artifacts".to_owned(), artifacts.collect());
        }
        if !task.history.is_empty() {
            let history = task.history.iter().map(|message| self.message(message));
            written.insert("history".to_owned(), history.collect());
        }
        if !task.metadata.is_empty() {
            written.insert("metadata".to_owned(), task.metadata.clone().into());
        }
        Value::Object(written)
    }

    /// A message.
    pub(crate) fn message(self, message: &Message) -> Value {
        let parts: Value = message.parts.iter().map(|part| self.part(part)).collect();
        let mut written = Map::from_iter([
            ("messageId".to_owned(), message.id.as_str().into()),
            ("role".to_owned(), self.role(message.role).into()),
            ("parts".to_owned(), parts),
        ]);
        self.kind(&mut written, "message");
        if let Some(context) = &message.context {
            written.insert("contextId".to_owned(), context.as_str().into());
        }
        if let Some(task) = &message.task {
            written.insert("taskId".to_owned(), task.as_str().into());
        }
        Value::Object(written)
    }

    fn kind(self, written: &mut Map<String, Value>, kind: &str) {
        if self == Self::V0_3 {
            written.insert("kind".to_owned(), kind.into());
        }
    }

    fn status(self, status: &TaskStatus) -> Value {
        let mut written = Map::from_iter([("state".to_owned(), self.state(status.state).into())]);
        if let Some(message) = &status.message {
            written.insert("message".to_owned(), self.message(message));
        }
        if let Some(timestamp) = status.timestamp {
            written.insert("timestamp".to_owned(), timestamp.to_string().into());
        }
        Value::Object(written)
    }

    fn artifact(self, artifact: &TaskArtifact) -> Value {
        let parts: Value = artifact.parts.iter().map(|part| self.part(part)).collect();
        let mut written = Map::from_iter([
            ("artifactId".to_owned(), artifact.id.as_str().into()),
            ("parts".to_owned(), parts),
        ]);
        for (name, text) in [("name", &artifact.name), ("description", &artifact.description)] {
            if let Some(text) = text {
                written.insert(name.to_owned(), text.as_str().into());
            }
        }
        Value::Object(written)
    }

    fn part(self, part: &Part) -> Value {
        match (self, part) {
            (Self::V0_3, Part::Text(text)) => json!({ "kind": "text", "text": text }),
            // In 0.3 data is an object.
            (Self::V0_3, Part::Data(data)) if data.is_object() => {
                json!({ "kind": "data", "data": data })
            }
            (Self::V0_3, Part::Data(data)) => json!({ "kind": "data", "data": { "value": data } }),
            (Self::V0_3, Part::File) => json!({ "kind": "file", "file": {} }),
            (Self::V1_0, Part::Text(text)) => json!({ "text": text, "mediaType": "text/plain" }),
            (Self::V1_0, Part::Data(data)) => {
                json!({ "data": data, "mediaType": "application/json" })
            }
            (Self::V1_0, Part::File) => json!({ "url": "" }),
        }
    }
}

#[cfg(test)]
mod tests;
