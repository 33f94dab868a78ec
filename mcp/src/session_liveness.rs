//! Liveness of sessions. A session without a connection is closed, and its runs are stopped.
//!
//! With MCP before 2026-07-28, a client may reopen a broken stream, so the transport lets calls continue
//! without a stream. A client that has no connection at all for a while is treated as gone.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use a2s_api::{Principal, StreamLimits, StreamPermit, StreamQuota};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use futures::StreamExt as _;
use rmcp::transport::streamable_http_server::session::SessionManager as _;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::Limits;
use agent::Requester;

/// The time that a client may be without a connection: longer than a reconnection takes.
const GRACE: Duration = Duration::from_secs(10);
const SESSION: &str = "mcp-session-id";
/// An id that is never a session id, because those are UUIDs.
const NO_SUCH: &str = "none";
/// The first version of the protocol without sessions.
const WITHOUT_SESSIONS: &str = "2026-07-28";

/// The sessions, and the connections of their clients.
#[derive(Clone)]
pub(super) struct SessionLiveness {
    manager: Arc<LocalSessionManager>,
    /// The time that a session is kept without a request after it was opened.
    unused: Duration,
    quota: StreamQuota,
    sessions: Arc<Mutex<BTreeMap<String, Arc<LiveSession>>>>,
    owners: Arc<Mutex<BTreeMap<String, OwnedSession>>>,
}

/// The party that opened a session, and its use of it.
struct OwnedSession {
    owner: SessionOwner,
    /// The number of requests. The first one reports that the client is ready.
    requests: usize,
    _permit: StreamPermit,
}

/// The principal that opened a session; none for a caller without a known token.
type SessionOwner = Option<Principal>;

/// One session.
#[derive(Debug, Default)]
pub(super) struct LiveSession {
    /// The number of responses that the client is reading.
    connections: AtomicUsize,
    /// The number of calls in progress.
    calls: AtomicUsize,
    gone: CancellationToken,
}

/// A call in progress; dropping it ends the call.
#[derive(Debug)]
pub(super) struct ActiveCall(Arc<LiveSession>);

impl LiveSession {
    /// Counts a call; returns none when there are already `most`.
    pub(super) fn begin_call(self: &Arc<Self>, most: usize) -> Option<ActiveCall> {
        let begun = self.calls.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |calls| {
            (calls < most).then_some(calls + 1)
        });
        begun.ok().map(|_| ActiveCall(Arc::clone(self)))
    }

    /// Waits until the client is gone.
    pub(super) async fn wait_until_gone(&self) {
        self.gone.cancelled().await;
    }
}

impl Drop for ActiveCall {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Ordering::Relaxed);
    }
}

impl SessionLiveness {
    pub(super) fn new(manager: Arc<LocalSessionManager>, limits: Limits) -> Self {
        let Limits { sessions: total, of_principal: principal, of_anonymous: anonymous, .. } =
            limits;
        let quota = StreamQuota::new(StreamLimits { total, principal, anonymous });
        let (sessions, owners) = (Arc::default(), Arc::default());
        Self { manager, unused: limits.unused, quota, sessions, owners }
    }

    fn sessions(&self) -> MutexGuard<'_, BTreeMap<String, Arc<LiveSession>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a connection of a session.
    fn connect(&self, id: &str) -> SessionConnection {
        let mut sessions = self.sessions();
        let session = Arc::clone(sessions.entry(id.to_owned()).or_default());
        session.connections.fetch_add(1, Ordering::Relaxed);
        SessionConnection { liveness: self.clone(), id: id.to_owned(), session }
    }

    fn owners(&self) -> MutexGuard<'_, BTreeMap<String, OwnedSession>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves one more session for `owner`, if there is room.
    async fn reserve(&self, owner: &SessionOwner) -> Option<StreamPermit> {
        let known = self.manager.sessions.read().await;
        self.owners().retain(|id, _| known.contains_key(id.as_str()));
        self.quota.reserve(owner.clone()).ok()
    }

    /// Returns true when a session is known and was opened by `owner`. Then counts the request.
    async fn is_owned_by(&self, id: &str, owner: &SessionOwner) -> bool {
        let is_known = self.manager.sessions.read().await.contains_key(id);
        match self.owners().get_mut(id) {
            Some(session) if is_known && session.owner == *owner => {
                session.requests += 1;
                true
            }
            _ => false,
        }
    }

