//! From the answer of a service to the value that `output_mapping` reads.

use a2s::{GraphqlTask, MediaType, OpenApiTask, Task};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::HeaderMap;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::charset::decode;
use super::excerpt::{excerpt_start, to_single_line};
use super::json_text::parse_json;
use super::mcp::{MESSAGE_TYPE, McpMessage, read_mcp};
use super::stored::StoredResponse;
use super::value_checks::{find_declaration, media_types_of};
use crate::error::{Error, ErrorKind};

/// The maximum number of characters of a response that an error shows.
pub(super) const EXCERPT_CHARS: usize = 200;
/// The maximum number of errors in a GraphQL response that an error shows.
const SHOWN_ERRORS: usize = 3;
/// The hint for a page in the place of a response of an API.
const PAGE_HINT: &str = "Check that the address is the address of the API, not of a web page.";

/// A response as received, within the limits of the connection.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(into = "StoredResponse", from = "StoredResponse")]
pub(crate) struct RawResponse {
    /// HTTP status.
    pub(crate) status: u16,
    /// The headers.
    pub(crate) headers: HeaderMap,
    /// The body.
    pub(crate) body: Bytes,
    /// The number of redirects before this response.
    pub(crate) redirects: u32,
}

impl RawResponse {
    /// Returns the media type, with its parameters.
    pub(crate) fn content_type(&self) -> Option<&str> {
        self.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok())
    }

    /// Returns the media type, if the response names one. Some services send the range of their description
    /// (`*/*`), which does not name one.
    pub(crate) fn media_type(&self) -> Option<MediaType> {
        let named = self.content_type().and_then(MediaType::parse);
        named.filter(|media_type| !media_type.is_range())
    }

    /// Replaces the MCP message in the response.
    pub(crate) fn with_message(mut self, message: &McpMessage) -> Self {
        self.body = Value::Object(message.clone()).to_string().into();
        self.headers.insert(CONTENT_TYPE, MESSAGE_TYPE);
        self
    }

    /// Returns the size of the body in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.body.len() as u64
    }

    pub(super) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

/// An error in reading the value of a response. Excerpts are short and on one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ResponseError {
    /// A status other than success.
    #[error(
        "the service responded with status {status}{}{}",
        asked(.retry_after.as_deref()),
        said(.excerpt)
    )]
    Status {
        /// HTTP status.
        status: u16,
        /// The time of the next allowed attempt, as the service states it (`Retry-After`).
        retry_after: Option<String>,
        /// The start of the body.
        excerpt: String,
    },
    /// A page for people, which the operation does not declare.
    #[error("the service responded with {content_type}, but JSON was expected{}", said(.excerpt))]
    NotJson {
        /// The media type that was received.
        content_type: String,
        /// The start of the body.
        excerpt: String,
    },
    /// The media type is JSON, but the content is not.
    #[error("the service responded with malformed JSON ({reason}){}", said(.excerpt))]
    Malformed {
        /// The error of the JSON parser.
        reason: String,
        /// The start of the body.
        excerpt: String,
    },
    /// A GraphQL response with errors.
    #[error("the GraphQL service responded with {}: {}", data(*.partial), .errors.join("; "))]
    Graphql {
        /// The first errors, each with its path.
        errors: Vec<String>,
        /// True when there was data in addition to the errors.
        partial: bool,
        /// True when every error rejects a variable.
        about_variables: bool,
    },
    /// The tool of an MCP server reports that it failed.
    #[error("the tool reported an error: {said}")]
    McpTool {
        /// The message of the tool; it helps the caller to choose other arguments.
        said: String,
    },
    /// An MCP server refuses a call.
    #[error("the MCP server responded with the error {code}: {message}")]
    Mcp {
        /// The JSON-RPC error code.
        code: i64,
        /// The message of the server.
        message: String,
    },
    /// The response of an MCP server to a call is not the result of the call.
    #[error("the MCP server {wants}, but a step is one call and one response")]
    McpUnfinished {
        /// The action of the server in place of a result.
        wants: String,
    },
    /// Not an MCP response.
    #[error("the response of the service is not valid MCP: {reason}{}", said(.excerpt))]
    NotMcp {
        /// The reason.
        reason: &'static str,
        /// The start of the body.
        excerpt: String,
    },
    /// Not a GraphQL response.
    #[error("the response of the service is not valid GraphQL: {reason}{}", said(.excerpt))]
    NotGraphql {
        /// The missing part.
        reason: &'static str,
        /// The start of the body.
        excerpt: String,
    },
}

