//! Runs: starting, driving, resuming, ending and reporting them.
//!
//! A run is its journal. This module decides which executor writes to which journal and when;
//! [`crate::engine`] decides on the events in between.

mod approvals;
mod arrivals;
mod beginning;
mod drive;
mod drivers;
mod follow;
pub(crate) mod ownership;
mod places;
mod plan;
mod planned;
mod prepare;
mod preview;
pub(crate) mod rehearse;
mod replay;
mod report;
mod resolve;
mod start;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use a2s::api::{Event, EventKind, ExecutionList, HostState, Run, RunStatus};
use a2s::{Caller, Door, Principal, Refusal, Scope, StreamLimits, StreamQuota};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use uuid::Uuid;

use crate::clock::{Clock, Ids, milliseconds_between};
use crate::config::Config;
use crate::database;
use crate::engine::{EvaluationPool, Halt, Why};
use crate::error::{Error, Kind};
use crate::gate::Gate;
use crate::journal::lease::Tenure;
use crate::journal::run_state::{Progress, RunState, fold};
pub(crate) use crate::journal::store::{Besides, RunFilter, Store};
use crate::journal::store::{Caps, Epoch, Lease, Life, Room};
use crate::journal::{Journal, lock};
use crate::metrics::Metrics;
use crate::outbound::{Outbound, Retries};
use crate::registry_client::RegistryClient;
use crate::report::Reporter;
use crate::secrets::Secrets;
use crate::session_state::{StateQuotas, States};
use crate::telemetry::Listeners;
use crate::trust::TrustedVersions;
use crate::vault::Vault;
use approvals::Approvals;
use arrivals::Arrivals;
use drivers::Drivers;
use ownership::may_touch;
use places::Places;

/// The interval at which a run on another executor is checked.
const POLL: Duration = Duration::from_secs(1);
/// The shortest lease: in less, a busy machine loses its runs to others.
const SHORTEST_LEASE: Duration = Duration::from_secs(1);
/// The least time to send waiting spans and security events when an executor stops.
const FLUSH: Duration = Duration::from_secs(2);
/// The most streams of events at the same time. Every caller has a principal: an executor without
/// tokens takes all for its owner.
const FOLLOWERS: StreamLimits = StreamLimits { total: 512, principal: 128, anonymous: 0 };
/// Events that are read at a time.
const PAGE: usize = 256;

/// All runs of one executor.
#[derive(Debug)]
pub(crate) struct Runs {
    config: Config,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    store: Store,
    door: Door,
    states: States,
    trust: TrustedVersions,
    registry: Arc<RegistryClient>,
    reporter: Reporter,
    /// Runs that were reported to the registry, and are not yet marked in the database.
    reported: Mutex<Vec<Uuid>>,
    gate: Gate,
    outbound: Arc<Outbound>,
    vault: Arc<Vault>,
    retries: Retries,
    metrics: Metrics,
    /// The listeners to which runs are reported.
    listeners: Listeners,
    /// The runs that are driven here.
    live: Mutex<BTreeMap<Uuid, Arc<Live>>>,
    /// The permits for expensive evaluations, for all runs together.
    evaluations: EvaluationPool,
    /// The callers who follow runs.
    followers: StreamQuota,
    /// The threads that drive runs.
    drivers: Drivers,
    /// Their tasks, and those that keep leases and report. Dropping the executor aborts them.
    tasks: Mutex<JoinSet<()>>,
    /// One place for each run that may be driven at the same time.
    places: Arc<Places>,
    closing: AtomicBool,
    /// Notifies that a run of another executor may have ended.
    stirred: Notify,
    /// The most runs that each tenant may have begun.
    caps: Arc<Caps>,
    /// The watchers of runs that are not driven here yet.
    arrivals: Arc<Arrivals>,
    /// The runs that wait for an approval, and when their guardians are asked again.
    approvals: Approvals,
    /// This executor, in leases.
    owner: Uuid,
}

/// A run that is driven here.
#[derive(Debug)]
struct Live {
    /// This executor's lease on the run.
    tenure: Arc<Tenure>,
    journal: Journal,
    halt: Halt,
    /// The secret values of the run, which are held only here and never revealed.
    secrets: Arc<Secrets>,
    /// The final state of the run, once its last event is recorded. Closed when the run is no longer driven
    /// here, so that waiting callers are not woken by each event.
    ended: watch::Sender<Option<Run>>,
}

