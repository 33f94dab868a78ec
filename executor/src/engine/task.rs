//! A tool step: ask, record, send, ask, use. In this order, always.

use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use a2s::{RetryPolicy, Step, Task, TaskStep};
use a2s_api::{DecisionRecord, EventKind, RequestPurpose};
use futures::future::BoxFuture;
use serde_json::Value;

use super::redirect::{ChainPosition, OutgoingRequest, RedirectChain};
use super::waiting::JudgedAttempt;
use super::{
    CancelReason, CancelToken, Engine, LiveTransport, ServiceTransport, StepError, TaskRequest,
};
use crate::clock::execution_id;
use crate::config::ResponseValidation;
use crate::error::{Error, ErrorKind};
use crate::gate::{GuardedStep, Permitted};
use crate::journal::Journal;
use crate::journal::recorded_exchange::{ExchangeRequest, ExchangeResponse, RecordedExchange};
use crate::journal::wait_point::WaitPoint;
use crate::outbound::{
    AnnounceRequest, RetryPause, SendError, ServiceReply, SessionError, SessionOpening, Throttle,
    TokenFetch,
};
use crate::plan::{BoundInputs, PlanUnit};
use crate::request::{
    self, PreparedRequest, RawResponse, TaskContract, asks_for_query, join_violations, message_of,
    read_response, wants_session,
};
use crate::scope::VariableScope;
use crate::step_result::{ResponseHead, StepResult};

/// Records the additional requests of a step before they are sent.
pub(super) struct RequestAnnouncer<'a> {
    journal: &'a Journal,
    path: &'a str,
    attempt: u32,
}

impl AnnounceRequest for RequestAnnouncer<'_> {
    fn announce<'a>(
        &'a self,
        purpose: RequestPurpose,
        request: &PreparedRequest,
    ) -> BoxFuture<'a, Result<(), Error>> {
        let requesting = EventKind::Requesting {
            step: self.path.to_owned(),
            attempt: self.attempt,
            purpose,
            method: request.method().as_str().to_owned(),
            url: request.url().as_str().to_owned(),
        };
        Box::pin(self.journal.commit(requesting))
    }
}

/// The outcome of an attempt, and its number.
pub(super) type AttemptOutcome = (Result<RawResponse, SendError>, u32);

/// The outcome of the request of a step, before the guardians are asked about it.
struct AttemptResponse {
    attempt: u32,
    /// The value of the response, or the failure.
    answer: Result<Value, Error>,
    /// Status and headers, if there was a response.
    head: Option<ResponseHead>,
}

impl<'r> Engine<'r> {
    /// Runs the task of a step, and returns the result from which its outputs are taken.
    pub(super) async fn run_task(
        &self,
        unit: &'r PlanUnit,
        path: &str,
        step: &'r Step,
        scope: &VariableScope<'r>,
        halt: &CancelToken,
    ) -> Result<StepResult, StepError> {
        let Some(TaskStep { task, inputs, outputs }) = step.action.as_task() else {
            let error =
                Error::new(ErrorKind::Internal, "a step was run as a task, but is not a task");
            return Err(self.fail_step(path, error));
        };
        let id = execution_id(self.run, path);
        let filled = unit
            .bind_inputs(task, inputs, id, scope, self.secrets, self.max_request_bytes)
            .map_err(|error| self.fail_step(path, error))?;
        let contract = self.contracts.contract_for(task);
        let question = TaskRequest { step: path, contract: &contract, inputs: filled.to_guarded() };
        match self.transport {
            ServiceTransport::Canned(answers) => {
                // Nothing is awaited otherwise, and others want to go on, too.
                tokio::task::yield_now().await;
                let answer = answers.respond(&question).map_err(StepError::Failed)?;
                self.learn_outputs(path, unit, outputs, answer, halt).await
            }
            ServiceTransport::Live(way) => {
                let answer = self.call_service(way, unit, step, question, &filled, halt);
                let answer = answer.await;
                self.record_exchange(task, &question, &answer);
                answer
            }
        }
    }