fn asked(retry_after: Option<&str>) -> String {
    retry_after.map_or_else(String::new, |text| format!(" and requests a pause (`{text}`)"))
}

fn said(excerpt: &str) -> String {
    if excerpt.is_empty() { String::new() } else { format!(": {excerpt}") }
}

fn data(partial: bool) -> &'static str {
    if partial { "partial data and errors" } else { "errors" }
}

impl From<ResponseError> for Error {
    fn from(error: ResponseError) -> Self {
        let hint = error.hint();
        let kind = match error {
            ResponseError::Status { .. } => ErrorKind::StatusError,
            ResponseError::NotJson { .. }
            | ResponseError::Malformed { .. }
            | ResponseError::NotGraphql { .. }
            | ResponseError::NotMcp { .. } => ErrorKind::NotJson,
            ResponseError::McpTool { .. } => ErrorKind::McpToolFailed,
            ResponseError::Mcp { .. } => ErrorKind::McpError,
            ResponseError::McpUnfinished { .. } => ErrorKind::McpUnfinished,
            ResponseError::Graphql { about_variables: true, .. } => ErrorKind::GraphqlVariable,
            ResponseError::Graphql { .. } => ErrorKind::GraphqlErrors,
        };
        let error = Self::new(kind, error.to_string());
        match hint {
            Some(hint) => error.with_hint(hint),
            None => error,
        }
    }
}

impl ResponseError {
    /// Returns the hint for an error whose cause is known better than the code says.
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NotJson { .. } => Some(PAGE_HINT),
            Self::Malformed { excerpt, .. } if excerpt.starts_with('<') => Some(PAGE_HINT),
            Self::Malformed { .. } => {
                Some("Report the error to the operator of the service, which sent malformed JSON.")
            }
            Self::NotGraphql { .. } => {
                Some("Check that the address is the GraphQL endpoint of the service.")
            }
            Self::NotMcp { .. } => {
                Some("Check that the address is the MCP endpoint of the server.")
            }
            Self::Mcp { message, .. } if message.to_ascii_lowercase().contains("session") => Some(
                "Ask the operator of the server whether it keeps the sessions that it opens, and whether all of its instances know them.",
            ),
            _ => None,
        }
    }
}

/// The value of a response. For an OpenAPI task it is the body, read by its media type: JSON as a value,
/// text (including XML) as a string, any other type as `{base64, content_type}`, and null when it is empty.
/// A list or an object in JSON is also a value when its media type is another one, if the operation
/// declares JSON or leaves the format open.
/// For a GraphQL task it is the whole response, for an MCP task the result of the tool.
///
/// # Errors
/// When the status is not success; when a JSON body is invalid (or is nested more than 128 deep); when a
/// GraphQL response has errors, with or without data, and the task does not accept partial data; or when an
/// MCP server rejects the call, its tool failed, or it wants more input.
pub(crate) fn read_response(task: &Task, response: &RawResponse) -> Result<Value, ResponseError> {
    match task {
        Task::OpenApi(_) if !response.is_success() => Err(status_error(response)),
        Task::OpenApi(_) if response.body.is_empty() => Ok(Value::Null),
        Task::OpenApi(task) => read_body(task, response),
        Task::Graphql(task) => read_graphql(task, response),
        Task::Mcp(_) => read_mcp(response),
    }
}

fn read_body(task: &OpenApiTask, response: &RawResponse) -> Result<Value, ResponseError> {
    let media_type = response.media_type();
    let is = |is: fn(&MediaType) -> bool| media_type.as_ref().is_some_and(is);
    if is(MediaType::is_json) {
        return read_json(media_type.as_ref(), response);
    }
    // A login or a wrong address returns a page: no step can have such a text as its result.
    let is_page = media_type.as_ref().is_some_and(|came| {
        is_html(came) && find_declaration(task, response.status, came).is_none()
    });
    if (is_page || may_be_json(task, response.status, media_type.as_ref()))
        && let Ok(value @ (Value::Array(_) | Value::Object(_))) =
            read_json(media_type.as_ref(), response)
    {
        return Ok(value);
    }
    if is_page {
        let content_type = media_type.as_ref().map_or("", MediaType::as_str);
        return Err(ResponseError::NotJson {
            content_type: to_single_line(content_type, EXCERPT_CHARS),
            excerpt: excerpt_start(&response.body, EXCERPT_CHARS),
        });
    }
    let is_unnamed_text = media_type.is_none() && std::str::from_utf8(&response.body).is_ok();
    if is(MediaType::is_text) || is(is_form) || is_unnamed_text {
        return Ok(Value::String(decode(media_type.as_ref(), &response.body)));
    }
    let content_type =
        media_type.map_or_else(|| "application/octet-stream".to_owned(), |m| m.as_str().to_owned());
    Ok(json!({ "base64": STANDARD.encode(&response.body), "content_type": content_type }))
}

