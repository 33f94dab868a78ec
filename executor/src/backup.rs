//! Copies of a run database in a file: taken while executors use it, checked when they are taken and when
//! they are put back.

use std::path::Path;

use a2s::{Digest, Document};
use a2s_api::{EventKind, RunEvent, RunStatus};
use futures::TryStreamExt as _;
use sqlx::sqlite::{SqliteConnectOptions, SqliteSynchronous};
use sqlx::{ConnectOptions as _, Connection as _, SqliteConnection};
use uuid::Uuid;

use crate::clock::Clock;
use crate::config::{Durability, ExecutorDatabase};
use crate::database::{options, to_store_error};
use crate::error::{Error, ErrorKind};
use crate::journal::EVENT_VERSION;
use crate::journal::run_state::RunState;
use crate::run::RunStore;

const WHAT: &str = "the run database";
/// The number of runs that are read at a time.
const PAGE: i64 = 1000;

/// The content of a copy of a run database.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RestoredRuns {
    /// All runs.
    pub runs: u64,
    /// Runs that had not ended. After a restore they wait for a person.
    pub suspended: u64,
    /// Runs with an incomplete journal. A restore ends them as failed.
    pub damaged: u64,
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

/// Checks a copy as [`restore_runs`] does, and changes nothing.
///
/// # Errors
/// Fails when [`restore_runs`] would refuse the copy.
pub async fn check_runs(copy: &Path) -> Result<RestoredRuns, Error> {
    let options = SqliteConnectOptions::new().filename(copy).read_only(true);
    // Without files beside the copy.
    let options = options.immutable(true);
    let mut connection = options.connect().await.map_err(to_store_error(WHAT))?;
    check_rows(&mut connection).await?;
    let checked = for_each_run(&mut connection, None).await?;
    connection.close().await.map_err(to_store_error(WHAT))?;
    Ok(checked)
}

/// Checks a copy that no executor uses, and makes the runs that had not ended wait for a person.
///
/// Their requests may have been sent after the copy was taken. Runs with an incomplete journal end as
/// failed.
///
/// # Errors
/// Fails when the database is damaged, was created by a newer version, or cannot be written.
pub async fn restore_runs(path: &Path, clock: &dyn Clock) -> Result<RestoredRuns, Error> {
    // Updates the schema.
    drop(RunStore::open(&ExecutorDatabase::File(path.to_owned()), Durability::Full).await?);
    let mut connection = connect(path).await?;
    check_rows(&mut connection).await?;
    let restored = for_each_run(&mut connection, Some(clock)).await?;
    // Moves the latest writes into the file itself.
    let checkpoint = sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(&mut connection).await;
    checkpoint.map_err(to_store_error(WHAT))?;
    connection.close().await.map_err(to_store_error(WHAT))?;
    Ok(restored)
}

async fn connect(path: &Path) -> Result<SqliteConnection, Error> {
    let options = options(path, SqliteSynchronous::Full).create_if_missing(false);
    options.connect().await.map_err(to_store_error(WHAT))
}

