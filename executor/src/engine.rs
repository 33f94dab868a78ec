//! Walks a plan.
//!
//! The engine is the only place that decides what happens next in a run, and it records each
//! decision in the journal first. A run that was left in the middle is walked again from the
//! start: steps whose end is recorded give their outputs back without doing anything.

mod approval_poll;
mod block;
mod cancellation;
mod canned_answers;
mod evaluation;
mod for_each;
mod redirect;
mod run_budget;
mod step;
mod task;
mod waiting;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use a2s::api::RunError;
use a2s::{
    OutputMapping, OutputSource, Principal, Step, StepAction, Template, VariableSource as _,
};
use http::HeaderMap;
use indexmap::IndexMap;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::clock::{Clock, RandomSource};
use crate::config::ResponseValidation;
use crate::error::{Error, ErrorKind};
use crate::gate::GuardianGate;
use crate::journal::Journal;
use crate::journal::run_state::{RunProgress, failed_status};
use crate::metrics::Metrics;
use crate::outbound::{OutboundClient, RetrySchedule};
use crate::plan::{ExecutionPlan, PlanUnit};
use crate::request::ContractCache;
use crate::scope::VariableScope;
use crate::secrets::{RunSecrets, secret_placeholder};
use crate::telemetry::{RunTrace, SpanId};

pub(crate) use crate::step_result::{ResponseHead, StepResult};
pub(crate) use approval_poll::{ApprovalPoll, PollResult};
pub(crate) use cancellation::{CancelReason, CancelToken};
pub(crate) use canned_answers::{CannedResponses, TaskRequest};
pub(crate) use evaluation::EvaluationPool;
pub(crate) use run_budget::RunBudget;
use step::is_catchable;

/// What walking one run needs.
#[derive(Debug)]
pub(crate) struct Engine<'r> {
    /// The run.
    pub(crate) run: Uuid,
    /// Its session.
    pub(crate) session: &'r str,
    /// What is walked.
    pub(crate) plan: &'r ExecutionPlan,
    /// How far the run had come when the walk began.
    pub(crate) progress: &'r RunProgress,
    /// Requests that may have changed something, those before the walk included.
    pub(crate) effects: AtomicUsize,
    /// What the run may take in all.
    pub(crate) budget: RunBudget,
    /// What is told to nobody.
    pub(crate) secrets: &'r RunSecrets,
    /// Where everything is recorded.
    pub(crate) journal: &'r Journal,
    /// Who answers the requests of its steps.
    pub(crate) transport: ServiceTransport<'r>,
    /// The clock.
    pub(crate) clock: &'r Arc<dyn Clock>,
    /// Randomness, for the jitter of pauses.
    pub(crate) ids: &'r Arc<dyn RandomSource>,
    /// The tasks with their schemas, as far as they were needed.
    pub(crate) contracts: ContractCache,
    /// The permits for expensive evaluations.
    pub(crate) evaluations: &'r EvaluationPool,
    /// What happens when an answer is not as declared.
    pub(crate) response_validation: ResponseValidation,
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
pub(crate) enum ServiceTransport<'r> {
    /// The services themselves.
    Live(LiveTransport<'r>),
    /// Somebody who has the answers at hand. Nothing leaves, so nobody is asked for leave.
    Canned(&'r dyn CannedResponses),
}

/// The way to the services.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LiveTransport<'r> {
    /// The principal that the run belongs to.
    pub(crate) principal: &'r Principal,
    /// Who is asked.
    pub(crate) gate: &'r GuardianGate,
    /// The way out.
    pub(crate) outbound: &'r Arc<OutboundClient>,
    /// When to try again.
    pub(crate) retries: &'r RetrySchedule,
    /// The trace that guardians are told of.
    pub(crate) trace: Option<&'r RunTrace>,
    /// Whether services are told of it as well.
    pub(crate) propagate: bool,
    /// Where the walk keeps what guardians say now, when it asks them and sends nothing.
    pub(crate) approval_poll: Option<&'r ApprovalPoll>,
}

impl LiveTransport<'_> {
    /// What tells somebody who is asked for which span it is; nothing when nobody is told.
    fn trace_headers(&self, span: impl Fn(&RunTrace) -> SpanId) -> HeaderMap {
        self.trace.map(|trace| trace.headers(span(trace))).unwrap_or_default()
    }
}

/// Why a walk does not go on.
#[derive(Debug)]
pub(crate) enum StepError {
    /// A step failed, or was denied.
    Failed(RunError),
    /// The outcome of a request is not known, and repeating it is not safe.
    Waiting(RunError),
    /// It was told to stop.
    Cancelled(CancelReason),
    /// Nothing can be recorded any more.
    Broken(Error),
}

