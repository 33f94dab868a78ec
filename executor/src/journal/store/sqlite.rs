//! Runs in an SQLite file, or in the memory of this process: how the database is opened, and the SQL
//! of its only writing connection.

mod connection;
mod writer_task;

use std::path::Path;

use database::{DatabaseLock, DatabaseLoss, open_private_file};
use sqlx::migrate::MigrateError;
use sqlx::query::QueryScalar;
use sqlx::sqlite::{Sqlite, SqliteArguments, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions as _, Connection as _, SqliteConnection};
use uuid::Uuid;

pub(super) use self::connection::WriterConnection;
use self::writer_task::{commit_items, insert_first_event, write_items};
use super::batch_writer::{TaskOutcome, WriterBackend, WriterJob, WriterTask};
use super::run_queue::{IS_ANY, LOAD, QueueDecision, next_turns, note_turns, turns_json};
use super::{
    ClaimedRow, CreateResult, LeaseEpoch, LeaseTerms, NewPlan, NewRun, OpenedStore, TenantCaps,
    TenantLoad, parse_ids, parse_owner_of_key, plans, to_claimed_runs, to_milliseconds,
    to_renewed_runs,
};
use crate::config::Durability;
use crate::database::{DatabasePool, newer_schema_error, options};
use crate::error::{Error, ErrorKind};

static MIGRATIONS: sqlx::migrate::Migrator = sqlx::migrate!("migrations/sqlite");

/// The number of connections that read.
const READERS: u32 = 4;

/// The clock of the database, in milliseconds since 1970.
macro_rules! now {
    () => {
        "CAST(unixepoch('subsec') * 1000 AS INTEGER)"
    };
}
/// Opens the database in a file, creates the file and its folders when they are missing, and migrates its
/// schema.
///
/// A lock file next to it shows whether another process uses the database. If none does, the leases in it
/// belong to dead processes and are removed, so that a restart need not wait for them to expire. This
/// counts as a takeover of their runs.
pub(super) async fn open(path: &Path, durability: Durability) -> Result<OpenedStore, Error> {
    let unusable = |why: &dyn std::fmt::Display| {
        Error::new(
            ErrorKind::Configuration,
            format!("the run database `{}` cannot be opened: {why}", path.display()),
        )
    };
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|error| unusable(&error))?;
    }
    let mut lock = DatabaseLock::open(path).map_err(|error| unusable(&error))?;
    if let Some(loss) = lock.find_loss() {
        return Err(lost(&lock, loss));
    }
    let (_, was_shared) = open_private_file(path).map_err(|error| unusable(&error))?;
    if was_shared {
        tracing::warn!(path = %path.display(), "other users had access to the database file");
    }

    let synchronous = match durability {
        Durability::Full | Durability::Memory => SqliteSynchronous::Full,
        Durability::Normal => SqliteSynchronous::Normal,
    };
    let options = options(path, synchronous).create_if_missing(true);
    let mut writer = options.connect().await.map_err(|error| unusable(&error))?;
    check_identity(&mut writer, &lock).await?;
    MIGRATIONS.run(&mut writer).await.map_err(|error| match error {
        MigrateError::VersionMissing(_) | MigrateError::VersionTooNew(..) => newer_schema_error(),
        other => unusable(&other),
    })?;
    if lock.is_alone() {
        sqlx::query(concat!(
            "UPDATE run SET owner = NULL, lease_until = NULL, ",
            give!(),
            "1 WHERE owner IS NOT NULL",
        ))
        .execute(&mut writer)
        .await
        .map_err(|error| unusable(&error))?;
    }
    let identity: String = sqlx::query_scalar("SELECT identity FROM executor")
        .fetch_one(&mut writer)
        .await
        .map_err(|error| unusable(&error))?;
    // Processes that open the database from now on see that it is in use. No run was claimed yet, so
    // it does no harm that another process may have been alone in between.
    lock.mark_in_use(&identity).map_err(|error| unusable(&error))?;
    let writer = WriterConnection::new(writer, options.clone());
    let reads = SqlitePoolOptions::new()
        .max_connections(READERS)
        // While one is open, SQLite keeps its log file.
        .min_connections(1)
        .connect_with(options.read_only(true))
        .await
        .map_err(|error| unusable(&error))?;
    Ok(OpenedStore {
        reads: DatabasePool::Sqlite(reads),
        writer: WriterBackend::Sqlite(Box::new(writer)),
        identity,
        lock: Some(lock),
    })
}

