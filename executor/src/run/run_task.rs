//! Driving runs: from a task of their own to their last event, and over from a process that died.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use a2s_api::Principal;
use a2s_api::{EventKind, RunError, RunEvent, RunStatus};
use futures::{FutureExt as _, StreamExt as _, stream};
use serde_json::Value;
use tokio::time::Instant;
use uuid::Uuid;

use super::approvals::is_wait_for_approval;
use super::run_slots::RunSlot;
use super::{ActiveRun, POLL, RunService, cancelled, lock, not_found};
use crate::clock::milliseconds_between;
use crate::engine::{
    CancelReason, Engine, LiveTransport, RunBudget, RunRecorder, ServiceTransport, StepError,
};
use crate::error::{Error, ErrorKind};
use crate::journal::lease::RunLease;
use crate::journal::run_state::{RunHeader, RunProgress, RunState};
use crate::journal::sealed_values::restore_values;
use crate::journal::store::{ClaimedRun, LeaseTerms, Notification};
use crate::outbound::with_tenant;
use crate::plan::ExecutionPlan;
use crate::registry_client::{ResolvedDependencies, RunDocuments};
use crate::request::ContractCache;
use crate::secrets::RunSecrets;
use crate::telemetry::RunTrace;

/// The most claimed runs that are read and started at the same time.
const MAX_CONCURRENT_STARTS: usize = 8;
/// The number of old runs that are deleted at a time, so that others do not have to wait for the database.
const FORGET_BATCH: usize = 500;

/// A run that is about to be driven.
pub(super) struct RunTask {
    pub(super) run: Uuid,
    /// The principal that it belongs to.
    pub(super) principal: Principal,
    pub(super) live: Arc<ActiveRun>,
    pub(super) plan: ExecutionPlan,
    pub(super) header: RunHeader,
    pub(super) progress: RunProgress,
    pub(super) slot: RunSlot,
}

impl RunService {
    /// Drives a run in its own task.
    pub(super) fn spawn(self: &Arc<Self>, drive: RunTask, resumed: bool) {
        self.metrics.run_began(resumed);
        let mut tasks = lock(&self.tasks);
        // Tasks that have ended are forgotten here, so that the set does not grow.
        while tasks.try_join_next().is_some() {}
        self.workers.spawn(&mut tasks, Arc::clone(self).drive_run(drive));
    }

    /// Drives a run until it ends or must be released.
    async fn drive_run(self: Arc<Self>, drive: RunTask) {
        let last_event = with_tenant(drive.principal.to_string(), self.walk_plan(&drive)).await;
        let RunTask { run, live, slot: place, .. } = drive;
        self.release_run(run, live, last_event).await;
        self.metrics.run_left();
        drop(place);
    }

    /// Records the last event of a run, if it has one, releases the run, and reports its outcome.
    async fn release_run(&self, run: Uuid, live: Arc<ActiveRun>, last_event: Option<EventKind>) {
        let mut rest = None;
        let needs_approval = last_event.as_ref().is_some_and(is_wait_for_approval);
        if let Some(kind) = last_event {
            let (status, duration_ms) = match &kind {
                EventKind::RunFinished { status, duration_ms, .. } => (*status, *duration_ms),
                _ => (RunStatus::Waiting, 0),
            };
            match live.journal.commit(kind).await {
                Ok(()) => {
                    rest = Some(status);
                    live.ended.send_replace(live.journal.state());
                    tracing::info!(%run, status = status.as_str(), duration_ms, "run ended");
                    self.metrics.run_ended(status, duration_ms);
                }
                Err(error) => tracing::error!(%run, %error, "the end of a run was not recorded"),
            }
        }
        self.remove_active(run, &live);
        if needs_approval && rest.is_some() {
            self.approval_schedule.add(run);
        }
        // Dropping the journal notifies the requests that wait for the run.
        drop(live);
        match rest {
            Some(status) if status.is_final() => self.announce_end(run).await,
            Some(_) => {
                self.count_waiting().await;
                self.export_run(run).await;
            }
            None => {}
        }
    }

    /// Removes a run from those that are driven here. If the run has started again here since then, it
    /// stays.
    fn remove_active(&self, run: Uuid, left: &Arc<ActiveRun>) {
        let mut live = lock(&self.active);
        if live.get(&run).is_some_and(|live| Arc::ptr_eq(live, left)) {
            live.remove(&run);
        }
    }

