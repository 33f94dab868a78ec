//! A run for an MCP client. Asks for missing inputs, asks for approval of changes if a person can be asked,
//! reports steps as progress, and stops when the caller cancels or disconnects.

use std::fmt::Write as _;
use std::sync::Arc;

use a2s::{Digest, InputField, to_single_line};
use a2s_api::{
    EventKind, EventSummary, ExecutionRequest, PlanRequest, PlanResponse, RequestChange, Run,
    RunEvent, RunStatus, StepChange,
};
use rmcp::model::{
    CallToolResponse, CallToolResult, ContentBlock, InputRequiredResult, JsonObject,
    ProgressNotificationParam, ProgressToken,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::capability_cache::CapabilityInfo;
use super::elicitation::{self, ElicitationOutcome};
use super::tool_call::ToolCallContext;
use super::tool_result::{ToolError, describe_run_error, service_data_result};
use super::tools::{ExecuteToolResult, ToolCapabilityRef, ToolInput, ToolRunError};
use agent::collect_requests;

/// The code of a run that is rejected because an input is missing.
const MISSING_INPUT: &str = "A2S320";
/// The argument that states the user's confirmation of a run.
pub(super) const CONFIRM: &str = "a2s_confirm";
/// The most times that a person is asked for inputs in one call.
const MAX_ROUNDS: usize = 2;
/// The most requests of a plan, and the most inputs, that a person sees, and the most characters of each.
const MAX_SHOWN_ITEMS: usize = 10;
const MAX_SHOWN: usize = 300;
/// The longest words of progress, in characters.
const MAX_PROGRESS: usize = 200;

/// A request to run a capability.
pub(super) struct RunToolRequest {
    capability: Arc<CapabilityInfo>,
    inputs: JsonObject,
    /// The inputs that a person has entered.
    filled: JsonObject,
    session: Option<String>,
    /// The words of the search that found the capability.
    intent: Option<String>,
    /// The digest of the plan that the run must match.
    plan: Option<Digest>,
    /// The digest of the plan that the user has confirmed.
    confirmed: Option<Digest>,
}

impl RunToolRequest {
    pub(super) fn new(
        capability: Arc<CapabilityInfo>,
        inputs: JsonObject,
        session: Option<String>,
        plan: Option<Digest>,
    ) -> Self {
        Self {
            capability,
            inputs,
            filled: JsonObject::new(),
            session,
            intent: None,
            plan,
            confirmed: None,
        }
    }

    pub(super) fn with_intent(self, intent: Option<String>) -> Self {
        Self { intent, ..self }
    }

    pub(super) fn with_confirmation(self, confirmed: Option<Digest>) -> Self {
        Self { confirmed, ..self }
    }

    fn add_inputs(&mut self, values: JsonObject) {
        self.inputs.extend(values.clone());
        self.filled.extend(values);
    }

    /// The state that the client sends back with the next answer.
    fn to_state(&self) -> Option<String> {
        serde_json::to_string(&RequestState { inputs: self.filled.clone() }).ok()
    }
}

/// The state that the client sends back with an answer: the inputs that a person has entered so far. The
/// client sends its arguments again by itself. So the state contains no secret, which guardians would see:
/// a form has no secret fields.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestState {
    inputs: Map<String, Value>,
}

/// The possible results of one step.
enum RunPreparation {
    /// The client must ask the person, and call again.
    InputRequired(Box<InputRequiredResult>),
    Start(Box<ExecutionRequest>),
}

pub(super) async fn execute(
    turn: &mut ToolCallContext<'_>,
    mut wanted: RunToolRequest,
) -> Result<CallToolResponse, ToolError> {
    if let Some(state) = turn.state.take() {
        let state: RequestState = serde_json::from_str(&state).map_err(|_| {
            ToolError::for_caller("`requestState` was changed", "Send it unchanged.")
        })?;
        wanted.add_inputs(state.inputs);
    }
    let request = match prepare(turn, &mut wanted).await? {
        RunPreparation::InputRequired(question) => {
            return Ok(CallToolResponse::InputRequired(*question));
        }
        RunPreparation::Start(request) => *request,
    };
    match run(turn, request).await {
        Ok(run) => Ok(to_tool_result(turn, &wanted.capability, run).into()),
        Err(refusal) if refusal.code.as_deref() == Some(MISSING_INPUT) => {
            Err(explain_missing(turn, &wanted, refusal).await)
        }
        Err(refusal) => Err(refusal),
    }
}

