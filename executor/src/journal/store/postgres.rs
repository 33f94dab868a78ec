//! Runs in a PostgreSQL database, which several executors can share.
//!
//! Whatever one executor does to a run holds the row of the run to the end of its transaction, and
//! looks at that row's epoch when it has it. So the journal has one writer at a time, however late an
//! executor learns that its run was given to another one. Rows are locked in the order of their ids.

mod writer_task;

use a2s::Secret;
use a2s::api::Event;
use sqlx::postgres::{PgConnection, PgPool};
use uuid::Uuid;

use self::writer_task::{add_sealed, commit_told, tell};
use super::batch_writer::{Job, Outcome, Task, Writer};
use super::notifications::{TELL_CANCEL, TELL_FREE};
use super::persisted_item::{number, text_of};
use super::run_queue::{IS_ANY, LOAD, Place, next_turns, note_turns, turns_of};
use super::{
    Caps, ClaimedRow, Created, Epoch, Lease, Load, NewPlan, NewRun, Opened, milliseconds,
    parse_ids, parse_owner_of_key, plans, to_claimed, to_held,
};
use crate::config::Durability;
use crate::database::postgres::Server;
use crate::database::{Pool, failed};
use crate::error::Error;

/// Connections of one executor for its runs.
const CONNECTIONS: u32 = 8;

/// Opens the database, and brings its schema up to date.
pub(super) async fn open(address: &Secret, durability: Durability) -> Result<Opened, Error> {
    let server = Server::read(address)?;
    server.migrate().await?;
    let pool = server.pool(CONNECTIONS, durability == Durability::Normal);
    let identity: String = sqlx::query_scalar("SELECT identity FROM executor")
        .fetch_one(&pool)
        .await
        .map_err(failed(super::WHAT))?;
    let (reads, writer) = (Pool::Postgres(pool.clone()), Writer::Postgres(pool));
    Ok(Opened { reads, writer, identity, lock: None })
}

/// Does jobs of the writer, in order and together.
pub(super) async fn commit(pool: &PgPool, jobs: &[Job]) -> Result<Vec<Outcome>, sqlx::Error> {
    let told = jobs.iter().map(|job| match &job.task {
        Task::Tell(told) if told.is_plain() => Some(told),
        _ => None,
    });
    if let Some(crowd) = told.collect::<Option<Vec<_>>>()
        && let Some(outcomes) = commit_told(pool, &crowd).await?
    {
        return Ok(outcomes);
    }
    let mut transaction = pool.begin().await?;
    let mut outcomes = Vec::with_capacity(jobs.len());
    let mut crowd = Vec::new();
    for job in jobs {
        match &job.task {
            Task::Tell(told) if told.is_plain() => {
                crowd.push(told);
                continue;
            }
            _ => outcomes.extend(tell(&mut transaction, &std::mem::take(&mut crowd)).await?),
        }
        match &job.task {
            Task::Tell(told) => outcomes.extend(tell(&mut transaction, &[told]).await?),
            Task::Renew { lease, live } => {
                outcomes.push(renew(&mut transaction, *lease, live).await?);
            }
            // Everything else has a transaction of its own.
            _ => outcomes.push(Outcome::Done),
        }
    }
    outcomes.extend(tell(&mut transaction, &crowd).await?);
    transaction.commit().await?;
    Ok(outcomes)
}

