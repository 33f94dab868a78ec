//! Secrets at rest: credentials for services, values that the events of a run leave out, and plans that can
//! be run.
//!
//! Each is sealed with XChaCha20-Poly1305 under a random nonce. Its location (host and scheme, run and
//! event, or plan) is authenticated with it, so that a row that was moved does not open. The row names the
//! key that it was sealed with: a wrong key gives an error that says so, and never garbage. Credentials
//! leave in one direction only, to [`crate::outbound`], and no interface returns them.

mod check;
mod key;
mod seal;
mod table;

use std::fmt;
use std::sync::Arc;

use a2s::{Digest, Domain, Secret, is_scheme_name};
use a2s_api::{Credential, CredentialUsers, StoredCredential};
use database::Pool;
use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;
use zeroize::Zeroizing;

use crate::clock::{Clock, RandomSource};
use crate::config::Config;
use crate::error::{Error, ErrorKind};
use key::KeyLoader;
pub(crate) use seal::Ciphertext;
use seal::SealContext;
use table::{CredentialRow, CredentialTable};

/// The maximum number of stored credentials.
const MAX_STORED: i64 = 10_000;

/// The stored credentials.
#[derive(Debug)]
pub(crate) struct Vault {
    table: CredentialTable,
    keys: KeyLoader,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn RandomSource>,
}

/// A decrypted credential.
#[derive(Debug, Clone)]
pub(crate) struct OpenedCredential {
    /// The credential.
    pub(crate) credential: Credential,
    /// The time at which it was set: tokens that were obtained for an older credential are not used for it.
    pub(crate) set_at: Timestamp,
}

impl Vault {
    /// Opens the credentials in the configured database, with an up-to-date schema. A badly configured key
    /// is rejected at once. So is a key that other executors of the same database do not have, because they
    /// could not resume each other's runs. A key that does not fit the stored credentials is logged, so
    /// that runs without credentials continue and the credentials can be set again.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Configuration`] when the key cannot be read or others can read it too, and a
    /// [store error](ErrorKind::Store) when the database fails.
    pub(crate) async fn open(
        config: &Config,
        pool: Pool,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn RandomSource>,
    ) -> Result<Self, Error> {
        let table = CredentialTable::new(pool);
        let keys = KeyLoader::new(config.secret_key.clone())?;
        let own = || Ok(keys.key_for_sealing(&ids)?.id().to_owned());
        if let Some(agreed) = table.agree_on_key(own).await?
            && agreed != own()?
        {
            let message = format!(
                "the executors of this database use the key {agreed}, but the key of this executor is {}",
                own()?
            );
            let hint = "Give all executors the same key: a copy of the key file, or `--secret-key env` \
                        with the same A2S_SECRET_KEY.";
            return Err(Error::new(ErrorKind::Configuration, message).with_hint(hint));
        }
        let sealed_with = table.key_ids().await?;
        if !sealed_with.is_empty() {
            match keys.key_for_opening() {
                Ok(key) if sealed_with.iter().all(|id| *id == key.id()) => {}
                Ok(key) => tracing::warn!(
                    key = key.id(),
                    sealed_with = sealed_with.join(", "),
                    "some stored credentials were sealed with another key and cannot be used; set them again or use that key"
                ),
                Err(error) => tracing::warn!(%error, "the stored credentials cannot be used"),
            }
        }
        Ok(Self { table, keys, clock, ids })
    }

    /// An empty vault that is visible only here.
    #[cfg(test)]
    pub(crate) fn in_memory(clock: Arc<dyn Clock>, ids: Arc<dyn RandomSource>) -> Self {
        use base64::Engine as _;
        let key = base64::engine::general_purpose::STANDARD.encode([7; 32]);
        let keys = KeyLoader::new(crate::config::SecretKeySource::Given(Secret::new(key))).unwrap();
        Self { table: CredentialTable::in_memory(), keys, clock, ids }
    }

    /// The stored credentials without their secrets, by host and scheme.
    pub(crate) async fn list(&self) -> Result<Vec<StoredCredential>, Error> {
        self.table.list().await
    }

