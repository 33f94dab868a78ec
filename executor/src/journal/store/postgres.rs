//! Runs in a PostgreSQL database, which several executors can share.
//!
//! Whatever one executor does to a run holds the row of the run to the end of its transaction, and
//! looks at that row's epoch when it has it. So the journal has one writer at a time, however late an
//! executor learns that its run was given to another one. Rows are locked in the order of their ids.

mod writer_task;

use a2s::Secret;
use a2s_api::RunEvent;
use sqlx::postgres::{PgConnection, PgPool};
use uuid::Uuid;

use self::writer_task::{add_sealed, commit_items, write_items};
use super::batch_writer::{TaskOutcome, WriterBackend, WriterJob, WriterTask};
use super::notifications::{NOTIFY_CANCEL, NOTIFY_FREE};
use super::persisted_item::{number, to_json_text};
use super::run_queue::{IS_ANY, LOAD, QueueDecision, next_turns, note_turns, turns_json};
use super::{
    ClaimedRow, CreateResult, LeaseEpoch, LeaseTerms, NewPlan, NewRun, OpenedStore, TenantCaps,
    TenantLoad, parse_ids, parse_owner_of_key, plans, to_claimed_runs, to_milliseconds,
    to_renewed_runs,
};
use crate::config::Durability;
use crate::database::postgres::PostgresServer;
use crate::database::{DatabasePool, to_store_error};
use crate::error::Error;

/// The number of connections of one executor for its runs.
const CONNECTIONS: u32 = 8;

/// Opens the database, and brings its schema up to date.
pub(super) async fn open(address: &Secret, durability: Durability) -> Result<OpenedStore, Error> {
    let server = PostgresServer::parse(address)?;
    server.migrate().await?;
    let pool = server.pool(CONNECTIONS, durability == Durability::Normal);
    let identity: String = sqlx::query_scalar("SELECT identity FROM executor")
        .fetch_one(&pool)
        .await
        .map_err(to_store_error(super::WHAT))?;
    let (reads, writer) = (DatabasePool::Postgres(pool.clone()), WriterBackend::Postgres(pool));
    Ok(OpenedStore { reads, writer, identity, lock: None })
}

/// Performs jobs of the writer together and in order.
pub(super) async fn commit(
    pool: &PgPool,
    jobs: &[WriterJob],
) -> Result<Vec<TaskOutcome>, sqlx::Error> {
    let items = jobs.iter().map(|job| match &job.task {
        WriterTask::Append(item) if item.is_plain() => Some(item),
        _ => None,
    });
    if let Some(crowd) = items.collect::<Option<Vec<_>>>()
        && let Some(outcomes) = commit_items(pool, &crowd).await?
    {
        return Ok(outcomes);
    }
    let mut transaction = pool.begin().await?;
    let mut outcomes = Vec::with_capacity(jobs.len());
    let mut crowd = Vec::new();
    for job in jobs {
        match &job.task {
            WriterTask::Append(item) if item.is_plain() => {
                crowd.push(item);
                continue;
            }
            _ => outcomes.extend(write_items(&mut transaction, &std::mem::take(&mut crowd)).await?),
        }
        match &job.task {
            WriterTask::Append(item) => {
                outcomes.extend(write_items(&mut transaction, &[item]).await?)
            }
            WriterTask::Renew { lease, live } => {
                outcomes.push(renew(&mut transaction, *lease, live).await?);
            }
            // Everything else has a transaction of its own.
            _ => outcomes.push(TaskOutcome::Done),
        }
    }
    outcomes.extend(write_items(&mut transaction, &crowd).await?);
    transaction.commit().await?;
    Ok(outcomes)
}

