//! What rules decide, and what a bad policy is told.

use aos::message::{Decision, MethodCall, Request, ToolArgumentValue};
use guardian::{Policy, PolicyDecision};
use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::world::{call, message, result};

/// A policy of these rules that denies what no rule is about.
fn policy(rules: &str) -> Policy {
    Policy::parse(&format!("version: 1\ndefault: deny\nrules:\n{rules}")).unwrap()
}

/// The decision, the rules that applied and the reason codes.
fn told(ruling: &PolicyDecision) -> (&str, Vec<&str>, Vec<&str>) {
    let codes = ruling.response.reason_codes.iter().map(String::as_str).collect();
    (ruling.response.decision.as_str(), ruling.rules.iter().map(String::as_str).collect(), codes)
}

#[track_caller]
fn check(rules: &str, request: &Request, decision: &str, applied: &[&str], codes: &[&str]) {
    assert_eq!(told(&policy(rules).decide(request)), (decision, applied.to_vec(), codes.to_vec()));
}

/// Whether a condition holds for a message.
#[track_caller]
fn check_when(when: &str, request: &Request, holds: bool) {
    let rules = format!("  - {{id: r, decision: allow, when: {}}}", json!(when));
    let expected = if holds { "allow" } else { "deny" };
    let ruling = policy(&rules).decide(request);
    assert_eq!(ruling.response.decision.as_str(), expected, "{when}: {}", ruling.response.message);
    assert_ne!(
        ruling.response.reason_codes,
        ["policy_error"],
        "{when}: {}",
        ruling.response.message
    );
}

/// The inputs of the call after these changes.
#[track_caller]
fn check_inputs(modify: &str, inputs: &Value, expected: &Value) {
    let rules = format!("  - {{id: r, decision: modify, modify: {modify}}}");
    let request = call("t", inputs);
    let answer = policy(&rules).decide(&request).response;
    let changed = match answer.decision {
        Decision::Modify(changed) => *changed,
        Decision::Allow => request,
        Decision::Deny => panic!("{}", answer.message),
    };
    assert_eq!(changed, call("t", expected));
}

/// The outputs of a result after these changes.
#[track_caller]
fn check_outputs(modify: &str, outputs: &[&str], expected: &[&str]) {
    let rules = format!("  - {{id: r, decision: modify, modify: {modify}}}");
    let request = result("t", outputs);
    let changed = match policy(&rules).decide(&request).response.decision {
        Decision::Modify(changed) => *changed,
        _ => request,
    };
    assert_eq!(changed, result("t", expected));
}

#[test]
fn the_default_decides_what_no_rule_is_about() {
    let other = call("other", &json!({}));
    check("  - {id: r, tool: t, decision: allow}", &other, "deny", &[], &["default_deny"]);
    let open =
        Policy::parse("version: 1\ndefault: allow\nrules: [{id: r, tool: t, decision: deny}]")
            .unwrap();
    assert_eq!(told(&open.decide(&other)), ("allow", vec![], vec![]));
    assert_eq!(told(&open.decide(&call("t", &json!({})))), ("deny", vec!["r"], vec!["r"]));
    assert_eq!(told(&Policy::allow_all().decide(&other)), ("allow", vec![], vec![]));
}

#[test]
fn the_first_allow_or_deny_decides() {
    let rules = "
  - {id: a, tool: x, decision: deny, reason_codes: [one, two]}
  - {id: b, tool: '*', decision: allow, message: Fine.}
  - {id: c, decision: deny}";
    check(rules, &call("x", &json!({})), "deny", &["a"], &["one", "two"]);
    check(rules, &call("y", &json!({})), "allow", &["b"], &[]);
}

#[test]
fn rules_are_chosen_by_hook_and_tool() {
    let one = |on: &str| format!("  - {{id: r, on: [{on}], decision: allow}}");
    let (request, answer) = (call("t", &json!({})), result("t", &["x"]));
    for on in ["steps/toolCallRequest", "toolCallRequest", "tool_call_request"] {
        check(&one(on), &request, "allow", &["r"], &[]);
        check(&one(on), &answer, "deny", &[], &["default_deny"]);
    }
    let memory = message("steps/memoryStore", json!({"memory": ["m"]}));
    check(&one("memory_store"), &memory, "allow", &["r"], &[]);
    let tool = |glob: &str, name: &str| {
        let rules = format!("  - {{id: r, tool: '{glob}', decision: allow}}");
        policy(&rules).decide(&call(name, &json!({}))).response.decision == Decision::Allow
    };
    assert!(
        tool("bank.*", "bank.pay") && tool("*", "") && tool("b?nk", "bänk") && tool("a.c", "a.c")
    );
    assert!(
        !tool("bank.*", "bank")
            && !tool("a.c", "abc")
            && !tool("bank", "bank.pay")
            && !tool("BANK", "bank")
    );
    // A message that names no tool is not about this one.
    check("  - {id: r, tool: '*', decision: allow}", &memory, "deny", &[], &["default_deny"]);
    let mcp = json!({"message": {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "t"}}});
    check(
        "  - {id: r, tool: 't', decision: allow}",
        &message("protocols/MCP", mcp),
        "allow",
        &["r"],
        &[],
    );
}

