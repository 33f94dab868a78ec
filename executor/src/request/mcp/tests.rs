//! Calls of tools, and what comes back. Everything here is what a server may send.

use std::sync::Arc;

use a2s::{McpTask, Task, ToolAnnotations};
use http::StatusCode;
use proptest::prelude::*;
use url::Url;

use super::*;
use crate::error::{Error as RunError, ErrorKind};
use crate::request::test_fixtures::inputs;
use crate::request::{RawResponse, TaskContract, read_response};

fn task() -> McpTask {
    McpTask {
        server: Url::parse("https://mcp.example/mcp").unwrap(),
        tool: "get_forecast".to_owned(),
        description: None,
        input_schema: json!({
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"$ref": "#/$defs/Days"}},
            "required": ["city"],
            "$defs": {"Days": {"type": "integer", "maximum": 9}},
        }),
        output_schema: Value::Null,
        header_parameters: Vec::new(),
        hints: ToolAnnotations::default(),
        headers: [("X-Toolset".to_owned(), "weather".to_owned())].into(),
        security: Vec::new(),
    }
}

fn prepare_task(
    task: McpTask,
    given: &IndexMap<InputLocation, Value>,
) -> Result<PreparedRequest, PrepareError> {
    crate::request::prepare(&TaskContract::new(Arc::new(Task::Mcp(Box::new(task)))), given)
}

fn prepared() -> PreparedRequest {
    prepare_task(task(), &inputs([("arguments.city", json!("Paris"))])).unwrap()
}

fn header<'r>(request: &'r PreparedRequest, name: &str) -> Option<&'r str> {
    request.headers().get(name).map(|value| value.to_str().unwrap())
}

fn body(request: &PreparedRequest) -> Value {
    serde_json::from_slice(request.body().unwrap()).unwrap()
}

fn response(status: u16, body: impl Into<Bytes>) -> RawResponse {
    RawResponse { status, headers: HeaderMap::new(), body: body.into(), redirects: 0 }
}

fn json_response(status: u16, body: &Value) -> RawResponse {
    response(status, body.to_string())
}

fn answer(result: impl Into<Value>) -> RawResponse {
    let result: Value = result.into();
    json_response(200, &json!({"jsonrpc": "2.0", "id": 1, "result": result}))
}

/// The value that a step reads, or the kind of its failure and the words.
fn read(response: &RawResponse) -> Result<Value, (ErrorKind, String)> {
    read_response(&Task::Mcp(Box::new(task())), response).map_err(|error| {
        let error = RunError::from(error);
        (error.kind, error.message)
    })
}

#[track_caller]
fn fails(response: &RawResponse, kind: ErrorKind, words: &str) {
    let (found, message) = read(response).unwrap_err();
    assert!(found == kind && message.contains(words), "{found:?} {message}");
}

#[test]
fn a_call_says_which_revision_it_speaks() {
    let request = prepared();
    assert_eq!(request.method(), Method::POST);
    assert_eq!(request.url().as_str(), "https://mcp.example/mcp");
    let params = json!({
        "name": "get_forecast",
        "arguments": {"city": "Paris"},
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "a2s", "version": env!("CARGO_PKG_VERSION")},
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    });
    let expected = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    assert_eq!(body(&request), expected);
    for (name, value) in [
        ("accept", "application/json, text/event-stream"),
        ("content-type", "application/json"),
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "get_forecast"),
        ("x-toolset", "weather"),
    ] {
        assert_eq!(header(&request, name), Some(value), "{name}");
    }
    assert!(
        !request.is_repeat_safe() && request.expects_event_stream() && request.may_need_session()
    );
}

#[test]
fn a_call_is_repeated_only_when_the_document_says_that_it_may() {
    let mut task = task();
    task.hints.idempotent = true;
    let request = prepare_task(task, &inputs([("arguments.city", json!("Paris"))])).unwrap();
    assert!(request.is_repeat_safe());
}

#[test]
fn arguments_that_the_tool_does_not_take_are_not_sent() {
    let error = |given| prepare_task(task(), &given).unwrap_err().to_string();
    let missing = error(inputs([]));
    assert_eq!(missing, "the required input `arguments.city` has no value");
    let unknown = error(inputs([("arguments.city", json!("a")), ("arguments.town", json!("a"))]));
    assert_eq!(unknown, "the task has no input `arguments.town`");
    let elsewhere = error(inputs([("variables.city", json!("a"))]));
    assert_eq!(elsewhere, "the task has no input `variables.city`");
    let wrong = error(inputs([("arguments.city", json!("a")), ("arguments.days", json!(10))]));
    assert!(
        wrong.starts_with("the value of `arguments.days` does not match its schema"),
        "{wrong}"
    );
    let mut together = task();
    together.input_schema["maxProperties"] = json!(1);
    let given = inputs([("arguments.city", json!("a")), ("arguments.days", json!(1))]);
    let error = prepare_task(together, &given).unwrap_err().to_string();
    assert!(
        error.starts_with("the arguments do not match their schema: it has more than 1"),
        "{error}"
    );
}

