//! A file whose flushes matter. In tests, a model of a disk decides about each write and flush.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use super::segments::open_private_with;

/// A file that is written at given positions, so that bytes can be written again in their position.
#[derive(Debug)]
pub(super) struct LogFile(File);

impl LogFile {
    /// Opens or creates a file that only its owner may read.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false);
        open_private_with(options, path).map(Self)
    }

    /// The file, to read or lock it.
    pub(super) fn file(&self) -> &File {
        &self.0
    }

    pub(super) fn length(&self) -> io::Result<u64> {
        self.0.metadata().map(|metadata| metadata.len())
    }

    /// Reads at most `length` bytes at a position.
    pub(super) fn read_at(&self, position: u64, length: u64) -> io::Result<Vec<u8>> {
        let mut file = &self.0;
        file.seek(SeekFrom::Start(position))?;
        let mut bytes = Vec::new();
        file.take(length).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    pub(super) fn write_at(&self, position: u64, bytes: &[u8]) -> io::Result<()> {
        #[cfg(test)]
        if let Some(outcome) = super::disk_model::write(&self.0, position, bytes) {
            return outcome;
        }
        let mut file = &self.0;
        file.seek(SeekFrom::Start(position))?;
        file.write_all(bytes)
    }

    pub(super) fn set_length(&self, length: u64) -> io::Result<()> {
        #[cfg(test)]
        if let Some(outcome) = super::disk_model::set_length(&self.0, length) {
            return outcome;
        }
        self.0.set_len(length)
    }

    /// Flushes what was written. After an error, a later flush proves nothing about bytes that were written
    /// before it: the system may have given them up.
    pub(super) fn flush(&self) -> io::Result<()> {
        #[cfg(test)]
        if let Some(outcome) = super::disk_model::flush(&self.0) {
            return outcome;
        }
        self.0.sync_data()
    }
}
