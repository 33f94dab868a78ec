//! Redirects of a step's request. Each is a request of its own: shown to the guardians, recorded,
//! and sent with credentials that are selected for it.

use std::sync::atomic::Ordering;

use a2s::api::EventKind;
use a2s::{Digest, Retry};
use uuid::Uuid;

use super::task::Sent;
use super::waiting::JudgedAttempt;
use super::{Engine, Halt, Question, Stop, Way};
use crate::clock::{milliseconds_between, redirect_id};
use crate::error::{Error, Kind};
use crate::gate::{Asker, Permitted};
use crate::journal::wait_point::{RedirectPoint, WaitPoint};
use crate::outbound::{Authorization, Failure, MAX_REDIRECTS, Reply, Turn};
use crate::request::authority;
use crate::request::{Hop, PreparedRequest, RawResponse};

/// A call of which one request is sent after the other.
pub(super) struct Chain<'c, 'a> {
    pub(super) way: Way<'c>,
    pub(super) asker: &'c Asker<'a>,
    pub(super) question: &'c Question<'c>,
    pub(super) attempt: u32,
    /// Whether the address holds a secret that cannot be found in a text.
    pub(super) hides_address: bool,
    pub(super) halt: &'c Halt,
}

/// One request that is about to leave.
pub(super) struct Departure<'d> {
    pub(super) request: &'d Permitted<PreparedRequest>,
    pub(super) authorization: &'d Authorization<'d>,
    pub(super) execution_id: Uuid,
    /// The address as the journal names it.
    pub(super) url: String,
    pub(super) digest: Digest,
    /// Whether all requests of the attempt so far are safe to repeat, with this one.
    pub(super) repeat_safe: bool,
    pub(super) redirect: Option<u32>,
}

/// How far a chain of redirects has come.
pub(super) struct ChainPlace {
    /// The last request that was sent.
    request: Permitted<PreparedRequest>,
    reply: Reply,
    /// The number of the redirect that led to it; zero for the first request.
    number: u32,
    /// Whether everything that was sent so far is safe to repeat.
    repeat_safe: bool,
}

impl ChainPlace {
    /// The first request was sent.
    pub(super) fn first(request: &Permitted<PreparedRequest>, reply: Reply) -> Self {
        let repeat_safe = request.repeat_safe();
        Self { request: request.clone(), reply, number: 0, repeat_safe }
    }
}

/// A redirect that a guardian has allowed.
pub(super) struct Verdict {
    digest: Digest,
    request: Permitted<PreparedRequest>,
}

