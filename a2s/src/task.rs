//! Tasks: one request to one service, in the format of that service's own description.

mod graphql;
mod media_type;
mod openapi;
mod security;
mod spot;

use std::fmt;

use serde::{Deserialize, Serialize};
use url::Url;
use utoipa::ToSchema;

use crate::decode::short;
use crate::document::Place;

pub(crate) use graphql::decode_graphql;
pub use graphql::{GraphqlTask, VariableDefinition};
pub use media_type::MediaType;
pub(crate) use openapi::decode_openapi;
pub(crate) use openapi::names_idempotency_key;
pub use openapi::{
    BodyField, BodyFormat, FieldHeader, FieldKind, Method, OpenApiTask, OpenApiVersion,
    OperationParameter, ParameterPlace, RequestBody, Style, ValueStyle,
};
pub use security::{
    ApiKeyPlace, HttpScheme, OAuthFlow, OAuthFlows, SecurityRequirement, SecurityScheme,
    is_scheme_name,
};

/// One request to one service.
#[derive(Debug, Clone, PartialEq)]
pub enum Task {
    /// `format: OpenAPI`: one operation of an HTTP API.
    OpenApi(Box<OpenApiTask>),
    /// `format: GraphQL`: one query or mutation.
    Graphql(Box<GraphqlTask>),
}

/// The language in which a service describes what it takes and answers.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
pub enum Format {
    /// An HTTP API.
    #[serde(rename = "OpenAPI")]
    OpenApi,
    /// A GraphQL endpoint.
    #[serde(rename = "GraphQL")]
    Graphql,
}

impl Format {
    /// As documents write it: `OpenAPI` or `GraphQL`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OpenApi => "OpenAPI",
            Self::Graphql => "GraphQL",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Task {
    /// Stands for a task that could not be read, in a document that has errors.
    pub(crate) fn substitute() -> Self {
        Self::Graphql(Box::new(GraphqlTask::substitute()))
    }

    /// The format of the description that it is cut out of.
    #[must_use]
    pub fn format(&self) -> Format {
        match self {
            Self::OpenApi(_) => Format::OpenApi,
            Self::Graphql(_) => Format::Graphql,
        }
    }

    /// What the service calls itself: `info.title` of an OpenAPI description.
    #[must_use]
    pub fn service_title(&self) -> Option<&str> {
        match self {
            Self::OpenApi(task) => task.specification.get("info")?.get("title")?.as_str(),
            Self::Graphql(_) => None,
        }
    }

    /// The address that requests go to: the server of an OpenAPI task, the endpoint of a GraphQL
    /// task.
    #[must_use]
    pub fn url(&self) -> &Url {
        match self {
            Self::OpenApi(task) => &task.server,
            Self::Graphql(task) => &task.endpoint,
        }
    }

    /// The ways to be let in: one of them is enough, and each may want several schemes at once.
    /// None, or an empty one, means that everybody is.
    #[must_use]
    pub fn security(&self) -> &[Vec<SecurityRequirement>] {
        match self {
            Self::OpenApi(task) => &task.security,
            Self::Graphql(task) => &task.security,
        }
    }

    /// Where an address of an OAuth 2.0 flow leads: it may be relative to the address of the task.
    /// None when it is no address over HTTP, or has a user, a password or a fragment.
    #[must_use]
    pub fn token_address(&self, text: &str) -> Option<Url> {
        let mut base = self.url().clone();
        if !base.path().ends_with('/') {
            base.set_path(&format!("{}/", base.path()));
        }
        base.join(text).ok().filter(|url| {
            matches!(url.scheme(), "http" | "https")
                && url.has_host()
                && url.username().is_empty()
                && url.password().is_none()
                && url.fragment().is_none()
        })
    }

    /// Whether the request only reads: a safe HTTP method (RFC 9110, 9.2.1), or a GraphQL query.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        match self {
            Self::OpenApi(task) => task.method.is_safe(),
            Self::Graphql(task) => !task.is_mutation,
        }
    }

    /// The place of the idempotency key, when the operation takes one.
    #[must_use]
    pub fn idempotency_key(&self) -> Option<Place> {
        let Self::OpenApi(task) = self else { return None };
        let mut parameters = task.parameters.iter();
        parameters.find(|parameter| parameter.is_idempotency_key()).map(|key| key.input_place())
    }

    /// Whether sending the request twice has the effect of sending it once: an idempotent HTTP
    /// method (RFC 9110, 9.2.2), or a GraphQL query.
    #[must_use]
    pub fn is_idempotent(&self) -> bool {
        match self {
            Self::OpenApi(task) => task.method.is_idempotent(),
            Self::Graphql(task) => !task.is_mutation,
        }
    }
}

/// Header names that a document may not set: they frame the message, say who asks, or carry
/// credentials, which only a security scheme may do.
const RESERVED_HEADERS: [&str; 14] = [
    "authorization",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "cookie",
    "expect",
    "host",
    "keep-alive",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// What is wrong, and what to do about it.
type Problem = (String, String);

/// Whether text is the name of a header (RFC 9110, 5.1).
fn is_header_name(name: &str) -> bool {
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    !name.is_empty() && name.chars().all(token)
}

/// Whether a header, named in lower case, is set for each request and never by a document.
fn is_set_for_requests(name: &str) -> bool {
    RESERVED_HEADERS.contains(&name) || matches!(name, "accept-encoding" | "proxy-connection")
}

/// Refuses a header that a document may not set.
fn check_header_name(name: &str) -> Result<(), Problem> {
    if !is_header_name(name) {
        let hint = "Use letters, digits and dashes.".to_owned();
        return Err((format!("`{}` is no header name", short(name)), hint));
    }
    if RESERVED_HEADERS.contains(&name.to_ascii_lowercase().as_str()) {
        let hint =
            "Remove it: credentials come from the caller, and the rest is set for each request.";
        return Err((format!("a document may not set the header `{name}`"), hint.to_owned()));
    }
    Ok(())
}

/// Reads the address of a service: absolute, over HTTP, with nothing but scheme, host, port and
/// path.
fn decode_url(text: &str) -> Result<Url, Problem> {
    let whole = || "Write the whole address, beginning with `https://`.".to_owned();
    let url = Url::parse(text).map_err(|error| match error {
        url::ParseError::RelativeUrlWithoutBase => {
            (format!("`{}` has no host", short(text)), whole())
        }
        error => (format!("`{}` is no address: {error}", short(text)), whole()),
    })?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none_or(str::is_empty) {
        let message = format!("`{}` does not begin with `https://` or `http://`", short(text));
        return Err((message, whole()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err((
            "an address may not carry a user name or a password".to_owned(),
            "Remove them; credentials come from the caller.".to_owned(),
        ));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err((
            format!("`{}` may not have `?` or `#`", short(text)),
            "Declare what stands behind `?` as query parameters.".to_owned(),
        ));
    }
    Ok(url)
}
