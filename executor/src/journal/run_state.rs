//! The state of a run, folded from its events, and where to go on with it. Pure.

use std::collections::BTreeMap;
use std::ops::Bound;

use a2s_api::{
    CapabilityRef, EventKind, IterationSummary, Run, RunApproval, RunError, RunEvent, RunStarted,
    RunStatus, StepResolution, StepSummary, TraceContext, path_of_loop,
};
use jiff::Timestamp;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::wait_point::{WaitPoint, WaitPoints};
use crate::error::ErrorKind;

/// The run that `events` describe, from the first one on. Gaps in the middle only lose steps. `None` when
/// the first event is missing.
pub(crate) fn fold_events(events: &[RunEvent]) -> Option<Run> {
    RunState::from_events(events).map(RunState::into_run)
}

/// The maximum number of failed iterations of a step that are listed.
const MAX_LISTED: usize = 20;
/// The maximum number of approvals that are listed.
const MAX_APPROVALS: usize = 100;

/// The state of a run, updated with one event after the other.
#[derive(Debug)]
pub(crate) struct RunState {
    run: Run,
    /// The number of the last event.
    last: u64,
    /// The steps in the order of their start; `None` where a step was removed.
    steps: Vec<Option<StepSummary>>,
    /// The index of each step in `steps`, by path.
    step_positions: BTreeMap<String, usize>,
}

impl RunState {
    /// The state after `events`. `None` when the first event is missing.
    pub(crate) fn from_events(events: &[RunEvent]) -> Option<Self> {
        let (first, rest) = events.split_first()?;
        let EventKind::RunStarted(started) = &first.kind else { return None };
        let RunStarted { capability, plan, .. } = &**started;
        let run = Run {
            id: first.run,
            status: RunStatus::Running,
            name: capability.name.clone(),
            version: capability.version.clone(),
            checksum: capability.checksum,
            plan: *plan,
            // Events are for everybody who may run.
            tenant: None,
            started_at: first.at,
            finished_at: None,
            output: None,
            error: None,
            approvals: Vec::new(),
            steps: Vec::new(),
        };
        let mut state =
            Self { run, last: first.seq, steps: Vec::new(), step_positions: BTreeMap::new() };
        rest.iter().for_each(|event| state.apply(event));
        Some(state)
    }

    /// The id of the run.
    pub(crate) fn id(&self) -> Uuid {
        self.run.id
    }

    /// Returns the status of the run.
    pub(crate) fn status(&self) -> RunStatus {
        self.run.status
    }

    /// The number of the last event.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// The run.
    pub(crate) fn to_run(&self) -> Run {
        let steps = self.steps.iter().flatten().cloned().collect();
        Run { steps, ..self.run.clone() }
    }

    /// Returns the run after its last event.
    fn into_run(self) -> Run {
        Run { steps: self.steps.into_iter().flatten().collect(), ..self.run }
    }

    fn step(&mut self, path: &str) -> &mut StepSummary {
        let steps = &mut self.steps;
        let place = match self.step_positions.get(path) {
            Some(place) => *place,
            None => {
                self.step_positions.insert(path.to_owned(), steps.len());
                steps.push(None);
                steps.len() - 1
            }
        };
        steps[place].get_or_insert_with(|| StepSummary {
            step: path.to_owned(),
            status: "running".to_owned(),
            handled: None,
            iterations: None,
            attempts: 0,
            decisions: Vec::new(),
            warnings: Vec::new(),
            duration_ms: None,
        })
    }

    fn set_status(&mut self, path: &str, status: &str) {
        status.clone_into(&mut self.step(path).status);
    }

    fn iterations(&mut self, looping: &str) -> &mut IterationSummary {
        self.step(looping).iterations.get_or_insert_default()
    }

    /// Removes an iteration and the steps in it from the list. Their requests are counted for the step that
    /// has the iterations.
    fn remove_iteration(&mut self, looping: &str, iteration: &str) {
        let inside =
            self.step_positions.range::<str, _>((Bound::Included(iteration), Bound::Unbounded));
        let inside = inside.take_while(|(path, _)| path.starts_with(iteration));
        let inside: Vec<_> = inside.map(|(path, place)| (path.clone(), *place)).collect();
        for (path, place) in inside {
            self.step_positions.remove(&path);
            let taken = self.steps.get_mut(place).and_then(Option::take);
            self.step(looping).attempts += taken.map_or(0, |step| step.attempts);
        }
    }

    /// Notes that the run goes on. Steps that need an approval will request it again.
    fn go_on(&mut self, status: RunStatus) {
        self.run.status = status;
        self.run.error = None;
        self.run.approvals.clear();
    }

