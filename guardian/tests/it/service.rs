//! The guardian over HTTP, asked by the client and by hand.

use aos::message::{MethodCall, Ping, PongStatus, Request};
use aos::{Verdict, VerdictSource};
use axum::body::{Body, to_bytes};
use axum::http::{Request as HttpRequest, StatusCode};
use guardian::{App, Config, Error, PolicySource};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::world::{NOW, World, call, result};

const POLICY: &str = "
version: 1
default: allow
rules:
  - id: no-atlantis
    on: [tool_call_request]
    when: has(inputs.city) && inputs.city == 'Atlantis'
    decision: deny
    message: There is no such place.
    reason_codes: [place]
  - id: metric
    on: [tool_call_request]
    tool: weather.*
    decision: modify
    modify: {set: {units: metric}}
  - id: private
    on: [tool_call_result]
    decision: modify
    modify: {redact: [{pattern: email}]}
";

/// Post a body by hand.
async fn post(app: &App, content_type: &str, body: impl Into<Body>) -> (StatusCode, Value) {
    let request =
        HttpRequest::post("/aos").header("content-type", content_type).body(body.into()).unwrap();
    let response = app.router().oneshot(request).await.unwrap();
    let status = response.status();
    assert_eq!(response.headers()["content-type"], "application/json");
    let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
    (status, serde_json::from_slice(&body).unwrap())
}

async fn get(app: &App, path: &str) -> StatusCode {
    let request = HttpRequest::get(path).body(Body::empty()).unwrap();
    app.router().oneshot(request).await.unwrap().status()
}

#[tokio::test]
async fn the_client_gets_what_the_rules_say() {
    let world = World::new(POLICY);
    let client = world.client().await;

    let allowed = client.ask(&call("dogs.list", &json!({"city": "Paris"}))).await;
    assert_eq!((allowed.verdict, allowed.origin), (Verdict::Allow, VerdictSource::Guardian));

    let denied = client.ask(&call("weather.now", &json!({"city": "Atlantis"}))).await;
    assert_eq!((denied.verdict, denied.origin), (Verdict::Deny, VerdictSource::Guardian));
    assert_eq!(
        (denied.message.as_str(), denied.reason_codes),
        ("There is no such place.", vec!["place".to_owned()])
    );
    assert_eq!(denied.data.unwrap()["rules"], json!(["no-atlantis"]));

    let modified = client.ask(&call("weather.now", &json!({"city": "Paris"}))).await;
    let expected = call("weather.now", &json!({"city": "Paris", "units": "metric"}));
    assert_eq!(modified.verdict, Verdict::Modify(Box::new(expected)));

    let redacted =
        client.ask(&result("dogs.list", &["mail a@b.example", "{\"to\":\"c@d.example\"}"])).await;
    let expected = result("dogs.list", &["mail [redacted]", "{\"to\":\"[redacted]\"}"]);
    assert_eq!(redacted.verdict, Verdict::Modify(Box::new(expected)));

    let pong = client.ping("p-1", Ping::default()).await.unwrap();
    assert_eq!((pong.status, pong.timestamp.to_string().as_str()), (PongStatus::Connected, NOW));
}

#[tokio::test]
async fn every_decision_is_recorded_before_it_is_told() {
    let world = World::with(PolicySource::Text(POLICY.to_owned()), |config| config.sync = true);
    let client = world.client().await;
    client
        .ask(&call(
            "weather.now",
            &json!({"city": "Atlantis", "headerParameters.Authorization": "Bearer s3cret"}),
        ))
        .await;
    client
        .ask(&result(
            "dogs.list",
            &["from a@b.example", "{\"access_token\":\"s3cret\"}", &"x".repeat(5000)],
        ))
        .await;
    client.ping(1, Ping::default()).await.unwrap();

    let records = world.records();
    assert_eq!(
        records.iter().map(|r| r["event"].as_str().unwrap()).collect::<Vec<_>>(),
        ["policy", "decision", "outcome", "decision"]
    );
    let (policy, denied, outcome, redacted) = (&records[0], &records[1], &records[2], &records[3]);
    assert_eq!(
        (&outcome["execution"], &outcome["tool"], &outcome["is_error"]),
        (&json!("x-1"), &json!("dogs.list"), &json!(false))
    );
    assert!(outcome.get("content").is_none() && outcome.get("decision").is_none());
    assert_eq!(policy["rules"], 3);
    assert_eq!(denied["policy"], policy["policy"]);
    assert_eq!((&denied["time"], &denied["seq"]), (&json!(NOW), &json!(2)));
    assert_eq!(
        (&denied["decision"], &denied["reason_codes"], &denied["rules"]),
        (&json!("deny"), &json!(["place"]), &json!(["no-atlantis"]))
    );
    assert_eq!(
        (&denied["tool"], &denied["execution"], &denied["session"]),
        (&json!("weather.now"), &json!("x-1"), &json!("s-1"))
    );
    assert_eq!(denied["capability"]["checksum"], "sha256:00");
    assert_eq!(
        denied["content"]["toolCallRequest"]["inputs"][0],
        json!({"name": "city", "value": "Atlantis"})
    );
    assert_eq!(denied["content"]["toolCallRequest"]["inputs"][1]["value"], "[secret]");
    assert_eq!(redacted["decision"], "modify");
    let outputs = &redacted["content"]["toolCallResult"]["result"]["outputs"];
    assert_eq!(
        (&outputs[0]["text"], &outputs[1]["text"]),
        (&json!("from [redacted]"), &json!("{\"access_token\":\"[secret]\"}"))
    );
    assert!(outputs[2]["text"].as_str().unwrap().contains("5000 bytes, sha256:"));
    let text = json!(records).to_string();
    assert!(!text.contains("s3cret") && !text.contains("a@b.example"), "{text}");
}

