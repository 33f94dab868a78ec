//! The scheduler of runs: which runs this executor drives, on which of its threads, and for how long.

mod active_runs;
mod leases;
mod run_slots;
mod run_watchers;
mod sweep_clock;
mod takeover;
mod worker_threads;

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use a2s_api::{EventKind, Run, RunEvent, RunStatus};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use uuid::Uuid;

use super::approvals::{ApprovalSchedule, is_wait_for_approval};
use super::context::RunContext;
use super::report::OutcomeReports;
use super::resolver::RunResolver;
use super::run_task::RunTask;
use super::{POLL, cancelled, ended, not_found};
use crate::clock::milliseconds_between;
use crate::config::Config;
use crate::engine::{CancelReason, CancelToken};
use crate::error::{Error, ErrorKind};
use crate::journal::lease::{RunLease, taken};
use crate::journal::lock;
use crate::journal::run_state::{RunProgress, RunState};
use crate::journal::store::{LeaseEpoch, TenantCaps, TenantQuota};
use crate::outbound::with_tenant;
use crate::secrets::RunSecrets;
pub(super) use active_runs::{ActiveRun, ActiveRuns};
pub(super) use run_slots::RunSlot;
use run_slots::RunSlots;
pub(super) use run_watchers::{EventPage, RunWatch, RunWatchers};
use sweep_clock::SweepClock;
use worker_threads::WorkerPool;

/// The least time to send waiting spans and security events when an executor stops.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);
/// The maximum number of attempts to end a waiting run that others change at the same time.
const MAX_CANCEL_TRIES: usize = 5;

/// The scheduler of the runs of one executor.
#[derive(Debug)]
pub(super) struct RunScheduler {
    context: Arc<RunContext>,
    resolver: Arc<RunResolver>,
    reports: Arc<OutcomeReports>,
    /// The runs that wait for an approval.
    approvals: Arc<ApprovalSchedule>,
    /// The runs that are driven here.
    active: ActiveRuns,
    /// The watchers of runs that are not driven here.
    watchers: Arc<RunWatchers>,
    /// The threads that drive runs.
    workers: WorkerPool,
    /// The tasks of runs, and the tasks that renew leases and send reports. Dropping the executor aborts
    /// them.
    tasks: Mutex<JoinSet<()>>,
    /// The slots, one for each run that may be driven at the same time.
    slots: Arc<RunSlots>,
    /// The most runs that each tenant may have begun.
    tenant_caps: Arc<TenantCaps>,
    /// The check before anything is deleted by its age.
    sweep_clock: Mutex<SweepClock>,
    closing: AtomicBool,
}

impl RunScheduler {
    /// Starts the threads for runs, and continues the runs that no executor drives.
    ///
    /// # Errors
    /// Fails when the system gives no threads, or the database fails.
    pub(super) async fn start(
        context: Arc<RunContext>,
        resolver: Arc<RunResolver>,
        reports: Arc<OutcomeReports>,
        approvals: Arc<ApprovalSchedule>,
    ) -> Result<Arc<Self>, Error> {
        let newest = context.store.read_newest_end().await?;
        let scheduler = Arc::new(Self {
            active: ActiveRuns::default(),
            watchers: Arc::default(),
            workers: WorkerPool::start()?,
            tasks: Mutex::default(),
            slots: RunSlots::new(context.config.limits.max_runs),
            tenant_caps: Arc::new(tenant_caps(&context.config)),
            sweep_clock: Mutex::new(SweepClock::new(newest, Instant::now())),
            closing: AtomicBool::new(false),
            context,
            resolver,
            reports,
            approvals,
        });
        scheduler.delete_expired().await?;
        scheduler.take_over().await?;
        scheduler.count_waiting().await;
        scheduler.spawn_background(Arc::clone(&scheduler).renew_leases());
        scheduler.spawn_background(Arc::clone(&scheduler).run_maintenance());
        scheduler.spawn_background(Arc::clone(&scheduler).follow_notifications());
        scheduler.spawn_background(Arc::clone(&scheduler.reports).run());
        Ok(scheduler)
    }