    /// Records request and response, for replays.
    fn record_exchange(
        &self,
        task: &Task,
        question: &TaskRequest<'_>,
        answer: &Result<StepResult, StepError>,
    ) {
        let limit = self.keep_answer_bytes;
        let answer = match answer {
            _ if limit == 0 => return,
            Ok(answer) => Some(ExchangeResponse::from_result(answer, self.secrets, limit)),
            Err(StepError::Failed(_)) => None,
            Err(StepError::Waiting(_) | StepError::Cancelled(_) | StepError::Broken(_)) => return,
        };
        let asked = ExchangeRequest::from_task(task, question.inputs.masked);
        self.journal.record_exchange(question.step, RecordedExchange { question: asked, answer });
    }

    /// Asks the guardian, the service, and the guardian again.
    async fn call_service(
        &self,
        way: LiveTransport<'_>,
        unit: &'r PlanUnit,
        step: &'r Step,
        question: TaskRequest<'_>,
        filled: &BoundInputs,
        halt: &CancelToken,
    ) -> Result<StepResult, StepError> {
        let TaskRequest { step: path, contract, inputs: given } = question;
        let task = contract.task();
        let capability = unit.document.capability();
        let trace = LazyLock::new(|| way.trace_headers(|trace| trace.step(path)));
        let asker = GuardedStep {
            principal: way.principal,
            run: self.run,
            session: self.session,
            execution_id: filled.execution_id,
            step: path,
            capability: &unit.pin,
            root: &self.plan.root.pin,
            description: &capability.description,
            permissions: &capability.permissions,
            domains: &capability.domains,
            secrets: self.secrets,
            trace: &trace,
        };
        let wait_point = self.wait_point(path);
        if let Some(inquiry) = way.approval_poll {
            inquiry.poll_step(way.gate, &asker, contract, given, wait_point).await;
            return Err(StepError::Cancelled(CancelReason::Suspended));
        }
        let (outcome, attempt) = match wait_point {
            Some(WaitPoint::Result { attempt, answer, head }) => {
                let answer = answer.clone().map_err(Error::from);
                let came = AttemptResponse { attempt: *attempt, answer, head: head.clone() };
                return self.accept_response(way, &asker, unit, step, task, came, halt).await;
            }
            Some(WaitPoint::McpAnswer { attempt, response }) => (Ok(response.clone()), *attempt),
            Some(WaitPoint::Redirect(point)) => {
                let retry = step.control.retry.as_ref();
                let resumed = self.resume_redirect(way, &asker, &question, point, retry, halt);
                match Box::pin(resumed).await? {
                    Some(sent) => sent,
                    None => self.ask_and_send(way, &asker, step, &question, filled, halt).await?,
                }
            }
            None => self.ask_and_send(way, &asker, step, &question, filled, halt).await?,
        };
        let (answer, head) = match outcome {
            Err(failure) => (Err(failure.error), None),
            Ok(response) => {
                let admitted =
                    self.judge_mcp_message(way, &asker, unit, step, task, response, attempt, halt);
                let response = admitted.await?;
                let answer = match self.read_body(task, &response) {
                    Ok(body) => self.check_response(path, contract, &response, body, halt).await?,
                    Err(error) => Err(error),
                };
                (answer, Some(ResponseHead { status: response.status, headers: response.headers }))
            }
        };
        let came = AttemptResponse { attempt, answer, head };
        self.accept_response(way, &asker, unit, step, task, came, halt).await
    }