impl Runs {
    pub(crate) async fn open(
        config: Config,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
        metrics: Metrics,
    ) -> Result<Arc<Self>, Error> {
        if config.limits.lease < SHORTEST_LEASE {
            let message = format!("`lease` is at least {SHORTEST_LEASE:?}");
            return Err(Error::new(Kind::Configuration, message));
        }
        let registry = RegistryClient::new(&config.registry, config.registry_token.clone())?;
        let registry = Arc::new(registry);
        let (its_clock, its_ids) = (Arc::clone(&clock), Arc::clone(&ids));
        let gate = Gate::new(&config.guardian, metrics.clone(), its_clock, its_ids)?;
        let store = Store::open(&config.database, config.durability).await?;
        let pool = database::open(&config.database).await?;
        let quotas = StateQuotas::from_limits(&config.limits);
        let states = States::new(pool.clone(), Arc::clone(&clock), quotas);
        let trust = TrustedVersions::new(pool.clone(), Arc::clone(&clock));
        let vault = Vault::open(&config, pool, Arc::clone(&clock), Arc::clone(&ids)).await?;
        let vault = Arc::new(vault);
        let outbound =
            Outbound::new(&config, Arc::clone(&vault), Arc::clone(&registry), Arc::clone(&clock))?;
        let listeners = Listeners::open(&config.telemetry, &metrics)?;
        let door = Door { owner: config.token.clone(), others: config.others.clone() };
        let runs = Arc::new(Self {
            door,
            registry,
            reporter: Reporter::new(store.identity().to_owned()),
            reported: Mutex::default(),
            gate,
            outbound: Arc::new(outbound),
            vault,
            store,
            states,
            trust,
            retries: Retries::of(&config.limits),
            metrics,
            listeners,
            live: Mutex::default(),
            evaluations: EvaluationPool::new(config.limits.evaluation_timeout),
            followers: StreamQuota::new(FOLLOWERS),
            drivers: Drivers::start()?,
            tasks: Mutex::default(),
            places: Places::new(config.limits.max_runs),
            closing: AtomicBool::new(false),
            stirred: Notify::new(),
            caps: Arc::new(caps_of(&config)),
            arrivals: Arc::default(),
            approvals: Approvals::default(),
            owner: Uuid::from_bytes(ids.random()),
            clock,
            ids,
            config,
        });
        runs.forget().await?;
        runs.store.sweep_plans(runs.clock.now()).await?;
        runs.take_over().await?;
        runs.count_waiting().await;
        {
            let mut tasks = lock(&runs.tasks);
            tasks.spawn(Arc::clone(&runs).keep_leases());
            tasks.spawn(Arc::clone(&runs).keep_house());
            tasks.spawn(Arc::clone(&runs).keep_listening());
            tasks.spawn(Arc::clone(&runs).keep_reporting());
            tasks.spawn(Arc::clone(&runs).keep_asking());
        }
        Ok(runs)
    }

    /// Checks that runs can be started and recorded.
    pub(crate) async fn check_ready(&self) -> Result<(), Error> {
        self.check_open()?;
        self.store.check_writer().await
    }

