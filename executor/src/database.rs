//! The executor's database: how its file is opened, and how its failures are told.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sqlx::ConnectOptions as _;
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};

use crate::error::{Error, Kind};

/// Connections for what is changed rarely, and by people: credentials, and what is remembered.
const CONNECTIONS: u32 = 2;

/// How a connection to the file is opened.
pub(crate) fn options(path: &Path, synchronous: SqliteSynchronous) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .foreign_keys(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(synchronous)
        // What was removed is not left in the file, sealed as it is.
        .pragma("secure_delete", "ON")
        .busy_timeout(Duration::from_secs(5))
        .disable_statement_logging()
}

/// How connections to a new database in the memory of this process are opened. It is there for as
/// long as one of them is.
pub(crate) fn options_in_memory() -> SqliteConnectOptions {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    SqliteConnectOptions::new()
        // The leading slash makes it one database for all connections.
        .filename(format!("/runs-{number}"))
        .vfs("memdb")
        .foreign_keys(true)
        .journal_mode(SqliteJournalMode::Memory)
        .synchronous(SqliteSynchronous::Off)
        .busy_timeout(Duration::from_secs(5))
        .disable_statement_logging()
}

/// Connections to a database that has been migrated, beside the one that writes runs.
///
/// # Errors
/// When it cannot be opened.
pub(crate) async fn open(path: &Path) -> Result<SqlitePool, Error> {
    let options = options(path, SqliteSynchronous::Full);
    let pool = SqlitePoolOptions::new().max_connections(CONNECTIONS).connect_with(options).await;
    pool.map_err(failed("the database"))
}

/// Turns a failure into the error that callers get. The database's own words go to the log; there
/// are no values in them.
pub(crate) fn failed<E: std::error::Error>(what: &'static str) -> impl Fn(E) -> Error {
    move |error| {
        tracing::error!(%error, "{what} could not be read or written");
        Error::new(Kind::Store, format!("{what} could not be read or written"))
    }
}
