//! The check of the target `mcp`.

use std::sync::LazyLock;

use a2s::{InputLocation, McpTask, Task, ToolAnnotations};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use indexmap::IndexMap;
use serde_json::{Value, json};

use crate::request::{self, EventStreamReader, PreparedRequest, RawResponse, TaskContract};

/// The longest text of an error, in characters: 500 of a tool's own words, and ours.
const MAX_TEXT_CHARS: usize = 1_000;

static TASK: LazyLock<Task> = LazyLock::new(|| {
    Task::Mcp(Box::new(McpTask {
        server: "https://mcp.example/mcp".parse().expect("an address"),
        tool: "get_forecast".to_owned(),
        description: None,
        input_schema: Value::Null,
        output_schema: json!({"type": "object", "properties": {"days": {"type": "array"}}}),
        header_parameters: Vec::new(),
        hints: ToolAnnotations::default(),
        headers: Default::default(),
        security: Vec::new(),
    }))
});
static CALL: LazyLock<PreparedRequest> = LazyLock::new(|| {
    let inputs = IndexMap::from([(InputLocation::Argument("city".to_owned()), json!("Paris"))]);
    request::prepare(&TaskContract::new((*TASK).clone().into()), &inputs).expect("a request")
});

/// Checks one input of the target.
pub fn check(bytes: &[u8]) {
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let (first, body) = (&bytes[..end], bytes.get(end + 1..).unwrap_or_default());
    let mut words = first.splitn(3, |byte| *byte == b' ');
    let mut number = || words.next().and_then(|word| str::from_utf8(word).ok()?.parse().ok());
    let status: u16 = number().filter(|status| (100..600).contains(status)).unwrap_or(200);
    let size = number().unwrap_or(0);
    let body = match size {
        0 => Some(Bytes::copy_from_slice(body)),
        size => read_events(body, usize::from(size)),
    };
    let Some(body) = body else { return };
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(id) = words.next().and_then(|id| HeaderValue::from_bytes(id).ok()) {
        headers.insert("mcp-session-id", id);
    }
    let response = RawResponse { status, headers, body, redirects: 0 };
    check_answer(&response);
    check_opening(&response);
}

/// The message that ends a stream of events.
fn read_events(bytes: &[u8], size: usize) -> Option<Bytes> {
    let whole = EventStreamReader::default().push_bytes(bytes);
    let mut reader = EventStreamReader::default();
    let pieces = bytes.chunks(size).find_map(|piece| reader.push_bytes(piece));
    assert_eq!(whole, pieces, "pieces make no difference");
    assert!(whole.as_ref().is_none_or(|message| message.len() <= bytes.len()));
    whole
}

/// Checks the answer to a call, as a step, a guardian and a replay read it.
fn check_answer(response: &RawResponse) {
    let read = request::read_response(&TASK, response);
    if let Err(error) = &read {
        check_text(&error.to_string());
    }
    let wants_session = request::wants_session(response);
    assert!(!(wants_session && read.is_ok()), "a call that was answered is made again");
    let Some(message) = request::message_of(response) else {
        assert!(read.is_err());
        return;
    };
    // The step reads the same after a guardian has allowed the message unchanged.
    let again = response.clone().with_message(&message);
    assert_eq!(request::read_response(&TASK, &again), read);
    if read.is_ok() {
        assert_eq!(request::read_message(&message), read);
    }
}

/// Checks the answer to the opening of a session.
fn check_opening(response: &RawResponse) {
    match request::read_session(response) {
        Ok(session) => {
            let call = CALL.in_session(&session).expect("a call");
            assert!(
                CALL.session_notification(&session).is_some()
                    && CALL.close_request(&session).is_some()
            );
            assert_eq!(call.url(), CALL.url());
            let id = call.headers().get("mcp-session-id");
            assert!(id.is_none_or(|id| id.to_str().is_ok_and(|id| !id.contains(' '))));
        }
        Err(error) => check_text(&error.to_string()),
    }
}

/// Checks that the text of an error is short, and safe for a terminal.
fn check_text(text: &str) {
    assert!(text.chars().count() <= MAX_TEXT_CHARS, "{text}");
    let is_shown = |(c, is_hidden): (char, bool)| c.is_whitespace() || !is_hidden;
    assert!(a2s::mark_hidden(text).all(is_shown), "{text:?}");
}
