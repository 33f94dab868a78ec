//! Execution of one candidate: verifies it, resolves its inputs, and runs it.

use std::collections::BTreeSet;
use std::sync::Arc;

use a2s::{CapabilityInterface, Document, HIDDEN, InputField, Permission};
use a2s_api::{
    AgentEvent, AgentQuestion, AgentStatus, CapabilityRef, ExecutionRequest, PendingQuestion,
    PlanRequest, PlanResponse, RunStatus, SkippedCandidate,
};
use serde_json::{Map, Value};

use super::AgentTurn;
use super::candidate_search::{CandidateCapability, SubTask};
use super::consent::{self, UnconfirmedAction};
use super::intent::UserIntent;
use super::supply::InputSupply;
use super::waiting::{describe_run, skipped_run};
use crate::agent::Backend;
use crate::client::Error as ClientError;
use crate::error::Error;

/// A capability that is ready to run.
#[derive(Debug)]
pub(super) struct PreparedRun {
    candidate: CandidateCapability,
    inputs: Map<String, Value>,
    /// The names of the secret inputs.
    secrets: Vec<String>,
    pub(super) effects: EffectScope,
    /// The action for confirmation; none when every task of the plan is read-only.
    pub(super) action: Option<UnconfirmedAction>,
}

/// The possible effects of a capability.
#[derive(Debug, Clone)]
pub(super) struct EffectScope {
    /// Set when it may change something.
    pub(super) changes: bool,
    /// The hosts that the capability talks to.
    pub(super) hosts: BTreeSet<String>,
    /// The permissions that a caller must have.
    permissions: BTreeSet<Permission>,
}

impl EffectScope {
    fn from_plan(plan: &PlanResponse, changes: bool) -> Self {
        Self {
            changes,
            hosts: plan.hosts.keys().cloned().collect(),
            permissions: plan.permissions.iter().cloned().collect(),
        }
    }

    /// Returns true when this may change something that `other` could not.
    pub(super) fn exceeds(&self, other: &Self) -> bool {
        let further = !self.hosts.is_subset(&other.hosts)
            || !self.permissions.is_subset(&other.permissions)
            || !other.changes;
        self.changes && further
    }
}

impl PreparedRun {
    pub(super) fn pin(&self) -> &CapabilityRef {
        &self.candidate.pin
    }

    /// The question for a consent, with the same query and this capability first.
    pub(super) fn question(&self, intent: &UserIntent) -> AgentQuestion {
        let pin = self.candidate.pin.clone();
        let mut pending =
            pending_question(pin, self.inputs.clone(), &self.secrets, Vec::new(), intent);
        pending.consent = Some(consent::digest(&self.action));
        let actions = self.action.iter().map(|it| it.action.clone()).collect();
        AgentQuestion { actions, ..AgentQuestion::new(pending) }
    }
}

/// The result of a preparation.
pub(super) enum PrepareResult {
    Ready(Box<PreparedRun>),
    NeedsInput(Box<AgentQuestion>),
    /// All candidates were tried.
    NoCandidate,
}

/// The result of an attempt.
pub(super) enum AttemptResult {
    Done,
    /// The candidate was skipped; the next one may be tried.
    Skipped,
    /// No other candidate may be tried: the run has changed something, or may have.
    Ended(AgentStatus),
}

