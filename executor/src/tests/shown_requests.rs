//! The requests and results that guardians see, in runs with secrets.

use std::cell::Cell;

use a2s_api::EventKind;
use aos::message::{Decision, Request};
use axum::http::Method;
use guardian::Policy;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

use super::world::{
    World, allow, assert_succeeded, call, deny, events, output, run, sequence, task,
};
use crate::App;

/// A step with one header and one query parameter besides those in its path.
fn step(call: &str, inputs: Value) -> Value {
    let mut step = task("send", call, inputs, json!({"x": "$.value"}));
    let paths = step["task"]["paths"].as_object_mut().unwrap();
    let operation = paths.values_mut().next().unwrap().as_object_mut().unwrap();
    let parameters = operation.values_mut().next().unwrap()["parameters"].as_array_mut().unwrap();
    parameters.extend([
        json!({"name": "X-Key", "in": "header", "schema": {"type": "string"}}),
        json!({"name": "q", "in": "query", "schema": {"type": "string"}}),
    ]);
    step
}

fn publish(world: &World, name: &str, secrets: &[&str], step: &Value) {
    let parameters: Vec<_> =
        ["a", "b"].map(|name| json!({"name": name, "secret": secrets.contains(&name)})).into();
    let rest = json!({"parameters": parameters, "execution": sequence(json!([step]))});
    world.registry.publish_newer(name, &rest);
}

fn hidden(question: &Value) -> Vec<String> {
    let paths = question.pointer("/params/context/hidden/paths").cloned().unwrap_or(json!([]));
    serde_json::from_value(paths).unwrap()
}

fn request(question: &Value) -> &Value {
    &question["params"]["context"]["request"]
}

async fn sent(app: &App, id: uuid::Uuid) -> Vec<String> {
    let events = events(app, id).await.into_iter();
    let sent = events.filter_map(|event| match event.kind {
        EventKind::Sending { url, .. } => Some(url),
        _ => None,
    });
    sent.collect()
}

