//! Runs and their events in SQLite.
//!
//! One task owns the only writing connection. It takes all the jobs that wait, does them in one
//! transaction, and answers after the commit: many runs share the price of one `fsync`, and the
//! jobs of one run are done in the order they were sent. Reads have connections of their own.

mod plans;
mod tell;
mod write;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use a2s::api::{Event, EventKind, RunStatus};
use a2s::{CapabilityName, Digest};
use jiff::Timestamp;
use sqlx::ConnectOptions as _;
use sqlx::sqlite::{SqlitePool, SqlitePoolOptions, SqliteSynchronous};
use tokio::sync::{oneshot, watch};
use uuid::Uuid;

pub(crate) use plans::NewPlan;
use plans::StoredPlan;
use tell::Told;
use write::{Jobs, Outcome, Task, start};

use super::exchange::Exchange;
use crate::config::Durability;
use crate::database::{failed, options, options_in_memory};
use crate::error::{Error, Kind};
use crate::vault::Sealed;

static MIGRATIONS: sqlx::migrate::Migrator = sqlx::migrate!("migrations/sqlite");

/// As errors call it.
const WHAT: &str = "the run database";
/// Events of a run that may wait to be written where none is waited for.
const MAX_UNWRITTEN: u64 = 1024;
/// How long an event that nobody waits for may wait itself; where none is waited for, readers are
/// all that is late.
const LINGER: Duration = Duration::from_millis(2);
const LINGER_IN_MEMORY: Duration = Duration::from_millis(5);
/// Connections that read.
const READERS: u32 = 4;

/// A handle on the database. Cloning it is cheap; when the last one goes, the writer ends.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    reads: SqlitePool,
    jobs: Jobs,
    /// Whether an event counts only once it is written.
    waits: bool,
    /// The key of the names that a registry knows this executor by.
    identity: String,
    /// Held for as long as this process uses the database: see [`Store::open`].
    _presence: Arc<File>,
}

/// What a new run is recorded with.
#[derive(Debug)]
pub(crate) struct NewRun {
    /// The capability.
    pub(crate) name: CapabilityName,
    /// Which document each dependency means, as JSON.
    pub(crate) choices: String,
    /// The documents, as the registry sent them.
    pub(crate) documents: Vec<(Digest, Vec<u8>)>,
    /// The caller's idempotency key.
    pub(crate) key: Option<String>,
    /// Digest of what the caller asked for.
    pub(crate) request_digest: Digest,
    /// The plan that it uses up.
    pub(crate) plan: Option<Digest>,
    /// Its first event.
    pub(crate) first: Event,
    /// What that does not tell.
    pub(crate) sealed: Option<Sealed>,
    /// Who will drive it.
    pub(crate) lease: Lease,
}

/// The right to drive runs: whose it is, and until when.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lease {
    /// The executor.
    pub(crate) owner: Uuid,
    /// Until when nobody else may drive.
    pub(crate) until: Timestamp,
}

/// What became of a new run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Created {
    /// It is recorded.
    New,
    /// Its idempotency key belongs to this run, which was asked for with this digest.
    Existing(Uuid, Digest),
    /// Its plan was used or has ended: it is not recorded.
    PlanGone,
}

/// Which runs are listed.
#[derive(Debug, Default)]
pub(crate) struct RunFilter {
    /// Those started before this one.
    pub(crate) before: Option<Uuid>,
    /// Those in this state.
    pub(crate) status: Option<RunStatus>,
    /// Those of this capability.
    pub(crate) name: Option<CapabilityName>,
}

/// What is known about a run beside its events.
#[derive(Debug)]
pub(crate) struct RunRow {
    /// Its state after the last event.
    pub(crate) status: RunStatus,
    /// Which document each dependency means, as JSON.
    pub(crate) choices: String,
    /// Whether somebody wants it to end.
    pub(crate) cancel_requested: bool,
}