impl<'r> Engine<'r> {
    /// Records that a request leaves, sends it in its turn, and records what came. The record is on
    /// the disk before a connection is made.
    pub(super) async fn dispatch(
        &self,
        chain: &Chain<'_, '_>,
        turn: Turn,
        departure: Departure<'_>,
    ) -> Result<Result<Reply, Failure>, Stop> {
        let Chain { way, asker, attempt, halt, .. } = chain;
        let (path, outbound) = (asker.step, way.outbound);
        let Departure { request, authorization, execution_id, url, digest, .. } = departure;
        let size = request.body().map_or(0, |body| body.len());
        self.budget.send(size).map_err(|error| self.failed(path, error))?;
        let sending = EventKind::Sending {
            step: path.to_owned(),
            execution_id,
            attempt: *attempt,
            method: request.method().as_str().to_owned(),
            url,
            upstream: outbound.upstream_of(request.url()),
            request_digest: self.secrets.blind(digest),
            repeat_safe: departure.repeat_safe,
            redirect: departure.redirect,
        };
        self.journal.commit(sending).await.map_err(Stop::Broken)?;
        let effect = usize::from(!request.repeat_safe());
        self.effects.fetch_add(effect, Ordering::Relaxed);
        let began = self.clock.now();
        let outcome = if request.repeat_safe() {
            tokio::select! {
                outcome = outbound.send(request, turn, authorization, None) => outcome,
                why = halt.halted() => return Err(Stop::Halted(why)),
            }
        } else {
            // Never aborted: the service may be at work already. It has its own timeout, and
            // no more time than the step has.
            outbound.send(request, turn, authorization, halt.remaining()).await
        };
        match &outcome {
            Ok(reply) => {
                let response = reply.response();
                self.metrics.request_ended(Some(response.status));
                self.budget.receive(response.body.len());
                self.journal.note(EventKind::Received {
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

    /// Goes on at a redirect at which the step has waited for an approval; nothing before it is sent again. None
    /// when no usable response came and the step begins anew, which everything that was sent allows.
    pub(super) async fn resume_redirect(
        &self,
        way: Way<'_>,
        asker: &Asker<'_>,
        question: &Question<'_>,
        point: &RedirectPoint,
        retry: Option<&Retry>,
        halt: &Halt,
    ) -> Result<Option<Sent>, Stop> {
        let RedirectPoint { attempt, number, repeat_safe, .. } = *point;
        let recall = |sealed| Permitted::recall(asker, question.contract, sealed);
        let first = recall(&point.first);
        // A step whose address holds a secret follows no redirect, so it waits at none.
        let chain = Chain { way, asker, question, attempt, hides_address: false, halt };
        let place = ChainPlace {
            request: recall(&point.redirected),
            reply: Reply::Redirect(point.response.clone(), Box::new(point.hop.clone())),
            number: number.saturating_sub(1),
            repeat_safe,
        };
        let mut verdicts = Vec::new();
        let followed = self.follow_redirects(&chain, &first, place, &mut verdicts);
        let outcome = Box::pin(followed).await?;
        let retries = way.retries.for_step(retry);
        let (now, random) = (self.clock.now(), self.ids.random());
        let pause = retries.pause(repeat_safe, attempt, outcome.as_ref(), now, random);
        let Some(pause) = pause else { return Ok(Some((outcome, attempt))) };
        self.rest(asker.step, attempt, pause, halt).await?;
        Ok(None)
    }

    /// Goes from a place in a chain, which begins with `first`, to the answer, through at most
    /// [`MAX_REDIRECTS`] redirects. `verdicts` has those of earlier attempts: a redirect to the same request shares one.
    pub(super) async fn follow_redirects(
        &self,
        chain: &Chain<'_, '_>,
        first: &Permitted<PreparedRequest>,
        place: ChainPlace,
        verdicts: &mut Vec<Verdict>,
    ) -> Result<Result<RawResponse, Failure>, Stop> {
        let ChainPlace { mut request, mut reply, mut number, mut repeat_safe } = place;
        loop {
            let (response, hop) = match reply {
                Reply::Answer(response) => {
                    return Ok(Ok(RawResponse { redirects: number, ..response }));
                }
                Reply::Redirect(response, hop) => (response, hop),
            };
            number += 1;
            if let Err(reason) = check_hop(&request, &hop, number, chain.hides_address) {
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
            repeat_safe &= request.repeat_safe();
            let sent = self.send_redirect(chain, first, &request, (number, repeat_safe)).await?;
            reply = match sent {
                Ok(reply) => reply,
                // The first request was sent, whatever fails now.
                Err(failure) => return Ok(Err(Failure { sent: true, ..failure })),
            };
        }
    }

    /// Asks the guardians about a redirect, unless they have allowed the same request already.
    async fn admit_redirect(
        &self,
        chain: &Chain<'_, '_>,
        request: &Permitted<PreparedRequest>,
        point: RedirectPoint,
        verdicts: &mut Vec<Verdict>,
    ) -> Result<Permitted<PreparedRequest>, Stop> {
        let Chain { way, asker, question, attempt, halt, .. } = chain;
        let (hop, number) = (&point.hop, point.number);
        let digest = request.redirected(hop).digest();
        if let Some(known) = verdicts.iter().find(|known| known.digest == digest) {
            return Ok(known.request.clone());
        }
        let execution_id = redirect_id(self.run, asker.step, number);
        let asker = Asker { execution_id, ..**asker };
        let (contract, inputs) = (question.contract, question.inputs);
        let asked = tokio::select! {
            asked = way.gate.ask_redirect(&asker, contract, inputs, request, (hop, number)) => asked,
            why = halt.halted() => return Err(Stop::Halted(why)),
        };
        self.record_decisions(&asker, asked.decisions);
        let request = match asked.verdict {
            Ok(request) => request,
            Err(error) => {
                let status = Some(point.response.status);
                let judged = JudgedAttempt { attempt: Some(*attempt), status };
                let error = error.at(format_args!("redirect {number}"));
                let waits = Some(WaitPoint::Redirect(Box::new(point)));
                return Err(self.refused(&asker, error, judged, waits).await);
            }
        };
        verdicts.push(Verdict { digest, request: request.clone() });
        Ok(request)
    }

    /// Sends the request that a redirect led to, with its own credentials and in its own turn.
    async fn send_redirect(
        &self,
        chain: &Chain<'_, '_>,
        first: &Permitted<PreparedRequest>,
        request: &Permitted<PreparedRequest>,
        (number, repeat_safe): (u32, bool),
    ) -> Result<Result<Reply, Failure>, Stop> {
        let Chain { way, asker, attempt, halt, .. } = chain;
        let (path, outbound) = (asker.step, way.outbound);
        let authorized = Box::pin(outbound.authorize_redirect(request, first, self.secrets)).await;
        let mut authorization = match authorized {
            Ok(authorization) => authorization,
            Err(error) => return Ok(Err(Failure::before(error))),
        };
        if way.propagate {
            authorization.follow(way.trace_headers(|trace| trace.redirect(path, *attempt, number)));
        }
        let on_fetch = |fetch| self.note_fetch(path, *attempt, fetch);
        let announcer = self.announcer(path, *attempt);
        let (going, time) = (&mut authorization, halt.remaining());
        let equipped = tokio::select! {
            biased;
            why = halt.halted() => return Err(Stop::Halted(why)),
            equipped = Box::pin(
                outbound.equip(request, going, time, &announcer, &on_fetch)
            ) => equipped,
        };
        if let Err(failure) = equipped {
            return Ok(Err(failure));
        }
        let on_wait = |wait| self.note_wait(path, wait);
        let turn = tokio::select! {
            biased;
            why = halt.halted() => return Err(Stop::Halted(why)),
            turn = outbound.turn(request.url(), halt.remaining(), &on_wait) => turn,
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
        let departure = Departure {
            request,
            authorization: &authorization,
            execution_id: redirect_id(self.run, path, number),
            url,
            digest,
            repeat_safe,
            redirect: Some(number),
        };
        self.dispatch(chain, turn, departure).await
    }
}

/// Whether a redirect may be followed at all.
fn check_hop(
    request: &PreparedRequest,
    hop: &Hop,
    number: u32,
    hides_address: bool,
) -> Result<(), String> {
    let host = authority(request.url());
    if MAX_REDIRECTS < number {
        return Err(format!("{host} redirects more than {MAX_REDIRECTS} times"));
    }
    if hides_address {
        return Err(format!(
            "{host} redirects a request whose address holds a secret, which the next address may \
             hold as well"
        ));
    }
    if hop.keeps_body && !request.repeat_safe() {
        return Err(format!(
            "{host} redirects in a way that repeats the {} request, and repeating it is not safe: \
             it has no idempotency key",
            request.method()
        ));
    }
    Ok(())
}

fn refused(reason: &str) -> Failure {
    Failure { error: Error::new(Kind::RedirectRefused, reason), sent: true, busy: None }
}
