//! The slots that an executor has for runs, and a hint about the runs that wait for one.

use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::journal::lock;

/// The most slots that are reserved at a time while waiting runs are looked up: other runs cannot use them
/// then.
const MAX_BATCH: usize = 64;

/// The slots for runs of an executor.
#[derive(Debug)]
pub(super) struct RunSlots {
    /// The permits, one for each slot.
    free: Arc<Semaphore>,
    most: u32,
    hint: Mutex<QueueHint>,
    /// Notifies that there may be runs for free slots.
    wake: Notify,
    /// Held while waiting runs are looked up.
    asking: tokio::sync::Mutex<()>,
}

/// A cached hint about waiting runs, here and on other executors. It may be stale: then a run begins one
/// turn too early, or waits until the next look-up.
#[derive(Debug, Default)]
struct QueueHint {
    /// Set when some runs may wait: a released slot may then be for one of them.
    has_queued: bool,
    /// Set when some of them may wait only for a slot. Such a run comes before any run that is started now.
    first: bool,
    /// The number of notifications about possible waiting runs.
    version: u64,
}

/// A slot for a run. After its release, a waiting run may get it.
#[derive(Debug)]
pub(in crate::run) struct RunSlot {
    permit: Option<OwnedSemaphorePermit>,
    slots: Arc<RunSlots>,
}

/// The slots for which waiting runs are looked up.
#[derive(Debug)]
pub(super) struct SlotBatch<'p> {
    permits: Vec<OwnedSemaphorePermit>,
    hint_version: u64,
    slots: &'p Arc<RunSlots>,
    _asking: tokio::sync::MutexGuard<'p, ()>,
}

impl RunSlots {
    pub(super) fn new(most: usize) -> Arc<Self> {
        let most = u32::try_from(most).unwrap_or(u32::MAX);
        Arc::new(Self {
            free: Arc::new(Semaphore::new(most as usize)),
            most,
            hint: Mutex::default(),
            wake: Notify::new(),
            asking: tokio::sync::Mutex::default(),
        })
    }

    /// Acquires a slot for a run that is started now. Returns `None` when there is no free slot, or when
    /// waiting runs come first. A run that `can_wait` for its turn gets a slot later.
    pub(super) async fn try_acquire(self: &Arc<Self>, can_wait: bool) -> Option<RunSlot> {
        if can_wait && self.lock_hint().first {
            return None;
        }
        let permit = match self.permit() {
            Some(permit) => Some(permit),
            None => {
                // Those that runs are just asked for may be left.
                drop(self.asking.lock().await);
                self.permit()
            }
        };
        permit.map(|permit| self.to_slot(permit))
    }

    /// Reserves some of the free slots, to look up runs for them. Other runs may use the slots that are
    /// left.
    pub(super) async fn acquire_batch(self: &Arc<Self>) -> SlotBatch<'_> {
        let asking = self.asking.lock().await;
        let permits = std::iter::from_fn(|| self.permit()).take(MAX_BATCH).collect();
        SlotBatch { permits, hint_version: self.lock_hint().version, slots: self, _asking: asking }
    }

    /// Records that there may be runs that wait, or that no executor drives any more.
    pub(super) fn notify(&self) {
        let mut known = self.lock_hint();
        known.has_queued = true;
        // With a place for them they are begun at once.
        known.first |= self.free.available_permits() == 0;
        known.version += 1;
        self.wake.notify_one();
    }

    /// Waits until there may be runs for free slots, at most until `due`.
    pub(super) async fn wait_for_runs(&self, due: Instant) {
        // Whatever it is that ends it, it is time to look.
        let _ = tokio::time::timeout_at(due, self.wake.notified()).await;
    }

    /// Waits until all slots are free, and never releases them again.
    pub(super) async fn acquire_all(&self) {
        if let Ok(all) = self.free.acquire_many(self.most).await {
            all.forget();
        }
    }

    fn permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.free).try_acquire_owned().ok()
    }

    fn to_slot(self: &Arc<Self>, permit: OwnedSemaphorePermit) -> RunSlot {
        RunSlot { permit: Some(permit), slots: Arc::clone(self) }
    }

    fn lock_hint(&self) -> MutexGuard<'_, QueueHint> {
        lock(&self.hint)
    }
}

