//! The data folder: one process at a time, the owner's token, and nothing that others can read.

mod privacy;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use directories::ProjectDirs;

use crate::cli::GlobalArgs;
use crate::cli_error::CliError;
use crate::clock;

pub(crate) use privacy::{set_private_umask, write_private};

/// The length of a token that this program created, in hexadecimal digits.
const TOKEN_DIGITS: usize = 64;

/// A data folder that only this process uses.
#[derive(Debug)]
pub(crate) struct DataFolder {
    path: PathBuf,
    /// The lock, which is held until the process ends.
    _lock: File,
}

impl DataFolder {
    /// Opens the folder for the service `name`, and creates it if it is missing. Different services may
    /// share a folder, two services of the same kind may not.
    pub(crate) fn open(path: &Path, name: &str) -> Result<Self, CliError> {
        let fail = |error: io::Error| CliError::file_error(path, &error);
        privacy::create_folder(path).map_err(fail)?;
        privacy::protect(path)?;
        let lock_path = path.join(format!("{name}.lock"));
        let lock = privacy::options().create(true).truncate(false).open(&lock_path);
        let lock = lock.map_err(|error| CliError::file_error(&lock_path, &error))?;
        match lock.try_lock() {
            Ok(()) => {
                remove_old_index(path);
                Ok(Self { path: path.to_owned(), _lock: lock })
            }
            Err(std::fs::TryLockError::WouldBlock) => {
                let message = format!("{} is in use by another process", path.display());
                Err(CliError::cannot_serve(message)
                    .with_hint("Stop that process, or use another folder with --data-dir."))
            }
            Err(std::fs::TryLockError::Error(error)) => Err(fail(error)),
        }
    }

