//! The store in one SQLite file.
//!
//! WAL with `synchronous=FULL`: an acknowledged write survives a power cut. One connection
//! writes, because SQLite has one writer anyway and a queue in the pool is fairer than busy
//! waiting; the others only read.

/// The SQL condition that a value is in a list. The list is a parameter.
macro_rules! among {
    ($list:literal) => {
        concat!("IN (SELECT value FROM json_each(", $list, "))")
    };
}

/// A unique id.
macro_rules! random_id {
    () => {
        "lower(hex(randomblob(16)))"
    };
}

mod embeddings;
mod outcomes;
// Where the engines read the same SQL, it is written once, and compiled for each.
#[path = "sql/indexes.rs"]
mod indexes;
#[path = "sql/lifecycle.rs"]
mod lifecycle;
#[path = "sql/publishing.rs"]
mod publishing;
#[path = "sql/relations.rs"]
mod relations;
#[path = "sql/tokens.rs"]
mod tokens;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use a2s::CapabilityName;
use async_trait::async_trait;
use database::{DatabaseLock, DatabaseLoss, open_private_file};
use futures::future::BoxFuture;
use sqlx::migrate::{MigrateError, Migrator};
use sqlx::pool::PoolConnectionMetadata;
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqlitePool, SqlitePoolOptions,
    SqliteSynchronous,
};
use sqlx::{ConnectOptions as _, Connection as _, Row as _, Sqlite as Backend, Transaction};

use super::lifecycle::AuditActor;
use super::row_mapping::{concat_entry, to_entries};
use super::{
    CapabilityId, ChangeOutbox, ChangeSeq, Error, LiveVersionQuery, NewVersion, PublicationResult,
    RecordResult, RegistryStore, RunDetails, RunOutcome, VersionEntry, VersionId,
};

static MIGRATIONS: Migrator = sqlx::migrate!("migrations/sqlite");

const MAX_READERS: u32 = 4;
/// The time that a request waits for a connection.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);
/// The time that it waits for another program that has the file open.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct SqliteStore {
    /// The lock that this process holds while it uses the file. It is dropped before the connections.
    lock: Mutex<Option<DatabaseLock>>,
    writer: SqlitePool,
    readers: SqlitePool,
    /// Set when a transaction has failed, and nothing was written since.
    has_failed: Arc<AtomicBool>,
}

type Engine = SqliteStore;

impl SqliteStore {
    /// Opens or creates the file, and updates its schema.
    pub(crate) async fn open(path: &Path) -> Result<Self, Error> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(Error::unusable)?;
        }
        let mut lock = DatabaseLock::open(path).map_err(Error::unusable)?;
        if let Some(loss) = lock.find_loss() {
            return Err(to_lost_error(&lock, loss));
        }
        let (_, was_shared) = open_private_file(path).map_err(Error::unusable)?;
        if was_shared {
            tracing::warn!(path = %path.display(), "other users had access to the database");
        }
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .foreign_keys(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(BUSY_TIMEOUT);
        let mut first = options.connect().await.map_err(Error::unusable)?;
        MIGRATIONS.run(&mut first).await.map_err(|error| match error {
            // The file knows a migration that this program does not.
            MigrateError::VersionMissing(_) | MigrateError::VersionTooNew(..) => {
                Error::newer(error)
            }
            other => Error::unusable(other),
        })?;
        // A file that has gone meanwhile must not be replaced by an empty one.
        let options = options.create_if_missing(false);
        let has_failed = Arc::new(AtomicBool::new(false));
        let writer = SqlitePoolOptions::new()
            .max_connections(1)
            .acquire_timeout(ACQUIRE_TIMEOUT)
            .after_release(replace_failed(Arc::clone(&has_failed)))
            .connect_with(options.clone())
            .await
            .map_err(Error::unusable)?;
        // The log is removed with the last connection that has read: the writer reads before the first
        // connection closes.
        let identity: String = sqlx::query_scalar("SELECT identity FROM registry")
            .fetch_one(&writer)
            .await
            .map_err(Error::unusable)?;
        if lock.identity().is_some_and(|known| known != identity) {
            return Err(to_lost_error(&lock, DatabaseLoss::Identity));
        }
        first.close().await.map_err(Error::unusable)?;
        let readers = SqlitePoolOptions::new()
            .max_connections(MAX_READERS)
            // While one is open, SQLite keeps its log file.
            .min_connections(1)
            // A database in this process does not hang up.
            .test_before_acquire(false)
            .acquire_timeout(ACQUIRE_TIMEOUT)
            .after_release(replace_failed(Arc::default()))
            .connect_with(options)
            .await
            .map_err(Error::unusable)?;
        lock.mark_in_use(&identity).map_err(Error::unusable)?;
        Ok(Self { lock: Mutex::new(Some(lock)), writer, readers, has_failed })
    }

    fn readers(&self) -> &SqlitePool {
        &self.readers
    }

    /// The pool for single statements that change data.
    fn writer(&self) -> &SqlitePool {
        &self.writer
    }

    /// Begins a transaction that reads everything as of one moment.
    async fn snapshot(&self) -> Result<Transaction<'static, Backend>, Error> {
        self.readers.begin().await.map_err(Error::from)
    }

    /// A transaction that holds the write lock from its first statement, so that its reads stay valid until
    /// it writes.
    async fn begin(&self) -> Result<Transaction<'static, Backend>, Error> {
        self.writer.begin_with("BEGIN IMMEDIATE").await.map_err(Error::from)
    }
}