/// Performs a task that need not wait for the writes of runs.
pub(super) async fn perform(pool: &PgPool, task: &WriterTask) -> Result<TaskOutcome, sqlx::Error> {
    let mut transaction = pool.begin().await?;
    let connection = &mut *transaction;
    let outcome = match task {
        WriterTask::Create(run) => create(connection, run).await?,
        WriterTask::StorePlan(plan) => store_plan(connection, plan).await?,
        WriterTask::SweepPlans(now) => {
            sqlx::query(plans::CLEAR_EXPIRED)
                .bind(now.as_millisecond())
                .execute(&mut *connection)
                .await?;
            let before = plans::forgotten_before(*now);
            sqlx::query(plans::DELETE_EXPIRED).bind(before).execute(connection).await?;
            TaskOutcome::Done
        }
        WriterTask::RequestCancel(run) => {
            sqlx::query("UPDATE run SET cancel_requested = 1 WHERE id = $1")
                .bind(run.to_string())
                .execute(&mut *connection)
                .await?;
            sqlx::query(NOTIFY_CANCEL).bind(run.to_string()).execute(connection).await?;
            TaskOutcome::Done
        }
        WriterTask::MarkReported(runs) => {
            sqlx::query(
                "UPDATE run SET reported = 1 WHERE id IN
                     (SELECT id FROM run WHERE id = ANY($1) AND reported = 0
                      ORDER BY id FOR NO KEY UPDATE)",
            )
            .bind(texts(runs))
            .execute(connection)
            .await?;
            TaskOutcome::Done
        }
        WriterTask::Delete(run) => {
            let over = "SELECT id FROM run WHERE id = $1 AND ended_at IS NOT NULL FOR UPDATE";
            let ids = sqlx::query_scalar(over).bind(run.to_string());
            let ids: Vec<String> = ids.fetch_all(&mut *connection).await?;
            delete(connection, &ids).await?
        }
        WriterTask::Forget { before, limit } => {
            // Those that another executor is just forgetting are left to it.
            let over = "SELECT id FROM run WHERE ended_at < $1 ORDER BY ended_at LIMIT $2
                        FOR UPDATE SKIP LOCKED";
            let ids = sqlx::query_scalar(over).bind(before.as_millisecond());
            let ids = ids.bind(i64::try_from(*limit).unwrap_or(i64::MAX));
            let ids: Vec<String> = ids.fetch_all(&mut *connection).await?;
            delete(connection, &ids).await?
        }
        WriterTask::Claim { lease, live, caps, limit } => {
            claim(connection, *lease, live, caps, *limit).await?
        }
        WriterTask::Release { owner } => {
            sqlx::query(
                "UPDATE run SET owner = NULL, lease_until = NULL, epoch = epoch + 1 WHERE id IN
                     (SELECT id FROM run WHERE owner = $1 ORDER BY id FOR NO KEY UPDATE)",
            )
            .bind(owner.to_string())
            .execute(&mut *connection)
            .await?;
            sqlx::query(NOTIFY_FREE).execute(connection).await?;
            TaskOutcome::Done
        }
        WriterTask::Probe => {
            // A server that only reads refuses it, though it changes nothing.
            sqlx::query("UPDATE executor SET identity = identity WHERE false")
                .execute(connection)
                .await?;
            TaskOutcome::Done
        }
        // The writer's.
        WriterTask::Append(_) | WriterTask::Renew { .. } => TaskOutcome::OutOfTurn,
    };
    // A plan that was gone takes back the run that was made for it, and so does a full queue.
    if matches!(outcome, TaskOutcome::Created(CreateResult::PlanGone | CreateResult::Full)) {
        transaction.rollback().await?;
    } else {
        transaction.commit().await?;
    }
    Ok(outcome)
}

async fn create(connection: &mut PgConnection, run: &NewRun) -> Result<TaskOutcome, sqlx::Error> {
    let place = decide_place(connection, run).await?;
    let lease = run.lease.filter(|_| place == QueueDecision::Start);
    // Of several with one key at once the first is waited for, and seen then.
    let inserted = sqlx::query(
        "INSERT INTO run
             (id, status, choices, owner, lease_until, epoch, idempotency_key, request_digest, name,
              tenant, queued)
         VALUES ($1, 'running', $2, $3, now_ms() + $4, $5, $6, $7, $8, $9, $10)
         ON CONFLICT (idempotency_key) DO NOTHING",
    )
    .bind(run.first.run.to_string())
    .bind(&run.choices)
    .bind(lease.map(|lease| lease.owner.to_string()))
    .bind(lease.map(|lease| to_milliseconds(lease.length)))
    .bind(LeaseEpoch::FIRST.0)
    .bind(&run.key)
    .bind(run.request_digest.to_string())
    .bind(run.name.as_str())
    .bind(run.tenant.to_string())
    .bind(i64::from(lease.is_none()))
    .execute(&mut *connection)
    .await?;
    if inserted.rows_affected() == 0 {
        let (id, digest): (String, String) =
            sqlx::query_as("SELECT id, request_digest FROM run WHERE idempotency_key = $1")
                .bind(&run.key)
                .fetch_one(connection)
                .await?;
        let (id, digest) = parse_owner_of_key(&id, &digest)
            .map_err(|error| sqlx::Error::Decode(Box::new(error)))?;
        return Ok(TaskOutcome::Created(CreateResult::Existing(id, digest)));
    }
    // One that has a key which is known is none too many.
    if place == QueueDecision::Refuse {
        return Ok(TaskOutcome::Created(CreateResult::Full));
    }
    if let Some(plan) = run.plan {
        let used = sqlx::query(plans::MARK_USED)
            .bind(plan.to_string())
            .bind(run.first.run.to_string())
            .bind(run.first.at.as_millisecond())
            .execute(&mut *connection)
            .await?;
        if used.rows_affected() == 0 {
            return Ok(TaskOutcome::Created(CreateResult::PlanGone));
        }
    }
    // In order: others may be storing the same ones.
    let mut documents: Vec<_> = run.documents.iter().collect();
    documents.sort();
    for (digest, source) in documents {
        sqlx::query("INSERT INTO document (digest, source) VALUES ($1, $2) ON CONFLICT DO NOTHING")
            .bind(digest.to_string())
            .bind(source)
            .execute(&mut *connection)
            .await?;
    }
    add_event(connection, &run.first, "run_started").await?;
    if let Some(sealed) = &run.sealed {
        add_sealed(connection, &run.first, sealed).await?;
    }
    if lease.is_some() {
        return Ok(TaskOutcome::Created(CreateResult::New));
    }
    add_event(connection, &run.queued_event(), "run_queued").await?;
    // Another executor may have room.
    sqlx::query(NOTIFY_FREE).execute(connection).await?;
    Ok(TaskOutcome::Created(CreateResult::Queued))
}