/// Prepares a run: inputs, comparison with the plan, and approval.
async fn prepare(
    turn: &mut ToolCallContext<'_>,
    wanted: &mut RunToolRequest,
) -> Result<RunPreparation, ToolError> {
    let capability = Arc::clone(&wanted.capability);
    let is_harmless = capability.own_read_only && !capability.interface.uses_others;
    let can_be_asked = turn.elicitation.supports_forms();
    let asks = can_be_asked || turn.shared.asks_consent;
    let needs_approval = asks && !is_harmless;
    if !can_be_asked && !needs_approval && wanted.plan.is_none() {
        // The executor lists missing inputs.
        return Ok(RunPreparation::Start(Box::new(to_execution_request(wanted))));
    }
    for _ in 0..MAX_ROUNDS {
        let plan = turn.executor.plan(&to_plan_request(wanted)).await?;
        if !plan.missing.is_empty() {
            match ask_inputs(turn, wanted, &plan).await? {
                Some(question) => return Ok(RunPreparation::InputRequired(question)),
                None => continue,
            }
        }
        if let Some(shown) = wanted.plan
            && plan.digest != Some(shown)
        {
            let message = "the run would differ from the plan";
            let hint =
                "Plan again with plan_capability and the same inputs, and compare the plans.";
            return Err(ToolError::for_caller(message, hint));
        }
        let Some(token) = plan.token.clone() else {
            // The executor has the words and the code for it.
            return Ok(RunPreparation::Start(Box::new(to_execution_request(wanted))));
        };
        if needs_approval && changes_something(turn, &plan).await {
            if !can_be_asked {
                check_confirmation(wanted, &plan)?;
            } else if let Some(question) = ask_approval(turn, wanted, &plan).await? {
                return Ok(RunPreparation::InputRequired(question));
            }
        }
        let intent = wanted.intent.clone();
        let request = ExecutionRequest { plan: Some(token), intent, ..ExecutionRequest::default() };
        return Ok(RunPreparation::Start(Box::new(request)));
    }
    Err(ToolError::for_caller("inputs are still missing", "Give a value for each required input."))
}

fn to_execution_request(wanted: &RunToolRequest) -> ExecutionRequest {
    let (inputs, session) = (wanted.inputs.clone(), wanted.session.clone());
    let intent = wanted.intent.clone();
    ExecutionRequest {
        inputs,
        session,
        intent,
        ..ExecutionRequest::from_ref(&wanted.capability.pin())
    }
}

fn to_plan_request(wanted: &RunToolRequest) -> PlanRequest {
    let (inputs, session) = (wanted.inputs.clone(), wanted.session.clone());
    PlanRequest { inputs, session, ..PlanRequest::from_ref(&wanted.capability.pin()) }
}

/// The known properties of the inputs that a plan lacks. They belong to the capability or to a dependency.
/// An input is secret if it is secret for any of them.
///
/// # Errors
/// When the document of a dependency cannot be read: then the secret inputs are not known.
pub(super) async fn missing_fields(
    turn: &ToolCallContext<'_>,
    capability: &Arc<CapabilityInfo>,
    plan: &PlanResponse,
) -> Result<Vec<InputField>, ToolError> {
    let mut fields = Vec::new();
    let mut below = Vec::new();
    for name in &plan.missing {
        if let Some(own) = capability.field(name) {
            fields.push(own.clone());
            continue;
        }
        if below.is_empty() {
            for pin in &plan.dependencies {
                below.push(turn.shared.cache.find_pinned(&turn.registry, pin).await?);
            }
        }
        let known = || below.iter().filter_map(|capability| capability.field(name));
        let field = known().find(|field| field.secret).or_else(|| known().next());
        fields.push(field.cloned().unwrap_or_else(|| InputField::with_name(name)));
    }
    Ok(fields)
}

/// The error of a run that lacks inputs, with the known properties of each.
async fn explain_missing(
    turn: &ToolCallContext<'_>,
    wanted: &RunToolRequest,
    refusal: ToolError,
) -> ToolError {
    let Ok(plan) = turn.executor.plan(&to_plan_request(wanted)).await else { return refusal };
    let Ok(fields) = missing_fields(turn, &wanted.capability, &plan).await else { return refusal };
    if fields.is_empty() { refusal } else { missing_inputs_error(&fields) }
}

/// Asks the person for the missing inputs. Adds the answer to the inputs, or returns the question.
async fn ask_inputs(
    turn: &mut ToolCallContext<'_>,
    wanted: &mut RunToolRequest,
    plan: &PlanResponse,
) -> Result<Option<Box<InputRequiredResult>>, ToolError> {
    let fields = missing_fields(turn, &wanted.capability, plan).await?;
    let Some(form) = elicitation::form(&fields).filter(|_| turn.elicitation.supports_forms())
    else {
        return Err(missing_inputs_error(&fields));
    };
    let capability = &wanted.capability;
    let description = to_single_line(&capability.description, MAX_SHOWN);
    let message = format!("{} requires these inputs: {description}", capability.name);
    match turn.ask("inputs", message, form, wanted.to_state()).await? {
        ElicitationOutcome::InputRequired(question) => Ok(Some(question)),
        ElicitationOutcome::Answer(answer) => match elicitation::filled_values(&answer, &fields) {
            Some(values) => {
                wanted.add_inputs(values);
                Ok(None)
            }
            None => Err(ToolError {
                hint: Some("The user was asked for the inputs and gave none.".to_owned()),
                ..missing_inputs_error(&fields)
            }),
        },
    }
}

