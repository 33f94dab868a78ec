//! The journal of one run: its only writer, and the gapless sequence of its events. Nothing secret
//! gets past it.

pub(crate) mod lease;
pub(crate) mod recorded_exchange;
pub(crate) mod run_state;
pub(crate) mod sealed_values;
pub(crate) mod store;
pub(crate) mod wait_point;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use a2s_api::{EventKind, Run, RunEvent};
use tokio::sync::watch;
use uuid::Uuid;

use crate::clock::Clock;
use crate::error::Error;
use crate::secrets::RunSecrets;
use crate::vault::Vault;
use lease::RunLease;
use recorded_exchange::RecordedExchange;
use run_state::RunState;
use sealed_values::SealedValues;
use store::{LeaseTerms, RunStore, SealedChanges};
use wait_point::WaitPoint;

/// Version of the format of events.
pub(crate) const EVENT_VERSION: u8 = 1;

/// The writer of the events of one run.
#[derive(Debug)]
pub(crate) struct Journal {
    run: Uuid,
    clock: Arc<dyn Clock>,
    /// The values that no event may reveal.
    secrets: Arc<RunSecrets>,
    /// The lock is held while an event is numbered and sent, so that events reach the store in the order of
    /// their numbers, from all branches of a parallel step. It is never held across an await.
    sink: Mutex<JournalTarget>,
    committed: Arc<watch::Sender<u64>>,
}

/// The destination of events.
#[derive(Debug)]
enum JournalTarget {
    /// To the database, as long as the run belongs to this executor. The values that events leave out are
    /// sealed, so that the run can be resumed. `state` is the result of the events.
    Database {
        state: Box<RunState>,
        lease: LeaseTerms,
        run_lease: Arc<RunLease>,
        store: RunStore,
        vault: Arc<Vault>,
        /// The events with which the wait points of steps are sealed, by step.
        wait_points: BTreeMap<String, u64>,
    },
    /// To a list: this run is never resumed.
    Memory(Vec<RunEvent>),
}

impl JournalTarget {
    /// Returns the number of the last event.
    fn last(&self) -> u64 {
        match self {
            Self::Database { state, .. } => state.last(),
            Self::Memory(events) => events.last().map_or(0, |event| event.seq),
        }
    }
}

impl Journal {
    /// The journal of a run that is walked once, to get its events.
    pub(crate) fn in_memory(run: Uuid, clock: Arc<dyn Clock>, secrets: Arc<RunSecrets>) -> Self {
        Self::new(run, JournalTarget::Memory(Vec::new()), clock, secrets)
    }

    /// Continues the journal of a run that has the given state and was assigned to this executor.
    pub(crate) fn resume(
        state: RunState,
        (lease, run_lease): (LeaseTerms, Arc<RunLease>),
        store: RunStore,
        clock: Arc<dyn Clock>,
        vault: Arc<Vault>,
        secrets: Arc<RunSecrets>,
    ) -> Self {
        let (run, state) = (state.id(), Box::new(state));
        let wait_points = BTreeMap::new();
        let sink = JournalTarget::Database { state, lease, run_lease, store, vault, wait_points };
        Self::new(run, sink, clock, secrets)
    }

    fn new(
        run: Uuid,
        sink: JournalTarget,
        clock: Arc<dyn Clock>,
        secrets: Arc<RunSecrets>,
    ) -> Self {
        let committed = Arc::new(watch::Sender::new(sink.last()));
        Self { run, clock, secrets, sink: Mutex::new(sink), committed }
    }

    /// Returns the events of an in-memory journal.
    pub(crate) fn into_events(self) -> Vec<RunEvent> {
        match self.sink.into_inner().unwrap_or_else(PoisonError::into_inner) {
            JournalTarget::Database { .. } => Vec::new(),
            JournalTarget::Memory(events) => events,
        }
    }

    /// Returns the number of the last event.
    pub(crate) fn last(&self) -> u64 {
        self.lock().last()
    }

    /// The run that its events describe, including those not yet on disk. `None` for a journal that is a
    /// list.
    pub(crate) fn state(&self) -> Option<Run> {
        match &*self.lock() {
            JournalTarget::Database { state, .. } => Some(state.to_run()),
            JournalTarget::Memory(_) => None,
        }
    }

    /// Takes over the wait points of steps that were sealed before, by the numbers of their events. Each
    /// one is deleted when its step ends.
    pub(crate) fn adopt_wait_points(&self, sealed: BTreeMap<String, u64>) {
        if let JournalTarget::Database { wait_points, .. } = &mut *self.lock() {
            *wait_points = sealed;
        }
    }

