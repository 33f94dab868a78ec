//! The tasks of the writer, in SQL.
//!
//! Whatever one executor does to a run in PostgreSQL holds the row of the run to the end of its
//! transaction, and looks at that row's epoch when it has it. So the journal has one writer at a time,
//! however late an executor learns that its run was given to another one. Rows are locked in the order of
//! their ids. In SQLite a transaction that writes is alone.

use database::dialect::Engine;
use database::{Pool, Transaction};
use uuid::Uuid;

use super::append::{ItemBatch, WriterTarget, write_items};
use super::batch_writer::{TaskOutcome, WriterJob, WriterTask};
use super::create::{create, create_alone};
use super::notifications::{Notification, notify};
use super::run_queue::{IS_ANY, NEXT_TURNS, NOTE_TURNS, turns_json};
use super::{
    ClaimedRow, CreateResult, LeaseEpoch, LeaseTerms, NewPlan, TenantCaps, parse_ids, plans,
    to_claimed_runs, to_count, to_milliseconds, to_renewed_runs,
};

/// The columns that are set when a run is given to an executor, followed by the number to add to its
/// takeovers. If a step has finished since the last time, the earlier takeovers were not caused by the run.
macro_rules! give {
    () => {
        "epoch = epoch + 1,
         taken_at = coalesce((SELECT max(seq) FROM event WHERE event.run = run.id), 0),
         takeovers = CASE WHEN EXISTS (SELECT 1 FROM event WHERE event.run = run.id
                                       AND seq > taken_at AND type = 'step_finished')
                          THEN 0 ELSE takeovers END + "
    };
}

/// Takes all runs from executors that have ended.
pub(super) const RELEASE_ALL: &str = concat!(
    "UPDATE run SET owner = NULL, lease_until = NULL, ",
    give!(),
    "1 WHERE owner IS NOT NULL",
);

/// Performs jobs of the writer together and in order. Reports a run that begins before the commit, to callers
/// that want to know.
pub(super) async fn commit(
    mut target: WriterTarget<'_>,
    jobs: &[WriterJob],
) -> Result<Vec<TaskOutcome>, sqlx::Error> {
    let mut batch = ItemBatch::default();
    if jobs.iter().all(|job| job.task.plain_item().is_some_and(|item| batch.add(item)))
        && let Some(outcomes) = target.commit_items(batch.items()).await?
    {
        return Ok(outcomes);
    }
    let mut transaction = target.begin().await?;
    let mut outcomes = Vec::with_capacity(jobs.len());
    let mut batch = ItemBatch::default();
    for job in jobs {
        let item = job.task.plain_item();
        if item.is_some_and(|item| batch.add(item)) {
            continue;
        }
        outcomes.extend(write_items(&mut transaction, batch.items()).await?);
        batch = ItemBatch::default();
        if let Some(item) = item {
            batch.add(item);
            continue;
        }
        let outcome = perform(&mut transaction, &job.task).await?;
        if let (WriterTask::Create { decided, .. }, TaskOutcome::Created(CreateResult::New)) =
            (&job.task, &outcome)
        {
            decided.notify_one();
        }
        outcomes.push(outcome);
    }
    outcomes.extend(write_items(&mut transaction, batch.items()).await?);
    transaction.commit().await?;
    Ok(outcomes)
}

/// Performs a task that need not wait for the writes of runs.
pub(super) async fn perform_alone(
    pool: &Pool,
    task: &WriterTask,
) -> Result<TaskOutcome, sqlx::Error> {
    if let WriterTask::Create { run, .. } = task
        && create_alone(pool, run).await?
    {
        return Ok(TaskOutcome::Created(CreateResult::New));
    }
    let mut transaction = pool.begin().await?;
    let outcome = perform(&mut transaction, task).await?;
    transaction.commit().await?;
    Ok(outcome)
}