/// Performs a task that need not wait for the writes of runs.
pub(super) async fn perform(pool: &PgPool, task: &Task) -> Result<Outcome, sqlx::Error> {
    let mut transaction = pool.begin().await?;
    let connection = &mut *transaction;
    let outcome = match task {
        Task::Create(run) => create(connection, run).await?,
        Task::KeepPlan(plan) => keep_plan(connection, plan).await?,
        Task::SweepPlans(now) => {
            sqlx::query(plans::EMPTY).bind(now.as_millisecond()).execute(&mut *connection).await?;
            let before = plans::forgotten_before(*now);
            sqlx::query(plans::FORGET).bind(before).execute(connection).await?;
            Outcome::Done
        }
        Task::RequestCancel(run) => {
            sqlx::query("UPDATE run SET cancel_requested = 1 WHERE id = $1")
                .bind(run.to_string())
                .execute(&mut *connection)
                .await?;
            sqlx::query(TELL_CANCEL).bind(run.to_string()).execute(connection).await?;
            Outcome::Done
        }
        Task::MarkReported(runs) => {
            sqlx::query(
                "UPDATE run SET reported = 1 WHERE id IN
                     (SELECT id FROM run WHERE id = ANY($1) AND reported = 0
                      ORDER BY id FOR NO KEY UPDATE)",
            )
            .bind(texts(runs))
            .execute(connection)
            .await?;
            Outcome::Done
        }
        Task::Delete(run) => {
            let over = "SELECT id FROM run WHERE id = $1 AND ended_at IS NOT NULL FOR UPDATE";
            let ids = sqlx::query_scalar(over).bind(run.to_string());
            let ids: Vec<String> = ids.fetch_all(&mut *connection).await?;
            delete(connection, &ids).await?
        }
        Task::Forget { before, limit } => {
            // Those that another executor is just forgetting are left to it.
            let over = "SELECT id FROM run WHERE ended_at < $1 ORDER BY ended_at LIMIT $2
                        FOR UPDATE SKIP LOCKED";
            let ids = sqlx::query_scalar(over).bind(before.as_millisecond());
            let ids = ids.bind(i64::try_from(*limit).unwrap_or(i64::MAX));
            let ids: Vec<String> = ids.fetch_all(&mut *connection).await?;
            delete(connection, &ids).await?
        }
        Task::Claim { lease, live, caps, limit } => {
            claim(connection, *lease, live, caps, *limit).await?
        }
        Task::Release { owner } => {
            sqlx::query(
                "UPDATE run SET owner = NULL, lease_until = NULL, epoch = epoch + 1 WHERE id IN
                     (SELECT id FROM run WHERE owner = $1 ORDER BY id FOR NO KEY UPDATE)",
            )
            .bind(owner.to_string())
            .execute(&mut *connection)
            .await?;
            sqlx::query(TELL_FREE).execute(connection).await?;
            Outcome::Done
        }
        Task::Probe => {
            // A server that only reads refuses it, though it changes nothing.
            sqlx::query("UPDATE executor SET identity = identity WHERE false")
                .execute(connection)
                .await?;
            Outcome::Done
        }
        // The writer's.
        Task::Tell(_) | Task::Renew { .. } => Outcome::OutOfTurn,
    };
    // A plan that was gone takes back the run that was made for it, and so does a full queue.
    if matches!(outcome, Outcome::Created(Created::PlanGone | Created::Full)) {
        transaction.rollback().await?;
    } else {
        transaction.commit().await?;
    }
    Ok(outcome)
}

async fn create(connection: &mut PgConnection, run: &NewRun) -> Result<Outcome, sqlx::Error> {
    let place = place_of(connection, run).await?;
    let lease = run.lease.filter(|_| place == Place::Begins);
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
    .bind(lease.map(|lease| milliseconds(lease.length)))
    .bind(Epoch::FIRST.0)
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
        return Ok(Outcome::Created(Created::Existing(id, digest)));
    }
    // One that has a key which is known is none too many.
    if place == Place::Nowhere {
        return Ok(Outcome::Created(Created::Full));
    }
    if let Some(plan) = run.plan {
        let used = sqlx::query(plans::USE_UP)
            .bind(plan.to_string())
            .bind(run.first.run.to_string())
            .bind(run.first.at.as_millisecond())
            .execute(&mut *connection)
            .await?;
        if used.rows_affected() == 0 {
            return Ok(Outcome::Created(Created::PlanGone));
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
        return Ok(Outcome::Created(Created::New));
    }
    add_event(connection, &run.queued(), "run_queued").await?;
    // Another executor may have room.
    sqlx::query(TELL_FREE).execute(connection).await?;
    Ok(Outcome::Created(Created::Queued))
}