/// What a step set.
type Outputs<'r> = Vec<(&'r OutputMapping, Value)>;

impl<'r> Engine<'r> {
    /// Walks the plan and gives its result.
    ///
    /// # Errors
    /// Why it stopped. The end of each step is recorded then; the end of the run is not.
    pub(crate) async fn walk(
        &self,
        inputs: &Map<String, Value>,
        halt: &CancelToken,
    ) -> Result<Value, StepError> {
        self.run_unit(&self.plan.root, "", inputs, halt).await
    }

    /// Runs a capability in a scope of its own.
    async fn run_unit(
        &self,
        unit: &'r PlanUnit,
        path: &str,
        inputs: &Map<String, Value>,
        halt: &CancelToken,
    ) -> Result<Value, StepError> {
        let capability = unit.document.capability();
        if let Some(name) = unit.missing_inputs(inputs).first() {
            let message = format!("`{}` has no value for its input `{name}`", capability.name);
            let hint = "Set it in a step before this one, or map it in `input_mapping`.";
            return Err(
                self.fail_step(path, Error::new(ErrorKind::MissingInput, message).with_hint(hint))
            );
        }
        self.check_types(unit, inputs).map_err(|error| self.fail_step(path, error))?;
        let inputs = unit.with_defaults(inputs);
        self.learn_secrets(path, unit, &inputs)?;
        let mut scope = VariableScope::from_capability(capability, &inputs);
        self.run_block(unit, path, &capability.execution, false, &mut scope, halt).await?;
        match &capability.output {
            None => Ok(scope.to_result(capability)),
            Some(output) => self.render_result(unit, path, output, &scope),
        }
    }

    /// Refuses inputs that do not fit, as far as they are known: what was recorded tells no secrets.
    fn check_types(&self, unit: &PlanUnit, inputs: &Map<String, Value>) -> Result<(), Error> {
        match self.transport {
            ServiceTransport::Live(_) => unit.check_types(inputs),
            ServiceTransport::Canned(_) => {
                let known = inputs.iter().filter(|(_, value)| **value != secret_placeholder());
                let known = known.map(|(name, value)| (name.clone(), value.clone()));
                unit.check_types(&known.collect())
            }
        }
    }

    fn render_result(
        &self,
        unit: &PlanUnit,
        path: &str,
        output: &Template,
        scope: &VariableScope<'_>,
    ) -> Result<Value, StepError> {
        let rendered = self.budget.check_bytes(scope.estimate_size(output)).and_then(|()| {
            scope
                .render_required(output)
                .map_err(|missing| Error::new(ErrorKind::TemplateError, missing.to_string()))
        });
        let place = format_args!("`output` of `{}`", unit.pin.name);
        rendered.map_err(|error| self.fail_step(path, error.with_context(place)))
    }