    /// Walks the plan of a run, and returns the event to record at its end.
    async fn walk_plan(&self, drive: &RunTask) -> Option<EventKind> {
        let RunTask { run, principal, live, plan, header: start, progress, slot: _ } = drive;
        let exported = self.sinks.exports_spans();
        let trace = RunTrace::from_caller(*run, start.trace.as_deref(), exported);
        let engine = Engine {
            run: *run,
            session: &start.session,
            plan,
            recorder: RunRecorder {
                progress,
                effects: AtomicUsize::new(progress.count_effects()),
                budget: RunBudget::new(&self.config.limits, progress.count_begun()),
                secrets: &live.secrets,
                journal: &live.journal,
                clock: &self.clock,
                metrics: &self.metrics,
                keep_answer_bytes: self.config.limits.keep_answer_bytes,
            },
            transport: ServiceTransport::Live(LiveTransport {
                principal,
                gate: &self.gate,
                outbound: &self.outbound,
                retries: &self.retries,
                ids: &self.ids,
                response_validation: self.config.response_validation,
                trace: Some(&trace),
                propagate: self.config.telemetry.propagate,
                approval_poll: None,
            }),
            contracts: ContractCache::default(),
            evaluations: &self.evaluations,
            max_parallel: self.config.limits.max_parallel,
            max_request_bytes: self.config.limits.max_request_bytes,
        };
        let walk = AssertUnwindSafe(engine.walk(&start.inputs, &live.cancel)).catch_unwind();
        let mut walk = std::pin::pin!(walk);
        let ended = tokio::select! {
            ended = &mut walk => ended,
            () = tokio::time::sleep(self.config.limits.max_run_time) => {
                live.cancel.cancel(CancelReason::RunTimeout);
                walk.await
            }
        };
        let ended = ended.unwrap_or_else(|_| {
            // The panic itself was reported where it happened.
            let error = Error::new(ErrorKind::Internal, "the executor failed during this run");
            Err(StepError::Failed(error.to_run_error(None, None, engine.is_repeat_safe())))
        });
        let duration_ms = milliseconds_between(start.at, self.clock.now());
        last_event(ended, engine.is_repeat_safe(), duration_ms)
    }

    /// Reports to the listeners and the registry how a run ended. A failure to report changes nothing for
    /// the run.
    pub(super) async fn announce_end(&self, run: Uuid) {
        self.export_run(run).await;
        // One that fails is repeated later.
        let _ = self.report_outcome(run).await;
    }

    /// Reports a run that is over or waits to the listeners.
    async fn export_run(&self, run: Uuid) {
        if !self.sinks.has_sinks() {
            return;
        }
        match self.read_all(run).await {
            Ok(mut events) => {
                self.name_principal(&mut events).await;
                self.sinks.export_run(&events);
            }
            Err(error) => tracing::warn!(%run, %error, "the run could not be exported"),
        }
    }

    /// Adds the principal to the first event of a run that an older executor started. It comes from the row
    /// of the run.
    async fn name_principal(&self, events: &mut [RunEvent]) {
        if let Some(RunEvent { run, kind: EventKind::RunStarted(started), .. }) = events.first_mut()
            && started.principal.is_none()
            && let Ok(Some(row)) = self.store.read_run(*run).await
        {
            started.principal = Some(row.tenant);
        }
    }

    /// Renews the leases of live runs, and obeys cancellations that were requested elsewhere.
    pub(super) async fn renew_leases(self: Arc<Self>) {
        loop {
            tokio::time::sleep(self.config.limits.lease / 3).await;
            if let Err(error) = self.renew_once().await {
                tracing::error!(%error, "leases could not be renewed");
            }
        }
    }

    /// Renews the leases of live runs once. Stops those that belong to another executor now.
    async fn renew_once(&self) -> Result<(), Error> {
        let live: BTreeMap<Uuid, Arc<ActiveRun>> = lock(&self.active).clone();
        if live.is_empty() {
            return Ok(());
        }
        let epochs = live.iter().map(|(run, live)| (*run, live.lease.epoch)).collect();
        let (asked, lease) = (Instant::now(), self.lease());
        let held = self.store.renew(lease, epochs).await?;
        let held: BTreeMap<Uuid, bool> =
            held.iter().map(|held| (held.run, held.cancel_requested)).collect();
        for (run, live) in &live {
            match held.get(run) {
                Some(cancel_requested) => {
                    live.lease.extend(asked, lease);
                    if *cancel_requested {
                        live.cancel.cancel(CancelReason::Cancelled);
                    }
                }
                // It has just ended, or another executor has it.
                None => live.cancel.cancel(CancelReason::LeaseLost),
            }
        }
        Ok(())
    }

