//! The spans of a run: a fold over its events. Pure.
//!
//! | span | subject | below |
//! |---|---|---|
//! | `acs.turn` | the run | the caller's span |
//! | `acs.agent.trigger` | the guardian's decision about the event that started it | `acs.turn` |
//! | `acs.memory.retrieval` | the guardian's decision about the values remembered for its inputs | `acs.turn` |
//! | `a2s.sequence`, `a2s.parallel`, `a2s.condition`, `a2s.capability`, `a2s.for_each` | a step that has steps or iterations | the step around it |
//! | `execute_tool {tool}` | a task step, or an iteration of one (`GenAI` semantic conventions) | the step around it |
//! | `acs.tool.result` | the guardian's decision about a result | its `execute_tool` |
//! | `GET`, `POST`, … | one request to a service (HTTP semantic conventions) | its `execute_tool` |
//!
//! Spans and attributes follow OpenTelemetry's semantic conventions where these have one. Names that begin
//! with `acs` are those of the Agent Control Standard's mapping to OpenTelemetry (v0.1.0,
//! `trace/otel-mapping.json`); a decision is a span event `acs.decision`. Addresses are recorded without
//! their query, and errors only with their code. If a guardian did not simply allow, its own message is the
//! reason (`acs.reasoning`), as in the journal.
//!
//! A decision without a run is one span of its own: an event or a memory that was rejected before there was
//! a run, or a value that a caller wanted to have remembered (`acs.memory.store`).

mod standalone_span;

use a2s::StepKind;
use a2s_api::{
    CapabilityRef, DecisionRecord, DecisionSource, ErrorHandlerKind, EventKind, EventSummary,
    GuardianInfo, GuardianPhase, RequestChange, RequestPurpose, RunChange, RunError, RunEvent,
    RunStarted, SentRequest, StepChange, StepResolution, StepWarning,
};
use jiff::Timestamp;

use super::context::RunTrace;
use super::pre_run_decisions::DecisionSubject;
use super::span::{AttributeValue, Attributes, Span, SpanKind, number, shorten_text, text};
use super::step_tracker::StepTracker;
use crate::error::ErrorKind;
use crate::gate::{executor_agent, tool_id};

use standalone_span::decision_span;
pub(crate) use standalone_span::standalone_trace;

/// The operation of a task step (`GenAI` semantic conventions).
const EXECUTE_TOOL: &str = "execute_tool";
/// The span for the judgment of a guardian about a result.
const TOOL_RESULT: &str = "acs.tool.result";
/// The name in place of a guardian when there is none.
const OFF: &str = "off";

/// A run in the form of a tracing system.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ExportedTrace {
    pub(super) context: RunTrace,
    /// The spans, each after its parent.
    pub(super) spans: Vec<Span>,
}

/// The trace that the events of a run describe, from the first one on. Spans that have not ended are left
/// out. `None` when the first event is missing.
pub(crate) fn trace_of(events: &[RunEvent]) -> Option<ExportedTrace> {
    let (first, rest) = events.split_first()?;
    let EventKind::RunStarted(started) = &first.kind else { return None };
    let RunStarted {
        principal,
        capability,
        session,
        guardians: guarding,
        decisions,
        trace,
        trigger,
        recalled,
        ..
    } = &**started;
    let context = RunTrace::from_caller(first.run, trace.as_deref(), true);
    let mut root = Span::new(context.root(), context.parent, "acs.turn", first.at);
    if context.parent.is_some() {
        root.kind = SpanKind::Server;
    }
    root.attributes = vec![
        ("acs.turn.id", text(&first.run)),
        ("acs.turn.triggered_by", text("agent_loop")),
        ("acs.session.id", text(session)),
        ("gen_ai.conversation.id", text(session)),
    ];
    if let Some(principal) = principal {
        root.set_principal(principal);
    }
    root.attributes.extend(guardian_attributes(guarding));
    root.set_capability(capability);
    let mut spans = vec![root];
    let parent = Some(context.root());
    let matters = [
        trigger.as_deref().map(|event| (GuardianPhase::Trigger, DecisionSubject::Event(event))),
        (!recalled.is_empty())
            .then_some((GuardianPhase::Memory, DecisionSubject::Recalled(recalled.len()))),
    ];
    for (phase, matter) in matters.into_iter().flatten() {
        let said = decisions.iter().filter(|decision| decision.phase == phase);
        spans.push(decision_span(&context, parent, &matter, first.at, said));
    }
    let mut folding = TraceBuilder { context, spans, steps: StepTracker::new(capability) };
    rest.iter().for_each(|event| folding.apply(event));
    let TraceBuilder { context, mut spans, .. } = folding;
    spans.retain(|span| span.end.is_some());
    Some(ExportedTrace { context, spans })
}

