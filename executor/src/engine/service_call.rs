//! The call of a service by a task step: ask, record, send, ask, use. In this order, always.

use a2s::{OutputMapping, Task};
use a2s_api::EventKind;
use serde_json::Value;

use super::evaluation::StepEvaluator;
use super::recorder::{JudgedAttempt, RunRecorder};
use super::send::{LastAttempt, RequestSender};
use super::{CancelReason, StepError};
use crate::config::ResponseValidation;
use crate::error::{Error, ErrorKind};
use crate::journal::wait_point::WaitPoint;
use crate::plan::PlanUnit;
use crate::request::{RawResponse, has_lone_surrogate, join_violations, message_of, read_response};
use crate::secrets::{Masked, secret_placeholder};
use crate::step_result::{ResponseHead, StepResult};

/// The warning for a response with half of a surrogate pair.
const CUT_TEXT: &str = "the response contains half of a character (a lone surrogate); the executor replaced it with U+FFFD";

/// The call of a service by one step.
pub(super) struct ServiceCall<'c> {
    /// The sender of its request.
    pub(super) sender: RequestSender<'c>,
    /// The evaluator of expressions over its response.
    pub(super) evaluator: StepEvaluator<'c>,
    /// The capability of the step.
    pub(super) unit: &'c PlanUnit,
    /// The outputs that the step takes from the response.
    pub(super) outputs: &'c [OutputMapping],
}

/// The outcome of the request of a step, before the guardians are asked about it.
struct ServiceResult {
    attempt: u32,
    /// The value of the response, or the failure.
    value: Result<Value, Error>,
    /// Status and headers, if there was a response.
    head: Option<ResponseHead>,
}

impl<'c> ServiceCall<'c> {
    /// Asks the guardian, the service, and the guardian again. A step that has waited for an approval
    /// continues there.
    pub(super) async fn perform(&self) -> Result<StepResult, StepError> {
        let sender = &self.sender;
        let wait_point = self.recorder().wait_point(sender.asker.step);
        if let Some(poll) = sender.live.approval_poll {
            let (contract, inputs) = (sender.task.contract, sender.task.inputs);
            let head = match wait_point {
                Some(WaitPoint::Result { answer: Ok(_), head, .. }) => head.as_ref(),
                _ => None,
            };
            let waiting = (wait_point, self.head_outputs(head));
            poll.poll_step(sender.live.gate, &sender.asker, contract, inputs, waiting).await;
            return Err(StepError::Cancelled(CancelReason::Suspended));
        }
        let sent = match wait_point {
            Some(WaitPoint::Result { attempt, answer, head }) => {
                let value = answer.clone().map_err(Error::from);
                let result = ServiceResult { attempt: *attempt, value, head: head.clone() };
                return self.accept_result(result).await;
            }
            Some(WaitPoint::McpAnswer { attempt, response }) => {
                LastAttempt { number: *attempt, outcome: Ok(response.clone()) }
            }
            Some(WaitPoint::Redirect(point)) => {
                match Box::pin(sender.resume_redirect(point)).await? {
                    Some(sent) => sent,
                    None => sender.ask_and_send().await?,
                }
            }
            None => sender.ask_and_send().await?,
        };
        let result = self.read_result(sent).await?;
        self.accept_result(result).await
    }

    fn recorder(&self) -> &'c RunRecorder<'c> {
        self.sender.recorder
    }

