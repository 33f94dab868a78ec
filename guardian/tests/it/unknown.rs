//! Facts that a message hides or does not state.

use aos::message::{Decision, MethodCall, Request};
use guardian::{Policy, PolicySource, TokenDigest};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::world::{World, call, message, result};

/// A call with this prepared request and these pointers to hidden facts.
fn hiding(inputs: &Value, request: Value, hidden: &[&str]) -> Request {
    let mut call = call("t", inputs);
    let MethodCall::ToolCallRequest(step) = &mut call.call else { panic!("no call") };
    let context = &mut step.context.extra;
    if let Value::Object(request) = request {
        context.insert("request".to_owned(), request);
    }
    if !hidden.is_empty() {
        let hidden = json!({ "paths": hidden }).as_object().unwrap().clone();
        context.insert("hidden".to_owned(), hidden);
    }
    call
}

fn sent(path: &str, body: &str) -> Value {
    json!({"method": "POST", "url": format!("https://api.example{path}"), "host": "api.example",
        "path": path, "query": "", "headers": {"x-key": "1"},
        "body": {"text": body, "bytes": body.len(), "checksum": "sha256:00", "truncated": false}})
}

fn policy(default: &str, rules: &str) -> Policy {
    Policy::parse(&format!("version: 1\ndefault: {default}\nrules:\n{rules}\n")).unwrap()
}

fn codes(policy: &Policy, request: &Request) -> String {
    let response = policy.decide(request).response;
    format!("{} {}", response.decision.as_str(), response.reason_codes.join("+"))
}

/// The result of a condition for a message.
#[track_caller]
fn check(when: &str, request: &Request, expected: Option<bool>) {
    let rule =
        |decision: &str| format!("  - {{id: r, when: {}, decision: {decision}}}", json!(when));
    let denied = codes(&policy("allow", &rule("deny")), request);
    let allowed = codes(&policy("deny", &rule("allow")), request);
    let (deny, allow) = match expected {
        Some(true) => ("deny r", "allow "),
        Some(false) => ("allow ", "deny default_deny"),
        None => ("deny r+fact_unknown", "deny default_deny+fact_unknown"),
    };
    assert_eq!((denied.as_str(), allowed.as_str()), (deny, allow), "{when}");
}

#[test]
fn a_hidden_fact_counts_for_denials_and_not_for_permissions() {
    let inputs = json!({"body": {"amount": 20, "to": "(x)"}, "pathParameters.city": "Paris"});
    let request = hiding(
        &inputs,
        sent("/pub", "{}"),
        &[
            "/inputs/body/to",
            "/request/path",
            "/request/headers/X-Key",
            "/inputs/pathParameters.city",
        ],
    );
    for when in [
        "inputs.body.to == 'a'",
        "inputs.body.to != 'a'",
        "has(inputs.body.to)",
        "inputs.body == {}",
        "inputs.pathParameters.city == 'a'",
        "inputs['pathParameters.city'] == 'a'",
        "'body' in inputs && inputs.body.to == 'a'",
        "request.path.startsWith('/admin')",
        "'admin' in request.segments",
        "request.url.endsWith('/x')",
        "request.headers['x-key'] == '2'",
        "'x-key' in request.headers",
        "request.headers.exists(h, h == 'other')",
        "request == {}",
        "params.context.request.path == '/a'",
        "params.toolCallRequest.inputs.exists(i, i.value == 'a')",
        "inputs.body.amount < 100 && inputs.body.to == 'a'",
        "request.path == '/a' ? true : inputs.body.amount > 100",
    ] {
        check(when, &request, None);
    }
    for (when, expected) in [
        ("has(inputs.body) && inputs.body.amount == 20", true),
        ("inputs.body.amount > 100 && inputs.body.to == 'a'", false),
        ("inputs.body.to == 'a' && inputs.body.amount > 100", false),
        ("request.path == '/a' || request.host == 'api.example'", true),
        ("'x-debug' in request.headers", false),
        ("request.method == 'POST' && request.body.text == '{}'", true),
        ("request.path == '/a' ? true : true", true),
        ("tool == 't' && size(inputs.body) > 0 || true", true),
        ("params.toolCallRequest.toolId == 't'", true),
    ] {
        check(when, &request, Some(expected));
    }
}

