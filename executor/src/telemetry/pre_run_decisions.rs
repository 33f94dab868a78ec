//! Decisions of a guardian without a run: about the event that wants to start one, about the values
//! remembered for its inputs, and about a value that is to be remembered.

use a2s_api::Principal;
use a2s_api::{CapabilityRef, DecisionRecord, TraceContext, TriggerEvent};
use jiff::Timestamp;
use uuid::Uuid;

/// The decisions about one of these subjects.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StandaloneDecision<'a> {
    /// The principal that requested it.
    pub(crate) principal: &'a Principal,
    /// The run that may result from it, or else its own id.
    pub(crate) id: Uuid,
    /// The subject of the decisions.
    pub(crate) subject: DecisionSubject<'a>,
    /// The decisions, in order.
    pub(crate) decisions: &'a [DecisionRecord],
    /// True when the subject was rejected.
    pub(crate) is_rejected: bool,
    /// The session as the guardian sees it.
    pub(crate) session: &'a str,
    /// The capability that is to run.
    pub(crate) capability: Option<&'a CapabilityRef>,
    /// The trace of its caller.
    pub(crate) caller: Option<&'a TraceContext>,
    /// The time of the decision.
    pub(crate) at: Timestamp,
}

/// The subject of a decision.
#[derive(Debug, Clone, Copy)]
pub(crate) enum DecisionSubject<'a> {
    /// An event that starts a run.
    Event(&'a TriggerEvent),
    /// A number of remembered values, before a run uses them.
    Recalled(usize),
    /// A value that a caller wants to have remembered.
    Remembered,
    /// Outputs that a person sets on a step of a waiting run.
    Outputs,
}
