//! Going on with a run that waits, because a person says what became of a request, or lets it be tried
//! again.

use a2s::{Step, TaskStep, to_single_line};
use a2s_api::{Caller, EventKind, Principal, ResumeRequest, Run, RunStatus, StepResolution};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::context::RunContext;
use super::restored_run::RestoredRun;
use super::service::RunService;
use super::{ended, not_found};
use crate::clock::execution_id;
use crate::error::{Error, ErrorKind};
use crate::gate::{GateVerdict, GuardedStep};
use crate::journal::run_state::{RunHeader, RunProgress, RunState};
use crate::journal::store::RunRow;
use crate::plan::{ExecutionPlan, PlanUnit};
use crate::secrets::RunSecrets;
use crate::telemetry::{DecisionSubject, RunTrace, StandaloneDecision};

/// Records the outcome of a request with an unknown effect, and lets the run continue. A run that was
/// set aside continues without that. Outputs that the caller sets pass the guardian first, as those of
/// the service would have.
///
/// # Errors
/// Returns [`ErrorKind::WrongState`] when the run does not wait, and [`ErrorKind::BadRequest`] when the
/// step is not in doubt or does not have such outputs.
pub(super) async fn resume_run(
    runs: &RunService,
    run: Uuid,
    request: ResumeRequest,
    caller: &Caller,
) -> Result<Run, Error> {
    let resumed = resume_waiting(runs, run, request, caller).await;
    resumed.map_err(|error| match error.kind {
        ErrorKind::LeaseLost => in_progress(run),
        _ => error,
    })
}

async fn resume_waiting(
    runs: &RunService,
    run: Uuid,
    mut request: ResumeRequest,
    caller: &Caller,
) -> Result<Run, Error> {
    let RunService { context, resolver, scheduler, .. } = runs;
    scheduler.check_open()?;
    let row = context.find(run, caller).await?;
    if row.status.is_final() {
        return Err(ended(run, row.status));
    }
    let mut events = context.read_events(run).await?;
    let state = RunState::from_events(&events).ok_or_else(|| not_found(run))?;
    // The journal is read later than the row: another caller may have been faster.
    if row.status != RunStatus::Waiting || state.status() != RunStatus::Waiting {
        return Err(in_progress(run));
    }
    let why = state.to_run().error.and_then(|error| ErrorKind::from_code(&error.code));
    let is_whole = matches!(
        why,
        Some(
            ErrorKind::TakenOverTooOften
                | ErrorKind::ApprovalRequired
                | ErrorKind::RestoredFromBackup
        )
    );
    if is_whole && request.step.is_none() {
        check_retry(&request)?;
        tracing::info!(%run, "a waiting run continues");
        scheduler.requeue(state, row.epoch).await?;
        return context.read_run(run).await;
    }
    let restored = RestoredRun::from_events(context, run, &mut events).await?.complete()?;
    let RestoredRun { header, progress, secrets, .. } = restored;
    let step = choose_step(&progress, request.step.as_deref())?;
    let plan = resolver.load_plan(&header, &row.choices).await?;
    check_outputs(&plan, &step, &request, &secrets)?;
    let by = caller.principal();
    let mut decisions = Vec::new();
    if request.decision == StepResolution::Set {
        let (by, row, header) = (&by, &row, &header);
        let set = SetOutputs { by, run, row, header, plan: &plan, step: &step };
        let asked = set.judge(context, &request.outputs, &secrets).await?;
        decisions = asked.decisions;
        request.outputs = asked.verdict?.into_inner();
    }
    let ResumeRequest { decision, outputs, .. } = request;
    let journal = context.journal_without_lease(state, row.epoch, secrets);
    let execution_id = execution_id(run, &step);
    for decision in decisions {
        // Awaited: of two callers at the same time, the later one is refused with its first event.
        let decided = EventKind::Decided { step: step.clone(), execution_id, decision };
        journal.commit(decided).await?;
    }
    tracing::info!(%run, step, ?decision, principal = %row.tenant, %by, "a step was resolved");
    journal
        .commit(EventKind::StepResolved { step, decision, outputs, resolved_by: Some(by) })
        .await?;
    scheduler.take_over().await?;
    context.read_run(run).await
}

/// The error of a run that does not wait for a person, or that another caller has just changed.
fn in_progress(run: Uuid) -> Error {
    Error::new(ErrorKind::WrongState, format!("run {run} is in progress"))
}

/// Outputs that a person sets on a step of a run that waits.
#[derive(Clone, Copy)]
struct SetOutputs<'a> {
    /// The person's principal.
    by: &'a Principal,
    run: Uuid,
    row: &'a RunRow,
    header: &'a RunHeader,
    plan: &'a ExecutionPlan,
    /// The path of the step.
    step: &'a str,
}

