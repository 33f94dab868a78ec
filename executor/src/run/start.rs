//! Starting a run: once for each idempotency key, and once for each plan.
//!
//! A start goes through stages, each a type that only the stage before can make: what is requested
//! ([`RequestedRun`]), resolved ([`ResolvedRun`](super::resolver::ResolvedRun)), prepared
//! ([`PreparedRun`]), admitted by the guardians
//! ([`AdmittedRun`]), recorded ([`RecordedRun`]), and running ([`RunTask`]).

use std::sync::Arc;

use a2s::Digest;
use a2s_api::{
    Caller, DecisionRecord, EventKind, ExecutionRequest, MAX_INTENT_LENGTH, PlanRequest, Principal,
    Run, RunEvent, RunStarted, TraceContext, TriggerEvent, is_intent,
};
use serde_json::{Map, Value};
use tokio::time::Instant;
use uuid::Uuid;

use super::context::RunContext;
use super::plan::RedeemedPlan;
use super::pre_run_guard::PreRunGuard;
use super::resolver::PreparedRun;
use super::run_task::RunTask;
use super::scheduler::{ActiveRun, RunScheduler, RunSlot};
use super::service::RunService;
use crate::config::Config;
use crate::engine::CancelReason;
use crate::error::{Error, ErrorKind};
use crate::journal::EVENT_VERSION;
use crate::journal::lease::RunLease;
use crate::journal::run_state::{RunHeader, RunProgress, RunState, fold_events};
use crate::journal::sealed_values::SealedValues;
use crate::journal::store::{CreateResult, LeaseEpoch, NewRun, PendingCommit, TenantQuota};
use crate::plan::ExecutionPlan;
use crate::secrets::{RunSecrets, secret_placeholder};
use crate::vault::Vault;

/// A request to start a run.
#[derive(Debug)]
pub(crate) struct StartRequest {
    /// The body of the request.
    pub(crate) request: ExecutionRequest,
    /// The event that starts the run, if it is not the caller. The guardian sees it first.
    pub(crate) event: Option<TriggerEvent>,
    /// The idempotency key.
    pub(crate) key: Option<String>,
    /// The trace that the caller is in.
    pub(crate) trace: Option<TraceContext>,
    /// The caller.
    pub(crate) caller: Caller,
}

/// The reason for which a request starts no run.
enum NotStarted {
    /// The same request has started this run before.
    Existing(Box<Run>),
    Failed(Error),
}

impl From<Error> for NotStarted {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// Starts a run, or finds the run that the idempotency key of the request has started.
pub(super) async fn start_run(runs: &RunService, start: StartRequest) -> Result<Run, Error> {
    let started = async {
        let requested = RequestedRun::accept(runs, start).await?;
        let admitted = requested.admit(runs).await?;
        let recorded = admitted.record(runs).await?;
        Ok(recorded.begin(&runs.scheduler).await?)
    };
    match started.await {
        Ok(run) => Ok(run),
        Err(NotStarted::Existing(run)) => Ok(*run),
        Err(NotStarted::Failed(error)) => Err(error),
    }
}

/// A request that was accepted, with everything that its run has from the start.
struct AcceptedRequest {
    /// The id of the run.
    id: Uuid,
    start: StartRequest,
    /// The principal that the run will belong to.
    principal: Principal,
    /// The key by which the run will be found.
    key: Option<String>,
    quota: TenantQuota,
    /// The slot of the run, unless it has to wait for one.
    slot: Option<RunSlot>,
}

/// A run that is requested.
struct RequestedRun {
    accepted: AcceptedRequest,
    target: RunTarget,
}

/// The capability or plan that a caller wants to run.
enum RunTarget {
    /// A capability.
    Capability(PlanRequest),
    /// A plan, if it can be run.
    Plan(Box<Result<RedeemedPlan, Error>>),
}

impl RequestedRun {
    /// Accepts a request that is well formed, unless its key has started a run before, or its tenant has too
    /// many runs.
    async fn accept(runs: &RunService, start: StartRequest) -> Result<Self, NotStarted> {
        let RunService { context, scheduler, .. } = runs;
        scheduler.check_open()?;
        let principal = start.caller.principal();
        let key = start.key.clone().map(|key| tenant_key(&principal, key));
        // A plan is looked at before the key: one that is used by then was used together with the
        // key of its run, which is found here.
        let target = RunTarget::read(runs, &start).await?;
        if let Some(key) = &key
            && let Some((run, digest)) = context.store.find_by_key(key).await?
        {
            return Err(find_existing(context, run, digest, &start.request).await);
        }
        let quota = quota_of(&context.config, &principal);
        let slot = scheduler.try_slot(quota).await;
        // Looked at again when it is recorded; here, before anybody is asked in vain.
        if slot.is_none() && !quota.has_room(context.store.read_load(&principal).await?) {
            return Err(too_many(&principal, quota).into());
        }
        let id = context.new_run_id();
        Ok(Self { accepted: AcceptedRequest { id, start, principal, key, quota, slot }, target })
    }

