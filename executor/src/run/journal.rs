//! The journal of one run: its only writer, and the gapless sequence of its events. Nothing secret
//! gets past it.

use std::sync::{Arc, Mutex, PoisonError};

use a2s::api::{Event, EventKind};
use tokio::sync::watch;
use uuid::Uuid;

use super::store::Store;
use crate::clock::Clock;
use crate::error::Error;
use crate::secrets::Secrets;

/// Version of the format of events.
pub(crate) const EVENT_VERSION: u8 = 1;

/// Writes the events of one run.
#[derive(Debug)]
pub(crate) struct Journal {
    run: Uuid,
    store: Store,
    clock: Arc<dyn Clock>,
    /// What no event may tell.
    secrets: Arc<Secrets>,
    /// The number of the last event that was sent to the store. The lock is held while an event is
    /// numbered and sent, so that events reach the store in the order of their numbers, whichever
    /// branch of a parallel step they come from; it is never held while anything is awaited.
    last: Mutex<u64>,
    committed: Arc<watch::Sender<u64>>,
}

impl Journal {
    /// Goes on with the journal of `run` after its event `last`.
    pub(crate) fn after(
        run: Uuid,
        last: u64,
        store: Store,
        clock: Arc<dyn Clock>,
        secrets: Arc<Secrets>,
    ) -> Self {
        let committed = Arc::new(watch::Sender::new(last));
        Self { run, store, clock, secrets, last: Mutex::new(last), committed }
    }

    /// The number of the last event.
    pub(crate) fn last(&self) -> u64 {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the number of the last event that is committed, whenever it grows.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.committed.subscribe()
    }

    /// Records what happened, in order, without waiting for the disk. The next
    /// [`commit`](Self::commit) waits for it too.
    pub(crate) fn note(&self, kind: EventKind) {
        self.number(kind, |event| self.store.append_soon(event, Arc::clone(&self.committed)));
    }

    /// Records what happened, and returns once it cannot be lost any more.
    ///
    /// # Errors
    /// When the database fails, or another executor has written to this run. Whoever drives the
    /// run must stop then.
    pub(crate) async fn commit(&self, kind: EventKind) -> Result<(), Error> {
        let done = self.number(kind, |event| self.store.append(event, Arc::clone(&self.committed)));
        done.await
    }

    fn number<T>(&self, mut kind: EventKind, send: impl FnOnce(Event) -> T) -> T {
        self.secrets.mask_event(&mut kind);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        *last += 1;
        send(Event { v: EVENT_VERSION, seq: *last, run: self.run, at: self.clock.now(), kind })
    }
}
