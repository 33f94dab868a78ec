//! Followers of the feed of changes: they are told that something changed, and read what.

use std::sync::Arc;
use std::time::Duration;

use a2s::Digest;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::sync::CancellationToken;

use crate::Error;

/// How many follow at once.
const MOST_FOLLOWERS: usize = 256;
/// How often followers look by themselves: another process may have changed something.
const LOOK: Duration = Duration::from_secs(2);

/// The feed of changes of this registry.
#[derive(Debug)]
pub(crate) struct Feed {
    /// Names it: a number of another feed means nothing here.
    pub(crate) name: String,
    changes: watch::Sender<()>,
    followers: Arc<Semaphore>,
    end: CancellationToken,
}

/// Somebody who follows.
#[derive(Debug)]
pub(crate) struct Follower {
    changes: watch::Receiver<()>,
    end: CancellationToken,
    _permit: OwnedSemaphorePermit,
}

impl Feed {
    /// The feed of the store with this identity, which is told to nobody.
    pub(crate) fn of(identity: &str) -> Self {
        let name = Digest::of_bytes(format!("feed of {identity}").as_bytes());
        Self {
            name: name.to_hex(),
            changes: watch::Sender::default(),
            followers: Arc::new(Semaphore::new(MOST_FOLLOWERS)),
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

    /// One more follower.
    ///
    /// # Errors
    /// When there are too many.
    pub(crate) fn follow(&self) -> Result<Follower, Error> {
        let permit = Arc::clone(&self.followers).try_acquire_owned();
        let permit = permit.map_err(|_| Error::TooManyFollowers(MOST_FOLLOWERS))?;
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
