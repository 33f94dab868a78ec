//! Reads the response of an MCP server as the value for `output_mapping`.
//!
//! The value is the `structuredContent` of the result. Without it, a single block of text gives the value:
//! its JSON when that is an object or a list, else the text. Any other content, such as several blocks or
//! an image, gives the list of blocks unchanged, and no content gives null.

use http::HeaderValue;
use serde_json::{Value, json};

use super::{CALL_ID, McpMessage};
use crate::request::RawResponse;
use crate::request::excerpt::{excerpt_start, to_single_line};
use crate::request::json_text::parse_json;
use crate::request::response::{EXCERPT_CHARS, ResponseError, status_error};

/// The maximum number of characters of a tool's message that an error shows: it states what to do instead.
const MAX_WORDS: usize = 500;
/// The media type of a message.
pub(crate) const MESSAGE_TYPE: HeaderValue = HeaderValue::from_static("application/json");

/// Returns the message in a response, whatever it contains; `None` when it is not a JSON object.
pub(crate) fn message_of(response: &RawResponse) -> Option<McpMessage> {
    parse_json(&response.body).ok()
}

/// Returns the value of the response to a call.
pub(crate) fn read_mcp(response: &RawResponse) -> Result<Value, ResponseError> {
    let Some(message) = message_of(response) else {
        if !response.is_success() {
            return Err(status_error(response));
        }
        let reason = match parse_json::<Value>(&response.body) {
            _ if response.body.is_empty() => "the response is empty",
            Ok(_) => "the response is not a JSON object",
            Err(error) if error.is_syntax() && error.to_string().contains("recursion") => {
                "the response is nested too deep"
            }
            Err(_) => "the response is not valid JSON",
        };
        return Err(ResponseError::NotMcp { reason, excerpt: excerpt(response) });
    };
    // An error status without an MCP message comes from a proxy in front of the server.
    if !response.is_success() && !message.contains_key("error") {
        return Err(status_error(response));
    }
    read_message(&message).map_err(|error| match error {
        ResponseError::NotMcp { .. } if !response.is_success() => status_error(response),
        ResponseError::NotMcp { reason, .. } => {
            ResponseError::NotMcp { reason, excerpt: excerpt(response) }
        }
        error => error,
    })
}

fn excerpt(response: &RawResponse) -> String {
    excerpt_start(&response.body, EXCERPT_CHARS)
}

/// Returns the value of a message that responds to the call.
pub(crate) fn read_message(message: &McpMessage) -> Result<Value, ResponseError> {
    read_result(message, CALL_ID).and_then(read_tool_result)
}

/// Returns the result of the request with this id.
pub(super) fn read_result(message: &McpMessage, id: u64) -> Result<&McpMessage, ResponseError> {
    let not_mcp = |reason| Err(ResponseError::NotMcp { reason, excerpt: String::new() });
    if message.get("jsonrpc") != Some(&json!("2.0")) {
        return not_mcp("the response is not JSON-RPC 2.0");
    }
    if let Some(method) = message.get("method") {
        let method = to_single_line(method.as_str().unwrap_or_default(), EXCERPT_CHARS);
        let wants = format!("sent the request `{method}`");
        return Err(ResponseError::McpUnfinished { wants });
    }
    // The id is unknown when the request could not be read.
    let is_unknown = |id: &Value| id.is_null() && message.contains_key("error");
    match message.get("id") {
        Some(found) if *found == json!(id) || is_unknown(found) => {}
        None if message.contains_key("error") => {}
        Some(_) | None => return not_mcp("it is the response to another request"),
    }
    match (message.get("result"), message.get("error")) {
        (Some(Value::Object(result)), None) => Ok(result),
        (None, Some(Value::Object(error))) => Err(ResponseError::Mcp {
            code: error.get("code").and_then(Value::as_i64).unwrap_or(0),
            message: tool_text(error.get("message").and_then(Value::as_str).unwrap_or_default()),
        }),
        _ => not_mcp("the response must have either `result` or `error`"),
    }
}

