//! Telling a run, or a part of it, to stop.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Tells steps to stop: no new one begins, and what is under way ends as soon as it may.
#[derive(Debug, Clone, Default)]
pub(crate) struct Halt {
    token: CancellationToken,
    /// Why this part was stopped on its own.
    cause: Arc<OnceLock<Why>>,
    /// The part around this one; none around the run.
    around: Option<Arc<Self>>,
    /// When this part, or one around it, must have ended.
    deadline: Option<Instant>,
}

/// Why something stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// Somebody cancelled the run.
    Cancelled,
    /// The run took longer than it may.
    TimeUp,
    /// The executor shuts down; the run goes on later.
    Suspended,
    /// The run is another executor's by now, which goes on with it.
    Lost,
    /// A step beside it failed: of the same parallel block, or another iteration.
    Sibling,
    /// The step, or one around it, took longer than its `timeout`.
    Late,
}

impl Why {
    /// The reason for a person.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Cancelled => "the run was cancelled",
            Self::TimeUp => "the run took longer than it may",
            Self::Suspended => "the executor shuts down",
            Self::Lost => "another executor goes on with this run",
            Self::Sibling => "a step beside it failed first",
            Self::Late => "the step around it took longer than its `timeout`",
        }
    }
}

impl Halt {
    /// Stops this part and all inside it. The first reason holds.
    pub(crate) fn stop(&self, why: Why) {
        let _ = self.cause.set(why);
        self.token.cancel();
    }

    /// A part of this one that can be stopped on its own.
    pub(crate) fn child(&self) -> Self {
        Self {
            token: self.token.child_token(),
            cause: Arc::default(),
            around: Some(Arc::new(self.clone())),
            deadline: self.deadline,
        }
    }

    /// A part that must have ended before `time` has passed. Whoever makes it stops it then.
    pub(crate) fn child_within(&self, time: Duration) -> Self {
        let own = Instant::now().checked_add(time);
        let deadline = match (self.deadline, own) {
            (Some(around), Some(own)) => Some(around.min(own)),
            (around, own) => around.or(own),
        };
        Self { deadline, ..self.child() }
    }

    /// Why to stop, when it is so. A reason for all of the run goes before one for a part of it.
    pub(crate) fn why(&self) -> Option<Why> {
        self.token.is_cancelled().then(|| self.reason())
    }

    /// Waits until there is a reason to stop.
    pub(crate) async fn halted(&self) -> Why {
        self.token.cancelled().await;
        self.reason()
    }

    /// How much time is left; none when there is no deadline.
    pub(crate) fn remaining(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    fn reason(&self) -> Why {
        let around = self.around.as_ref().and_then(|around| around.why());
        around.or_else(|| self.cause.get().copied()).unwrap_or(Why::Cancelled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_stops_alone_and_with_the_whole() {
        let run = Halt::default();
        let (one, other) = (run.child(), run.child());
        let inner = one.child();
        inner.stop(Why::Late);
        assert_eq!((inner.why(), one.why()), (Some(Why::Late), None));
        one.stop(Why::Sibling);
        assert_eq!((one.why(), other.why(), run.why()), (Some(Why::Sibling), None, None));
        assert_eq!(inner.why(), Some(Why::Sibling), "the reason around goes before");
        run.stop(Why::Cancelled);
        run.stop(Why::TimeUp);
        assert_eq!(other.child().why(), Some(Why::Cancelled));
        assert_eq!((inner.why(), run.why()), (Some(Why::Cancelled), Some(Why::Cancelled)));
    }

    #[test]
    fn a_part_has_no_more_time_than_the_part_around_it() {
        let run = Halt::default();
        assert_eq!(run.child().remaining(), None);
        let short = run.child_within(Duration::from_secs(10));
        let longer = short.child_within(Duration::from_secs(1_000));
        assert!(longer.remaining() <= Some(Duration::from_secs(10)));
        let shorter = short.child_within(Duration::ZERO);
        assert_eq!(shorter.child().remaining(), Some(Duration::ZERO));
    }
}
