//! Runs: starting, driving, resuming, ending and telling of them.
//!
//! A run is its journal. This module decides who writes to which journal and when; what is written
//! in between is the business of [`crate::engine`].

pub(crate) mod fold;
pub(crate) mod journal;
pub(crate) mod store;

use std::collections::{BTreeMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use a2s::api::{
    Event, EventKind, ExecutionList, ExecutionRequest, PlanAnswer, PlanRequest, Run, RunError,
    RunStatus,
};
use a2s::{CapabilityName, Digest};
use futures::FutureExt as _;
use futures::stream::{self, Stream};
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::clock::{Clock, Ids, milliseconds_between, new_run_id};
use crate::config::Config;
use crate::engine::{Engine, Halt, Stop, Why};
use crate::error::{Error, Kind};
use crate::gate::Gate;
use crate::metrics::Metrics;
use crate::outbound::{Outbound, Retries};
use crate::plan::Plan;
use crate::report::outcome_of;
use crate::source::{Choices, Library, RegistryClient, Wanted};
use fold::{Progress, Start, fold};
use journal::{EVENT_VERSION, Journal};
use store::{Created, Lease, NewRun, Store};

/// How long nobody else may drive a run after its driver was last heard of.
const LEASE: Duration = Duration::from_secs(30);
/// Events that are read at a time.
const PAGE: usize = 256;
/// The longest name of a session.
const MAX_SESSION: usize = 200;
/// How often a run that another executor drives is looked at.
const POLL: Duration = Duration::from_secs(1);

/// All runs of one executor.
#[derive(Debug)]
pub(crate) struct Runs {
    config: Config,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    store: Store,
    registry: RegistryClient,
    gate: Gate,
    outbound: Outbound,
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
}

/// A run that is about to be driven.
struct Drive {
    run: Uuid,
    live: Arc<Live>,
    plan: Plan,
    start: Start,
    progress: Progress,
    slot: OwnedSemaphorePermit,
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
        let outbound = Outbound::new(&config)?;
        let store = Store::open(&config.database, config.durability).await?;
        let runs = Arc::new(Self {
            registry,
            gate,
            outbound,
            store,
            retries: Retries::of(&config.limits),
            metrics,
            live: Mutex::default(),
            tasks: Mutex::default(),
            slots: Arc::new(Semaphore::new(config.limits.max_runs)),
            closing: AtomicBool::new(false),
            owner: Uuid::from_bytes(ids.random()),
            clock,
            ids,
            config,
        });
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

    /// Shows what a run would do.
    pub(crate) async fn plan(&self, request: &PlanRequest) -> Result<PlanAnswer, Error> {
        let PlanRequest { name, version, digest, inputs } = request;
        let (_, plan) = self.resolve(name, version.as_deref(), *digest).await?;
        plan.check_known(inputs)?;
        let guarding = self.config.guardian.guarding();
        Ok(plan.render(inputs, guarding, |url| self.outbound.upstream_of(url)))
    }

    /// Starts a run, or finds the one that `key` has started.
    pub(crate) async fn start(
        self: &Arc<Self>,
        request: ExecutionRequest,
        key: Option<String>,
    ) -> Result<Run, Error> {
        self.check_open()?;
        let request_digest = digest_of(&request);
        if let Some(key) = &key
            && let Some((run, digest)) = self.store.find_key(key).await?
        {
            return self.attach(run, digest, request_digest).await;
        }
        if request.session.as_ref().is_some_and(|s| s.is_empty() || s.len() > MAX_SESSION) {
            let message = format!("`session` takes 1 to {MAX_SESSION} bytes");
            return Err(Error::new(Kind::BadRequest, message));
        }
        let slot = Arc::clone(&self.slots).try_acquire_owned().map_err(|_| {
            let most = self.config.limits.max_runs;
            Error::new(Kind::Busy, format!("{most} runs are under way, and that is the most"))
        })?;
        let ExecutionRequest { name, version, digest, inputs, session, .. } = request;
        let (library, plan) = self.resolve(&name, version.as_deref(), digest).await?;
        plan.check_inputs(&inputs)?;

        let run = new_run_id(&self.clock, &self.ids);
        let upstreams = plan.hosts().into_iter();
        let upstreams =
            upstreams.filter_map(|(host, url)| Some((host, self.outbound.upstream_of(&url)?)));
        let started = EventKind::RunStarted {
            capability: plan.root.pin.clone(),
            dependencies: plan.dependencies.clone(),
            inputs,
            session: session.unwrap_or_else(|| run.to_string()),
            guarding: self.config.guardian.guarding(),
            upstreams: upstreams.collect(),
        };
        let first =
            Event { v: EVENT_VERSION, seq: 1, run, at: self.clock.now(), kind: started };
        let created = self
            .store
            .create(NewRun {
                choices: serde_json::json!(library.choices).to_string(),
                documents: library.sources.into_iter().collect(),
                key,
                request_digest,
                first: first.clone(),
                lease: self.lease(),
            })
            .await?;
        if let Created::Existing(run, digest) = created {
            // Another request with the same key was faster.
            return self.attach(run, digest, request_digest).await;
        }
        tracing::info!(%run, capability = %plan.root.pin.name, "run started");
        let events = [first];
        let (answer, start) = (fold(&events), Start::of(&events));
        let (Some(answer), Some(start)) = (answer, start) else {
            return Err(Error::new(Kind::Internal, "a run has no beginning"));
        };
        let live = self.enter(run, 1);
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
        before: Option<Uuid>,
        limit: usize,
    ) -> Result<ExecutionList, Error> {
        let lives = self.store.read_lives(before, limit + 1).await?;
        let mut executions: Vec<Run> = lives.iter().filter_map(|events| fold(events)).collect();
        let more = executions.len() > limit;
        executions.truncate(limit);
        let steps = executions.iter_mut().map(|run| &mut run.steps);
        steps.for_each(Vec::clear);
        let next = executions.last().filter(|_| more).map(|run| run.id);
        Ok(ExecutionList { executions, next })
    }

    /// The events of a run after number `after`, those to come included; ends when nothing more
    /// will happen by itself. `None` when that is so already.
    pub(crate) async fn follow(
        self: &Arc<Self>,
        run: Uuid,
        after: u64,
    ) -> Result<Option<impl Stream<Item = Result<Event, Error>> + Send + use<>>, Error> {
        let row = self.store.read_run(run).await?.ok_or_else(|| not_found(run))?;
        let over = row.status != RunStatus::Running;
        if over && self.store.read_events(run, after, 1).await?.is_empty() {
            return Ok(None);
        }
        let following = Following {
            runs: Arc::clone(self),
            run,
            last: after,
            read: VecDeque::new(),
            watch: None,
            over: false,
        };
        Ok(Some(stream::try_unfold(following, |mut following| async {
            Ok(following.next().await?.map(|event| (event, following)))
        })))
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
                let journal = self.journal(run, last);
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
                let message = format!("run {run} has already ended: {}", state.status.as_str());
                Err(Error::new(Kind::RunEnded, message))
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
        let all = u32::try_from(self.config.limits.max_runs).unwrap_or(u32::MAX);
        // Every run holds a slot until it has left.
        tokio::time::timeout(limit, self.slots.acquire_many(all)).await.is_ok()
    }

    fn check_open(&self) -> Result<(), Error> {
        if self.closing.load(Ordering::SeqCst) {
            return Err(Error::new(Kind::Closing, "the executor is shutting down"));
        }
        Ok(())
    }

    async fn resolve(
        &self,
        name: &CapabilityName,
        version: Option<&str>,
        digest: Option<Digest>,
    ) -> Result<(Library, Plan), Error> {
        let limits = &self.config.limits;
        let wanted = Wanted { name, version, digest };
        let library = self.registry.resolve(wanted, limits.max_documents).await?;
        let plan = Plan::new(&library, limits.max_steps)?;
        Ok((library, plan))
    }

    async fn attach(&self, run: Uuid, used_for: Digest, asked: Digest) -> Result<Run, Error> {
        if used_for == asked {
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

    fn journal(&self, run: Uuid, last: u64) -> Journal {
        Journal::after(run, last, self.store.clone(), Arc::clone(&self.clock))
    }

    fn enter(&self, run: Uuid, last: u64) -> Arc<Live> {
        let live = Arc::new(Live { journal: self.journal(run, last), halt: Halt::default() });
        lock(&self.live).insert(run, Arc::clone(&live));
        live
    }

    fn spawn(self: &Arc<Self>, drive: Drive, resumed: bool) {
        self.metrics.run_began(resumed);
        let mut tasks = lock(&self.tasks);
        // Tasks that have ended are forgotten here, so that the set does not grow.
        while tasks.try_join_next().is_some() {}
        tasks.spawn(Arc::clone(self).drive(drive));
    }

    /// Drives a run until it ends or must be left.
    async fn drive(self: Arc<Self>, drive: Drive) {
        let run = drive.run;
        let mut over = false;
        if let Some(kind) = self.walk(&drive).await {
            let (status, duration_ms) = match &kind {
                EventKind::RunFinished { status, duration_ms, .. } => (*status, *duration_ms),
                _ => (RunStatus::Waiting, 0),
            };
            match drive.live.journal.commit(kind).await {
                Ok(()) => {
                    over = status.is_final();
                    tracing::info!(%run, status = status.as_str(), duration_ms, "run ended");
                    self.metrics.run_ended(status, duration_ms);
                }
                Err(error) => tracing::error!(%run, %error, "the end of a run was not recorded"),
            }
        }
        lock(&self.live).remove(&run);
        self.metrics.run_left();
        // Whoever waits for the run learns of its end when its journal goes.
        drop(drive.live);
        if over {
            match self.get(run).await {
                Ok(ended) => self.report(&ended).await,
                Err(error) => tracing::warn!(%run, %error, "an outcome was not reported"),
            }
        }
        drop(drive.slot);
    }

    /// Walks the plan of a run, and gives what is to be recorded then.
    async fn walk(&self, drive: &Drive) -> Option<EventKind> {
        let Drive { run, live, plan, start, progress, slot: _ } = drive;
        let engine = Engine {
            run: *run,
            session: &start.session,
            plan,
            progress,
            effects: AtomicUsize::new(progress.effects()),
            journal: &live.journal,
            gate: &self.gate,
            outbound: &self.outbound,
            retries: &self.retries,
            clock: &self.clock,
            ids: &self.ids,
            metrics: &self.metrics,
            max_parallel: self.config.limits.max_parallel,
        };
        let walk = AssertUnwindSafe(engine.walk(&start.inputs, &live.halt)).catch_unwind();
        let mut walk = std::pin::pin!(walk);
        let ended = tokio::select! {
            ended = &mut walk => ended,
            () = tokio::time::sleep(self.config.limits.max_run_time) => {
                live.halt.stop(Why::TimeUp);
                walk.await
            }
        };
        let ended = ended.unwrap_or_else(|_| {
            // The panic itself was reported where it happened.
            let error = Error::new(Kind::Internal, "the executor failed while it drove this run");
            Err(Stop::Failed(error.to_run_error(None, None, engine.is_repeat_safe())))
        });
        let duration_ms = milliseconds_between(start.at, self.clock.now());
        last_event(ended, engine.is_repeat_safe(), duration_ms)
    }

    /// Reports how a run ended. That this fails changes nothing for the run.
    async fn report(&self, run: &Run) {
        let Some(outcome) = outcome_of(run) else { return };
        let reported = self.registry.report(&outcome).await;
        self.metrics.reported(reported.is_ok());
        if let Err(error) = reported {
            tracing::warn!(run = %run.id, %error, "an outcome was not reported");
        }
    }

    /// Keeps the leases of live runs, obeys requests to cancel that came from elsewhere, and takes
    /// over runs that nobody drives.
    async fn keep_leases(self: Arc<Self>) {
        loop {
            tokio::time::sleep(LEASE / 3).await;
            let live: Vec<Uuid> = lock(&self.live).keys().copied().collect();
            match self.store.renew(self.lease(), live).await {
                Ok(unwanted) => {
                    let live = lock(&self.live);
                    let unwanted = unwanted.iter().filter_map(|run| live.get(run));
                    unwanted.for_each(|live| live.halt.stop(Why::Cancelled));
                }
                Err(error) => tracing::error!(%error, "leases could not be renewed"),
            }
            if let Err(error) = self.take_over().await {
                tracing::error!(%error, "runs could not be taken over");
            }
        }
    }

    /// Goes on with runs that nobody drives, as far as there is room.
    async fn take_over(self: &Arc<Self>) -> Result<(), Error> {
        let room = self.slots.available_permits();
        if room == 0 || self.closing.load(Ordering::SeqCst) {
            return Ok(());
        }
        for run in self.store.claim(self.lease(), self.clock.now(), room).await? {
            if let Err(error) = self.resume(run).await {
                tracing::error!(%run, %error, "a run could not be resumed");
            }
        }
        Ok(())
    }

    async fn resume(self: &Arc<Self>, run: Uuid) -> Result<(), Error> {
        // Without room the claim runs out by itself, and the run is claimed again.
        let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() else { return Ok(()) };
        let events = self.read_all(run).await?;
        let progress = Progress::of(&events);
        let row = self.store.read_run(run).await?.ok_or_else(|| not_found(run))?;
        let start = Start::of(&events)
            .ok_or_else(|| Error::new(Kind::Internal, format!("run {run} has no beginning")))?;
        let live = self.enter(run, progress.last);
        if let Err(error) = live.journal.commit(EventKind::RunResumed {}).await {
            lock(&self.live).remove(&run);
            return Err(error);
        }
        tracing::info!(%run, capability = %start.capability.name, "run resumed");
        if row.cancel_requested {
            live.halt.stop(Why::Cancelled);
        }
        match self.recall_plan(&start, &row.choices).await {
            Ok(plan) => self.spawn(Drive { run, live, plan, start, progress, slot }, true),
            Err(error) => {
                let error = error.to_run_error(None, None, progress.effects() == 0);
                let duration_ms = milliseconds_between(start.at, self.clock.now());
                let finished = last_event(Err(Stop::Failed(error)), false, duration_ms);
                lock(&self.live).remove(&run);
                if let Some(finished) = finished {
                    live.journal.commit(finished).await?;
                    self.metrics.run_ended(RunStatus::Failed, duration_ms);
                }
            }
        }
        Ok(())
    }

    /// The plan that a run was started with, from the documents that were stored with it.
    async fn recall_plan(&self, start: &Start, choices: &str) -> Result<Plan, Error> {
        let choices: Choices = serde_json::from_str(choices)
            .map_err(|error| Error::new(Kind::Store, format!("stored choices: {error}")))?;
        let pins = || start.dependencies.iter().chain([&start.capability]);
        let digests: Vec<_> = pins().map(|pin| pin.checksum).collect();
        let sources = self.store.read_documents(&digests).await?;
        let mut documents = BTreeMap::new();
        for pin in pins() {
            let source = sources.get(&pin.checksum).ok_or_else(|| {
                Error::new(Kind::Store, format!("the document {} is not stored", pin.checksum))
            })?;
            let document = self.registry.open(source, &pin.name, &pin.version)?;
            if document.digest() != pin.checksum {
                let message = format!(
                    "`{}` {} was started with {}, and what is stored has {}",
                    pin.name,
                    pin.version,
                    pin.checksum,
                    document.digest()
                );
                return Err(Error::new(Kind::DigestMismatch, message));
            }
            documents.insert(pin.checksum, document);
        }
        let library = Library { root: start.capability.checksum, documents, sources, choices };
        Plan::new(&library, self.config.limits.max_steps)
    }
}

/// Somebody who reads the events of a run as they come.
///
/// Events are always read from the database; the watch only tells when to look again. So nothing is
/// told twice or left out, however slow the reader is, and no events wait in memory for it.
struct Following {
    runs: Arc<Runs>,
    run: Uuid,
    last: u64,
    read: VecDeque<Event>,
    watch: Option<watch::Receiver<u64>>,
    over: bool,
}

impl Following {
    async fn next(&mut self) -> Result<Option<Event>, Error> {
        loop {
            if let Some(event) = self.read.pop_front() {
                self.last = event.seq;
                self.over = matches!(event.kind, EventKind::RunFinished { .. });
                return Ok(Some(event));
            }
            if self.over {
                return Ok(None);
            }
            // Both before the events are read: what is committed in between is seen next time.
            if self.watch.is_none() {
                let live = lock(&self.runs.live);
                self.watch = live.get(&self.run).map(|live| live.journal.watch());
            }
            let running = match &self.watch {
                Some(_) => true,
                None => {
                    let row = self.runs.store.read_run(self.run).await?;
                    row.is_some_and(|row| row.status == RunStatus::Running)
                }
            };
            let page = self.runs.store.read_events(self.run, self.last, PAGE).await?;
            if !page.is_empty() {
                self.read = page.into();
                continue;
            }
            match &mut self.watch {
                Some(watch) => {
                    if watch.changed().await.is_err() {
                        self.watch = None;
                    }
                }
                None if running && !self.runs.closing.load(Ordering::SeqCst) => {
                    tokio::time::sleep(POLL).await;
                }
                None => return Ok(None),
            }
        }
    }
}

/// What is recorded when a walk has ended; nothing when the run goes on later.
fn last_event(
    ended: Result<Value, Stop>,
    repeat_safe: bool,
    duration_ms: u64,
) -> Option<EventKind> {
    let failed = |error: RunError| {
        let denied = Kind::of_code(&error.code).is_some_and(Kind::is_denial);
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
        Err(Stop::Failed(error)) => failed(error),
        Err(Stop::Waiting(error)) => Some(EventKind::RunWaiting { error }),
        Err(Stop::Halted(Why::Cancelled)) => Some(cancelled(repeat_safe, duration_ms)),
        Err(Stop::Halted(Why::TimeUp)) => failed(of_kind(Kind::BudgetExceeded, Why::TimeUp.words())),
        Err(Stop::Halted(Why::Suspended)) => None,
        // Only parts of a run stop for a sibling; the step that failed is the reason of the whole.
        Err(Stop::Halted(Why::Sibling)) => failed(of_kind(Kind::Internal, "a run ended halfway")),
        Err(Stop::Broken(error)) => {
            tracing::error!(%error, "a run is left, because nothing can be recorded");
            None
        }
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

/// The digest of what is asked for; how the answer is waited for is no part of it.
fn digest_of(request: &ExecutionRequest) -> Digest {
    let ExecutionRequest { name, version, digest, inputs, session, wait: _ } = request;
    let mut asked = serde_json::json!([name, version, digest, inputs, session]);
    asked.sort_all_objects();
    Digest::of_bytes(asked.to_string().as_bytes())
}

fn not_found(run: Uuid) -> Error {
    Error::new(Kind::RunNotFound, format!("there is no run {run}"))
}

/// Nothing panics while it holds one of these locks; if it did, what they guard would still be whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
