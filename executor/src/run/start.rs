//! Starting a run: once for each idempotency key, and once for each plan.

use std::sync::Arc;

use a2s::Digest;
use a2s_api::{
    Caller, EventKind, ExecutionRequest, MAX_INTENT_LENGTH, PlanRequest, Principal, Run, RunEvent,
    RunStarted, TraceContext, TriggerEvent, is_intent,
};
use tokio::time::Instant;
use uuid::Uuid;

use super::RunService;
use super::plan::RedeemedPlan;
use super::pre_run_guard::PreRunGuard;
use super::prepare::ResolvedRun;
use super::run_task::RunTask;
use crate::clock::new_run_id;
use crate::error::{Error, ErrorKind};
use crate::journal::EVENT_VERSION;
use crate::journal::lease::RunLease;
use crate::journal::run_state::{RunHeader, RunProgress, RunState, fold_events};
use crate::journal::sealed_values::SealedValues;
use crate::journal::store::{CreateResult, LeaseEpoch, NewRun, TenantQuota};
use crate::secrets::{RunSecrets, secret_placeholder};

/// Returns the key for finding a run. It contains the tenant, so that a tenant cannot find runs of others
/// by guessing their keys. A header does not contain a line end, so the keys of the owner do not have this
/// form.
fn tenant_key(tenant: &Principal, key: String) -> String {
    if tenant.is_owner() { key } else { format!("{tenant}\n{key}") }
}

impl RunService {
    /// Starts a run of a caller who is in `trace`, or finds the run that `key` has started. The guardian
    /// sees an `event` that has started it first.
    pub(crate) async fn start(
        self: &Arc<Self>,
        request: ExecutionRequest,
        event: Option<TriggerEvent>,
        key: Option<String>,
        trace: Option<TraceContext>,
        caller: Caller,
    ) -> Result<Run, Error> {
        self.check_open()?;
        let principal = caller.principal();
        let key = key.map(|key| tenant_key(&principal, key));
        // A plan is looked at before the key: one that is used by then was used together with the
        // key of its run, which is found here.
        let wanted = self.parse_request(&request, &caller).await?;
        if let Some(key) = &key
            && let Some((run, digest)) = self.store.find_by_key(key).await?
        {
            return self.find_existing(run, digest, &request).await;
        }
        let room = self.quota_of(&principal);
        let place = self.slots.try_acquire(room.max_queued > 0).await;
        // Looked at again when it is recorded; here, before anybody is asked in vain.
        if place.is_none()
            && self.store.read_load(&principal).await?.queued >= i64::from(room.max_queued)
        {
            return Err(too_many(&principal, room));
        }
        let mut guarded =
            PreRunGuard::new(self, &principal, new_run_id(&self.clock, &self.ids), trace.as_ref());
        let (prepared, session, redeemed) = match wanted {
            RunRequest::Capability(mut asked) => {
                let (library, plan) = self.resolve_documents((&asked).into()).await?;
                if let Some(event) = &event {
                    guarded.judge_event(event, &plan, &mut asked).await?;
                }
                (self.resolve_inputs(&asked, &principal, library, plan).await?, asked.session, None)
            }
            RunRequest::Plan(redeemed) => {
                let redeemed = (*redeemed)?;
                let prepared = self.prepare_as_shown(&redeemed.shown, &principal).await?;
                (prepared, redeemed.shown.request.session.clone(), Some(redeemed))
            }
        };
        prepared.check()?;
        let prepared = guarded.judge_recalled_inputs(prepared, session.as_deref()).await?;
        let PreRunGuard { run, decisions, .. } = guarded;
        let ResolvedRun { library, plan, inputs, recalled, hosts, .. } = prepared;
        let secrets = Arc::new(RunSecrets::new(self.ids.random_bytes()));
        let shown = plan.root.masked_inputs(&inputs, &secrets)?;
        let is_public = shown == inputs;
        let is_secret = |name: &&String| plan.root.inputs.get(*name).is_some_and(|i| i.secret);
        let secret: Vec<String> = inputs.keys().filter(is_secret).cloned().collect();
        let digest = |redeemed: &RedeemedPlan| redeemed.shown.basis.digest().ok();

        let mut started = EventKind::RunStarted(Box::new(RunStarted {
            principal: Some(principal.clone()),
            capability: plan.root.pin.clone(),
            dependencies: plan.dependencies.clone(),
            notices: library.notices.clone(),
            inputs: shown,
            secrets: secret.clone(),
            recalled,
            trigger: event.map(Box::new),
            decisions,
            session: session.clone().unwrap_or_else(|| run.to_string()),
            guardians: self.config.guardian.describe_guardians(),
            upstreams: hosts.into_iter().filter_map(|(host, to)| Some((host, to?))).collect(),
            plan: redeemed.as_ref().and_then(digest),
            intent: request.intent.clone(),
            trace: trace.map(Box::new),
        }));
        secrets.mask_event(&mut started);
        let sealed = if is_public {
            None
        } else {
            let hidden = SealedValues {
                values: Some(inputs.clone()),
                secrets: secrets.take_new(),
                wait_point: None,
            };
            Some(hidden.seal(&self.vault, run, 1)?)
        };
        let first = RunEvent { v: EVENT_VERSION, seq: 1, run, at: self.clock.now(), kind: started };
        let (asked, lease) = (Instant::now(), self.lease());
        let new = NewRun {
            name: plan.root.pin.name.clone(),
            tenant: principal.clone(),
            choices: serde_json::json!(library.resolved).to_string(),
            documents: library.sources,
            unknown: library.unknown,
            key,
            request_digest: request_digest(&request, &secret),
            plan: redeemed.as_ref().map(|redeemed| redeemed.id),
            first: first.clone(),
            sealed,
            lease: place.is_some().then_some(lease),
            quota: room,
        };
        let queued = new.queued_event();
        let place = match self.store.create(new, &self.trust).await? {
            CreateResult::New => place,
            CreateResult::Queued => {
                drop(place);
                None
            }
            CreateResult::Full => return Err(too_many(&principal, room)),
            // Another request with the same key was faster.
            CreateResult::Existing(run, digest) => {
                return self.find_existing(run, digest, &request).await;
            }
            CreateResult::PlanGone => {
                // Returns the error of any later caller.
                self.redeem_plan(request.plan.as_deref().unwrap_or_default(), &caller).await?;
                return Err(Error::new(ErrorKind::PlanUsed, "this plan was used just now"));
            }
        };
        let no_beginning =
            || Error::new(ErrorKind::Internal, "the journal of the run has no first event");
        let Some(place) = place else {
            tracing::info!(%run, capability = %plan.root.pin.name, %principal, "run queued");
            self.metrics.run_queued();
            self.slots.notify();
            return fold_events(&[first, queued]).ok_or_else(no_beginning);
        };
        tracing::info!(%run, capability = %plan.root.pin.name, %principal, "run started");
        let events = [first];
        let state = RunState::from_events(&events).ok_or_else(no_beginning)?;
        let start = RunHeader::from_events(&events).ok_or_else(no_beginning)?;
        // The events have masked inputs.
        let start = RunHeader { inputs, session: session.unwrap_or(start.session), ..start };
        let answer = state.to_run();
        let live = self.activate_run(
            state,
            RunLease::granted_after(asked, lease, LeaseEpoch::FIRST),
            secrets,
        );
        let progress = RunProgress::from_events(&events);
        let drive = RunTask { run, principal, live, plan, header: start, progress, slot: place };
        self.spawn(drive, false);
        Ok(answer)
    }

