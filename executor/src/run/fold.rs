//! What events tell: the state of a run, and where to go on with it. Pure.

use std::collections::BTreeMap;

use a2s::api::{Event, EventKind, Pin, Run, RunError, RunStatus, StepSummary};
use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::error::Kind;

/// The run that `events` tell of, from the first one on. Gaps in the middle lose steps and
/// nothing else. `None` when there is no beginning.
pub(crate) fn fold(events: &[Event]) -> Option<Run> {
    let (first, rest) = events.split_first()?;
    let EventKind::RunStarted { capability, .. } = &first.kind else { return None };
    let run = Run {
        id: first.run,
        status: RunStatus::Running,
        name: capability.name.clone(),
        version: capability.version.clone(),
        checksum: capability.checksum,
        started_at: first.at,
        finished_at: None,
        output: None,
        error: None,
        steps: Vec::new(),
    };
    let mut folding = Folding { run, places: BTreeMap::new() };
    rest.iter().for_each(|event| folding.apply(event));
    Some(folding.run)
}

struct Folding<'e> {
    run: Run,
    /// Where each step stands in `run.steps`, by path.
    places: BTreeMap<&'e str, usize>,
}

impl<'e> Folding<'e> {
    fn step(&mut self, path: &'e str) -> &mut StepSummary {
        let steps = &mut self.run.steps;
        let place = *self.places.entry(path).or_insert(steps.len());
        if place == steps.len() {
            steps.push(StepSummary {
                step: path.to_owned(),
                status: "running".to_owned(),
                attempts: 0,
                decisions: Vec::new(),
                duration_ms: None,
            });
        }
        &mut steps[place]
    }

    fn set_status(&mut self, path: &'e str, status: &str) {
        status.clone_into(&mut self.step(path).status);
    }

    fn apply(&mut self, event: &'e Event) {
        match &event.kind {
            EventKind::RunStarted { .. }
            | EventKind::BranchTaken { .. }
            | EventKind::Received { .. }
            | EventKind::Retrying { .. } => {}
            EventKind::RunResumed {} => {
                self.run.status = RunStatus::Running;
                self.run.error = None;
            }
            EventKind::StepStarted { step, .. } => self.set_status(step, "running"),
            EventKind::Decided { step, decision, .. } => {
                self.step(step).decisions.push(decision.clone());
            }
            EventKind::Sending { step, attempt, .. } => self.step(step).attempts = *attempt,
            EventKind::StepFinished { step, duration_ms, .. } => {
                self.set_status(step, "succeeded");
                self.step(step).duration_ms = Some(*duration_ms);
            }
            EventKind::StepSkipped { step, .. } => self.set_status(step, "skipped"),
            EventKind::StepFailed { step, error, duration_ms } => {
                self.set_status(step, failed_status(error));
                self.step(step).duration_ms = Some(*duration_ms);
            }
            EventKind::RunWaiting { error } => {
                if let Some(step) = &error.step
                    && self.places.contains_key(step.as_str())
                {
                    self.set_status(step, "waiting");
                }
                self.run.status = RunStatus::Waiting;
                self.run.error = Some(error.clone());
            }
            EventKind::RunFinished { status, output, error, .. } => {
                // What was still under way will never tell how it ended.
                for step in &mut self.run.steps {
                    if matches!(step.status.as_str(), "running" | "waiting") {
                        "cancelled".clone_into(&mut step.status);
                    }
                }
                self.run.status = *status;
                self.run.output.clone_from(output);
                self.run.error.clone_from(error);
                self.run.finished_at = Some(event.at);
            }
        }
    }
}

/// The status of a step that ended so.
pub(crate) fn failed_status(error: &RunError) -> &'static str {
    match Kind::of_code(&error.code) {
        Some(Kind::Cancelled) => "cancelled",
        Some(kind) if kind.is_denial() => "denied",
        _ => "failed",
    }
}

/// Where to go on with a run.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// What is known about each step, by path.
    pub(crate) steps: BTreeMap<String, Recorded>,
    /// How the conditions came out, by path of the block.
    pub(crate) branches: BTreeMap<String, bool>,
    /// Number of the last event.
    pub(crate) last: u64,
}

