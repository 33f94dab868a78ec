//! Runs and their events, in SQLite, in PostgreSQL, or in memory.
//!
//! With a database, one task writes the events of runs. It takes all waiting jobs, does them in one
//! transaction, and responds after the commit: many runs share the cost of one `fsync`, and the jobs of one
//! run are done in the order in which they were sent. In SQLite it also does all other writes, because it
//! has the only connection that may write; in PostgreSQL the other writes have their own connections. So do
//! reads.
//!
//! A run belongs to one executor for a limited time, by the clock of the database. Each time that it is
//! given to an executor, its epoch grows, and nothing is written for an older epoch: the database itself
//! ensures this, in the statement that writes.

mod append;
mod batch_writer;
mod connection;
mod create;
mod memory;
mod notifications;
mod open;
mod persisted_item;
mod plans;
mod queries;
mod run_queue;
mod tasks;

use std::sync::Arc;
use std::time::Duration;

use a2s::{CapabilityName, Digest};
use a2s_api::{Principal, RunEvent, RunStatus};
use database::{DatabaseLock, Pool};
use futures::future::{Either, ready};
use jiff::Timestamp;
use tokio::sync::{oneshot, watch};
use uuid::Uuid;

use batch_writer::{TaskOutcome, WriterQueue, WriterTask, start_writer};
pub(crate) use create::{CreateResult, NewRun, PendingCommit};
use memory::InMemoryStore;
pub(crate) use notifications::Notification;
use notifications::NotificationListener;
use open::OpenedStore;
use persisted_item::JournalItem;
pub(crate) use plans::NewPlan;
pub(crate) use plans::StoredPlan;
pub(crate) use run_queue::{TenantCaps, TenantQuota};
use tasks::perform_alone;

use super::lease::taken;
use super::recorded_exchange::RecordedExchange;
use crate::config::{Durability, ExecutorDatabase};
use crate::database::to_store_error;
use crate::error::{Error, ErrorKind};
use crate::vault::Ciphertext;

/// The name of the stored data in errors.
const WHAT: &str = "the run database";

/// A handle of the run database. A clone is cheap. The writer ends when the last handle is dropped.
#[derive(Debug, Clone)]
pub(crate) struct RunStore {
    /// The lock that this process holds while it uses a database in a file. It is dropped before the
    /// connections.
    _lock: Option<Arc<DatabaseLock>>,
    backend: StoreBackend,
    /// The key from which the names of this executor in reports to a registry are derived.
    identity: String,
}

/// The storage of runs.
#[derive(Debug, Clone)]
enum StoreBackend {
    Sql { reads: Pool, jobs: WriterQueue },
    Memory(Arc<InMemoryStore>),
}

/// The right of an executor to drive runs, for a limited time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LeaseTerms {
    /// The executor.
    pub(crate) owner: Uuid,
    /// The time during which no other executor may drive, from when the database grants it.
    pub(crate) length: Duration,
}

/// The number of times that a run was given to an executor. Each write for a run states the epoch of its
/// writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LeaseEpoch(i64);

impl LeaseEpoch {
    /// The epoch of a new run.
    pub(crate) const FIRST: Self = Self(1);
}

/// A run that was taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClaimedRun {
    /// The run.
    pub(crate) run: Uuid,
    /// The epoch of all writes to it from now on.
    pub(crate) epoch: LeaseEpoch,
    /// The number of executors in a row that disappeared while they drove it, without finishing a step of
    /// it.
    pub(crate) takeovers: u32,
}

/// A run with a renewed lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RenewedRun {
    /// The run.
    pub(crate) run: Uuid,
    /// True when a caller wants it to end.
    pub(crate) cancel_requested: bool,
}

/// A filter for the listed runs.
#[derive(Debug, Default)]
pub(crate) struct RunFilter {
    /// Only runs that were started before this one.
    pub(crate) before: Option<Uuid>,
    /// Only runs in this state.
    pub(crate) status: Option<RunStatus>,
    /// Only runs of this capability.
    pub(crate) name: Option<CapabilityName>,
    /// Only runs of this tenant.
    pub(crate) tenant: Option<Principal>,
}

/// The events that begin, suspend and end a run.
#[derive(Debug)]
pub(crate) struct RunSummaryEvents {
    /// The principal that it belongs to.
    pub(crate) tenant: Principal,
    /// The events, in order.
    pub(crate) events: Vec<RunEvent>,
}

