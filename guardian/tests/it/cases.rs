//! Policies held to cases.

use guardian::Policy;
use guardian::policy_tests::{CaseResult, PolicyTestSuite};
use insta::assert_snapshot;
use serde_json::json;

const POLICY: &str = "
version: 1
default: deny
rules:
  - {id: mail, on: [toolCallResult, message/stream], decision: modify, modify: {redact: [{pattern: email}]}}
  - {id: metric, on: toolCallRequest, tool: weather, decision: modify, modify: {set: {units: metric}}}
  - {id: large, on: toolCallRequest, tool: bank.pay, when: inputs.body.amount > 100, decision: approve, approval: {within: 10m}}
  - {id: two, on: toolCallRequest, tool: mail.send, limit: {calls: 2, per: user, within: 1h}, decision: deny, message: Enough mail.}
  - {id: host, host: evil.example, decision: deny}
  - {id: rest, on: [toolCallRequest, message, memoryStore, protocols/MCP, message/send], decision: allow}
";

const CASES: &str = "
cases:
  - name: small amounts pass
    request: {tool: bank.pay, inputs: {body: {amount: 20}}, user: ada@example.org}
    expect: allow
  - name: large ones wait for a person, once
    steps:
      - request: {tool: bank.pay, inputs: {body: {amount: 900}}}
        expect: {decision: deny, reason_codes: approval_required}
      - {approve: true, request: {tool: bank.pay, inputs: {body: {amount: 900}}}, expect: allow}
      - {request: {tool: bank.pay, inputs: {body: {amount: 900}}}, expect: deny}
      - approve: false
        request: {tool: bank.pay, inputs: {body: {amount: 900}}}
        expect: {decision: deny, reason_codes: [approval_rejected]}
      - {after: 10m, request: {tool: bank.pay, inputs: {body: {amount: 900}}}, expect: {decision: deny, reason_codes: approval_required}}
  - name: no more than two an hour
    steps:
      - {times: 2, request: {tool: mail.send, user: u-1}, expect: allow}
      - {request: {tool: mail.send, user: u-1}, expect: {decision: deny, rules: two, message: Enough}}
      - {request: {tool: mail.send, user: {id: u-2}}, expect: allow}
      - {after: 1h, request: {tool: mail.send, user: u-1}, expect: allow}
  - name: addresses do not come back
    request: {hook: toolCallResult, tool: crm.find, outputs: ['to ada@example.org', {to: ada@example.org}]}
    expect: {decision: modify, outputs: ['to [redacted]', '{\"to\":\"[redacted]\"}']}
  - name: units
    request: {tool: weather, inputs: {city: Paris}}
    expect: {decision: modify, inputs: {city: Paris, units: metric}, rules: [metric, rest]}
  - name: hosts
    request: {tool: t, host: EVIL.example, capability: Pay}
    expect: {decision: deny, rules: [host]}
  - {name: messages, request: {hook: message, role: agent, texts: [hi]}, expect: {decision: allow, texts: [hi]}}
  - {name: memory, request: {hook: memory_store, texts: [hi], session: s, agent: a, reasoning: r}, expect: allow}
  - {name: retrieval, request: {hook: knowledgeRetrieval, query: q, texts: [hi]}, expect: {decision: deny, reason_codes: default_deny}}
  - {name: trigger, request: {hook: agentTrigger, texts: [hi]}, expect: deny}
  - {name: mcp, request: {hook: protocols/MCP, message: {jsonrpc: '2.0', id: 1, method: tools/list}}, expect: allow}
  - {name: a2a, request: {hook: message/send, message: {id: 1}}, expect: allow}
  - name: texts of other agents
    request: {hook: message/stream, message: {result: {kind: message, parts: [{kind: text, text: 'to ada@example.org'}]}}}
    expect: {decision: modify, texts: ['to [redacted]']}
  - {name: whole, request: {aos: {jsonrpc: '2.0', id: 1, method: message/send, params: {payload: {}}}}, expect: allow}
