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

use a2s::api::{Credential, CredentialUsers, StoredCredential};
use a2s::{Digest, Domain, Secret, is_scheme_name};
use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;
use zeroize::Zeroizing;

use crate::clock::{Clock, Ids};
use crate::config::Config;
use crate::database::Pool;
use crate::error::{Error, Kind};
use key::Keys;
use seal::Place;
pub(crate) use seal::Sealed;
use table::{Row, Table};

/// The most credentials that are stored.
const MAX_STORED: i64 = 10_000;

/// The stored credentials.
#[derive(Debug)]
pub(crate) struct Vault {
    table: Table,
    keys: Keys,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
}

/// A credential as it is used.
#[derive(Debug, Clone)]
pub(crate) struct Opened {
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
    /// [`Kind::Configuration`] when the key cannot be read or others can read it too, [`Kind::Store`] when
    /// the database fails.
    pub(crate) async fn open(
        config: &Config,
        pool: Pool,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
    ) -> Result<Self, Error> {
        let table = Table::new(pool);
        let keys = Keys::new(config.secret_key.clone())?;
        let own = || Ok(keys.to_seal(&ids)?.id().to_owned());
        if let Some(agreed) = table.agree_on_key(own).await?
            && agreed != own()?
        {
            let message = format!(
                "the executors of this database seal with the key {agreed}, and the key here is {}",
                own()?
            );
            let hint = "Give all of them one key: a copy of the key file, or `--secret-key env` \
                        with the same A2S_SECRET_KEY.";
            return Err(Error::new(Kind::Configuration, message).hint(hint));
        }
        let sealed_with = table.key_ids().await?;
        if !sealed_with.is_empty() {
            match keys.to_open() {
                Ok(key) if sealed_with.iter().all(|id| *id == key.id()) => {}
                Ok(key) => tracing::warn!(
                    key = key.id(),
                    sealed_with = sealed_with.join(", "),
                    "some stored credentials were sealed with another key and cannot be used"
                ),
                Err(error) => tracing::warn!(%error, "the stored credentials cannot be used"),
            }
        }
        Ok(Self { table, keys, clock, ids })
    }

    /// An empty vault that is visible only here.
    #[cfg(test)]
    pub(crate) fn in_memory(clock: Arc<dyn Clock>, ids: Arc<dyn Ids>) -> Self {
        use base64::Engine as _;
        let key = base64::engine::general_purpose::STANDARD.encode([7; 32]);
        let keys = Keys::new(crate::config::SecretKeySource::Given(Secret::new(key))).unwrap();
        Self { table: Table::in_memory(), keys, clock, ids }
    }

    /// The stored credentials without their secrets, by host and scheme.
    pub(crate) async fn list(&self) -> Result<Vec<StoredCredential>, Error> {
        self.table.list().await
    }

