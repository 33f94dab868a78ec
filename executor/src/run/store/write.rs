//! The only writing connection: jobs in, outcomes out, and the SQL of both.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use sqlx::query::QueryScalar;
use sqlx::sqlite::{Sqlite, SqliteArguments};
use sqlx::{Connection as _, SqliteConnection};
use tokio::sync::{Notify, mpsc, oneshot};
use uuid::Uuid;

use super::tell::{Told, add_first, commit_told, tell};
use super::{Created, Lease, NewPlan, NewRun, WHAT, parse_owner_of_key, plans};
use crate::database::failed;
use crate::error::Error;

/// The most jobs that share a transaction: bounds how long the first of them waits.
pub(super) const MAX_BATCH: usize = 256;

#[derive(Debug)]
struct Job {
    task: Task,
    reply: Option<Reply>,
}

pub(super) type Reply = oneshot::Sender<Result<Outcome, Error>>;

/// The way to the writer. When the last one goes, the writer ends.
#[derive(Debug, Clone)]
pub(super) struct Jobs {
    /// Unbounded, because its length is bounded by what sends: a step waits for a commit after at
    /// most a few events, and steps under way are bounded by the limits of runs.
    queue: mpsc::UnboundedSender<Job>,
    /// Somebody waits for a job.
    urgent: Arc<Notify>,
}

impl Jobs {
    /// Hands a job to the writer. False when there is none any more.
    pub(super) fn send(&self, task: Task, reply: Option<Reply>) -> bool {
        let is_urgent = reply.is_some();
        let sent = self.queue.send(Job { task, reply }).is_ok();
        if is_urgent {
            self.urgent.notify_one();
        }
        sent
    }
}

/// Starts the writer. An event that nobody waits for may wait itself for as long as `linger`.
pub(super) fn start(connection: SqliteConnection, linger: Duration) -> Jobs {
    let (queue, jobs) = mpsc::unbounded_channel();
    let urgent = Arc::new(Notify::new());
    tokio::spawn(write(connection, jobs, Arc::clone(&urgent), linger));
    Jobs { queue, urgent }
}

#[derive(Debug)]
pub(super) enum Task {
    Create(Box<NewRun>),
    Tell(Told),
    KeepPlan(Box<NewPlan>),
    SweepPlans(Timestamp),
    RequestCancel(Uuid),
    MarkReported(Vec<Uuid>),
    Delete(Uuid),
    Forget { before: Timestamp, limit: usize },
    Claim { lease: Lease, now: Timestamp, limit: usize },
    Renew { lease: Lease, live: Vec<Uuid> },
    Release { owner: Uuid },
}

#[derive(Debug)]
pub(super) enum Outcome {
    Done,
    /// The event does not follow the last one, or the run has ended.
    OutOfTurn,
    Created(Created),
    /// There are as many as there may be.
    Full,
    Runs(Vec<Uuid>),
}

/// The writer: does jobs until nobody can send any more.
async fn write(
    mut connection: SqliteConnection,
    mut jobs: mpsc::UnboundedReceiver<Job>,
    urgent: Arc<Notify>,
    linger: Duration,
) {
    let mut batch = Vec::with_capacity(MAX_BATCH);
    while jobs.recv_many(&mut batch, MAX_BATCH).await > 0 {
        // Events that nobody waits for take the next commit that somebody does wait for, when it
        // comes soon: that saves most of the writes to the disk. They do not even wake the writer.
        if batch.len() < MAX_BATCH && batch.iter().all(|job| job.reply.is_none()) {
            tokio::select! {
                () = urgent.notified() => {}
                () = tokio::time::sleep(linger) => {}
            }
            while batch.len() < MAX_BATCH
                && let Ok(job) = jobs.try_recv()
            {
                batch.push(job);
            }
        }
        match commit(&mut connection, &batch).await {
            Ok(outcomes) => {
                for (job, outcome) in batch.drain(..).zip(outcomes) {
                    if let (Task::Tell(Told::Event { event, committed, .. }), Outcome::Done) =
                        (&job.task, &outcome)
                    {
                        committed.send_replace(event.seq);
                    }
                    if let Some(reply) = job.reply {
                        // Nobody waits any more; the commit holds all the same.
                        let _ = reply.send(Ok(outcome));
                    }
                }
            }
            Err(error) => {
                let error = failed(WHAT)(error);
                for reply in batch.drain(..).filter_map(|job| job.reply) {
                    let _ = reply.send(Err(error.clone()));
                }
            }
        }
    }
    if let Err(error) = connection.close().await {
        tracing::warn!(%error, "the run database did not close cleanly");
    }
}