";

fn run(cases: &str, filter: Option<&str>) -> Vec<CaseResult> {
    let policy = Policy::parse(POLICY).unwrap();
    PolicyTestSuite::parse(cases).unwrap().run(&policy, filter).collect()
}

#[test]
fn cases_that_hold_pass() {
    let outcomes = run(CASES, None);
    assert_eq!(outcomes.len(), 14);
    for outcome in &outcomes {
        assert!(outcome.has_passed(), "{outcome:#?}");
    }
    assert_eq!(run(CASES, Some("LARGE")).len(), 1);
}

/// What users copy from.
#[test]
fn the_policy_and_the_cases_of_the_documentation_fit() {
    let page = include_str!("../../../docs/guardian.md");
    let blocks = page.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let blocks: Vec<_> = blocks.collect();
    let [policy, cases] = blocks[..] else { panic!("{} blocks", blocks.len()) };
    let policy = Policy::parse(policy).unwrap();
    let outcomes: Vec<_> = PolicyTestSuite::parse(cases).unwrap().run(&policy, None).collect();
    assert_eq!(outcomes.len(), 5);
    for outcome in outcomes {
        assert!(outcome.has_passed(), "{outcome:#?}");
    }
}

#[test]
fn a_rule_that_changed_nothing_need_not_be_named() {
    let policy = Policy::parse(
        "
version: 1
default: allow
rules:
  - {id: mail, decision: modify, modify: {redact: [{pattern: email}]}}
  - {id: one, on: toolCallRequest, tool: mail.send, limit: {calls: 1}, decision: deny}
",
    )
    .unwrap();
    let step = |expect: &str, text: &str| {
        format!(
            "      - {{request: {{tool: mail.send, inputs: {{text: '{text}'}}}}, expect: {expect}}}\n"
        )
    };
    let outcomes = |steps: &[String]| {
        let cases = format!("cases:\n  - name: a\n    steps:\n{}", steps.concat());
        PolicyTestSuite::parse(&cases).unwrap().run(&policy, None).collect::<Vec<_>>()
    };
    let found = outcomes(&[
        step("allow", "hi"),
        step("{decision: deny, rules: one}", "hi"),
        step("{decision: deny, rules: [mail, one]}", "hi"),
        step("{decision: deny, rules: [mail, one]}", "to ada@example.org"),
    ]);
    assert!(found[0].has_passed(), "{found:#?}");
    // One that has changed something is part of what happened.
    let found = outcomes(&[
        step("{decision: modify, rules: []}", "to ada@example.org"),
        step("{decision: deny, rules: one}", "to ada@example.org"),
        step("{decision: deny, rules: [one, other]}", "hi"),
    ]);
    let differ: Vec<_> = found[0].differences.iter().map(|one| (one.step, one.what)).collect();
    assert_eq!(differ, [(1, "rules"), (2, "rules"), (3, "rules")]);
}

