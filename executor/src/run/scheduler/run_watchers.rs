//! Watchers of runs that are not driven here: they are notified when this executor drives the run, or when
//! another executor may have ended it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use uuid::Uuid;

use crate::journal::lock;

/// Runs that have watchers.
#[derive(Debug, Default)]
pub(in crate::run) struct RunWatchers {
    runs: Mutex<BTreeMap<Uuid, Arc<Notify>>>,
    /// Notifies that a run of another executor may have ended.
    elsewhere: Notify,
}

impl RunWatchers {
    /// Adds a watcher of a run.
    pub(in crate::run) fn watch(self: &Arc<Self>, run: Uuid) -> RunWatch {
        let notify = Arc::clone(lock(&self.runs).entry(run).or_default());
        RunWatch { watchers: Arc::clone(self), run, notify }
    }

    /// Notifies the watchers of a run that there is more to see of it here.
    pub(in crate::run) fn notify(&self, run: Uuid) {
        if let Some(notify) = lock(&self.runs).get(&run) {
            notify.notify_waiters();
        }
    }

    /// Notifies that a run of another executor may have ended.
    pub(super) fn notify_elsewhere(&self) {
        self.elsewhere.notify_waiters();
    }

    /// Waits until a run of another executor may have ended.
    pub(in crate::run) fn changed_elsewhere(&self) -> Notified<'_> {
        self.elsewhere.notified()
    }
}

/// A watch on a run, until it is dropped.
#[derive(Debug)]
pub(in crate::run) struct RunWatch {
    watchers: Arc<RunWatchers>,
    run: Uuid,
    notify: Arc<Notify>,
}

impl RunWatch {
    /// Waits for the next change of the run. Changes count from this call on, even before the future is
    /// awaited.
    pub(in crate::run) fn changed(&self) -> Notified<'_> {
        self.notify.notified()
    }
}

impl Drop for RunWatch {
    fn drop(&mut self) {
        let mut looked_at = lock(&self.watchers.runs);
        // The map has one, and this is the other.
        if Arc::strong_count(&self.notify) == 2 {
            looked_at.remove(&self.run);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn whoever_looks_is_told_and_nothing_stays_of_a_look() {
        let watchers = Arc::new(RunWatchers::default());
        let (run, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let (look, same, another) =
            (watchers.watch(run), watchers.watch(run), watchers.watch(other));
        let (more, of_same) = (look.changed(), same.changed());
        let of_other = another.changed();
        watchers.notify(run);
        more.await;
        of_same.await;
        assert!(futures::FutureExt::now_or_never(of_other).is_none());
        drop(look);
        assert_eq!(lock(&watchers.runs).len(), 2);
        drop((same, another));
        assert!(lock(&watchers.runs).is_empty());
    }
}