#[tokio::test]
async fn a_secret_does_not_hide_text_of_the_document() {
    let world = World::new().await;
    let inputs = json!({
        "headerParameters": {"X-Key": "${a}"}, "queryParameters": {"q": "Bearer admin ${b}"},
        "body": {"do": "admin", "with": "my ${a}"},
    });
    publish(&world, "Literal", &["a"], &step("POST /echo/admin", inputs));
    world.guardian.decide(|question| {
        let path = request(question)["path"].as_str();
        if path.is_some_and(|path| path.starts_with("/echo/admin")) { deny() } else { allow() }
    });
    let app = world.open().await;
    let denied = run(&app, "Literal", json!({"a": "admin", "b": "x"})).await;
    assert_eq!(denied.error.unwrap().code, "A2S340");
    world.guardian.decide(|_| allow());
    let allowed = run(&app, "Literal", json!({"a": "admin", "b": "x"})).await;
    assert_succeeded(&allowed);
    let url = "https://api.example/echo/admin?q=Bearer%20admin%20x";
    for question in &world.guardian.asked()[..2] {
        let shown = request(question);
        assert_eq!((&shown["url"], &shown["path"]), (&json!(url), &json!("/echo/admin")));
        assert_eq!(shown["body"]["text"], r#"{"do":"admin","with":"my (secret)"}"#);
        assert_eq!(shown["headers"]["x-key"], "(secret)");
        let expected = [
            "/inputs/body/with",
            "/inputs/headerParameters/X-Key",
            "/request/body",
            "/request/headers/x-key",
        ];
        assert_eq!(hidden(question), expected);
    }
    assert_eq!(sent(&app, allowed.id).await, [url]);
}

#[tokio::test]
async fn a_secret_in_an_address_hides_path_and_url() {
    let world = World::new().await;
    let inputs = json!({"pathParameters": {"a": "${a}"}, "queryParameters": {"q": "${b}"}});
    publish(&world, "Path", &["a"], &step("GET /echo/{a}", inputs));
    let app = world.open().await;
    // One can be found in a text, the other is too short.
    for secret in ["admin", "ad"] {
        let before = world.guardian.asked().len();
        let ended = run(&app, "Path", json!({"a": secret, "b": "x"})).await;
        assert_succeeded(&ended);
        let question = &world.guardian.asked()[before];
        let expected = ["/inputs/pathParameters/a", "/request/path", "/request/url"];
        assert_eq!(hidden(question), expected);
        assert_eq!(request(question)["query"], "q=x");
        assert_eq!(sent(&app, ended.id).await, ["https://api.example/echo/(secret)?q=x"]);
    }
}

#[tokio::test]
async fn a_masked_target_of_a_redirect_is_named_as_hidden() {
    let world = World::new().await;
    let inputs = json!({"headerParameters": {"X-Key": "${a}"}});
    publish(&world, "Hop", &["a"], &step("GET /hop/302/admin/x", inputs));
    let app = world.open().await;
    let ended = run(&app, "Hop", json!({"a": "admin", "b": "x"})).await;
    assert_succeeded(&ended);
    let asked = world.guardian.asked();
    let (first, hop) = (&asked[0], &asked[1]);
    assert_eq!(request(first)["path"], "/hop/302/admin/x");
    assert_eq!(
        (&request(hop)["path"], &request(hop)["redirect"]),
        (&json!("/(secret)/x"), &json!(1))
    );
    assert_eq!(request(hop).get("asksAgain"), None);
    let expected = [
        "/inputs/headerParameters/X-Key",
        "/request/headers/x-key",
        "/request/path",
        "/request/url",
    ];
    assert_eq!(hidden(hop), expected);
}

#[tokio::test]
async fn a_part_that_cannot_be_masked_hides_nothing_else() {
    let world = World::new().await;
    let body = json!({"file": {"base64": "${a}"}, "sql": "DROP ${b}"});
    let inputs = json!({"body": body, "queryParameters": {"q": "DROP"}});
    let mut step = step("POST /echo/admin", inputs);
    let content = &mut step["task"]["paths"]["/echo/admin"]["post"]["requestBody"]["content"];
    *content = json!({"multipart/form-data": {"schema": {"type": "object", "properties": {
        "file": {"type": "string", "format": "binary"},
    }}}});
    publish(&world, "File", &["a"], &step);
    let app = world.open().await;
    // A base64 text of a secret is one, too.
    for (a, b) in [("c2VjcmV0LWZpbGU=", "x"), ("/w==", "x")] {
        let before = world.guardian.asked().len();
        assert_succeeded(&run(&app, "File", json!({"a": a, "b": b})).await);
        let asked = world.guardian.asked();
        let shown = request(&asked[before]);
        assert_eq!((&shown["path"], &shown["query"]), (&json!("/echo/admin"), &json!("q=DROP")));
        let text = shown["body"]["text"].as_str().unwrap();
        assert!(text.contains("DROP x") && text.contains("(secret)"), "{text}");
        let expected =
            ["/inputs/body/file/base64", "/request/body", "/request/headers/content-type"];
        assert_eq!(hidden(&asked[before]), expected);
    }
}

#[tokio::test]
async fn the_base64_of_a_secret_is_masked_in_binary_content() {
    let world = World::new().await;
    let inputs = json!({
        "headerParameters": {"X-Key": "${a}"}, "body": {"base64": "${b}", "content_type": "text/plain"},
    });
    let mut step = step("POST /echo/x", inputs);
    step["task"]["paths"]["/echo/x"]["post"]["requestBody"]["content"] = json!({"*/*": {}});
    publish(&world, "Packed", &["a"], &step);
    let app = world.open().await;
    // `my canarycore`
    let inputs = json!({"a": "canarycore", "b": "bXkgY2FuYXJ5Y29yZQ=="});
    assert_succeeded(&run(&app, "Packed", inputs).await);
    let question = &world.guardian.asked()[0];
    assert!(!question.to_string().contains("canarycore"), "{question}");
    assert!(hidden(question).contains(&"/request/body".to_owned()));
}

#[tokio::test]
async fn text_of_a_body_that_is_cut_or_binary_is_hidden() {
    let world = World::new().await;
    let mut binary = step("POST /echo/x", json!({"body": {"base64": "/w=="}}));
    binary["task"]["paths"]["/echo/x"]["post"]["requestBody"]["content"] =
        json!({"application/octet-stream": {}});
    publish(&world, "Binary", &[], &binary);
    publish(&world, "Long", &[], &step("POST /echo/x", json!({"body": "${a}"})));
    publish(&world, "Short", &[], &step("GET /echo/x", json!({})));
    let app = world.open().await;
    for name in ["Binary", "Long", "Short"] {
        let inputs = json!({"a": "x".repeat(9_000), "b": "x"});
        assert_succeeded(&run(&app, name, inputs).await);
    }
    let asked = world.guardian.asked();
    assert_eq!(hidden(&asked[0]), ["/request/body/text"]);
    assert_eq!(hidden(&asked[2]), ["/request/body/text"]);
    assert_eq!(hidden(&asked[4]), [""; 0]);
    let empty = &request(&asked[4])["body"];
    assert_eq!((&empty["bytes"], &empty["text"]), (&json!(0), &json!("")));
}

#[tokio::test]
async fn a_guardian_changes_outputs_taken_from_headers() {
    let world = World::new().await;
    let outputs = json!({
        "number": {"from": "header", "path": "X-Number"}, "status": {"from": "status"},
        "value": "$.value",
    });
    let first = task("first", "GET /echo/mail", json!({}), outputs);
    let second = task("second", "POST /say", json!({"body": "${number}"}), json!({"x": "$.body"}));
    let execution = json!({"execution": sequence(json!([first, second]))});
    world.registry.publish_newer("Head", &execution);
    let redact = |text: &'static str| {
        move |question: &Value| {
            let outputs = "/params/toolCallResult/result/outputs/1";
            let mut modified = question.clone();
            match modified.pointer_mut(outputs) {
                Some(part) => part["text"] = json!(text),
                None => return allow(),
            }
            json!({"decision": "modify", "message": "less", "modifiedRequest": modified})
        }
    };
    world.guardian.decide(redact(r#"{"number": "[redacted]", "status": 299}"#));
    let app = world.open().await;
    let ended = run(&app, "Head", json!({})).await;
    assert_succeeded(&ended);
    let question = &world.guardian.asked()[1]["params"]["toolCallResult"]["result"]["outputs"];
    assert_eq!(question[1]["text"], r#"{"number":"1","status":200}"#);
    let given = output(&ended);
    assert_eq!((&given["number"], &given["status"]), (&json!("[redacted]"), &json!(299)));
    assert_eq!(world.service.asked()[1].1, json!("[redacted]"));
    let changes = &ended.steps[0].decisions[1].changes;
    let names: Vec<_> = changes.iter().map(|change| change.name.as_str()).collect();
    assert_eq!(names, ["outputs[1].number", "outputs[1].status"]);
    // What is kept for replays has the allowed values, and no header that no guardian saw.
    let path = format!("/v1/executions/{}/exchanges", ended.id);
    let kept = call(&app, Method::GET, &path, &[], Value::Null).await.body;
    let response = &kept["exchanges"][0]["response"];
    assert_eq!(response["headers"], json!({"x-number": "[redacted]"}));
    assert_eq!(response["status"], 299);

    for unusable in [r#"{"number": "1"}"#, r#"{"number": "1", "other": 1}"#, "[]", "x"] {
        world.guardian.decide(redact(unusable));
        let denied = run(&app, "Head", json!({})).await;
        assert_eq!(denied.error.unwrap().code, "A2S343", "{unusable}");
    }
}

/// A secret that stands nowhere else.
const CANARY: &str = "zq-canary-1";

fn text() -> impl Strategy<Value = String> {
    let texts =
        ["admin", "DROP", "true", "7131", "ad", "/x", "ada@example.org", "é\"\\", "x y&z", CANARY];
    prop::sample::select(texts.map(str::to_owned).to_vec())
}

/// A template of literal texts and of the variables `a` and `b`.
fn template() -> impl Strategy<Value = String> {
    let literal = text().prop_filter("it is a secret", |text| text != CANARY);
    let part = prop_oneof![literal, Just("${a}".to_owned()), Just("${b}".to_owned())];
    prop::collection::vec(part, 1..4).prop_map(|parts| parts.concat())
}

/// A condition that reads requests, inputs and outputs.
fn condition() -> impl Strategy<Value = String> {
    let forms = prop::sample::select(vec![
        "request.path.contains(T)",
        "request.query.contains(T)",
        "request.url == T",
        "T in request.segments",
        "request.method == 'POST'",
        "'x-key' in request.headers",
        "request.headers['x-key'] == T",
        "request.body.text.contains(T)",
        "size(request.body.text) < 30",
        "inputs.queryParameters.q == T",
        "has(inputs.body) && inputs.body.first.startsWith(T)",
        "inputs.headerParameters['X-Key'].contains(T)",
        "outputs.exists(part, part.contains(T))",
    ]);
    let atom = (forms, text()).prop_map(|(form, text)| form.replace('T', &json!(text).to_string()));
    atom.prop_recursive(3, 6, 2, |inner| {
        let operator = prop::sample::select(vec!["&&", "||"]);
        prop_oneof![
            inner.clone().prop_map(|operand| format!("!({operand})")),
            (inner.clone(), operator, inner)
                .prop_map(|(left, operator, right)| format!("({left}) {operator} ({right})")),
        ]
    })
}

/// A policy with one rule that denies, or with one that allows what nothing else does.
fn policy() -> impl Strategy<Value = Policy> {
    (condition(), any::<bool>()).prop_map(|(when, denies)| {
        let [default, decision] = if denies { ["allow", "deny"] } else { ["deny", "allow"] };
        let rule = json!({"id": "rule", "when": when, "decision": decision});
        let policy = json!({"version": 1, "default": default, "rules": [rule]});
        Policy::parse(&policy.to_string()).unwrap()
    })
}

fn is_denied(policy: &Policy, question: &Value) -> bool {
    let request = Request::from_value(question.clone()).unwrap();
    matches!(policy.decide(&request).response.decision, Decision::Deny)
}

/// Set when the request is redirected; templates for path, query, header and body; the index of a media type;
/// the values of `a` and `b`; and policies.
type Case = (bool, [String; 4], usize, [String; 2], Vec<Policy>);

fn case() -> impl Strategy<Value = Case> {
    let templates = [template(), template(), template(), template()];
    let policies = prop::collection::vec(policy(), 16);
    (any::<bool>(), templates, 0..4_usize, [text(), text()], policies)
}

/// Checks that each part of a question is the true one or hidden.
fn check_part(path: &str, actual: &Value, shown: &Value, hidden: &[String]) {
    let covers = |hidden: &String| path == hidden || path.starts_with(&format!("{hidden}/"));
    if hidden.iter().any(covers) {
        return;
    }
    match (actual, shown) {
        (Value::Object(actual), Value::Object(shown)) => {
            assert_eq!(actual.len(), shown.len(), "{path}");
            for (name, actual) in actual {
                let name_in_path = name.replace('~', "~0").replace('/', "~1");
                let shown = shown.get(name).unwrap_or_else(|| panic!("{path}: {name}"));
                check_part(&format!("{path}/{name_in_path}"), actual, shown, hidden);
            }
        }
        (Value::Array(actual), Value::Array(shown)) => {
            assert_eq!(actual.len(), shown.len(), "{path}");
            for (index, (actual, shown)) in actual.iter().zip(shown).enumerate() {
                check_part(&format!("{path}/{index}"), actual, shown, hidden);
            }
        }
        _ => assert_eq!(actual, shown, "{path} is not named in {hidden:?}"),
    }
}

fn inputs_of(question: &Value) -> Value {
    let mut inputs = json!({});
    let given = question.pointer("/params/toolCallRequest/inputs").and_then(Value::as_array);
    for input in given.into_iter().flatten() {
        let mut inner = &mut inputs;
        for name in input["name"].as_str().unwrap().split('.') {
            inner = &mut inner[name];
        }
        *inner = input["value"].clone();
    }
    inputs
}

/// Besides, no policy that denies the true question allows the shown one.
#[test]
fn every_part_of_a_question_is_true_or_named_as_hidden() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (world, app) = runtime.block_on(async {
        let world = World::new().await;
        let app = world.open().await;
        (world, app)
    });
    let cases = Cell::new(0);
    let mut runner = TestRunner::new(Config { cases: 24, ..Config::default() });
    let check = |case: Case| {
        let (redirects, [path, query, header, body], media_type, [a, b], policies) = case;
        let call = if redirects { "GET /hop/302/echo/{t}" } else { "POST /echo/{t}" };
        let media_type: &str = [
            "application/json",
            "application/x-www-form-urlencoded",
            "multipart/form-data",
            "text/plain",
        ][media_type];
        let mut inputs = json!({
            "pathParameters": {"t": path}, "queryParameters": {"q": query},
            "headerParameters": {"X-Key": header},
        });
        if !redirects {
            let file = json!({"text": body});
            inputs["body"] = match media_type {
                "text/plain" => json!(body),
                _ => json!({"first": body, "list": [body, 1], "file": file}),
            };
        }
        let mut step = step(call, inputs);
        if !redirects {
            let content = &mut step["task"]["paths"]["/echo/{t}"]["post"]["requestBody"]["content"];
            *content = json!({ media_type: {"schema": {}} });
        }
        runtime.block_on(async {
            let number = cases.get();
            cases.set(number + 1);
            let [open, secret] = ["Open", "Secret"].map(|name| format!("{name}{number}"));
            publish(&world, &open, &[], &step);
            publish(&world, &secret, &["a"], &step);
            let given = json!({"a": a, "b": b});
            let before = world.guardian.asked().len();
            run(&app, &open, given.clone()).await;
            let between = world.guardian.asked().len();
            let secret = run(&app, &secret, given).await;
            let asked = world.guardian.asked();
            let events = json!(events(&app, secret.id).await).to_string();
            let pairs = asked[before..between].iter().zip(&asked[between..]);
            // An address with a short secret is not redirected.
            let pairs = pairs.take_while(|(actual, shown)| actual["method"] == shown["method"]);
            for (actual, shown) in pairs {
                let hidden = hidden(shown);
                for policy in &policies {
                    let is_passed = is_denied(policy, actual) && !is_denied(policy, shown);
                    assert!(!is_passed, "{}\n{actual}\n{shown}", policy.text());
                }
                let mut seen = request(shown).clone();
                // The keyed digest of what is masked.
                if let Some(seen) = seen.as_object_mut() {
                    seen.remove("sealed");
                }
                check_part("/request", request(actual), &seen, &hidden);
                check_part("/inputs", &inputs_of(actual), &inputs_of(shown), &hidden);
                let outputs = "/params/toolCallResult/result/outputs";
                for (index, part) in shown
                    .pointer(outputs)
                    .and_then(Value::as_array)
                    .into_iter()
                    .flatten()
                    .enumerate()
                {
                    // The number of the request differs.
                    let is_masked = part.to_string().contains("(secret)");
                    assert_eq!(hidden.contains(&format!("/outputs/{index}")), is_masked);
                }
                let is_literal = |template: &str| !template.contains("${");
                if request(shown).get("redirect").is_none() {
                    for (template, path) in [
                        (&header, "/request/headers/x-key"),
                        (&path, "/request/path"),
                        (&query, "/request/query"),
                        (&body, "/request/body"),
                    ] {
                        assert!(!is_literal(template) || !hidden.contains(&path.to_owned()));
                    }
                }
            }
            if a == CANARY {
                let asked = json!(asked[between..]).to_string();
                assert!(!asked.contains(CANARY), "{asked}");
                assert!(!events.contains(CANARY), "{events}");
            }
        });
        Ok(())
    };
    runner.run(&case(), check).unwrap();
    runtime.block_on(app.shutdown(std::time::Duration::ZERO));
}
