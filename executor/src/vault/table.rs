//! The rows.

use a2s::Domain;
use a2s_api::{CredentialKind, CredentialUsers, StoredCredential};
use database::Pool;
use jiff::Timestamp;

use super::seal::Ciphertext;
use crate::database::to_store_error;
use crate::error::{Error, ErrorKind};

/// The name of the stored data in errors.
const WHAT: &str = "the stored credentials";

/// The table of credentials. Changes are rare, so they do not use the writer of the runs.
#[derive(Debug)]
pub(super) struct CredentialTable {
    pool: Pool,
}

/// Kind, time, key, nonce, sealed bytes, and users.
type Columns = (String, i64, String, Vec<u8>, Vec<u8>, Option<String>);
/// The host, scheme, kind, time, and users.
type ListedColumns = (String, String, String, i64, Option<String>);

/// A sealed credential.
#[derive(Debug)]
pub(super) struct CredentialRow {
    pub(super) kind: CredentialKind,
    pub(super) set_at: Timestamp,
    pub(super) sealed: Ciphertext,
    pub(super) users: CredentialUsers,
}

impl CredentialTable {
    pub(super) fn new(pool: Pool) -> Self {
        Self { pool }
    }

    #[cfg(test)]
    pub(super) fn in_memory() -> Self {
        const SCHEMA: &str = concat!(
            include_str!("../../migrations/sqlite/0003_credentials.sql"),
            include_str!("../../migrations/sqlite/0015_credential_users.sql"),
        );
        let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).after_connect(
            |connection, _| {
                Box::pin(async move { sqlx::raw_sql(SCHEMA).execute(connection).await.map(|_| ()) })
            },
        );
        Self { pool: Pool::Sqlite(pool.connect_lazy("sqlite::memory:").unwrap()) }
    }

    pub(super) async fn list(&self) -> Result<Vec<StoredCredential>, Error> {
        const SQL: &str =
            "SELECT host, scheme, kind, set_at, users FROM credential ORDER BY host, scheme";
        let rows: Vec<ListedColumns> =
            self.pool.query(SQL).fetch_all().await.map_err(to_store_error(WHAT))?;
        let read = |row: ListedColumns| {
            let (host, scheme, kind, set_at, users) = row;
            Some(StoredCredential {
                host: Domain::new(&host).ok()?,
                scheme,
                kind: read_kind(&kind)?,
                set_at: Timestamp::from_millisecond(set_at).ok()?,
                users: read_users(users.as_deref())?,
            })
        };
        rows.into_iter().map(|row| read(row).ok_or_else(malformed)).collect()
    }

    /// The key that the executors of a shared database seal with: this one, when none of them has
    /// sealed before. None for a database that one executor has for itself.
    pub(super) async fn agree_on_key(
        &self,
        own: impl FnOnce() -> Result<String, Error>,
    ) -> Result<Option<String>, Error> {
        let Pool::Postgres(_) = self.pool else { return Ok(None) };
        self.pool
            .query("UPDATE executor SET key_id = $1 WHERE key_id IS NULL")
            .bind(own()?)
            .execute()
            .await
            .map_err(to_store_error(WHAT))?;
        let agreed = self.pool.query("SELECT key_id FROM executor").fetch_value().await;
        agreed.map(Some).map_err(to_store_error(WHAT))
    }

    pub(super) async fn count(&self) -> Result<i64, Error> {
        const SQL: &str = "SELECT COUNT(*) FROM credential";
        let count = self.pool.query(SQL).fetch_value().await;
        count.map_err(to_store_error(WHAT))
    }

    pub(super) async fn key_ids(&self) -> Result<Vec<String>, Error> {
        const SQL: &str = "SELECT DISTINCT key_id FROM credential ORDER BY key_id";
        let ids = self.pool.query(SQL).fetch_values().await;
        ids.map_err(to_store_error(WHAT))
    }

    pub(super) async fn get(
        &self,
        host: &Domain,
        scheme: &str,
    ) -> Result<Option<CredentialRow>, Error> {
        const SQL: &str = "SELECT kind, set_at, key_id, nonce, sealed, users FROM credential
             WHERE host = $1 AND scheme = $2";
        let row: Option<Columns> = self
            .pool
            .query(SQL)
            .bind(host.as_str())
            .bind(scheme)
            .fetch_optional()
            .await
            .map_err(to_store_error(WHAT))?;
        let Some((kind, set_at, key_id, nonce, sealed, users)) = row else { return Ok(None) };
        let kind = read_kind(&kind).ok_or_else(malformed)?;
        let set_at = Timestamp::from_millisecond(set_at).map_err(|_| malformed())?;
        let sealed = Ciphertext { key_id, nonce, bytes: sealed };
        let users = read_users(users.as_deref()).ok_or_else(malformed)?;
        Ok(Some(CredentialRow { kind, set_at, sealed, users }))
    }

    /// Writes a row, over the one that was there. The users stay those that there were.
    pub(super) async fn insert_or_replace(
        &self,
        host: &Domain,
        scheme: &str,
        row: &CredentialRow,
    ) -> Result<(), Error> {
        const SQL: &str =
            "INSERT INTO credential (host, scheme, kind, set_at, key_id, nonce, sealed)
             VALUES ($1, $2, $3, $4, $5, $6, $7)
             ON CONFLICT (host, scheme) DO UPDATE SET
                 kind = excluded.kind, set_at = excluded.set_at, key_id = excluded.key_id,
                 nonce = excluded.nonce, sealed = excluded.sealed";
        let CredentialRow { kind, set_at, sealed, users: _ } = row;
        let written = self
            .pool
            .query(SQL)
            .bind(host.as_str())
            .bind(scheme)
            .bind(kind.as_str())
            .bind(set_at.as_millisecond())
            .bind(&sealed.key_id)
            .bind(&sealed.nonce)
            .bind(&sealed.bytes)
            .execute()
            .await;
        written.map(drop).map_err(to_store_error(WHAT))
    }

    /// Writes a row over the one that was set at the same time, if that is still there.
    pub(super) async fn replace(
        &self,
        host: &Domain,
        scheme: &str,
        row: &CredentialRow,
    ) -> Result<(), Error> {
        const SQL: &str = "UPDATE credential SET key_id = $4, nonce = $5, sealed = $6
             WHERE host = $1 AND scheme = $2 AND set_at = $3";
        let CredentialRow { set_at, sealed, .. } = row;
        let written = self
            .pool
            .query(SQL)
            .bind(host.as_str())
            .bind(scheme)
            .bind(set_at.as_millisecond())
            .bind(&sealed.key_id)
            .bind(&sealed.nonce)
            .bind(&sealed.bytes)
            .execute()
            .await;
        written.map(drop).map_err(to_store_error(WHAT))
    }

    /// Replaces the users of a credential. False when there is no such credential.
    pub(super) async fn set_users(
        &self,
        host: &Domain,
        scheme: &str,
        users: &CredentialUsers,
    ) -> Result<bool, Error> {
        const SQL: &str = "UPDATE credential SET users = $3 WHERE host = $1 AND scheme = $2";
        let users = serde_json::to_string(users)
            .map_err(|_| Error::new(ErrorKind::Internal, "users of a credential are not JSON"))?;
        let written =
            self.pool.query(SQL).bind(host.as_str()).bind(scheme).bind(&users).execute().await;
        Ok(written.map_err(to_store_error(WHAT))? > 0)
    }

    /// True when there was one.
    pub(super) async fn remove(&self, host: &Domain, scheme: &str) -> Result<bool, Error> {
        const SQL: &str = "DELETE FROM credential WHERE host = $1 AND scheme = $2";
        let removed = self.pool.query(SQL).bind(host.as_str()).bind(scheme).execute().await;
        Ok(removed.map_err(to_store_error(WHAT))? > 0)
    }
}

fn read_kind(text: &str) -> Option<CredentialKind> {
    use CredentialKind::{ApiKey, Basic, Bearer, Oauth2};
    [ApiKey, Basic, Bearer, Oauth2].into_iter().find(|kind| kind.as_str() == text)
}

fn read_users(json: Option<&str>) -> Option<CredentialUsers> {
    json.map_or_else(|| Some(CredentialUsers::default()), |json| serde_json::from_str(json).ok())
}

fn malformed() -> Error {
    Error::new(ErrorKind::Store, "a stored credential cannot be read")
}