/// Decides on a new run. If it needs only a slot at an executor, and has one, no query is made.
async fn decide_place(
    connection: &mut PgConnection,
    run: &NewRun,
) -> Result<QueueDecision, sqlx::Error> {
    if run.quota.needs_slot_only(run.lease.is_some()) {
        return Ok(QueueDecision::Start);
    }
    lock_queue(connection).await?;
    let (begun, queued) =
        sqlx::query_as(LOAD).bind(run.tenant.to_string()).fetch_one(connection).await?;
    Ok(run.quota.decide(run.lease.is_some(), || TenantLoad { begun, queued }))
}

/// Waits for earlier transactions that count runs of tenants and change the counts. The lock is held until
/// the end of the transaction.
async fn lock_queue(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    let lock = "SELECT one FROM executor WHERE one = 1 FOR NO KEY UPDATE";
    sqlx::query(lock).execute(connection).await.map(|_| ())
}

async fn add_event(
    connection: &mut PgConnection,
    event: &RunEvent,
    kind: &str,
) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO event (run, seq, type, event) VALUES ($1, $2, $3, $4)")
        .bind(event.run.to_string())
        .bind(number(event.seq))
        .bind(kind)
        .bind(to_json_text(event)?)
        .execute(connection)
        .await
        .map(|_| ())
}

/// Deletes runs with locked rows.
async fn delete(connection: &mut PgConnection, ids: &[String]) -> Result<TaskOutcome, sqlx::Error> {
    for sql in [
        "DELETE FROM sealed WHERE run = ANY($1)",
        "DELETE FROM exchange WHERE run = ANY($1)",
        "DELETE FROM event WHERE run = ANY($1)",
        "DELETE FROM run WHERE id = ANY($1)",
    ] {
        sqlx::query(sql).bind(ids).execute(&mut *connection).await?;
    }
    parse_ids(ids)
}

async fn claim(
    connection: &mut PgConnection,
    lease: LeaseTerms,
    live: &[Uuid],
    caps: &TenantCaps,
    limit: usize,
) -> Result<TaskOutcome, sqlx::Error> {
    // Those that another executor is just claiming are left to it.
    let mut claimed: Vec<ClaimedRow> = sqlx::query_as(concat!(
        "UPDATE run SET owner = $1, lease_until = now_ms() + $2, ",
        give!(),
        "CASE WHEN owner IS NULL OR owner = $1 THEN 0 ELSE 1 END
         WHERE id IN (SELECT id FROM run
                      WHERE status = 'running' AND queued = 0
                        AND (owner IS NULL OR lease_until < now_ms())
                        AND id <> ALL($3)
                      ORDER BY id LIMIT $4 FOR NO KEY UPDATE SKIP LOCKED)
         RETURNING id, epoch, takeovers",
    ))
    .bind(lease.owner.to_string())
    .bind(to_milliseconds(lease.length))
    .bind(texts(live))
    .bind(i64::try_from(limit).unwrap_or(i64::MAX))
    .fetch_all(&mut *connection)
    .await?;
    let is_any: bool = sqlx::query_scalar(IS_ANY).fetch_one(&mut *connection).await?;
    let left = limit.saturating_sub(claimed.len());
    if !is_any || left == 0 {
        return to_claimed_runs(&claimed, is_any);
    }
    claimed.extend(start_queued(connection, lease, caps, left).await?);
    let is_any = sqlx::query_scalar(IS_ANY).fetch_one(connection).await?;
    to_claimed_runs(&claimed, is_any)
}

