//! From a task and its inputs to the one HTTP request that they mean, and from the answer to the
//! value that steps read. Pure: no socket, no clock, no configuration.
//!
//! Every value is data. It is encoded for the place where it goes, so a city named `../x?y#z` stays
//! one segment of the path, and a header value cannot begin another header. What cannot be encoded
//! without changing the meaning of the request is refused.

mod charset;
mod excerpt;
mod graphql;
mod json_text;
mod mcp;
mod openapi;
mod parameter_style;
mod redirect_target;
mod response;
mod schema;
mod stored;
mod token;
mod value_checks;

use std::borrow::Cow;
use std::sync::Arc;

use a2s::{Digest, HIDDEN, InputLocation, ParameterLocation, Task};
use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, Method};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use url::Url;

use crate::credential_requirements::CredentialRequirement;
use crate::error::ErrorKind;

pub(crate) use charset::{decode as decode_text, decode_header};
pub(crate) use excerpt::is_displayable;
pub(crate) use json_text::{has_lone_surrogate, parse_json};
pub(crate) use mcp::{
    EventStreamReader, McpMessage, McpSession, call as mcp_call, is_session_unknown, message_of,
    read_message, read_session, wants_session,
};
pub(crate) use openapi::mask_binary;
pub(crate) use redirect_target::RedirectTarget;
pub(crate) use response::{RawResponse, asks_for_query, read_response};
pub(crate) use schema::SchemaViolation;
#[cfg(test)]
pub(crate) use schema::{SchemaCheck, ValueDirection};
pub(crate) use stored::headers as stored_headers;
pub(crate) use token::token_request;
pub(crate) use value_checks::{ContractCache, TaskContract, declared_status, media_types_of};

/// The longest address that is sent.
pub(crate) const MAX_URL_BYTES: usize = 16 * 1024;
/// The most that all header names and values may come to.
pub(crate) const MAX_HEADER_BYTES: usize = 16 * 1024;
/// The largest body that is sent.
pub(crate) const MAX_BODY_BYTES: usize = 10 * 1024 * 1024;

/// A request that is complete but for credentials, addressed to the document's host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "stored::StoredRequest", try_from = "stored::StoredRequest")]
pub(crate) struct PreparedRequest {
    method: Method,
    url: Url,
    headers: HeaderMap,
    body: Option<Bytes>,
    /// The body to send when the service asks for the complete request: see [`PreparedRequest::with_full_body`].
    whole_body: Option<Bytes>,
    /// The body to send inside a session, if it is a call of an MCP tool.
    session_body: Option<Bytes>,
    repeat_safe: bool,
    own_trace: bool,
    access: Option<Arc<CredentialRequirement>>,
    /// The inputs as guardians see them, where one of them has changed some.
    shown: Option<Arc<IndexMap<InputLocation, Value>>>,
}

impl PreparedRequest {
    /// The method.
    pub(crate) fn method(&self) -> &Method {
        &self.method
    }

    /// The address, with the document's host.
    pub(crate) fn url(&self) -> &Url {
        &self.url
    }

    /// The headers that the task asks for; `Host` and framing are the connection's.
    pub(crate) fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// The body.
    pub(crate) fn body(&self) -> Option<&Bytes> {
        self.body.as_ref()
    }

    /// Returns true when the document handles trace headers itself: it sets them, or has parameters for
    /// them.
    pub(crate) fn has_own_trace(&self) -> bool {
        self.own_trace
    }

    /// The credentials that it wants; none when everybody is let in.
    pub(crate) fn access(&self) -> Option<&CredentialRequirement> {
        self.access.as_deref()
    }

    /// The same, with the credentials that it wants.
    pub(crate) fn with_access(self, access: Option<CredentialRequirement>) -> Self {
        Self { access: access.map(Arc::new), ..self }
    }

