//! Runs in the memory of this process: for measurements, and for runs that may be lost.
//!
//! Decisions that databases make in their statements are made here under one lock, by the same rules: the
//! same tests apply to all three. Written items are available at once, so a run neither waits for a writer
//! nor wakes one. Other processes cannot see these runs, or take them over.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use a2s::{CapabilityName, Digest};
use a2s_api::Principal;
use a2s_api::{EventKind, RunEvent, RunStatus};
use jiff::Timestamp;
use tokio::time::Instant;
use uuid::Uuid;

use super::batch_writer::{TaskOutcome, WriterTask};
use super::persisted_item::{
    JournalItem, is_in_outline, is_turn, notify_followers, status_after, yields_to_cancel,
};
use super::plans::forgotten_before;
use super::run_queue::{QueueDecision, TenantLoad};
use super::{
    ClaimedRun, CreateResult, LeaseEpoch, LeaseTerms, NewPlan, NewRun, RenewedRun, RunFilter,
    RunRow, RunSummaryEvents, SealedChanges, StoredPlan, TenantCaps,
};
use crate::journal::lock;
use crate::journal::recorded_exchange::RecordedExchange;
use crate::vault::Ciphertext;

/// An in-memory store of runs and plans.
#[derive(Debug, Default)]
pub(super) struct InMemoryStore(Mutex<MemoryTables>);

#[derive(Debug, Default)]
struct MemoryTables {
    runs: BTreeMap<Uuid, MemoryRow>,
    /// The runs that are driven or wait for their turn.
    under_way: BTreeSet<Uuid>,
    /// The run of each idempotency key.
    keys: BTreeMap<String, Uuid>,
    documents: BTreeMap<Digest, Arc<[u8]>>,
    plans: BTreeMap<Digest, StoredPlan>,
    /// The last turn of each tenant that has had waiting runs: a greater number is a later turn.
    turns: BTreeMap<Principal, usize>,
    last_turn: usize,
}

/// The data of a run that never changes.
#[derive(Debug)]
struct RunOrigin {
    name: CapabilityName,
    tenant: Principal,
    choices: String,
    key: Option<String>,
    request_digest: Digest,
}

#[derive(Debug)]
struct MemoryRow {
    origin: RunOrigin,
    status: RunStatus,
    cancel_requested: bool,
    /// The executor that drives it, and the time until which no other may.
    driver: Option<(Uuid, Instant)>,
    epoch: LeaseEpoch,
    /// The number of the last event when the run was assigned to an executor.
    taken_at: u64,
    takeovers: u32,
    ended_at: Option<Timestamp>,
    reported: bool,
    /// The events from number 1, without a gap.
    #[expect(
        clippy::vec_box,
        reason = "a list that grows moves what is in it, and events are large"
    )]
    events: Vec<Box<RunEvent>>,
    /// The values that the events leave out, by the numbers of the events.
    sealed: BTreeMap<u64, Ciphertext>,
    /// The exchanges, by the paths of their steps.
    exchanges: BTreeMap<String, Box<RecordedExchange>>,
}

impl MemoryRow {
    fn events(&self) -> impl DoubleEndedIterator<Item = &RunEvent> {
        self.events.iter().map(Box::as_ref)
    }

    fn last(&self) -> u64 {
        self.events.last().map_or(0, |event| event.seq)
    }

    /// Gives it to an executor, and begins a new epoch for all writes to it.
    fn assign(&mut self, lease: LeaseTerms, now: Instant, added: u32) -> (LeaseEpoch, u32) {
        let finished = |event: &RunEvent| matches!(event.kind, EventKind::StepFinished { .. });
        let news = self.events().rev().take_while(|event| event.seq > self.taken_at);
        let before = if news.into_iter().any(finished) { 0 } else { self.takeovers };
        self.takeovers = before.saturating_add(added);
        self.taken_at = self.last();
        self.epoch.0 += 1;
        self.driver = Some((lease.owner, now + lease.length));
        (self.epoch, self.takeovers)
    }
}

