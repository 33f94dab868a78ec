//! Plans: previews of a run that can then be run once, exactly as shown.

use std::collections::BTreeMap;
use std::time::Duration;

use a2s::Digest;
use a2s_api::{Caller, Principal, token_share};
use a2s_api::{FaultAttribution, PlanRequest, PlanResponse};
use jiff::Timestamp;
use zeroize::Zeroizing;

use super::context::RunContext;
use super::ownership::may_touch;
use super::preview::preview_plan;
use super::resolver::{PreparedRun, RunResolver};
use super::shown_plan::{PlanContents, ShownPlan, differences};
use crate::config::Limits;
use crate::error::{Error, ErrorDetails, ErrorKind};
use crate::journal::store::NewPlan;

/// The time during which a plan can be run.
const PLAN_LIFETIME: Duration = Duration::from_secs(15 * 60);
/// The largest plan that can be run, in bytes: its request and its basis.
const MAX_PLAN: usize = 1 << 20;
/// The most differences that are reported.
const MAX_LISTED: usize = 20;
/// The hint about a plan that cannot be run.
const PLAN_AGAIN_HINT: &str =
    "Plan again with `a2s run NAME --dry-run`, check the new plan, and run it.";

/// The token with which a plan can be run.
struct PlanToken {
    token: String,
    expires_at: Timestamp,
    digest: Digest,
}

/// A plan that a caller wants to run.
pub(super) struct RedeemedPlan {
    /// Its id.
    pub(super) id: Digest,
    /// The plan as it was shown.
    pub(super) shown: ShownPlan,
}

/// The plans of an executor: shown, stored, and redeemed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Planner<'r> {
    pub(super) context: &'r RunContext,
    pub(super) resolver: &'r RunResolver,
}