    /// Asks the guardians about the request of a step, and sends it.
    async fn ask_and_send(
        &self,
        way: LiveTransport<'_>,
        asker: &GuardedStep<'_>,
        step: &'r Step,
        question: &TaskRequest<'_>,
        filled: &BoundInputs,
        halt: &CancelToken,
    ) -> Result<AttemptOutcome, StepError> {
        let (contract, inputs) = (question.contract, question.inputs);
        let asked = tokio::select! {
            asked = way.gate.ask_request(asker, contract, inputs) => asked,
            why = halt.wait_for_cancel() => return Err(StepError::Cancelled(why)),
        };
        self.record_decisions(asker, asked.decisions);
        let request = match asked.verdict {
            Ok(request) => request,
            Err(error) => {
                return Err(self.wait_or_fail(asker, error, JudgedAttempt::default(), None).await);
            }
        };
        let address = filled.has_secret_address.then(|| request::method_and_url(contract.task()).1);
        let retry = step.control.retry.as_ref();
        self.send_with_retries(way, asker, question, &request, address, retry, halt).await
    }

    /// Learns the secrets in the result of a step, asks the guardians about it, and returns the part that
    /// may be used.
    #[expect(clippy::too_many_arguments, reason = "an answer, and whose it is")]
    async fn accept_response(
        &self,
        way: LiveTransport<'_>,
        asker: &GuardedStep<'_>,
        unit: &'r PlanUnit,
        step: &'r Step,
        task: &Task,
        AttemptResponse { attempt, answer, mut head }: AttemptResponse,
        halt: &CancelToken,
    ) -> Result<StepResult, StepError> {
        let mut answer = match answer {
            Ok(body) => {
                let (outputs, answer) = (step.action.outputs(), StepResult { body, head });
                let answer = self.learn_outputs(asker.step, unit, outputs, answer, halt).await?;
                head = answer.head;
                Ok(answer.body)
            }
            Err(error) => Err(error),
        };
        // Not cut short by a halt: the request had its effect, and what came of it is recorded.
        let asked = way.gate.ask_result(asker, task, &mut answer).await;
        self.record_decisions(asker, asked.decisions);
        match asked.verdict {
            Ok(body) => Ok(StepResult { body: body.into_inner(), head }),
            Err(error) => {
                let status = head.as_ref().map(|head| head.status);
                let waits = error.approval.is_some().then(|| {
                    let answer = answer.map_err(Into::into);
                    WaitPoint::Result { attempt, answer, head }
                });
                let judged = JudgedAttempt { attempt: Some(attempt), status };
                Err(self.wait_or_fail(asker, error, judged, waits).await)
            }
        }
    }

    /// Asks the guardians about the message in the response of an MCP server before it is read, and learns
    /// its secrets first. Any other response is returned unchanged.
    #[expect(clippy::too_many_arguments, reason = "an answer, and whose it is")]
    async fn judge_mcp_message(
        &self,
        way: LiveTransport<'_>,
        asker: &GuardedStep<'_>,
        unit: &'r PlanUnit,
        step: &'r Step,
        task: &Task,
        response: RawResponse,
        attempt: u32,
        halt: &CancelToken,
    ) -> Result<RawResponse, StepError> {
        let message = if let Task::Mcp(_) = task { message_of(&response) } else { None };
        let Some(message) = message else { return Ok(response) };
        if let Ok(body) = read_response(task, &response) {
            let head = ResponseHead { status: response.status, headers: response.headers.clone() };
            let answer = StepResult { body, head: Some(head) };
            let outputs = step.action.outputs();
            self.learn_outputs(asker.step, unit, outputs, answer, halt).await?;
        }
        let asked = way.gate.ask_message(asker, task, message).await;
        self.record_decisions(asker, asked.decisions);
        match asked.verdict {
            Ok(message) => Ok(response.with_message(&message)),
            Err(error) => {
                let judged =
                    JudgedAttempt { attempt: Some(attempt), status: Some(response.status) };
                let waits = error.approval.is_some();
                let waits = waits.then_some(WaitPoint::McpAnswer { attempt, response });
                Err(self.wait_or_fail(asker, error, judged, waits).await)
            }
        }
    }

