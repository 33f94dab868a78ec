//! The beginning of a run and a plan: documents, inputs and credentials, found and checked.

use std::collections::BTreeMap;

use a2s_api::Principal;
use a2s_api::{PlanRequest, StateScope};
use serde_json::{Map, Value};

use super::RunService;
use super::shown_plan::{PlanBasis, PlanContents, UsedCredential};
use crate::error::Error;
use crate::plan::{ExecutionPlan, PlanCredentials};
use crate::registry_client::{ResolveRequest, RunDocuments};
use crate::secrets::RunSecrets;
use crate::session_state::{RecalledInputs, StateOwner};

/// The known data of a run before it begins.
pub(super) struct ResolvedRun {
    /// The documents.
    pub(super) library: RunDocuments,
    /// The plan made from them.
    pub(super) plan: ExecutionPlan,
    /// The inputs, with remembered values and defaults. Some may be missing.
    pub(super) inputs: Map<String, Value>,
    /// The inputs that are remembered, with the scope of each.
    pub(super) recalled: BTreeMap<String, StateScope>,
    /// The credentials that its steps require, and the available ones.
    pub(super) credentials: PlanCredentials,
    /// The hosts of requests, with the replacement address of connections.
    pub(super) hosts: BTreeMap<String, Option<String>>,
}

impl ResolvedRun {
    /// Refuses a run that cannot begin: inputs or credentials are missing, whatever branches it will take.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.plan.check_inputs(&self.inputs)?;
        self.credentials.check()
    }
}

impl RunService {
    /// Resolves everything that a request asks for.
    ///
    /// # Errors
    /// Fails when something is missing, or when an input does not fit.
    pub(super) async fn resolve_request(
        &self,
        request: &PlanRequest,
        principal: &Principal,
    ) -> Result<ResolvedRun, Error> {
        let (library, plan) = self.resolve_documents(request.into()).await?;
        self.resolve_inputs(request, principal, library, plan).await
    }

    /// Resolves the wanted documents. Each must match the checksum that the executor remembers, if any.
    pub(super) async fn resolve_documents(
        &self,
        wanted: ResolveRequest<'_>,
    ) -> Result<(RunDocuments, ExecutionPlan), Error> {
        let limits = &self.config.limits;
        let mut library = self.registry.resolve(wanted, limits.max_documents).await?;
        library.unknown = self.trust.check(&library.pins()).await?;
        let plan = ExecutionPlan::new(&library, limits.max_steps)?;
        Ok((library, plan))
    }

    /// Prepares the rest of a run, with these documents and the values remembered for a principal.
    pub(super) async fn resolve_inputs(
        &self,
        request: &PlanRequest,
        principal: &Principal,
        library: RunDocuments,
        plan: ExecutionPlan,
    ) -> Result<ResolvedRun, Error> {
        let PlanRequest { inputs, session, .. } = request;
        let session =
            session.as_deref().map(|name| StateOwner::from_session(principal, name)).transpose()?;
        plan.check_given(inputs)?;
        let RecalledInputs { values, scopes } =
            self.recall_inputs(&plan, session, principal, inputs).await?;
        let mut inputs = inputs.clone();
        inputs.extend(values);
        let inputs = plan.root.with_defaults(&inputs);
        let hosts = plan.hosts().into_iter();
        let hosts = hosts.map(|(host, url)| (host, self.outbound.upstream_of(&url))).collect();
        let accesses = plan.accesses(principal);
        let credentials = match accesses.is_empty() {
            true => PlanCredentials::default(),
            false => {
                let held = self
                    .outbound
                    .available_credentials(accesses.iter().map(|(_, access)| access))
                    .await?;
                PlanCredentials { accesses, available: held }
            }
        };
        Ok(ResolvedRun { library, plan, inputs, recalled: scopes, credentials, hosts })
    }

    /// The remembered values of inputs that are needed and not given. Secret inputs are not remembered.
    async fn recall_inputs(
        &self,
        plan: &ExecutionPlan,
        session: Option<StateOwner>,
        principal: &Principal,
        inputs: &Map<String, Value>,
    ) -> Result<RecalledInputs, Error> {
        let mut needed = plan.missing_inputs(inputs);
        needed.retain(|name| plan.root.inputs.get(name).is_some_and(|input| !input.secret));
        let recalled = self.state_table.recall_inputs(session, principal, &needed).await?;
        plan.check_given(&recalled.values).map_err(|error| {
            error.with_hint(
                "The value is a remembered value, not an input of this run: see `a2s state list`, and give another value with --input.",
            )
        })?;
        Ok(recalled)
    }

    /// The basis of a run, in the form that may be shown.
    ///
    /// # Errors
    /// When there are more secrets than can be kept.
    pub(super) fn plan_basis(
        &self,
        request: &PlanRequest,
        prepared: &ResolvedRun,
        policies: BTreeMap<String, String>,
    ) -> Result<PlanBasis, Error> {
        let ResolvedRun { library, plan, inputs, recalled, credentials, hosts } = prepared;
        let secrets = RunSecrets::default();
        let shown = plan.root.masked_inputs(inputs, &secrets)?;
        Ok(PlanBasis {
            content: PlanContents::from_documents(library, plan),
            inputs: shown,
            recalled: recalled.clone(),
            session: request.session.as_deref().map(|session| secrets.mask_text(session)),
            hosts: hosts.clone(),
            credentials: UsedCredential::from_planned(credentials.list()),
            guarding: self.config.guardian.describe_guardians(),
            policies,
        })
    }
}
