//! A run for an MCP client: what is missing is asked for, what changes something is approved where
//! a person can be asked, steps are told as progress, and whoever cancels or goes away stops it.

use std::fmt::Write as _;
use std::sync::Arc;

use a2s::api::{
    Event, EventKind, ExecutionRequest, PlanRequest, PlanResponse, PlannedStep, PlannedStepKind,
    Run, RunStatus,
};
use a2s::{Digest, InputField, one_line};
use rmcp::model::{
    CallToolResponse, CallToolResult, ContentBlock, InputRequiredResult, JsonObject,
    ProgressNotificationParam, ProgressToken,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

use super::capability_cache::Fact;
use super::elicitation::{self, Asked};
use super::tool_call::Turn;
use super::tool_result::{Refusal, failure_in_words, told_as_data};
use super::tools::{Failure, Input, Ran};

/// The code of a run that is refused because an input is missing.
const MISSING_INPUT: &str = "A2S320";
/// The argument that says that the user has confirmed a run.
pub(super) const CONFIRM: &str = "a2s_confirm";
/// How often a person is asked for inputs in one call.
const ROUNDS: usize = 2;
/// How many requests of a plan a person is shown, and how much of their inputs.
const MOST_SHOWN: usize = 10;
const MAX_SHOWN: usize = 300;
/// The longest words of progress, in characters.
const MAX_PROGRESS: usize = 200;

/// What is to be run.
pub(super) struct Wanted {
    fact: Arc<Fact>,
    inputs: JsonObject,
    /// Those of the inputs that a person has filled in.
    filled: JsonObject,
    session: Option<String>,
    /// The digest of the plan that was shown.
    plan: Option<Digest>,
    /// The digest of the plan that the user has confirmed.
    confirmed: Option<Digest>,
}

impl Wanted {
    pub(super) fn new(
        fact: Arc<Fact>,
        inputs: JsonObject,
        session: Option<String>,
        plan: Option<Digest>,
    ) -> Self {
        Self { fact, inputs, filled: JsonObject::new(), session, plan, confirmed: None }
    }

    pub(super) fn confirmed(self, confirmed: Option<Digest>) -> Self {
        Self { confirmed, ..self }
    }

    fn fill(&mut self, values: JsonObject) {
        self.inputs.extend(values.clone());
        self.filled.extend(values);
    }

    /// What comes back with the next answer.
    fn state(&self) -> Option<String> {
        serde_json::to_string(&State { inputs: self.filled.clone() }).ok()
    }
}

/// What comes back with an answer of a person: what was filled in before. The client sends its
/// arguments again by itself, so there is no secret in it, which guardians would see: a form has no
/// secret fields.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    inputs: Map<String, Value>,
}

/// What comes next.
enum Next {
    /// The client asks the person, and calls again.
    Later(Box<InputRequiredResult>),
    Start(Box<ExecutionRequest>),
}

pub(super) async fn execute(
    turn: &mut Turn<'_>,
    mut wanted: Wanted,
) -> Result<CallToolResponse, Refusal> {
    if let Some(state) = turn.state.take() {
        let state: State = serde_json::from_str(&state).map_err(|_| {
            Refusal::of_caller("`requestState` is not what was given", "Send it as it came.")
        })?;
        wanted.fill(state.inputs);
    }
    let request = match prepare(turn, &mut wanted).await? {
        Next::Later(question) => return Ok(CallToolResponse::InputRequired(*question)),
        Next::Start(request) => *request,
    };
    match run(turn, request).await {
        Ok(run) => Ok(told(turn, &wanted.fact, run).into()),
        Err(refusal) if refusal.code.as_deref() == Some(MISSING_INPUT) => {
            Err(explained(turn, &wanted, refusal).await)
        }
        Err(refusal) => Err(refusal),
    }
}

