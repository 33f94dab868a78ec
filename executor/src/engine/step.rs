//! One step: its beginning and end in the journal, its time, and what happens when it fails.

use std::future::Future;

use a2s::{OnError, Step};
use a2s_api::{CapabilityRef, ErrorHandlerKind, EventKind, RunError};
use futures::future::BoxFuture;
use serde_json::{Map, Value, json};

use super::{CancelReason, CancelToken, Engine, Outputs, StepError};
use crate::clock::milliseconds_between;
use crate::error::{Error, ErrorKind};
use crate::journal::run_state::{RecordedStep, failed_status};
use crate::plan::{PlanUnit, join_path};
use crate::scope::VariableScope;

/// A step in the form that the journal records.
#[derive(Debug, Clone, Copy)]
pub(super) struct StepFrame<'a> {
    /// Its path.
    pub(super) path: &'a str,
    /// `task`, `capability`, `sequence`, …, as in events.
    pub(super) kind: &'static str,
    /// The kind for metrics. A step that only has iterations does not work itself.
    pub(super) label: &'static str,
    /// Set when it counts towards the steps of the run.
    pub(super) counts: bool,
    /// The capability that it uses, if it uses one.
    pub(super) uses: Option<&'a CapabilityRef>,
}

impl<'r> Engine<'r> {
    /// Runs a step, unless its end is recorded. The future is boxed, because steps contain steps.
    pub(super) fn run_step<'a>(
        &'a self,
        unit: &'r PlanUnit,
        around: &'a str,
        step: &'r Step,
        scope: &'a mut VariableScope<'r>,
        halt: &'a CancelToken,
    ) -> BoxFuture<'a, Result<(), StepError>> {
        Box::pin(async move {
            let path = join_path(around, step.id.as_str());
            match &step.control.for_each {
                Some(for_each) => {
                    Box::pin(self.run_for_each(unit, &path, step, for_each, scope, halt)).await
                }
                None => {
                    let counts = step.action.as_block().is_none();
                    self.run_once(unit, &path, step, counts, scope, halt).await
                }
            }
        })
    }

    /// Runs a step without iterations, or one iteration, and handles its failure.
    pub(super) async fn run_once(
        &self,
        unit: &'r PlanUnit,
        path: &str,
        step: &'r Step,
        counts: bool,
        scope: &mut VariableScope<'r>,
        halt: &CancelToken,
    ) -> Result<(), StepError> {
        match self.attempt_step(unit, path, step, counts, scope, halt).await {
            Err(StepError::Failed(error)) if is_catchable(&error) => {
                self.handle_failure(unit, path, step, error, scope, halt).await
            }
            ended => ended,
        }
    }

    async fn attempt_step(
        &self,
        unit: &'r PlanUnit,
        path: &str,
        step: &'r Step,
        counts: bool,
        scope: &mut VariableScope<'r>,
        halt: &CancelToken,
    ) -> Result<(), StepError> {
        if let Some(outputs) = self.recorded_outputs(path)? {
            scope.restore(step.action.outputs(), outputs);
            let Some(block) = step.action.as_block() else { return Ok(()) };
            // Outputs of a block's steps are recorded with them.
            return Box::pin(self.run_child_block(unit, path, step, block, scope, halt)).await;
        }
        let kind = step.action.kind().as_str();
        let frame =
            StepFrame { path, kind, label: kind, counts, uses: used_capability(step, unit) };
        let values =
            self.record_step(frame, halt, self.perform_in_time(unit, path, step, scope, halt));
        let values = values.await?;
        values.into_iter().for_each(|(output, value)| scope.set(output, value));
        Ok(())
    }

    /// Performs the action of a step within its timeout.
    async fn perform_in_time(
        &self,
        unit: &'r PlanUnit,
        path: &str,
        step: &'r Step,
        scope: &mut VariableScope<'r>,
        halt: &CancelToken,
    ) -> Result<Outputs<'r>, StepError> {
        let Some(timeout) = step.control.timeout else {
            return self.perform_step(unit, path, step, scope, halt).await;
        };
        let part = halt.child_within(timeout);
        let mut act = std::pin::pin!(self.perform_step(unit, path, step, scope, &part));
        let ended = tokio::select! {
            ended = &mut act => ended,
            () = tokio::time::sleep(timeout) => {
                part.cancel(CancelReason::StepTimeout);
                // It ends as soon as it may. What has its result in spite of all keeps it.
                act.await
            }
        };
        match (ended, halt.reason_if_cancelled()) {
            (Err(StepError::Cancelled(_)), Some(why)) => Err(StepError::Cancelled(why)),
            (Err(StepError::Cancelled(CancelReason::StepTimeout)), None) => {
                let message = format!("the step took longer than its `timeout` of {timeout:?}");
                Err(self.fail_step(path, Error::new(ErrorKind::StepTimeout, message)))
            }
            (ended, _) => ended,
        }
    }

    /// Continues after a failure, where the document allows it.
    async fn handle_failure(
        &self,
        unit: &'r PlanUnit,
        path: &str,
        step: &'r Step,
        error: RunError,
        scope: &mut VariableScope<'r>,
        halt: &CancelToken,
    ) -> Result<(), StepError> {
        match &step.control.on_error {
            OnError::Stop => Err(StepError::Failed(error)),
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

    /// The outputs of a step with a recorded end; `None` when the step must still run.
    ///
    /// # Errors
    /// The reason for which it cannot run again.
    pub(super) fn recorded_outputs(
        &self,
        path: &str,
    ) -> Result<Option<&'r Map<String, Value>>, StepError> {
        let Some(recorded) = self.progress.steps.get(path) else { return Ok(None) };
        match (&recorded.outputs, recorded_error(path, recorded)) {
            (Some(outputs), _) => {
                let kept = self.budget.add_kept_bytes(outputs);
                kept.map(|()| Some(outputs)).map_err(|error| self.fail_step(path, error))
            }
            (None, Some(stop)) => Err(stop),
            (None, None) => Ok(None),
        }
    }

    /// Records the beginning and the end of `work`. Other steps may read its outputs only after this
    /// returns.
    pub(super) async fn record_step(
        &self,
        frame: StepFrame<'_>,
        halt: &CancelToken,
        work: impl Future<Output = Result<Outputs<'r>, StepError>>,
    ) -> Result<Outputs<'r>, StepError> {
        let StepFrame { path, kind, counts, uses, .. } = frame;
        let started = self.progress.steps.get(path).and_then(|recorded| recorded.started_at);
        if let Some(why) = halt.reason_if_cancelled() {
            if why == CancelReason::SiblingFailed && started.is_none() {
                self.skip_step(path, CancelReason::SiblingFailed.message().to_owned());
            }
            return Err(StepError::Cancelled(why));
        }
        let mut begun = Ok(());
        if started.is_none() {
            let events = self.journal.last();
            let (step, kind) = (path.to_owned(), kind.to_owned());
            let capability = uses.cloned();
            self.journal.append(EventKind::StepStarted { step, kind, capability });
            begun = self.budget.check_events(events);
            if begun.is_ok() && counts {
                begun = self.budget.begin_step();
            }
        }
        let began = started.unwrap_or_else(|| self.clock.now());
        let ended = match begun {
            Ok(()) => work.await,
            Err(error) => Err(self.fail_step(path, error)),
        };
        let duration_ms = milliseconds_between(began, self.clock.now());
        self.record_end(frame, ended, duration_ms).await
    }

    async fn record_end(
        &self,
        frame: StepFrame<'_>,
        ended: Result<Outputs<'r>, StepError>,
        duration_ms: u64,
    ) -> Result<Outputs<'r>, StepError> {
        let StepFrame { path, label, .. } = frame;
        let ended = ended.and_then(|values| {
            let outputs = values.iter().map(|(o, value)| (o.dotted(), value.clone()));
            let outputs: Map<_, _> = outputs.collect();
            let kept = self.budget.add_kept_bytes(&outputs);
            kept.map(|()| (values, outputs)).map_err(|error| self.fail_step(path, error))
        });
        let step = path.to_owned();
        match ended {
            Ok((values, outputs)) => {
                self.metrics.step_ended(label, "succeeded", duration_ms);
                let event = EventKind::StepFinished { step, outputs, duration_ms };
                self.journal.record(event).await.map_err(StepError::Broken)?;
                Ok(values)
            }
            Err(StepError::Failed(error)) => {
                self.metrics.step_ended(label, failed_status(&error), duration_ms);
                let failed = EventKind::StepFailed { step, error: error.clone(), duration_ms };
                self.journal.record(failed).await.map_err(StepError::Broken)?;
                Err(StepError::Failed(error))
            }
            Err(StepError::Cancelled(why)) => {
                // A run that is left for later goes on with this step.
                if !matches!(why, CancelReason::Suspended | CancelReason::LeaseLost) {
                    let kind = if why == CancelReason::StepTimeout {
                        ErrorKind::StepTimeout
                    } else {
                        ErrorKind::Cancelled
                    };
                    let error = Error::new(kind, why.message());
                    let error = error.to_run_error(Some(path), None, self.is_repeat_safe());
                    self.metrics.step_ended(label, failed_status(&error), duration_ms);
                    self.journal.append(EventKind::StepFailed { step, error, duration_ms });
                }
                Err(StepError::Cancelled(why))
            }
            Err(stop @ (StepError::Waiting(_) | StepError::Broken(_))) => Err(stop),
        }
    }

    pub(super) fn skip_step(&self, path: &str, reason: String) {
        if !self.progress.steps.get(path).is_some_and(|recorded| recorded.skipped) {
            self.journal.append(EventKind::StepSkipped { step: path.to_owned(), reason });
        }
    }

    pub(super) fn note_handled(&self, path: &str, by: ErrorHandlerKind) {
        if !self.progress.steps.get(path).is_some_and(|recorded| recorded.handled) {
            self.journal.append(EventKind::ErrorHandled { step: path.to_owned(), handler: by });
        }
    }
}

/// Returns the capability that a step of `unit` uses, if it uses one.
pub(super) fn used_capability<'r>(step: &Step, unit: &'r PlanUnit) -> Option<&'r CapabilityRef> {
    unit.uses.get(step.action.as_capability()?.capability).map(|used| &used.pin)
}

/// Returns true when a document may continue after a failure.
pub(super) fn is_catchable(error: &RunError) -> bool {
    ErrorKind::from_code(&error.code).is_none_or(ErrorKind::is_catchable)
}

/// The reason for which a step with a record but without outputs cannot run again.
fn recorded_error(path: &str, recorded: &RecordedStep) -> Option<StepError> {
    if let Some(error) = &recorded.error {
        return Some(StepError::Failed(error.clone()));
    }
    let doubt = recorded.unconfirmed.as_ref().filter(|doubt| !doubt.repeat_safe)?;
    let message = format!(
        "the executor sent `{} {}`, but stopped before it recorded the result",
        doubt.method, doubt.url
    );
    let error = Error::new(ErrorKind::UnknownOutcome, message);
    Some(StepError::Waiting(error.to_run_error(Some(path), Some(doubt.attempt), false)))
}
