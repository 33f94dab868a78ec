//! The key that credentials are sealed with.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use a2s::Digest;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use tempfile::NamedTempFile;
use zeroize::Zeroizing;

use crate::clock::RandomSource;
use crate::config::SecretKeySource;
use crate::error::{Error, ErrorKind};

/// The length of a key, in bytes.
const LENGTH: usize = 32;
/// The maximum number of bytes that are read from a key file.
const MAX_FILE: u64 = 1_024;

/// A key. It is overwritten in memory when it is dropped.
pub(super) struct SealingKey {
    bytes: Zeroizing<[u8; LENGTH]>,
    id: String,
}

impl SealingKey {
    fn new(bytes: Zeroizing<[u8; LENGTH]>) -> Self {
        let mut text = Zeroizing::new(b"a2s key id 1\n".to_vec());
        text.extend_from_slice(&*bytes);
        let digest = Digest::of_bytes(&text);
        let id = digest.as_bytes().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        Self { bytes, id }
    }

    /// Reads 32 bytes in base64.
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let bytes = STANDARD.decode(text).or_else(|_| STANDARD_NO_PAD.decode(text)).ok()?;
        let bytes = Zeroizing::new(bytes);
        let mut key = Zeroizing::new([0; LENGTH]);
        if bytes.len() != LENGTH {
            return None;
        }
        key.copy_from_slice(&bytes);
        Some(Self::new(key))
    }

    pub(super) fn bytes(&self) -> &[u8; LENGTH] {
        &self.bytes
    }

    /// A digest that only a holder of the key can compute. `purpose` separates the digests of different
    /// things; it has no line feed.
    pub(super) fn keyed_digest(&self, purpose: &str, digest: Digest) -> Digest {
        let mut text = Zeroizing::new(b"a2s digest key 1\n".to_vec());
        text.extend_from_slice(&*self.bytes);
        let derived = Digest::of_bytes(&text);
        let mut text = Zeroizing::new(derived.as_bytes().to_vec());
        text.extend_from_slice(format!("{purpose}\n{digest}").as_bytes());
        Digest::of_bytes(&text)
    }

    /// The id of the key, which reveals nothing about it.
    pub(super) fn id(&self) -> &str {
        &self.id
    }
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.id)
    }
}

/// The source of the key, and the key once it was needed.
#[derive(Debug)]
pub(super) struct KeyLoader {
    source: SecretKeySource,
    known: Mutex<Option<Arc<SealingKey>>>,
}

impl KeyLoader {
    /// Creates it from a source; rejects an existing key that cannot be used.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Configuration`] with the problem.
    pub(super) fn new(source: SecretKeySource) -> Result<Self, Error> {
        let keys = Self { source, known: Mutex::new(None) };
        let found =
            keys.find().map_err(|error| Error { kind: ErrorKind::Configuration, ..error })?;
        *keys.lock() = found;
        Ok(keys)
    }

    /// Returns the key for opening sealed values.
    ///
    /// # Errors
    /// Returns [`ErrorKind::VaultKey`] when there is none.
    pub(super) fn key_for_opening(&self) -> Result<Arc<SealingKey>, Error> {
        let mut known = self.lock();
        if known.is_none() {
            *known = self.find()?;
        }
        known.clone().ok_or_else(|| {
            let SecretKeySource::File(path) = &self.source else {
                return Error::new(
                    ErrorKind::VaultKey,
                    "the key for stored credentials is missing",
                );
            };
            let message = format!("the key file {} is missing", path.display());
            Error::new(ErrorKind::VaultKey, message)
        })
    }

