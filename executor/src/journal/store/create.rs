//! Recording a new run: one statement for everything that a start writes, wherever that is possible.

use std::collections::BTreeMap;
use std::sync::Arc;

use a2s::{CapabilityName, Digest};
use a2s_api::{CapabilityRef, EventKind, Principal, RunEvent};
use database::dialect::Engine;
use database::{Pool, Query, Transaction};
use futures::future::BoxFuture;
use tokio::sync::Notify;
use uuid::Uuid;

use super::batch_writer::{TaskOutcome, WriterTask};
use super::notifications::{Notification, notify};
use super::persisted_item::to_json_text;
use super::run_queue::{LOAD, QueueDecision, TenantLoad, TenantQuota};
use super::tasks::{delete, lock_queue};
use super::{
    LeaseEpoch, LeaseTerms, RunStore, StoreBackend, lost, parse_owner_of_key, plans, to_count,
    to_milliseconds,
};
use crate::error::{Error, ErrorKind};
use crate::trust::{TrustedVersions, insert_pins, pins_to_json};
use crate::vault::Ciphertext;

/// The data of a new run.
#[derive(Debug)]
pub(crate) struct NewRun {
    /// The capability.
    pub(crate) name: CapabilityName,
    /// The principal that starts it.
    pub(crate) tenant: Principal,
    /// The document that each dependency resolves to, as JSON.
    pub(crate) choices: String,
    /// The documents, as the registry sent them.
    pub(crate) documents: BTreeMap<Digest, Arc<[u8]>>,
    /// The versions whose checksums are not remembered yet. They are remembered with the run.
    pub(crate) unknown: Vec<CapabilityRef>,
    /// The caller's idempotency key.
    pub(crate) key: Option<String>,
    /// The digest of the caller's request.
    pub(crate) request_digest: Digest,
    /// The plan that it uses up.
    pub(crate) plan: Option<Digest>,
    /// Its first event.
    pub(crate) first: RunEvent,
    /// The encrypted values that the first event leaves out.
    pub(crate) sealed: Option<Ciphertext>,
    /// The lease of the executor that has a slot for it and will drive it; `None` when it has to wait for a
    /// slot.
    pub(crate) lease: Option<LeaseTerms>,
    /// The limits on the number of runs of its tenant.
    pub(crate) quota: TenantQuota,
}

impl NewRun {
    /// Returns the second event of a run that has to wait.
    pub(crate) fn queued_event(&self) -> RunEvent {
        let RunEvent { v, seq, run, at, .. } = self.first;
        RunEvent { v, seq: seq + 1, run, at, kind: EventKind::RunQueued {} }
    }
}

/// The result of recording a new run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CreateResult {
    /// The run is recorded and begins.
    New,
    /// The run is recorded. It waits until an executor has a free slot and the run has its turn.
    Queued,
    /// The run is not recorded, because its tenant has the maximum number of waiting runs.
    Full,
    /// The idempotency key belongs to this run, which was requested with this digest.
    Existing(Uuid, Digest),
    /// The run is not recorded, because its plan was used or has expired.
    PlanGone,
}

