//! The files of a log: the current segment, the closed segments, and the files that belong to them.
//!
//! The current segment is always `audit.jsonl`. When it is full, it is renamed to `audit.000001.jsonl`,
//! with its number, and a new one continues the chain.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// The minimum number of digits of a number in a name, so that names sort like numbers.
const DIGITS: usize = 6;

/// The paths of the files of one log.
#[derive(Clone, Debug)]
pub(crate) struct LogFiles {
    active: PathBuf,
}

impl LogFiles {
    /// Returns the paths for the log with its current segment at `active`, which may not exist yet.
    pub(crate) fn new(active: &Path) -> Self {
        Self { active: active.to_owned() }
    }

    /// Returns the path of the segment that is being written.
    pub(crate) fn active_path(&self) -> &Path {
        &self.active
    }

    /// The path of a segment after it is closed, by its number.
    pub(crate) fn closed_path(&self, number: u64) -> PathBuf {
        self.sibling_path(&format!("{number:0DIGITS$}.jsonl"))
    }

    /// The path of the checkpoint, which has the state after the closed segments.
    pub(crate) fn checkpoint_path(&self) -> PathBuf {
        self.sibling_path("checkpoint")
    }

    /// The path of the redo file, which has the records that may not be on the disk in the log yet.
    pub(crate) fn redo_path(&self) -> PathBuf {
        self.sibling_path("redo")
    }

    /// The path of the lock file, which the one writing process locks.
    pub(crate) fn lock_path(&self) -> PathBuf {
        self.sibling_path("lock")
    }

    fn sibling_path(&self, suffix: &str) -> PathBuf {
        self.active.with_extension(suffix)
    }

    /// Returns the numbers of the closed segments that exist, in order.
    pub(crate) fn closed_numbers(&self) -> io::Result<Vec<u64>> {
        let folder = match self.active.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let stem = self.active.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let mut numbers = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            let name = entry?.file_name();
            let number = name.to_str().and_then(|name| {
                let digits = name.strip_prefix(stem)?.strip_prefix('.')?.strip_suffix(".jsonl")?;
                let is_number =
                    DIGITS <= digits.len() && digits.bytes().all(|b| b.is_ascii_digit());
                is_number.then(|| digits.parse::<u64>().ok())?
            });
            numbers.extend(number);
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Flushes renames and new files of the folder to disk.
    pub(crate) fn sync_folder(&self) -> io::Result<()> {
        #[cfg(unix)]
        if let Some(folder) = self.active.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            File::open(folder)?.sync_all()?;
        }
        Ok(())
    }
}

/// Deletes a file that may be missing.
pub(super) fn remove_if_present(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Returns the name of a file, for messages.
pub(crate) fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// Opens or creates a file that only its owner may read, for reading and appending.
pub(crate) fn open_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    open_private_with(options.read(true).append(true).create(true), path)
}

/// Opens a file that only its owner may read.
pub(super) fn open_private_with(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
        let file = options.mode(0o600).open(path)?;
        if file.metadata()?.permissions().mode() & 0o077 != 0 {
            file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
        }
        Ok(file)
    }
    #[cfg(not(unix))]
    options.open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_closed_segments_are_listed() {
        let dir = tempfile::tempdir().unwrap();
        let segments = LogFiles::new(&dir.path().join("audit.jsonl"));
        for name in [
            "audit.000010.jsonl",
            "audit.000002.jsonl",
            "audit.1000000.jsonl",
            "audit.jsonl",
            "audit.jsonl.torn",
            "audit.12.jsonl",
            "other.000003.jsonl",
            "audit.00000x.jsonl",
            "audit.000004.jsonl.gz",
            "audit.checkpoint",
            "audit.lock",
            "audit.redo",
        ] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        assert_eq!(segments.closed_numbers().unwrap(), [2, 10, 1_000_000]);
        assert_eq!(segments.closed_path(2), dir.path().join("audit.000002.jsonl"));
        assert_eq!(segments.checkpoint_path(), dir.path().join("audit.checkpoint"));
    }
}