/// Returns true when a body may be JSON although its media type, if any, is another one. The schema of a
/// declared media type decides. Without a declaration of exactly this type, JSON is possible when the
/// operation declares JSON, and under a vague media type.
fn may_be_json(task: &OpenApiTask, status: u16, came: Option<&MediaType>) -> bool {
    let declared = came.and_then(|came| find_declaration(task, status, came));
    let by_declaration = match &declared {
        Some(declared) => is_structure(declared.schema),
        None => came.is_none_or(MediaType::is_vague),
    };
    by_declaration
        || (declared.is_none_or(|declared| declared.media_type.is_range())
            && media_types_of(task, status).iter().any(MediaType::is_json))
}

fn is_html(media_type: &MediaType) -> bool {
    media_type.is("text/html") || media_type.is("application/xhtml+xml")
}

fn is_form(media_type: &MediaType) -> bool {
    media_type.is("application/x-www-form-urlencoded")
}

/// Returns true when a schema describes an object or a list, as far as its own keywords show.
fn is_structure(schema: &Value) -> bool {
    ["$ref", "allOf", "properties", "items"].iter().any(|word| schema.get(word).is_some())
        || schema.get("type").is_some_and(|kind| {
            let mut kinds =
                kind.as_array().map_or_else(|| std::slice::from_ref(kind), Vec::as_slice).iter();
            kinds.any(|kind| kind == "object" || kind == "array")
        })
}

pub(super) fn status_error(response: &RawResponse) -> ResponseError {
    let retry_after = response.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    ResponseError::Status {
        status: response.status,
        retry_after: retry_after.map(|text| to_single_line(text, 40)),
        excerpt: excerpt_start(&response.body, EXCERPT_CHARS),
    }
}

/// Reads a body that is declared as JSON. It is UTF-8 (RFC 8259, 8.1), unless another charset is named.
fn read_json(
    media_type: Option<&MediaType>,
    response: &RawResponse,
) -> Result<Value, ResponseError> {
    let charset = media_type.and_then(|media_type| media_type.parameter("charset"));
    let is_utf8 = charset.is_none_or(|label| matches!(label.as_str(), "utf-8" | "utf8"));
    let read = match is_utf8 {
        true => parse_json(&response.body),
        false => parse_json(decode(media_type, &response.body).as_bytes()),
    };
    read.map_err(|error| ResponseError::Malformed {
        reason: to_single_line(&error.to_string(), EXCERPT_CHARS),
        excerpt: excerpt_start(&response.body, EXCERPT_CHARS),
    })
}

/// Reads a GraphQL response. With a status other than success, it may still contain the error (GraphQL over
/// HTTP, "Status Codes").
fn read_graphql(task: &GraphqlTask, response: &RawResponse) -> Result<Value, ResponseError> {
    let media_type = response.media_type();
    let value = match read_json(media_type.as_ref(), response) {
        Ok(value) => value,
        Err(_) if !response.is_success() => return Err(status_error(response)),
        Err(error) => return Err(error),
    };
    let errors = describe_errors(&value);
    let has_data = value.get("data").is_some_and(|data| !data.is_null());
    if !errors.is_empty() {
        if has_data && task.partial_data && response.is_success() {
            return Ok(value);
        }
        let about_variables = !has_data && refuses_variables(&value);
        return Err(ResponseError::Graphql { errors, partial: has_data, about_variables });
    }
    if !response.is_success() {
        return Err(status_error(response));
    }
    if !has_data {
        let reason = "it has neither `data` nor `errors`";
        return Err(ResponseError::NotGraphql {
            reason,
            excerpt: excerpt_start(&response.body, EXCERPT_CHARS),
        });
    }
    Ok(value)
}