/// Closes a connection whose transaction has failed; the pool opens another one.
///
/// When a disk is full or fails, SQLite rolls the transaction back by itself. The driver counts open
/// transactions on its own and does not notice that, so it refuses every later transaction.
fn replace_failed(
    has_failed: Arc<AtomicBool>,
) -> impl for<'c> Fn(
    &'c mut SqliteConnection,
    PoolConnectionMetadata,
) -> BoxFuture<'c, Result<bool, sqlx::Error>>
+ Send
+ Sync
+ 'static {
    move |connection, _| {
        let has_failed = Arc::clone(&has_failed);
        Box::pin(async move {
            // A transaction that was let go has been rolled back when this is answered.
            connection.ping().await?;
            let is_good = !connection.is_in_transaction();
            if !is_good {
                tracing::warn!("a transaction failed; the registry replaces its connection");
                has_failed.store(true, Ordering::SeqCst);
            }
            Ok(is_good)
        })
    }
}

fn to_lost_error(lock: &DatabaseLock, loss: DatabaseLoss) -> Error {
    Error::lost(lock.describe_loss(loss, "database", "documents"))
}

#[async_trait]
impl RegistryStore for SqliteStore {
    async fn publish(&self, new: &NewVersion, by: &AuditActor) -> Result<PublicationResult, Error> {
        self.publish(new, by).await
    }

    async fn list_versions(&self, name: &CapabilityName) -> Result<Vec<VersionEntry>, Error> {
        let rows = sqlx::query(concat_entry!("WHERE capability.name = ?"))
            .bind(name.as_str())
            .fetch_all(&self.readers)
            .await?;
        let mut entries = to_entries(&rows);
        entries.sort_by(|a, b| b.version.cmp(&a.version));
        Ok(entries)
    }

    async fn live_versions(&self, which: LiveVersionQuery<'_>) -> Result<Vec<VersionEntry>, Error> {
        let rows = match which {
            LiveVersionQuery::ByIds(ids) => {
                sqlx::query(concat_entry!(
                    "WHERE version.id = capability.head \
                     AND capability.id IN (SELECT value FROM json_each(?)) \
                     ORDER BY capability.name"
                ))
                .bind(to_json(ids.iter().map(|id| id.0)))
                .fetch_all(&self.readers)
                .await?
            }
            LiveVersionQuery::AfterName(name, limit) => {
                sqlx::query(concat_entry!(
                    "WHERE version.id = capability.head AND capability.name > ? \
                     ORDER BY capability.name LIMIT ?"
                ))
                .bind(name.unwrap_or_default())
                .bind(limit)
                .fetch_all(&self.readers)
                .await?
            }
        };
        Ok(to_entries(&rows))
    }

