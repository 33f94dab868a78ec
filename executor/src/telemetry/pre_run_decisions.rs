//! Decisions of a guardian without a run: about the event that wants to start one, about the values
//! remembered for its inputs, and about a value that is to be remembered.

use a2s::Principal;
use a2s::api::{CapabilityRef, DecisionRecord, GuardianPhase, TraceContext, TriggerEvent};
use jiff::Timestamp;
use uuid::Uuid;

/// The decisions about one of these subjects.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StandaloneDecision<'a> {
    /// The principal that asks for it.
    pub(crate) principal: &'a Principal,
    /// The run that it may become, or else an id of its own.
    pub(crate) id: Uuid,
    /// The subject of the decisions.
    pub(crate) subject: DecisionSubject<'a>,
    /// The decisions, in order.
    pub(crate) decisions: &'a [DecisionRecord],
    /// True when the subject was rejected.
    pub(crate) is_rejected: bool,
    /// The session, as the guardian sees it.
    pub(crate) session: &'a str,
    /// The capability that is to run.
    pub(crate) capability: Option<&'a CapabilityRef>,
    /// The trace that its caller is in.
    pub(crate) caller: Option<&'a TraceContext>,
    /// The time of the decision.
    pub(crate) at: Timestamp,
}

/// The subject of a decision.
#[derive(Debug, Clone, Copy)]
pub(crate) enum DecisionSubject<'a> {
    /// An event that starts a run.
    Event(&'a TriggerEvent),
    /// So many values that are remembered, before a run uses them.
    Recalled(usize),
    /// A value that a caller wants to have remembered.
    Remembered,
    /// Outputs that a person sets on a step of a waiting run.
    Outputs,
}

impl DecisionSubject<'_> {
    /// The method by which a guardian is asked (AOS).
    pub(super) fn method(self) -> &'static str {
        match self {
            Self::Event(_) => "steps/agentTrigger",
            Self::Recalled(_) => "steps/memoryContextRetrieval",
            Self::Remembered => "steps/memoryStore",
            Self::Outputs => "steps/toolCallResult",
        }
    }
}

/// The method by which a guardian was asked during a run (AOS).
pub(super) fn method_in_run(phase: GuardianPhase) -> &'static str {
    match phase {
        GuardianPhase::Request => "steps/toolCallRequest",
        GuardianPhase::Result => "steps/toolCallResult",
        GuardianPhase::Trigger => "steps/agentTrigger",
        GuardianPhase::Memory => "steps/memoryContextRetrieval",
        GuardianPhase::McpOutbound | GuardianPhase::McpInbound => "protocols/MCP",
    }
}