    /// Listens to other executors, as long as the database delivers their notifications.
    pub(super) async fn follow_notifications(self: Arc<Self>) {
        loop {
            match self.handle_notifications().await {
                Ok(()) => return,
                Err(error) => {
                    tracing::warn!(%error, "notifications of other executors are not available now")
                }
            }
            tokio::time::sleep(POLL).await;
        }
    }

    async fn handle_notifications(&self) -> Result<(), Error> {
        let Some(mut listener) = self.store.listen().await? else { return Ok(()) };
        // Missed notifications are not repeated.
        let mut word = Notification::Missed;
        loop {
            match word {
                Notification::Cancel(run) => {
                    let live = lock(&self.active).get(&run).cloned();
                    if let Some(live) = live {
                        live.cancel.cancel(CancelReason::Cancelled);
                    }
                }
                Notification::RunAtRest => self.wake.notify_waiters(),
                Notification::RunsAvailable => self.slots.notify(),
                Notification::Missed => {
                    self.renew_once().await?;
                    self.wake.notify_waiters();
                    self.slots.notify();
                }
            }
            word = listener.next_notification().await?;
        }
    }

    /// Takes over runs that no executor drives, and deletes expired runs and plans, from time to time. It
    /// is separate from renewing the leases, which must not wait for it.
    pub(super) async fn run_maintenance(self: Arc<Self>) {
        let pause = self.config.limits.lease / 3;
        let mut due = Instant::now() + pause;
        loop {
            self.slots.wait_for_runs(due).await;
            if let Err(error) = self.take_over().await {
                tracing::error!(%error, "runs could not be taken over");
            }
            if Instant::now() < due {
                continue;
            }
            due = Instant::now() + pause;
            self.count_waiting().await;
            if let Err(error) = self.delete_expired().await {
                tracing::error!(%error, "old runs could not be deleted");
            }
            if let Err(error) = self.store.sweep_plans(self.clock.now()).await {
                tracing::error!(%error, "old plans could not be deleted");
            }
        }
    }

    /// Updates the metric for runs that wait for a person.
    pub(super) async fn count_waiting(&self) {
        match self.store.count_waiting().await {
            Ok(count) => self.metrics.set_waiting_runs(count),
            Err(error) => tracing::error!(%error, "waiting runs could not be counted"),
        }
    }

    /// Resumes runs that no executor drives, and begins waiting runs, as long as there are free slots.
    pub(super) async fn take_over(self: &Arc<Self>) -> Result<(), Error> {
        loop {
            let gathered = self.slots.acquire_batch().await;
            let room = gathered.len();
            if room == 0 || self.closing.load(Ordering::SeqCst) {
                return Ok(());
            }
            // A run that is driven here is not taken over from here, however late its lease is renewed.
            let live = lock(&self.active).keys().copied().collect();
            let (asked, lease) = (Instant::now(), self.lease());
            let claimed = self.store.claim(lease, live, Arc::clone(&self.tenant_caps), room).await;
            let (claimed, left) = claimed?;
            let is_full = claimed.len() == room;
            let places = gathered.into_slots(claimed.len(), left);
            let take = |(claimed, place)| self.start_claimed(claimed, (asked, lease), place);
            let taken: Vec<_> = claimed.into_iter().zip(places).map(take).collect();
            stream::iter(taken).buffer_unordered(MAX_CONCURRENT_STARTS).collect::<()>().await;
            if !is_full {
                return Ok(());
            }
        }
    }

    /// Drives a run that was assigned to this executor, unless too many executors crashed with it.
    async fn start_claimed(
        self: &Arc<Self>,
        ClaimedRun { run, epoch, takeovers }: ClaimedRun,
        (asked, lease): (Instant, LeaseTerms),
        place: RunSlot,
    ) {
        let run_lease = RunLease::granted_after(asked, lease, epoch);
        let taken = if takeovers <= self.config.limits.max_takeovers {
            self.resume(run, run_lease, place).await
        } else {
            self.suspend_crashing_run(run, run_lease, takeovers).await
        };
        if let Err(error) = taken {
            tracing::error!(%run, %error, "a run could not be resumed");
        }
    }

