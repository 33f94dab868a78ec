//! Walks a plan.
//!
//! The engine is the only place that decides what happens next in a run, and it records each
//! decision in the journal first. A run that was left in the middle is walked again from the
//! start: steps whose end is recorded give their outputs back without doing anything.

mod block;
mod cancellation;
mod canned_answers;
mod evaluation;
mod for_each;
mod inquiry;
mod redirect;
mod run_budget;
mod step;
mod task;
mod waiting;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use a2s::api::RunError;
use a2s::{Action, Output, OutputSource, Principal, Step, Template, Variables as _};
use http::HeaderMap;
use indexmap::IndexMap;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::clock::{Clock, Ids};
use crate::config::ResponseValidation;
use crate::error::{Error, Kind};
use crate::gate::Gate;
use crate::journal::Journal;
use crate::journal::run_state::{Progress, failed_status};
use crate::metrics::Metrics;
use crate::outbound::{Outbound, Retries};
use crate::plan::{Plan, Unit};
use crate::request::Contracts;
use crate::scope::Scope;
use crate::secrets::{Secrets, hidden};
use crate::telemetry::{RunTrace, SpanId};

pub(crate) use crate::step_result::{Answer, Head};
pub(crate) use cancellation::{Halt, Why};
pub(crate) use canned_answers::{Answers, Question};
pub(crate) use evaluation::EvaluationPool;
pub(crate) use inquiry::{Inquiry, Standing};
pub(crate) use run_budget::Budget;
use step::is_catchable;

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
    /// What the run may take in all.
    pub(crate) budget: Budget,
    /// What is told to nobody.
    pub(crate) secrets: &'r Secrets,
    /// Where everything is recorded.
    pub(crate) journal: &'r Journal,
    /// Who answers the requests of its steps.
    pub(crate) services: Services<'r>,
    /// The clock.
    pub(crate) clock: &'r Arc<dyn Clock>,
    /// Randomness, for the jitter of pauses.
    pub(crate) ids: &'r Arc<dyn Ids>,
    /// The tasks with their schemas, as far as they were needed.
    pub(crate) contracts: Contracts,
    /// The permits for expensive evaluations.
    pub(crate) evaluations: &'r EvaluationPool,
    /// What happens when an answer is not as declared.
    pub(crate) check_answers: ResponseValidation,
    /// What is counted.
    pub(crate) metrics: &'r Metrics,
    /// Children of one parallel step, or iterations of one step, at the same time.
    pub(crate) max_parallel: usize,
    /// Size of a request to a service, in bytes.
    pub(crate) max_request_bytes: usize,
    /// Size of an answer that is kept for replays, in bytes.
    pub(crate) keep_answer_bytes: usize,
}

/// Who answers the requests of task steps.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Services<'r> {
    /// The services themselves.
    Real(Way<'r>),
    /// Somebody who has the answers at hand. Nothing leaves, so nobody is asked for leave.
    AtHand(&'r dyn Answers),
}

/// The way to the services.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Way<'r> {
    /// The principal that the run belongs to.
    pub(crate) principal: &'r Principal,
    /// Who is asked.
    pub(crate) gate: &'r Gate,
    /// The way out.
    pub(crate) outbound: &'r Arc<Outbound>,
    /// When to try again.
    pub(crate) retries: &'r Retries,
    /// The trace that guardians are told of.
    pub(crate) trace: Option<&'r RunTrace>,
    /// Whether services are told of it as well.
    pub(crate) propagate: bool,
    /// Where the walk keeps what guardians say now, when it asks them and sends nothing.
    pub(crate) inquiry: Option<&'r Inquiry>,
}

impl Way<'_> {
    /// What tells somebody who is asked for which span it is; nothing when nobody is told.
    fn trace_headers(&self, span: impl Fn(&RunTrace) -> SpanId) -> HeaderMap {
        self.trace.map(|trace| trace.headers(span(trace))).unwrap_or_default()
    }
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