impl AgentTurn<'_> {
    /// Prepares the best candidate that was not tried yet.
    ///
    /// # Errors
    /// A service that is needed does not respond.
    pub(super) async fn prepare_next(
        &mut self,
        task: &mut SubTask,
        intent: &UserIntent,
    ) -> Result<PrepareResult, Error> {
        for choice in task.candidates.by_ref() {
            let prepared = self.prepare(choice.clone(), intent, &Map::new()).await?;
            let is_prepared = !matches!(prepared, PrepareResult::NoCandidate);
            if is_prepared && choice.is_weak(&self.accepted) {
                self.offered.push(choice.clone());
            }
            match prepared {
                PrepareResult::NoCandidate => {}
                PrepareResult::NeedsInput(question) if self.offered.is_empty() => {
                    let supply = InputSupply { choice: &choice, missing: &question.fields, intent };
                    let supplied = supply.find_values(self).await?;
                    if supplied.is_empty() {
                        return Ok(PrepareResult::NeedsInput(question));
                    }
                    return self.prepare(choice, intent, &supplied).await;
                }
                prepared => return Ok(prepared),
            }
        }
        Ok(PrepareResult::NoCandidate)
    }

    /// Prepares a candidate. `supplied` has values for inputs that the user did not give.
    ///
    /// # Errors
    /// A service that is needed does not respond.
    pub(super) async fn prepare(
        &mut self,
        choice: CandidateCapability,
        intent: &UserIntent,
        supplied: &Map<String, Value>,
    ) -> Result<PrepareResult, Error> {
        let Some(source) = self.agent.backends.get(choice.source) else {
            return Ok(PrepareResult::NoCandidate);
        };
        let document = match self.load_document(source, &choice).await {
            Ok(document) => document,
            Err(error) => {
                return self
                    .skip_candidate(&choice.pin, error)
                    .map(|()| PrepareResult::NoCandidate);
            }
        };
        let CapabilityInterface { inputs, read_only, .. } = document.interface();
        let fields = with_dependency_inputs(inputs, &choice.parameters);
        let mut inputs = self.read_inputs(intent, &fields).await;
        for (name, value) in supplied {
            inputs.entry(name).or_insert_with(|| value.clone());
        }
        let (plan, inputs) = match self.plan_with_state(source, &choice.pin, inputs, &fields).await
        {
            Ok(resolved) => resolved,
            Err(error) => {
                return self
                    .skip_candidate(&choice.pin, error)
                    .map(|()| PrepareResult::NoCandidate);
            }
        };
        let secrets: Vec<String> =
            fields.iter().filter(|field| field.secret).map(|field| field.name.clone()).collect();
        let missing = missing_fields(&plan.missing, &fields);
        self.record.remember_values(&inputs, &secrets);
        let is_read_only = *read_only || self.is_read_only(&choice, &document, &plan).await;
        let shown = inputs.iter().map(|(name, value)| {
            let shown = if secrets.contains(name) { HIDDEN.into() } else { value.clone() };
            (name.clone(), shown)
        });
        let shown: Map<String, Value> = shown.collect();
        let action = (!is_read_only).then(|| UnconfirmedAction {
            action: consent::action(&choice, &plan, shown.clone()),
            sealed: plan.digest.filter(|_| shown != inputs),
        });
        let effects = EffectScope::from_plan(&plan, !read_only);
        let plan = PlanResponse {
            token: None,
            expires_at: None,
            digest: None,
            no_token_reason: None,
            ..plan
        };
        (self.emit)(AgentEvent::Chosen {
            description: choice.description.clone(),
            plan: Box::new(plan),
            inputs: shown,
        });
        if !missing.is_empty() {
            return Ok(self.ask_for_inputs(choice.pin, missing, inputs, &secrets, intent));
        }
        let prepared = PreparedRun { candidate: choice, inputs, secrets, effects, action };
        Ok(PrepareResult::Ready(Box::new(prepared)))
    }

    /// Returns the question for missing inputs of a candidate. After a run it skips the candidate instead:
    /// the response to a question starts the turn again, and earlier runs would be repeated.
    fn ask_for_inputs(
        &mut self,
        capability: CapabilityRef,
        missing: Vec<InputField>,
        inputs: Map<String, Value>,
        secrets: &[String],
        intent: &UserIntent,
    ) -> PrepareResult {
        if !self.record.runs.is_empty() {
            let names: Vec<_> = missing.iter().map(|field| format!("`{}`", field.name)).collect();
            let message = format!("it has no values for {}", names.join(", "));
            self.record_skipped(SkippedCandidate { capability, code: None, message, run: None });
            return PrepareResult::NoCandidate;
        }
        let names = missing.iter().map(|field| field.name.clone()).collect();
        let pending = pending_question(capability, inputs, secrets, names, intent);
        let question = AgentQuestion { fields: missing, ..AgentQuestion::new(pending) };
        PrepareResult::NeedsInput(Box::new(question))
    }

    /// Returns true when every task of a plan is read-only, according to the documents of the plan.
    async fn is_read_only(
        &mut self,
        choice: &CandidateCapability,
        own: &Document,
        plan: &PlanResponse,
    ) -> bool {
        let Some(source) = self.agent.backends.get(choice.source) else { return false };
        if !consent::has_read_only_tasks(own) {
            return false;
        }
        for pin in &plan.dependencies {
            let below = CandidateCapability { pin: pin.clone(), ..choice.clone() };
            match self.load_document(source, &below).await {
                Ok(document) if consent::has_read_only_tasks(&document) => {}
                _ => return false,
            }
        }
        true
    }

    /// The document of a choice, fetched once in a turn. The search result is not trusted: the digest is
    /// computed again.
    pub(super) async fn load_document(
        &mut self,
        source: &Backend,
        choice: &CandidateCapability,
    ) -> Result<Arc<Document>, ClientError> {
        let is_same = |(from, pin, _): &&(usize, CapabilityRef, _)| {
            (*from, pin) == (choice.source, &choice.pin)
        };
        if let Some((.., known)) = self.documents.iter().find(is_same) {
            return Ok(Arc::clone(known));
        }
        let CapabilityRef { name, version, checksum } = &choice.pin;
        let version = version.to_string();
        let (document, _) = source.registry.get_document(name, &version, Some(*checksum)).await?;
        let document = Arc::new(document);
        self.documents.push((choice.source, choice.pin.clone(), Arc::clone(&document)));
        Ok(document)
    }

    /// Returns the inputs from the request: given by name, in a reply, found by patterns, or read by the
    /// language model.
    async fn read_inputs(
        &mut self,
        intent: &UserIntent,
        fields: &[InputField],
    ) -> Map<String, Value> {
        let mut inputs = intent.known_inputs(fields, self.agent.clock.today());
        let Some(model) = &self.agent.model else { return inputs };
        let is_open = |field: &&InputField| !field.secret && !inputs.contains_key(&field.name);
        let open: Vec<&InputField> = fields.iter().filter(is_open).collect();
        match model.read_inputs(&intent.query, &open).await {
            Ok(filled) => inputs.extend(filled),
            Err(error) => self.report_degraded(&error),
        }
        inputs
    }

    /// Returns the plan of a run with these inputs, and with missing inputs that the state store knows.
    #[expect(
        clippy::needless_pass_by_ref_mut,
        reason = "a shared turn could not be held over an await: what it tells with is not Sync"
    )]
    async fn plan_with_state(
        &mut self,
        source: &Backend,
        pin: &CapabilityRef,
        mut inputs: Map<String, Value>,
        fields: &[InputField],
    ) -> Result<(PlanResponse, Map<String, Value>), ClientError> {
        // A new session has no values yet. Its id is new in each turn, and a consent must not depend on it.
        let is_empty = self.is_session_new && self.record.runs.is_empty();
        let session = (!is_empty).then_some(&*self.session);
        let plan = plan_run(source, pin, &inputs, session).await?;
        if plan.missing.is_empty() {
            return Ok((plan, inputs));
        }
        let known = self.store.resolve(pin, &missing_fields(&plan.missing, fields)).await;
        let before = inputs.len();
        inputs.extend(known.into_iter().filter(|(name, _)| plan.missing.contains(name)));
        if inputs.len() == before {
            return Ok((plan, inputs));
        }
        Ok((plan_run(source, pin, &inputs, session).await?, inputs))
    }

    /// Runs the prepared capability, and reports each event.
    ///
    /// # Errors
    /// The executor does not respond.
    pub(super) async fn run_candidate(
        &mut self,
        prepared: PreparedRun,
    ) -> Result<AttemptResult, Error> {
        let PreparedRun { candidate: choice, inputs, .. } = prepared;
        let Some(source) = self.agent.backends.get(choice.source) else {
            return Ok(AttemptResult::Skipped);
        };
        let session = Some(self.session.clone());
        let intent = choice.intent.clone();
        let request =
            ExecutionRequest { inputs, session, intent, ..ExecutionRequest::from_ref(&choice.pin) };
        let mut guarded = match source.executor.start_guarded(request).await {
            Ok(guarded) => guarded,
            Err(error) => {
                return self.skip_candidate(&choice.pin, error).map(|()| AttemptResult::Skipped);
            }
        };
        let id = guarded.id();
        (self.emit)(AgentEvent::Running { run: id, capability: choice.pin.clone() });
        while let Some(event) = guarded.next().await? {
            (self.emit)(AgentEvent::Step { event: Box::new(event) });
        }
        let run = describe_run(guarded.finish().await?, choice.pin.clone());
        let status = match run.status {
            RunStatus::Succeeded => {
                self.record.runs.push(run);
                return Ok(AttemptResult::Done);
            }
            RunStatus::Waiting => {
                self.record.runs.push(run);
                return Ok(AttemptResult::Ended(AgentStatus::Waiting));
            }
            RunStatus::Denied => AgentStatus::Denied,
            RunStatus::Failed | RunStatus::Cancelled | RunStatus::Queued | RunStatus::Running => {
                AgentStatus::Failed
            }
        };
        let is_safe = run.error.as_ref().is_some_and(|error| error.repeat_safe);
        let may_go_on = is_safe && matches!(run.status, RunStatus::Failed | RunStatus::Denied);
        self.record_skipped(skipped_run(&run));
        if may_go_on {
            return Ok(AttemptResult::Skipped);
        }
        self.record.runs.push(run);
        Ok(AttemptResult::Ended(status))
    }

    /// Skips a candidate that cannot be used.
    ///
    /// # Errors
    /// A service does not respond: the next candidate would fail, too.
    fn skip_candidate(&mut self, pin: &CapabilityRef, error: ClientError) -> Result<(), Error> {
        let (code, message) = match error {
            ClientError::Unreachable { .. } => return Err(error.into()),
            ClientError::BadResponse { .. } => (None, error.to_string()),
            ClientError::Refused { problem } => (Some(problem.code), problem.detail),
        };
        self.record_skipped(SkippedCandidate { capability: pin.clone(), code, message, run: None });
        Ok(())
    }

    fn record_skipped(&mut self, skipped: SkippedCandidate) {
        (self.emit)(AgentEvent::CandidateSkipped(skipped.clone()));
        self.record.skipped.push(skipped);
    }
}

