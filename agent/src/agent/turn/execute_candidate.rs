//! One capability: verified, given what it needs, and run.

use std::collections::BTreeSet;
use std::sync::Arc;

use a2s::api::{
    AgentAction, AgentEvent, AgentQuestion, AgentStatus, CapabilityRef, ExecutionRequest, Pending,
    PlanRequest, PlanResponse, RunStatus, SkippedCandidate,
};
use a2s::{Document, HIDDEN, InputField, Interface, Permission};
use serde_json::{Map, Value};

use super::Turn;
use super::candidate_search::{Choice, Task};
use super::consent;
use super::intent::Wish;
use super::waiting::OpenApprovals;
use crate::agent::Backend;
use crate::client::Error as ClientError;
use crate::error::Error;

/// A capability with all that it needs.
#[derive(Debug)]
pub(super) struct Prepared {
    choice: Choice,
    inputs: Map<String, Value>,
    /// Those of the inputs that nobody may be told.
    secrets: Vec<String>,
    pub(super) reach: Reach,
    /// The run as it is confirmed; none when every task of its plan is read-only.
    pub(super) action: Option<AgentAction>,
}

/// How far a capability reaches.
#[derive(Debug, Clone)]
pub(super) struct Reach {
    /// Whether it may change anything.
    pub(super) changes: bool,
    /// The hosts that it talks to.
    pub(super) hosts: BTreeSet<String>,
    /// What a caller must hold.
    permissions: BTreeSet<Permission>,
}

impl Reach {
    /// Whether this may change something that `other` could not.
    pub(super) fn goes_beyond(&self, other: &Self) -> bool {
        let further = !self.hosts.is_subset(&other.hosts)
            || !self.permissions.is_subset(&other.permissions)
            || !other.changes;
        self.changes && further
    }
}

impl Prepared {
    pub(super) fn pin(&self) -> &CapabilityRef {
        &self.choice.pin
    }

    /// What comes with a yes: the same wish, with this capability first.
    pub(super) fn question(&self, wish: &Wish) -> AgentQuestion {
        let pin = self.choice.pin.clone();
        let actions: Vec<AgentAction> = self.action.iter().cloned().collect();
        let mut pending = pending(pin, self.inputs.clone(), &self.secrets, Vec::new(), wish);
        pending.consent = Some(consent::digest(&actions));
        AgentQuestion { actions, ..AgentQuestion::new(pending) }
    }
}

/// What came of preparing.
pub(super) enum Preparing {
    Ready(Box<Prepared>),
    Asks(Box<AgentQuestion>),
    /// Nothing is left that could be tried.
    Nothing,
}

/// What came of running.
pub(super) enum Attempt {
    Done,
    /// The next one may be tried.
    PassedOver,
    /// Nothing else may be: something was changed, or may have been.
    Ended(AgentStatus),
}