/// Checks the pages of the database, and the checksum of every document that runs use.
async fn check_rows(connection: &mut SqliteConnection) -> Result<(), Error> {
    let said: String = sqlx::query_scalar("PRAGMA integrity_check(1)")
        .fetch_one(&mut *connection)
        .await
        .map_err(to_store_error(WHAT))?;
    if said != "ok" {
        return Err(damaged(&said));
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

/// Checks the journal of every run. With a clock, also sets aside the runs that cannot go on by themselves.
async fn for_each_run(
    connection: &mut SqliteConnection,
    clock: Option<&dyn Clock>,
) -> Result<RestoredRuns, Error> {
    let mut found = RestoredRuns::default();
    let mut last = String::new();
    loop {
        let rows: Vec<(String, String)> =
            sqlx::query_as("SELECT id, status FROM run WHERE id > $1 ORDER BY id LIMIT $2")
                .bind(&last)
                .bind(PAGE)
                .fetch_all(&mut *connection)
                .await
                .map_err(to_store_error(WHAT))?;
        let Some((id, _)) = rows.last() else { return Ok(found) };
        last.clone_from(id);
        for (id, status) in rows {
            let journal = CopiedJournal::read(connection, &id).await?;
            found.runs += 1;
            let kind = journal.find_last_event(&status);
            match &kind {
                None => continue,
                Some(EventKind::RunWaiting { .. }) => found.suspended += 1,
                Some(_) => {
                    found.damaged += 1;
                    tracing::warn!(run = %id, "the journal of a run in the copy is incomplete");
                }
            }
            if let (Some(kind), Some(clock)) = (kind, clock) {
                journal.append(connection, kind, clock).await?;
            }
        }
    }
}

/// The events of a run in a copy, up to the first one that is missing or cannot be read.
struct CopiedJournal {
    id: String,
    events: Vec<RunEvent>,
    is_whole: bool,
}

impl CopiedJournal {
    async fn read(connection: &mut SqliteConnection, id: &str) -> Result<Self, Error> {
        let rows: Vec<String> =
            sqlx::query_scalar("SELECT event FROM event WHERE run = $1 ORDER BY seq")
                .bind(id)
                .fetch_all(connection)
                .await
                .map_err(to_store_error(WHAT))?;
        let parsed = rows.iter().map_while(|row| serde_json::from_str::<RunEvent>(row).ok());
        let run = id.parse::<Uuid>().ok();
        let in_order = (1..)
            .zip(parsed)
            .take_while(|(seq, event)| event.seq == *seq && Some(event.run) == run);
        let events: Vec<_> = in_order.map(|(_, event)| event).collect();
        Ok(Self { id: id.to_owned(), is_whole: events.len() == rows.len(), events })
    }

    /// Returns the event that sets the run aside, or `None` when the run has ended. `status` is the status in
    /// its row: it may be that of a run which has just left the queue or a wait, ahead of its journal.
    fn find_last_event(&self, status: &str) -> Option<EventKind> {
        let state = RunState::from_events(&self.events).map(|state| state.status());
        let is_ended = !matches!(status, "running" | "waiting");
        let message = match state {
            Some(state) if self.is_whole && state.is_final() && state.as_str() == status => {
                return None;
            }
            Some(state) if self.is_whole && !state.is_final() && !is_ended => {
                let message = "the run was restored from a backup; the requests that it sent after the \
                               backup are unknown";
                let error = Error::new(ErrorKind::RestoredFromBackup, message);
                return Some(EventKind::RunWaiting {
                    error: error.to_run_error(None, None, false),
                });
            }
            _ => format!(
                "the run was restored from a backup; its journal is incomplete after event {}, so it cannot \
                 continue",
                self.events.len()
            ),
        };
        let error = Error::new(ErrorKind::RestoredFromBackup, message).with_hint(
            "Check at the services which requests of this run took effect, and start a new run for the rest.",
        );
        Some(EventKind::RunFinished {
            status: RunStatus::Failed,
            output: None,
            error: Some(error.to_run_error(None, None, false)),
            duration_ms: 0,
        })
    }

    /// Appends the last event, and removes the events that cannot be read. A run without a readable start
    /// keeps its row: its idempotency key must not start another one.
    async fn append(
        self,
        connection: &mut SqliteConnection,
        kind: EventKind,
        clock: &dyn Clock,
    ) -> Result<(), Error> {
        let final_status = |kind: &EventKind| match kind {
            EventKind::RunFinished { status, .. } => Some(*status),
            _ => None,
        };
        let (at, last) = (clock.now(), self.events.last());
        let seq = last.map_or(0, |event| event.seq);
        let ended = last.and_then(|event| final_status(&event.kind));
        let status = ended.or_else(|| final_status(&kind)).unwrap_or(RunStatus::Waiting);
        let mut transaction = connection.begin().await.map_err(to_store_error(WHAT))?;
        let removed = sqlx::query("DELETE FROM event WHERE run = $1 AND seq > $2")
            .bind(&self.id)
            .bind(i64::try_from(seq).unwrap_or(i64::MAX));
        removed.execute(&mut *transaction).await.map_err(to_store_error(WHAT))?;
        if let Some(last) = last.filter(|_| ended.is_none()) {
            let event = RunEvent { v: EVENT_VERSION, seq: seq + 1, run: last.run, at, kind };
            let text = serde_json::to_string(&event).map_err(to_store_error(WHAT))?;
            let inserted = sqlx::query(
                "INSERT INTO event (run, seq, type, event) VALUES ($1, $2, $3 ->> 'type', $3)",
            )
            .bind(&self.id)
            .bind(i64::try_from(event.seq).unwrap_or(i64::MAX))
            .bind(text);
            inserted.execute(&mut *transaction).await.map_err(to_store_error(WHAT))?;
        }
        let ended_at = status.is_final().then(|| at.as_millisecond());
        let updated = sqlx::query(
            "UPDATE run SET status = $2, queued = 0, owner = NULL, lease_until = NULL, takeovers = 0,
                 ended_at = $3, reported = $3 IS NOT NULL
             WHERE id = $1",
        )
        .bind(&self.id)
        .bind(status.as_str())
        .bind(ended_at);
        updated.execute(&mut *transaction).await.map_err(to_store_error(WHAT))?;
        if status.is_final() {
            let secrets = sqlx::query("DELETE FROM sealed WHERE run = $1").bind(&self.id);
            secrets.execute(&mut *transaction).await.map_err(to_store_error(WHAT))?;
        }
        transaction.commit().await.map_err(to_store_error(WHAT))
    }
}

fn damaged(why: &str) -> Error {
    Error::new(ErrorKind::Store, format!("{WHAT} is damaged: {why}"))
}
