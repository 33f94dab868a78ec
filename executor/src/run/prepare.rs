//! The beginning of a run and a plan: documents, inputs and credentials, found and checked.

use std::collections::BTreeMap;

use a2s::Principal;
use a2s::api::{PlanRequest, StateScope};
use serde_json::{Map, Value};

use super::Runs;
use super::planned::{Basis, Content, Used};
use crate::error::Error;
use crate::plan::{Plan, PlanCredentials};
use crate::registry_client::{Library, Wanted};
use crate::secrets::Secrets;
use crate::session_state::{Holder, Recalled};

/// Everything that is known of a run before it begins.
pub(super) struct Prepared {
    /// The documents.
    pub(super) library: Library,
    /// The plan made from them.
    pub(super) plan: Plan,
    /// The inputs, with remembered values and defaults. Some may be missing.
    pub(super) inputs: Map<String, Value>,
    /// The inputs that are remembered, with the scope of each.
    pub(super) recalled: BTreeMap<String, StateScope>,
    /// The credentials that its steps want, and those that there are.
    pub(super) credentials: PlanCredentials,
    /// The hosts that requests go to, and where connections are sent instead.
    pub(super) hosts: BTreeMap<String, Option<String>>,
}

impl Prepared {
    /// Refuses what no run can begin with: inputs and credentials that are missing, whatever
    /// branches will be taken.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.plan.check_inputs(&self.inputs)?;
        self.credentials.check()
    }
}

impl Runs {
    /// Finds everything that a request asks for.
    ///
    /// # Errors
    /// When something is not there, or an input does not fit.
    pub(super) async fn prepare(
        &self,
        request: &PlanRequest,
        principal: &Principal,
    ) -> Result<Prepared, Error> {
        let (library, plan) = self.resolve(request.into()).await?;
        self.complete(request, principal, library, plan).await
    }

    /// Resolves the wanted documents. Each must match the checksum that the executor remembers, if any.
    pub(super) async fn resolve(&self, wanted: Wanted<'_>) -> Result<(Library, Plan), Error> {
        let limits = &self.config.limits;
        let mut library = self.registry.resolve(wanted, limits.max_documents).await?;
        library.unknown = self.trust.check(&library.pins()).await?;
        let plan = Plan::new(&library, limits.max_steps)?;
        Ok((library, plan))
    }

    /// Prepares the rest of a run, with these documents and the values remembered for a principal.
    pub(super) async fn complete(
        &self,
        request: &PlanRequest,
        principal: &Principal,
        library: Library,
        plan: Plan,
    ) -> Result<Prepared, Error> {
        let PlanRequest { inputs, session, .. } = request;
        let session =
            session.as_deref().map(|name| Holder::session(principal, name)).transpose()?;
        plan.check_given(inputs)?;
        let Recalled { values, scopes } = self.recall(&plan, session, principal, inputs).await?;
        let mut inputs = inputs.clone();
        inputs.extend(values);
        let inputs = plan.root.complete(&inputs);
        let hosts = plan.hosts().into_iter();
        let hosts = hosts.map(|(host, url)| (host, self.outbound.upstream_of(&url))).collect();
        let accesses = plan.accesses(principal);
        let credentials = match accesses.is_empty() {
            true => PlanCredentials::default(),
            false => {
                let held = self.outbound.held(accesses.iter().map(|(_, access)| access)).await?;
                PlanCredentials { accesses, held }
            }
        };
        Ok(Prepared { library, plan, inputs, recalled: scopes, credentials, hosts })
    }

    /// The remembered values of inputs that are needed and not given. Secret inputs are not remembered.
    async fn recall(
        &self,
        plan: &Plan,
        session: Option<Holder>,
        principal: &Principal,
        inputs: &Map<String, Value>,
    ) -> Result<Recalled, Error> {
        let mut needed = plan.missing(inputs);
        needed.retain(|name| plan.root.inputs.get(name).is_some_and(|input| !input.secret));
        let recalled = self.states.recall(session, principal, &needed).await?;
        plan.check_given(&recalled.values).map_err(|error| {
            error.hint(
                "The value is remembered, not given: see `a2s state list`, and give another with --input.",
            )
        })?;
        Ok(recalled)
    }

    /// The basis of a run, in the form that may be shown.
    ///
    /// # Errors
    /// When there are more secrets than can be kept.
    pub(super) fn basis(
        &self,
        request: &PlanRequest,
        prepared: &Prepared,
        policies: BTreeMap<String, String>,
    ) -> Result<Basis, Error> {
        let Prepared { library, plan, inputs, recalled, credentials, hosts } = prepared;
        let secrets = Secrets::default();
        let shown = plan.root.shown(inputs, &secrets)?;
        Ok(Basis {
            content: Content::of(library, plan),
            inputs: shown,
            recalled: recalled.clone(),
            session: request.session.as_deref().map(|session| secrets.mask_text(session)),
            hosts: hosts.clone(),
            credentials: Used::of(credentials.list()),
            guarding: self.config.guardian.describe_guardians(),
            policies,
        })
    }
}
