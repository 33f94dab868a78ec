//! The client against real servers: every way in which a guardian can answer, closed and open.

use std::fmt;
use std::future::{pending, ready};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aos::message::{
    Agent, AgentProvider, Limits, MemoryStep, Method, MethodCall, Ping, Request, Session,
    StepContext, TextPart, ToolArgumentValue, ToolCallRequest, ToolCallRequestStep,
    ToolCallResultStep, ToolResult,
};
use aos::{
    BearerToken, FailMode, FlushFuture, GuardianChain, GuardianClient, GuardianError,
    InProcessGuardian, Options, Verdict, VerdictFuture, VerdictSource,
};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Response};
use axum::response::Redirect;
use axum::routing::post;
use serde_json::{Value, json};
use test_support::{allow, rpc_result};
use url::Url;

/// What the guardian of a test does with a question.
#[derive(Clone)]
pub(crate) enum Reply {
    /// It answers with this as the `result`.
    Result(Value),
    /// It answers with this JSON.
    Json(Value),
    /// It answers with any status, content type and body.
    Http(u16, &'static str, Vec<u8>),
    /// It takes the question and never answers.
    Silence,
    /// It begins an answer and never ends it.
    HalfAnAnswer,
}

/// Serve on a free port until the test ends.
pub(crate) async fn serve(router: Router) -> Url {
    Url::parse(&format!("http://{}/aos", test_support::serve(router).await)).unwrap()
}

/// A guardian that answers each question with what `reply` makes of it.
pub(crate) async fn guardian(reply: impl Fn(Value) -> Reply + Send + Sync + 'static) -> Url {
    let reply = Arc::new(reply);
    let answer = move |body: Bytes| async move {
        let question: Value = serde_json::from_slice(&body).unwrap();
        let id = question["id"].clone();
        let json = |value: Value| {
            http(200, "application/json; charset=utf-8", Body::from(value.to_string()))
        };
        match reply(question) {
            Reply::Result(result) => json(json!({"jsonrpc": "2.0", "id": id, "result": result})),
            Reply::Json(value) => json(value),
            Reply::Http(status, content_type, body) => http(status, content_type, Body::from(body)),
            Reply::Silence => pending().await,
            Reply::HalfAnAnswer => {
                let half = Ok::<_, std::convert::Infallible>(Bytes::from_static(b"{\"jsonrpc\""));
                let never = Body::from_stream(Half(Some(half)));
                http(200, "application/json", never)
            }
        }
    };
    serve(Router::new().route("/aos", post(answer))).await
}

struct Half<T>(Option<T>);

impl<T: Unpin> futures::Stream for Half<T> {
    type Item = T;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<T>> {
        self.0.take().map_or(std::task::Poll::Pending, |item| std::task::Poll::Ready(Some(item)))
    }
}

fn http(status: u16, content_type: &str, body: Body) -> Response<Body> {
    Response::builder().status(status).header("content-type", content_type).body(body).unwrap()
}

pub(crate) fn client(url: Url, fail_mode: FailMode) -> GuardianClient {
    GuardianClient::new(url, Options { fail_mode, ..Options::default() }).unwrap()
}

pub(crate) fn context() -> StepContext {
    let provider = AgentProvider::new("Example".to_owned(), "https://example.org/".to_owned());
    let [id, name, instructions, version] = ["a", "Agent", "Help.", "1"].map(str::to_owned);
    let agent =
        Agent::new(id, name, instructions, version, provider, "https://agent.example/".to_owned());
    StepContext::new(
        agent,
        Session::new("s".to_owned()),
        "t",
        "st",
        "2026-01-02T03:04:05Z".parse().unwrap(),
    )
}

pub(crate) fn tool_call() -> Request {
    let inputs = vec![ToolArgumentValue::new("city".to_owned(), json!("Paris"))];
    let call = ToolCallRequest::new("x-1".to_owned(), "weather".to_owned(), inputs);
    Request::new("q-1", ToolCallRequestStep::new(context(), call))
}

pub(crate) fn tool_result() -> Request {
    let result = ToolResult::new(vec![TextPart::new("18 degrees")], false);
    Request::new("q-2", ToolCallResultStep::new(context(), "x-1", result))
}

/// The question with one member changed, as the answer of a guardian that modifies.
pub(crate) fn modify(question: &Value, pointer: &str, value: Value) -> Reply {
    let mut modified = question.clone();
    *modified.pointer_mut(pointer).unwrap() = value;
    Reply::Result(
        json!({"decision": "modify", "message": "better so", "modifiedRequest": modified}),
    )
}

#[tokio::test]
async fn an_allow_goes_on() {
    let url = guardian(|_| {
        Reply::Result(json!({"decision": "allow", "message": "fine", "reasonCode": ["ok"]}))
    })
    .await;
    let outcome = client(url, FailMode::Closed).ask(&tool_call()).await;
    assert_eq!((outcome.verdict, outcome.origin), (Verdict::Allow, VerdictSource::Guardian));
    assert_eq!((outcome.message.as_str(), outcome.reason_codes), ("fine", vec!["ok".to_owned()]));
}

#[tokio::test]
async fn a_deny_is_told_with_its_reasons() {
    let result = json!({"decision": "deny", "message": "no trips", "reasonCode": ["budget"], "reasoning": "r", "data": {"left": 0}});
    let url = guardian(move |_| Reply::Result(result.clone())).await;
    let outcome = client(url, FailMode::Open).ask(&tool_call()).await;
    assert_eq!((outcome.verdict, outcome.origin), (Verdict::Deny, VerdictSource::Guardian));
    assert_eq!(
        (outcome.message.as_str(), outcome.reason_codes),
        ("no trips", vec!["budget".to_owned()])
    );
    assert_eq!(
        (outcome.reasoning.as_deref(), outcome.data.unwrap()["left"].as_i64()),
        (Some("r"), Some(0))
    );
}

#[tokio::test]
async fn a_modify_changes_the_inputs_and_nothing_else() {
    let url = guardian(|question| {
        let mut modified = question;
        modified["params"]["context"]["session"]["id"] = json!("another");
        modify(&modified, "/params/toolCallRequest/inputs/0/value", json!("Lyon"))
    })
    .await;
    let question = tool_call();
    let outcome = client(url, FailMode::Closed).ask(&question).await;
    let Verdict::Modify(request) = outcome.verdict else { panic!("{outcome:?}") };
    let MethodCall::ToolCallRequest(step) = &request.call else { panic!("{request:?}") };
    assert_eq!(
        step.tool_call_request.inputs,
        [ToolArgumentValue::new("city".to_owned(), json!("Lyon"))]
    );
    assert_eq!(Some(&step.context), question.call.context());
}

#[tokio::test]
async fn a_modify_changes_the_outputs_of_a_result() {
    let url = guardian(|question| {
        let result = json!({"outputs": [{"kind": "text", "text": "[hidden]"}], "isError": true});
        modify(&question, "/params/toolCallResult/result", result)
    })
    .await;
    let outcome = client(url, FailMode::Closed).ask(&tool_result()).await;
    let Verdict::Modify(request) = outcome.verdict else { panic!("{outcome:?}") };
    let MethodCall::ToolCallResult(step) = &request.call else { panic!("{request:?}") };
    assert_eq!((step.result.outputs[0].text.as_str(), step.result.is_error), ("[hidden]", true));
}

/// What comes of a guardian that gives no usable answer.
struct Case {
    name: &'static str,
    reply: fn(Value) -> Reply,
    reason: &'static str,
    /// Whether an open fail mode lets the step go on.
    opens: bool,
}

const CASES: [Case; 25] = [
    Case { name: "silent", reply: |_| Reply::Silence, reason: "guardian_timeout", opens: true },
    Case {
        name: "stops halfway",
        reply: |_| Reply::HalfAnAnswer,
        reason: "guardian_timeout",
        opens: true,
    },
    Case {
        name: "internal server error",
        reply: |_| Reply::Http(500, "application/json", b"{}".to_vec()),
        reason: "guardian_status",
        opens: true,
    },
    Case {
        name: "bad gateway",
        reply: |_| Reply::Http(502, "text/html", b"<html>".to_vec()),
        reason: "guardian_status",
        opens: true,
    },
    Case {
        name: "no JSON",
        reply: |_| Reply::Http(200, "application/json", b"{\"jsonrpc\":".to_vec()),
        reason: "guardian_malformed",
        opens: true,
    },
    Case {
        name: "no object",
        reply: |_| Reply::Json(json!([1])),
        reason: "guardian_malformed",
        opens: true,
    },
    Case {
        name: "no answer in it",
        reply: |q| Reply::Json(json!({"jsonrpc": "2.0", "id": q["id"]})),
        reason: "guardian_malformed",
        opens: true,
    },
    Case {
        name: "wrong content type",
        reply: |q| {
            let allow = json!({"jsonrpc": "2.0", "id": q["id"], "result": {"decision": "allow", "message": ""}});
            Reply::Http(200, "text/plain", allow.to_string().into_bytes())
        },
        reason: "guardian_content_type",
        opens: true,
    },
    Case {
        name: "internal error",
        reply: |q| {
            Reply::Json(
                json!({"jsonrpc": "2.0", "id": q["id"], "error": {"code": -32603, "message": "Internal error"}}),
            )
        },
        reason: "guardian_error",
        opens: true,
    },
    Case {
        name: "server error",
        reply: |q| {
            Reply::Json(
                json!({"jsonrpc": "2.0", "id": q["id"], "error": {"code": -32050, "message": "busy"}}),
            )
        },
        reason: "guardian_error",
        opens: true,
    },
    // What follows was said by a guardian, or brought about by the step: it is never an allow.
    Case {
        name: "refuses the params",
        reply: |q| {
            Reply::Json(
                json!({"jsonrpc": "2.0", "id": q["id"], "error": {"code": -32602, "message": "Invalid parameters"}}),
            )
        },
        reason: "guardian_refused",
        opens: false,
    },
    Case {
        name: "refuses without id",
        reply: |_| {
            Reply::Json(
                json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "Invalid JSON payload"}}),
            )
        },
        reason: "guardian_refused",
        opens: false,
    },
    Case {
        name: "question too large",
        reply: |_| Reply::Http(413, "application/json", Vec::new()),
        reason: "guardian_status",
        opens: false,
    },
    Case {
        name: "not authorised",
        reply: |_| Reply::Http(401, "text/plain", Vec::new()),
        reason: "guardian_status",
        opens: false,
    },
    Case {
        name: "huge answer",
        reply: |_| Reply::Http(200, "application/json", vec![b' '; 100_000]),
        reason: "guardian_answer_too_large",
        opens: false,
    },
    Case {
        name: "another id",
        reply: |_| {
            Reply::Json(
                json!({"jsonrpc": "2.0", "id": "q-0", "result": {"decision": "allow", "message": ""}}),
            )
        },
        reason: "guardian_wrong_id",
        opens: false,
    },
    Case {
        name: "no id",
        reply: |_| {
            Reply::Json(json!({"jsonrpc": "2.0", "result": {"decision": "allow", "message": ""}}))
        },
        reason: "guardian_wrong_id",
        opens: false,
    },
    Case {
        name: "unknown decision",
        reply: |_| Reply::Result(json!({"decision": "ask", "message": "may I?"})),
        reason: "guardian_unknown_decision",
        opens: false,
    },
    Case {
        name: "a decision in other letters",
        reply: |_| Reply::Result(json!({"decision": "ALLOW", "message": ""})),
        reason: "guardian_unknown_decision",
        opens: false,
    },
    Case {
        name: "no decision",
        reply: |_| Reply::Result(json!({"message": "hm"})),
        reason: "guardian_unknown_decision",
        opens: false,
    },
    Case {
        name: "allow without message",
        reply: |_| Reply::Result(json!({"decision": "allow"})),
        reason: "guardian_bad_answer",
        opens: false,
    },
    Case {
        name: "pong",
        reply: |_| {
            Reply::Result(
                json!({"status": "connected", "version": "1", "timestamp": "2026-01-02T03:04:05Z"}),
            )
        },
        reason: "guardian_bad_answer",
        opens: false,
    },
    Case {
        name: "modify without request",
        reply: |_| Reply::Result(json!({"decision": "modify", "message": ""})),
        reason: "guardian_bad_modification",
        opens: false,
    },
    Case {
        name: "modify of another method",
        reply: |q| {
            let context = q["params"]["context"].clone();
            let other = json!({"jsonrpc": "2.0", "id": q["id"], "method": "steps/memoryStore", "params": {"context": context, "memory": []}});
            Reply::Result(json!({"decision": "modify", "message": "", "modifiedRequest": other}))
        },
        reason: "guardian_bad_modification",
        opens: false,
    },
    Case {
        name: "modify of another execution",
        reply: |q| {
            let member = if q["method"] == "steps/toolCallRequest" {
                "toolCallRequest"
            } else {
                "toolCallResult"
            };
            modify(&q, &format!("/params/{member}/executionId"), json!("x-2"))
        },
        reason: "guardian_bad_modification",
        opens: false,
    },
];

