//! The statement for items in PostgreSQL: a statement costs a round trip to the server, and many runs write
//! many items at the same time.

use std::collections::{BTreeMap, BTreeSet};

use a2s_api::RunStatus;
use serde::Deserialize;
use sqlx::postgres::{PgConnection, PgExecutor};
use uuid::Uuid;

use super::{changing_events, ended_at};
use crate::journal::store::LeaseEpoch;
use crate::journal::store::batch_writer::TaskOutcome;
use crate::journal::store::notifications::{CHANNEL, Notification};
use crate::journal::store::persisted_item::{JournalItem, number, to_json_text};
use crate::journal::store::run_queue::status_columns;

/// Inserts events and exchanges of the runs with a row in the epoch of these items, if the first new event
/// follows the last one of the run, and it does not yield to a cancellation of the run. Returns those runs.
/// Their rows are locked, so that no executor takes one over in between. Changes the runs that begin to wait or end with these events, and notifies the other
/// executors of that.
const INSERT: &str = "
    WITH held AS MATERIALIZED (
        SELECT run.id FROM run
        JOIN unnest($1::text[], $2::bigint[], $3::bigint[]) AS claim (id, epoch, first)
          ON claim.id = run.id AND claim.epoch = run.epoch
        WHERE run.status IN ('running', 'waiting')
          AND (claim.first IS NULL
               OR claim.first = 1 + (SELECT max(seq) FROM event WHERE event.run = run.id))
          AND NOT (run.cancel_requested = 1 AND run.id = ANY($17))
        ORDER BY run.id
        FOR NO KEY UPDATE OF run
    ), exchanged AS (
        INSERT INTO exchange (run, step, exchange)
        SELECT item.run, item.step, item.exchange
        FROM unnest($4::text[], $5::text[], $6::text[]) AS item (run, step, exchange)
        JOIN held ON held.id = item.run
        ON CONFLICT (run, md5(step)) DO UPDATE SET exchange = excluded.exchange
    ), item AS (
        INSERT INTO event (run, seq, type, event)
        SELECT item.run, item.seq, item.type, item.event
        FROM unnest($7::text[], $8::bigint[], $9::text[], $10::text[])
            AS item (run, seq, type, event)
        JOIN held ON held.id = item.run
    ), changed AS (
        UPDATE run SET status = change.status, queued = change.queued,
            ended_at = change.ended_at, owner = NULL, lease_until = NULL, takeovers = 0
        FROM unnest($11::text[], $12::text[], $13::bigint[], $14::bigint[])
            AS change (id, status, queued, ended_at)
        JOIN held USING (id)
        WHERE run.id = change.id
    ), unsealed AS (
        DELETE FROM sealed USING unnest($11::text[], $14::bigint[]) AS change (id, ended_at)
        JOIN held USING (id)
        WHERE sealed.run = change.id AND change.ended_at IS NOT NULL
    )
    SELECT held.id,
           CASE WHEN note.text IS NOT NULL THEN pg_notify($16, note.text)::text END
    FROM held LEFT JOIN unnest($11::text[], $15::text[]) AS note (id, text) USING (id)";

/// Writes the items of runs, in order.
pub(super) async fn insert(
    connection: &mut PgConnection,
    crowd: &[&JournalItem],
) -> Result<Vec<TaskOutcome>, sqlx::Error> {
    if let Some(outcomes) = insert_together(&mut *connection, crowd).await? {
        return Ok(outcomes);
    }
    let mut outcomes = Vec::with_capacity(crowd.len());
    for item in crowd {
        let alone = insert_together(&mut *connection, &[item]).await?;
        outcomes.extend(alone.unwrap_or_else(|| vec![TaskOutcome::OutOfTurn]));
    }
    Ok(outcomes)
}

