//! Runs: starting, driving, resuming, ending and reporting them.
//!
//! A run is its journal. This module decides which executor writes to which journal and when;
//! [`crate::engine`] decides on the events in between.

mod approvals;
pub(crate) mod dry_run;
mod event_stream;
pub(crate) mod ownership;
mod plan;
mod pre_run_guard;
mod prepare;
mod preview;
mod replay;
mod report;
mod resume;
mod run_slots;
mod run_task;
mod run_watchers;
mod shown_plan;
mod start;
mod usage;
mod worker_threads;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use a2s_api::{AuthError, AuthGuard, Caller, Principal, StreamLimits, StreamQuota, TokenScope};
use a2s_api::{EventKind, ExchangeList, ExecutionList, HostState, Run, RunEvent, RunStatus};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use uuid::Uuid;

use crate::clock::{Clock, RandomSource, milliseconds_between};
use crate::config::Config;
use crate::database;
use crate::engine::{CancelReason, CancelToken, EvaluationPool};
use crate::error::{Error, ErrorKind};
use crate::gate::GuardianGate;
use crate::journal::lease::RunLease;
use crate::journal::run_state::{RunProgress, RunState, fold_events};
use crate::journal::store::{LeaseEpoch, LeaseTerms, RunSummaryEvents, TenantCaps, TenantQuota};
pub(crate) use crate::journal::store::{RunFilter, RunStore, SealedChanges};
use crate::journal::{Journal, lock};
use crate::metrics::Metrics;
use crate::outbound::{OutboundClient, RetrySchedule};
use crate::registry_client::RegistryClient;
use crate::report::OutcomeReporter;
use crate::secrets::RunSecrets;
use crate::session_state::{StateQuotas, StateTable};
use crate::telemetry::TelemetrySinks;
use crate::trust::TrustedVersions;
use crate::vault::Vault;
use approvals::ApprovalSchedule;
use ownership::may_touch;
use run_slots::RunSlots;
use run_watchers::RunWatchers;
use worker_threads::WorkerPool;

/// The interval at which a run on another executor is checked.
const POLL: Duration = Duration::from_secs(1);
/// The minimum lease: with a shorter one, a busy machine loses its runs to others.
const SHORTEST_LEASE: Duration = Duration::from_secs(1);
/// The least time to send waiting spans and security events when an executor stops.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);
/// The maximum number of event streams at the same time. Every caller has a principal: an executor without
/// tokens treats all callers as its owner.
const STREAM_LIMITS: StreamLimits = StreamLimits { total: 512, principal: 128, anonymous: 0 };
/// The number of events that are read at a time.
const PAGE: usize = 256;

/// The service for all runs of one executor.
#[derive(Debug)]
pub(crate) struct RunService {
    config: Config,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn RandomSource>,
    store: RunStore,
    auth: AuthGuard,
    state_table: StateTable,
    trust: TrustedVersions,
    registry: Arc<RegistryClient>,
    reporter: OutcomeReporter,
    /// Runs that were reported to the registry, and are not yet marked in the database.
    reported: Mutex<Vec<Uuid>>,
    gate: GuardianGate,
    outbound: Arc<OutboundClient>,
    vault: Arc<Vault>,
    retries: RetrySchedule,
    metrics: Metrics,
    /// The listeners to which runs are reported.
    sinks: TelemetrySinks,
    /// The runs that are driven here.
    active: Mutex<BTreeMap<Uuid, Arc<ActiveRun>>>,
    /// The permits for expensive evaluations, for all runs together.
    evaluations: EvaluationPool,
    /// The callers who follow runs.
    followers: StreamQuota,
    /// The threads that drive runs.
    workers: WorkerPool,
    /// The tasks of runs, and the tasks that renew leases and send reports. Dropping the executor aborts
    /// them.
    tasks: Mutex<JoinSet<()>>,
    /// The slots, one for each run that may be driven at the same time.
    slots: Arc<RunSlots>,
    closing: AtomicBool,
    /// Notifies that a run of another executor may have ended.
    wake: Notify,
    /// The most runs that each tenant may have begun.
    tenant_caps: Arc<TenantCaps>,
    /// The watchers of runs that are not driven here yet.
    watchers: Arc<RunWatchers>,
    /// The runs that wait for an approval, with the time of the next question to their guardians.
    approval_schedule: ApprovalSchedule,
    /// The id of this executor in leases.
    owner: Uuid,
}

