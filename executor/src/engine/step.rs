//! One step: its action, its time, and the handling of its failure.

use std::sync::LazyLock;

use a2s::{OnError, Step, StepAction, TaskStep};
use a2s_api::{CapabilityRef, ErrorHandlerKind, RunError};
use futures::future::BoxFuture;
use serde_json::json;

use super::for_each::IterationRunner;
use super::recorder::{JudgedAttempt, StepFrame};
use super::send::RequestSender;
use super::service_call::ServiceCall;
use super::{
    CancelReason, Engine, LiveTransport, Outputs, ServiceTransport, StepError, TaskRequest,
    WalkPosition,
};
use crate::clock::execution_id;
use crate::error::{Error, ErrorKind};
use crate::gate::{GuardedStep, InputSources};
use crate::plan::{BoundInputs, PlanUnit};
use crate::scope::VariableScope;
use crate::step_result::StepResult;

impl<'r> Engine<'r> {
    /// Runs a step of the block at a position, unless its end is recorded. The future is boxed, because
    /// steps contain steps.
    pub(super) fn run_step<'a>(
        &'a self,
        around: WalkPosition<'a, 'r>,
        step: &'r Step,
        scope: &'a mut VariableScope<'r>,
    ) -> BoxFuture<'a, Result<(), StepError>> {
        Box::pin(async move {
            let path = around.child_path(step);
            let at = WalkPosition { path: &path, ..around };
            match &step.control.for_each {
                Some(for_each) => {
                    let iterations = IterationRunner::new(self, at, step, for_each);
                    Box::pin(iterations.run(scope)).await
                }
                None => {
                    let counts = step.action.as_block().is_none();
                    self.run_once(at, step, counts, scope).await
                }
            }
        })
    }

    /// Runs a step without iterations, or one iteration, and handles its failure.
    pub(super) async fn run_once(
        &self,
        at: WalkPosition<'_, 'r>,
        step: &'r Step,
        counts: bool,
        scope: &mut VariableScope<'r>,
    ) -> Result<(), StepError> {
        match self.attempt_step(at, step, counts, scope).await {
            Err(StepError::Failed(error)) if is_catchable(&error) => {
                self.handle_failure(at, step, error, scope).await
            }
            ended => ended,
        }
    }

    async fn attempt_step(
        &self,
        at: WalkPosition<'_, 'r>,
        step: &'r Step,
        counts: bool,
        scope: &mut VariableScope<'r>,
    ) -> Result<(), StepError> {
        let WalkPosition { unit, path, cancel } = at;
        if let Some(outputs) = self.recorder.recorded_outputs(path)? {
            scope.restore(step.action.outputs(), outputs);
            let Some(block) = step.action.as_block() else { return Ok(()) };
            // Outputs of a block's steps are recorded with them.
            return Box::pin(self.run_child_block(at, step, block, scope)).await;
        }
        let kind = step.action.kind().as_str();
        let uses = used_capability(step, unit);
        let frame = StepFrame { path, kind, label: kind, counts, uses };
        let work = self.perform_in_time(at, step, scope);
        let values = self.recorder.record_step(frame, cancel, work).await?;
        values.into_iter().for_each(|(output, value)| scope.set(output, value));
        Ok(())
    }

    /// Performs the action of a step within its timeout.
    async fn perform_in_time(
        &self,
        at: WalkPosition<'_, 'r>,
        step: &'r Step,
        scope: &mut VariableScope<'r>,
    ) -> Result<Outputs<'r>, StepError> {
        let Some(timeout) = step.control.timeout else {
            return self.perform_step(at, step, scope).await;
        };
        let part = at.cancel.child_within(timeout);
        let within = WalkPosition { cancel: &part, ..at };
        let mut act = std::pin::pin!(self.perform_step(within, step, scope));
        let ended = tokio::select! {
            ended = &mut act => ended,
            () = tokio::time::sleep(timeout) => {
                part.cancel(CancelReason::StepTimeout);
                // It ends as soon as it may. What has its result in spite of all keeps it.
                act.await
            }
        };
        match (ended, at.cancel.reason_if_cancelled()) {
            (Err(StepError::Cancelled(_)), Some(why)) => Err(StepError::Cancelled(why)),
            (Err(StepError::Cancelled(CancelReason::StepTimeout)), None) => {
                let message = format!("the step took longer than its `timeout` of {timeout:?}");
                Err(self.fail_step(at.path, Error::new(ErrorKind::StepTimeout, message)))
            }
            (ended, _) => ended,
        }
    }

    /// Performs the action of a step once, and takes the outputs from the result.
    async fn perform_step(
        &self,
        at: WalkPosition<'_, 'r>,
        step: &'r Step,
        scope: &mut VariableScope<'r>,
    ) -> Result<Outputs<'r>, StepError> {
        let WalkPosition { unit, path, .. } = at;
        let evaluator = self.evaluator(at);
        // Boxed: what one kind of step needs would make the future of every step as large.
        let (mut result, outputs) = match &step.action {
            StepAction::Block(block) => {
                Box::pin(self.run_child_block(at, step, block, scope)).await?;
                return Ok(Vec::new());
            }
            StepAction::Task { outputs, .. } => {
                (Box::pin(self.run_task(at, step, scope)).await?, outputs)
            }
            StepAction::Capability { capability, inputs, outputs } => {
                let Some(child) = unit.uses.get(capability) else {
                    let message = format!("the plan does not contain `{capability}`");
                    return Err(self.fail_step(path, Error::new(ErrorKind::Internal, message)));
                };
                let given = self.render_inputs(path, child, inputs, scope)?;
                let inside = WalkPosition { unit: child, ..at };
                let body = Box::pin(self.run_unit(inside, &given)).await?;
                let result = StepResult::new(body, None);
                (evaluator.learn_outputs(unit, outputs, result).await?, outputs)
            }
        };
        let status = result.head.as_ref().map(|head| head.status);
        let mut values = Vec::with_capacity(outputs.len());
        for output in outputs {
            let taken = evaluator.extract_output(output, result).await?;
            let judged = JudgedAttempt { attempt: None, status };
            let value = taken.0;
            let value = value.map_err(|error| self.recorder.fail_attempt(path, error, judged))?;
            values.push((output, value));
            result = taken.1;
        }
        Ok(values)
    }

    /// Runs the task of a step, and returns the result from which its outputs are taken.
    async fn run_task(
        &self,
        at: WalkPosition<'_, 'r>,
        step: &'r Step,
        scope: &VariableScope<'r>,
    ) -> Result<StepResult, StepError> {
        let WalkPosition { unit, path, .. } = at;
        let Some(TaskStep { task, inputs, outputs }) = step.action.as_task() else {
            let error =
                Error::new(ErrorKind::Internal, "a step was run as a task, but is not a task");
            return Err(self.fail_step(path, error));
        };
        let (id, secrets) = (execution_id(self.run, path), self.recorder.secrets);
        let bound = unit
            .bind_inputs(task, inputs, id, scope, secrets, self.max_request_bytes)
            .map_err(|error| self.fail_step(path, error))?;
        let contract = self.contracts.contract_for(task);
        let request = TaskRequest { step: path, contract: &contract, inputs: &bound.values };
        match self.transport {
            ServiceTransport::Canned(answers) => {
                // Nothing is awaited otherwise, and others want to go on, too.
                tokio::task::yield_now().await;
                let result = answers.respond(&request).map_err(StepError::Failed)?;
                self.evaluator(at).learn_outputs(unit, outputs, result).await
            }
            ServiceTransport::Live(live) => {
                let result = self.call_service(live, at, step, request, &bound).await;
                self.recorder.record_exchange(task, &request, outputs, &result);
                result
            }
        }
    }

    /// Calls the service of a task step.
    async fn call_service(
        &self,
        live: LiveTransport<'_>,
        at: WalkPosition<'_, 'r>,
        step: &'r Step,
        task: TaskRequest<'_>,
        bound: &BoundInputs,
    ) -> Result<StepResult, StepError> {
        let WalkPosition { unit, path, cancel } = at;
        let capability = unit.document.capability();
        let trace = LazyLock::new(|| live.trace_headers(|trace| trace.step(path)));
        let templates = step.action.as_task().map(|task| task.inputs);
        let asker = GuardedStep {
            principal: live.principal,
            run: self.run,
            session: self.session,
            execution_id: bound.execution_id,
            step: path,
            capability: &unit.pin,
            root: &self.plan.root.pin,
            description: &capability.description,
            permissions: &capability.permissions,
            domains: &capability.domains,
            sources: templates
                .map(|templates| InputSources { document: &unit.document, templates }),
            secrets: self.recorder.secrets,
            trace: &trace,
        };
        let sender = RequestSender {
            recorder: &self.recorder,
            live,
            asker,
            task,
            retry: step.control.retry.as_ref(),
            has_secret_address: bound.has_secret_address,
            cancel,
        };
        let evaluator = self.evaluator(at);
        let outputs = step.action.outputs();
        ServiceCall { sender, evaluator, unit, outputs }.perform().await
    }

    /// Continues after a failure, where the document allows it.
    async fn handle_failure(
        &self,
        at: WalkPosition<'_, 'r>,
        step: &'r Step,
        error: RunError,
        scope: &mut VariableScope<'r>,
    ) -> Result<(), StepError> {
        match &step.control.on_error {
            OnError::Stop => Err(StepError::Failed(error)),
            OnError::Continue => {
                self.recorder.record_handled(at.path, ErrorHandlerKind::Continue);
                Ok(())
            }
            OnError::Catch { name, steps } => {
                let RunError { code, message, step, status, .. } = error;
                let error =
                    json!({"code": code, "message": message, "step": step, "status": status});
                let mut inner = scope.snapshot();
                inner.set_local(name, error);
                self.run_sequence(at, steps, &mut inner).await?;
                self.recorder.record_handled(at.path, ErrorHandlerKind::Catch);
                scope.merge(&inner);
                Ok(())
            }
        }
    }
}

/// Returns the capability that a step of `unit` uses, if it uses one.
pub(super) fn used_capability<'r>(step: &Step, unit: &'r PlanUnit) -> Option<&'r CapabilityRef> {
    unit.uses.get(step.action.as_capability()?.capability).map(|used| &used.pin)
}

/// Returns true when a document may continue after a failure.
pub(super) fn is_catchable(error: &RunError) -> bool {
    ErrorKind::from_code(&error.code).is_none_or(ErrorKind::is_catchable)
}