/// Creates the error of a call that lacks inputs.
fn missing_inputs_error(fields: &[InputField]) -> ToolError {
    let names: Vec<_> = fields.iter().map(|field| format!("`{}`", field.name)).collect();
    let hint = match fields.iter().find(|field| field.secret) {
        Some(secret) => format!(
            "`{}` is secret: never ask the user to type it here. Tell the user to run this \
             capability with `a2s run`, and to store credentials of services with `a2s secrets \
             set`.",
            secret.name
        ),
        None => "Find the values in the conversation or ask the user for them; then call it again \
                 with all inputs."
            .to_owned(),
    };
    let missing: Vec<ToolInput> = fields.iter().map(Into::into).collect();
    ToolError {
        code: Some(MISSING_INPUT.to_owned()),
        ..ToolError::for_caller(format!("inputs are missing: {}", names.join(", ")), hint)
    }
    .with_details(json!({ "missing": missing }))
}

/// Returns true unless every task of a plan, in all its capabilities, is known to be read-only.
async fn changes_something(turn: &ToolCallContext<'_>, plan: &PlanResponse) -> bool {
    for pin in std::iter::once(&plan.capability).chain(&plan.dependencies) {
        match turn.shared.cache.find_pinned(&turn.registry, pin).await {
            Ok(capability) if capability.own_read_only => {}
            _ => return true,
        }
    }
    false
}

/// Asks the person to approve a plan, identified by its digest: an answer about another plan does not
/// count.
async fn ask_approval(
    turn: &mut ToolCallContext<'_>,
    wanted: &RunToolRequest,
    plan: &PlanResponse,
) -> Result<Option<Box<InputRequiredResult>>, ToolError> {
    let digest = plan.digest.map(|digest| digest.to_string()).unwrap_or_default();
    let message = describe_plan(wanted, plan);
    let key = format!("approve {digest}");
    match turn.ask(&key, message, elicitation::yes_or_no(), wanted.to_state()).await? {
        ElicitationOutcome::InputRequired(question) => Ok(Some(question)),
        ElicitationOutcome::Answer(answer) if elicitation::is_accepted(&answer) => Ok(None),
        ElicitationOutcome::Answer(_) => {
            let hint =
                "The executor sent nothing. Do not call it again unless the user asks for it.";
            Err(ToolError::for_caller("the user did not approve this run", hint))
        }
    }
}

/// Accepts a call with the digest of exactly this plan. Otherwise returns an error that describes the plan.
fn check_confirmation(wanted: &RunToolRequest, plan: &PlanResponse) -> Result<(), ToolError> {
    if plan.digest.is_some() && wanted.confirmed == plan.digest {
        return Ok(());
    }
    let digest = plan.digest.map(|digest| digest.to_string()).unwrap_or_default();
    let message = format!(
        "the run was not started: the user must confirm it. {}",
        describe_plan(wanted, plan)
    );
    let hint = format!(
        "Show this to the user. If the user says yes, call it again with the same arguments and \
         `{CONFIRM}`: \"{digest}\"."
    );
    Err(ToolError::for_caller(message, hint).with_details(json!({ CONFIRM: digest })))
}

/// The text that a person approves.
fn describe_plan(wanted: &RunToolRequest, plan: &PlanResponse) -> String {
    let capability = &wanted.capability;
    let description = to_single_line(&capability.description, MAX_SHOWN);
    let mut text = format!("Run {} {}? {description}", capability.name, capability.version);
    let mut requests = Vec::new();
    collect_requests(&plan.steps, &mut requests);
    for request in requests.iter().take(MAX_SHOWN_ITEMS) {
        // Writing into a string cannot fail.
        let _ = write!(text, "\n- {}", to_single_line(request, MAX_SHOWN));
    }
    if requests.len() > MAX_SHOWN_ITEMS {
        let _ = write!(text, "\n- and {} more", requests.len() - MAX_SHOWN_ITEMS);
    }
    for (name, value) in wanted.inputs.iter().take(MAX_SHOWN_ITEMS) {
        let value = match capability.field(name).is_some_and(|field| !field.secret) {
            true => to_single_line(&value.to_string(), MAX_SHOWN),
            false => "(not shown)".to_owned(),
        };
        let _ = write!(text, "\n{}: {value}", to_single_line(name, MAX_SHOWN));
    }
    text
}