    /// The authentication and authorization of callers.
    pub(crate) fn door(&self) -> &Door {
        &self.door
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
    pub(crate) fn states(&self) -> &States {
        &self.states
    }

    /// The remembered checksums of versions.
    pub(crate) fn trust(&self) -> &TrustedVersions {
        &self.trust
    }

    /// The known state of the hosts of services.
    pub(crate) fn hosts(&self) -> Vec<HostState> {
        self.outbound.hosts()
    }

    /// Waits until a run cannot proceed by itself, on any executor, and returns it.
    pub(crate) async fn wait(&self, run: Uuid) -> Result<Run, Error> {
        let look = self.arrivals.look(run);
        loop {
            let more = look.more();
            let driven = lock(&self.live).get(&run).map(|live| live.ended.subscribe());
            if let Some(mut ended) = driven {
                while ended.changed().await.is_ok() {}
                if let Some(ended) = ended.borrow().clone() {
                    return Ok(ended);
                }
            }
            let stirred = self.stirred.notified();
            let found = self.get(run).await?;
            if !found.status.is_under_way() || self.closing.load(Ordering::SeqCst) {
                return Ok(found);
            }
            // Nobody drives it now, or another executor.
            tokio::select! {
                () = more => {}
                _ = tokio::time::timeout(POLL, stirred) => {}
            }
        }
    }

    /// The run that its events describe.
    pub(crate) async fn get(&self, run: Uuid) -> Result<Run, Error> {
        let events = self.read_all(run).await?;
        fold(&events).ok_or_else(|| not_found(run))
    }

    /// The same for a caller who may see it; administrators see its principal, too.
    pub(crate) async fn show(&self, run: Uuid, caller: &Caller) -> Result<Run, Error> {
        let row = self.find(run, caller).await?;
        let shown = self.get(run).await?;
        Ok(Run { tenant: Some(row.tenant).filter(|_| caller.may(Scope::Admin)), ..shown })
    }

    /// A page of the caller's runs without their steps, newest first. Administrators get the runs of all
    /// principals, and see the principal of each.
    ///
    /// # Errors
    /// [`Kind::Forbidden`] when a caller who is not an administrator asks for the runs of another
    /// principal.
    pub(crate) async fn list(
        &self,
        mut filter: RunFilter,
        limit: usize,
        caller: &Caller,
    ) -> Result<ExecutionList, Error> {
        let may_know = caller.may(Scope::Admin);
        if !may_know {
            let tenant = filter.tenant.get_or_insert_with(|| caller.principal());
            if !may_touch(caller, tenant) {
                let refusal =
                    Refusal::Lacks { subject: caller.subject.clone(), scope: Scope::Admin };
                return Err(Error::new(Kind::Forbidden, refusal.to_string()));
            }
        }
        let lives = self.store.read_lives(&filter, limit + 1).await?;
        let shown = |life: Life| {
            let tenant = Some(life.tenant).filter(|_| may_know);
            Some(Run { tenant, ..fold(&life.events)? })
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
    /// [`Kind::WrongState`] when it is not over.
    pub(crate) async fn delete(&self, run: Uuid, caller: &Caller) -> Result<(), Error> {
        self.find(run, caller).await?;
        if self.store.delete(run).await? {
            return Ok(());
        }
        let row = self.store.read_run(run).await?.ok_or_else(|| not_found(run))?;
        let message = format!("run {run} is not over: it is {}", row.status.as_str());
        Err(Error::new(Kind::WrongState, message).hint("Cancel it first with `a2s cancel`."))
    }

    /// Ends a run as soon as it may be ended.
    pub(crate) async fn cancel(self: &Arc<Self>, run: Uuid, caller: &Caller) -> Result<Run, Error> {
        self.find(run, caller).await?;
        let events = self.read_all(run).await?;
        let state = fold(&events).ok_or_else(|| not_found(run))?;
        match state.status {
            RunStatus::Running => self.request_cancel(run).await,
            RunStatus::Waiting => self.end_aside(&events).await,
            RunStatus::Queued => match self.end_aside(&events).await {
                // It has just had its turn.
                Err(error) if error.kind == Kind::LeaseLost => self.request_cancel(run).await,
                ended => ended,
            },
            RunStatus::Succeeded | RunStatus::Failed | RunStatus::Denied | RunStatus::Cancelled => {
                Err(ended(run, state.status))
            }
        }
    }

    /// Asks the executor that drives a run to end it.
    async fn request_cancel(&self, run: Uuid) -> Result<Run, Error> {
        // On the disk first: whoever drives the run, now or after a restart, will see it.
        self.store.request_cancel(run).await?;
        let live = lock(&self.live).get(&run).cloned();
        if let Some(live) = live {
            live.halt.stop(Why::Cancelled);
        }
        self.get(run).await
    }

    /// Ends a run that no executor drives, as cancelled.
    ///
    /// # Errors
    /// [`Kind::LeaseLost`] when an executor drives it by now.
    async fn end_aside(&self, events: &[Event]) -> Result<Run, Error> {
        let no_beginning = || Error::new(Kind::Internal, "a run has no beginning");
        let state = RunState::of(events).ok_or_else(no_beginning)?;
        let (run, started_at) = (state.id(), state.to_run().started_at);
        let row = self.store.read_run(run).await?.ok_or_else(|| not_found(run))?;
        let journal = self.journal_aside(state, row.epoch, Arc::default());
        let duration_ms = milliseconds_between(started_at, self.clock.now());
        let effects = Progress::of(events).effects();
        journal.commit(cancelled(effects == 0, duration_ms)).await?;
        self.metrics.run_ended(RunStatus::Cancelled, duration_ms);
        let ended = journal.state().ok_or_else(no_beginning)?;
        self.arrivals.tell(run);
        self.tell_end(run).await;
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
            let live: Vec<_> = lock(&self.live).values().cloned().collect();
            tracing::info!(runs = live.len(), "runs are left for later");
            live.iter().for_each(|live| live.halt.stop(Why::Suspended));
            drop(live);
            // Time for one request and the guardian's word on it.
            let limit = self.config.limits.request_timeout + Duration::from_secs(10);
            if !self.wait_until_idle(limit).await {
                tracing::warn!("some runs did not stop in time");
            }
        }
        let mut tasks = std::mem::take(&mut *lock(&self.tasks));
        tasks.shutdown().await;
        self.drivers.end().await;
        self.mark_reported().await;
        self.listeners.close(until.saturating_duration_since(Instant::now()).max(FLUSH)).await;
        if let Err(error) = self.store.release(self.owner).await {
            tracing::warn!(%error, "the leases could not be given back; they run out by themselves");
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
        self.drivers.end().await;
        // As if the time of its leases had passed.
        self.store.expire(self.owner).await;
    }

    /// Returns true when all runs have left within `limit`.
    async fn wait_until_idle(&self, limit: Duration) -> bool {
        // Every run holds its place until it has left.
        tokio::time::timeout(limit, self.places.empty()).await.is_ok()
    }

    fn check_open(&self) -> Result<(), Error> {
        if self.closing.load(Ordering::SeqCst) {
            return Err(Error::new(Kind::Closing, "the executor is shutting down"));
        }
        Ok(())
    }

    async fn read_all(&self, run: Uuid) -> Result<Vec<Event>, Error> {
        self.store.read_all_events(run, PAGE).await
    }

    /// The limits on the number of runs of a principal. Limits that are configured for a token apply to
    /// each of its principals.
    fn room_of(&self, principal: &Principal) -> Room {
        let own = self.config.tenants.get(&principal.token).copied().unwrap_or_default();
        let limits = &self.config.limits;
        Room {
            most_begun: own.max_runs.or(limits.max_tenant_runs),
            most_queued: own.max_queued.unwrap_or(limits.max_tenant_queued),
        }
    }

    fn lease(&self) -> Lease {
        Lease { owner: self.owner, length: self.config.limits.lease }
    }

    /// The journal for a decision about a run that no executor drives.
    fn journal_aside(&self, state: RunState, epoch: Epoch, secrets: Arc<Secrets>) -> Journal {
        self.journal(state, Arc::new(Tenure::aside(epoch)), secrets)
    }

    fn journal(&self, state: RunState, tenure: Arc<Tenure>, secrets: Arc<Secrets>) -> Journal {
        let (clock, vault) = (Arc::clone(&self.clock), Arc::clone(&self.vault));
        let given = (self.lease(), tenure);
        Journal::after(state, given, self.store.clone(), clock, vault, secrets)
    }

    fn enter(&self, state: RunState, tenure: Tenure, secrets: Arc<Secrets>) -> Arc<Live> {
        let run = state.id();
        let tenure = Arc::new(tenure);
        let journal = self.journal(state, Arc::clone(&tenure), Arc::clone(&secrets));
        let (halt, ended) = (Halt::default(), watch::Sender::new(None));
        let live = Arc::new(Live { tenure, journal, halt, secrets, ended });
        lock(&self.live).insert(run, Arc::clone(&live));
        self.arrivals.tell(run);
        live
    }
}

fn cancelled(repeat_safe: bool, duration_ms: u64) -> EventKind {
    let error = Error::new(Kind::Cancelled, Why::Cancelled.words());
    EventKind::RunFinished {
        status: RunStatus::Cancelled,
        output: None,
        error: Some(error.to_run_error(None, None, repeat_safe)),
        duration_ms,
    }
}

/// Makes the database of a configuration, and brings its schema up to date.
#[cfg(test)]
pub(crate) async fn make_database(config: &Config) -> Result<(), Error> {
    Store::open(&config.database, config.durability).await.map(drop)
}

/// The most runs that each tenant may have begun.
fn caps_of(config: &Config) -> Caps {
    let own = config.tenants.iter();
    let own = own.filter_map(|(tenant, limits)| Some((tenant.clone(), limits.max_runs?)));
    Caps { default: config.limits.max_tenant_runs, own: own.collect() }
}

fn ended(run: Uuid, status: RunStatus) -> Error {
    let message = format!("run {run} has already ended: {}", status.as_str());
    Error::new(Kind::RunEnded, message)
}

fn not_found(run: Uuid) -> Error {
    Error::new(Kind::RunNotFound, format!("there is no run {run}"))
}