impl SetOutputs<'_> {
    /// Asks about outputs that a person sets, and returns those that may be used.
    async fn judge(
        self,
        context: &RunContext,
        outputs: &Map<String, Value>,
        secrets: &RunSecrets,
    ) -> Result<GateVerdict<Map<String, Value>>, Error> {
        let Self { by, run, row, header, plan, step: path } = self;
        let (unit, step) = find_step(plan, path)?;
        let Some(TaskStep { task, .. }) = step.action.as_task() else {
            return Err(Error::new(
                ErrorKind::Internal,
                format!("`{path}` is not a step that sends a request"),
            ));
        };
        let capability = unit.document.capability();
        let trace =
            RunTrace::from_caller(run, header.trace.as_deref(), context.sinks.exports_spans());
        let headers = || trace.headers(trace.step(path));
        let headers = context.config.telemetry.propagate.then(headers).unwrap_or_default();
        let asker = GuardedStep {
            principal: &row.tenant,
            run,
            session: &header.session,
            execution_id: execution_id(run, path),
            step: path,
            capability: &unit.pin,
            root: &plan.root.pin,
            description: &format!("{by} sets its outputs by hand. {}", capability.description),
            permissions: &capability.permissions,
            domains: &capability.domains,
            sources: None,
            secrets,
            trace: &&headers,
        };
        let asked = context.gate.ask_outputs(&asker, task, outputs.clone(), |made| {
            let decision = StepResolution::Set;
            let request = ResumeRequest { step: None, decision, outputs: made.clone() };
            check_outputs(plan, path, &request, secrets).map_err(|error| error.message)
        });
        let GateVerdict { mut decisions, verdict } = asked.await;
        decisions.iter_mut().for_each(|decision| secrets.mask_decision(decision));
        let verdict = verdict.map_err(|error| secrets.mask_error(error));
        if verdict.is_err() {
            // The journal of the run stays as it is; security events report the denial.
            context.sinks.export_decision(&StandaloneDecision {
                principal: by,
                id: run,
                subject: DecisionSubject::Outputs,
                decisions: &decisions,
                is_rejected: true,
                session: &header.session,
                capability: Some(&plan.root.pin),
                caller: header.trace.as_deref(),
                at: context.clock.now(),
            });
        }
        Ok(GateVerdict { decisions, verdict })
    }
}

/// Returns the step at a path from a journal.
fn find_step<'p>(plan: &'p ExecutionPlan, path: &str) -> Result<(&'p PlanUnit, &'p Step), Error> {
    plan.find_step(path).ok_or_else(|| {
        Error::new(ErrorKind::Internal, format!("`{path}` is not a step of the capability"))
    })
}

/// Rejects everything except a request to try the run again unchanged. If a request in it is not safe to
/// repeat, the run asks about it when it gets there.
fn check_retry(request: &ResumeRequest) -> Result<(), Error> {
    if request.decision == StepResolution::Repeat && request.outputs.is_empty() {
        return Ok(());
    }
    let message =
        "the whole run waits, not one of its steps, so only `repeat` without a step is possible";
    let hint = "Continue the run with `repeat`, or name the step with `step`. To approve a request that a \
                guardian holds back, use `a2s guardian approve ID`.";
    Err(Error::new(ErrorKind::BadRequest, message).with_hint(hint))
}

/// Returns the requested step, which must be one of the steps in doubt.
fn choose_step(progress: &RunProgress, wanted: Option<&str>) -> Result<String, Error> {
    let doubts: Vec<&str> = progress.unconfirmed_requests().map(|(step, _)| step).collect();
    let listed = || format!("Steps in doubt: `{}`.", doubts.join("`, `"));
    match (wanted, doubts.as_slice()) {
        (Some(wanted), doubts) if doubts.contains(&wanted) => Ok(wanted.to_owned()),
        (Some(wanted), _) => {
            let message = format!("`{}` is not in doubt", to_single_line(wanted, 200));
            Err(Error::new(ErrorKind::BadRequest, message).with_hint(listed()))
        }
        (None, [step]) => Ok((*step).to_owned()),
        (None, []) => Err(Error::new(ErrorKind::BadRequest, "no step of this run is in doubt")),
        (None, _) => {
            let message = "several steps are in doubt: name one of them with `step`";
            Err(Error::new(ErrorKind::BadRequest, message).with_hint(listed()))
        }
    }
}

/// Refuses outputs that the step does not have, and learns which ones are secret.
fn check_outputs(
    plan: &ExecutionPlan,
    path: &str,
    request: &ResumeRequest,
    secrets: &RunSecrets,
) -> Result<(), Error> {
    let given = &request.outputs;
    if given.is_empty() != (request.decision != StepResolution::Set) {
        let message = "`outputs` require the decision `set`, and `set` requires `outputs`";
        return Err(Error::new(ErrorKind::BadRequest, message));
    }
    let (unit, step) = find_step(plan, path)?;
    let outputs = step.action.outputs();
    let mut set = Map::new();
    for (name, value) in given {
        let Some(output) = outputs.iter().find(|output| output.dotted() == *name) else {
            let names: Vec<_> = outputs.iter().map(a2s::OutputMapping::dotted).collect();
            let message = format!("`{path}` does not set `{}`", to_single_line(name, 200));
            let hint = match names.as_slice() {
                [] => "The step has no outputs: decide `skip`.".to_owned(),
                names => format!("The outputs of the step are `{}`.", names.join("`, `")),
            };
            return Err(Error::new(ErrorKind::BadRequest, message).with_hint(hint));
        };
        output.set(&mut set, value.clone());
    }
    unit.sensitive.secret_values(&set).into_iter().try_for_each(|value| secrets.learn(value))
}
