//! The progress of a run, folded from its events: the facts with which an executor continues it. Pure.

use std::collections::BTreeMap;

use a2s_api::{
    CapabilityRef, EventKind, RunError, RunEvent, RunStarted, StepResolution, TraceContext,
    path_of_loop,
};
use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::journal::wait_point::{WaitPoint, WaitPoints};

/// The progress of a run, from which it continues.
#[derive(Debug, Default)]
pub(crate) struct RunProgress {
    /// The known facts about each step, by path.
    pub(crate) steps: BTreeMap<String, RecordedStep>,
    /// The results of the conditions, by path of the block.
    pub(crate) branches: BTreeMap<String, bool>,
}

/// The start of a run.
#[derive(Debug, Clone)]
pub(crate) struct RunHeader {
    /// The capability that runs.
    pub(crate) capability: CapabilityRef,
    /// All capabilities that it uses.
    pub(crate) dependencies: Vec<CapabilityRef>,
    /// The inputs.
    pub(crate) inputs: Map<String, Value>,
    /// The names of the secret inputs. In events, these inputs have lost their values.
    pub(crate) secrets: Vec<String>,
    /// The session.
    pub(crate) session: String,
    /// The time of the start.
    pub(crate) at: Timestamp,
    /// The words of the search that led to it.
    pub(crate) intent: Option<String>,
    /// The trace of its caller.
    pub(crate) trace: Option<Box<TraceContext>>,
}

/// The known facts about a step.
#[derive(Debug, Default)]
pub(crate) struct RecordedStep {
    /// The time at which it began.
    pub(crate) started_at: Option<Timestamp>,
    /// True when it is a task or a capability.
    is_work: bool,
    /// The number of its items, when it runs over a list.
    pub(crate) items: Option<usize>,
    /// The outputs that it set, when it finished.
    pub(crate) outputs: Option<Map<String, Value>>,
    /// The error with which it failed, if it did.
    pub(crate) error: Option<RunError>,
    /// True when its failure was handled.
    pub(crate) handled: bool,
    /// True when it was skipped.
    pub(crate) skipped: bool,
    /// The number of requests that were sent.
    pub(crate) attempts: u32,
    /// Set when a request was sent and its effect is not known, with its attempt and whether repeating it
    /// is safe.
    pub(crate) unconfirmed: Option<UnconfirmedRequest>,
    /// The number of requests that may have changed something.
    pub(crate) effects: usize,
    /// True when it waits for an approval after it has sent something.
    waits_after_sending: bool,
    /// The location at which it then continues, with the number of the event with which it is sealed.
    pub(crate) wait_point: Option<(u64, WaitPoint)>,
}

/// A request without a recorded outcome.
#[derive(Debug, Clone)]
pub(crate) struct UnconfirmedRequest {
    /// The number of the attempt.
    pub(crate) attempt: u32,
    /// `GET`, `POST`, …
    pub(crate) method: String,
    /// Its address.
    pub(crate) url: String,
    /// True when repeating it is safe.
    pub(crate) repeat_safe: bool,
}

impl RunHeader {
    /// The start of the run of these events.
    pub(crate) fn from_events(events: &[RunEvent]) -> Option<Self> {
        let first = events.first()?;
        let EventKind::RunStarted(started) = &first.kind else { return None };
        let RunStarted {
            capability, dependencies, inputs, secrets, session, intent, trace, ..
        } = &**started;
        Some(Self {
            capability: capability.clone(),
            dependencies: dependencies.clone(),
            inputs: inputs.clone(),
            secrets: secrets.clone(),
            session: session.clone(),
            at: first.at,
            intent: intent.clone(),
            trace: trace.clone(),
        })
    }
}

impl RunProgress {
    /// The progress of the run of these events.
    pub(crate) fn from_events(events: &[RunEvent]) -> Self {
        let mut progress = Self::default();
        for event in events {
            progress.apply(event);
        }
        progress
    }

    /// The same, with the known wait points of steps. A step with a lost wait point is in doubt: its
    /// requests are not sent again.
    pub(crate) fn with_wait_points(events: &[RunEvent], mut wait_points: WaitPoints) -> Self {
        let mut progress = Self::default();
        for event in events {
            let EventKind::ApprovalRequested { step: path, about, .. } = &event.kind else {
                progress.apply(event);
                continue;
            };
            let found = wait_points.remove(&event.seq);
            let is_known = found.is_some()
                || !about.is_after_sending()
                || progress.steps.get(path).is_some_and(|step| step.wait_point.is_some());
            if is_known {
                progress.apply(event);
                let step = progress.step(path);
                // Asked for once more, it goes on at the same place.
                step.wait_point =
                    found.map(|point| (event.seq, point)).or_else(|| step.wait_point.take());
            }
        }
        progress
    }

    /// The events with which the wait points of steps are sealed, by step.
    pub(crate) fn wait_point_events(&self) -> BTreeMap<String, u64> {
        let steps = self.steps.iter();
        steps.filter_map(|(path, step)| Some((path.clone(), step.wait_point.as_ref()?.0))).collect()
    }

    /// Returns the number of requests of the whole run that may have changed something.
    pub(crate) fn count_effects(&self) -> usize {
        self.steps.values().map(|step| step.effects).sum()
    }

    /// Returns the number of begun steps that count: tasks, capabilities, and all iterations.
    pub(crate) fn count_begun(&self) -> usize {
        let counts = |(path, step): &(&String, &RecordedStep)| {
            step.started_at.is_some()
                && step.items.is_none()
                && (step.is_work || path_of_loop(path).is_some())
        };
        self.steps.iter().filter(counts).count()
    }

