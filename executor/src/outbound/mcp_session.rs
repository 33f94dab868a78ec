//! MCP sessions: opened for one attempt of a step, and ended after it.
//!
//! The executor learns that a server needs a session when the server rejects a call without one, and keeps
//! that in memory. The requests of a session are sent like the call itself, each in its turn and with the
//! same credentials.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use a2s_api::RequestPurpose;
use tokio::time::timeout;

use super::credentials::RequestAuthorization;
use super::retry::retry_after;
use super::{AnnounceRequest, OutboundClient, SendError};
use crate::clock::milliseconds_between;
use crate::error::{Error, ErrorKind};
use crate::gate::Permitted;
use crate::request::authority;
use crate::request::{McpSession, PreparedRequest, RawResponse, read_session};

/// The maximum number of remembered servers that require a session.
const MAX_SERVERS: usize = 1_000;
/// The time that a server has to respond to the end of a session.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// The addresses of servers that require a session.
#[derive(Debug, Default)]
pub(super) struct SessionServers(Mutex<BTreeSet<String>>);

impl SessionServers {
    fn change(&self, change: impl FnOnce(&mut BTreeSet<String>)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn contains(&self, request: &PreparedRequest) -> bool {
        let mut found = false;
        self.change(|known| found = known.contains(request.url().as_str()));
        found
    }
}

/// The record of an attempt to open a session.
#[derive(Debug, Clone)]
pub(crate) struct SessionOpening {
    /// Host and port of the server.
    pub(crate) host: String,
    /// The MCP revision of the session.
    pub(crate) revision: Option<&'static str>,
    /// The duration, in milliseconds.
    pub(crate) duration_ms: u64,
    /// The reason for which it failed.
    pub(crate) failure: Option<Error>,
}

/// The reason for a missing session.
#[derive(Debug)]
pub(crate) struct SessionError {
    /// The failure. Nothing of the call was sent.
    pub(crate) failure: SendError,
    /// The status of the response, if there was one.
    pub(crate) status: Option<u16>,
}

impl OutboundClient {
    /// Returns true when the server of a request is known to need a session.
    pub(crate) fn wants_session(&self, request: &Permitted<PreparedRequest>) -> bool {
        request.may_need_session() && self.sessions.contains(request)
    }

    /// Opens a session for a request, within `time` if that is shorter than the limit of a request.
    ///
    /// # Errors
    /// Fails when the server cannot be reached, or does not open a session.
    pub(crate) async fn open_session(
        &self,
        request: &Permitted<PreparedRequest>,
        authorization: &RequestAuthorization<'_>,
        time: Option<Duration>,
        announce: &dyn AnnounceRequest,
        on_opening: &(dyn Fn(SessionOpening) + Sync),
    ) -> Result<McpSession, SessionError> {
        let began = self.clock.now();
        let time = self.bound_time(time);
        let opened = timeout(time, self.initialize_session(request, authorization, announce)).await;
        let opened = opened.unwrap_or_else(|_| {
            let host = authority(request.url());
            let message = format!("{host} did not open a session within {} s", time.as_secs_f32());
            Err(SessionError {
                failure: SendError::not_sent(ErrorKind::Timeout, message),
                status: None,
            })
        });
        self.sessions.change(|known| match &opened {
            Ok(_) if known.len() < MAX_SERVERS => drop(known.insert(request.url().to_string())),
            // A server that has been renewed may want none any more.
            Err(SessionError { status: Some(_), .. }) => {
                known.remove(request.url().as_str());
            }
            Ok(_) | Err(_) => {}
        });
        on_opening(SessionOpening {
            host: authority(request.url()),
            revision: opened.as_ref().ok().map(McpSession::revision),
            duration_ms: milliseconds_between(began, self.clock.now()),
            failure: opened.as_ref().err().map(|no| no.failure.error.clone()),
        });
        opened
    }

    async fn initialize_session(
        &self,
        request: &Permitted<PreparedRequest>,
        authorization: &RequestAuthorization<'_>,
        announce: &dyn AnnounceRequest,
    ) -> Result<McpSession, SessionError> {
        let none = |failure: SendError| {
            let error = failure.error.with_context("the session");
            SessionError { failure: SendError { error, sent: false, ..failure }, status: None }
        };
        let unneeded = || {
            none(SendError::not_sent(
                ErrorKind::Internal,
                "a session was opened without a tool call",
            ))
        };
        let opening = request.session_request().ok_or_else(unneeded)?;
        let response =
            self.send_in_session(&opening, authorization, announce).await.map_err(none)?;
        let session = read_session(&response).map_err(|error| {
            let busy = matches!(response.status, 429 | 503);
            let busy =
                busy.then(|| retry_after(&response.headers, self.clock.now()).unwrap_or_default());
            let failure = SendError { retry_after: busy, ..SendError::before_send(error.into()) };
            SessionError { status: Some(response.status), ..none(failure) }
        })?;
        // A server that does not take the notification says so to the call.
        let opened = request.session_notification(&session).ok_or_else(unneeded)?;
        self.send_in_session(&opened, authorization, announce).await.map_err(none)?;
        Ok(session)
    }

    /// Ends a session, if the server needs that. A failure has no effect on the step.
    pub(crate) async fn close_session(
        &self,
        request: &Permitted<PreparedRequest>,
        session: &McpSession,
        authorization: &RequestAuthorization<'_>,
        announce: &dyn AnnounceRequest,
    ) {
        let Some(closing) = request.close_request(session) else { return };
        let closed =
            timeout(CLOSE_TIMEOUT, self.send_in_session(&closing, authorization, announce)).await;
        if !matches!(closed, Ok(Ok(_))) {
            let host = authority(request.url());
            tracing::debug!(%host, "the session was not closed in time");
        }
    }

    async fn send_in_session(
        &self,
        request: &Permitted<PreparedRequest>,
        authorization: &RequestAuthorization<'_>,
        announce: &dyn AnnounceRequest,
    ) -> Result<RawResponse, SendError> {
        let turn = self.acquire_permit(request.url(), None, &|_| {}).await?;
        let announced = announce.announce(RequestPurpose::Session, request).await;
        announced.map_err(SendError::before_send)?;
        let wire = authorization.additions();
        let reply = Box::pin(self.transmit(request, turn, wire, None)).await;
        let answer = reply.and_then(|reply| reply.into_response(request.url()));
        answer.map(|response| authorization.secrets.remove_credentials(response))
    }
}
