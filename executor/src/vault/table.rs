//! The rows, in SQLite.

use a2s::Domain;
use a2s::api::{CredentialKind, StoredCredential};
use jiff::Timestamp;
use sqlx::sqlite::SqlitePool;

use super::seal::Sealed;
use crate::database::failed;
use crate::error::{Error, Kind};

/// As errors call it.
const WHAT: &str = "the stored credentials";

/// The table. Changes are rare, so they do not go through the runs' writer.
#[derive(Debug)]
pub(super) struct Table {
    pool: SqlitePool,
}

/// Kind, time, key, nonce and what is sealed.
type Columns = (String, i64, String, Vec<u8>, Vec<u8>);

/// A sealed credential.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) kind: CredentialKind,
    pub(super) set_at: Timestamp,
    pub(super) sealed: Sealed,
}

impl Table {
    pub(super) fn new(pool: SqlitePool) -> Self {
        Self { pool }
    }

    #[cfg(test)]
    pub(super) fn in_memory() -> Self {
        const SCHEMA: &str = include_str!("../../migrations/sqlite/0003_credentials.sql");
        let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).after_connect(
            |connection, _| {
                Box::pin(async move { sqlx::raw_sql(SCHEMA).execute(connection).await.map(|_| ()) })
            },
        );
        Self { pool: pool.connect_lazy("sqlite::memory:").unwrap() }
    }

    pub(super) async fn list(&self) -> Result<Vec<StoredCredential>, Error> {
        let rows: Vec<(String, String, String, i64)> = sqlx::query_as(
            "SELECT host, scheme, kind, set_at FROM credential ORDER BY host, scheme",
        )
        .fetch_all(&self.pool)
        .await
        .map_err(failed(WHAT))?;
        let read = |(host, scheme, kind, set_at): (String, String, String, i64)| {
            Some(StoredCredential {
                host: Domain::new(&host).ok()?,
                scheme,
                kind: read_kind(&kind)?,
                set_at: Timestamp::from_millisecond(set_at).ok()?,
            })
        };
        rows.into_iter().map(|row| read(row).ok_or_else(malformed)).collect()
    }

    pub(super) async fn count(&self) -> Result<i64, Error> {
        let count = sqlx::query_scalar("SELECT COUNT(*) FROM credential");
        count.fetch_one(&self.pool).await.map_err(failed(WHAT))
    }

    pub(super) async fn key_ids(&self) -> Result<Vec<String>, Error> {
        let ids = sqlx::query_scalar("SELECT DISTINCT key_id FROM credential ORDER BY key_id");
        ids.fetch_all(&self.pool).await.map_err(failed(WHAT))
    }

    pub(super) async fn get(&self, host: &Domain, scheme: &str) -> Result<Option<Row>, Error> {
        let row: Option<Columns> = sqlx::query_as(
            "SELECT kind, set_at, key_id, nonce, sealed FROM credential
             WHERE host = ?1 AND scheme = ?2",
        )
        .bind(host.as_str())
        .bind(scheme)
        .fetch_optional(&self.pool)
        .await
        .map_err(failed(WHAT))?;
        let Some((kind, set_at, key_id, nonce, sealed)) = row else { return Ok(None) };
        let kind = read_kind(&kind).ok_or_else(malformed)?;
        let set_at = Timestamp::from_millisecond(set_at).map_err(|_| malformed())?;
        let sealed = Sealed { key_id, nonce, bytes: sealed };
        Ok(Some(Row { kind, set_at, sealed }))
    }

    /// Writes a row, over the one that was there.
    pub(super) async fn put(&self, host: &Domain, scheme: &str, row: &Row) -> Result<(), Error> {
        sqlx::query(
            "INSERT OR REPLACE INTO credential (host, scheme, kind, set_at, key_id, nonce, sealed)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )
        .bind(host.as_str())
        .bind(scheme)
        .bind(row.kind.as_str())
        .bind(row.set_at.as_millisecond())
        .bind(&row.sealed.key_id)
        .bind(&row.sealed.nonce)
        .bind(&row.sealed.bytes)
        .execute(&self.pool)
        .await
        .map_err(failed(WHAT))?;
        Ok(())
    }

    /// Writes a row over the one that was set at the same time, if that is still there.
    pub(super) async fn replace(
        &self,
        host: &Domain,
        scheme: &str,
        row: &Row,
    ) -> Result<(), Error> {
        sqlx::query(
            "UPDATE credential SET key_id = ?4, nonce = ?5, sealed = ?6
             WHERE host = ?1 AND scheme = ?2 AND set_at = ?3",
        )
        .bind(host.as_str())
        .bind(scheme)
        .bind(row.set_at.as_millisecond())
        .bind(&row.sealed.key_id)
        .bind(&row.sealed.nonce)
        .bind(&row.sealed.bytes)
        .execute(&self.pool)
        .await
        .map_err(failed(WHAT))?;
        Ok(())
    }

    /// True when there was one.
    pub(super) async fn remove(&self, host: &Domain, scheme: &str) -> Result<bool, Error> {
        let removed = sqlx::query("DELETE FROM credential WHERE host = ?1 AND scheme = ?2")
            .bind(host.as_str())
            .bind(scheme)
            .execute(&self.pool)
            .await
            .map_err(failed(WHAT))?;
        Ok(removed.rows_affected() > 0)
    }
}

fn read_kind(text: &str) -> Option<CredentialKind> {
    use CredentialKind::{ApiKey, Basic, Bearer, Oauth2};
    [ApiKey, Basic, Bearer, Oauth2].into_iter().find(|kind| kind.as_str() == text)
}

fn malformed() -> Error {
    Error::new(Kind::Store, "a stored credential cannot be read")
}