impl Turn<'_> {
    /// Prepares the best of what was not tried yet.
    ///
    /// # Errors
    /// Nobody answers who is needed.
    pub(super) async fn prepare_next(
        &mut self,
        task: &mut Task,
        wish: &Wish,
    ) -> Result<Preparing, Error> {
        for choice in task.choices.by_ref() {
            match self.prepare(choice, wish).await? {
                Preparing::Nothing => {}
                prepared => return Ok(prepared),
            }
        }
        Ok(Preparing::Nothing)
    }

    async fn prepare(&mut self, choice: Choice, wish: &Wish) -> Result<Preparing, Error> {
        let Some(source) = self.agent.sources.get(choice.source) else {
            return Ok(Preparing::Nothing);
        };
        let document = match self.document(source, &choice).await {
            Ok(document) => document,
            Err(error) => return self.pass_over(&choice.pin, error).map(|()| Preparing::Nothing),
        };
        let Interface { inputs, read_only, .. } = document.interface();
        let read_only = *read_only;
        let changes = !read_only;
        let fields = with_those_below(inputs, &choice.parameters);
        let inputs = self.read_inputs(wish, &fields).await;
        let (plan, inputs) = match self.resolve(source, &choice.pin, inputs, &fields).await {
            Ok(resolved) => resolved,
            Err(error) => return self.pass_over(&choice.pin, error).map(|()| Preparing::Nothing),
        };
        let secrets: Vec<String> =
            fields.iter().filter(|field| field.secret).map(|field| field.name.clone()).collect();
        let missing = lacking(&plan.missing, &fields);
        let is_read_only = read_only || self.is_read_only(&choice, &document, &plan).await;
        let shown = inputs.iter().map(|(name, value)| {
            let shown = if secrets.contains(name) { HIDDEN.into() } else { value.clone() };
            (name.clone(), shown)
        });
        let shown: Map<String, Value> = shown.collect();
        let action = (!is_read_only).then(|| consent::action(&choice, &plan, shown.clone()));
        let reach = Reach {
            changes,
            hosts: plan.hosts.keys().cloned().collect(),
            permissions: plan.permissions.iter().cloned().collect(),
        };
        let plan = PlanResponse {
            token: None,
            expires_at: None,
            digest: None,
            no_token_reason: None,
            ..plan
        };
        (self.tell)(AgentEvent::Chosen {
            description: choice.description.clone(),
            plan: Box::new(plan),
            inputs: shown,
        });
        if missing.is_empty() {
            let prepared = Prepared { choice, inputs, secrets, reach, action };
            return Ok(Preparing::Ready(Box::new(prepared)));
        }
        if !self.runs.is_empty() {
            // An answer would begin the turn anew, and what was done would be done twice.
            let names: Vec<_> = missing.iter().map(|field| format!("`{}`", field.name)).collect();
            let message = format!("it lacks {}", names.join(", "));
            self.note(SkippedCandidate { capability: choice.pin, code: None, message, run: None });
            return Ok(Preparing::Nothing);
        }
        let names = missing.iter().map(|field| field.name.clone()).collect();
        let pending = pending(choice.pin, inputs, &secrets, names, wish);
        Ok(Preparing::Asks(Box::new(AgentQuestion {
            fields: missing,
            ..AgentQuestion::new(pending)
        })))
    }

    /// Whether every task of a plan is read-only, by the documents that the plan is made of.
    async fn is_read_only(&mut self, choice: &Choice, own: &Document, plan: &PlanResponse) -> bool {
        let Some(source) = self.agent.sources.get(choice.source) else { return false };
        if !consent::has_read_only_tasks(own) {
            return false;
        }
        for pin in &plan.dependencies {
            let below = Choice { pin: pin.clone(), ..choice.clone() };
            match self.document(source, &below).await {
                Ok(document) if consent::has_read_only_tasks(&document) => {}
                _ => return false,
            }
        }
        true
    }

    /// The document of a choice, which is fetched once in a turn. What the search says is believed by
    /// nobody: its digest is computed again.
    pub(super) async fn document(
        &mut self,
        source: &Backend,
        choice: &Choice,
    ) -> Result<Arc<Document>, ClientError> {
        let is_same = |(from, pin, _): &&(usize, CapabilityRef, _)| {
            (*from, pin) == (choice.source, &choice.pin)
        };
        if let Some((.., known)) = self.documents.iter().find(is_same) {
            return Ok(Arc::clone(known));
        }
        let CapabilityRef { name, version, checksum } = &choice.pin;
        let version = version.to_string();
        let (document, _) = source.registry.document(name, &version, Some(*checksum)).await?;
        let document = Arc::new(document);
        self.documents.push((choice.source, choice.pin.clone(), Arc::clone(&document)));
        Ok(document)
    }

    /// The inputs that the wish gives: by name, by an answer, by patterns, and else as the language
    /// model reads it.
    async fn read_inputs(&mut self, wish: &Wish, fields: &[InputField]) -> Map<String, Value> {
        let mut inputs = wish.inputs(fields);
        let Some(model) = &self.agent.model else { return inputs };
        let is_open = |field: &&InputField| !field.secret && !inputs.contains_key(&field.name);
        let open: Vec<&InputField> = fields.iter().filter(is_open).collect();
        match model.fill(&wish.query, &open).await {
            Ok(filled) => inputs.extend(filled),
            Err(error) => self.degraded(&error),
        }
        inputs
    }

    /// The plan of a run with these inputs, and with those that are missing as far as the state
    /// store knows them.
    #[expect(
        clippy::needless_pass_by_ref_mut,
        reason = "a shared turn could not be held over an await: what it tells with is not Sync"
    )]
    async fn resolve(
        &mut self,
        source: &Backend,
        pin: &CapabilityRef,
        mut inputs: Map<String, Value>,
        fields: &[InputField],
    ) -> Result<(PlanResponse, Map<String, Value>), ClientError> {
        let plan = plan_with(source, pin, &inputs, &self.session).await?;
        if plan.missing.is_empty() {
            return Ok((plan, inputs));
        }
        let known = self.store.resolve(pin, &lacking(&plan.missing, fields)).await;
        let before = inputs.len();
        inputs.extend(known.into_iter().filter(|(name, _)| plan.missing.contains(name)));
        if inputs.len() == before {
            return Ok((plan, inputs));
        }
        Ok((plan_with(source, pin, &inputs, &self.session).await?, inputs))
    }

    /// Runs what is prepared, and tells every event of it.
    ///
    /// # Errors
    /// The executor does not answer.
    pub(super) async fn attempt(&mut self, prepared: Prepared) -> Result<Attempt, Error> {
        let Prepared { choice, inputs, .. } = prepared;
        let Some(source) = self.agent.sources.get(choice.source) else {
            return Ok(Attempt::PassedOver);
        };
        let session = Some(self.session.clone());
        let request = ExecutionRequest { inputs, session, ..ExecutionRequest::of(&choice.pin) };
        let mut attended = match source.executor.start_attended(&request).await {
            Ok(attended) => attended,
            Err(error) => return self.pass_over(&choice.pin, error).map(|()| Attempt::PassedOver),
        };
        let id = attended.id();
        (self.tell)(AgentEvent::Running { run: id, capability: choice.pin.clone() });
        let mut approvals = OpenApprovals::default();
        while let Some(event) = attended.next().await? {
            approvals.take(&event.kind);
            (self.tell)(AgentEvent::Step { event: Box::new(event) });
        }
        let run = approvals.describe(attended.finish().await?, choice.pin.clone());
        let status = match run.status {
            RunStatus::Succeeded => {
                self.runs.push(run);
                return Ok(Attempt::Done);
            }
            RunStatus::Waiting => {
                self.runs.push(run);
                return Ok(Attempt::Ended(AgentStatus::Waiting));
            }
            RunStatus::Denied => AgentStatus::Denied,
            RunStatus::Failed | RunStatus::Cancelled | RunStatus::Queued | RunStatus::Running => {
                AgentStatus::Failed
            }
        };
        let error = run.error.as_ref();
        let skipped = SkippedCandidate {
            capability: choice.pin,
            code: error.map(|error| error.code.clone()),
            message: error.map_or_else(
                || format!("its run ended as {}", run.status.as_str()),
                |error| error.message.clone(),
            ),
            run: Some(id),
        };
        let is_safe = error.is_some_and(|error| error.repeat_safe);
        let may_go_on = is_safe && matches!(run.status, RunStatus::Failed | RunStatus::Denied);
        self.note(skipped);
        if may_go_on {
            return Ok(Attempt::PassedOver);
        }
        self.runs.push(run);
        Ok(Attempt::Ended(status))
    }

    /// Goes on to the next one, when it is this one that cannot be used.
    ///
    /// # Errors
    /// Nobody answers: the next one would fare no better.
    fn pass_over(&mut self, pin: &CapabilityRef, error: ClientError) -> Result<(), Error> {
        let (code, message) = match error {
            ClientError::Unreachable { .. } => return Err(error.into()),
            ClientError::BadAnswer { .. } => (None, error.to_string()),
            ClientError::Refused { problem } => (Some(problem.code), problem.detail),
        };
        self.note(SkippedCandidate { capability: pin.clone(), code, message, run: None });
        Ok(())
    }

    fn note(&mut self, skipped: SkippedCandidate) {
        (self.tell)(AgentEvent::CandidateSkipped(skipped.clone()));
        self.skipped.push(skipped);
    }
}