#[test]
fn mirrored_arguments_go_into_headers_as_well() {
    let mut task = task();
    task.tool = "wetter für heute".to_owned();
    task.input_schema = json!({"type": "object"});
    let mirrored = |path: &[&str], header: &str| HeaderParameter {
        path: path.iter().map(|&name| name.to_owned()).collect(),
        header: header.to_owned(),
    };
    task.header_parameters = vec![
        mirrored(&["region"], "Region"),
        mirrored(&["at", "count"], "Count"),
        mirrored(&["text"], "Text"),
        mirrored(&["none"], "None"),
        mirrored(&["object"], "Object"),
    ];
    let given = inputs([
        ("arguments.region", json!("us-west1")),
        ("arguments.at", json!({"count": 42})),
        ("arguments.text", json!("line1\nline2")),
        ("arguments.none", json!(null)),
        ("arguments.object", json!({})),
    ]);
    let request = prepare_task(task, &given).unwrap();
    assert_eq!(header(&request, "mcp-name"), Some("=?base64?d2V0dGVyIGbDvHIgaGV1dGU=?="));
    assert_eq!(header(&request, "mcp-param-region"), Some("us-west1"));
    assert_eq!(header(&request, "mcp-param-count"), Some("42"));
    assert_eq!(header(&request, "mcp-param-text"), Some("=?base64?bGluZTEKbGluZTI=?="));
    assert_eq!(header(&request, "mcp-param-none"), None);
    assert_eq!(header(&request, "mcp-param-object"), None);
    for (text, encoded) in [
        ("", ""),
        ("a b", "a b"),
        (" padded ", "=?base64?IHBhZGRlZCA=?="),
        ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ("\u{e9}", "=?base64?w6k=?="),
    ] {
        assert_eq!(encode_header(text).unwrap(), encoded, "{text:?}");
    }
}

#[test]
fn a_session_has_the_same_call_in_the_words_of_its_revision() {
    let request = prepared();
    let opening = request.session_request().unwrap();
    assert_eq!(body(&opening)["method"], "initialize");
    assert_eq!(body(&opening)["params"]["protocolVersion"], "2025-11-25");
    assert_eq!(body(&opening)["params"]["capabilities"], json!({}));
    assert_eq!(header(&opening, "mcp-protocol-version"), None);
    let agreed = json!({"jsonrpc": "2.0", "id": 0, "result": {"protocolVersion": "2025-06-18"}});
    let mut agreed = json_response(200, &agreed);
    agreed.headers.insert("mcp-session-id", HeaderValue::from_static("s-1"));
    let session = read_session(&agreed).unwrap();
    let opened = request.session_notification(&session).unwrap();
    let told = json!({"jsonrpc": "2.0", "method": "notifications/initialized", "params": {}});
    assert_eq!(body(&opened), told);
    let call = request.in_session(&session).unwrap();
    let params = json!({"name": "get_forecast", "arguments": {"city": "Paris"}});
    let expected = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    assert_eq!(body(&call), expected);
    let closing = request.close_request(&session).unwrap();
    assert_eq!((closing.method(), closing.body()), (&Method::DELETE, None));
    for request in [&opened, &call, &closing] {
        assert_eq!(header(request, "mcp-protocol-version"), Some("2025-06-18"));
        assert_eq!(header(request, "mcp-session-id"), Some("s-1"));
        assert_eq!(header(request, "mcp-method"), None);
        assert_eq!(header(request, "x-toolset"), Some("weather"));
        assert_eq!(request.url(), prepared().url());
        assert!(request.session_request().is_none(), "a session is opened for the call alone");
    }
}

#[test]
fn a_session_that_cannot_be_kept_is_refused() {
    let agreed = |revision: &str| json!({"jsonrpc": "2.0", "id": 0, "result": {"protocolVersion": revision}});
    let with_id = |ids: &[&[u8]]| {
        let mut response = json_response(200, &agreed("2025-11-25"));
        for id in ids {
            response.headers.append("mcp-session-id", HeaderValue::from_bytes(id).unwrap());
        }
        read_session(&response)
    };
    assert!(with_id(&[]).is_ok() && with_id(&[b"0f-9_A.b"]).is_ok());
    let long = [b'a'; 1_025];
    for ids in [&[&b""[..]][..], &[b"a b"], &[b"\xc3\xa9"], &[b"a\tb"], &[&long], &[b"a", b"b"]] {
        let error = with_id(ids).unwrap_err().to_string();
        assert!(error.contains("the session id has characters"), "{error}");
    }
    let told = |status, body: &Value| read_session(&json_response(status, body)).unwrap_err();
    assert!(told(200, &agreed("2027-01-01")).to_string().contains("unsupported revision of MCP"));
    assert!(told(503, &agreed("2025-11-25")).to_string().contains("status 503"));
    let mut other = agreed("2025-11-25");
    other["id"] = json!(1);
    assert!(told(200, &other).to_string().contains("it is the response to another request"));
}