/// Starts a run and follows it to its end. The run is cancelled when its caller stops waiting.
async fn run(turn: &ToolCallContext<'_>, request: ExecutionRequest) -> Result<Run, ToolError> {
    let mut run = turn.executor.start_guarded(request).await?;
    let mut progress =
        ProgressReporter { token: turn.context.meta.get_progress_token(), reported: 0 };
    while let Some(event) = run.next().await? {
        progress.report(turn, &event).await;
    }
    Ok(turn.executor.get_run(run.id()).await?)
}

/// Reports progress if the client asked for it.
struct ProgressReporter {
    token: Option<ProgressToken>,
    reported: u32,
}

impl ProgressReporter {
    async fn report(&mut self, turn: &ToolCallContext<'_>, event: &RunEvent) {
        let Some(token) = &self.token else { return };
        let Some(words) = progress_text(&event.kind) else { return };
        self.reported += 1;
        let progress = ProgressNotificationParam::new(token.clone(), f64::from(self.reported))
            .with_message(to_single_line(&words, MAX_PROGRESS));
        // Who does not hear it gets the result all the same.
        let _ = turn.context.peer.notify_progress(progress).await;
    }
}

fn progress_text(event: &EventKind) -> Option<String> {
    let (step, text) = match event.summary() {
        EventSummary::Run(_) => return None,
        EventSummary::Step(step, change) => (step, step_progress(change)?),
        EventSummary::Request(step, RequestChange::Throttled { host, .. }) => {
            (step, format!("waits for {host}"))
        }
        EventSummary::Request(step, RequestChange::Retrying { reason, .. }) => {
            (step, format!("tries again: {reason}"))
        }
        EventSummary::Request(..) => return None,
    };
    Some(format!("{step}: {text}"))
}

fn step_progress(change: StepChange<'_>) -> Option<String> {
    Some(match change {
        StepChange::Started { kind: "task", .. } => "started".to_owned(),
        StepChange::Decided { decision, .. } if decision.decision != "allow" => {
            format!("the guardian decided {}: {}", decision.decision, decision.message)
        }
        StepChange::ApprovalRequested { about, id, .. } => {
            format!("waits for approval{}: a2s guardian approve {id}", about.describe())
        }
        StepChange::ItemsTaken(items) => format!("{items} items"),
        StepChange::Finished { .. } => "finished".to_owned(),
        StepChange::Skipped(_) => "skipped".to_owned(),
        StepChange::Failed { error, .. } => format!("failed: {}", error.message),
        StepChange::Started { .. }
        | StepChange::Decided { .. }
        | StepChange::BranchTaken(_)
        | StepChange::Warned(_)
        | StepChange::Resolved(_)
        | StepChange::ErrorHandled(_) => return None,
    })
}

/// The result of a run, for a model.
fn to_tool_result(
    turn: &ToolCallContext<'_>,
    capability: &CapabilityInfo,
    run: Run,
) -> CallToolResult {
    let failure = run.error.as_ref().map(|error| ToolRunError {
        code: error.code.clone(),
        message: error.message.clone(),
        hint: error.hint.clone(),
        next: error.next.and_then(|next| json!(next).as_str().map(str::to_owned)),
        step: error.step.clone(),
        repeat_safe: error.repeat_safe,
    });
    let answer = ExecuteToolResult {
        run: run.id.to_string(),
        status: run.status.as_str().to_owned(),
        capability: ToolCapabilityRef::new(&run.name, &run.version, &run.checksum),
        output: run.output,
        error: failure,
    };
    if run.status == RunStatus::Succeeded {
        let services: Vec<_> =
            capability.interface.services.iter().map(ToString::to_string).collect();
        let mark = turn.shared.clock.new_id().to_string();
        let is_harmless = capability.own_read_only && !capability.interface.uses_others;
        let is_unasked =
            !turn.shared.asks_consent && !turn.elicitation.supports_forms() && !is_harmless;
        let note = if is_unasked { " It ran without confirmation: consent is off." } else { "" };
        let preface = format!("{} succeeded.{note}", answer.capability.name);
        return service_data_result(&preface, &answer, &services.join(", "), &mark);
    }
    let words = match &run.error {
        Some(error) => describe_run_error(error),
        None => String::new(),
    };
    let text =
        format!("{} {}: run {}.\n{words}", answer.capability.name, answer.status, answer.run);
    let mut result = CallToolResult::structured_error(json!(answer));
    result.content = vec![ContentBlock::text(text)];
    result
}
