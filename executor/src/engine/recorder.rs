//! The records of a walk: its events in the journal, and the progress that earlier walks have recorded.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use a2s::{OutputMapping, Task};
use a2s_api::{
    ApprovalSubject, CapabilityRef, DecisionRecord, ErrorHandlerKind, EventKind, RunError,
};
use serde_json::{Map, Value};

use super::{CancelReason, CancelToken, Outputs, RunBudget, StepError, TaskRequest};
use crate::clock::{Clock, milliseconds_between};
use crate::error::{Error, ErrorKind, RequestedApproval};
use crate::gate::GuardedStep;
use crate::journal::Journal;
use crate::journal::recorded_exchange::{ExchangeRequest, ExchangeResponse, RecordedExchange};
use crate::journal::run_state::{RecordedStep, RunProgress, failed_status};
use crate::journal::wait_point::WaitPoint;
use crate::metrics::Metrics;
use crate::plan::PlanUnit;
use crate::secrets::RunSecrets;
use crate::step_result::StepResult;

/// Records what a walk does, and knows what earlier walks of the run have recorded.
#[derive(Debug)]
pub(crate) struct RunRecorder<'r> {
    /// The progress of the run when the walk began.
    pub(crate) progress: &'r RunProgress,
    /// The number of requests that may have changed something, including those before the walk.
    pub(crate) effects: AtomicUsize,
    /// The limits for the whole run.
    pub(crate) budget: RunBudget,
    /// The secret values that the executor masks.
    pub(crate) secrets: &'r RunSecrets,
    /// The journal that records everything.
    pub(crate) journal: &'r Journal,
    /// The clock.
    pub(crate) clock: &'r Arc<dyn Clock>,
    /// The counters.
    pub(crate) metrics: &'r Metrics,
    /// The maximum size of a response that is stored for replays, in bytes.
    pub(crate) keep_answer_bytes: usize,
}

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

/// The judged attempt and the status of its response, if there are any.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct JudgedAttempt {
    pub(super) attempt: Option<u32>,
    pub(super) status: Option<u16>,
}

/// The steps: their beginnings, ends and outputs.
impl<'r> RunRecorder<'r> {
    /// Returns the recorded facts about a step.
    pub(super) fn recorded(&self, path: &str) -> Option<&'r RecordedStep> {
        self.progress.steps.get(path)
    }

    /// The outputs of a step with a recorded end; `None` when the step must still run.
    ///
    /// # Errors
    /// The reason for which it cannot run again.
    pub(super) fn recorded_outputs(
        &self,
        path: &str,
    ) -> Result<Option<&'r Map<String, Value>>, StepError> {
        let Some(recorded) = self.recorded(path) else { return Ok(None) };
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
    pub(super) async fn record_step<'o>(
        &self,
        frame: StepFrame<'_>,
        cancel: &CancelToken,
        work: impl Future<Output = Result<Outputs<'o>, StepError>>,
    ) -> Result<Outputs<'o>, StepError> {
        let StepFrame { path, kind, counts, uses, .. } = frame;
        let started = self.recorded(path).and_then(|recorded| recorded.started_at);
        if let Some(why) = cancel.reason_if_cancelled() {
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

    async fn record_end<'o>(
        &self,
        frame: StepFrame<'_>,
        ended: Result<Outputs<'o>, StepError>,
        duration_ms: u64,
    ) -> Result<Outputs<'o>, StepError> {
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

    /// Records that a step is skipped, unless that is recorded.
    pub(super) fn skip_step(&self, path: &str, reason: String) {
        if !self.recorded(path).is_some_and(|recorded| recorded.skipped) {
            self.journal.append(EventKind::StepSkipped { step: path.to_owned(), reason });
        }
    }

    /// Records that the failure of a step is handled, unless that is recorded.
    pub(super) fn record_handled(&self, path: &str, handler: ErrorHandlerKind) {
        if !self.recorded(path).is_some_and(|recorded| recorded.handled) {
            self.journal.append(EventKind::ErrorHandled { step: path.to_owned(), handler });
        }
    }

    /// Returns the recorded result of the condition of a step.
    pub(super) fn recorded_branch(&self, path: &str) -> Option<bool> {
        self.progress.branches.get(path).copied()
    }

    /// Records the result of the condition of a step.
    pub(super) fn record_branch(&self, path: &str, value: bool) {
        self.journal.append(EventKind::BranchTaken { step: path.to_owned(), value });
    }

    /// Records the number of the items that a step runs for, unless it is recorded.
    ///
    /// # Errors
    /// When the run may not begin so many more steps.
    pub(super) fn record_items(&self, path: &str, items: usize) -> Result<(), Error> {
        if self.recorded(path).is_none_or(|recorded| recorded.items.is_none()) {
            self.budget.check_steps(items)?;
            self.journal.append(EventKind::ItemsTaken { step: path.to_owned(), items });
        }
        Ok(())
    }
}