/// Assigns at most `limit` waiting runs to an executor, in the order of their turns.
async fn start_queued(
    connection: &mut PgConnection,
    lease: LeaseTerms,
    caps: &TenantCaps,
    limit: usize,
) -> Result<Vec<ClaimedRow>, sqlx::Error> {
    // Two that choose at once would both choose for the same tenant.
    lock_queue(connection).await?;
    let (own, default) = caps.to_columns();
    let next = next_turns!(
        "SELECT key, value::bigint FROM json_each_text($1::json)",
        "split_part(waiting.tenant, '/', 1)"
    );
    let mut next: Vec<(String, String)> = sqlx::query_as(next)
        .bind(own)
        .bind(default)
        .bind(i64::try_from(limit).unwrap_or(i64::MAX))
        .fetch_all(&mut *connection)
        .await?;
    let ids: Vec<&str> = next.iter().map(|(id, _)| id.as_str()).collect();
    // One that is just being cancelled is not waited for.
    let begun: Vec<ClaimedRow> = sqlx::query_as(concat!(
        "UPDATE run SET owner = $1, lease_until = now_ms() + $2, queued = 0, ",
        give!(),
        "0
         WHERE id IN (SELECT id FROM run WHERE id = ANY($3) AND status = 'running' AND queued = 1
                      ORDER BY id FOR NO KEY UPDATE SKIP LOCKED)
         RETURNING id, epoch, takeovers",
    ))
    .bind(lease.owner.to_string())
    .bind(to_milliseconds(lease.length))
    .bind(ids)
    .fetch_all(&mut *connection)
    .await?;
    next.retain(|(id, _)| begun.iter().any(|(begun, ..)| begun == id));
    sqlx::query(note_turns!("SELECT key, value::bigint FROM json_each_text($1::json)"))
        .bind(turns_json(&next))
        .execute(connection)
        .await?;
    Ok(begun)
}

async fn renew(
    connection: &mut PgConnection,
    lease: LeaseTerms,
    live: &[(Uuid, LeaseEpoch)],
) -> Result<TaskOutcome, sqlx::Error> {
    let (runs, epochs): (Vec<String>, Vec<i64>) =
        live.iter().map(|(run, epoch)| (run.to_string(), epoch.0)).unzip();
    let held: Vec<(String, i64)> = sqlx::query_as(
        "UPDATE run SET lease_until = now_ms() + $1 WHERE id IN
             (SELECT run.id FROM run
              JOIN unnest($2::text[], $3::bigint[]) AS live (id, epoch)
                ON live.id = run.id AND live.epoch = run.epoch
              WHERE run.status = 'running' ORDER BY run.id FOR NO KEY UPDATE OF run)
         RETURNING id, cancel_requested",
    )
    .bind(to_milliseconds(lease.length))
    .bind(runs)
    .bind(epochs)
    .fetch_all(connection)
    .await?;
    to_renewed_runs(&held)
}

async fn store_plan(
    connection: &mut PgConnection,
    plan: &NewPlan,
) -> Result<TaskOutcome, sqlx::Error> {
    let NewPlan { id, tenant, now, expires_at, sealed, most, most_own } = plan;
    let kept = sqlx::query(plans::INSERT_PLAN)
        .bind(id.to_string())
        .bind(expires_at.as_millisecond())
        .bind(&sealed.key_id)
        .bind(&sealed.nonce)
        .bind(&sealed.bytes)
        .bind(now.as_millisecond())
        .bind(i64::try_from(*most).unwrap_or(i64::MAX))
        .bind(tenant.to_string())
        .bind(i64::try_from(*most_own).unwrap_or(i64::MAX))
        .execute(connection)
        .await?;
    Ok(if kept.rows_affected() == 0 { TaskOutcome::Full } else { TaskOutcome::Done })
}

fn texts(runs: &[Uuid]) -> Vec<String> {
    runs.iter().map(Uuid::to_string).collect()
}
