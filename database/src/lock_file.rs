//! The permissions of an SQLite file and its lock file.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use crate::{Error, ErrorKind};

/// The second line of a lock file while a process uses the database.
const IN_USE: &str = "in use\n";
/// The maximum number of bytes to read from a lock file.
const MAX_LOCK_FILE: u64 = 1024;

/// The parts of a database that can be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatabaseLoss {
    /// The database itself.
    Database,
    /// The log of the database, which the last process did not move into the database.
    Log,
    /// The identity: the database is not the one that was used at this path.
    Identity,
}

/// The lock file of a database, `NAME.lock`: held for as long as a process uses the database.
///
/// It stores the identity of the database, so that an empty database does not replace a lost one. It also
/// records that a process has not closed the database: then SQLite needs the log (`NAME-wal`), which
/// contains the last commits.
#[derive(Debug)]
pub struct DatabaseLock {
    file: File,
    database: PathBuf,
    is_alone: bool,
    identity: Option<String>,
    was_in_use: bool,
    is_held: bool,
}

impl DatabaseLock {
    /// Opens the lock file of a database, creating it when it is missing.
    ///
    /// # Errors
    /// Fails when the file cannot be opened or read.
    pub fn open(database: &Path) -> io::Result<Self> {
        let (mut file, _) = open_private_file(&with_suffix(database, ".lock"))?;
        let is_alone = file.try_lock().is_ok();
        let mut text = String::new();
        (&mut file).take(MAX_LOCK_FILE).read_to_string(&mut text)?;
        let mut lines = text.lines();
        let identity = lines.next().map(str::trim).filter(|line| !line.is_empty());
        Ok(Self {
            database: database.to_owned(),
            is_alone,
            identity: identity.map(str::to_owned),
            was_in_use: lines.next() == Some(IN_USE.trim_end()),
            is_held: false,
            file,
        })
    }

    /// Returns the path of the lock file.
    pub fn path(&self) -> PathBuf {
        with_suffix(&self.database, ".lock")
    }

    /// Returns the identity of the database that was last used at this path.
    pub fn identity(&self) -> Option<&str> {
        self.identity.as_deref()
    }

    /// Returns true when no other process uses the database.
    pub fn is_alone(&self) -> bool {
        self.is_alone
    }

    /// The loss that the files show. Call it before SQLite opens the database.
    ///
    /// The log counts as lost only while its index (`-shm`) exists: another program that opens and closes
    /// the database after a crash moves the log into it, and removes the index before the log itself.
    pub fn find_loss(&self) -> Option<DatabaseLoss> {
        let is_there = |suffix| with_suffix(&self.database, suffix).exists();
        if self.identity.is_some() && file_size(&self.database) == 0 {
            return Some(DatabaseLoss::Database);
        }
        let is_log_lost = self.is_alone && self.was_in_use && is_there("-shm") && !is_there("-wal");
        is_log_lost.then_some(DatabaseLoss::Log)
    }

    /// Returns the error for a loss. `database` and `content` are the words for the database and its content
    /// in the message.
    pub fn to_lost_error(&self, loss: DatabaseLoss, database: &str, content: &str) -> Error {
        let path = self.database.display();
        let cause = match loss {
            DatabaseLoss::Database => "it is missing or empty".to_owned(),
            DatabaseLoss::Log => format!(
                "its log (`{path}-wal`), which contains the last {content}, is missing, although no process closed the database"
            ),
            DatabaseLoss::Identity => {
                format!("its log (`{path}-wal`) was lost, or it is another database")
            }
        };
        let lock = self.path();
        let lock = lock.display();
        let message = format!(
            "the {database} `{path}` lacks the {content} that it had according to `{lock}`: {cause}"
        );
        Error::new(ErrorKind::Lost, message)
    }

    /// Marks the database as used by this process, until the lock is dropped. Call it when the database is
    /// open, so that its log exists.
    ///
    /// # Errors
    /// Fails when the lock file cannot be written.
    pub fn mark_in_use(&mut self, identity: &str) -> io::Result<()> {
        if self.is_alone {
            self.file.unlock()?;
        }
        self.file.lock_shared()?;
        // The entry of the log in its folder has to be on the disk before the mark is.
        #[cfg(unix)]
        if let Some(folder) = self.database.parent() {
            let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
            File::open(folder)?.sync_all()?;
        }
        self.identity = Some(identity.to_owned());
        self.is_held = true;
        self.write(IN_USE)
    }

    fn write(&mut self, mark: &str) -> io::Result<()> {
        let text = format!("{}\n{mark}", self.identity.as_deref().unwrap_or_default());
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(text.as_bytes())?;
        self.file.set_len(text.len() as u64)
    }
}

impl Drop for DatabaseLock {
    /// Removes the mark when this process is the last one that uses the database.
    fn drop(&mut self) {
        if self.is_held && self.file.unlock().is_ok() && self.file.try_lock().is_ok() {
            // If the mark stays, a database without its log needs a person at the next start.
            let _ = self.write("");
        }
    }
}

