//! The records of one attempt of a step: each of its requests, and what delays or repeats it.

use std::time::Duration;

use a2s::Digest;
use a2s_api::{EventKind, RequestPurpose};
use futures::future::BoxFuture;
use jiff::Timestamp;
use uuid::Uuid;

use super::StepError;
use super::recorder::RunRecorder;
use crate::clock::milliseconds_between;
use crate::error::Error;
use crate::gate::GuardianGate;
use crate::outbound::{
    AnnounceRequest, RetryPause, SendError, ServiceReply, SessionOpening, Throttle, TokenFetch,
};
use crate::request::PreparedRequest;

/// Records the requests of one attempt of a step.
#[derive(Debug, Clone, Copy)]
pub(super) struct AttemptRecorder<'a> {
    /// The recorder of the walk.
    pub(super) run: &'a RunRecorder<'a>,
    /// The guardians that have allowed the requests.
    pub(super) gate: &'a GuardianGate,
    /// The path of the step.
    pub(super) step: &'a str,
    /// The number of the attempt, from 1.
    pub(super) attempt: u32,
}

/// A request as the journal shows it before it is sent.
#[derive(Debug)]
pub(super) struct SendingRecord {
    /// The id that correlates request and result.
    pub(super) execution_id: Uuid,
    /// The address, without secrets.
    pub(super) url: String,
    /// The replacement address for the connection.
    pub(super) upstream: Option<String>,
    /// The digest of the request.
    pub(super) digest: Digest,
    /// Set when all requests of the attempt so far, including this one, are safe to repeat.
    pub(super) repeat_safe: bool,
    /// The number of the redirect that led to it; `None` for the first request.
    pub(super) redirect: Option<u32>,
}

impl AttemptRecorder<'_> {
    /// Records that a request is about to be sent, and counts it. When this returns, the record of a request
    /// that may change something is on the disk, and the records of the guardians too. When a crash loses
    /// the record of one that `is_read_only`, the request is sent again.
    pub(super) async fn record_sending(
        &self,
        request: &PreparedRequest,
        record: SendingRecord,
        is_read_only: bool,
    ) -> Result<(), StepError> {
        let SendingRecord { execution_id, url, upstream, digest, repeat_safe, redirect } = record;
        let size = request.body().map_or(0, |body| body.len());
        let counted = self.run.budget.add_sent_bytes(size);
        counted.map_err(|error| self.run.fail_step(self.step, error))?;
        let sending = EventKind::Sending {
            step: self.step.to_owned(),
            execution_id,
            attempt: self.attempt,
            method: request.method().as_str().to_owned(),
            url,
            upstream,
            request_digest: self.run.secrets.blind_digest(digest),
            repeat_safe,
            redirect,
        };
        if is_read_only {
            self.run.journal.record(sending).await.map_err(StepError::Broken)?;
        } else {
            let (committed, flushed) = self.commit(sending).await;
            committed.map_err(StepError::Broken)?;
            flushed.map_err(|error| self.run.fail_step(self.step, error))?;
        }
        if !request.is_repeat_safe() {
            self.run.add_effect();
        }
        Ok(())
    }

    /// Records an event, and waits for the journal and for the logs of the guardians at the same time.
    async fn commit(&self, event: EventKind) -> (Result<(), Error>, Result<(), Error>) {
        tokio::join!(self.run.journal.commit(event), self.gate.flush())
    }

    /// Records the reply to a request that was sent at `began`. A request that was certainly not sent has
    /// no effect.
    pub(super) fn record_reply(
        &self,
        request: &PreparedRequest,
        began: Timestamp,
        reply: &Result<ServiceReply, SendError>,
    ) {
        match reply {
            Ok(reply) => {
                let response = reply.response();
                self.run.metrics.request_ended(Some(response.status));
                self.run.budget.add_received_bytes(response.body.len());
                self.run.journal.append(EventKind::Received {
                    step: self.step.to_owned(),
                    attempt: self.attempt,
                    status: response.status,
                    bytes: response.bytes(),
                    duration_ms: milliseconds_between(began, self.run.clock.now()),
                });
            }
            Err(failure) => {
                self.run.metrics.request_ended(None);
                if !failure.sent && !request.is_repeat_safe() {
                    self.run.take_back_effect();
                }
            }
        }
    }

    /// Records that another attempt follows after a pause.
    pub(super) fn record_retry(&self, pause: &RetryPause) {
        self.run.journal.append(EventKind::Retrying {
            step: self.step.to_owned(),
            attempt: self.attempt,
            reason: pause.reason.clone(),
            pause_ms: to_milliseconds(pause.length),
        });
    }

    /// Records the opening of a session.
    pub(super) fn record_opening(&self, opening: SessionOpening) {
        let SessionOpening { host, revision, duration_ms, failure } = opening;
        self.run.journal.append(EventKind::SessionOpened {
            step: self.step.to_owned(),
            attempt: self.attempt,
            host,
            revision: revision.map(str::to_owned),
            duration_ms,
            failure: failure.map(Error::into_step_warning),
        });
    }

    /// Records the request for a token.
    pub(super) fn record_fetch(&self, fetch: TokenFetch) {
        let TokenFetch { host, scheme, renewed, duration_ms, failure } = fetch;
        self.run.journal.append(EventKind::TokenRequested {
            step: self.step.to_owned(),
            attempt: self.attempt,
            host,
            scheme,
            renewed,
            duration_ms,
            failure: failure.map(Error::into_step_warning),
        });
    }

    /// Records the wait of a request for its turn.
    pub(super) fn record_wait(&self, wait: Throttle) {
        self.run.metrics.waited(wait.reason);
        self.run.journal.append(EventKind::Throttled {
            step: self.step.to_owned(),
            host: wait.host,
            reason: wait.reason,
            wait_ms: wait.time.map(to_milliseconds),
        });
    }
}

/// Records the additional requests of an attempt before they are sent.
impl AnnounceRequest for AttemptRecorder<'_> {
    fn announce<'a>(
        &'a self,
        purpose: RequestPurpose,
        request: &PreparedRequest,
    ) -> BoxFuture<'a, Result<(), Error>> {
        let requesting = EventKind::Requesting {
            step: self.step.to_owned(),
            attempt: self.attempt,
            purpose,
            method: request.method().as_str().to_owned(),
            url: request.url().as_str().to_owned(),
        };
        Box::pin(async {
            let (committed, flushed) = self.commit(requesting).await;
            committed.and(flushed)
        })
    }
}

fn to_milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
