//! Writes of many runs together, events and exchanges: a statement costs two thread switches, and many runs
//! write many items at the same time.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use a2s_api::{RunEvent, RunStatus};
use sqlx::SqliteConnection;
use uuid::Uuid;

use crate::journal::store::LeaseEpoch;
use crate::journal::store::batch_writer::{MAX_BATCH, TaskOutcome};
use crate::journal::store::persisted_item::{JournalItem, number, status_after, to_json_text};
use crate::journal::store::run_queue::status_columns;
use crate::vault::Ciphertext;

/// The numbers of events, and of exchanges, that a statement can write. The smallest sufficient one is
/// used, and its unused rows are null: so there are few statements, and each is compiled once.
const SIZES: [usize; 4] = [8, 32, 96, MAX_BATCH];

const TOO_MANY: &str = "more items at a time than there are statements for";
/// The number of columns: run, epoch, step and exchange.
const EXCHANGE_COLUMNS: usize = 4;
/// The number of columns: run, epoch, number, text, and the number of earlier events of the run.
const EVENT_COLUMNS: usize = 5;

/// The statements for one number of rows.
struct InsertStatements {
    size: usize,
    /// Inserts exchanges, then events, if all events are in turn, and returns the number of inserted
    /// events. An event is in turn when it follows the last one of its run, and its epoch is that of the
    /// run. This is checked for the first event of each run, since the others follow it (see
    /// [`insert_together`]).
    insert: String,
    /// The same statement inside a transaction, so that all of it needs only one change of thread.
    commit: String,
}

static STATEMENTS: LazyLock<[InsertStatements; SIZES.len()]> = LazyLock::new(|| {
    SIZES.map(|size| {
        let rows = |columns: usize| {
            let row = format!("({})", vec!["?"; columns].join(", "));
            vec![row; size].join(", ")
        };
        let insert = format!(
            "INSERT OR REPLACE INTO exchange (run, step, exchange)
             SELECT column1, column3, column4 FROM (VALUES {})
             WHERE EXISTS (SELECT 1 FROM run WHERE id = column1 AND epoch = column2);
             WITH item (run, epoch, seq, event, before) AS MATERIALIZED (VALUES {}),
                  late AS (
                      SELECT 1 FROM item
                      WHERE before = 0
                        AND (seq IS NOT 1 + (SELECT MAX(seq) FROM event WHERE run = item.run)
                             OR NOT EXISTS (SELECT 1 FROM run WHERE id = item.run AND epoch = item.epoch
                                            AND status IN ('running', 'waiting'))))
             INSERT INTO event (run, seq, type, event)
             SELECT run, seq, event ->> 'type', event FROM item
             WHERE run IS NOT NULL AND NOT EXISTS (SELECT 1 FROM late);
             SELECT changes()",
            rows(EXCHANGE_COLUMNS),
            rows(EVENT_COLUMNS),
        );
        let commit = format!("BEGIN IMMEDIATE; {insert}; COMMIT");
        InsertStatements { size, insert, commit }
    })
});

/// Commits the items of runs, if they are plain. `None` when they have to be written as part of a
/// transaction.
pub(super) async fn commit_items(
    connection: &mut SqliteConnection,
    crowd: &[&JournalItem],
) -> Result<Option<Vec<TaskOutcome>>, sqlx::Error> {
    if !crowd.iter().all(|item| item.is_plain()) {
        return Ok(None);
    }
    match insert(connection, |statements| &statements.commit, crowd).await {
        Ok(outcomes) => Ok(Some(outcomes)),
        Err(error) => {
            // Fails where nothing was begun, which is as good.
            let _ = sqlx::query("ROLLBACK").execute(connection).await;
            Err(error)
        }
    }
}

/// Writes the items of runs, in order. An event is left out if it does not follow the last one of its run,
/// or comes when the run is over.
pub(super) async fn write_items(
    connection: &mut SqliteConnection,
    crowd: &[&JournalItem],
) -> Result<Vec<TaskOutcome>, sqlx::Error> {
    if crowd.is_empty() {
        return Ok(Vec::new());
    }
    let outcomes = insert(connection, |statements| &statements.insert, crowd).await?;
    for (item, outcome) in crowd.iter().zip(&outcomes) {
        if let (JournalItem::Event { event, besides, .. }, TaskOutcome::Done) = (item, outcome) {
            if let Some(sealed) = &besides.sealed {
                add_sealed(connection, event, sealed).await?;
            }
            if let Some(obsolete) = besides.obsolete {
                delete_sealed(connection, event.run, obsolete).await?;
            }
            if let Some(status) = status_after(event) {
                set_status(connection, event, status).await?;
            }
        }
    }
    Ok(outcomes)
}