impl InMemoryStore {
    pub(super) fn count_waiting(&self) -> u64 {
        let kept = self.lock();
        kept.runs.values().filter(|row| row.status == RunStatus::Waiting).count() as u64
    }

    pub(super) fn newest_end(&self) -> Option<Timestamp> {
        self.lock().runs.values().filter_map(|row| row.ended_at).max()
    }

    /// Performs a task.
    pub(super) fn perform(&self, task: WriterTask) -> TaskOutcome {
        let mut kept = self.lock();
        match task {
            WriterTask::Append(JournalItem::Event { event, epoch, besides, committed }) => {
                let seq = event.seq;
                let outcome = kept.append_item(event, epoch, besides);
                drop(kept);
                if matches!(outcome, TaskOutcome::Done) {
                    notify_followers(&committed, seq);
                }
                outcome
            }
            WriterTask::Append(JournalItem::Exchange { run, epoch, step, exchange }) => {
                if let Some(row) = kept.runs.get_mut(&run).filter(|row| row.epoch == epoch) {
                    row.exchanges.insert(step, exchange);
                }
                TaskOutcome::Done
            }
            WriterTask::Create { run, .. } => TaskOutcome::Created(kept.create(*run)),
            WriterTask::StorePlan(plan) => kept.store_plan(*plan),
            WriterTask::SweepPlans(now) => {
                let before = forgotten_before(now);
                kept.plans.retain(|_, plan| plan.expires_at.as_millisecond() > before);
                let ended = kept.plans.values_mut().filter(|plan| plan.expires_at <= now);
                ended.for_each(|plan| plan.sealed = None);
                TaskOutcome::Done
            }
            WriterTask::RequestCancel(run) => {
                if let Some(row) = kept.runs.get_mut(&run) {
                    row.cancel_requested = true;
                }
                TaskOutcome::Done
            }
            WriterTask::MarkReported(runs) => {
                for run in runs {
                    if let Some(row) = kept.runs.get_mut(&run) {
                        row.reported = true;
                    }
                }
                TaskOutcome::Done
            }
            WriterTask::Delete(run) => {
                let is_over = kept.runs.get(&run).is_some_and(|row| row.ended_at.is_some());
                kept.delete(if is_over { vec![run] } else { Vec::new() })
            }
            WriterTask::Forget { before, limit } => {
                let ended = kept.runs.iter().filter_map(|(run, row)| Some((row.ended_at?, *run)));
                let mut over: Vec<_> = ended.filter(|(at, _)| *at < before).collect();
                over.sort_unstable();
                kept.delete(over.into_iter().take(limit).map(|(_, run)| run).collect())
            }
            WriterTask::Claim { lease, live, caps, limit } => {
                kept.claim(lease, &live, &caps, limit)
            }
            WriterTask::Renew { lease, live } => kept.renew(lease, live),
            WriterTask::Probe => TaskOutcome::Done,
            WriterTask::Release { owner } => {
                for row in kept.runs.values_mut() {
                    if row.driver.is_some_and(|(driver, _)| driver == owner) {
                        row.driver = None;
                        row.epoch.0 += 1;
                    }
                }
                TaskOutcome::Done
            }
        }
    }

    pub(super) fn events(&self, run: Uuid, after: u64, limit: usize) -> Vec<RunEvent> {
        let kept = self.lock();
        let Some(row) = kept.runs.get(&run) else { return Vec::new() };
        let after = usize::try_from(after).unwrap_or(usize::MAX);
        row.events().skip(after).take(limit).cloned().collect()
    }

    pub(super) fn sealed(&self, run: Uuid) -> BTreeMap<u64, Ciphertext> {
        self.lock().runs.get(&run).map_or_else(BTreeMap::new, |row| row.sealed.clone())
    }

    pub(super) fn exchanges(&self, run: Uuid) -> BTreeMap<String, RecordedExchange> {
        let kept = self.lock();
        let Some(row) = kept.runs.get(&run) else { return BTreeMap::new() };
        let kept = row.exchanges.iter();
        kept.map(|(step, exchange)| (step.clone(), RecordedExchange::clone(exchange))).collect()
    }