/// The changes that an event makes to the sealed values of its run.
#[derive(Debug, Default)]
pub(crate) struct SealedChanges {
    /// The values that are sealed with it.
    pub(crate) sealed: Option<Ciphertext>,
    /// The number of an earlier event, with sealed values that are deleted at the same time.
    pub(crate) obsolete: Option<u64>,
}

impl SealedChanges {
    fn is_empty(&self) -> bool {
        self.sealed.is_none() && self.obsolete.is_none()
    }
}

/// The stored data of a run, without its events.
#[derive(Debug)]
pub(crate) struct RunRow {
    /// Its state after the last event.
    pub(crate) status: RunStatus,
    /// The principal that it belongs to.
    pub(crate) tenant: Principal,
    /// The document that each dependency resolves to, as JSON.
    pub(crate) choices: String,
    /// True when a caller wants it to end.
    pub(crate) cancel_requested: bool,
    /// The epoch of all writes to it from now on.
    pub(crate) epoch: LeaseEpoch,
}

impl RunStore {
    /// Opens the database. Creates it when it is a missing file, and updates its schema. A schema newer
    /// than this program is refused.
    ///
    /// # Errors
    /// Fails when the database cannot be opened or migrated.
    pub(crate) async fn open(
        database: &ExecutorDatabase,
        durability: Durability,
    ) -> Result<Self, Error> {
        let OpenedStore { reads, writer, identity, lock } =
            open::open(database, durability).await?;
        let home = match durability {
            Durability::Full | Durability::Normal => {
                StoreBackend::Sql { reads, jobs: start_writer(writer) }
            }
            // What else is in the database is used by others.
            Durability::Memory => StoreBackend::Memory(Arc::default()),
        };
        Ok(Self { _lock: lock.map(Arc::new), backend: home, identity })
    }