async fn commit(
    connection: &mut SqliteConnection,
    jobs: &[Job],
) -> Result<Vec<Outcome>, sqlx::Error> {
    let told = jobs.iter().map(|job| match &job.task {
        Task::Tell(told) => Some(told),
        _ => None,
    });
    if let Some(crowd) = told.collect::<Option<Vec<_>>>()
        && let Some(outcomes) = commit_told(connection, &crowd).await?
    {
        return Ok(outcomes);
    }
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    let mut outcomes = Vec::with_capacity(jobs.len());
    let mut crowd = Vec::new();
    for job in jobs {
        if let Task::Tell(told) = &job.task
            && told.is_plain()
        {
            crowd.push(told);
            continue;
        }
        outcomes.extend(tell(&mut transaction, &std::mem::take(&mut crowd)).await?);
        outcomes.push(perform(&mut transaction, &job.task).await?);
    }
    outcomes.extend(tell(&mut transaction, &crowd).await?);
    transaction.commit().await?;
    Ok(outcomes)
}

async fn perform(connection: &mut SqliteConnection, task: &Task) -> Result<Outcome, sqlx::Error> {
    match task {
        Task::Tell(told) => {
            let mut outcomes = tell(connection, &[told]).await?;
            Ok(outcomes.pop().unwrap_or(Outcome::OutOfTurn))
        }
        Task::Create(run) => create(connection, run).await,
        Task::KeepPlan(plan) => plans::keep(connection, plan).await,
        Task::SweepPlans(now) => plans::sweep(connection, *now).await,
        Task::RequestCancel(run) => {
            sqlx::query("UPDATE run SET cancel_requested = 1 WHERE id = ?1")
                .bind(run.to_string())
                .execute(connection)
                .await?;
            Ok(Outcome::Done)
        }
        Task::MarkReported(runs) => {
            sqlx::query(
                "UPDATE run SET reported = 1 WHERE id IN (SELECT value FROM json_each(?1))",
            )
            .bind(serde_json::json!(runs).to_string())
            .execute(connection)
            .await?;
            Ok(Outcome::Done)
        }
        Task::Delete(run) => {
            let over = "SELECT id FROM run WHERE id = ?1 AND ended_at IS NOT NULL";
            let ids = sqlx::query_scalar(over).bind(run.to_string());
            delete(connection, ids).await
        }
        Task::Forget { before, limit } => {
            let over = "SELECT id FROM run WHERE ended_at < ?1 ORDER BY ended_at LIMIT ?2";
            let ids = sqlx::query_scalar(over).bind(before.as_millisecond());
            let ids = ids.bind(i64::try_from(*limit).unwrap_or(i64::MAX));
            delete(connection, ids).await
        }
        Task::Claim { lease, now, limit } => claim(connection, *lease, *now, *limit).await,
        Task::Renew { lease, live } => renew(connection, *lease, live).await,
        Task::Release { owner } => {
            sqlx::query("UPDATE run SET owner = NULL, lease_until = NULL WHERE owner = ?1")
                .bind(owner.to_string())
                .execute(connection)
                .await?;
            Ok(Outcome::Done)
        }
    }
}

