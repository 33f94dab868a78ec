//! The executor's database: how it is opened, and how its failures are told.
//!
//! What both engines understand is written once, with `$1` for the first value; what differs (locks,
//! clocks, lists) is beside it in the words of each.

pub(crate) mod postgres;

use std::path::Path;
use std::time::Duration;

use sqlx::ConnectOptions as _;
use sqlx::postgres::PgPool;
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};

use self::postgres::Server;
use crate::config::Database;
use crate::error::{Error, Kind};

/// Connections to a database of either engine.
#[derive(Debug, Clone)]
pub(crate) enum Pool {
    Sqlite(SqlitePool),
    Postgres(PgPool),
}

/// The same query on a pool of either engine.
macro_rules! on {
    ($pool:expr, |$connections:ident| $query:expr) => {
        match $pool {
            $crate::database::Pool::Sqlite($connections) => $query,
            $crate::database::Pool::Postgres($connections) => $query,
        }
    };
}
pub(crate) use on;

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

/// Connections to a database that has been migrated, beside those that write runs.
///
/// # Errors
/// When it cannot be opened.
pub(crate) async fn open(database: &Database) -> Result<Pool, Error> {
    match database {
        Database::File(path) => {
            let options = options(path, SqliteSynchronous::Full);
            let pool = SqlitePoolOptions::new().max_connections(CONNECTIONS);
            let pool = pool.connect_with(options).await;
            pool.map(Pool::Sqlite).map_err(failed("the database"))
        }
        Database::Postgres(address) => {
            Ok(Pool::Postgres(Server::read(address)?.pool(CONNECTIONS, false)))
        }
    }
}

/// Turns a failure into the error that callers get. The database's own words go to the log; there
/// are no values in them.
pub(crate) fn failed<E: std::error::Error + 'static>(what: &'static str) -> impl Fn(E) -> Error {
    move |error| {
        tracing::error!(%error, "{what} could not be read or written");
        let cause: &(dyn std::error::Error + 'static) = &error;
        if cause.downcast_ref().is_some_and(is_away) {
            return Error::new(Kind::StoreAway, "the run database does not answer");
        }
        Error::new(Kind::Store, format!("{what} could not be read or written"))
    }
}

/// Whether the database may answer again by itself.
fn is_away(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut => true,
        // Connections, resources, an operator who stops or starts the server, its disk. SQLite has
        // numbers of its own, which begin otherwise.
        sqlx::Error::Database(error)
            if error.try_downcast_ref::<sqlx::postgres::PgDatabaseError>().is_some() =>
        {
            error.code().is_some_and(|code| {
                ["08", "53", "57", "58"].iter().any(|class| code.starts_with(class))
            })
        }
        _ => false,
    }
}
