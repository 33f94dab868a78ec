//! The executor's database: how its file is opened, and how its failures are told.

use std::path::Path;
use std::time::Duration;

use sqlx::ConnectOptions as _;
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};

use crate::config::Durability;
use crate::error::{Error, Kind};

/// Connections for what is changed rarely, and by people: credentials, and what is remembered.
const CONNECTIONS: u32 = 2;

/// How a connection to the file is opened.
pub(crate) fn options(path: &Path, durability: Durability) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .foreign_keys(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(match durability {
            Durability::Full => SqliteSynchronous::Full,
            Durability::Normal => SqliteSynchronous::Normal,
        })
        // What was removed is not left in the file, sealed as it is.
        .pragma("secure_delete", "ON")
        .busy_timeout(Duration::from_secs(5))
        .disable_statement_logging()
}

/// Connections to a database that has been migrated, beside the one that writes runs.
///
/// # Errors
/// When it cannot be opened.
pub(crate) async fn open(path: &Path) -> Result<SqlitePool, Error> {
    let options = options(path, Durability::Full);
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