    /// Resolves and prepares the run, and asks the guardians about the event that starts it and about the
    /// values that are remembered for it.
    async fn admit(self, runs: &RunService) -> Result<AdmittedRun, Error> {
        let Self { accepted, target } = self;
        let AcceptedRequest { id, start, principal, .. } = &accepted;
        let mut guard = PreRunGuard::new(&runs.context, principal, *id, start.trace.as_ref());
        let (prepared, session, plan) = match target {
            RunTarget::Capability(mut asked) => {
                let resolved = runs.resolver.resolve((&asked).into()).await?;
                if let Some(event) = &start.event {
                    guard.judge_event(event, &resolved.plan, &mut asked).await?;
                }
                let prepared = runs.resolver.prepare(&asked, principal, resolved).await?;
                (prepared, asked.session, None)
            }
            RunTarget::Plan(redeemed) => {
                let RedeemedPlan { id, shown } = (*redeemed)?;
                let prepared = runs.planner().prepare_as_shown(&shown, principal).await?;
                let used = UsedPlan { id, basis: shown.basis.digest().ok() };
                (prepared, shown.request.session, Some(used))
            }
        };
        prepared.check()?;
        let prepared = guard.judge_recalled_inputs(prepared, session.as_deref()).await?;
        let decisions = guard.decisions;
        Ok(AdmittedRun { accepted, prepared, session, plan, decisions })
    }
}

impl RunTarget {
    /// The capability or plan that a request names.
    async fn read(runs: &RunService, start: &StartRequest) -> Result<Self, Error> {
        let request = &start.request;
        let ExecutionRequest { name, plan, version, digest, lock, inputs, session, intent, wait } =
            request;
        if intent.as_ref().is_some_and(|intent| !is_intent(intent)) {
            let message = format!("`intent` must have 1 to {MAX_INTENT_LENGTH} characters");
            return Err(Error::new(ErrorKind::BadRequest, message));
        }
        match (name, plan) {
            (Some(name), None) => Ok(Self::Capability(PlanRequest {
                name: name.clone(),
                version: version.clone(),
                digest: *digest,
                lock: lock.clone(),
                inputs: inputs.clone(),
                session: session.clone(),
                preview: false,
            })),
            (None, None) => Err(Error::new(ErrorKind::BadRequest, "give either `name` or `plan`")),
            (_, Some(token)) => {
                let plan = plan.clone();
                let intent = intent.clone();
                let alone =
                    ExecutionRequest { plan, intent, wait: *wait, ..ExecutionRequest::default() };
                if *request == alone {
                    let redeemed = runs.planner().redeem_plan(token, &start.caller).await;
                    return Ok(Self::Plan(Box::new(redeemed)));
                }
                let message = "a plan already contains name, version, inputs and session";
                let hint = "Send only `intent` and `wait` together with `plan`, or plan again with other inputs.";
                Err(Error::new(ErrorKind::BadRequest, message).with_hint(hint))
            }
        }
    }
}

/// A plan that a run uses up.
struct UsedPlan {
    id: Digest,
    /// The digest of its basis.
    basis: Option<Digest>,
}

/// A run that may begin: nothing is missing, and the guardians allow it.
struct AdmittedRun {
    accepted: AcceptedRequest,
    prepared: PreparedRun,
    /// The session that the caller has named.
    session: Option<String>,
    plan: Option<UsedPlan>,
    /// The decisions of the guardians so far.
    decisions: Vec<DecisionRecord>,
}

impl AdmittedRun {
    /// Records the run, with its documents and everything that is needed to continue it elsewhere.
    async fn record(self, runs: &RunService) -> Result<RecordedRun, NotStarted> {
        let RunService { context, resolver, .. } = runs;
        let secrets = context.new_secrets();
        let shown = self.prepared.plan.root.masked_inputs(&self.prepared.inputs, &secrets)?;
        let is_public = shown == self.prepared.inputs;
        let first = self.first_event(context, shown, &secrets);
        let Self { accepted, prepared, session, plan, .. } = self;
        let AcceptedRequest { id: run, start, principal, key, quota, slot } = accepted;
        let PreparedRun { library, plan: execution_plan, inputs, .. } = prepared;
        let sealed = if is_public {
            None
        } else {
            let (values, secrets) = (Some(inputs.clone()), secrets.take_new());
            let hidden = SealedValues { values, secrets, wait_point: None };
            Some(hidden.seal(&context.vault, run, 1)?)
        };
        let secret = secret_inputs(&execution_plan, &inputs);
        let request_digest = request_digest(&start.request, &secret, &context.vault)?;
        let (asked, lease) = (Instant::now(), context.lease());
        let new = NewRun {
            name: execution_plan.root.pin.name.clone(),
            tenant: principal.clone(),
            choices: serde_json::json!(library.resolved).to_string(),
            documents: library.sources,
            unknown: library.unknown,
            key,
            request_digest,
            plan: plan.map(|plan| plan.id),
            first: first.clone(),
            sealed,
            lease: slot.is_some().then_some(lease),
            quota,
        };
        let queued = new.queued_event();
        let (created, commit) = context.store.create(new, &resolver.trust).await?;
        let slot = match created {
            CreateResult::New => slot,
            CreateResult::Queued => None,
            CreateResult::Full => return Err(too_many(&principal, quota).into()),
            // Another request with the same key was faster.
            CreateResult::Existing(run, digest) => {
                return Err(find_existing(context, run, digest, &start.request).await);
            }
            CreateResult::PlanGone => {
                // Returns the error of any later caller.
                let token = start.request.plan.as_deref().unwrap_or_default();
                runs.planner().redeem_plan(token, &start.caller).await?;
                return Err(Error::new(ErrorKind::PlanUsed, "this plan was used just now").into());
            }
        };
        let Some(slot) = slot else {
            return Ok(RecordedRun::Queued(Box::new([first, queued])));
        };
        let lease = RunLease::granted_after(asked, lease, LeaseEpoch::FIRST);
        let plan = execution_plan;
        let started = StartedRun { first, principal, plan, inputs, session, secrets, lease, slot };
        Ok(RecordedRun::Started { started: Box::new(started), commit })
    }