/// A run that is driven here.
#[derive(Debug)]
struct ActiveRun {
    /// This executor's lease on the run.
    lease: Arc<RunLease>,
    journal: Journal,
    cancel: CancelToken,
    /// The secret values of the run, which are held only here and never revealed.
    secrets: Arc<RunSecrets>,
    /// The final state of the run, once its last event is recorded. Closed when the run is no longer driven
    /// here, so that waiting callers are not woken by each event.
    ended: watch::Sender<Option<Run>>,
}

impl RunService {
    pub(crate) async fn open(
        config: Config,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn RandomSource>,
        metrics: Metrics,
    ) -> Result<Arc<Self>, Error> {
        if config.limits.lease < SHORTEST_LEASE {
            let message = format!("`lease` must be at least {SHORTEST_LEASE:?}");
            return Err(Error::new(ErrorKind::Configuration, message));
        }
        let registry = RegistryClient::new(&config.registry, config.registry_token.clone())?;
        let registry = Arc::new(registry);
        let (its_clock, its_ids) = (Arc::clone(&clock), Arc::clone(&ids));
        let gate = GuardianGate::new(&config.guardian, metrics.clone(), its_clock, its_ids)?;
        let store = RunStore::open(&config.database, config.durability).await?;
        let pool = database::open(&config.database).await?;
        let quotas = StateQuotas::from_limits(&config.limits);
        let states = StateTable::new(pool.clone(), Arc::clone(&clock), quotas);
        let trust = TrustedVersions::new(pool.clone(), Arc::clone(&clock));
        let vault = Vault::open(&config, pool, Arc::clone(&clock), Arc::clone(&ids)).await?;
        let vault = Arc::new(vault);
        let outbound = OutboundClient::new(
            &config,
            Arc::clone(&vault),
            Arc::clone(&registry),
            Arc::clone(&clock),
        )?;
        let listeners = TelemetrySinks::open(&config.telemetry, &metrics)?;
        let auth_guard = AuthGuard {
            owner_token: config.token.clone(),
            introspector: config.introspector.clone(),
        };
        let runs = Arc::new(Self {
            auth: auth_guard,
            registry,
            reporter: OutcomeReporter::new(store.identity().to_owned()),
            reported: Mutex::default(),
            gate,
            outbound: Arc::new(outbound),
            vault,
            store,
            state_table: states,
            trust,
            retries: RetrySchedule::from_limits(&config.limits),
            metrics,
            sinks: listeners,
            active: Mutex::default(),
            evaluations: EvaluationPool::new(config.limits.evaluation_timeout),
            followers: StreamQuota::new(STREAM_LIMITS),
            workers: WorkerPool::start()?,
            tasks: Mutex::default(),
            slots: RunSlots::new(config.limits.max_runs),
            closing: AtomicBool::new(false),
            wake: Notify::new(),
            tenant_caps: Arc::new(tenant_caps(&config)),
            watchers: Arc::default(),
            approval_schedule: ApprovalSchedule::default(),
            owner: Uuid::from_bytes(ids.random_bytes()),
            clock,
            ids,
            config,
        });
        runs.delete_expired().await?;
        runs.store.sweep_plans(runs.clock.now()).await?;
        runs.take_over().await?;
        runs.count_waiting().await;
        {
            let mut tasks = lock(&runs.tasks);
            tasks.spawn(Arc::clone(&runs).renew_leases());
            tasks.spawn(Arc::clone(&runs).run_maintenance());
            tasks.spawn(Arc::clone(&runs).follow_notifications());
            tasks.spawn(Arc::clone(&runs).run_reporting());
            tasks.spawn(Arc::clone(&runs).poll_approvals());
        }
        Ok(runs)
    }

    /// Checks that runs can be started and recorded.
    pub(crate) async fn check_ready(&self) -> Result<(), Error> {
        self.check_open()?;
        self.store.check_writer().await
    }

    /// The authentication and authorization of callers.
    pub(crate) fn auth(&self) -> &AuthGuard {
        &self.auth
    }

    /// The permits for expensive evaluations.
    #[cfg(test)]
    pub(crate) fn evaluations(&self) -> &EvaluationPool {
        &self.evaluations
    }