/// Inserts all items in one statement. `None` when the events of a run do not follow each other, or are for
/// several epochs: nothing is inserted then.
pub(super) async fn insert_together(
    executor: impl PgExecutor<'_>,
    crowd: &[&JournalItem],
) -> Result<Option<Vec<TaskOutcome>>, sqlx::Error> {
    // Epoch, first and next number of each run.
    let mut claims: BTreeMap<Uuid, (LeaseEpoch, Option<u64>, u64)> = BTreeMap::new();
    // The last of several answers of a step is the one.
    let mut exchanges = BTreeMap::new();
    let (mut runs, mut numbers) = (Vec::new(), Vec::new());
    let (mut kinds, mut texts) = (Vec::new(), Vec::new());
    for item in crowd {
        match item {
            JournalItem::Exchange { run, epoch, step, exchange } => {
                if claims.entry(*run).or_insert((*epoch, None, 0)).0 != *epoch {
                    return Ok(None);
                }
                exchanges.insert((*run, step.as_str()), to_json_text(exchange)?);
            }
            JournalItem::Event { event, epoch, .. } => {
                let (claimed, first, next) =
                    claims.entry(event.run).or_insert((*epoch, None, event.seq));
                if first.is_none() {
                    (*first, *next) = (Some(event.seq), event.seq);
                }
                if *claimed != *epoch || *next != event.seq {
                    return Ok(None);
                }
                *next += 1;
                runs.push(event.run.to_string());
                numbers.push(number(event.seq));
                let text = to_json_text(event)?;
                kinds.push(kind_of(&text)?);
                texts.push(text);
            }
        }
    }
    let ids: Vec<String> = claims.keys().map(Uuid::to_string).collect();
    let epochs: Vec<i64> = claims.values().map(|(epoch, ..)| epoch.0).collect();
    let firsts: Vec<Option<i64>> = claims.values().map(|(_, first, _)| first.map(number)).collect();
    let asked: Vec<String> = exchanges.keys().map(|(run, _)| run.to_string()).collect();
    let steps: Vec<&str> = exchanges.keys().map(|(_, step)| *step).collect();
    let exchanges: Vec<String> = exchanges.values().cloned().collect();
    let changes: Vec<_> = changing_events(crowd).collect();
    let changed: Vec<String> = changes.iter().map(|(event, _)| event.run.to_string()).collect();
    let (statuses, queued): (Vec<&str>, Vec<i64>) =
        changes.iter().map(|(_, status)| status_columns(*status)).unzip();
    let ended: Vec<_> = changes.iter().map(|(event, status)| ended_at(event, *status)).collect();
    let yielding = crowd.iter().filter(|item| item.yields_to_cancel());
    let yielding: Vec<String> = yielding.map(|item| item.run().to_string()).collect();
    let notes: Vec<_> = changes.iter().map(|(_, status)| notification_after(*status)).collect();
    let held: Vec<String> = sqlx::query_scalar(INSERT)
        .bind(ids)
        .bind(epochs)
        .bind(firsts)
        .bind(asked)
        .bind(steps)
        .bind(exchanges)
        .bind(runs)
        .bind(numbers)
        .bind(kinds)
        .bind(texts)
        .bind(changed)
        .bind(statuses)
        .bind(queued)
        .bind(ended)
        .bind(notes)
        .bind(CHANNEL)
        .bind(yielding)
        .fetch_all(executor)
        .await?;
    let held: BTreeSet<String> = held.into_iter().collect();
    let outcome = |item: &&JournalItem| match item {
        JournalItem::Event { event, .. } if !held.contains(&event.run.to_string()) => {
            TaskOutcome::OutOfTurn
        }
        JournalItem::Event { .. } | JournalItem::Exchange { .. } => TaskOutcome::Done,
    };
    Ok(Some(crowd.iter().map(outcome).collect()))
}

/// The notification of the other executors of a run in a new state.
fn notification_after(status: RunStatus) -> Option<String> {
    let notification = match status {
        // The resolving executor takes it over, or leaves it to be found.
        RunStatus::Running => return None,
        RunStatus::Queued => Notification::RunsAvailable,
        _ => Notification::RunAtRest,
    };
    notification.to_payload()
}

/// The type of an event. It is read here because the server would have to parse the whole event for it, and
/// does not accept NUL in it.
fn kind_of(event: &str) -> Result<String, sqlx::Error> {
    #[derive(Deserialize)]
    struct EventType {
        r#type: String,
    }
    let typed: Result<EventType, _> = serde_json::from_str(event);
    typed.map(|typed| typed.r#type).map_err(|error| sqlx::Error::Encode(Box::new(error)))
}
