//! Telling a run, or a part of it, to stop.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::StepError;

/// Cancels steps: no new step begins, and running steps end as soon as they can.
#[derive(Debug, Clone, Default)]
pub(crate) struct CancelToken {
    token: CancellationToken,
    /// The reason for which only this part was stopped.
    cause: Arc<OnceLock<CancelReason>>,
    /// The token of the enclosing part; `None` for the run itself.
    parent: Option<Arc<Self>>,
    /// The time by which this part, or an outer one, must have ended.
    deadline: Option<Instant>,
}

/// The reason for a cancellation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CancelReason {
    /// A caller cancelled the run.
    Cancelled,
    /// The run took longer than its time limit.
    RunTimeout,
    /// The executor shuts down; the run continues later.
    Suspended,
    /// Another executor owns the run now and continues it.
    LeaseLost,
    /// A sibling step failed: a step of the same parallel block, or another iteration.
    SiblingFailed,
    /// The step or an enclosing step took longer than its `timeout`.
    StepTimeout,
}

impl CancelReason {
    /// Returns the reason as a text for a person.
    pub(crate) fn message(self) -> &'static str {
        match self {
            Self::Cancelled => "the run was cancelled",
            Self::RunTimeout => "the run exceeded its time limit",
            Self::Suspended => "the executor is shutting down",
            Self::LeaseLost => "another executor continues this run",
            Self::SiblingFailed => "another step of the same block failed first",
            Self::StepTimeout => "the enclosing step exceeded its `timeout`",
        }
    }
}

impl CancelToken {
    /// Cancels this part and all parts inside it. The first reason counts.
    pub(crate) fn cancel(&self, why: CancelReason) {
        let _ = self.cause.set(why);
        self.token.cancel();
    }

    /// Creates a part of this one that can be cancelled on its own.
    pub(crate) fn child(&self) -> Self {
        Self {
            token: self.token.child_token(),
            cause: Arc::default(),
            parent: Some(Arc::new(self.clone())),
            deadline: self.deadline,
        }
    }

    /// A part that must end before `time` has passed. The caller that creates it stops it then.
    pub(crate) fn child_within(&self, time: Duration) -> Self {
        let own = Instant::now().checked_add(time);
        let deadline = match (self.deadline, own) {
            (Some(around), Some(own)) => Some(around.min(own)),
            (around, own) => around.or(own),
        };
        Self { deadline, ..self.child() }
    }

    /// The reason for stopping, if there is one. A reason for the whole run takes precedence over one for a
    /// part of it.
    pub(crate) fn reason_if_cancelled(&self) -> Option<CancelReason> {
        self.token.is_cancelled().then(|| self.reason())
    }

    /// Waits for a cancellation, and returns its reason.
    pub(crate) async fn wait_for_cancel(&self) -> CancelReason {
        self.token.cancelled().await;
        self.reason()
    }

    /// Awaits `work`, unless a cancellation ends the wait. A cancellation goes before the end of the work:
    /// nothing starts after it.
    pub(super) async fn run_unless_cancelled<T>(
        &self,
        work: impl Future<Output = T>,
    ) -> Result<T, StepError> {
        tokio::select! {
            biased;
            why = self.wait_for_cancel() => Err(StepError::Cancelled(why)),
            value = work => Ok(value),
        }
    }

    /// The remaining time; `None` when there is no deadline.
    pub(crate) fn remaining_time(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    fn reason(&self) -> CancelReason {
        let around = self.parent.as_ref().and_then(|around| around.reason_if_cancelled());
        around.or_else(|| self.cause.get().copied()).unwrap_or(CancelReason::Cancelled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_stops_alone_and_with_the_whole() {
        let run = CancelToken::default();
        let (one, other) = (run.child(), run.child());
        let inner = one.child();
        inner.cancel(CancelReason::StepTimeout);
        assert_eq!(
            (inner.reason_if_cancelled(), one.reason_if_cancelled()),
            (Some(CancelReason::StepTimeout), None)
        );
        one.cancel(CancelReason::SiblingFailed);
        assert_eq!(
            (one.reason_if_cancelled(), other.reason_if_cancelled(), run.reason_if_cancelled()),
            (Some(CancelReason::SiblingFailed), None, None)
        );
        assert_eq!(
            inner.reason_if_cancelled(),
            Some(CancelReason::SiblingFailed),
            "the reason around goes before"
        );
        run.cancel(CancelReason::Cancelled);
        run.cancel(CancelReason::RunTimeout);
        assert_eq!(other.child().reason_if_cancelled(), Some(CancelReason::Cancelled));
        assert_eq!(
            (inner.reason_if_cancelled(), run.reason_if_cancelled()),
            (Some(CancelReason::Cancelled), Some(CancelReason::Cancelled))
        );
    }

    #[test]
    fn a_part_has_no_more_time_than_the_part_around_it() {
        let run = CancelToken::default();
        assert_eq!(run.child().remaining_time(), None);
        let short = run.child_within(Duration::from_secs(10));
        let longer = short.child_within(Duration::from_secs(1_000));
        assert!(longer.remaining_time() <= Some(Duration::from_secs(10)));
        let shorter = short.child_within(Duration::ZERO);
        assert_eq!(shorter.child().remaining_time(), Some(Duration::ZERO));
    }
}
