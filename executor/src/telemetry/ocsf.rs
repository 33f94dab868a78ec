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

use a2s::api::{self, Decision, EventKind, RunError, RunStarted, StepResolution};
use jiff::Timestamp;
use url::Url;
use uuid::Uuid;

use self::event::{
    Activity, ApiResponse, Destination, HttpRequest, HttpResponse, HttpUrl, Proxy, Severity, Status,
};
use self::event_builder::{About, Moment, Scene, spoken};
use super::context::RunTrace;
use super::pre_run_decisions::{Aside, method_in_run};
use super::span::short;
use super::step_tracker::Steps;
use crate::error::Kind;
use crate::gate::tool_id;

pub(crate) use event::Event;
pub(crate) use sink::{EventFile, EventReceiver, Line};

/// The product that reports the events.
#[derive(Debug, Clone)]
pub(crate) struct Product {
    /// The name of this service.
    pub(crate) service: String,
}

/// An event as one line of JSON.
pub(crate) fn line(event: &Event) -> Option<Line> {
    // Nothing in it cannot be written.
    serde_json::to_string(event).ok().map(Line::from)
}

/// The events to report for a run that is over or waits: everything since it last waited. Empty when the
/// first event is missing.
pub(crate) fn events_of_run(events: &[api::Event], product: &Product) -> Vec<Event> {
    let Some(first) = events.first() else { return Vec::new() };
    let EventKind::RunStarted(started) = &first.kind else { return Vec::new() };
    let RunStarted { principal, capability, session, trace, .. } = &**started;
    let before = events.split_last().map_or(events, |(_, before)| before);
    let is_rest = |event: &&api::Event| matches!(event.kind, EventKind::RunWaiting { .. });
    let mut folding = Folding {
        scene: Scene {
            principal: principal.as_ref(),
            run: first.run,
            session,
            root: Some(capability),
            trace: RunTrace::of(first.run, trace.as_deref(), true),
            product,
        },
        steps: Steps::of(capability),
        told: before.iter().rfind(is_rest).map_or(0, |event| event.seq),
        events: Vec::new(),
    };
    events.iter().for_each(|event| folding.apply(event));
    folding.events
}

/// The events to report for a decision without a run.
pub(crate) fn events_aside(aside: &Aside<'_>, product: &Product) -> Vec<Event> {
    let Aside { principal, id, matter, decisions, is_refused, session, capability, caller, at } =
        *aside;
    let scene = Scene {
        principal: Some(principal),
        run: id,
        session,
        root: capability,
        trace: RunTrace::of(id, caller, true),
        product,
    };
    let method = matter.method();
    let about = About {
        operation: method.to_owned(),
        document: capability,
        step: method,
        tool: None,
        execution_id: None,
        // There may be no span of it: what is allowed belongs to the run that comes of it.
        span: None,
        destination: None,
    };
    let place = |name: &str| Moment { at, seq: None, uid: scene.uid(&format!("{name} {method}")) };
    let said: Vec<_> = decisions.iter().map(|decision| spoken(decision, method)).collect();
    let status = if is_refused { Status::Failure } else { Status::Success };
    let mut told = scene.told(&place("activity"), &about, Severity::Informational, said);
    told.status = status;
    let last = decisions.last().map_or("", |decision| &decision.decision);
    told.message = format!("{method}: {last}");
    let activity =
        scene.activity(&about, ApiResponse { code: None, error: None, error_message: None });
    let activity = Event::activity(Activity::Other("Guardian Hook"), activity, told);
    let findings = decisions.iter().zip(0..).filter_map(|(decision, number): (_, u32)| {
        scene.finding(&place(&format!("finding {number}")), &about, decision, method)
    });
    std::iter::once(activity).chain(findings).collect()
}

struct Folding<'e> {
    scene: Scene<'e>,
    steps: Steps<'e, Tool<'e>>,
    /// The number of the event up to which everything was reported.
    told: u64,
    events: Vec<Event>,
}

