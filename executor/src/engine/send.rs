//! The request of a step on its way to the service: asked about, sent, and repeated where that is safe and
//! useful.
//!
//! [`SendProgress`] decides, [`RequestSender`] performs.

mod outgoing_request;
mod redirect;
mod send_progress;

use a2s::{HIDDEN, RetryPolicy};

use super::attempt_recorder::AttemptRecorder;
use super::recorder::{JudgedAttempt, RunRecorder};
use super::{CancelToken, LiveTransport, StepError, TaskRequest};
use crate::gate::{GuardedStep, Permitted};
use crate::journal::wait_point::RedirectPoint;
use crate::outbound::{RetryPause, RetrySchedule, SendError};
use crate::request::{PreparedRequest, prepare_masked};
use crate::telemetry::RunTrace;
use outgoing_request::OutgoingRequest;
use redirect::{AllowedRedirects, ChainPosition, RedirectChain};
use send_progress::{
    AttemptEnd, RepeatReason, RequestTraits, SendAction, SendOutcome, SendProgress,
};

/// Sends the request of one step.
pub(super) struct RequestSender<'c> {
    /// The recorder of the walk.
    pub(super) recorder: &'c RunRecorder<'c>,
    /// The transport.
    pub(super) live: LiveTransport<'c>,
    /// The step, as guardians see it.
    pub(super) asker: GuardedStep<'c>,
    /// The task, and the values for its parameters.
    pub(super) task: TaskRequest<'c>,
    /// The retry policy of the step, if it has one.
    pub(super) retry: Option<&'c RetryPolicy>,
    /// Set when the address contains a secret that cannot be found in a text.
    pub(super) has_secret_address: bool,
    /// Cancels the step.
    pub(super) cancel: &'c CancelToken,
}

/// The last attempt of a request.
pub(super) struct LastAttempt {
    /// Its number, from 1.
    pub(super) number: u32,
    /// Its outcome.
    pub(super) outcome: SendOutcome,
}