    /// The first event of the run, which reveals no secret.
    fn first_event(
        &self,
        context: &RunContext,
        shown: Map<String, Value>,
        secrets: &RunSecrets,
    ) -> RunEvent {
        let AcceptedRequest { id: run, start, principal, .. } = &self.accepted;
        let PreparedRun { library, plan, inputs, recalled, hosts, .. } = &self.prepared;
        let upstreams = hosts.iter().filter_map(|(host, to)| Some((host.clone(), to.clone()?)));
        let mut kind = EventKind::RunStarted(Box::new(RunStarted {
            principal: Some(principal.clone()),
            capability: plan.root.pin.clone(),
            dependencies: plan.dependencies.clone(),
            notices: library.notices.clone(),
            inputs: shown,
            secrets: secret_inputs(plan, inputs),
            recalled: recalled.clone(),
            trigger: start.event.clone().map(Box::new),
            decisions: self.decisions.clone(),
            session: self.session.clone().unwrap_or_else(|| run.to_string()),
            guardians: context.config.guardian.describe_guardians(),
            upstreams: upstreams.collect(),
            plan: self.plan.as_ref().and_then(|plan| plan.basis),
            intent: start.request.intent.clone(),
            trace: start.trace.clone().map(Box::new),
        }));
        secrets.mask_event(&mut kind);
        RunEvent { v: EVENT_VERSION, seq: 1, run: *run, at: context.clock.now(), kind }
    }
}

/// A run that is recorded.
enum RecordedRun {
    /// It waits for a slot, and has these events.
    Queued(Box<[RunEvent; 2]>),
    /// It has a slot and a lease. It may begin before its commit is complete; the caller may know of it only
    /// after that.
    Started { started: Box<StartedRun>, commit: PendingCommit },
}

/// A run that is recorded and has a slot.
struct StartedRun {
    first: RunEvent,
    principal: Principal,
    plan: ExecutionPlan,
    /// The inputs with their secret values.
    inputs: Map<String, Value>,
    session: Option<String>,
    secrets: Arc<RunSecrets>,
    lease: RunLease,
    slot: RunSlot,
}

impl RecordedRun {
    /// Drives the run, or lets it wait for a slot, and returns it as it is now.
    async fn begin(self, scheduler: &Arc<RunScheduler>) -> Result<Run, Error> {
        let no_beginning =
            || Error::new(ErrorKind::Internal, "the journal of the run has no first event");
        match self {
            Self::Queued(events) => {
                scheduler.note_queued();
                let run = fold_events(&*events).ok_or_else(no_beginning)?;
                tracing::info!(run = %run.id, capability = %run.name, "run queued");
                Ok(run)
            }
            Self::Started { started, commit } => {
                let (run, active) = started.begin(scheduler).ok_or_else(no_beginning)?;
                // Nothing of a start that is lost can be recorded.
                let lost = |_: &Error| active.cancel.cancel(CancelReason::LeaseLost);
                commit.wait().await.inspect_err(lost)?;
                Ok(run)
            }
        }
    }
}

impl StartedRun {
    /// Drives the run, and returns it as it begins.
    fn begin(self, scheduler: &Arc<RunScheduler>) -> Option<(Run, Arc<ActiveRun>)> {
        let Self { first, principal, plan, inputs, session, secrets, lease, slot } = self;
        let run = first.run;
        tracing::info!(%run, capability = %plan.root.pin.name, %principal, "run started");
        let events = [first];
        let state = RunState::from_events(&events)?;
        let header = RunHeader::from_events(&events)?;
        // The events have masked inputs.
        let header = RunHeader { inputs, session: session.unwrap_or(header.session), ..header };
        let answer = state.to_run();
        let progress = RunProgress::from_events(&events);
        let active = scheduler.activate(state, lease, secrets);
        let begun = (answer, Arc::clone(&active));
        scheduler.spawn(RunTask { run, principal, active, plan, header, progress, slot }, false);
        Some(begun)
    }
}

/// Returns the key for finding a run. It contains the tenant, so that a tenant cannot find runs of others
/// by guessing their keys. A header does not contain a line end, so the keys of the owner do not have this
/// form.
fn tenant_key(tenant: &Principal, key: String) -> String {
    if tenant.is_owner() { key } else { format!("{tenant}\n{key}") }
}

/// The limits on the number of runs of a principal. Limits that are configured for a token apply to each of
/// its principals.
fn quota_of(config: &Config, principal: &Principal) -> TenantQuota {
    let own = config.tenants.get(&principal.token).copied().unwrap_or_default();
    TenantQuota {
        max_begun: own.max_runs.or(config.limits.max_tenant_runs),
        max_queued: own.max_queued.unwrap_or(config.limits.max_tenant_queued),
    }
}

/// The names of the given inputs that are secret.
fn secret_inputs(plan: &ExecutionPlan, inputs: &Map<String, Value>) -> Vec<String> {
    let is_secret = |name: &&String| plan.root.inputs.get(*name).is_some_and(|input| input.secret);
    inputs.keys().filter(is_secret).cloned().collect()
}

/// The run that a key has started, if it was for the same request. Secret inputs of a run that an earlier
/// version started are not compared: it stored nothing that could show whether they are the same.
async fn find_existing(
    context: &RunContext,
    run: Uuid,
    used_for: Digest,
    request: &ExecutionRequest,
) -> NotStarted {
    let found = async {
        let first = context.store.read_events(run, 0, 1).await?;
        let secret = RunHeader::from_events(&first).map_or_else(Vec::new, |start| start.secrets);
        if used_for == request_digest(request, &secret, &context.vault)?
            || used_for == masked_request_digest(request, &secret)
        {
            return context.read_run(run).await;
        }
        let message = format!("this idempotency key started run {run} with another request");
        Err(Error::new(ErrorKind::KeyReused, message))
    };
    match found.await {
        Ok(run) => NotStarted::Existing(Box::new(run)),
        Err(error) => NotStarted::Failed(error),
    }
}

/// The error that rejects another run of a tenant.
fn too_many(tenant: &Principal, room: TenantQuota) -> Error {
    let message = match room.max_queued {
        0 => format!("`{tenant}` has no free slot for another run, and its runs must not wait"),
        most => format!(
            "too many runs wait for a free slot: the limit is {most} for `{tenant}`, and twice as many for all end users of `{}`",
            tenant.token
        ),
    };
    Error::new(ErrorKind::Busy, message)
}

/// The digest of a request, by which the same request is recognized. With `secret` inputs it depends on the
/// key of the vault, so that they cannot be guessed from it.
///
/// # Errors
/// [`ErrorKind::VaultKey`] without a key.
fn request_digest(
    request: &ExecutionRequest,
    secret: &[String],
    vault: &Vault,
) -> Result<Digest, Error> {
    let is_given = |name: &String| request.inputs.contains_key(name);
    match secret.iter().any(is_given) {
        true => vault.keyed_digest("start", masked_request_digest(request, &[])),
        false => Ok(masked_request_digest(request, &[])),
    }
}

/// The digest of a request with placeholders for the `secret` inputs. It leaves out how the caller waits for
/// the response and how the capability was found.
fn masked_request_digest(request: &ExecutionRequest, secret: &[String]) -> Digest {
    let ExecutionRequest { name, plan, version, digest, lock, inputs, session, .. } = request;
    let mut inputs = inputs.clone();
    for (_, value) in inputs.iter_mut().filter(|(name, _)| secret.contains(*name)) {
        *value = secret_placeholder();
    }
    let mut asked = match plan {
        // As it was before there were plans: a key outlives an upgrade.
        None => serde_json::json!([name, version, digest, lock, inputs, session]),
        Some(token) => serde_json::json!({ "plan": token }),
    };
    asked.sort_all_objects();
    Digest::of_bytes(asked.to_string().as_bytes())
}
