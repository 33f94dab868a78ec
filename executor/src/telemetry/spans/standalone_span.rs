//! Spans of decisions that are not about a step: about an event, or about remembered values.

use a2s::api::Decision;
use jiff::Timestamp;

use super::super::context::{RunTrace, SpanId};
use super::super::pre_run_decisions::{Aside, Matter};
use super::super::span::{Span, Value, number, text};
use super::{TOOL_RESULT, Trace, told};
use crate::gate::agent;

/// The store of the values that are remembered for inputs.
const MEMORY: &str = "a2s.state";

/// The trace of something that was decided without a run.
pub(crate) fn trace_aside(aside: &Aside<'_>) -> Trace {
    let context = RunTrace::of(aside.id, aside.caller, true);
    let parent = context.parent;
    let mut span = span_about(&context, parent, &aside.matter, aside.at, aside.decisions);
    span.put("acs.session.id", text(aside.session));
    span.name_principal(aside.principal);
    if let Some(capability) = aside.capability {
        span.describe(capability);
    }
    if aside.is_refused {
        span.fail("refused".to_owned());
    }
    Trace { context, spans: vec![span] }
}

/// The span of a decision about something that is no step.
pub(super) fn span_about<'d>(
    context: &RunTrace,
    parent: Option<SpanId>,
    matter: &Matter<'_>,
    at: Timestamp,
    decisions: impl IntoIterator<Item = &'d Decision>,
) -> Span {
    let (name, attributes) = match matter {
        Matter::Event(event) => (
            "acs.agent.trigger",
            vec![
                ("acs.agent.id", text(&agent().id)),
                ("acs.trigger.type", text("external_event")),
                ("a2s.trigger.event.type", text(&event.kind)),
                ("a2s.trigger.event.id", text(&event.id)),
            ],
        ),
        Matter::Recalled(values) => (
            "acs.memory.retrieval",
            vec![("acs.memory_store.name", text(MEMORY)), ("acs.results.count", number(*values))],
        ),
        Matter::Outputs => (TOOL_RESULT, vec![("a2s.set_by_person", Value::Truth(true))]),
        Matter::Remembered => (
            "acs.memory.store",
            vec![("acs.memory_store.name", text(MEMORY)), ("acs.operation", text("set"))],
        ),
    };
    let mut span = Span::new(context.aside(name), parent, name, at);
    span.attributes = attributes;
    for decision in decisions {
        span.tell(at, "acs.decision", told(decision));
    }
    span.finish(at);
    span
}