    /// Tasks that have begun and have no recorded end.
    pub(crate) fn unfinished_tasks(&self) -> impl Iterator<Item = &str> {
        let open = |(_, step): &(&String, &RecordedStep)| {
            let has_ended = step.outputs.is_some() || step.error.is_some() || step.skipped;
            step.is_work && !has_ended
        };
        self.steps.iter().filter(open).map(|(path, _)| path.as_str())
    }

    /// Requests with an unknown outcome that are not safe to repeat, by step.
    pub(crate) fn unconfirmed_requests(&self) -> impl Iterator<Item = (&str, &UnconfirmedRequest)> {
        let doubts = self.steps.iter();
        let doubts =
            doubts.filter_map(|(path, step)| Some((path.as_str(), step.unconfirmed.as_ref()?)));
        doubts.filter(|(_, doubt)| !doubt.repeat_safe)
    }

    fn step(&mut self, path: &str) -> &mut RecordedStep {
        self.steps.entry(path.to_owned()).or_default()
    }

    fn apply(&mut self, event: &RunEvent) {
        match &event.kind {
            EventKind::RunStarted(_)
            | EventKind::RunQueued {}
            | EventKind::RunResumed {}
            | EventKind::Decided { .. }
            | EventKind::Throttled { .. }
            | EventKind::Requesting { .. }
            | EventKind::TokenRequested { .. }
            | EventKind::SessionOpened { .. }
            | EventKind::Received { .. }
            | EventKind::Warned { .. }
            | EventKind::RunWaiting { .. }
            | EventKind::RunFinished { .. } => {}
            EventKind::BranchTaken { step: path, value } => {
                self.branches.insert(path.clone(), *value);
            }
            EventKind::StepStarted { step: path, kind, .. } => {
                self.step(path).record_start(event.at, kind);
            }
            EventKind::ItemsTaken { step: path, items } => self.step(path).items = Some(*items),
            EventKind::Sending {
                step: path, attempt, method, url, repeat_safe, redirect, ..
            } => {
                let request = UnconfirmedRequest {
                    attempt: *attempt,
                    method: method.clone(),
                    url: url.clone(),
                    repeat_safe: *repeat_safe,
                };
                self.step(path).record_request(request, redirect.is_some());
            }
            EventKind::Retrying { step: path, .. } => self.step(path).leave_request(true),
            EventKind::ApprovalRequested { step: path, about, .. } => {
                self.step(path).wait_for_approval(about.is_after_sending());
            }
            EventKind::StepFinished { step: path, outputs, .. } => {
                let step = self.step(path);
                step.leave_request(false);
                step.outputs = Some(outputs.clone());
            }
            EventKind::StepResolved { step: path, decision, outputs, .. } => {
                let step = self.step(path);
                step.leave_request(false);
                match decision {
                    StepResolution::Repeat => {}
                    StepResolution::Skip => step.outputs = Some(Map::new()),
                    StepResolution::Set => step.outputs = Some(outputs.clone()),
                }
            }
            EventKind::StepSkipped { step: path, .. } => self.step(path).skipped = true,
            EventKind::StepFailed { step: path, error, .. } => {
                let step = self.step(path);
                // Safe for the whole run means: surely nothing came of this request either.
                step.leave_request(error.repeat_safe);
                step.error = Some(error.clone());
            }
            EventKind::ErrorHandled { step: path, .. } => self.step(path).handled = true,
        }
    }
}

impl RecordedStep {
    /// Notes the beginning. A step that begins again keeps its first one.
    fn record_start(&mut self, at: Timestamp, kind: &str) {
        self.started_at.get_or_insert(at);
        self.is_work = matches!(kind, "task" | "capability");
    }

    /// Notes that a request is sent, possibly after a redirect.
    fn record_request(&mut self, mut request: UnconfirmedRequest, is_redirect: bool) {
        self.attempts = request.attempt;
        // A redirect is followed only if its request is safe to repeat: the step continues at the
        // redirect where it has waited, and the earlier requests are not repeated.
        request.repeat_safe |= self.waits_after_sending && is_redirect;
        if !is_redirect {
            self.leave_wait_point();
        }
        self.effects += usize::from(!request.repeat_safe);
        self.unconfirmed = Some(request);
    }

    /// Notes that the step waits for an approval, of a request that is not sent yet or of what has come of
    /// one.
    fn wait_for_approval(&mut self, is_after_sending: bool) {
        if is_after_sending {
            self.settle_request(false);
            self.waits_after_sending = true;
        } else {
            self.leave_wait_point();
        }
    }

    /// Notes that the step is done with its last request.
    fn leave_request(&mut self, unsent: bool) {
        self.settle_request(unsent);
        self.leave_wait_point();
    }

    /// Marks the outcome of the last request as no longer in doubt. A request that is not safe to repeat is
    /// repeated only when it was certainly not sent; then it had no effect.
    fn settle_request(&mut self, unsent: bool) {
        if let Some(doubt) = self.unconfirmed.take()
            && unsent
            && !doubt.repeat_safe
        {
            self.effects -= 1;
        }
    }

    /// Removes the wait point: the step continues after it, or begins again.
    fn leave_wait_point(&mut self) {
        (self.waits_after_sending, self.wait_point) = (false, None);
    }
}
