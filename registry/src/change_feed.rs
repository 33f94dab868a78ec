//! Followers of the feed of changes: they are told that something changed, and read what.

use std::time::Duration;

use a2s::{Digest, Principal, StreamLimits, StreamPermit, StreamQuota};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::Error;

/// The most followers at the same time.
const FOLLOWERS: StreamLimits = StreamLimits { total: 256, principal: 64, anonymous: 16 };
/// How often followers look by themselves: another process may have changed something.
const LOOK: Duration = Duration::from_secs(2);

/// The feed of changes of this registry.
#[derive(Debug)]
pub(crate) struct Feed {
    /// Names it: a number of another feed means nothing here.
    pub(crate) name: String,
    changes: watch::Sender<()>,
    followers: StreamQuota,
    end: CancellationToken,
}

/// Somebody who follows.
#[derive(Debug)]
pub(crate) struct Follower {
    changes: watch::Receiver<()>,
    end: CancellationToken,
    _permit: StreamPermit,
}

impl Feed {
    /// The feed of the store with this identity, which is told to nobody.
    pub(crate) fn of(identity: &str) -> Self {
        let name = Digest::of_bytes(format!("feed of {identity}").as_bytes());
        Self {
            name: name.to_hex(),
            changes: watch::Sender::default(),
            followers: StreamQuota::new(FOLLOWERS),
            end: CancellationToken::new(),
        }
    }

    /// Something changed.
    pub(crate) fn note(&self) {
        self.changes.send_replace(());
    }

    /// Lets all followers go.
    pub(crate) fn end(&self) {
        self.end.cancel();
    }

    /// Adds a follower for a caller; `None` is a caller without a known token.
    ///
    /// # Errors
    /// [`Error::TooManyFollowers`] when the caller, or all callers together, have the most.
    pub(crate) fn follow(&self, caller: Option<Principal>) -> Result<Follower, Error> {
        let permit = self.followers.reserve(caller).map_err(Error::TooManyFollowers)?;
        let changes = self.changes.subscribe();
        Ok(Follower { changes, end: self.end.clone(), _permit: permit })
    }
}

impl Follower {
    /// Waits until there may be something new; false when there will be nothing any more. What
    /// changes between two calls is not missed.
    pub(crate) async fn wait(&mut self) -> bool {
        tokio::select! {
            () = self.end.cancelled() => false,
            changed = self.changes.changed() => changed.is_ok(),
            () = tokio::time::sleep(LOOK) => true,
        }
    }
}
