//! Runs: starting, driving, resuming, ending and telling of them.
//!
//! A run is its journal. This module decides who writes to which journal and when; what is written
//! in between is the business of [`crate::engine`].

mod drive;
pub(crate) mod exchange;
pub(crate) mod fold;
mod follow;
mod hidden;
pub(crate) mod journal;
mod rehearse;
mod replay;
mod resolve;
mod store;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use a2s::Digest;
use a2s::api::{
    Event, EventKind, ExecutionList, ExecutionRequest, HostState, PlanAnswer, PlanRequest, Run,
    RunStatus, StateScope,
};
use serde_json::{Map, Value};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::clock::{Clock, Ids, milliseconds_between, new_run_id};
use crate::config::Config;
use crate::database;
use crate::engine::{Halt, Why};
use crate::error::{Error, Kind};
use crate::gate::Gate;
use crate::metrics::Metrics;
use crate::outbound::{Outbound, Retries};
use crate::plan::Plan;
use crate::secrets::{Secrets, hidden};
use crate::source::{Library, RegistryClient, Wanted};
use crate::state::{Holder, Recalled, States};
use crate::vault::Vault;
use drive::Drive;
use fold::{Progress, Start, fold};
use hidden::Hidden;
use journal::{EVENT_VERSION, Journal};
pub(crate) use store::RunFilter;
use store::{Created, Lease, NewRun, Store};

/// How long nobody else may drive a run after its driver was last heard of.
const LEASE: Duration = Duration::from_secs(30);
/// Events that are read at a time.
const PAGE: usize = 256;

/// All runs of one executor.
#[derive(Debug)]
pub(crate) struct Runs {
    config: Config,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    store: Store,
    states: States,
    registry: RegistryClient,
    gate: Gate,
    outbound: Arc<Outbound>,
    vault: Arc<Vault>,
    retries: Retries,
    metrics: Metrics,
    /// The runs that are driven here.
    live: Mutex<BTreeMap<Uuid, Arc<Live>>>,
    /// Their tasks, and the one that keeps the leases. Dropping the executor aborts them.
    tasks: Mutex<JoinSet<()>>,
    /// One permit for each run that may be driven at the same time.
    slots: Arc<Semaphore>,
    closing: AtomicBool,
    /// This executor, in leases.
    owner: Uuid,
}

/// A run that is driven here.
#[derive(Debug)]
struct Live {
    journal: Journal,
    halt: Halt,
    /// What is told to nobody; held here and nowhere else.
    secrets: Arc<Secrets>,
}

impl Runs {
    pub(crate) async fn open(
        config: Config,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
        metrics: Metrics,
    ) -> Result<Arc<Self>, Error> {
        let registry = RegistryClient::new(&config.registry, config.registry_token.clone())?;
        let gate = Gate::new(&config.guardian, Arc::clone(&clock), Arc::clone(&ids))?;
        let store = Store::open(&config.database, config.durability).await?;
        let pool = database::open(&config.database).await?;
        let states = States::new(pool.clone(), Arc::clone(&clock));
        let vault = Vault::open(&config, pool, Arc::clone(&clock), Arc::clone(&ids)).await?;
        let vault = Arc::new(vault);
        let outbound = Outbound::new(&config, Arc::clone(&vault), Arc::clone(&clock))?;
        let runs = Arc::new(Self {
            registry,
            gate,
            outbound: Arc::new(outbound),
            vault,
            store,
            states,
            retries: Retries::of(&config.limits),
            metrics,
            live: Mutex::default(),
            tasks: Mutex::default(),
            slots: Arc::new(Semaphore::new(slots_of(&config) as usize)),
            closing: AtomicBool::new(false),
            owner: Uuid::from_bytes(ids.random()),
            clock,
            ids,
            config,
        });
        runs.forget().await?;
        runs.take_over().await?;
        let keeper = Arc::clone(&runs).keep_leases();
        lock(&runs.tasks).spawn(keeper);
        Ok(runs)
    }

    /// Whether runs can be started.
    pub(crate) async fn check_ready(&self) -> Result<(), Error> {
        self.check_open()?;
        self.store.ping().await
    }

    /// Whether `token` opens what is about runs.
    pub(crate) fn admits(&self, token: Option<&str>) -> bool {
        match &self.config.token {
            None => true,
            Some(secret) => token.is_some_and(|token| secret.matches(token)),
        }
    }