    /// Stores a credential in place of the one that was there. True when there was none.
    ///
    /// # Errors
    /// [`ErrorKind::BadRequest`] when it cannot be stored so, [`ErrorKind::VaultKey`] without a key.
    pub(crate) async fn set(
        &self,
        host: Domain,
        scheme: &str,
        credential: &Credential,
    ) -> Result<(StoredCredential, bool), Error> {
        if !is_scheme_name(scheme) {
            let message = "the name of a scheme must have 1 to 100 characters and no control characters; \
                           it must not start with a dash or a space, and must not be a dot or \
                           two dots";
            return Err(Error::new(ErrorKind::BadRequest, message));
        }
        check::check(credential)?;
        let before = self.table.get(&host, scheme).await?;
        let (before, users) = before.map(|row| (row.set_at, row.users)).unzip();
        if before.is_none() && self.table.count().await? >= MAX_STORED {
            let message = format!("{MAX_STORED} credentials are stored, which is the limit");
            return Err(Error::new(ErrorKind::BadRequest, message));
        }
        // Tokens are kept by this time: it is another one even if the clock was put back.
        let next =
            before.and_then(|before| before.checked_add(SignedDuration::from_millis(1)).ok());
        let now = self.clock.now();
        let set_at = next.map_or(now, |next| next.max(now));
        let row = self.seal_credential(&host, scheme, credential, set_at)?;
        self.table.insert_or_replace(&host, scheme, &row).await?;
        // To the millisecond, as it will be read again.
        let set_at = row.set_at;
        let stored = StoredCredential {
            host,
            scheme: scheme.to_owned(),
            kind: credential.kind(),
            set_at,
            users: users.unwrap_or_default(),
        };
        Ok((stored, before.is_none()))
    }

    /// Replaces the users of a stored credential.
    ///
    /// # Errors
    /// [`ErrorKind::CredentialNotFound`] when there is no such credential, [`ErrorKind::BadRequest`] when there
    /// are too many grants.
    pub(crate) async fn set_users(
        &self,
        host: &Domain,
        scheme: &str,
        users: CredentialUsers,
    ) -> Result<StoredCredential, Error> {
        if users.len() > CredentialUsers::MAX {
            let message = format!("a credential can have at most {} grants", CredentialUsers::MAX);
            let hint = "Grant it to a publisher, or to all principals (`*`).";
            return Err(Error::new(ErrorKind::BadRequest, message).with_hint(hint));
        }
        if !self.table.set_users(host, scheme, &users).await? {
            return Err(not_stored(host, scheme));
        }
        let row = self.table.get(host, scheme).await?.ok_or_else(|| not_stored(host, scheme))?;
        let (host, scheme) = (host.clone(), scheme.to_owned());
        Ok(StoredCredential { host, scheme, kind: row.kind, set_at: row.set_at, users })
    }

    /// Forgets a credential.
    ///
    /// # Errors
    /// [`ErrorKind::CredentialNotFound`] when there is none.
    pub(crate) async fn remove(&self, host: &Domain, scheme: &str) -> Result<(), Error> {
        if self.table.remove(host, scheme).await? {
            return Ok(());
        }
        Err(not_stored(host, scheme))
    }

    /// The credential itself, when one is stored.
    ///
    /// # Errors
    /// [`ErrorKind::VaultKey`] when it does not open with this key.
    pub(crate) async fn open_credential(
        &self,
        host: &Domain,
        scheme: &str,
    ) -> Result<Option<OpenedCredential>, Error> {
        let Some(row) = self.table.get(host, scheme).await? else { return Ok(None) };
        let what = format_args!("the credential `{scheme}` for {host}");
        let plain = self.open_sealed(SealContext::Credential(host, scheme), &row.sealed, &what)?;
        let credential = serde_json::from_slice(&plain).map_err(|_| damaged(&what))?;
        Ok(Some(OpenedCredential { credential, set_at: row.set_at }))
    }

    /// Stores a new refresh token in the credential that was set at `set_at`. Does nothing when a person
    /// has set another one since.
    pub(crate) async fn replace_refresh_token(
        &self,
        host: &Domain,
        scheme: &str,
        opened: &OpenedCredential,
        token: &Secret,
    ) -> Result<(), Error> {
        let mut credential = opened.credential.clone();
        let Credential::Oauth2 { refresh_token, .. } = &mut credential else { return Ok(()) };
        *refresh_token = Some(token.clone());
        check::check(&credential)?;
        let row = self.seal_credential(host, scheme, &credential, opened.set_at)?;
        self.table.replace(host, scheme, &row).await
    }

