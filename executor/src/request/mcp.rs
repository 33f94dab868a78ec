//! MCP tasks: one call of a tool over streamable HTTP (MCP 2026-07-28, "Calling Tools").
//!
//! The request is complete in itself: since that revision, each request names the revision that it uses. A
//! server of an earlier revision rejects it before any tool runs, and requires a session first: see
//! [`session`]. Guardians are asked about the message, which is the same in both cases.

mod answer;
mod events;
mod session;

use a2s::{McpTask, MirroredArgument, Place};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Method};
use indexmap::IndexMap;
use serde_json::{Map, Value, json};

use super::graphql::write_headers;
use super::{Error, PreparedRequest, header_value};

pub(super) use answer::read_mcp;
pub(crate) use answer::{MESSAGE_TYPE, message_of, read_message};
pub(crate) use events::Listener;
pub(crate) use session::{Session, read_session, wants_session};

/// A JSON-RPC message.
pub(crate) type Message = Map<String, Value>;

/// The revision that requests are made for.
const REVISION: &str = "2026-07-28";
/// The id of the call. Each call has a connection or a session of its own, so one id is enough.
const CALL_ID: u64 = 1;
/// The accepted media types of a response.
pub(super) const ACCEPTED: HeaderValue =
    HeaderValue::from_static("application/json, text/event-stream");

const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

pub(super) fn prepare(
    task: &McpTask,
    inputs: &IndexMap<Place, Value>,
) -> Result<PreparedRequest, Error> {
    let mut message = call(task, inputs)?;
    let mut headers = HeaderMap::new();
    write_headers(&task.headers, &mut headers)?;
    headers.insert(ACCEPT, ACCEPTED);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(PROTOCOL_VERSION, HeaderValue::from_static(REVISION));
    headers.insert(METHOD, HeaderValue::from_static("tools/call"));
    headers.insert(NAME, encode(&task.tool).ok_or_else(|| unfit("its tool"))?);
    let arguments = message.get("params").and_then(|params| params.get("arguments"));
    for mirrored in &task.mirrored {
        if let Some(text) = arguments.and_then(|arguments| find(arguments, mirrored)) {
            let name = format!("mcp-param-{}", mirrored.header.to_ascii_lowercase());
            let name = HeaderName::try_from(name).map_err(|_| unfit("its `x-mcp-header`"))?;
            headers.insert(name, encode(&text).ok_or_else(|| unfit("its `x-mcp-header`"))?);
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
pub(crate) fn call(task: &McpTask, inputs: &IndexMap<Place, Value>) -> Result<Message, Error> {
    let mut arguments = Map::new();
    for (place, value) in inputs {
        let name = match place {
            Place::Argument(name) => name,
            Place::Path(_)
            | Place::Query(_)
            | Place::Header(_)
            | Place::Cookie(_)
            | Place::Variable(_)
            | Place::Body => return Err(Error::Unknown(place.clone())),
        };
        if !task.takes_others() && task.argument_schema(name).is_none() {
            return Err(Error::Unknown(place.clone()));
        }
        arguments.insert(name.clone(), value.clone());
    }
    if let Some(name) = task.required().find(|name| !arguments.contains_key(*name)) {
        return Err(Error::Missing(Place::Argument(name.to_owned())));
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

/// A request, or a notification when it has no id.
fn message(method: &str, params: Value, id: Option<u64>) -> Message {
    let mut message = Message::new();
    message.insert("jsonrpc".to_owned(), json!("2.0"));
    if let Some(id) = id {
        message.insert("id".to_owned(), json!(id));
    }
    message.insert("method".to_owned(), json!(method));
    message.insert("params".to_owned(), params);
    message
}

fn write(message: &Message) -> Result<Bytes, Error> {
    serde_json::to_vec(message).map(Bytes::from).map_err(|error| Error::Task(error.to_string()))
}

fn unfit(what: &str) -> Error {
    Error::Task(format!("{what} does not fit into a header"))
}

/// The text of an argument that goes into a header as well; none when it has no such value.
fn find(arguments: &Value, mirrored: &MirroredArgument) -> Option<String> {
    let value = mirrored.path.iter().try_fold(arguments, |value, name| value.get(name))?;
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// A text as the value of a header: as it is, or in Base64 between marks when that would not
/// survive (MCP, "Value Encoding").
fn encode(text: &str) -> Option<HeaderValue> {
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