/// The commit of a run that has been decided.
#[must_use = "the run may be lost until the commit is complete"]
pub(crate) struct PendingCommit(Option<BoxFuture<'static, Result<TaskOutcome, Error>>>);

impl PendingCommit {
    /// Waits until the run cannot be lost.
    ///
    /// # Errors
    /// Fails when the run was not recorded. Then its events fail, too.
    pub(crate) async fn wait(self) -> Result<(), Error> {
        match self.0 {
            Some(performed) => performed.await.map(drop),
            None => Ok(()),
        }
    }
}

impl RunStore {
    /// Records a run and waits until this cannot be lost.
    #[cfg(test)]
    pub(crate) async fn create_durably(
        &self,
        run: NewRun,
        trust: &TrustedVersions,
    ) -> Result<CreateResult, Error> {
        let (created, commit) = self.create(run, trust).await?;
        commit.wait().await?;
        Ok(created)
    }

    /// Records a run with its documents and first event, remembers its checksums, and marks its plan as used,
    /// all in one transaction. Returns [`CreateResult::New`] as soon as it is decided, where the store can
    /// know that before the data is on the disk. All other results are durable.
    ///
    /// The run may begin at once. Its events are written after its start, in order, so they are durable or
    /// visible only when the start is; when the start is lost, they fail. A caller may get to know of the run
    /// only when the commit is complete.
    ///
    /// # Errors
    /// Returns [`ErrorKind::ChecksumChanged`] when another executor of this database has just remembered
    /// another checksum of a version. Then nothing else is recorded.
    pub(crate) async fn create(
        &self,
        run: NewRun,
        trust: &TrustedVersions,
    ) -> Result<(CreateResult, PendingCommit), Error> {
        if let StoreBackend::Memory(_) = &self.backend {
            // Checksums outlive the process, runs do not.
            trust.remember(&run.unknown).await?;
        }
        let unknown = run.unknown.clone();
        let decided = Arc::<Notify>::default();
        let task = WriterTask::Create { run: Box::new(run), decided: Arc::clone(&decided) };
        let mut performed = Box::pin(self.run_task(task));
        let outcome = tokio::select! {
            biased;
            outcome = &mut performed => outcome?,
            () = decided.notified() => {
                return Ok((CreateResult::New, PendingCommit(Some(performed))));
            }
        };
        match outcome {
            TaskOutcome::Created(created) => Ok((created, PendingCommit(None))),
            TaskOutcome::ChecksumChanged => {
                trust.check(&unknown).await?;
                let message = "a remembered checksum changed while the run was started";
                Err(Error::new(ErrorKind::ChecksumChanged, message))
            }
            _ => Err(lost()),
        }
    }
}

/// The insertion of the row of a run, unless its idempotency key belongs to another one. Nothing is inserted
/// when a document of the run is not stored, or a version has another checksum than the remembered one;
/// `$remembered` is the number of checksums that the statement itself has remembered.
macro_rules! insert_run {
    ($remembered:literal) => {
        concat!(
            "INSERT INTO run
                 (id, status, choices, owner, lease_until, epoch, idempotency_key, request_digest,
                  name, tenant, queued)
             SELECT $1, 'running', $2, $3, {now} + $4, $5, $6, $7, $8, $9, $10
             WHERE (SELECT count(*) FROM document WHERE digest {among $11}) = $12
               AND ",
            $remembered,
            " + (SELECT count(*) FROM ({elements $13}) AS pin JOIN trusted_version AS t
                   ON t.name = pin.element ->> 0 AND t.version = pin.element ->> 1
                  AND t.checksum = pin.element ->> 2) = $14
             ON CONFLICT (idempotency_key) DO NOTHING"
        )
    };
}

/// Inserts a run with its first events and sealed values, and the checksums that it is the first to use.
/// Returns the number of inserted runs. These statements need one change of thread.
const INSERT_SQLITE: &str = concat!(
    insert_pins!("$13", "$15"),
    ";",
    insert_run!("0"),
    ";
     INSERT INTO event (run, seq, type, event)
     SELECT id, 1, 'run_started', $16 FROM run WHERE id = $1
     UNION ALL SELECT id, 2, 'run_queued', $17 FROM run WHERE id = $1 AND $17 IS NOT NULL;
     INSERT INTO sealed (run, seq, key_id, nonce, sealed)
     SELECT id, 1, $18, $19, $20 FROM run WHERE id = $1 AND $18 IS NOT NULL;
     SELECT count(*) FROM run WHERE id = $1"
);

/// The same in one round trip.
const INSERT_POSTGRES: &str = concat!(
    "WITH remembered AS (",
    insert_pins!("$13", "$15"),
    " RETURNING 1), started AS (",
    insert_run!("(SELECT count(*) FROM remembered)"),
    " RETURNING id), recorded AS (
         INSERT INTO event (run, seq, type, event)
         SELECT id, 1, 'run_started', $16 FROM started
         UNION ALL SELECT id, 2, 'run_queued', $17 FROM started WHERE $17 IS NOT NULL
     ), hidden AS (
         INSERT INTO sealed (run, seq, key_id, nonce, sealed)
         SELECT id, 1, $18, $19, $20 FROM started WHERE $18 IS NOT NULL
     )
     SELECT count(*) FROM started"
);

/// Records a run that begins, without a transaction around the statement. Returns false when this is not
/// possible: other rows have to be looked at or written, too.
pub(super) async fn create_alone(pool: &Pool, run: &NewRun) -> Result<bool, sqlx::Error> {
    if run.plan.is_some() || !run.quota.needs_slot_only(run.lease.is_some()) {
        return Ok(false);
    }
    let query = pool.query(insert_statement(pool.engine()));
    insert(query, run, run.lease).await
}