#[test]
fn a_placeholder_hides_its_text_without_a_pointer() {
    let inputs = json!({"body": {"a": ["x", "to (secret)"], "b": "y"}});
    let request = hiding(&inputs, sent("/%28secret%29/x", "{\"pin\":\"(secret)\"}"), &[]);
    for when in [
        "inputs.body.a[1] == 'x'",
        "inputs.body.a.exists(t, t == 'z')",
        "request.path == '/a'",
        "request.url == 'a'",
        "request.body.text.contains('DROP')",
        "request.body.checksum == 'a'",
        "request.body.bytes > 1000",
    ] {
        check(when, &request, None);
    }
    check("inputs.body.a[0] == 'x' && inputs.body.b == 'y'", &request, Some(true));
    check("request.query == '' && request.host == 'api.example'", &request, Some(true));
    let output = result("t", &["x", "ada(secret)"]);
    check("outputs[1].contains('@')", &output, None);
    check("texts.exists(t, t.contains('@'))", &output, None);
    check("outputs[0] == 'x'", &output, Some(true));
}

#[test]
fn what_a_request_does_not_state_is_unknown() {
    let bare = call("t", &json!({"a": 1}));
    check("request.path == '/a'", &bare, None);
    check("has(request.body)", &bare, None);
    check("inputs.a == 1", &bare, Some(true));
    let partial = |method: &str| hiding(&json!({}), json!({"method": method, "path": "/a"}), &[]);
    check("request.body.text == ''", &partial("GET"), Some(true));
    check("request.body.text == ''", &partial("POST"), None);
    check("request.query == ''", &partial("GET"), None);
    check("request.path == '/a'", &partial("POST"), Some(true));
    for (body, expected) in [
        (json!({"bytes": 0, "text": "", "checksum": "c", "truncated": false}), Some(false)),
        (json!({"bytes": 9, "text": "abc", "checksum": "c", "truncated": true}), None),
        (json!({"bytes": 9, "checksum": "c", "truncated": true}), None),
        (json!({"bytes": 9, "checksum": "c"}), None),
    ] {
        let mut request = sent("/a", "");
        request["body"] = body.clone();
        let request = hiding(&json!({}), request, &[]);
        check("request.body.text.contains('DROP')", &request, expected);
        check("request.body.bytes > 100", &request, Some(false));
        check("request.body.checksum == 'c'", &request, Some(true));
    }
    // Other messages are about no request.
    check("request.path == ''", &result("t", &["x"]), Some(true));
    let rpc = |extra: Value| {
        let mut params = json!({"message": {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": "t", "arguments": {"q": "x"}}}});
        params.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        message("protocols/MCP", params)
    };
    check("request.path == '/a'", &rpc(json!({"executionId": "x"})), None);
    check("inputs.q == 'x'", &rpc(json!({"executionId": "x"})), Some(true));
}

#[test]
fn a_hidden_member_that_cannot_be_read_hides_everything() {
    for paths in [json!("x"), json!([1]), json!(["inputs"]), json!(["/nothing"]), json!(null)] {
        let mut request = hiding(&json!({"a": 1}), sent("/a", ""), &["/inputs"]);
        let MethodCall::ToolCallRequest(step) = &mut request.call else { panic!("no call") };
        step.context.extra.get_mut("hidden").unwrap().insert("paths".to_owned(), paths);
        check("inputs.a == 1", &request, None);
        check("tool == 't'", &request, None);
    }
}

#[test]
fn a_hidden_name_matches_restrictions_only() {
    let mut request = hiding(&json!({}), sent("/a", ""), &["/tool", "/capability/host"]);
    let MethodCall::ToolCallRequest(step) = &mut request.call else { panic!("no call") };
    step.context.user = Some(aos::message::User::new("ada".to_owned()));
    for name in ["tool: other", "host: other.example"] {
        let rule = |decision: &str| format!("  - {{id: r, {name}, decision: {decision}}}");
        assert_eq!(codes(&policy("allow", &rule("deny")), &request), "deny r+fact_unknown");
        let denied = codes(&policy("deny", &rule("allow")), &request);
        assert_eq!(denied, "deny default_deny+fact_unknown");
    }
    let rule = "  - {id: r, capability: other, tool: other, decision: deny}";
    assert_eq!(codes(&policy("allow", rule), &request), "allow ");
}

#[test]
fn a_budget_over_a_hidden_amount_is_exceeded() {
    let request = hiding(&json!({"amount": 1}), sent("/a", ""), &["/inputs/amount"]);
    let rule =
        "  - {id: r, on: toolCallRequest, limit: {spend: inputs.amount, most: 10}, decision: deny}";
    assert_eq!(codes(&policy("allow", rule), &request), "deny r+fact_unknown");
}

#[test]
fn the_message_names_the_unknown_fact() {
    let request = hiding(&json!({}), sent("/a", ""), &["/request/path"]);
    let rule = "  - {id: r, when: request.path == '/x', decision: deny, message: No.}";
    let response = policy("allow", rule).decide(&request).response;
    assert_eq!(
        response.message,
        "No. The rule r applies because request.path is hidden or not stated."
    );
}

/// With the true value, the default or a later rule might deny.
#[test]
fn a_rule_that_may_not_apply_does_not_replace_a_denial() {
    let request = hiding(&json!({"a": "x"}), sent("/a", ""), &["/inputs/a"]);
    let ask = "  - {id: ask, when: inputs.a == 'y', decision: approve}";
    let set = "  - {id: set, when: inputs.a == 'y', decision: modify, modify: {set: {b: 1}}}";
    let denied = "deny default_deny";
    assert_eq!(codes(&policy("deny", ask), &request), denied);
    assert!(codes(&policy("deny", set), &request).starts_with(denied));
    let later = format!("{ask}\n  - {{id: no, decision: deny}}");
    assert_eq!(codes(&policy("allow", &later), &request), "deny no");
    let later = format!("{ask}\n  - {{id: yes, decision: allow}}");
    assert_eq!(codes(&policy("deny", &later), &request), "deny approval_required+fact_unknown");
    let asked = codes(&policy("allow", ask), &request);
    assert_eq!(asked, "deny approval_required+fact_unknown");
}

fn modified(policy: &Policy, request: &Request) -> MethodCall {
    match policy.decide(request).response.decision {
        Decision::Modify(changed) => changed.call,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_redaction_replaces_a_hidden_text_as_a_whole() {
    let redact =
        policy("allow", "  - {id: r, decision: modify, modify: {redact: [{pattern: email}]}}");
    let texts =
        ["ada(secret)", r#"{"mail":"ada(secret)","name":"Ada","n":1,"x":"b@example.org, c"}"#];
    let MethodCall::ToolCallResult(step) = modified(&redact, &result("t", &texts)) else {
        panic!()
    };
    let outputs: Vec<_> = step.result.outputs.iter().map(|part| part.text.as_str()).collect();
    let expected = r#"{"mail":"[redacted]","name":"Ada","n":1,"x":"[redacted], c"}"#;
    assert_eq!(outputs, ["[redacted]", expected]);
    let inputs = json!({"body": {"a": "x", "b": "y", "c": "(secret)"}, "d": 7});
    let request = hiding(&inputs, sent("/a", ""), &["/inputs/body/b", "/inputs/d"]);
    let MethodCall::ToolCallRequest(step) = modified(&redact, &request) else { panic!() };
    let inputs = &step.tool_call_request.inputs;
    let values: Vec<_> = inputs.iter().map(|input| input.value.clone()).collect();
    let body = json!({"a": "x", "b": "[redacted]", "c": "[redacted]"});
    assert_eq!(values, [body, json!("[redacted]")]);
}

#[test]
fn a_named_hidden_output_is_redacted_as_a_whole() {
    let redact =
        policy("allow", "  - {id: r, decision: modify, modify: {redact: [{pattern: card}]}}");
    let mut request = result("t", &["cut", r#"{"a":"x","n":2}"#, "shown"]);
    let MethodCall::ToolCallResult(step) = &mut request.call else { panic!("no result") };
    let hidden = json!({"paths": ["/outputs/0", "/outputs/1"]});
    step.context.extra.insert("hidden".to_owned(), hidden.as_object().unwrap().clone());
    let MethodCall::ToolCallResult(step) = modified(&redact, &request) else { panic!() };
    let outputs: Vec<_> = step.result.outputs.iter().map(|part| part.text.as_str()).collect();
    assert_eq!(outputs, ["[redacted]", r#"{"a":"[redacted]","n":"[redacted]"}"#, "shown"]);
}

#[test]
fn a_hidden_input_that_a_rule_sets_is_known() {
    let request = hiding(&json!({"a": "(secret)"}), sent("/a", ""), &["/inputs/a"]);
    let rules = "
  - {id: set, decision: modify, modify: {set: {a: y}}}
  - {id: no, when: inputs.a == 'x', decision: deny}
  - {id: yes, when: inputs.a == 'y', decision: allow}";
    let MethodCall::ToolCallRequest(step) = modified(&policy("deny", rules), &request) else {
        panic!()
    };
    assert_eq!(step.tool_call_request.inputs[0].value, "y");
}

const CHANGED: &str = "
  - {id: set, when: inputs.a == 'x', decision: modify, modify: {set: {a: y}}}
  - {id: no, when: \"request.body.text.contains('DROP')\", decision: deny}";

fn asking_again(inputs: &Value, body: &str) -> Request {
    let mut request = sent("/a", body);
    request["asksAgain"] = json!(true);
    hiding(inputs, request, &[])
}

#[test]
fn a_request_is_stale_after_a_change() {
    let rules = policy("allow", CHANGED);
    let (before, after) = (json!({"a": "x"}), json!({"a": "y"}));
    // The last round, and an agent that does not ask again.
    let stale = codes(&rules, &hiding(&before, sent("/a", "fine"), &[]));
    assert_eq!(stale, "deny no+fact_unknown");
    // The next round decides.
    assert_eq!(codes(&rules, &asking_again(&before, "fine")), "modify ");
    assert_eq!(codes(&rules, &asking_again(&after, "fine")), "allow ");
    assert_eq!(codes(&rules, &asking_again(&after, "DROP")), "deny no");
    // What does not depend on the request is decided at once.
    let rules = policy(
        "allow",
        &format!("{CHANGED}\n  - {{id: y, when: inputs.a == 'y', decision: deny}}"),
    );
    assert_eq!(codes(&rules, &asking_again(&before, "fine")), "modify ");
    let first = CHANGED.replace("request.body.text.contains('DROP')", "inputs.a == 'y'");
    assert_eq!(codes(&policy("allow", &first), &asking_again(&before, "fine")), "deny no");
}

#[tokio::test]
async fn no_person_approves_a_stale_request() {
    let rules = "
  - {id: set, when: inputs.a == 'x', decision: modify, modify: {set: {a: y}}}
  - {id: ask, decision: approve}";
    let policy = format!("version: 1\ndefault: allow\nrules:{rules}\n");
    let world = World::with(PolicySource::Text(policy), |config| {
        config.token = Some(TokenDigest::new("s3cret"));
    });
    let answer = world.ask(&asking_again(&json!({"a": "x"}), "x")).await;
    assert_eq!(answer["decision"], "modify");
    let answer = world.ask(&asking_again(&json!({"a": "y"}), "y")).await;
    assert_eq!(answer["reasonCode"], json!(["approval_required"]));
    let records = world.records();
    let asked = records.iter().filter(|record| record["approval"]["is"] == "asked");
    assert_eq!(asked.count(), 1);
    // An agent that does not ask again: the person sees the changed inputs, and no request.
    let answer = world.ask(&hiding(&json!({"a": "x", "b": 1}), sent("/a", "x"), &[])).await;
    let id = answer["data"]["approval_id"].as_str().unwrap().to_owned();
    let path = format!("/v1/approvals/{id}");
    let (_, approval) = world.send("GET", &path, Some("s3cret"), Vec::new()).await;
    let subject = &approval["approval"]["subject"];
    assert_eq!(subject["content"]["toolCallRequest"]["inputs"][0]["value"], "y", "{subject}");
    assert_eq!(subject.get("prepared"), None);
}

#[tokio::test]
async fn rounds_of_one_execution_are_counted_once() {
    let policy = "version: 1\ndefault: allow\nrules:
  - {id: two, on: toolCallRequest, limit: {spend: inputs.n, most: 20}, decision: deny}
  - {id: set, when: inputs.a == 'x', decision: modify, modify: {set: {a: y}}}\n";
    let world = World::new(policy);
    let round = |execution: &str, a: &str, n: i64| {
        let mut request = asking_again(&json!({"a": a, "n": n}), "");
        let MethodCall::ToolCallRequest(step) = &mut request.call else { panic!("no call") };
        step.tool_call_request.execution_id = execution.to_owned();
        request
    };
    // The guardian changes the request, and then a later guardian does.
    for (request, decision) in [
        (round("1", "x", 10), "modify"),
        (round("1", "y", 10), "allow"),
        (round("1", "z", 10), "allow"),
        (round("2", "y", 10), "allow"),
        (round("2", "y", 11), "deny"),
        (round("3", "y", 1), "deny"),
    ] {
        assert_eq!(world.ask(&request).await["decision"], decision, "{request:?}");
    }
    // The log leads to the same counts.
    let world = world.restart();
    assert_eq!(world.ask(&round("4", "y", 1)).await["decision"], "deny");
    let charged = world.records();
    let charged = charged.iter().filter_map(|record| record["charges"].as_array());
    assert_eq!(charged.map(Vec::len).sum::<usize>(), 2);
}

#[test]
fn the_cases_of_a_policy_can_hide_facts() {
    let cases = "
cases:
  - name: hidden
    request: {hidden: [/request/path], request: {path: /a}}
    expect: {decision: deny, reason_codes: [r, fact_unknown], message: request.path}
  - {name: known, request: {request: {path: /a}}, expect: allow}
  - {name: empty, request: {}, expect: allow}
";
    let policy = policy("allow", "  - {id: r, when: request.path == '/x', decision: deny}");
    let suite = guardian::policy_tests::PolicyTestSuite::parse(cases).unwrap();
    for outcome in suite.run(&policy, None) {
        assert!(outcome.has_passed(), "{outcome:#?}");
    }
}

#[tokio::test]
async fn the_log_has_what_was_hidden() {
    let world = World::new("version: 1\ndefault: allow\n");
    world.ask(&hiding(&json!({"a": "x"}), sent("/a", ""), &["/inputs/a"])).await;
    assert_eq!(world.records().last().unwrap()["hidden"], json!({"paths": ["/inputs/a"]}));
}

fn strictness(policy: &Policy, inputs: &Value, hidden: &[&str]) -> u8 {
    let response = policy.decide(&hiding(inputs, sent("/a", ""), hidden)).response;
    let is_asked = response.reason_codes.iter().any(|code| code == "approval_required");
    match response.decision {
        Decision::Allow => 0,
        Decision::Modify(_) => 1,
        Decision::Deny if is_asked => 2,
        Decision::Deny => 3,
    }
}

proptest! {
    #[test]
    fn a_hidden_fact_is_judged_as_strictly_as_any_value(
        rules in prop::collection::vec(
            (prop::sample::select(&["allow", "deny", "approve", "modify, modify: {set: {c: 1}}"][..]), condition()),
            1..5,
        ),
        is_open in any::<bool>(),
        b in 0..3,
    ) {
        let rules = rules.iter().enumerate().map(|(at, (decision, when))| {
            format!("  - {{id: r{at}, when: {}, decision: {decision}}}\n", json!(when))
        });
        let policy = policy(if is_open { "allow" } else { "deny" }, &rules.collect::<String>());
        let hidden = strictness(&policy, &json!({"a": 0, "b": b}), &["/inputs/a"]);
        for a in 0..3 {
            let known = strictness(&policy, &json!({"a": a, "b": b}), &[]);
            prop_assert!(known <= hidden, "{} a={a}: {known} > {hidden}", policy.text());
        }
    }
}

/// A condition over two small numbers.
fn condition() -> impl Strategy<Value = String> {
    let leaf = (prop::sample::select(&["inputs.a", "inputs.b"][..]), 0..3)
        .prop_map(|(name, number)| format!("{name} == {number}"));
    leaf.prop_recursive(3, 8, 2, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}) && ({b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}) || ({b})")),
            inner.clone().prop_map(|a| format!("!({a})")),
            (inner.clone(), inner.clone(), inner)
                .prop_map(|(a, b, c)| format!("({a}) ? ({b}) : ({c})")),
        ]
    })
}