    /// The stored credentials.
    pub(crate) fn vault(&self) -> &Arc<Vault> {
        &self.vault
    }

    /// What is remembered between runs.
    pub(crate) fn states(&self) -> &States {
        &self.states
    }

    /// What is known of the hosts of services.
    pub(crate) fn hosts(&self) -> Vec<HostState> {
        self.outbound.hosts()
    }

    /// Shows what a run would do.
    pub(crate) async fn plan(&self, request: &PlanRequest) -> Result<PlanAnswer, Error> {
        let PlanRequest { name, version, digest, lock, inputs, session } = request;
        let wanted =
            Wanted { name, version: version.as_deref(), digest: *digest, lock: lock.as_deref() };
        let (_, plan) = self.resolve(wanted).await?;
        plan.check_given(inputs)?;
        let (inputs, recalled) = self.recall(&plan, session.as_deref(), inputs).await?;
        let guarding = self.config.guardian.guarding();
        let held = self.outbound.held().await?;
        plan.render(&inputs, recalled, guarding, &held, |url| self.outbound.upstream_of(url))
    }

    /// Starts a run, or finds the one that `key` has started.
    pub(crate) async fn start(
        self: &Arc<Self>,
        request: ExecutionRequest,
        key: Option<String>,
    ) -> Result<Run, Error> {
        self.check_open()?;
        if let Some(key) = &key
            && let Some((run, digest)) = self.store.find_key(key).await?
        {
            return self.attach(run, digest, &request).await;
        }
        request.session.as_deref().map(Holder::session).transpose()?;
        let slot = Arc::clone(&self.slots).try_acquire_owned().map_err(|_| {
            let most = self.config.limits.max_runs;
            Error::new(Kind::Busy, format!("{most} runs are under way, and that is the most"))
        })?;
        let ExecutionRequest { name, version, digest, lock, inputs, session, .. } = &request;
        let wanted =
            Wanted { name, version: version.as_deref(), digest: *digest, lock: lock.as_deref() };
        let (library, plan) = self.resolve(wanted).await?;
        let (inputs, recalled) = self.recall(&plan, session.as_deref(), inputs).await?;
        plan.check_inputs(&inputs)?;
        // Before anything is sent: the whole plan, whatever branches will be taken.
        plan.check_credentials(&self.outbound.held().await?)?;
        let inputs = plan.root.complete(&inputs);
        let secrets = Arc::new(Secrets::new(self.ids.random()));
        let shown = plan.root.shown(&inputs, &secrets)?;
        let told = shown == inputs;
        let is_secret = |name: &&String| plan.root.inputs.get(*name).is_some_and(|i| i.secret);
        let secret: Vec<String> = inputs.keys().filter(is_secret).cloned().collect();

        let run = new_run_id(&self.clock, &self.ids);
        let upstreams = plan.hosts().into_iter();
        let upstreams =
            upstreams.filter_map(|(host, url)| Some((host, self.outbound.upstream_of(&url)?)));
        let mut started = EventKind::RunStarted {
            capability: plan.root.pin.clone(),
            dependencies: plan.dependencies.clone(),
            inputs: shown,
            secrets: secret.clone(),
            recalled,
            session: session.clone().unwrap_or_else(|| run.to_string()),
            guarding: self.config.guardian.guarding(),
            upstreams: upstreams.collect(),
        };
        secrets.mask_event(&mut started);
        let sealed = if told {
            None
        } else {
            let hidden = Hidden { values: Some(inputs.clone()), secrets: secrets.take_news() };
            Some(hidden.seal(&self.vault, run, 1)?)
        };
        let first = Event { v: EVENT_VERSION, seq: 1, run, at: self.clock.now(), kind: started };
        let created = self
            .store
            .create(NewRun {
                name: plan.root.pin.name.clone(),
                choices: serde_json::json!(library.choices).to_string(),
                documents: library.sources.into_iter().collect(),
                key,
                request_digest: digest_of(&request, &secret),
                first: first.clone(),
                sealed,
                lease: self.lease(),
            })
            .await?;
        if let Created::Existing(run, digest) = created {
            // Another request with the same key was faster.
            return self.attach(run, digest, &request).await;
        }
        tracing::info!(%run, capability = %plan.root.pin.name, "run started");
        let events = [first];
        let (answer, start) = (fold(&events), Start::of(&events));
        let (Some(answer), Some(start)) = (answer, start) else {
            return Err(Error::new(Kind::Internal, "a run has no beginning"));
        };
        // What events tell has lost its secrets.
        let start = Start { inputs, session: session.clone().unwrap_or(start.session), ..start };
        let live = self.enter(run, 1, secrets);
        self.spawn(Drive { run, live, plan, start, progress: Progress::of(&events), slot }, false);
        Ok(answer)
    }

