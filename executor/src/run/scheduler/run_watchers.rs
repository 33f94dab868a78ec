//! Watchers of runs that are not driven here: they are notified when this executor drives the run, or when
//! another executor may have ended it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use a2s_api::RunEvent;
use tokio::sync::futures::Notified;
use tokio::sync::{Mutex as AsyncMutex, Notify, Semaphore};
use uuid::Uuid;

use crate::journal::lock;

/// The maximum number of connections that read events for followers at the same time: the others are for
/// all other reads.
const MAX_READS: usize = 2;

/// Events of a run in order, shared by its followers.
pub(in crate::run) type EventPage = VecDeque<Arc<RunEvent>>;

/// Runs that have watchers.
#[derive(Debug)]
pub(in crate::run) struct RunWatchers {
    runs: Mutex<BTreeMap<Uuid, Arc<WatchedRun>>>,
    /// Notifies that a run of another executor may have ended.
    elsewhere: Notify,
    /// The permits to read events for followers.
    reads: Semaphore,
}

/// A run that has watchers.
#[derive(Debug, Default)]
struct WatchedRun {
    changed: Notify,
    /// The events that a follower has read last. The lock is held while they are read: one read serves all
    /// followers that wait for them.
    page: AsyncMutex<EventPage>,
}

impl Default for RunWatchers {
    fn default() -> Self {
        let reads = Semaphore::new(MAX_READS);
        Self { runs: Mutex::default(), elsewhere: Notify::new(), reads }
    }
}

impl RunWatchers {
    /// Adds a watcher of a run.
    pub(in crate::run) fn watch(self: &Arc<Self>, run: Uuid) -> RunWatch {
        let watched = Arc::clone(lock(&self.runs).entry(run).or_default());
        RunWatch { watchers: Arc::clone(self), run, watched }
    }

    /// Notifies the watchers of a run that there is more to see of it here.
    pub(in crate::run) fn notify(&self, run: Uuid) {
        if let Some(watched) = lock(&self.runs).get(&run) {
            watched.changed.notify_waiters();
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
    watched: Arc<WatchedRun>,
}

impl RunWatch {
    /// Returns events after number `after`: those that another follower has just read, or else the result of
    /// `read`.
    pub(in crate::run) async fn share_page<E>(
        &self,
        after: u64,
        read: impl Future<Output = Result<Vec<RunEvent>, E>>,
    ) -> Result<EventPage, E> {
        let mut page = self.watched.page.lock().await;
        let follows = page.front().is_some_and(|first| first.seq <= after + 1);
        if follows && page.back().is_some_and(|last| after < last.seq) {
            return Ok(page.iter().filter(|event| after < event.seq).cloned().collect());
        }
        let events = self.limit_reads(read).await?;
        let read: EventPage = events.into_iter().map(Arc::new).collect();
        if !read.is_empty() {
            page.clone_from(&read);
        }
        Ok(read)
    }

    /// Reads for a follower when a connection for that is free.
    pub(in crate::run) async fn limit_reads<T>(&self, read: impl Future<Output = T>) -> T {
        // The semaphore is never closed.
        let _permit = self.watchers.reads.acquire().await;
        read.await
    }

    /// Waits for the next change of the run. Changes count from this call on, even before the future is
    /// awaited.
    pub(in crate::run) fn changed(&self) -> Notified<'_> {
        self.watched.changed.notified()
    }
}

impl Drop for RunWatch {
    fn drop(&mut self) {
        let mut looked_at = lock(&self.watchers.runs);
        // The map has one, and this is the other.
        if Arc::strong_count(&self.watched) == 2 {
            looked_at.remove(&self.run);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use a2s_api::EventKind;
    use jiff::Timestamp;

    use super::*;

    #[tokio::test]
    async fn one_read_serves_all_followers_of_a_run() {
        let watchers = Arc::new(RunWatchers::default());
        let run = Uuid::from_u128(1);
        let event = |seq| RunEvent {
            v: 1,
            seq,
            run,
            at: Timestamp::UNIX_EPOCH,
            kind: EventKind::RunQueued {},
        };
        let reads = Mutex::new(0);
        let read = async |after: u64, until: u64| {
            let watch = watchers.watch(run);
            let page = watch.share_page(after, async {
                *lock(&reads) += 1;
                Ok::<_, Infallible>((after + 1..=until).map(event).collect())
            });
            let page = page.await.unwrap();
            let seqs: Vec<_> = page.iter().map(|event| event.seq).collect();
            assert_eq!(seqs, (after + 1..=until).collect::<Vec<_>>());
            *lock(&reads)
        };
        let _first = watchers.watch(run);
        assert_eq!(read(3, 5).await, 1);
        assert_eq!((read(3, 5).await, read(4, 5).await), (1, 1), "read before");
        assert_eq!(read(5, 6).await, 2, "later events");
        assert_eq!(read(0, 6).await, 3, "earlier events");
        assert_eq!(read(6, 6).await, 4, "no event is no page");
        assert_eq!(read(0, 6).await, 4);
    }

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
