//! Errors of requests to an agent: one table of kinds with code and HTTP status.

use a2s_api::AuthError;
use a2s_api::Problem;

use crate::client::Error as ClientError;

a2s::error_table! {
    /// All codes of this crate, in order: A2S600 to A2S699.
    pub const CODES;
    /// The kinds of errors.
    pub(crate) enum ErrorKind;
    BadRequest = "A2S600", 400, "invalid request to the agent", "Send the JSON that `/openapi.json` describes.";
    Unauthorized = "A2S601", 401, "token missing or wrong", "Send `Authorization: Bearer TOKEN`; the token is in the data folder, or set `A2S_TOKEN`.";
    Unreachable = "A2S602", 502, "registry or executor not reachable", "Start the service, or correct its address; the agent needs a registry and an executor.";
    Busy = "A2S603", 503, "too many turns at once", "Try again when other turns have ended.";
    Forbidden = "A2S604", 403, "token without the required scope", "Use a token with the scope that the message names: `a2s tokens create NAME --scope SCOPE`.";
}

/// The reason why there is no response.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request is invalid.
    #[error("{0}")]
    BadRequest(String),
    /// The token does not allow this request.
    #[error("{0}")]
    Auth(AuthError),
    /// A registry or an executor does not respond, or its response is invalid.
    #[error(transparent)]
    Service(#[from] ClientError),
    /// Too many turns are in progress.
    #[error("{0} turns are in progress already")]
    Busy(usize),
}

impl Error {
    pub(crate) fn kind(&self) -> ErrorKind {
        match self {
            Self::BadRequest(_) => ErrorKind::BadRequest,
            Self::Auth(AuthError::MissingToken | AuthError::UnknownToken) => {
                ErrorKind::Unauthorized
            }
            Self::Auth(AuthError::MissingScope { .. }) => ErrorKind::Forbidden,
            Self::Auth(AuthError::InvalidEndUser(_) | AuthError::RepeatedHeader(_)) => {
                ErrorKind::BadRequest
            }
            Self::Auth(AuthError::Unavailable(_)) => ErrorKind::Unreachable,
            Self::Service(_) => ErrorKind::Unreachable,
            Self::Busy(_) => ErrorKind::Busy,
        }
    }

    /// Creates the HTTP response.
    #[must_use]
    pub fn to_problem(&self) -> Problem {
        let kind = self.kind();
        Problem::new(kind.status(), kind.code(), self.to_string())
    }
}