/// Returns true when a GraphQL service reports that it does not know the query with this hash, or does not
/// store queries at all: it has executed nothing in either case.
pub(crate) fn asks_for_query(response: &RawResponse) -> bool {
    let Ok(value) = parse_json::<Value>(&response.body) else {
        return false;
    };
    let errors = value.get("errors").and_then(Value::as_array);
    errors.into_iter().flatten().any(|error| {
        let message = error.get("message").and_then(Value::as_str);
        let code = error.pointer("/extensions/code").and_then(Value::as_str);
        matches!(message, Some("PersistedQueryNotFound" | "PersistedQueryNotSupported"))
            || matches!(code, Some("PERSISTED_QUERY_NOT_FOUND" | "PERSISTED_QUERY_NOT_SUPPORTED"))
    })
}

/// Returns true when every error of a response rejects the value of a variable: by the code that most
/// servers use for that, or by the message of the reference implementation.
fn refuses_variables(value: &Value) -> bool {
    let errors = value.get("errors").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let refuses = |error: &Value| {
        let message = error.get("message").and_then(Value::as_str).unwrap_or_default();
        let about = message.strip_prefix("Variable \"$").unwrap_or_default();
        error.pointer("/extensions/code").and_then(Value::as_str) == Some("BAD_USER_INPUT")
            || ["got invalid value", "was not provided", "must not be null"]
                .iter()
                .any(|words| about.contains(words))
    };
    !errors.is_empty() && errors.iter().all(refuses)
}

/// Returns the first errors of a response, each with the path of its field.
fn describe_errors(value: &Value) -> Vec<String> {
    let errors = match value.get("errors") {
        None | Some(Value::Null) => return Vec::new(),
        Some(Value::Array(errors)) => errors.as_slice(),
        // Not as the specification says, but surely not a success either.
        Some(other) => std::slice::from_ref(other),
    };
    let mut described: Vec<String> = errors.iter().take(SHOWN_ERRORS).map(describe_error).collect();
    if errors.len() > SHOWN_ERRORS {
        described.push(format!("and {} more", errors.len() - SHOWN_ERRORS));
    }
    described
}

fn describe_error(error: &Value) -> String {
    let show = |text: &str| to_single_line(text, EXCERPT_CHARS);
    let Ok(typed) = graphql_client::Error::deserialize(error) else {
        // Servers put all sorts of things here; what they say counts more than how.
        let message = error.get("message").and_then(Value::as_str);
        return message.map_or_else(|| show(&error.to_string()), show);
    };
    let path: Vec<String> = typed.path.iter().flatten().map(ToString::to_string).collect();
    let mut notes = Vec::new();
    if !path.is_empty() {
        notes.push(format!("at {}", show(&path.join("."))));
    }
    if let Some(extensions) = error.get("extensions").and_then(Value::as_object) {
        // What most services put there comes first, and for most it is all.
        match extensions.get("code").and_then(Value::as_str) {
            Some(code) => notes.push(format!("code {}", show(code))),
            None if extensions.is_empty() => {}
            None => notes.push(format!("extensions {}", show(&json!(extensions).to_string()))),
        }
    }
    let message = show(&typed.message);
    if notes.is_empty() { message } else { format!("{message} ({})", notes.join(", ")) }
}

#[cfg(test)]
mod tests {
    use a2s::HttpMethod;
    use http::HeaderValue;
    use serde_json::json;

    use super::*;
    use crate::request::test_fixtures::{graphql, openapi};