    pub(super) fn summary_events(&self, filter: &RunFilter, limit: usize) -> Vec<RunSummaryEvents> {
        let kept = self.lock();
        let newest_first = match filter.before {
            Some(before) => kept.runs.range(..before).rev(),
            None => kept.runs.range(..).rev(),
        };
        let shown = newest_first.map(|(_, row)| row).filter(|row| {
            filter.status.is_none_or(|status| row.status == status)
                && filter.name.as_ref().is_none_or(|name| row.origin.name == *name)
                && filter.tenant.as_ref().is_none_or(|tenant| row.origin.tenant == *tenant)
        });
        let life = |row: &MemoryRow| RunSummaryEvents {
            tenant: row.origin.tenant.clone(),
            events: row.events().filter(|event| is_turn(event)).cloned().collect(),
        };
        shown.take(limit).map(life).collect()
    }

    pub(super) fn run(&self, run: Uuid) -> Option<RunRow> {
        let kept = self.lock();
        let row = kept.runs.get(&run)?;
        Some(RunRow {
            status: row.status,
            tenant: row.origin.tenant.clone(),
            choices: row.origin.choices.clone(),
            cancel_requested: row.cancel_requested,
            epoch: row.epoch,
        })
    }

    pub(super) fn tenant_load(&self, tenant: &Principal) -> TenantLoad {
        self.lock().tenant_load(tenant)
    }

    pub(super) fn key(&self, key: &str) -> Option<(Uuid, Digest)> {
        self.lock().key(key)
    }

    pub(super) fn documents(&self, digests: &[Digest]) -> BTreeMap<Digest, Vec<u8>> {
        let kept = self.lock();
        let found = digests.iter().filter_map(|digest| kept.documents.get_key_value(digest));
        found.map(|(digest, source)| (*digest, source.to_vec())).collect()
    }

    pub(super) fn plan(&self, id: Digest) -> Option<StoredPlan> {
        self.lock().plans.get(&id).cloned()
    }

    pub(super) fn unreported(&self, after: Uuid, limit: usize) -> Vec<Uuid> {
        let kept = self.lock();
        let due = |row: &MemoryRow| row.ended_at.is_some() && !row.reported;
        let runs = kept.runs.range(after..).filter(|(run, row)| **run != after && due(row));
        runs.map(|(run, _)| *run).take(limit).collect()
    }

    pub(super) fn outline(&self, run: Uuid) -> Vec<RunEvent> {
        let kept = self.lock();
        let Some(row) = kept.runs.get(&run) else { return Vec::new() };
        row.events().filter(|event| is_in_outline(event)).cloned().collect()
    }

    /// Lets the lease of a run expire.
    #[cfg(test)]
    pub(super) fn expire(&self, run: Uuid) {
        if let Some((_, until)) = self.lock().runs.get_mut(&run).and_then(|row| row.driver.as_mut())
        {
            *until = Instant::now();
        }
    }

    fn lock(&self) -> MutexGuard<'_, MemoryTables> {
        lock(&self.0)
    }
}

impl MemoryTables {
    fn append_item(
        &mut self,
        event: Box<RunEvent>,
        epoch: LeaseEpoch,
        besides: SealedChanges,
    ) -> TaskOutcome {
        let is_in_turn = |row: &&mut MemoryRow| {
            let may_go_on = row.status.is_in_progress() || row.status == RunStatus::Waiting;
            let is_cancelled = row.cancel_requested && yields_to_cancel(&event.kind);
            may_go_on && !is_cancelled && row.epoch == epoch && row.last() + 1 == event.seq
        };
        let Some(row) = self.runs.get_mut(&event.run).filter(is_in_turn) else {
            return TaskOutcome::OutOfTurn;
        };
        let SealedChanges { sealed, obsolete } = besides;
        row.sealed.extend(sealed.map(|sealed| (event.seq, sealed)));
        if let Some(obsolete) = obsolete {
            row.sealed.remove(&obsolete);
        }
        if let Some(status) = status_after(&event) {
            row.status = status;
            row.driver = None;
            row.takeovers = 0;
            if status.is_in_progress() {
                self.under_way.insert(event.run);
            } else {
                self.under_way.remove(&event.run);
            }
            if status.is_final() {
                row.ended_at = Some(event.at);
                row.sealed.clear();
            }
        }
        row.events.push(event);
        TaskOutcome::Done
    }

