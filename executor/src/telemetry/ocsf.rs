//! The security events of a run (OCSF): a fold over its events. Pure, except for the sinks.
//!
//! | event | content | severity |
//! |---|---|---|
//! | API Activity (6003) | a tool step or an iteration of one that ended, with all decisions about it; a guardian's decision that is not about a step | informational |
//! | Detection Finding (2004) | a decision that changed something | low |
//! | | a guardian that did not respond, with a fail mode that lets steps pass | medium |
//! | | a denial | high |
//!
//! Values are never included: addresses have no query, changes do not have the changed values, errors have
//! only their code and its title. The messages of a guardian are included as they are in the journal.

mod event;
mod event_builder;
mod sink;

use a2s_api::{
    DecisionRecord, EventKind, EventSummary, GuardianPhase, RequestChange, RunChange, RunError,
    RunEvent, RunStarted, SentRequest, StepChange, StepResolution,
};
use jiff::Timestamp;
use url::Url;
use uuid::Uuid;

use self::event::{
    ApiResponse, DestinationEndpoint, HttpRequest, HttpResponse, HttpUrl, OcsfActivity,
    OcsfSeverity, OcsfStatus, ProxyEndpoint,
};
use self::event_builder::{EventBuilder, EventSubject, EventTime, to_aos_decision};
use super::context::RunTrace;
use super::pre_run_decisions::{DecisionSubject, StandaloneDecision};
use super::span::shorten_text;
use super::step_tracker::StepTracker;
use crate::error::ErrorKind;
use crate::gate::tool_id;

pub(crate) use event::OcsfEvent;
pub(crate) use sink::{EventFile, EventReceiver, JsonLine};

/// The product that reports the events.
#[derive(Debug, Clone)]
pub(crate) struct OcsfProduct {
    /// The name of this service.
    pub(crate) service: String,
}

/// Returns an event as one line of JSON.
pub(crate) fn line(event: &OcsfEvent) -> Option<JsonLine> {
    // Nothing in it cannot be written.
    serde_json::to_string(event).ok().map(JsonLine::from)
}

/// Returns the method of AOS for a question to a guardian without a run.
fn method_before_run(subject: DecisionSubject<'_>) -> &'static str {
    match subject {
        DecisionSubject::Event(_) => "steps/agentTrigger",
        DecisionSubject::Recalled(_) => "steps/memoryContextRetrieval",
        DecisionSubject::Remembered => "steps/memoryStore",
        DecisionSubject::Outputs => "steps/toolCallResult",
    }
}

/// Returns the method of AOS for a question to a guardian during a run.
fn method_in_run(phase: GuardianPhase) -> &'static str {
    match phase {
        GuardianPhase::Request => "steps/toolCallRequest",
        GuardianPhase::Result => "steps/toolCallResult",
        GuardianPhase::Trigger => "steps/agentTrigger",
        GuardianPhase::Memory => "steps/memoryContextRetrieval",
        GuardianPhase::McpOutbound | GuardianPhase::McpInbound => "protocols/MCP",
    }
}

/// The events to report for a run that is over or waits: everything since it last waited. Empty when the
/// first event is missing.
pub(crate) fn events_of_run(events: &[RunEvent], product: &OcsfProduct) -> Vec<OcsfEvent> {
    let Some(first) = events.first() else { return Vec::new() };
    let EventKind::RunStarted(started) = &first.kind else { return Vec::new() };
    let RunStarted { principal, capability, session, trace, .. } = &**started;
    let before = events.split_last().map_or(events, |(_, before)| before);
    let is_rest = |event: &&RunEvent| matches!(event.kind, EventKind::RunWaiting { .. });
    let mut folding = EventCollector {
        builder: EventBuilder {
            principal: principal.as_ref(),
            run: first.run,
            session,
            root: Some(capability),
            trace: RunTrace::from_caller(first.run, trace.as_deref(), true),
            product,
        },
        steps: StepTracker::new(capability),
        reported_until: before.iter().rfind(is_rest).map_or(0, |event| event.seq),
        events: Vec::new(),
    };
    events.iter().for_each(|event| folding.apply(event));
    folding.events
}

/// The events to report for a decision without a run.
pub(crate) fn standalone_events(
    decision: &StandaloneDecision<'_>,
    product: &OcsfProduct,
) -> Vec<OcsfEvent> {
    let StandaloneDecision {
        principal,
        id,
        subject: matter,
        decisions,
        is_rejected: is_refused,
        session,
        capability,
        caller,
        at,
    } = *decision;
    let scene = EventBuilder {
        principal: Some(principal),
        run: id,
        session,
        root: capability,
        trace: RunTrace::from_caller(id, caller, true),
        product,
    };
    let method = method_before_run(matter);
    let about = EventSubject {
        operation: method.to_owned(),
        document: capability,
        step: method,
        tool: None,
        execution_id: None,
        // There may be no span for it: an allowed request belongs to the run that follows.
        span: None,
        destination: None,
    };
    let place = |name: &str| EventTime {
        at,
        seq: None,
        uid: scene.stable_uid(&format!("{name} {method}")),
    };
    let said: Vec<_> = decisions.iter().map(|decision| to_aos_decision(decision, method)).collect();
    let status = if is_refused { OcsfStatus::Failure } else { OcsfStatus::Success };
    let mut body = scene.event_body(&place("activity"), &about, OcsfSeverity::Informational, said);
    body.status = status;
    let last = decisions.last().map_or("", |decision| &decision.decision);
    body.message = format!("{method}: {last}");
    let activity =
        scene.activity(&about, ApiResponse { code: None, error: None, error_message: None });
    let activity = OcsfEvent::activity(OcsfActivity::Other("Guardian Hook"), activity, body);
    let findings = decisions.iter().zip(0..).filter_map(|(decision, number): (_, u32)| {
        scene.finding(&place(&format!("finding {number}")), &about, decision, method)
    });
    std::iter::once(activity).chain(findings).collect()
}