/// Decides on a new run. If it needs only a slot at an executor, and has one, no query is made.
async fn place_of(connection: &mut PgConnection, run: &NewRun) -> Result<Place, sqlx::Error> {
    if run.room.needs_only_a_place(run.lease.is_some()) {
        return Ok(Place::Begins);
    }
    lock_queue(connection).await?;
    let (begun, queued) =
        sqlx::query_as(LOAD).bind(run.tenant.to_string()).fetch_one(connection).await?;
    Ok(run.room.place(run.lease.is_some(), || Load { begun, queued }))
}

/// Waits for those before it that count runs of tenants and change what they have counted; the lock is
/// held to the end of the transaction.
async fn lock_queue(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    let lock = "SELECT one FROM executor WHERE one = 1 FOR NO KEY UPDATE";
    sqlx::query(lock).execute(connection).await.map(|_| ())
}

async fn add_event(
    connection: &mut PgConnection,
    event: &Event,
    kind: &str,
) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO event (run, seq, type, event) VALUES ($1, $2, $3, $4)")
        .bind(event.run.to_string())
        .bind(number(event.seq))
        .bind(kind)
        .bind(text_of(event)?)
        .execute(connection)
        .await
        .map(|_| ())
}

/// Deletes runs with locked rows.
async fn delete(connection: &mut PgConnection, ids: &[String]) -> Result<Outcome, sqlx::Error> {
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
    lease: Lease,
    live: &[Uuid],
    caps: &Caps,
    limit: usize,
) -> Result<Outcome, sqlx::Error> {
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
    .bind(milliseconds(lease.length))
    .bind(texts(live))
    .bind(i64::try_from(limit).unwrap_or(i64::MAX))
    .fetch_all(&mut *connection)
    .await?;
    let is_any: bool = sqlx::query_scalar(IS_ANY).fetch_one(&mut *connection).await?;
    let left = limit.saturating_sub(claimed.len());
    if !is_any || left == 0 {
        return to_claimed(&claimed, is_any);
    }
    claimed.extend(begin(connection, lease, caps, left).await?);
    let is_any = sqlx::query_scalar(IS_ANY).fetch_one(connection).await?;
    to_claimed(&claimed, is_any)
}

/// Gives at most `limit` runs that wait to an executor, as they have their turn.
async fn begin(
    connection: &mut PgConnection,
    lease: Lease,
    caps: &Caps,
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
    .bind(milliseconds(lease.length))
    .bind(ids)
    .fetch_all(&mut *connection)
    .await?;
    next.retain(|(id, _)| begun.iter().any(|(begun, ..)| begun == id));
    sqlx::query(note_turns!("SELECT key, value::bigint FROM json_each_text($1::json)"))
        .bind(turns_of(&next))
        .execute(connection)
        .await?;
    Ok(begun)
}

async fn renew(
    connection: &mut PgConnection,
    lease: Lease,
    live: &[(Uuid, Epoch)],
) -> Result<Outcome, sqlx::Error> {
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
    .bind(milliseconds(lease.length))
    .bind(runs)
    .bind(epochs)
    .fetch_all(connection)
    .await?;
    to_held(&held)
}

async fn keep_plan(connection: &mut PgConnection, plan: &NewPlan) -> Result<Outcome, sqlx::Error> {
    let NewPlan { id, tenant, now, expires_at, sealed, most, most_own } = plan;
    let kept = sqlx::query(plans::KEEP)
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
    Ok(if kept.rows_affected() == 0 { Outcome::Full } else { Outcome::Done })
}

fn texts(runs: &[Uuid]) -> Vec<String> {
    runs.iter().map(Uuid::to_string).collect()
}