    /// The key for sealing new values; creates a file when there is none.
    pub(super) fn key_for_sealing(
        &self,
        ids: &Arc<dyn RandomSource>,
    ) -> Result<Arc<SealingKey>, Error> {
        let mut known = self.lock();
        if known.is_none() {
            *known = self.find()?;
        }
        if let (None, SecretKeySource::File(path)) = (&*known, &self.source) {
            let mut bytes = Zeroizing::new([0; LENGTH]);
            bytes[..16].copy_from_slice(&ids.random_bytes());
            bytes[16..].copy_from_slice(&ids.random_bytes());
            let mut text = Zeroizing::new(STANDARD.encode(*bytes));
            text.push('\n');
            *known = if write_private(path, &text).map_err(|error| unusable(path, &error))? {
                tracing::info!(path = %path.display(), "created a key for stored credentials");
                Some(Arc::new(SealingKey::new(bytes)))
            } else {
                // Another process has made one just now.
                self.find()?
            };
            if known.is_none() {
                return Err(unusable(path, &"it is a link to a missing file"));
            }
        }
        known.clone().ok_or_else(|| {
            Error::new(ErrorKind::VaultKey, "the key for stored credentials is missing")
        })
    }

    /// Returns the key; `None` while its file does not exist yet.
    fn find(&self) -> Result<Option<Arc<SealingKey>>, Error> {
        match &self.source {
            SecretKeySource::Given(text) => match SealingKey::parse(text.expose_secret()) {
                Some(key) => Ok(Some(Arc::new(key))),
                None => {
                    let message = "the key for stored credentials is not 32 bytes in base64";
                    let hint = "Create a key with `openssl rand -base64 32`.";
                    Err(Error::new(ErrorKind::VaultKey, message).with_hint(hint))
                }
            },
            SecretKeySource::File(path) => read_file(path).map(|key| key.map(Arc::new)),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Arc<SealingKey>>> {
        // The guarded value is always complete.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read_file(path: &Path) -> Result<Option<SealingKey>, Error> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unusable(path, &error)),
    };
    // Of the file that was opened, so that it cannot be exchanged in between.
    check_private(path, &file)?;
    let mut text = Zeroizing::new(String::new());
    file.take(MAX_FILE).read_to_string(&mut text).map_err(|error| unusable(path, &error))?;
    SealingKey::parse(&text)
        .map(Some)
        .ok_or_else(|| unusable(path, &"it does not contain 32 bytes in base64"))
}

#[cfg(unix)]
fn check_private(path: &Path, file: &File) -> Result<(), Error> {
    use std::os::unix::fs::PermissionsExt as _;
    let metadata = file.metadata().map_err(|error| unusable(path, &error))?;
    let mode = metadata.permissions().mode() & 0o777;
    if !metadata.is_file() {
        return Err(unusable(path, &"it is not a file"));
    }
    if mode & 0o077 != 0 {
        let reason = format!("users other than its owner can read or change it (mode {mode:04o})");
        let hint = format!(
            "Run `chmod 600 '{}'`; if others may have read the key, set the credentials again with a new key.",
            path.display()
        );
        return Err(unusable(path, &reason).with_hint(hint));
    }
    Ok(())
}

#[cfg(not(unix))]
fn check_private(path: &Path, file: &File) -> Result<(), Error> {
    // Who may read it is what its folder says.
    file.metadata().map(|_| ()).map_err(|error| unusable(path, &error))
}

/// Writes a file that only its owner can read. The file appears with its complete content or not at all, so
/// a reader always finds a complete key. Returns false when the file exists already; it is not changed.
fn write_private(path: &Path, text: &str) -> io::Result<bool> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or_else(|| Path::new("."));
    // Made for its owner alone.
    let mut file = NamedTempFile::new_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    match file.persist_noclobber(path) {
        Ok(_) => {}
        Err(refused) if refused.error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
        Err(refused) => return Err(refused.error),
    }
    // Values sealed with it may be on the disk before its name is.
    #[cfg(unix)]
    File::open(folder)?.sync_all()?;
    Ok(true)
}

fn unusable(path: &Path, reason: &dyn fmt::Display) -> Error {
    let message =
        format!("the key file {} for stored credentials cannot be used: {reason}", path.display());
    Error::new(ErrorKind::VaultKey, message)
}
