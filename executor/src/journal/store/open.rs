//! From the configuration to a database that can be used.

use std::path::Path;

use a2s::Secret;
use database::{DatabaseLock, DatabaseLoss, Pool, lock_file};
use sqlx::migrate::Migrator;
use sqlx::sqlite::{SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions as _, Connection as _, SqliteConnection};

use super::batch_writer::WriterBackend;
use super::connection::{WriterConnection, parse_commit};
use super::persisted_item::number;
use super::tasks::RELEASE_ALL;
use crate::config::{Durability, ExecutorDatabase};
use crate::database::{options, server, server_pool, to_open_error, to_store_error};
use crate::error::{Error, ErrorKind};

static SQLITE_MIGRATIONS: Migrator = sqlx::migrate!("migrations/sqlite");
static POSTGRES_MIGRATIONS: Migrator = sqlx::migrate!("migrations/postgres");

/// The words for the database and its content in messages.
const WORDS: (&str, &str) = ("run database", "runs");
/// The number of connections that read a file.
const READERS: u32 = 4;
/// The number of connections of one executor to a server for its runs.
const CONNECTIONS: u32 = 8;

/// The parts of an opened database.
pub(super) struct OpenedStore {
    pub(super) reads: Pool,
    pub(super) writer: WriterBackend,
    pub(super) identity: String,
    pub(super) lock: Option<DatabaseLock>,
}

/// Opens the database, and brings its schema up to date.
pub(super) async fn open(
    database: &ExecutorDatabase,
    durability: Durability,
) -> Result<OpenedStore, Error> {
    match database {
        ExecutorDatabase::File(path) => open_file(path, durability).await,
        ExecutorDatabase::Postgres(address) => open_server(address, durability).await,
    }
}

async fn open_server(address: &Secret, durability: Durability) -> Result<OpenedStore, Error> {
    let server = server(address)?;
    let mut connection = server.connect().await.map_err(to_open_error)?;
    let migrated = POSTGRES_MIGRATIONS.run(&mut connection).await;
    // The work is done; an error of the server on closing changes nothing.
    let _ = connection.close().await;
    migrated.map_err(|error| to_open_error(error.into()))?;
    let pool = server_pool(&server, CONNECTIONS, durability == Durability::Normal);
    let reads = Pool::Postgres(pool.clone());
    let identity = reads.query("SELECT identity FROM executor").fetch_value().await;
    let identity = identity.map_err(to_store_error(super::WHAT))?;
    Ok(OpenedStore { reads, writer: WriterBackend::Postgres(pool), identity, lock: None })
}

/// Opens the database in a file, creates the file and its folders when they are missing, and migrates its
/// schema.
///
/// A lock file next to it shows whether another process uses the database. If none does, the leases in it
/// belong to dead processes and are removed, so that a restart need not wait for them to expire. This
/// counts as a takeover of their runs.
async fn open_file(path: &Path, durability: Durability) -> Result<OpenedStore, Error> {
    let unusable = |why: &dyn std::fmt::Display| {
        Error::new(
            ErrorKind::Configuration,
            format!("the run database `{}` cannot be opened: {why}", path.display()),
        )
    };
    let to_error = |error: database::Error| match error.kind() {
        database::ErrorKind::Newer | database::ErrorKind::Lost => to_open_error(error),
        _ => unusable(&error),
    };
    let (database, content) = WORDS;
    let mut lock = lock_file(path, database, content).map_err(to_error)?;
    let synchronous = match durability {
        Durability::Full | Durability::Memory => SqliteSynchronous::Full,
        Durability::Normal => SqliteSynchronous::Normal,
    };
    let options = options(path, synchronous).create_if_missing(true);
    let mut writer = options.connect().await.map_err(|error| unusable(&error))?;
    check_identity(&mut writer, &lock).await?;
    check_last_commit(&mut writer, &lock).await?;
    SQLITE_MIGRATIONS.run(&mut writer).await.map_err(|error| to_error(error.into()))?;
    if lock.is_alone() {
        let released = sqlx::query(RELEASE_ALL).execute(&mut writer).await;
        released.map_err(|error| unusable(&error))?;
    }
    let identity: String = sqlx::query_scalar("SELECT identity FROM executor")
        .fetch_one(&mut writer)
        .await
        .map_err(|error| unusable(&error))?;
    // Processes that open the database from now on see that it is in use. No run was claimed yet, so
    // it does no harm that another process may have been alone in between.
    lock.mark_in_use(&identity).map_err(|error| unusable(&error))?;
    let mut recorder = lock.commit_recorder();
    if durability == Durability::Normal {
        // A power failure may lose the last commits.
        recorder.record(None).map_err(|error| unusable(&error))?;
    }
    let recorder = (durability == Durability::Full).then_some(recorder);
    let writer = WriterConnection::new(writer, options.clone(), recorder);
    let reads = SqlitePoolOptions::new()
        .max_connections(READERS)
        // While one is open, SQLite keeps its log file.
        .min_connections(1)
        .connect_with(options.read_only(true))
        .await
        .map_err(|error| unusable(&error))?;
    Ok(OpenedStore {
        reads: Pool::Sqlite(reads),
        writer: WriterBackend::Sqlite(Box::new(writer)),
        identity,
        lock: Some(lock),
    })
}

