//! MCP tasks: one call of a tool over streamable HTTP (MCP 2026-07-28, "Calling Tools").
//!
//! The request is complete in itself: since that revision, each request names the revision that it uses. A
//! server of an earlier revision rejects it before any tool runs, and requires a session first: see
//! [`session`]. Guardians are asked about the message, which is the same in both cases.

mod event_stream;
mod response;
mod session;

use a2s::{HeaderParameter, InputLocation, McpTask};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Method};
use indexmap::IndexMap;
use serde_json::{Map, Value, json};

use super::graphql::write_headers;
use super::{PrepareError, PreparedRequest, header_value};

pub(crate) use event_stream::EventStreamReader;
pub(super) use response::read_mcp;
pub(crate) use response::{MESSAGE_TYPE, message_of, read_message};
pub(crate) use session::{McpSession, is_session_unknown, read_session, wants_session};

/// A JSON-RPC message.
pub(crate) type McpMessage = Map<String, Value>;

/// The MCP revision of the requests.
const REVISION: &str = "2026-07-28";
/// The id of the call. Each call has its own connection or session, so one id is enough.
const CALL_ID: u64 = 1;
/// The accepted media types of a response.
pub(super) const ACCEPTED: HeaderValue =
    HeaderValue::from_static("application/json, text/event-stream");

const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

pub(super) fn prepare(
    task: &McpTask,
    inputs: &IndexMap<InputLocation, Value>,
) -> Result<PreparedRequest, PrepareError> {
    let mut message = call(task, inputs)?;
    let mut headers = HeaderMap::new();
    write_headers(&task.headers, &mut headers)?;
    headers.insert(ACCEPT, ACCEPTED);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(PROTOCOL_VERSION, HeaderValue::from_static(REVISION));
    headers.insert(METHOD, HeaderValue::from_static("tools/call"));
    headers.insert(NAME, encode_header(&task.tool).ok_or_else(|| unfit("its tool"))?);
    let arguments = message.get("params").and_then(|params| params.get("arguments"));
    for mirrored in &task.header_parameters {
        if let Some(text) = arguments.and_then(|arguments| mirrored_text(arguments, mirrored)) {
            let name = format!("mcp-param-{}", mirrored.header.to_ascii_lowercase());
            let name = HeaderName::try_from(name).map_err(|_| unfit("its `x-mcp-header`"))?;
            headers.insert(name, encode_header(&text).ok_or_else(|| unfit("its `x-mcp-header`"))?);
        }
    }
    let in_session = write(&message)?;
    if let Some(Value::Object(params)) = message.get_mut("params") {
        params.insert("_meta".to_owned(), meta());
    }
    Ok(PreparedRequest {
        method: Method::POST,
        url: task.server.clone(),
        headers,
        body: Some(write(&message)?),
        whole_body: None,
        session_body: Some(in_session),
        repeat_safe: false,
        own_trace: false,
        shown: None,
        access: None,
    })
}

/// The message that calls the tool with `inputs`; guardians are asked about it. The metadata of the client
/// and its revision depends on the transport and is added there.
pub(crate) fn call(
    task: &McpTask,
    inputs: &IndexMap<InputLocation, Value>,
) -> Result<McpMessage, PrepareError> {
    let mut arguments = Map::new();
    for (place, value) in inputs {
        let name = match place {
            InputLocation::Argument(name) => name,
            InputLocation::Path(_)
            | InputLocation::Query(_)
            | InputLocation::Header(_)
            | InputLocation::Cookie(_)
            | InputLocation::Variable(_)
            | InputLocation::Body => return Err(PrepareError::Unknown(place.clone())),
        };
        if !task.accepts_other_arguments() && task.argument_schema(name).is_none() {
            return Err(PrepareError::Unknown(place.clone()));
        }
        arguments.insert(name.clone(), value.clone());
    }
    if let Some(name) = task.required().find(|name| !arguments.contains_key(*name)) {
        return Err(PrepareError::Missing(InputLocation::Argument(name.to_owned())));
    }
    let params = json!({"name": task.tool, "arguments": arguments});
    Ok(message("tools/call", params, Some(CALL_ID)))
}

/// The client's description of itself. It offers no capability that a server could use.
fn client_info() -> Value {
    json!({"name": "a2s", "version": env!("CARGO_PKG_VERSION")})
}

fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": REVISION,
        "io.modelcontextprotocol/clientInfo": client_info(),
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

/// Creates a request, or a notification without an id.
fn message(method: &str, params: Value, id: Option<u64>) -> McpMessage {
    let mut message = McpMessage::new();
    message.insert("jsonrpc".to_owned(), json!("2.0"));
    if let Some(id) = id {
        message.insert("id".to_owned(), json!(id));
    }
    message.insert("method".to_owned(), json!(method));
    message.insert("params".to_owned(), params);
    message
}

fn write(message: &McpMessage) -> Result<Bytes, PrepareError> {
    serde_json::to_vec(message)
        .map(Bytes::from)
        .map_err(|error| PrepareError::Task(error.to_string()))
}

fn unfit(what: &str) -> PrepareError {
    PrepareError::Task(format!("{what} has characters that are not allowed in a header"))
}

/// Returns the text of an argument that is also sent in a header; `None` when it has no such value.
fn mirrored_text(arguments: &Value, mirrored: &HeaderParameter) -> Option<String> {
    let value = mirrored.path.iter().try_fold(arguments, |value, name| value.get(name))?;
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Converts a text to a header value: unchanged, or in Base64 between marks when a header cannot contain it
/// unchanged (MCP, "Value Encoding").
fn encode_header(text: &str) -> Option<HeaderValue> {
    let is_plain = text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
        && text.trim() == text
        && !(text.starts_with("=?base64?") && text.ends_with("?="));
    match is_plain {
        true => header_value(text),
        false => header_value(&format!("=?base64?{}?=", STANDARD.encode(text))),
    }
}

#[cfg(test)]
mod tests;
