//! The folder of the index: a lock, a manifest, and one generation of the engine's files.
//!
//! A new generation is built in a folder of its own. Writing the manifest, by a rename, is the
//! moment in which it takes the place of the old one; what no manifest names is rubbish.

use std::fs::{self, File, TryLockError};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::super::FORMAT;
use super::{Error, IndexIdentity};
use crate::store::ChangeSeq;

const LOCK: &str = "lock";
const MANIFEST: &str = "manifest.json";
const AS_OF: &str = "as-of";

/// The number of attempts to lock a folder that another process is releasing.
const LOCK_ATTEMPTS: u32 = 100;
const LOCK_PAUSE: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(super) struct IndexDir {
    path: PathBuf,
    /// The generation in the manifest, when it is of this store and format.
    pub(super) current: Option<(u64, IndexIdentity)>,
    /// The largest number that a generation ever had here.
    newest: u64,
    /// The lock of the folder.
    _lock: File,
}

#[derive(Debug, Serialize, Deserialize)]
struct IndexManifest {
    generation: u64,
    #[serde(flatten)]
    identity: IndexIdentity,
}

impl IndexDir {
    /// Creates and locks the folder, and determines the generation that can be used.
    pub(super) fn open(path: &Path, store: &str) -> Result<Self, Error> {
        let folder_error = |source| Error::Folder { path: path.display().to_string(), source };
        fs::create_dir_all(path).map_err(folder_error)?;
        let lock = lock(&path.join(LOCK))?;
        let manifest = fs::read(path.join(MANIFEST))
            .ok()
            .and_then(|bytes| serde_json::from_slice::<IndexManifest>(&bytes).ok());
        let current = match manifest {
            Some(IndexManifest { generation, identity })
                if identity.store == store && identity.format == FORMAT =>
            {
                Some((generation, identity))
            }
            Some(IndexManifest { identity, .. }) => {
                tracing::info!(found = ?identity, store, format = FORMAT, "the search index belongs to another database or another format");
                None
            }
            None => None,
        };
        let generations = fs::read_dir(path).map_err(folder_error)?.filter_map(|entry| {
            entry.ok()?.file_name().to_str()?.strip_prefix("generation-")?.parse().ok()
        });
        let number = current.as_ref().map(|(number, _)| *number);
        let mut newest = number.unwrap_or(0);
        for generation in generations {
            newest = newest.max(generation);
            if Some(generation) != number {
                remove(&generation_path(path, generation));
            }
        }
        Ok(Self { path: path.to_owned(), current, newest, _lock: lock })
    }

    /// The path of a generation.
    pub(super) fn generation(&self, generation: u64) -> PathBuf {
        generation_path(&self.path, generation)
    }

    /// Makes an empty folder for a new generation.
    pub(super) fn begin(&mut self) -> Result<u64, Error> {
        self.newest += 1;
        let path = self.generation(self.newest);
        remove(&path);
        fs::create_dir_all(&path)
            .map_err(|source| Error::Folder { path: path.display().to_string(), source })?;
        Ok(self.newest)
    }

    /// Makes a generation, which is complete on disk, the current one.
    pub(super) fn commit(
        &mut self,
        generation: u64,
        identity: &IndexIdentity,
    ) -> Result<(), Error> {
        let manifest = IndexManifest { generation, identity: identity.clone() };
        let (path, draft) = (self.path.join(MANIFEST), self.path.join("manifest.json.new"));
        let write = || -> std::io::Result<()> {
            let mut file = File::create(&draft)?;
            file.write_all(&serde_json::to_vec_pretty(&manifest)?)?;
            file.sync_all()?;
            fs::rename(&draft, &path)?;
            // The rename itself has to survive a power cut.
            File::open(&self.path)?.sync_all()
        };
        write().map_err(|source| Error::Folder { path: path.display().to_string(), source })?;
        self.current = Some((generation, manifest.identity));
        Ok(())
    }

    /// Returns the last change of the store that the current generation knew at its last flush.
    pub(super) fn as_of(&self) -> ChangeSeq {
        let text = fs::read_to_string(self.path.join(AS_OF)).unwrap_or_default();
        text.trim().parse().map(ChangeSeq).unwrap_or_default()
    }

    /// Records that change. A store that does not have it has lost data.
    pub(super) fn note_as_of(&self, as_of: ChangeSeq) -> Result<(), Error> {
        if self.as_of() == as_of {
            return Ok(());
        }
        let path = self.path.join(AS_OF);
        fs::write(&path, as_of.0.to_string())
            .map_err(|source| Error::Folder { path: path.display().to_string(), source })
    }

    /// Deletes a generation, unless it is the current one.
    pub(super) fn remove(&self, generation: u64) {
        if self.current.as_ref().is_none_or(|(current, _)| *current != generation) {
            remove(&self.generation(generation));
        }
    }
}

/// Returns the store of the index in a folder, if there is an index.
pub(in crate::vectors) fn read_store_identity(path: &Path) -> Option<String> {
    let manifest: serde_json::Value =
        serde_json::from_slice(&fs::read(path.join(MANIFEST)).ok()?).ok()?;
    Some(manifest.get("store")?.as_str()?.to_owned())
}

fn generation_path(folder: &Path, generation: u64) -> PathBuf {
    folder.join(format!("generation-{generation}"))
}

/// Removes a folder. If that fails, the next start tries again.
fn remove(path: &Path) {
    if path.exists()
        && let Err(error) = fs::remove_dir_all(path)
    {
        tracing::warn!(path = %path.display(), %error, "an old search index could not be removed");
    }
}

/// Locks the folder. It waits a little, because a stopping process may still write its last changes.
fn lock(path: &Path) -> Result<File, Error> {
    let folder_error = |source| Error::Folder { path: path.display().to_string(), source };
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .map_err(folder_error)?;
    for _ in 0..LOCK_ATTEMPTS {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
            Err(TryLockError::Error(error)) => return Err(folder_error(error)),
        }
    }
    Err(Error::InUse(path.display().to_string()))
}
