//! The beginning of a run and a plan: documents, inputs and credentials, found and checked.

use std::collections::BTreeMap;
use std::sync::Arc;

use a2s::Digest;
use a2s_api::Principal;
use a2s_api::{PlanRequest, StateScope};
use serde_json::{Map, Value};

use super::context::RunContext;
use super::shown_plan::{PlanBasis, PlanContents, UsedCredential};
use crate::error::{Error, ErrorKind};
use crate::journal::run_state::RunHeader;
use crate::plan::{ExecutionPlan, PlanCredentials};
use crate::registry_client::{RegistryClient, ResolveRequest, ResolvedDependencies, RunDocuments};
use crate::secrets::RunSecrets;
use crate::session_state::{RecalledInputs, StateOwner, StateTable};
use crate::trust::TrustedVersions;

/// The source of the documents, remembered values and credentials of runs.
#[derive(Debug)]
pub(super) struct RunResolver {
    pub(super) context: Arc<RunContext>,
    pub(super) registry: Arc<RegistryClient>,
    /// The remembered checksums of versions.
    pub(super) trust: TrustedVersions,
    /// The values that are remembered between runs.
    pub(super) states: StateTable,
}

/// A run whose documents are found and verified.
pub(super) struct ResolvedRun {
    /// The documents.
    pub(super) library: RunDocuments,
    /// The plan made from them.
    pub(super) plan: ExecutionPlan,
}

/// A run whose inputs and credentials are known as well.
pub(super) struct PreparedRun {
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

impl PreparedRun {
    /// Refuses a run that cannot begin: inputs or credentials are missing, whatever branches it will take.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.plan.check_inputs(&self.inputs)?;
        self.credentials.check()
    }
}

impl RunResolver {
    /// Resolves and prepares everything that a request asks for.
    ///
    /// # Errors
    /// Fails when something is missing, or when an input does not fit.
    pub(super) async fn prepare_request(
        &self,
        request: &PlanRequest,
        principal: &Principal,
    ) -> Result<PreparedRun, Error> {
        let resolved = self.resolve(request.into()).await?;
        self.prepare(request, principal, resolved).await
    }

    /// Resolves the wanted documents. Each must match the checksum that the executor remembers, if any.
    ///
    /// # Errors
    /// Fails when a document is missing, does not match its checksum, or cannot be planned.
    pub(super) async fn resolve(&self, wanted: ResolveRequest<'_>) -> Result<ResolvedRun, Error> {
        let limits = &self.context.config.limits;
        let mut library = self.registry.resolve(wanted, limits.max_documents).await?;
        library.unknown = self.trust.check(&library.pins()).await?;
        let plan = ExecutionPlan::new(&library, limits.max_steps)?;
        Ok(ResolvedRun { library, plan })
    }

    /// Prepares the rest of a run, with these documents and the values remembered for a principal.
    ///
    /// # Errors
    /// Fails when an input or a remembered value does not fit.
    pub(super) async fn prepare(
        &self,
        request: &PlanRequest,
        principal: &Principal,
        resolved: ResolvedRun,
    ) -> Result<PreparedRun, Error> {
        let ResolvedRun { library, plan } = resolved;
        let PlanRequest { inputs, session, .. } = request;
        let session =
            session.as_deref().map(|name| StateOwner::from_session(principal, name)).transpose()?;
        plan.check_given(inputs)?;
        let RecalledInputs { values, scopes } =
            self.recall_inputs(&plan, session, principal, inputs).await?;
        let mut inputs = inputs.clone();
        inputs.extend(values);
        let inputs = plan.root.with_defaults(&inputs);
        let outbound = &self.context.outbound;
        let hosts = plan.hosts().into_iter();
        let hosts = hosts.map(|(host, url)| (host, outbound.upstream_of(&url))).collect();
        let accesses = plan.accesses(principal);
        let credentials = match accesses.is_empty() {
            true => PlanCredentials::default(),
            false => {
                let needed = accesses.iter().map(|(_, access)| access);
                let available = outbound.available_credentials(needed).await?;
                PlanCredentials { accesses, available }
            }
        };
        Ok(PreparedRun { library, plan, inputs, recalled: scopes, credentials, hosts })
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
        let mut recalled = self.states.recall_inputs(session, principal, &needed).await?;
        for (name, value) in &mut recalled.values {
            let input = plan.root.inputs.get(name);
            if let Some(text) = input.and_then(|input| input.text_of(value)) {
                *value = text;
            }
        }
        plan.check_given(&recalled.values).map_err(|error| {
            error.with_hint(
                "The value is a remembered value, not an input of this run: see `a2s state list`, and give another value with --input. To store text, quote it: `a2s state set 'NAME=\"1.10\"'`.",
            )
        })?;
        Ok(recalled)
    }

    /// Loads the plan that a run was started with, from the documents that were stored with it.
    ///
    /// # Errors
    /// Fails when a document is missing or has another checksum.
    pub(super) async fn load_plan(
        &self,
        header: &RunHeader,
        choices: &str,
    ) -> Result<ExecutionPlan, Error> {
        let resolved: ResolvedDependencies = serde_json::from_str(choices)
            .map_err(|error| Error::new(ErrorKind::Store, format!("stored choices: {error}")))?;
        let pins = || header.dependencies.iter().chain([&header.capability]);
        let mut documents = BTreeMap::new();
        let mut unread = Vec::new();
        for pin in pins() {
            match self.registry.verified(pin) {
                Some(known) => drop(documents.insert(pin.checksum, known)),
                None => unread.push(pin.checksum),
            }
        }
        let mut sources = self.context.store.read_documents(&unread).await?;
        for pin in pins().filter(|pin| unread.contains(&pin.checksum)) {
            let Some(source) = sources.remove(&pin.checksum) else { continue };
            let document = self.registry.open_stored(source, pin).await?;
            documents.insert(pin.checksum, document);
        }
        if let Some(pin) = pins().find(|pin| !documents.contains_key(&pin.checksum)) {
            let message = format!("the document {} is not stored", pin.checksum);
            return Err(Error::new(ErrorKind::Store, message));
        }
        let root = header.capability.checksum;
        let library = RunDocuments { documents, resolved, ..RunDocuments::new(root) };
        ExecutionPlan::new(&library, self.context.config.limits.max_steps)
    }

    /// The basis of a run, in the form that may be shown.
    ///
    /// # Errors
    /// When there are more secrets than can be kept, or no key for the digest of what is not shown.
    pub(super) fn plan_basis(
        &self,
        request: &PlanRequest,
        prepared: &PreparedRun,
        policies: BTreeMap<String, String>,
    ) -> Result<PlanBasis, Error> {
        let PreparedRun { library, plan, inputs, recalled, credentials, hosts } = prepared;
        let secrets = RunSecrets::default();
        let shown = plan.root.masked_inputs(inputs, &secrets)?;
        let session = request.session.as_deref().map(|session| secrets.mask_text(session));
        let is_public = shown == *inputs && session == request.session;
        let sealed = (!is_public).then(|| {
            let mut actual = serde_json::json!([inputs, request.session]);
            actual.sort_all_objects();
            let digest = Digest::of_bytes(actual.to_string().as_bytes());
            self.context.vault.keyed_digest("plan", digest)
        });
        Ok(PlanBasis {
            content: PlanContents::from_documents(library, plan),
            inputs: shown,
            sealed: sealed.transpose()?,
            recalled: recalled.clone(),
            session,
            hosts: hosts.clone(),
            credentials: UsedCredential::from_planned(credentials.list()),
            guarding: self.context.config.guardian.describe_guardians(),
            policies,
        })
    }
}