    /// Makes a run wait for a person after several executors have crashed with it. Otherwise, it could also
    /// crash this executor, with all its runs.
    async fn suspend_crashing_run(
        &self,
        run: Uuid,
        run_lease: RunLease,
        takeovers: u32,
    ) -> Result<(), Error> {
        let events = self.read_all(run).await?;
        let state = RunState::from_events(&events).ok_or_else(|| no_beginning(run))?;
        let start = RunHeader::from_events(&events).ok_or_else(|| no_beginning(run))?;
        let progress = RunProgress::from_events(&events);
        let row = self.store.read_run(run).await?.ok_or_else(|| not_found(run))?;
        let repeat_safe = progress.count_effects() == 0;
        let stop = if row.cancel_requested {
            StepError::Cancelled(CancelReason::Cancelled)
        } else {
            let error = not_survived(takeovers, &progress);
            tracing::error!(%run, %error, "the run waits for a person");
            StepError::Waiting(error.to_run_error(None, None, repeat_safe))
        };
        let duration_ms = milliseconds_between(start.at, self.clock.now());
        let live = self.activate_run(state, run_lease, Arc::default());
        self.release_run(run, live, last_event(Err(stop), repeat_safe, duration_ms)).await;
        Ok(())
    }

    /// Deletes ended runs and values of sessions that are older than their time limits.
    pub(super) async fn delete_expired(&self) -> Result<(), Error> {
        let now = self.clock.now();
        let end = |keep: Option<Duration>| now.checked_sub(keep?).ok();
        if let Some(before) = end(self.config.limits.keep_session_values) {
            self.state_table.forget_sessions(before).await?;
        }
        let Some(before) = end(self.config.limits.keep_runs) else { return Ok(()) };
        let forgotten = self.store.forget(before, FORGET_BATCH).await?;
        if !forgotten.is_empty() {
            tracing::info!(runs = forgotten.len(), "old runs were deleted");
        }
        Ok(())
    }

    /// Resumes a run that was assigned to this executor.
    async fn resume(
        self: &Arc<Self>,
        run: Uuid,
        run_lease: RunLease,
        place: RunSlot,
    ) -> Result<(), Error> {
        let mut events = self.read_all(run).await?;
        let state = RunState::from_events(&events).ok_or_else(|| no_beginning(run))?;
        let has_begun = state.status() != RunStatus::Queued;
        let sealed = self.store.read_sealed(run).await?;
        let secrets = Arc::new(RunSecrets::new(self.ids.random_bytes()));
        let revealed = restore_values(&mut events, &sealed, &self.vault, &secrets);
        let (progress, revealed) = match revealed {
            Ok(wait_points) => (RunProgress::with_wait_points(&events, wait_points), Ok(())),
            Err(error) => (RunProgress::from_events(&events), Err(error)),
        };
        let start = RunHeader::from_events(&events).ok_or_else(|| no_beginning(run))?;
        let live = self.activate_run(state, run_lease, secrets);
        live.journal.adopt_wait_points(progress.wait_point_events());
        let row = async {
            live.journal.commit(EventKind::RunResumed {}).await?;
            // A later cancel request finds the run among those that are driven here.
            self.store.read_run(run).await?.ok_or_else(|| not_found(run))
        };
        let row = match row.await {
            Ok(row) => row,
            Err(error) => {
                self.remove_active(run, &live);
                return Err(error);
            }
        };
        let capability = &start.capability.name;
        tracing::info!(%run, %capability, principal = %row.tenant, has_begun, "run resumed");
        if row.cancel_requested {
            live.cancel.cancel(CancelReason::Cancelled);
        }
        let plan = match revealed {
            Ok(()) => self.load_plan(&start, &row.choices).await,
            Err(error) => Err(secrets_lost(&error, &progress)),
        };
        match plan {
            Ok(plan) => {
                let principal = row.tenant;
                let drive =
                    RunTask { run, principal, live, plan, header: start, progress, slot: place };
                self.spawn(drive, has_begun);
            }
            Err(error) => {
                let repeat_safe = progress.count_effects() == 0;
                let stop = match row.cancel_requested {
                    true => StepError::Cancelled(CancelReason::Cancelled),
                    false => StepError::Failed(error.to_run_error(None, None, repeat_safe)),
                };
                let duration_ms = milliseconds_between(start.at, self.clock.now());
                let ended = last_event(Err(stop), repeat_safe, duration_ms);
                self.release_run(run, live, ended).await;
            }
        }
        Ok(())
    }