impl ExportedTrace {
    /// Returns true when the trace is to be exported. If the caller's system does not record a trace, its
    /// beginning could not be found, so it is not exported.
    pub(crate) fn is_sampled(&self) -> bool {
        self.context.sampled
    }
}

struct TraceBuilder<'e> {
    context: RunTrace,
    /// The spans, beginning with the span of the run.
    spans: Vec<Span>,
    steps: StepTracker<'e, OpenStep>,
}

/// A step, with the indexes of its spans.
struct OpenStep {
    span: usize,
    /// The last request that was sent: its attempt, and the number of its redirect.
    sent: (u32, u32),
    /// The index of the last request, while it has no response.
    attempt: Option<usize>,
    result: Option<usize>,
    /// The time of the last response.
    answered: Option<Timestamp>,
}

impl<'e> TraceBuilder<'e> {
    fn apply(&mut self, event: &'e RunEvent) {
        match event.kind.summary() {
            EventSummary::Run(change) => self.apply_run_change(change, event.at),
            EventSummary::Step(step, change) => self.apply_step_change(step, change, event.at),
            EventSummary::Request(step, change) => {
                self.apply_request_change(step, change, event.at);
            }
        }
    }

    fn apply_run_change(&mut self, change: RunChange<'e>, at: Timestamp) {
        match change {
            RunChange::Started(_) => {}
            RunChange::Queued => self.spans[0].add_event(at, "a2s.queued", vec![]),
            RunChange::Resumed => {
                let open: Vec<_> = self.steps.iter().filter_map(|(_, step)| step.attempt).collect();
                open.into_iter().for_each(|attempt| self.end_attempt(attempt, at, "interrupted"));
                self.spans[0].add_event(at, "a2s.resumed", vec![]);
            }
            RunChange::Waiting(error) => {
                self.spans[0].add_event(at, "a2s.waiting", vec![("error.type", text(&error.code))]);
            }
            RunChange::Finished { status, error } => {
                let (root, steps) = (&mut self.spans[0], self.steps.len());
                root.set_attribute("a2s.run.status", text(status.as_str()));
                let outcome = if error.is_some() { "error" } else { "completed" };
                root.set_attribute("acs.turn.outcome", text(outcome));
                root.set_attribute("acs.turn.step_count", number(steps));
                if let Some(error) = error {
                    root.set_error(error.code.clone());
                }
                // Spans that are still open will never report an end.
                self.spans.iter_mut().for_each(|span| span.finish(at));
            }
        }
    }