/// The data that the answer to a question needs, without secrets.
fn pending_question(
    capability: CapabilityRef,
    mut inputs: Map<String, Value>,
    secrets: &[String],
    missing: Vec<String>,
    intent: &UserIntent,
) -> PendingQuestion {
    inputs.retain(|name, _| !secrets.contains(name));
    let capability = Some(capability);
    PendingQuestion { inputs, missing, ..PendingQuestion::new(intent.query.clone(), capability) }
}

/// The inputs of a document, and the inputs that its dependencies need in addition, according to the
/// registry.
fn with_dependency_inputs(fields: &[InputField], listed: &[InputField]) -> Vec<InputField> {
    let others =
        listed.iter().filter(|listed| fields.iter().all(|field| field.name != listed.name));
    fields.iter().chain(others).cloned().collect()
}

/// The missing inputs. For an input that only a dependency needs, only the name is known.
fn missing_fields(missing: &[String], fields: &[InputField]) -> Vec<InputField> {
    missing.iter().map(|name| InputField::find(fields, name)).collect()
}

async fn plan_run(
    source: &Backend,
    pin: &CapabilityRef,
    inputs: &Map<String, Value>,
    session: Option<&str>,
) -> Result<PlanResponse, ClientError> {
    let (inputs, session) = (inputs.clone(), session.map(str::to_owned));
    let request = PlanRequest { inputs, session, ..PlanRequest::from_ref(pin) };
    source.executor.plan(&request).await
}