/// The error for a database that is not the one that was here before.
fn lost(lock: &DatabaseLock, loss: DatabaseLoss) -> Error {
    Error::new(ErrorKind::DatabaseMissing, lock.describe_loss(loss, "run database", "runs"))
}

/// Rejects a database that is not the one that was here before: it is empty if the log next to it was lost
/// before the data reached the file itself.
async fn check_identity(writer: &mut SqliteConnection, lock: &DatabaseLock) -> Result<(), Error> {
    let Some(known) = lock.identity() else { return Ok(()) };
    // Whatever else is wrong with the database shows when its schema is brought up to date.
    let found: Result<String, _> =
        sqlx::query_scalar("SELECT identity FROM executor").fetch_one(writer).await;
    let is_another = match &found {
        Ok(found) => found != known,
        Err(sqlx::Error::Database(error)) => error.message().contains("no such table"),
        Err(sqlx::Error::RowNotFound) => true,
        Err(_) => false,
    };
    if is_another { Err(lost(lock, DatabaseLoss::Identity)) } else { Ok(()) }
}

async fn commit(
    connection: &mut SqliteConnection,
    jobs: &[WriterJob],
) -> Result<Vec<TaskOutcome>, sqlx::Error> {
    let items = jobs.iter().map(|job| match &job.task {
        WriterTask::Append(item) => Some(item),
        _ => None,
    });
    if let Some(crowd) = items.collect::<Option<Vec<_>>>()
        && let Some(outcomes) = commit_items(connection, &crowd).await?
    {
        return Ok(outcomes);
    }
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    let mut outcomes = Vec::with_capacity(jobs.len());
    let mut crowd = Vec::new();
    for job in jobs {
        if let WriterTask::Append(item) = &job.task
            && item.is_plain()
        {
            crowd.push(item);
            continue;
        }
        outcomes.extend(write_items(&mut transaction, &std::mem::take(&mut crowd)).await?);
        outcomes.push(perform(&mut transaction, &job.task).await?);
    }
    outcomes.extend(write_items(&mut transaction, &crowd).await?);
    transaction.commit().await?;
    Ok(outcomes)
}

