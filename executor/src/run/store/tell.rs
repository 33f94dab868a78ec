//! What runs tell, events and exchanges, is written together: a statement costs two changes of
//! thread, and many runs tell many things at the same time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use a2s::api::{Event, EventKind, RunStatus};
use serde::Serialize;
use sqlx::SqliteConnection;
use tokio::sync::watch;
use uuid::Uuid;

use super::super::exchange::Exchange;
use super::write::Outcome;
use crate::vault::Sealed;

/// Something that a run tells.
#[derive(Debug)]
pub(super) enum Told {
    Event { event: Box<Event>, sealed: Option<Sealed>, committed: Arc<watch::Sender<u64>> },
    Exchange { run: Uuid, step: String, exchange: Box<Exchange> },
}

/// Inserts exchanges and events, and gives the events that were in turn. Of an event come its run,
/// its number, its text, and how many of its run come before it in the same crowd.
macro_rules! insert {
    () => {
        "INSERT OR REPLACE INTO exchange (run, step, exchange)
         SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(?1)
         WHERE value ->> 0 IN (SELECT id FROM run);
         INSERT INTO event (run, seq, type, event)
         SELECT value ->> 0, value ->> 1, value ->> 2 ->> 'type', value ->> 2 FROM json_each(?2)
         WHERE value ->> 1 - value ->> 3
                   = 1 + (SELECT COALESCE(MAX(seq), 0) FROM event WHERE run = value ->> 0)
           AND (SELECT status FROM run WHERE id = value ->> 0) IN ('running', 'waiting')
         RETURNING run, seq"
    };
}

const INSERT: &str = insert!();
/// The same with a transaction around it: one change of thread for the whole of it.
const COMMIT: &str = concat!("BEGIN IMMEDIATE; ", insert!(), "; COMMIT");

impl Told {
    /// Whether an event or exchange is all that it writes. What changes a run besides is told alone:
    /// whatever comes behind it is held to what it changed.
    pub(super) fn is_plain(&self) -> bool {
        match self {
            Self::Event { event, sealed, .. } => sealed.is_none() && status_after(event).is_none(),
            Self::Exchange { .. } => true,
        }
    }
}

/// Commits what runs tell, when it is plain. None when it has to be told as part of a transaction.
pub(super) async fn commit_told(
    connection: &mut SqliteConnection,
    crowd: &[&Told],
) -> Result<Option<Vec<Outcome>>, sqlx::Error> {
    if !crowd.iter().all(|told| told.is_plain()) {
        return Ok(None);
    }
    match insert(connection, COMMIT, crowd).await {
        Ok(outcomes) => Ok(Some(outcomes)),
        Err(error) => {
            // Fails where nothing was begun, which is as good.
            let _ = sqlx::query("ROLLBACK").execute(connection).await;
            Err(error)
        }
    }
}

/// Writes what runs tell, in order. An event that does not follow the last one of its run, or comes
/// when the run is over, is left out.
pub(super) async fn tell(
    connection: &mut SqliteConnection,
    crowd: &[&Told],
) -> Result<Vec<Outcome>, sqlx::Error> {
    if crowd.is_empty() {
        return Ok(Vec::new());
    }
    let outcomes = insert(connection, INSERT, crowd).await?;
    for (told, outcome) in crowd.iter().zip(&outcomes) {
        if let (Told::Event { event, sealed, .. }, Outcome::Done) = (told, outcome) {
            if let Some(sealed) = sealed {
                add_sealed(connection, event, sealed).await?;
            }
            if let Some(status) = status_after(event) {
                set_status(connection, event, status).await?;
            }
        }
    }
    Ok(outcomes)
}

async fn insert(
    connection: &mut SqliteConnection,
    sql: &'static str,
    crowd: &[&Told],
) -> Result<Vec<Outcome>, sqlx::Error> {
    let mut accepted = insert_together(connection, sql, crowd).await?;
    let mut outcomes = Vec::with_capacity(crowd.len());
    for told in crowd {
        outcomes.push(match told {
            Told::Exchange { .. } => Outcome::Done,
            Told::Event { event, .. } if accepted.remove(&(event.run, event.seq)) => Outcome::Done,
            Told::Event { .. } if crowd.len() == 1 => Outcome::OutOfTurn,
            // One that is out of turn throws out the count of those behind it: alone it is right.
            Told::Event { event, .. } => {
                let alone = insert_together(connection, sql, &[told]).await?;
                match alone.contains(&(event.run, event.seq)) {
                    true => Outcome::Done,
                    false => Outcome::OutOfTurn,
                }
            }
        });
    }
    Ok(outcomes)
}