/// The guardian of a test, where no HTTP is between.
struct Beside(fn(Value) -> Reply);

impl fmt::Debug for Beside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Beside")
    }
}

impl InProcessGuardian for Beside {
    fn respond(&self, message: Vec<u8>) -> VerdictFuture<'_> {
        let question: Value = serde_json::from_slice(&message).unwrap();
        let id = question["id"].clone();
        match (self.0)(question) {
            Reply::Result(result) => {
                let answer = json!({"jsonrpc": "2.0", "id": id, "result": result});
                Box::pin(ready(answer.to_string().into_bytes()))
            }
            Reply::Json(answer) => Box::pin(ready(answer.to_string().into_bytes())),
            Reply::Http(_, _, body) => Box::pin(ready(body)),
            Reply::Silence | Reply::HalfAnAnswer => Box::pin(pending()),
        }
    }
}

#[tokio::test]
async fn what_is_no_decision_denies_unless_it_may_open() {
    for case in CASES {
        let url = guardian(case.reply).await;
        check(&case, |options| GuardianClient::new(url.clone(), options).unwrap()).await;
        // What status and content type say is not there without HTTP.
        if !["guardian_status", "guardian_content_type"].contains(&case.reason) {
            let beside = Arc::new(Beside(case.reply));
            check(&case, |options| GuardianClient::in_process(beside.clone(), options)).await;
        }
    }
}

