//! Followers of the change feed. They are notified of a change, and then read the changes from the store.

use std::time::Duration;

use a2s::Digest;
use a2s_api::{Principal, StreamLimits, StreamPermit, StreamQuota};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::Error;

/// The maximum numbers of followers at the same time: in total, of one caller, and of all callers without a
/// known token.
const FOLLOWER_LIMITS: StreamLimits = StreamLimits { total: 256, principal: 64, anonymous: 16 };
/// The interval at which followers read without a notification, because another process may have changed
/// something.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// The feed of changes of this registry.
#[derive(Debug)]
pub(crate) struct ChangeFeed {
    /// The name of the feed. A number of a change is valid only in its feed.
    pub(crate) name: String,
    changes: watch::Sender<()>,
    followers: StreamQuota,
    end: CancellationToken,
}

/// A subscriber of the change feed.
#[derive(Debug)]
pub(crate) struct FeedFollower {
    changes: watch::Receiver<()>,
    end: CancellationToken,
    _permit: StreamPermit,
}

impl ChangeFeed {
    /// The feed of the store with this identity. Its name is a hash, because the identity is secret.
    pub(crate) fn for_store(identity: &str) -> Self {
        let name = Digest::of_bytes(format!("feed of {identity}").as_bytes());
        Self {
            name: name.to_hex(),
            changes: watch::Sender::default(),
            followers: StreamQuota::new(FOLLOWER_LIMITS),
            end: CancellationToken::new(),
        }
    }

    /// Notifies the followers of a change.
    pub(crate) fn notify_followers(&self) {
        self.changes.send_replace(());
    }

    /// Ends the streams of all followers.
    pub(crate) fn end_streams(&self) {
        self.end.cancel();
    }

    /// Adds a follower for a caller; `None` is a caller without a known token.
    ///
    /// # Errors
    /// Returns [`Error::TooManyFollowers`] when the caller, or all callers together, have the maximum
    /// number of followers.
    pub(crate) fn follow(&self, caller: Option<Principal>) -> Result<FeedFollower, Error> {
        let permit = self.followers.reserve(caller).map_err(Error::TooManyFollowers)?;
        let changes = self.changes.subscribe();
        Ok(FeedFollower { changes, end: self.end.clone(), _permit: permit })
    }
}

impl FeedFollower {
    /// Waits until there may be a new change. Returns false when the feed has ended. Changes between two
    /// calls are not missed.
    pub(crate) async fn wait(&mut self) -> bool {
        tokio::select! {
            () = self.end.cancelled() => false,
            changed = self.changes.changed() => changed.is_ok(),
            () = tokio::time::sleep(POLL_INTERVAL) => true,
        }
    }
}