async fn perform(
    transaction: &mut Transaction<'_>,
    task: &WriterTask,
) -> Result<TaskOutcome, sqlx::Error> {
    match task {
        WriterTask::Append(item) => {
            let mut outcomes = write_items(transaction, &[item]).await?;
            return Ok(outcomes.pop().unwrap_or(TaskOutcome::OutOfTurn));
        }
        WriterTask::Create { run, .. } => return create(transaction, run).await,
        WriterTask::StorePlan(plan) => return store_plan(transaction, plan).await,
        WriterTask::SweepPlans(now) => {
            let cleared = transaction.query(plans::CLEAR_EXPIRED).bind(now.as_millisecond());
            cleared.execute().await?;
            let before = plans::forgotten_before(*now);
            transaction.query(plans::DELETE_EXPIRED).bind(before).execute().await?;
        }
        WriterTask::RequestCancel(run) => {
            transaction
                .query("UPDATE run SET cancel_requested = 1 WHERE id = $1")
                .bind(run.to_string())
                .execute()
                .await?;
            notify(transaction, Notification::Cancel(*run)).await?;
        }
        WriterTask::MarkReported(runs) => {
            transaction
                .query(
                    "UPDATE run SET reported = 1 WHERE id IN
                         (SELECT id FROM run WHERE id {among $1} AND reported = 0
                          ORDER BY id {FOR NO KEY UPDATE})",
                )
                .bind_list(runs.iter().map(Uuid::to_string))
                .execute()
                .await?;
        }
        WriterTask::Delete(run) => {
            let over = "SELECT id FROM run WHERE id = $1 AND ended_at IS NOT NULL {FOR UPDATE}";
            let ids = transaction.query(over).bind(run.to_string()).fetch_values().await?;
            return delete(transaction, &ids).await;
        }
        WriterTask::Forget { before, limit } => {
            // Those that another executor is just forgetting are left to it.
            let over = "SELECT id FROM run WHERE ended_at < $1 ORDER BY ended_at LIMIT $2
                        {FOR UPDATE SKIP LOCKED}";
            let query = transaction.query(over).bind(before.as_millisecond());
            let ids = query.bind(to_count(*limit)).fetch_values().await?;
            return delete(transaction, &ids).await;
        }
        WriterTask::Claim { lease, live, caps, limit } => {
            return claim(transaction, *lease, live, caps, *limit).await;
        }
        WriterTask::Renew { lease, live } => return renew(transaction, *lease, live).await,
        WriterTask::Release { owner } => {
            transaction
                .query(
                    "UPDATE run SET owner = NULL, lease_until = NULL, epoch = epoch + 1 WHERE id IN
                         (SELECT id FROM run WHERE owner = $1 ORDER BY id {FOR NO KEY UPDATE})",
                )
                .bind(owner.to_string())
                .execute()
                .await?;
            notify(transaction, Notification::RunsAvailable).await?;
        }
        WriterTask::Probe => {
            // A server that only reads refuses it, though it changes nothing.
            let proof = "UPDATE executor SET identity = identity WHERE false";
            transaction.query(proof).execute().await?;
        }
    }
    Ok(TaskOutcome::Done)
}

/// Waits for earlier transactions that count runs of tenants and change the counts. The lock is held until
/// the end of the transaction. In SQLite there are no others.
pub(super) async fn lock_queue(transaction: &mut Transaction<'_>) -> Result<(), sqlx::Error> {
    if transaction.engine() == Engine::Postgres {
        let lock = "SELECT one FROM executor WHERE one = 1 FOR NO KEY UPDATE";
        transaction.query(lock).execute().await?;
    }
    Ok(())
}

/// Deletes runs with locked rows.
pub(super) async fn delete(
    transaction: &mut Transaction<'_>,
    ids: &[String],
) -> Result<TaskOutcome, sqlx::Error> {
    for sql in [
        "DELETE FROM sealed WHERE run {among $1}",
        "DELETE FROM exchange WHERE run {among $1}",
        "DELETE FROM event WHERE run {among $1}",
        "DELETE FROM run WHERE id {among $1}",
    ] {
        transaction.query(sql).bind_list(ids.iter().map(String::as_str)).execute().await?;
    }
    parse_ids(ids)
}

