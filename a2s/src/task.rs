//! Tasks: one request to one service, in the format of that service's own description.

mod closed_all_of;
mod graphql;
mod input_location;
mod located_value;
mod mcp;
mod media_type;
mod openapi;
mod sample_value;
mod schema_resolver;
mod security;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use url::Url;
use utoipa::ToSchema;

use crate::error_code::ErrorCode;
use crate::field_reader::{DiagnosticSink, DocumentField, shorten_for_message};

pub use closed_all_of::open_closed_all_of;
pub(crate) use graphql::{FieldSelection, SelectedField, decode_graphql};
pub use graphql::{GraphqlTask, VariableDefinition};
pub use input_location::InputLocation;
pub(crate) use mcp::decode_mcp;
pub use mcp::{HeaderParameter, McpTask, ToolAnnotations};
pub use media_type::MediaType;
pub(crate) use openapi::decode_openapi;
pub use openapi::{
    BodyField, BodyFormat, FieldHeader, FieldType, HttpMethod, OpenApiTask, OpenApiVersion,
    OperationParameter, ParameterLocation, ParameterStyle, RequestBody, ValueStyle,
};
pub use openapi::{find_key_conflict, names_idempotency_key};
pub use schema_resolver::SchemaResolver;
pub use security::{
    ApiKeyLocation, CredentialKind, HttpScheme, OAuthFlow, OAuthFlows, SecurityRequirement,
    SecurityScheme, is_scheme_name,
};

/// One request to one service.
#[derive(Debug, Clone, PartialEq)]
pub enum Task {
    /// `format: OpenAPI`: one operation of an HTTP API.
    OpenApi(Box<OpenApiTask>),
    /// `format: GraphQL`: one query or mutation.
    Graphql(Box<GraphqlTask>),
    /// `format: MCP`: one tool of an MCP server.
    Mcp(Box<McpTask>),
}

/// The language in which a service describes its requests and responses.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[schema(as = Format)]
pub enum TaskFormat {
    /// An HTTP API.
    #[serde(rename = "OpenAPI")]
    OpenApi,
    /// A GraphQL endpoint.
    #[serde(rename = "GraphQL")]
    Graphql,
    /// A server of the Model Context Protocol.
    #[serde(rename = "MCP")]
    Mcp,
}

/// The formats that the A2S specification names but the executor cannot run, each with the reason and an
/// alternative.
const NOT_RUN: [(&str, &str, &str); 2] = [
    (
        "AsyncAPI",
        "a step is one request and one response, but AsyncAPI describes channels of messages",
        "Describe the operation that sends the message over HTTP with OpenAPI, or call a tool of an \
         MCP server that sends it.",
    ),
    (
        "Custom",
        "without a description of the service, the request cannot be checked before it is sent",
        "Offer the service as an HTTP operation, GraphQL or a tool of an MCP server, and describe \
         that.",
    ),
];

impl TaskFormat {
    /// Each format that the executor can run.
    pub const ALL: [Self; 3] = [Self::OpenApi, Self::Graphql, Self::Mcp];

    /// Returns the name of the format in documents: `OpenAPI`, `GraphQL` or `MCP`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OpenApi => "OpenAPI",
            Self::Graphql => "GraphQL",
            Self::Mcp => "MCP",
        }
    }

    /// Returns the format with this name in documents.
    #[must_use]
    pub fn from_name(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.as_str() == text)
    }

    /// The reason why a format does not run here, and an alternative; `None` for a word that the language
    /// does not have.
    pub(crate) fn explain_unsupported(text: &str) -> Option<(String, &'static str)> {
        let known = NOT_RUN.iter().find(|(name, ..)| name.eq_ignore_ascii_case(text));
        known.map(|(name, why, hint)| (format!("`{name}` is not supported: {why}"), *hint))
    }
}

impl fmt::Display for TaskFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Task {
    /// A placeholder for a task that could not be read, in a document with errors.
    pub(crate) fn substitute() -> Self {
        Self::Graphql(Box::new(GraphqlTask::substitute()))
    }

    /// Returns the format of the description that contains the task.
    #[must_use]
    pub fn format(&self) -> TaskFormat {
        match self {
            Self::OpenApi(_) => TaskFormat::OpenApi,
            Self::Graphql(_) => TaskFormat::Graphql,
            Self::Mcp(_) => TaskFormat::Mcp,
        }
    }

    /// The service's name for itself: `info.title` of an OpenAPI description.
    #[must_use]
    pub fn service_title(&self) -> Option<&str> {
        match self {
            Self::OpenApi(task) => task.specification.get("info")?.get("title")?.as_str(),
            Self::Graphql(_) | Self::Mcp(_) => None,
        }
    }

    /// Returns the tool that an MCP task calls.
    #[must_use]
    pub fn tool(&self) -> Option<&str> {
        match self {
            Self::Mcp(task) => Some(&task.tool),
            Self::OpenApi(_) | Self::Graphql(_) => None,
        }
    }

    /// Returns the address that requests go to: the server of an OpenAPI task, the endpoint of a GraphQL
    /// task, or the server of an MCP task.
    #[must_use]
    pub fn url(&self) -> &Url {
        match self {
            Self::OpenApi(task) => &task.server,
            Self::Graphql(task) => &task.endpoint,
            Self::Mcp(task) => &task.server,
        }
    }