    /// Loads the plan that a run was started with, from the documents that were stored with it.
    pub(super) async fn load_plan(
        &self,
        start: &RunHeader,
        choices: &str,
    ) -> Result<ExecutionPlan, Error> {
        let choices: ResolvedDependencies = serde_json::from_str(choices)
            .map_err(|error| Error::new(ErrorKind::Store, format!("stored choices: {error}")))?;
        let pins = || start.dependencies.iter().chain([&start.capability]);
        let digests: Vec<_> = pins().map(|pin| pin.checksum).collect();
        let sources = self.store.read_documents(&digests).await?;
        let mut documents = BTreeMap::new();
        for pin in pins() {
            let source = sources.get(&pin.checksum).ok_or_else(|| {
                Error::new(ErrorKind::Store, format!("the document {} is not stored", pin.checksum))
            })?;
            let document = self.registry.open(source, &pin.name, &pin.version).await?;
            if document.digest() != pin.checksum {
                let message = format!(
                    "`{}` {} was started with {}, but the stored document has {}",
                    pin.name,
                    pin.version,
                    pin.checksum,
                    document.digest()
                );
                return Err(Error::new(ErrorKind::DigestMismatch, message));
            }
            documents.insert(pin.checksum, document);
        }
        let root = start.capability.checksum;
        let library = RunDocuments {
            root,
            documents,
            sources,
            resolved: choices,
            notices: Vec::new(),
            unknown: Vec::new(),
        };
        ExecutionPlan::new(&library, self.config.limits.max_steps)
    }
}

fn no_beginning(run: Uuid) -> Error {
    Error::new(ErrorKind::Internal, format!("the journal of run {run} has no first event"))
}

/// The error of a run that is not resumed automatically any more, with the steps it was at.
fn not_survived(takeovers: u32, progress: &RunProgress) -> Error {
    let steps: Vec<_> = progress.unfinished_tasks().map(|step| format!("`{step}`")).collect();
    let at = match steps.as_slice() {
        [] => "between two steps".to_owned(),
        steps => format!("at {}", steps.join(", ")),
    };
    let message = format!(
        "{takeovers} executors in a row stopped during this run before they finished a step \
         of it; it is {at}"
    );
    Error::new(ErrorKind::TakenOverTooOften, message)
}

/// The error of a run that cannot continue because its secrets cannot be opened, with the requests it may
/// have made.
fn secrets_lost(error: &Error, progress: &RunProgress) -> Error {
    let doubts: Vec<_> = progress
        .unconfirmed_requests()
        .map(|(step, doubt)| {
            format!("; `{step}` sent `{} {}`, and the result is unknown", doubt.method, doubt.url)
        })
        .collect();
    let message = format!(
        "the executor stopped during this run, and the secret values of the run cannot be unsealed: \
         {}{}",
        error.message,
        doubts.concat()
    );
    Error::new(ErrorKind::SecretsLost, message)
}

/// The event to record when a walk has ended; `None` when the run continues later.
pub(super) fn last_event(
    ended: Result<Value, StepError>,
    repeat_safe: bool,
    duration_ms: u64,
) -> Option<EventKind> {
    let failed = |error: RunError| {
        let denied = ErrorKind::from_code(&error.code).is_some_and(ErrorKind::is_denial);
        let status = if denied { RunStatus::Denied } else { RunStatus::Failed };
        Some(EventKind::RunFinished { status, output: None, error: Some(error), duration_ms })
    };
    let of_kind = |kind, words| {
        let error: Error = Error::new(kind, words);
        error.to_run_error(None, None, repeat_safe)
    };
    match ended {
        Ok(output) => Some(EventKind::RunFinished {
            status: RunStatus::Succeeded,
            output: Some(output),
            error: None,
            duration_ms,
        }),
        Err(StepError::Failed(error)) => failed(error),
        Err(StepError::Waiting(error)) => Some(EventKind::RunWaiting { error }),
        Err(StepError::Cancelled(CancelReason::Cancelled)) => {
            Some(cancelled(repeat_safe, duration_ms))
        }
        Err(StepError::Cancelled(CancelReason::RunTimeout)) => {
            failed(of_kind(ErrorKind::BudgetExceeded, CancelReason::RunTimeout.message()))
        }
        Err(StepError::Cancelled(CancelReason::Suspended | CancelReason::LeaseLost)) => None,
        // Only parts of a run stop for these; the step that failed is the reason of the whole.
        Err(StepError::Cancelled(CancelReason::SiblingFailed | CancelReason::StepTimeout)) => {
            failed(of_kind(ErrorKind::Internal, "a run ended before its last step"))
        }
        Err(StepError::Broken(error)) => {
            tracing::error!(%error, "the executor stops a run, because it cannot record events");
            None
        }
    }
}