    fn response(status: u16, content_type: &str, body: impl Into<Bytes>) -> RawResponse {
        let mut headers = HeaderMap::new();
        if !content_type.is_empty() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_str(content_type).unwrap());
        }
        RawResponse { status, headers, body: body.into(), redirects: 0 }
    }

    fn read(response: &RawResponse) -> Result<Value, String> {
        let task = openapi(HttpMethod::Get, "https://api.example", "/", &[]);
        read_response(&task, response).map_err(|error| error.to_string())
    }

    fn read_graphql(status: u16, body: &Value) -> Result<Value, String> {
        let task = graphql("https://api.example", "{ a }", &[]);
        let response = response(status, "application/graphql-response+json", body.to_string());
        read_response(&Task::Graphql(Box::new(task)), &response).map_err(|error| error.to_string())
    }

    /// A value that a service refuses is the caller's, and not the service's failure.
    #[test]
    fn a_refused_variable_is_an_error_of_its_own() {
        let kind = |body: Value| {
            let task = Task::Graphql(Box::new(graphql("https://api.example", "{ a }", &[])));
            let response = response(200, "application/json", body.to_string());
            Error::from(read_response(&task, &response).unwrap_err()).kind
        };
        let coded = json!({"message": "no", "extensions": {"code": "BAD_USER_INPUT"}});
        let worded = |words: &str| json!({"message": format!("Variable \"$when\" {words}")});
        let mismatch = worded("got invalid value \"x\"; Expected type Date.");
        let absent = worded("of required type \"Date!\" was not provided.");
        for error in [coded.clone(), mismatch.clone(), absent] {
            assert_eq!(kind(json!({"errors": [error]})), ErrorKind::GraphqlVariable, "{error}");
        }
        assert_eq!(kind(json!({"errors": [coded, mismatch]})), ErrorKind::GraphqlVariable);
        // The document is wrong about the type of a variable, or the service has failed as well.
        let wrong = worded("of type \"Int\" used in position expecting type \"Date\".");
        let down = json!({"message": "database is down"});
        for errors in [json!([wrong]), json!([mismatch, down])] {
            assert_eq!(kind(json!({"errors": errors})), ErrorKind::GraphqlErrors, "{errors}");
        }
        assert_eq!(
            kind(json!({"data": {"a": null}, "errors": [mismatch]})),
            ErrorKind::GraphqlErrors
        );
    }

    #[track_caller]
    fn check_error(response: &RawResponse, expected: &str) {
        assert_eq!(read(response), Err(expected.to_owned()));
    }

    #[test]
    fn the_body_is_the_value() {
        let body = r#"{"temperature": 21.5}"#;
        let named = ["application/json", "application/vnd.api+json; charset=utf-8"];
        for content_type in named.into_iter().chain(["", "text/plain", "*/*"]) {
            let value = read(&response(200, content_type, body));
            assert_eq!(value, Ok(json!({"temperature": 21.5})), "{content_type}");
        }
        assert_eq!(read(&response(200, "application/json", "\u{feff}[1]")), Ok(json!([1])));
        assert_eq!(read(&response(200, "application/json", "7")), Ok(json!(7)));
        assert_eq!(read(&response(204, "", "")), Ok(Value::Null));
    }

    #[test]
    fn a_status_other_than_success_is_an_error_with_an_excerpt() {
        let body = "{\"error\":\n\t\"no such city\u{1b}[31m\"}";
        let expected = r#"the service responded with status 404: {"error": "no such city[31m"}"#;
        check_error(&response(404, "application/json", body), expected);
        check_error(&response(500, "", ""), "the service responded with status 500");
        check_error(&response(302, "", ""), "the service responded with status 302");
        let mut patience = response(429, "", "slow down");
        patience.headers.insert(RETRY_AFTER, HeaderValue::from_static("120"));
        let expected =
            "the service responded with status 429 and requests a pause (`120`): slow down";
        check_error(&patience, expected);
        let long = read(&response(500, "text/plain", "x".repeat(1_000_000))).unwrap_err();
        assert!(long.len() < 300 && long.ends_with('…'), "{long}");
    }

    #[test]
    fn an_answer_is_read_by_its_media_type() {
        let page = response(200, "text/html; charset=utf-8", "<!doctype html>\n<title>Hi</title>");
        let expected = "the service responded with text/html; charset=utf-8, but JSON was expected: \
                        <!doctype html> <title>Hi</title>";
        check_error(&page, expected);
        assert_eq!(read(&response(200, "text/plain", "42")), Ok(json!("42")));
        let latin = Bytes::from_static(b"<a>\xfc</a>");
        let latin = response(200, "application/xml; charset=iso-8859-1", latin);
        assert_eq!(read(&latin), Ok(json!("<a>\u{fc}</a>")));
        let image = response(200, "image/png", Bytes::from_static(b"\x89PNG"));
        assert_eq!(read(&image), Ok(json!({"base64": "iVBORw==", "content_type": "image/png"})));
        let bytes = response(200, "", Bytes::from_static(b"\xff\xfe\xfd"));
        let expected = json!({"base64": "//79", "content_type": "application/octet-stream"});
        assert_eq!(read(&bytes), Ok(expected));
        assert_eq!(read(&response(200, "", "hello")), Ok(json!("hello")));
        assert_eq!(read(&response(200, "application/octet-stream", "[1]")), Ok(json!([1])));
        let wide: Vec<u8> = "{\"a\": 1}".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let wide = response(200, "application/json; charset=utf-16le", wide);
        assert_eq!(read(&wide), Ok(json!({"a": 1})));
    }

    #[test]
    fn text_that_is_declared_stays_text() {
        let mut task = crate::request::test_fixtures::operation(
            HttpMethod::Get,
            "https://api.example",
            "/",
            &[],
        );
        let content =
            json!({"content": {"text/plain": {"schema": {"type": "string"}}, "text/html": {}}});
        task.responses = vec![("200".to_owned(), content)];
        let task = Task::OpenApi(Box::new(task));
        let answer = response(200, "text/plain", r#"{"a": 1}"#);
        assert_eq!(read_response(&task, &answer), Ok(json!(r#"{"a": 1}"#)));
        let page = response(200, "text/html", "<p>");
        assert_eq!(read_response(&task, &page), Ok(json!("<p>")));
    }

    #[test]
    fn declared_json_is_read_despite_its_media_type() {
        let mut task = crate::request::test_fixtures::operation(
            HttpMethod::Get,
            "https://api.example",
            "/",
            &[],
        );
        let body = r#"{"link": "x"}"#;
        let bytes = "application/octet-stream";
        for (schema, is_json) in [
            (json!({"type": "object"}), true),
            (json!({"$ref": "#/components/schemas/Link"}), true),
            (json!({"type": "string", "format": "binary"}), false),
        ] {
            task.responses =
                vec![("200".to_owned(), json!({"content": {bytes: {"schema": schema}}}))];
            let read =
                read_response(&Task::OpenApi(Box::new(task.clone())), &response(200, bytes, body));
            assert_eq!(read.unwrap().get("link").is_some(), is_json, "{schema}");
        }
    }

    /// Services send JSON under the media type of scripts, of pages and of their own invention.
    #[test]
    fn declared_json_is_read_whatever_the_media_type_says() {
        let read = |content: Value, media_type: &str, body: &str| {
            let mut task = crate::request::test_fixtures::operation(
                HttpMethod::Get,
                "https://api.example",
                "/",
                &[],
            );
            task.responses = vec![("200".to_owned(), json!({ "content": content }))];
            let task = Task::OpenApi(Box::new(task));
            read_response(&task, &response(200, media_type, body.to_owned()))
        };
        let object = json!({"schema": {"type": "object"}});
        let body = r#"{"v": "\u00fc"}"#;
        for media_type in [
            "text/javascript; charset=utf-8",
            "text/html; charset=UTF-8",
            "text/x-json",
            "application/x-json",
            "application/javascript",
            "application/x-ndjson",
            "application/x-unknown",
            "image/png",
        ] {
            let own = media_type.split(';').next().unwrap_or_default();
            for content in [
                json!({"application/json": object}),
                json!({"application/hal+json": {}, "text/csv": {}}),
                json!({"*/*": object}),
                json!({"*/*": {}, "application/json": {}}),
                json!({own: {"schema": {"type": ["object", "null"]}}}),
            ] {
                let value = read(content.clone(), media_type, body);
                assert_eq!(value, Ok(json!({"v": "\u{fc}"})), "{media_type} {content}");
            }
        }
        let latin = response(200, "text/javascript; charset=iso-8859-1", &b"[\"\xfc\"]"[..]);
        let mut task = crate::request::test_fixtures::operation(
            HttpMethod::Get,
            "https://api.example",
            "/",
            &[],
        );
        task.responses = vec![("200".to_owned(), json!({"content": {"application/json": object}}))];
        assert_eq!(read_response(&Task::OpenApi(Box::new(task)), &latin), Ok(json!(["\u{fc}"])));
        // Other content stays what its media type says.
        let json = json!({"application/json": object});
        let script = read(json.clone(), "text/javascript", "callback({})");
        assert_eq!(script, Ok(json!("callback({})")));
        assert_eq!(read(json.clone(), "text/plain", "42"), Ok(json!("42")));
        assert!(read(json, "text/html", "<p>").is_err());
        let text = json!({"application/json": object, "text/csv": {"schema": {"type": "string"}}});
        assert_eq!(read(text, "text/csv", "[1]"), Ok(json!("[1]")));
        assert_eq!(read(json!({}), "text/javascript", "[1]"), Ok(json!("[1]")));
        assert_eq!(read(json!({}), "text/html", "[1]"), Ok(json!([1])));
    }

    /// A hint about the address would blame the document for a service that sends broken JSON.
    #[test]
    fn the_hint_of_an_unreadable_response_names_the_cause() {
        let hint = |content_type: &str, body: &'static str| {
            let task = openapi(HttpMethod::Get, "https://api.example", "/", &[]);
            Error::from(read_response(&task, &response(200, content_type, body)).unwrap_err()).hint
        };
        assert_eq!(hint("text/html", "<p>"), PAGE_HINT);
        assert_eq!(hint("application/json", "<p>"), PAGE_HINT);
        assert!(hint("application/json", r#"{"a": NaN}"#).contains("operator of the service"));
    }

    #[test]
    fn half_of_a_surrogate_pair_is_replaced() {
        let body = r#"{"v": "x", "other": "\ude00 cut"}"#;
        let value = json!({"v": "x", "other": "\u{fffd} cut"});
        for media_type in ["application/json", "text/plain", ""] {
            assert_eq!(read(&response(200, media_type, body)), Ok(value.clone()), "{media_type}");
        }
        let task = Task::Graphql(Box::new(graphql("https://api.example", "{ a }", &[])));
        let answer = response(200, "application/json", r#"{"data": {"a": "\ud83d"}}"#);
        assert_eq!(read_response(&task, &answer), Ok(json!({"data": {"a": "\u{fffd}"}})));
    }

    #[test]
    fn json_that_is_none_is_an_error() {
        let cut = read(&response(200, "application/json", r#"{"a": "#)).unwrap_err();
        assert!(cut.contains("EOF") && cut.ends_with(r#": {"a":"#), "{cut}");
    }

    #[test]
    fn json_nested_too_deep_is_an_error_and_no_overflow() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let error = read(&response(200, "application/json", deep)).unwrap_err();
        assert!(error.contains("recursion limit"), "{error}");
    }

    #[test]
    fn the_whole_graphql_answer_is_the_value() {
        let answer = json!({"data": {"a": 1}, "extensions": {"cost": 1}});
        assert_eq!(read_graphql(200, &answer), Ok(answer.clone()));
        let answer = json!({"data": {"a": null}, "errors": []});
        assert_eq!(read_graphql(200, &answer), Ok(answer.clone()));
    }

    #[test]
    fn graphql_errors_fail_the_step_with_messages_and_paths() {
        let place = json!({"line": 1, "column": 3});
        let path = json!(["user", 0, "mail"]);
        let denied = json!({"message": "not\nallowed", "path": path, "locations": [place]});
        let expected = "the GraphQL service responded with errors: not allowed (at user.0.mail)";
        assert_eq!(read_graphql(200, &json!({"errors": [denied]})), Err(expected.to_owned()));
        assert_eq!(read_graphql(400, &json!({"errors": [denied]})), Err(expected.to_owned()));
        let expected = "the GraphQL service responded with partial data and errors: \
                        not allowed (at user.0.mail)";
        let partial = json!({"data": {"user": null}, "errors": [denied]});
        assert_eq!(read_graphql(200, &partial), Err(expected.to_owned()));
        // Errors of other shapes than the specification knows.
        let odd = json!([{"message": "m", "path": "user"}, "text", {"code": 7}, 1, 2]);
        let odd = json!({"data": null, "errors": odd});
        let expected =
            "the GraphQL service responded with errors: m; \"text\"; {\"code\":7}; and 2 more";
        assert_eq!(read_graphql(200, &odd), Err(expected.to_owned()));
        let odd = json!({"data": {"a": 1}, "errors": {"message": "m"}});
        assert!(read_graphql(200, &odd).is_err());
    }

    #[test]
    fn what_is_not_a_graphql_answer_is_refused() {
        for answer in [json!({}), json!([]), json!("x"), json!({"data": null})] {
            let error = read_graphql(200, &answer).unwrap_err();
            assert!(
                error.starts_with("the response of the service is not valid GraphQL"),
                "{error}"
            );
        }
        let error = read_graphql(502, &json!({"message": "bad gateway"})).unwrap_err();
        assert!(error.starts_with("the service responded with status 502"), "{error}");
    }
}
