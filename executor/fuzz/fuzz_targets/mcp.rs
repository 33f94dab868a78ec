//! Any bytes as what an MCP server answers: a value or a short error, never a panic; the same in
//! whatever pieces a stream of events comes in.
//!
//! The first line says how it comes: the status, the size of the pieces when it is a stream of
//! events (0 else), and the id of a session. The rest is the body.

#![no_main]

use std::sync::LazyLock;

use a2s::{McpTask, Place, Task, ToolHints};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use indexmap::IndexMap;
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};

use self::parts::{credential_requirements, error, request, telemetry};
use request::{Contract, Listener, PreparedRequest, RawResponse};

// The files that make requests and read answers, not the crate, which would take minutes to build.
#[path = "../../src"]
#[allow(dead_code, unused_imports, reason = "much of these files is for the rest of the crate")]
mod parts {
    pub(crate) mod credential_requirements;
    pub(crate) mod error;
    pub(crate) mod request;

    pub(crate) mod telemetry {
        pub(crate) fn is_trace_header(name: &str) -> bool {
            name.eq_ignore_ascii_case("traceparent") || name.eq_ignore_ascii_case("tracestate")
        }
    }
}

/// The longest error that is told, in characters: 500 of a tool's own words, and ours.
const MAX_WORDS: usize = 1_000;

static TASK: LazyLock<Task> = LazyLock::new(|| {
    Task::Mcp(Box::new(McpTask {
        server: "https://mcp.example/mcp".parse().expect("an address"),
        tool: "get_forecast".to_owned(),
        description: None,
        input_schema: Value::Null,
        output_schema: json!({"type": "object", "properties": {"days": {"type": "array"}}}),
        mirrored: Vec::new(),
        hints: ToolHints::default(),
        headers: Default::default(),
        security: Vec::new(),
    }))
});
static CALL: LazyLock<PreparedRequest> = LazyLock::new(|| {
    let inputs = IndexMap::from([(Place::Argument("city".to_owned()), json!("Paris"))]);
    request::prepare(&Contract::new((*TASK).clone().into()), &inputs).expect("a request")
});

fuzz_target!(|bytes: &[u8]| {
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let (first, body) = (&bytes[..end], bytes.get(end + 1..).unwrap_or_default());
    let mut words = first.splitn(3, |byte| *byte == b' ');
    let mut number = || words.next().and_then(|word| str::from_utf8(word).ok()?.parse().ok());
    let status: u16 = number().filter(|status| (100..600).contains(status)).unwrap_or(200);
    let size = number().unwrap_or(0);
    let body = match size {
        0 => Some(Bytes::copy_from_slice(body)),
        size => heard(body, usize::from(size)),
    };
    let Some(body) = body else { return };
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(id) = words.next().and_then(|id| HeaderValue::from_bytes(id).ok()) {
        headers.insert("mcp-session-id", id);
    }
    let response = RawResponse { status, headers, body, redirects: 0 };
    answer(&response);
    opening(&response);
});

/// The message that is heard in a stream of events.
fn heard(bytes: &[u8], size: usize) -> Option<Bytes> {
    let whole = Listener::default().hear(bytes);
    let mut listener = Listener::default();
    let pieces = bytes.chunks(size).find_map(|piece| listener.hear(piece));
    assert_eq!(whole, pieces, "pieces make no difference");
    assert!(whole.as_ref().is_none_or(|heard| heard.len() <= bytes.len()));
    whole
}

/// What a step, a guardian and a replay make of the answer to a call.
fn answer(response: &RawResponse) {
    let read = request::read_response(&TASK, response);
    if let Err(error) = &read {
        shown(&error.to_string());
    }
    let wants_session = request::wants_session(response);
    assert!(!(wants_session && read.is_ok()), "a call that was answered is made again");
    let Some(message) = request::message_of(response) else {
        assert!(read.is_err());
        return;
    };
    // What a guardian lets pass as it is, is what the step reads.
    let again = response.clone().with_message(&message);
    assert_eq!(request::read_response(&TASK, &again), read);
    if read.is_ok() {
        assert_eq!(request::read_message(&message), read);
    }
}

/// What becomes of the answer to the opening of a session.
fn opening(response: &RawResponse) {
    match request::read_session(response) {
        Ok(session) => {
            let call = CALL.in_session(&session).expect("a call");
            assert!(CALL.opened(&session).is_some() && CALL.closing(&session).is_some());
            assert_eq!(call.url(), CALL.url());
            let id = call.headers().get("mcp-session-id");
            assert!(id.is_none_or(|id| id.to_str().is_ok_and(|id| !id.contains(' '))));
        }
        Err(error) => shown(&error.to_string()),
    }
}

/// Words that people see are few, and do nothing to their terminals.
fn shown(words: &str) {
    assert!(words.chars().count() <= MAX_WORDS, "{words}");
    assert!(words.chars().all(request::is_shown), "{words:?}");
}