    /// The stored credentials.
    pub(crate) fn vault(&self) -> &Arc<Vault> {
        &self.vault
    }

    /// The values that are remembered between runs.
    pub(crate) fn states(&self) -> &StateTable {
        &self.state_table
    }

    /// The remembered checksums of versions.
    pub(crate) fn trust(&self) -> &TrustedVersions {
        &self.trust
    }

    /// The known state of the hosts of services.
    pub(crate) fn hosts(&self) -> Vec<HostState> {
        self.outbound.host_states()
    }

    /// Waits until a run cannot proceed by itself, on any executor, and returns it.
    pub(crate) async fn wait_until_at_rest(&self, run: Uuid) -> Result<Run, Error> {
        let look = self.watchers.watch(run);
        loop {
            let more = look.changed();
            let driven = lock(&self.active).get(&run).map(|live| live.ended.subscribe());
            if let Some(mut ended) = driven {
                while ended.changed().await.is_ok() {}
                if let Some(ended) = ended.borrow().clone() {
                    return Ok(ended);
                }
            }
            let stirred = self.wake.notified();
            let found = self.get(run).await?;
            if !found.status.is_in_progress() || self.closing.load(Ordering::SeqCst) {
                return Ok(found);
            }
            // Another executor drives it now, or none.
            tokio::select! {
                () = more => {}
                _ = tokio::time::timeout(POLL, stirred) => {}
            }
        }
    }

    /// The run that its events describe.
    pub(crate) async fn get(&self, run: Uuid) -> Result<Run, Error> {
        let events = self.read_all(run).await?;
        fold_events(&events).ok_or_else(|| not_found(run))
    }

    /// The same for a caller who may see it; administrators see its principal, too.
    pub(crate) async fn show(&self, run: Uuid, caller: &Caller) -> Result<Run, Error> {
        let row = self.find(run, caller).await?;
        let shown = self.get(run).await?;
        Ok(Run {
            tenant: Some(row.tenant).filter(|_| caller.has_scope(TokenScope::Admin)),
            ..shown
        })
    }

    /// Returns the recorded requests and responses of a run, by the paths of their steps.
    pub(crate) async fn exchanges(
        &self,
        run: Uuid,
        caller: &Caller,
    ) -> Result<ExchangeList, Error> {
        self.find(run, caller).await?;
        let recorded = self.store.read_exchanges(run).await?;
        let exchanges = recorded.into_iter().map(|(step, exchange)| exchange.into_api(step));
        Ok(ExchangeList { exchanges: exchanges.collect() })
    }

    /// A page of the caller's runs without their steps, newest first. Administrators get the runs of all
    /// principals, and see the principal of each.
    ///
    /// # Errors
    /// [`ErrorKind::Forbidden`] when a caller who is not an administrator asks for the runs of another
    /// principal.
    pub(crate) async fn list(
        &self,
        mut filter: RunFilter,
        limit: usize,
        caller: &Caller,
    ) -> Result<ExecutionList, Error> {
        let may_know = caller.has_scope(TokenScope::Admin);
        if !may_know {
            let tenant = filter.tenant.get_or_insert_with(|| caller.principal());
            if !may_touch(caller, tenant) {
                let refusal = AuthError::MissingScope {
                    subject: caller.subject.clone(),
                    scope: TokenScope::Admin,
                };
                return Err(Error::new(ErrorKind::Forbidden, refusal.to_string()));
            }
        }
        let lives = self.store.read_summary_events(&filter, limit + 1).await?;
        let shown = |life: RunSummaryEvents| {
            let tenant = Some(life.tenant).filter(|_| may_know);
            Some(Run { tenant, ..fold_events(&life.events)? })
        };
        let mut executions: Vec<Run> = lives.into_iter().filter_map(shown).collect();
        let more = executions.len() > limit;
        executions.truncate(limit);
        let steps = executions.iter_mut().map(|run| &mut run.steps);
        steps.for_each(Vec::clear);
        let next = executions.last().filter(|_| more).map(|run| run.id);
        Ok(ExecutionList { executions, next })
    }

