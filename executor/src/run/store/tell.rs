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

/// Where the journal of a run stands.
struct Place {
    last: u64,
    is_open: bool,
}

/// Writes what runs tell, in order. An event that does not follow the last one of its run, or comes
/// when the run is over, is left out.
pub(super) async fn tell(
    connection: &mut SqliteConnection,
    crowd: &[&Told],
) -> Result<Vec<Outcome>, sqlx::Error> {
    let events = crowd.iter().filter_map(|told| match told {
        Told::Event { event, sealed, .. } => Some((&**event, sealed.as_ref())),
        Told::Exchange { .. } => None,
    });
    let events: Vec<_> = events.collect();
    let mut places = read_places(connection, &events).await?;
    let mut outcomes = Vec::with_capacity(crowd.len());
    let (mut accepted, mut exchanges) = (Vec::new(), Vec::new());
    for told in crowd {
        outcomes.push(match told {
            Told::Event { event, sealed, .. } => match places.get_mut(&event.run) {
                Some(place) if place.is_open && event.seq == place.last + 1 => {
                    place.last = event.seq;
                    place.is_open = !status_after(event).is_some_and(RunStatus::is_final);
                    accepted.push((&**event, sealed.as_ref()));
                    Outcome::Done
                }
                _ => Outcome::OutOfTurn,
            },
            Told::Exchange { run, step, exchange } => {
                exchanges.push((run, step, text_of(exchange)?));
                Outcome::Done
            }
        });
    }
    if !exchanges.is_empty() {
        sqlx::query(
            "INSERT OR REPLACE INTO exchange (run, step, exchange)
             SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(?1)
             WHERE value ->> 0 IN (SELECT id FROM run)",
        )
        .bind(text_of(&exchanges)?)
        .execute(&mut *connection)
        .await?;
    }
    add(connection, &accepted).await?;
    Ok(outcomes)
}

/// Writes the first event of a run.
pub(super) async fn add_first(
    connection: &mut SqliteConnection,
    event: &Event,
    sealed: Option<&Sealed>,
) -> Result<(), sqlx::Error> {
    add(connection, &[(event, sealed)]).await
}

async fn read_places(
    connection: &mut SqliteConnection,
    events: &[(&Event, Option<&Sealed>)],
) -> Result<BTreeMap<Uuid, Place>, sqlx::Error> {
    let runs: BTreeSet<Uuid> = events.iter().map(|(event, _)| event.run).collect();
    if runs.is_empty() {
        return Ok(BTreeMap::new());
    }
    let rows: Vec<(String, bool, i64)> = sqlx::query_as(
        "SELECT id, status IN ('running', 'waiting'),
                (SELECT COALESCE(MAX(seq), 0) FROM event WHERE run = id)
         FROM run WHERE id IN (SELECT value FROM json_each(?1))",
    )
    .bind(text_of(&runs)?)
    .fetch_all(connection)
    .await?;
    let read = |(id, is_open, last): (String, bool, i64)| {
        let id: Uuid = id.parse().map_err(|error| sqlx::Error::Decode(Box::new(error)))?;
        Ok((id, Place { last: u64::try_from(last).unwrap_or_default(), is_open }))
    };
    rows.into_iter().map(read).collect()
}

/// Writes events that are in turn, with what they change in their runs.
async fn add(
    connection: &mut SqliteConnection,
    events: &[(&Event, Option<&Sealed>)],
) -> Result<(), sqlx::Error> {
    if events.is_empty() {
        return Ok(());
    }
    let rows = events.iter().map(|(event, _)| Ok((event.run, event.seq, text_of(event)?)));
    let rows: Vec<_> = rows.collect::<Result<_, sqlx::Error>>()?;
    sqlx::query(
        "INSERT INTO event (run, seq, type, event)
         SELECT value ->> 0, value ->> 1, value ->> 2 ->> 'type', value ->> 2 FROM json_each(?1)",
    )
    .bind(text_of(&rows)?)
    .execute(&mut *connection)
    .await?;
    for (event, sealed) in events {
        if let Some(sealed) = sealed {
            add_sealed(connection, event, sealed).await?;
        }
        if let Some(status) = status_after(event) {
            set_status(connection, event, status).await?;
        }
    }
    Ok(())
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