    /// Checks a response against the declaration of its operation, if the configuration requires it.
    async fn check_response(
        &self,
        path: &str,
        contract: &Arc<TaskContract>,
        response: &RawResponse,
        body: Value,
        halt: &CancelToken,
    ) -> Result<Result<Value, Error>, StepError> {
        if self.response_validation == ResponseValidation::Off {
            return Ok(Ok(body));
        }
        let (violations, body) = if contract.response_cost(response, &body).is_expensive() {
            let body = Arc::new(body);
            let (contract, response) = (Arc::clone(contract), response.clone());
            let checked = Arc::clone(&body);
            let evaluation = move || contract.check_response(&response, &checked);
            let place = "the check of the response against its schema".to_owned();
            let violations = Box::pin(self.evaluate(path, place, halt, evaluation)).await?;
            (violations, Arc::unwrap_or_clone(body))
        } else {
            (Ok(contract.check_response(response, &body)), body)
        };
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
        if self.response_validation == ResponseValidation::Error {
            return Ok(Err(error));
        }
        let warning = error.into_step_warning();
        self.journal.append(EventKind::Warned { step: path.to_owned(), warning });
        Ok(Ok(body))
    }

    /// Reads a response. An error quotes the response. If there is an error, the response is read again
    /// without secrets, because a secret that the quotation cuts could not be found and masked any more.
    fn read_body(&self, task: &Task, response: &RawResponse) -> Result<Value, Error> {
        let error = match read_response(task, response) {
            Ok(body) => return Ok(body),
            Err(error) => Error::from(error),
        };
        if self.secrets.is_empty() {
            return Err(error);
        }
        match read_response(task, &self.secrets.mask_response(response)) {
            Err(masked) => Err(masked.into()),
            Ok(_) => Err(Error { message: error.kind.code().title.to_owned(), ..error }),
        }
    }

