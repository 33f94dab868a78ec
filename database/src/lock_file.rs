//! The permissions of an SQLite file and its lock file.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::{Error, ErrorKind};

/// The second line of a lock file while a process uses the database.
const IN_USE: &str = "in use\n";
/// The minimum number of characters of a commit in its line.
const COMMIT_LENGTH: usize = 60;
/// The number of hexadecimal digits of an identity.
const IDENTITY_DIGITS: usize = 32;
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
    /// The last commits.
    Commits,
}

/// The lock file of a database, `NAME.lock`: held for as long as a process uses the database.
///
/// It stores the identity of the database, so that an empty database does not replace a lost one. It also
/// records that a process has not closed the database: then SQLite needs the log (`NAME-wal`), which
/// contains the last commits. It can also record the last commit itself: SQLite drops what follows a damaged
/// page of the log without a word. A lock file with other content proves nothing, and counts as an empty one.
#[derive(Debug)]
pub struct DatabaseLock {
    file: Arc<LockFile>,
    database: PathBuf,
    is_alone: bool,
    identity: Option<String>,
    was_in_use: bool,
    last_commit: Option<String>,
    is_held: bool,
}

/// The content of a lock file.
#[derive(Debug, Default)]
struct LockContent {
    identity: Option<String>,
    is_in_use: bool,
    last_commit: Option<String>,
    is_damaged: bool,
}

/// The recorder of the last commit to a database that is in use.
///
/// It does not wait for the disk, and records after the commit: after a power failure the file may name an
/// earlier commit, and never one that the database lacks.
#[derive(Debug)]
pub struct CommitRecorder {
    file: Arc<LockFile>,
    offset: u64,
}

/// An open lock file.
#[derive(Debug)]
struct LockFile {
    file: File,
    /// True when this process has closed the database: it records no more commits.
    is_closed: Mutex<bool>,
}

impl CommitRecorder {
    /// Records the commit that the database must have at the next start, or none. A commit is a text of one
    /// line, and has the same length each time.
    ///
    /// # Errors
    /// Fails when the lock file cannot be written.
    pub fn record(&mut self, commit: Option<&str>) -> io::Result<()> {
        let is_closed = self.file.is_closed.lock().unwrap_or_else(PoisonError::into_inner);
        if *is_closed {
            return Ok(());
        }
        let mut file = &self.file.file;
        file.seek(SeekFrom::Start(self.offset))?;
        file.write_all(to_commit_line(commit.unwrap_or_default()).as_bytes())
    }
}

impl DatabaseLock {
    /// Opens the lock file of a database, creating it when it is missing.
    ///
    /// # Errors
    /// Fails when the file cannot be opened or read.
    pub fn open(database: &Path) -> io::Result<Self> {
        let (mut file, _) = open_private_file(&with_suffix(database, ".lock"))?;
        let is_alone = file.try_lock().is_ok();
        let mut bytes = Vec::new();
        (&mut file).take(MAX_LOCK_FILE).read_to_end(&mut bytes)?;
        let LockContent { identity, is_in_use, last_commit, is_damaged } =
            LockContent::parse(&bytes);
        let lock = Self {
            database: database.to_owned(),
            is_alone,
            identity,
            was_in_use: is_in_use,
            last_commit,
            is_held: false,
            file: Arc::new(LockFile { file, is_closed: Mutex::new(false) }),
        };
        if is_damaged {
            let path = lock.path();
            tracing::warn!(
                path = %path.display(),
                "the lock file is damaged, as after a power failure: it cannot show whether the database is \
                 complete, and is written again"
            );
        }
        Ok(lock)
    }

    /// Returns the path of the lock file.
    pub fn path(&self) -> PathBuf {
        with_suffix(&self.database, ".lock")
    }

    /// Returns the identity of the database that was last used at this path.
    pub fn identity(&self) -> Option<&str> {
        self.identity.as_deref()
    }

    /// Returns the last commit that a process recorded and then did not close the database.
    pub fn last_commit(&self) -> Option<&str> {
        self.last_commit.as_deref()
    }

    /// Returns the recorder of commits. Call it when the database is marked as in use.
    pub fn commit_recorder(&self) -> CommitRecorder {
        let identity = self.identity.as_deref().unwrap_or_default();
        let offset = (identity.len() + 1 + IN_USE.len()) as u64;
        CommitRecorder { file: Arc::clone(&self.file), offset }
    }

