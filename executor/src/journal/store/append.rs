//! Writes of events and exchanges, of many runs together, with the changes of runs that begin to wait or end.
//! Each engine has a statement of its own for that.

#[cfg(feature = "postgres")]
mod postgres;
mod sqlite;

use std::collections::BTreeSet;

use a2s_api::{RunEvent, RunStatus};
use database::Transaction;
use database::server_types::PgPool;
use sqlx::{Connection as _, SqliteConnection};
use uuid::Uuid;

use super::batch_writer::TaskOutcome;
use super::persisted_item::{JournalItem, number, status_after};
use crate::vault::Ciphertext;

/// The connections of the writer.
#[derive(Debug)]
pub(super) enum WriterTarget<'c> {
    Sqlite(&'c mut SqliteConnection),
    Postgres(&'c PgPool),
}

impl WriterTarget<'_> {
    pub(super) async fn begin(&mut self) -> Result<Transaction<'_>, sqlx::Error> {
        match self {
            Self::Sqlite(connection) => {
                connection.begin_with("BEGIN IMMEDIATE").await.map(Transaction::Sqlite)
            }
            Self::Postgres(pool) => pool.begin().await.map(Transaction::Postgres),
        }
    }

    /// Commits items of an [`ItemBatch`] without sealed values, in one statement or round trip. `None` when they
    /// have to be written one by one: nothing is written then.
    pub(super) async fn commit_items(
        &mut self,
        items: &[&JournalItem],
    ) -> Result<Option<Vec<TaskOutcome>>, sqlx::Error> {
        match self {
            Self::Sqlite(connection) => sqlite::commit_items(connection, items).await.map(Some),
            #[cfg(feature = "postgres")]
            Self::Postgres(pool) => postgres::insert_together(*pool, items).await,
            #[cfg(not(feature = "postgres"))]
            Self::Postgres(_) => Ok(None),
        }
    }
}

/// Items of runs that one statement can write: none of them follows an event that changes its run, because it
/// is checked against the change, and an event that may yield to a cancellation is the only item of its run.
#[derive(Debug, Default)]
pub(super) struct ItemBatch<'j> {
    items: Vec<&'j JournalItem>,
    changed: BTreeSet<Uuid>,
}

impl<'j> ItemBatch<'j> {
    /// Adds an item. Returns false when it needs a later statement.
    pub(super) fn add(&mut self, item: &'j JournalItem) -> bool {
        if self.changed.contains(&item.run()) {
            return false;
        }
        // It may be refused, without the items before it.
        if item.yields_to_cancel() && self.items.iter().any(|before| before.run() == item.run()) {
            return false;
        }
        if item.status_after().is_some() {
            self.changed.insert(item.run());
        }
        self.items.push(item);
        true
    }

    pub(super) fn items(&self) -> &[&'j JournalItem] {
        &self.items
    }
}

/// The events that change their runs, with the states of the runs after them.
fn changing_events<'j>(
    items: &[&'j JournalItem],
) -> impl Iterator<Item = (&'j RunEvent, RunStatus)> {
    items.iter().filter_map(|item| match item {
        JournalItem::Event { event, .. } => Some((event.as_ref(), status_after(event)?)),
        JournalItem::Exchange { .. } => None,
    })
}

/// The column `ended_at` after an event that changes its run. The sealed values of a run that has ended are
/// deleted.
fn ended_at(event: &RunEvent, status: RunStatus) -> Option<i64> {
    status.is_final().then(|| event.at.as_millisecond())
}

/// Writes the items of runs, in order. An event is left out if it does not follow the last one of its run,
/// comes when the run is over, is for a past epoch, or yields to a cancellation of the run.
pub(super) async fn write_items(
    transaction: &mut Transaction<'_>,
    items: &[&JournalItem],
) -> Result<Vec<TaskOutcome>, sqlx::Error> {
    if items.is_empty() {
        return Ok(Vec::new());
    }
    let outcomes = match transaction {
        Transaction::Sqlite(connection) => sqlite::insert(connection, items).await?,
        #[cfg(feature = "postgres")]
        Transaction::Postgres(connection) => postgres::insert(connection, items).await?,
        #[cfg(not(feature = "postgres"))]
        Transaction::Postgres(_) => return Err(sqlx::Error::PoolClosed),
    };
    for (item, outcome) in items.iter().zip(&outcomes) {
        if let (JournalItem::Event { event, besides, .. }, TaskOutcome::Done) = (item, outcome) {
            // A run that is over has no sealed values.
            let is_over = item.status_after().is_some_and(RunStatus::is_final);
            if let Some(sealed) = besides.sealed.as_ref().filter(|_| !is_over) {
                insert_sealed(transaction, event, sealed).await?;
            }
            if let Some(obsolete) = besides.obsolete {
                delete_sealed(transaction, event.run, obsolete).await?;
            }
        }
    }
    Ok(outcomes)
}

async fn insert_sealed(
    transaction: &mut Transaction<'_>,
    event: &RunEvent,
    sealed: &Ciphertext,
) -> Result<(), sqlx::Error> {
    let Ciphertext { key_id, nonce, bytes } = sealed;
    transaction
        .query("INSERT INTO sealed (run, seq, key_id, nonce, sealed) VALUES ($1, $2, $3, $4, $5)")
        .bind(event.run.to_string())
        .bind(number(event.seq))
        .bind(key_id)
        .bind(nonce)
        .bind(bytes)
        .execute()
        .await?;
    Ok(())
}

/// Deletes the values that are sealed with the event of this number.
async fn delete_sealed(
    transaction: &mut Transaction<'_>,
    run: Uuid,
    seq: u64,
) -> Result<(), sqlx::Error> {
    transaction
        .query("DELETE FROM sealed WHERE run = $1 AND seq = $2")
        .bind(run.to_string())
        .bind(number(seq))
        .execute()
        .await?;
    Ok(())
}
