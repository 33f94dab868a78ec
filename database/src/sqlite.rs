//! Opening an SQLite file.

use std::path::Path;
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode};

use crate::{DatabaseLock, Error, open_private_file};

/// The time that a statement waits for another program that has the file open.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Opens the lock file of a database and makes the database private.
///
/// Creates the database and its folders when they are missing. `database` and `content` are the words for
/// the database and its content in messages.
///
/// # Errors
/// Fails when a file cannot be opened, or when the database lacks data that was there before.
pub fn lock_file(path: &Path, database: &str, content: &str) -> Result<DatabaseLock, Error> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(Error::unusable)?;
    }
    let lock = DatabaseLock::open(path).map_err(|error| {
        Error::unusable(format!(
            "the lock file `{}.lock` cannot be opened: {error}",
            path.display()
        ))
    })?;
    if let Some(loss) = lock.find_loss() {
        return Err(lock.to_lost_error(loss, database, content));
    }
    let (_, was_shared) = open_private_file(path).map_err(Error::unusable)?;
    if was_shared {
        tracing::warn!(path = %path.display(), "other users had access to the database");
    }
    Ok(lock)
}

/// The options for connections to a file. Readers do not wait for the writer.
pub fn sqlite_options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .foreign_keys(true)
        .journal_mode(SqliteJournalMode::Wal)
        .busy_timeout(BUSY_TIMEOUT)
}
