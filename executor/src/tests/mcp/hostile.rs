//! A server that answers whatever a test wants it to, and hears everything.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use futures::stream;
use serde_json::{Value, json};

use super::{call, failure, gave, publish, step};
use crate::App;
use crate::tests::credentials::set;
use crate::tests::world::{World, assert_succeeded, events, run, serve, transcript, with};

type Heard = Arc<Mutex<Vec<String>>>;

/// A world with a server that answers with what `answer` makes of a message, and what it has heard:
/// the method of the message, or of HTTP, with session and token.
async fn open(
    prepare: impl FnOnce(&mut World),
    answer: impl Fn(&Value) -> Response + Clone + Send + Sync + 'static,
) -> (World, App, Heard) {
    let heard = Heard::default();
    let kept = Arc::clone(&heard);
    let handler = async move |method: Method, _: Uri, headers: HeaderMap, body: Bytes| {
        let body: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
        let what = body["method"].as_str().unwrap_or(method.as_str());
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("-");
        let heard = format!("{what} {} {}", text("mcp-session-id"), text("authorization"));
        kept.lock().unwrap().push(heard);
        answer(&body)
    };
    let at = serve(Router::new().fallback(handler)).await;
    let mut world = World::new().await;
    let host = a2s::Domain::new("mcp.example").unwrap();
    world.config.upstreams.insert(host, format!("http://{at}").parse().unwrap());
    prepare(&mut world);
    let app = world.open().await;
    (world, app, heard)
}

fn heard(heard: &Heard) -> Vec<String> {
    heard.lock().unwrap().clone()
}

fn event_stream(body: Body) -> Response {
    ([(header::CONTENT_TYPE, "text/event-stream")], body).into_response()
}

/// A stream that goes on for ever, or stays open.
fn endless(first: String, then: Option<&'static str>) -> Response {
    let first = stream::iter([Ok::<_, Infallible>(Bytes::from(first))]);
    let body = match then {
        Some(text) => {
            let more = stream::repeat_with(move || Ok(Bytes::from(text)));
            Body::from_stream(futures::StreamExt::chain(first, more))
        }
        None => Body::from_stream(futures::StreamExt::chain(first, stream::pending())),
    };
    event_stream(body)
}

fn result(body: &Value, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": body["id"], "result": result})
}

fn given(body: &Value) -> Response {
    axum::Json(result(body, json!({"structuredContent": {"ok": true}}))).into_response()
}

const PROGRESS: &str =
    "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{}}\n\n";

#[tokio::test]
async fn the_answer_is_taken_from_a_stream_that_never_ends() {
    let (world, app, _) = open(
        |_| {},
        |body| {
            let answer = result(body, json!({"structuredContent": {"ok": true}}));
            endless(format!(": hi\n\n{PROGRESS}data: {answer}\n\n"), None)
        },
    )
    .await;
    let run = call(&world, &app, "/mcp", "look", json!({})).await;
    assert_eq!(gave(&run), json!({"ok": true}));
}

/// Calls each tool of a server whose streams have no answer.
async fn check_streams(timeout: Option<Duration>, expected: &[(&str, &str)]) {
    let limits = |world: &mut World| {
        world.config.limits.max_response_bytes = 100_000;
        if let Some(timeout) = timeout {
            world.config.limits.request_timeout = timeout;
        }
    };
    let (world, app, _) = open(limits, |body| match body["params"]["name"].as_str().unwrap() {
        "flood" => endless(String::new(), Some(PROGRESS)),
        "line" => endless("data: ".to_owned(), Some("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")),
        "silent" => endless(PROGRESS.to_owned(), None),
        "short" => event_stream(Body::from(PROGRESS)),
        "huge" => "[".repeat(200_000).into_response(),
        other => panic!("{other}"),
    })
    .await;
    for (tool, code) in expected {
        let run = call(&world, &app, "/mcp", tool, json!({})).await;
        assert_eq!(failure(&run).0, *code, "{tool}: {:?}", run.error);
        assert!(!run.error.unwrap().repeat_safe, "{tool} may have done something");
    }
}

