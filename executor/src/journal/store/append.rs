//! Writes of events and exchanges, of many runs together. Each engine has a statement of its own for that.

#[cfg(feature = "postgres")]
mod postgres;
mod sqlite;

use a2s_api::{RunEvent, RunStatus};
use database::Transaction;
use database::server_types::PgPool;
use sqlx::{Connection as _, SqliteConnection};
use uuid::Uuid;

use super::batch_writer::TaskOutcome;
use super::notifications::{Notification, notify};
use super::persisted_item::{JournalItem, number, status_after, to_json_text};
use super::run_queue::status_columns;
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

    /// Commits plain items of runs, in one statement or round trip. `None` when they have to be written one
    /// by one: nothing is written then.
    pub(super) async fn commit_items(
        &mut self,
        crowd: &[&JournalItem],
    ) -> Result<Option<Vec<TaskOutcome>>, sqlx::Error> {
        match self {
            Self::Sqlite(connection) => sqlite::commit_items(connection, crowd).await.map(Some),
            #[cfg(feature = "postgres")]
            Self::Postgres(pool) => postgres::insert_together(*pool, crowd).await,
            #[cfg(not(feature = "postgres"))]
            Self::Postgres(_) => Ok(None),
        }
    }
}

/// Writes the items of runs, in order. An event is left out if it does not follow the last one of its run,
/// comes when the run is over, or is for a past epoch.
pub(super) async fn write_items(
    transaction: &mut Transaction<'_>,
    crowd: &[&JournalItem],
) -> Result<Vec<TaskOutcome>, sqlx::Error> {
    if crowd.is_empty() {
        return Ok(Vec::new());
    }
    let outcomes = match transaction {
        Transaction::Sqlite(connection) => sqlite::insert(connection, crowd).await?,
        #[cfg(feature = "postgres")]
        Transaction::Postgres(connection) => postgres::insert(connection, crowd).await?,
        #[cfg(not(feature = "postgres"))]
        Transaction::Postgres(_) => return Err(sqlx::Error::PoolClosed),
    };
    for (item, outcome) in crowd.iter().zip(&outcomes) {
        if let (JournalItem::Event { event, besides, .. }, TaskOutcome::Done) = (item, outcome) {
            if let Some(sealed) = &besides.sealed {
                insert_sealed(transaction, event, sealed).await?;
            }
            if let Some(obsolete) = besides.obsolete {
                delete_sealed(transaction, event.run, obsolete).await?;
            }
            if let Some(status) = status_after(event) {
                set_status(transaction, event, status).await?;
            }
        }
    }
    Ok(outcomes)
}

/// Writes an event of a new run.
pub(super) async fn insert_first_event(
    transaction: &mut Transaction<'_>,
    event: &RunEvent,
    kind: &'static str,
    sealed: Option<&Ciphertext>,
) -> Result<(), sqlx::Error> {
    transaction
        .query("INSERT INTO event (run, seq, type, event) VALUES ($1, $2, $3, $4)")
        .bind(event.run.to_string())
        .bind(number(event.seq))
        .bind(kind)
        .bind(to_json_text(event)?)
        .execute()
        .await?;
    match sealed {
        Some(sealed) => insert_sealed(transaction, event, sealed).await,
        None => Ok(()),
    }
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

async fn set_status(
    transaction: &mut Transaction<'_>,
    event: &RunEvent,
    status: RunStatus,
) -> Result<(), sqlx::Error> {
    let (column, queued) = status_columns(status);
    let ended_at = Some(event.at.as_millisecond()).filter(|_| status.is_final());
    transaction
        .query(
            "UPDATE run SET status = $2, ended_at = $3, queued = $4, owner = NULL,
                 lease_until = NULL, takeovers = 0
             WHERE id = $1",
        )
        .bind(event.run.to_string())
        .bind(column)
        .bind(ended_at)
        .bind(queued)
        .execute()
        .await?;
    if status.is_final() {
        transaction
            .query("DELETE FROM sealed WHERE run = $1")
            .bind(event.run.to_string())
            .execute()
            .await?;
    }
    let notification = match status {
        // The resolving executor takes it over, or leaves it to be found.
        RunStatus::Running => return Ok(()),
        RunStatus::Queued => Notification::RunsAvailable,
        _ => Notification::RunAtRest,
    };
    notify(transaction, notification).await
}
