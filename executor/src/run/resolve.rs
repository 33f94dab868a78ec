//! Going on with a run that waits, because a person says what became of a request, or lets it be tried
//! again.

use std::sync::Arc;

use a2s::api::{EventKind, Resolution, ResumeRequest, Run, RunStatus};
use serde_json::Map;
use uuid::Uuid;

use super::fold::{Progress, RunState, Start};
use super::hidden::reveal;
use super::{Runs, ended, not_found};
use crate::error::{Error, Kind};
use crate::plan::Plan;
use crate::request::one_line;
use crate::secrets::Secrets;

impl Runs {
    /// Records what became of a request whose outcome is not known, and lets the run go on. One that was
    /// set aside goes on without that.
    ///
    /// # Errors
    /// [`Kind::WrongState`] when the run does not wait, [`Kind::BadRequest`] when the step is not in
    /// doubt or does not have such outputs.
    pub(crate) async fn go_on(
        self: &Arc<Self>,
        run: Uuid,
        request: ResumeRequest,
    ) -> Result<Run, Error> {
        self.check_open()?;
        let row = self.store.read_run(run).await?.ok_or_else(|| not_found(run))?;
        if row.status.is_final() {
            return Err(ended(run, row.status));
        }
        if row.status != RunStatus::Waiting {
            return Err(Error::new(Kind::WrongState, format!("run {run} is under way")));
        }
        let mut events = self.read_all(run).await?;
        let state = RunState::of(&events).ok_or_else(|| not_found(run))?;
        let why = state.to_run().error.and_then(|error| Kind::of_code(&error.code));
        if why == Some(Kind::TakenOverTooOften) && request.step.is_none() {
            check_again(&request)?;
            let journal = self.journal_aside(state, row.epoch, Arc::default());
            tracing::info!(%run, "a run that was set aside goes on");
            journal.commit(EventKind::RunQueued {}).await?;
            self.places.stir();
            self.take_over().await?;
            return self.get(run).await;
        }
        let sealed = self.store.read_sealed(run).await?;
        let secrets = Arc::new(Secrets::new(self.ids.random()));
        reveal(&mut events, &sealed, &self.vault, &secrets)?;
        let progress = Progress::of(&events);
        let step = choose(&progress, request.step.as_deref())?;

        let start = Start::of(&events).ok_or_else(|| not_found(run))?;
        let plan = self.recall_plan(&start, &row.choices).await?;
        check_outputs(&plan, &step, &request, &secrets)?;
        let ResumeRequest { decision, outputs, .. } = request;
        let journal = self.journal_aside(state, row.epoch, secrets);
        tracing::info!(%run, step, ?decision, "a step was resolved");
        journal.commit(EventKind::StepResolved { step, decision, outputs }).await?;
        self.take_over().await?;
        self.get(run).await
    }
}

/// Refuses everything but that a run is tried again as it is. What is not safe to repeat in it is asked
/// about when it comes to that.
fn check_again(request: &ResumeRequest) -> Result<(), Error> {
    if request.decision == Resolution::Repeat && request.outputs.is_empty() {
        return Ok(());
    }
    let message = "this run was set aside as a whole, so nothing of a step can be decided";
    let hint = "Let it go on with `repeat`, or name the step that is meant with `step`.";
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
    if given.is_empty() != (request.decision != Resolution::Set) {
        let message = "`outputs` go with the decision `set`, and with no other";
        return Err(Error::new(Kind::BadRequest, message));
    }
    let (unit, step) = plan.step_at(path).ok_or_else(|| {
        Error::new(Kind::Internal, format!("`{path}` is no step of the capability"))
    })?;
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