    fn apply_step_change(&mut self, step: &'e str, change: StepChange<'e>, at: Timestamp) {
        match change {
            StepChange::Started { kind, capability } => self.begin(step, kind, capability, at),
            StepChange::ItemsTaken(items) => {
                let Some(open) = self.steps.get(step) else { return };
                let span = &mut self.spans[open.span];
                // It calls no tool itself; its iterations do.
                "a2s.for_each".clone_into(&mut span.name);
                span.attributes.retain(|(name, _)| !name.starts_with("gen_ai."));
                span.set_attribute("a2s.items", number(items));
            }
            StepChange::BranchTaken(value) => {
                let attributes = vec![("a2s.value", AttributeValue::Truth(value))];
                self.span(step).add_event(at, "a2s.branch", attributes);
            }
            StepChange::Decided { execution_id, decision } => {
                let (span, id) = match decision.phase {
                    GuardianPhase::Result | GuardianPhase::McpInbound => {
                        (self.result(step, at), "acs.request_id_ref")
                    }
                    GuardianPhase::Request
                    | GuardianPhase::McpOutbound
                    | GuardianPhase::Trigger
                    | GuardianPhase::Memory => (self.span(step), "gen_ai.tool.call.id"),
                };
                span.set_attribute(id, text(&execution_id));
                span.add_event(at, "acs.decision", decision_attributes(decision));
            }
            StepChange::ApprovalRequested { guardian, id, .. } => {
                let attributes = vec![("a2s.guardian", text(guardian)), ("a2s.approval", text(id))];
                self.span(step).add_event(at, "a2s.approval_requested", attributes);
            }
            StepChange::Warned(warning) => {
                let attributes = vec![("a2s.code", text(&warning.code))];
                self.span(step).add_event(at, "a2s.warning", attributes);
            }
            StepChange::Finished { duration_ms, .. } => {
                self.end(step, at, None, Some(duration_ms));
            }
            StepChange::Failed { error, duration_ms } => {
                self.end(step, at, Some(error), Some(duration_ms));
            }
            StepChange::Skipped(_) => {
                let attributes = vec![("a2s.step", text(step))];
                self.span(step).add_event(at, "a2s.skipped", attributes);
            }
            StepChange::Resolved(resolution) => self.resolve(step, resolution, at),
            StepChange::ErrorHandled(handler) => {
                let handler = match handler {
                    ErrorHandlerKind::Continue => "continue",
                    ErrorHandlerKind::Catch => "catch",
                };
                if let Some(open) = self.steps.get(step) {
                    self.spans[open.span].set_attribute("a2s.handled", text(handler));
                }
            }
        }
    }

    fn apply_request_change(&mut self, step: &'e str, change: RequestChange<'e>, at: Timestamp) {
        let failed = |failure: Option<&StepWarning>| {
            failure.map(|failure| ("error.type", text(&failure.code)))
        };
        let (name, attributes) = match change {
            RequestChange::Sending(request) => return self.begin_attempt(step, &request, at),
            RequestChange::Received { status, bytes, .. } => {
                return self.end_answered(step, status, bytes, at);
            }
            RequestChange::Throttled { host, reason, wait_ms } => {
                let mut attributes =
                    vec![("server.address", text(host)), ("a2s.reason", text(reason.as_str()))];
                attributes.extend(wait_ms.map(|time| ("a2s.wait_ms", number(time))));
                ("a2s.throttled", attributes)
            }
            RequestChange::Requesting { purpose, method, url } => {
                let host = url::Url::parse(url).ok();
                let host = host.as_ref().and_then(|url| url.host_str()).unwrap_or_default();
                let purpose = match purpose {
                    RequestPurpose::Token => "token",
                    RequestPurpose::Session => "session",
                };
                let attributes = vec![
                    ("server.address", text(host)),
                    ("http.request.method", text(method)),
                    ("a2s.purpose", text(purpose)),
                ];
                ("a2s.requesting", attributes)
            }
            RequestChange::TokenRequested { host, scheme, renewed, duration_ms, failure } => {
                let mut attributes = vec![
                    ("server.address", text(host)),
                    ("a2s.scheme", text(scheme)),
                    ("a2s.renewed", AttributeValue::Truth(renewed)),
                    ("a2s.duration_ms", number(duration_ms)),
                ];
                attributes.extend(failed(failure));
                ("a2s.token", attributes)
            }
            RequestChange::SessionOpened { host, revision, duration_ms, failure } => {
                let mut attributes =
                    vec![("server.address", text(host)), ("a2s.duration_ms", number(duration_ms))];
                attributes
                    .extend(revision.map(|revision| ("mcp.protocol.version", text(revision))));
                attributes.extend(failed(failure));
                ("a2s.session", attributes)
            }
            RequestChange::Retrying { attempt, pause_ms, .. } => {
                self.end_unanswered(step, at, "_OTHER");
                let attributes =
                    vec![("a2s.attempt", number(attempt)), ("a2s.pause_ms", number(pause_ms))];
                ("a2s.retry", attributes)
            }
        };
        self.span(step).add_event(at, name, attributes);
    }

