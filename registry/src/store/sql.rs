//! The store in an SQLite file, or in a PostgreSQL database, which several registries can share.
//!
//! Transactions that change documents, owners or tokens come one after the other: SQLite has one writer; in
//! PostgreSQL they first lock the one row of `registry`, and hold the lock to the end. So of many that
//! publish one version or claim one name at once, each sees what those before it have committed. A sequence
//! numbers changes and events before the commit, but because of the lock in the order of the commits: once
//! a number is visible, no smaller one will appear. Reports of runs lock only their version: there are many
//! of them, and nothing follows them in order.

mod embeddings;
mod indexes;
mod learning;
mod lifecycle;
mod open;
mod outcomes;
mod publishing;
mod relations;
mod tokens;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use a2s::CapabilityName;
use async_trait::async_trait;
use database::dialect::Engine;
use database::{DatabaseLock, Pool, Row, Transaction};

use self::relations::before_nul;
use super::lifecycle::AuditActor;
use super::row_mapping::{concat_entry, count, to_entries};
use super::{
    CapabilityId, ChangeOutbox, ChangeSeq, Error, IndexTarget, LiveVersionQuery, NewVersion,
    PublicationResult, RecordResult, RegistryStore, RunDetails, RunOutcome, VersionEntry,
    VersionId,
};

/// A store in a database of either engine.
#[derive(Debug)]
pub(super) struct SqlStore {
    /// The lock that this process holds while it uses a file. It is dropped before the connections.
    lock: Mutex<Option<DatabaseLock>>,
    writer: Pool,
    readers: Pool,
    /// Set when a transaction on a file has failed, and nothing was written since.
    has_failed: Arc<AtomicBool>,
}

impl SqlStore {
    pub(super) async fn open_file(path: &Path) -> Result<Self, Error> {
        open::open_file(path).await
    }

    pub(super) async fn open_server(address: &str) -> Result<Self, Error> {
        open::open_server(address).await
    }

    /// A transaction that holds the lock for changes.
    async fn begin(&self) -> Result<Transaction<'static>, Error> {
        let mut transaction = self.begin_unlocked().await?;
        if transaction.engine() == Engine::Postgres {
            transaction.query("SELECT one FROM registry FOR UPDATE").execute().await?;
        }
        Ok(transaction)
    }

    /// The same without the lock, for data that nothing follows in order.
    async fn begin_unlocked(&self) -> Result<Transaction<'static>, Error> {
        Ok(self.writer.begin().await?)
    }
}

#[async_trait]
impl RegistryStore for SqlStore {
    async fn publish(&self, new: &NewVersion, by: &AuditActor) -> Result<PublicationResult, Error> {
        self.publish(new, by).await
    }

    async fn list_versions(&self, name: &CapabilityName) -> Result<Vec<VersionEntry>, Error> {
        let query = self.readers.query(concat_entry!("WHERE capability.name = $1"));
        let mut entries = to_entries(&query.bind(name.as_str()).fetch_all().await?);
        entries.sort_by(|a, b| b.version.cmp(&a.version));
        Ok(entries)
    }

    async fn live_versions(&self, which: LiveVersionQuery<'_>) -> Result<Vec<VersionEntry>, Error> {
        let query = match which {
            LiveVersionQuery::ByIds(ids) => self
                .readers
                .query(concat_entry!(
                    "WHERE version.id = capability.head AND capability.id {among $1} \
                     ORDER BY capability.name"
                ))
                .bind_list(ids.iter().map(|id| id.0)),
            LiveVersionQuery::AfterName(name, limit) => self
                .readers
                .query(concat_entry!(
                    "WHERE version.id = capability.head AND capability.name > $1 \
                     ORDER BY capability.name LIMIT $2"
                ))
                .bind(before_nul(name.unwrap_or_default()))
                .bind(i64::from(limit)),
        };
        Ok(to_entries(&query.fetch_all().await?))
    }

    async fn load_sources(&self, ids: &[VersionId]) -> Result<BTreeMap<VersionId, Vec<u8>>, Error> {
        // As bytes, because text in a file that was changed by hand need not be UTF-8 any more.
        let sources: Vec<(i64, Vec<u8>)> = self
            .readers
            .query("SELECT version, {bytes source} FROM document WHERE version {among $1}")
            .bind_list(ids.iter().map(|id| id.0))
            .fetch_all()
            .await?;
        Ok(sources.into_iter().map(|(id, source)| (VersionId(id), source)).collect())
    }

    async fn record_outcome(&self, outcome: &RunOutcome) -> Result<RecordResult, Error> {
        self.record_outcome(outcome).await
    }

    async fn load_run_details(&self, version: VersionId) -> Result<RunDetails, Error> {
        self.load_run_details(version).await
    }

    async fn list_reported(&self, after: i64) -> Result<(i64, Vec<CapabilityId>), Error> {
        if self.is_shared() {
            self.list_reported(after).await
        } else {
            // Only its registry reports to an unshared store.
            Ok((after, Vec::new()))
        }
    }

    async fn read_outbox(&self, after: ChangeSeq, limit: u32) -> Result<ChangeOutbox, Error> {
        // The parts must be of one moment.
        let mut transaction = self.readers.begin_snapshot().await?;
        let row: Row = transaction
            .query(
                "SELECT identity, (SELECT coalesce(max(seq), 0) FROM change) AS latest FROM registry",
            )
            .fetch_one()
            .await?;
        let changes: Vec<(i64, i64)> = transaction
            .query("SELECT seq, capability FROM change WHERE seq > $1 ORDER BY seq LIMIT $2")
            .bind(after.0)
            .bind(i64::from(limit))
            .fetch_all()
            .await?;
        let to_change = |(seq, capability)| (ChangeSeq(seq), CapabilityId(capability));
        Ok(ChangeOutbox {
            identity: row.get("identity")?,
            latest: ChangeSeq(row.get("latest")?),
            changes: changes.into_iter().map(to_change).collect(),
        })
    }

    async fn count_live_versions(&self) -> Result<IndexTarget, Error> {
        // Both are of one moment, because it is one statement.
        let row: Row = self
            .readers
            .query(
                "SELECT (SELECT coalesce(max(seq), 0) FROM change) AS latest, \
                 (SELECT count(*) FROM capability WHERE head IS NOT NULL) AS live",
            )
            .fetch_one()
            .await?;
        let latest = ChangeSeq(row.get("latest")?);
        Ok(IndexTarget { latest, live_count: count(&row, "live")? })
    }

    async fn check_writer(&self) -> Result<(), Error> {
        let has_failed = self.has_failed.load(Ordering::SeqCst);
        let mut transaction = self.begin_unlocked().await?;
        let proof = if has_failed {
            "UPDATE registry SET identity = identity"
        } else {
            // A server that only reads refuses it, though it changes nothing.
            "UPDATE registry SET identity = identity WHERE false"
        };
        transaction.query(proof).execute().await?;
        transaction.commit().await?;
        if has_failed {
            self.has_failed.store(false, Ordering::SeqCst);
            tracing::info!("the registry can write the database again");
        }
        Ok(())
    }

    fn is_shared(&self) -> bool {
        matches!(self.readers, Pool::Postgres(_))
    }

    async fn close(&self) {
        self.readers.close().await;
        self.writer.close().await;
        drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}
