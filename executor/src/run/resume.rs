//! Going on with a run that waits, because a person says what became of a request, or lets it be tried
//! again.

use std::sync::Arc;

use a2s::{Step, TaskStep, to_single_line};
use a2s_api::{Caller, EventKind, Principal, ResumeRequest, Run, RunStatus, StepResolution};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::{RunService, ended, not_found};
use crate::clock::execution_id;
use crate::error::{Error, ErrorKind};
use crate::gate::{GateVerdict, GuardedStep};
use crate::journal::run_state::{RunHeader, RunProgress, RunState};
use crate::journal::sealed_values::restore_values;
use crate::journal::store::RunRow;
use crate::plan::{ExecutionPlan, PlanUnit};
use crate::secrets::RunSecrets;
use crate::telemetry::{DecisionSubject, RunTrace, StandaloneDecision};

impl RunService {
    /// Records the outcome of a request with an unknown effect, and lets the run continue. A run that was
    /// set aside continues without that. Outputs that the caller sets pass the guardian first, as those of
    /// the service would have.
    ///
    /// # Errors
    /// Returns [`ErrorKind::WrongState`] when the run does not wait, and [`ErrorKind::BadRequest`] when the
    /// step is not in doubt or does not have such outputs.
    pub(crate) async fn resume_run(
        self: &Arc<Self>,
        run: Uuid,
        mut request: ResumeRequest,
        caller: &Caller,
    ) -> Result<Run, Error> {
        self.check_open()?;
        let row = self.find(run, caller).await?;
        if row.status.is_final() {
            return Err(ended(run, row.status));
        }
        if row.status != RunStatus::Waiting {
            return Err(Error::new(ErrorKind::WrongState, format!("run {run} is in progress")));
        }
        let mut events = self.read_all(run).await?;
        let state = RunState::from_events(&events).ok_or_else(|| not_found(run))?;
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
            self.requeue_run(state, row.epoch).await?;
            return self.get(run).await;
        }
        let sealed = self.store.read_sealed(run).await?;
        let secrets = Arc::new(RunSecrets::new(self.ids.random_bytes()));
        let wait_points = restore_values(&mut events, &sealed, &self.vault, &secrets)?;
        let progress = RunProgress::with_wait_points(&events, wait_points);
        let step = choose_step(&progress, request.step.as_deref())?;

        let start = RunHeader::from_events(&events).ok_or_else(|| not_found(run))?;
        let plan = self.load_plan(&start, &row.choices).await?;
        check_outputs(&plan, &step, &request, &secrets)?;
        let by = caller.principal();
        let mut decisions = Vec::new();
        if request.decision == StepResolution::Set {
            let set =
                SetOutputs { by: &by, run, row: &row, start: &start, plan: &plan, step: &step };
            let asked = self.judge_outputs(set, &request.outputs, &secrets).await?;
            decisions = asked.decisions;
            request.outputs = asked.verdict?.into_inner();
        }
        let ResumeRequest { decision, outputs, .. } = request;
        let journal = self.journal_without_lease(state, row.epoch, secrets);
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
        self.take_over().await?;
        self.get(run).await
    }

    /// Asks about outputs that a person sets, and returns those that may be used.
    async fn judge_outputs(
        &self,
        set: SetOutputs<'_>,
        outputs: &Map<String, Value>,
        secrets: &RunSecrets,
    ) -> Result<GateVerdict<Map<String, Value>>, Error> {
        let SetOutputs { by, run, row, start, plan, step: path } = set;
        let (unit, step) = find_step(plan, path)?;
        let Some(TaskStep { task, .. }) = step.action.as_task() else {
            return Err(Error::new(
                ErrorKind::Internal,
                format!("`{path}` is not a step that sends a request"),
            ));
        };
        let capability = unit.document.capability();
        let trace = RunTrace::from_caller(run, start.trace.as_deref(), self.sinks.exports_spans());
        let headers = || trace.headers(trace.step(path));
        let headers = self.config.telemetry.propagate.then(headers).unwrap_or_default();
        let asker = GuardedStep {
            principal: &row.tenant,
            run,
            session: &start.session,
            execution_id: execution_id(run, path),
            step: path,
            capability: &unit.pin,
            root: &plan.root.pin,
            description: &format!("{by} sets its outputs by hand. {}", capability.description),
            permissions: &capability.permissions,
            domains: &capability.domains,
            secrets,
            trace: &&headers,
        };
        let asked = self.gate.ask_outputs(&asker, task, outputs.clone(), |made| {
            let decision = StepResolution::Set;
            let request = ResumeRequest { step: None, decision, outputs: made.clone() };
            check_outputs(plan, path, &request, secrets).map_err(|error| error.message)
        });
        let GateVerdict { mut decisions, verdict } = asked.await;
        decisions.iter_mut().for_each(|decision| secrets.mask_decision(decision));
        let verdict = verdict.map_err(|error| secrets.mask_error(error));
        if verdict.is_err() {
            // The journal of the run stays as it is; security events report the denial.
            self.sinks.export_decision(&StandaloneDecision {
                principal: by,
                id: run,
                subject: DecisionSubject::Outputs,
                decisions: &decisions,
                is_rejected: true,
                session: &start.session,
                capability: Some(&plan.root.pin),
                caller: start.trace.as_deref(),
                at: self.clock.now(),
            });
        }
        Ok(GateVerdict { decisions, verdict })
    }
}

/// Outputs that a person sets on a step of a run that waits.
#[derive(Clone, Copy)]
struct SetOutputs<'a> {
    /// The person's principal.
    by: &'a Principal,
    run: Uuid,
    row: &'a RunRow,
    start: &'a RunHeader,
    plan: &'a ExecutionPlan,
    /// The path of the step.
    step: &'a str,
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