    /// Begins the span of a request.
    fn begin_attempt(&mut self, step: &str, request: &SentRequest<'_>, at: Timestamp) {
        let SentRequest { attempt, method, url, upstream, digest, redirect, .. } = *request;
        let next = self.spans.len();
        let Some(open) = self.steps.get_mut(step) else { return };
        // Attempt numbers continue after a restart: one number is one request.
        if (attempt, redirect.unwrap_or(0)) <= open.sent {
            return;
        }
        (open.sent, open.attempt) = ((attempt, redirect.unwrap_or(0)), Some(next));
        let parent = Some(self.spans[open.span].id);
        let id = match redirect {
            None => self.context.attempt(step, attempt),
            Some(hop) => self.context.redirect(step, attempt, hop),
        };
        let mut span = Span::new(id, parent, method, at);
        if let Some(hop) = redirect {
            span.set_attribute("a2s.redirect", number(hop));
        }
        span.set_request(attempt, method, url, upstream);
        span.set_attribute("a2s.request_digest", text(digest));
        self.spans.push(span);
    }

    /// Ends the span of the last request, which was answered.
    fn end_answered(&mut self, step: &str, status: u16, bytes: u64, at: Timestamp) {
        let Some(open) = self.steps.get_mut(step) else { return };
        open.answered = Some(at);
        let Some(attempt) = open.attempt.take() else { return };
        let span = &mut self.spans[attempt];
        span.set_attribute("http.response.status_code", number(status));
        span.set_attribute("http.response.body.size", number(bytes));
        // Of a client's span (HTTP semantic conventions, status).
        if status >= 400 {
            span.set_error(status.to_string());
        }
        span.finish(at);
    }

    /// Applies the decision of a person about a request with an unknown outcome.
    fn resolve(&mut self, step: &str, resolution: StepResolution, at: Timestamp) {
        let (decision, ends) = match resolution {
            StepResolution::Repeat => ("repeat", false),
            StepResolution::Skip => ("skip", true),
            StepResolution::Set => ("set", true),
        };
        self.end_unanswered(step, at, "interrupted");
        self.span(step).add_event(at, "a2s.resolved", vec![("a2s.decision", text(decision))]);
        if ends {
            self.end(step, at, None, None);
        }
    }

    /// Begins the span of a step.
    fn begin(&mut self, path: &'e str, kind: &str, uses: Option<&'e CapabilityRef>, at: Timestamp) {
        if self.steps.contains(path) {
            return;
        }
        let around = self.steps.find_parent(path).map_or(0, |(_, step)| step.state.span);
        let (parent, document) = (self.spans[around].id, self.steps.document_of(path));
        let tool = tool_id(&document.name, path);
        let calls = format!("{EXECUTE_TOOL} {tool}");
        let kind = StepKind::from_name(kind);
        let name = match kind {
            Some(StepKind::Task) => calls,
            Some(kind) => format!("a2s.{}", kind.as_str()),
            // A kind of another version.
            None => "a2s.step".to_owned(),
        };
        let mut span = Span::new(self.context.step(path), Some(parent), &name, at);
        span.set_attribute("a2s.step", text(path));
        if kind == Some(StepKind::Task) {
            span.set_attribute("gen_ai.operation.name", text(EXECUTE_TOOL));
            span.set_attribute("gen_ai.tool.name", text(&tool));
            // A tool that calls services of others for the agent.
            span.set_attribute("gen_ai.tool.type", text("extension"));
            span.set_attribute("gen_ai.agent.name", text(&executor_agent().name));
            span.set_attribute("acs.capability", text(&document.name));
            span.set_attribute("acs.tool.version", text(&document.version));
        }
        if let Some(uses) = uses {
            span.set_capability(uses);
        }
        let open = OpenStep {
            span: self.spans.len(),
            sent: (0, 0),
            attempt: None,
            result: None,
            answered: None,
        };
        self.spans.push(span);
        self.steps.begin(path, uses, open);
    }

    /// Returns the span in which the result of a step is judged; it begins with the response.
    fn result(&mut self, path: &'e str, at: Timestamp) -> &mut Span {
        let Some(open) = self.steps.get(path) else { return &mut self.spans[0] };
        let index = open.result.unwrap_or_else(|| {
            let begin = open.answered.unwrap_or(at);
            let parent = Some(self.spans[open.span].id);
            let id = self.context.result(path);
            let mut span = Span::new(id, parent, TOOL_RESULT, begin);
            let call = &self.spans[open.span].attributes;
            let name = call.iter().find(|(name, _)| *name == "gen_ai.tool.name");
            span.attributes.extend(name.cloned());
            self.spans.push(span);
            self.spans.len() - 1
        });
        if let Some(open) = self.steps.get_mut(path) {
            open.result = Some(index);
        }
        &mut self.spans[index]
    }

