//! Replays a run: its plan, or that of another version, is walked with the recorded responses, and the
//! differences from the recording are reported. No service and no guardian is asked.

mod diff;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use a2s_api::{EventKind, ReplayRequest, ReplayResponse, RunError, RunEvent, parent_path};
use serde_json::Map;
use uuid::Uuid;

use super::context::RunContext;
use super::dry_run::DryRun;
use super::not_found;
use super::resolver::RunResolver;
use crate::engine::{CannedResponses, TaskRequest};
use crate::error::{Error, ErrorKind};
use crate::journal::lock;
use crate::journal::recorded_exchange::{ExchangeRequest, RecordedExchange};
use crate::journal::run_state::{RecordedStep, RunHeader, RunProgress, fold_events};
use crate::journal::store::RunRow;
use crate::registry_client::ResolveRequest;
use crate::step_result::StepResult;
use diff::ReplaySide;

/// Replays a run, and returns the differences from the recording.
///
/// # Errors
/// Returns [`ErrorKind::WrongState`] while the run is under way, and the errors of resolving `against`.
pub(super) async fn replay_run(
    context: &RunContext,
    resolver: &RunResolver,
    (run, row): (Uuid, &RunRow),
    request: &ReplayRequest,
) -> Result<ReplayResponse, Error> {
    let events = context.read_events(run).await?;
    let state = fold_events(&events).ok_or_else(|| not_found(run))?;
    if state.status.is_in_progress() {
        return Err(Error::new(ErrorKind::WrongState, format!("run {run} is in progress"))
            .with_hint("Wait until the run has ended, or cancel it."));
    }
    let start = RunHeader::from_events(&events).ok_or_else(|| not_found(run))?;
    let plan = match &request.against {
        None => resolver.load_plan(&start, &row.choices).await?,
        Some(target) => {
            let version = target.version.as_deref();
            let (name, digest) = (&target.name, target.digest);
            resolver.resolve(ResolveRequest { name, version, digest, lock: None }).await?.plan
        }
    };
    let exchanges = context.store.read_exchanges(run).await?;
    let recorded = RunProgress::from_events(&events);
    let recording = RunRecording { exchanges, steps: &recorded, asked: Mutex::default() };

    // The inputs that the version takes now. Others are differences of their own.
    let taken = |name: &String| plan.root.inputs.contains_key(name);
    let (inputs, refused): (Map<_, _>, Map<_, _>) =
        start.inputs.clone().into_iter().partition(|(name, _)| taken(name));
    let resolved = resolved_steps(&events);
    let rehearsal = DryRun {
        run,
        session: &start.session,
        plan: &plan,
        progress: &resolved,
        inputs: &inputs,
        answers: &recording,
        evaluations: &context.evaluations,
        limits: &context.config.limits,
        clock: Arc::clone(&context.clock),
        ids: Arc::clone(&context.ids),
    };
    let replayed = rehearsal.walk().await;

    let RunRecording { exchanges, asked, .. } = recording;
    let questions = exchanges.into_iter().map(|(step, exchange)| (step, exchange.question));
    let then = ReplaySide::from_events(&events, questions.collect());
    let asked = asked.into_inner().unwrap_or_else(PoisonError::into_inner);
    let now = ReplaySide::from_events(&replayed, asked).with_finished(resolved);
    Ok(diff::compare_runs(run, start.capability, plan.root.pin.clone(), &then, &now, &refused))
}

/// The responses of a recorded run.
#[derive(Debug)]
struct RunRecording<'r> {
    exchanges: BTreeMap<String, RecordedExchange>,
    /// The recorded end of each step.
    steps: &'r RunProgress,
    /// The requests that the steps make now.
    asked: Mutex<BTreeMap<String, ExchangeRequest>>,
}

impl CannedResponses for RunRecording<'_> {
    fn respond(&self, question: &TaskRequest<'_>) -> Result<StepResult, RunError> {
        let TaskRequest { step, contract, inputs } = question;
        let asked = ExchangeRequest::from_task(contract.task(), inputs.shown());
        lock(&self.asked).insert((*step).to_owned(), asked);
        let failed = |kind: ErrorKind, message: String| {
            Error::new(kind, message).to_run_error(Some(step), None, true)
        };
        let kept = self.exchanges.get(*step).and_then(|exchange| exchange.answer.as_ref());
        if let Some(kept) = kept {
            return kept.to_step_result().map_err(|bytes| {
                let message =
                    format!("the response of `{step}` had {bytes} bytes and was not recorded");
                failed(ErrorKind::NotRecorded, message)
            });
        }
        let recorded = self.steps.steps.get(*step);
        if let Some(error) = recorded.and_then(|recorded| recorded.error.clone()) {
            return Err(error);
        }
        if self.was_left_out(step) {
            return Err(failed(
                ErrorKind::Cancelled,
                "the step did not run in the recorded run".to_owned(),
            ));
        }
        Err(failed(ErrorKind::NotRecorded, format!("no response of `{step}` was recorded")))
    }
}

impl RunRecording<'_> {
    /// Returns true when a step did not run because of something around it: it was skipped, or it is inside
    /// a step that did not finish.
    fn was_left_out(&self, step: &str) -> bool {
        let is_left = |recorded: &RecordedStep| recorded.skipped || recorded.error.is_some();
        let mut outwards = std::iter::successors(Some(step), |path| parent_path(path));
        outwards.any(|path| self.steps.steps.get(path).is_some_and(is_left))
    }
}

/// The steps with an outcome that a person has set: their responses are unknown.
fn resolved_steps(events: &[RunEvent]) -> RunProgress {
    let is_resolved = |event: &&RunEvent| matches!(event.kind, EventKind::StepResolved { .. });
    let mut steps = RunProgress::from_events(events).steps;
    let mut kept = RunProgress::default();
    for event in events.iter().filter(is_resolved) {
        if let EventKind::StepResolved { step, .. } = &event.kind
            && let Some(recorded) = steps.remove(step)
            && recorded.outputs.is_some()
        {
            kept.steps.insert(step.clone(), recorded);
        }
    }
    kept
}