#[test]
fn a_server_of_an_earlier_revision_is_known_by_its_refusal() {
    let error = |code: i64, data: Value| json!({"jsonrpc": "2.0", "id": 1, "error": {"code": code, "message": "no", "data": data}});
    let nothing = || json!(null);
    for (status, body, wants) in [
        // TypeScript and Python, before 2026-07-28.
        (
            400,
            json!({"jsonrpc": "2.0", "error": {"code": -32000, "message": "Bad Request: Server not initialized"}, "id": null}),
            true,
        ),
        (
            400,
            json!({"jsonrpc": "2.0", "id": "server-error", "error": {"code": -32600, "message": "Bad Request: Missing session ID"}}),
            true,
        ),
        (404, nothing(), true),
        (405, json!("method not allowed"), true),
        (422, nothing(), true),
        (400, error(-32022, json!({"supported": ["2025-11-25"]})), true),
        (200, error(-32022, json!({"supported": ["2024-11-05", "2025-03-26"]})), true),
        (400, error(-32022, json!({"supported": ["2027-01-01"]})), false),
        (400, error(-32020, nothing()), false),
        (400, error(-32021, nothing()), false),
        (404, error(-32601, nothing()), false),
        // Whoever is not let in would not be let into a session either.
        (401, nothing(), false),
        (403, nothing(), false),
        (429, nothing(), false),
        (500, nothing(), false),
        (200, error(-32602, nothing()), false),
        (200, json!({"jsonrpc": "2.0", "id": 1, "result": {}}), false),
    ] {
        assert_eq!(wants_session(&json_response(status, &body)), wants, "{status} {body}");
    }
}

#[test]
fn structured_content_is_what_a_tool_gives() {
    let text = |text: &str| json!({"type": "text", "text": text});
    let image = json!({"type": "image", "data": "AA==", "mimeType": "image/png"});
    for (result, value) in [
        (json!({"content": [text("old")], "structuredContent": {"a": 1}}), json!({"a": 1})),
        (json!({"structuredContent": [1], "resultType": "complete"}), json!([1])),
        (json!({"content": [text("{\"a\": 1}")], "structuredContent": null}), json!({"a": 1})),
        (json!({"content": [text("[1, 2]")]}), json!([1, 2])),
        (json!({"content": [text("42")]}), json!("42")),
        (json!({"content": [text("It rains.")], "isError": false}), json!("It rains.")),
        (json!({"content": []}), json!(null)),
        (json!({}), json!(null)),
        (json!({"content": [image]}), json!([image])),
        (json!({"content": [text("a"), text("b")]}), json!([text("a"), text("b")])),
        // Nested deeper than is read: it stays the text that it is.
        (json!({"content": [text(&"[".repeat(1_000))]}), json!("[".repeat(1_000))),
    ] {
        assert_eq!(read(&answer(result.clone())), Ok(value), "{result}");
    }
}

