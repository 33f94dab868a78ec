//! The executor's database: opening it, and mapping its failures to errors.

use std::path::Path;

use a2s::Secret;
use database::server_types::PgPool;
use database::{DiskFault, Pool, PostgresServer, find_disk_fault, is_unavailable, sqlite_options};
use sqlx::ConnectOptions as _;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions, SqliteSynchronous};

use crate::config::ExecutorDatabase;
use crate::error::{Error, ErrorKind};

/// The number of connections for data that people change rarely: credentials, and remembered values.
const CONNECTIONS: u32 = 2;
/// The schema of the tables in PostgreSQL, so that registry and executors can share a database.
const SCHEMA: &str = "a2s_executor";
/// If an executor disappears in the middle of a transaction, the server frees its locks after this time.
const IDLE_TIMEOUT: (&str, &str) = ("idle_in_transaction_session_timeout", "5s");

/// The options for a connection to the file.
pub(crate) fn options(path: &Path, synchronous: SqliteSynchronous) -> SqliteConnectOptions {
    sqlite_options(path)
        .synchronous(synchronous)
        // Deleted data does not stay in the file, even sealed.
        .pragma("secure_delete", "ON")
        .disable_statement_logging()
}

/// A server with an address.
///
/// # Errors
/// Returns [`ErrorKind::Configuration`] when it is not the address of a PostgreSQL database.
pub(crate) fn server(address: &Secret) -> Result<PostgresServer, Error> {
    PostgresServer::parse(address.expose_secret(), Some(SCHEMA)).map_err(to_open_error)
}

/// Creates a pool of at most `most` connections to a server. With `lazy_commits`, a commit does not wait for
/// the server's disk.
pub(crate) fn server_pool(server: &PostgresServer, most: u32, lazy_commits: bool) -> PgPool {
    if lazy_commits {
        server.pool(most, &[IDLE_TIMEOUT, ("synchronous_commit", "off")])
    } else {
        server.pool(most, &[IDLE_TIMEOUT])
    }
}

/// Opens connections to a database that has been migrated, in addition to the connections that write runs.
///
/// # Errors
/// When it cannot be opened.
pub(crate) async fn open(database: &ExecutorDatabase) -> Result<Pool, Error> {
    match database {
        ExecutorDatabase::File(path) => {
            let options = options(path, SqliteSynchronous::Full);
            let pool = SqlitePoolOptions::new().max_connections(CONNECTIONS);
            let pool = pool.connect_with(options).await;
            pool.map(Pool::Sqlite).map_err(to_store_error("the database"))
        }
        ExecutorDatabase::Postgres(address) => {
            Ok(Pool::Postgres(server_pool(&server(address)?, CONNECTIONS, false)))
        }
    }
}

/// Creates the error for a schema with changes that this program does not know.
pub(crate) fn newer_schema_error() -> Error {
    let message = "a newer version of `a2s` has changed the schema of the run database";
    Error::new(ErrorKind::DatabaseNewer, message)
}

/// Converts a failure at the start of an executor.
#[expect(clippy::needless_pass_by_value, reason = "it is passed to `map_err`")]
pub(crate) fn to_open_error(error: database::Error) -> Error {
    match error.kind() {
        database::ErrorKind::Unavailable => {
            let message = format!("the run database does not respond: {error}");
            Error::new(ErrorKind::StoreAway, message)
        }
        database::ErrorKind::Unusable => {
            let message = format!("the run database cannot be opened: {error}");
            Error::new(ErrorKind::Configuration, message)
        }
        database::ErrorKind::Newer => newer_schema_error(),
        database::ErrorKind::Lost => Error::new(ErrorKind::DatabaseMissing, error.to_string()),
    }
}