    /// Returns the path of the folder.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of a file or folder in the data folder.
    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Returns the owner's token: the given one, else that of the folder, else a new one. It writes the
    /// token to the file `token`, which only the owner can read.
    pub(crate) fn token(&self, given: Option<&str>) -> Result<String, CliError> {
        let path = self.join("token");
        let fail = |error: io::Error| CliError::file_error(&path, &error);
        let kept = match std::fs::read_to_string(&path) {
            Ok(text) if is_complete(&text) => Some(text.trim().to_owned()),
            // It is rewritten.
            Ok(_) if given.is_some() => None,
            Ok(_) => {
                let message = format!("{}: the token is empty or incomplete", path.display());
                let hint = format!(
                    "Restore the file from a backup, or remove it to create a new token: rm '{}'",
                    path.display()
                );
                return Err(CliError::cannot_serve(message).with_hint(hint));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(fail(error)),
        };
        let token = match (given, &kept) {
            (Some(given), _) => given.to_owned(),
            (None, Some(kept)) => kept.clone(),
            (None, None) => clock::random_token(),
        };
        if kept.as_ref() != Some(&token) {
            write_private(&path, format!("{token}\n").as_bytes()).map_err(fail)?;
        }
        Ok(token)
    }
}

/// Removes the search index of an earlier version, which had its own folder.
fn remove_old_index(path: &Path) {
    let index = path.join("index");
    if !index.join("manifest.json").is_file() {
        return;
    }
    match std::fs::remove_dir_all(&index) {
        Ok(()) => tracing::info!(
            folder = %index.display(),
            "removed the search index of an earlier version; the registry makes it again from the documents"
        ),
        Err(error) => {
            tracing::warn!(%error, folder = %index.display(), "an unused search index is still there");
        }
    }
}

/// Returns true when a token file has its full length: all digits of a generated token, or the end of the
/// line of a token that the user has chosen.
fn is_complete(text: &str) -> bool {
    let token = text.trim();
    let has_digits_only = token.bytes().all(|byte| byte.is_ascii_hexdigit());
    match has_digits_only {
        true => token.len() == TOKEN_DIGITS,
        false => text.ends_with('\n'),
    }
}

/// Returns the data folder: the one of `--data-dir`, else the default folder of the user.
pub(crate) fn data_dir(global: &GlobalArgs) -> PathBuf {
    global.data_dir.clone().unwrap_or_else(|| match ProjectDirs::from("", "", "a2s") {
        Some(folders) => folders.data_dir().to_owned(),
        None => PathBuf::from(".a2s"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_one_owner_and_keeps_its_token() {
        let folder = tempfile::tempdir().unwrap();
        let open = || DataFolder::open(folder.path(), "up");
        let first = open().unwrap();
        let token = first.token(None).unwrap();
        assert_eq!(token.len(), 64);
        assert!(open().is_err());
        assert!(DataFolder::open(folder.path(), "guardian").is_ok());
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

    #[test]
    fn a_token_file_needs_its_full_length() {
        let folder = tempfile::tempdir().unwrap();
        let opened = DataFolder::open(folder.path(), "up").unwrap();
        let token = opened.token(None).unwrap();
        let path = folder.path().join("token");
        for cut in ["", "\n", &token[..1], &token[..63], "mi", "\0\0\0\0"] {
            std::fs::write(&path, cut).unwrap();
            let refused = opened.token(None).unwrap_err();
            assert!(refused.message.contains("incomplete"), "{cut:?}: {}", refused.message);
            assert!(refused.hint.is_some_and(|hint| hint.contains("rm '")), "{cut:?}");
        }
        std::fs::write(&path, &token).unwrap();
        assert_eq!(opened.token(None).unwrap(), token);
        std::fs::write(&path, "mi").unwrap();
        assert_eq!(opened.token(Some("mine")).unwrap(), "mine");
        assert_eq!(opened.token(None).unwrap(), "mine");
    }

    #[test]
    fn search_index_of_an_earlier_version_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let index = folder.path().join("index");
        std::fs::create_dir_all(index.join("generation-1")).unwrap();
        drop(DataFolder::open(folder.path(), "up").unwrap());
        // It may be anything.
        assert!(index.exists());
        std::fs::write(index.join("manifest.json"), "{}").unwrap();
        drop(DataFolder::open(folder.path(), "up").unwrap());
        assert!(!index.exists());
    }

    #[cfg(unix)]
    mod modes {
        use std::fs::{self, Permissions};
        use std::os::unix::fs::{PermissionsExt as _, symlink};

        use super::*;

        fn set(path: &Path, mode: u32) {
            fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        }

        fn mode(path: &Path) -> u32 {
            fs::metadata(path).unwrap().permissions().mode() & 0o777
        }

        #[test]
        fn what_is_made_is_for_its_owner_alone() {
            let above = tempfile::tempdir().unwrap();
            let path = above.path().join("a/data");
            let folder = DataFolder::open(&path, "up").unwrap();
            folder.token(None).unwrap();
            assert_eq!(mode(&path), 0o700);
            for file in ["token", "up.lock"] {
                assert_eq!(mode(&path.join(file)), 0o600, "{file}");
            }
        }

        #[test]
        fn looser_permissions_are_removed() {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path();
            fs::create_dir_all(path.join("index/generation-1")).unwrap();
            let files = ["executor.sqlite", "executor.sqlite-wal", "index/generation-1/part"];
            for file in files {
                fs::write(path.join(file), "x").unwrap();
                set(&path.join(file), 0o644);
            }
            for folder in ["", "index", "index/generation-1"] {
                set(&path.join(folder), 0o755);
            }
            let elsewhere = tempfile::NamedTempFile::new().unwrap();
            set(elsewhere.path(), 0o666);
            symlink(elsewhere.path(), path.join("link")).unwrap();
            DataFolder::open(path, "up").unwrap();
            assert!(files.iter().all(|file| mode(&path.join(file)) == 0o600));
            assert_eq!((mode(path), mode(&path.join("index/generation-1"))), (0o700, 0o700));
            assert_eq!(mode(elsewhere.path()), 0o666);
        }

        #[test]
        fn what_others_may_write_is_refused() {
            for (name, bits) in [("", 0o770), ("", 0o707), ("token", 0o620), ("token", 0o602)] {
                let folder = tempfile::tempdir().unwrap();
                let path = folder.path().join(name);
                if !name.is_empty() {
                    fs::write(&path, "x").unwrap();
                }
                set(&path, bits);
                let refused = DataFolder::open(folder.path(), "up").unwrap_err();
                assert!(refused.message.contains("other users can write"), "{}", refused.message);
                assert!(refused.hint.is_some_and(|hint| hint.contains("chmod")), "{name}");
                assert_eq!(mode(&path), bits);
            }
        }

        #[test]
        fn no_link_is_written_through() {
            let folder = tempfile::tempdir().unwrap();
            let elsewhere = tempfile::NamedTempFile::new().unwrap();
            fs::write(elsewhere.path(), "kept").unwrap();
            symlink(elsewhere.path(), folder.path().join("up.lock")).unwrap();
            DataFolder::open(folder.path(), "up").unwrap_err();
            let opened = DataFolder::open(folder.path(), "other").unwrap();
            symlink(elsewhere.path(), folder.path().join("token.new")).unwrap();
            opened.token(None).unwrap();
            assert_eq!(fs::read_to_string(elsewhere.path()).unwrap(), "kept");
        }
    }
}