/// A step, as far as it is a tool's.
struct Tool<'e> {
    began: Timestamp,
    /// True when it sends requests itself.
    is_tool: bool,
    execution_id: Option<Uuid>,
    decisions: Vec<&'e Decision>,
    sent: Option<Sent<'e>>,
    status: Option<u16>,
    has_ended: bool,
}

/// A request.
#[derive(Clone, Copy)]
struct Sent<'e> {
    attempt: u32,
    method: &'e str,
    url: &'e str,
    upstream: Option<&'e str>,
    digest: &'e a2s::Digest,
}

impl<'e> Folding<'e> {
    fn apply(&mut self, event: &'e api::Event) {
        match &event.kind {
            EventKind::StepStarted { step, kind, capability } if !self.steps.contains(step) => {
                let tool = Tool {
                    began: event.at,
                    is_tool: kind == "task",
                    execution_id: None,
                    decisions: Vec::new(),
                    sent: None,
                    status: None,
                    has_ended: false,
                };
                self.steps.begin(step, capability.as_ref(), tool);
            }
            EventKind::ItemsTaken { step, .. } => {
                if let Some(tool) = self.steps.get_mut(step) {
                    // Its iterations are.
                    tool.is_tool = false;
                }
            }
            EventKind::Decided { step, execution_id, decision } => {
                if let Some(tool) = self.steps.get_mut(step) {
                    tool.execution_id = Some(*execution_id);
                    tool.decisions.push(decision);
                }
                if self.told < event.seq {
                    let about = self.about(step, event.at, Some(*execution_id));
                    let moment = self.moment(event);
                    let method = method_in_run(decision.phase);
                    let finding = self.scene.finding(&moment, &about, decision, method);
                    self.events.extend(finding);
                }
            }
            EventKind::Sending {
                step,
                execution_id,
                attempt,
                method,
                url,
                upstream,
                request_digest,
                ..
            } => {
                if let Some(tool) = self.steps.get_mut(step) {
                    tool.execution_id = Some(*execution_id);
                    tool.sent = Some(Sent {
                        attempt: *attempt,
                        method,
                        url,
                        upstream: upstream.as_deref(),
                        digest: request_digest,
                    });
                    tool.status = None;
                }
            }
            EventKind::Received { step, status, .. } => {
                if let Some(tool) = self.steps.get_mut(step) {
                    tool.status = Some(*status);
                }
            }
            EventKind::StepFinished { step, .. } => self.end(step, event, Status::Success, None),
            EventKind::StepFailed { step, error, .. } => {
                self.end(step, event, Status::Failure, Some(error));
            }
            EventKind::StepResolved { step, decision, .. } => match decision {
                StepResolution::Repeat => {}
                StepResolution::Skip => self.end(step, event, Status::Other("Skipped"), None),
                StepResolution::Set => {
                    self.end(step, event, Status::Other("Set by a person"), None)
                }
            },
            EventKind::RunFinished { .. } => {
                // Something may have been sent, or denied, all the same.
                let has_begun = |tool: &Tool<'_>| !tool.decisions.is_empty() || tool.sent.is_some();
                let left = self.steps.iter().filter(|(_, tool)| !tool.has_ended && has_begun(tool));
                let left: Vec<_> = left.map(|(path, _)| path).collect();
                for step in left {
                    self.end(step, event, Status::Other("Stopped"), None);
                }
            }
            EventKind::RunStarted(_)
            | EventKind::RunQueued {}
            | EventKind::RunResumed {}
            | EventKind::StepStarted { .. }
            | EventKind::BranchTaken { .. }
            | EventKind::Throttled { .. }
            | EventKind::Requesting { .. }
            | EventKind::TokenRequested { .. }
            | EventKind::SessionOpened { .. }
            | EventKind::Warned { .. }
            | EventKind::Retrying { .. }
            | EventKind::StepSkipped { .. }
            | EventKind::ErrorHandled { .. }
            | EventKind::ApprovalRequested { .. }
            | EventKind::RunWaiting { .. } => {}
        }
    }

