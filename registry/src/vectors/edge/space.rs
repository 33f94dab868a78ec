//! The disk of the index.
//!
//! The engine writes through mappings of sparse files. Where the disk has no room for a page of such a
//! file, the system ends the whole process, and runs and guardian with it. So files are allocated in
//! full, and nothing is written when the disk has little space left.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use fs4::FileExt as _;

use super::{Error, failed};

const MEBIBYTE: u64 = 1024 * 1024;
/// The space that the index leaves free on the disk, in bytes. A change creates few files at once, the
/// largest of 32 MiB. The databases and the audit log may be on the same disk.
const RESERVE: u64 = 64 * MEBIBYTE;
/// The size of a new index, in bytes. The engine creates the first page of each part in full size.
pub(super) const NEW_INDEX: u64 = 144 * MEBIBYTE;

/// The space that loading an index needs, in bytes. The engine creates segments of its log at once.
const LOADING: u64 = 16 * MEBIBYTE;

/// The disk that an index is on.
#[derive(Debug, Clone)]
pub(super) struct IndexDisk {
    path: PathBuf,
    reserve: u64,
}

impl IndexDisk {
    pub(super) fn for_path(path: &Path) -> Self {
        Self { path: path.to_owned(), reserve: RESERVE }
    }

    #[cfg(test)]
    pub(super) fn with_reserve(self, reserve: u64) -> Self {
        Self { reserve, ..self }
    }

    /// Checks that an index in `folder` can be loaded, and allocates it in full.
    ///
    /// # Errors
    /// [`Error::DiskFull`] when there is too little space.
    pub(super) fn prepare(&self, folder: &Path) -> Result<(), Error> {
        self.allocate(folder)?;
        self.require_space(LOADING)
    }

    /// Checks that the disk takes so many bytes and keeps the reserve.
    ///
    /// # Errors
    /// [`Error::DiskFull`] when it does not.
    pub(super) fn check(&self, wanted: u64) -> Result<(), Error> {
        self.require_space(self.reserve.saturating_add(wanted))
    }

    fn require_space(&self, needed: u64) -> Result<(), Error> {
        let free = fs4::available_space(&self.path).map_err(failed)?;
        if free >= needed {
            return Ok(());
        }
        let (free, needed) = (free / MEBIBYTE, needed / MEBIBYTE);
        Err(Error::DiskFull(format!(
            "the disk of the search index has {free} MiB free, but {needed} MiB are required"
        )))
    }

    /// Allocates everything in a folder that is sparse, so that no write into a mapping needs space.
    ///
    /// # Errors
    /// [`Error::DiskFull`] when there is too little.
    pub(super) fn allocate(&self, folder: &Path) -> Result<(), Error> {
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            // The engine removes folders of segments that it has replaced.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(failed(error)),
        };
        for entry in entries {
            let entry = entry.map_err(failed)?;
            match self.allocate_entry(&entry) {
                Err(AllocateError::Io(error)) if error.kind() == ErrorKind::NotFound => {}
                Err(AllocateError::Io(error)) => return Err(self.classify_error(failed(error))),
                Err(AllocateError::Nested(error)) => return Err(error),
                Ok(()) => {}
            }
        }
        Ok(())
    }

    fn allocate_entry(&self, entry: &fs::DirEntry) -> Result<(), AllocateError> {
        let kind = entry.file_type()?;
        if kind.is_dir() {
            return self.allocate(&entry.path()).map_err(AllocateError::Nested);
        }
        let length = entry.metadata()?.len();
        if !kind.is_file() || length == 0 {
            return Ok(());
        }
        let file = File::options().write(true).open(entry.path())?;
        if file.allocated_size()? < length {
            match file.allocate(length) {
                // The file system cannot promise space; the reserve is all that there is.
                Err(error) if error.kind() == ErrorKind::Unsupported => {}
                allocated => allocated?,
            }
        }
        Ok(())
    }

    /// The same error, or [`Error::DiskFull`] when the disk is the likely cause.
    pub(super) fn classify_error(&self, error: Error) -> Error {
        match error {
            Error::Failed(_) | Error::Folder { .. } => self.check(0).err().unwrap_or(error),
            other => other,
        }
    }
}

/// The space that the engine takes while it makes the graph of an index in a folder: it writes all that
/// is in it into files of their own before it removes the old ones.
pub(super) fn graph_size(folder: &Path) -> u64 {
    size_of(folder).saturating_sub(NEW_INDEX)
}

/// The size of the files in a folder, in bytes.
pub(super) fn size_of(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let size = |entry: fs::DirEntry| {
        let metadata = entry.metadata().ok()?;
        Some(if metadata.is_dir() { size_of(&entry.path()) } else { metadata.len() })
    };
    entries.filter_map(|entry| size(entry.ok()?)).sum()
}

enum AllocateError {
    Io(std::io::Error),
    Nested(Error),
}

impl From<std::io::Error> for AllocateError {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sparse_files_are_allocated() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("segment");
        fs::create_dir(&inner).unwrap();
        let file = File::create(inner.join("page")).unwrap();
        file.set_len(MEBIBYTE).unwrap();
        assert!(file.allocated_size().unwrap() < MEBIBYTE);
        IndexDisk::for_path(folder.path()).allocate(folder.path()).unwrap();
        assert!(file.allocated_size().unwrap() >= MEBIBYTE);
        assert_eq!((file.metadata().unwrap().len(), size_of(folder.path())), (MEBIBYTE, MEBIBYTE));
    }

    #[test]
    fn the_reserve_stays_free() {
        let folder = tempfile::tempdir().unwrap();
        let disk = IndexDisk::for_path(folder.path());
        disk.clone().with_reserve(0).check(0).unwrap();
        let refused = disk.clone().with_reserve(u64::MAX / 2).check(0).unwrap_err();
        assert!(matches!(refused, Error::DiskFull(_)), "{refused}");
        let refused = disk.with_reserve(0).check(u64::MAX / 2).unwrap_err();
        assert!(matches!(refused, Error::DiskFull(_)), "{refused}");
    }
}