#[test]
fn a_tool_that_failed_fails_the_step_with_its_own_words() {
    let said = json!({"isError": true, "content": [{"type": "text", "text": "no such\ncity"}]});
    fails(&answer(said), ErrorKind::McpToolFailed, "the tool reported an error: no such city");
    fails(&answer(json!({"isError": true})), ErrorKind::McpToolFailed, "the message is empty");
    let structured = json!({"isError": true, "structuredContent": {"error": "quota 42"}});
    fails(&answer(structured), ErrorKind::McpToolFailed, r#"{"error":"quota 42"}"#);
    let resource = json!({"type": "resource", "resource": {"uri": "x:y", "text": "no such city"}});
    let link =
        json!({"type": "resource_link", "uri": "x:y", "name": "log", "description": "see the log"});
    let blocks = json!({"isError": true, "content": [resource, link], "structuredContent": {}});
    fails(&answer(blocks), ErrorKind::McpToolFailed, "no such city see the log");
    let long = json!({"isError": true, "content": [{"type": "text", "text": "a".repeat(9_000)}]});
    assert!(read(&answer(long)).unwrap_err().1.len() < 1_000);
}

#[test]
fn a_refused_call_and_one_without_an_end_fail_the_step() {
    let refused = |status, id: Value| {
        let error = json!({"code": -32602, "message": "Unknown tool: x"});
        json_response(status, &json!({"jsonrpc": "2.0", "id": id, "error": error}))
    };
    for refused in [refused(200, json!(1)), refused(400, json!(null)), refused(404, json!(1))] {
        fails(&refused, ErrorKind::McpError, "responded with the error -32602: Unknown tool: x");
    }
    let asks = json!({"login": {"method": "elicitation/create"}, "b": {}});
    let asks = json!({"resultType": "input_required", "inputRequests": asks});
    fails(&answer(asks), ErrorKind::McpUnfinished, "requires more input: `elicitation/create`");
    let task = json!({"resultType": "task", "taskId": "1"});
    fails(&answer(task), ErrorKind::McpUnfinished, "returned a task to wait for");
    let task = json!({"task": {"taskId": "1", "status": "working"}});
    fails(&answer(task), ErrorKind::McpUnfinished, "returned a task to wait for");
    let other = json!({"resultType": "later\u{1b}[2J"});
    fails(&answer(other), ErrorKind::McpUnfinished, "returned a result of the type `later");
    let samples = json!({"jsonrpc": "2.0", "id": 9, "method": "sampling/createMessage"});
    fails(
        &json_response(200, &samples),
        ErrorKind::McpUnfinished,
        "sent the request `sampling/createMessage`",
    );
}

#[test]
fn what_is_no_answer_to_the_call_is_refused() {
    let result = json!({"content": []});
    for id in [json!(2), json!("1"), json!(1.5), json!(null), json!([1]), json!({})] {
        let other = json!({"jsonrpc": "2.0", "id": id, "result": result});
        fails(
            &json_response(200, &other),
            ErrorKind::NotJson,
            "it is the response to another request",
        );
    }
    for body in [
        json!({"id": 1, "result": result}),
        json!({"jsonrpc": "1.0", "id": 1, "result": result}),
        json!({"jsonrpc": "2.0", "result": result}),
        json!({"jsonrpc": "2.0", "id": 1}),
        json!({"jsonrpc": "2.0", "id": 1, "result": []}),
        json!({"jsonrpc": "2.0", "id": 1, "result": result, "error": {}}),
        json!({"jsonrpc": "2.0", "id": 1, "error": "no"}),
        json!({"jsonrpc": "2.0", "id": 1, "result": {"content": "no"}}),
        json!([{"jsonrpc": "2.0", "id": 1, "result": result}]),
        json!("hello"),
    ] {
        fails(
            &json_response(200, &body),
            ErrorKind::NotJson,
            "the response of the service is not valid MCP",
        );
    }
    fails(&response(202, ""), ErrorKind::NotJson, "the response is empty");
    fails(&response(200, "[".repeat(10_000)), ErrorKind::NotJson, "nested too deep");
    let deep = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}", "{\"a\":".repeat(10_000));
    fails(&response(200, deep), ErrorKind::NotJson, "nested too deep");
    fails(&response(502, "<h1>Bad gateway</h1>"), ErrorKind::StatusError, "status 502");
    let gateway = json!({"message": "no healthy upstream"});
    fails(&json_response(503, &gateway), ErrorKind::StatusError, "status 503");
    let success = json!({"jsonrpc": "2.0", "id": 1, "result": result});
    fails(&json_response(StatusCode::CONFLICT.as_u16(), &success), ErrorKind::StatusError, "409");
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(|value| json!(value)),
        (-2..3_i64).prop_map(|value| json!(value)),
        "[a-z\\[{]{0,6}|2\\.0|complete|text".prop_map(|text| json!(text)),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        let names = "jsonrpc|id|result|error|method|content|structuredContent|isError|text|type|code|message|resultType";
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(|items| json!(items)),
            proptest::collection::btree_map(names, inner, 0..6).prop_map(|members| json!(members)),
        ]
    })
}

proptest! {
    /// Whatever a server sends: no panic, and an error shows little of it.
    #[test]
    fn any_answer_is_read_or_refused(status in 200..600_u16, body in any_json()) {
        let response = json_response(status, &body);
        if let Err((_, message)) = read(&response) {
            prop_assert!(message.chars().count() < 1_500);
            prop_assert!(!message.chars().any(char::is_control));
        }
        let _ = (wants_session(&response), read_session(&response));
    }

    /// A value that a tool gives as structured content is what the step reads.
    #[test]
    fn structured_content_is_read_as_it_is(value in any_json()) {
        prop_assume!(!value.is_null());
        prop_assert_eq!(read(&answer(json!({"structuredContent": value}))), Ok(value));
    }

    /// Nothing that an argument holds can end a header or begin another one.
    #[test]
    fn any_text_goes_into_a_header_and_comes_out_again(text in any::<String>()) {
        let header = encode_header(&text).unwrap();
        let sent = header.to_str().unwrap();
        let inner = sent.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?="));
        let decoded = match inner {
            Some(inner) => String::from_utf8(STANDARD.decode(inner).unwrap()).unwrap(),
            None => sent.to_owned(),
        };
        prop_assert_eq!(decoded, text);
    }
}
