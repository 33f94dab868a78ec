//! Walks a plan.
//!
//! The engine is the only place that decides what happens next in a run, and it records each
//! decision in the journal first. A run that was left in the middle is walked again from the
//! start: steps whose end is recorded give their outputs back without doing anything.

mod answer;
mod halt;
mod task;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use a2s::api::{EventKind, RunError};
use a2s::{Action, Block, Condition, Output, Step, Template};
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt as _};
use indexmap::IndexMap;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::clock::{Clock, Ids, milliseconds_between};
use crate::error::{Error, Kind};
use crate::gate::Gate;
use crate::metrics::Metrics;
use crate::outbound::{Outbound, Retries};
use crate::plan::{Plan, Unit, join};
use crate::run::fold::{Progress, Recorded, failed_status};
use crate::run::journal::Journal;
use crate::scope::Scope;

use answer::Answer;
pub(crate) use halt::{Halt, Why};

/// What walking one run needs.
#[derive(Debug)]
pub(crate) struct Engine<'r> {
    /// The run.
    pub(crate) run: Uuid,
    /// Its session.
    pub(crate) session: &'r str,
    /// What is walked.
    pub(crate) plan: &'r Plan,
    /// How far the run had come when the walk began.
    pub(crate) progress: &'r Progress,
    /// Requests that may have changed something, those before the walk included.
    pub(crate) effects: AtomicUsize,
    /// Where everything is recorded.
    pub(crate) journal: &'r Journal,
    /// Who is asked.
    pub(crate) gate: &'r Gate,
    /// The way out.
    pub(crate) outbound: &'r Outbound,
    /// When to try again.
    pub(crate) retries: &'r Retries,
    /// The clock.
    pub(crate) clock: &'r Arc<dyn Clock>,
    /// Randomness, for the jitter of pauses.
    pub(crate) ids: &'r Arc<dyn Ids>,
    /// What is counted.
    pub(crate) metrics: &'r Metrics,
    /// Children of one parallel step at the same time.
    pub(crate) max_parallel: usize,
}

/// Why a walk does not go on.
#[derive(Debug)]
pub(crate) enum Stop {
    /// A step failed, or was denied.
    Failed(RunError),
    /// The outcome of a request is not known, and repeating it is not safe.
    Waiting(RunError),
    /// It was told to stop.
    Halted(Why),
    /// Nothing can be recorded any more.
    Broken(Error),
}

impl<'r> Engine<'r> {
    /// Walks the plan and gives its result.
    ///
    /// # Errors
    /// Why it stopped. The end of each step is recorded then; the end of the run is not.
    pub(crate) async fn walk(
        &self,
        inputs: &Map<String, Value>,
        halt: &Halt,
    ) -> Result<Value, Stop> {
        self.run_unit(&self.plan.root, "", inputs, halt).await
    }

    /// Runs a capability in a scope of its own.
    async fn run_unit(
        &self,
        unit: &'r Unit,
        path: &str,
        inputs: &Map<String, Value>,
        halt: &Halt,
    ) -> Result<Value, Stop> {
        let capability = unit.document.capability();
        if let Some(name) = unit.missing(inputs).first() {
            let message = format!("`{}` has no value for its input `{name}`", capability.name);
            let hint = "Set it in a step before this one, or map it in `input_mapping`.";
            return Err(self.failed(path, &Error::new(Kind::MissingInput, message).hint(hint)));
        }
        let mut scope = Scope::enter(capability, inputs);
        self.run_block(unit, path, &capability.execution, &mut scope, halt).await?;
        match &capability.output {
            None => Ok(scope.result(capability)),
            Some(output) => output.render(scope.variables()).map_err(|missing| {
                let error = Error::new(Kind::TemplateError, missing.to_string());
                self.failed(path, &error.at(format_args!("`output` of `{}`", capability.name)))
            }),
        }
    }

    async fn run_block(
        &self,
        unit: &'r Unit,
        path: &str,
        block: &'r Block,
        scope: &mut Scope<'r>,
        halt: &Halt,
    ) -> Result<(), Stop> {
        match block {
            Block::Sequence(steps) => self.run_sequence(unit, path, steps, scope, halt).await,
            Block::Parallel { steps, .. } => self.run_parallel(unit, path, steps, scope, halt).await,
            Block::Condition { condition, if_true, if_false } => {
                let holds = self.decide(path, condition, scope)?;
                let (taken, skipped) =
                    if holds { (if_true, if_false) } else { (if_false, if_true) };
                for step in skipped {
                    let reason = format!("`{}` is {holds}", condition.source());
                    self.skip(&join(path, step.id.as_str()), reason);
                }
                self.run_sequence(unit, path, taken, scope, halt).await
            }
        }
    }

    async fn run_sequence(
        &self,
        unit: &'r Unit,
        path: &str,
        steps: &'r [Step],
        scope: &mut Scope<'r>,
        halt: &Halt,
    ) -> Result<(), Stop> {
        for step in steps {
            self.run_step(unit, path, step, scope, halt).await?;
        }
        Ok(())
    }