async fn create(connection: &mut SqliteConnection, run: &NewRun) -> Result<Outcome, sqlx::Error> {
    let inserted = sqlx::query(
        "INSERT INTO run
             (id, status, choices, owner, lease_until, idempotency_key, request_digest, name)
         SELECT ?1, 'running', ?2, ?3, ?4, ?5, ?6, ?7
         WHERE ?8 IS NULL
            OR EXISTS (SELECT 1 FROM plan WHERE id = ?8 AND used_by IS NULL AND expires_at > ?9)
         ON CONFLICT (idempotency_key) DO NOTHING",
    )
    .bind(run.first.run.to_string())
    .bind(&run.choices)
    .bind(run.lease.owner.to_string())
    .bind(run.lease.until.as_millisecond())
    .bind(&run.key)
    .bind(run.request_digest.to_string())
    .bind(run.name.as_str())
    .bind(run.plan.map(|plan| plan.to_string()))
    .bind(run.first.at.as_millisecond())
    .execute(&mut *connection)
    .await?;
    if inserted.rows_affected() == 0 {
        let owner: Option<(String, String)> =
            sqlx::query_as("SELECT id, request_digest FROM run WHERE idempotency_key = ?1")
                .bind(&run.key)
                .fetch_optional(&mut *connection)
                .await?;
        let Some((id, digest)) = owner else { return Ok(Outcome::Created(Created::PlanGone)) };
        let (id, digest) = parse_owner_of_key(&id, &digest)
            .map_err(|error| sqlx::Error::Decode(Box::new(error)))?;
        return Ok(Outcome::Created(Created::Existing(id, digest)));
    }
    if let Some(plan) = run.plan {
        plans::use_up(connection, plan, run.first.run).await?;
    }
    for (digest, source) in &run.documents {
        sqlx::query("INSERT INTO document (digest, source) VALUES (?1, ?2) ON CONFLICT DO NOTHING")
            .bind(digest.to_string())
            .bind(source)
            .execute(&mut *connection)
            .await?;
    }
    add_first(connection, &run.first, run.sealed.as_ref()).await?;
    Ok(Outcome::Created(Created::New))
}

/// Deletes the runs that a query names.
async fn delete(
    connection: &mut SqliteConnection,
    over: QueryScalar<'_, Sqlite, String, SqliteArguments>,
) -> Result<Outcome, sqlx::Error> {
    let ids = over.fetch_all(&mut *connection).await?;
    let list = serde_json::json!(ids).to_string();
    for sql in [
        "DELETE FROM sealed WHERE run IN (SELECT value FROM json_each(?1))",
        "DELETE FROM exchange WHERE run IN (SELECT value FROM json_each(?1))",
        "DELETE FROM event WHERE run IN (SELECT value FROM json_each(?1))",
        "DELETE FROM run WHERE id IN (SELECT value FROM json_each(?1))",
    ] {
        sqlx::query(sql).bind(&list).execute(&mut *connection).await?;
    }
    parse_ids(&ids)
}

async fn claim(
    connection: &mut SqliteConnection,
    lease: Lease,
    now: Timestamp,
    limit: usize,
) -> Result<Outcome, sqlx::Error> {
    let ids: Vec<String> = sqlx::query_scalar(
        "UPDATE run SET owner = ?1, lease_until = ?2
         WHERE id IN (SELECT id FROM run
                      WHERE status = 'running' AND (owner IS NULL OR lease_until < ?3)
                      ORDER BY id LIMIT ?4)
         RETURNING id",
    )
    .bind(lease.owner.to_string())
    .bind(lease.until.as_millisecond())
    .bind(now.as_millisecond())
    .bind(i64::try_from(limit).unwrap_or(i64::MAX))
    .fetch_all(connection)
    .await?;
    parse_ids(&ids)
}

async fn renew(
    connection: &mut SqliteConnection,
    lease: Lease,
    live: &[Uuid],
) -> Result<Outcome, sqlx::Error> {
    let ids: Vec<String> = sqlx::query_scalar(
        "UPDATE run SET lease_until = ?2
         WHERE owner = ?1 AND id IN (SELECT value FROM json_each(?3))
         RETURNING CASE cancel_requested WHEN 1 THEN id ELSE '' END",
    )
    .bind(lease.owner.to_string())
    .bind(lease.until.as_millisecond())
    .bind(serde_json::json!(live).to_string())
    .fetch_all(connection)
    .await?;
    parse_ids(&ids)
}

fn parse_ids(ids: &[String]) -> Result<Outcome, sqlx::Error> {
    let ids = ids.iter().filter(|id| !id.is_empty()).map(|id| id.parse());
    let ids: Result<_, uuid::Error> = ids.collect();
    ids.map(Outcome::Runs).map_err(|error| sqlx::Error::Decode(Box::new(error)))
}