    fn task(&self) -> &'c Task {
        self.sender.task.contract.task()
    }

    /// Reads the last response.
    async fn read_result(
        &self,
        LastAttempt { number: attempt, outcome }: LastAttempt,
    ) -> Result<ServiceResult, StepError> {
        let has_cut_text = |response: &RawResponse| has_lone_surrogate(&response.body);
        let has_cut_text = outcome.as_ref().is_ok_and(has_cut_text);
        let response = match outcome {
            Ok(response) => self.judge_mcp_message(attempt, response).await?,
            Err(failure) => {
                return Ok(ServiceResult { attempt, value: Err(failure.error), head: None });
            }
        };
        let value = match self.read_body(&response) {
            Ok(body) => {
                if has_cut_text && (body.is_object() || body.is_array()) {
                    self.warn(Error::new(ErrorKind::ResponseSchemaViolation, CUT_TEXT));
                }
                self.check_response(&response, body).await?
            }
            Err(error) => Err(error),
        };
        let head = ResponseHead { status: response.status, headers: response.headers };
        Ok(ServiceResult { attempt, value, head: Some(head) })
    }

    /// Asks the guardians about the message in the response of an MCP server before it is read, and learns
    /// its secrets first. Any other response is returned unchanged.
    async fn judge_mcp_message(
        &self,
        attempt: u32,
        response: RawResponse,
    ) -> Result<RawResponse, StepError> {
        let (task, asker) = (self.task(), &self.sender.asker);
        let message = if let Task::Mcp(_) = task { message_of(&response) } else { None };
        let Some(message) = message else { return Ok(response) };
        if let Ok(body) = read_response(task, &response) {
            let head = ResponseHead { status: response.status, headers: response.headers.clone() };
            self.learn_outputs(StepResult::new(body, Some(head))).await?;
        }
        let asked = self.sender.live.gate.ask_message(asker, task, message).await;
        self.recorder().record_decisions(asker, asked.decisions);
        match asked.verdict {
            Ok(message) => Ok(response.with_message(&message)),
            Err(error) => {
                let (attempt_number, status) = (Some(attempt), Some(response.status));
                let judged = JudgedAttempt { attempt: attempt_number, status };
                let waits = error.approval.is_some();
                let wait_point = waits.then_some(WaitPoint::McpAnswer { attempt, response });
                Err(self.recorder().wait_or_fail(asker, error, judged, wait_point).await)
            }
        }
    }

    /// Checks a response against the declaration of its operation, if the configuration requires it.
    async fn check_response(
        &self,
        response: &RawResponse,
        body: Value,
    ) -> Result<Result<Value, Error>, StepError> {
        let validation = self.sender.live.response_validation;
        if validation == ResponseValidation::Off {
            return Ok(Ok(body));
        }
        let contract = self.sender.task.contract;
        let (violations, body) = self.evaluator.check_response(contract, response, body).await?;
        let error = match violations {
            Ok(violations) if violations.is_empty() => return Ok(Ok(body)),
            Ok(violations) => {
                let violations = join_violations(&violations);
                let message = format!(
                    "the response does not match its declaration in the operation: {violations}"
                );
                Error::new(ErrorKind::ResponseSchemaViolation, message)
            }
            Err(overdue) => overdue,
        };
        if validation == ResponseValidation::Error {
            return Ok(Err(error));
        }
        self.warn(error);
        Ok(Ok(body))
    }

    /// Records a warning of the step.
    fn warn(&self, error: Error) {
        let (step, warning) = (self.sender.asker.step.to_owned(), error.into_step_warning());
        self.recorder().journal.append(EventKind::Warned { step, warning });
    }

    /// Reads a response. An error quotes the response. If there is an error, the response is read again
    /// without secrets, because a secret that the quotation cuts could not be found and masked any more.
    fn read_body(&self, response: &RawResponse) -> Result<Value, Error> {
        let (task, secrets) = (self.task(), self.recorder().secrets);
        let error = match read_response(task, response) {
            Ok(body) => return Ok(body),
            Err(error) => Error::from(error),
        };
        if secrets.is_empty() {
            return Err(error);
        }
        match read_response(task, &secrets.mask_response(response)) {
            Err(masked) => Err(masked.into()),
            Ok(_) => Err(Error { message: error.kind.code().title.to_owned(), ..error }),
        }
    }

    /// Learns the secrets in the result of a step, asks the guardians about it, and returns the part that
    /// may be used.
    async fn accept_result(&self, result: ServiceResult) -> Result<StepResult, StepError> {
        let ServiceResult { attempt, value, mut head } = result;
        let asker = &self.sender.asker;
        let mut value = match value {
            Ok(body) => {
                let result = self.learn_outputs(StepResult::new(body, head)).await?;
                head = result.head;
                Ok(result.body)
            }
            Err(error) => Err(error),
        };
        // Not cut short by a cancellation: the request had its effect, and its outcome is recorded.
        let (gate, outputs) = (self.sender.live.gate, self.head_outputs(head.as_ref()));
        let asked = gate.ask_result(asker, self.task(), &mut value, outputs).await;
        self.recorder().record_decisions(asker, asked.decisions);
        match asked.verdict {
            Ok(allowed) => {
                let (body, head_outputs) = allowed.into_inner();
                Ok(StepResult { body, head, head_outputs })
            }
            Err(error) => {
                let status = head.as_ref().map(|head| head.status);
                let wait_point = error.approval.is_some().then(|| {
                    let answer = value.map_err(Into::into);
                    WaitPoint::Result { attempt, answer, head }
                });
                let judged = JudgedAttempt { attempt: Some(attempt), status };
                Err(self.recorder().wait_or_fail(asker, error, judged, wait_point).await)
            }
        }
    }

    /// The outputs that the step takes from status and headers, if there are any.
    fn head_outputs(&self, head: Option<&ResponseHead>) -> Option<Masked<Value>> {
        let actual = head?.values_of(self.outputs);
        if actual.is_empty() {
            return None;
        }
        let secrets = self.recorder().secrets;
        let mut shown = actual.clone();
        for output in self.outputs {
            if let Some(value) = shown.get_mut(&output.dotted()) {
                let is_secret = self.unit.sensitive.contains(output.variable());
                *value = if is_secret { secret_placeholder() } else { secrets.mask(value) };
            }
        }
        Some(Masked::new(Value::Object(actual), Value::Object(shown)))
    }

    async fn learn_outputs(&self, result: StepResult) -> Result<StepResult, StepError> {
        self.evaluator.learn_outputs(self.unit, self.outputs, result).await
    }
}