    /// Runs a task until the executor ends.
    pub(super) fn spawn_background(&self, task: impl Future<Output = ()> + Send + 'static) {
        lock(&self.tasks).spawn(task);
    }

    /// Refuses new work while the executor stops.
    pub(super) fn check_open(&self) -> Result<(), Error> {
        if self.is_closing() {
            return Err(Error::new(ErrorKind::Closing, "the executor is shutting down"));
        }
        Ok(())
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }

    pub(super) fn active(&self) -> &ActiveRuns {
        &self.active
    }

    pub(super) fn watchers(&self) -> &Arc<RunWatchers> {
        &self.watchers
    }

    /// Acquires a slot for a run that is started now, if there is one and no other run comes first.
    pub(super) async fn try_slot(&self, quota: TenantQuota) -> Option<RunSlot> {
        self.slots.try_acquire(quota.max_queued > 0).await
    }

    /// Records that a run waits for a slot.
    pub(super) fn note_queued(&self) {
        self.context.metrics.run_queued();
        self.slots.notify();
    }

    /// Counts a run among those that are driven here.
    pub(super) fn activate(
        &self,
        state: RunState,
        lease: RunLease,
        secrets: Arc<RunSecrets>,
    ) -> Arc<ActiveRun> {
        let (run, lease) = (state.id(), Arc::new(lease));
        let journal = self.context.journal(state, Arc::clone(&lease), Arc::clone(&secrets));
        let (cancel, ended) = (CancelToken::default(), watch::Sender::new(None));
        let active = ActiveRun { lease, journal, cancel, secrets, ended };
        let active = self.active.insert(run, active);
        self.watchers.notify(run);
        active
    }

    /// Drives a run in its own task.
    pub(super) fn spawn(self: &Arc<Self>, task: RunTask, resumed: bool) {
        self.context.metrics.run_began(resumed);
        let mut tasks = lock(&self.tasks);
        // Tasks that have ended are forgotten here, so that the set does not grow.
        while tasks.try_join_next().is_some() {}
        self.workers.spawn(&mut tasks, Arc::clone(self).drive(task));
    }

    /// Drives a run until it ends or must be released.
    async fn drive(self: Arc<Self>, task: RunTask) {
        let last_event = with_tenant(task.principal.to_string(), task.walk(&self.context)).await;
        let RunTask { run, active, slot, .. } = task;
        self.release(run, active, last_event).await;
        self.context.metrics.run_left();
        drop(slot);
    }

    /// Records the last event of a run, if it has one, releases the run, and reports its outcome.
    async fn release(&self, run: Uuid, active: Arc<ActiveRun>, last_event: Option<EventKind>) {
        let mut rest = None;
        let needs_approval = last_event.as_ref().is_some_and(is_wait_for_approval);
        if let Some(kind) = last_event {
            let (status, duration_ms) = match &kind {
                EventKind::RunFinished { status, duration_ms, .. } => (*status, *duration_ms),
                _ => (RunStatus::Waiting, 0),
            };
            // A run that has ended has all its decisions in the log of the guardian. A guardian that
            // cannot write them reports that itself, and denies further steps.
            let committed = active.journal.commit(kind);
            match tokio::join!(committed, self.context.gate.flush()).0 {
                Ok(()) => {
                    rest = Some(status);
                    active.ended.send_replace(active.journal.state());
                    tracing::info!(%run, status = status.as_str(), duration_ms, "run ended");
                    self.context.metrics.run_ended(status, duration_ms);
                }
                Err(error)
                    if error.kind == ErrorKind::LeaseLost && status == RunStatus::Waiting =>
                {
                    match self.end_instead_of_wait(run, &active).await {
                        Ok(ended) => drop(active.ended.send_replace(Some(ended))),
                        Err(error) => {
                            tracing::error!(%run, %error, "the wait of a run was not recorded");
                        }
                    }
                }
                Err(error) => tracing::error!(%run, %error, "the end of a run was not recorded"),
            }
        }
        self.active.remove(run, &active);
        if needs_approval && rest.is_some() {
            self.approvals.add(run);
        }
        // Dropping the journal notifies the requests that wait for the run.
        drop(active);
        match rest {
            Some(status) if status.is_final() => self.reports.announce_end(run).await,
            Some(_) => {
                self.count_waiting().await;
                self.reports.export_run(run).await;
            }
            None => {}
        }
    }