    /// Does what a step is for, once, and takes its outputs from the answer.
    async fn perform_step(
        &self,
        unit: &'r PlanUnit,
        path: &str,
        step: &'r Step,
        scope: &mut VariableScope<'r>,
        halt: &CancelToken,
    ) -> Result<Outputs<'r>, StepError> {
        // Boxed: what one kind of step needs would make the future of every step as large.
        let (mut answer, outputs) = match &step.action {
            StepAction::Block(block) => {
                Box::pin(self.run_child_block(unit, path, step, block, scope, halt)).await?;
                return Ok(Vec::new());
            }
            StepAction::Task { outputs, .. } => {
                let task = Box::pin(self.run_task(unit, path, step, scope, halt));
                (task.await?, outputs)
            }
            StepAction::Capability { capability, inputs, outputs } => {
                let Some(child) = unit.uses.get(capability) else {
                    let message = format!("`{capability}` is not part of the plan");
                    return Err(self.fail_step(path, Error::new(ErrorKind::Internal, message)));
                };
                let given = self.render_inputs(path, child, inputs, scope)?;
                let body = Box::pin(self.run_unit(child, path, &given, halt)).await?;
                let answer = StepResult { body, head: None };
                let answer = self.learn_outputs(path, unit, outputs, answer, halt).await?;
                (answer, outputs)
            }
        };
        let status = answer.head.as_ref().map(|head| head.status);
        let mut values = Vec::with_capacity(outputs.len());
        for output in outputs {
            let taken = self.extract_output(path, output, answer, halt).await?;
            let value = taken.0.map_err(|error| self.fail_attempt(path, error, None, status))?;
            values.push((output, value));
            answer = taken.1;
        }
        Ok(values)
    }

    /// The value of one output, and the answer once more. An expensive query is evaluated on the
    /// pool, to which the answer moves meanwhile.
    async fn extract_output(
        &self,
        path: &str,
        output: &OutputMapping,
        answer: StepResult,
        halt: &CancelToken,
    ) -> Result<(Result<Value, Error>, StepResult), StepError> {
        match &output.source {
            OutputSource::Body(query) if query.evaluation_cost(&answer.body).is_expensive() => {
                let taken = output.clone();
                let place = format!("the query `{}`", query.source());
                let evaluation = move || (answer.extract_output(&taken), answer);
                let evaluated = Box::pin(self.evaluate(path, place, halt, evaluation)).await?;
                evaluated.map_err(|error| self.fail_step(path, error))
            }
            OutputSource::Body(_) | OutputSource::Header(_) | OutputSource::Status => {
                Ok((answer.extract_output(output), answer))
            }
        }
    }

    /// The inputs of a capability step: those that it maps, and the needs that it leaves to the
    /// variables of the same name. What is absent is not given.
    fn render_inputs(
        &self,
        path: &str,
        child: &PlanUnit,
        mapped: &IndexMap<String, Template>,
        scope: &VariableScope<'_>,
    ) -> Result<Map<String, Value>, StepError> {
        let mut inputs = Map::new();
        let mut bytes = 0;
        for (name, template) in mapped {
            bytes += scope.estimate_size(template);
            let value = self.budget.check_bytes(bytes).and_then(|()| {
                let rendered = scope.render_optional(template);
                rendered.map_err(|missing| Error::new(ErrorKind::TemplateError, missing.to_string()))
            });
            let place = format_args!("input `{name}`");
            let value = value.map_err(|error| self.fail_step(path, error.with_context(place)))?;
            inputs.extend(value.map(|value| (name.clone(), value)));
        }
        for (name, _) in PlanUnit::unmapped_inputs(child, |name| mapped.contains_key(name)) {
            let value = scope.get(name).filter(|_| !scope.is_absent(name));
            inputs.extend(value.map(|value| (name.to_owned(), value.clone())));
        }
        Ok(inputs)
    }

    /// From now on the secret ones of these variables are told to nobody.
    fn learn_secrets(
        &self,
        path: &str,
        unit: &PlanUnit,
        variables: &Map<String, Value>,
    ) -> Result<(), StepError> {
        let mut values = unit.sensitive.secret_values(variables).into_iter();
        let learnt = values.try_for_each(|value| self.secrets.learn(value));
        learnt.map_err(|error| self.fail_step(path, error))
    }

    /// The same for what an answer will set, before anything is told of it.
    async fn learn_outputs(
        &self,
        path: &str,
        unit: &PlanUnit,
        outputs: &[OutputMapping],
        mut answer: StepResult,
        halt: &CancelToken,
    ) -> Result<StepResult, StepError> {
        let mut set = Map::new();
        for output in outputs.iter().filter(|output| unit.sensitive.contains(output.variable())) {
            let taken = self.extract_output(path, output, answer, halt).await?;
            if let Ok(value) = taken.0 {
                output.set(&mut set, value);
            }
            answer = taken.1;
        }
        self.learn_secrets(path, unit, &set)?;
        Ok(answer)
    }

    fn fail_step(&self, path: &str, error: Error) -> StepError {
        self.fail_attempt(path, error, None, None)
    }

    /// A failure of a step, at an attempt and with the status of an answer, as far as there were any.
    /// Free of secrets: a `catch` may send it to anybody.
    fn fail_attempt(
        &self,
        path: &str,
        error: Error,
        attempt: Option<u32>,
        status: Option<u16>,
    ) -> StepError {
        let step = Some(path).filter(|path| !path.is_empty());
        let error = self.secrets.mask_error(error);
        let cause = Some(error.kind.blame_for_status(status));
        let error = error.to_run_error(step, attempt, self.is_repeat_safe());
        StepError::Failed(RunError { status, cause, ..error })
    }

    /// Whether nothing was changed by what the run has sent so far.
    pub(crate) fn is_repeat_safe(&self) -> bool {
        self.effects.load(Ordering::Relaxed) == 0
    }
}

impl StepError {
    /// Which of two reasons tells more, when steps side by side have both.
    fn priority(&self) -> u8 {
        match self {
            Self::Broken(_) => 6,
            Self::Waiting(_) => 5,
            // What nothing may catch must not hide behind what something may.
            Self::Failed(error) if failed_status(error) == "cancelled" => 1,
            Self::Failed(error) if !is_catchable(error) => 4,
            Self::Failed(_) => 3,
            Self::Cancelled(
                CancelReason::Cancelled
                | CancelReason::RunTimeout
                | CancelReason::Suspended
                | CancelReason::LeaseLost
                | CancelReason::StepTimeout,
            ) => 2,
            Self::Cancelled(CancelReason::SiblingFailed) => 0,
        }
    }
}
