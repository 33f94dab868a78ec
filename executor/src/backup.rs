//! Copies of a run database in a file: taken while executors use it, checked when they are put back.

use std::path::Path;
use std::sync::Arc;

use a2s::{Digest, Document};
use a2s_api::{EventKind, RunEvent};
use futures::TryStreamExt as _;
use sqlx::sqlite::SqliteSynchronous;
use sqlx::{ConnectOptions as _, Connection as _, SqliteConnection};
use uuid::Uuid;

use crate::clock::Clock;
use crate::config::{Durability, ExecutorDatabase};
use crate::database::{options, to_store_error};
use crate::error::{Error, ErrorKind};
use crate::journal::EVENT_VERSION;
use crate::journal::run_state::RunState;
use crate::run::{RunFilter, RunStore, SealedChanges};

const WHAT: &str = "the run database";
/// The number of runs and events that are read at a time.
const PAGE: usize = 1000;

/// The content of a run database after a restore.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RestoredRuns {
    /// All runs.
    pub runs: u64,
    /// Runs that had not ended, and now wait for a person.
    pub suspended: u64,
}

/// Copies a run database as of one moment to a new file, with the backup function of SQLite. Executors may
/// use the database meanwhile.
///
/// # Errors
/// There is no such database, or the copy cannot be written.
pub async fn copy_runs(from: &Path, to: &Path) -> Result<(), Error> {
    let mut connection = connect(from).await?;
    sqlx::query("VACUUM INTO $1")
        .bind(to.to_string_lossy())
        .execute(&mut connection)
        .await
        .map_err(to_store_error(WHAT))?;
    Ok(())
}

/// Checks a copy that no executor uses, and makes the runs that had not ended wait for a person: their
/// requests may have been sent after the copy was taken.
///
/// # Errors
/// Fails when the database is damaged, was created by a newer version, or cannot be written.
pub async fn restore_runs(path: &Path, clock: &dyn Clock) -> Result<RestoredRuns, Error> {
    let store = RunStore::open(&ExecutorDatabase::File(path.to_owned()), Durability::Full).await?;
    check_rows(&mut connect(path).await?).await?;
    let mut restored = RestoredRuns::default();
    let mut filter = RunFilter::default();
    loop {
        let lives = store.read_summary_events(&filter, PAGE).await?;
        let ids: Vec<Uuid> =
            lives.iter().filter_map(|life| life.events.first()).map(|event| event.run).collect();
        for run in &ids {
            restored.runs += 1;
            restored.suspended += u64::from(suspend_unless_over(&store, *run, clock).await?);
        }
        match ids.last() {
            Some(last) if ids.len() == PAGE => filter.before = Some(*last),
            _ => break,
        }
    }
    drop(store);
    // Moves the latest writes into the file itself.
    let mut connection = connect(path).await?;
    let checkpoint = sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(&mut connection).await;
    checkpoint.map_err(to_store_error(WHAT))?;
    connection.close().await.map_err(to_store_error(WHAT))?;
    Ok(restored)
}

async fn connect(path: &Path) -> Result<SqliteConnection, Error> {
    let options = options(path, SqliteSynchronous::Full).create_if_missing(false);
    options.connect().await.map_err(to_store_error(WHAT))
}

/// Checks the pages of the database, the journal of every run, and the checksum of every document that runs
/// use.
async fn check_rows(connection: &mut SqliteConnection) -> Result<(), Error> {
    let said: String = sqlx::query_scalar("PRAGMA integrity_check(1)")
        .fetch_one(&mut *connection)
        .await
        .map_err(to_store_error(WHAT))?;
    if said != "ok" {
        return Err(damaged(&said));
    }
    let without_events = "SELECT count(*) FROM run WHERE id NOT IN (SELECT run FROM event)";
    let count: i64 = sqlx::query_scalar(without_events)
        .fetch_one(&mut *connection)
        .await
        .map_err(to_store_error(WHAT))?;
    if count != 0 {
        return Err(damaged("a run has no journal"));
    }
    let mut rows = sqlx::query_as::<_, (String, Vec<u8>)>("SELECT digest, source FROM document")
        .fetch(connection);
    while let Some((digest, source)) = rows.try_next().await.map_err(to_store_error(WHAT))? {
        let is_whole = digest.parse::<Digest>().is_ok_and(|digest| {
            Document::open(&source).is_ok_and(|document| document.digest() == digest)
        });
        if !is_whole {
            return Err(damaged(&format!("the document {digest} has another checksum")));
        }
    }
    Ok(())
}

/// Checks the journal of a run. Makes the run wait for a person unless it has ended, and returns true when
/// it did so.
async fn suspend_unless_over(
    store: &RunStore,
    run: Uuid,
    clock: &dyn Clock,
) -> Result<bool, Error> {
    let events = store.read_all_events(run, PAGE).await?;
    let row = store.read_run(run).await?;
    let row = row.ok_or_else(|| damaged(&format!("run {run} has no row")))?;
    let has_gap = (1..).zip(&events).any(|(seq, event)| event.seq != seq);
    let state = RunState::from_events(&events).filter(|_| !has_gap);
    let status = state.map(|state| state.to_run().status);
    if status != Some(row.status) {
        return Err(damaged(&format!("the journal of run {run} does not match its status")));
    }
    if row.status.is_final() {
        return Ok(false);
    }
    let message = "the run was restored from a backup; the requests that it sent after the backup are \
                   unknown";
    let error = Error::new(ErrorKind::RestoredFromBackup, message).to_run_error(None, None, false);
    let event = RunEvent {
        v: EVENT_VERSION,
        seq: events.last().map_or(1, |event| event.seq + 1),
        run,
        at: clock.now(),
        kind: EventKind::RunWaiting { error },
    };
    store.append(event, row.epoch, SealedChanges::default(), Arc::default()).await?;
    Ok(true)
}

fn damaged(why: &str) -> Error {
    Error::new(ErrorKind::Store, format!("{WHAT} is damaged: {why}"))
}
