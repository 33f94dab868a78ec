//! The permission to use a value, and the requests that a permitted request may need: within an MCP session
//! and for the tokens of its credentials. They belong to the same step, so the same verdict applies. They
//! are made here, from the data of the permitted request itself, so that no other value can become
//! permitted.

use std::ops::Deref;

use a2s::{SecurityRequirement, to_single_line};

use super::GuardedStep;
use crate::credential_requirements::{CredentialRequirement, CredentialUser, GrantType};
use crate::error::{Error, ErrorKind};
use crate::request::{McpSession, PreparedRequest, TaskContract, token_request};

/// A value that may be used, because a guardian allowed it or because no guardian is configured.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Permitted<T>(pub(super) T);

impl<T> Permitted<T> {
    /// Returns the value without the mark of the permission.
    pub(crate) fn into_inner(self) -> T {
        self.0
    }
}

impl<T> Deref for Permitted<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl Permitted<PreparedRequest> {
    /// Returns the same request with its complete body, for a service that asks for it. The guardian was
    /// asked about the task and its inputs, and these do not change.
    pub(crate) fn with_full_body(&self) -> Option<Self> {
        self.0.with_full_body().map(Self)
    }

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

    /// Creates the request for a token that one of its own requirements needs, without the client's
    /// credentials.
    ///
    /// # Errors
    /// Returns [`ErrorKind::CredentialRefused`] when the document does not state the token URL, or the URL
    /// is not among its domains.
    pub(crate) fn token_request(
        &self,
        wanted: &SecurityRequirement,
        grant: GrantType,
    ) -> Result<Self, Error> {
        let name = to_single_line(&wanted.name, 100);
        let access = self.access();
        let url = access.and_then(|access| access.token_url(wanted, grant)).ok_or_else(|| {
            let (what, hint) = match grant {
                GrantType::Client => (
                    "without a refresh token",
                    "Store the credential with a refresh token, or store your own token with \
                     `--kind bearer`.",
                ),
                GrantType::Refresh => {
                    ("with a refresh token", "Store your own token with `--kind bearer`.")
                }
            };
            let message = format!("the document has no token address for `{name}` {what}");
            Error::new(ErrorKind::CredentialRefused, message).with_hint(hint)
        })?;
        if !access.is_some_and(|access| access.covers(url)) {
            let host = to_single_line(url.host_str().unwrap_or_default(), 100);
            let message = format!(
                "the tokens for `{name}` come from {host}, which the document's `domains` do not list"
            );
            let hint = "Ask the author of the document to add the host to `domains`.";
            return Err(Error::new(ErrorKind::CredentialRefused, message).with_hint(hint));
        }
        Ok(Self(token_request(url, grant, &wanted.scopes)))
    }

    /// Restores a request of this step that the guardians allowed before the step waited, as it was sealed
    /// then.
    pub(crate) fn from_sealed(
        asker: &GuardedStep<'_>,
        contract: &TaskContract,
        sealed: &PreparedRequest,
    ) -> Self {
        let user = CredentialUser {
            principal: asker.principal.clone(),
            capability: asker.capability.name.clone(),
        };
        let access = CredentialRequirement::from_task(contract.task(), asker.domains, user);
        Self(sealed.clone().with_access(access))
    }
}
