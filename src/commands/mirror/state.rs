//! The position of a mirror, in a file of the data folder.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use a2s::Digest;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::cli_error::CliError;
use crate::serve::write_private;

/// The position of a mirror.
#[derive(Debug)]
pub(super) struct MirrorState {
    path: PathBuf,
    written: MirrorStateFile,
}

/// The content of the state file.
#[derive(Debug, Default, Serialize, Deserialize)]
struct MirrorStateFile {
    /// For people who read the file.
    source: String,
    target: String,
    /// The feed to which the number `next` belongs; empty before the first page.
    feed: String,
    /// The number of the last applied change.
    next: u64,
}

impl MirrorState {
    /// Reads the position of the mirror of `source` in `target`. If the mirror never ran, or if the file
    /// has no valid content, it starts at the beginning: applying a change again has no effect.
    ///
    /// # Errors
    /// Fails when the file cannot be read, or when its folder cannot be created.
    pub(super) fn open(
        data: &Path,
        source: &Url,
        target: &Url,
        again: bool,
    ) -> Result<Self, CliError> {
        let folder = data.join("mirrors");
        fs::create_dir_all(&folder).map_err(|error| CliError::file_error(&folder, &error))?;
        let key = Digest::of_bytes(format!("{source} {target}").as_bytes()).to_hex();
        let path = folder.join(format!("{key}.json"));
        let written = match fs::read(&path) {
            Ok(bytes) if !again => serde_json::from_slice(&bytes).unwrap_or_default(),
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(CliError::file_error(&path, &error));
            }
            _ => MirrorStateFile::default(),
        };
        let (source, target) = (source.to_string(), target.to_string());
        Ok(Self { path, written: MirrorStateFile { source, target, ..written } })
    }

    /// The number of the last applied change.
    pub(super) fn next(&self) -> u64 {
        self.written.next
    }

    /// Returns true when the numbers are those of this feed.
    pub(super) fn is_of(&self, feed: &str) -> bool {
        self.written.feed == feed
    }

    /// Starts at the beginning of another feed.
    ///
    /// # Errors
    /// Fails like [`Self::advance`].
    pub(super) fn restart(&mut self, feed: &str) -> Result<(), CliError> {
        feed.clone_into(&mut self.written.feed);
        self.advance(0)
    }

    /// Records that all changes up to `next` are applied. The old file stays until the new one is complete.
    ///
    /// # Errors
    /// Fails when the file cannot be written.
    pub(super) fn advance(&mut self, next: u64) -> Result<(), CliError> {
        self.written.next = next;
        let bytes = serde_json::to_vec(&self.written).unwrap_or_default();
        write_private(&self.path, &bytes).map_err(|error| CliError::file_error(&self.path, &error))
    }
}