impl Store {
    /// Opens the database in the file `path`, making file and folders when they are missing, and
    /// brings its schema up to date. A schema newer than this program is refused.
    ///
    /// A lock file beside it tells whether another process uses the database. When none does, the
    /// leases in it belong to dead processes and are dropped, so that a restart need not wait for
    /// them to run out.
    ///
    /// # Errors
    /// When the file cannot be opened or migrated.
    pub(crate) async fn open(path: &Path, durability: Durability) -> Result<Self, Error> {
        let unusable = |why: &dyn std::fmt::Display| {
            Error::new(
                Kind::Configuration,
                format!("the run database `{}` cannot be opened: {why}", path.display()),
            )
        };
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|error| unusable(&error))?;
        }
        let mut lock_name = path.as_os_str().to_owned();
        lock_name.push(".lock");
        let presence = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&lock_name)
            .map_err(|error| unusable(&error))?;
        let alone = presence.try_lock().is_ok();

        let synchronous = match durability {
            Durability::Full | Durability::Memory => SqliteSynchronous::Full,
            Durability::Normal => SqliteSynchronous::Normal,
        };
        let mut options = options(path, synchronous).create_if_missing(true);
        let mut writer = options.connect().await.map_err(|error| unusable(&error))?;
        MIGRATIONS.run(&mut writer).await.map_err(|error| unusable(&error))?;
        if alone {
            sqlx::query("UPDATE run SET owner = NULL, lease_until = NULL WHERE owner IS NOT NULL")
                .execute(&mut writer)
                .await
                .map_err(|error| unusable(&error))?;
            presence.unlock().map_err(|error| unusable(&error))?;
        }
        // Whoever opens the database from now on sees that it is in use. Nothing was claimed yet,
        // so it does no harm that another may have been alone in between.
        presence.lock_shared().map_err(|error| unusable(&error))?;

        let identity: String = sqlx::query_scalar("SELECT identity FROM executor")
            .fetch_one(&mut writer)
            .await
            .map_err(|error| unusable(&error))?;
        if durability == Durability::Memory {
            // What else is in the file is used by others.
            options = options_in_memory().create_if_missing(true);
            writer = options.connect().await.map_err(|error| unusable(&error))?;
            MIGRATIONS.run(&mut writer).await.map_err(|error| unusable(&error))?;
        }
        let reads = SqlitePoolOptions::new()
            .max_connections(READERS)
            .connect_with(options.read_only(true))
            .await
            .map_err(|error| unusable(&error))?;
        let waits = durability != Durability::Memory;
        let jobs = start(writer, if waits { LINGER } else { LINGER_IN_MEMORY });
        Ok(Self { reads, jobs, waits, identity, _presence: Arc::new(presence) })
    }

    /// Records a run with its documents and first event, and uses up its plan: all or nothing.
    pub(crate) async fn create(&self, run: NewRun) -> Result<Created, Error> {
        match self.ask(Task::Create(Box::new(run))).await? {
            Outcome::Created(created) => Ok(created),
            Outcome::Done | Outcome::OutOfTurn | Outcome::Full | Outcome::Runs(_) => Err(lost()),
        }
    }

    /// Appends an event with what it does not tell: it is on its way when this returns, and
    /// committed when the future does. `committed` is told its number then. What is sealed goes
    /// when the run is over.
    ///
    /// # Errors
    /// [`Kind::LeaseLost`] when it does not follow the last event: somebody else wrote.
    pub(crate) fn append(
        &self,
        event: Event,
        sealed: Option<Sealed>,
        committed: Arc<watch::Sender<u64>>,
    ) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        let run = event.run;
        let waits = self.waits || must_be_written(&event, *committed.borrow());
        let (reply, answer) = oneshot::channel();
        let task = Task::Tell(Told::Event { event: Box::new(event), sealed, committed });
        let sent = self.jobs.send(task, waits.then_some(reply));
        async move {
            if !sent {
                return Err(lost());
            }
            if !waits {
                return Ok(());
            }
            match answer.await.map_err(|_| lost())?? {
                Outcome::Done => Ok(()),
                Outcome::OutOfTurn => Err(Error::new(
                    Kind::LeaseLost,
                    format!("run {run} was driven or ended by another executor"),
                )),
                Outcome::Created(_) | Outcome::Full | Outcome::Runs(_) => Err(lost()),
            }
        }
    }

    /// Appends an event without waiting: it is committed before any later event of its run. When
    /// that fails, appending later ones fails too.
    pub(crate) fn append_soon(&self, event: Event, committed: Arc<watch::Sender<u64>>) {
        let task = Task::Tell(Told::Event { event: Box::new(event), sealed: None, committed });
        // Without a writer the next append that waits reports it.
        let _ = self.jobs.send(task, None);
    }

    /// Keeps what a step asked and was answered, without waiting: it is committed before any later
    /// event of its run.
    pub(crate) fn keep_soon(&self, run: Uuid, step: String, exchange: Exchange) {
        let task = Task::Tell(Told::Exchange { run, step, exchange: Box::new(exchange) });
        let _ = self.jobs.send(task, None);
    }

    /// Stores a plan that can be run. False when the most that may wait wait already.
    pub(crate) async fn keep_plan(&self, plan: NewPlan) -> Result<bool, Error> {
        Ok(!matches!(self.ask(Task::KeepPlan(Box::new(plan))).await?, Outcome::Full))
    }

    /// The plan of an id.
    pub(crate) async fn read_plan(&self, id: Digest) -> Result<Option<StoredPlan>, Error> {
        plans::read(&self.reads, id).await
    }

    /// Empties plans that have ended, and forgets those that ended a while ago.
    pub(crate) async fn sweep_plans(&self, now: Timestamp) -> Result<(), Error> {
        self.ask(Task::SweepPlans(now)).await.map(|_| ())
    }

    /// Records that a run is to end; whoever drives it sees that.
    pub(crate) async fn request_cancel(&self, run: Uuid) -> Result<(), Error> {
        self.ask(Task::RequestCancel(run)).await.map(|_| ())
    }

    /// Forgets a run that is over, with everything that is known of it. False when it is not over.
    pub(crate) async fn delete(&self, run: Uuid) -> Result<bool, Error> {
        Ok(!self.ask_for_runs(Task::Delete(run)).await?.is_empty())
    }

    /// Forgets at most `limit` runs that were over before a time, and tells which.
    pub(crate) async fn forget(&self, before: Timestamp, limit: usize) -> Result<Vec<Uuid>, Error> {
        self.ask_for_runs(Task::Forget { before, limit }).await
    }

    /// Takes over at most `limit` runs under way that nobody drives at the time `now`.
    pub(crate) async fn claim(
        &self,
        lease: Lease,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<Uuid>, Error> {
        self.ask_for_runs(Task::Claim { lease, now, limit }).await
    }

    /// Prolongs the leases of the runs `live`, and tells which of them are to be cancelled.
    pub(crate) async fn renew(&self, lease: Lease, live: Vec<Uuid>) -> Result<Vec<Uuid>, Error> {
        self.ask_for_runs(Task::Renew { lease, live }).await
    }

    /// Gives back all runs of `owner`, so that another executor may take them at once.
    pub(crate) async fn release(&self, owner: Uuid) -> Result<(), Error> {
        self.ask(Task::Release { owner }).await.map(|_| ())
    }

    /// The events of a run after number `after`, at most `limit`.
    pub(crate) async fn read_events(
        &self,
        run: Uuid,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Event>, Error> {
        let rows: Vec<String> = sqlx::query_scalar(
            "SELECT event FROM event WHERE run = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3",
        )
        .bind(run.to_string())
        .bind(i64::try_from(after).unwrap_or(i64::MAX))
        .bind(i64::try_from(limit).unwrap_or(i64::MAX))
        .fetch_all(&self.reads)
        .await
        .map_err(failed(WHAT))?;
        rows.iter().map(|row| parse_event(row)).collect()
    }

    /// What the events of a run do not tell, by their numbers.
    pub(crate) async fn read_sealed(&self, run: Uuid) -> Result<BTreeMap<u64, Sealed>, Error> {
        let rows: Vec<(i64, String, Vec<u8>, Vec<u8>)> =
            sqlx::query_as("SELECT seq, key_id, nonce, sealed FROM sealed WHERE run = ?1")
                .bind(run.to_string())
                .fetch_all(&self.reads)
                .await
                .map_err(failed(WHAT))?;
        let rows = rows.into_iter().map(|(seq, key_id, nonce, bytes)| {
            (u64::try_from(seq).unwrap_or_default(), Sealed { key_id, nonce, bytes })
        });
        Ok(rows.collect())
    }

    /// What the steps of a run asked and were answered, by their paths.
    pub(crate) async fn read_exchanges(
        &self,
        run: Uuid,
    ) -> Result<BTreeMap<String, Exchange>, Error> {
        let rows: Vec<(String, String)> =
            sqlx::query_as("SELECT step, exchange FROM exchange WHERE run = ?1")
                .bind(run.to_string())
                .fetch_all(&self.reads)
                .await
                .map_err(failed(WHAT))?;
        let read = |(step, text): (String, String)| {
            let exchange = serde_json::from_str(&text).map_err(|error| {
                Error::new(Kind::Store, format!("stored answer of `{step}`: {error}"))
            })?;
            Ok((step, exchange))
        };
        rows.into_iter().map(read).collect()
    }

    /// The events that begin, suspend and end runs, for at most `limit` runs that a filter lets
    /// through; the newest run first, its events in order.
    pub(crate) async fn read_lives(
        &self,
        filter: &RunFilter,
        limit: usize,
    ) -> Result<Vec<Vec<Event>>, Error> {
        let rows: Vec<String> = sqlx::query_scalar(
            "SELECT event FROM event
             WHERE run IN (SELECT id FROM run
                           WHERE (?1 IS NULL OR id < ?1)
                             AND (?3 IS NULL OR status = ?3)
                             AND (?4 IS NULL OR name = ?4)
                           ORDER BY id DESC LIMIT ?2)
               AND type IN ('run_started', 'run_resumed', 'step_resolved', 'run_waiting', 'run_finished')
             ORDER BY run DESC, seq",
        )
        .bind(filter.before.map(|run| run.to_string()))
        .bind(i64::try_from(limit).unwrap_or(i64::MAX))
        .bind(filter.status.map(RunStatus::as_str))
        .bind(filter.name.as_ref().map(CapabilityName::as_str))
        .fetch_all(&self.reads)
        .await
        .map_err(failed(WHAT))?;
        let mut lives: Vec<Vec<Event>> = Vec::new();
        for row in &rows {
            let event = parse_event(row)?;
            match lives.last_mut() {
                Some(life) if life.first().is_some_and(|first| first.run == event.run) => {
                    life.push(event);
                }
                _ => lives.push(vec![event]),
            }
        }
        Ok(lives)
    }

    /// What is known about a run beside its events.
    pub(crate) async fn read_run(&self, run: Uuid) -> Result<Option<RunRow>, Error> {
        let row: Option<(String, String, bool)> =
            sqlx::query_as("SELECT status, choices, cancel_requested FROM run WHERE id = ?1")
                .bind(run.to_string())
                .fetch_optional(&self.reads)
                .await
                .map_err(failed(WHAT))?;
        let Some((status, choices, cancel_requested)) = row else { return Ok(None) };
        let status = serde_json::from_value(status.into()).map_err(failed(WHAT))?;
        Ok(Some(RunRow { status, choices, cancel_requested }))
    }

    /// The run that an idempotency key belongs to, and the digest of what was asked for with it.
    pub(crate) async fn find_key(&self, key: &str) -> Result<Option<(Uuid, Digest)>, Error> {
        let row: Option<(String, String)> =
            sqlx::query_as("SELECT id, request_digest FROM run WHERE idempotency_key = ?1")
                .bind(key)
                .fetch_optional(&self.reads)
                .await
                .map_err(failed(WHAT))?;
        row.map(|(id, digest)| parse_owner_of_key(&id, &digest)).transpose()
    }

    /// The documents with these digests, as the registry sent them.
    pub(crate) async fn read_documents(
        &self,
        digests: &[Digest],
    ) -> Result<BTreeMap<Digest, Vec<u8>>, Error> {
        let mut documents = BTreeMap::new();
        for digest in digests {
            let source: Option<Vec<u8>> =
                sqlx::query_scalar("SELECT source FROM document WHERE digest = ?1")
                    .bind(digest.to_string())
                    .fetch_optional(&self.reads)
                    .await
                    .map_err(failed(WHAT))?;
            documents.extend(source.map(|source| (*digest, source)));
        }
        Ok(documents)
    }

    /// The key of the names that a registry knows this executor by.
    pub(crate) fn identity(&self) -> &str {
        &self.identity
    }

    /// At most `limit` runs that are over and not reported, behind a run, in order of id.
    pub(crate) async fn read_unreported(
        &self,
        after: Uuid,
        limit: u32,
    ) -> Result<Vec<Uuid>, Error> {
        let ids: Vec<String> = sqlx::query_scalar(
            "SELECT id FROM run WHERE reported = 0 AND ended_at IS NOT NULL AND id > ?1
             ORDER BY id LIMIT ?2",
        )
        .bind(after.to_string())
        .bind(limit)
        .fetch_all(&self.reads)
        .await
        .map_err(failed(WHAT))?;
        ids.iter().map(|id| id.parse().map_err(failed::<uuid::Error>(WHAT))).collect()
    }

    /// Remembers that runs need not be reported any more.
    pub(crate) async fn mark_reported(&self, runs: Vec<Uuid>) -> Result<(), Error> {
        self.ask(Task::MarkReported(runs)).await.map(|_| ())
    }

    /// The events that begin and end a run, and those of its requests.
    pub(crate) async fn read_outline(&self, run: Uuid) -> Result<Vec<Event>, Error> {
        let rows: Vec<String> = sqlx::query_scalar(
            "SELECT event FROM event
             WHERE run = ?1 AND type IN ('run_started', 'sending', 'run_finished') ORDER BY seq",
        )
        .bind(run.to_string())
        .fetch_all(&self.reads)
        .await
        .map_err(failed(WHAT))?;
        rows.iter().map(|row| parse_event(row)).collect()
    }

    /// Whether the database answers.
    pub(crate) async fn ping(&self) -> Result<(), Error> {
        let one: Result<i64, _> = sqlx::query_scalar("SELECT 1").fetch_one(&self.reads).await;
        one.map(|_| ()).map_err(failed(WHAT))
    }

    async fn ask_for_runs(&self, task: Task) -> Result<Vec<Uuid>, Error> {
        match self.ask(task).await? {
            Outcome::Runs(runs) => Ok(runs),
            Outcome::Done | Outcome::OutOfTurn | Outcome::Full | Outcome::Created(_) => Err(lost()),
        }
    }

    async fn ask(&self, task: Task) -> Result<Outcome, Error> {
        let (reply, answer) = oneshot::channel();
        if !self.jobs.send(task, Some(reply)) {
            return Err(lost());
        }
        answer.await.map_err(|_| lost())?
    }
}

fn parse_event(row: &str) -> Result<Event, Error> {
    serde_json::from_str(row).map_err(failed(WHAT))
}

fn parse_owner_of_key(id: &str, digest: &str) -> Result<(Uuid, Digest), Error> {
    let id = id.parse().map_err(failed::<uuid::Error>(WHAT))?;
    let digest = digest.parse().map_err(failed::<a2s::DigestError>(WHAT))?;
    Ok((id, digest))
}

/// Whether an event is waited for even where others are not: the end of a run, because it is read
/// then, and one that too many others wait before, because those lie in memory.
fn must_be_written(event: &Event, committed: u64) -> bool {
    event.seq.saturating_sub(committed) > MAX_UNWRITTEN
        || matches!(event.kind, EventKind::RunFinished { .. } | EventKind::RunWaiting { .. })
}

/// The writer is gone.
fn lost() -> Error {
    Error::new(Kind::Store, "the run database is closed")
}

#[cfg(test)]
mod tests;