/// That the guardian of `case` is turned into the same verdict, whatever way it is asked.
async fn check(case: &Case, client: impl Fn(Options) -> GuardianClient) {
    let &Case { name, reason, opens, .. } = case;
    for mode in [FailMode::Closed, FailMode::Open] {
        let limits = Limits { bytes: 50_000, ..Limits::default() };
        let timeout = Duration::from_millis(if reason == "guardian_timeout" { 50 } else { 5_000 });
        let options = Options { fail_mode: mode, limits, timeout, ..Options::default() };
        let client = client(options);
        for question in [tool_call(), tool_result()] {
            let outcome = client.ask(&question).await;
            let is_open = opens && mode == FailMode::Open;
            let expected = if is_open { Verdict::Allow } else { Verdict::Deny };
            assert_eq!(outcome.verdict, expected, "{name} {mode:?}: {outcome:?}");
            assert_eq!(outcome.reason_codes, [reason], "{name} {mode:?}: {outcome:?}");
            let as_told = match &outcome.origin {
                VerdictSource::FailedOpen(_) => is_open,
                VerdictSource::FailedClosed(_) => !is_open,
                VerdictSource::Guardian => false,
            };
            assert!(as_told, "{name} {mode:?}: {outcome:?}");
        }
    }
}

#[tokio::test]
async fn beside_the_agent_it_decides_as_from_afar() {
    let allow = |_| Reply::Result(json!({"decision": "allow", "message": "fine"}));
    let deny = |_| Reply::Result(json!({"decision": "deny", "message": "no"}));
    let lyon =
        |question| modify(&question, "/params/toolCallRequest/inputs/0/value", json!("Lyon"));
    for reply in [allow as fn(Value) -> Reply, deny, lyon] {
        let afar = client(guardian(reply).await, FailMode::Closed).ask(&tool_call()).await;
        let options = Options::default();
        let beside = GuardianClient::in_process(Arc::new(Beside(reply)), options);
        assert_eq!(beside.with_own_pool().unwrap().ask(&tool_call()).await, afar);
        assert_eq!(afar.origin, VerdictSource::Guardian);
    }
}