    /// Returns true when the lock file belongs to a database with another identity.
    ///
    /// Identities are random, so two databases differ in almost every digit: a single other digit is
    /// damage to the lock file.
    pub fn belongs_to_another(&self, identity: &str) -> bool {
        let Some(known) = &self.identity else { return false };
        let differences = known.bytes().zip(identity.bytes()).filter(|(a, b)| a != b).count();
        if differences == 1 {
            let path = self.path();
            tracing::warn!(path = %path.display(), "a digit in the lock file is damaged; it is corrected");
        }
        known.len() != identity.len() || 1 < differences
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
            DatabaseLoss::Commits => format!(
                "its log (`{path}-wal`) is damaged, and the last commit ({}) is missing",
                self.last_commit().unwrap_or_default()
            ),
        };
        let lock = self.path();
        let lock = lock.display();
        let message = format!(
            "the {database} `{path}` lacks the {content} that it had according to the lock file `{lock}`: \
             {cause}. Remove `{lock}` only if you moved, replaced or removed the database on purpose: the \
             service then starts with the {content} that are in it"
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
            self.file.file.unlock()?;
        }
        self.file.file.lock_shared()?;
        // The entry of the log in its folder has to be on the disk before the mark is.
        #[cfg(unix)]
        if let Some(folder) = self.database.parent() {
            let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
            File::open(folder)?.sync_all()?;
        }
        self.identity = Some(identity.to_owned());
        self.is_held = true;
        let commit = self.last_commit.as_deref().map(to_commit_line).unwrap_or_default();
        self.write(&format!("{IN_USE}{commit}"))
    }

    fn write(&self, mark: &str) -> io::Result<()> {
        let text = format!("{}\n{mark}", self.identity.as_deref().unwrap_or_default());
        let length = text.len() as u64;
        let mut file = &self.file.file;
        file.seek(SeekFrom::Start(0))?;
        file.write_all(text.as_bytes())?;
        // A new length without the data would leave zeros after a power failure.
        file.sync_data()?;
        if length < file.metadata()?.len() {
            file.set_len(length)?;
        }
        Ok(())
    }
}

impl LockContent {
    fn parse(bytes: &[u8]) -> Self {
        let damaged = Self { is_damaged: !bytes.is_empty(), ..Self::default() };
        let Some((identity, rest)) = bytes.split_at_checked(IDENTITY_DIGITS) else {
            return damaged;
        };
        let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if !identity.iter().all(is_digit) {
            return damaged;
        }
        let identity = Some(String::from_utf8_lossy(identity).into_owned());
        if rest == b"\n" {
            return Self { identity, ..Self::default() };
        }
        let mark = rest.strip_prefix(b"\n").and_then(|rest| rest.strip_prefix(IN_USE.as_bytes()));
        let Some(line) = mark else { return damaged };
        let commit = from_commit_line(line);
        Self {
            identity,
            is_in_use: true,
            is_damaged: commit.is_none() && !line.is_empty(),
            last_commit: commit.filter(|commit| !commit.is_empty()).map(str::to_owned),
        }
    }
}

/// Returns the line of a commit, with a checksum: a damaged line must not refuse a whole database.
fn to_commit_line(commit: &str) -> String {
    format!("last {commit:COMMIT_LENGTH$} {:016x}\n", checksum(commit))
}

/// Returns the commit in a line. `None` when the line is damaged.
fn from_commit_line(line: &[u8]) -> Option<&str> {
    let line = std::str::from_utf8(line).ok()?.strip_suffix('\n')?;
    let (commit, check) = line.strip_prefix("last ")?.rsplit_once(' ')?;
    let commit = commit.trim_end();
    (check.len() == 16 && u64::from_str_radix(check, 16) == Ok(checksum(commit))).then_some(commit)
}

/// The checksum FNV-1a.
fn checksum(text: &str) -> u64 {
    let add = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, add)
}

impl Drop for DatabaseLock {
    /// Removes the mark when this process is the last one that uses the database.
    fn drop(&mut self) {
        let mut is_closed = self.file.is_closed.lock().unwrap_or_else(PoisonError::into_inner);
        *is_closed = true;
        let file = &self.file.file;
        if self.is_held && file.unlock().is_ok() && file.try_lock().is_ok() {
            // If the mark stays, a database without its log needs a person at the next start.
            let _ = self.write("");
        }
        // A recorder may keep the file open.
        let _ = file.unlock();
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

    const IDENTITY: &str = "00112233445566778899aabbccddeeff";

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
        lock.mark_in_use(IDENTITY).unwrap();
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
        assert_eq!(text(&database), format!("{IDENTITY}\n"));
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
        assert_eq!(lock.identity(), Some(IDENTITY));
        std::fs::remove_file(with_suffix(&database, ".lock")).unwrap();
        assert_eq!(DatabaseLock::open(&database).unwrap().find_loss(), None);
    }