async fn perform(
    connection: &mut SqliteConnection,
    task: &WriterTask,
) -> Result<TaskOutcome, sqlx::Error> {
    match task {
        WriterTask::Append(item) => {
            let mut outcomes = write_items(connection, &[item]).await?;
            Ok(outcomes.pop().unwrap_or(TaskOutcome::OutOfTurn))
        }
        WriterTask::Create(run) => create(connection, run).await,
        WriterTask::StorePlan(plan) => store_plan(connection, plan).await,
        WriterTask::SweepPlans(now) => {
            sqlx::query(plans::CLEAR_EXPIRED)
                .bind(now.as_millisecond())
                .execute(&mut *connection)
                .await?;
            let before = plans::forgotten_before(*now);
            sqlx::query(plans::DELETE_EXPIRED).bind(before).execute(connection).await?;
            Ok(TaskOutcome::Done)
        }
        WriterTask::RequestCancel(run) => {
            sqlx::query("UPDATE run SET cancel_requested = 1 WHERE id = ?1")
                .bind(run.to_string())
                .execute(connection)
                .await?;
            Ok(TaskOutcome::Done)
        }
        WriterTask::MarkReported(runs) => {
            sqlx::query(
                "UPDATE run SET reported = 1 WHERE id IN (SELECT value FROM json_each(?1))",
            )
            .bind(serde_json::json!(runs).to_string())
            .execute(connection)
            .await?;
            Ok(TaskOutcome::Done)
        }
        WriterTask::Delete(run) => {
            let over = "SELECT id FROM run WHERE id = ?1 AND ended_at IS NOT NULL";
            let ids = sqlx::query_scalar(over).bind(run.to_string());
            delete(connection, ids).await
        }
        WriterTask::Forget { before, limit } => {
            let over = "SELECT id FROM run WHERE ended_at < ?1 ORDER BY ended_at LIMIT ?2";
            let ids = sqlx::query_scalar(over).bind(before.as_millisecond());
            let ids = ids.bind(i64::try_from(*limit).unwrap_or(i64::MAX));
            delete(connection, ids).await
        }
        WriterTask::Claim { lease, live, caps, limit } => {
            claim(connection, *lease, live, caps, *limit).await
        }
        WriterTask::Renew { lease, live } => renew(connection, *lease, live).await,
        // That the transaction has begun is the proof.
        WriterTask::Probe => Ok(TaskOutcome::Done),
        WriterTask::Release { owner } => {
            sqlx::query(
                "UPDATE run SET owner = NULL, lease_until = NULL, epoch = epoch + 1
                 WHERE owner = ?1",
            )
            .bind(owner.to_string())
            .execute(connection)
            .await?;
            Ok(TaskOutcome::Done)
        }
    }
}

