//! From an address to a store: opening the database and updating its schema.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use database::server_types::PgConnection;
use database::{DatabaseLoss, Pool, PostgresServer, lock_file, sqlite_options};
use futures::future::BoxFuture;
use sqlx::migrate::Migrator;
use sqlx::pool::PoolConnectionMetadata;
use sqlx::sqlite::{SqliteConnection, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions as _, Connection as _};

use super::SqlStore;
use crate::store::{Error, ErrorKind};

static SQLITE_MIGRATIONS: Migrator = sqlx::migrate!("migrations/sqlite");
static POSTGRES_MIGRATIONS: Migrator = sqlx::migrate!("migrations/postgres");

/// The words for the database and its content in messages.
const WORDS: (&str, &str) = ("database", "documents");
/// The maximum number of connections that read a file.
const MAX_READERS: u32 = 4;
/// The maximum number of connections of one registry to a server.
const MAX_CONNECTIONS: u32 = 8;
/// The time that a request waits for a connection to a file.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);
/// If a registry disappears in the middle of a transaction, the server frees its lock after this time. A
/// transaction can write, whatever the configuration of the server is.
const SETTINGS: [(&str, &str); 2] =
    [("idle_in_transaction_session_timeout", "20s"), ("default_transaction_read_only", "off")];

/// Opens or creates the file, and updates its schema.
///
/// WAL with `synchronous=FULL`: an acknowledged write survives a power cut. One connection writes, because
/// SQLite has one writer anyway and a queue in the pool is fairer than busy waiting; the others only read.
pub(super) async fn open_file(path: &Path) -> Result<SqlStore, Error> {
    let (database, content) = WORDS;
    let mut lock = lock_file(path, database, content)?;
    let options = sqlite_options(path).create_if_missing(true).synchronous(SqliteSynchronous::Full);
    let mut first = options.connect().await.map_err(Error::unusable)?;
    SQLITE_MIGRATIONS.run(&mut first).await?;
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
    if lock.belongs_to_another(&identity) {
        return Err(lock.to_lost_error(DatabaseLoss::Identity, database, content));
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
    let (writer, readers) = (Pool::Sqlite(writer), Pool::Sqlite(readers));
    Ok(SqlStore { lock: Some(lock).into(), writer, readers, has_failed })
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

/// Connects to the server and updates the schema.
///
/// Acknowledged changes are on disk as far as the server's `synchronous_commit` guarantees it.
pub(super) async fn open_server(address: &str) -> Result<SqlStore, Error> {
    let server = PostgresServer::parse(address, None)?;
    let mut connection = server.connect().await?;
    let migrated = POSTGRES_MIGRATIONS.run(&mut connection).await.map_err(Error::from);
    let migrated = match migrated {
        Err(error) if error.kind() == ErrorKind::Newer => {
            let is_ours = is_registry_database(&mut connection).await?;
            let other = || Error::unusable("the database belongs to another program");
            Err(if is_ours { error } else { other() })
        }
        migrated => migrated,
    };
    // The work is done; an error of the server on closing changes nothing.
    let _ = connection.close().await;
    migrated?;
    let pool = Pool::Postgres(server.pool(MAX_CONNECTIONS, &SETTINGS));
    Ok(SqlStore {
        lock: None.into(),
        writer: pool.clone(),
        readers: pool,
        has_failed: Arc::default(),
    })
}

async fn is_registry_database(connection: &mut PgConnection) -> Result<bool, Error> {
    let found = sqlx::query_scalar(
        "SELECT to_regclass('registry') IS NOT NULL AND to_regclass('capability') IS NOT NULL",
    );
    found.fetch_one(&mut *connection).await.map_err(Error::from_open)
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::store::RegistryStore;

    #[tokio::test]
    async fn a_damaged_lock_file_does_not_prevent_a_start() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("registry.sqlite");
        let lock = format!("{}.lock", path.display());
        let open = async || {
            let store = open_file(&path).await.unwrap();
            let content = std::fs::read(&lock).unwrap();
            RegistryStore::close(&store).await;
            content
        };
        let whole = open().await;
        for content in [&[0; 40][..], &[0xff; 40], &whole[..20], b"", b"\n"] {
            std::fs::write(&lock, content).unwrap();
            assert_eq!(open().await, whole, "{content:?}");
        }
        let mut flipped = whole.clone();
        flipped[7] ^= 1;
        std::fs::write(&lock, flipped).unwrap();
        assert_eq!(open().await, whole);
    }

    #[tokio::test]
    async fn the_owner_alone_can_read_the_database() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("registry.sqlite");
        let mode = |suffix: &str| {
            let file = format!("{}{suffix}", path.display());
            std::fs::metadata(file).unwrap().permissions().mode() & 0o777
        };
        let store = open_file(&path).await.unwrap();
        assert_eq!(["", "-wal", "-shm"].map(mode), [0o600; 3]);
        for suffix in ["", "-wal", "-shm"] {
            let file = format!("{}{suffix}", path.display());
            std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o644)).unwrap();
        }
        let _again = open_file(&path).await.unwrap();
        assert_eq!(["", "-wal", "-shm"].map(mode), [0o600; 3]);
        drop(store);
    }
}