#[tokio::test]
async fn streams_without_an_answer_end_the_step() {
    let bounded =
        [("flood", "A2S355"), ("line", "A2S355"), ("short", "A2S352"), ("huge", "A2S355")];
    check_streams(None, &bounded).await;
    check_streams(Some(Duration::from_millis(700)), &[("silent", "A2S353")]).await;
}

#[tokio::test]
async fn what_a_server_asks_for_itself_is_refused() {
    let (world, app, heard_) = open(
        |_| {},
        |body| match body["params"]["name"].as_str().unwrap() {
            "sample" => endless(
                "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"sampling/createMessage\",\"params\":{}}\n\n".to_owned(),
                None,
            ),
            "elicit" => axum::Json(result(body, json!({"resultType": "input_required", "inputRequests": {"a": {"method": "elicitation/create"}}}))).into_response(),
            "task" => axum::Json(result(body, json!({"task": {"taskId": "1"}}))).into_response(),
            "other" => axum::Json(json!({"jsonrpc": "2.0", "id": "1", "result": {}})).into_response(),
            other => panic!("{other}"),
        },
    )
    .await;
    for (tool, code, words) in [
        ("sample", "A2S363", "sent the request `sampling/createMessage`"),
        ("elicit", "A2S363", "requires more input: `elicitation/create`"),
        ("task", "A2S363", "returned a task to wait for"),
        ("other", "A2S358", "it is the response to another request"),
    ] {
        let run = call(&world, &app, "/mcp", tool, json!({})).await;
        let (found, message) = failure(&run);
        assert!(found == code && message.contains(words), "{tool}: {found} {message}");
    }
    assert_eq!(heard(&heard_).len(), 4, "nothing is answered, and nothing sent again");
}

/// A server that wants a session, and answers `initialize` in this way.
fn wants_session(opening: impl Fn(&Value) -> Response) -> impl Fn(&Value) -> Response {
    move |body| match body["method"].as_str() {
        Some("initialize") => opening(body),
        Some("tools/call") if body["params"]["_meta"].is_null() => given(body),
        Some("tools/call") => (StatusCode::BAD_REQUEST, "no session").into_response(),
        Some(_) => StatusCode::ACCEPTED.into_response(),
        None => StatusCode::OK.into_response(),
    }
}

fn agreed(body: &Value, revision: &str) -> axum::Json<Value> {
    axum::Json(result(body, json!({"protocolVersion": revision, "capabilities": {}})))
}

#[tokio::test]
async fn mcp_session_serves_one_call_with_its_credential() {
    let opening =
        |body: &Value| ([("mcp-session-id", "s1")], agreed(body, "2025-06-18")).into_response();
    let (world, app, heard_) = open(|_| {}, move |body| wants_session(opening)(body)).await;
    let scheme = json!({"t": {"type": "http", "scheme": "bearer"}});
    let more = json!({"security": [{"t": []}], "securitySchemes": scheme});
    publish(&world, "Guarded", step("/mcp", "look", &json!({}), &more));
    set(&app, "mcp.example", "t", json!({"kind": "bearer", "token": "canary"})).await;
    let ended = run(&app, "Guarded", json!({})).await;
    assert_eq!(gave(&ended), json!({"ok": true}));
    let expected = [
        "tools/call - Bearer canary",
        "initialize - Bearer canary",
        "notifications/initialized s1 Bearer canary",
        "tools/call s1 Bearer canary",
        "DELETE s1 Bearer canary",
    ];
    assert_eq!(heard(&heard_), expected);
    let told = serde_json::to_string(&events(&app, ended.id).await).unwrap();
    assert!(!told.contains("canary") && !told.contains("s1\""), "{told}");
    assert!(!world.guardian.asked().iter().any(|asked| asked.to_string().contains("canary")));
}

