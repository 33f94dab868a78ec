//! The journal of one run: its only writer, and the gapless sequence of its events. Nothing secret
//! gets past it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use a2s::api::{Event, EventKind};
use tokio::sync::watch;
use uuid::Uuid;

use super::exchange::Exchange;
use super::hidden::Hidden;
use super::store::Store;
use crate::clock::Clock;
use crate::error::Error;
use crate::secrets::Secrets;
use crate::vault::Vault;

/// Version of the format of events.
pub(crate) const EVENT_VERSION: u8 = 1;

/// Writes the events of one run.
#[derive(Debug)]
pub(crate) struct Journal {
    run: Uuid,
    sink: Sink,
    clock: Arc<dyn Clock>,
    /// What no event may tell.
    secrets: Arc<Secrets>,
    /// The number of the last event that was sent to the store. The lock is held while an event is
    /// numbered and sent, so that events reach the store in the order of their numbers, whichever
    /// branch of a parallel step they come from; it is never held while anything is awaited.
    last: Mutex<u64>,
    committed: Arc<watch::Sender<u64>>,
}

/// Where events go.
#[derive(Debug)]
enum Sink {
    /// To the database; what they do not tell is sealed, so that the run can be resumed.
    Database { store: Store, vault: Arc<Vault> },
    /// To a list: nobody goes on with this run.
    List(Mutex<Vec<Event>>),
}

impl Journal {
    /// The journal of a run that is walked once, for what it tells.
    pub(crate) fn listed(run: Uuid, clock: Arc<dyn Clock>, secrets: Arc<Secrets>) -> Self {
        Self::new(run, 0, Sink::List(Mutex::default()), clock, secrets)
    }

    /// Goes on with the journal of `run` after its event `last`.
    pub(crate) fn after(
        run: Uuid,
        last: u64,
        store: Store,
        clock: Arc<dyn Clock>,
        vault: Arc<Vault>,
        secrets: Arc<Secrets>,
    ) -> Self {
        Self::new(run, last, Sink::Database { store, vault }, clock, secrets)
    }

    fn new(run: Uuid, last: u64, sink: Sink, clock: Arc<dyn Clock>, secrets: Arc<Secrets>) -> Self {
        let committed = Arc::new(watch::Sender::new(last));
        Self { run, sink, clock, secrets, last: Mutex::new(last), committed }
    }

    /// The events of a journal that is a list.
    pub(crate) fn into_events(self) -> Vec<Event> {
        match self.sink {
            Sink::Database { .. } => Vec::new(),
            Sink::List(events) => events.into_inner().unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// The number of the last event.
    pub(crate) fn last(&self) -> u64 {
        *self.lock()
    }

    /// Tells the number of the last event that is committed, whenever it grows.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.committed.subscribe()
    }

    /// Records what happened, in order, without waiting for the disk. The next
    /// [`commit`](Self::commit) waits for it too.
    pub(crate) fn note(&self, mut kind: EventKind) {
        self.secrets.mask_event(&mut kind);
        let mut last = self.lock();
        let event = self.event(*last + 1, kind);
        *last += 1;
        match &self.sink {
            Sink::Database { store, .. } => store.append_soon(event, Arc::clone(&self.committed)),
            Sink::List(events) => push(events, event),
        }
    }

    /// Records what happened, and returns once it cannot be lost any more. What a step set is
    /// sealed beside its event where the event does not tell it.
    ///
    /// # Errors
    /// When the database fails, what is secret cannot be sealed, or another executor has written to
    /// this run. Whoever drives the run must stop then.
    pub(crate) async fn commit(&self, mut kind: EventKind) -> Result<(), Error> {
        let truth = Hidden::of(&kind, &self.secrets);
        self.secrets.mask_event(&mut kind);
        let done = {
            let mut last = self.lock();
            let seq = *last + 1;
            let (store, vault) = match &self.sink {
                Sink::Database { store, vault } => (store, vault),
                Sink::List(events) => {
                    *last = seq;
                    push(events, self.event(seq, kind));
                    return Ok(());
                }
            };
            // Under the lock: a secret is sealed with the event that tells of it, or before.
            let hidden = truth.and_then(|truth| truth.unless_told(&kind, &self.secrets));
            let sealed = hidden.map(|hidden| hidden.seal(vault, self.run, seq)).transpose()?;
            let event = self.event(seq, kind);
            *last = seq;
            store.append(event, sealed, Arc::clone(&self.committed))
        };
        done.await
    }

    /// Keeps what a step asked and was answered, for replays. It is on the disk before the end of
    /// the step is.
    pub(crate) fn keep(&self, step: &str, exchange: Exchange) {
        if let Sink::Database { store, .. } = &self.sink {
            store.keep_soon(self.run, step.to_owned(), exchange);
        }
    }

    fn event(&self, seq: u64, kind: EventKind) -> Event {
        Event { v: EVENT_VERSION, seq, run: self.run, at: self.clock.now(), kind }
    }

    fn lock(&self) -> MutexGuard<'_, u64> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn push(events: &Mutex<Vec<Event>>, event: Event) {
    events.lock().unwrap_or_else(PoisonError::into_inner).push(event);
}