async fn claim(
    transaction: &mut Transaction<'_>,
    lease: LeaseTerms,
    live: &[Uuid],
    caps: &TenantCaps,
    limit: usize,
) -> Result<TaskOutcome, sqlx::Error> {
    // Those that another executor is just claiming are left to it.
    let mut claimed: Vec<ClaimedRow> = transaction
        .query(concat!(
            "UPDATE run SET owner = $1, lease_until = {now} + $2, ",
            give!(),
            "CASE WHEN owner IS NULL OR owner = $1 THEN 0 ELSE 1 END
             WHERE id IN (SELECT id FROM run
                          WHERE status = 'running' AND queued = 0
                            AND (owner IS NULL OR lease_until < {now})
                            AND NOT (id {among $3})
                          ORDER BY id LIMIT $4 {FOR NO KEY UPDATE SKIP LOCKED})
             RETURNING id, epoch, takeovers",
        ))
        .bind(lease.owner.to_string())
        .bind(to_milliseconds(lease.length))
        .bind_list(live.iter().map(Uuid::to_string))
        .bind(to_count(limit))
        .fetch_all()
        .await?;
    let is_any: bool = transaction.query(IS_ANY).fetch_value().await?;
    let left = limit.saturating_sub(claimed.len());
    if !is_any || left == 0 {
        return to_claimed_runs(&claimed, is_any);
    }
    claimed.extend(start_queued(transaction, lease, caps, left).await?);
    let is_any = transaction.query(IS_ANY).fetch_value().await?;
    to_claimed_runs(&claimed, is_any)
}

/// Assigns at most `limit` waiting runs to an executor, in the order of their turns.
async fn start_queued(
    transaction: &mut Transaction<'_>,
    lease: LeaseTerms,
    caps: &TenantCaps,
    limit: usize,
) -> Result<Vec<ClaimedRow>, sqlx::Error> {
    // Two that choose at once would both choose for the same tenant.
    lock_queue(transaction).await?;
    let (own, default) = caps.to_columns();
    let mut next: Vec<(String, String)> = transaction
        .query(NEXT_TURNS)
        .bind(own)
        .bind(default)
        .bind(to_count(limit))
        .fetch_all()
        .await?;
    // One that is just being cancelled is not waited for.
    let begun: Vec<ClaimedRow> = transaction
        .query(concat!(
            "UPDATE run SET owner = $1, lease_until = {now} + $2, queued = 0, ",
            give!(),
            "0
             WHERE id IN (SELECT id FROM run
                          WHERE id {among $3} AND status = 'running' AND queued = 1
                          ORDER BY id {FOR NO KEY UPDATE SKIP LOCKED})
             RETURNING id, epoch, takeovers",
        ))
        .bind(lease.owner.to_string())
        .bind(to_milliseconds(lease.length))
        .bind_list(next.iter().map(|(id, _)| id.as_str()))
        .fetch_all()
        .await?;
    next.retain(|(id, _)| begun.iter().any(|(begun, ..)| begun == id));
    transaction.query(NOTE_TURNS).bind(turns_json(&next)).execute().await?;
    Ok(begun)
}

async fn renew(
    transaction: &mut Transaction<'_>,
    lease: LeaseTerms,
    live: &[(Uuid, LeaseEpoch)],
) -> Result<TaskOutcome, sqlx::Error> {
    let live = live.iter().map(|(run, epoch)| (run.to_string(), epoch.0.into()));
    let live = serde_json::Value::Object(live.collect());
    let held: Vec<(String, i64)> = transaction
        .query(
            "UPDATE run SET lease_until = {now} + $1 WHERE id IN
                 (SELECT id FROM run WHERE status = 'running' AND (id, epoch) IN ({pairs $2})
                  ORDER BY id {FOR NO KEY UPDATE})
             RETURNING id, cancel_requested",
        )
        .bind(to_milliseconds(lease.length))
        .bind(live.to_string())
        .fetch_all()
        .await?;
    to_renewed_runs(&held)
}

async fn store_plan(
    transaction: &mut Transaction<'_>,
    plan: &NewPlan,
) -> Result<TaskOutcome, sqlx::Error> {
    let NewPlan { id, tenant, now, expires_at, sealed, most, most_own, most_of_token } = plan;
    let kept = transaction
        .query(plans::INSERT_PLAN)
        .bind(id.to_string())
        .bind(expires_at.as_millisecond())
        .bind(&sealed.key_id)
        .bind(&sealed.nonce)
        .bind(&sealed.bytes)
        .bind(now.as_millisecond())
        .bind(to_count(*most))
        .bind(tenant.to_string())
        .bind(to_count(*most_own))
        .bind(tenant.token.as_str())
        .bind(to_count(*most_of_token))
        .execute()
        .await?;
    Ok(if kept == 0 { TaskOutcome::Full } else { TaskOutcome::Done })
}