#[test]
fn rules_are_chosen_by_who_and_where() {
    let mut request = call("t", &json!({}));
    let MethodCall::ToolCallRequest(step) = &mut request.call else { panic!("no call") };
    let user = aos::message::User::new("u-1".to_owned());
    step.context.user =
        Some(aos::message::User { email: Some("ada@example.org".to_owned()), ..user });
    let capability = step.context.extra.get_mut("capability").unwrap();
    capability.insert("host".to_owned(), json!("API.bank.example:8443"));
    for fits in [
        "capability: PostWeatherTweet",
        "capability: ['Pay*', 'Post*']",
        "host: '*.bank.example'",
        "host: api.bank.example:8443",
        "user: u-1",
        "user: '*@example.org'",
        "agent: agent-?",
        "session: [s-1]",
        "host: '*', user: '*', tool: t, on: toolCallRequest",
    ] {
        let rules = format!("  - {{id: r, decision: allow, {fits}}}");
        check(&rules, &request, "allow", &["r"], &[]);
    }
    for misses in [
        "capability: Post",
        "host: bank.example",
        "host: api.bank.example:443",
        "user: u-2",
        "host: '*', user: nobody",
    ] {
        let rules = format!("  - {{id: r, decision: allow, {misses}}}");
        check(&rules, &request, "deny", &[], &["default_deny"]);
    }
    // The same host as those write it who end it with a dot.
    let MethodCall::ToolCallRequest(step) = &mut request.call else { panic!("no call") };
    let capability = step.context.extra.get_mut("capability").unwrap();
    capability.insert("host".to_owned(), json!("api.bank.example."));
    let rules = "  - {id: r, decision: allow, host: '*.bank.example'}";
    check(rules, &request, "allow", &["r"], &[]);
    // A message that says nothing of it is not about it.
    let bare = call("t", &json!({}));
    for missing in ["host: '*'", "user: '*'"] {
        let rules = format!("  - {{id: r, decision: allow, {missing}}}");
        check(&rules, &bare, "deny", &[], &["default_deny"]);
    }
}

#[test]
fn conditions_read_the_whole_message() {
    let inputs = json!({"pathParameters.city": "Paris", "body": {"amount": 120, "tags": ["a", "b"], "rate": 0.5}});
    let request = call("weather.now", &inputs);
    for when in [
        "method == 'steps/toolCallRequest' && tool.startsWith('weather.')",
        "inputs.pathParameters.city == 'Paris'",
        "inputs['pathParameters.city'] == 'Paris'",
        "inputs.body.amount > 100 && inputs.body.amount < 200",
        "inputs.body.rate * 2.0 == 1.0",
        "'b' in inputs.body.tags",
        "inputs.body.tags.exists(tag, tag == 'a')",
        "inputs.pathParameters.city.lowerAscii().matches('^p.r')",
        "has(inputs.body) && !has(inputs.queryParameters)",
        "capability.name == 'PostWeatherTweet' && capability.run == 'r-1'",
        "capability.checksum == 'sha256:00' && capability.digest == 'sha256:00'",
        "session.id == 's-1' && agent.id == 'agent-1' && agent.provider == 'Example'",
        "turn == 't-1' && step == 'st-1'",
        // What is absent is empty.
        "reasoning == '' && size(metadata) == 0 && outputs == []",
        "params.toolCallRequest.executionId == 'x-1'",
    ] {
        check_when(when, &request, true);
    }
    check_when("inputs.pathParameters.city == 'Lyon'", &request, false);
    check_when(
        "outputs[0].contains('18') && size(outputs) == 2 && !is_error",
        &result("t", &["18", ""]),
        true,
    );
    check_when("tool == 't'", &result("t", &[]), true);
    check_when("texts[0] == 'hi'", &message("steps/memoryStore", json!({"memory": ["hi"]})), true);
    let found = json!({"knowledgeStep": {"results": [{"id": "1", "content": "hi"}]}});
    check_when("texts.all(text, text == 'hi')", &message("steps/knowledgeRetrieval", found), true);
    let said = json!({"message": {"id": "1", "role": "user", "content": [{"kind": "text", "text": "hi"}]}, "reasoning": "because"});
    check_when(
        "texts == ['hi'] && reasoning == 'because' && params.message.role == 'user'",
        &message("steps/message", said),
        true,
    );
    let called = json!({"message": {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "t", "arguments": {"n": 1}}}});
    check_when("tool == 't' && inputs.n == 1", &message("protocols/MCP", called), true);
}

