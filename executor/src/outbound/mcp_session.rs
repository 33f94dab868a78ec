//! Sessions of MCP: opened for one attempt of a step, and ended behind it.
//!
//! Which servers want one is known once they have refused a call without, and is kept in memory.
//! The requests go out by the same way as the call, each in its turn and with the same credentials.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use a2s::api::RequestPurpose;
use tokio::time::timeout;

use super::credentials::Authorization;
use super::retry::retry_after;
use super::{Announce, Failure, Outbound};
use crate::clock::milliseconds_between;
use crate::error::{Error, Kind};
use crate::gate::Permitted;
use crate::request::authority;
use crate::request::{PreparedRequest, RawResponse, Session, read_session};

/// The most servers of which it is kept that they want a session.
const MAX_SERVERS: usize = 1_000;
/// How long a server has to take note that a session has ended.
const GOODBYE: Duration = Duration::from_secs(2);

/// The addresses of servers that want a session.
#[derive(Debug, Default)]
pub(super) struct Sessions(Mutex<BTreeSet<String>>);

impl Sessions {
    fn change(&self, change: impl FnOnce(&mut BTreeSet<String>)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn wants(&self, request: &PreparedRequest) -> bool {
        let mut found = false;
        self.change(|known| found = known.contains(request.url().as_str()));
        found
    }
}

/// What is told of a session that was to be opened.
#[derive(Debug, Clone)]
pub(crate) struct Opening {
    /// Host and port of the server.
    pub(crate) host: String,
    /// The revision of MCP that is spoken in it.
    pub(crate) revision: Option<&'static str>,
    /// How long it took, in milliseconds.
    pub(crate) duration_ms: u64,
    /// Why there is none.
    pub(crate) failure: Option<Error>,
}

/// Why there is no session.
#[derive(Debug)]
pub(crate) struct NoSession {
    /// What happened. Nothing of the call has left.
    pub(crate) failure: Failure,
    /// The status of the answer, when there was one.
    pub(crate) status: Option<u16>,
}

impl Outbound {
    /// Whether the server of a request is known to want a session.
    pub(crate) fn wants_session(&self, request: &Permitted<PreparedRequest>) -> bool {
        request.may_need_session() && self.sessions.wants(request)
    }

    /// Opens a session for a request, within `time` if that is less than the limit of a request.
    ///
    /// # Errors
    /// When the server cannot be reached, or gives none.
    pub(crate) async fn open_session(
        &self,
        request: &Permitted<PreparedRequest>,
        authorization: &Authorization<'_>,
        time: Option<Duration>,
        announce: &dyn Announce,
        on_opening: &(dyn Fn(Opening) + Sync),
    ) -> Result<Session, NoSession> {
        let began = self.clock.now();
        let time = self.bounded(time);
        let opened = timeout(time, self.negotiate(request, authorization, announce)).await;
        let opened = opened.unwrap_or_else(|_| {
            let host = authority(request.url());
            let message = format!("{host} opened no session within {} s", time.as_secs_f32());
            Err(NoSession { failure: Failure::unsent(Kind::Timeout, message), status: None })
        });
        self.sessions.change(|known| match &opened {
            Ok(_) if known.len() < MAX_SERVERS => drop(known.insert(request.url().to_string())),
            // A server that has been renewed may want none any more.
            Err(NoSession { status: Some(_), .. }) => {
                known.remove(request.url().as_str());
            }
            Ok(_) | Err(_) => {}
        });
        on_opening(Opening {
            host: authority(request.url()),
            revision: opened.as_ref().ok().map(Session::revision),
            duration_ms: milliseconds_between(began, self.clock.now()),
            failure: opened.as_ref().err().map(|no| no.failure.error.clone()),
        });
        opened
    }

    async fn negotiate(
        &self,
        request: &Permitted<PreparedRequest>,
        authorization: &Authorization<'_>,
        announce: &dyn Announce,
    ) -> Result<Session, NoSession> {
        let none = |failure: Failure| {
            let error = failure.error.at("the session");
            NoSession { failure: Failure { error, sent: false, ..failure }, status: None }
        };
        let unneeded =
            || none(Failure::unsent(Kind::Internal, "a session was opened for no call of a tool"));
        let opening = request.opening().ok_or_else(unneeded)?;
        let response = self.pass(&opening, authorization, announce).await.map_err(none)?;
        let session = read_session(&response).map_err(|error| {
            let busy = matches!(response.status, 429 | 503);
            let busy =
                busy.then(|| retry_after(&response.headers, self.clock.now()).unwrap_or_default());
            let failure = Failure { busy, ..Failure::before(error.into()) };
            NoSession { status: Some(response.status), ..none(failure) }
        })?;
        // A server that does not take the notification says so to the call.
        let opened = request.opened(&session).ok_or_else(unneeded)?;
        self.pass(&opened, authorization, announce).await.map_err(none)?;
        Ok(session)
    }

    /// Ends a session, as far as the server cares. Nothing comes of it for the step.
    pub(crate) async fn close_session(
        &self,
        request: &Permitted<PreparedRequest>,
        session: &Session,
        authorization: &Authorization<'_>,
        announce: &dyn Announce,
    ) {
        let Some(closing) = request.closing(session) else { return };
        let closed = timeout(GOODBYE, self.pass(&closing, authorization, announce)).await;
        if !matches!(closed, Ok(Ok(_))) {
            let host = authority(request.url());
            tracing::debug!(%host, "a session was not ended in time");
        }
    }

    async fn pass(
        &self,
        request: &Permitted<PreparedRequest>,
        authorization: &Authorization<'_>,
        announce: &dyn Announce,
    ) -> Result<RawResponse, Failure> {
        let turn = self.turn(request.url(), None, &|_| {}).await?;
        let announced = announce.announce(RequestPurpose::Session, request).await;
        announced.map_err(Failure::before)?;
        let wire = authorization.wire();
        let reply = Box::pin(self.transmit(request, turn, wire, None)).await;
        let answer = reply.and_then(|reply| reply.into_answer(request.url()));
        answer.map(|response| authorization.secrets.scrub(response))
    }
}