impl SlotBatch<'_> {
    /// The number of entries.
    pub(super) fn len(&self) -> usize {
        self.permits.len()
    }

    /// Returns slots for the runs that were found. `left` is true when further runs still wait.
    pub(super) fn into_slots(mut self, runs: usize, left: bool) -> Vec<RunSlot> {
        let mut known = self.slots.lock_hint();
        // A later notification is newer.
        if known.version == self.hint_version {
            known.has_queued = left;
            // With a place to spare, those that are left are of tenants that have as many as they may.
            known.first = left && self.permits.len() <= runs;
        }
        drop(known);
        self.permits.drain(..).take(runs).map(|permit| self.slots.to_slot(permit)).collect()
    }
}

impl Drop for RunSlot {
    fn drop(&mut self) {
        drop(self.permit.take());
        if self.slots.lock_hint().has_queued {
            self.slots.wake.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    /// Returns true when a look-up of waiting runs was requested.
    fn is_stirred(places: &RunSlots) -> bool {
        places.wake.notified().now_or_never().is_some()
    }

    #[tokio::test]
    async fn new_run_starts_after_waiting_ones() {
        let places = RunSlots::new(3);
        let one = places.try_acquire(true).await.unwrap();
        // No run waits, so a released slot wakes no look-up.
        drop(one);
        assert!(!is_stirred(&places));
        // There is a slot for a waiting run.
        places.notify();
        assert!(is_stirred(&places));
        let all = [
            places.try_acquire(true).await,
            places.try_acquire(true).await,
            places.try_acquire(true).await,
        ];
        let [one, two, three] = all.map(Option::unwrap);
        assert!(places.try_acquire(true).await.is_none());
        places.notify();
        assert!(is_stirred(&places));
        drop((one, two));
        assert!(is_stirred(&places));
        assert!(places.try_acquire(true).await.is_none());
        // One that cannot wait has no turn to wait for.
        drop(places.try_acquire(false).await.unwrap());
        // Two are asked for, two come, and there are more.
        let gathered = places.acquire_batch().await;
        assert_eq!(gathered.len(), 2);
        let two = gathered.into_slots(2, true);
        drop(three);
        assert!(places.try_acquire(true).await.is_none());
        // One is asked for and none comes: those that are left wait for something else.
        assert!(places.acquire_batch().await.into_slots(0, true).is_empty());
        let place = places.try_acquire(true).await.unwrap();
        is_stirred(&places);
        drop((two, place));
        assert!(is_stirred(&places));
        places.acquire_batch().await.into_slots(0, false);
        drop(places.try_acquire(true).await.unwrap());
        assert!(!is_stirred(&places));
    }

    #[tokio::test]
    async fn what_is_heard_while_runs_are_asked_for_counts() {
        let places = RunSlots::new(1);
        let gathered = places.acquire_batch().await;
        places.notify();
        gathered.into_slots(0, false);
        assert!(is_stirred(&places));
        assert!(places.try_acquire(true).await.is_none());
        places.acquire_batch().await.into_slots(0, false);
        assert!(places.try_acquire(true).await.is_some());
    }

    #[tokio::test]
    async fn a_place_that_nothing_came_for_is_there_for_what_is_started() {
        let places = RunSlots::new(1);
        for can_wait in [true, false] {
            let gathered = places.acquire_batch().await;
            let finding = places.try_acquire(can_wait);
            let mut finding = std::pin::pin!(finding);
            assert!(finding.as_mut().now_or_never().is_none());
            gathered.into_slots(0, false);
            let place = finding.await;
            assert!(place.is_some());
            assert!(places.try_acquire(can_wait).await.is_none());
        }
        places.acquire_all().await;
        assert!(places.try_acquire(true).await.is_none());
    }
}