/// Selects one of the statements of a size.
type Choice = fn(&'static InsertStatements) -> &'static String;

async fn insert(
    connection: &mut SqliteConnection,
    choice: Choice,
    crowd: &[&JournalItem],
) -> Result<Vec<TaskOutcome>, sqlx::Error> {
    if insert_together(connection, choice, crowd).await? {
        return Ok(crowd.iter().map(|_| TaskOutcome::Done).collect());
    }
    // One that is out of turn keeps the others out: alone each of them is right.
    let mut outcomes = Vec::with_capacity(crowd.len());
    for item in crowd {
        let done = crowd.len() > 1 && insert_together(connection, choice, &[item]).await?;
        outcomes.push(if done { TaskOutcome::Done } else { TaskOutcome::OutOfTurn });
    }
    Ok(outcomes)
}

/// Inserts all items in one statement. Returns true when all events were in turn; otherwise no event is
/// inserted.
async fn insert_together(
    connection: &mut SqliteConnection,
    choice: Choice,
    crowd: &[&JournalItem],
) -> Result<bool, sqlx::Error> {
    let statements = STATEMENTS.iter().find(|statements| crowd.len() <= statements.size);
    let statements = statements.ok_or_else(|| sqlx::Error::Protocol(TOO_MANY.to_owned()))?;
    let mut query = sqlx::query_scalar(choice(statements).as_str());
    let mut left = statements.size;
    for item in crowd {
        if let JournalItem::Exchange { run, epoch: LeaseEpoch(epoch), step, exchange } = item {
            query =
                query.bind(run.to_string()).bind(epoch).bind(step).bind(to_json_text(exchange)?);
            left -= 1;
        }
    }
    for _ in 0..left * EXCHANGE_COLUMNS {
        query = query.bind(None::<i64>);
    }
    let mut events = 0;
    let mut before: BTreeMap<Uuid, (u64, LeaseEpoch, i64)> = BTreeMap::new();
    for item in crowd {
        let JournalItem::Event { event, epoch, .. } = item else { continue };
        let (first, of_first, count) = before.entry(event.run).or_insert((event.seq, *epoch, 0));
        let follows = event.seq.checked_sub(*first) == u64::try_from(*count).ok();
        if !follows || epoch != of_first {
            return Ok(false);
        }
        query = query
            .bind(event.run.to_string())
            .bind(epoch.0)
            .bind(number(event.seq))
            .bind(to_json_text(event)?)
            .bind(*count);
        *count += 1;
        events += 1;
    }
    // Unbound parameters are null. Fetches all rows (there is one): taking only the first skips the
    // statements after it.
    let inserted: Vec<i64> = query.fetch_all(connection).await?;
    Ok(inserted == [events])
}

/// Writes an event of a new run.
pub(super) async fn insert_first_event(
    connection: &mut SqliteConnection,
    event: &RunEvent,
    sealed: Option<&Ciphertext>,
) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO event (run, seq, type, event) VALUES (?1, ?2, ?3 ->> 'type', ?3)")
        .bind(event.run.to_string())
        .bind(number(event.seq))
        .bind(to_json_text(event)?)
        .execute(&mut *connection)
        .await?;
    match sealed {
        Some(sealed) => add_sealed(connection, event, sealed).await,
        None => Ok(()),
    }
}

async fn add_sealed(
    connection: &mut SqliteConnection,
    event: &RunEvent,
    sealed: &Ciphertext,
) -> Result<(), sqlx::Error> {
    let Ciphertext { key_id, nonce, bytes } = sealed;
    sqlx::query("INSERT INTO sealed (run, seq, key_id, nonce, sealed) VALUES (?1, ?2, ?3, ?4, ?5)")
        .bind(event.run.to_string())
        .bind(number(event.seq))
        .bind(key_id)
        .bind(nonce)
        .bind(bytes)
        .execute(connection)
        .await?;
    Ok(())
}

/// Deletes the values that are sealed with the event of this number.
async fn delete_sealed(
    connection: &mut SqliteConnection,
    run: Uuid,
    seq: u64,
) -> Result<(), sqlx::Error> {
    sqlx::query("DELETE FROM sealed WHERE run = ?1 AND seq = ?2")
        .bind(run.to_string())
        .bind(number(seq))
        .execute(connection)
        .await?;
    Ok(())
}

async fn set_status(
    connection: &mut SqliteConnection,
    event: &RunEvent,
    status: RunStatus,
) -> Result<(), sqlx::Error> {
    let (column, queued) = status_columns(status);
    let ended_at = Some(event.at.as_millisecond()).filter(|_| status.is_final());
    sqlx::query(
        "UPDATE run SET status = ?2, ended_at = ?3, queued = ?4, owner = NULL, lease_until = NULL,
             takeovers = 0
         WHERE id = ?1",
    )
    .bind(event.run.to_string())
    .bind(column)
    .bind(ended_at)
    .bind(queued)
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
