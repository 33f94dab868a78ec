//! One request on its way to a service: its tokens, its session, its turn, and its records.

use crate::engine::StepError;
use crate::engine::attempt_recorder::{AttemptRecorder, SendingRecord};
use crate::gate::Permitted;
use crate::outbound::{
    RequestAuthorization, SendError, SendPermit, ServiceReply, SessionError, SessionOpening,
    Throttle, TokenFetch,
};
use crate::request::{McpSession, PreparedRequest};

use super::RequestSender;
use super::redirect::{AllowedRedirects, ChainPosition, RedirectChain};
use super::send_progress::SendOutcome;

/// A permitted request with the credentials and the session with which it is sent.
pub(super) struct OutgoingRequest<'c> {
    sender: &'c RequestSender<'c>,
    recorder: AttemptRecorder<'c>,
    request: &'c Permitted<PreparedRequest>,
    authorization: RequestAuthorization<'c>,
    session: Option<OpenSession>,
}

/// The session of a request.
struct OpenSession {
    session: McpSession,
    /// The request with the headers of the session.
    request: Option<Permitted<PreparedRequest>>,
}

impl<'c> OutgoingRequest<'c> {
    /// Creates an outgoing request that has no tokens and no session yet.
    pub(super) fn new(
        recorder: AttemptRecorder<'c>,
        sender: &'c RequestSender<'c>,
        request: &'c Permitted<PreparedRequest>,
        authorization: RequestAuthorization<'c>,
    ) -> Self {
        Self { sender, recorder, request, authorization, session: None }
    }

    /// Returns the request, inside its session if there is one.
    fn request(&self) -> &Permitted<PreparedRequest> {
        let inside = self.session.as_ref().and_then(|session| session.request.as_ref());
        inside.unwrap_or(self.request)
    }

    /// Returns true when the server is known to require a session for the request.
    pub(super) fn requires_session(&self) -> bool {
        self.sender.live.outbound.wants_session(self.request)
    }

    /// Gets the tokens that the request needs.
    pub(super) async fn fetch_tokens(&mut self) -> Result<Result<(), SendError>, StepError> {
        let Self { sender, recorder, request, authorization, .. } = self;
        let on_fetch = |fetch: TokenFetch| recorder.record_fetch(fetch);
        let time = sender.cancel.remaining_time();
        let outbound = sender.live.outbound;
        let fetched = outbound.fetch_tokens(request, authorization, time, recorder, &on_fetch);
        sender.cancel.run_unless_cancelled(Box::pin(fetched)).await
    }

    /// Opens a session for the request. Returns true when the server recognizes it by an id.
    pub(super) async fn open_session(&mut self) -> Result<Result<bool, SessionError>, StepError> {
        let Self { sender, recorder, request, authorization, .. } = self;
        let on_opening = |opening: SessionOpening| recorder.record_opening(opening);
        let time = sender.cancel.remaining_time();
        let outbound = sender.live.outbound;
        let opened = outbound.open_session(request, authorization, time, recorder, &on_opening);
        let opened = sender.cancel.run_unless_cancelled(Box::pin(opened)).await?;
        Ok(opened.map(|session| {
            let (request, has_id) = (request.in_session(&session), session.has_id());
            self.session = Some(OpenSession { session, request });
            has_id
        }))
    }

    /// Waits until the request may be sent.
    pub(super) async fn acquire_permit(&self) -> Result<Result<SendPermit, SendError>, StepError> {
        let on_wait = |wait: Throttle| self.recorder.record_wait(wait);
        let (url, cancel) = (self.request().url(), self.sender.cancel);
        let permit =
            self.sender.live.outbound.acquire_permit(url, cancel.remaining_time(), &on_wait);
        cancel.run_unless_cancelled(permit).await
    }

    /// Records that the request is sent, sends it, and records the reply. The first record is on the disk
    /// before a connection is opened for a request that may change something.
    pub(super) async fn send(
        &self,
        permit: SendPermit,
        record: SendingRecord,
    ) -> Result<Result<ServiceReply, SendError>, StepError> {
        let (outbound, cancel) = (self.sender.live.outbound, self.sender.cancel);
        let (request, authorization) = (self.request(), &self.authorization);
        let is_read_only =
            request.method().is_safe() || self.sender.task.contract.task().is_read_only();
        self.recorder.record_sending(request, record, is_read_only).await?;
        let began = self.recorder.run.clock.now();
        let reply = if request.is_repeat_safe() {
            tokio::select! {
                reply = outbound.send(request, permit, authorization, None) => reply,
                why = cancel.wait_for_cancel() => return Err(StepError::Cancelled(why)),
            }
        } else {
            // Never aborted: the service may be at work already. It has its own timeout, and
            // no more time than the step has.
            outbound.send(request, permit, authorization, cancel.remaining_time()).await
        };
        self.recorder.record_reply(request, began, &reply);
        Ok(reply)
    }

    /// Sends the first request of an attempt.
    pub(super) async fn send_first(
        &self,
        permit: SendPermit,
    ) -> Result<Result<ServiceReply, SendError>, StepError> {
        let request = self.request();
        let record = SendingRecord {
            execution_id: self.sender.asker.execution_id,
            url: self.sender.shown_address(request),
            upstream: self.sender.live.outbound.upstream_of(request.url()),
            digest: request.digest(),
            repeat_safe: request.is_repeat_safe(),
            redirect: None,
        };
        self.send(permit, record).await
    }

    /// Follows the redirect of the request to its last response. `allowed` contains the redirects that the
    /// guardians have allowed in earlier attempts.
    pub(super) async fn follow_redirect(
        &self,
        reply: ServiceReply,
        allowed: &mut AllowedRedirects,
    ) -> Result<SendOutcome, StepError> {
        let (sender, recorder, first) = (self.sender, self.recorder, self.request());
        let chain = RedirectChain { sender, recorder, first };
        Box::pin(chain.follow(ChainPosition::first(first, reply), allowed)).await
    }

    /// Closes the session of the request, if it has one.
    pub(super) async fn close_session(&self) {
        let Some(OpenSession { session, .. }) = &self.session else { return };
        let (request, outbound) = (self.request(), self.sender.live.outbound);
        outbound.close_session(request, session, &self.authorization, &self.recorder).await;
    }

    /// Discards the tokens of the request. Returns true when one of them came from the cache.
    pub(super) async fn discard_tokens(&mut self) -> bool {
        self.authorization.discard_tokens().await
    }
}