/// How a run was started.
#[derive(Debug, Clone)]
pub(crate) struct Start {
    /// The capability that runs.
    pub(crate) capability: Pin,
    /// All capabilities that it uses.
    pub(crate) dependencies: Vec<Pin>,
    /// The inputs.
    pub(crate) inputs: Map<String, Value>,
    /// The session.
    pub(crate) session: String,
    /// When.
    pub(crate) at: Timestamp,
}

/// What is known about a step.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    /// When it began.
    pub(crate) started_at: Option<Timestamp>,
    /// What it set, when it finished.
    pub(crate) outputs: Option<Map<String, Value>>,
    /// Why it failed, when it did.
    pub(crate) error: Option<RunError>,
    /// Whether it was skipped.
    pub(crate) skipped: bool,
    /// Requests that were sent.
    pub(crate) attempts: u32,
    /// Whether a request was sent whose effect is not known: by its attempt, whether repeating it
    /// is safe.
    pub(crate) in_doubt: Option<Doubt>,
    /// Requests that may have changed something.
    pub(crate) effects: usize,
}

/// A request whose outcome is not recorded.
#[derive(Debug, Clone)]
pub(crate) struct Doubt {
    /// Its attempt.
    pub(crate) attempt: u32,
    /// `GET`, `POST`, …
    pub(crate) method: String,
    /// Its address.
    pub(crate) url: String,
    /// Whether repeating it is safe.
    pub(crate) repeat_safe: bool,
}

impl Start {
    /// How the run of these events was started.
    pub(crate) fn of(events: &[Event]) -> Option<Self> {
        let first = events.first()?;
        let EventKind::RunStarted { capability, dependencies, inputs, session, .. } = &first.kind
        else {
            return None;
        };
        Some(Self {
            capability: capability.clone(),
            dependencies: dependencies.clone(),
            inputs: inputs.clone(),
            session: session.clone(),
            at: first.at,
        })
    }
}

impl Progress {
    /// How far the run of these events has come.
    pub(crate) fn of(events: &[Event]) -> Self {
        let mut progress = Self::default();
        for event in events {
            progress.last = event.seq;
            progress.apply(event);
        }
        progress
    }

    /// Requests of the whole run that may have changed something.
    pub(crate) fn effects(&self) -> usize {
        self.steps.values().map(|step| step.effects).sum()
    }

    fn step(&mut self, path: &str) -> &mut Recorded {
        self.steps.entry(path.to_owned()).or_default()
    }

    fn apply(&mut self, event: &Event) {
        match &event.kind {
            EventKind::RunStarted { .. }
            | EventKind::RunResumed {}
            | EventKind::Decided { .. }
            | EventKind::Received { .. }
            | EventKind::RunWaiting { .. }
            | EventKind::RunFinished { .. } => {}
            EventKind::StepStarted { step: path, .. } => {
                self.step(path).started_at.get_or_insert(event.at);
            }
            EventKind::BranchTaken { step: path, value } => {
                self.branches.insert(path.clone(), *value);
            }
            EventKind::Sending { step: path, attempt, method, url, repeat_safe, .. } => {
                let step = self.step(path);
                step.attempts = *attempt;
                step.effects += usize::from(!repeat_safe);
                step.in_doubt = Some(Doubt {
                    attempt: *attempt,
                    method: method.clone(),
                    url: url.clone(),
                    repeat_safe: *repeat_safe,
                });
            }
            EventKind::Retrying { step: path, .. } => self.step(path).settle(true),
            EventKind::StepFinished { step: path, outputs, .. } => {
                let step = self.step(path);
                step.settle(false);
                step.outputs = Some(outputs.clone());
            }
            EventKind::StepSkipped { step: path, .. } => self.step(path).skipped = true,
            EventKind::StepFailed { step: path, error, .. } => {
                let step = self.step(path);
                // Safe for the whole run means: surely nothing came of this request either.
                step.settle(error.repeat_safe);
                step.error = Some(error.clone());
            }
        }
    }
}

impl Recorded {
    /// The last request is in doubt no more. One that would not be safe to repeat is repeated
    /// only when surely nothing was sent: then it had no effect.
    fn settle(&mut self, unsent: bool) {
        if let Some(doubt) = self.in_doubt.take()
            && unsent
            && !doubt.repeat_safe
        {
            self.effects -= 1;
        }
    }
}

#[cfg(test)]
mod tests;
