//! Redirects of a step's request. Each is a request of its own: shown to the guardians, recorded,
//! and sent with credentials that are selected for it.

use std::sync::atomic::Ordering;

use a2s::{Digest, RetryPolicy};
use a2s_api::EventKind;
use uuid::Uuid;

use super::task::AttemptOutcome;
use super::waiting::JudgedAttempt;
use super::{CancelToken, Engine, LiveTransport, StepError, TaskRequest};
use crate::clock::{milliseconds_between, redirect_id};
use crate::error::{Error, ErrorKind};
use crate::gate::{GuardedStep, Permitted};
use crate::journal::wait_point::{RedirectPoint, WaitPoint};
use crate::outbound::{MAX_REDIRECTS, RequestAuthorization, SendError, SendPermit, ServiceReply};
use crate::request::authority;
use crate::request::{PreparedRequest, RawResponse, RedirectTarget};

/// A call with several requests, one after another.
pub(super) struct RedirectChain<'c, 'a> {
    pub(super) transport: LiveTransport<'c>,
    pub(super) asker: &'c GuardedStep<'a>,
    pub(super) request: &'c TaskRequest<'c>,
    pub(super) attempt: u32,
    /// Set when the address contains a secret that cannot be found in a text.
    pub(super) has_secret_address: bool,
    pub(super) cancel: &'c CancelToken,
}

/// A request that is about to be sent.
pub(super) struct OutgoingRequest<'d> {
    pub(super) request: &'d Permitted<PreparedRequest>,
    pub(super) authorization: &'d RequestAuthorization<'d>,
    pub(super) execution_id: Uuid,
    /// The address as written in the journal.
    pub(super) url: String,
    pub(super) digest: Digest,
    /// Set when all requests of the attempt so far, including this one, are safe to repeat.
    pub(super) repeat_safe: bool,
    pub(super) redirect: Option<u32>,
}

/// The position in a chain of redirects.
pub(super) struct ChainPosition {
    /// The last request that was sent.
    request: Permitted<PreparedRequest>,
    reply: ServiceReply,
    /// The number of the redirect that led to the request; zero for the first request.
    number: u32,
    /// Set when everything that was sent so far is safe to repeat.
    repeat_safe: bool,
}

impl ChainPosition {
    /// Creates the position after the first request.
    pub(super) fn first(request: &Permitted<PreparedRequest>, reply: ServiceReply) -> Self {
        let repeat_safe = request.is_repeat_safe();
        Self { request: request.clone(), reply, number: 0, repeat_safe }
    }
}

/// A redirect that a guardian has allowed.
pub(super) struct AllowedRedirect {
    digest: Digest,
    request: Permitted<PreparedRequest>,
}

impl<'r> Engine<'r> {
    /// Records that a request is sent, sends it in its turn, and records the result. The first record is on
    /// the disk before a connection is opened for a request that may change something.
    pub(super) async fn send_and_record(
        &self,
        chain: &RedirectChain<'_, '_>,
        turn: SendPermit,
        departure: OutgoingRequest<'_>,
    ) -> Result<Result<ServiceReply, SendError>, StepError> {
        let RedirectChain { transport: way, asker, attempt, cancel: halt, .. } = chain;
        let (path, outbound) = (asker.step, way.outbound);
        let OutgoingRequest { request, authorization, execution_id, url, digest, .. } = departure;
        let size = request.body().map_or(0, |body| body.len());
        self.budget.add_sent_bytes(size).map_err(|error| self.fail_step(path, error))?;
        let sending = EventKind::Sending {
            step: path.to_owned(),
            execution_id,
            attempt: *attempt,
            method: request.method().as_str().to_owned(),
            url,
            upstream: outbound.upstream_of(request.url()),
            request_digest: self.secrets.blind_digest(digest),
            repeat_safe: departure.repeat_safe,
            redirect: departure.redirect,
        };
        // A request that changes nothing may leave before its record is on the disk: when a crash loses the
        // record, the request is sent again.
        let task = chain.request.contract.task();
        let recorded = if request.method().is_safe() || task.is_read_only() {
            self.journal.record(sending).await
        } else {
            self.journal.commit(sending).await
        };
        recorded.map_err(StepError::Broken)?;
        let effect = usize::from(!request.is_repeat_safe());
        self.effects.fetch_add(effect, Ordering::Relaxed);
        let began = self.clock.now();
        let outcome = if request.is_repeat_safe() {
            tokio::select! {
                outcome = outbound.send(request, turn, authorization, None) => outcome,
                why = halt.wait_for_cancel() => return Err(StepError::Cancelled(why)),
            }
        } else {
            // Never aborted: the service may be at work already. It has its own timeout, and
            // no more time than the step has.
            outbound.send(request, turn, authorization, halt.remaining_time()).await
        };
        match &outcome {
            Ok(reply) => {
                let response = reply.response();
                self.metrics.request_ended(Some(response.status));
                self.budget.add_received_bytes(response.body.len());
                self.journal.append(EventKind::Received {
                    step: path.to_owned(),
                    attempt: *attempt,
                    status: response.status,
                    bytes: response.bytes(),
                    duration_ms: milliseconds_between(began, self.clock.now()),
                });
            }
            Err(failure) => {
                self.metrics.request_ended(None);
                if !failure.sent {
                    self.effects.fetch_sub(effect, Ordering::Relaxed);
                }
            }
        }
        Ok(outcome)
    }