#[tokio::test]
async fn a_log_that_cannot_be_written_denies() {
    let world = World::with(PolicySource::AllowAll, |config| config.max_audit_bytes = Some(1500));
    let client = world.client().await;
    let question = call("t", &json!({"text": "x".repeat(200)}));
    let mut denied = None;
    for _ in 0..5 {
        let outcome = client.ask(&question).await;
        if outcome.verdict == Verdict::Deny {
            denied = Some(outcome);
        }
    }
    let denied = denied.unwrap();
    assert_eq!(
        (denied.origin, denied.reason_codes),
        (VerdictSource::Guardian, vec!["audit_unavailable".to_owned()])
    );
    assert!(!world.app.is_ready());
    assert_eq!(get(&world.app, "/readyz").await, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(get(&world.app, "/healthz").await, StatusCode::OK);
    assert_eq!(client.ping(1, Ping::default()).await.unwrap().status, PongStatus::Error);
    // What is in the log is whole, and shorter records find their place again.
    let records = world.records().len();
    assert!(1 < records && records < 6, "{records}");
}

#[tokio::test]
async fn decisions_are_counted() {
    let world = World::new(POLICY);
    let client = world.client().await;
    client.ask(&call("weather.now", &json!({"city": "Atlantis"}))).await;
    client.ask(&call("dogs.list", &json!({}))).await;
    client.ask(&call("dogs.list", &json!({}))).await;
    post(&world.app, "application/json", "{").await;
    let metrics = world.metrics();
    for line in [
        r#"decisions_total{method="steps/toolCallRequest",decision="deny"} 1"#,
        r#"decisions_total{method="steps/toolCallRequest",decision="allow"} 2"#,
        r#"rejections_total{code="parse_error"} 1"#,
        "audit_failures_total 0",
    ] {
        assert!(metrics.contains(line), "{line} in\n{metrics}");
    }
}

#[tokio::test]
async fn errors_have_their_codes() {
    let world = World::with(PolicySource::Text(POLICY.to_owned()), |config| {
        config.max_body_bytes = 1 << 20
    });
    let utf8 = "application/json; charset=utf-8";
    let check = async |content_type: &str, body: String, status: u16, code: i64, id: Value| {
        let (got, answer) = post(&world.app, content_type, body).await;
        assert_eq!(
            (got.as_u16(), &answer["error"]["code"], &answer["id"]),
            (status, &json!(code), &id),
            "{answer}"
        );
        assert_eq!((&answer["jsonrpc"], answer.get("result")), (&json!("2.0"), None));
        answer["error"]["data"].clone()
    };
    check(utf8, "{".to_owned(), 200, -32700, Value::Null).await;
    check(utf8, "[]".to_owned(), 200, -32600, Value::Null).await;
    let good = String::from_utf8(call("dogs.list", &json!({})).to_vec()).unwrap();
    check(utf8, format!("[{good}]"), 200, -32600, Value::Null).await;
    check(utf8, format!("[{good},{good}]"), 200, -32600, Value::Null).await;
    assert_eq!(world.records().len(), 1, "nothing in a batch is judged");
    let deep = format!("{}{}", "[".repeat(60), "]".repeat(60));
    let nested =
        good.replace("\"inputs\":[", &format!("\"inputs\":[{{\"name\":\"a\",\"value\":{deep}}}"));
    assert_ne!(nested, good);
    check(utf8, nested, 200, -32700, Value::Null).await;
    check(
        utf8,
        r#"{"jsonrpc":"2.0","id":7,"method":"steps/none"}"#.to_owned(),
        200,
        -32601,
        json!(7),
    )
    .await;
    let data = check(
        utf8,
        r#"{"jsonrpc":"2.0","id":"a","method":"steps/memoryStore","params":{"memory":[]}}"#
            .to_owned(),
        200,
        -32602,
        json!("a"),
    )
    .await;
    assert_eq!(data["path"], "params.context");
    check("text/plain", "{}".to_owned(), 415, -32600, Value::Null).await;
    check(utf8, " ".repeat((1 << 20) + 1), 413, -32600, Value::Null).await;
    assert_eq!(get(&world.app, "/aos").await, StatusCode::METHOD_NOT_ALLOWED);
}

/// A message too long to be judged beside others is judged all the same.
#[tokio::test]
async fn long_messages_are_judged() {
    let world = World::new(POLICY);
    let client = world.client().await;
    let long = "a@b.example ".repeat(20_000);
    let outcome = client.ask(&result("t", &[&long])).await;
    let expected = "[redacted] ".repeat(20_000);
    assert_eq!(outcome.verdict, Verdict::Modify(Box::new(result("t", &[&expected]))));
}

#[tokio::test]
async fn many_may_ask_at_once() {
    let world = World::new(POLICY);
    let client = world.client().await;
    let asked = (0..100).map(|n| {
        let client = client.clone();
        tokio::spawn(async move {
            let question = Request {
                id: format!("q-{n}").as_str().into(),
                ..call("dogs.list", &json!({"n": n}))
            };
            client.ask(&question).await.verdict
        })
    });
    for verdict in asked.collect::<Vec<_>>() {
        assert_eq!(verdict.await.unwrap(), Verdict::Allow);
    }
    assert_eq!(world.records().len(), 101);
}

#[tokio::test]
async fn a_policy_is_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("policy.yaml");
    std::fs::write(&path, "version: 1\ndefault: allow\n").unwrap();
    let world = World::with(PolicySource::File(path.clone()), |_| ());
    let client = world.client().await;
    let question = call("t", &json!({}));
    assert_eq!(client.ask(&question).await.verdict, Verdict::Allow);
    let policy = async || {
        let pong = client.ping(1, Ping::default()).await.unwrap();
        pong.metadata.unwrap()["policy"].clone()
    };
    let before = policy().await;
    assert!(!world.app.reload_policy().await.unwrap(), "nothing has changed");
    assert_eq!(policy().await, before);

    std::fs::write(&path, "version: 1\ndefault: deny\n").unwrap();
    assert!(world.app.reload_policy().await.unwrap());
    assert_eq!(client.ask(&question).await.verdict, Verdict::Deny);

    // A bad one, and one that is gone, change nothing.
    std::fs::write(&path, "version: 1\ndefault: perhaps\n").unwrap();
    assert!(matches!(world.app.reload_policy().await, Err(Error::PolicyInvalid { .. })));
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(world.app.reload_policy().await, Err(Error::PolicyUnreadable { .. })));
    assert_eq!(client.ask(&question).await.verdict, Verdict::Deny);

    let policies: Vec<_> =
        world.records().into_iter().filter(|record| record["event"] == "policy").collect();
    assert_eq!(policies.len(), 2);
    assert_ne!(policies[0]["policy"], policies[1]["policy"]);
    // Whoever asks is told which one is in force, as the log has it.
    assert_eq!([&before, &policy().await], [&policies[0]["policy"], &policies[1]["policy"]]);
}

