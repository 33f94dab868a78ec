//! The state of a run, folded from its events. Pure.

mod run_progress;

use std::collections::BTreeMap;
use std::ops::Bound;

use a2s_api::{
    ErrorHandlerKind, EventKind, IterationSummary, Run, RunApproval, RunError, RunEvent,
    RunStarted, RunStatus, StepResolution, StepSummary, path_of_loop,
};
use jiff::Timestamp;
use uuid::Uuid;

use crate::error::ErrorKind;
pub(crate) use run_progress::{RecordedStep, RunHeader, RunProgress};

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
            EventKind::StepResolved { step, decision, .. } => self.resolve_step(step, *decision),
            EventKind::StepStarted { step, .. } => self.set_status(step, "running"),
            EventKind::ItemsTaken { step, items } => self.iterations(step).total = *items,
            EventKind::Decided { step, decision, .. } => {
                self.step(step).decisions.push(decision.clone());
            }
            EventKind::Warned { step, warning } => self.step(step).warnings.push(warning.clone()),
            EventKind::Sending { step, attempt, .. } => self.step(step).attempts = *attempt,
            EventKind::StepFinished { step, duration_ms, .. } => {
                self.finish_step(step, *duration_ms);
            }
            EventKind::StepSkipped { step, .. } => self.set_status(step, "skipped"),
            EventKind::StepFailed { step, error, duration_ms } => {
                self.fail_step(step, error, *duration_ms);
            }
            EventKind::ErrorHandled { step, handler } => self.handle_failure(step, *handler),
            EventKind::ApprovalRequested { step, about, guardian, id, expires_at, .. } => {
                self.wait_for_approval(RunApproval {
                    step: step.clone(),
                    about: *about,
                    id: id.clone(),
                    guardian: guardian.clone(),
                    expires_at: *expires_at,
                });
            }
            EventKind::RunWaiting { error } => self.wait(error),
            EventKind::RunFinished { status, output, error, .. } => {
                self.run.status = *status;
                self.run.output.clone_from(output);
                self.run.error.clone_from(error);
                self.finish(event.at);
            }
        }
    }

    /// Notes that the run goes on. Steps that need an approval will request it again.
    fn go_on(&mut self, status: RunStatus) {
        self.run.status = status;
        self.run.error = None;
        self.run.approvals.clear();
    }

    /// Notes that the run waits for a person, at the step of `error` if it names one.
    fn wait(&mut self, error: &RunError) {
        if let Some(step) = &error.step
            && self.step_positions.contains_key(step.as_str())
        {
            self.set_status(step, "waiting");
        }
        self.run.status = RunStatus::Waiting;
        self.run.error = Some(error.clone());
    }

    /// Notes that the run is over. Steps that are still open will never report an end.
    fn finish(&mut self, at: Timestamp) {
        for step in self.steps.iter_mut().flatten() {
            if matches!(step.status.as_str(), "running" | "waiting") {
                "cancelled".clone_into(&mut step.status);
            }
        }
        self.run.approvals.clear();
        self.run.finished_at = Some(at);
    }

    /// Notes the decision of a person about a step, with which the run goes on.
    fn resolve_step(&mut self, path: &str, decision: StepResolution) {
        self.go_on(RunStatus::Running);
        let status = match decision {
            StepResolution::Repeat => "running",
            StepResolution::Skip => "skipped",
            StepResolution::Set => "succeeded",
        };
        self.set_status(path, status);
    }

    /// Notes the success of a step. Of an iteration, only the number of successes stays.
    fn finish_step(&mut self, path: &str, duration_ms: u64) {
        if let Some(looping) = path_of_loop(path) {
            self.iterations(looping).succeeded += 1;
            self.remove_iteration(looping, path);
        } else {
            self.set_status(path, "succeeded");
            self.step(path).duration_ms = Some(duration_ms);
        }
    }

    /// Notes the failure of a step. The first failed iterations stay in the list.
    fn fail_step(&mut self, path: &str, error: &RunError, duration_ms: u64) {
        self.set_status(path, failed_status(error));
        self.step(path).duration_ms = Some(duration_ms);
        if let Some(looping) = path_of_loop(path) {
            let iterations = self.iterations(looping);
            iterations.failed += 1;
            if iterations.failed > MAX_LISTED {
                self.remove_iteration(looping, path);
            }
        }
    }

    fn handle_failure(&mut self, path: &str, handler: ErrorHandlerKind) {
        if self.step_positions.contains_key(path) {
            self.step(path).handled = Some(handler);
        } else if let Some(looping) = path_of_loop(path) {
            // One too many to be listed; neither are the steps of its `catch`.
            self.remove_iteration(looping, path);
        }
    }

    /// Notes that a step waits for an approval, which replaces an earlier one of the same step.
    fn wait_for_approval(&mut self, approval: RunApproval) {
        self.set_status(&approval.step, "waiting");
        let approvals = &mut self.run.approvals;
        approvals.retain(|known| known.step != approval.step);
        if approvals.len() < MAX_APPROVALS {
            approvals.push(approval);
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

#[cfg(test)]
pub(crate) mod tests;