    fn create(&mut self, run: NewRun) -> CreateResult {
        if let Some((run, digest)) = run.key.as_deref().and_then(|key| self.key(key)) {
            return CreateResult::Existing(run, digest);
        }
        let place = run.quota.decide(run.lease.is_some(), || self.tenant_load(&run.tenant));
        if place == QueueDecision::Refuse {
            return CreateResult::Full;
        }
        let (id, at) = (run.first.run, run.first.at);
        if let Some(plan) = run.plan {
            let usable = |plan: &&mut StoredPlan| plan.used_by.is_none() && plan.expires_at > at;
            let Some(plan) = self.plans.get_mut(&plan).filter(usable) else {
                return CreateResult::PlanGone;
            };
            plan.used_by = Some(id);
            plan.sealed = None;
        }
        let lease = run.lease.filter(|_| place == QueueDecision::Start);
        let waits = lease.is_none().then(|| run.queued_event());
        self.keys.extend(run.key.clone().map(|key| (key, id)));
        self.documents.extend(run.documents);
        self.under_way.insert(id);
        let row = MemoryRow {
            origin: RunOrigin {
                name: run.name,
                tenant: run.tenant,
                choices: run.choices,
                key: run.key,
                request_digest: run.request_digest,
            },
            status: if waits.is_some() { RunStatus::Queued } else { RunStatus::Running },
            cancel_requested: false,
            driver: lease.map(|lease| (lease.owner, Instant::now() + lease.length)),
            epoch: LeaseEpoch::FIRST,
            taken_at: 0,
            takeovers: 0,
            ended_at: None,
            reported: false,
            sealed: run.sealed.map(|sealed| (run.first.seq, sealed)).into_iter().collect(),
            exchanges: BTreeMap::new(),
            events: [run.first].into_iter().chain(waits).map(Box::new).collect(),
        };
        let status = row.status;
        self.runs.insert(id, row);
        if status == RunStatus::Queued { CreateResult::Queued } else { CreateResult::New }
    }

    fn delete(&mut self, runs: Vec<Uuid>) -> TaskOutcome {
        for run in &runs {
            let key = self.runs.remove(run).and_then(|row| row.origin.key);
            key.map(|key| self.keys.remove(&key));
        }
        TaskOutcome::Runs(runs)
    }

    fn claim(
        &mut self,
        lease: LeaseTerms,
        live: &[Uuid],
        caps: &TenantCaps,
        limit: usize,
    ) -> TaskOutcome {
        let now = Instant::now();
        let live: BTreeSet<&Uuid> = live.iter().collect();
        let is_free = |run: &Uuid| {
            self.runs.get(run).is_some_and(|row| {
                row.status == RunStatus::Running && row.driver.is_none_or(|(_, until)| until <= now)
            })
        };
        let free = self.under_way.iter().filter(|run| !live.contains(run) && is_free(run));
        let free: Vec<Uuid> = free.take(limit).copied().collect();
        let mut claimed = Vec::new();
        for run in free {
            let Some(row) = self.runs.get_mut(&run) else { continue };
            let from_another = row.driver.is_some_and(|(driver, _)| driver != lease.owner);
            let (epoch, takeovers) = row.assign(lease, now, u32::from(from_another));
            claimed.push(ClaimedRun { run, epoch, takeovers });
        }
        while claimed.len() < limit
            && let Some(run) = self.next_turn(caps)
            && let Some(row) = self.runs.get_mut(&run)
        {
            self.last_turn += 1;
            self.turns.insert(row.origin.tenant.clone(), self.last_turn);
            row.status = RunStatus::Running;
            let (epoch, takeovers) = row.assign(lease, now, 0);
            claimed.push(ClaimedRun { run, epoch, takeovers });
        }
        let left = self.rows_under_way().any(|(_, row)| row.status == RunStatus::Queued);
        TaskOutcome::Claimed(claimed, left)
    }

