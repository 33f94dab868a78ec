//! The statements for items in SQLite: a statement costs two thread switches, and many runs write many items
//! at the same time.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use a2s_api::{RunEvent, RunStatus};
use serde_json::json;
use sqlx::SqliteConnection;
use uuid::Uuid;

use super::{changing_events, ended_at};
use crate::journal::store::batch_writer::{MAX_BATCH, TaskOutcome};
use crate::journal::store::persisted_item::{JournalItem, YIELDING_WAITS, number, to_json_text};
use crate::journal::store::run_queue::status_columns;
use crate::journal::store::{LeaseEpoch, to_count};

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
    /// events. If there are any, it also changes the runs that begin to wait or end with them. An event is
    /// in turn when it follows the last one of its run, its epoch is that of the run, and it does not yield
    /// to a cancellation of the run. This is checked for the first event of each run, since the others
    /// follow it (see [`insert_together`]).
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
                                            AND status IN ('running', 'waiting')
                                            AND (cancel_requested = 0
                                                 OR item.event ->> 'type' <> 'run_waiting'
                                                 OR item.event ->> '$.error.code' NOT IN ('{yielding}')))))
             INSERT INTO event (run, seq, type, event)
             SELECT run, seq, event ->> 'type', event FROM item
             WHERE run IS NOT NULL AND NOT EXISTS (SELECT 1 FROM late);
             SELECT changes();
             UPDATE run SET status = change.value ->> 1, queued = change.value ->> 2,
                 ended_at = change.value ->> 3, owner = NULL, lease_until = NULL, takeovers = 0
             FROM json_each(${changes}) AS change
             WHERE run.id = change.value ->> 0 AND changes() > 0;
             DELETE FROM sealed
             WHERE run IN (SELECT value ->> 0 FROM json_each(${changes})
                           WHERE value ->> 3 IS NOT NULL)
               AND changes() > 0",
            rows(EXCHANGE_COLUMNS),
            rows(EVENT_COLUMNS),
            yielding = YIELDING_WAITS.map(|kind| kind.code().id).join("', '"),
            changes = size * (EXCHANGE_COLUMNS + EVENT_COLUMNS) + 1,
        );
        let commit = format!("BEGIN IMMEDIATE; {insert}; COMMIT");
        InsertStatements { size, insert, commit }
    })
});

/// Commits plain items of runs.
pub(super) async fn commit_items(
    connection: &mut SqliteConnection,
    crowd: &[&JournalItem],
) -> Result<Vec<TaskOutcome>, sqlx::Error> {
    let committed = insert_by(connection, |statements| &statements.commit, crowd).await;
    if committed.is_err() {
        // Fails where nothing was begun, which is as good.
        let _ = sqlx::query("ROLLBACK").execute(connection).await;
    }
    committed
}

/// Writes the items of runs, in order.
pub(super) async fn insert(
    connection: &mut SqliteConnection,
    crowd: &[&JournalItem],
) -> Result<Vec<TaskOutcome>, sqlx::Error> {
    insert_by(connection, |statements| &statements.insert, crowd).await
}

/// The columns of a run after an event that changes it: id, status, queued, and the time of its end.
fn to_change((event, status): (&RunEvent, RunStatus)) -> serde_json::Value {
    let (column, queued) = status_columns(status);
    json!([event.run, column, queued, ended_at(event, status)])
}

/// Selects one of the statements of a size.
type Choice = fn(&'static InsertStatements) -> &'static String;

async fn insert_by(
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
    }
    let events = crowd.len() + left - statements.size;
    let changes: serde_json::Value = changing_events(crowd).map(to_change).collect();
    if changes != json!([]) {
        for _ in 0..(statements.size - events) * EVENT_COLUMNS {
            query = query.bind(None::<i64>);
        }
        query = query.bind(changes.to_string());
    }
    // Unbound parameters are null. Fetches all rows (there is one): taking only the first skips the
    // statements after it.
    let inserted: Vec<i64> = query.fetch_all(connection).await?;
    Ok(inserted == [to_count(events)])
}
