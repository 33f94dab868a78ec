//! Watchers of a run that waits for a slot; they are notified when this executor drives it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use uuid::Uuid;

use super::lock;

/// Runs that have watchers.
#[derive(Debug, Default)]
pub(super) struct RunWatchers(Mutex<BTreeMap<Uuid, Arc<Notify>>>);

impl RunWatchers {
    /// Adds a watcher of a run.
    pub(super) fn watch(self: &Arc<Self>, run: Uuid) -> RunWatch {
        let notify = Arc::clone(lock(&self.0).entry(run).or_default());
        RunWatch { watchers: Arc::clone(self), run, notify }
    }

    /// Notifies the watchers of a run that there is more to see of it here.
    pub(super) fn notify(&self, run: Uuid) {
        if let Some(notify) = lock(&self.0).get(&run) {
            notify.notify_waiters();
        }
    }
}

/// A watch on a run, until it is dropped.
#[derive(Debug)]
pub(super) struct RunWatch {
    watchers: Arc<RunWatchers>,
    run: Uuid,
    notify: Arc<Notify>,
}

impl RunWatch {
    /// Waits for the next change of the run. Changes count from this call on, even before the future is
    /// awaited.
    pub(super) fn changed(&self) -> Notified<'_> {
        self.notify.notified()
    }
}

impl Drop for RunWatch {
    fn drop(&mut self) {
        let mut looked_at = lock(&self.watchers.0);
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
        let arrivals = Arc::new(RunWatchers::default());
        let (run, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let (look, same, another) =
            (arrivals.watch(run), arrivals.watch(run), arrivals.watch(other));
        let (more, of_same) = (look.changed(), same.changed());
        let of_other = another.changed();
        arrivals.notify(run);
        more.await;
        of_same.await;
        assert!(futures::FutureExt::now_or_never(of_other).is_none());
        drop(look);
        assert_eq!(lock(&arrivals.0).len(), 2);
        drop((same, another));
        assert!(lock(&arrivals.0).is_empty());
    }
}