/// The run and number of each event that was in turn.
async fn insert_together(
    connection: &mut SqliteConnection,
    sql: &'static str,
    crowd: &[&Told],
) -> Result<BTreeSet<(Uuid, u64)>, sqlx::Error> {
    let (mut events, mut exchanges) = (Vec::new(), Vec::new());
    let mut counts: BTreeMap<Uuid, u64> = BTreeMap::new();
    for told in crowd {
        match told {
            Told::Event { event, .. } => {
                let before = counts.entry(event.run).or_default();
                events.push((event.run, event.seq, text_of(event)?, *before));
                *before += 1;
            }
            Told::Exchange { run, step, exchange } => {
                exchanges.push((run, step, text_of(exchange)?));
            }
        }
    }
    let rows: Vec<(String, i64)> = sqlx::query_as(sql)
        .bind(text_of(&exchanges)?)
        .bind(text_of(&events)?)
        .fetch_all(connection)
        .await?;
    let read = |(run, seq): (String, i64)| {
        let run: Uuid = run.parse().map_err(|error| sqlx::Error::Decode(Box::new(error)))?;
        Ok((run, u64::try_from(seq).unwrap_or_default()))
    };
    rows.into_iter().map(read).collect()
}

/// Writes the first event of a run.
pub(super) async fn add_first(
    connection: &mut SqliteConnection,
    event: &Event,
    sealed: Option<&Sealed>,
) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO event (run, seq, type, event) VALUES (?1, ?2, ?3 ->> 'type', ?3)")
        .bind(event.run.to_string())
        .bind(i64::try_from(event.seq).unwrap_or(i64::MAX))
        .bind(text_of(event)?)
        .execute(&mut *connection)
        .await?;
    match sealed {
        Some(sealed) => add_sealed(connection, event, sealed).await,
        None => Ok(()),
    }
}

async fn add_sealed(
    connection: &mut SqliteConnection,
    event: &Event,
    sealed: &Sealed,
) -> Result<(), sqlx::Error> {
    let Sealed { key_id, nonce, bytes } = sealed;
    sqlx::query("INSERT INTO sealed (run, seq, key_id, nonce, sealed) VALUES (?1, ?2, ?3, ?4, ?5)")
        .bind(event.run.to_string())
        .bind(i64::try_from(event.seq).unwrap_or(i64::MAX))
        .bind(key_id)
        .bind(nonce)
        .bind(bytes)
        .execute(connection)
        .await?;
    Ok(())
}

async fn set_status(
    connection: &mut SqliteConnection,
    event: &Event,
    status: RunStatus,
) -> Result<(), sqlx::Error> {
    let ended_at = Some(event.at.as_millisecond()).filter(|_| status.is_final());
    sqlx::query(
        "UPDATE run SET status = ?2, ended_at = ?3, owner = NULL, lease_until = NULL
         WHERE id = ?1",
    )
    .bind(event.run.to_string())
    .bind(status.as_str())
    .bind(ended_at)
    .execute(&mut *connection)
    .await?;
    if status.is_final() {
        sqlx::query("DELETE FROM sealed WHERE run = ?1")
            .bind(event.run.to_string())
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}

/// The state of a run behind an event, when that changes it.
fn status_after(event: &Event) -> Option<RunStatus> {
    match &event.kind {
        EventKind::RunFinished { status, .. } => Some(*status),
        EventKind::RunWaiting { .. } => Some(RunStatus::Waiting),
        // For whoever claims it first.
        EventKind::StepResolved { .. } => Some(RunStatus::Running),
        _ => None,
    }
}

fn text_of(value: &impl Serialize) -> Result<String, sqlx::Error> {
    serde_json::to_string(value).map_err(|error| sqlx::Error::Encode(Box::new(error)))
}