/// The failures of steps, and the effects of the run that they show.
impl RunRecorder<'_> {
    /// Creates the failure of a step.
    pub(super) fn fail_step(&self, path: &str, error: Error) -> StepError {
        self.fail_attempt(path, error, JudgedAttempt::default())
    }

    /// Creates the failure of a step, with the attempt and the status of the response if there are any. It
    /// does not contain secrets, because a `catch` may send it anywhere.
    pub(super) fn fail_attempt(
        &self,
        path: &str,
        error: Error,
        JudgedAttempt { attempt, status }: JudgedAttempt,
    ) -> StepError {
        let step = Some(path).filter(|path| !path.is_empty());
        let error = self.secrets.mask_error(error);
        let cause = Some(error.kind.blame_for_status(status));
        let error = error.to_run_error(step, attempt, self.is_repeat_safe());
        StepError::Failed(RunError { status, cause, ..error })
    }

    /// Returns true when nothing that the run has sent so far has changed anything.
    pub(super) fn is_repeat_safe(&self) -> bool {
        self.effects.load(Ordering::Relaxed) == 0
    }

    /// Counts a request that may change something.
    pub(super) fn add_effect(&self) {
        self.effects.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes back the effect of a request that certainly changed nothing.
    pub(super) fn take_back_effect(&self) {
        self.effects.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The questions to guardians, and the data that is kept for later walks.
impl<'r> RunRecorder<'r> {
    /// Records the decisions of guardians about a step.
    pub(super) fn record_decisions(&self, asker: &GuardedStep<'_>, decisions: Vec<DecisionRecord>) {
        for decision in decisions {
            self.journal.append(EventKind::Decided {
                step: asker.step.to_owned(),
                execution_id: asker.execution_id,
                decision,
            });
        }
    }

    /// Returns the point at which a step has waited for an approval, if it had sent something before.
    pub(super) fn wait_point(&self, path: &str) -> Option<&'r WaitPoint> {
        self.recorded(path)?.wait_point.as_ref().map(|(_, wait_point)| wait_point)
    }

    /// The reason for which a request or result that the guardians were asked about is not sent or used:
    /// the step waits for a person, or fails. When the step has already sent something, `wait_point`
    /// contains the data with which it continues after the wait; that data is on the disk before the run
    /// waits.
    pub(super) async fn wait_or_fail(
        &self,
        asker: &GuardedStep<'_>,
        mut error: Error,
        judged: JudgedAttempt,
        wait_point: Option<WaitPoint>,
    ) -> StepError {
        let Some(wanted) = error.approval.take() else {
            return self.fail_attempt(asker.step, error, judged);
        };
        let RequestedApproval { phase, guardian, id, expires_at } = *wanted;
        let redirect = wait_point.as_ref().and_then(WaitPoint::redirect_number);
        let requested = EventKind::ApprovalRequested {
            step: asker.step.to_owned(),
            about: ApprovalSubject::new(phase, redirect),
            execution_id: asker.execution_id,
            guardian,
            id,
            expires_at,
        };
        let is_sealed_before = |new: &WaitPoint| {
            self.wait_point(asker.step).is_some_and(|known| known.is_same_content(new))
        };
        match wait_point.filter(|new| !is_sealed_before(new)) {
            None => self.journal.append(requested),
            Some(wait_point) => {
                let committed = self.journal.commit_wait(requested, wait_point).await;
                if let Err(error) = committed {
                    return StepError::Broken(error);
                }
            }
        }
        let JudgedAttempt { attempt, status } = judged;
        let error = self.secrets.mask_error(error);
        let error = error.to_run_error(Some(asker.step), attempt, self.is_repeat_safe());
        StepError::Waiting(RunError { status, ..error })
    }

    /// Marks the secret ones of these variables of a capability as secret from now on.
    pub(super) fn learn_secrets(
        &self,
        path: &str,
        unit: &PlanUnit,
        variables: &Map<String, Value>,
    ) -> Result<(), StepError> {
        let mut values = unit.sensitive.secret_values(variables).into_iter();
        let learnt = values.try_for_each(|value| self.secrets.learn(value));
        learnt.map_err(|error| self.fail_step(path, error))
    }

    /// Stores the request and the response of a task for replays.
    pub(super) fn record_exchange(
        &self,
        task: &Task,
        request: &TaskRequest<'_>,
        outputs: &[OutputMapping],
        result: &Result<StepResult, StepError>,
    ) {
        let limit = self.keep_answer_bytes;
        let answer = match result {
            _ if limit == 0 => return,
            Ok(result) => Some(ExchangeResponse::from_result(result, outputs, self.secrets, limit)),
            Err(StepError::Failed(_)) => None,
            Err(StepError::Waiting(_) | StepError::Cancelled(_) | StepError::Broken(_)) => return,
        };
        let question = ExchangeRequest::from_task(task, request.inputs.shown());
        self.journal.record_exchange(request.step, RecordedExchange { question, answer });
    }
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