    /// Waits until nothing more will happen in a run by itself, and gives it.
    pub(crate) async fn wait(&self, run: Uuid) -> Result<Run, Error> {
        let watch = lock(&self.live).get(&run).map(|live| live.journal.watch());
        if let Some(mut watch) = watch {
            // Closed when the run is not driven any more.
            while watch.changed().await.is_ok() {}
        }
        self.get(run).await
    }

    /// A run as its events tell.
    pub(crate) async fn get(&self, run: Uuid) -> Result<Run, Error> {
        let events = self.read_all(run).await?;
        fold(&events).ok_or_else(|| not_found(run))
    }

    /// A page of runs without their steps, newest first.
    pub(crate) async fn list(
        &self,
        filter: &RunFilter,
        limit: usize,
    ) -> Result<ExecutionList, Error> {
        let lives = self.store.read_lives(filter, limit + 1).await?;
        let mut executions: Vec<Run> = lives.iter().filter_map(|events| fold(events)).collect();
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
    pub(crate) async fn delete(&self, run: Uuid) -> Result<(), Error> {
        if self.store.delete(run).await? {
            return Ok(());
        }
        let row = self.store.read_run(run).await?.ok_or_else(|| not_found(run))?;
        let message = format!("run {run} is not over: it is {}", row.status.as_str());
        Err(Error::new(Kind::WrongState, message).hint("Cancel it first with `a2s cancel`."))
    }

    /// Ends a run as soon as it may be ended.
    pub(crate) async fn cancel(self: &Arc<Self>, run: Uuid) -> Result<Run, Error> {
        let events = self.read_all(run).await?;
        let state = fold(&events).ok_or_else(|| not_found(run))?;
        match state.status {
            RunStatus::Running => {
                // On the disk first: whoever drives the run, now or after a restart, will see it.
                self.store.request_cancel(run).await?;
                let live = lock(&self.live).get(&run).cloned();
                if let Some(live) = live {
                    live.halt.stop(Why::Cancelled);
                }
                self.get(run).await
            }
            RunStatus::Waiting => {
                let last = events.last().map_or(0, |event| event.seq);
                let journal = self.journal(run, last, Arc::default());
                let duration_ms = milliseconds_between(state.started_at, self.clock.now());
                let effects = Progress::of(&events).effects();
                let finished = cancelled(effects == 0, duration_ms);
                journal.commit(finished).await?;
                self.metrics.run_ended(RunStatus::Cancelled, duration_ms);
                let ended = self.get(run).await?;
                self.report(&ended).await;
                Ok(ended)
            }
            RunStatus::Succeeded | RunStatus::Failed | RunStatus::Denied | RunStatus::Cancelled => {
                Err(ended(run, state.status))
            }
        }
    }

    /// Takes no more runs, gives those under way `grace` to end, then leaves the rest to whoever
    /// opens the database next. Requests that must not be aborted are awaited all the same, as long
    /// as a request may take.
    pub(crate) async fn shut_down(&self, grace: Duration) {
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
    }

    /// Whether all runs have left within `limit`.
    async fn wait_until_idle(&self, limit: Duration) -> bool {
        // Every run holds a slot until it has left.
        tokio::time::timeout(limit, self.slots.acquire_many(slots_of(&self.config))).await.is_ok()
    }

    fn check_open(&self) -> Result<(), Error> {
        if self.closing.load(Ordering::SeqCst) {
            return Err(Error::new(Kind::Closing, "the executor is shutting down"));
        }
        Ok(())
    }

    async fn resolve(&self, wanted: Wanted<'_>) -> Result<(Library, Plan), Error> {
        let limits = &self.config.limits;
        let library = self.registry.resolve(wanted, limits.max_documents).await?;
        let plan = Plan::new(&library, limits.max_steps)?;
        Ok((library, plan))
    }

    /// Inputs with what is remembered for those that are needed and not given. Secret ones are not
    /// remembered.
    async fn recall(
        &self,
        plan: &Plan,
        session: Option<&str>,
        inputs: &Map<String, Value>,
    ) -> Result<(Map<String, Value>, BTreeMap<String, StateScope>), Error> {
        let mut needed = plan.missing(inputs);
        needed.retain(|name| plan.root.inputs.get(name).is_some_and(|input| !input.secret));
        let Recalled { values, scopes } = self.states.recall(session, &needed).await?;
        plan.check_given(&values).map_err(|error| {
            error.hint(
                "The value is remembered, not given: see `a2s state list`, and give another with --input.",
            )
        })?;
        let mut inputs = inputs.clone();
        inputs.extend(values);
        Ok((inputs, scopes))
    }

    /// The run that a key has started, if it was for the same request. Secret inputs do not count:
    /// nothing that could tell whether they are the same is kept of them.
    async fn attach(
        &self,
        run: Uuid,
        used_for: Digest,
        request: &ExecutionRequest,
    ) -> Result<Run, Error> {
        let first = self.store.read_events(run, 0, 1).await?;
        let secret = Start::of(&first).map_or_else(Vec::new, |start| start.secrets);
        if used_for == digest_of(request, &secret) {
            return self.get(run).await;
        }
        let message = format!("this idempotency key has started run {run} with another request");
        Err(Error::new(Kind::KeyReused, message))
    }

    async fn read_all(&self, run: Uuid) -> Result<Vec<Event>, Error> {
        let mut events = Vec::new();
        loop {
            let last = events.last().map_or(0, |event: &Event| event.seq);
            let page = self.store.read_events(run, last, PAGE).await?;
            let ended = page.len() < PAGE;
            events.extend(page);
            if ended {
                return Ok(events);
            }
        }
    }

    fn lease(&self) -> Lease {
        let now = self.clock.now();
        Lease { owner: self.owner, until: now.checked_add(LEASE).unwrap_or(now) }
    }

    fn journal(&self, run: Uuid, last: u64, secrets: Arc<Secrets>) -> Journal {
        let (clock, vault) = (Arc::clone(&self.clock), Arc::clone(&self.vault));
        Journal::after(run, last, self.store.clone(), clock, vault, secrets)
    }

    fn enter(&self, run: Uuid, last: u64, secrets: Arc<Secrets>) -> Arc<Live> {
        let journal = self.journal(run, last, Arc::clone(&secrets));
        let live = Arc::new(Live { journal, halt: Halt::default(), secrets });
        lock(&self.live).insert(run, Arc::clone(&live));
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

/// The digest of what is asked for; how the answer is waited for is no part of it, and neither are
/// `secret` inputs, which somebody could guess from it.
fn digest_of(request: &ExecutionRequest, secret: &[String]) -> Digest {
    let ExecutionRequest { name, version, digest, lock, inputs, session, wait: _ } = request;
    let mut inputs = inputs.clone();
    for (_, value) in inputs.iter_mut().filter(|(name, _)| secret.contains(*name)) {
        *value = hidden();
    }
    let mut asked = serde_json::json!([name, version, digest, lock, inputs, session]);
    asked.sort_all_objects();
    Digest::of_bytes(asked.to_string().as_bytes())
}

/// Makes the database of a configuration, and brings its schema up to date.
#[cfg(test)]
pub(crate) async fn make_database(config: &Config) -> Result<(), Error> {
    Store::open(&config.database, config.durability).await.map(drop)
}

/// How many runs there may be at the same time, as semaphores count.
fn slots_of(config: &Config) -> u32 {
    u32::try_from(config.limits.max_runs).unwrap_or(u32::MAX)
}

fn ended(run: Uuid, status: RunStatus) -> Error {
    let message = format!("run {run} has already ended: {}", status.as_str());
    Error::new(Kind::RunEnded, message)
}

fn not_found(run: Uuid) -> Error {
    Error::new(Kind::RunNotFound, format!("there is no run {run}"))
}

/// Nothing panics while it holds one of these locks; if it did, what they guard would still be whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