/// Rejects a database that is not the one that was here before: it is empty if the log next to it was lost
/// before the data reached the file itself.
async fn check_identity(writer: &mut SqliteConnection, lock: &DatabaseLock) -> Result<(), Error> {
    if lock.identity().is_none() {
        return Ok(());
    }
    // Whatever else is wrong with the database shows when its schema is brought up to date.
    let found: Result<String, _> =
        sqlx::query_scalar("SELECT identity FROM executor").fetch_one(writer).await;
    let is_another = match &found {
        Ok(found) => lock.belongs_to_another(found),
        Err(sqlx::Error::Database(error)) => error.message().contains("no such table"),
        Err(sqlx::Error::RowNotFound) => true,
        Err(_) => false,
    };
    if is_another {
        let (database, content) = WORDS;
        return Err(to_open_error(lock.to_lost_error(DatabaseLoss::Identity, database, content)));
    }
    Ok(())
}

/// Rejects a database that lacks the last event that was committed: SQLite takes the log only up to its
/// first damaged page. Runs that have ended would begin again in their middle, and send requests twice.
async fn check_last_commit(
    writer: &mut SqliteConnection,
    lock: &DatabaseLock,
) -> Result<(), Error> {
    let commit = lock.last_commit().filter(|_| lock.is_alone());
    let Some((run, seq)) = commit.and_then(parse_commit) else { return Ok(()) };
    const SQL: &str = "SELECT EXISTS (SELECT 1 FROM event WHERE run = $1 AND seq = $2)";
    let found = sqlx::query_scalar(SQL).bind(run.to_string()).bind(number(seq)).fetch_one(writer);
    let is_found: bool = found.await.map_err(to_store_error(super::WHAT))?;
    if is_found {
        return Ok(());
    }
    let (database, content) = WORDS;
    let error = to_open_error(lock.to_lost_error(DatabaseLoss::Commits, database, content));
    Err(error.with_hint(
        "To continue without the lost runs, copy the data folder with `a2s backup` and restore the copy to \
         another folder: runs that have not ended then wait for a person, and send nothing twice.",
    ))
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// Closes a database. Dropped connections are closed later, and until then SQLite uses and removes the
    /// files next to the database.
    async fn close(opened: OpenedStore) {
        let OpenedStore {
            reads: Pool::Sqlite(reads),
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
        match open_file(path, Durability::Full).await {
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
            let refused = open_file(&path, Durability::Full).await.map(drop).unwrap_err();
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
        let opened = open_file(&path, Durability::Full).await.unwrap();
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
        let refused = open_file(&lost, Durability::Full).await.map(drop).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::DatabaseMissing);
        assert!(refused.message.contains("executor.sqlite-wal"), "{}", refused.message);
        assert_eq!(std::fs::read(&lost).unwrap(), before, "nothing was made");
        close(opened).await;
        // One of another executor is none of these runs either.
        let another = folder.path().join("another.sqlite");
        open_and_close(&another).await;
        std::fs::copy(lock(&path), lock(&another)).unwrap();
        let refused = open_file(&another, Durability::Full).await.map(drop).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::DatabaseMissing);
        open_and_close(&path).await;
    }

    #[tokio::test]
    async fn a_database_that_was_not_closed_needs_its_log() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("executor.sqlite");
        open_and_close(&path).await;
        // As a process leaves it that was killed.
        let opened = open_file(&path, Durability::Full).await.unwrap();
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
            let refused = open_file(&copy, Durability::Full).await.map(drop).unwrap_err();
            assert_eq!(refused.kind, ErrorKind::DatabaseMissing);
            assert!(refused.message.contains("executor.sqlite-wal"), "{}", refused.message);
        }
        // One that another process uses, or has closed, needs none.
        open_and_close(&path).await;
        close(opened).await;
        open_and_close(&path).await;
    }

    #[tokio::test]
    async fn a_damaged_lock_file_does_not_prevent_a_start() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("executor.sqlite");
        open_and_close(&path).await;
        let lock = format!("{}.lock", path.display());
        let whole = std::fs::read(&lock).unwrap();
        for content in [&[0; 40][..], &[0xff; 40], &whole[..20], b"", b"\n"] {
            std::fs::write(&lock, content).unwrap();
            open_and_close(&path).await;
            assert_eq!(std::fs::read(&lock).unwrap(), whole, "{content:?}");
        }
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
        let refused = open_file(&path, Durability::Full).await.map(drop).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::DatabaseNewer);
    }

    #[tokio::test]
    async fn the_owner_alone_can_read_the_database() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("executor.sqlite");
        let files = ["", "-wal", "-shm", ".lock"].map(|end| format!("{}{end}", path.display()));
        let mode = |file: &String| std::fs::metadata(file).unwrap().permissions().mode() & 0o777;
        let opened = open_file(&path, Durability::Full).await.unwrap();
        assert_eq!(files.each_ref().map(mode), [0o600; 4]);
        for file in &files {
            std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o644)).unwrap();
        }
        let _again = open_file(&path, Durability::Full).await.unwrap();
        assert_eq!(files.each_ref().map(mode), [0o600; 4]);
        close(opened).await;
    }
}