/// A guardian in the process that notes how it is called, and whose log is durable after a while, never, or
/// fails.
#[derive(Debug)]
struct EarlyGuardian {
    calls: Mutex<Vec<&'static str>>,
    flushed: Option<bool>,
}

impl EarlyGuardian {
    fn new(flushed: Option<bool>) -> Arc<Self> {
        Arc::new(Self { calls: Mutex::default(), flushed })
    }

    fn client(self: &Arc<Self>) -> GuardianClient {
        let options = Options { timeout: Duration::from_millis(50), ..Options::default() };
        GuardianClient::in_process(self.clone(), options)
    }

    fn note(&self, call: &'static str) {
        self.calls.lock().unwrap().push(call);
    }
}

impl InProcessGuardian for EarlyGuardian {
    fn respond(&self, _: Vec<u8>) -> VerdictFuture<'_> {
        self.note("recorded");
        Box::pin(ready(Vec::new()))
    }

    fn respond_early(&self, _: Vec<u8>) -> VerdictFuture<'_> {
        self.note("early");
        Box::pin(ready(Vec::new()))
    }

    fn flush(&self) -> FlushFuture<'_> {
        self.note("flush");
        match self.flushed {
            Some(flushed) => Box::pin(ready(flushed)),
            None => Box::pin(pending()),
        }
    }
}

