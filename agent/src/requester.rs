//! The party that asks an agent for something: its principal, and the credentials that it has shown.

use std::fmt;

use a2s::Secret;
use a2s_api::{Caller, CallerHeaders, Principal};

/// The id, as guardians see it, of a requester without a token.
const ANONYMOUS: &str = "anonymous";

/// The party that a turn, a task or a session belongs to.
///
/// Registry and executor get the same headers that the requester has sent. So the requester is the actor of
/// everything that the agent does for it: with its rights, and owned by its principal.
#[derive(Debug, Clone, Default)]
pub struct Requester {
    /// The principal; none for a requester without a token.
    principal: Option<Principal>,
    token: Option<Secret>,
    /// The end user for whom the requester acts, as the header names them.
    on_behalf_of: Option<String>,
}

impl Requester {
    /// Creates a requester without a token.
    #[must_use]
    pub fn anonymous() -> Self {
        Self::default()
    }

    /// Creates a requester from an authenticated caller and the headers that it sent.
    #[must_use]
    pub fn from_caller(caller: &Caller, shown: CallerHeaders<'_>) -> Self {
        Self {
            principal: Some(caller.principal()),
            token: shown.token().map(Secret::new),
            on_behalf_of: caller.end_user.as_ref().map(ToString::to_string),
        }
    }

    /// An unknown caller, with the headers that it has sent. They are passed on, so that the services
    /// reject them with their own messages.
    pub fn from_unknown_caller(shown: CallerHeaders<'_>) -> Self {
        Self { token: shown.token().map(Secret::new), ..Self::default() }
    }

    /// Returns the principal; none for a requester without a token.
    #[must_use]
    pub fn principal(&self) -> Option<&Principal> {
        self.principal.as_ref()
    }

    /// Returns the name of the user, as guardians see it.
    pub fn user_id(&self) -> &str {
        self.principal.as_ref().map_or(ANONYMOUS, Principal::user_id)
    }

    /// Returns the name of the token that acts for an end user, as guardians see it.
    pub fn caller_id(&self) -> Option<&str> {
        self.principal.as_ref().and_then(Principal::caller_id)
    }

    /// Returns the token that the requester has shown.
    #[must_use]
    pub fn token(&self) -> Option<&Secret> {
        self.token.as_ref()
    }

    /// Returns the end user that the requester names in its header.
    #[must_use]
    pub fn on_behalf_of(&self) -> Option<&str> {
        self.on_behalf_of.as_deref()
    }
}

impl fmt::Display for Requester {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.principal {
            Some(principal) => principal.fmt(f),
            None => f.write_str(ANONYMOUS),
        }
    }
}
