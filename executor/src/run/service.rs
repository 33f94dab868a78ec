//! The operations on runs: one method for each operation of the HTTP interface.

use std::sync::Arc;
use std::time::Duration;

use a2s_api::{
    AuthError, AuthGuard, Caller, ExchangeList, ExecutionList, HostState, PlanRequest,
    PlanResponse, Principal, ReplayRequest, ReplayResponse, ResumeRequest, Run, RunEvent,
    StateEntry, StreamLimits, StreamQuota, TokenScope, UsageReport, UsageUnit,
};
use futures::stream::Stream;
use jiff::Timestamp;
use serde_json::Value;
use uuid::Uuid;

use super::RunFilter;
use super::approvals::{ApprovalPoller, ApprovalSchedule};
use super::context::RunContext;
use super::event_stream::follow_events;
use super::ownership::may_touch;
use super::plan::Planner;
use super::replay::replay_run;
use super::report::OutcomeReports;
use super::resolver::RunResolver;
use super::resume::resume_run;
use super::scheduler::RunScheduler;
use super::start::{StartRequest, start_run};
use super::usage::count_usage;
use crate::clock::{Clock, RandomSource};
use crate::config::Config;
use crate::error::{Error, ErrorKind};
use crate::journal::run_state::fold_events;
use crate::journal::store::RunSummaryEvents;
use crate::metrics::Metrics;
use crate::registry_client::RegistryClient;
use crate::session_state::{StateOwner, StateQuotas, StateTable};
use crate::telemetry::{DecisionSubject, StandaloneDecision};
use crate::trust::TrustedVersions;
use crate::vault::Vault;

/// The minimum lease: with a shorter one, a busy machine loses its runs to others.
const SHORTEST_LEASE: Duration = Duration::from_secs(1);
/// The maximum number of event streams at the same time. Every caller has a principal: an executor without
/// tokens treats all callers as its owner.
const STREAM_LIMITS: StreamLimits = StreamLimits { total: 512, principal: 128, anonymous: 0 };

/// The operations on the runs of one executor.
#[derive(Debug)]
pub(crate) struct RunService {
    pub(super) context: Arc<RunContext>,
    pub(super) resolver: Arc<RunResolver>,
    pub(super) scheduler: Arc<RunScheduler>,
    auth: AuthGuard,
    /// The callers who follow runs.
    followers: StreamQuota,
}

impl RunService {
    /// Opens the database, and continues the runs that no executor drives.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] when a setting cannot be used, [`ErrorKind::Store`] when the database
    /// fails.
    pub(crate) async fn open(
        config: Config,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn RandomSource>,
        metrics: Metrics,
    ) -> Result<Self, Error> {
        if config.limits.lease < SHORTEST_LEASE {
            let message = format!("`lease` must be at least {SHORTEST_LEASE:?}");
            return Err(Error::new(ErrorKind::Configuration, message));
        }
        let auth = AuthGuard {
            owner_token: config.token.clone(),
            introspector: config.introspector.clone(),
        };
        let registry = RegistryClient::new(&config.registry, config.registry_token.clone())?;
        let registry = Arc::new(registry);
        let quotas = StateQuotas::from_limits(&config.limits);
        let (context, pool) =
            RunContext::open(config, (Arc::clone(&clock), ids), metrics, &registry).await?;
        let context = Arc::new(context);
        let resolver = Arc::new(RunResolver {
            context: Arc::clone(&context),
            registry: Arc::clone(&registry),
            trust: TrustedVersions::new(pool.clone(), Arc::clone(&clock)),
            states: StateTable::new(pool, clock, quotas),
        });
        let reports = Arc::new(OutcomeReports::new(Arc::clone(&context), registry));
        let schedule = Arc::<ApprovalSchedule>::default();
        let (its_context, its_resolver) = (Arc::clone(&context), Arc::clone(&resolver));
        let its_schedule = Arc::clone(&schedule);
        let scheduler =
            RunScheduler::start(its_context, its_resolver, reports, its_schedule).await?;
        let poller = ApprovalPoller {
            context: Arc::clone(&context),
            resolver: Arc::clone(&resolver),
            scheduler: Arc::clone(&scheduler),
            schedule,
        };
        scheduler.spawn_background(poller.run());
        let followers = StreamQuota::new(STREAM_LIMITS);
        Ok(Self { context, resolver, scheduler, auth, followers })
    }

    /// Checks that runs can be started and recorded.
    pub(crate) async fn check_ready(&self) -> Result<(), Error> {
        self.scheduler.check_open()?;
        self.context.store.check_writer().await
    }

    /// The authentication and authorization of callers.
    pub(crate) fn auth(&self) -> &AuthGuard {
        &self.auth
    }

    /// The permits for expensive evaluations.
    #[cfg(test)]
    pub(crate) fn evaluations(&self) -> &crate::engine::EvaluationPool {
        &self.context.evaluations
    }

    /// The stored credentials.
    pub(crate) fn vault(&self) -> &Arc<Vault> {
        &self.context.vault
    }

    /// The values that are remembered between runs.
    pub(crate) fn states(&self) -> &StateTable {
        &self.resolver.states
    }

    /// The remembered checksums of versions.
    pub(crate) fn trust(&self) -> &TrustedVersions {
        &self.resolver.trust
    }

    /// The known state of the hosts of services.
    pub(crate) fn hosts(&self) -> Vec<HostState> {
        self.context.outbound.host_states()
    }

    /// Shows the effect of a run, with a token that runs exactly this plan.
    pub(crate) async fn plan(
        &self,
        request: &PlanRequest,
        principal: &Principal,
    ) -> Result<PlanResponse, Error> {
        self.planner().plan(request, principal).await
    }

