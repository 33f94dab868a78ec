//! From the answer that a document writes down to the answer that a service would send.

use a2s::{ExampleResponse, MediaType, Task};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use serde_json::Value;

use crate::request::{RawResponse, media_types_of};

/// Converts the response of an example to the form that a service would send.
///
/// # Errors
/// Fails when a service could not send such a response.
pub(super) fn to_response(task: &Task, answer: &ExampleResponse) -> Result<RawResponse, String> {
    let mut headers = HeaderMap::new();
    for (name, value) in &answer.headers {
        let header = name.parse::<HeaderName>().ok().zip(HeaderValue::from_str(value).ok());
        let (name, value) =
            header.ok_or_else(|| format!("`{name}` is not a header with a value"))?;
        headers.append(name, value);
    }
    let mut response =
        RawResponse { status: answer.status, headers, body: Vec::new().into(), redirects: 0 };
    let body = match task {
        Task::Mcp(_) if (200..300).contains(&answer.status) => &tool_result(&answer.body),
        Task::OpenApi(_) | Task::Graphql(_) | Task::Mcp(_) => &answer.body,
    };
    if body.is_null() {
        return Ok(response);
    }
    let media_type = match response.content_type() {
        Some(named) => MediaType::parse(named)
            .ok_or_else(|| "`content-type` is not a media type".to_owned())?,
        None => default_media_type(task, answer.status, body),
    };
    response.body = to_bytes(&media_type, body)?.into();
    set_content_type(&mut response, &media_type);
    Ok(response)
}

/// The response of an MCP server when its tool returns `value`. A value with `isError` is the full result
/// of a failed tool.
pub(super) fn tool_result(value: &Value) -> Value {
    let result = match value {
        Value::Null => serde_json::json!({"content": []}),
        failed if failed.get("isError") == Some(&Value::Bool(true)) => failed.clone(),
        value => {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            serde_json::json!({"content": [{"type": "text", "text": text}], "structuredContent": value})
        }
    };
    serde_json::json!({"jsonrpc": "2.0", "id": 1, "result": result})
}

/// Sets the content type of a response, unless it has one.
pub(super) fn set_content_type(response: &mut RawResponse, media_type: &MediaType) {
    if let Ok(value) = HeaderValue::from_str(media_type.as_str()) {
        response.headers.entry(CONTENT_TYPE).or_insert(value);
    }
}

/// Returns JSON, unless the operation declares only other types and the body can have the first of them.
fn default_media_type(task: &Task, status: u16, body: &Value) -> MediaType {
    let json = json_media_type();
    let Task::OpenApi(task) = task else { return json };
    let declared = media_types_of(task, status);
    let is_json = |one: &MediaType| one.is_json() || one.covers(&json);
    if declared.iter().any(is_json) || !(body.is_string() || is_binary(body)) {
        return declared.into_iter().find(MediaType::is_json).unwrap_or(json);
    }
    declared.into_iter().find(|one| !one.is_range()).unwrap_or(json)
}

/// Returns `application/json`.
#[expect(clippy::expect_used, reason = "the text is a media type")]
pub(super) fn json_media_type() -> MediaType {
    MediaType::parse("application/json").expect("the text is a media type")
}

/// The bytes of a value: the reverse of reading a body.
pub(super) fn to_bytes(media_type: &MediaType, body: &Value) -> Result<Vec<u8>, String> {
    match body {
        Value::String(text) if !media_type.is_json() => {
            let charset = media_type.parameter("charset");
            let encoding =
                charset.and_then(|label| encoding_rs::Encoding::for_label(label.as_bytes()));
            Ok(encoding.unwrap_or(encoding_rs::UTF_8).encode(text).0.into_owned())
        }
        body if !media_type.is_json() && is_binary(body) => {
            let text = body["base64"].as_str().unwrap_or_default();
            STANDARD.decode(text).map_err(|error| format!("`base64` cannot be decoded: {error}"))
        }
        body => Ok(body.to_string().into_bytes()),
    }
}

/// Returns true when a value represents bytes, in the form in which steps read them.
fn is_binary(body: &Value) -> bool {
    body.get("base64").is_some_and(Value::is_string)
}