    /// Returns a receiver of the number of the last committed event, updated when it grows.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.committed.subscribe()
    }

    /// Records an event, in order, without waiting for the disk. The next [`commit`](Self::commit) waits
    /// for it too.
    pub(crate) fn append(&self, mut kind: EventKind) {
        self.secrets.mask_event(&mut kind);
        let mut sink = self.lock();
        let event = self.to_event(sink.last() + 1, kind);
        match &mut *sink {
            JournalTarget::Database { state, run_lease, store, wait_points, .. } => {
                state.apply(&event);
                let obsolete = take_obsolete(wait_points, &event.kind);
                let besides = SealedChanges { sealed: None, obsolete };
                store.append_later(event, run_lease.epoch, besides, Arc::clone(&self.committed));
            }
            JournalTarget::Memory(events) => events.push(event),
        }
    }

    /// Records an event without waiting for the disk; the next [`commit`](Self::commit), or two
    /// milliseconds, make it durable. Outputs of a step that the event leaves out are sealed with it. On
    /// success, no other executor drives the run at that time.
    ///
    /// This is for the end of a step, and for a request that changes nothing: a crash may lose the event,
    /// and then the step runs again.
    ///
    /// # Errors
    /// When secret values cannot be sealed, or another executor drives this run. The caller must then stop
    /// driving the run.
    pub(crate) async fn record(&self, kind: EventKind) -> Result<(), Error> {
        self.write(kind, None, Durability::Soon).await
    }

    /// Records an event, and returns once it cannot be lost. Outputs of a step that the event leaves out
    /// are sealed with it. On success, no other executor drives the run at that time.
    ///
    /// # Errors
    /// When the database fails, secret values cannot be sealed, or another executor has written to this
    /// run. The caller must then stop driving the run.
    pub(crate) async fn commit(&self, kind: EventKind) -> Result<(), Error> {
        self.write(kind, None, Durability::Now).await
    }

    /// Records that a step waits for an approval, and seals its wait point with the event.
    ///
    /// # Errors
    /// The same as of [`commit`](Self::commit).
    pub(crate) async fn commit_wait(
        &self,
        kind: EventKind,
        wait_point: WaitPoint,
    ) -> Result<(), Error> {
        let sealed = SealedValues::from_wait_point(wait_point);
        self.write(kind, Some(sealed), Durability::Now).await
    }

    async fn write(
        &self,
        mut kind: EventKind,
        waits: Option<SealedValues>,
        durability: Durability,
    ) -> Result<(), Error> {
        let truth = SealedValues::from_event(&kind, &self.secrets);
        self.secrets.mask_event(&mut kind);
        let (done, lease, run_lease, store) = {
            let mut sink = self.lock();
            let seq = sink.last() + 1;
            let (state, lease, run_lease, store, vault, wait_points) = match &mut *sink {
                JournalTarget::Database { state, lease, run_lease, store, vault, wait_points } => {
                    (state, *lease, Arc::clone(run_lease), store.clone(), vault, wait_points)
                }
                JournalTarget::Memory(events) => {
                    events.push(self.to_event(seq, kind));
                    return Ok(());
                }
            };
            // Under the lock: a secret is sealed with the event that mentions it, or before.
            let hidden = truth.and_then(|truth| truth.without_recorded(&kind, &self.secrets));
            let seal = |hidden: SealedValues| hidden.seal(vault, self.run, seq);
            let is_wait = waits.is_some();
            let sealed = waits.or(hidden).map(seal).transpose()?;
            let mut obsolete = take_obsolete(wait_points, &kind);
            if is_wait && let EventKind::ApprovalRequested { step, .. } = &kind {
                obsolete = wait_points.insert(step.clone(), seq);
            }
            let event = self.to_event(seq, kind);
            state.apply(&event);
            let besides = SealedChanges { sealed, obsolete };
            let (epoch, committed) = (run_lease.epoch, Arc::clone(&self.committed));
            let done = match durability {
                Durability::Now => Some(store.append(event, epoch, besides, committed)),
                Durability::Soon => {
                    store.append_later(event, epoch, besides, committed);
                    None
                }
            };
            (done, lease, run_lease, store)
        };
        if let Some(done) = done {
            done.await?;
        }
        run_lease.ensure_valid(self.run, lease, &store).await
    }

    /// Keeps the request and response of a step for replays. They are on disk before the end of the step
    /// is.
    pub(crate) fn record_exchange(&self, step: &str, exchange: RecordedExchange) {
        if let JournalTarget::Database { run_lease, store, .. } = &*self.lock() {
            store.append_exchange_later(self.run, run_lease.epoch, step.to_owned(), exchange);
        }
    }

    fn to_event(&self, seq: u64, kind: EventKind) -> RunEvent {
        RunEvent { v: EVENT_VERSION, seq, run: self.run, at: self.clock.now(), kind }
    }

    fn lock(&self) -> MutexGuard<'_, JournalTarget> {
        self.sink.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The time by which an event is on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Durability {
    /// Before the writer of the event goes on.
    Now,
    /// With the next event that has to be there now, or after two milliseconds.
    Soon,
}

/// Takes the number of the event with a wait point that is now obsolete, because its step has ended.
fn take_obsolete(wait_points: &mut BTreeMap<String, u64>, kind: &EventKind) -> Option<u64> {
    match kind {
        EventKind::StepFinished { step, .. } | EventKind::StepFailed { step, .. } => {
            wait_points.remove(step)
        }
        _ => None,
    }
}

/// Locks a mutex. Nothing panics while it holds one of these locks; even then, the guarded data would be
/// complete.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
