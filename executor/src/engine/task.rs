//! A tool step: ask, record, send, ask, use. In this order, always.

use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use a2s::api::{Decision, EventKind, RequestPurpose};
use a2s::{Action, Retry, Step, Task};
use futures::future::BoxFuture;
use serde_json::Value;

use super::redirect::{Chain, ChainPlace, Departure};
use super::waiting::JudgedAttempt;
use super::{Engine, Halt, Question, Services, Stop, Way, Why};
use crate::clock::execution_id;
use crate::config::ResponseValidation;
use crate::error::{Error, Kind};
use crate::gate::{Asker, Permitted};
use crate::journal::Journal;
use crate::journal::recorded_exchange::{Asked, Exchange, Kept};
use crate::journal::wait_point::WaitPoint;
use crate::outbound::{Announce, Failure, Fetch, NoSession, Opening, Pause, Reply, Wait};
use crate::plan::{Filled, Unit};
use crate::request::{
    self, Contract, PreparedRequest, RawResponse, asks_for_query, join_misfits, message_of,
    read_response, wants_session,
};
use crate::scope::Scope;
use crate::step_result::{Answer, Head};

/// Records the requests that a step needs beside its own, before they leave.
pub(super) struct Announcer<'a> {
    journal: &'a Journal,
    path: &'a str,
    attempt: u32,
}

impl Announce for Announcer<'_> {
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
pub(super) type Sent = (Result<RawResponse, Failure>, u32);

/// What came of the request of a step, before the guardians were asked about it.
struct Came {
    attempt: u32,
    /// The value of the response, or the failure.
    answer: Result<Value, Error>,
    /// Status and headers, if there was a response.
    head: Option<Head>,
}

impl<'r> Engine<'r> {
    /// Runs the task of a step and gives what its outputs are taken from.
    pub(super) async fn run_task(
        &self,
        unit: &'r Unit,
        path: &str,
        step: &'r Step,
        scope: &Scope<'r>,
        halt: &Halt,
    ) -> Result<Answer, Stop> {
        let Action::Task { task, inputs, outputs } = &step.action else {
            let error = Error::new(Kind::Internal, "a step that is no task was run as one");
            return Err(self.failed(path, error));
        };
        let id = execution_id(self.run, path);
        let filled = unit
            .fill(task, inputs, id, scope, self.secrets, self.max_request_bytes)
            .map_err(|error| self.failed(path, error))?;
        let contract = self.contracts.of(task);
        let question = Question { step: path, contract: &contract, inputs: filled.inputs() };
        match self.services {
            Services::AtHand(answers) => {
                // Nothing is awaited otherwise, and others want to go on, too.
                tokio::task::yield_now().await;
                let answer = answers.answer(&question).map_err(Stop::Failed)?;
                self.learn_outputs(path, unit, outputs, answer, halt).await
            }
            Services::Real(way) => {
                let answer = self.call(way, unit, step, question, &filled, halt);
                let answer = answer.await;
                self.keep(task, &question, &answer);
                answer
            }
        }
    }

    /// Keeps what was asked and answered, for replays.
    fn keep(&self, task: &Task, question: &Question<'_>, answer: &Result<Answer, Stop>) {
        let limit = self.keep_answer_bytes;
        let answer = match answer {
            _ if limit == 0 => return,
            Ok(answer) => Some(Kept::of(answer, self.secrets, limit)),
            Err(Stop::Failed(_)) => None,
            Err(Stop::Waiting(_) | Stop::Halted(_) | Stop::Broken(_)) => return,
        };
        let asked = Asked::of(task, question.inputs.shown);
        self.journal.keep(question.step, Exchange { question: asked, answer });
    }

