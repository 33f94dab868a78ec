//! Walks a plan.
//!
//! The engine is the only place that decides the next action in a run, and it records each decision in the
//! journal first. It walks an interrupted run again from the start: steps with a recorded end return their
//! outputs without any work.

mod approval_poll;
mod attempt_recorder;
mod block;
mod cancellation;
mod canned_answers;
mod evaluation;
mod for_each;
mod recorder;
mod run_budget;
mod send;
mod service_call;
mod step;

use std::sync::Arc;

use a2s::{OutputMapping, Step, Template, VariableSource as _};
use a2s_api::Principal;
use a2s_api::RunError;
use http::HeaderMap;
use indexmap::IndexMap;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::clock::RandomSource;
use crate::config::ResponseValidation;
use crate::error::{Error, ErrorKind};
use crate::gate::GuardianGate;
use crate::journal::run_state::failed_status;
use crate::outbound::{OutboundClient, RetrySchedule};
use crate::plan::{ExecutionPlan, PlanUnit, join_path};
use crate::request::ContractCache;
use crate::scope::VariableScope;
use crate::secrets::secret_placeholder;
use crate::telemetry::{RunTrace, SpanId};

pub(crate) use approval_poll::{ApprovalPoll, PollResult};
pub(crate) use cancellation::{CancelReason, CancelToken};
pub(crate) use canned_answers::{CannedResponses, TaskRequest};
pub(crate) use evaluation::EvaluationPool;
use evaluation::StepEvaluator;
pub(crate) use recorder::RunRecorder;
pub(crate) use run_budget::RunBudget;
use step::is_catchable;

/// The walker of the plan of one run.
#[derive(Debug)]
pub(crate) struct Engine<'r> {
    /// The run.
    pub(crate) run: Uuid,
    /// Its session.
    pub(crate) session: &'r str,
    /// The plan to walk.
    pub(crate) plan: &'r ExecutionPlan,
    /// The recorder of the walk.
    pub(crate) recorder: RunRecorder<'r>,
    /// The source of responses for the requests of its steps.
    pub(crate) transport: ServiceTransport<'r>,
    /// The tasks with their schemas. Each one is added when it is first needed.
    pub(crate) contracts: ContractCache,
    /// The permits for expensive evaluations.
    pub(crate) evaluations: &'r EvaluationPool,
    /// The maximum number of concurrent children of one parallel step, or concurrent iterations of one
    /// step.
    pub(crate) max_parallel: usize,
    /// The maximum size of a request to a service, in bytes.
    pub(crate) max_request_bytes: usize,
}

/// The position of a walk in the plan.
#[derive(Debug, Clone, Copy)]
struct WalkPosition<'a, 'r> {
    /// The capability.
    unit: &'r PlanUnit,
    /// The path of the step; empty for the root capability.
    path: &'a str,
    /// Cancels this part of the walk.
    cancel: &'a CancelToken,
}

impl WalkPosition<'_, '_> {
    /// The path of a step inside this one.
    fn child_path(self, step: &Step) -> String {
        join_path(self.path, step.id.as_str())
    }
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
    /// The source of randomness for the jitter of pauses.
    pub(crate) ids: &'r Arc<dyn RandomSource>,
    /// The reaction to a response that does not match its declaration.
    pub(crate) response_validation: ResponseValidation,
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
        cancel: &CancelToken,
    ) -> Result<Value, StepError> {
        let root = WalkPosition { unit: &self.plan.root, path: "", cancel };
        self.run_unit(root, inputs).await
    }

    /// Returns true when nothing that the run has sent so far has changed anything.
    pub(crate) fn is_repeat_safe(&self) -> bool {
        self.recorder.is_repeat_safe()
    }

    /// Runs the capability at a position, in its own scope.
    async fn run_unit(
        &self,
        at: WalkPosition<'_, 'r>,
        inputs: &Map<String, Value>,
    ) -> Result<Value, StepError> {
        let WalkPosition { unit, path, .. } = at;
        let capability = unit.document.capability();
        if let Some(name) = unit.missing_inputs(inputs).first() {
            let message = format!("`{}` has no value for its input `{name}`", capability.name);
            let hint = "Set it in an earlier step, or map it in `input_mapping`.";
            let error = Error::new(ErrorKind::MissingInput, message).with_hint(hint);
            return Err(self.fail_step(path, error));
        }
        self.check_types(unit, inputs).map_err(|error| self.fail_step(path, error))?;
        let inputs = unit.with_defaults(inputs);
        self.recorder.learn_secrets(path, unit, &inputs)?;
        let mut scope = VariableScope::from_capability(capability, &inputs);
        self.run_block(at, &capability.execution, false, &mut scope).await?;
        match &capability.output {
            None => Ok(scope.to_result(capability)),
            Some(output) => self.render_result(at, output, &scope),
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
        WalkPosition { unit, path, .. }: WalkPosition<'_, '_>,
        output: &Template,
        scope: &VariableScope<'_>,
    ) -> Result<Value, StepError> {
        let size = scope.estimate_size(output);
        let rendered = self.recorder.budget.check_bytes(size).and_then(|()| {
            scope
                .render_required(output)
                .map_err(|missing| Error::new(ErrorKind::TemplateError, missing.to_string()))
        });
        let place = format_args!("`output` of `{}`", unit.pin.name);
        rendered.map_err(|error| self.fail_step(path, error.with_context(place)))
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
            let value = self.recorder.budget.check_bytes(bytes).and_then(|()| {
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

    /// The evaluator of expressions at a position.
    fn evaluator<'a>(&'a self, at: WalkPosition<'a, '_>) -> StepEvaluator<'a> {
        let WalkPosition { path, cancel, .. } = at;
        StepEvaluator { pool: self.evaluations, recorder: &self.recorder, path, cancel }
    }

    fn fail_step(&self, path: &str, error: Error) -> StepError {
        self.recorder.fail_step(path, error)
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