/// Converts a failure into the error for callers. The message of the database goes to the log; it does not
/// contain values.
pub(crate) fn to_store_error<E: std::error::Error + 'static>(
    what: &'static str,
) -> impl Fn(E) -> Error {
    move |error| {
        tracing::error!(%error, "{what} could not be read or written");
        let cause: &(dyn std::error::Error + 'static) = &error;
        match cause.downcast_ref::<sqlx::Error>() {
            Some(cause) if is_unavailable(cause) => to_away_error(find_disk_fault(cause)),
            _ => Error::new(ErrorKind::Store, format!("{what} could not be read or written")),
        }
    }
}

/// Creates the error for a database that may become available again.
fn to_away_error(fault: Option<DiskFault>) -> Error {
    let Some(fault) = fault else {
        let message = "the run database cannot be read or written now";
        return Error::new(ErrorKind::StoreAway, message);
    };
    let hint = match fault {
        DiskFault::Full => {
            "Free space on the disk of the run database; the executor then continues by itself."
        }
        DiskFault::Failing => {
            "Check the disk of the run database and its free space; the executor continues by itself when the disk works again."
        }
    };
    Error::new(ErrorKind::StoreAway, format!("the run database {fault}")).with_hint(hint)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sqlx::postgres::PgConnection;
    use sqlx::{AssertSqlSafe, Connection as _, Executor as _};
    use test_support::require_postgres_server;

    use super::*;

    fn kind(error: sqlx::Error) -> ErrorKind {
        to_store_error("the database")(error).kind
    }

    #[tokio::test]
    async fn failures_of_a_server_that_pass_are_told_apart() {
        let Some(server) = require_postgres_server() else { return };
        let mut connection = PgConnection::connect(&server).await.unwrap();
        for (states, expected) in [
            // Idle transactions, statements, locks, deadlocks, a failover, the disk, a stop.
            (
                &["25P03", "57014", "55P03", "40P01", "25006", "53100", "57P01"][..],
                ErrorKind::StoreAway,
            ),
            (&["23505", "42601", "25001", "XX001"][..], ErrorKind::Store),
        ] {
            for state in states {
                let raise =
                    format!("DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '{state}'; END $$");
                let error = connection.execute(AssertSqlSafe(raise)).await.unwrap_err();
                let error = to_store_error("the database")(error);
                assert_eq!(error.kind, expected, "{state}");
                let says_full = error.message.contains("its disk is full");
                assert_eq!(says_full, state == &"53100", "{}", error.message);
            }
        }
    }

    #[tokio::test]
    async fn failures_of_a_file_that_pass_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file.sqlite");
        let open = options(&path, SqliteSynchronous::Full).busy_timeout(Duration::ZERO);
        let mut one = open.clone().create_if_missing(true).connect().await.unwrap();
        one.execute("CREATE TABLE t (c UNIQUE); INSERT INTO t VALUES (1)").await.unwrap();
        let mut reader = open.clone().read_only(true).connect().await.unwrap();
        let mut other = open.connect().await.unwrap();

        one.execute("BEGIN IMMEDIATE").await.unwrap();
        let busy = other.execute("BEGIN IMMEDIATE").await.unwrap_err();
        assert_eq!(kind(busy), ErrorKind::StoreAway);
        one.execute("ROLLBACK").await.unwrap();
        let read_only = reader.execute("INSERT INTO t VALUES (2)").await.unwrap_err();
        let read_only = to_store_error("the database")(read_only);
        assert_eq!(read_only.kind, ErrorKind::StoreAway);
        assert!(!read_only.message.contains("disk"), "{}", read_only.message);
        one.execute("PRAGMA max_page_count = 1").await.unwrap();
        let full = one.execute("INSERT INTO t VALUES (randomblob(100000))").await.unwrap_err();
        let full = to_store_error("the database")(full);
        assert_eq!(full.kind, ErrorKind::StoreAway);
        assert!(full.message.contains("its disk is full"), "{}", full.message);
        assert!(full.hint.starts_with("Free space on the disk"), "{}", full.hint);
        let twice = other.execute("INSERT INTO t VALUES (1)").await.unwrap_err();
        assert_eq!(kind(twice), ErrorKind::Store);
    }
}