    /// The same, made of inputs that a guardian has changed; as guardians see them.
    pub(crate) fn with_masked_inputs(self, shown: IndexMap<InputLocation, Value>) -> Self {
        Self { shown: Some(Arc::new(shown)), ..self }
    }

    /// The inputs as guardians see them, where one of them has changed some.
    pub(crate) fn shown_inputs(&self) -> Option<&IndexMap<InputLocation, Value>> {
        self.shown.as_deref()
    }

    /// The complete body that may be sent: for a partial request, the body of the complete one.
    pub(crate) fn full_body(&self) -> Option<&Bytes> {
        self.whole_body.as_ref().or(self.body.as_ref())
    }

    /// The request that a redirect of this one asks for.
    pub(crate) fn redirect_to(&self, hop: &RedirectTarget) -> Self {
        let mut next = Self {
            method: hop.method.clone(),
            url: hop.url.clone(),
            whole_body: None,
            session_body: None,
            ..self.clone()
        };
        if !hop.keeps_body {
            next.body = None;
            next.headers.remove(http::header::CONTENT_TYPE);
            // It has become a `GET`.
            next.repeat_safe = true;
        }
        next
    }

    /// Returns true when the request holds only a part that the service may know already: a persisted query
    /// is first named by its hash. [`PreparedRequest::with_full_body`] is the complete request.
    pub(crate) fn is_hash_only(&self) -> bool {
        self.whole_body.is_some()
    }

    /// The same request with all that it means written out, when it [is a part](Self::is_hash_only).
    pub(crate) fn with_full_body(&self) -> Option<Self> {
        let body = self.whole_body.clone()?;
        Some(Self { body: Some(body), whole_body: None, ..self.clone() })
    }

    /// Returns true when its response may be a stream of events that the executor has to read: it is a
    /// message to an MCP server.
    pub(crate) fn expects_event_stream(&self) -> bool {
        self.headers.get(http::header::ACCEPT) == Some(&mcp::ACCEPTED)
    }

    /// Returns true when sending it twice has the same effect as sending it once: its method is idempotent,
    /// or the service recognizes it by its idempotency key.
    pub(crate) fn is_repeat_safe(&self) -> bool {
        self.repeat_safe || self.headers.contains_key("idempotency-key")
    }

    /// SHA-256 over method, address, headers and body: two requests with one digest are the same
    /// request, and one verdict covers both.
    pub(crate) fn digest(&self) -> Digest {
        // Neither a method, nor an address, nor a header holds a line feed, and the empty line
        // ends the headers: no two requests have one spelling.
        let mut text = format!("{} {}\n", self.method, self.url).into_bytes();
        let mut headers: Vec<_> = self.headers.iter().collect();
        headers.sort_by_key(|(name, _)| name.as_str());
        for (name, value) in headers {
            text.extend_from_slice(name.as_str().as_bytes());
            text.extend_from_slice(b": ");
            text.extend_from_slice(value.as_bytes());
            text.push(b'\n');
        }
        text.extend_from_slice(if self.body.is_some() { b"\nbody\n" } else { b"\n" });
        text.extend_from_slice(self.body.as_deref().unwrap_or_default());
        Digest::of_bytes(&text)
    }
}

/// An error in making a request from a task and its inputs. It names locations, never values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PrepareError {
    /// A required place has no value, or null.
    #[error("the required input `{0}` has no value")]
    Missing(InputLocation),
    /// The task has no such place.
    #[error("the task has no input `{0}`")]
    Unknown(InputLocation),
    /// The value cannot stand at its place.
    #[error("the value of `{place}` cannot be sent: {reason}")]
    Value {
        /// The location of the value.
        place: InputLocation,
        /// The reason why it cannot be sent there.
        reason: Cow<'static, str>,
    },
    /// The value does not fit its schema.
    #[error("the value of `{place}` does not match its schema: {}", join_violations(.violations))]
    Violation {
        /// The location of the value.
        place: InputLocation,
        /// The violations; never empty.
        violations: Vec<SchemaViolation>,
    },
    /// The arguments of a tool, taken together, do not fit its schema.
    #[error("the arguments do not match their schema: {}", join_violations(.0))]
    Arguments(Vec<SchemaViolation>),
    /// The task itself cannot be sent, whatever its inputs are.
    #[error("the request of the task cannot be sent: {0}")]
    Task(String),
    /// A part of the request is longer than any service takes.
    #[error("the request is too large: {part} of more than {limit} bytes")]
    TooLarge {
        /// The part that is too large.
        part: &'static str,
        /// The most it may be.
        limit: usize,
    },
}