    /// Runs steps at the same time. All of them are awaited, whatever becomes of them, so that none
    /// is forgotten while its request is under way.
    async fn run_parallel(
        &self,
        unit: &'r Unit,
        path: &str,
        steps: &'r [Step],
        scope: &mut Scope<'r>,
        halt: &Halt,
    ) -> Result<(), Stop> {
        let halt = halt.child();
        let mut walks: Vec<BoxFuture<'_, _>> = Vec::with_capacity(steps.len());
        for (index, step) in steps.iter().enumerate() {
            let mut scope = scope.snapshot();
            let halt = &halt;
            walks.push(Box::pin(async move {
                let ended = self.run_step(unit, path, step, &mut scope, halt).await;
                (index, scope, ended)
            }));
        }
        let mut walks = stream::iter(walks).buffer_unordered(self.max_parallel.max(1));
        let mut scopes = Vec::with_capacity(steps.len());
        let mut stop: Option<Stop> = None;
        while let Some((index, scope, ended)) = walks.next().await {
            match ended {
                Ok(()) => scopes.push((index, scope)),
                Err(next) => {
                    if matches!(next, Stop::Failed(_) | Stop::Broken(_)) {
                        halt.stop_siblings();
                    }
                    stop = match stop {
                        Some(first) if first.rank() >= next.rank() => Some(first),
                        _ => Some(next),
                    };
                }
            }
        }
        if let Some(stop) = stop {
            return Err(stop);
        }
        // In the order of the document, whichever ended first: the same run always ends with the
        // same variables.
        scopes.sort_by_key(|(index, _)| *index);
        scopes.into_iter().for_each(|(_, other)| scope.merge(other));
        Ok(())
    }

    /// How a condition comes out. What was decided once holds after a restart.
    fn decide(&self, path: &str, condition: &Condition, scope: &Scope<'_>) -> Result<bool, Stop> {
        if let Some(holds) = self.progress.branches.get(path) {
            return Ok(*holds);
        }
        let holds = condition.evaluate(scope.variables()).map_err(|error| {
            let error = Error::new(Kind::ConditionError, error.to_string());
            self.failed(path, &error.at("condition"))
        })?;
        self.journal.note(EventKind::BranchTaken { step: path.to_owned(), value: holds });
        Ok(holds)
    }