impl RequestSender<'_> {
    /// Asks the guardians about the request, and sends it.
    pub(super) async fn ask_and_send(&self) -> Result<LastAttempt, StepError> {
        let TaskRequest { contract, inputs, .. } = self.task;
        let asked = tokio::select! {
            asked = self.live.gate.ask_request(&self.asker, contract, inputs) => asked,
            why = self.cancel.wait_for_cancel() => return Err(StepError::Cancelled(why)),
        };
        self.recorder.record_decisions(&self.asker, asked.decisions);
        match asked.verdict {
            Ok(request) => self.send(&request).await,
            Err(error) => {
                let judged = JudgedAttempt::default();
                Err(self.recorder.wait_or_fail(&self.asker, error, judged, None).await)
            }
        }
    }

    /// Sends a request, and repeats it as its progress requires.
    async fn send(&self, request: &Permitted<PreparedRequest>) -> Result<LastAttempt, StepError> {
        let attempts = self.recorder.recorded(self.asker.step).map_or(0, |step| step.attempts);
        let traits = RequestTraits::from(&**request);
        let mut progress = SendProgress::new(traits, self.retries(), attempts);
        let mut full_query = None;
        let mut allowed = AllowedRedirects::new();
        loop {
            let current = full_query.as_ref().unwrap_or(request);
            let recorder = self.attempt_recorder(progress.begin_attempt());
            match self.run_attempt(recorder, current, &mut progress, &mut allowed).await? {
                AttemptEnd::Done(outcome) => {
                    return Ok(LastAttempt { number: recorder.attempt, outcome });
                }
                AttemptEnd::Pause(pause) => self.pause(recorder, &pause).await?,
                AttemptEnd::Repeat { reason, takes_back_effect } => {
                    if takes_back_effect {
                        self.recorder.take_back_effect();
                    }
                    recorder.record_retry(&RetryPause::none(reason.message()));
                    if reason == RepeatReason::ExpandQuery {
                        full_query = current.with_full_body();
                    }
                }
            }
        }
    }

    /// Performs the actions of one attempt.
    async fn run_attempt(
        &self,
        recorder: AttemptRecorder<'_>,
        request: &Permitted<PreparedRequest>,
        progress: &mut SendProgress,
        allowed: &mut AllowedRedirects,
    ) -> Result<AttemptEnd, StepError> {
        // Again for each attempt: a credential removed during a pause is no longer sent.
        let authorization = self.live.outbound.authorize(request, self.recorder.secrets);
        let mut authorization = match Box::pin(authorization).await {
            Ok(authorization) => authorization,
            Err(error) => return Ok(AttemptEnd::Done(Err(SendError::before_send(error)))),
        };
        if self.live.propagate {
            let span = |trace: &RunTrace| trace.attempt(recorder.step, recorder.attempt);
            authorization.add_trace(self.live.trace_headers(span));
        }
        let mut outgoing = OutgoingRequest::new(recorder, self, request, authorization);
        let mut action = SendAction::FetchTokens;
        loop {
            action = match action {
                SendAction::FetchTokens => {
                    let fetched = outgoing.fetch_tokens().await?;
                    progress.on_tokens(fetched.map(|()| outgoing.requires_session()))
                }
                SendAction::OpenSession => progress.on_session(outgoing.open_session().await?),
                SendAction::Send => match outgoing.acquire_permit().await? {
                    Ok(permit) => progress.on_reply(outgoing.send_first(permit).await?),
                    // It has waited as long as it may.
                    Err(failure) => SendAction::done(Err(failure)),
                },
                SendAction::FollowRedirect(reply) => {
                    progress.on_outcome(outgoing.follow_redirect(reply, allowed).await?)
                }
                SendAction::CloseSession(outcome) => {
                    outgoing.close_session().await;
                    progress.on_session_closed(outcome)
                }
                SendAction::DiscardTokens(rejection) => {
                    progress.on_tokens_discarded(rejection, outgoing.discard_tokens().await)
                }
                SendAction::AskPolicy(outcome) => {
                    let (now, random) = (self.recorder.clock.now(), self.live.ids.random_bytes());
                    progress.apply_policy(outcome, now, random)
                }
                SendAction::End(end) => return Ok(end),
            };
        }
    }

    /// Continues at the redirect at which the step has waited for an approval; earlier requests are not
    /// sent again. Returns `None` when no usable response came and the step begins again, which is safe for
    /// everything that was sent.
    pub(super) async fn resume_redirect(
        &self,
        point: &RedirectPoint,
    ) -> Result<Option<LastAttempt>, StepError> {
        let recall = |sealed| Permitted::from_sealed(&self.asker, self.task.contract, sealed);
        let first = recall(&point.first);
        let recorder = self.attempt_recorder(point.attempt);
        let chain = RedirectChain { sender: self, recorder, first: &first };
        let position = ChainPosition::resume(point, recall(&point.redirected));
        let mut allowed = AllowedRedirects::new();
        let outcome = Box::pin(chain.follow(position, &mut allowed)).await?;
        let (number, repeat_safe, retries) = (point.attempt, point.repeat_safe, self.retries());
        let (now, random) = (self.recorder.clock.now(), self.live.ids.random_bytes());
        match retries.next_pause(repeat_safe, number, outcome.as_ref(), now, random) {
            None => Ok(Some(LastAttempt { number, outcome })),
            Some(pause) => self.pause(recorder, &pause).await.map(|()| None),
        }
    }

    /// Records a retry, and pauses before it.
    async fn pause(
        &self,
        recorder: AttemptRecorder<'_>,
        pause: &RetryPause,
    ) -> Result<(), StepError> {
        recorder.record_retry(pause);
        tokio::select! {
            () = tokio::time::sleep(pause.length) => Ok(()),
            why = self.cancel.wait_for_cancel() => Err(StepError::Cancelled(why)),
        }
    }

    fn retries(&self) -> RetrySchedule {
        self.live.retries.for_step(self.retry)
    }

    fn attempt_recorder(&self, attempt: u32) -> AttemptRecorder<'_> {
        AttemptRecorder { run: self.recorder, gate: self.live.gate, step: self.asker.step, attempt }
    }

    /// The address of the first request as the journal shows it.
    fn shown_address(&self, request: &PreparedRequest) -> String {
        let TaskRequest { contract, inputs, .. } = self.task;
        if !inputs.is_masked() {
            return request.url().as_str().to_owned();
        }
        let shown = request.shown_inputs().unwrap_or_else(|| inputs.shown());
        let url = prepare_masked(contract, shown, request).url().as_str().to_owned();
        // As people read it.
        url.replace("%28secret%29", HIDDEN)
    }
}