#[tokio::test]
async fn rules_and_the_log_know_a_preview() {
    let world = World::new(
        "
version: 1
default: deny
rules:
  - id: previews
    when: capability.preview
    decision: allow
  - id: runs
    when: '!capability.preview && capability.run != \"\"'
    decision: deny
    message: Not today.
",
    );
    let client = world.client().await;
    let mut previewed = call("t", &json!({}));
    if let MethodCall::ToolCallRequest(step) = &mut previewed.call {
        let capability = step.context.extra.get_mut("capability").unwrap();
        capability.shift_remove("run");
        capability.insert("preview".to_owned(), json!(true));
    }
    assert_eq!(client.ask(&previewed).await.verdict, Verdict::Allow);
    assert_eq!(client.ask(&call("t", &json!({}))).await.message, "Not today.");
    let marks: Vec<_> = world
        .records()
        .into_iter()
        .filter(|record| record["event"] == "decision")
        .map(|record| record["capability"]["preview"] == json!(true))
        .collect();
    assert_eq!(marks, [true, false]);
}

#[tokio::test]
async fn the_log_goes_on_after_a_crash() {
    let world = World::new(POLICY);
    world.client().await.ask(&call("t", &json!({}))).await;
    let path = world.dir.path().join("guardian/audit.jsonl");
    // What a crash in the middle of a line leaves, in a folder of its own: this guardian still runs.
    let dir = tempfile::tempdir().unwrap();
    let mut torn = std::fs::read(&path).unwrap();
    torn.extend_from_slice(b"{\"v\":1,\"seq\":3,\"prev");
    std::fs::write(dir.path().join("audit.jsonl"), torn).unwrap();
    let config = Config { sync: false, ..Config::new(PolicySource::AllowAll, dir.path()) };
    let app = App::open(config, || NOW.parse().unwrap(), &mut Registry::default()).unwrap();
    let question = call("t", &json!({})).to_vec();
    let (_, answer) = post(&app, "application/json", question).await;
    assert_eq!(answer["result"]["decision"], "allow");
    let verified = guardian::audit::verify(&dir.path().join("audit.jsonl")).unwrap();
    assert_eq!(verified.records, 5);
    let text = std::fs::read_to_string(dir.path().join("audit.jsonl")).unwrap();
    assert!(text.lines().nth(2).unwrap().contains(r#""event":"recovery""#));
    assert!(
        std::fs::read_to_string(dir.path().join("audit.jsonl.torn"))
            .unwrap()
            .starts_with("{\"v\":1,\"seq\":3")
    );
}

#[tokio::test]
async fn a_guardian_that_cannot_start_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let open = |policy: PolicySource| {
        let config = Config::new(policy, dir.path());
        App::open(config, || NOW.parse().unwrap(), &mut Registry::default()).map(drop).unwrap_err()
    };
    assert_eq!(open(PolicySource::File(dir.path().join("none.yaml"))).code(), "policy_unreadable");
    assert_eq!(open(PolicySource::Text("version: 3".to_owned())).code(), "policy_invalid");
    std::fs::write(dir.path().join("audit.jsonl"), "{}\n").unwrap();
    assert_eq!(open(PolicySource::AllowAll).code(), "audit_broken");
    let world = World::new(POLICY);
    let again = Config::new(PolicySource::AllowAll, world.dir.path().join("guardian"));
    let error = App::open(again, || NOW.parse().unwrap(), &mut Registry::default()).unwrap_err();
    assert_eq!(error.code(), "audit_in_use");
}

/// The messages that this guardian sends are such as its own reader takes.
#[tokio::test]
async fn a_modified_request_can_be_asked_about_again() {
    let world = World::new(POLICY);
    let question = call("weather.now", &json!({"city": "Paris"}));
    let (_, answer) = post(&world.app, "application/json", question.to_vec()).await;
    let modified = answer["result"]["modifiedRequest"].to_string();
    let (_, answer) = post(&world.app, "application/json", modified.clone()).await;
    assert_eq!(answer["result"]["decision"], "allow");
    let read = Request::from_slice(modified.as_bytes(), aos::message::Limits::default()).unwrap();
    assert!(matches!(read.call, MethodCall::ToolCallRequest(_)));
}

/// What the executor reads by default, escaped in the worst way, is judged over HTTP and in process,
/// and the log keeps the beginning alone.
#[tokio::test]
async fn a_long_response_is_judged_and_not_kept() {
    let world = World::new("version: 1\ndefault: allow");
    // The JSON text of a response whose body is text, as the executor sends it.
    let body = "\u{1}\"".repeat(4 << 20);
    let message = result("t", &[&json!(body).to_string()]);
    let text = message.to_vec();
    assert!(8 << 20 < text.len(), "{}", text.len());
    let (status, answer) = post(&world.app, "application/json", text.clone()).await;
    assert_eq!((status, &answer["result"]["decision"]), (200.try_into().unwrap(), &json!("allow")));
    let client = aos::GuardianClient::in_process(
        std::sync::Arc::new(world.app.clone()),
        aos::Options { timeout: std::time::Duration::from_secs(120), ..aos::Options::default() },
    );
    assert_eq!(client.ask(&message).await.verdict, Verdict::Allow);
    let log = std::fs::metadata(world.dir.path().join("guardian/audit.jsonl")).unwrap().len();
    assert!(log < 16 << 10, "{log}");
}
