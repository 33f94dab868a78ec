//! Failures of a database.

use std::fmt;

use sqlx::migrate::MigrateError;

/// An error of a database. The engine's message is for the log, not for callers.
#[derive(Debug, thiserror::Error)]
#[error("{source}")]
pub struct Error {
    kind: ErrorKind,
    source: Box<dyn std::error::Error + Send + Sync>,
}

/// The kind of a database error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The database did not respond correctly; it may later.
    Unavailable,
    /// The database cannot be opened.
    Unusable,
    /// A newer version of the program created the database.
    Newer,
    /// It lacks data that was there before.
    Lost,
}

impl Error {
    /// Creates an error of a kind.
    pub fn new(
        kind: ErrorKind,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self { kind, source: source.into() }
    }

    /// Creates an error for a database that may respond later.
    pub fn unavailable(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::new(ErrorKind::Unavailable, source)
    }

    /// Creates an error for a database that cannot be opened.
    pub fn unusable(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::new(ErrorKind::Unusable, source)
    }

    /// Converts a failure to open a database: a server that is away may come back; one that refuses keeps
    /// refusing until an operator fixes the cause.
    pub fn from_open(error: sqlx::Error) -> Self {
        if is_unavailable(&error) { Self::unavailable(error) } else { Self::unusable(error) }
    }

    /// The kind of the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns the fault of the disk that caused the error, if the database reports one.
    #[must_use]
    pub fn disk_fault(&self) -> Option<DiskFault> {
        self.source.downcast_ref().and_then(find_disk_fault)
    }
}

/// A fault of the disk that a database is on. Its text is what a sentence says of the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskFault {
    /// The disk has no space left.
    Full,
    /// The disk cannot be read or written.
    Failing,
}

impl fmt::Display for DiskFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "cannot be written, because its disk is full",
            Self::Failing => "cannot be read or written, because its disk reports errors",
        })
    }
}

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        Self::unavailable(error)
    }
}

impl From<MigrateError> for Error {
    fn from(error: MigrateError) -> Self {
        match error {
            // The database knows a migration that this program does not.
            MigrateError::VersionMissing(_) | MigrateError::VersionTooNew(..) => {
                Self::new(ErrorKind::Newer, error)
            }
            MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => {
                Self::from_open(error)
            }
            other => Self::unusable(other),
        }
    }
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

/// Returns true when the database may become available again without a change.
pub fn is_unavailable(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut => true,
        sqlx::Error::Database(error) => {
            let Some(code) = error.code() else { return false };
            if is_from_server(error.as_ref()) {
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

/// Returns the fault of the disk that an error reports: `disk_full` and `io_error` of PostgreSQL, FULL and
/// IOERR of SQLite.
pub fn find_disk_fault(error: &sqlx::Error) -> Option<DiskFault> {
    let sqlx::Error::Database(error) = error else { return None };
    let code = error.code()?;
    if is_from_server(error.as_ref()) {
        return match &*code {
            "53100" => Some(DiskFault::Full),
            "58030" => Some(DiskFault::Failing),
            _ => None,
        };
    }
    // The lower byte of a code is what all of its kind share.
    match code.parse::<i32>().ok()? & 0xff {
        13 => Some(DiskFault::Full),
        10 => Some(DiskFault::Failing),
        _ => None,
    }
}

/// Returns true for an error that a server reports.
#[cfg(feature = "postgres")]
fn is_from_server(error: &(dyn sqlx::error::DatabaseError + 'static)) -> bool {
    error.try_downcast_ref::<sqlx::postgres::PgDatabaseError>().is_some()
}

/// Returns false: this build has no errors of servers.
#[cfg(not(feature = "postgres"))]
fn is_from_server(_: &(dyn sqlx::error::DatabaseError + 'static)) -> bool {
    false
}
