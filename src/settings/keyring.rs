//! The key for stored credentials in the keyring of the operating system.

use std::path::Path;

use a2s::Secret;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use keyring::{Entry, Error};
use zeroize::Zeroizing;

use crate::cli_error::CliError;
use crate::clock;

/// The name of the entry in the keyring.
const ENTRY_NAME: &str = "a2s stored credentials";

/// Returns the key for the data folder; creates a key in the keyring if it has none.
pub(super) fn key(folder: &Path) -> Result<Secret, CliError> {
    let folder =
        std::path::absolute(folder).map_err(|error| CliError::file_error(folder, &error))?;
    if let Err(error) = Entry::store_status() {
        return Err(unusable(error));
    }
    let entry =
        Entry::new(ENTRY_NAME, &folder.to_string_lossy()).map_err(|error| unusable(&error))?;
    find_or_make(|| entry.get_password(), |key| entry.set_password(key))
}

fn find_or_make(
    get: impl Fn() -> Result<String, Error>,
    set: impl Fn(&str) -> Result<(), Error>,
) -> Result<Secret, CliError> {
    match get() {
        Ok(key) => Ok(Secret::new(key)),
        Err(Error::NoEntry) => {
            let bytes = Zeroizing::new(clock::random_bytes::<32>());
            let key = Zeroizing::new(STANDARD.encode(*bytes));
            set(&key).map_err(|error| unusable(&error))?;
            // A key that the keyring does not return is lost at the next start.
            get().map(Secret::new).map_err(|error| unusable(&error))
        }
        Err(error) => Err(unusable(&error)),
    }
}

fn unusable(error: &Error) -> CliError {
    // Some of its errors contain the key.
    let reason = match error {
        Error::BadEncoding(_) | Error::BadDataFormat(..) => {
            "its entry is not a key of this program".to_owned()
        }
        error => error.to_string(),
    };
    let message = format!("the keyring of the system cannot be used: {reason}");
    CliError::cannot_serve(message)
        .with_hint("Unlock the keyring, or keep the key in a file with --secret-key file.")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use keyring_core::api::CredentialStoreApi as _;
    use keyring_core::mock::{Cred, Store};

    use super::*;

    #[test]
    fn a_key_is_made_once_and_found_again() {
        let store: Arc<Store> = Store::new().unwrap();
        let entry = store.build(ENTRY_NAME, "/data", None).unwrap();
        let find = || find_or_make(|| entry.get_password(), |key| entry.set_password(key));
        let key = find().unwrap();
        assert_eq!(STANDARD.decode(key.expose_secret()).unwrap().len(), 32);
        assert_eq!(find().unwrap(), key);
        // A keyring that fails is an error that says so, and no new key.
        let mock: &Cred = entry.as_any().downcast_ref().unwrap();
        mock.set_error(Error::NoStorageAccess("it is locked".into()));
        let failure = find().unwrap_err();
        assert!(failure.message.contains("cannot be used"), "{}", failure.message);
        assert_eq!(find().unwrap(), key);
    }

    #[test]
    fn what_was_read_is_not_told() {
        let failure = unusable(&Error::BadEncoding(b"canary".to_vec()));
        assert!(!failure.message.contains("canary"), "{}", failure.message);
    }
}