    /// Continues at the redirect at which the step has waited for an approval; earlier requests are not
    /// sent again. Returns `None` when no usable response came and the step begins again, which is safe for
    /// everything that was sent.
    pub(super) async fn resume_redirect(
        &self,
        way: LiveTransport<'_>,
        asker: &GuardedStep<'_>,
        question: &TaskRequest<'_>,
        point: &RedirectPoint,
        retry: Option<&RetryPolicy>,
        halt: &CancelToken,
    ) -> Result<Option<AttemptOutcome>, StepError> {
        let RedirectPoint { attempt, number, repeat_safe, .. } = *point;
        let recall = |sealed| Permitted::from_sealed(asker, question.contract, sealed);
        let first = recall(&point.first);
        // A step with a secret address follows no redirect, so it waits at none.
        let chain = RedirectChain {
            transport: way,
            asker,
            request: question,
            attempt,
            has_secret_address: false,
            cancel: halt,
        };
        let place = ChainPosition {
            request: recall(&point.redirected),
            reply: ServiceReply::Redirect(point.response.clone(), Box::new(point.hop.clone())),
            number: number.saturating_sub(1),
            repeat_safe,
        };
        let mut verdicts = Vec::new();
        let followed = self.follow_redirects(&chain, &first, place, &mut verdicts);
        let outcome = Box::pin(followed).await?;
        let retries = way.retries.for_step(retry);
        let (now, random) = (self.clock.now(), self.ids.random_bytes());
        let pause = retries.next_pause(repeat_safe, attempt, outcome.as_ref(), now, random);
        let Some(pause) = pause else { return Ok(Some((outcome, attempt))) };
        self.pause_before_retry(asker.step, attempt, pause, halt).await?;
        Ok(None)
    }

    /// Follows redirects from a position in a chain, which begins with `first`, to the final response. The
    /// maximum is [`MAX_REDIRECTS`] redirects. `verdicts` contains those of earlier attempts: a redirect to
    /// the same request uses the same verdict.
    pub(super) async fn follow_redirects(
        &self,
        chain: &RedirectChain<'_, '_>,
        first: &Permitted<PreparedRequest>,
        place: ChainPosition,
        verdicts: &mut Vec<AllowedRedirect>,
    ) -> Result<Result<RawResponse, SendError>, StepError> {
        let ChainPosition { mut request, mut reply, mut number, mut repeat_safe } = place;
        loop {
            let (response, hop) = match reply {
                ServiceReply::Response(response) => {
                    return Ok(Ok(RawResponse { redirects: number, ..response }));
                }
                ServiceReply::Redirect(response, hop) => (response, hop),
            };
            number += 1;
            if let Err(reason) = check_redirect(&request, &hop, number, chain.has_secret_address) {
                return Ok(Err(refused(&reason)));
            }
            let point = RedirectPoint {
                attempt: chain.attempt,
                number,
                first: (**first).clone(),
                redirected: request.clone().into_inner(),
                response,
                hop: *hop,
                repeat_safe,
            };
            request = self.admit_redirect(chain, &request, point, verdicts).await?;
            repeat_safe &= request.is_repeat_safe();
            let sent = self.send_redirect(chain, first, &request, (number, repeat_safe)).await?;
            reply = match sent {
                Ok(reply) => reply,
                // The first request was sent, whatever fails now.
                Err(failure) => return Ok(Err(SendError { sent: true, ..failure })),
            };
        }
    }