    /// Forgets a run that is over, with its events and its idempotency key.
    ///
    /// # Errors
    /// [`ErrorKind::WrongState`] when it is not over.
    pub(crate) async fn delete(&self, run: Uuid, caller: &Caller) -> Result<(), Error> {
        self.find(run, caller).await?;
        if self.store.delete(run).await? {
            return Ok(());
        }
        let row = self.store.read_run(run).await?.ok_or_else(|| not_found(run))?;
        let message = format!("run {run} has not ended: it is {}", row.status.as_str());
        Err(Error::new(ErrorKind::WrongState, message)
            .with_hint("Cancel it first with `a2s cancel`."))
    }

    /// Ends a run as soon as it may be ended.
    pub(crate) async fn cancel(self: &Arc<Self>, run: Uuid, caller: &Caller) -> Result<Run, Error> {
        self.find(run, caller).await?;
        let events = self.read_all(run).await?;
        let state = fold_events(&events).ok_or_else(|| not_found(run))?;
        match state.status {
            RunStatus::Running => self.request_cancel(run).await,
            RunStatus::Waiting => self.end_undriven(&events).await,
            RunStatus::Queued => match self.end_undriven(&events).await {
                // It has just had its turn.
                Err(error) if error.kind == ErrorKind::LeaseLost => self.request_cancel(run).await,
                ended => ended,
            },
            RunStatus::Succeeded | RunStatus::Failed | RunStatus::Denied | RunStatus::Cancelled => {
                Err(ended(run, state.status))
            }
        }
    }

    /// Asks the executor that drives a run to end it.
    async fn request_cancel(&self, run: Uuid) -> Result<Run, Error> {
        // On the disk first: the driving executor, now or after a restart, will see it.
        self.store.request_cancel(run).await?;
        // The answer is the run as it was: whether it has ended by now would depend on who is faster.
        let answer = self.get(run).await;
        let live = lock(&self.active).get(&run).cloned();
        if let Some(live) = live {
            live.cancel.cancel(CancelReason::Cancelled);
        }
        answer
    }

    /// Ends a run that no executor drives, as cancelled.
    ///
    /// # Errors
    /// [`ErrorKind::LeaseLost`] when an executor drives it by now.
    async fn end_undriven(&self, events: &[RunEvent]) -> Result<Run, Error> {
        let no_beginning =
            || Error::new(ErrorKind::Internal, "the journal of the run has no first event");
        let state = RunState::from_events(events).ok_or_else(no_beginning)?;
        let (run, started_at) = (state.id(), state.to_run().started_at);
        let row = self.store.read_run(run).await?.ok_or_else(|| not_found(run))?;
        let journal = self.journal_without_lease(state, row.epoch, Arc::default());
        let duration_ms = milliseconds_between(started_at, self.clock.now());
        let effects = RunProgress::from_events(events).count_effects();
        journal.commit(cancelled(effects == 0, duration_ms)).await?;
        self.metrics.run_ended(RunStatus::Cancelled, duration_ms);
        let ended = journal.state().ok_or_else(no_beginning)?;
        self.watchers.notify(run);
        self.announce_end(run).await;
        Ok(ended)
    }

    /// Accepts no more runs, gives active runs `grace` to end, then leaves the rest to the next executor
    /// that opens the database. Still waits for requests that must not be aborted, as long as a request may
    /// take.
    ///
    /// The rest of `grace` is for spans that wait.
    pub(crate) async fn shut_down(&self, grace: Duration) {
        let until = Instant::now() + grace;
        self.closing.store(true, Ordering::SeqCst);
        if !self.wait_until_idle(grace).await {
            let live: Vec<_> = lock(&self.active).values().cloned().collect();
            tracing::info!(runs = live.len(), "the executor stops; unfinished runs continue later");
            live.iter().for_each(|live| live.cancel.cancel(CancelReason::Suspended));
            drop(live);
            // Time for one request and the guardian's word on it.
            let limit = self.config.limits.request_timeout + Duration::from_secs(10);
            if !self.wait_until_idle(limit).await {
                tracing::warn!("some runs did not stop in time");
            }
        }
        let mut tasks = std::mem::take(&mut *lock(&self.tasks));
        tasks.shutdown().await;
        self.workers.shut_down().await;
        self.mark_reported().await;
        self.sinks.close(until.saturating_duration_since(Instant::now()).max(FLUSH_TIMEOUT)).await;
        if let Err(error) = self.store.release(self.owner).await {
            tracing::warn!(%error, "the leases could not be released; they expire");
        }
    }