    /// Asks the guardian, the service, and the guardian again.
    async fn call(
        &self,
        way: Way<'_>,
        unit: &'r Unit,
        step: &'r Step,
        question: Question<'_>,
        filled: &Filled,
        halt: &Halt,
    ) -> Result<Answer, Stop> {
        let Question { step: path, contract, inputs: given } = question;
        let task = contract.task();
        let capability = unit.document.capability();
        let trace = LazyLock::new(|| way.trace_headers(|trace| trace.step(path)));
        let asker = Asker {
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
        if let Some(inquiry) = way.inquiry {
            inquiry.ask(way.gate, &asker, contract, given, wait_point).await;
            return Err(Stop::Halted(Why::Suspended));
        }
        let (outcome, attempt) = match wait_point {
            Some(WaitPoint::Result { attempt, answer, head }) => {
                let answer = answer.clone().map_err(Error::from);
                let came = Came { attempt: *attempt, answer, head: head.clone() };
                return self.use_answer(way, &asker, unit, step, task, came, halt).await;
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
                let admitted = self.admit(way, &asker, unit, step, task, response, attempt, halt);
                let response = admitted.await?;
                let answer = match self.read(task, &response) {
                    Ok(body) => self.check_answer(path, contract, &response, body, halt).await?,
                    Err(error) => Err(error),
                };
                (answer, Some(Head { status: response.status, headers: response.headers }))
            }
        };
        let came = Came { attempt, answer, head };
        self.use_answer(way, &asker, unit, step, task, came, halt).await
    }

    /// Asks the guardians about the request of a step, and sends it.
    async fn ask_and_send(
        &self,
        way: Way<'_>,
        asker: &Asker<'_>,
        step: &'r Step,
        question: &Question<'_>,
        filled: &Filled,
        halt: &Halt,
    ) -> Result<Sent, Stop> {
        let (contract, inputs) = (question.contract, question.inputs);
        let asked = tokio::select! {
            asked = way.gate.ask_request(asker, contract, inputs) => asked,
            why = halt.halted() => return Err(Stop::Halted(why)),
        };
        self.record_decisions(asker, asked.decisions);
        let request = match asked.verdict {
            Ok(request) => request,
            Err(error) => {
                return Err(self.refused(asker, error, JudgedAttempt::default(), None).await);
            }
        };
        let address = filled.hides_address.then(|| request::address(contract.task()).1);
        let retry = step.control.retry.as_ref();
        self.send(way, asker, question, &request, address, retry, halt).await
    }

    /// Asks the guardians about what came of a step, once what is secret in it is learnt, and gives what may
    /// be used.
    #[expect(clippy::too_many_arguments, reason = "an answer, and whose it is")]
    async fn use_answer(
        &self,
        way: Way<'_>,
        asker: &Asker<'_>,
        unit: &'r Unit,
        step: &'r Step,
        task: &Task,
        Came { attempt, answer, mut head }: Came,
        halt: &Halt,
    ) -> Result<Answer, Stop> {
        let mut answer = match answer {
            Ok(body) => {
                let (outputs, answer) = (step.action.outputs(), Answer { body, head });
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
            Ok(body) => Ok(Answer { body: body.into_inner(), head }),
            Err(error) => {
                let status = head.as_ref().map(|head| head.status);
                let waits = error.approval.is_some().then(|| {
                    let answer = answer.map_err(Into::into);
                    WaitPoint::Result { attempt, answer, head }
                });
                let judged = JudgedAttempt { attempt: Some(attempt), status };
                Err(self.refused(asker, error, judged, waits).await)
            }
        }
    }

    /// Asks the guardians about the message that a server of MCP has answered with, before it is
    /// read; what is secret in it is learnt first. Any other answer is what it is.
    #[expect(clippy::too_many_arguments, reason = "an answer, and whose it is")]
    async fn admit(
        &self,
        way: Way<'_>,
        asker: &Asker<'_>,
        unit: &'r Unit,
        step: &'r Step,
        task: &Task,
        response: RawResponse,
        attempt: u32,
        halt: &Halt,
    ) -> Result<RawResponse, Stop> {
        let message = if let Task::Mcp(_) = task { message_of(&response) } else { None };
        let Some(message) = message else { return Ok(response) };
        if let Ok(body) = read_response(task, &response) {
            let head = Head { status: response.status, headers: response.headers.clone() };
            let answer = Answer { body, head: Some(head) };
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
                Err(self.refused(asker, error, judged, waits).await)
            }
        }
    }

    /// Holds an answer to what its operation declares, as far as that is wanted.
    async fn check_answer(
        &self,
        path: &str,
        contract: &Arc<Contract>,
        response: &RawResponse,
        body: Value,
        halt: &Halt,
    ) -> Result<Result<Value, Error>, Stop> {
        if self.check_answers == ResponseValidation::Off {
            return Ok(Ok(body));
        }
        let (misfits, body) = if contract.answer_cost(response, &body).is_expensive() {
            let body = Arc::new(body);
            let (contract, response) = (Arc::clone(contract), response.clone());
            let checked = Arc::clone(&body);
            let evaluation = move || contract.check_answer(&response, &checked);
            let place = "the check of the answer against its schema".to_owned();
            let misfits = Box::pin(self.evaluate(path, place, halt, evaluation)).await?;
            (misfits, Arc::unwrap_or_clone(body))
        } else {
            (Ok(contract.check_answer(response, &body)), body)
        };
        let error = match misfits {
            Ok(misfits) if misfits.is_empty() => return Ok(Ok(body)),
            Ok(misfits) => {
                let misfits = join_misfits(&misfits);
                let message = format!("the answer is not as the operation declares it: {misfits}");
                Error::new(Kind::AnswerMisfit, message)
            }
            Err(overdue) => overdue,
        };
        if self.check_answers == ResponseValidation::Error {
            return Ok(Err(error));
        }
        let warning = error.into_warning();
        self.journal.note(EventKind::Warned { step: path.to_owned(), warning });
        Ok(Ok(body))
    }

    /// Reads an answer. An error quotes it, so it is read again without secrets then: what is cut
    /// off in the middle of one could not be found any more.
    fn read(&self, task: &Task, response: &RawResponse) -> Result<Value, Error> {
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

    /// Sends a request, again where that is safe and of use. Each attempt is on the disk before its
    /// connection is made. `address` is told instead of the true one, if there is one.
    #[expect(clippy::too_many_arguments, reason = "a request, and whose it is")]
    async fn send(
        &self,
        way: Way<'_>,
        asker: &Asker<'_>,
        question: &Question<'_>,
        request: &Permitted<PreparedRequest>,
        address: Option<String>,
        retry: Option<&Retry>,
        halt: &Halt,
    ) -> Result<Sent, Stop> {
        let path = asker.step;
        let Way { outbound, retries, .. } = way;
        let retries = retries.for_step(retry);
        let hides_address = address.is_some();
        let url = address.unwrap_or_else(|| request.url().as_str().to_owned());
        let repeat_safe = request.repeat_safe();
        let effect = usize::from(!repeat_safe);
        let mut whole: Option<Permitted<PreparedRequest>> = None;
        let mut attempt = self.progress.steps.get(path).map_or(0, |recorded| recorded.attempts);
        let mut renewed = false;
        let mut verdicts = Vec::new();
        // What a server of MCP has said to a call outside of a session.
        let mut refusal: Option<RawResponse> = None;
        loop {
            let request = whole.as_ref().unwrap_or(request);
            attempt += 1;
            // Anew for each attempt: what was taken away during a pause is not sent any more.
            let authorized = Box::pin(outbound.authorize(request, self.secrets)).await;
            let mut authorization = match authorized {
                Ok(authorization) => authorization,
                Err(error) => return Ok((Err(Failure::before(error)), attempt)),
            };
            if way.propagate {
                authorization.follow(way.trace_headers(|trace| trace.attempt(path, attempt)));
            }
            let on_fetch = |fetch: Fetch| self.note_fetch(path, attempt, fetch);
            let announcer = self.announcer(path, attempt);
            let (going, time) = (&mut authorization, halt.remaining());
            let equipped = tokio::select! {
                biased;
                why = halt.halted() => return Err(Stop::Halted(why)),
                equipped = Box::pin(
                    outbound.equip(request, going, time, &announcer, &on_fetch)
                ) => equipped,
            };
            if let Err(failure) = equipped {
                // Nothing of the step's own request has left.
                let (now, random) = (self.clock.now(), self.ids.random());
                let pause = retries.pause(true, attempt, Err(&failure), now, random);
                let Some(pause) = pause else { return Ok((Err(failure), attempt)) };
                self.rest(path, attempt, pause, halt).await?;
                continue;
            }
            let mut session = None;
            if refusal.is_some() || outbound.wants_session(request) {
                let on_opening = |opening: Opening| self.note_opening(path, attempt, opening);
                let time = halt.remaining();
                let opened = tokio::select! {
                    biased;
                    why = halt.halted() => return Err(Stop::Halted(why)),
                    opened = Box::pin(
                        outbound.open_session(
                            request, &authorization, time, &announcer, &on_opening
                        )
                    ) => opened,
                };
                match opened {
                    Ok(opened) => session = Some(opened),
                    Err(NoSession { failure, status }) => {
                        // The refusal meant what it said.
                        if let (Some(refusal), Some(_)) = (refusal.take(), status) {
                            return Ok((Ok(refusal), attempt));
                        }
                        if status == Some(401) && authorization.refused().await && !renewed {
                            renewed = true;
                            self.note_renewal(path, attempt);
                            continue;
                        }
                        let (now, random) = (self.clock.now(), self.ids.random());
                        let pause = retries.pause(true, attempt, Err(&failure), now, random);
                        let Some(pause) = pause else { return Ok((Err(failure), attempt)) };
                        self.rest(path, attempt, pause, halt).await?;
                        continue;
                    }
                }
            }
            let inside = session.as_ref().and_then(|session| request.in_session(session));
            let request = inside.as_ref().unwrap_or(request);
            let on_wait = |wait: Wait| self.note_wait(path, wait);
            let turn = tokio::select! {
                // A halt goes first: nothing is begun behind it.
                biased;
                why = halt.halted() => return Err(Stop::Halted(why)),
                turn = outbound.turn(request.url(), halt.remaining(), &on_wait) => turn,
            };
            let turn = match turn {
                Ok(turn) => turn,
                Err(failure) => return Ok((Err(failure), attempt)),
            };
            let chain = Chain { way, asker, question, attempt, hides_address, halt };
            let departure = Departure {
                request,
                authorization: &authorization,
                execution_id: asker.execution_id,
                url: url.clone(),
                digest: request.digest(),
                repeat_safe,
                redirect: None,
            };
            let reply = self.dispatch(&chain, turn, departure).await?;
            let outcome = match reply {
                Ok(Reply::Answer(response)) => Ok(response),
                Ok(reply) => {
                    let place = ChainPlace::first(request, reply);
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
            if is_refused && authorization.refused().await && repeat_safe && !renewed {
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
                self.note_again(path, attempt, "the server wants a session");
                refusal = Some(response.clone());
                continue;
            }
            if let Ok(response) = &outcome
                && request.is_part()
                && (repeat_safe || response.redirects == 0)
                && asks_for_query(response)
            {
                // The service knows the hash of the query only: it has done nothing.
                self.effects.fetch_sub(effect, Ordering::Relaxed);
                self.note_again(path, attempt, "the service asks for the query itself");
                whole = request.whole();
                continue;
            }
            let (now, random) = (self.clock.now(), self.ids.random());
            let pause = retries.pause(repeat_safe, attempt, outcome.as_ref(), now, random);
            let Some(pause) = pause else { return Ok((outcome, attempt)) };
            self.rest(path, attempt, pause, halt).await?;
        }
    }

    /// Pauses before another attempt.
    pub(super) async fn rest(
        &self,
        path: &str,
        attempt: u32,
        pause: Pause,
        halt: &Halt,
    ) -> Result<(), Stop> {
        self.journal.note(EventKind::Retrying {
            step: path.to_owned(),
            attempt,
            reason: pause.reason,
            pause_ms: u64::try_from(pause.length.as_millis()).unwrap_or(u64::MAX),
        });
        tokio::select! {
            () = tokio::time::sleep(pause.length) => Ok(()),
            why = halt.halted() => Err(Stop::Halted(why)),
        }
    }

    fn note_renewal(&self, path: &str, attempt: u32) {
        self.note_again(path, attempt, "the service refused the token; a new one is fetched");
    }

    /// Another attempt follows at once.
    fn note_again(&self, path: &str, attempt: u32, reason: &str) {
        self.journal.note(EventKind::Retrying {
            step: path.to_owned(),
            attempt,
            reason: reason.to_owned(),
            pause_ms: 0,
        });
    }

    /// A session was to be opened.
    fn note_opening(&self, path: &str, attempt: u32, opening: Opening) {
        let Opening { host, revision, duration_ms, failure } = opening;
        self.journal.note(EventKind::SessionOpened {
            step: path.to_owned(),
            attempt,
            host,
            revision: revision.map(str::to_owned),
            duration_ms,
            failure: failure.map(Error::into_warning),
        });
    }

    /// A token was asked for.
    pub(super) fn note_fetch(&self, path: &str, attempt: u32, fetch: Fetch) {
        let Fetch { host, scheme, renewed, duration_ms, failure } = fetch;
        let failure = failure.map(Error::into_warning);
        self.journal.note(EventKind::TokenRequested {
            step: path.to_owned(),
            attempt,
            host,
            scheme,
            renewed,
            duration_ms,
            failure,
        });
    }

    /// A request has to wait for its turn.
    pub(super) fn note_wait(&self, path: &str, wait: Wait) {
        self.metrics.waited(wait.reason);
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.journal.note(EventKind::Throttled {
            step: path.to_owned(),
            host: wait.host,
            reason: wait.reason,
            wait_ms: wait.time.map(milliseconds),
        });
    }

    pub(super) fn announcer<'a>(&'a self, path: &'a str, attempt: u32) -> Announcer<'a> {
        Announcer { journal: self.journal, path, attempt }
    }

    pub(super) fn record_decisions(&self, asker: &Asker<'_>, decisions: Vec<Decision>) {
        for decision in decisions {
            self.journal.note(EventKind::Decided {
                step: asker.step.to_owned(),
                execution_id: asker.execution_id,
                decision,
            });
        }
    }
}