    /// Appends an event with the sealed values that it leaves out, and deletes the values that it makes
    /// obsolete. The event is queued when this function returns, and committed when the future completes.
    /// Then `committed` gets its number. Sealed values are deleted when the run is over.
    ///
    /// # Errors
    /// Returns [`ErrorKind::LeaseLost`] when the event does not follow the last one, when the run has a
    /// newer epoch because another executor writes to it, or when it begins a wait that yields to a
    /// cancellation of the run.
    pub(crate) fn append(
        &self,
        event: RunEvent,
        epoch: LeaseEpoch,
        besides: SealedChanges,
        committed: Arc<watch::Sender<u64>>,
    ) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        let run = event.run;
        let event = Box::new(event);
        let appended = self.submit_task(WriterTask::Append(JournalItem::Event {
            event,
            epoch,
            besides,
            committed,
        }));
        async move {
            match appended.await? {
                TaskOutcome::Done => Ok(()),
                TaskOutcome::OutOfTurn => Err(taken(run)),
                _ => Err(lost()),
            }
        }
    }

    /// Appends an event without waiting, with the changes of sealed values.
    /// The event is committed before any later event of its run. When that fails, later events cannot be
    /// appended either.
    pub(crate) fn append_later(
        &self,
        event: RunEvent,
        epoch: LeaseEpoch,
        besides: SealedChanges,
        committed: Arc<watch::Sender<u64>>,
    ) {
        let event = Box::new(event);
        self.submit_later(WriterTask::Append(JournalItem::Event {
            event,
            epoch,
            besides,
            committed,
        }));
    }

    /// Keeps the request and response of a step, without waiting: they are committed before any later event
    /// of its run.
    pub(crate) fn append_exchange_later(
        &self,
        run: Uuid,
        epoch: LeaseEpoch,
        step: String,
        exchange: RecordedExchange,
    ) {
        let exchange = Box::new(exchange);
        self.submit_later(WriterTask::Append(JournalItem::Exchange { run, epoch, step, exchange }));
    }

    /// Stores a plan that can be run. Returns false when the maximum number of plans is stored already.
    pub(crate) async fn store_plan(&self, plan: NewPlan) -> Result<bool, Error> {
        Ok(!matches!(
            self.run_task(WriterTask::StorePlan(Box::new(plan))).await?,
            TaskOutcome::Full
        ))
    }

    /// Deletes the contents of expired plans, and removes plans that expired some time ago.
    pub(crate) async fn sweep_plans(&self, now: Timestamp) -> Result<(), Error> {
        self.run_task(WriterTask::SweepPlans(now)).await.map(|_| ())
    }

    /// Records that a run is to end; the executor that drives it sees this, and the run cannot begin to wait
    /// for an approval.
    pub(crate) async fn request_cancel(&self, run: Uuid) -> Result<(), Error> {
        self.run_task(WriterTask::RequestCancel(run)).await.map(|_| ())
    }

    /// Deletes a run that is over, with all its data. Returns false when the run is not over.
    pub(crate) async fn delete(&self, run: Uuid) -> Result<bool, Error> {
        Ok(!self.run_ids_of(WriterTask::Delete(run)).await?.is_empty())
    }

    /// Deletes at most `limit` runs that were over before a time, and returns their ids.
    pub(crate) async fn forget(&self, before: Timestamp, limit: usize) -> Result<Vec<Uuid>, Error> {
        self.run_ids_of(WriterTask::Forget { before, limit }).await
    }

    /// Gives at most `limit` runs to an executor. First come runs that have begun and that no executor
    /// drives, because their executor has left them or did not renew its lease in time. Then come waiting
    /// runs, in order of their turns, as far as `caps` allow. Runs in `live` are left alone. The epoch of
    /// each run grows; if its lease was that of another executor and has expired, this counts as a
    /// takeover. Also returns whether any runs still wait.
    pub(crate) async fn claim(
        &self,
        lease: LeaseTerms,
        live: Vec<Uuid>,
        caps: Arc<TenantCaps>,
        limit: usize,
    ) -> Result<(Vec<ClaimedRun>, bool), Error> {
        match self.run_task(WriterTask::Claim { lease, live, caps, limit }).await? {
            TaskOutcome::Claimed(runs, left) => Ok((runs, left)),
            _ => Err(lost()),
        }
    }

    /// Extends the leases of runs that are still in these epochs, and returns these runs. The others belong
    /// to another executor, or are over.
    pub(crate) async fn renew(
        &self,
        lease: LeaseTerms,
        live: Vec<(Uuid, LeaseEpoch)>,
    ) -> Result<Vec<RenewedRun>, Error> {
        match self.run_task(WriterTask::Renew { lease, live }).await? {
            TaskOutcome::Held(runs) => Ok(runs),
            _ => Err(lost()),
        }
    }

    /// Releases all runs of `owner`, so that another executor can take them over at once.
    pub(crate) async fn release(&self, owner: Uuid) -> Result<(), Error> {
        self.run_task(WriterTask::Release { owner }).await.map(|_| ())
    }

    /// Checks that the writer can write. After a failure, the writer tests it with a write that changes
    /// nothing.
    pub(crate) async fn check_writer(&self) -> Result<(), Error> {
        self.run_task(WriterTask::Probe).await.map(|_| ())
    }

    /// The key from which the names of this executor in reports to a registry are derived.
    pub(crate) fn identity(&self) -> &str {
        &self.identity
    }

    /// Listens to the other executors. Returns `None` when there can be no other executors.
    ///
    /// # Errors
    /// Fails when the database does not respond.
    pub(crate) async fn listen(&self) -> Result<Option<NotificationListener>, Error> {
        NotificationListener::open(&self.backend).await
    }

    /// Marks runs as reported: they need no further report.
    pub(crate) async fn mark_reported(&self, runs: Vec<Uuid>) -> Result<(), Error> {
        self.run_task(WriterTask::MarkReported(runs)).await.map(|_| ())
    }

    /// Lets the leases of an executor expire.
    #[cfg(test)]
    pub(crate) async fn expire(&self, owner: Uuid) {
        const SQL: &str = "UPDATE run SET lease_until = 0 WHERE owner = $1";
        let StoreBackend::Sql { reads: Pool::Postgres(pool), .. } = &self.backend else {
            return;
        };
        // After renewals that are under way.
        self.renew(LeaseTerms { owner, length: Duration::ZERO }, Vec::new()).await.unwrap();
        // One of the pool may have been opened by a thread that has ended, and its runtime with it.
        let mut own = sqlx::ConnectOptions::connect(&*pool.connect_options()).await.unwrap();
        sqlx::query(SQL).bind(owner.to_string()).execute(&mut own).await.unwrap();
    }

    async fn run_ids_of(&self, task: WriterTask) -> Result<Vec<Uuid>, Error> {
        match self.run_task(task).await? {
            TaskOutcome::Runs(runs) => Ok(runs),
            _ => Err(lost()),
        }
    }

    /// Has a task performed. It is on its way when this returns, unless it need not be in order.
    fn run_task(
        &self,
        task: WriterTask,
    ) -> impl Future<Output = Result<TaskOutcome, Error>> + Send + use<> {
        if let StoreBackend::Sql { reads: pool @ Pool::Postgres(_), .. } = &self.backend
            && !task.is_in_order()
        {
            let pool = pool.clone();
            return Either::Left(async move {
                perform_alone(&pool, &task).await.map_err(to_store_error(WHAT))
            });
        }
        Either::Right(self.submit_task(task))
    }

    /// Has something done that must be done in order: it is on its way when this returns, and done
    /// when the future is.
    fn submit_task(
        &self,
        task: WriterTask,
    ) -> impl Future<Output = Result<TaskOutcome, Error>> + Send + use<> {
        match &self.backend {
            StoreBackend::Memory(memory) => Either::Left(ready(Ok(memory.perform(task)))),
            StoreBackend::Sql { jobs, .. } => {
                let (reply, answer) = oneshot::channel();
                let sent = jobs.send(task, Some(reply));
                Either::Right(async move {
                    if !sent {
                        return Err(lost());
                    }
                    answer.await.map_err(|_| lost())?
                })
            }
        }
    }

    /// The same, without waiting for the result.
    fn submit_later(&self, task: WriterTask) {
        match &self.backend {
            // Out of turn: the next awaited event reports that.
            StoreBackend::Memory(memory) => drop(memory.perform(task)),
            // Without a writer the next one that is waited for reports it.
            StoreBackend::Sql { jobs, .. } => drop(jobs.send(task, None)),
        }
    }
}