    /// Ends all tasks at once, in the middle of whatever they do.
    pub(crate) fn abort(&self) {
        lock(&self.tasks).abort_all();
    }

    /// Aborts all tasks and waits until they are gone.
    #[cfg(test)]
    pub(crate) async fn crash(&self) {
        let mut tasks = std::mem::take(&mut *lock(&self.tasks));
        tasks.shutdown().await;
        self.workers.shut_down().await;
        // As if the time of its leases had passed.
        self.store.expire(self.owner).await;
    }

    /// Returns true when all runs have left within `limit`.
    async fn wait_until_idle(&self, limit: Duration) -> bool {
        // Every run holds its place until it has left.
        tokio::time::timeout(limit, self.slots.acquire_all()).await.is_ok()
    }

    fn check_open(&self) -> Result<(), Error> {
        if self.closing.load(Ordering::SeqCst) {
            return Err(Error::new(ErrorKind::Closing, "the executor is shutting down"));
        }
        Ok(())
    }

    async fn read_all(&self, run: Uuid) -> Result<Vec<RunEvent>, Error> {
        self.store.read_all_events(run, PAGE).await
    }

    /// The limits on the number of runs of a principal. Limits that are configured for a token apply to
    /// each of its principals.
    fn quota_of(&self, principal: &Principal) -> TenantQuota {
        let own = self.config.tenants.get(&principal.token).copied().unwrap_or_default();
        let limits = &self.config.limits;
        TenantQuota {
            max_begun: own.max_runs.or(limits.max_tenant_runs),
            max_queued: own.max_queued.unwrap_or(limits.max_tenant_queued),
        }
    }

    fn lease(&self) -> LeaseTerms {
        LeaseTerms { owner: self.owner, length: self.config.limits.lease }
    }

    /// The journal for a decision about a run that no executor drives.
    fn journal_without_lease(
        &self,
        state: RunState,
        epoch: LeaseEpoch,
        secrets: Arc<RunSecrets>,
    ) -> Journal {
        self.journal(state, Arc::new(RunLease::without_lease(epoch)), secrets)
    }

    fn journal(
        &self,
        state: RunState,
        run_lease: Arc<RunLease>,
        secrets: Arc<RunSecrets>,
    ) -> Journal {
        let (clock, vault) = (Arc::clone(&self.clock), Arc::clone(&self.vault));
        let given = (self.lease(), run_lease);
        Journal::resume(state, given, self.store.clone(), clock, vault, secrets)
    }

    fn activate_run(
        &self,
        state: RunState,
        run_lease: RunLease,
        secrets: Arc<RunSecrets>,
    ) -> Arc<ActiveRun> {
        let run = state.id();
        let run_lease = Arc::new(run_lease);
        let journal = self.journal(state, Arc::clone(&run_lease), Arc::clone(&secrets));
        let (halt, ended) = (CancelToken::default(), watch::Sender::new(None));
        let live = Arc::new(ActiveRun { lease: run_lease, journal, cancel: halt, secrets, ended });
        lock(&self.active).insert(run, Arc::clone(&live));
        self.watchers.notify(run);
        live
    }
}

fn cancelled(repeat_safe: bool, duration_ms: u64) -> EventKind {
    let error = Error::new(ErrorKind::Cancelled, CancelReason::Cancelled.message());
    EventKind::RunFinished {
        status: RunStatus::Cancelled,
        output: None,
        error: Some(error.to_run_error(None, None, repeat_safe)),
        duration_ms,
    }
}

/// Makes the database of a configuration, and brings its schema up to date.
#[cfg(test)]
pub(crate) async fn create_database(config: &Config) -> Result<(), Error> {
    RunStore::open(&config.database, config.durability).await.map(drop)
}

/// The most runs that each tenant may have begun.
fn tenant_caps(config: &Config) -> TenantCaps {
    let own = config.tenants.iter();
    let own = own.filter_map(|(tenant, limits)| Some((tenant.clone(), limits.max_runs?)));
    TenantCaps { default: config.limits.max_tenant_runs, by_tenant: own.collect() }
}

fn ended(run: Uuid, status: RunStatus) -> Error {
    let message = format!("run {run} has already ended: {}", status.as_str());
    Error::new(ErrorKind::RunEnded, message)
}

fn not_found(run: Uuid) -> Error {
    Error::new(ErrorKind::RunNotFound, format!("unknown run {run}"))
}