fn read_tool_result(result: &McpMessage) -> Result<Value, ResponseError> {
    let unfinished = |wants: &str| Err(ResponseError::McpUnfinished { wants: wants.to_owned() });
    match result.get("resultType").map(Value::as_str) {
        None | Some(Some("complete")) if result.contains_key("task") => {
            return unfinished("returned a task to wait for");
        }
        None | Some(Some("complete")) => {}
        Some(Some("input_required")) => return unfinished(&describe_wanted_input(result)),
        Some(Some("task")) => return unfinished("returned a task to wait for"),
        Some(other) => {
            let other = to_single_line(other.unwrap_or("unknown"), EXCERPT_CHARS);
            return unfinished(&format!("returned a result of the type `{other}`"));
        }
    }
    let blocks = match result.get("content") {
        None | Some(Value::Null) => &[][..],
        Some(Value::Array(blocks)) => blocks,
        Some(_) => {
            let reason = "`content` is not a list";
            return Err(ResponseError::NotMcp { reason, excerpt: String::new() });
        }
    };
    // Some servers write null where they mean that there is none.
    let structured = result.get("structuredContent").filter(|value| !value.is_null());
    if result.get("isError") == Some(&Value::Bool(true)) {
        return Err(ResponseError::McpTool { said: describe_failure(blocks, structured) });
    }
    Ok(match (structured, blocks) {
        (Some(value), _) => value.clone(),
        (None, []) => Value::Null,
        (None, [block]) => text_of(block).map_or_else(|| json!([block]), read_text),
        (None, blocks) => json!(blocks),
    })
}

/// Returns the reason of a failed tool: the texts of its blocks, else its structured content.
fn describe_failure(blocks: &[Value], structured: Option<&Value>) -> String {
    let texts: Vec<_> = blocks.iter().filter_map(text_of_failure).collect();
    let words = texts.join(" ");
    match structured {
        Some(value) if words.trim().is_empty() => tool_text(&value.to_string()),
        _ => tool_text(&words),
    }
}

/// Returns the text in a block: its own, that of an embedded resource, or the description of a link.
fn text_of_failure(block: &Value) -> Option<&str> {
    let text = |pointer: &str| block.pointer(pointer).and_then(Value::as_str);
    match text("/type")? {
        "text" => text("/text"),
        "resource" => text("/resource/text"),
        "resource_link" => ["/description", "/title", "/name", "/uri"].into_iter().find_map(text),
        _ => None,
    }
}

/// The input that a server wants before it continues.
fn describe_wanted_input(result: &McpMessage) -> String {
    let requests = result.get("inputRequests").and_then(Value::as_object);
    let methods = requests.into_iter().flatten().filter_map(|(_, request)| {
        Some(format!("`{}`", to_single_line(request.get("method")?.as_str()?, EXCERPT_CHARS)))
    });
    let methods: Vec<_> = methods.take(3).collect();
    match methods.is_empty() {
        true => "requires more input".to_owned(),
        false => format!("requires more input: {}", methods.join(", ")),
    }
}

fn text_of(block: &Value) -> Option<&str> {
    let is_text = block.get("type").is_some_and(|kind| kind == "text");
    block.get("text").and_then(Value::as_str).filter(|_| is_text)
}

/// Reads a JSON array or object. Any other text, such as a single number or word, stays a text.
fn read_text(text: &str) -> Value {
    match parse_json(text.as_bytes()) {
        Ok(value @ (Value::Array(_) | Value::Object(_))) => value,
        Ok(_) | Err(_) => Value::String(text.to_owned()),
    }
}

fn tool_text(text: &str) -> String {
    let words = to_single_line(text, MAX_WORDS);
    if words.is_empty() { "the message is empty".to_owned() } else { words }
}