    /// Sends a request, and repeats it where that is safe and useful. Each attempt is on the disk before
    /// its connection is made. The journal shows `address` instead of the real address, if there is one.
    #[expect(clippy::too_many_arguments, reason = "a request, and whose it is")]
    async fn send_with_retries(
        &self,
        way: LiveTransport<'_>,
        asker: &GuardedStep<'_>,
        question: &TaskRequest<'_>,
        request: &Permitted<PreparedRequest>,
        address: Option<String>,
        retry: Option<&RetryPolicy>,
        halt: &CancelToken,
    ) -> Result<AttemptOutcome, StepError> {
        let path = asker.step;
        let LiveTransport { outbound, retries, .. } = way;
        let retries = retries.for_step(retry);
        let hides_address = address.is_some();
        let url = address.unwrap_or_else(|| request.url().as_str().to_owned());
        let repeat_safe = request.is_repeat_safe();
        let effect = usize::from(!repeat_safe);
        let mut whole: Option<Permitted<PreparedRequest>> = None;
        let mut attempt = self.progress.steps.get(path).map_or(0, |recorded| recorded.attempts);
        let mut renewed = false;
        let mut verdicts = Vec::new();
        // An MCP server's rejection of a call outside of a session.
        let mut refusal: Option<RawResponse> = None;
        loop {
            let request = whole.as_ref().unwrap_or(request);
            attempt += 1;
            // Again for each attempt: a credential removed during a pause is no longer sent.
            let authorized = Box::pin(outbound.authorize(request, self.secrets)).await;
            let mut authorization = match authorized {
                Ok(authorization) => authorization,
                Err(error) => return Ok((Err(SendError::before_send(error)), attempt)),
            };
            if way.propagate {
                authorization.add_trace(way.trace_headers(|trace| trace.attempt(path, attempt)));
            }
            let on_fetch = |fetch: TokenFetch| self.note_fetch(path, attempt, fetch);
            let announcer = self.announcer(path, attempt);
            let (going, time) = (&mut authorization, halt.remaining_time());
            let equipped = tokio::select! {
                biased;
                why = halt.wait_for_cancel() => return Err(StepError::Cancelled(why)),
                equipped = Box::pin(
                    outbound.fetch_tokens(request, going, time, &announcer, &on_fetch)
                ) => equipped,
            };
            if let Err(failure) = equipped {
                // Nothing of the step's own request has left.
                let (now, random) = (self.clock.now(), self.ids.random_bytes());
                let pause = retries.next_pause(true, attempt, Err(&failure), now, random);
                let Some(pause) = pause else { return Ok((Err(failure), attempt)) };
                self.pause_before_retry(path, attempt, pause, halt).await?;
                continue;
            }
            let mut session = None;
            if refusal.is_some() || outbound.wants_session(request) {
                let on_opening =
                    |opening: SessionOpening| self.note_opening(path, attempt, opening);
                let time = halt.remaining_time();
                let opened = tokio::select! {
                    biased;
                    why = halt.wait_for_cancel() => return Err(StepError::Cancelled(why)),
                    opened = Box::pin(
                        outbound.open_session(
                            request, &authorization, time, &announcer, &on_opening
                        )
                    ) => opened,
                };
                match opened {
                    Ok(opened) => session = Some(opened),
                    Err(SessionError { failure, status }) => {
                        // The first rejection was final.
                        if let (Some(refusal), Some(_)) = (refusal.take(), status) {
                            return Ok((Ok(refusal), attempt));
                        }
                        if status == Some(401) && authorization.discard_tokens().await && !renewed {
                            renewed = true;
                            self.note_renewal(path, attempt);
                            continue;
                        }
                        let (now, random) = (self.clock.now(), self.ids.random_bytes());
                        let pause = retries.next_pause(true, attempt, Err(&failure), now, random);
                        let Some(pause) = pause else { return Ok((Err(failure), attempt)) };
                        self.pause_before_retry(path, attempt, pause, halt).await?;
                        continue;
                    }
                }
            }
            let inside = session.as_ref().and_then(|session| request.in_session(session));
            let request = inside.as_ref().unwrap_or(request);
            let on_wait = |wait: Throttle| self.note_wait(path, wait);
            let turn = tokio::select! {
                // Cancellation first: nothing starts after it.
                biased;
                why = halt.wait_for_cancel() => return Err(StepError::Cancelled(why)),
                turn = outbound.acquire_permit(request.url(), halt.remaining_time(), &on_wait) => turn,
            };
            let turn = match turn {
                Ok(turn) => turn,
                Err(failure) => return Ok((Err(failure), attempt)),
            };
            let chain = RedirectChain {
                transport: way,
                asker,
                request: question,
                attempt,
                has_secret_address: hides_address,
                cancel: halt,
            };
            let departure = OutgoingRequest {
                request,
                authorization: &authorization,
                execution_id: asker.execution_id,
                url: url.clone(),
                digest: request.digest(),
                repeat_safe,
                redirect: None,
            };
            let reply = self.send_and_record(&chain, turn, departure).await?;
            let outcome = match reply {
                Ok(ServiceReply::Response(response)) => Ok(response),
                Ok(reply) => {
                    let place = ChainPosition::first(request, reply);
                    let followed = self.follow_redirects(&chain, request, place, &mut verdicts);
                    Box::pin(followed).await?
                }
                Err(failure) => Err(failure),
            };
            if let Some(session) = &session {
                outbound.close_session(request, session, &authorization, &announcer).await;
            }
            let is_refused = matches!(&outcome, Ok(response) if response.status == 401);
            // A token that was kept may have been taken back meanwhile: once a new one is tried.
            if is_refused && authorization.discard_tokens().await && repeat_safe && !renewed {
                renewed = true;
                self.note_renewal(path, attempt);
                continue;
            }
            if session.is_none()
                && request.may_need_session()
                && refusal.is_none()
                && let Ok(response) = &outcome
                && response.redirects == 0
                && wants_session(response)
            {
                // It was refused before any tool was run: nothing has been done.
                self.effects.fetch_sub(effect, Ordering::Relaxed);
                self.note_retry(path, attempt, "the server requires a session");
                refusal = Some(response.clone());
                continue;
            }
            if let Ok(response) = &outcome
                && request.is_hash_only()
                && (repeat_safe || response.redirects == 0)
                && asks_for_query(response)
            {
                // The service knows the hash of the query only: it has done nothing.
                self.effects.fetch_sub(effect, Ordering::Relaxed);
                self.note_retry(path, attempt, "the service requires the full query");
                whole = request.with_full_body();
                continue;
            }
            let (now, random) = (self.clock.now(), self.ids.random_bytes());
            let pause = retries.next_pause(repeat_safe, attempt, outcome.as_ref(), now, random);
            let Some(pause) = pause else { return Ok((outcome, attempt)) };
            self.pause_before_retry(path, attempt, pause, halt).await?;
        }
    }