#[test]
fn what_does_not_hold_is_told() {
    let outcomes = run(
        "
cases:
  - name: wrong
    steps:
      - {request: {tool: bank.pay, inputs: {body: {amount: 20}}}, expect: {decision: deny, reason_codes: [x], rules: [], message: no}}
      - {approve: true, request: {tool: t}, expect: {decision: allow, inputs: {a: 1}}}
      - {times: 5, request: {tool: mail.send}, expect: allow}
",
        None,
    );
    let told: Vec<_> = outcomes[0]
        .differences
        .iter()
        .map(|one| json!([one.step, one.what, one.expected, one.found]).to_string())
        .collect();
    assert_snapshot!(told.join("\n"), @r#"
    [1,"decision","deny","allow"]
    [1,"reason_codes",["x"],[]]
    [1,"rules",[],["rest"]]
    [1,"message","no","Allowed by policy."]
    [2,"approve","something that waits for a person",null]
    [2,"inputs",{"a":1},{}]
    [3,"decision","allow","deny"]
    "#);
}

#[test]
fn what_is_no_case_is_told() {
    let faults = |text: &str| PolicyTestSuite::parse(text).unwrap_err().to_string();
    assert_snapshot!(faults("cases:\n  - name: a\n"), @r#"line 2, column 11: case "a": needs either request and expect, or steps"#);
    assert_snapshot!(faults("cases:\n  - {name: a, request: {}, expect: perhaps}\n"), @"line 2, column 36: expect: unknown variant `perhaps`, expected one of `allow`, `deny`, `modify`");
    assert_snapshot!(faults("cases:\n  - {name: a, request: {tol: x}, expect: deny}\n"), @"line 2, column 25: unknown field `tol`, expected one of hook, tool, inputs, outputs, is_error, texts, role, query, reasoning, message, user, caller, session, agent, capability, host, request, hidden, aos; did you mean `tool`?");
    assert_snapshot!(faults("cases:\n  - {name: a, request: {outputs: [x]}, expect: deny}\n"), @r#"line 2, column 12: case "a": step 1: outputs is not allowed in steps/toolCallRequest"#);
    assert_snapshot!(faults("cases:\n  - {name: a, request: {hook: toolCall}, expect: deny}\n"), @r#"line 2, column 12: case "a": step 1: hook "toolCall" is not one of steps/agentTrigger, steps/message, steps/toolCallRequest, steps/toolCallResult, steps/knowledgeRetrieval, steps/memoryStore, steps/memoryContextRetrieval, protocols/MCP, message/send, message/stream, task/get, tasks/cancel, tasks/resubscribe, task/pushNotificationConfig/set, task/pushNotificationConfig/get, protocols/A2A"#);
    assert_snapshot!(faults("cases:\n  - {name: a, request: {hook: message, role: robot}, expect: deny}\n"), @r#"line 2, column 12: case "a": step 1: the request is invalid: params.message.role: must be one of user, agent, system"#);
    assert_snapshot!(faults("cases:\n  - {name: a, request: {aos: {id: 1}}, expect: deny}\n"), @r#"line 2, column 12: case "a": step 1: the request is invalid: not a JSON-RPC 2.0 request: jsonrpc must be "2.0""#);
    assert_snapshot!(faults("cases:\n  - {name: a, steps: [{after: soon, request: {}, expect: deny}]}\n"), @r#"line 2, column 12: case "a": step 1: after "soon" is not a duration from 1s to 31d, such as 90s, 30m, 24h or 7d"#);
    assert_snapshot!(faults("cases:\n  - {name: a, steps: [{times: 0, request: {}, expect: deny}]}\n"), @r#"line 2, column 12: case "a": step 1: times is not from 1 to 10000"#);
}

/// A rule on the path that is sent holds for every spelling of it.
#[test]
fn a_case_states_the_request_that_is_sent() {
    let policy = Policy::parse(
        "version: 1\ndefault: allow\nrules:\n  - {id: admin, on: toolCallRequest, decision: deny, \
         when: 'request.host == \"api.example\" && request.path.startsWith(\"/admin\")'}\n",
    )
    .unwrap();
    let cases = ["/admin", "/%61dmin", "//admin", "/x/../admin", "/%2e/admin"].map(|path| {
        format!(
            "  - {{name: '{path}', request: {{request: {{host: API.Example., path: '{path}'}}}}, \
             expect: deny}}\n"
        )
    });
    let other = "  - {name: other, request: {request: {host: api.example, path: /x}}, \
                 expect: allow}\n  - {name: none, request: {}, expect: allow}\n";
    let cases = format!("cases:\n{}{other}", cases.concat());
    for outcome in PolicyTestSuite::parse(&cases).unwrap().run(&policy, None) {
        assert!(outcome.has_passed(), "{outcome:#?}");
    }
}