    /// Runs a step, unless its end is recorded. Boxed, because steps contain steps.
    fn run_step<'a>(
        &'a self,
        unit: &'r Unit,
        around: &'a str,
        step: &'r Step,
        scope: &'a mut Scope<'r>,
        halt: &'a Halt,
    ) -> BoxFuture<'a, Result<(), Stop>> {
        Box::pin(async move {
            let path = join(around, step.id.as_str());
            let recorded = self.progress.steps.get(&path);
            if let Some(outputs) = recorded.and_then(|recorded| recorded.outputs.as_ref()) {
                scope.restore(step.action.outputs(), outputs);
                return match &step.action {
                    // What the steps of a block set is recorded with them.
                    Action::Block(block) => self.run_block(unit, &path, block, scope, halt).await,
                    Action::Task { .. } | Action::Capability { .. } => Ok(()),
                };
            }
            if let Some(stop) = recorded.and_then(|recorded| recall_stop(&path, recorded)) {
                return Err(stop);
            }
            let started = recorded.and_then(|recorded| recorded.started_at);
            if let Some(why) = halt.why() {
                if why == Why::Sibling && started.is_none() {
                    self.skip(&path, Why::Sibling.words().to_owned());
                }
                return Err(Stop::Halted(why));
            }
            if started.is_none() {
                let kind = step.action.kind().to_owned();
                self.journal.note(EventKind::StepStarted { step: path.clone(), kind });
            }
            let began = started.unwrap_or_else(|| self.clock.now());
            let ended = self.act(unit, &path, step, scope, halt).await;
            let duration_ms = milliseconds_between(began, self.clock.now());
            let values = self.record_end(&path, step, ended, duration_ms).await?;
            values.into_iter().for_each(|(output, value)| scope.set(output, value));
            Ok(())
        })
    }

    /// Does what a step is for, and takes its outputs from the answer.
    async fn act(
        &self,
        unit: &'r Unit,
        path: &str,
        step: &'r Step,
        scope: &mut Scope<'r>,
        halt: &Halt,
    ) -> Result<Vec<(&'r Output, Value)>, Stop> {
        let (answer, outputs) = match &step.action {
            Action::Block(block) => {
                self.run_block(unit, path, block, scope, halt).await?;
                return Ok(Vec::new());
            }
            Action::Task { task, inputs, outputs } => {
                (self.run_task(unit, path, task, inputs, scope.variables(), halt).await?, outputs)
            }
            Action::Capability { capability, inputs, outputs } => {
                let Some(child) = unit.uses.get(capability) else {
                    let message = format!("`{capability}` is not part of the plan");
                    return Err(self.failed(path, &Error::new(Kind::Internal, message)));
                };
                let given = self.render_inputs(path, child, inputs, scope.variables())?;
                let body = self.run_unit(child, path, &given, halt).await?;
                (Answer { body, head: None }, outputs)
            }
        };
        let take = |output: &'r Output| match answer.take(output) {
            Ok(value) => Ok((output, value)),
            Err(error) => Err(self.failed(path, &error)),
        };
        outputs.iter().map(take).collect()
    }

    /// The inputs of a capability step: those that it maps, and the needs that it leaves to the
    /// variables of the same name.
    fn render_inputs(
        &self,
        path: &str,
        child: &Unit,
        mapped: &IndexMap<String, Template>,
        variables: &Map<String, Value>,
    ) -> Result<Map<String, Value>, Stop> {
        let mut inputs = Map::new();
        for (name, template) in mapped {
            let value = template.render(variables).map_err(|missing| {
                let error = Error::new(Kind::TemplateError, missing.to_string());
                self.failed(path, &error.at(format_args!("input `{name}`")))
            })?;
            inputs.insert(name.clone(), value);
        }
        for name in Unit::unmapped(child, |name| mapped.contains_key(name)) {
            let value = variables.get(name);
            inputs.extend(value.map(|value| (name.to_owned(), value.clone())));
        }
        Ok(inputs)
    }

    /// Records how a step ended. What it set may be read once this returns, not before.
    async fn record_end(
        &self,
        path: &str,
        step: &Step,
        ended: Result<Vec<(&'r Output, Value)>, Stop>,
        duration_ms: u64,
    ) -> Result<Vec<(&'r Output, Value)>, Stop> {
        let path = path.to_owned();
        let kind = step.action.kind();
        match ended {
            Ok(values) => {
                self.metrics.step_ended(kind, "succeeded", duration_ms);
                let outputs = values.iter().map(|(o, value)| (o.dotted(), value.clone())).collect();
                let event = EventKind::StepFinished { step: path, outputs, duration_ms };
                self.journal.commit(event).await.map_err(Stop::Broken)?;
                Ok(values)
            }
            Err(Stop::Failed(error)) => {
                self.metrics.step_ended(kind, failed_status(&error), duration_ms);
                let failed =
                    EventKind::StepFailed { step: path, error: error.clone(), duration_ms };
                self.journal.commit(failed).await.map_err(Stop::Broken)?;
                Err(Stop::Failed(error))
            }
            Err(Stop::Halted(why)) => {
                // A run that is left for later goes on with this step.
                if why != Why::Suspended {
                    self.metrics.step_ended(kind, "cancelled", duration_ms);
                    let error = Error::new(Kind::Cancelled, why.words());
                    let error = error.to_run_error(Some(&path), None, self.is_repeat_safe());
                    self.journal.note(EventKind::StepFailed { step: path, error, duration_ms });
                }
                Err(Stop::Halted(why))
            }
            Err(stop @ (Stop::Waiting(_) | Stop::Broken(_))) => Err(stop),
        }
    }

    fn skip(&self, path: &str, reason: String) {
        if !self.progress.steps.get(path).is_some_and(|recorded| recorded.skipped) {
            self.journal.note(EventKind::StepSkipped { step: path.to_owned(), reason });
        }
    }

    fn failed(&self, path: &str, error: &Error) -> Stop {
        let step = Some(path).filter(|path| !path.is_empty());
        Stop::Failed(error.to_run_error(step, None, self.is_repeat_safe()))
    }

    /// Whether nothing was changed by what the run has sent so far.
    pub(crate) fn is_repeat_safe(&self) -> bool {
        self.effects.load(Ordering::Relaxed) == 0
    }
}

impl Stop {
    /// Which of two reasons tells more, when steps side by side have both.
    fn rank(&self) -> u8 {
        match self {
            Self::Broken(_) => 5,
            Self::Waiting(_) => 4,
            Self::Failed(error) if failed_status(error) != "cancelled" => 3,
            Self::Halted(Why::Cancelled | Why::TimeUp | Why::Suspended) => 2,
            Self::Failed(_) => 1,
            Self::Halted(Why::Sibling) => 0,
        }
    }
}

/// Why a step whose record has no outputs cannot be run again.
fn recall_stop(path: &str, recorded: &Recorded) -> Option<Stop> {
    if let Some(error) = &recorded.error {
        return Some(Stop::Failed(error.clone()));
    }
    let doubt = recorded.in_doubt.as_ref().filter(|doubt| !doubt.repeat_safe)?;
    let message = format!(
        "`{} {}` was sent, and the executor stopped before it recorded what came of it",
        doubt.method, doubt.url
    );
    let error = Error::new(Kind::UnknownOutcome, message);
    Some(Stop::Waiting(error.to_run_error(Some(path), Some(doubt.attempt), false)))
}