/// What a step set.
type Outputs<'r> = Vec<(&'r Output, Value)>;

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
            return Err(self.failed(path, Error::new(Kind::MissingInput, message).hint(hint)));
        }
        self.check_types(unit, inputs).map_err(|error| self.failed(path, error))?;
        let inputs = unit.complete(inputs);
        self.learn(path, unit, &inputs)?;
        let mut scope = Scope::enter(capability, &inputs);
        self.run_block(unit, path, &capability.execution, false, &mut scope, halt).await?;
        match &capability.output {
            None => Ok(scope.result(capability)),
            Some(output) => self.render_result(unit, path, output, &scope),
        }
    }

    /// Refuses inputs that do not fit, as far as they are known: what was recorded tells no secrets.
    fn check_types(&self, unit: &Unit, inputs: &Map<String, Value>) -> Result<(), Error> {
        match self.services {
            Services::Real(_) => unit.check_types(inputs),
            Services::AtHand(_) => {
                let known = inputs.iter().filter(|(_, value)| **value != hidden());
                let known = known.map(|(name, value)| (name.clone(), value.clone()));
                unit.check_types(&known.collect())
            }
        }
    }

    fn render_result(
        &self,
        unit: &Unit,
        path: &str,
        output: &Template,
        scope: &Scope<'_>,
    ) -> Result<Value, Stop> {
        let rendered = self.budget.check_bytes(scope.weigh(output)).and_then(|()| {
            scope
                .render_whole(output)
                .map_err(|missing| Error::new(Kind::TemplateError, missing.to_string()))
        });
        let place = format_args!("`output` of `{}`", unit.pin.name);
        rendered.map_err(|error| self.failed(path, error.at(place)))
    }

    /// Does what a step is for, once, and takes its outputs from the answer.
    async fn act(
        &self,
        unit: &'r Unit,
        path: &str,
        step: &'r Step,
        scope: &mut Scope<'r>,
        halt: &Halt,
    ) -> Result<Outputs<'r>, Stop> {
        // Boxed: what one kind of step needs would make the future of every step as large.
        let (mut answer, outputs) = match &step.action {
            Action::Block(block) => {
                Box::pin(self.run_child_block(unit, path, step, block, scope, halt)).await?;
                return Ok(Vec::new());
            }
            Action::Task { outputs, .. } => {
                let task = Box::pin(self.run_task(unit, path, step, scope, halt));
                (task.await?, outputs)
            }
            Action::Capability { capability, inputs, outputs } => {
                let Some(child) = unit.uses.get(capability) else {
                    let message = format!("`{capability}` is not part of the plan");
                    return Err(self.failed(path, Error::new(Kind::Internal, message)));
                };
                let given = self.render_inputs(path, child, inputs, scope)?;
                let body = Box::pin(self.run_unit(child, path, &given, halt)).await?;
                let answer = Answer { body, head: None };
                let answer = self.learn_outputs(path, unit, outputs, answer, halt).await?;
                (answer, outputs)
            }
        };
        let status = answer.head.as_ref().map(|head| head.status);
        let mut values = Vec::with_capacity(outputs.len());
        for output in outputs {
            let taken = self.take_output(path, output, answer, halt).await?;
            let value = taken.0.map_err(|error| self.failed_at(path, error, None, status))?;
            values.push((output, value));
            answer = taken.1;
        }
        Ok(values)
    }

    /// The value of one output, and the answer once more. An expensive query is evaluated on the
    /// pool, to which the answer moves meanwhile.
    async fn take_output(
        &self,
        path: &str,
        output: &Output,
        answer: Answer,
        halt: &Halt,
    ) -> Result<(Result<Value, Error>, Answer), Stop> {
        match &output.source {
            OutputSource::Body(query) if query.evaluation_cost(&answer.body).is_expensive() => {
                let taken = output.clone();
                let place = format!("the query `{}`", query.source());
                let evaluation = move || (answer.take(&taken), answer);
                let evaluated = Box::pin(self.evaluate(path, place, halt, evaluation)).await?;
                evaluated.map_err(|error| self.failed(path, error))
            }
            OutputSource::Body(_) | OutputSource::Header(_) | OutputSource::Status => {
                Ok((answer.take(output), answer))
            }
        }
    }

    /// The inputs of a capability step: those that it maps, and the needs that it leaves to the
    /// variables of the same name. What is absent is not given.
    fn render_inputs(
        &self,
        path: &str,
        child: &Unit,
        mapped: &IndexMap<String, Template>,
        scope: &Scope<'_>,
    ) -> Result<Map<String, Value>, Stop> {
        let mut inputs = Map::new();
        let mut bytes = 0;
        for (name, template) in mapped {
            bytes += scope.weigh(template);
            let value = self.budget.check_bytes(bytes).and_then(|()| {
                let rendered = scope.render(template);
                rendered.map_err(|missing| Error::new(Kind::TemplateError, missing.to_string()))
            });
            let place = format_args!("input `{name}`");
            let value = value.map_err(|error| self.failed(path, error.at(place)))?;
            inputs.extend(value.map(|value| (name.clone(), value)));
        }
        for (name, _) in Unit::unmapped(child, |name| mapped.contains_key(name)) {
            let value = scope.get(name).filter(|_| !scope.is_absent(name));
            inputs.extend(value.map(|value| (name.to_owned(), value.clone())));
        }
        Ok(inputs)
    }

    /// From now on the secret ones of these variables are told to nobody.
    fn learn(&self, path: &str, unit: &Unit, variables: &Map<String, Value>) -> Result<(), Stop> {
        let mut values = unit.sensitive.values(variables).into_iter();
        let learnt = values.try_for_each(|value| self.secrets.learn(value));
        learnt.map_err(|error| self.failed(path, error))
    }

    /// The same for what an answer will set, before anything is told of it.
    async fn learn_outputs(
        &self,
        path: &str,
        unit: &Unit,
        outputs: &[Output],
        mut answer: Answer,
        halt: &Halt,
    ) -> Result<Answer, Stop> {
        let mut set = Map::new();
        for output in outputs.iter().filter(|output| unit.sensitive.covers(output.variable())) {
            let taken = self.take_output(path, output, answer, halt).await?;
            if let Ok(value) = taken.0 {
                output.set(&mut set, value);
            }
            answer = taken.1;
        }
        self.learn(path, unit, &set)?;
        Ok(answer)
    }

    fn failed(&self, path: &str, error: Error) -> Stop {
        self.failed_at(path, error, None, None)
    }

    /// A failure of a step, at an attempt and with the status of an answer, as far as there were any.
    /// Free of secrets: a `catch` may send it to anybody.
    fn failed_at(
        &self,
        path: &str,
        error: Error,
        attempt: Option<u32>,
        status: Option<u16>,
    ) -> Stop {
        let step = Some(path).filter(|path| !path.is_empty());
        let error = self.secrets.mask_error(error);
        let cause = Some(error.kind.blame_at(status));
        let error = error.to_run_error(step, attempt, self.is_repeat_safe());
        Stop::Failed(RunError { status, cause, ..error })
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
            Self::Broken(_) => 6,
            Self::Waiting(_) => 5,
            // What nothing may catch must not hide behind what something may.
            Self::Failed(error) if failed_status(error) == "cancelled" => 1,
            Self::Failed(error) if !is_catchable(error) => 4,
            Self::Failed(_) => 3,
            Self::Halted(Why::Cancelled | Why::TimeUp | Why::Suspended | Why::Lost | Why::Late) => {
                2
            }
            Self::Halted(Why::Sibling) => 0,
        }
    }
}