/// Opens the file of a database with access for its owner only, creating it when it is missing.
///
/// Removes the access of others from an existing file. SQLite gives its other files (`-wal`, `-shm`) the
/// same mode. Returns the file, and true when others had access.
///
/// # Errors
/// When the file cannot be opened or its mode cannot be changed.
pub fn open_private_file(path: &Path) -> io::Result<(File, bool)> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    {
        use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
        let file = options.mode(0o600).open(path)?;
        if file.metadata()?.permissions().mode() & 0o077 == 0 {
            return Ok((file, false));
        }
        for suffix in ["", "-wal", "-shm"] {
            let private = std::fs::Permissions::from_mode(0o600);
            match std::fs::set_permissions(with_suffix(path, suffix), private) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok((file, true))
    }
    #[cfg(not(unix))]
    Ok((options.open(path)?, false))
}

/// The path of a file with a suffix added to its name.
fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

fn file_size(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |file| file.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with a database and its log, as a process leaves them that works.
    fn folder() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("a.sqlite");
        std::fs::write(&database, "pages").unwrap();
        for suffix in ["-wal", "-shm"] {
            std::fs::write(with_suffix(&database, suffix), "log").unwrap();
        }
        (folder, database)
    }

    fn hold(database: &Path) -> DatabaseLock {
        let mut lock = DatabaseLock::open(database).unwrap();
        lock.mark_in_use("one").unwrap();
        lock
    }

    fn text(database: &Path) -> String {
        std::fs::read_to_string(with_suffix(database, ".lock")).unwrap()
    }

    #[test]
    fn a_log_is_lost_when_the_database_was_not_closed() {
        let (_folder, database) = folder();
        let lock = hold(&database);
        let left = text(&database);
        drop(lock);
        assert_eq!(text(&database), "one\n");
        let wal = with_suffix(&database, "-wal");
        std::fs::remove_file(&wal).unwrap();
        assert_eq!(DatabaseLock::open(&database).unwrap().find_loss(), None, "it was closed");
        std::fs::write(with_suffix(&database, ".lock"), left).unwrap();
        for _ in 0..2 {
            assert_eq!(DatabaseLock::open(&database).unwrap().find_loss(), Some(DatabaseLoss::Log));
        }
        std::fs::write(&wal, "log").unwrap();
        assert_eq!(DatabaseLock::open(&database).unwrap().find_loss(), None);
        for suffix in ["-wal", "-shm"] {
            std::fs::remove_file(with_suffix(&database, suffix)).unwrap();
        }
        assert_eq!(
            DatabaseLock::open(&database).unwrap().find_loss(),
            None,
            "another program closed it"
        );
    }

    #[test]
    fn a_database_is_lost_when_the_lock_file_knows_it() {
        let (_folder, database) = folder();
        drop(hold(&database));
        assert_eq!(DatabaseLock::open(&database).unwrap().find_loss(), None);
        std::fs::write(&database, "").unwrap();
        let lock = DatabaseLock::open(&database).unwrap();
        assert_eq!(lock.find_loss(), Some(DatabaseLoss::Database));
        assert_eq!(lock.identity(), Some("one"));
        std::fs::remove_file(with_suffix(&database, ".lock")).unwrap();
        assert_eq!(DatabaseLock::open(&database).unwrap().find_loss(), None);
    }

    #[test]
    fn the_last_process_removes_the_mark() {
        let (_folder, database) = folder();
        let (one, two) = (hold(&database), hold(&database));
        drop(one);
        assert_eq!(text(&database), "one\nin use\n");
        std::fs::remove_file(with_suffix(&database, "-wal")).unwrap();
        let third = DatabaseLock::open(&database).unwrap();
        assert!(!third.is_alone());
        assert_eq!(third.find_loss(), None, "another process has the log open");
        drop((two, third));
        assert!(text(&database).starts_with("one\n"));
    }

    #[test]
    fn a_lock_file_of_others_is_no_error() {
        let (_folder, database) = folder();
        for content in ["", "\n", "one", "one\nin use", "one\nelse\n"] {
            std::fs::write(with_suffix(&database, ".lock"), content).unwrap();
            assert_eq!(DatabaseLock::open(&database).unwrap().find_loss(), None, "{content:?}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn files_are_for_their_owner_alone() {
        use std::os::unix::fs::PermissionsExt as _;
        let (_folder, database) = folder();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        for path in [&database, &with_suffix(&database, "-wal")] {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o644)).unwrap();
        }
        assert!(open_private_file(&database).unwrap().1);
        assert_eq!((mode(&database), mode(&with_suffix(&database, "-wal"))), (0o600, 0o600));
        assert!(!open_private_file(&database).unwrap().1);
        drop(hold(&database));
        assert_eq!(mode(&with_suffix(&database, ".lock")), 0o600);
    }
}