impl Planner<'_> {
    /// Shows the effect of a run, with a token that runs exactly this plan.
    pub(super) async fn plan(
        &self,
        request: &PlanRequest,
        principal: &Principal,
    ) -> Result<PlanResponse, Error> {
        let Self { context, resolver } = self;
        let (prepared, policies) = tokio::join!(
            resolver.prepare_request(request, principal),
            context.gate.fetch_policy_ids()
        );
        let prepared = prepared?;
        let guarding = context.config.guardian.describe_guardians();
        let PreparedRun { plan, inputs, recalled, credentials, .. } = &prepared;
        let upstream_of = |url: &_| context.outbound.upstream_of(url);
        let mut answer =
            plan.to_response(inputs, recalled.clone(), guarding, credentials, upstream_of)?;
        resolver.trust.remember(&prepared.library.unknown).await?;
        answer.policies.clone_from(&policies);
        answer.notices.clone_from(&prepared.library.notices);
        if request.preview {
            preview_plan(context, request, principal, &prepared, &mut answer.steps).await?;
        }
        match self.store_plan(request, principal, &prepared, policies).await {
            Ok(PlanToken { token, expires_at, digest }) => {
                answer.token = Some(token);
                answer.expires_at = Some(expires_at);
                answer.digest = Some(digest);
            }
            Err(error) if error.kind == ErrorKind::Store => return Err(error),
            Err(error) => answer.no_token_reason = Some(error.message),
        }
        Ok(answer)
    }

    /// Stores a plan, so that it can be run.
    ///
    /// # Errors
    /// Fails when the plan cannot be run or stored.
    async fn store_plan(
        &self,
        request: &PlanRequest,
        principal: &Principal,
        prepared: &PreparedRun,
        policies: BTreeMap<String, String>,
    ) -> Result<PlanToken, Error> {
        prepared.check()?;
        let basis = self.resolver.plan_basis(request, prepared, policies)?;
        let digest = basis.digest();
        let digest =
            digest.map_err(|error| Error::new(ErrorKind::InvalidInput, error.to_string()))?;
        let shown = ShownPlan { request: request.clone(), basis };
        let plain = serde_json::to_vec(&shown).map(Zeroizing::new);
        let plain = plain.map_err(|_| Error::new(ErrorKind::Internal, "the plan is not JSON"))?;
        if plain.len() > MAX_PLAN {
            let message = format!("the plan has more than {MAX_PLAN} bytes");
            return Err(Error::new(ErrorKind::BudgetExceeded, message));
        }
        let token: String =
            self.context.ids.random_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        let id = plan_id(&token);
        let sealed = self.context.vault.seal_plan(id, &plain)?;
        let now = self.context.clock.now();
        // To the millisecond, as it will be read again.
        let end = now.checked_add(PLAN_LIFETIME).unwrap_or(now).as_millisecond();
        let expires_at = Timestamp::from_millisecond(end).unwrap_or(now);
        let Limits { max_plans: most, max_tenant_plans: most_own, .. } = self.context.config.limits;
        let (tenant, most_of_token) = (principal.clone(), token_share(most, most_own));
        let plan = NewPlan { id, tenant, now, expires_at, sealed, most, most_own, most_of_token };
        if !self.context.store.store_plan(plan).await? {
            let message = format!(
                "too many unused plans: the limit is {most} plans in total, {most_own} plans for one caller, and {most_of_token} for all callers with one token"
            );
            return Err(Error::new(ErrorKind::BudgetExceeded, message));
        }
        Ok(PlanToken { token, expires_at, digest })
    }

    /// Returns the plan of a token, when it can still be run. This does not use up the plan.
    ///
    /// # Errors
    /// Returns [`ErrorKind::PlanNotFound`], [`ErrorKind::PlanUsed`] or [`ErrorKind::PlanExpired`] when it
    /// cannot be run, and [`ErrorKind::VaultKey`] when it cannot be opened.
    pub(super) async fn redeem_plan(
        &self,
        token: &str,
        caller: &Caller,
    ) -> Result<RedeemedPlan, Error> {
        let id = plan_id(token);
        let stored = self.context.store.read_plan(id).await?;
        let Some(stored) = stored.filter(|plan| may_touch(caller, &plan.tenant)) else {
            let message = "unknown plan: the token was never issued, or the plan expired long ago";
            return Err(Error::new(ErrorKind::PlanNotFound, message).with_hint(PLAN_AGAIN_HINT));
        };
        if let Some(run) = stored.used_by {
            let message = format!("this plan was already used: it started run {run}");
            let hint = format!(
                "See that run with `a2s runs {run}`; to run the capability again, plan again."
            );
            return Err(Error::new(ErrorKind::PlanUsed, message).with_hint(hint));
        }
        let sealed = stored.sealed.filter(|_| stored.expires_at > self.context.clock.now());
        let Some(sealed) = sealed else {
            let message = format!("this plan expired at {:.0}", stored.expires_at);
            return Err(Error::new(ErrorKind::PlanExpired, message).with_hint(PLAN_AGAIN_HINT));
        };
        let plain = self.context.vault.open_plan(id, &sealed)?;
        let shown = serde_json::from_slice(&plain).map_err(|_| {
            Error::new(ErrorKind::PlanNotFound, "the plan cannot be read")
                .with_hint(PLAN_AGAIN_HINT)
        })?;
        Ok(RedeemedPlan { id, shown })
    }

    /// Resolves the request of the plan again, and rejects it when anything differs from the plan as shown.
    ///
    /// # Errors
    /// Returns [`ErrorKind::PlanDiffers`] with all differences.
    pub(super) async fn prepare_as_shown(
        &self,
        shown: &ShownPlan,
        principal: &Principal,
    ) -> Result<PreparedRun, Error> {
        let ShownPlan { request, basis: was } = shown;
        let Self { context, resolver } = self;
        let (resolved, policies) =
            tokio::join!(resolver.resolve(request.into()), context.gate.fetch_policy_ids());
        let resolved = resolved.map_err(|error| no_longer(Vec::new(), error))?;
        let content = PlanContents::from_documents(&resolved.library, &resolved.plan);
        let completed = resolver.prepare(request, principal, resolved).await;
        let prepared =
            completed.map_err(|error| no_longer(was.content.differences(&content), error))?;
        let is = resolver.plan_basis(request, &prepared, policies)?;
        let found = differences(was, &is);
        if found.is_empty() { Ok(prepared) } else { Err(differ(&found)) }
    }
}

/// Turns an error into a difference: the missing part existed when the plan was made. An error of the
/// executor or the registry is returned unchanged, because it is not about the plan.
fn no_longer(mut found: Vec<String>, error: Error) -> Error {
    if error.kind.blame() == FaultAttribution::Executor {
        return error;
    }
    found.push(error.message);
    differ(&found)
}

fn differ(found: &[String]) -> Error {
    let mut listed: Vec<String> = found.iter().take(MAX_LISTED).cloned().collect();
    if let Some(more @ 1..) = found.len().checked_sub(MAX_LISTED) {
        listed.push(format!("and {more} more"));
    }
    let differences = listed.clone();
    let listed = listed.join("; ");
    let message = format!("the run would differ from the plan: {listed}");
    Error::new(ErrorKind::PlanDiffers, message)
        .with_hint(PLAN_AGAIN_HINT)
        .with_details(ErrorDetails::PlanDifferences(differences))
}

/// The id under which a plan is stored: a reader of the database cannot derive the token from it.
fn plan_id(token: &str) -> Digest {
    Digest::of_bytes(format!("a2s plan 1\n{token}").as_bytes())
}