struct EventCollector<'e> {
    builder: EventBuilder<'e>,
    steps: StepTracker<'e, ToolStep<'e>>,
    /// The number of the event up to which everything was reported.
    reported_until: u64,
    events: Vec<OcsfEvent>,
}

/// A step, with the data of its tool.
struct ToolStep<'e> {
    began: Timestamp,
    /// True when it sends requests itself.
    is_tool: bool,
    execution_id: Option<Uuid>,
    decisions: Vec<&'e DecisionRecord>,
    sent: Option<SentRequest<'e>>,
    status: Option<u16>,
    has_ended: bool,
}

impl<'e> ToolStep<'e> {
    fn begin(kind: &str, at: Timestamp) -> Self {
        Self {
            began: at,
            is_tool: kind == "task",
            execution_id: None,
            decisions: Vec::new(),
            sent: None,
            status: None,
            has_ended: false,
        }
    }

    fn apply_request_change(&mut self, change: RequestChange<'e>) {
        match change {
            RequestChange::Sending(request) => {
                self.execution_id = Some(request.execution_id);
                self.sent = Some(request);
                self.status = None;
            }
            RequestChange::Received { status, .. } => self.status = Some(status),
            RequestChange::Throttled { .. }
            | RequestChange::Requesting { .. }
            | RequestChange::TokenRequested { .. }
            | RequestChange::SessionOpened { .. }
            | RequestChange::Retrying { .. } => {}
        }
    }
}

impl<'e> EventCollector<'e> {
    fn apply(&mut self, event: &'e RunEvent) {
        match event.kind.summary() {
            EventSummary::Run(RunChange::Finished { .. }) => self.end_unfinished(event),
            EventSummary::Run(
                RunChange::Started(_)
                | RunChange::Queued
                | RunChange::Resumed
                | RunChange::Waiting(_),
            ) => {}
            EventSummary::Step(step, change) => self.apply_step_change(step, change, event),
            EventSummary::Request(step, change) => {
                if let Some(tool) = self.steps.get_mut(step) {
                    tool.apply_request_change(change);
                }
            }
        }
    }

    fn apply_step_change(&mut self, step: &'e str, change: StepChange<'e>, event: &'e RunEvent) {
        match change {
            StepChange::Started { kind, capability } => {
                if !self.steps.contains(step) {
                    self.steps.begin(step, capability, ToolStep::begin(kind, event.at));
                }
            }
            StepChange::ItemsTaken(_) => {
                if let Some(tool) = self.steps.get_mut(step) {
                    // Its iterations are.
                    tool.is_tool = false;
                }
            }
            StepChange::Decided { execution_id, decision } => {
                if let Some(tool) = self.steps.get_mut(step) {
                    tool.execution_id = Some(execution_id);
                    tool.decisions.push(decision);
                }
                if self.reported_until < event.seq {
                    let about = self.event_subject(step, event.at, Some(execution_id));
                    let moment = self.event_time(event);
                    let method = method_in_run(decision.phase);
                    let finding = self.builder.finding(&moment, &about, decision, method);
                    self.events.extend(finding);
                }
            }
            StepChange::Finished { .. } => self.end(step, event, OcsfStatus::Success, None),
            StepChange::Failed { error, .. } => {
                self.end(step, event, OcsfStatus::Failure, Some(error));
            }
            StepChange::Resolved(StepResolution::Skip) => {
                self.end(step, event, OcsfStatus::Other("Skipped"), None);
            }
            StepChange::Resolved(StepResolution::Set) => {
                self.end(step, event, OcsfStatus::Other("Set by a person"), None);
            }
            StepChange::Resolved(StepResolution::Repeat)
            | StepChange::BranchTaken(_)
            | StepChange::ApprovalRequested { .. }
            | StepChange::Warned(_)
            | StepChange::Skipped(_)
            | StepChange::ErrorHandled(_) => {}
        }
    }

