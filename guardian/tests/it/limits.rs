//! Rates and budgets.

use guardian::PolicySource;
use serde_json::{Value, json};

use crate::world::{World, call, result};

const CALLS: &str = "
version: 1
default: allow
rules:
  - id: no-mail
    tool: mail.*
    when: has(inputs.draft) && inputs.draft
    decision: deny
  - {id: three, on: toolCallRequest, tool: mail.*, limit: {calls: 3, within: 1h}, decision: deny, reason_codes: rate}
";

/// The same call in another session.
fn in_session(session: &str, inputs: &Value) -> aos::message::Request {
    let mut request = call("mail.send", inputs);
    if let aos::message::MethodCall::ToolCallRequest(step) = &mut request.call {
        step.context.session.id = session.to_owned();
    }
    request
}

async fn decision(world: &World, request: &aos::message::Request) -> String {
    world.ask(request).await["decision"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn calls_are_counted_for_each_session_and_come_back_with_time() {
    let world = World::new(CALLS);
    let mail = call("mail.send", &json!({}));
    for _ in 0..3 {
        assert_eq!(decision(&world, &mail).await, "allow");
        world.wait(60);
    }
    let denied = world.ask(&mail).await;
    assert_eq!((&denied["decision"], &denied["reasonCode"]), (&json!("deny"), &json!(["rate"])));
    assert_eq!(decision(&world, &in_session("s-2", &json!({}))).await, "allow");
    assert_eq!(decision(&world, &call("dogs.list", &json!({}))).await, "allow");
    assert_eq!(decision(&world, &result("mail.send", &["sent"])).await, "allow");
    world.wait(3_600 - 180);
    assert_eq!(decision(&world, &mail).await, "allow", "the first is an hour old");
    assert_eq!(decision(&world, &mail).await, "deny");
}

/// The same call, told to be a preview.
fn planned(inputs: &Value) -> aos::message::Request {
    let mut planned = call("mail.send", inputs);
    if let aos::message::MethodCall::ToolCallRequest(step) = &mut planned.call {
        step.context.extra.get_mut("capability").unwrap().insert("preview".to_owned(), true.into());
    }
    planned
}

#[tokio::test]
async fn what_is_denied_or_only_planned_is_not_counted() {
    let world = World::new(CALLS);
    for _ in 0..5 {
        assert_eq!(decision(&world, &call("mail.send", &json!({"draft": true}))).await, "deny");
        let foreseen = world.ask(&planned(&json!({}))).await;
        assert_eq!(
            (&foreseen["reasonCode"], &foreseen["data"]["preview"]),
            (&json!(["preview_only"]), &json!("allow")),
        );
    }
    for expected in ["allow", "allow", "allow", "deny"] {
        assert_eq!(decision(&world, &call("mail.send", &json!({}))).await, expected);
    }
    let foreseen = world.ask(&planned(&json!({}))).await;
    assert_eq!(foreseen["reasonCode"], json!(["rate"]), "a plan is told what would be said");
}

/// An agent that says of each step that it only plans it, and takes it all the same.
#[tokio::test]
async fn nobody_gets_around_a_limit_by_calling_it_a_preview() {
    let world = World::new(
        "
version: 1
default: deny
rules:
  - {id: metric, on: toolCallRequest, decision: modify, modify: {set: {units: metric}}}
  - {id: three, on: toolCallRequest, tool: mail.*, limit: {calls: 3, within: 1h}, decision: deny}
  - {id: reading, tool: dogs.*, decision: allow}
  - {id: mail, tool: mail.*, decision: allow}
",
    );
    for _ in 0..10 {
        let told = world.ask(&planned(&json!({}))).await;
        assert_eq!(
            (&told["decision"], &told["data"]["preview"], &told["modifiedRequest"]),
            (&json!("deny"), &json!("modify"), &Value::Null)
        );
        let said = told["message"].as_str().unwrap();
        assert!(
            said.contains("changed and allowed, and the rule three would count the step"),
            "{said}"
        );
    }
    // What nothing counts is told as it is: who takes it gets no more than an execution does.
    let mut dogs = planned(&json!({}));
    if let aos::message::MethodCall::ToolCallRequest(step) = &mut dogs.call {
        step.tool_call_request.tool_id = "dogs.list".to_owned();
    }
    assert_eq!(decision(&world, &dogs).await, "modify");
    assert!(world.records().iter().all(|record| record.get("charges").is_none()));
}

/// A rule after the one with the limit takes the call back.
#[tokio::test]
async fn a_later_denial_gives_back_what_was_counted() {
    let world = World::new(
        "
version: 1
default: allow
rules:
  - {id: one, on: toolCallRequest, limit: {calls: 1}, decision: deny, reason_codes: rate}
  - {id: no-draft, when: has(inputs.draft), decision: deny, reason_codes: draft}
",
    );
    for _ in 0..3 {
        let denied = world.ask(&call("t", &json!({"draft": 1}))).await;
        assert_eq!(denied["reasonCode"], json!(["draft"]));
    }
    assert_eq!(decision(&world, &call("t", &json!({}))).await, "allow");
    assert_eq!(decision(&world, &call("t", &json!({}))).await, "deny");
}

/// Each thing that a limit counts apart has a count of its own, and nothing else makes another.
#[tokio::test]
async fn what_is_counted_apart_is_what_the_rule_says() {
    /// The same call with one thing another.
    fn but(what: &str) -> aos::message::Request {
        let mut request = call("mail.send", &json!({}));
        let aos::message::MethodCall::ToolCallRequest(step) = &mut request.call else {
            panic!("no call")
        };
        match what {
            "session" => step.context.session.id = "s-2".to_owned(),
            "user" => step.context.user = Some(aos::message::User::new("u-2".to_owned())),
            "agent" => step.context.agent.id = "agent-2".to_owned(),
            "tool" => step.tool_call_request.tool_id = "mail.forward".to_owned(),
            "capability" => {
                let capability = step.context.extra.get_mut("capability").unwrap();
                capability.insert("name".to_owned(), "Another".into());
            }
            _ => {}
        }
        request
    }
    let things = ["session", "user", "agent", "tool", "capability"];
    for per in things.into_iter().chain(["all"]) {
        let world = World::new(&format!(
            "
version: 1
default: allow
rules: [{{id: one, on: toolCallRequest, limit: {{calls: 1, per: {per}}}, decision: deny}}]
"
        ));
        assert_eq!(decision(&world, &but("")).await, "allow", "{per}");
        for what in things {
            let expected = if what == per { "allow" } else { "deny" };
            assert_eq!(
                decision(&world, &but(what)).await,
                expected,
                "{what} where it is per {per}"
            );
        }
    }
}

/// A long name is not kept whole, and still is another than one that begins like it.
#[tokio::test]
async fn long_names_are_told_apart() {
    let world = World::new(CALLS);
    let of = |end: &str| in_session(&format!("{}{end}", "s".repeat(1_000)), &json!({}));
    for _ in 0..3 {
        assert_eq!(decision(&world, &of("a")).await, "allow");
    }
    assert_eq!(decision(&world, &of("a")).await, "deny");
    assert_eq!(decision(&world, &of("b")).await, "allow");
}

const BUDGET: &str = "
version: 1
default: allow
rules:
  - id: budget
    on: toolCallRequest
    limit: {spend: inputs.amount, most: 1, per: all, within: 1d}
    decision: deny
    message: The budget of the day is used up.
";

#[tokio::test]
async fn a_budget_is_exact_and_survives_a_restart() {
    let mut world = World::new(BUDGET);
    // Ten tenths are one, which sums of floating point are not.
    for n in 0..10 {
        assert_eq!(decision(&world, &call("pay", &json!({"amount": 0.1}))).await, "allow", "{n}");
        if n == 4 {
            world = world.restart();
        }
    }
    let denied = world.ask(&call("pay", &json!({"amount": 0.000_001}))).await;
    assert_eq!(denied["message"], "The budget of the day is used up.");
    world = world.restart();
    assert_eq!(decision(&world, &call("pay", &json!({"amount": 0.1}))).await, "deny");
    world.wait(86_400);
    assert_eq!(decision(&world, &call("pay", &json!({"amount": 1}))).await, "allow");
}

#[tokio::test]
async fn an_amount_that_is_none_gives_nothing_back() {
    let world = World::new(BUDGET);
    for amount in [json!(-5), json!(-0.5), json!("1"), json!(null), json!([1])] {
        let denied = world.ask(&call("pay", &json!({"amount": amount}))).await;
        assert_eq!(denied["reasonCode"], json!(["policy_error"]), "{amount}");
    }
    assert_eq!(world.ask(&call("pay", &json!({}))).await["reasonCode"], json!(["policy_error"]));
    assert_eq!(decision(&world, &call("pay", &json!({"amount": 1}))).await, "allow");
    assert_eq!(decision(&world, &call("pay", &json!({"amount": 1e300}))).await, "deny");
    assert_eq!(decision(&world, &call("pay", &json!({"amount": 0}))).await, "allow");
}

#[tokio::test]
async fn nobody_gets_more_by_asking_at_once() {
    let world = World::new(CALLS);
    let asked = (0..50).map(|_| {
        let app = world.app.clone();
        tokio::spawn(async move {
            let request = axum::http::Request::post("/aos")
                .header("content-type", "application/json")
                .body(axum::body::Body::from(call("mail.send", &json!({})).to_vec()))
                .unwrap();
            let response = tower::ServiceExt::oneshot(app.router(), request).await.unwrap();
            let body = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
            let answer: Value = serde_json::from_slice(&body).unwrap();
            answer["result"]["decision"] == "allow"
        })
    });
    let mut allowed = 0;
    for answer in asked.collect::<Vec<_>>() {
        allowed += usize::from(answer.await.unwrap());
    }
    assert_eq!(allowed, 3);
}

/// What cannot be recorded is denied, and costs nothing.
#[tokio::test]
async fn what_cannot_be_recorded_is_given_back() {
    let source = PolicySource::Text(CALLS.to_owned());
    let world = World::with(source, |config| config.max_audit_bytes = Some(5_000));
    let long: serde_json::Map<_, _> =
        (0..30).map(|n| (format!("n{n}"), "x".repeat(200).into())).collect();
    for _ in 0..5 {
        let denied = world.ask(&call("mail.send", &Value::Object(long.clone()))).await;
        assert_eq!(denied["reasonCode"], json!(["audit_unavailable"]));
    }
    for expected in ["allow", "allow", "allow", "deny"] {
        assert_eq!(decision(&world, &call("mail.send", &json!({}))).await, expected);
    }
    assert_eq!(world.records().last().unwrap()["reason_codes"], json!(["rate"]));
}