/// Everything before a run: inputs, what was planned, and approval.
async fn prepare(turn: &mut Turn<'_>, wanted: &mut Wanted) -> Result<Next, Refusal> {
    let fact = Arc::clone(&wanted.fact);
    let is_harmless = fact.own_read_only && !fact.interface.uses_others;
    let can_be_asked = turn.person.can_be_asked();
    let asks = can_be_asked || turn.shared.asks_consent;
    let needs_approval = asks && !is_harmless;
    if !can_be_asked && !needs_approval && wanted.plan.is_none() {
        // The executor says what is missing.
        return Ok(Next::Start(Box::new(by_name(wanted))));
    }
    for _ in 0..ROUNDS {
        let plan = turn.executor.plan(&to_plan(wanted)).await?;
        if !plan.missing.is_empty() {
            match fill(turn, wanted, &plan).await? {
                Some(question) => return Ok(Next::Later(question)),
                None => continue,
            }
        }
        if let Some(shown) = wanted.plan
            && plan.digest != Some(shown)
        {
            let message = "what would run now is not what was planned";
            let hint = "Plan again with plan_capability and the same inputs, and see what differs.";
            return Err(Refusal::of_caller(message, hint));
        }
        let Some(token) = plan.token.clone() else {
            // The executor has the words and the code for it.
            return Ok(Next::Start(Box::new(by_name(wanted))));
        };
        if needs_approval && changes_something(turn, &plan).await {
            if !can_be_asked {
                confirm(wanted, &plan)?;
            } else if let Some(question) = approve(turn, wanted, &plan).await? {
                return Ok(Next::Later(question));
            }
        }
        let request = ExecutionRequest { plan: Some(token), ..ExecutionRequest::default() };
        return Ok(Next::Start(Box::new(request)));
    }
    Err(Refusal::of_caller("inputs are still missing", "Give a value for each required input."))
}

fn by_name(wanted: &Wanted) -> ExecutionRequest {
    let (inputs, session) = (wanted.inputs.clone(), wanted.session.clone());
    ExecutionRequest { inputs, session, ..ExecutionRequest::of(&wanted.fact.pin()) }
}

fn to_plan(wanted: &Wanted) -> PlanRequest {
    let (inputs, session) = (wanted.inputs.clone(), wanted.session.clone());
    PlanRequest { inputs, session, ..PlanRequest::of(&wanted.fact.pin()) }
}

/// What is known of the inputs that a plan lacks, be they of the capability or of one below that it
/// hands on to. An input that is secret for one of those is secret.
///
/// # Errors
/// When a document below cannot be read: then nobody knows what is secret.
pub(super) async fn missing_fields(
    turn: &Turn<'_>,
    fact: &Arc<Fact>,
    plan: &PlanResponse,
) -> Result<Vec<InputField>, Refusal> {
    let mut fields = Vec::new();
    let mut below = Vec::new();
    for name in &plan.missing {
        if let Some(own) = fact.field(name) {
            fields.push(own.clone());
            continue;
        }
        if below.is_empty() {
            for pin in &plan.dependencies {
                below.push(turn.shared.facts.of_pin(&turn.registry, pin).await?);
            }
        }
        let known = || below.iter().filter_map(|fact| fact.field(name));
        let field = known().find(|field| field.secret).or_else(|| known().next());
        fields.push(field.cloned().unwrap_or_else(|| InputField::named(name)));
    }
    Ok(fields)
}

/// The refusal of a run that lacks inputs, with what is known of each.
async fn explained(turn: &Turn<'_>, wanted: &Wanted, refusal: Refusal) -> Refusal {
    let Ok(plan) = turn.executor.plan(&to_plan(wanted)).await else { return refusal };
    let Ok(fields) = missing_fields(turn, &wanted.fact, &plan).await else { return refusal };
    if fields.is_empty() { refusal } else { lacking(&fields) }
}

/// Asks the person for what is missing: puts it among the inputs, or gives the question.
async fn fill(
    turn: &mut Turn<'_>,
    wanted: &mut Wanted,
    plan: &PlanResponse,
) -> Result<Option<Box<InputRequiredResult>>, Refusal> {
    let fields = missing_fields(turn, &wanted.fact, plan).await?;
    let Some(form) = elicitation::form(&fields).filter(|_| turn.person.can_be_asked()) else {
        return Err(lacking(&fields));
    };
    let fact = &wanted.fact;
    let message = format!("{} needs this to run: {}", fact.name, fact.description);
    match turn.ask("inputs", message, form, wanted.state()).await? {
        Asked::Later(question) => Ok(Some(question)),
        Asked::Answer(answer) => match elicitation::filled(&answer, &fields) {
            Some(values) => {
                wanted.fill(values);
                Ok(None)
            }
            None => Err(Refusal {
                hint: Some("The user was asked for them and gave none.".to_owned()),
                ..lacking(&fields)
            }),
        },
    }
}