    /// Ends the steps that will never report an end: something may have been sent, or denied, all the
    /// same.
    fn end_unfinished(&mut self, event: &'e RunEvent) {
        let has_begun = |tool: &ToolStep<'_>| !tool.decisions.is_empty() || tool.sent.is_some();
        let left = self.steps.iter().filter(|(_, tool)| !tool.has_ended && has_begun(tool));
        let left: Vec<_> = left.map(|(path, _)| path).collect();
        for step in left {
            self.end(step, event, OcsfStatus::Other("Stopped"), None);
        }
    }

    /// Records the end of a step.
    fn end(
        &mut self,
        step: &'e str,
        event: &'e RunEvent,
        status: OcsfStatus,
        error: Option<&'e RunError>,
    ) {
        let Some(tool) = self.steps.get_mut(step) else { return };
        if std::mem::replace(&mut tool.has_ended, true)
            || !tool.is_tool
            || event.seq <= self.reported_until
        {
            return;
        }
        let (sent, code) = (tool.sent, tool.status);
        let said =
            tool.decisions.iter().map(|said| to_aos_decision(said, method_in_run(said.phase)));
        let (said, execution_id) = (said.collect(), tool.execution_id);
        let about = self.event_subject(step, event.at, execution_id);
        let moment = EventTime {
            uid: self.builder.stable_uid(&format!("step {step} {}", event.seq)),
            ..self.event_time(event)
        };
        let mut body = self.builder.event_body(&moment, &about, OcsfSeverity::Informational, said);
        body.status = status;
        body.status_code = error.map(|error| shorten_text(&error.code));
        body.status_detail = error.and_then(error_title);
        body.message = match (status, error) {
            (OcsfStatus::Success, _) => format!("{} succeeded", about.operation),
            (OcsfStatus::Failure, Some(error)) => {
                format!("{} failed: {}", about.operation, shorten_text(&error.code))
            }
            (OcsfStatus::Failure, None) => format!("{} failed", about.operation),
            (OcsfStatus::Other(how), _) => format!("{}: {}", about.operation, how.to_lowercase()),
        };
        body.aos.attempts = sent.map(|sent| sent.attempt);
        body.aos.request_digest = sent.map(|sent| sent.digest.to_string());
        let response = ApiResponse {
            code,
            error: body.status_code.clone(),
            error_message: body.status_detail,
        };
        let mut activity = self.builder.activity(&about, response);
        activity.http_request = sent.map(|sent| HttpRequest {
            http_method: shorten_text(sent.method),
            url: Url::parse(sent.url).ok().map(|url| http_url(&url)),
        });
        activity.http_response = code.map(|code| HttpResponse { code });
        let kind = activity_of(sent.map(|sent| sent.method));
        self.events.push(OcsfEvent::activity(kind, activity, body));
    }

    fn event_time(&self, event: &RunEvent) -> EventTime {
        let uid = self.builder.stable_uid(&format!("event {}", event.seq));
        EventTime { at: event.at, seq: Some(event.seq), uid }
    }

    /// The subject of an event about a step at this time.
    fn event_subject(
        &self,
        step: &'e str,
        at: Timestamp,
        execution_id: Option<Uuid>,
    ) -> EventSubject<'e> {
        let document = self.steps.document_of(step);
        let tool = self.steps.get(step);
        let operation = tool_id(&document.name, step);
        let sent = tool.and_then(|tool| tool.sent);
        let began = tool.map_or(at, |tool| tool.began);
        EventSubject {
            tool: Some(operation.clone()),
            operation,
            document: Some(document),
            step,
            execution_id,
            span: Some((self.builder.trace.step(step), began, at.max(began))),
            destination: sent.and_then(|sent| destination(sent.url, sent.upstream)),
        }
    }
}

/// The activity of an HTTP method, as far as the method determines it. `POST` may do anything.
fn activity_of(method: Option<&str>) -> OcsfActivity {
    match method {
        Some("GET" | "HEAD" | "OPTIONS" | "TRACE" | "QUERY") => OcsfActivity::Read,
        Some("PUT" | "PATCH") => OcsfActivity::Update,
        Some("DELETE") => OcsfActivity::Delete,
        _ => OcsfActivity::Other("Tool Call"),
    }
}

/// The title of the code of an error.
fn error_title(error: &RunError) -> Option<&'static str> {
    ErrorKind::from_code(&error.code).map(|kind| kind.code().title)
}

fn destination(url: &str, upstream: Option<&str>) -> Option<DestinationEndpoint> {
    let url = Url::parse(url).ok()?;
    let upstream = upstream.and_then(|upstream| Url::parse(upstream).ok());
    Some(DestinationEndpoint {
        hostname: shorten_text(url.host_str()?),
        port: url.port_or_known_default(),
        proxy_endpoint: upstream.and_then(|upstream| {
            let port = upstream.port_or_known_default();
            Some(ProxyEndpoint { hostname: shorten_text(upstream.host_str()?), port })
        }),
    })
}

fn http_url(url: &Url) -> HttpUrl {
    HttpUrl {
        scheme: url.scheme().to_owned(),
        hostname: shorten_text(url.host_str().unwrap_or_default()),
        port: url.port_or_known_default(),
        path: shorten_text(url.path()),
    }
}

#[cfg(test)]
mod tests;
