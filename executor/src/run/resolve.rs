//! Going on with a run that waits, because a person says what became of a request, or lets it be tried
//! again.

use std::sync::Arc;

use a2s::api::{EventKind, ResumeRequest, Run, RunStatus, StepResolution};
use a2s::{Action, Caller, Principal, Step};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::{Runs, ended, not_found};
use crate::clock::execution_id;
use crate::error::{Error, Kind};
use crate::gate::{Asked, Asker};
use crate::journal::run_state::{Progress, RunState, Start};
use crate::journal::sealed_values::reveal;
use crate::journal::store::RunRow;
use crate::plan::{Plan, Unit};
use crate::secrets::Secrets;
use crate::telemetry::{Aside, Matter, RunTrace};
use a2s::one_line;

impl Runs {
    /// Records the outcome of a request with an unknown effect, and lets the run continue. A run that was
    /// set aside continues without that. Outputs that the caller sets pass the guardian first, as those of
    /// the service would have.
    ///
    /// # Errors
    /// [`Kind::WrongState`] when the run does not wait, [`Kind::BadRequest`] when the step is not in doubt
    /// or does not have such outputs.
    pub(crate) async fn go_on(
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
            return Err(Error::new(Kind::WrongState, format!("run {run} is under way")));
        }
        let mut events = self.read_all(run).await?;
        let state = RunState::of(&events).ok_or_else(|| not_found(run))?;
        let why = state.to_run().error.and_then(|error| Kind::of_code(&error.code));
        let is_whole = matches!(
            why,
            Some(Kind::TakenOverTooOften | Kind::ApprovalRequired | Kind::RestoredFromBackup)
        );
        if is_whole && request.step.is_none() {
            check_again(&request)?;
            tracing::info!(%run, "a run that waited as a whole goes on");
            self.queue_again(state, row.epoch).await?;
            return self.get(run).await;
        }
        let sealed = self.store.read_sealed(run).await?;
        let secrets = Arc::new(Secrets::new(self.ids.random()));
        let wait_points = reveal(&mut events, &sealed, &self.vault, &secrets)?;
        let progress = Progress::with_wait_points(&events, wait_points);
        let step = choose(&progress, request.step.as_deref())?;

        let start = Start::of(&events).ok_or_else(|| not_found(run))?;
        let plan = self.recall_plan(&start, &row.choices).await?;
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
        let journal = self.journal_aside(state, row.epoch, secrets);
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

    /// Asks about outputs that a person sets, and gives those that may be used.
    async fn judge_outputs(
        &self,
        set: SetOutputs<'_>,
        outputs: &Map<String, Value>,
        secrets: &Secrets,
    ) -> Result<Asked<Map<String, Value>>, Error> {
        let SetOutputs { by, run, row, start, plan, step: path } = set;
        let (unit, step) = find_step(plan, path)?;
        let Action::Task { task, .. } = &step.action else {
            return Err(Error::new(Kind::Internal, format!("`{path}` sends nothing")));
        };
        let capability = unit.document.capability();
        let trace = RunTrace::of(run, start.trace.as_deref(), self.listeners.take_spans());
        let headers = || trace.headers(trace.step(path));
        let headers = self.config.telemetry.propagate.then(headers).unwrap_or_default();
        let asker = Asker {
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
        let Asked { mut decisions, verdict } = asked.await;
        decisions.iter_mut().for_each(|decision| secrets.mask_decision(decision));
        let verdict = verdict.map_err(|error| secrets.mask_error(error));
        if verdict.is_err() {
            // The journal of the run stays as it is; security events tell of the denial.
            self.listeners.tell_aside(&Aside {
                principal: by,
                id: run,
                matter: Matter::Outputs,
                decisions: &decisions,
                is_refused: true,
                session: &start.session,
                capability: Some(&plan.root.pin),
                caller: start.trace.as_deref(),
                at: self.clock.now(),
            });
        }
        Ok(Asked { decisions, verdict })
    }
}

/// Outputs that a person sets on a step of a run that waits.
#[derive(Clone, Copy)]
struct SetOutputs<'a> {
    /// The person's principal.
    by: &'a Principal,
    run: Uuid,
    row: &'a RunRow,
    start: &'a Start,
    plan: &'a Plan,
    /// The path of the step.
    step: &'a str,
}

/// The step at a path that a journal names.
fn find_step<'p>(plan: &'p Plan, path: &str) -> Result<(&'p Unit, &'p Step), Error> {
    plan.step_at(path)
        .ok_or_else(|| Error::new(Kind::Internal, format!("`{path}` is no step of the capability")))
}

/// Rejects everything except a request to try the run again unchanged. If a request in it is not safe to
/// repeat, the run asks about it when it gets there.
fn check_again(request: &ResumeRequest) -> Result<(), Error> {
    if request.decision == StepResolution::Repeat && request.outputs.is_empty() {
        return Ok(());
    }
    let message = "this run waits as a whole, so nothing of a step can be decided";
    let hint = "Let it go on with `repeat`, or name the step that is meant with `step`; what a \
                guardian wants approved is approved with `a2s guardian approve ID`.";
    Err(Error::new(Kind::BadRequest, message).hint(hint))
}

/// The step that is meant, among those that are in doubt.
fn choose(progress: &Progress, wanted: Option<&str>) -> Result<String, Error> {
    let doubts: Vec<&str> = progress.doubts().map(|(step, _)| step).collect();
    let listed = || format!("in doubt: `{}`", doubts.join("`, `"));
    match (wanted, doubts.as_slice()) {
        (Some(wanted), doubts) if doubts.contains(&wanted) => Ok(wanted.to_owned()),
        (Some(wanted), _) => {
            let message = format!("`{}` is not in doubt", one_line(wanted, 200));
            Err(Error::new(Kind::BadRequest, message).hint(listed()))
        }
        (None, [step]) => Ok((*step).to_owned()),
        (None, []) => Err(Error::new(Kind::BadRequest, "no step of this run is in doubt")),
        (None, _) => {
            let message = "several steps are in doubt: say which one is meant with `step`";
            Err(Error::new(Kind::BadRequest, message).hint(listed()))
        }
    }
}

/// Refuses outputs that the step does not have, and learns which ones are secret.
fn check_outputs(
    plan: &Plan,
    path: &str,
    request: &ResumeRequest,
    secrets: &Secrets,
) -> Result<(), Error> {
    let given = &request.outputs;
    if given.is_empty() != (request.decision != StepResolution::Set) {
        let message = "`outputs` go with the decision `set`, and with no other";
        return Err(Error::new(Kind::BadRequest, message));
    }
    let (unit, step) = find_step(plan, path)?;
    let outputs = step.action.outputs();
    let mut set = Map::new();
    for (name, value) in given {
        let Some(output) = outputs.iter().find(|output| output.dotted() == *name) else {
            let names: Vec<_> = outputs.iter().map(a2s::Output::dotted).collect();
            let message = format!("`{path}` does not set `{}`", one_line(name, 200));
            let hint = match names.as_slice() {
                [] => "It sets nothing: decide `skip`.".to_owned(),
                names => format!("It sets `{}`.", names.join("`, `")),
            };
            return Err(Error::new(Kind::BadRequest, message).hint(hint));
        };
        output.set(&mut set, value.clone());
    }
    unit.sensitive.values(&set).into_iter().try_for_each(|value| secrets.learn(value))
}