    /// Ends a run, or has it ended by the executor that drives it.
    pub(super) async fn cancel(&self, run: Uuid) -> Result<Run, Error> {
        let row = self.context.read_row(run).await?;
        if row.status.is_final() {
            return Err(ended(run, row.status));
        }
        // On the disk first: an executor that drives the run, now or later, ends it, and the run cannot
        // begin to wait for an approval.
        self.context.store.request_cancel(run).await?;
        for _ in 0..MAX_CANCEL_TRIES {
            let events = self.context.read_events(run).await?;
            let state = RunState::from_events(&events).ok_or_else(|| not_found(run))?;
            match state.status() {
                RunStatus::Waiting | RunStatus::Queued => {
                    match self.end_cancelled(state, &events).await {
                        // An executor or a person has just changed it.
                        Err(error) if error.kind == ErrorKind::LeaseLost => {}
                        ended => return ended,
                    }
                }
                _ => break,
            }
        }
        // The response has the run as it was: its end would depend on which task is faster.
        let shown = self.context.read_run(run).await;
        self.cancel_active(run);
        shown
    }

    /// Cancels a run that no executor drives.
    async fn end_cancelled(&self, state: RunState, events: &[RunEvent]) -> Result<Run, Error> {
        let row = self.context.read_row(state.id()).await?;
        let now = self.context.clock.now();
        let duration_ms = milliseconds_between(state.to_run().started_at, now);
        let repeat_safe = RunProgress::from_events(events).count_effects() == 0;
        self.end_undriven(state, row.epoch, None, cancelled(repeat_safe, duration_ms)).await
    }

    /// Cancels a run that is driven here and could not begin to wait, because a caller has cancelled it.
    async fn end_instead_of_wait(&self, run: Uuid, active: &ActiveRun) -> Result<Run, Error> {
        let row = self.context.read_row(run).await?;
        if !row.cancel_requested || row.epoch != active.lease.epoch {
            return Err(taken(run));
        }
        let events = self.context.read_events(run).await?;
        let state = RunState::from_events(&events).ok_or_else(|| not_found(run))?;
        self.end_cancelled(state, &events).await
    }

    fn cancel_active(&self, run: Uuid) {
        if let Some(active) = self.active.get(run) {
            active.cancel.cancel(CancelReason::Cancelled);
        }
    }

    /// Ends a run that no executor drives, with its last event and the event before it, if any.
    ///
    /// # Errors
    /// [`ErrorKind::LeaseLost`] when an executor drives it by now.
    pub(super) async fn end_undriven(
        &self,
        state: RunState,
        epoch: LeaseEpoch,
        before: Option<EventKind>,
        last: EventKind,
    ) -> Result<Run, Error> {
        let run = state.id();
        let journal = self.context.journal_without_lease(state, epoch, Arc::default());
        if let Some(before) = before {
            journal.append(before);
        }
        journal.commit(last).await?;
        let ended = journal.state().ok_or_else(|| not_found(run))?;
        let finished_at = ended.finished_at.unwrap_or(ended.started_at);
        let duration_ms = milliseconds_between(ended.started_at, finished_at);
        self.context.metrics.run_ended(ended.status, duration_ms);
        self.watchers.notify(run);
        self.reports.announce_end(run).await;
        Ok(ended)
    }