#[tokio::test]
async fn only_tool_calls_of_an_agent_that_flushes_are_answered_early() {
    let guardian = EarlyGuardian::new(Some(false));
    let usual = guardian.client();
    usual.ask(&tool_call()).await;
    assert_eq!(usual.flush().await, Ok(()));
    assert_eq!(*guardian.calls.lock().unwrap(), ["recorded"]);

    let guardian = EarlyGuardian::new(Some(true));
    let early = guardian.client().with_early_responses().with_own_pool().unwrap();
    let memory = MemoryStep::new(context(), vec!["The city is Paris.".to_owned()]);
    let memory = Request::new("q-3", MethodCall::MemoryStore(Box::new(memory)));
    for question in [tool_call(), tool_result(), memory] {
        early.ask(&question).await;
    }
    assert_eq!(early.flush().await, Ok(()));
    assert_eq!(*guardian.calls.lock().unwrap(), ["early", "early", "recorded", "flush"]);
}

#[tokio::test]
async fn a_guardian_that_cannot_record_is_named() {
    for (flushed, expected) in
        [(Some(false), GuardianError::NotRecorded), (None, GuardianError::Timeout)]
    {
        let durable = GuardianChain::new("one", EarlyGuardian::new(Some(true)).client());
        let chain = durable.and("two", EarlyGuardian::new(flushed).client());
        assert_eq!(chain.flush().await, Ok(()));
        assert_eq!(chain.with_early_responses().flush().await, Err(("two", expected)));
    }
}

#[tokio::test]
async fn nobody_listening_is_unreachable() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = Url::parse(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
    drop(listener);
    let closed = client(url.clone(), FailMode::Closed).ask(&tool_call()).await;
    assert!(
        matches!(closed.origin, VerdictSource::FailedClosed(GuardianError::NotConnected(_))),
        "{closed:?}"
    );
    assert_eq!(closed.verdict, Verdict::Deny);
    let open = client(url, FailMode::Open).ask(&tool_call()).await;
    assert!(
        matches!(open.origin, VerdictSource::FailedOpen(GuardianError::NotConnected(_))),
        "{open:?}"
    );
    assert_eq!(open.verdict, Verdict::Allow);
}

/// Asks a guardian that answers with a status `times` times and allows after that; gives how often it
/// was asked.
async fn ask_again(status: u16, times: usize, retry_for: Duration) -> (Verdict, usize) {
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&asked);
    let url = guardian(move |_| {
        if counter.fetch_add(1, Ordering::SeqCst) < times {
            Reply::Http(status, "text/plain", Vec::new())
        } else {
            Reply::Result(json!({"decision": "allow", "message": ""}))
        }
    })
    .await;
    let client = GuardianClient::new(url, Options { retry_for, ..Options::default() }).unwrap();
    let outcome = client.ask(&tool_call()).await;
    (outcome.verdict, asked.load(Ordering::SeqCst))
}

#[tokio::test]
async fn a_guardian_that_is_away_is_asked_again() {
    let long = Duration::from_secs(600);
    assert_eq!(ask_again(503, 2, long).await, (Verdict::Allow, 3));
    assert_eq!(ask_again(503, usize::MAX, Duration::ZERO).await, (Verdict::Deny, 1));
    // It may have judged the question.
    assert_eq!(ask_again(500, 1, long).await, (Verdict::Deny, 1));
    assert_eq!(ask_again(502, 1, long).await, (Verdict::Deny, 1));
}

#[tokio::test]
async fn a_guardian_is_asked_again_for_a_bounded_time() {
    let (verdict, asked) = ask_again(503, usize::MAX, Duration::from_millis(120)).await;
    // After 50 ms, unless the first answer took long, and not after 100 ms more.
    assert_eq!(verdict, Verdict::Deny);
    assert!((1..=2).contains(&asked), "{asked}");
}