    /// Ends a step, with everything that belongs to it.
    fn end(&mut self, path: &str, at: Timestamp, error: Option<&RunError>, took: Option<u64>) {
        let code = error.map(|error| error.code.as_str());
        self.end_unanswered(path, at, code.unwrap_or("_OTHER"));
        let Some(open) = self.steps.get(path) else { return };
        if let Some(result) = open.result {
            let span = &mut self.spans[result];
            span.set_attribute("acs.exit_status", text(exit_status(code)));
            if let Some(took) = took {
                span.set_attribute("acs.duration_ms", number(took));
            }
            if let Some(code) = code {
                span.set_error(code.to_owned());
            }
            span.finish(at);
        }
        let span = &mut self.spans[open.span];
        if let Some(code) = code {
            span.set_error(code.to_owned());
        }
        span.finish(at);
    }

    /// Ends the last request of a step, if it had no response.
    fn end_unanswered(&mut self, path: &str, at: Timestamp, why: &str) {
        let attempt = self.steps.get_mut(path).and_then(|open| open.attempt.take());
        if let Some(attempt) = attempt {
            self.end_attempt(attempt, at, why);
        }
    }

    fn end_attempt(&mut self, attempt: usize, at: Timestamp, why: &str) {
        let span = &mut self.spans[attempt];
        if span.end.is_none() {
            span.set_error(why.to_owned());
            span.finish(at);
        }
    }

    /// The span of a step, or of the step around it when it never began.
    fn span(&mut self, path: &str) -> &mut Span {
        let around = || self.steps.find_parent(path).map(|(_, step)| &step.state);
        let index = self.steps.get(path).or_else(around).map_or(0, |open| open.span);
        &mut self.spans[index]
    }
}

/// Converts a decision to the attributes of a span event.
fn decision_attributes(decision: &DecisionRecord) -> Attributes {
    let mut attributes = vec![
        ("acs.decision", text(&decision.decision)),
        ("acs.evaluator", text(decision.guardian.as_deref().unwrap_or(OFF))),
        ("a2s.decision.source", text(decision.source.as_str())),
    ];
    if needs_reason(decision) {
        attributes.push(("acs.reasoning", text(&decision.message)));
    }
    if !decision.reason_codes.is_empty() {
        let codes = decision.reason_codes.iter().map(|code| shorten_text(code)).collect();
        attributes.push(("acs.reason_codes", AttributeValue::Texts(codes)));
    }
    if !decision.changes.is_empty() {
        attributes.push(("a2s.decision.changes", number(decision.changes.len())));
    }
    attributes
}

/// Returns true when the reason is of interest, because the decision is not a plain `allow`.
fn needs_reason(decision: &DecisionRecord) -> bool {
    let is_yes = decision.decision == "allow" && decision.source == DecisionSource::Guardian;
    !is_yes && decision.source != DecisionSource::Unguarded && !decision.message.is_empty()
}

/// The guardians of a run, and their fail modes.
fn guardian_attributes(guarding: &[GuardianInfo]) -> Attributes {
    let names: Vec<_> = guarding.iter().map(|guarding| guarding.guardian.as_str()).collect();
    let fails: Vec<_> = guarding.iter().map(GuardianInfo::describe_fail_mode).collect();
    let or = |text: String, default: &str| if text.is_empty() { default.to_owned() } else { text };
    vec![
        ("a2s.guardian", text(&or(names.join(", "), OFF))),
        ("a2s.guardian.fail", text(&or(fails.join("; "), "open"))),
    ]
}

/// Returns the end of a tool's call in the terms of the Agent Control Standard.
fn exit_status(code: Option<&str>) -> &'static str {
    let Some(code) = code else { return "success" };
    match ErrorKind::from_code(code) {
        Some(kind) if kind.is_denial() => "blocked",
        Some(ErrorKind::Timeout | ErrorKind::StepTimeout) => "timeout",
        _ => "failure",
    }
}

#[cfg(test)]
mod tests;
