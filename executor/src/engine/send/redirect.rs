//! Redirects of a step's request. Each is a request of its own: shown to the guardians, recorded,
//! and sent with credentials that are selected for it.

use std::collections::BTreeMap;

use a2s::Digest;

use super::RequestSender;
use super::outgoing_request::OutgoingRequest;
use super::send_progress::SendOutcome;
use crate::clock::redirect_id;
use crate::engine::StepError;
use crate::engine::attempt_recorder::{AttemptRecorder, SendingRecord};
use crate::engine::recorder::JudgedAttempt;
use crate::error::{Error, ErrorKind};
use crate::gate::{GuardedStep, Permitted};
use crate::journal::wait_point::{RedirectPoint, WaitPoint};
use crate::outbound::{MAX_REDIRECTS, SendError, ServiceReply};
use crate::request::authority;
use crate::request::{PreparedRequest, RawResponse, RedirectTarget};
use crate::telemetry::RunTrace;

/// The redirects that the guardians have allowed, by the digest of the request before their verdict. A
/// redirect to the same request uses the same verdict.
pub(super) type AllowedRedirects = BTreeMap<Digest, Permitted<PreparedRequest>>;

/// The requests of one attempt, one after another.
pub(super) struct RedirectChain<'c> {
    pub(super) sender: &'c RequestSender<'c>,
    pub(super) recorder: AttemptRecorder<'c>,
    /// The first request of the attempt.
    pub(super) first: &'c Permitted<PreparedRequest>,
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

    /// Creates the position at which a step has waited for an approval of the redirect of `request`.
    pub(super) fn resume(point: &RedirectPoint, request: Permitted<PreparedRequest>) -> Self {
        Self {
            request,
            reply: ServiceReply::Redirect(point.response.clone(), Box::new(point.hop.clone())),
            number: point.number.saturating_sub(1),
            repeat_safe: point.repeat_safe,
        }
    }
}

impl RedirectChain<'_> {
    /// Follows redirects from a position in the chain to the last response. The maximum is
    /// [`MAX_REDIRECTS`] redirects.
    pub(super) async fn follow(
        &self,
        position: ChainPosition,
        allowed: &mut AllowedRedirects,
    ) -> Result<SendOutcome, StepError> {
        let ChainPosition { mut request, mut reply, mut number, mut repeat_safe } = position;
        loop {
            let (response, hop) = match reply {
                ServiceReply::Response(response) => {
                    return Ok(Ok(RawResponse { redirects: number, ..response }));
                }
                ServiceReply::Redirect(response, hop) => (response, hop),
            };
            number += 1;
            let has_secret_address = self.sender.has_secret_address;
            if let Err(reason) = check_redirect(&request, &hop, number, has_secret_address) {
                return Ok(Err(refused(&reason)));
            }
            let point = RedirectPoint {
                attempt: self.recorder.attempt,
                number,
                first: (**self.first).clone(),
                redirected: request.clone().into_inner(),
                response,
                hop: *hop,
                repeat_safe,
            };
            request = self.admit(&request, point, allowed).await?;
            repeat_safe &= request.is_repeat_safe();
            reply = match self.send(&request, number, repeat_safe).await? {
                Ok(reply) => reply,
                // The first request was sent, whatever fails now.
                Err(failure) => return Ok(Err(SendError { sent: true, ..failure })),
            };
        }
    }

    /// Asks the guardians about a redirect, unless they have allowed the same request already.
    async fn admit(
        &self,
        request: &Permitted<PreparedRequest>,
        point: RedirectPoint,
        allowed: &mut AllowedRedirects,
    ) -> Result<Permitted<PreparedRequest>, StepError> {
        let RequestSender { live, asker, task, cancel, recorder, .. } = self.sender;
        let (hop, number) = (&point.hop, point.number);
        let digest = request.redirect_to(hop).digest();
        if let Some(known) = allowed.get(&digest) {
            return Ok(known.clone());
        }
        let execution_id = redirect_id(asker.run, asker.step, number);
        let asker = GuardedStep { execution_id, ..*asker };
        let (contract, inputs) = (task.contract, task.inputs);
        let asked = tokio::select! {
            asked = live.gate.ask_redirect(&asker, contract, inputs, request, (hop, number)) => asked,
            why = cancel.wait_for_cancel() => return Err(StepError::Cancelled(why)),
        };
        recorder.record_decisions(&asker, asked.decisions);
        let request = match asked.verdict {
            Ok(request) => request,
            Err(error) => {
                let (attempt, status) = (Some(point.attempt), Some(point.response.status));
                let judged = JudgedAttempt { attempt, status };
                let error = error.with_context(format_args!("redirect {number}"));
                let wait_point = Some(WaitPoint::Redirect(Box::new(point)));
                return Err(recorder.wait_or_fail(&asker, error, judged, wait_point).await);
            }
        };
        allowed.insert(digest, request.clone());
        Ok(request)
    }

    /// Sends the request after a redirect, with its own credentials and in its own turn.
    async fn send(
        &self,
        request: &Permitted<PreparedRequest>,
        number: u32,
        repeat_safe: bool,
    ) -> Result<Result<ServiceReply, SendError>, StepError> {
        let AttemptRecorder { run, step, attempt, .. } = self.recorder;
        let (live, asker) = (&self.sender.live, &self.sender.asker);
        let authorization = live.outbound.authorize_redirect(request, self.first, run.secrets);
        let mut authorization = match Box::pin(authorization).await {
            Ok(authorization) => authorization,
            Err(error) => return Ok(Err(SendError::before_send(error))),
        };
        if live.propagate {
            let span = |trace: &RunTrace| trace.redirect(step, attempt, number);
            authorization.add_trace(live.trace_headers(span));
        }
        let mut outgoing = OutgoingRequest::new(self.recorder, self.sender, request, authorization);
        if let Err(failure) = outgoing.fetch_tokens().await? {
            return Ok(Err(failure));
        }
        let permit = match outgoing.acquire_permit().await? {
            Ok(permit) => permit,
            Err(failure) => return Ok(Err(failure)),
        };
        // The service chose the address: it may have put a credential into it, and no digest is
        // taken of those.
        let url = run.secrets.mask_text(request.url().as_str());
        let digest = match url == request.url().as_str() {
            true => request.digest(),
            false => Digest::of_bytes(format!("{} {url}", request.method()).as_bytes()),
        };
        let record = SendingRecord {
            execution_id: redirect_id(asker.run, step, number),
            url,
            upstream: live.outbound.upstream_of(request.url()),
            digest,
            repeat_safe,
            redirect: Some(number),
        };
        outgoing.send(permit, record).await
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