    /// Asks the guardians about a redirect, unless they have allowed the same request already.
    async fn admit_redirect(
        &self,
        chain: &RedirectChain<'_, '_>,
        request: &Permitted<PreparedRequest>,
        point: RedirectPoint,
        verdicts: &mut Vec<AllowedRedirect>,
    ) -> Result<Permitted<PreparedRequest>, StepError> {
        let RedirectChain {
            transport: way, asker, request: question, attempt, cancel: halt, ..
        } = chain;
        let (hop, number) = (&point.hop, point.number);
        let digest = request.redirect_to(hop).digest();
        if let Some(known) = verdicts.iter().find(|known| known.digest == digest) {
            return Ok(known.request.clone());
        }
        let execution_id = redirect_id(self.run, asker.step, number);
        let asker = GuardedStep { execution_id, ..**asker };
        let (contract, inputs) = (question.contract, question.inputs);
        let asked = tokio::select! {
            asked = way.gate.ask_redirect(&asker, contract, inputs, request, (hop, number)) => asked,
            why = halt.wait_for_cancel() => return Err(StepError::Cancelled(why)),
        };
        self.record_decisions(&asker, asked.decisions);
        let request = match asked.verdict {
            Ok(request) => request,
            Err(error) => {
                let status = Some(point.response.status);
                let judged = JudgedAttempt { attempt: Some(*attempt), status };
                let error = error.with_context(format_args!("redirect {number}"));
                let waits = Some(WaitPoint::Redirect(Box::new(point)));
                return Err(self.wait_or_fail(&asker, error, judged, waits).await);
            }
        };
        verdicts.push(AllowedRedirect { digest, request: request.clone() });
        Ok(request)
    }

    /// Sends the request after a redirect, with its own credentials and in its own turn.
    async fn send_redirect(
        &self,
        chain: &RedirectChain<'_, '_>,
        first: &Permitted<PreparedRequest>,
        request: &Permitted<PreparedRequest>,
        (number, repeat_safe): (u32, bool),
    ) -> Result<Result<ServiceReply, SendError>, StepError> {
        let RedirectChain { transport: way, asker, attempt, cancel: halt, .. } = chain;
        let (path, outbound) = (asker.step, way.outbound);
        let authorized = Box::pin(outbound.authorize_redirect(request, first, self.secrets)).await;
        let mut authorization = match authorized {
            Ok(authorization) => authorization,
            Err(error) => return Ok(Err(SendError::before_send(error))),
        };
        if way.propagate {
            authorization
                .add_trace(way.trace_headers(|trace| trace.redirect(path, *attempt, number)));
        }
        let on_fetch = |fetch| self.note_fetch(path, *attempt, fetch);
        let announcer = self.announcer(path, *attempt);
        let (going, time) = (&mut authorization, halt.remaining_time());
        let equipped = tokio::select! {
            biased;
            why = halt.wait_for_cancel() => return Err(StepError::Cancelled(why)),
            equipped = Box::pin(
                outbound.fetch_tokens(request, going, time, &announcer, &on_fetch)
            ) => equipped,
        };
        if let Err(failure) = equipped {
            return Ok(Err(failure));
        }
        let on_wait = |wait| self.note_wait(path, wait);
        let turn = tokio::select! {
            biased;
            why = halt.wait_for_cancel() => return Err(StepError::Cancelled(why)),
            turn = outbound.acquire_permit(request.url(), halt.remaining_time(), &on_wait) => turn,
        };
        let turn = match turn {
            Ok(turn) => turn,
            Err(failure) => return Ok(Err(failure)),
        };
        // The service chose the address: it may have put a credential into it, and no digest is
        // taken of those.
        let url = self.secrets.mask_text(request.url().as_str());
        let digest = match url == request.url().as_str() {
            true => request.digest(),
            false => Digest::of_bytes(format!("{} {url}", request.method()).as_bytes()),
        };
        let departure = OutgoingRequest {
            request,
            authorization: &authorization,
            execution_id: redirect_id(self.run, path, number),
            url,
            digest,
            repeat_safe,
            redirect: Some(number),
        };
        self.send_and_record(chain, turn, departure).await
    }
}

/// Checks that a redirect may be followed at all.
fn check_redirect(
    request: &PreparedRequest,
    hop: &RedirectTarget,
    number: u32,
    hides_address: bool,
) -> Result<(), String> {
    let host = authority(request.url());
    if MAX_REDIRECTS < number {
        return Err(format!("{host} redirects more than {MAX_REDIRECTS} times"));
    }
    if hides_address {
        return Err(format!(
            "{host} redirects a request whose address contains a secret, which the next address may \
             contain as well"
        ));
    }
    if hop.keeps_body && !request.is_repeat_safe() {
        return Err(format!(
            "{host} redirects with a status that repeats the {} request, but a repetition is not safe: \
             the request has no idempotency key",
            request.method()
        ));
    }
    Ok(())
}

fn refused(reason: &str) -> SendError {
    SendError {
        error: Error::new(ErrorKind::RedirectRefused, reason),
        sent: true,
        retry_after: None,
    }
}