    /// Records a retry, and pauses before it.
    pub(super) async fn pause_before_retry(
        &self,
        path: &str,
        attempt: u32,
        pause: RetryPause,
        halt: &CancelToken,
    ) -> Result<(), StepError> {
        self.journal.append(EventKind::Retrying {
            step: path.to_owned(),
            attempt,
            reason: pause.reason,
            pause_ms: u64::try_from(pause.length.as_millis()).unwrap_or(u64::MAX),
        });
        tokio::select! {
            () = tokio::time::sleep(pause.length) => Ok(()),
            why = halt.wait_for_cancel() => Err(StepError::Cancelled(why)),
        }
    }

    fn note_renewal(&self, path: &str, attempt: u32) {
        self.note_retry(
            path,
            attempt,
            "the service rejected the token; the executor fetches a new one",
        );
    }

    /// Records another attempt that follows at once.
    fn note_retry(&self, path: &str, attempt: u32, reason: &str) {
        self.journal.append(EventKind::Retrying {
            step: path.to_owned(),
            attempt,
            reason: reason.to_owned(),
            pause_ms: 0,
        });
    }

    /// Records the opening of a session.
    fn note_opening(&self, path: &str, attempt: u32, opening: SessionOpening) {
        let SessionOpening { host, revision, duration_ms, failure } = opening;
        self.journal.append(EventKind::SessionOpened {
            step: path.to_owned(),
            attempt,
            host,
            revision: revision.map(str::to_owned),
            duration_ms,
            failure: failure.map(Error::into_step_warning),
        });
    }

    /// Records the request for a token.
    pub(super) fn note_fetch(&self, path: &str, attempt: u32, fetch: TokenFetch) {
        let TokenFetch { host, scheme, renewed, duration_ms, failure } = fetch;
        let failure = failure.map(Error::into_step_warning);
        self.journal.append(EventKind::TokenRequested {
            step: path.to_owned(),
            attempt,
            host,
            scheme,
            renewed,
            duration_ms,
            failure,
        });
    }

    /// The wait of a request for its turn.
    pub(super) fn note_wait(&self, path: &str, wait: Throttle) {
        self.metrics.waited(wait.reason);
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.journal.append(EventKind::Throttled {
            step: path.to_owned(),
            host: wait.host,
            reason: wait.reason,
            wait_ms: wait.time.map(milliseconds),
        });
    }

    pub(super) fn announcer<'a>(&'a self, path: &'a str, attempt: u32) -> RequestAnnouncer<'a> {
        RequestAnnouncer { journal: self.journal, path, attempt }
    }

    pub(super) fn record_decisions(&self, asker: &GuardedStep<'_>, decisions: Vec<DecisionRecord>) {
        for decision in decisions {
            self.journal.append(EventKind::Decided {
                step: asker.step.to_owned(),
                execution_id: asker.execution_id,
                decision,
            });
        }
    }
}
