//! The store in a PostgreSQL database, which several registries can share.
//!
//! Transactions that change documents, owners or tokens first lock the one row of `registry`, and hold the
//! lock to the end. So of many that publish one version or claim one name at once, each sees what those
//! before it have committed. A sequence numbers changes and events before the commit, but because of the
//! lock in the order of the commits: once a number is visible, no smaller one will appear. Reports of runs
//! lock only their version: there are many of them, and nothing follows them in order.
//!
//! Acknowledged changes are on disk as far as the server's `synchronous_commit` guarantees it.

/// The SQL condition that a value is in a list. The list is a parameter.
macro_rules! among {
    ($list:literal) => {
        concat!("= ANY(", $list, ")")
    };
}

/// A unique id.
macro_rules! random_id {
    () => {
        "replace(gen_random_uuid()::text, '-', '')"
    };
}

mod embeddings;
mod open;
mod outcomes;
// Where the engines read the same SQL, it is written once, and compiled for each.
#[path = "sql/indexes.rs"]
mod indexes;
#[path = "sql/lifecycle.rs"]
mod lifecycle;
#[path = "sql/publishing.rs"]
mod publishing;
#[path = "sql/relations.rs"]
mod relations;
#[path = "sql/tokens.rs"]
mod tokens;

use std::collections::BTreeMap;

use a2s::CapabilityName;
use async_trait::async_trait;
use sqlx::postgres::{PgPool, PgRow};
use sqlx::{Postgres as Backend, Transaction};

use self::relations::before_nul;
use super::lifecycle::AuditActor;
use super::row_mapping::{RowColumns as _, concat_entry, to_entries};
use super::{
    CapabilityId, ChangeOutbox, ChangeSeq, Error, LiveVersionQuery, NewVersion, PublicationResult,
    RecordResult, RegistryStore, RunDetails, RunOutcome, VersionEntry, VersionId,
};

#[derive(Debug)]
pub(crate) struct PostgresStore {
    pool: PgPool,
}

type Engine = PostgresStore;

impl PostgresStore {
    fn readers(&self) -> &PgPool {
        &self.pool
    }

    /// The pool for single statements that change data.
    fn writer(&self) -> &PgPool {
        &self.pool
    }

    /// A transaction that holds the lock for changes. Each of its statements sees everything that was
    /// committed before the statement began, including what the transaction waited for, whatever the
    /// configuration of the server.
    async fn begin(&self) -> Result<Transaction<'static, Backend>, Error> {
        let mut transaction = self.begin_unlocked().await?;
        sqlx::query("SELECT one FROM registry FOR UPDATE").execute(&mut *transaction).await?;
        Ok(transaction)
    }

    /// The same without the lock, for data that nothing follows in order.
    async fn begin_unlocked(&self) -> Result<Transaction<'static, Backend>, Error> {
        Ok(self.pool.begin_with("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE").await?)
    }

    /// Begins a transaction that reads everything as of one moment.
    async fn snapshot(&self) -> Result<Transaction<'static, Backend>, Error> {
        Ok(self.pool.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?)
    }
}

#[async_trait]
impl RegistryStore for PostgresStore {
    async fn publish(&self, new: &NewVersion, by: &AuditActor) -> Result<PublicationResult, Error> {
        self.publish(new, by).await
    }

    async fn list_versions(&self, name: &CapabilityName) -> Result<Vec<VersionEntry>, Error> {
        let rows = sqlx::query(concat_entry!("WHERE capability.name = $1"))
            .bind(name.as_str())
            .fetch_all(&self.pool)
            .await?;
        let mut entries = to_entries(&rows);
        entries.sort_by(|a, b| b.version.cmp(&a.version));
        Ok(entries)
    }

    async fn live_versions(&self, which: LiveVersionQuery<'_>) -> Result<Vec<VersionEntry>, Error> {
        let rows = match which {
            LiveVersionQuery::ByIds(ids) => {
                sqlx::query(concat_entry!(
                    "WHERE version.id = capability.head AND capability.id = ANY($1) \
                     ORDER BY capability.name"
                ))
                .bind(ids.iter().map(|id| id.0).collect::<Vec<_>>())
                .fetch_all(&self.pool)
                .await?
            }
            LiveVersionQuery::AfterName(name, limit) => {
                sqlx::query(concat_entry!(
                    "WHERE version.id = capability.head AND capability.name > $1 \
                     ORDER BY capability.name LIMIT $2"
                ))
                .bind(before_nul(name.unwrap_or_default()))
                .bind(i64::from(limit))
                .fetch_all(&self.pool)
                .await?
            }
        };
        Ok(to_entries(&rows))
    }

    async fn load_sources(&self, ids: &[VersionId]) -> Result<BTreeMap<VersionId, Vec<u8>>, Error> {
        let to_source =
            |row: PgRow| Ok((VersionId(row.number("version")?), row.text("source")?.into_bytes()));
        sqlx::query("SELECT version, source FROM document WHERE version = ANY($1)")
            .bind(ids.iter().map(|id| id.0).collect::<Vec<_>>())
            .fetch_all(&self.pool)
            .await?
            .into_iter()
            .map(to_source)
            .collect()
    }

    async fn record_outcome(&self, outcome: &RunOutcome) -> Result<RecordResult, Error> {
        self.record_outcome(outcome).await
    }

    async fn load_run_details(&self, version: VersionId) -> Result<RunDetails, Error> {
        self.load_run_details(version).await
    }

    async fn list_reported(&self, after: i64) -> Result<(i64, Vec<CapabilityId>), Error> {
        self.list_reported(after).await
    }

    async fn read_outbox(&self, after: ChangeSeq, limit: u32) -> Result<ChangeOutbox, Error> {
        // The parts must be of one moment.
        let mut transaction = self.snapshot().await?;
        let row = sqlx::query(
            "SELECT identity, (SELECT coalesce(max(seq), 0) FROM change) AS latest, \
             (SELECT count(*) FROM capability WHERE head IS NOT NULL) AS live FROM registry",
        )
        .fetch_one(&mut *transaction)
        .await?;
        let changes =
            sqlx::query("SELECT seq, capability FROM change WHERE seq > $1 ORDER BY seq LIMIT $2")
                .bind(after.0)
                .bind(i64::from(limit))
                .fetch_all(&mut *transaction)
                .await?
                .iter()
                .map(|row| {
                    Ok((ChangeSeq(row.number("seq")?), CapabilityId(row.number("capability")?)))
                })
                .collect::<Result<_, Error>>()?;
        Ok(ChangeOutbox {
            identity: row.text("identity")?,
            latest: ChangeSeq(row.number("latest")?),
            live_count: row.count("live")?,
            changes,
        })
    }

    async fn check_writer(&self) -> Result<(), Error> {
        // A server that only reads refuses it, though it changes nothing.
        sqlx::query("UPDATE registry SET identity = identity WHERE false")
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    fn is_shared(&self) -> bool {
        true
    }

    async fn close(&self) {
        self.pool.close().await;
    }
}

/// Converts a list to one parameter.
fn list<'t>(texts: impl Iterator<Item = &'t str>) -> Vec<String> {
    texts.map(str::to_owned).collect()
}