fn parse_owner_of_key(id: &str, digest: &str) -> Result<(Uuid, Digest), Error> {
    let id = id.parse().map_err(to_store_error::<uuid::Error>(WHAT))?;
    let digest = digest.parse().map_err(to_store_error::<a2s::DigestError>(WHAT))?;
    Ok((id, digest))
}

fn parse_ids(ids: &[String]) -> Result<TaskOutcome, sqlx::Error> {
    ids.iter().map(|id| parse_id(id)).collect::<Result<_, _>>().map(TaskOutcome::Runs)
}

/// Id, epoch and takeovers of a run.
type ClaimedRow = (String, i64, i64);

/// The outcome for claimed runs; `left` is true when any runs still wait.
fn to_claimed_runs(rows: &[ClaimedRow], left: bool) -> Result<TaskOutcome, sqlx::Error> {
    let claimed = |(id, epoch, takeovers): &ClaimedRow| {
        let takeovers = u32::try_from(*takeovers).unwrap_or(u32::MAX);
        Ok(ClaimedRun { run: parse_id(id)?, epoch: LeaseEpoch(*epoch), takeovers })
    };
    let claimed = rows.iter().map(claimed).collect::<Result<_, sqlx::Error>>()?;
    Ok(TaskOutcome::Claimed(claimed, left))
}

/// Of ids, and whether each is to be cancelled.
fn to_renewed_runs(rows: &[(String, i64)]) -> Result<TaskOutcome, sqlx::Error> {
    let held = |(id, cancel): &(String, i64)| {
        Ok(RenewedRun { run: parse_id(id)?, cancel_requested: *cancel != 0 })
    };
    rows.iter().map(held).collect::<Result<_, _>>().map(TaskOutcome::Held)
}

fn parse_id(id: &str) -> Result<Uuid, sqlx::Error> {
    id.parse().map_err(|error: uuid::Error| sqlx::Error::Decode(Box::new(error)))
}

/// As columns have it.
fn to_count(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

/// As columns have it.
fn to_milliseconds(length: Duration) -> i64 {
    i64::try_from(length.as_millis()).unwrap_or(i64::MAX)
}

/// The writer is gone.
fn lost() -> Error {
    Error::new(ErrorKind::Store, "the run database is closed")
}

#[cfg(test)]
mod tests;