#[tokio::test]
async fn a_server_that_does_not_take_leave_holds_nobody() {
    let opening =
        |body: &Value| ([("mcp-session-id", "s1")], agreed(body, "2025-06-18")).into_response();
    let waits = |world: &mut World| world.config.limits.request_timeout = Duration::from_secs(600);
    let answer = move |body: &Value| match body.is_null() {
        true => endless(String::new(), None),
        false => wants_session(opening)(body),
    };
    let (world, app, heard_) = open(waits, answer).await;
    let ended = tokio::time::timeout(
        Duration::from_secs(60),
        call(&world, &app, "/mcp", "look", json!({})),
    );
    assert_eq!(gave(&ended.await.expect("a session is ended in time")), json!({"ok": true}));
    assert_eq!(heard(&heard_).last().unwrap(), "DELETE s1 -");
}

#[tokio::test]
async fn a_session_that_cannot_be_had_leaves_the_refusal_as_it_was() {
    let odd = |id: &'static [u8]| {
        move |body: &Value| {
            let mut response = agreed(body, "2025-11-25").into_response();
            let id = header::HeaderValue::from_bytes(id).unwrap();
            response.headers_mut().insert("mcp-session-id", id);
            response
        }
    };
    let openings: [fn(&Value) -> Response; 4] = [
        |_| (StatusCode::NOT_FOUND, "what?").into_response(),
        |body| agreed(body, "1999-12-31").into_response(),
        |_| "no JSON".into_response(),
        |body| {
            axum::Json(json!({"jsonrpc": "2.0", "id": body["id"], "error": {"code": -32601, "message": "no"}})).into_response()
        },
    ];
    for opening in openings {
        let (world, app, heard_) = open(|_| {}, move |body| wants_session(opening)(body)).await;
        let run = call(&world, &app, "/mcp", "look", json!({})).await;
        let (code, words) = failure(&run);
        assert!(code == "A2S357" && words.contains("400: no session"), "{code} {words}");
        assert_eq!(heard(&heard_), ["tools/call - -", "initialize - -"]);
        assert!(run.error.unwrap().repeat_safe, "the call was refused");
    }
    let (world, app, _) = open(|_| {}, move |body| wants_session(odd(b"a\xffb"))(body)).await;
    let run = call(&world, &app, "/mcp", "look", json!({})).await;
    assert_eq!(failure(&run).0, "A2S357");
}