async fn create(
    connection: &mut SqliteConnection,
    run: &NewRun,
) -> Result<TaskOutcome, sqlx::Error> {
    // Others cannot write meanwhile: the first read stays valid to the end.
    let existing: Option<(String, String)> =
        sqlx::query_as("SELECT id, request_digest FROM run WHERE idempotency_key = ?1")
            .bind(&run.key)
            .fetch_optional(&mut *connection)
            .await?;
    if let Some((id, digest)) = existing {
        let (id, digest) = parse_owner_of_key(&id, &digest)
            .map_err(|error| sqlx::Error::Decode(Box::new(error)))?;
        return Ok(TaskOutcome::Created(CreateResult::Existing(id, digest)));
    }
    let place = decide_place(connection, run).await?;
    if place == QueueDecision::Refuse {
        return Ok(TaskOutcome::Created(CreateResult::Full));
    }
    let lease = run.lease.filter(|_| place == QueueDecision::Start);
    if let Some(plan) = run.plan {
        let used = sqlx::query(plans::MARK_USED)
            .bind(plan.to_string())
            .bind(run.first.run.to_string())
            .bind(run.first.at.as_millisecond())
            .execute(&mut *connection)
            .await?;
        if used.rows_affected() == 0 {
            return Ok(TaskOutcome::Created(CreateResult::PlanGone));
        }
    }
    sqlx::query(concat!(
        "INSERT INTO run
             (id, status, choices, owner, lease_until, epoch, idempotency_key, request_digest, name,
              tenant, queued)
         VALUES (?1, 'running', ?2, ?3, ?4 + ",
        now!(),
        ", ?5, ?6, ?7, ?8, ?9, ?10)",
    ))
    .bind(run.first.run.to_string())
    .bind(&run.choices)
    .bind(lease.map(|lease| lease.owner.to_string()))
    .bind(lease.map(|lease| to_milliseconds(lease.length)))
    .bind(LeaseEpoch::FIRST.0)
    .bind(&run.key)
    .bind(run.request_digest.to_string())
    .bind(run.name.as_str())
    .bind(run.tenant.to_string())
    .bind(i64::from(lease.is_none()))
    .execute(&mut *connection)
    .await?;
    for (digest, source) in &run.documents {
        sqlx::query("INSERT INTO document (digest, source) VALUES (?1, ?2) ON CONFLICT DO NOTHING")
            .bind(digest.to_string())
            .bind(source)
            .execute(&mut *connection)
            .await?;
    }
    insert_first_event(connection, &run.first, run.sealed.as_ref()).await?;
    if lease.is_some() {
        return Ok(TaskOutcome::Created(CreateResult::New));
    }
    insert_first_event(connection, &run.queued_event(), None).await?;
    Ok(TaskOutcome::Created(CreateResult::Queued))
}

/// Decides on a new run. If it needs only a slot at the executor, and has one, no query is made.
async fn decide_place(
    connection: &mut SqliteConnection,
    run: &NewRun,
) -> Result<QueueDecision, sqlx::Error> {
    if run.quota.needs_slot_only(run.lease.is_some()) {
        return Ok(QueueDecision::Start);
    }
    let (begun, queued) =
        sqlx::query_as(LOAD).bind(run.tenant.to_string()).fetch_one(connection).await?;
    Ok(run.quota.decide(run.lease.is_some(), || TenantLoad { begun, queued }))
}

/// Deletes the runs that a query names.
async fn delete(
    connection: &mut SqliteConnection,
    over: QueryScalar<'_, Sqlite, String, SqliteArguments>,
) -> Result<TaskOutcome, sqlx::Error> {
    let ids = over.fetch_all(&mut *connection).await?;
    let list = serde_json::json!(ids).to_string();
    for sql in [
        "DELETE FROM sealed WHERE run IN (SELECT value FROM json_each(?1))",
        "DELETE FROM exchange WHERE run IN (SELECT value FROM json_each(?1))",
        "DELETE FROM event WHERE run IN (SELECT value FROM json_each(?1))",
        "DELETE FROM run WHERE id IN (SELECT value FROM json_each(?1))",
    ] {
        sqlx::query(sql).bind(&list).execute(&mut *connection).await?;
    }
    parse_ids(&ids)
}

async fn claim(
    connection: &mut SqliteConnection,
    lease: LeaseTerms,
    live: &[Uuid],
    caps: &TenantCaps,
    limit: usize,
) -> Result<TaskOutcome, sqlx::Error> {
    let mut claimed: Vec<ClaimedRow> = sqlx::query_as(concat!(
        "UPDATE run SET owner = ?1, lease_until = ?2 + ",
        now!(),
        ", ",
        give!(),
        "CASE WHEN owner IS NULL OR owner = ?1 THEN 0 ELSE 1 END
         WHERE id IN (SELECT id FROM run
                      WHERE status = 'running' AND queued = 0 AND (owner IS NULL OR lease_until < ",
        now!(),
        ")
                        AND id NOT IN (SELECT value FROM json_each(?3))
                      ORDER BY id LIMIT ?4)
         RETURNING id, epoch, takeovers",
    ))
    .bind(lease.owner.to_string())
    .bind(to_milliseconds(lease.length))
    .bind(serde_json::json!(live).to_string())
    .bind(i64::try_from(limit).unwrap_or(i64::MAX))
    .fetch_all(&mut *connection)
    .await?;
    let is_any: bool = sqlx::query_scalar(IS_ANY).fetch_one(&mut *connection).await?;
    let left = limit.saturating_sub(claimed.len());
    if !is_any || left == 0 {
        return to_claimed_runs(&claimed, is_any);
    }
    claimed.extend(start_queued(connection, lease, caps, left).await?);
    let is_any = sqlx::query_scalar(IS_ANY).fetch_one(connection).await?;
    to_claimed_runs(&claimed, is_any)
}

/// Assigns at most `limit` waiting runs to an executor, in the order of their turns.
async fn start_queued(
    connection: &mut SqliteConnection,
    lease: LeaseTerms,
    caps: &TenantCaps,
    limit: usize,
) -> Result<Vec<ClaimedRow>, sqlx::Error> {
    let (own, default) = caps.to_columns();
    let next: Vec<(String, String)> = sqlx::query_as(next_turns!(
        "SELECT key, value FROM json_each($1)",
        "substr(waiting.tenant, 1, instr(waiting.tenant || '/', '/') - 1)"
    ))
    .bind(own)
    .bind(default)
    .bind(i64::try_from(limit).unwrap_or(i64::MAX))
    .fetch_all(&mut *connection)
    .await?;
    let ids: Vec<&str> = next.iter().map(|(id, _)| id.as_str()).collect();
    let begun: Vec<ClaimedRow> = sqlx::query_as(concat!(
        "UPDATE run SET owner = ?1, lease_until = ?2 + ",
        now!(),
        ", queued = 0, ",
        give!(),
        "0
         WHERE id IN (SELECT value FROM json_each(?3))
         RETURNING id, epoch, takeovers",
    ))
    .bind(lease.owner.to_string())
    .bind(to_milliseconds(lease.length))
    .bind(serde_json::json!(ids).to_string())
    .fetch_all(&mut *connection)
    .await?;
    sqlx::query(note_turns!("SELECT key, value FROM json_each($1)"))
        .bind(turns_json(&next))
        .execute(connection)
        .await?;
    Ok(begun)
}

async fn renew(
    connection: &mut SqliteConnection,
    lease: LeaseTerms,
    live: &[(Uuid, LeaseEpoch)],
) -> Result<TaskOutcome, sqlx::Error> {
    let live: Vec<_> = live.iter().map(|(run, epoch)| (run, epoch.0)).collect();
    let held: Vec<(String, i64)> = sqlx::query_as(concat!(
        "UPDATE run SET lease_until = ?1 + ",
        now!(),
        "
         WHERE status = 'running'
           AND (id, epoch) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?2))
         RETURNING id, cancel_requested",
    ))
    .bind(to_milliseconds(lease.length))
    .bind(serde_json::json!(live).to_string())
    .fetch_all(connection)
    .await?;
    to_renewed_runs(&held)
}

