//! The requests of an MCP session, which a permitted call may need. They belong to the same step and
//! contain nothing of it, so the same verdict applies. They are made here, from the permitted request
//! itself, so that no other value can become permitted.

use super::Permitted;
use crate::request::{McpSession, PreparedRequest};

impl Permitted<PreparedRequest> {
    /// Returns the request that opens a session for this one; `None` when it does not need a session.
    pub(crate) fn session_request(&self) -> Option<Self> {
        self.0.session_request().map(Self)
    }

    /// Returns the notification that the session is open.
    pub(crate) fn session_notification(&self, session: &McpSession) -> Option<Self> {
        self.0.session_notification(session).map(Self)
    }

    /// Returns the same call inside a session.
    pub(crate) fn in_session(&self, session: &McpSession) -> Option<Self> {
        self.0.in_session(session).map(Self)
    }

    /// The request that ends a session; `None` when the server does not need one.
    pub(crate) fn close_request(&self, session: &McpSession) -> Option<Self> {
        self.0.close_request(session).map(Self)
    }
}
