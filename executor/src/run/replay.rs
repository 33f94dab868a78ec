//! Replays a run: its plan, or that of another version, is walked with the recorded responses, and the
//! differences from the recording are reported. No service and no guardian is asked.

mod drift;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use a2s::Caller;
use a2s::api::{Event, EventKind, ReplayRequest, ReplayResponse, RunError, around};
use serde_json::Map;
use uuid::Uuid;

use super::rehearse::Rehearsal;
use super::{Runs, lock, not_found};
use crate::engine::{Answer, Answers, Question};
use crate::error::{Error, Kind};
use crate::journal::recorded_exchange::{Asked, Exchange};
use crate::journal::run_state::{Progress, Recorded, Start, fold};
use crate::registry_client::Wanted;
use drift::Side;

impl Runs {
    /// Replays a run, and returns the differences from the recording.
    ///
    /// # Errors
    /// [`Kind::WrongState`] while the run is under way; the errors of resolving `against`.
    pub(crate) async fn replay(
        &self,
        run: Uuid,
        request: &ReplayRequest,
        caller: &Caller,
    ) -> Result<ReplayResponse, Error> {
        let row = self.find(run, caller).await?;
        let events = self.read_all(run).await?;
        let state = fold(&events).ok_or_else(|| not_found(run))?;
        if state.status.is_under_way() {
            return Err(Error::new(Kind::WrongState, format!("run {run} is under way"))
                .hint("Wait until it has ended, or cancel it."));
        }
        let start = Start::of(&events).ok_or_else(|| not_found(run))?;
        let plan = match &request.against {
            None => self.recall_plan(&start, &row.choices).await?,
            Some(target) => {
                let version = target.version.as_deref();
                let (name, digest) = (&target.name, target.digest);
                self.resolve(Wanted { name, version, digest, lock: None }).await?.1
            }
        };
        let exchanges = self.store.read_exchanges(run).await?;
        let recorded = Progress::of(&events);
        let recording = Recording { exchanges, steps: &recorded, asked: Mutex::default() };

        // What the version takes now. What it takes no more is a difference of its own.
        let taken = |name: &String| plan.root.inputs.contains_key(name);
        let (inputs, refused): (Map<_, _>, Map<_, _>) =
            start.inputs.clone().into_iter().partition(|(name, _)| taken(name));
        let resolved = resolved(&events);
        let rehearsal = Rehearsal {
            run,
            session: &start.session,
            plan: &plan,
            progress: &resolved,
            inputs: &inputs,
            answers: &recording,
            evaluations: &self.evaluations,
            limits: &self.config.limits,
            clock: Arc::clone(&self.clock),
            ids: Arc::clone(&self.ids),
        };
        let replayed = rehearsal.walk().await;

        let Recording { exchanges, asked, .. } = recording;
        let questions = exchanges.into_iter().map(|(step, exchange)| (step, exchange.question));
        let then = Side::of(&events, questions.collect());
        let asked = asked.into_inner().unwrap_or_else(PoisonError::into_inner);
        let now = Side::of(&replayed, asked).with_done(resolved);
        Ok(drift::compare(run, start.capability, plan.root.pin.clone(), &then, &now, &refused))
    }
}

/// The answers of a recorded run.
#[derive(Debug)]
struct Recording<'r> {
    exchanges: BTreeMap<String, Exchange>,
    /// The recorded end of each step.
    steps: &'r Progress,
    /// The requests that the steps make now.
    asked: Mutex<BTreeMap<String, Asked>>,
}

impl Answers for Recording<'_> {
    fn answer(&self, question: &Question<'_>) -> Result<Answer, RunError> {
        let Question { step, contract, inputs } = question;
        let asked = Asked::of(contract.task(), inputs.shown);
        lock(&self.asked).insert((*step).to_owned(), asked);
        let failed = |kind: Kind, message: String| {
            Error::new(kind, message).to_run_error(Some(step), None, true)
        };
        let kept = self.exchanges.get(*step).and_then(|exchange| exchange.answer.as_ref());
        if let Some(kept) = kept {
            return kept.to_answer().map_err(|bytes| {
                let message = format!("the answer of `{step}` had {bytes} bytes and was not kept");
                failed(Kind::NotRecorded, message)
            });
        }
        let recorded = self.steps.steps.get(*step);
        if let Some(error) = recorded.and_then(|recorded| recorded.error.clone()) {
            return Err(error);
        }
        if self.was_left_out(step) {
            return Err(failed(Kind::Cancelled, "it was not run then".to_owned()));
        }
        Err(failed(Kind::NotRecorded, format!("no answer of `{step}` was recorded")))
    }
}

impl Recording<'_> {
    /// Returns true when a step did not run because of something around it: it was skipped, or it is inside
    /// a step that did not finish.
    fn was_left_out(&self, step: &str) -> bool {
        let is_left = |recorded: &Recorded| recorded.skipped || recorded.error.is_some();
        let mut outwards = std::iter::successors(Some(step), |path| around(path));
        outwards.any(|path| self.steps.steps.get(path).is_some_and(is_left))
    }
}

/// The steps with an outcome that a person has set: their responses are unknown.
fn resolved(events: &[Event]) -> Progress {
    let is_resolved = |event: &&Event| matches!(event.kind, EventKind::StepResolved { .. });
    let mut steps = Progress::of(events).steps;
    let mut kept = Progress::default();
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