#[tokio::test]
async fn a_server_that_refuses_whatever_is_sent_is_not_asked_for_ever() {
    let (world, app, heard_) = open(
        |_| {},
        |body| match body["method"].as_str() {
            Some("initialize") => agreed(body, "2025-11-25").into_response(),
            _ => StatusCode::BAD_REQUEST.into_response(),
        },
    )
    .await;
    let run = call(&world, &app, "/mcp", "look", json!({})).await;
    assert_eq!(failure(&run).0, "A2S357");
    let expected = ["tools/call", "initialize", "notifications/initialized", "tools/call"];
    let methods: Vec<_> =
        heard(&heard_).iter().map(|heard| heard.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(methods, expected);
}

#[tokio::test]
async fn a_server_that_was_renewed_is_known_again() {
    let renewed = Arc::new(Mutex::new(false));
    let now = Arc::clone(&renewed);
    let (world, app, heard_) = open(
        |_| {},
        move |body| match (*now.lock().unwrap(), body["method"].as_str()) {
            (true, Some("tools/call")) => given(body),
            (true, _) => StatusCode::METHOD_NOT_ALLOWED.into_response(),
            (false, _) => wants_session(|body| agreed(body, "2025-11-25").into_response())(body),
        },
    )
    .await;
    assert_succeeded(&call(&world, &app, "/mcp", "look", json!({})).await);
    *renewed.lock().unwrap() = true;
    heard_.lock().unwrap().clear();
    let failed = call(&world, &app, "/mcp", "look", json!({})).await;
    assert_eq!(failure(&failed).0, "A2S357");
    assert!(failed.error.unwrap().repeat_safe, "the call itself was not sent");
    assert_succeeded(&call(&world, &app, "/mcp", "look", json!({})).await);
    assert_eq!(heard(&heard_), ["initialize - -", "tools/call - -"]);
}

/// Behind a balancer, or after a restart, a server does not know its session any more.
#[tokio::test]
async fn a_session_that_the_server_has_lost_is_opened_again() {
    let opened =
        |body: &Value| ([("mcp-session-id", "s1")], agreed(body, "2025-06-18")).into_response();
    let unknown = |status: StatusCode, code: i64, message: &str| {
        let error = json!({"code": code, "message": message});
        (status, axum::Json(json!({"jsonrpc": "2.0", "id": null, "error": error}))).into_response()
    };
    for (status, code, message) in [
        (StatusCode::NOT_FOUND, -32_001, "Session not found"),
        (StatusCode::NOT_FOUND, -32_600, "Session terminated"),
        (StatusCode::BAD_REQUEST, -32_000, "Bad Request: No valid session ID provided"),
    ] {
        for losses in [1, 2] {
            let lost = Arc::new(Mutex::new(losses));
            let lose = move |body: &Value| {
                let mut lost = lost.lock().unwrap();
                let is_call = body["method"] == "tools/call" && body["params"]["_meta"].is_null();
                if is_call && *lost > 0 {
                    *lost -= 1;
                    return unknown(status, code, message);
                }
                wants_session(opened)(body)
            };
            let (world, app, heard_) = open(|_| {}, lose).await;
            let run = call(&world, &app, "/mcp", "look", json!({})).await;
            let calls = heard(&heard_).iter().filter(|heard| heard.starts_with("tools/")).count();
            assert_eq!(calls, 3, "one without a session, and one in each of two sessions");
            if losses == 1 {
                assert_eq!(gave(&run), json!({"ok": true}), "{message}");
            } else {
                assert_eq!(failure(&run).0, "A2S362", "{message}");
                let hint = run.error.unwrap().hint;
                assert!(hint.contains("session"), "{message}: {hint}");
            }
        }
    }
}

#[tokio::test]
async fn a_call_is_repeated_only_when_its_document_says_that_it_may() {
    let (world, app, _) = open(|_| {}, |_| StatusCode::SERVICE_UNAVAILABLE.into_response()).await;
    for (name, hints, attempts) in [
        ("Silent", json!({}), 1),
        ("Writes", json!({"readOnlyHint": false, "destructiveHint": false}), 1),
        ("Sets", json!({"idempotentHint": true}), 3),
        ("Reads", json!({"readOnlyHint": true}), 3),
    ] {
        let step = step("/mcp", "look", &json!({}), &json!({"annotations": hints}));
        publish(&world, name, with(step, json!({"retry": {"max_attempts": 3}})));
        let run = run(&app, name, json!({})).await;
        assert_eq!(failure(&run).0, "A2S357", "{name}");
        assert_eq!(run.steps[0].attempts, attempts, "{name}");
        assert_eq!(run.error.unwrap().repeat_safe, attempts == 3, "{name}");
    }
}

#[tokio::test]
async fn the_rules_of_the_way_out_hold() {
    let away = |_: &Value| {
        (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, "https://other.example/mcp")])
            .into_response()
    };
    let (world, app, heard_) = open(|_| {}, away).await;
    let run_ = call(&world, &app, "/mcp", "look", json!({})).await;
    assert_eq!(failure(&run_).0, "A2S356");
    assert_eq!(heard(&heard_).len(), 1);
    // Without the upstream, the address is the document's own.
    let local = world.config.upstreams.values().last().unwrap().clone();
    let host = format!("localhost:{}", local.port().unwrap());
    let mut step = step("/mcp", "look", &json!({}), &json!({}));
    step["task"]["server"] = json!(format!("http://{host}/mcp"));
    let document = json!({"domains": [host], "execution": {"type": "sequence", "steps": [step]}});
    world.registry.publish_newer("Local", &document);
    let refused = run(&app, "Local", json!({})).await;
    assert_eq!(failure(&refused).0, "A2S350");
    let lines = transcript(&events(&app, refused.id).await);
    assert!(!lines.iter().any(|line| line.contains("got")), "{lines:?}");
}