    /// Applies the next event.
    pub(crate) fn apply(&mut self, event: &RunEvent) {
        self.last = event.seq;
        match &event.kind {
            EventKind::RunStarted(_)
            | EventKind::BranchTaken { .. }
            | EventKind::Throttled { .. }
            | EventKind::Requesting { .. }
            | EventKind::TokenRequested { .. }
            | EventKind::SessionOpened { .. }
            | EventKind::Received { .. }
            | EventKind::Retrying { .. } => {}
            EventKind::RunQueued {} => self.go_on(RunStatus::Queued),
            EventKind::RunResumed {} => self.go_on(RunStatus::Running),
            EventKind::StepResolved { step, decision, .. } => {
                self.go_on(RunStatus::Running);
                self.set_status(
                    step,
                    match decision {
                        StepResolution::Repeat => "running",
                        StepResolution::Skip => "skipped",
                        StepResolution::Set => "succeeded",
                    },
                );
            }
            EventKind::StepStarted { step, .. } => self.set_status(step, "running"),
            EventKind::ItemsTaken { step, items } => self.iterations(step).total = *items,
            EventKind::Decided { step, decision, .. } => {
                self.step(step).decisions.push(decision.clone());
            }
            EventKind::Warned { step, warning } => {
                self.step(step).warnings.push(warning.clone());
            }
            EventKind::Sending { step, attempt, .. } => self.step(step).attempts = *attempt,
            EventKind::StepFinished { step, duration_ms, .. } => {
                if let Some(looping) = path_of_loop(step) {
                    self.iterations(looping).succeeded += 1;
                    self.remove_iteration(looping, step);
                } else {
                    self.set_status(step, "succeeded");
                    self.step(step).duration_ms = Some(*duration_ms);
                }
            }
            EventKind::StepSkipped { step, .. } => self.set_status(step, "skipped"),
            EventKind::StepFailed { step, error, duration_ms } => {
                self.set_status(step, failed_status(error));
                self.step(step).duration_ms = Some(*duration_ms);
                if let Some(looping) = path_of_loop(step) {
                    let iterations = self.iterations(looping);
                    iterations.failed += 1;
                    if iterations.failed > MAX_LISTED {
                        self.remove_iteration(looping, step);
                    }
                }
            }
            EventKind::ErrorHandled { step, handler: by } => {
                if self.step_positions.contains_key(step.as_str()) {
                    self.step(step).handled = Some(*by);
                } else if let Some(looping) = path_of_loop(step) {
                    // One too many to be listed; neither are the steps of its `catch`.
                    self.remove_iteration(looping, step);
                }
            }
            EventKind::ApprovalRequested { step, about, guardian, id, expires_at, .. } => {
                self.set_status(step, "waiting");
                let approvals = &mut self.run.approvals;
                approvals.retain(|known| known.step != *step);
                if approvals.len() < MAX_APPROVALS {
                    approvals.push(RunApproval {
                        step: step.clone(),
                        about: *about,
                        id: id.clone(),
                        guardian: guardian.clone(),
                        expires_at: *expires_at,
                    });
                }
            }
            EventKind::RunWaiting { error } => {
                if let Some(step) = &error.step
                    && self.step_positions.contains_key(step.as_str())
                {
                    self.set_status(step, "waiting");
                }
                self.run.status = RunStatus::Waiting;
                self.run.error = Some(error.clone());
            }
            EventKind::RunFinished { status, output, error, .. } => {
                // Steps that are still open will never report an end.
                for step in self.steps.iter_mut().flatten() {
                    if matches!(step.status.as_str(), "running" | "waiting") {
                        "cancelled".clone_into(&mut step.status);
                    }
                }
                self.run.status = *status;
                self.run.output.clone_from(output);
                self.run.error.clone_from(error);
                self.run.approvals.clear();
                self.run.finished_at = Some(event.at);
            }
        }
    }
}

/// Returns the status of a step that ended with this error.
pub(crate) fn failed_status(error: &RunError) -> &'static str {
    match ErrorKind::from_code(&error.code) {
        Some(ErrorKind::Cancelled) => "cancelled",
        Some(kind) if kind.is_denial() => "denied",
        _ => "failed",
    }
}

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
            EventKind::ApprovalRequested { step: path, about, .. } => {
                let step = self.step(path);
                if about.is_after_sending() {
                    step.settle_request(false);
                    step.waits_after_sending = true;
                } else {
                    step.leave_wait_point();
                }
            }
            EventKind::StepStarted { step: path, kind, .. } => {
                let step = self.step(path);
                step.started_at.get_or_insert(event.at);
                step.is_work = matches!(kind.as_str(), "task" | "capability");
            }
            EventKind::ItemsTaken { step: path, items } => {
                self.step(path).items = Some(*items);
            }
            EventKind::BranchTaken { step: path, value } => {
                self.branches.insert(path.clone(), *value);
            }
            EventKind::Sending {
                step: path, attempt, method, url, repeat_safe, redirect, ..
            } => {
                let step = self.step(path);
                step.attempts = *attempt;
                // A redirect is followed only if its request is safe to repeat: the step continues
                // at the redirect where it has waited, and the earlier requests are not repeated.
                let repeat_safe = *repeat_safe || (step.waits_after_sending && redirect.is_some());
                if redirect.is_none() {
                    step.leave_wait_point();
                }
                step.effects += usize::from(!repeat_safe);
                step.unconfirmed = Some(UnconfirmedRequest {
                    attempt: *attempt,
                    method: method.clone(),
                    url: url.clone(),
                    repeat_safe,
                });
            }
            EventKind::Retrying { step: path, .. } => {
                let step = self.step(path);
                step.settle_request(true);
                step.leave_wait_point();
            }
            EventKind::StepFinished { step: path, outputs, .. } => {
                let step = self.step(path);
                step.settle_request(false);
                step.leave_wait_point();
                step.outputs = Some(outputs.clone());
            }
            EventKind::StepResolved { step: path, decision, outputs, .. } => {
                let step = self.step(path);
                step.settle_request(false);
                step.leave_wait_point();
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
                step.settle_request(error.repeat_safe);
                step.leave_wait_point();
                step.error = Some(error.clone());
            }
            EventKind::ErrorHandled { step: path, .. } => self.step(path).handled = true,
        }
    }
}

impl RecordedStep {
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

#[cfg(test)]
pub(crate) mod tests;
