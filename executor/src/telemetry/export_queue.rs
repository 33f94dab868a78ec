//! A bounded background queue that sends batches of items to a sink.
//!
//! A producer hands over its items and does not wait. One task delivers the queue: all items that arrive
//! while a batch is under way go with the next. Items that find no room, or that are not accepted, are
//! dropped and counted.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

use crate::metrics::DeliveryCounters;

/// A destination for exported items.
pub(super) trait ExportSink: Debug + Send + Sync + 'static {
    /// The type of its items.
    type Item: Send + 'static;
    /// The name of the items in the log.
    const ITEMS: &'static str;
    /// The most items that may wait; items that are offered together while there is room are accepted
    /// together.
    const MAX_WAITING: usize;
    /// The most items in one batch.
    const BATCH: usize;

    /// Takes a batch, and returns the number of its items that were rejected.
    ///
    /// # Errors
    /// The reason why none of them was accepted.
    fn export(&self, batch: Vec<Self::Item>) -> impl Future<Output = Result<usize, String>> + Send;
}

/// The queue of an export sink.
#[derive(Debug)]
pub(super) struct ExportQueue<T: ExportSink> {
    /// The sender; `None` after the queue is closed.
    queue: Mutex<Option<UnboundedSender<Vec<T::Item>>>>,
    shared: Arc<QueueState>,
    /// The only task that delivers; it owns the sink. It ends with the queue.
    delivering: Mutex<JoinSet<()>>,
}

#[derive(Debug)]
struct QueueState {
    /// The name of the items.
    items: &'static str,
    counters: DeliveryCounters,
    /// The number of items that wait or are under way.
    waiting: AtomicUsize,
    dropped: AtomicU64,
}

impl<T: ExportSink> ExportQueue<T> {
    /// Creates a queue for `taker`; `delivered` counts the accepted and the dropped items.
    pub(super) fn new(taker: T, delivered: DeliveryCounters) -> Self {
        let shared = Arc::new(QueueState {
            items: T::ITEMS,
            counters: delivered,
            waiting: AtomicUsize::new(0),
            dropped: AtomicU64::new(0),
        });
        let (queue, waiting) = unbounded_channel();
        let mut delivering = JoinSet::new();
        delivering.spawn(Arc::clone(&shared).deliver(taker, waiting));
        Self { queue: Mutex::new(Some(queue)), shared, delivering: Mutex::new(delivering) }
    }

    /// Queues items, if there is room for them. Never waits.
    pub(super) fn enqueue(&self, items: Vec<T::Item>) {
        if items.is_empty() {
            return;
        }
        let count = items.len();
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        match &*queue {
            Some(queue) if self.shared.waiting.load(Ordering::Relaxed) < T::MAX_WAITING => {
                self.shared.waiting.fetch_add(count, Ordering::Relaxed);
                // The receiver exists as long as the queue.
                let _ = queue.send(items);
            }
            Some(_) => self.shared.drop_items(count, "too many items wait"),
            None => self.shared.drop_items(count, "the executor is shutting down"),
        }
    }

    /// Closes the queue: delivers the waiting items for at most `time`, accepts no further items, and drops
    /// the sink.
    pub(super) async fn close(&self, time: Duration) {
        drop(self.queue.lock().unwrap_or_else(PoisonError::into_inner).take());
        let mut delivering =
            std::mem::take(&mut *self.delivering.lock().unwrap_or_else(PoisonError::into_inner));
        let delivered = async { while delivering.join_next().await.is_some() {} };
        if tokio::time::timeout(time, delivered).await.is_err() {
            delivering.shutdown().await;
            let left = self.shared.waiting.swap(0, Ordering::Relaxed);
            self.shared.drop_items(left, "the executor is shutting down");
        }
    }

    /// The number of dropped items.
    #[cfg(test)]
    pub(super) fn count_dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }
}

impl QueueState {
    async fn deliver<T: ExportSink>(
        self: Arc<Self>,
        taker: T,
        mut waiting: UnboundedReceiver<Vec<T::Item>>,
    ) {
        let mut offers = Vec::new();
        while waiting.recv_many(&mut offers, T::BATCH).await > 0 {
            let mut items = offers.drain(..).flatten();
            loop {
                let batch: Vec<T::Item> = items.by_ref().take(T::BATCH).collect();
                let count = batch.len();
                if count == 0 {
                    break;
                }
                match taker.export(batch).await {
                    Ok(refused) => {
                        let refused = refused.min(count);
                        self.counters.accepted.inc_by((count - refused) as u64);
                        self.drop_items(refused, "the receiver rejected them");
                    }
                    Err(why) => self.drop_items(count, &why),
                }
                self.waiting.fetch_sub(count, Ordering::Relaxed);
            }
        }
    }

    /// Counts dropped items, and logs this from time to time: for the first one, and whenever their number
    /// has doubled since the last time.
    fn drop_items(&self, count: usize, why: &str) {
        if count == 0 {
            return;
        }
        let count = count as u64;
        self.counters.dropped.inc_by(count);
        let before = self.dropped.fetch_add(count, Ordering::Relaxed);
        let after = before.saturating_add(count);
        if before.checked_ilog2() != after.checked_ilog2() {
            tracing::warn!(
                dropped = after,
                why,
                "{} were dropped since the executor started",
                self.items
            );
        }
    }
}

/// Closes a queue, if there is one: delivers its items for at most `time`.
pub(super) async fn close<T: ExportSink>(queue: Option<&ExportQueue<T>>, time: Duration) {
    if let Some(queue) = queue {
        queue.close(time).await;
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::registry::Registry;

    use super::*;
    use crate::metrics::Metrics;

    /// Takes nothing, ever.
    #[derive(Debug)]
    struct Silent;

    impl ExportSink for Silent {
        type Item = u8;
        const ITEMS: &'static str = "things";
        const MAX_WAITING: usize = 3_000;
        const BATCH: usize = 10;

        async fn export(&self, _: Vec<u8>) -> Result<usize, String> {
            std::future::pending().await
        }
    }

    #[tokio::test]
    async fn so_many_wait_and_the_others_are_dropped() {
        let metrics = Metrics::register(&mut Registry::default());
        let queue = ExportQueue::new(Silent, metrics.span_counters());
        let thousand = || vec![0; 1_000];
        queue.enqueue(vec![]);
        queue.enqueue(vec![0; 2_999]);
        // While there is room, what comes together is taken together.
        queue.enqueue(thousand());
        assert_eq!(queue.count_dropped(), 0);
        queue.enqueue(thousand());
        assert_eq!(queue.count_dropped(), 1_000);
        queue.close(Duration::ZERO).await;
        assert_eq!(queue.count_dropped(), 4_999);
        queue.enqueue(thousand());
        assert_eq!(queue.count_dropped(), 5_999);
        assert_eq!(metrics.span_counters().dropped.get(), 5_999);
        assert_eq!(metrics.span_counters().accepted.get(), 0);
    }
}
