//! One step: its beginning and end in the journal, its time, and what happens when it fails.

use std::future::Future;

use a2s::api::{CapabilityRef, ErrorHandlerKind, EventKind, RunError};
use a2s::{Action, OnError, Step};
use futures::future::BoxFuture;
use serde_json::{Map, Value, json};

use super::{Engine, Halt, Outputs, Stop, Why};
use crate::clock::milliseconds_between;
use crate::error::{Error, Kind};
use crate::journal::run_state::{Recorded, failed_status};
use crate::plan::{Unit, join};
use crate::scope::Scope;

/// A step as the journal knows it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame<'a> {
    /// Its path.
    pub(super) path: &'a str,
    /// `task`, `capability`, `sequence`, …, as events tell it.
    pub(super) kind: &'static str,
    /// The same for metrics: a step that only has iterations does no work of its own.
    pub(super) label: &'static str,
    /// Whether it counts towards the steps of the run.
    pub(super) counts: bool,
    /// The capability that it uses, if it uses one.
    pub(super) uses: Option<&'a CapabilityRef>,
}

impl<'r> Engine<'r> {
    /// Runs a step, unless its end is recorded. Boxed, because steps contain steps.
    pub(super) fn run_step<'a>(
        &'a self,
        unit: &'r Unit,
        around: &'a str,
        step: &'r Step,
        scope: &'a mut Scope<'r>,
        halt: &'a Halt,
    ) -> BoxFuture<'a, Result<(), Stop>> {
        Box::pin(async move {
            let path = join(around, step.id.as_str());
            match &step.control.for_each {
                Some(for_each) => {
                    Box::pin(self.run_each(unit, &path, step, for_each, scope, halt)).await
                }
                None => {
                    let counts = !matches!(step.action, Action::Block(_));
                    self.run_once(unit, &path, step, counts, scope, halt).await
                }
            }
        })
    }

    /// Runs a step that has no iterations, or one iteration, and handles its failure.
    pub(super) async fn run_once(
        &self,
        unit: &'r Unit,
        path: &str,
        step: &'r Step,
        counts: bool,
        scope: &mut Scope<'r>,
        halt: &Halt,
    ) -> Result<(), Stop> {
        match self.attempt(unit, path, step, counts, scope, halt).await {
            Err(Stop::Failed(error)) if is_catchable(&error) => {
                self.handle(unit, path, step, error, scope, halt).await
            }
            ended => ended,
        }
    }

    async fn attempt(
        &self,
        unit: &'r Unit,
        path: &str,
        step: &'r Step,
        counts: bool,
        scope: &mut Scope<'r>,
        halt: &Halt,
    ) -> Result<(), Stop> {
        if let Some(outputs) = self.recall_outputs(path)? {
            scope.restore(step.action.outputs(), outputs);
            return match &step.action {
                // What the steps of a block set is recorded with them.
                Action::Block(block) => {
                    Box::pin(self.run_child_block(unit, path, step, block, scope, halt)).await
                }
                Action::Task { .. } | Action::Capability { .. } => Ok(()),
            };
        }
        let kind = step.action.kind();
        let frame = Frame { path, kind, label: kind, counts, uses: used_by(step, unit) };
        let values = self.record(frame, halt, self.act_in_time(unit, path, step, scope, halt));
        let values = values.await?;
        values.into_iter().for_each(|(output, value)| scope.set(output, value));
        Ok(())
    }

    /// Does what a step is for, in the time that it may take.
    async fn act_in_time(
        &self,
        unit: &'r Unit,
        path: &str,
        step: &'r Step,
        scope: &mut Scope<'r>,
        halt: &Halt,
    ) -> Result<Outputs<'r>, Stop> {
        let Some(timeout) = step.control.timeout else {
            return self.act(unit, path, step, scope, halt).await;
        };
        let part = halt.child_within(timeout);
        let mut act = std::pin::pin!(self.act(unit, path, step, scope, &part));
        let ended = tokio::select! {
            ended = &mut act => ended,
            () = tokio::time::sleep(timeout) => {
                part.stop(Why::Late);
                // It ends as soon as it may. What has its result in spite of all keeps it.
                act.await
            }
        };
        match (ended, halt.why()) {
            (Err(Stop::Halted(_)), Some(why)) => Err(Stop::Halted(why)),
            (Err(Stop::Halted(Why::Late)), None) => {
                let message = format!("the step took longer than its `timeout` of {timeout:?}");
                Err(self.failed(path, Error::new(Kind::StepTimeout, message)))
            }
            (ended, _) => ended,
        }
    }

    /// Goes on behind a failure, as far as the document says so.
    async fn handle(
        &self,
        unit: &'r Unit,
        path: &str,
        step: &'r Step,
        error: RunError,
        scope: &mut Scope<'r>,
        halt: &Halt,
    ) -> Result<(), Stop> {
        match &step.control.on_error {
            OnError::Stop => Err(Stop::Failed(error)),
            OnError::Continue => {
                self.note_handled(path, ErrorHandlerKind::Continue);
                Ok(())
            }
            OnError::Catch { name, steps } => {
                let RunError { code, message, step, status, .. } = error;
                let error =
                    json!({"code": code, "message": message, "step": step, "status": status});
                let mut inner = scope.snapshot();
                inner.set_local(name, error);
                self.run_sequence(unit, path, steps, &mut inner, halt).await?;
                self.note_handled(path, ErrorHandlerKind::Catch);
                scope.merge(&inner);
                Ok(())
            }
        }
    }

    /// The outputs of a step whose end is recorded; nothing when it is still to be run.
    ///
    /// # Errors
    /// Why it cannot be run again.
    pub(super) fn recall_outputs(
        &self,
        path: &str,
    ) -> Result<Option<&'r Map<String, Value>>, Stop> {
        let Some(recorded) = self.progress.steps.get(path) else { return Ok(None) };
        match (&recorded.outputs, recall_stop(path, recorded)) {
            (Some(outputs), _) => {
                let kept = self.budget.keep(outputs);
                kept.map(|()| Some(outputs)).map_err(|error| self.failed(path, error))
            }
            (None, Some(stop)) => Err(stop),
            (None, None) => Ok(None),
        }
    }

    /// Records the beginning and the end of `work`. What it set may be read once this returns, not
    /// before.
    pub(super) async fn record(
        &self,
        frame: Frame<'_>,
        halt: &Halt,
        work: impl Future<Output = Result<Outputs<'r>, Stop>>,
    ) -> Result<Outputs<'r>, Stop> {
        let Frame { path, kind, counts, uses, .. } = frame;
        let started = self.progress.steps.get(path).and_then(|recorded| recorded.started_at);
        if let Some(why) = halt.why() {
            if why == Why::Sibling && started.is_none() {
                self.skip(path, Why::Sibling.words().to_owned());
            }
            return Err(Stop::Halted(why));
        }
        let mut begun = Ok(());
        if started.is_none() {
            let events = self.journal.last();
            let (step, kind) = (path.to_owned(), kind.to_owned());
            let capability = uses.cloned();
            self.journal.note(EventKind::StepStarted { step, kind, capability });
            begun = self.budget.check_events(events);
            if begun.is_ok() && counts {
                begun = self.budget.begin_step();
            }
        }
        let began = started.unwrap_or_else(|| self.clock.now());
        let ended = match begun {
            Ok(()) => work.await,
            Err(error) => Err(self.failed(path, error)),
        };
        let duration_ms = milliseconds_between(began, self.clock.now());
        self.record_end(frame, ended, duration_ms).await
    }

    async fn record_end(
        &self,
        frame: Frame<'_>,
        ended: Result<Outputs<'r>, Stop>,
        duration_ms: u64,
    ) -> Result<Outputs<'r>, Stop> {
        let Frame { path, label, .. } = frame;
        let ended = ended.and_then(|values| {
            let outputs = values.iter().map(|(o, value)| (o.dotted(), value.clone()));
            let outputs: Map<_, _> = outputs.collect();
            let kept = self.budget.keep(&outputs);
            kept.map(|()| (values, outputs)).map_err(|error| self.failed(path, error))
        });
        let step = path.to_owned();
        match ended {
            Ok((values, outputs)) => {
                self.metrics.step_ended(label, "succeeded", duration_ms);
                let event = EventKind::StepFinished { step, outputs, duration_ms };
                self.journal.commit(event).await.map_err(Stop::Broken)?;
                Ok(values)
            }
            Err(Stop::Failed(error)) => {
                self.metrics.step_ended(label, failed_status(&error), duration_ms);
                let failed = EventKind::StepFailed { step, error: error.clone(), duration_ms };
                self.journal.commit(failed).await.map_err(Stop::Broken)?;
                Err(Stop::Failed(error))
            }
            Err(Stop::Halted(why)) => {
                // A run that is left for later goes on with this step.
                if !matches!(why, Why::Suspended | Why::Lost) {
                    let kind = if why == Why::Late { Kind::StepTimeout } else { Kind::Cancelled };
                    let error = Error::new(kind, why.words());
                    let error = error.to_run_error(Some(path), None, self.is_repeat_safe());
                    self.metrics.step_ended(label, failed_status(&error), duration_ms);
                    self.journal.note(EventKind::StepFailed { step, error, duration_ms });
                }
                Err(Stop::Halted(why))
            }
            Err(stop @ (Stop::Waiting(_) | Stop::Broken(_))) => Err(stop),
        }
    }

    pub(super) fn skip(&self, path: &str, reason: String) {
        if !self.progress.steps.get(path).is_some_and(|recorded| recorded.skipped) {
            self.journal.note(EventKind::StepSkipped { step: path.to_owned(), reason });
        }
    }

    pub(super) fn note_handled(&self, path: &str, by: ErrorHandlerKind) {
        if !self.progress.steps.get(path).is_some_and(|recorded| recorded.handled) {
            self.journal.note(EventKind::ErrorHandled { step: path.to_owned(), handler: by });
        }
    }
}

/// The capability that a step of `unit` uses, if it uses one.
pub(super) fn used_by<'r>(step: &Step, unit: &'r Unit) -> Option<&'r CapabilityRef> {
    let Action::Capability { capability, .. } = &step.action else { return None };
    unit.uses.get(capability).map(|used| &used.pin)
}

/// Whether a document may go on behind a failure.
pub(super) fn is_catchable(error: &RunError) -> bool {
    Kind::of_code(&error.code).is_none_or(Kind::is_catchable)
}

/// Why a step whose record has no outputs cannot be run again.
fn recall_stop(path: &str, recorded: &Recorded) -> Option<Stop> {
    if let Some(error) = &recorded.error {
        return Some(Stop::Failed(error.clone()));
    }
    let doubt = recorded.in_doubt.as_ref().filter(|doubt| !doubt.repeat_safe)?;
    let message = format!(
        "`{} {}` was sent, and the executor stopped before it recorded what came of it",
        doubt.method, doubt.url
    );
    let error = Error::new(Kind::UnknownOutcome, message);
    Some(Stop::Waiting(error.to_run_error(Some(path), Some(doubt.attempt), false)))
}
