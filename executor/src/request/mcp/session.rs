//! Sessions, required by servers of a revision before 2026-07-28 (MCP 2025-11-25, "Lifecycle" and "Session
//! Management").
//!
//! Each attempt has its own session: `initialize`, `notifications/initialized`, the call, and an end.
//! Sessions share no data between steps, even of the same caller.

use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, Method};
use serde_json::{Value, json};

use super::response::{message_of, read_result};
use super::{ACCEPTED, PROTOCOL_VERSION, client_info, message, write};
use crate::request::response::{ResponseError, status_error};
use crate::request::{PreparedRequest, RawResponse};

const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
/// The maximum length of a session id, in bytes.
const MAX_SESSION_ID: usize = 1_024;
/// The id of the request that opens a session.
const OPENING_ID: u64 = 0;
/// The revisions with sessions, the newest first. A request asks for the first one.
const REVISIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
/// Error codes that only servers of 2026-07-28 and later send: the server understood the request.
const UNDERSTOOD: [i64; 2] = [-32_020, -32_021];
/// The server does not support the revision; `data.supported` lists those that it supports.
const UNSUPPORTED_VERSION: i64 = -32_022;
const METHOD_NOT_FOUND: i64 = -32_601;
/// The error codes with which servers reject a session that they do not know.
const UNKNOWN_SESSION: [i64; 2] = [-32_000, -32_001];

/// The session that a server has agreed to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct McpSession {
    /// The id by which the server recognizes the session, if it uses one.
    id: Option<HeaderValue>,
    /// The revision of the session.
    revision: &'static str,
}

impl McpSession {
    /// The revision of the session.
    pub(crate) fn revision(&self) -> &'static str {
        self.revision
    }

    /// Returns true when the server recognizes the session by an id.
    pub(crate) fn has_id(&self) -> bool {
        self.id.is_some()
    }
}

impl PreparedRequest {
    /// Returns true when the request may be made inside a session.
    pub(crate) fn may_need_session(&self) -> bool {
        self.session_body.is_some()
    }

    /// Creates the request that opens a session for this one.
    pub(crate) fn session_request(&self) -> Option<Self> {
        let params = json!({
            "protocolVersion": REVISIONS[0],
            "capabilities": {},
            "clientInfo": client_info(),
        });
        self.session_body.as_ref()?;
        let body = write(&message("initialize", params, Some(OPENING_ID))).ok()?;
        Some(Self { body: Some(body), ..self.with_session(None) })
    }

    /// Creates the notification that the session is open. A server accepts calls only after it.
    pub(crate) fn session_notification(&self, session: &McpSession) -> Option<Self> {
        self.session_body.as_ref()?;
        let body = write(&message("notifications/initialized", json!({}), None)).ok()?;
        Some(Self { body: Some(body), ..self.with_session(Some(session)) })
    }

    /// Creates the same request inside a session.
    pub(crate) fn in_session(&self, session: &McpSession) -> Option<Self> {
        let body = self.session_body.clone()?;
        Some(Self { body: Some(body), ..self.with_session(Some(session)) })
    }

    /// The request that ends a session; `None` when the server does not need one.
    pub(crate) fn close_request(&self, session: &McpSession) -> Option<Self> {
        session.id.as_ref()?;
        Some(Self { method: Method::DELETE, body: None, ..self.with_session(Some(session)) })
    }

    /// Creates a request to the same server by the same client, with the headers of a session.
    fn with_session(&self, session: Option<&McpSession>) -> Self {
        let own = |name: &HeaderName| name.as_str().starts_with("mcp-");
        let kept = self.headers.iter().filter(|(name, _)| !own(name));
        let mut headers: HeaderMap =
            kept.map(|(name, value)| (name.clone(), value.clone())).collect();
        headers.insert(http::header::ACCEPT, ACCEPTED);
        if let Some(session) = session {
            headers.insert(PROTOCOL_VERSION, HeaderValue::from_static(session.revision));
            if let Some(id) = &session.id {
                headers.insert(SESSION_ID, id.clone());
            }
        }
        Self { headers, session_body: None, ..self.clone() }
    }
}

/// Returns true when the response to a request outside a session means that a session is required: the
/// server rejected the request without understanding it (MCP 2026-07-28, "Backward Compatibility"), so no
/// tool has run.
pub(crate) fn wants_session(response: &RawResponse) -> bool {
    let message = message_of(response);
    let error = message.as_ref().and_then(|message| message.get("error"));
    let code = error.and_then(|error| error.get("code")).and_then(Value::as_i64);
    if code == Some(UNSUPPORTED_VERSION) {
        let supported = error.and_then(|error| error.pointer("/data/supported"));
        let supported = supported.and_then(Value::as_array).into_iter().flatten();
        return supported.filter_map(Value::as_str).any(|one| REVISIONS.contains(&one));
    }
    let is_understood = code.is_some_and(|code| UNDERSTOOD.contains(&code))
        || (response.status == 404 && code == Some(METHOD_NOT_FOUND));
    matches!(response.status, 400 | 404 | 405 | 406 | 415 | 422) && !is_understood
}

/// Returns true when the response to a call in a session with an id means that the server does not know the
/// session any more, so no tool has run (MCP 2025-11-25, "Session Management").
pub(crate) fn is_session_unknown(response: &RawResponse) -> bool {
    let message = message_of(response).unwrap_or_default();
    let error = message.get("error");
    let code = error.and_then(|error| error.get("code")).and_then(Value::as_i64);
    match response.status {
        404 => !message.contains_key("result") && code != Some(METHOD_NOT_FOUND),
        // The status of some servers that are built with the official SDKs.
        400 => {
            let text = error.and_then(|error| error.get("message")).and_then(Value::as_str);
            let text = text.unwrap_or_default().to_ascii_lowercase();
            let names_id = ["session id", "session-id", "session not found"];
            code.is_some_and(|code| UNKNOWN_SESSION.contains(&code))
                && names_id.iter().any(|words| text.contains(words))
        }
        _ => false,
    }
}

/// Reads the session in the response to an opening request.
pub(crate) fn read_session(response: &RawResponse) -> Result<McpSession, ResponseError> {
    let not_mcp = |reason| ResponseError::NotMcp { reason, excerpt: String::new() };
    if !response.is_success() {
        return Err(status_error(response));
    }
    let message =
        message_of(response).ok_or_else(|| not_mcp("the response to `initialize` is not JSON"))?;
    let result = read_result(&message, OPENING_ID)?;
    let spoken = result.get("protocolVersion").and_then(Value::as_str);
    let revision = REVISIONS.into_iter().find(|revision| spoken == Some(*revision));
    let revision =
        revision.ok_or_else(|| not_mcp("the server uses an unsupported revision of MCP"))?;
    let mut ids = response.headers.get_all(SESSION_ID).iter();
    let id = ids.next().cloned();
    let is_plain = |id: &HeaderValue| {
        (1..=MAX_SESSION_ID).contains(&id.len()) && id.as_bytes().iter().all(u8::is_ascii_graphic)
    };
    if ids.next().is_some() || id.as_ref().is_some_and(|id| !is_plain(id)) {
        return Err(not_mcp("the session id has characters that are not allowed in a header"));
    }
    Ok(McpSession { id, revision })
}