#[tokio::test]
async fn a_guardian_that_starts_late_is_reached() {
    let address = test_support::unused_address();
    let url = Url::parse(&format!("http://{address}/aos")).unwrap();
    let retry_for = Duration::from_secs(600);
    let client = GuardianClient::new(url, Options { retry_for, ..Options::default() }).unwrap();
    let asked = tokio::spawn(async move { client.ask(&tool_call()).await });
    tokio::task::yield_now().await;
    let answer = |body: Bytes| async move {
        let question: Value = serde_json::from_slice(&body).unwrap();
        rpc_result(&question, allow())
    };
    let listener = tokio::net::TcpListener::bind(address).await.unwrap();
    let router = Router::new().route("/aos", post(answer));
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    assert_eq!(asked.await.unwrap().verdict, Verdict::Allow);
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let allowing = guardian(|_| Reply::Result(json!({"decision": "allow", "message": ""}))).await;
    let target = allowing.to_string();
    let redirect = move || async move { Redirect::temporary(&target) };
    let url = serve(Router::new().route("/aos", post(redirect))).await;
    let outcome = client(url, FailMode::Open).ask(&tool_call()).await;
    assert_eq!(
        (outcome.verdict, outcome.origin),
        (Verdict::Deny, VerdictSource::FailedClosed(GuardianError::Status(307)))
    );
}

#[tokio::test]
async fn one_hook_may_have_a_fail_mode_of_its_own() {
    let url = guardian(|_| Reply::Http(503, "text/plain", Vec::new())).await;
    let fail_mode_by_method = [(Method::ToolCallResult, FailMode::Open)].into();
    let client =
        GuardianClient::new(url, Options { fail_mode_by_method, ..Options::default() }).unwrap();
    assert_eq!(client.ask(&tool_call()).await.verdict, Verdict::Deny);
    assert_eq!(client.ask(&tool_result()).await.verdict, Verdict::Allow);
}

#[tokio::test]
async fn the_token_is_sent_and_not_shown() {
    let answer = |headers: HeaderMap, body: Bytes| async move {
        let question: Value = serde_json::from_slice(&body).unwrap();
        let is_known = headers.get("authorization").is_some_and(|value| value == "Bearer s3cret");
        let decision = if is_known { "allow" } else { "deny" };
        axum::Json(
            json!({"jsonrpc": "2.0", "id": question["id"], "result": {"decision": decision, "message": ""}}),
        )
    };
    let url = serve(Router::new().route("/aos", post(answer))).await;
    let options = Options { bearer_token: BearerToken::new("s3cret"), ..Options::default() };
    let client = GuardianClient::new(url, options).unwrap();
    assert_eq!(client.ask(&tool_call()).await.verdict, Verdict::Allow);
    assert!(!format!("{client:?}").contains("s3cret"));
    assert!(BearerToken::new("two\nlines").is_none());
}

#[tokio::test]
async fn connections_are_kept() {
    let seen = Arc::new(Mutex::new(std::collections::BTreeSet::new()));
    let peers = Arc::clone(&seen);
    let answer = move |axum::extract::ConnectInfo(peer): axum::extract::ConnectInfo<
        std::net::SocketAddr,
    >,
                       body: Bytes| async move {
        peers.lock().unwrap().insert(peer);
        let question: Value = serde_json::from_slice(&body).unwrap();
        axum::Json(
            json!({"jsonrpc": "2.0", "id": question["id"], "result": {"decision": "allow", "message": ""}}),
        )
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = Url::parse(&format!("http://{}/aos", listener.local_addr().unwrap())).unwrap();
    let service = Router::new()
        .route("/aos", post(answer))
        .into_make_service_with_connect_info::<std::net::SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await.unwrap() });
    let client = client(url, FailMode::Closed);
    for _ in 0..5 {
        assert_eq!(client.ask(&tool_call()).await.verdict, Verdict::Allow);
    }
    assert_eq!(seen.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_ping_is_answered_by_a_pong() {
    let url = guardian(|_| {
        Reply::Result(
            json!({"status": "connected", "version": "1.2.3", "timestamp": "2026-01-02T03:04:05Z"}),
        )
    })
    .await;
    let pong = client(url, FailMode::Closed).ping(1, Ping::default()).await.unwrap();
    assert_eq!(pong.version, "1.2.3");
    let url = guardian(|_| Reply::Result(json!({"decision": "allow", "message": ""}))).await;
    let failure = client(url, FailMode::Open).ping(1, Ping::default()).await.unwrap_err();
    assert!(matches!(failure, GuardianError::Unusable(_)), "{failure:?}");
}