    /// Ends a session that was just opened, if it exceeds the limit.
    async fn admit_session(&self, opened: &HeaderMap, owner: SessionOwner) -> bool {
        let Some(id) = header(opened, SESSION) else { return true };
        if let Some(permit) = self.reserve(&owner).await {
            let session = OwnedSession { owner, requests: 0, _permit: permit };
            self.owners().insert(id.to_owned(), session);
            self.close_if_unused(id.to_owned());
            return true;
        }
        // One that cannot be ended ends by itself: nothing is ever said in it.
        let _ = self.manager.close_session(&id.into()).await;
        false
    }

    /// Ends a session that is not used for some time after it was opened.
    fn close_if_unused(&self, id: String) {
        let liveness = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(liveness.unused).await;
            let is_used = liveness.owners().get(&id).is_some_and(|session| session.requests > 1);
            if !is_used {
                liveness.remove(&id);
                let _ = liveness.manager.close_session(&id.into()).await;
            }
        });
    }

    fn remove(&self, id: &str) {
        self.owners().remove(id);
        if let Some(session) = self.sessions().remove(id) {
            session.gone.cancel();
        }
    }
}

/// A response that a client is reading.
struct SessionConnection {
    liveness: SessionLiveness,
    id: String,
    session: Arc<LiveSession>,
}

impl Drop for SessionConnection {
    fn drop(&mut self) {
        if self.session.connections.fetch_sub(1, Ordering::Relaxed) > 1 {
            return;
        }
        let (liveness, id) = (self.liveness.clone(), std::mem::take(&mut self.id));
        let session = Arc::clone(&self.session);
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            tokio::time::sleep(GRACE).await;
            let mut sessions = liveness.sessions();
            // Entering and this decision hold the same lock.
            if session.connections.load(Ordering::Relaxed) == 0 {
                if session.calls.load(Ordering::Relaxed) > 0 {
                    tracing::info!(session = %id, "an MCP client is gone; the server cancels its calls");
                }
                session.gone.cancel();
                if sessions.get(&id).is_some_and(|known| Arc::ptr_eq(known, &session)) {
                    sessions.remove(&id);
                }
            }
        });
    }
}

/// Counts sessions and connections. Calls find their [`LiveSession`] among the extensions of a request.
pub(super) async fn track_session(
    State(liveness): State<SessionLiveness>,
    mut request: Request,
    next: Next,
) -> Response {
    let requester = request.extensions().get::<Requester>();
    let owner = requester.and_then(|requester| requester.principal().cloned());
    let Some(id) = header(request.headers(), SESSION).map(str::to_owned) else {
        let version = header(request.headers(), "mcp-protocol-version").unwrap_or_default();
        let begins = request.method() == Method::POST && version < WITHOUT_SESSIONS;
        if begins && liveness.reserve(&owner).await.is_none() {
            return too_many();
        }
        let response = next.run(request).await;
        // `initialize` opens one whatever version it names, and several may have come at once.
        return if liveness.admit_session(response.headers(), owner).await {
            response
        } else {
            too_many()
        };
    };
    if !liveness.is_owned_by(&id, &owner).await {
        // The transport reports an unknown session, whether it exists or not.
        request.headers_mut().insert(SESSION, HeaderValue::from_static(NO_SUCH));
        return next.run(request).await;
    }
    if request.method() == Method::DELETE {
        liveness.remove(&id);
        let response = next.run(request).await;
        // The transport answers 202, which the official SDK for Python reports as a failure. The session
        // has ended, and there is nothing to read.
        return if response.status().is_success() {
            StatusCode::NO_CONTENT.into_response()
        } else {
            response
        };
    }
    let connection = liveness.connect(&id);
    request.extensions_mut().insert(Arc::clone(&connection.session));
    let (head, body) = next.run(request).await.into_parts();
    let body = body.into_data_stream().map(move |chunk| {
        // It lives as long as the stream.
        let _: &SessionConnection = &connection;
        chunk
    });
    Response::from_parts(head, Body::from_stream(body))
}

fn header<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn too_many() -> Response {
    let error = json!({
        "jsonrpc": "2.0",
        "id": null,
        "error": {"code": -32000, "message": "too many sessions; end one, or try again later"},
    });
    (StatusCode::SERVICE_UNAVAILABLE, [("retry-after", "30")], axum::Json(error)).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_while_they_are_under_way() {
        let session = Arc::new(LiveSession::default());
        let first = session.begin_call(2).unwrap();
        let _second = session.begin_call(2).unwrap();
        assert!(session.begin_call(2).is_none());
        drop(first);
        assert!(session.begin_call(2).is_some());
    }
}
