//! Messages, tasks and what happens to them (A2A 1.0, section 4), whatever version they travel in.

use jiff::Timestamp;
use serde_json::{Map, Value};

/// The author of the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The client.
    User,
    /// The agent that receives the request.
    Agent,
}

/// A part of a message or of an artifact.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// A text.
    Text(String),
    /// A value.
    Data(Value),
    /// A file; its content is not stored.
    File,
}

/// A message between a client and an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// Its id, made by the author.
    pub id: String,
    /// The conversation.
    pub context: Option<String>,
    /// The task that the message is about.
    pub task: Option<String>,
    /// The author of the message.
    pub role: Role,
    /// The content.
    pub parts: Vec<Part>,
}

/// The state of a task (A2A 1.0, section 4.1.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskState {
    /// The agent has accepted the task.
    Submitted,
    /// The task is in progress.
    Working,
    /// The task has succeeded.
    Completed,
    /// The task has failed.
    Failed,
    /// It was stopped.
    Canceled,
    /// The task waits for a reply.
    InputRequired,
    /// The agent has rejected the task.
    Rejected,
    /// It waits for an authentication.
    AuthRequired,
    /// A state that is not defined in either version.
    Unknown,
}

/// The state of a task, with a message about it.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskStatus {
    /// The state.
    pub state: TaskState,
    /// A message about the state.
    pub message: Option<Message>,
    /// The time since which the task has this state.
    pub timestamp: Option<Timestamp>,
}

/// A result of a task.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskArtifact {
    /// The id, unique in the task.
    pub id: String,
    /// Its name.
    pub name: Option<String>,
    /// Its description.
    pub description: Option<String>,
    /// Its content.
    pub parts: Vec<Part>,
}

/// A unit of work for a client.
#[derive(Debug, Clone, PartialEq)]
pub struct A2aTask {
    /// The id, created by the agent that runs the task.
    pub id: String,
    /// The conversation.
    pub context: String,
    /// Its status.
    pub status: TaskStatus,
    /// Its results.
    pub artifacts: Vec<TaskArtifact>,
    /// The earlier messages.
    pub history: Vec<Message>,
    /// Further data about the task.
    pub metadata: Map<String, Value>,
}

/// The response to a message.
#[derive(Debug, Clone, PartialEq)]
pub enum MessageReply {
    /// A task in its current state.
    Task(A2aTask),
    /// A message without a task.
    Message(Message),
}

/// An update of a stream.
#[derive(Debug, Clone, PartialEq)]
pub enum TaskUpdate {
    /// The first update.
    Reply(MessageReply),
    /// The task has a new status.
    Status(TaskStatus),
    /// The task has a new or changed result.
    Artifact(TaskArtifact),
}

impl TaskState {
    /// Returns true when the task has ended.
    #[must_use]
    pub fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Canceled | Self::Rejected)
    }

    /// Returns true when the task cannot change by itself: it has ended, or waits for input or
    /// authentication.
    #[must_use]
    pub fn is_settled(self) -> bool {
        self.is_final() || matches!(self, Self::InputRequired | Self::AuthRequired)
    }
}

impl Message {
    /// Returns the text of the message.
    #[must_use]
    pub fn text(&self) -> String {
        text_of(&self.parts)
    }
}

impl A2aTask {
    /// Applies an update of a stream to the task. An artifact replaces the one with the same id.
    pub fn apply_update(&mut self, update: TaskUpdate) {
        match update {
            TaskUpdate::Reply(MessageReply::Task(task)) => *self = task,
            TaskUpdate::Reply(MessageReply::Message(_)) => {}
            TaskUpdate::Status(status) => self.status = status,
            TaskUpdate::Artifact(artifact) => {
                match self.artifacts.iter_mut().find(|known| known.id == artifact.id) {
                    Some(known) => *known = artifact,
                    None => self.artifacts.push(artifact),
                }
            }
        }
    }
}

/// Joins the texts among some parts, one on each line.
pub(crate) fn text_of(parts: &[Part]) -> String {
    let texts = parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(text.as_str()),
        Part::Data(_) | Part::File => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}