    /// The run that begins next: see [`super::run_queue`].
    fn next_turn(&self, caps: &TenantCaps) -> Option<Uuid> {
        let mut tenants: BTreeMap<&Principal, (u32, Option<Uuid>)> = BTreeMap::new();
        for (run, row) in self.rows_under_way() {
            let (begun, head) = tenants.entry(&row.origin.tenant).or_default();
            match row.status {
                // The oldest comes first.
                RunStatus::Queued => *head = head.or(Some(run)),
                _ => *begun += 1,
            }
        }
        let ready = tenants.into_iter().filter_map(|(tenant, (begun, head))| {
            let most = caps.limit_for(tenant);
            let has_room = most.is_none_or(|most| begun < most.get());
            let turn = self.turns.get(tenant).copied().unwrap_or_default();
            Some((begun, turn, head?)).filter(|_| has_room)
        });
        ready.min().map(|(_, _, head)| head)
    }

    fn renew(&mut self, lease: LeaseTerms, live: Vec<(Uuid, LeaseEpoch)>) -> TaskOutcome {
        let until = Instant::now() + lease.length;
        let mut held = Vec::new();
        for (run, epoch) in live {
            let is_held = |row: &&mut MemoryRow| row.status.is_in_progress() && row.epoch == epoch;
            let Some(row) = self.runs.get_mut(&run).filter(is_held) else { continue };
            row.driver = row.driver.map(|(driver, _)| (driver, until));
            held.push(RenewedRun { run, cancel_requested: row.cancel_requested });
        }
        TaskOutcome::Held(held)
    }

    fn store_plan(&mut self, plan: NewPlan) -> TaskOutcome {
        let NewPlan { id, tenant, now, expires_at, sealed, most, most_own, most_of_token } = plan;
        let waits = |plan: &&StoredPlan| plan.expires_at > now && plan.used_by.is_none();
        let is_own = |plan: &&StoredPlan| plan.tenant == tenant;
        let waiting = || self.plans.values().filter(waits);
        let is_of_token = |plan: &&StoredPlan| plan.tenant.token == tenant.token;
        if waiting().count() >= most
            || waiting().filter(is_own).count() >= most_own
            || waiting().filter(is_of_token).count() >= most_of_token
        {
            return TaskOutcome::Full;
        }
        let plan = StoredPlan { tenant, expires_at, used_by: None, sealed: Some(sealed) };
        self.plans.insert(id, plan);
        TaskOutcome::Done
    }

    fn key(&self, key: &str) -> Option<(Uuid, Digest)> {
        let run = self.keys.get(key)?;
        Some((*run, self.runs.get(run)?.origin.request_digest))
    }

    fn tenant_load(&self, tenant: &Principal) -> TenantLoad {
        let mut load = TenantLoad { begun: 0, queued: 0, queued_of_token: 0 };
        let is_of_token = |row: &MemoryRow| row.origin.tenant.token == tenant.token;
        for (_, row) in self.rows_under_way().filter(|(_, row)| is_of_token(row)) {
            let is_own = i64::from(row.origin.tenant == *tenant);
            match row.status {
                RunStatus::Queued => {
                    load.queued += is_own;
                    load.queued_of_token += 1;
                }
                _ => load.begun += is_own,
            }
        }
        load
    }

    fn rows_under_way(&self) -> impl Iterator<Item = (Uuid, &MemoryRow)> {
        self.under_way.iter().filter_map(|run| Some((*run, self.runs.get(run)?)))
    }
}