    /// Queues a run that waits as a whole, so that it continues in its turn.
    pub(super) async fn requeue(
        self: &Arc<Self>,
        state: RunState,
        epoch: LeaseEpoch,
    ) -> Result<(), Error> {
        let journal = self.context.journal_without_lease(state, epoch, Arc::default());
        journal.commit(EventKind::RunQueued {}).await?;
        self.slots.notify();
        self.take_over().await
    }

    /// Waits until a run cannot proceed by itself, on any executor, and returns it.
    pub(super) async fn wait_until_at_rest(&self, run: Uuid) -> Result<Run, Error> {
        let watch = self.watchers.watch(run);
        loop {
            let more = watch.changed();
            if let Some(mut ended) = self.active.get(run).map(|active| active.ended.subscribe()) {
                while ended.changed().await.is_ok() {}
                if let Some(ended) = ended.borrow().clone() {
                    return Ok(ended);
                }
            }
            let elsewhere = self.watchers.changed_elsewhere();
            let found = self.context.read_run(run).await?;
            if !found.status.is_in_progress() || self.is_closing() {
                return Ok(found);
            }
            // Another executor drives it now, or none.
            tokio::select! {
                () = more => {}
                _ = tokio::time::timeout(POLL, elsewhere) => {}
            }
        }
    }

    /// Accepts no more runs, gives active runs `grace` to end, then leaves the rest to the next executor
    /// that opens the database. Still waits for requests that must not be aborted, as long as a request may
    /// take.
    ///
    /// The rest of `grace` is for spans that wait.
    pub(super) async fn shut_down(&self, grace: Duration) {
        let until = Instant::now() + grace;
        self.closing.store(true, Ordering::SeqCst);
        if !self.wait_until_idle(grace).await {
            let active = self.active.list();
            tracing::info!(
                runs = active.len(),
                "the executor stops; unfinished runs continue later"
            );
            active.iter().for_each(|(_, active)| active.cancel.cancel(CancelReason::Suspended));
            drop(active);
            // Time for one request and the guardian's word on it.
            let limit = self.context.config.limits.request_timeout + Duration::from_secs(10);
            if !self.wait_until_idle(limit).await {
                tracing::warn!("some runs did not stop in time");
            }
        }
        self.end_tasks().await;
        self.reports.mark_reported().await;
        let left = until.saturating_duration_since(Instant::now());
        self.context.sinks.close(left.max(FLUSH_TIMEOUT)).await;
        if let Err(error) = self.context.store.release(self.context.owner).await {
            tracing::warn!(%error, "the leases could not be released; they expire");
        }
    }

    /// Returns true when all runs have left within `limit`.
    async fn wait_until_idle(&self, limit: Duration) -> bool {
        // Every run holds its slot until it has left.
        tokio::time::timeout(limit, self.slots.acquire_all()).await.is_ok()
    }

    async fn end_tasks(&self) {
        let mut tasks = std::mem::take(&mut *lock(&self.tasks));
        tasks.shutdown().await;
        self.workers.shut_down().await;
    }

    /// Ends all tasks at once, in the middle of whatever they do.
    pub(super) fn abort(&self) {
        lock(&self.tasks).abort_all();
    }

    /// Aborts all tasks and waits until they are gone.
    #[cfg(test)]
    pub(super) async fn crash(&self) {
        self.end_tasks().await;
        // As if the time of its leases had passed.
        self.context.store.expire(self.context.owner).await;
    }
}

/// The most runs that each tenant may have begun.
fn tenant_caps(config: &Config) -> TenantCaps {
    let own = config.tenants.iter();
    let own = own.filter_map(|(tenant, limits)| Some((tenant.clone(), limits.max_runs?)));
    TenantCaps { default: config.limits.max_tenant_runs, by_tenant: own.collect() }
}