impl PrepareError {
    /// Returns the location of the value at fault, and the path of its first wrong part.
    pub(crate) fn value_location(&self) -> Option<(&InputLocation, &str)> {
        match self {
            Self::Missing(place) | Self::Value { place, .. } => Some((place, "")),
            Self::Violation { place, violations } => {
                Some((place, violations.first().map_or("", SchemaViolation::location)))
            }
            Self::Unknown(_) | Self::Arguments(_) | Self::Task(_) | Self::TooLarge { .. } => None,
        }
    }

    fn value(place: &InputLocation, reason: impl Into<Cow<'static, str>>) -> Self {
        Self::Value { place: place.clone(), reason: reason.into() }
    }
}

/// Everything that does not fit, in one text.
pub(crate) fn join_violations(violations: &[SchemaViolation]) -> String {
    violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

impl From<PrepareError> for crate::error::Error {
    fn from(error: PrepareError) -> Self {
        let (kind, hint) = match error {
            PrepareError::Missing(_) => {
                (ErrorKind::InvalidInput, "Give the input a value, or map another value to it.")
            }
            PrepareError::Unknown(_) => {
                (ErrorKind::InvalidInput, "Use the names of the operation's parameters.")
            }
            PrepareError::Value { .. } => {
                (ErrorKind::InvalidInput, "Give another value; the executor sent nothing.")
            }
            PrepareError::Violation { .. } | PrepareError::Arguments(_) => {
                (ErrorKind::InputSchemaViolation, ErrorKind::InputSchemaViolation.code().remedy)
            }
            PrepareError::Task(_) => {
                (ErrorKind::DocumentRefused, "Correct the task, and publish a new version.")
            }
            PrepareError::TooLarge { .. } => {
                (ErrorKind::RequestTooLarge, "Send less in one request.")
            }
        };
        Self::new(kind, error.to_string()).with_hint(hint)
    }
}

/// The method and the address of a task, with the places still to be filled in braces.
pub(crate) fn method_and_url(task: &Task) -> (&'static str, String) {
    match task {
        Task::OpenApi(task) => openapi::address(task),
        Task::Graphql(task) => ("POST", task.endpoint.to_string()),
        Task::Mcp(task) => ("POST", task.server.to_string()),
    }
}

/// Makes the request that the task of `contract` means with `inputs`.
///
/// # Errors
/// When a required place has no value, a place does not exist, or a value cannot be sent there or
/// does not fit its schema. Null at a place of an OpenAPI operation means that there is no value.
pub(crate) fn prepare(
    contract: &TaskContract,
    inputs: &IndexMap<InputLocation, Value>,
) -> Result<PreparedRequest, PrepareError> {
    let mut request = prepare_unchecked(contract, inputs)?;
    request.repeat_safe = contract.task().is_idempotent();
    request.own_trace = has_trace_parameter(contract.task())
        || request.headers.keys().any(|name| is_trace_header(name.as_str()));
    check_sizes(&request)?;
    contract.check_inputs(inputs)?;
    Ok(request)
}

/// Makes the same request from inputs that need not fit their schemas.
///
/// # Errors
/// When a value is missing, or cannot be sent.
pub(crate) fn prepare_unchecked(
    contract: &TaskContract,
    inputs: &IndexMap<InputLocation, Value>,
) -> Result<PreparedRequest, PrepareError> {
    match contract.task() {
        Task::OpenApi(task) => openapi::prepare(task, contract.accepted_types(task), inputs),
        Task::Graphql(task) => graphql::prepare(task, inputs),
        Task::Mcp(task) => mcp::prepare(task, inputs),
    }
}

/// Returns the request as guardians see it: made of masked inputs, which need not fit their schemas. A part
/// that they cannot result in is a placeholder. `actual` is the true request.
pub(crate) fn prepare_masked(
    contract: &TaskContract,
    shown: &IndexMap<InputLocation, Value>,
    actual: &PreparedRequest,
) -> PreparedRequest {
    if let Task::OpenApi(task) = contract.task() {
        let accepted = contract.accepted_types(task);
        return openapi::prepare_masked(task, accepted, shown, &actual.url);
    }
    prepare_unchecked(contract, shown).unwrap_or_else(|_| PreparedRequest {
        headers: HeaderMap::new(),
        body: Some(Bytes::from_static(HIDDEN.as_bytes())),
        whole_body: None,
        session_body: None,
        ..actual.clone()
    })
}

/// Returns true when an operation has a parameter for a trace header.
fn has_trace_parameter(task: &Task) -> bool {
    let Task::OpenApi(task) = task else { return false };
    let headers = task.parameters.iter().filter(|one| one.location == ParameterLocation::Header);
    headers.map(|header| header.name.as_str()).any(is_trace_header)
}

fn check_sizes(request: &PreparedRequest) -> Result<(), PrepareError> {
    let headers = request.headers.iter();
    let headers = headers.map(|(name, value)| name.as_str().len() + value.len() + 4).sum::<usize>();
    let parts = [
        ("an address", request.url.as_str().len(), MAX_URL_BYTES),
        ("headers", headers, MAX_HEADER_BYTES),
        ("a body", request.body.as_ref().map_or(0, Bytes::len), MAX_BODY_BYTES),
        ("a body", request.whole_body.as_ref().map_or(0, Bytes::len), MAX_BODY_BYTES),
        ("a body", request.session_body.as_ref().map_or(0, Bytes::len), MAX_BODY_BYTES),
    ];
    match parts.into_iter().find(|(_, size, limit)| size > limit) {
        Some((part, _, limit)) => Err(PrepareError::TooLarge { part, limit }),
        None => Ok(()),
    }
}

/// Names that belong to the connection or to credentials and never come from a document's inputs.
fn is_reserved_header(name: &HeaderName) -> bool {
    const RESERVED: [HeaderName; 11] = [
        http::header::AUTHORIZATION,
        http::header::CONNECTION,
        http::header::CONTENT_LENGTH,
        http::header::COOKIE,
        http::header::EXPECT,
        http::header::HOST,
        http::header::PROXY_AUTHORIZATION,
        http::header::TE,
        http::header::TRAILER,
        http::header::TRANSFER_ENCODING,
        http::header::UPGRADE,
    ];
    RESERVED.contains(name)
        || matches!(name.as_str(), "keep-alive" | "proxy-connection" | "accept-encoding")
}

/// A header value of visible ASCII, spaces and tabs: what every server reads alike.
fn header_value(text: &str) -> Option<HeaderValue> {
    // The type itself lets bytes beyond ASCII pass.
    let is_visible = text.bytes().all(|b| b == b'\t' || (b' '..=b'~').contains(&b));
    HeaderValue::from_str(text).ok().filter(|_| is_visible)
}

#[cfg(test)]
pub(crate) mod test_fixtures;

/// Returns true for the headers of W3C Trace Context.
fn is_trace_header(name: &str) -> bool {
    ["traceparent", "tracestate"].iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// Host and port, as errors and logs name a service. Never more of an address than that.
pub(crate) fn authority(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}