    /// The authentication alternatives: one of them is enough, and each may require several schemes at
    /// once. An empty list, or an empty alternative, allows requests without credentials.
    #[must_use]
    pub fn security(&self) -> &[Vec<SecurityRequirement>] {
        match self {
            Self::OpenApi(task) => &task.security,
            Self::Graphql(task) => &task.security,
            Self::Mcp(task) => &task.security,
        }
    }

    /// The resolved address of an OAuth 2.0 flow, which may be relative to the address of the task. `None`
    /// when it is not an HTTP address, or has a user, a password or a fragment.
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

    /// Returns true when the request only reads: a safe HTTP method (RFC 9110, 9.2.1), a GraphQL query, or
    /// a tool that the document declares read-only.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        match self {
            Self::OpenApi(task) => task.method.is_safe(),
            Self::Graphql(task) => !task.is_mutation,
            Self::Mcp(task) => task.hints.read_only,
        }
    }

    /// Returns the parameter that is the idempotency key, if the operation has one.
    #[must_use]
    pub fn idempotency_key(&self) -> Option<&OperationParameter> {
        let Self::OpenApi(task) = self else { return None };
        task.parameters.iter().find(|parameter| parameter.is_idempotency_key())
    }

    /// Returns true when sending the request twice has the same effect as once: an idempotent HTTP method
    /// (RFC 9110, 9.2.2), a GraphQL query, or a tool that the document declares idempotent.
    #[must_use]
    pub fn is_idempotent(&self) -> bool {
        match self {
            Self::OpenApi(task) => task.method.is_idempotent(),
            Self::Graphql(task) => !task.is_mutation,
            Self::Mcp(task) => task.hints.idempotent,
        }
    }
}

/// The names of headers that a document may not set: they frame the message, identify the caller, or carry
/// credentials, which only a security scheme may set.
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

/// The problem, and the suggested fix.
type Problem = (String, String);

/// Returns true when text is the name of a header (RFC 9110, 5.1).
fn is_header_name(name: &str) -> bool {
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    !name.is_empty() && name.chars().all(token)
}

/// Returns true when a header, named in lower case, is set for each request and never by a document.
fn is_set_for_requests(name: &str) -> bool {
    RESERVED_HEADERS.contains(&name) || matches!(name, "accept-encoding" | "proxy-connection")
}

/// Returns an error for a header that a document may not set.
fn check_header_name(name: &str) -> Result<(), Problem> {
    if !is_header_name(name) {
        let hint = "Use letters, digits and dashes.".to_owned();
        return Err((format!("`{}` is not a header name", shorten_for_message(name)), hint));
    }
    if RESERVED_HEADERS.contains(&name.to_ascii_lowercase().as_str()) {
        let hint = "Remove it: the caller provides credentials, and the executor sets the other headers for each request.";
        return Err((format!("a document must not set the header `{name}`"), hint.to_owned()));
    }
    Ok(())
}

/// The rules of a format for its `headers`.
#[derive(Clone, Copy)]
struct HeaderRules {
    /// The code of the errors that are reported.
    code: ErrorCode,
    /// Returns true when a header, named in lower case, is the format's own.
    own: fn(&str) -> bool,
}

/// Reads the headers that a document sets. Reports headers that it may not set.
fn decode_headers(
    field: &DocumentField<'_>,
    special: HeaderRules,
    findings: &mut DiagnosticSink,
) -> BTreeMap<String, String> {
    let mut kept = BTreeMap::new();
    for (header, entry) in field.entries(findings) {
        let Some(value) = entry.string(findings) else { continue };
        let visible = value.chars().all(|c| c == ' ' || c.is_ascii_graphic());
        let (at, (message, hint)) = match check_header_name(header) {
            Err(problem) => (entry.key, problem),
            Ok(()) if (special.own)(&header.to_ascii_lowercase()) => {
                let message = format!(
                    "the executor sets the header `{}` for each request",
                    shorten_for_message(header)
                );
                (entry.key, (message, "Remove it.".to_owned()))
            }
            Ok(()) if visible => {
                kept.insert(header.to_owned(), value.to_owned());
                continue;
            }
            Ok(()) => {
                let message = "a header value must have visible ASCII characters only".to_owned();
                (entry.node.position, (message, "Remove the other characters.".to_owned()))
            }
        };
        findings.error_with_hint(special.code, (&entry.path, at), message, hint);
    }
    kept
}

/// Reads the address of a service: absolute, over HTTP, with only scheme, host, port and path.
fn decode_url(text: &str) -> Result<Url, Problem> {
    let whole = || "Write the whole address, starting with `https://`.".to_owned();
    let url = Url::parse(text).map_err(|error| match error {
        url::ParseError::RelativeUrlWithoutBase => {
            (format!("`{}` has no host", shorten_for_message(text)), whole())
        }
        error => (format!("`{}` is not an address: {error}", shorten_for_message(text)), whole()),
    })?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none_or(str::is_empty) {
        let message =
            format!("`{}` does not start with `https://` or `http://`", shorten_for_message(text));
        return Err((message, whole()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err((
            "an address must not contain a user name or a password".to_owned(),
            "Remove them; the caller provides credentials.".to_owned(),
        ));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err((
            format!("`{}` must not contain `?` or `#`", shorten_for_message(text)),
            "Declare the text after `?` as query parameters.".to_owned(),
        ));
    }
    Ok(url)
}