    #[test]
    fn the_last_process_removes_the_mark() {
        let (_folder, database) = folder();
        let (one, two) = (hold(&database), hold(&database));
        drop(one);
        assert_eq!(text(&database), format!("{IDENTITY}\nin use\n"));
        std::fs::remove_file(with_suffix(&database, "-wal")).unwrap();
        let third = DatabaseLock::open(&database).unwrap();
        assert!(!third.is_alone());
        assert_eq!(third.find_loss(), None, "another process has the log open");
        drop((two, third));
        assert!(text(&database).starts_with(IDENTITY));
    }

    /// Contents of a lock file after a power failure or a fault of the disk.
    fn damaged_contents() -> Vec<Vec<u8>> {
        let whole = format!("{IDENTITY}\nin use\n").into_bytes();
        let mut contents = vec![vec![0; whole.len()], vec![0xff; whole.len()], b"\n".to_vec()];
        contents.extend((1..whole.len()).filter(|end| *end != 33).map(|end| whole[..end].to_vec()));
        contents.push([&whole[..20], &[0; 20]].concat());
        // No flip of this bit makes a digit.
        for at in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[at] ^= 0x80;
            contents.push(flipped);
        }
        contents
    }

    #[test]
    fn a_damaged_lock_file_counts_as_absent() {
        for content in damaged_contents() {
            let (_folder, database) = folder();
            std::fs::write(with_suffix(&database, ".lock"), &content).unwrap();
            let lock = DatabaseLock::open(&database).unwrap();
            assert_eq!((lock.identity(), lock.find_loss()), (None, None), "{content:?}");
            drop(lock);
            drop(hold(&database));
            assert_eq!(text(&database), format!("{IDENTITY}\n"), "{content:?}");
        }
    }

    #[test]
    fn last_commit_is_kept_until_the_database_is_closed() {
        let (_folder, database) = folder();
        let lock = hold(&database);
        let mut recorder = lock.commit_recorder();
        for commit in ["run 1", "run 2"] {
            recorder.record(Some(commit)).unwrap();
            let next = DatabaseLock::open(&database).unwrap();
            assert_eq!(next.last_commit(), Some(commit));
            assert_eq!(next.identity(), Some(IDENTITY));
        }
        let left = text(&database);
        // A process that dies before its first commit.
        drop(lock);
        assert_eq!(text(&database), format!("{IDENTITY}\n"));
        std::fs::write(with_suffix(&database, ".lock"), &left).unwrap();
        let lock = hold(&database);
        assert_eq!(text(&database), left);
        let mut recorder = lock.commit_recorder();
        recorder.record(None).unwrap();
        assert_eq!(DatabaseLock::open(&database).unwrap().last_commit(), None);
    }

    #[test]
    fn damaged_record_of_a_commit_is_ignored() {
        let (_folder, database) = folder();
        let whole = format!("{IDENTITY}\nin use\n{}", to_commit_line("run 7"));
        for at in 40..whole.len() {
            let mut flipped = whole.clone().into_bytes();
            flipped[at] ^= 1;
            for content in [&flipped[..], &whole.as_bytes()[..at]] {
                std::fs::write(with_suffix(&database, ".lock"), content).unwrap();
                let lock = DatabaseLock::open(&database).unwrap();
                assert_eq!((lock.identity(), lock.last_commit()), (Some(IDENTITY), None), "{at}");
            }
        }
    }

    #[test]
    fn one_damaged_digit_is_not_another_database() {
        let (_folder, database) = folder();
        for (content, is_another) in [
            (IDENTITY, false),
            ("10112233445566778899aabbccddeeff", false),
            ("11112233445566778899aabbccddeeff", true),
            ("ffeeddccbbaa99887766554433221100", true),
        ] {
            std::fs::write(with_suffix(&database, ".lock"), format!("{content}\n")).unwrap();
            let lock = DatabaseLock::open(&database).unwrap();
            assert_eq!(lock.belongs_to_another(IDENTITY), is_another, "{content}");
        }
    }

    #[test]
    fn the_message_names_the_lock_file_before_any_backup() {
        let (_folder, database) = folder();
        let lock = hold(&database);
        use DatabaseLoss::{Commits, Database, Identity, Log};
        for loss in [Database, Log, Identity, Commits] {
            let message = lock.to_lost_error(loss, "database", "documents").to_string();
            assert!(message.contains("Remove `") && message.contains("a.sqlite.lock"), "{message}");
            assert!(!message.contains("backup"), "{message}");
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