    pub(super) fn planner(&self) -> Planner<'_> {
        Planner { context: &self.context, resolver: &self.resolver }
    }

    /// Starts a run, or finds the run that the idempotency key of the request has started.
    pub(crate) async fn start(&self, request: StartRequest) -> Result<Run, Error> {
        start_run(self, request).await
    }

    /// Records the outcome of a request with an unknown effect, and lets the run continue.
    ///
    /// # Errors
    /// Returns [`ErrorKind::WrongState`] when the run does not wait, and [`ErrorKind::BadRequest`] when the
    /// step is not in doubt or does not have such outputs.
    pub(crate) async fn resume(
        &self,
        run: Uuid,
        request: ResumeRequest,
        caller: &Caller,
    ) -> Result<Run, Error> {
        resume_run(self, run, request, caller).await
    }

    /// Replays a run, and returns the differences from the recording.
    ///
    /// # Errors
    /// Returns [`ErrorKind::WrongState`] while the run is under way, and the errors of resolving `against`.
    pub(crate) async fn replay(
        &self,
        run: Uuid,
        request: &ReplayRequest,
        caller: &Caller,
    ) -> Result<ReplayResponse, Error> {
        let row = self.context.find(run, caller).await?;
        replay_run(&self.context, &self.resolver, (run, &row), request).await
    }

    /// Counts the runs of a period.
    pub(crate) async fn usage(
        &self,
        since: Option<Timestamp>,
        unit: UsageUnit,
        caller: &Caller,
    ) -> Result<UsageReport, Error> {
        count_usage(&self.context, since, unit, caller).await
    }

    /// Returns the events of a run after number `after`, including future ones. The stream ends when the
    /// run cannot proceed by itself. Returns `None` when this is already the case.
    ///
    /// # Errors
    /// Returns [`ErrorKind::TooManyFollowers`] when the caller, or all callers together, follow too many
    /// runs.
    pub(crate) async fn follow(
        &self,
        run: Uuid,
        after: u64,
        caller: &Caller,
    ) -> Result<Option<impl Stream<Item = Result<Arc<RunEvent>, Error>> + Send + use<>>, Error>
    {
        let row = self.context.find(run, caller).await?;
        let over = !row.status.is_in_progress();
        if over && self.context.store.read_events(run, after, 1).await?.is_empty() {
            return Ok(None);
        }
        let permit = self.followers.reserve(Some(caller.principal()));
        let permit = permit
            .map_err(|refusal| Error::new(ErrorKind::TooManyFollowers, refusal.to_string()))?;
        let parts = (Arc::clone(&self.context), Arc::clone(&self.scheduler));
        Ok(Some(follow_events(parts, run, after, permit)))
    }

    /// Waits until a run cannot proceed by itself, on any executor, and returns it.
    pub(crate) async fn wait_until_at_rest(&self, run: Uuid) -> Result<Run, Error> {
        self.scheduler.wait_until_at_rest(run).await
    }

    /// The run that its events describe, for a caller who may see it; administrators see its principal, too.
    pub(crate) async fn show(&self, run: Uuid, caller: &Caller) -> Result<Run, Error> {
        let row = self.context.find(run, caller).await?;
        let shown = self.context.read_run(run).await?;
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
        self.context.find(run, caller).await?;
        let recorded = self.context.store.read_exchanges(run).await?;
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
        let found = self.context.store.read_summary_events(&filter, limit + 1).await?;
        let shown = |summary: RunSummaryEvents| {
            let tenant = Some(summary.tenant).filter(|_| may_know);
            Some(Run { tenant, ..fold_events(&summary.events)? })
        };
        let mut executions: Vec<Run> = found.into_iter().filter_map(shown).collect();
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
        self.context.find(run, caller).await?;
        if self.context.store.delete(run).await? {
            return Ok(());
        }
        let row = self.context.read_row(run).await?;
        let message = format!("run {run} has not ended: it is {}", row.status.as_str());
        Err(Error::new(ErrorKind::WrongState, message)
            .with_hint("Cancel it first with `a2s cancel`."))
    }

    /// Ends a run as soon as it may be ended.
    pub(crate) async fn cancel(&self, run: Uuid, caller: &Caller) -> Result<Run, Error> {
        self.context.find(run, caller).await?;
        self.scheduler.cancel(run).await
    }

    /// Remembers a value that `principal` sets, if the guardian allows it.
    ///
    /// # Errors
    /// Fails when the value must not or cannot be remembered.
    pub(crate) async fn remember(
        &self,
        principal: &Principal,
        holder: &StateOwner,
        name: &str,
        value: Value,
    ) -> Result<StateEntry, Error> {
        StateTable::check(name, &value)?;
        let context = &self.context;
        let asked = context.gate.ask_remember(principal, holder, name, value).await;
        context.sinks.export_decision(&StandaloneDecision {
            principal,
            id: context.new_run_id(),
            subject: DecisionSubject::Remembered,
            decisions: &asked.decisions,
            is_rejected: asked.verdict.is_err(),
            session: &holder.session_id(),
            capability: None,
            caller: None,
            at: context.clock.now(),
        });
        self.states().set(holder, name, asked.verdict?.into_inner()).await
    }

    /// Accepts no more runs, gives active runs `grace` to end, then leaves the rest to the next executor
    /// that opens the database.
    pub(crate) async fn shut_down(&self, grace: Duration) {
        self.scheduler.shut_down(grace).await;
    }

    /// Ends all tasks at once, in the middle of whatever they do.
    pub(crate) fn abort(&self) {
        self.scheduler.abort();
    }

    /// Aborts all tasks and waits until they are gone.
    #[cfg(test)]
    pub(crate) async fn crash(&self) {
        self.scheduler.crash().await;
    }
}
