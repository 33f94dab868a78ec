//! The executor's database: opening it, and mapping its failures to errors.
//!
//! SQL that both engines understand is written once, with `$1` for the first value. SQL that differs
//! (locks, clocks, lists) is next to it, once for each engine.

pub(crate) mod postgres;

use std::path::Path;
use std::time::Duration;

use sqlx::ConnectOptions as _;
use sqlx::postgres::{PgDatabaseError, PgPool};
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};

use self::postgres::PostgresServer;
use crate::config::ExecutorDatabase;
use crate::error::{Error, ErrorKind};

/// The connections to a database of either engine.
#[derive(Debug, Clone)]
pub(crate) enum DatabasePool {
    Sqlite(SqlitePool),
    Postgres(PgPool),
}

/// Runs the same query on a pool of either engine.
macro_rules! on {
    ($pool:expr, |$connections:ident| $query:expr) => {
        match $pool {
            $crate::database::DatabasePool::Sqlite($connections) => $query,
            $crate::database::DatabasePool::Postgres($connections) => $query,
        }
    };
}
pub(crate) use on;

/// The number of connections for data that people change rarely: credentials, and remembered values.
const CONNECTIONS: u32 = 2;

/// The options for a connection to the file.
pub(crate) fn options(path: &Path, synchronous: SqliteSynchronous) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .foreign_keys(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(synchronous)
        // Deleted data does not stay in the file, even sealed.
        .pragma("secure_delete", "ON")
        .busy_timeout(Duration::from_secs(5))
        .disable_statement_logging()
}

/// Opens connections to a database that has been migrated, in addition to the connections that write runs.
///
/// # Errors
/// When it cannot be opened.
pub(crate) async fn open(database: &ExecutorDatabase) -> Result<DatabasePool, Error> {
    match database {
        ExecutorDatabase::File(path) => {
            let options = options(path, SqliteSynchronous::Full);
            let pool = SqlitePoolOptions::new().max_connections(CONNECTIONS);
            let pool = pool.connect_with(options).await;
            pool.map(DatabasePool::Sqlite).map_err(to_store_error("the database"))
        }
        ExecutorDatabase::Postgres(address) => {
            Ok(DatabasePool::Postgres(PostgresServer::parse(address)?.pool(CONNECTIONS, false)))
        }
    }
}

/// Creates the error for a schema with changes that this program does not know.
pub(crate) fn newer_schema_error() -> Error {
    let message = "a newer version of `a2s` has changed the schema of the run database";
    Error::new(ErrorKind::DatabaseNewer, message)
}

/// The PostgreSQL error classes for connections, transactions that conflict with another, resources, an
/// operator who stops or starts the server, a timeout that ends a statement, and the disk.
const TRANSIENT_CLASSES: [&str; 5] = ["08", "40", "53", "57", "58"];
/// The same codes in other classes: a server that is read-only, as after a failover, the timeouts of idle
/// transactions and sessions, and a lock that was not obtained in time.
const TRANSIENT_STATES: [&str; 4] = ["25006", "25P03", "25P04", "55P03"];
/// The SQLite results for a locked file, for memory, and for a disk that fails, is full, or is read-only:
/// BUSY, LOCKED, NOMEM, READONLY, IOERR, FULL, CANTOPEN and PROTOCOL.
const TRANSIENT_RESULTS: [i32; 8] = [5, 6, 7, 8, 10, 13, 14, 15];

/// Converts a failure into the error for callers. The message of the database goes to the log; it does not
/// contain values.
pub(crate) fn to_store_error<E: std::error::Error + 'static>(
    what: &'static str,
) -> impl Fn(E) -> Error {
    move |error| {
        tracing::error!(%error, "{what} could not be read or written");
        let cause: &(dyn std::error::Error + 'static) = &error;
        if cause.downcast_ref().is_some_and(is_unavailable) {
            return Error::new(
                ErrorKind::StoreAway,
                "the run database cannot be read or written now",
            );
        }
        Error::new(ErrorKind::Store, format!("{what} could not be read or written"))
    }
}

/// Returns true when the database may become available again without a change.
fn is_unavailable(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut => true,
        sqlx::Error::Database(error) => {
            let Some(code) = error.code() else { return false };
            if error.try_downcast_ref::<PgDatabaseError>().is_some() {
                TRANSIENT_CLASSES.iter().any(|class| code.starts_with(class))
                    || TRANSIENT_STATES.contains(&&*code)
            } else {
                // The lower byte of a code is what all of its kind share.
                code.parse().is_ok_and(|code: i32| TRANSIENT_RESULTS.contains(&(code & 0xff)))
            }
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
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
                assert_eq!(kind(error), expected, "{state}");
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
        assert_eq!(kind(read_only), ErrorKind::StoreAway);
        one.execute("PRAGMA max_page_count = 1").await.unwrap();
        let full = one.execute("INSERT INTO t VALUES (randomblob(100000))").await.unwrap_err();
        assert_eq!(kind(full), ErrorKind::StoreAway);
        let twice = other.execute("INSERT INTO t VALUES (1)").await.unwrap_err();
        assert_eq!(kind(twice), ErrorKind::Store);
    }
}
