//! Rules by the user of a message, and by the token that acts for one.

use aos::message::{MethodCall, Request, User};
use serde_json::{Value, json};

use guardian::Policy;

use crate::world::{World, call, message, result};

fn policy(rules: &str, default: &str) -> Policy {
    Policy::parse(&format!("version: 1\ndefault: {default}\nrules:\n{rules}\n")).unwrap()
}

#[track_caller]
fn check(rule: &str, request: &Request, expected: (&str, &[&str])) {
    let default = if rule.contains("decision: allow") { "deny" } else { "allow" };
    let rules = format!("  - {{id: r, {rule}}}");
    let answer = policy(&rules, default).decide(request).response;
    let codes: Vec<_> = answer.reason_codes.iter().map(String::as_str).collect();
    assert_eq!(
        (answer.decision.as_str(), codes.as_slice()),
        expected,
        "{rule}: {}",
        request.method()
    );
}

fn of(user: Option<&str>, caller: Option<&str>) -> Request {
    let mut request = call("t", &json!({"amount": 1}));
    let MethodCall::ToolCallRequest(step) = &mut request.call else { panic!("no call") };
    step.context.user = user.map(|id| User::new(id.to_owned()));
    if let Some(id) = caller {
        let caller = json!({"id": id}).as_object().unwrap().clone();
        step.context.extra.insert("caller".to_owned(), caller);
    }
    request
}

/// Messages of every kind of hook that state no user.
fn without_user() -> Vec<Request> {
    let a2a = |context: Value| {
        let params = json!({"payload": {"jsonrpc": "2.0", "id": 1}, "context": context});
        let message =
            json!({"jsonrpc": "2.0", "id": "q", "method": "message/send", "params": params});
        Request::from_value(message).unwrap()
    };
    let bare = json!({"jsonrpc": "2.0", "id": "q", "method": "protocols/MCP", "params":
        {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}});
    vec![
        of(None, None),
        of(Some(""), None),
        of(Some(" "), Some("svc")),
        result("t", &["x"]),
        message("steps/memoryStore", json!({"memory": ["x"]})),
        message("protocols/MCP", json!({"message": {"jsonrpc": "2.0", "id": 1, "method": "ping"}})),
        Request::from_value(bare).unwrap(),
        a2a(json!({})),
        a2a(json!({"user": {"id": ""}})),
    ]
}

#[test]
fn message_without_user_matches_only_denying_rules() {
    for request in without_user() {
        for deny in ["user: bob", "user: ['*@contractor.example']", "when: \"user.id == 'bob'\""] {
            check(&format!("{deny}, decision: deny"), &request, ("deny", &["r"]));
        }
        check("when: \"caller.id == 'svc'\", decision: deny", &request, ("deny", &["r"]));
        for allow in ["user: '*'", "user: ['*', '?']", "when: \"user.id != 'bob'\""] {
            check(&format!("{allow}, decision: allow"), &request, ("deny", &["default_deny"]));
        }
        check("user: bob, decision: approve", &request, ("deny", &["user_unknown"]));
        // What is not about users is as before.
        check("session: other, user: bob, decision: deny", &request, ("allow", &[]));
    }
    let mail = result("t", &["to ada@example.org"]);
    let redact = "user: bob, decision: modify, modify: {redact: [{pattern: email}]}";
    check(redact, &mail, ("modify", &[]));
}

#[test]
fn a_ping_needs_no_user() {
    let rules = "  - {id: r, user: bob, decision: deny}";
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    let world = World::new(&format!("version: 1\ndefault: allow\nrules:\n{rules}\n"));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let answer = runtime.block_on(world.app.handle_message(ping.to_string().into_bytes()));
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!(answer["result"]["status"], "connected");
}