async fn store_plan(
    connection: &mut SqliteConnection,
    plan: &NewPlan,
) -> Result<TaskOutcome, sqlx::Error> {
    let NewPlan { id, tenant, now, expires_at, sealed, most, most_own } = plan;
    let kept = sqlx::query(plans::INSERT_PLAN)
        .bind(id.to_string())
        .bind(expires_at.as_millisecond())
        .bind(&sealed.key_id)
        .bind(&sealed.nonce)
        .bind(&sealed.bytes)
        .bind(now.as_millisecond())
        .bind(i64::try_from(*most).unwrap_or(i64::MAX))
        .bind(tenant.to_string())
        .bind(i64::try_from(*most_own).unwrap_or(i64::MAX))
        .execute(connection)
        .await?;
    Ok(if kept.rows_affected() == 0 { TaskOutcome::Full } else { TaskOutcome::Done })
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// Closes a database. Dropped connections are closed later, and until then SQLite uses and removes the
    /// files next to the database.
    async fn close(opened: OpenedStore) {
        let OpenedStore {
            reads: DatabasePool::Sqlite(reads),
            writer: WriterBackend::Sqlite(writer),
            lock,
            ..
        } = opened
        else {
            panic!("not SQLite");
        };
        reads.close().await;
        writer.close().await;
        drop(lock);
    }

    async fn open_and_close(path: &Path) {
        match open(path, Durability::Full).await {
            Ok(opened) => close(opened).await,
            Err(error) => panic!("{error}"),
        }
    }

    #[tokio::test]
    async fn a_database_that_was_here_is_not_made_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("executor.sqlite");
        open_and_close(&path).await;
        for suffix in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{suffix}", path.display()));
        }
        for _ in 0..2 {
            let refused = open(&path, Durability::Full).await.map(drop).unwrap_err();
            assert_eq!(refused.kind, ErrorKind::DatabaseMissing);
            assert!(refused.message.contains("executor.sqlite.lock"), "{}", refused.message);
            assert!(!path.exists());
        }
        // A deliberate new start.
        std::fs::remove_file(format!("{}.lock", path.display())).unwrap();
        open_and_close(&path).await;
    }

    #[tokio::test]
    async fn a_database_whose_log_was_lost_is_not_made_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("executor.sqlite");
        let opened = open(&path, Durability::Full).await.unwrap();
        // As it is on the disk while everything is in the log.
        let other = folder.path().join("other");
        std::fs::create_dir(&other).unwrap();
        let lost = other.join("executor.sqlite");
        let mut file = options(&lost, SqliteSynchronous::Full).create_if_missing(true);
        file = file.journal_mode(sqlx::sqlite::SqliteJournalMode::Wal);
        let mut file = file.connect().await.unwrap();
        sqlx::query("CREATE TABLE t (a)").execute(&mut file).await.unwrap();
        sqlx::query("DROP TABLE t").execute(&mut file).await.unwrap();
        file.close().await.unwrap();
        let lock = |path: &Path| format!("{}.lock", path.display());
        std::fs::copy(lock(&path), lock(&lost)).unwrap();
        let before = std::fs::read(&lost).unwrap();
        let refused = open(&lost, Durability::Full).await.map(drop).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::DatabaseMissing);
        assert!(refused.message.contains("executor.sqlite-wal"), "{}", refused.message);
        assert_eq!(std::fs::read(&lost).unwrap(), before, "nothing was made");
        close(opened).await;
        // One of another executor is none of these runs either.
        let another = folder.path().join("another.sqlite");
        open_and_close(&another).await;
        std::fs::copy(lock(&path), lock(&another)).unwrap();
        let refused = open(&another, Durability::Full).await.map(drop).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::DatabaseMissing);
        open_and_close(&path).await;
    }

    #[tokio::test]
    async fn a_database_that_was_not_closed_needs_its_log() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("executor.sqlite");
        open_and_close(&path).await;
        // As a process leaves it that was killed.
        let opened = open(&path, Durability::Full).await.unwrap();
        let killed = folder.path().join("killed");
        std::fs::create_dir(&killed).unwrap();
        let copy = killed.join("executor.sqlite");
        let files = ["", ".lock", "-wal", "-shm"];
        let copy_all = || {
            for suffix in files {
                let name = |path: &Path| format!("{}{suffix}", path.display());
                std::fs::copy(name(&path), name(&copy)).unwrap();
            }
        };
        copy_all();
        open_and_close(&copy).await;
        copy_all();
        std::fs::remove_file(format!("{}-wal", copy.display())).unwrap();
        for _ in 0..2 {
            let refused = open(&copy, Durability::Full).await.map(drop).unwrap_err();
            assert_eq!(refused.kind, ErrorKind::DatabaseMissing);
            assert!(refused.message.contains("executor.sqlite-wal"), "{}", refused.message);
        }
        // One that another process uses, or has closed, needs none.
        open_and_close(&path).await;
        close(opened).await;
        open_and_close(&path).await;
    }

    #[tokio::test]
    async fn a_newer_schema_is_named_as_such() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("executor.sqlite");
        open_and_close(&path).await;
        let mut file = options(&path, SqliteSynchronous::Full).connect().await.unwrap();
        let sql = "INSERT INTO _sqlx_migrations
                   VALUES (9999, 'later', '2030-01-01', TRUE, x'00', 1)";
        sqlx::query(sql).execute(&mut file).await.unwrap();
        file.close().await.unwrap();
        let refused = open(&path, Durability::Full).await.map(drop).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::DatabaseNewer);
    }

    #[tokio::test]
    async fn the_owner_alone_can_read_the_database() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("executor.sqlite");
        let files = ["", "-wal", "-shm", ".lock"].map(|end| format!("{}{end}", path.display()));
        let mode = |file: &String| std::fs::metadata(file).unwrap().permissions().mode() & 0o777;
        let opened = open(&path, Durability::Full).await.unwrap();
        assert_eq!(files.each_ref().map(mode), [0o600; 4]);
        for file in &files {
            std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o644)).unwrap();
        }
        let _again = open(&path, Durability::Full).await.unwrap();
        assert_eq!(files.each_ref().map(mode), [0o600; 4]);
        close(opened).await;
    }
}
