//! Runs that wait for an approval: their guardians are asked again, at a bounded pace, until one gives
//! another decision.
//!
//! A wait stores nothing except the run itself: the question is made again from its journal, so that any
//! executor can ask it, even if the first one is gone. Questions leave no events. Only a different decision
//! lets the run continue, at that step, or ends it.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use a2s_api::{ApprovalSubject, EventKind, GuardianPhase, RunEvent, RunStatus};
use futures::{StreamExt as _, stream};
use jiff::{SignedDuration, Timestamp};
use prometheus_client::registry::Registry;
use tokio::sync::Notify;
use tokio::time::Instant;
use uuid::Uuid;

use super::context::RunContext;
use super::not_found;
use super::resolver::RunResolver;
use super::restored_run::RestoredRun;
use super::scheduler::RunScheduler;
use crate::clock::milliseconds_between;
use crate::engine::{
    ApprovalPoll, CancelToken, Engine, LiveTransport, PollResult, RunBudget, RunRecorder,
    ServiceTransport,
};
use crate::error::{Error, ErrorKind};
use crate::journal::run_state::{RunProgress, RunState};
use crate::journal::store::{LeaseEpoch, RunFilter, RunRow};
use crate::journal::{Journal, lock};
use crate::metrics::Metrics;
use crate::request::ContractCache;

/// The pause before a guardian is asked again for the first time; each further pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The maximum pause.
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// The most runs that are asked about at the same time.
const MAX_CONCURRENT_POLLS: usize = 4;
/// The time limit for the questions about one run.
const POLL_TIMEOUT: Duration = Duration::from_secs(60);
/// The number of waiting runs that are read at a time.
const PAGE: usize = 256;
/// The largest accepted difference between the clock of a guardian and this one.
const CLOCK_SKEW: SignedDuration = SignedDuration::from_secs(60);

/// The times at which the guardians of each waiting run are asked again.
#[derive(Debug, Default)]
pub(super) struct ApprovalSchedule {
    waits: Mutex<BTreeMap<Uuid, NextPoll>>,
    wake: Notify,
}

/// The next question about a run.
#[derive(Debug, Clone, Copy)]
struct NextPoll {
    due: Instant,
    /// The pause between this question and the next one.
    pause: Duration,
}

/// The result of asking about a run again.
enum RunWait {
    /// It still waits, for something that may expire at the given time.
    Waits(Option<Timestamp>),
    /// The run no longer waits, or waits for something else.
    Ended,
}

impl ApprovalSchedule {
    /// Adds a run that begins to wait here.
    pub(super) fn add(&self, run: Uuid) {
        let turn = NextPoll { due: Instant::now() + FIRST_PAUSE, pause: FIRST_PAUSE * 2 };
        lock(&self.waits).insert(run, turn);
        self.wake.notify_one();
    }

    /// Adds a waiting run that this executor may not know; the guardians are asked about it after a pause.
    fn add_found(&self, run: Uuid, pause: Duration) {
        let turn = NextPoll { due: Instant::now() + pause, pause: pause.max(FIRST_PAUSE) };
        lock(&self.waits).entry(run).or_insert(turn);
    }

    /// The time of the next question, at most `latest`.
    fn next_due(&self, latest: Instant) -> Instant {
        lock(&self.waits).values().map(|turn| turn.due).fold(latest, Instant::min)
    }

    /// Returns the runs with a due question, and schedules their next question one pause later.
    fn take_due(&self) -> Vec<Uuid> {
        let now = Instant::now();
        let mut waits = lock(&self.waits);
        let due = waits.iter_mut().filter(|(_, turn)| turn.due <= now);
        let due = due.map(|(run, turn)| {
            turn.due = now + turn.pause;
            turn.pause = (turn.pause * 2).min(MAX_PAUSE);
            *run
        });
        due.collect()
    }

    /// Moves the next question about a run forward, so that it is asked within `left`: the time for its
    /// approval is over then.
    fn advance(&self, run: Uuid, left: Duration) {
        if let Some(turn) = lock(&self.waits).get_mut(&run) {
            turn.due = turn.due.min(Instant::now() + left);
        }
    }

    fn remove(&self, run: Uuid) {
        lock(&self.waits).remove(&run);
    }
}

/// Returns true when an event makes a run wait for an approval.
pub(super) fn is_wait_for_approval(kind: &EventKind) -> bool {
    let EventKind::RunWaiting { error } = kind else { return false };
    ErrorKind::from_code(&error.code) == Some(ErrorKind::ApprovalRequired)
}

/// An approval that a step waits for.
#[derive(Debug, Clone, Copy)]
struct OpenApproval<'e> {
    id: &'e str,
    about: ApprovalSubject,
    /// The time at which it expires.
    expires_at: Option<Timestamp>,
}