    /// The capability or plan that a request names.
    async fn parse_request(
        &self,
        request: &ExecutionRequest,
        caller: &Caller,
    ) -> Result<RunRequest, Error> {
        let ExecutionRequest { name, plan, version, digest, lock, inputs, session, intent, wait } =
            request;
        if intent.as_ref().is_some_and(|intent| !is_intent(intent)) {
            let message = format!("`intent` must have 1 to {MAX_INTENT_LENGTH} characters");
            return Err(Error::new(ErrorKind::BadRequest, message));
        }
        match (name, plan) {
            (Some(name), None) => Ok(RunRequest::Capability(PlanRequest {
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
                    return Ok(RunRequest::Plan(Box::new(self.redeem_plan(token, caller).await)));
                }
                let message = "a plan already contains name, version, inputs and session";
                let hint = "Send only `intent` and `wait` together with `plan`, or plan again with other inputs.";
                Err(Error::new(ErrorKind::BadRequest, message).with_hint(hint))
            }
        }
    }

    /// The run that a key has started, if it was for the same request. Secret inputs are not compared:
    /// nothing is stored that could show whether they are the same.
    async fn find_existing(
        &self,
        run: Uuid,
        used_for: Digest,
        request: &ExecutionRequest,
    ) -> Result<Run, Error> {
        let first = self.store.read_events(run, 0, 1).await?;
        let secret = RunHeader::from_events(&first).map_or_else(Vec::new, |start| start.secrets);
        if used_for == request_digest(request, &secret) {
            return self.get(run).await;
        }
        let message = format!("this idempotency key started run {run} with another request");
        Err(Error::new(ErrorKind::KeyReused, message))
    }
}

/// The error that rejects another run of a tenant.
fn too_many(tenant: &Principal, room: TenantQuota) -> Error {
    let message = match room.max_queued {
        0 => format!("`{tenant}` has no free slot for another run, and its runs must not wait"),
        1 => format!("1 run of `{tenant}` already waits for a free slot, which is the limit"),
        most => {
            format!("{most} runs of `{tenant}` already wait for a free slot, which is the limit")
        }
    };
    Error::new(ErrorKind::Busy, message)
}

/// The capability that a caller wants to run.
enum RunRequest {
    /// A capability.
    Capability(PlanRequest),
    /// A plan, if it can be run.
    Plan(Box<Result<RedeemedPlan, Error>>),
}

/// The digest of a request. It leaves out how the caller waits for the response and how the capability was
/// found, and the `secret` inputs, which could be guessed from it.
fn request_digest(request: &ExecutionRequest, secret: &[String]) -> Digest {
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
