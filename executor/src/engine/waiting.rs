//! A step that waits for an approval: the record of that, and the place at which the step goes on.

use a2s_api::{ApprovalSubject, EventKind, RunError};

use super::{Engine, StepError};
use crate::error::{Error, RequestedApproval};
use crate::gate::GuardedStep;
use crate::journal::wait_point::WaitPoint;

/// The judged attempt and the status of its response, if there are any.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct JudgedAttempt {
    pub(super) attempt: Option<u32>,
    pub(super) status: Option<u16>,
}

impl<'r> Engine<'r> {
    /// Returns the point at which a step has waited for an approval, if it had sent something before.
    pub(super) fn wait_point(&self, path: &str) -> Option<&'r WaitPoint> {
        let recorded = self.progress.steps.get(path)?;
        recorded.wait_point.as_ref().map(|(_, wait_point)| wait_point)
    }

    /// The reason for which a request or result that the guardians were asked about is not sent or used:
    /// the step waits for a person, or fails. When the step has already sent something, `wait_point`
    /// contains the data with which it continues after the wait; that data is on the disk before the run
    /// waits.
    pub(super) async fn wait_or_fail(
        &self,
        asker: &GuardedStep<'_>,
        mut error: Error,
        JudgedAttempt { attempt, status }: JudgedAttempt,
        wait_point: Option<WaitPoint>,
    ) -> StepError {
        let Some(wanted) = error.approval.take() else {
            return self.fail_attempt(asker.step, error, attempt, status);
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
        let error = self.secrets.mask_error(error);
        let error = error.to_run_error(Some(asker.step), attempt, self.is_repeat_safe());
        StepError::Waiting(RunError { status, ..error })
    }
}
