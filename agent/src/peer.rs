//! Other agents that a turn may ask, whatever protocol they speak.

use std::fmt;

use a2s_api::GuardianDecision;
use async_trait::async_trait;
use serde_json::Value;
use url::Url;

use crate::clock_and_ids::ClockAndIds;
use crate::guard::{Guard, GuardDenial};

/// Another agent that has not been contacted yet.
#[async_trait]
pub trait PeerAgent: fmt::Debug + Send + Sync {
    /// Returns the address of the agent.
    fn url(&self) -> &Url;

    /// Reads the name and the skills of the agent. The connection asks `guard` about all later messages.
    ///
    /// # Errors
    /// The reason why the agent cannot be asked, as a text for the user.
    async fn connect(
        &self,
        guard: Guard,
        clock: ClockAndIds,
    ) -> Result<Box<dyn PeerConnection>, String>;
}

/// Another agent with a known name and known skills.
#[async_trait]
pub trait PeerConnection: Send {
    /// Returns the name of the agent, in its own words.
    fn name(&self) -> &str;

    /// Returns the skills of the agent, in its own order.
    fn skills(&self) -> &[PeerSkill];

    /// Sends the query, and follows the other agent until its task is over or waits. Cancels a task that
    /// has not ended when the future is dropped.
    async fn ask(&mut self, query: &str) -> PeerReply;

    /// Takes the guardians' decisions since the last call.
    fn take_decisions(&mut self) -> Vec<GuardianDecision>;
}

/// An ability that an agent declares.
#[derive(Debug, Clone, PartialEq)]
pub struct PeerSkill {
    /// Its id on the card.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its description.
    pub description: String,
    /// Search words for the skill.
    pub tags: Vec<String>,
    /// Examples of messages that ask for it.
    pub examples: Vec<String>,
}

/// The response of another agent.
#[derive(Debug)]
pub struct PeerReply {
    /// The outcome.
    pub outcome: PeerOutcome,
    /// Its message on one line; empty when it has none.
    pub message: String,
    /// The id of its task, if it has begun one.
    pub task: Option<String>,
    /// The state of the task in the words of the protocol.
    pub state: Option<String>,
    /// Its values, bounded in number and size.
    pub data: Vec<Value>,
}

/// The outcome of a request to another agent.
#[derive(Debug)]
pub enum PeerOutcome {
    /// The agent has completed the request.
    Completed,
    /// The agent asks back, which a turn does not answer.
    AsksBack,
    /// The agent has ended its task without completing it.
    NotCompleted,
    /// The guardians do not allow a message.
    Denied(GuardDenial),
    /// There is no usable response, for this reason.
    Failed(String),
}

impl PeerReply {
    /// Creates a response without a message and without values.
    #[must_use]
    pub fn new(outcome: PeerOutcome) -> Self {
        Self { outcome, message: String::new(), task: None, state: None, data: Vec::new() }
    }
}
