//! Messages, tasks and what happens to them (A2A 1.0, section 4), whatever version they travel in.

use jiff::Timestamp;
use serde_json::{Map, Value};

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Whoever asks.
    User,
    /// The agent that is asked.
    Agent,
}

/// A piece of a message or of an artifact.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// Words.
    Text(String),
    /// A value.
    Data(Value),
    /// A file, of which nothing is kept.
    File,
}

/// Something that is said.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// Its id, made by whoever speaks.
    pub id: String,
    /// The conversation.
    pub context: Option<String>,
    /// The task that it is about.
    pub task: Option<String>,
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub parts: Vec<Part>,
}

/// How far a task is (A2A 1.0, section 4.1.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskState {
    /// It was taken on.
    Submitted,
    /// It is being done.
    Working,
    /// It is done.
    Completed,
    /// It was not done.
    Failed,
    /// Somebody stopped it.
    Canceled,
    /// It waits for an answer.
    InputRequired,
    /// It was not taken on.
    Rejected,
    /// It waits until somebody has proved who they are.
    AuthRequired,
    /// A state that neither version knows.
    Unknown,
}

/// The state of a task, and what is said about it.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskStatus {
    /// The state.
    pub state: TaskState,
    /// What is said.
    pub message: Option<Message>,
    /// Since when.
    pub timestamp: Option<Timestamp>,
}

/// Something that came of a task.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskArtifact {
    /// Its id, unique in the task.
    pub id: String,
    /// What it is called.
    pub name: Option<String>,
    /// What it is.
    pub description: Option<String>,
    /// What it says.
    pub parts: Vec<Part>,
}

/// Something that is being done for somebody.
#[derive(Debug, Clone, PartialEq)]
pub struct A2aTask {
    /// Its id, made by the agent that does it.
    pub id: String,
    /// The conversation.
    pub context: String,
    /// How far it is.
    pub status: TaskStatus,
    /// What came of it.
    pub artifacts: Vec<TaskArtifact>,
    /// What was said before.
    pub history: Vec<Message>,
    /// What else is told of it.
    pub metadata: Map<String, Value>,
}

/// What an agent answers to a message.
#[derive(Debug, Clone, PartialEq)]
pub enum MessageReply {
    /// A task, as it is now.
    Task(A2aTask),
    /// A message, and no task.
    Message(Message),
}

/// What a stream tells.
#[derive(Debug, Clone, PartialEq)]
pub enum TaskUpdate {
    /// What it begins with.
    Reply(MessageReply),
    /// The task has another status.
    Status(TaskStatus),
    /// Something came of the task.
    Artifact(TaskArtifact),
}

impl TaskState {
    /// Whether nothing more happens to the task.
    #[must_use]
    pub fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Canceled | Self::Rejected)
    }

    /// Whether nothing more happens by itself: it is over, or waits for somebody.
    #[must_use]
    pub fn is_settled(self) -> bool {
        self.is_final() || matches!(self, Self::InputRequired | Self::AuthRequired)
    }
}

impl Message {
    /// All that it says in words.
    #[must_use]
    pub fn text(&self) -> String {
        text_of(&self.parts)
    }
}

impl A2aTask {
    /// Puts what a stream tells into the task. An artifact takes the place of the one with its id.
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

/// The words among some parts, a line for each.
pub(crate) fn text_of(parts: &[Part]) -> String {
    let texts = parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(text.as_str()),
        Part::Data(_) | Part::File => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}