    /// Seals the values that an event of a run leaves out.
    ///
    /// # Errors
    /// [`ErrorKind::VaultKey`] without a key.
    pub(crate) fn seal_event(
        &self,
        run: Uuid,
        seq: u64,
        plain: &[u8],
    ) -> Result<Ciphertext, Error> {
        self.seal_bytes(SealContext::Event(run, seq), plain)
    }

    /// Opens the values that an event of a run leaves out.
    ///
    /// # Errors
    /// [`ErrorKind::VaultKey`] when they do not open with this key.
    pub(crate) fn open_event(
        &self,
        run: Uuid,
        seq: u64,
        sealed: &Ciphertext,
    ) -> Result<Zeroizing<Vec<u8>>, Error> {
        let what = format_args!("the sealed values of event {seq} of run {run}");
        self.open_sealed(SealContext::Event(run, seq), sealed, &what)
    }

    /// Seals the data that a plan was made from.
    ///
    /// # Errors
    /// [`ErrorKind::VaultKey`] without a key.
    pub(crate) fn seal_plan(&self, id: Digest, plain: &[u8]) -> Result<Ciphertext, Error> {
        self.seal_bytes(SealContext::Plan(id), plain)
    }

    /// Opens the data that a plan was made from.
    ///
    /// # Errors
    /// [`ErrorKind::VaultKey`] when it does not open with this key.
    pub(crate) fn open_plan(
        &self,
        id: Digest,
        sealed: &Ciphertext,
    ) -> Result<Zeroizing<Vec<u8>>, Error> {
        self.open_sealed(SealContext::Plan(id), sealed, &"the plan")
    }

    /// Returns a digest from which its input cannot be guessed. It is the same for the same input at every
    /// executor with this key, which all executors of one database have.
    ///
    /// # Errors
    /// [`ErrorKind::VaultKey`] without a key.
    pub(crate) fn keyed_digest(&self, purpose: &str, digest: Digest) -> Result<Digest, Error> {
        Ok(self.keys.key_for_sealing(&self.ids)?.keyed_digest(purpose, digest))
    }

    fn seal_credential(
        &self,
        host: &Domain,
        scheme: &str,
        credential: &Credential,
        set_at: Timestamp,
    ) -> Result<CredentialRow, Error> {
        let plain = serde_json::to_vec(credential).map(Zeroizing::new).map_err(|_| {
            Error::new(ErrorKind::Internal, "a credential could not be written as JSON")
        })?;
        Ok(CredentialRow {
            kind: credential.kind(),
            set_at: Timestamp::from_millisecond(set_at.as_millisecond()).unwrap_or(set_at),
            sealed: self.seal_bytes(SealContext::Credential(host, scheme), &plain)?,
            users: CredentialUsers::default(),
        })
    }

    fn seal_bytes(&self, place: SealContext<'_>, plain: &[u8]) -> Result<Ciphertext, Error> {
        let key = self.keys.key_for_sealing(&self.ids)?;
        seal::seal(&key, &self.ids, place, plain)
            .ok_or_else(|| Error::new(ErrorKind::Internal, "a secret could not be sealed"))
    }

    fn open_sealed(
        &self,
        place: SealContext<'_>,
        sealed: &Ciphertext,
        what: &dyn fmt::Display,
    ) -> Result<Zeroizing<Vec<u8>>, Error> {
        let key = self.keys.key_for_opening()?;
        if sealed.key_id != key.id() {
            let (with, here) = (&sealed.key_id, key.id());
            let message = format!(
                "{what} was sealed with the key {with}, but the key of this executor is {here}"
            );
            return Err(Error::new(ErrorKind::VaultKey, message));
        }
        seal::open(&key, place, sealed).ok_or_else(|| damaged(what))
    }
}

fn not_stored(host: &Domain, scheme: &str) -> Error {
    let scheme = a2s::to_single_line(scheme, 100);
    let message = format!("unknown credential `{scheme}` for {host}");
    Error::new(ErrorKind::CredentialNotFound, message)
}

fn damaged(what: &dyn fmt::Display) -> Error {
    Error::new(
        ErrorKind::VaultKey,
        format!("{what} cannot be unsealed: its row in the database was changed or moved"),
    )
}

#[cfg(test)]
mod tests;