/// The refusal of a call that lacks inputs.
fn lacking(fields: &[InputField]) -> Refusal {
    let names: Vec<_> = fields.iter().map(|field| format!("`{}`", field.name)).collect();
    let hint = match fields.iter().find(|field| field.secret) {
        Some(secret) => format!(
            "`{}` is secret: never ask the user to type it here. Tell the user to run this \
             capability with `a2s run`, and credentials of services are kept with `a2s secrets \
             set`.",
            secret.name
        ),
        None => "Find the values in the conversation or ask the user for them; then call it again \
                 with all inputs."
            .to_owned(),
    };
    let missing: Vec<Input> = fields.iter().map(Into::into).collect();
    Refusal {
        code: Some(MISSING_INPUT.to_owned()),
        ..Refusal::of_caller(format!("inputs are missing: {}", names.join(", ")), hint)
    }
    .with_details(json!({ "missing": missing }))
}

/// Whether a task of a plan, of whatever capability, is not surely reading alone.
async fn changes_something(turn: &Turn<'_>, plan: &PlanResponse) -> bool {
    for pin in std::iter::once(&plan.capability).chain(&plan.dependencies) {
        match turn.shared.facts.of_pin(&turn.registry, pin).await {
            Ok(fact) if fact.own_read_only => {}
            _ => return true,
        }
    }
    false
}

/// Lets the person approve of a plan, by its digest: an answer to another plan is none to this.
async fn approve(
    turn: &mut Turn<'_>,
    wanted: &Wanted,
    plan: &PlanResponse,
) -> Result<Option<Box<InputRequiredResult>>, Refusal> {
    let digest = plan.digest.map(|digest| digest.to_string()).unwrap_or_default();
    let message = in_words(wanted, plan);
    let key = format!("approve {digest}");
    match turn.ask(&key, message, elicitation::yes_or_no(), wanted.state()).await? {
        Asked::Later(question) => Ok(Some(question)),
        Asked::Answer(answer) if elicitation::is_yes(&answer) => Ok(None),
        Asked::Answer(_) => {
            let hint = "Nothing was sent. Do not call it again unless the user asks for it.";
            Err(Refusal::of_caller("the user did not approve of this run", hint))
        }
    }
}

/// Lets a call pass that comes with the digest of this very plan; else tells what would be done.
fn confirm(wanted: &Wanted, plan: &PlanResponse) -> Result<(), Refusal> {
    if plan.digest.is_some() && wanted.confirmed == plan.digest {
        return Ok(());
    }
    let digest = plan.digest.map(|digest| digest.to_string()).unwrap_or_default();
    let message =
        format!("nothing was run: the user has to confirm this. {}", in_words(wanted, plan));
    let hint = format!(
        "Show this to the user. On a yes, call it again with the same arguments and \
         `{CONFIRM}`: \"{digest}\"."
    );
    Err(Refusal::of_caller(message, hint).with_details(json!({ CONFIRM: digest })))
}

/// What a person approves of.
fn in_words(wanted: &Wanted, plan: &PlanResponse) -> String {
    let fact = &wanted.fact;
    let mut text = format!("Run {} {}? {}", fact.name, fact.version, fact.description);
    let mut requests = Vec::new();
    requests_of(&plan.steps, &mut requests);
    for request in requests.iter().take(MOST_SHOWN) {
        // Writing into a string cannot fail.
        let _ = write!(text, "\n- {}", one_line(request, MAX_SHOWN));
    }
    if requests.len() > MOST_SHOWN {
        let _ = write!(text, "\n- and {} more", requests.len() - MOST_SHOWN);
    }
    for (name, value) in wanted.inputs.iter().take(MOST_SHOWN) {
        let value = match fact.field(name).is_some_and(|field| !field.secret) {
            true => one_line(&value.to_string(), MAX_SHOWN),
            false => "(not shown)".to_owned(),
        };
        let _ = write!(text, "\n{}: {value}", one_line(name, MAX_SHOWN));
    }
    text
}

/// What each task sends, in order.
fn requests_of(steps: &[PlannedStep], requests: &mut Vec<String>) {
    for step in steps {
        match &step.kind {
            PlannedStepKind::Task { .. } => requests.extend(step.kind.request()),
            PlannedStepKind::Capability { steps, .. }
            | PlannedStepKind::Sequence { steps }
            | PlannedStepKind::Parallel { steps } => requests_of(steps, requests),
            PlannedStepKind::Condition { if_true, if_false, .. } => {
                requests_of(if_true, requests);
                requests_of(if_false, requests);
            }
        }
        requests_of(&step.catch, requests);
    }
}