/// What has to be known again when a question is answered. No secret is part of it.
fn pending(
    capability: CapabilityRef,
    mut inputs: Map<String, Value>,
    secrets: &[String],
    missing: Vec<String>,
    wish: &Wish,
) -> Pending {
    inputs.retain(|name, _| !secrets.contains(name));
    let capability = Some(capability);
    Pending { query: wish.query.clone(), capability, inputs, missing, consent: None }
}

/// What a document asks for, and what the capabilities that it uses need besides, as the registry
/// tells it.
fn with_those_below(fields: &[InputField], told: &[InputField]) -> Vec<InputField> {
    let others = told.iter().filter(|told| fields.iter().all(|field| field.name != told.name));
    fields.iter().chain(others).cloned().collect()
}

/// What is asked for. Of an input that only a capability below needs, the name is known and no more.
fn lacking(missing: &[String], fields: &[InputField]) -> Vec<InputField> {
    let field = |name: &String| {
        let known = fields.iter().find(|field| field.name == *name);
        known.cloned().unwrap_or_else(|| InputField::named(name))
    };
    missing.iter().map(field).collect()
}

async fn plan_with(
    source: &Backend,
    pin: &CapabilityRef,
    inputs: &Map<String, Value>,
    session: &str,
) -> Result<PlanResponse, ClientError> {
    let (inputs, session) = (inputs.clone(), Some(session.to_owned()));
    let request = PlanRequest { inputs, session, ..PlanRequest::of(pin) };
    source.executor.plan(&request).await
}
