//! Spans of decisions that are not about a step: about an event, or about remembered values.

use a2s_api::DecisionRecord;
use jiff::Timestamp;

use super::super::context::{RunTrace, SpanId};
use super::super::pre_run_decisions::{DecisionSubject, StandaloneDecision};
use super::super::span::{AttributeValue, Span, number, text};
use super::{ExportedTrace, TOOL_RESULT, decision_attributes};
use crate::gate::executor_agent;

/// The store of the values that are remembered for inputs.
const MEMORY: &str = "a2s.state";

/// Returns the trace of a decision that was made outside a run.
pub(crate) fn standalone_trace(decision: &StandaloneDecision<'_>) -> ExportedTrace {
    let context = RunTrace::from_caller(decision.id, decision.caller, true);
    let parent = context.parent;
    let mut span =
        decision_span(&context, parent, &decision.subject, decision.at, decision.decisions);
    span.set_attribute("acs.session.id", text(decision.session));
    span.set_principal(decision.principal);
    if let Some(capability) = decision.capability {
        span.set_capability(capability);
    }
    if decision.is_rejected {
        span.set_error("refused".to_owned());
    }
    ExportedTrace { context, spans: vec![span] }
}

/// Returns the span of a decision about something that is not a step.
pub(super) fn decision_span<'d>(
    context: &RunTrace,
    parent: Option<SpanId>,
    matter: &DecisionSubject<'_>,
    at: Timestamp,
    decisions: impl IntoIterator<Item = &'d DecisionRecord>,
) -> Span {
    let (name, attributes) = match matter {
        DecisionSubject::Event(event) => (
            "acs.agent.trigger",
            vec![
                ("acs.agent.id", text(&executor_agent().id)),
                ("acs.trigger.type", text("external_event")),
                ("a2s.trigger.event.type", text(&event.kind)),
                ("a2s.trigger.event.id", text(&event.id)),
            ],
        ),
        DecisionSubject::Recalled(values) => (
            "acs.memory.retrieval",
            vec![("acs.memory_store.name", text(MEMORY)), ("acs.results.count", number(*values))],
        ),
        DecisionSubject::Outputs => {
            (TOOL_RESULT, vec![("a2s.set_by_person", AttributeValue::Truth(true))])
        }
        DecisionSubject::Remembered => (
            "acs.memory.store",
            vec![("acs.memory_store.name", text(MEMORY)), ("acs.operation", text("set"))],
        ),
    };
    let mut span = Span::new(context.standalone_span(name), parent, name, at);
    span.attributes = attributes;
    for decision in decisions {
        span.add_event(at, "acs.decision", decision_attributes(decision));
    }
    span.finish(at);
    span
}