/// Starts a run and follows it to its end. It is cancelled when nobody waits for it any more.
async fn run(turn: &Turn<'_>, request: ExecutionRequest) -> Result<Run, Refusal> {
    let executor = turn.executor.clone();
    let (tell, told) = oneshot::channel();
    // A task of its own: when nobody waits for the beginning any more, what has begun is dropped,
    // and that cancels it.
    tokio::spawn(async move {
        let _ = tell.send(executor.start_attended(&request).await);
    });
    let lost = |_| Refusal::of_caller("the run was not started", "Call it again.");
    let mut run = told.await.map_err(lost)??;
    let mut progress = Progress { token: turn.context.meta.get_progress_token(), told: 0 };
    while let Some(event) = run.next().await? {
        progress.tell(turn, &event).await;
    }
    Ok(turn.executor.run(run.id()).await?)
}

/// Progress as the client asked for it.
struct Progress {
    token: Option<ProgressToken>,
    told: u32,
}

impl Progress {
    async fn tell(&mut self, turn: &Turn<'_>, event: &Event) {
        let Some(token) = &self.token else { return };
        let Some(words) = progress_in_words(&event.kind) else { return };
        self.told += 1;
        let progress = ProgressNotificationParam::new(token.clone(), f64::from(self.told))
            .with_message(one_line(&words, MAX_PROGRESS));
        // Who does not hear it gets the result all the same.
        let _ = turn.context.peer.notify_progress(progress).await;
    }
}

fn progress_in_words(event: &EventKind) -> Option<String> {
    Some(match event {
        EventKind::StepStarted { step, kind, .. } if kind == "task" => format!("{step}: started"),
        EventKind::Decided { step, decision, .. } if decision.decision != "allow" => {
            format!("{step}: the guardian says {}: {}", decision.decision, decision.message)
        }
        EventKind::Throttled { step, host, .. } => format!("{step}: waits for {host}"),
        EventKind::Retrying { step, reason, .. } => format!("{step}: tries again: {reason}"),
        EventKind::StepFinished { step, .. } => format!("{step}: finished"),
        EventKind::ApprovalRequested { step, about, id, .. } => {
            let about = about.words();
            format!("{step}: waits for approval{about}: a2s guardian approve {id}")
        }
        EventKind::StepSkipped { step, .. } => format!("{step}: skipped"),
        EventKind::StepFailed { step, error, .. } => format!("{step}: failed: {}", error.message),
        EventKind::ItemsTaken { step, items } => format!("{step}: {items} items"),
        _ => return None,
    })
}

/// What a model is told of a run.
fn told(turn: &Turn<'_>, fact: &Fact, run: Run) -> CallToolResult {
    let failure = run.error.as_ref().map(|error| Failure {
        code: error.code.clone(),
        message: error.message.clone(),
        hint: error.hint.clone(),
        next: error.next.and_then(|next| json!(next).as_str().map(str::to_owned)),
        step: error.step.clone(),
        repeat_safe: error.repeat_safe,
    });
    let answer = Ran {
        run: run.id.to_string(),
        status: run.status.as_str().to_owned(),
        name: run.name.to_string(),
        version: run.version.to_string(),
        checksum: run.checksum.to_string(),
        output: run.output,
        error: failure,
    };
    if run.status == RunStatus::Succeeded {
        let services: Vec<_> = fact.interface.services.iter().map(ToString::to_string).collect();
        let mark = turn.shared.outside.new_id().to_string();
        let is_harmless = fact.own_read_only && !fact.interface.uses_others;
        let is_unasked = !turn.shared.asks_consent && !turn.person.can_be_asked() && !is_harmless;
        let note = if is_unasked { " It ran without confirmation: consent is off." } else { "" };
        let preface = format!("{} succeeded.{note}", answer.name);
        return told_as_data(&preface, &answer, &services.join(", "), &mark);
    }
    let words = match &run.error {
        Some(error) => failure_in_words(error),
        None => String::new(),
    };
    let text = format!("{} {}: run {}.\n{words}", answer.name, answer.status, answer.run);
    let mut result = CallToolResult::structured_error(json!(answer));
    result.content = vec![ContentBlock::text(text)];
    result
}