    async fn load_sources(&self, ids: &[VersionId]) -> Result<BTreeMap<VersionId, Vec<u8>>, Error> {
        // As bytes, because text that was changed by hand need not be UTF-8 any more.
        sqlx::query(
            "SELECT version, CAST(source AS BLOB) AS source FROM document \
             WHERE version IN (SELECT value FROM json_each(?))",
        )
        .bind(to_json(ids.iter().map(|id| id.0)))
        .fetch_all(&self.readers)
        .await?
        .iter()
        .map(|row| Ok((VersionId(row.try_get("version")?), row.try_get("source")?)))
        .collect()
    }

    async fn record_outcome(&self, outcome: &RunOutcome) -> Result<RecordResult, Error> {
        self.record_outcome(outcome).await
    }

    async fn load_run_details(&self, version: VersionId) -> Result<RunDetails, Error> {
        self.load_run_details(version).await
    }

    async fn read_outbox(&self, after: ChangeSeq, limit: u32) -> Result<ChangeOutbox, Error> {
        // The parts must be of one moment.
        let mut transaction = self.snapshot().await?;
        let row = sqlx::query(
            "SELECT identity, (SELECT coalesce(max(seq), 0) FROM change) AS latest, \
             (SELECT count(*) FROM capability WHERE head IS NOT NULL) AS live FROM registry",
        )
        .fetch_one(&mut *transaction)
        .await?;
        let changes =
            sqlx::query("SELECT seq, capability FROM change WHERE seq > ? ORDER BY seq LIMIT ?")
                .bind(after.0)
                .bind(limit)
                .fetch_all(&mut *transaction)
                .await?
                .iter()
                .map(|row| {
                    Ok((ChangeSeq(row.try_get("seq")?), CapabilityId(row.try_get("capability")?)))
                })
                .collect::<Result<_, Error>>()?;
        Ok(ChangeOutbox {
            identity: row.try_get("identity")?,
            latest: ChangeSeq(row.try_get("latest")?),
            live_count: row.try_get::<i64, _>("live")?.unsigned_abs(),
            changes,
        })
    }

    async fn check_writer(&self) -> Result<(), Error> {
        let mut transaction = self.begin().await?;
        if self.has_failed.load(Ordering::SeqCst) {
            sqlx::query("UPDATE registry SET identity = identity")
                .execute(&mut *transaction)
                .await?;
            transaction.commit().await?;
            self.has_failed.store(false, Ordering::SeqCst);
            tracing::info!("the registry can write the database again");
        } else {
            transaction.rollback().await?;
        }
        Ok(())
    }

    fn is_shared(&self) -> bool {
        false
    }

    async fn close(&self) {
        self.readers.close().await;
        self.writer.close().await;
        drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

/// Converts a list to one parameter, because the number of parameters in a statement is limited.
fn list<'t>(texts: impl Iterator<Item = &'t str>) -> String {
    serde_json::Value::from_iter(texts).to_string()
}

/// Converts a list of numbers to one parameter.
fn to_json(ids: impl Iterator<Item = i64>) -> String {
    serde_json::Value::from_iter(ids).to_string()
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[tokio::test]
    async fn the_owner_alone_can_read_the_database() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("registry.sqlite");
        let mode = |suffix: &str| {
            let file = format!("{}{suffix}", path.display());
            std::fs::metadata(file).unwrap().permissions().mode() & 0o777
        };
        let store = SqliteStore::open(&path).await.unwrap();
        assert_eq!(["", "-wal", "-shm"].map(mode), [0o600; 3]);
        for suffix in ["", "-wal", "-shm"] {
            let file = format!("{}{suffix}", path.display());
            std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o644)).unwrap();
        }
        let _again = SqliteStore::open(&path).await.unwrap();
        assert_eq!(["", "-wal", "-shm"].map(mode), [0o600; 3]);
        drop(store);
    }
}