/// Returns the approvals that a run waits for, by step.
fn wanted_approvals(events: &[RunEvent]) -> BTreeMap<&str, OpenApproval<'_>> {
    let mut wanted = BTreeMap::new();
    for event in events {
        match &event.kind {
            EventKind::RunResumed {} => wanted.clear(),
            EventKind::ApprovalRequested { step, about, id, expires_at, .. } => {
                let approval = OpenApproval { id, about: *about, expires_at: *expires_at };
                wanted.insert(step.as_str(), approval);
            }
            _ => {}
        }
    }
    wanted
}

/// The task that asks the guardians of waiting runs again.
#[derive(Debug)]
pub(super) struct ApprovalPoller {
    pub(super) context: Arc<RunContext>,
    pub(super) resolver: Arc<RunResolver>,
    pub(super) scheduler: Arc<RunScheduler>,
    pub(super) schedule: Arc<ApprovalSchedule>,
}

impl ApprovalPoller {
    /// Asks the guardians about the runs that wait for an approval, until the executor closes.
    pub(super) async fn run(self) {
        // Those that were left are asked about at once; others are another executor's first.
        let mut pause = Duration::ZERO;
        let mut look = Instant::now();
        loop {
            if look <= Instant::now() {
                match self.find_waits(pause).await {
                    Ok(()) => pause = MAX_PAUSE,
                    Err(error) => tracing::warn!(%error, "waiting runs could not be read"),
                }
                look = Instant::now() + self.context.config.limits.lease / 3;
            }
            let due = self.schedule.next_due(look);
            let _ = tokio::time::timeout_at(due, self.schedule.wake.notified()).await;
            let due = self.schedule.take_due();
            if due.is_empty() || self.scheduler.is_closing() {
                continue;
            }
            let asked = due.into_iter().map(|run| self.poll_run(run));
            stream::iter(asked).buffer_unordered(MAX_CONCURRENT_POLLS).collect::<()>().await;
        }
    }

    /// Finds runs that wait for an approval, of any executor.
    async fn find_waits(&self, pause: Duration) -> Result<(), Error> {
        let mut filter = RunFilter { status: Some(RunStatus::Waiting), ..RunFilter::default() };
        loop {
            let lives = self.context.store.read_summary_events(&filter, PAGE).await?;
            let is_last = lives.len() < PAGE;
            for life in lives {
                let Some(last) = life.events.last() else { continue };
                filter.before = Some(last.run);
                if is_wait_for_approval(&last.kind) {
                    self.schedule.add_found(last.run, pause);
                }
            }
            if is_last {
                return Ok(());
            }
        }
    }

    async fn poll_run(&self, run: Uuid) {
        match self.poll_guardians(run).await {
            Ok(RunWait::Waits(None)) => {}
            Ok(RunWait::Waits(Some(expires_at))) => {
                let left = expires_at.duration_since(self.context.clock.now());
                let left = Duration::try_from(left).unwrap_or_default();
                self.schedule.advance(run, left.max(FIRST_PAUSE));
            }
            Ok(RunWait::Ended) => self.schedule.remove(run),
            // Another executor was first, or a person.
            Err(error) if error.kind == ErrorKind::LeaseLost => self.schedule.remove(run),
            Err(error) => {
                tracing::warn!(%run, %error, "the status of an approval could not be read")
            }
        }
    }

    /// Asks the guardians about the steps at which a run waits. When their decisions have changed, the run
    /// continues or ends.
    async fn poll_guardians(&self, run: Uuid) -> Result<RunWait, Error> {
        let row = self.context.store.read_run(run).await?;
        let Some(row) = row.filter(|row| row.status == RunStatus::Waiting) else {
            return Ok(RunWait::Ended);
        };
        let mut events = self.context.read_events(run).await?;
        if !events.last().is_some_and(|event| is_wait_for_approval(&event.kind)) {
            return Ok(RunWait::Ended);
        }
        let state = RunState::from_events(&events).ok_or_else(|| not_found(run))?;
        let now = self.context.clock.now();
        let ends = |approval: &OpenApproval<'_>| approval.expires_at;
        let is_late = wanted_approvals(&events).values().filter_map(ends).any(|at| at <= now);
        let found = self.ask_guardians(run, &row, &mut events, is_late).await?;

        let wanted = wanted_approvals(&events);
        let mut is_silent = false;
        for (step, standing) in found {
            let known = wanted.get(step.as_str());
            let expires_at = known.and_then(ends);
            let is_over = |by: SignedDuration| {
                expires_at.is_some_and(|at| now.checked_add(by).is_ok_and(|now| at <= now))
            };
            match (standing, known) {
                (PollResult::Silent, _) => is_silent = true,
                (PollResult::Pending(Some(id)), Some(same)) if id == same.id => {}
                // A new approval request has replaced one that has expired.
                (PollResult::Pending(Some(_)), Some(_)) if is_over(CLOCK_SKEW) => {
                    self.expire_approval(state, row.epoch, &events, &step).await?;
                    return Ok(RunWait::Ended);
                }
                (PollResult::Pending(None), _) if is_over(SignedDuration::ZERO) => {
                    self.expire_approval(state, row.epoch, &events, &step).await?;
                    return Ok(RunWait::Ended);
                }
                (PollResult::Pending(None), _) => {}
                (PollResult::Pending(Some(_)) | PollResult::Changed, _) => {
                    tracing::info!(%run, step, "the guardian decided; the run continues");
                    self.scheduler.requeue(state, row.epoch).await?;
                    return Ok(RunWait::Ended);
                }
            }
        }
        if is_silent {
            return Ok(RunWait::Waits(None));
        }
        Ok(RunWait::Waits(wanted.values().filter_map(ends).min()))
    }