    /// A step ended.
    fn end(
        &mut self,
        step: &'e str,
        event: &'e api::Event,
        status: Status,
        error: Option<&'e RunError>,
    ) {
        let Some(tool) = self.steps.get_mut(step) else { return };
        if std::mem::replace(&mut tool.has_ended, true) || !tool.is_tool || event.seq <= self.told {
            return;
        }
        let (sent, code) = (tool.sent, tool.status);
        let said = tool.decisions.iter().map(|said| spoken(said, method_in_run(said.phase)));
        let (said, execution_id) = (said.collect(), tool.execution_id);
        let about = self.about(step, event.at, execution_id);
        let moment = Moment {
            uid: self.scene.uid(&format!("step {step} {}", event.seq)),
            ..self.moment(event)
        };
        let mut told = self.scene.told(&moment, &about, Severity::Informational, said);
        told.status = status;
        told.status_code = error.map(|error| short(&error.code));
        told.status_detail = error.and_then(title);
        told.message = match (status, error) {
            (Status::Success, _) => format!("{} succeeded", about.operation),
            (Status::Failure, Some(error)) => {
                format!("{} failed: {}", about.operation, short(&error.code))
            }
            (Status::Failure, None) => format!("{} failed", about.operation),
            (Status::Other(how), _) => format!("{}: {}", about.operation, how.to_lowercase()),
        };
        told.aos.attempts = sent.map(|sent| sent.attempt);
        told.aos.request_digest = sent.map(|sent| sent.digest.to_string());
        let response = ApiResponse {
            code,
            error: told.status_code.clone(),
            error_message: told.status_detail,
        };
        let mut activity = self.scene.activity(&about, response);
        activity.http_request = sent.map(|sent| HttpRequest {
            http_method: short(sent.method),
            url: Url::parse(sent.url).ok().map(|url| http_url(&url)),
        });
        activity.http_response = code.map(|code| HttpResponse { code });
        let kind = activity_of(sent.map(|sent| sent.method));
        self.events.push(Event::activity(kind, activity, told));
    }

    fn moment(&self, event: &api::Event) -> Moment {
        let uid = self.scene.uid(&format!("event {}", event.seq));
        Moment { at: event.at, seq: Some(event.seq), uid }
    }

    /// The subject of an event about a step at this time.
    fn about(&self, step: &'e str, at: Timestamp, execution_id: Option<Uuid>) -> About<'e> {
        let document = self.steps.document_of(step);
        let tool = self.steps.get(step);
        let operation = tool_id(&document.name, step);
        let sent = tool.and_then(|tool| tool.sent);
        let began = tool.map_or(at, |tool| tool.began);
        About {
            tool: Some(operation.clone()),
            operation,
            document: Some(document),
            step,
            execution_id,
            span: Some((self.scene.trace.step(step), began, at.max(began))),
            destination: sent.and_then(|sent| destination(sent.url, sent.upstream)),
        }
    }
}

/// The activity of an HTTP method, as far as the method determines it. `POST` may do anything.
fn activity_of(method: Option<&str>) -> Activity {
    match method {
        Some("GET" | "HEAD" | "OPTIONS" | "TRACE" | "QUERY") => Activity::Read,
        Some("PUT" | "PATCH") => Activity::Update,
        Some("DELETE") => Activity::Delete,
        _ => Activity::Other("Tool Call"),
    }
}

/// The title of the code of an error.
fn title(error: &RunError) -> Option<&'static str> {
    Kind::of_code(&error.code).map(|kind| kind.code().title)
}

fn destination(url: &str, upstream: Option<&str>) -> Option<Destination> {
    let url = Url::parse(url).ok()?;
    let upstream = upstream.and_then(|upstream| Url::parse(upstream).ok());
    Some(Destination {
        hostname: short(url.host_str()?),
        port: url.port_or_known_default(),
        proxy_endpoint: upstream.and_then(|upstream| {
            let port = upstream.port_or_known_default();
            Some(Proxy { hostname: short(upstream.host_str()?), port })
        }),
    })
}

fn http_url(url: &Url) -> HttpUrl {
    HttpUrl {
        scheme: url.scheme().to_owned(),
        hostname: short(url.host_str().unwrap_or_default()),
        port: url.port_or_known_default(),
        path: short(url.path()),
    }
}

#[cfg(test)]
mod tests;