#[test]
fn what_denies_fits_the_user_or_the_token_that_acts_for_them() {
    let pair = of(Some("carol"), Some("desk"));
    for user in ["carol", "desk", "c*", "[other, desk]"] {
        check(&format!("user: {user}, decision: deny"), &pair, ("deny", &["r"]));
    }
    check("user: bob, decision: deny", &pair, ("allow", &[]));
    check("user: carol, decision: allow", &pair, ("allow", &[]));
    check("user: desk, decision: allow", &pair, ("deny", &["default_deny"]));
    check("when: \"caller.id == 'desk'\", decision: deny", &pair, ("deny", &["r"]));
    check("user: desk, decision: approve", &pair, ("deny", &["approval_required"]));
    check("user: bob, decision: deny", &of(Some("alice"), None), ("allow", &[]));
    check("user: bob, decision: deny", &of(Some("bob"), None), ("deny", &["r"]));
}

#[test]
fn case_and_final_dot_lead_past_no_restriction() {
    for user in ["eve@contractor.example", "eve@Contractor.Example", "EVE@contractor.example."] {
        let request = of(Some(user), None);
        for pattern in ["'*@contractor.example'", "Eve@CONTRACTOR.example."] {
            check(&format!("user: {pattern}, decision: deny"), &request, ("deny", &["r"]));
        }
        let asks = "user: '*@contractor.example', decision: approve";
        check(asks, &request, ("deny", &["approval_required"]));
    }
    let caller = of(Some("carol"), Some("Desk."));
    check("user: desk, decision: deny", &caller, ("deny", &["r"]));
    check("user: bob, decision: allow", &of(Some("Bob"), None), ("deny", &["default_deny"]));
    check("user: Bob, decision: allow", &of(Some("Bob"), None), ("allow", &[]));
}

#[test]
fn messages_between_agents_state_the_user_beside_them() {
    let a2a = |method: &str| {
        let params = json!({"payload": {"jsonrpc": "2.0", "id": 1}, "message": {}, "context":
            {"user": {"id": "carol", "email": "c@example.org"}, "caller": {"id": "desk"}}});
        let message = json!({"jsonrpc": "2.0", "id": "q", "method": method, "params": params});
        Request::from_value(message).unwrap()
    };
    for method in ["message/send", "tasks/cancel", "protocols/A2A"] {
        let request = a2a(method);
        check("user: carol, decision: allow", &request, ("allow", &[]));
        check("user: '*@example.org', decision: allow", &request, ("allow", &[]));
        check("user: desk, decision: deny", &request, ("deny", &["r"]));
        check("when: \"user.id == 'carol'\", decision: allow", &request, ("allow", &[]));
        check("user: bob, decision: deny", &request, ("allow", &[]));
    }
}

#[tokio::test]
async fn what_is_counted_per_user_is_counted_by_the_pair() {
    let world = World::new(
        "version: 1\ndefault: allow\nrules: [{id: one, on: toolCallRequest, limit: {calls: 1, per: user}, decision: deny}]",
    );
    let pairs = [
        (Some("carol"), None),
        (Some("carol"), Some("desk")),
        (Some("carol"), Some("shop")),
        (Some("dave"), Some("desk")),
        (None, None),
    ];
    for expected in ["allow", "deny"] {
        for (user, caller) in pairs {
            let answer = world.ask(&of(user, caller)).await;
            assert_eq!(answer["decision"], expected, "{user:?} {caller:?}");
        }
    }
}

#[tokio::test]
async fn a_limit_per_caller_counts_all_users_of_a_token() {
    let world = World::new(
        "version: 1\ndefault: allow\nrules: [{id: one, on: toolCallRequest, limit: {calls: 2, per: caller}, decision: deny}]",
    );
    for (user, caller, expected) in [
        ("carol", Some("desk"), "allow"),
        ("desk", None, "allow"),
        ("dave", Some("desk"), "deny"),
        ("dave", Some("shop"), "allow"),
    ] {
        let answer = world.ask(&of(Some(user), caller)).await;
        assert_eq!(answer["decision"], expected, "{user} {caller:?}");
    }
}

#[tokio::test]
async fn the_log_names_user_and_caller() {
    let world = World::new("version: 1\ndefault: allow");
    world.ask(&of(Some("carol"), Some("desk"))).await;
    let records = world.records();
    let last = records.last().unwrap();
    assert_eq!((&last["user"], &last["caller"]), (&json!("carol"), &json!("desk")));
}