/// Records a run, or finds out why it cannot be started.
pub(super) async fn create(
    transaction: &mut Transaction<'_>,
    run: &NewRun,
) -> Result<TaskOutcome, sqlx::Error> {
    let place = decide_place(transaction, run).await?;
    // A request whose key is known is not one too many.
    if place == QueueDecision::Refuse {
        let existing = find_existing(transaction, run).await?;
        return Ok(TaskOutcome::Created(existing.unwrap_or(CreateResult::Full)));
    }
    let lease = run.lease.filter(|_| place == QueueDecision::Start);
    let statement = insert_statement(transaction.engine());
    if !insert(transaction.query(statement), run, lease).await? {
        if let Some(existing) = find_existing(transaction, run).await? {
            return Ok(TaskOutcome::Created(existing));
        }
        store_documents(transaction, run).await?;
        // Sees what other executors have committed meanwhile.
        if !insert(transaction.query(statement), run, lease).await? {
            let existing = find_existing(transaction, run).await?;
            return Ok(existing.map_or(TaskOutcome::ChecksumChanged, TaskOutcome::Created));
        }
    }
    if let Some(plan) = run.plan
        && !use_plan(transaction, plan, run).await?
    {
        // No other transaction has seen the run.
        delete(transaction, &[run.first.run.to_string()]).await?;
        return Ok(TaskOutcome::Created(CreateResult::PlanGone));
    }
    if lease.is_some() {
        return Ok(TaskOutcome::Created(CreateResult::New));
    }
    // Another executor may have room.
    notify(transaction, Notification::RunsAvailable).await?;
    Ok(TaskOutcome::Created(CreateResult::Queued))
}

fn insert_statement(engine: Engine) -> &'static str {
    match engine {
        Engine::Sqlite => INSERT_SQLITE,
        Engine::Postgres => INSERT_POSTGRES,
    }
}

/// Inserts a run, by one of the two statements. Returns false when it is not inserted. Of several with one key
/// at the same time, the first is waited for.
async fn insert(
    query: Query<'_>,
    run: &NewRun,
    lease: Option<LeaseTerms>,
) -> Result<bool, sqlx::Error> {
    let queued = lease.is_none().then(|| to_json_text(&run.queued_event())).transpose()?;
    let (key_id, nonce, sealed) = match &run.sealed {
        Some(Ciphertext { key_id, nonce, bytes }) => (Some(key_id), Some(nonce), Some(bytes)),
        None => (None, None, None),
    };
    let inserted: i64 = query
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
        .bind_list(run.documents.keys().map(Digest::to_string))
        .bind(to_count(run.documents.len()))
        .bind(pins_to_json(&run.unknown))
        .bind(to_count(run.unknown.len()))
        .bind(run.first.at.as_millisecond())
        .bind(to_json_text(&run.first)?)
        .bind(queued)
        .bind(key_id)
        .bind(nonce)
        .bind(sealed)
        .fetch_value()
        .await?;
    Ok(inserted != 0)
}

/// Stores the documents that are not stored yet, in order: others may be storing the same ones.
async fn store_documents(
    transaction: &mut Transaction<'_>,
    run: &NewRun,
) -> Result<(), sqlx::Error> {
    for (digest, source) in &run.documents {
        transaction
            .query("INSERT INTO document (digest, source) VALUES ($1, $2) ON CONFLICT DO NOTHING")
            .bind(digest.to_string())
            .bind(source)
            .execute()
            .await?;
    }
    Ok(())
}

/// Finds the run that the idempotency key of a new one belongs to.
async fn find_existing(
    transaction: &mut Transaction<'_>,
    run: &NewRun,
) -> Result<Option<CreateResult>, sqlx::Error> {
    let Some(key) = &run.key else { return Ok(None) };
    let row: Option<(String, String)> = transaction
        .query("SELECT id, request_digest FROM run WHERE idempotency_key = $1")
        .bind(key)
        .fetch_optional()
        .await?;
    let owner = row.map(|(id, digest)| parse_owner_of_key(&id, &digest)).transpose();
    let owner = owner.map_err(|error| sqlx::Error::Decode(Box::new(error)))?;
    Ok(owner.map(|(id, digest)| CreateResult::Existing(id, digest)))
}

/// Marks a plan as used by a run. Returns false when the plan was used or has expired.
async fn use_plan(
    transaction: &mut Transaction<'_>,
    plan: Digest,
    run: &NewRun,
) -> Result<bool, sqlx::Error> {
    let used = transaction
        .query(plans::MARK_USED)
        .bind(plan.to_string())
        .bind(run.first.run.to_string())
        .bind(run.first.at.as_millisecond())
        .execute()
        .await?;
    Ok(used != 0)
}

/// Decides on a new run. If it needs only a slot at an executor, and has one, no query is made.
async fn decide_place(
    transaction: &mut Transaction<'_>,
    run: &NewRun,
) -> Result<QueueDecision, sqlx::Error> {
    if run.quota.needs_slot_only(run.lease.is_some()) {
        return Ok(QueueDecision::Start);
    }
    lock_queue(transaction).await?;
    let load = transaction.query(LOAD).bind(run.tenant.to_string()).bind(run.tenant.token.as_str());
    let (begun, queued, queued_of_token) = load.fetch_one().await?;
    Ok(run.quota.decide(run.lease.is_some(), || TenantLoad { begun, queued, queued_of_token }))
}