    /// Walks to the waiting steps, and asks the guardians about each. Nothing is sent to services or
    /// recorded.
    async fn ask_guardians(
        &self,
        run: Uuid,
        row: &RunRow,
        events: &mut [RunEvent],
        is_late: bool,
    ) -> Result<Vec<(String, PollResult)>, Error> {
        let restored = RestoredRun::from_events(&self.context, run, events).await?.complete()?;
        let RestoredRun { header, progress, secrets, .. } = restored;
        let context = &self.context;
        let plan = self.resolver.load_plan(&header, &row.choices).await?;
        let journal = Journal::in_memory(run, Arc::clone(&context.clock), Arc::clone(&secrets));
        let metrics = Metrics::register(&mut Registry::default());
        let steps = wanted_approvals(events).keys().map(|step| (*step).to_owned()).collect();
        let inquiry = ApprovalPoll::new(steps, is_late);
        let engine = Engine {
            run,
            session: &header.session,
            plan: &plan,
            recorder: RunRecorder {
                progress: &progress,
                effects: AtomicUsize::new(progress.count_effects()),
                budget: RunBudget::new(&context.config.limits, progress.count_begun()),
                secrets: &secrets,
                journal: &journal,
                clock: &context.clock,
                metrics: &metrics,
                keep_answer_bytes: 0,
            },
            transport: ServiceTransport::Live(LiveTransport {
                approval_poll: Some(&inquiry),
                ..context.live_transport(&row.tenant)
            }),
            contracts: ContractCache::default(),
            evaluations: &context.evaluations,
            max_parallel: context.config.limits.max_parallel,
            max_request_bytes: context.config.limits.max_request_bytes,
        };
        let halt = CancelToken::default();
        let walked = tokio::time::timeout(POLL_TIMEOUT, engine.walk(&header.inputs, &halt)).await;
        drop(engine);
        let mut found = inquiry.into_results();
        if walked.is_err() {
            found.push((String::new(), PollResult::Silent));
        } else if found.is_empty() {
            // It did not come to a question: what that is shows when the run goes on.
            found.push((String::new(), PollResult::Changed));
        }
        Ok(found)
    }

    /// Ends a run because its approval was not given in time.
    async fn expire_approval(
        &self,
        state: RunState,
        epoch: LeaseEpoch,
        events: &[RunEvent],
        step: &str,
    ) -> Result<(), Error> {
        let (run, started_at) = (state.id(), state.to_run().started_at);
        let wanted = wanted_approvals(events);
        let wanted = wanted.get(step).copied();
        let until = wanted.and_then(|approval| approval.expires_at);
        let until = until.map_or_else(String::new, |at| format!(" until {at:.0}"));
        let id = wanted.map_or("", |approval| approval.id);
        let about = wanted.map(|approval| approval.about).unwrap_or_default();
        let message = format!("the approval `{id}`{} was not given{until}", about.describe());
        let hint =
            "Run the capability again, and approve it in time with `a2s guardian approve ID`.";
        let kind = match about.phase {
            GuardianPhase::Result | GuardianPhase::McpInbound => ErrorKind::GuardianDeniedResult,
            _ => ErrorKind::GuardianDeniedRequest,
        };
        let error = Error::new(kind, message).with_hint(hint);
        let progress = RunProgress::from_events(events);
        let error = error.to_run_error(Some(step), None, progress.count_effects() == 0);
        let now = self.context.clock.now();
        let began = progress.steps.get(step).and_then(|step| step.started_at);
        let failed = EventKind::StepFailed {
            step: step.to_owned(),
            error: error.clone(),
            duration_ms: began.map_or(0, |began| milliseconds_between(began, now)),
        };
        let duration_ms = milliseconds_between(started_at, now);
        let (status, error) = (RunStatus::Denied, Some(error));
        let finished = EventKind::RunFinished { status, output: None, error, duration_ms };
        self.scheduler.end_undriven(state, epoch, Some(failed), finished).await?;
        tracing::info!(%run, step, "an approval was not given in time");
        Ok(())
    }
}