    /// Stores a credential in place of the one that was there. True when there was none.
    ///
    /// # Errors
    /// [`Kind::BadRequest`] when it cannot be stored so, [`Kind::VaultKey`] without a key.
    pub(crate) async fn set(
        &self,
        host: Domain,
        scheme: &str,
        credential: &Credential,
    ) -> Result<(StoredCredential, bool), Error> {
        if !is_scheme_name(scheme) {
            let message = "the name of a scheme has 1 to 100 characters, no control characters \
                           among them, neither a dash nor a space at its beginning, and is not a dot or \
                           two alone";
            return Err(Error::new(Kind::BadRequest, message));
        }
        check::check(credential)?;
        let before = self.table.get(&host, scheme).await?;
        let (before, users) = before.map(|row| (row.set_at, row.users)).unzip();
        if before.is_none() && self.table.count().await? >= MAX_STORED {
            let message = format!("{MAX_STORED} credentials are stored, and that is the most");
            return Err(Error::new(Kind::BadRequest, message));
        }
        // Tokens are kept by this time: it is another one even if the clock was put back.
        let next =
            before.and_then(|before| before.checked_add(SignedDuration::from_millis(1)).ok());
        let now = self.clock.now();
        let set_at = next.map_or(now, |next| next.max(now));
        let row = self.seal(&host, scheme, credential, set_at)?;
        self.table.put(&host, scheme, &row).await?;
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
    /// [`Kind::CredentialNotFound`] when there is no such credential, [`Kind::BadRequest`] when there
    /// are too many grants.
    pub(crate) async fn set_users(
        &self,
        host: &Domain,
        scheme: &str,
        users: CredentialUsers,
    ) -> Result<StoredCredential, Error> {
        if users.len() > CredentialUsers::MAX {
            let message = format!("a credential has at most {} grants", CredentialUsers::MAX);
            let hint = "Grant it to a publisher, or to everybody (`*`).";
            return Err(Error::new(Kind::BadRequest, message).hint(hint));
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
    /// [`Kind::CredentialNotFound`] when there is none.
    pub(crate) async fn remove(&self, host: &Domain, scheme: &str) -> Result<(), Error> {
        if self.table.remove(host, scheme).await? {
            return Ok(());
        }
        Err(not_stored(host, scheme))
    }

    /// The credential itself, when one is stored.
    ///
    /// # Errors
    /// [`Kind::VaultKey`] when it does not open with this key.
    pub(crate) async fn reveal(
        &self,
        host: &Domain,
        scheme: &str,
    ) -> Result<Option<Opened>, Error> {
        let Some(row) = self.table.get(host, scheme).await? else { return Ok(None) };
        let what = format_args!("the credential `{scheme}` for {host}");
        let plain = self.open_sealed(Place::Credential(host, scheme), &row.sealed, &what)?;
        let credential = serde_json::from_slice(&plain).map_err(|_| damaged(&what))?;
        Ok(Some(Opened { credential, set_at: row.set_at }))
    }

    /// Stores a new refresh token in the credential that was set at `set_at`. Does nothing when a person
    /// has set another one since.
    pub(crate) async fn rotate(
        &self,
        host: &Domain,
        scheme: &str,
        opened: &Opened,
        token: &Secret,
    ) -> Result<(), Error> {
        let mut credential = opened.credential.clone();
        let Credential::Oauth2 { refresh_token, .. } = &mut credential else { return Ok(()) };
        *refresh_token = Some(token.clone());
        check::check(&credential)?;
        let row = self.seal(host, scheme, &credential, opened.set_at)?;
        self.table.replace(host, scheme, &row).await
    }

    /// Seals the values that an event of a run leaves out.
    ///
    /// # Errors
    /// [`Kind::VaultKey`] without a key.
    pub(crate) fn seal_event(&self, run: Uuid, seq: u64, plain: &[u8]) -> Result<Sealed, Error> {
        self.seal_plain(Place::Event(run, seq), plain)
    }

    /// Opens the values that an event of a run leaves out.
    ///
    /// # Errors
    /// [`Kind::VaultKey`] when they do not open with this key.
    pub(crate) fn open_event(
        &self,
        run: Uuid,
        seq: u64,
        sealed: &Sealed,
    ) -> Result<Zeroizing<Vec<u8>>, Error> {
        let what = format_args!("what event {seq} of run {run} keeps secret");
        self.open_sealed(Place::Event(run, seq), sealed, &what)
    }

    /// Seals the data that a plan was made from.
    ///
    /// # Errors
    /// [`Kind::VaultKey`] without a key.
    pub(crate) fn seal_plan(&self, id: Digest, plain: &[u8]) -> Result<Sealed, Error> {
        self.seal_plain(Place::Plan(id), plain)
    }

    /// Opens the data that a plan was made from.
    ///
    /// # Errors
    /// [`Kind::VaultKey`] when it does not open with this key.
    pub(crate) fn open_plan(
        &self,
        id: Digest,
        sealed: &Sealed,
    ) -> Result<Zeroizing<Vec<u8>>, Error> {
        self.open_sealed(Place::Plan(id), sealed, &"the plan")
    }

    fn seal(
        &self,
        host: &Domain,
        scheme: &str,
        credential: &Credential,
        set_at: Timestamp,
    ) -> Result<Row, Error> {
        let plain = serde_json::to_vec(credential)
            .map(Zeroizing::new)
            .map_err(|_| Error::new(Kind::Internal, "a credential could not be written as JSON"))?;
        Ok(Row {
            kind: credential.kind(),
            set_at: Timestamp::from_millisecond(set_at.as_millisecond()).unwrap_or(set_at),
            sealed: self.seal_plain(Place::Credential(host, scheme), &plain)?,
            users: CredentialUsers::default(),
        })
    }

    fn seal_plain(&self, place: Place<'_>, plain: &[u8]) -> Result<Sealed, Error> {
        let key = self.keys.to_seal(&self.ids)?;
        seal::seal(&key, &self.ids, place, plain)
            .ok_or_else(|| Error::new(Kind::Internal, "a secret could not be sealed"))
    }

    fn open_sealed(
        &self,
        place: Place<'_>,
        sealed: &Sealed,
        what: &dyn fmt::Display,
    ) -> Result<Zeroizing<Vec<u8>>, Error> {
        let key = self.keys.to_open()?;
        if sealed.key_id != key.id() {
            let (with, here) = (&sealed.key_id, key.id());
            let message =
                format!("{what} was sealed with the key {with}, and the key here is {here}");
            return Err(Error::new(Kind::VaultKey, message));
        }
        seal::open(&key, place, sealed).ok_or_else(|| damaged(what))
    }
}

fn not_stored(host: &Domain, scheme: &str) -> Error {
    let scheme = a2s::one_line(scheme, 100);
    let message = format!("no credential `{scheme}` is stored for {host}");
    Error::new(Kind::CredentialNotFound, message)
}

fn damaged(what: &dyn fmt::Display) -> Error {
    Error::new(Kind::VaultKey, format!("{what} does not open: its row was changed or moved"))
}

#[cfg(test)]
mod tests;
