//! The feed of approvals: what waits, and each change, to followers that come and go.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast};

use crate::policy::Approval;

/// The maximum number of followers at the same time.
const MAX_FOLLOWERS: usize = 64;
/// The number of latest changes that a reconnecting follower still receives.
const MAX_BACKLOG: usize = 256;

/// A change of an approval.
#[derive(Clone, Debug)]
pub(crate) struct ApprovalChange {
    pub(crate) number: u64,
    pub(crate) approval: Approval,
}

/// The feed that sends changes of approvals to its followers.
#[derive(Clone, Debug)]
pub(crate) struct ApprovalFeed {
    /// Distinguishes the change numbers of this process from those of an earlier one.
    start: i64,
    latest: Arc<Mutex<RecentChanges>>,
    changes: broadcast::Sender<ApprovalChange>,
    followers: Arc<Semaphore>,
}

#[derive(Debug, Default)]
struct RecentChanges {
    number: u64,
    changes: VecDeque<ApprovalChange>,
}

/// The subscription of a follower: its starting point, and the changes that come.
pub(crate) struct FeedSubscription {
    /// The number of the last change when the subscription began.
    pub(crate) number: u64,
    /// The changes that the follower has missed; `None` when it must receive all pending approvals.
    pub(crate) missed: Option<Vec<ApprovalChange>>,
    pub(crate) changes: broadcast::Receiver<ApprovalChange>,
    /// The permit of this follower.
    pub(crate) _permit: OwnedSemaphorePermit,
}

impl ApprovalFeed {
    pub(crate) fn new(start: i64) -> Self {
        let (changes, _) = broadcast::channel(MAX_BACKLOG);
        let followers = Arc::new(Semaphore::new(MAX_FOLLOWERS));
        Self { start, latest: Arc::default(), changes, followers }
    }

    /// Sends a change to all followers.
    pub(crate) fn publish(&self, approval: Approval) {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        latest.number += 1;
        let change = ApprovalChange { number: latest.number, approval };
        latest.changes.push_back(change.clone());
        if MAX_BACKLOG < latest.changes.len() {
            latest.changes.pop_front();
        }
        // Without a follower there is no receiver.
        let _ = self.changes.send(change);
    }

    /// Subscribes a follower. It continues after the change with this id, if the change is still known.
    /// Returns `None` when there are too many followers.
    pub(crate) fn subscribe(&self, last_id: Option<&str>) -> Option<FeedSubscription> {
        let permit = Arc::clone(&self.followers).try_acquire_owned().ok()?;
        let latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let after = last_id.and_then(|id| self.parse_change_id(id)).filter(|after| {
            let oldest = latest.changes.front().map_or(latest.number + 1, |change| change.number);
            *after <= latest.number && oldest <= after + 1
        });
        let missed = after.map(|after| {
            latest.changes.iter().filter(|change| after < change.number).cloned().collect()
        });
        Some(FeedSubscription {
            number: latest.number,
            missed,
            changes: self.changes.subscribe(),
            _permit: permit,
        })
    }

    /// Returns the id of a change.
    pub(crate) fn change_id(&self, number: u64) -> String {
        format!("{}-{number}", self.start)
    }

    fn parse_change_id(&self, id: &str) -> Option<u64> {
        let (start, number) = id.rsplit_once('-')?;
        (start.parse() == Ok(self.start)).then(|| number.parse().ok())?
    }
}