/// Whatever place another agent finds for its words, in either version of A2A.
/// An integer is an `int` wherever one fits, of the inputs and of the whole message.
#[test]
fn json_has_the_types_of_cel() {
    let value = json!({"int": -1, "uint": u64::MAX, "double": 0.5, "no": null, "yes": true, "list": ["a", 1, {"b": []}]});
    let request = call("t", &json!({"body": value}));
    for body in ["inputs.body", "params.toolCallRequest.inputs[0].value"] {
        for holds in [
            "type(BODY.int) == int && BODY.int == -1",
            "type(BODY.uint) == uint && BODY.uint == 18446744073709551615u",
            "type(BODY.double) == double && BODY.double * 2.0 == 1.0",
            "type(BODY.no) == null_type && BODY.no == null && type(BODY.yes) == bool && BODY.yes",
            "type(BODY.list) == list && type(BODY) == map && type(BODY.list[0]) == string",
            "BODY.list == ['a', 1, {'b': []}]",
            "'list' in BODY && !('none' in BODY) && size(BODY) == 6",
        ] {
            check_when(&holds.replace("BODY", body), &request, true);
        }
    }
}

#[test]
fn conditions_read_the_texts_of_a2a_messages() {
    let check = |method: &str, member: &str, payload: Value, expected: &[&str]| {
        let message =
            json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {member: payload}});
        let message = Request::from_value(message).unwrap();
        check_when(&format!("texts == {}", json!(expected)), &message, true);
    };
    let old = |text: &str| json!({"kind": "text", "text": text});
    let new = |text: &str| json!({"text": text, "mediaType": "text/plain"});
    let payload = |name: &str, value: Value| json!({"jsonrpc": "2.0", "id": 1, name: value});

    // What is asked.
    let said = json!({"message": {"messageId": "m", "role": "user", "parts": [old("one"), {"kind": "data", "data": {"inputs": {"a": 1}}}, {"kind": "file", "file": {"uri": "x"}}, old("two")]}});
    let expected = ["one", r#"{"inputs":{"a":1}}"#, "two"];
    check("message/send", "payload", payload("params", said.clone()), &expected);
    check("protocols/A2A", "message", payload("params", said), &expected);
    let said = json!({"message": {"messageId": "m", "role": "ROLE_USER", "parts": [new("one"), {"data": [1]}]}});
    check("message/stream", "payload", payload("params", said), &["one", "[1]"]);
    check("task/get", "payload", payload("params", json!({"id": "t"})), &[]);

    // What is answered: a message, a task, and what happens to it.
    let message =
        json!({"kind": "message", "messageId": "m", "role": "agent", "parts": [old("hi")]});
    check("message/send", "payload", payload("result", message), &["hi"]);
    let message =
        json!({"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [new("hi")]}});
    check("message/send", "payload", payload("result", message), &["hi"]);
    let task = json!({
        "id": "t",
        "status": {"state": "completed", "message": {"parts": [old("done")]}},
        "artifacts": [{"artifactId": "a", "parts": [old("first")]}, {"artifactId": "b", "parts": [new("second")]}],
        "history": [{"parts": [old("before")]}],
    });
    let all = ["done", "first", "second", "before"];
    check("task/get", "payload", payload("result", task.clone()), &all);
    check("message/send", "payload", payload("result", json!({"task": task})), &all);
    let status = json!({"kind": "status-update", "status": {"state": "working", "message": {"parts": [old("soon")]}}});
    check("message/stream", "payload", payload("result", status), &["soon"]);
    let artifact = json!({"artifactUpdate": {"taskId": "t", "artifact": {"artifactId": "a", "parts": [new("here")]}}});
    check("tasks/resubscribe", "payload", payload("result", artifact), &["here"]);
    check(
        "message/send",
        "payload",
        payload("error", json!({"code": -1, "message": "no"})),
        &["no"],
    );

    // What is no part says nothing, and is no fault.
    let odd =
        json!({"message": {"parts": [7, "x", {"text": 7}, {"data": null}, []]}, "parts": "y"});
    check("message/send", "payload", payload("params", odd), &[]);
}

#[test]
fn a_condition_that_fails_denies() {
    let check = |when: &str, inputs: Value, told: &str| {
        let rules = format!(
            "  - {{id: r, decision: allow, when: {}}}\n  - {{id: all, decision: allow}}",
            json!(when)
        );
        let ruling = policy(&rules).decide(&call("t", &inputs));
        assert_eq!(
            (ruling.response.decision, ruling.response.reason_codes),
            (Decision::Deny, vec!["policy_error".to_owned()])
        );
        assert!(ruling.response.message.contains(told), "{}", ruling.response.message);
    };
    check("inputs.city == 'Paris'", json!({}), "the message has no city; test with has(…)");
    check("inputs.city", json!({"city": "Paris"}), "results in a string, not a boolean");
    check("inputs.city + 1 == 2", json!({"city": "s3cret"}), "cannot be evaluated");
    check("1 / inputs.n == 1", json!({"n": 0}), "cannot be evaluated");
}

#[test]
fn an_error_does_not_tell_values() {
    let rules = "  - {id: r, decision: allow, when: \"inputs.city < 3\"}";
    let ruling = policy(rules).decide(&call("t", &json!({"city": "s3cret"})));
    assert_eq!(ruling.response.decision, Decision::Deny);
    assert!(!ruling.response.message.contains("s3cret"), "{}", ruling.response.message);
}

/// A condition must see the value that the tool will see.
#[test]
fn inputs_that_can_be_read_in_two_ways_fail_a_condition() {
    let ask = |names: &[&str], when: &str| {
        let mut request = call("t", &json!({}));
        let MethodCall::ToolCallRequest(step) = &mut request.call else { panic!("no call") };
        let inputs =
            names.iter().map(|&name| ToolArgumentValue::new(name.to_owned(), json!({"amount": 1})));
        step.tool_call_request.inputs = inputs.collect();
        let rules = format!("  - {{id: r, decision: allow, when: {}}}", json!(when));
        policy(&rules).decide(&request).response.decision
    };
    assert_eq!(ask(&["a", "b"], "size(inputs) == 2"), Decision::Allow);
    assert_eq!(ask(&["a.x", "a.y", "ab"], "has(inputs.a.x)"), Decision::Allow);
    assert_eq!(ask(&["a", "a"], "size(inputs) == 1"), Decision::Deny);
    assert_eq!(ask(&["body", "body.amount"], "has(inputs.body)"), Decision::Deny);
    assert_eq!(ask(&["a", "a"], "tool == 't'"), Decision::Allow);
}

#[test]
fn modifications_add_up_and_denials_come_after_them() {
    let rules = "
  - {id: metric, decision: modify, message: Metric., reason_codes: [units], modify: {set: {units: metric}}}
  - {id: mail, decision: modify, modify: {redact: [{pattern: email}]}}
  - {id: no-shell, decision: deny, when: \"tool == 'shell'\"}
  - {id: seen, decision: allow, when: \"inputs.units == 'metric' && inputs.to == '[redacted]'\"}";
    let ruling = policy(rules).decide(&call("mail", &json!({"to": "a@example.org"})));
    assert_eq!(told(&ruling), ("modify", vec!["metric", "mail", "seen"], vec!["units"]));
    assert_eq!(ruling.response.message, "Metric.");
    let Decision::Modify(changed) = ruling.response.decision else { panic!("not modified") };
    assert_eq!(*changed, call("mail", &json!({"to": "[redacted]", "units": "metric"})));
    check(
        rules,
        &call("shell", &json!({"to": "a@example.org"})),
        "deny",
        &["metric", "mail", "no-shell"],
        &["no-shell"],
    );
}

#[test]
fn a_modification_that_changes_nothing_allows() {
    let rules = "  - {id: r, decision: modify, message: Changed., modify: {redact: [{pattern: email}], set: {a: 1}}}";
    check(rules, &call("t", &json!({"a": 1})), "allow", &["r"], &[]);
}

#[test]
fn inputs_are_set_and_removed_by_place() {
    check_inputs("{set: {city: Lyon}}", &json!({"city": "Paris"}), &json!({"city": "Lyon"}));
    check_inputs("{set: {q.units: metric}}", &json!({"q.units": 1}), &json!({"q.units": "metric"}));
    check_inputs(
        "{set: {q.units: metric}}",
        &json!({"q": {"a": 1}}),
        &json!({"q": {"a": 1, "units": "metric"}}),
    );
    check_inputs("{set: {q.units: metric}}", &json!({}), &json!({"q.units": "metric"}));
    check_inputs(
        "{set: {n: 5, list: [1, {a: true}]}}",
        &json!({}),
        &json!({"n": 5, "list": [1, {"a": true}]}),
    );
    check_inputs(
        "{set: {'body.items[*].n': 0}}",
        &json!({"body": {"items": [{"n": 1}, {}]}}),
        &json!({"body": {"items": [{"n": 0}, {"n": 0}]}}),
    );
    check_inputs(
        "{remove: [h.X-Debug, body.note]}",
        &json!({"h.X-Debug": 1, "body": {"note": 1, "a": 2}}),
        &json!({"body": {"a": 2}}),
    );
    check_inputs("{remove: [h]}", &json!({"h.a": 1, "h.b": 1, "hat": 1}), &json!({"hat": 1}));
}

#[test]
fn inputs_are_redacted_wherever_they_hide() {
    let all = "{redact: [{pattern: email, replacement: '[x]'}]}";
    let before =
        json!({"to": "a@b.example", "body": {"cc": ["c@d.example", {"e@f.example": 1}], "n": 1}});
    let after = json!({"to": "[x]", "body": {"cc": ["[x]", {"[x]": 1}], "n": 1}});
    check_inputs(all, &before, &after);
    check_inputs(
        "{redact: [{pattern: card}]}",
        &json!({"n": 4_111_111_111_111_111_u64}),
        &json!({"n": "[redacted]"}),
    );
    check_inputs(
        "{redact: [{path: body.cc, pattern: email, replacement: x}]}",
        &json!({"to": "a@b.example", "body": {"cc": "a@b.example"}}),
        &json!({"to": "a@b.example", "body": {"cc": "x"}}),
    );
    check_inputs(
        "{redact: [{path: h.key}]}",
        &json!({"h.key": {"any": 1}, "key": 1}),
        &json!({"h.key": "[redacted]", "key": 1}),
    );
    check_inputs(
        "{redact: [{path: h}]}",
        &json!({"h.a": 1, "h.b": 2}),
        &json!({"h.a": "[redacted]", "h.b": "[redacted]"}),
    );
    check_inputs(
        "{redact: [{regex: 'ACME-[0-9]+', replacement: '$0'}]}",
        &json!({"id": "ACME-7"}),
        &json!({"id": "$0"}),
    );
    check_inputs(
        "{redact: [{pattern: email}]}",
        &json!({"x": {"a@b.example": 1, "c@d.example": 2}}),
        &json!({"x": {"[redacted]": 1, "[redacted] (2)": 2}}),
    );
}

/// What a condition has read before a change is read again after it.
#[test]
fn conditions_see_what_a_change_has_made() {
    let rules = "
  - {id: before, when: 'outputs[0] == \"a@b.example\"', decision: modify, modify: {redact: [{pattern: email}]}}
  - {id: still, when: 'outputs[0] == \"a@b.example\"', decision: deny}
  - {id: gone, when: 'outputs[0] == \"[redacted]\"', decision: allow}";
    check(rules, &result("t", &["a@b.example"]), "modify", &["before", "gone"], &[]);
}

/// A text is read as JSON once for all rules, and again where it has become another.
#[test]
fn rules_after_a_redaction_see_what_it_has_left() {
    let rules = "
  - {id: prefix, decision: modify, modify: {redact: [{regex: '^ok ', replacement: ''}]}}
  - {id: name, decision: modify, modify: {redact: [{path: name}]}}
  - {id: same, decision: modify, modify: {set: {name: Bob}}}
  - {id: more, decision: modify, modify: {remove: [age]}}
  - {id: bob, when: 'outputs[0].contains(\"Bob\")', decision: allow}
  - {id: else, decision: deny}";
    for (left, becomes) in [
        (r#"ok {"name":"Ada","age":7}"#, r#"{"name":"Bob"}"#),
        (r#"{"age":7,"x":[1.0]}"#, r#"{"x":[1.0],"name":"Bob"}"#),
    ] {
        let ruling = policy(rules).decide(&result("t", &[left, "plain"]));
        let Decision::Modify(changed) = ruling.response.decision else { panic!("{ruling:?}") };
        assert_eq!(*changed, result("t", &[becomes, "plain"]));
    }
}

#[test]
fn every_output_is_redacted_and_json_stays_json() {
    let mail = "{redact: [{pattern: email, replacement: x}]}";
    check_outputs(mail, &["from a@b.example", "c@d.example"], &["from x", "x"]);
    check_outputs(mail, &[r#"{"to":"a@b.example"}"#], &[r#"{"to":"x"}"#]);
    // The sign is escaped in the JSON text, and the card is a number.
    check_outputs(mail, &[r#"{"to":"a\u0040b.example"}"#], &[r#"{"to":"x"}"#]);
    check_outputs(
        "{redact: [{pattern: card, replacement: x}]}",
        &[r#"[4111111111111111, 1.5]"#],
        &[r#"["x",1.5]"#],
    );
    check_outputs(
        "{redact: [{path: 'people[*].address'}], remove: [debug]}",
        &[r#"{"people":[{"address":"1"},{"address":"2"}],"debug":1}"#],
        &[r#"{"people":[{"address":"[redacted]"},{"address":"[redacted]"}]}"#],
    );
    check_outputs(
        "{set: {safe: true}}",
        &[r#"{"a":1}"#, "plain"],
        &[r#"{"a":1,"safe":true}"#, "plain"],
    );
}

/// What a reader would drop does not stay in the text.
#[test]
fn a_member_that_is_there_twice_hides_nothing() {
    let mail = "{redact: [{pattern: email, replacement: x}]}";
    check_outputs(mail, &[r#"{"a":"c\u0040d.example","a":"ok"}"#], &[r#"{"a":"ok"}"#]);
}

/// What surely finds nothing in a text is not tried. Escapes, and what was changed before, are no
/// reason to be sure.
#[test]
fn no_redaction_is_left_out_that_would_find_something() {
    let both = "{redact: [{pattern: email, replacement: x}, {path: 'people[*].name'}]}";
    check_outputs(
        both,
        &[r#"{"people":[{"n\u0061me":"Ada"}]}"#, r#"{"mail":"c\u0040d.example"}"#],
        &[r#"{"people":[{"name":"[redacted]"}]}"#, r#"{"mail":"x"}"#],
    );
    let set = "{set: {mail: c@d.example}, redact: [{pattern: email, replacement: x}]}";
    check_outputs(set, &[r#"{"n":1}"#], &[r#"{"n":1,"mail":"x"}"#]);
    let renamed = "{redact: [{pattern: email, replacement: name}, {path: name}]}";
    check_outputs(renamed, &[r#"{"c@d.example":1}"#], &[r#"{"name":"[redacted]"}"#]);
}

#[test]
fn every_other_hook_is_redacted_too() {
    let rules =
        "  - {id: r, decision: modify, modify: {redact: [{pattern: email, replacement: x}]}}";
    let mail = "a@b.example";
    let hooks = |mail: &str| {
        let parts = json!([{"kind": "text", "text": mail}, {"kind": "data", "data": {"to": mail}}]);
        let text = json!([{"kind": "text", "text": mail}]);
        [
            message(
                "steps/message",
                json!({"message": {"id": "1", "role": "user", "content": parts}}),
            ),
            message(
                "steps/agentTrigger",
                json!({"trigger": {"type": "autonomous", "event": {"type": "email", "id": "1"}, "content": text}}),
            ),
            message("steps/memoryStore", json!({"memory": [mail]})),
            message("steps/memoryContextRetrieval", json!({"memory": [mail]})),
            message(
                "steps/knowledgeRetrieval",
                json!({"knowledgeStep": {"results": [{"id": "1", "content": mail}]}}),
            ),
            message(
                "protocols/MCP",
                json!({"message": {"jsonrpc": "2.0", "id": 1, "result": {"content": mail}}}),
            ),
        ]
    };
    for (before, after) in hooks(mail).iter().zip(hooks("x")) {
        let Decision::Modify(changed) = policy(rules).decide(before).response.decision else {
            panic!("{before:?}")
        };
        assert_eq!(*changed, after);
        // The client takes the change over.
        assert_eq!(before.with_modification(*changed), Ok(after));
    }
}

#[test]
fn the_same_message_gets_the_same_decision() {
    let rules =
        "  - {id: r, decision: modify, modify: {redact: [{pattern: email}], set: {b.c: 1}}}";
    let policy = policy(rules);
    let request = call("t", &json!({"a": "x@y.example", "b": {}}));
    let first = policy.decide(&request);
    assert_eq!(first, policy.decide(&request));
    let Decision::Modify(changed) = first.response.decision else { panic!("not modified") };
    assert_eq!(
        policy.decide(&changed).response.decision,
        Decision::Allow,
        "a second time changes nothing"
    );
    assert!(matches!(request.call, MethodCall::ToolCallRequest(_)));
}

/// What the bounds let through can be compiled and evaluated on the stack of a test thread.
#[test]
fn the_largest_conditions_are_harmless() {
    let nested = format!("{}true{}", "(".repeat(8), ")".repeat(8));
    let long = vec!["true"; 33].join(" && ");
    let not = format!("{}false", "!".repeat(31));
    let minus = format!("{}1 == 1", "- ".repeat(30));
    let selected = format!("has(params{}) || true", ".context".repeat(60));
    let request = call("t", &json!({}));
    for when in [&nested, &long, &not, &minus, &selected] {
        check_when(when, &request, true);
    }
}

#[test]
fn a_condition_beyond_the_bounds_is_refused() {
    let check = |when: &str, reason: &str| {
        let text = format!(
            "version: 1\ndefault: allow\nrules: [{{id: r, decision: deny, when: {}}}]",
            json!(when)
        );
        let faults = Policy::parse(&text).unwrap_err().to_string();
        assert!(faults.contains(reason), "{faults}");
    };
    check(&"(".repeat(1000), "more than 8 nested brackets");
    check(&format!("{}1{}", "[".repeat(9), "]".repeat(9)), "more than 8 nested brackets");
    check(&vec!["true"; 40].join(" || "), "more than 32 operators");
    check(&format!("{}true", "!".repeat(200)), "more than 32 operators");
    check(&format!("params{}", ".a".repeat(80)), "more than 64 selections");
    check(&format!("'{}' == ''", "x".repeat(1100)), "longer than 1024 bytes");
    check("outputs.exists(a, outputs.exists(b, a == b))", "has a loop inside a loop");
    check("'open", "a string without an end");
    check("tool.matches(inputs.pattern)", "a pattern that is not a literal string");
    check("tool.matches('(')", "an invalid pattern");
    check("outputs.map(o, o.split(',')) == []", "calls split");
    check("Type{a: 1} == 1", "creates a Type");
    // Brackets in strings and comments do not count, and strings of every form end where CEL ends them.
    let raw = r"r'\' == tool || ((((((((( true )))))))))";
    check(raw, "more than 8 nested brackets");
    check(
        &format!("'''a'b''' == tool // '\n || {}", "(".repeat(20)),
        "more than 8 nested brackets",
    );
    let text = format!(
        "version: 1\ndefault: allow\nrules: [{{id: r, decision: deny, when: {}}}]",
        json!("tool == '((((((((((' // (((((((((((")
    );
    Policy::parse(&text).unwrap();
}

#[track_caller]
fn faults(text: &str) -> String {
    Policy::parse(text).unwrap_err().to_string()
}

#[test]
fn every_fault_of_a_policy_is_told() {
    let text = "version: 1
default: deny
rules:
  - id: first
    on: [steps/toolCall, ping]
    tool: ''
    when: inputz.city == 'Paris'
    decision: deny
  - id: first
    decision: modify
  - id: two words
    when: 1 +
    decision: allow
    modify: {set: {a: 1}}
  - id: third
    on: []
    decision: modify
    modify:
      set: {a..b: 1}
      remove: ['a[']
      redact:
        - {regex: '('}
        - {pattern: email, regex: x}
        - {replacement: x}
  - id: empty
    decision: modify
    modify: {}
";
    assert_snapshot!(faults(text), @r#"
    line 5, column 10: rule first: on "steps/toolCall" is not one of steps/agentTrigger, steps/message, steps/toolCallRequest, steps/toolCallResult, steps/knowledgeRetrieval, steps/memoryStore, steps/memoryContextRetrieval, protocols/MCP, message/send, message/stream, task/get, tasks/cancel, tasks/resubscribe, task/pushNotificationConfig/set, task/pushNotificationConfig/get, protocols/A2A
    line 5, column 26: rule first: on "ping" is not one of steps/agentTrigger, steps/message, steps/toolCallRequest, steps/toolCallResult, steps/knowledgeRetrieval, steps/memoryStore, steps/memoryContextRetrieval, protocols/MCP, message/send, message/stream, task/get, tasks/cancel, tasks/resubscribe, task/pushNotificationConfig/set, task/pushNotificationConfig/get, protocols/A2A
    line 6, column 11: rule first: tool is empty, so it would never match
    line 7, column 11: rule first: when reads inputz, which is not one of method, tool, inputs, outputs, is_error, texts, reasoning, session, metadata, agent, user, caller, capability, request, turn, step, params
    line 9, column 9: rule first: duplicate id
    line 9, column 9: rule first: decision modify requires modify
    line 11, column 9: rule "two words": an id must have 1 to 64 letters, digits, dots, dashes or underscores
    line 11, column 9: rule two words: modify requires decision modify
    line 12, column 11: rule two words: when is not CEL: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}
    line 16, column 9: rule third: on is empty, so the rule would never apply
    line 19, column 13: rule third: modify.set "a..b" has an empty name
    line 20, column 16: rule third: modify.remove "a[" has an unclosed bracket
    line 22, column 19: rule third: modify.redact.regex is not a pattern: unclosed group
    line 23, column 11: rule third: modify.redact must have either pattern or regex, not both
    line 24, column 11: rule third: modify.redact requires a path, a pattern or a regex
    line 25, column 9: rule empty: modify requires 1 to 64 changes
    "#);
}

#[test]
fn a_fault_of_the_form_hides_no_other_one() {
    let text = "version: one
defaults: deny
rules:
  - id: first
    decide: deny
    when: inputz.city == 'Paris'
  - id: second
    on: 5
    tool: [a, {b: c}]
    decision: maybe
    limit: {calls: many, per: day, a: 1}
  - deny
  - decision: modify
    modify: {redact: {pattern: email}, set: [a]}
  - {id: third, on: toolCall, decision: modify, modify: {redact: [{pattern: mail}, {regexp: a, path: 'a['}]}}
  - {id: fourth, decision: approve, approval: {with: 5m}}
";
    assert_snapshot!(faults(text), @r#"
    line 1, column 1: missing field `default`: write `default: deny`, or `allow`
    line 1, column 10: a whole number is required here
    line 2, column 1: unknown field `defaults`, expected one of version, default, rules; did you mean `default`?
    line 4, column 5: missing field `decision`
    line 5, column 5: unknown field `decide`, expected one of id, description, on, tool, capability, host, user, agent, session, when, limit, decision, message, reason_codes, modify, approval
    line 6, column 11: rule first: when reads inputz, which is not one of method, tool, inputs, outputs, is_error, texts, reasoning, session, metadata, agent, user, caller, capability, request, turn, step, params
    line 8, column 9: a text or a list of texts is required here
    line 9, column 15: a text is required here
    line 10, column 15: unknown variant `maybe`, expected one of allow, deny, modify, approve
    line 11, column 20: a whole number is required here
    line 11, column 31: unknown variant `day`, expected one of all, session, user, caller, agent, capability, tool
    line 11, column 36: unknown field `a`, expected one of calls, spend, most, per, within
    line 12, column 5: names with values are required here, as in `name: value`
    line 13, column 5: missing field `id`
    line 14, column 22: a list is required here: write each item after `- `, or all items in [ ]
    line 14, column 45: names with values are required here, as in `name: value`
    line 15, column 21: rule third: on "toolCall" is not one of steps/agentTrigger, steps/message, steps/toolCallRequest, steps/toolCallResult, steps/knowledgeRetrieval, steps/memoryStore, steps/memoryContextRetrieval, protocols/MCP, message/send, message/stream, task/get, tasks/cancel, tasks/resubscribe, task/pushNotificationConfig/set, task/pushNotificationConfig/get, protocols/A2A
    line 15, column 77: unknown variant `mail`, expected one of email, card, key; did you mean `email`?
    line 15, column 85: unknown field `regexp`, expected one of path, pattern, regex, replacement; did you mean `regex`?
    line 16, column 47: missing field `within`
    line 16, column 48: unknown field `with`, expected one of within; did you mean `within`?
    "#);
    // Numbers and words that YAML takes for something else are texts where texts belong.
    let text = "version: 1\ndefault: deny\nrules:\n  - {id: 404, tool: \"*\", decision: deny, message: true}\n";
    Policy::parse(text).unwrap();
}

#[test]
fn faults_of_limits_and_approvals_are_told() {
    let rule = |rest: &str| {
        faults(&format!("version: 1\ndefault: allow\nrules:\n  - {{id: r, decision: {rest}}}\n"))
    };
    assert_snapshot!(rule("deny, limit: {calls: 3}"), @"line 4, column 36: rule r: limit requires on, otherwise a call and its result would both count");
    assert_snapshot!(rule("deny, on: toolCallRequest, limit: {per: user}"), @"line 4, column 57: rule r: limit requires either calls, or spend and most");
    assert_snapshot!(rule("deny, on: toolCallRequest, limit: {calls: 3, spend: inputs.a, most: 1}"), @"line 4, column 57: rule r: limit requires either calls, or spend and most");
    assert_snapshot!(rule("deny, on: toolCallRequest, limit: {spend: inputs.a}"), @"line 4, column 57: rule r: limit spend requires most");
    assert_snapshot!(rule("deny, on: toolCallRequest, limit: {spend: inputs.a, most: -1}"), @"line 4, column 57: rule r: limit most is not between 0 and 10^12");
    assert_snapshot!(rule("deny, on: toolCallRequest, limit: {spend: amount, most: 1}"), @"line 4, column 57: rule r: limit spend reads amount, which is not one of method, tool, inputs, outputs, is_error, texts, reasoning, session, metadata, agent, user, caller, capability, request, turn, step, params");
    assert_snapshot!(rule("deny, on: toolCallRequest, limit: {calls: 3, within: 32d}"), @r#"line 4, column 57: rule r: limit within "32d" is not a duration from 1s to 31d, such as 90s, 30m, 24h or 7d"#);
    assert_snapshot!(rule("deny, on: toolCallRequest, limit: {calls: 3, within: soon}"), @r#"line 4, column 57: rule r: limit within "soon" is not a duration from 1s to 31d, such as 90s, 30m, 24h or 7d"#);
    assert_snapshot!(rule("deny, on: toolCallRequest, limit: {calls: 3, per: day}"), @"line 4, column 73: unknown variant `day`, expected one of all, session, user, caller, agent, capability, tool");
    assert_snapshot!(rule("deny, approval: {within: 1h}"), @"line 4, column 39: rule r: approval requires decision approve");
    assert_snapshot!(rule("approve, approval: {within: 0s}"), @r#"line 4, column 42: rule r: approval.within "0s" is not a duration from 1s to 31d, such as 90s, 30m, 24h or 7d"#);
    assert_snapshot!(rule("deny, host: ['']"), @"line 4, column 36: rule r: host is empty, so it would never match");
    assert_snapshot!(rule("deny, user: []"), @"line 4, column 35: rule r: user is empty, so the rule would never apply");
}

#[test]
fn what_is_no_policy_is_told_with_its_line() {
    assert_snapshot!(faults("version: 1\ndefault: maybe\n"), @"line 2, column 10: unknown variant `maybe`, expected one of allow, deny");
    assert_snapshot!(faults("version: 1\ndefault: allow\nrule: []\n"), @"line 3, column 1: unknown field `rule`, expected one of version, default, rules; did you mean `rules`?");
    assert_snapshot!(faults("version: 1\ndefault: allow\nrules:\n  - id: a\n    decide: deny\n"), @"
    line 4, column 5: missing field `decision`
    line 5, column 5: unknown field `decide`, expected one of id, description, on, tool, capability, host, user, agent, session, when, limit, decision, message, reason_codes, modify, approval
    ");
    assert_snapshot!(faults("version: 2\ndefault: allow\n"), @"line 1, column 10: unknown version 2; use version 1");
    assert_snapshot!(faults("version: 1\n"), @"line 1, column 1: missing field `default`: write `default: deny`, or `allow`");
    assert_snapshot!(faults("version: 1\ndefault: allow\ndefault: deny\n"), @"line 3, column 1: duplicate name");
    assert_snapshot!(faults("version: 1\ndefault: allow\nrules: [\n"), @"line 3, column 8: unclosed bracket '['");
    assert_snapshot!(faults("version: 1\ndefault: &a allow\nrules: *a\n"), @"line 2, column 13: anchors and aliases are not allowed");
    assert_snapshot!(faults("version: 1\ndefault: allow\nrules: {id: a, decision: deny}\n"), @"line 3, column 8: a list is required here: write each item after `- `, or all items in [ ]");
    assert_snapshot!(faults("version: 1\ndefault: allow\nrules: [deny]\n"), @"line 3, column 9: names with values are required here, as in `name: value`");
    assert_snapshot!(faults("version: 1\ndefault: allow\nrules: [{id: a, decision: deny, on: 5}]\n"), @"line 3, column 37: a text or a list of texts is required here");
    assert_snapshot!(faults(""), @"line 1, column 1: names with values are required here, as in `name: value`");
    assert_snapshot!(faults("version: 1\ndefault: allow\n---\nversion: 1\n"), @"line 3, column 1: the file has more than one document");
}

#[test]
fn the_size_of_a_policy_is_bounded() {
    let many: String = (0..501).map(|n| format!("  - {{id: r{n}, decision: deny}}\n")).collect();
    assert_eq!(
        faults(&format!("version: 1\ndefault: deny\nrules:\n{many}")),
        "the policy has more than 500 rules"
    );
    let long = format!("version: 1\ndefault: deny\n# {}\n", "x".repeat(300_000));
    assert_eq!(faults(&long), "the file is longer than 262144 bytes");
}
