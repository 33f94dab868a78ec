//! The location inside a step at which its run waits for an approval after something was sent, with all
//! data needed to continue there. It is sealed with the event that asks for the approval, so that a wait or
//! a crash does not cause anything to be sent again.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{Error, ErrorKind};
use crate::request::{PreparedRequest, RawResponse, RedirectTarget};
use crate::step_result::ResponseHead;

/// Wait points by the numbers of their events.
pub(crate) type WaitPoints = BTreeMap<u64, WaitPoint>;

/// The point inside a step at which its run waits for an approval.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WaitPoint {
    /// The run waits before the request that a redirect asks for.
    Redirect(Box<RedirectPoint>),
    /// The run waits before the message in the response of an MCP server is read.
    McpAnswer {
        /// The attempt that the message belongs to.
        attempt: u32,
        /// The response with the message.
        response: RawResponse,
    },
    /// The run waits before the result is used.
    Result {
        /// The attempt with this result.
        attempt: u32,
        /// The result, or the failure.
        answer: Result<Value, StoredError>,
        /// Status and headers of the response, if there was one.
        head: Option<ResponseHead>,
    },
}

impl WaitPoint {
    /// Returns the number of the redirect that is not followed yet, if the run waits for one.
    pub(crate) fn redirect_number(&self) -> Option<u32> {
        match self {
            Self::Redirect(point) => Some(point.number),
            Self::McpAnswer { .. } | Self::Result { .. } => None,
        }
    }

    /// Returns true when the other one has the same content: a step reaches each location once in an
    /// attempt.
    pub(crate) fn is_same_content(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Redirect(one), Self::Redirect(other)) => {
                (one.attempt, one.number) == (other.attempt, other.number)
            }
            (Self::McpAnswer { attempt: one, .. }, Self::McpAnswer { attempt: other, .. })
            | (Self::Result { attempt: one, .. }, Self::Result { attempt: other, .. }) => {
                one == other
            }
            _ => false,
        }
    }
}

/// A redirect that was not followed yet.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct RedirectPoint {
    /// The attempt.
    pub(crate) attempt: u32,
    /// The number of the redirect, from 1.
    pub(crate) number: u32,
    /// The first request of the attempt.
    pub(crate) first: PreparedRequest,
    /// The request that was redirected.
    pub(crate) redirected: PreparedRequest,
    /// The response that redirects it.
    pub(crate) response: RawResponse,
    /// The target of the redirect.
    pub(crate) hop: RedirectTarget,
    /// True when everything that the attempt has sent so far is safe to repeat.
    pub(crate) repeat_safe: bool,
}

/// The failure of a step, in the form in which it is sealed.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct StoredError {
    code: String,
    message: String,
    hint: String,
}

impl From<Error> for StoredError {
    fn from(error: Error) -> Self {
        let Error { kind, message, hint, .. } = error;
        Self { code: kind.code().id.to_owned(), message, hint }
    }
}

impl From<StoredError> for Error {
    fn from(stored: StoredError) -> Self {
        let kind = ErrorKind::from_code(&stored.code).unwrap_or(ErrorKind::Internal);
        Self::new(kind, stored.message).with_hint(stored.hint)
    }
}

impl fmt::Debug for WaitPoint {
    /// Shows only the kind of the point: the rest may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Redirect(point) => write!(f, "Redirect({})", point.number),
            Self::McpAnswer { .. } => f.write_str("McpAnswer"),
            Self::Result { .. } => f.write_str("Result"),
        }
    }
}
