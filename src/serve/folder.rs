//! The data folder: one process at a time, and the owner's token.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::clock;
use crate::failure::{CANNOT_SERVE, Exit, Failure};

/// A data folder that this process alone uses.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    /// Held until the process ends.
    _lock: File,
}

impl Folder {
    /// Opens the folder, which is made when it is missing, for the service `name`: different
    /// services may share a folder, two of one kind may not.
    pub(crate) fn open(path: &Path, name: &str) -> Result<Self, Failure> {
        let fail = |error: io::Error| Failure::file(path, &error);
        std::fs::create_dir_all(path).map_err(fail)?;
        let lock = File::create(path.join(format!("{name}.lock"))).map_err(fail)?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path: path.to_owned(), _lock: lock }),
            Err(std::fs::TryLockError::WouldBlock) => {
                let message = format!("{} is in use by another process", path.display());
                Err(Failure::new(Exit::Bad, CANNOT_SERVE, message).with_hint(
                    "Stop that process, or give this one a folder of its own with --data-dir.",
                ))
            }
            Err(std::fs::TryLockError::Error(error)) => Err(fail(error)),
        }
    }

    /// The folder itself.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A file or folder below.
    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The owner's token: the given one, else that of the folder, else a new one. It is written to
    /// the file `token`, which only the owner can read.
    pub(crate) fn token(&self, given: Option<&str>) -> Result<String, Failure> {
        let path = self.join("token");
        let fail = |error: io::Error| Failure::file(&path, &error);
        let kept = match std::fs::read_to_string(&path) {
            Ok(text) => Some(text.trim().to_owned()).filter(|text| !text.is_empty()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(fail(error)),
        };
        let token = match (given, &kept) {
            (Some(given), _) => given.to_owned(),
            (None, Some(kept)) => kept.clone(),
            (None, None) => {
                clock::random::<32>().iter().map(|byte| format!("{byte:02x}")).collect()
            }
        };
        if kept.as_ref() != Some(&token) {
            write_private(&path, &token).map_err(fail)?;
        }
        Ok(token)
    }
}

/// Writes a file that only its owner can read; the old one stays until the new one is complete.
fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&new)?;
    writeln!(file, "{text}")?;
    file.sync_all()?;
    std::fs::rename(&new, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_one_owner_and_keeps_its_token() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Folder::open(folder.path(), "up");
        let first = open().unwrap();
        let token = first.token(None).unwrap();
        assert_eq!(token.len(), 64);
        assert!(open().is_err());
        assert!(Folder::open(folder.path(), "guardian").is_ok());
        drop(first);
        let again = open().unwrap();
        assert_eq!(again.token(None).unwrap(), token);
        assert_eq!(again.token(Some("mine")).unwrap(), "mine");
        assert_eq!(again.token(None).unwrap(), "mine");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = std::fs::metadata(folder.path().join("token")).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }
}
