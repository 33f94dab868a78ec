//! The file of an SQLite database and the lock file beside it, for services that keep one.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

/// The second line of a lock file while a process uses the database.
const IN_USE: &str = "in use\n";
/// The most bytes of a lock file that are read.
const MAX_LOCK_FILE: u64 = 1024;

/// The lock file beside a database, `NAME.lock`: held for as long as a process uses the database.
///
/// It remembers the identity of the database, so that a database that was lost is not replaced by an
/// empty one. It also remembers that a process has not closed the database: after that SQLite needs the
/// log beside the database (`NAME-wal`), which has what was committed last.
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
    /// When the file cannot be opened or read.
    pub fn open(database: &Path) -> io::Result<Self> {
        let (mut file, _) = create_private(&beside(database, ".lock"))?;
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

    /// The path of the lock file.
    pub fn path(&self) -> PathBuf {
        beside(&self.database, ".lock")
    }

    /// The identity of the database that was last used at this path.
    pub fn identity(&self) -> Option<&str> {
        self.identity.as_deref()
    }

    /// Whether no other process uses the database.
    pub fn is_alone(&self) -> bool {
        self.is_alone
    }

    /// Whether the database was here before and is not any more. To be asked before SQLite opens it.
    pub fn is_database_lost(&self) -> bool {
        self.identity.is_some() && size(&self.database) == 0
    }

    /// Whether the log beside the database is gone, though the last process did not close the database.
    /// To be asked before SQLite opens the database.
    pub fn is_log_lost(&self) -> bool {
        self.is_alone && self.was_in_use && !beside(&self.database, "-wal").exists()
    }

    /// Says that this process uses the database, until it is dropped. To be called when the database is
    /// open, so that its log exists.
    ///
    /// # Errors
    /// When the lock file cannot be written.
    pub fn hold(&mut self, identity: &str) -> io::Result<()> {
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
            // With the mark left, a database whose log is gone needs a person at the next start.
            let _ = self.write("");
        }
    }
}

/// Opens the file of a database for its owner alone, creating it when it is missing, and takes the
/// permissions of others from one that is there. SQLite gives the files beside it (`-wal`, `-shm`) the
/// same mode. Returns the file, and whether others had access.
///
/// # Errors
/// When the file cannot be opened or its mode cannot be changed.
pub fn create_private(path: &Path) -> io::Result<(File, bool)> {
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
            match std::fs::set_permissions(beside(path, suffix), private) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok((file, true))
    }
    #[cfg(not(unix))]
    Ok((options.open(path)?, false))
}

/// The path of a file whose name has a suffix more.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

fn size(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |file| file.len())
}
