//! Telling a run, or a part of it, to stop.

use std::sync::{Arc, OnceLock};

use tokio_util::sync::CancellationToken;

/// Tells steps to stop: no new one begins, and what is under way ends as soon as it may.
#[derive(Debug, Clone, Default)]
pub(crate) struct Halt {
    token: CancellationToken,
    /// Why the whole run stops; shared by all parts of it, so that each knows the true reason.
    run: Arc<OnceLock<Why>>,
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
    /// A step of the same parallel block failed.
    Sibling,
}

impl Why {
    /// The reason for a person.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Cancelled => "the run was cancelled",
            Self::TimeUp => "the run took longer than it may",
            Self::Suspended => "the executor shuts down",
            Self::Sibling => "a step beside it failed first",
        }
    }
}

impl Halt {
    /// Stops the whole run. The first reason holds.
    pub(crate) fn stop(&self, why: Why) {
        let _ = self.run.set(why);
        self.token.cancel();
    }

    /// A part of the run that can be stopped on its own.
    pub(crate) fn child(&self) -> Self {
        Self { token: self.token.child_token(), run: Arc::clone(&self.run) }
    }

    /// Stops this part alone, because one of its steps failed.
    pub(crate) fn stop_siblings(&self) {
        self.token.cancel();
    }

    /// Why to stop, when it is so.
    pub(crate) fn why(&self) -> Option<Why> {
        let why = || self.run.get().copied().unwrap_or(Why::Sibling);
        self.token.is_cancelled().then(why)
    }

    /// Waits until there is a reason to stop.
    pub(crate) async fn halted(&self) -> Why {
        self.token.cancelled().await;
        self.run.get().copied().unwrap_or(Why::Sibling)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_stops_alone_and_with_the_whole() {
        let run = Halt::default();
        let (one, other) = (run.child(), run.child());
        one.stop_siblings();
        assert_eq!((one.why(), other.why(), run.why()), (Some(Why::Sibling), None, None));
        run.stop(Why::Cancelled);
        run.stop(Why::TimeUp);
        assert_eq!(other.child().why(), Some(Why::Cancelled));
        assert_eq!(run.why(), Some(Why::Cancelled));
    }
}
