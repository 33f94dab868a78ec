//! Walks a plan.
//!
//! The engine is the only place that decides the next action in a run, and it records each decision in the
//! journal first. It walks an interrupted run again from the start: steps with a recorded end return their
//! outputs without any work.

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

use a2s::{OutputMapping, OutputSource, Step, StepAction, Template, VariableSource as _};
use a2s_api::Principal;
use a2s_api::RunError;
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
use crate::step_result::StepResult;
use crate::telemetry::{RunTrace, SpanId};

pub(crate) use approval_poll::{ApprovalPoll, PollResult};
pub(crate) use cancellation::{CancelReason, CancelToken};
pub(crate) use canned_answers::{CannedResponses, TaskRequest};
pub(crate) use evaluation::EvaluationPool;
pub(crate) use run_budget::RunBudget;
use step::is_catchable;

/// The data and services for walking one run.
#[derive(Debug)]
pub(crate) struct Engine<'r> {
    /// The run.
    pub(crate) run: Uuid,
    /// Its session.
    pub(crate) session: &'r str,
    /// The plan to walk.
    pub(crate) plan: &'r ExecutionPlan,
    /// The progress of the run when the walk began.
    pub(crate) progress: &'r RunProgress,
    /// The number of requests that may have changed something, including those before the walk.
    pub(crate) effects: AtomicUsize,
    /// The limits for the whole run.
    pub(crate) budget: RunBudget,
    /// The secret values that the executor masks.
    pub(crate) secrets: &'r RunSecrets,
    /// The journal that records everything.
    pub(crate) journal: &'r Journal,
    /// The source of responses for the requests of its steps.
    pub(crate) transport: ServiceTransport<'r>,
    /// The clock.
    pub(crate) clock: &'r Arc<dyn Clock>,
    /// The source of randomness for the jitter of pauses.
    pub(crate) ids: &'r Arc<dyn RandomSource>,
    /// The tasks with their schemas. Each one is added when it is first needed.
    pub(crate) contracts: ContractCache,
    /// The permits for expensive evaluations.
    pub(crate) evaluations: &'r EvaluationPool,
    /// The reaction to a response that does not match its declaration.
    pub(crate) response_validation: ResponseValidation,
    /// The counters.
    pub(crate) metrics: &'r Metrics,
    /// The maximum number of concurrent children of one parallel step, or concurrent iterations of one
    /// step.
    pub(crate) max_parallel: usize,
    /// The maximum size of a request to a service, in bytes.
    pub(crate) max_request_bytes: usize,
    /// The maximum size of a response that is stored for replays, in bytes.
    pub(crate) keep_answer_bytes: usize,
}

/// The source of responses for the requests of task steps: real services, or canned responses.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ServiceTransport<'r> {
    /// The services themselves.
    Live(LiveTransport<'r>),
    /// Canned responses. The engine sends nothing, so it does not ask guardians.
    Canned(&'r dyn CannedResponses),
}

/// The transport to the services.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LiveTransport<'r> {
    /// The principal that the run belongs to.
    pub(crate) principal: &'r Principal,
    /// The gate that asks guardians.
    pub(crate) gate: &'r GuardianGate,
    /// The client for requests to services.
    pub(crate) outbound: &'r Arc<OutboundClient>,
    /// The policy for retries.
    pub(crate) retries: &'r RetrySchedule,
    /// The trace that questions to guardians carry.
    pub(crate) trace: Option<&'r RunTrace>,
    /// Set when requests to services carry the trace as well.
    pub(crate) propagate: bool,
    /// Collects the current decisions of guardians, for a walk that asks them and sends nothing.
    pub(crate) approval_poll: Option<&'r ApprovalPoll>,
}

impl LiveTransport<'_> {
    /// The trace headers that name the span to a guardian or service; empty without a trace.
    fn trace_headers(&self, span: impl Fn(&RunTrace) -> SpanId) -> HeaderMap {
        self.trace.map(|trace| trace.headers(span(trace))).unwrap_or_default()
    }
}

/// The reason for which a walk stops.
#[derive(Debug)]
pub(crate) enum StepError {
    /// A step failed or was denied.
    Failed(RunError),
    /// The outcome of a request is not known, and repeating it is not safe.
    Waiting(RunError),
    /// The walk was cancelled.
    Cancelled(CancelReason),
    /// The journal can record nothing more.
    Broken(Error),
}

/// The outputs that a step has set.
type Outputs<'r> = Vec<(&'r OutputMapping, Value)>;

impl<'r> Engine<'r> {
    /// Walks the plan and returns its result.
    ///
    /// # Errors
    /// Returns the reason why the walk stopped. The end of each step is recorded then; the end of the run
    /// is not.
    pub(crate) async fn walk(
        &self,
        inputs: &Map<String, Value>,
        halt: &CancelToken,
    ) -> Result<Value, StepError> {
        self.run_unit(&self.plan.root, "", inputs, halt).await
    }

    /// Runs a capability in its own scope.
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
            let hint = "Set it in an earlier step, or map it in `input_mapping`.";
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

    /// Rejects inputs that do not fit. It checks only known inputs, because a recording contains no
    /// secrets.
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

    /// Performs the action of a step once, and takes the outputs from the result.
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
                    let message = format!("the plan does not contain `{capability}`");
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

    /// Returns the value of one output, and the result again. An expensive query is evaluated on the pool,
    /// and the result moves there during that time.
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

    /// The inputs of a capability step: its mapped inputs, and the variables with the same name as an
    /// unmapped need. Absent values are left out.
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
                rendered
                    .map_err(|missing| Error::new(ErrorKind::TemplateError, missing.to_string()))
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

    /// Marks the secret ones of these variables as secret from now on.
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

    /// Marks the secret values that a response will set, before anything about it is recorded or shown.
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

    /// Creates the failure of a step, with the attempt and the status of the response if there are any. It
    /// does not contain secrets, because a `catch` may send it anywhere.
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

    /// Returns true when nothing that the run has sent so far has changed anything.
    pub(crate) fn is_repeat_safe(&self) -> bool {
        self.effects.load(Ordering::Relaxed) == 0
    }
}

impl StepError {
    /// The priority of a reason, for parallel steps that stop for different reasons. The highest one is
    /// reported.
    fn priority(&self) -> u8 {
        match self {
            Self::Broken(_) => 6,
            Self::Waiting(_) => 5,
            // A catchable error must not hide one that is not catchable.
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
