//! What a person has to approve.

use aos::message::{ApprovalWithdrawal, MethodCall, Ping, Request};
use guardian::{PolicySource, TokenDigest};
use serde_json::{Value, json};

use crate::world::{World, call};

const POLICY: &str = "
version: 1
default: allow
rules:
  - id: large
    on: toolCallRequest
    tool: bank.pay
    when: inputs.amount > 100
    decision: approve
    message: Large amounts need a person.
    approval: {within: 30m}
";

fn world() -> World {
    let source = PolicySource::Text(POLICY.to_owned());
    World::with(source, |config| config.token = Some(TokenDigest::new("s3cret")))
}

/// A payment in a run of its own, as whoever asks again sends it.
fn pay(inputs: &Value, run: u32) -> Request {
    let mut request = call("bank.pay", inputs);
    request.id = i64::from(run).into();
    let MethodCall::ToolCallRequest(step) = &mut request.call else { panic!("no call") };
    step.tool_call_request.execution_id = format!("x-{run}");
    step.context.session.id = format!("s-{run}");
    step.context.turn_id = format!("t-{run}");
    step.reasoning = Some(format!("try {run}"));
    let capability = step.context.extra.get_mut("capability").unwrap();
    capability.insert("run".to_owned(), format!("r-{run}").into());
    request
}

async fn ask(world: &World, inputs: &Value, run: u32) -> Value {
    world.ask(&pay(inputs, run)).await
}

/// The id under which a person is asked.
#[track_caller]
fn waiting(answer: &Value) -> String {
    assert_eq!(
        (&answer["decision"], &answer["reasonCode"]),
        (&json!("deny"), &json!(["approval_required"])),
        "{answer}"
    );
    answer["data"]["approval_id"].as_str().unwrap().to_owned()
}

async fn settle(world: &World, id: &str, word: &str, token: Option<&str>) -> (u16, Value) {
    let body = json!({"decided_by": "ada", "reason": "checked"}).to_string().into_bytes();
    world.send("POST", &format!("/v1/approvals/{id}/{word}"), token, body).await
}

#[tokio::test]
async fn what_was_approved_is_allowed_once() {
    let world = world();
    let inputs = json!({"amount": 500, "to": {"iban": "X", "name": "Y"}});
    let first = ask(&world, &inputs, 1).await;
    let id = waiting(&first);
    assert!(
        first["message"].as_str().unwrap().starts_with("Large amounts need a person."),
        "{first}"
    );
    assert_eq!(waiting(&ask(&world, &inputs, 1).await), id, "nobody is asked twice for the same");
    let other = waiting(&ask(&world, &inputs, 2).await);
    assert_ne!(other, id, "two runs that wait have two approvals");

    let (status, approval) = settle(&world, &id, "approve", Some("s3cret")).await;
    assert_eq!(
        (status, &approval["state"], &approval["decided_by"]),
        (200, &json!("approved"), &json!("ada"))
    );
    // The order of members is no content.
    let same = json!({"amount": 500, "to": {"name": "Y", "iban": "X"}});
    assert_eq!(ask(&world, &same, 1).await["decision"], "allow");
    assert_eq!(waiting(&ask(&world, &inputs, 2).await), other, "the other run still waits");
    assert!(![id, other].contains(&waiting(&ask(&world, &inputs, 4).await)));
    world.records();
}

#[tokio::test]
async fn an_approval_is_for_exactly_what_was_asked() {
    let world = world();
    let inputs = json!({"amount": 500, "to": "X"});
    let id = waiting(&ask(&world, &inputs, 1).await);
    settle(&world, &id, "approve", Some("s3cret")).await;
    for other in [
        json!({"amount": 501, "to": "X"}),
        json!({"amount": 500, "to": "Y"}),
        json!({"amount": 500}),
        json!({"amount": 500, "to": "X", "more": null}),
        json!({"amount": 500.0, "to": "X"}),
    ] {
        assert_ne!(waiting(&ask(&world, &other, 1).await), id, "{other}");
    }
    let [mut by_another, mut for_another, mut of_another, mut with_another_secret] =
        [(); 4].map(|()| pay(&inputs, 1));
    let changed = [
        (&mut by_another, 0),
        (&mut for_another, 1),
        (&mut of_another, 2),
        (&mut with_another_secret, 3),
    ];
    for (request, change) in changed {
        let MethodCall::ToolCallRequest(step) = &mut request.call else { panic!("no call") };
        match change {
            0 => step.context.agent.id = "agent-2".to_owned(),
            1 => step.context.user = Some(aos::message::User::new("u-2".to_owned())),
            3 => {
                let sealed = json!({"method": "POST", "sealed": "0123"});
                let sealed = sealed.as_object().unwrap().clone();
                step.context.extra.insert("request".to_owned(), sealed);
            }
            _ => {
                let capability = step.context.extra.get_mut("capability").unwrap();
                capability.insert("checksum".to_owned(), "sha256:01".into());
            }
        }
        assert_ne!(waiting(&world.ask(request).await), id, "{change}");
    }
    assert_eq!(ask(&world, &inputs, 1).await["decision"], "allow");
}

/// Two integers that floating point cannot tell apart are two amounts.
#[tokio::test]
async fn large_numbers_are_told_apart() {
    let world = world();
    let of = |amount: u64| json!({"amount": amount});
    let id = waiting(&ask(&world, &of(9_007_199_254_740_992), 1).await);
    settle(&world, &id, "approve", Some("s3cret")).await;
    assert_ne!(waiting(&ask(&world, &of(9_007_199_254_740_993), 1).await), id);
}

#[tokio::test]
async fn nobody_approves_without_the_token() {
    let world = world();
    let inputs = json!({"amount": 500});
    let id = waiting(&ask(&world, &inputs, 1).await);
    for token in [None, Some(""), Some("s3cre"), Some("s3cret2")] {
        let (status, problem) = settle(&world, &id, "approve", token).await;
        assert_eq!((status, &problem["code"]), (401, &json!("unauthorized")), "{token:?}");
        assert_eq!(world.send("GET", "/v1/approvals", token, Vec::new()).await.0, 401);
    }
    assert_eq!(waiting(&ask(&world, &inputs, 1).await), id);
    // Where there is no token, there is nobody who could.
    let without = World::new(POLICY);
    let id = waiting(&ask(&without, &inputs, 1).await);
    assert_eq!(settle(&without, &id, "approve", Some("")).await.0, 401);
    assert_eq!(settle(&without, &id, "approve", Some("s3cret")).await.0, 401);
}

#[tokio::test]
async fn everything_has_an_end() {
    let world = world();
    let inputs = json!({"amount": 500});
    let id = waiting(&ask(&world, &inputs, 1).await);
    world.wait(30 * 60);
    let (refused, problem) = settle(&world, &id, "approve", Some("s3cret")).await;
    assert_eq!((refused, &problem["code"]), (409, &json!("approval_not_waiting")));
    assert!(problem["detail"].as_str().unwrap().contains("expired at"), "{problem}");
    let next = waiting(&ask(&world, &inputs, 2).await);
    assert_ne!(next, id);
    world.wait(60);
    assert_eq!(settle(&world, &next, "approve", Some("s3cret")).await.0, 200);
    world.wait(30 * 60 - 1);
    assert_eq!(status(&world, &next, Some("s3cret")).await.1["status"], "approved");
    world.wait(1);
    assert_ne!(waiting(&ask(&world, &inputs, 2).await), next, "it is good no more");
}

#[tokio::test]
async fn what_was_rejected_is_denied_until_its_end() {
    let world = world();
    let inputs = json!({"amount": 500});
    let id = waiting(&ask(&world, &inputs, 1).await);
    assert_eq!(settle(&world, &id, "reject", Some("s3cret")).await.1["state"], "rejected");
    let (status, problem) = settle(&world, &id, "approve", Some("s3cret")).await;
    assert_eq!(status, 409);
    assert!(problem["detail"].as_str().unwrap().contains("already rejected by ada"), "{problem}");
    assert_eq!(settle(&world, &id, "reject", Some("s3cret")).await.0, 200, "the same again");
    let denied = ask(&world, &inputs, 1).await;
    assert_eq!(
        (&denied["decision"], &denied["reasonCode"]),
        (&json!("deny"), &json!(["approval_rejected"]))
    );
    world.wait(30 * 60);
    assert_ne!(waiting(&ask(&world, &inputs, 1).await), id);
}

#[tokio::test]
async fn a_restart_changes_nothing() {
    let mut world = world();
    let (one, two, three) =
        (json!({"amount": 101}), json!({"amount": 102}), json!({"amount": 103}));
    let first = waiting(&ask(&world, &one, 1).await);
    let second = waiting(&ask(&world, &two, 1).await);
    let third = waiting(&ask(&world, &three, 1).await);
    settle(&world, &second, "approve", Some("s3cret")).await;
    settle(&world, &third, "approve", Some("s3cret")).await;
    assert_eq!(ask(&world, &three, 1).await["decision"], "allow");
    let before = world.send("GET", "/v1/approvals", Some("s3cret"), Vec::new()).await;
    world = world.restart();
    assert_eq!(world.send("GET", "/v1/approvals", Some("s3cret"), Vec::new()).await, before);
    assert_eq!(waiting(&ask(&world, &one, 1).await), first, "it still waits");
    assert_eq!(ask(&world, &two, 1).await["decision"], "allow", "it is still good");
    assert_ne!(waiting(&ask(&world, &three, 3).await), third, "it is still used");
    world = world.restart();
    assert_ne!(waiting(&ask(&world, &two, 3).await), second);
    assert_eq!(settle(&world, &first, "approve", Some("s3cret")).await.0, 200);
    assert_eq!(ask(&world, &one, 1).await["decision"], "allow");
}

#[tokio::test]
async fn who_is_asked_sees_what_it_is_about_without_secrets() {
    let world = world();
    let inputs = json!({"amount": 500, "headerParameters.Authorization": "Bearer s3cret-key"});
    waiting(&ask(&world, &inputs, 1).await);
    let (status, list) = world.send("GET", "/v1/approvals", Some("s3cret"), Vec::new()).await;
    let subject = &list["approvals"][0]["subject"];
    assert_eq!((status, &subject["tool"]), (200, &json!("bank.pay")), "{list}");
    assert_eq!(
        subject["content"]["toolCallRequest"]["inputs"][0],
        json!({"name": "amount", "value": 500})
    );
    assert_eq!(list["approvals"][0]["state"], "waiting");
    assert!(!list.to_string().contains("s3cret-key"), "{list}");
}

#[tokio::test]
async fn a_preview_asks_nobody_and_uses_nothing_up() {
    let world = world();
    let inputs = json!({"amount": 500});
    let mut preview = pay(&inputs, 1);
    let MethodCall::ToolCallRequest(step) = &mut preview.call else { panic!("no call") };
    step.context.extra.get_mut("capability").unwrap().insert("preview".to_owned(), true.into());
    let told = world.ask(&preview).await;
    assert_eq!(
        (&told["reasonCode"], &told["data"]["approval_id"]),
        (&json!(["approval_required"]), &Value::Null)
    );
    let (_, list) = world.send("GET", "/v1/approvals", Some("s3cret"), Vec::new()).await;
    assert_eq!(list, json!({"approvals": []}));
    let id = waiting(&ask(&world, &inputs, 1).await);
    settle(&world, &id, "approve", Some("s3cret")).await;
    for _ in 0..3 {
        let told = world.ask(&preview).await;
        assert_eq!(
            (&told["decision"], &told["reasonCode"], &told["data"]["preview"]),
            (&json!("deny"), &json!(["preview_only"]), &json!("allow")),
            "an approval is for one act, and not for as many as are called a preview"
        );
    }
    assert_eq!(ask(&world, &inputs, 1).await["decision"], "allow", "the preview has not used it");
    world.wait(30 * 60);
    let id = waiting(&ask(&world, &inputs, 1).await);
    settle(&world, &id, "reject", Some("s3cret")).await;
    assert_eq!(world.ask(&preview).await["reasonCode"], json!(["approval_rejected"]));
}

/// A person's decision that is not on record does not count.
#[tokio::test]
async fn a_decision_that_cannot_be_recorded_does_not_count() {
    let source = PolicySource::Text(POLICY.to_owned());
    let world = World::with(source, |config| {
        config.token = Some(TokenDigest::new("s3cret"));
        config.max_audit_bytes = Some(4_000);
    });
    // Waiting requests until the log has no room for another; a decision is shorter than a request.
    let mut ids = Vec::new();
    loop {
        let verdict = ask(&world, &json!({"amount": 500 + ids.len()}), 1).await;
        let Some(id) = verdict["data"]["approval_id"].as_str() else { break };
        ids.push(id.to_owned());
    }
    let mut refused = None;
    for id in &ids {
        let (status, _) = settle(&world, id, "approve", Some("s3cret")).await;
        if status != 200 {
            assert_eq!(status, 503);
            refused = Some(id);
            break;
        }
    }
    let refused = refused.expect("the log is full before everything is decided");
    let (_, list) = world.send("GET", "/v1/approvals", Some("s3cret"), Vec::new()).await;
    let approvals = list["approvals"].as_array().unwrap();
    let shown = approvals.iter().find(|approval| approval["id"] == **refused).unwrap();
    assert_eq!(shown["state"], "waiting");
}

#[tokio::test]
async fn what_is_said_of_a_decision_has_to_be_understood() {
    let world = world();
    let id = waiting(&ask(&world, &json!({"amount": 500}), 1).await);
    let path = format!("/v1/approvals/{id}/approve");
    for bad in ["{", "[]", "{\"who\": \"ada\"}"] {
        let (status, problem) = world.send("POST", &path, Some("s3cret"), bad.into()).await;
        assert_eq!((status, &problem["code"]), (400, &json!("bad_decision")), "{bad}");
    }
    assert_eq!(world.send("POST", &path, Some("s3cret"), vec![b' '; 20_000]).await.0, 413);
    assert_eq!(
        world.send("POST", "/v1/approvals/none/approve", Some("s3cret"), Vec::new()).await.0,
        404
    );
    assert_eq!(world.send("POST", &path, Some("s3cret"), Vec::new()).await.0, 200);
}

#[tokio::test]
async fn the_log_tells_who_has_decided_what() {
    let world = world();
    let inputs = json!({"amount": 500});
    let id = waiting(&ask(&world, &inputs, 1).await);
    settle(&world, &id, "approve", Some("s3cret")).await;
    ask(&world, &inputs, 1).await;
    let records = world.records();
    let told: Vec<_> = records
        .iter()
        .map(|record| {
            let approval = &record["approval"];
            (record["event"].as_str().unwrap(), approval["is"].as_str(), approval["id"].as_str())
        })
        .collect();
    assert_eq!(
        told,
        [
            ("policy", None, None),
            ("decision", Some("asked"), Some(id.as_str())),
            ("approval", None, Some(id.as_str())),
            ("decision", Some("used"), Some(id.as_str())),
        ]
    );
    let decided = &records[2]["approval"];
    assert_eq!(
        (&decided["decided_by"], &decided["reason"], &decided["state"]),
        (&json!("ada"), &json!("checked"), &json!("approved"))
    );
}

/// The status of an approval as one sees it who shows this token.
async fn status(world: &World, id: &str, token: Option<&str>) -> (u16, Value) {
    world.send("GET", &format!("/v1/approvals/{id}"), token, Vec::new()).await
}

#[tokio::test]
async fn who_waits_learns_how_it_stands() {
    let source = PolicySource::Text(POLICY.to_owned());
    let world = World::with(source, |config| {
        config.token = Some(TokenDigest::new("s3cret"));
        config.client_token = Some(TokenDigest::new("ask"));
    });
    let inputs = json!({"amount": 500});
    let denied = ask(&world, &inputs, 1).await;
    let id = waiting(&denied);
    let expires = "2026-05-06T07:38:09Z";
    assert_eq!(
        denied["data"]["approval"],
        json!({"id": id, "status": "pending", "expiresAt": expires})
    );
    for token in [None, Some("other")] {
        assert_eq!(status(&world, &id, token).await.0, 401);
    }
    let (_, answer) = status(&world, &id, Some("ask")).await;
    assert_eq!(answer, json!({"id": id, "status": "pending", "expiresAt": expires}));
    let (_, whole) = status(&world, &id, Some("s3cret")).await;
    assert_eq!(whole["approval"]["subject"]["tool"], "bank.pay");
    assert_eq!(status(&world, "none", Some("ask")).await.0, 404);
    assert_eq!(
        settle(&world, &id, "approve", Some("ask")).await.0,
        401,
        "who asks decides nothing"
    );
    settle(&world, &id, "approve", Some("s3cret")).await;
    assert_eq!(status(&world, &id, Some("ask")).await.1["status"], "approved");
    assert_eq!(ask(&world, &inputs, 1).await["decision"], "allow");
    assert_eq!(status(&world, &id, Some("ask")).await.1["status"], "used");
    let next = waiting(&ask(&world, &inputs, 2).await);
    settle(&world, &next, "reject", Some("s3cret")).await;
    assert_eq!(status(&world, &next, Some("ask")).await.1["status"], "rejected");
    let last = waiting(&ask(&world, &json!({"amount": 501}), 3).await);
    world.wait(30 * 60);
    assert_eq!(status(&world, &last, Some("ask")).await.1["status"], "expired");
    let world = world.restart();
    for (id, expected) in [(&id, "used"), (&next, "rejected"), (&last, "expired")] {
        assert_eq!(status(&world, id, Some("ask")).await.1["status"], *expected, "after a restart");
    }
    let listed = async |query: &str| {
        let path = format!("/v1/approvals{query}");
        let (status, answer) = world.send("GET", &path, Some("s3cret"), Vec::new()).await;
        (status, answer["approvals"].as_array().map(Vec::len))
    };
    assert_eq!(listed("").await, (200, Some(0)));
    assert_eq!(listed("?status=all").await, (200, Some(3)));
    for of_one in ["used", "rejected", "expired"] {
        assert_eq!(listed(&format!("?status={of_one}")).await, (200, Some(1)), "{of_one}");
    }
    assert_eq!(listed("?status=none").await.0, 400);
}

/// Between "approved" and "sent" a crash may come: of the agent, of the guardian, or of both.
#[tokio::test]
async fn a_crash_after_the_approval_was_used_loses_nothing() {
    let mut world = world();
    let inputs = json!({"amount": 500});
    let id = waiting(&ask(&world, &inputs, 1).await);
    settle(&world, &id, "approve", Some("s3cret")).await;
    world = world.restart();
    assert_eq!(ask(&world, &inputs, 1).await["decision"], "allow", "approved and not used yet");
    assert_eq!(ask(&world, &inputs, 1).await["decision"], "allow", "the same execution");
    world = world.restart();
    assert_ne!(waiting(&ask(&world, &inputs, 2).await), id, "it is still used after a restart");
    assert_eq!(ask(&world, &inputs, 1).await["decision"], "allow", "after a restart, too");
    let other = json!({"amount": 501});
    assert_ne!(waiting(&ask(&world, &other, 1).await), id, "for the same act alone");
    assert_ne!(waiting(&ask(&world, &inputs, 2).await), id, "for the same execution alone");
    world.wait(30 * 60);
    assert_ne!(waiting(&ask(&world, &inputs, 1).await), id, "and as long as it is good");
    world.records();
}

#[tokio::test]
async fn an_approval_is_for_the_pair_of_user_and_token() {
    let world = world();
    let inputs = json!({"amount": 500});
    let of = |user: &str, caller: Option<&str>, run| {
        let mut request = pay(&inputs, run);
        let MethodCall::ToolCallRequest(step) = &mut request.call else { panic!("no call") };
        step.context.user = Some(aos::message::User::new(user.to_owned()));
        if let Some(id) = caller {
            let caller = json!({"id": id}).as_object().unwrap().clone();
            step.context.extra.insert("caller".to_owned(), caller);
        }
        request
    };
    let id = waiting(&world.ask(&of("ann", Some("desk"), 1)).await);
    let (_, list) = world.send("GET", "/v1/approvals", Some("s3cret"), Vec::new()).await;
    let asked = &list["approvals"][0];
    assert_eq!((&asked["user"], &asked["caller"]), (&json!("ann"), &json!("desk")));
    settle(&world, &id, "approve", Some("s3cret")).await;
    for (user, caller) in [("bob", Some("desk")), ("ann", Some("shop")), ("ann", None)] {
        assert_ne!(waiting(&world.ask(&of(user, caller, 1)).await), id, "{user} {caller:?}");
    }
    assert_eq!(world.ask(&of("ann", Some("desk"), 1)).await["decision"], "allow");
}

#[tokio::test]
async fn approving_at_the_same_time_is_one_approval() {
    let world = world();
    let inputs = json!({"amount": 500});
    let id = waiting(&ask(&world, &inputs, 1).await);
    let parallel = (0..10).map(|_| settle(&world, &id, "approve", Some("s3cret")));
    for (status, approval) in futures::future::join_all(parallel).await {
        assert_eq!((status, &approval["state"]), (200, &json!("approved")), "{approval}");
    }
    assert_eq!(ask(&world, &inputs, 1).await["decision"], "allow");
    let (status, approval) = settle(&world, &id, "approve", Some("s3cret")).await;
    assert_eq!((status, &approval["state"]), (200, &json!("used")), "also after its use");
    let (status, problem) = settle(&world, &id, "reject", Some("s3cret")).await;
    assert_eq!(status, 409);
    assert!(problem["detail"].as_str().unwrap().contains("approved by ada, and used"));
    let approved = world.records().into_iter().filter(|record| record["event"] == "approval");
    assert_eq!(approved.count(), 1);
}

/// The response to a ping that withdraws the approval of an execution.
async fn withdraw(world: &World, id: &str, execution: &str) -> Value {
    let withdrawal = ApprovalWithdrawal {
        id: id.to_owned(),
        execution_id: execution.to_owned(),
        reason: "the run was cancelled".to_owned(),
    };
    let ping = Ping::default().with_withdrawals(&[withdrawal]);
    world.ask(&Request::new(1, ping)).await
}

#[tokio::test]
async fn an_approval_ends_with_its_run() {
    let mut world = world();
    let inputs = json!({"amount": 500});
    let pending = waiting(&ask(&world, &inputs, 1).await);
    let approved = waiting(&ask(&world, &inputs, 2).await);
    settle(&world, &approved, "approve", Some("s3cret")).await;
    let used = waiting(&ask(&world, &inputs, 3).await);
    settle(&world, &used, "approve", Some("s3cret")).await;
    ask(&world, &inputs, 3).await;
    withdraw(&world, &pending, "x-9").await;
    assert_eq!(status(&world, &pending, Some("s3cret")).await.1["status"], "pending");
    for (id, execution) in [(&pending, "x-1"), (&approved, "x-2"), (&used, "x-3")] {
        for _ in 0..2 {
            assert_eq!(withdraw(&world, id, execution).await["status"], "connected");
        }
    }
    world = world.restart();
    for (id, expected) in [(&pending, "withdrawn"), (&approved, "withdrawn"), (&used, "used")] {
        assert_eq!(status(&world, id, Some("s3cret")).await.1["status"], expected);
    }
    let (_, list) =
        world.send("GET", "/v1/approvals?status=withdrawn", Some("s3cret"), Vec::new()).await;
    assert_eq!(list["approvals"].as_array().unwrap().len(), 2);
    assert_eq!(list["approvals"][0]["reason"], "the run was cancelled");
    for (id, word) in [(&pending, "approve"), (&pending, "reject"), (&approved, "approve")] {
        let (status, problem) = settle(&world, id, word, Some("s3cret")).await;
        assert_eq!(status, 409);
        assert!(problem["detail"].as_str().unwrap().contains("the run was cancelled"), "{problem}");
    }
    let next = waiting(&ask(&world, &inputs, 4).await);
    assert!(![pending, approved, used].contains(&next), "a new run asks anew");
    world.records();
}

#[tokio::test]
async fn a_withdrawal_that_cannot_be_recorded_is_sent_again() {
    let source = PolicySource::Text(POLICY.to_owned());
    let world = World::with(source, |config| config.max_audit_bytes = Some(2_400));
    let id = waiting(&ask(&world, &json!({"amount": 500}), 1).await);
    while world.ask(&call("t", &json!({}))).await["decision"] == "allow" {}
    assert_eq!(withdraw(&world, &id, "x-1").await["status"], "error");
    assert_eq!(world.app.approvals()[0].state, guardian::ApprovalState::Waiting);
}

#[tokio::test]
async fn one_asker_cannot_fill_the_room_of_others() {
    let world = world();
    let of = |user: Option<&str>, n: usize| {
        let mut request = pay(&json!({"amount": 500 + n}), 1);
        let MethodCall::ToolCallRequest(step) = &mut request.call else { panic!("no call") };
        step.context.user = user.map(|user| aos::message::User::new(user.to_owned()));
        request
    };
    for n in 0..10 {
        waiting(&world.ask(&of(None, n)).await);
    }
    let denied = world.ask(&of(None, 10)).await;
    assert_eq!(denied["reasonCode"], json!(["approvals_quota"]));
    assert!(
        denied["message"].as_str().unwrap().contains("10 approvals are already pending"),
        "{denied}"
    );
    waiting(&world.ask(&of(Some("ann"), 0)).await);
}

#[tokio::test]
async fn followers_see_what_waits_and_each_change() {
    use axum::body::Body;
    use futures::StreamExt as _;
    use tower::ServiceExt as _;

    let world = world();
    let open = async |last_id: Option<&str>| {
        let request = axum::http::Request::get("/v1/approvals?follow")
            .header("authorization", "Bearer s3cret")
            .header("last-event-id", last_id.unwrap_or_default())
            .body(Body::empty());
        world.app.router().oneshot(request.unwrap()).await.unwrap()
    };
    /// Name, id of the event, and id of the approval, of the next event.
    async fn next(body: &mut axum::body::BodyDataStream) -> (String, String, String) {
        let chunk = body.next().await.unwrap().unwrap();
        let text = String::from_utf8(chunk.to_vec()).unwrap();
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_default().to_owned()
        };
        let data: Value = serde_json::from_str(&field("data: ")).unwrap();
        (field("event: "), field("id: "), data["id"].as_str().unwrap().to_owned())
    }
    let first = waiting(&ask(&world, &json!({"amount": 501}), 1).await);
    let response = open(None).await;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut body = response.into_body().into_data_stream();
    let (event, seen, id) = next(&mut body).await;
    assert_eq!((event.as_str(), &id), ("pending", &first));
    let second = waiting(&ask(&world, &json!({"amount": 502}), 2).await);
    settle(&world, &first, "approve", Some("s3cret")).await;
    ask(&world, &json!({"amount": 501}), 1).await;
    let third = waiting(&ask(&world, &json!({"amount": 503}), 4).await);
    settle(&world, &third, "reject", Some("s3cret")).await;
    let expected = [
        ("pending", &second),
        ("approved", &first),
        ("used", &first),
        ("pending", &third),
        ("rejected", &third),
    ];
    // One that comes back is given what it has missed.
    let mut again = open(Some(&seen)).await.into_body().into_data_stream();
    for body in [&mut body, &mut again] {
        for (name, approval) in expected {
            let (event, _, id) = next(body).await;
            assert_eq!((event.as_str(), &id), (name, approval));
        }
    }
    world.wait(30 * 60);
    let (event, _, id) = next(&mut body).await;
    assert_eq!((event.as_str(), &id), ("expired", &second));
    // They are bounded, and one needs the token.
    let mut all = Vec::new();
    let refused = loop {
        let response = open(None).await;
        match response.status().as_u16() {
            200 => all.push(response),
            status => break status,
        }
    };
    assert_eq!((refused, all.len()), (503, 62));
    assert_eq!(world.send("GET", "/v1/approvals?follow", None, Vec::new()).await.0, 401);
}

const AFTER_SENDING: &str = "
version: 1
default: allow
rules:
  - id: elsewhere
    on: toolCallRequest
    when: has(request.redirect)
    decision: approve
  - id: statements
    on: toolCallResult
    tool: bank.statement
    decision: approve
  - id: answers
    on: protocols/MCP
    decision: approve
";

fn after_sending() -> World {
    let source = PolicySource::Text(AFTER_SENDING.to_owned());
    World::with(source, |config| config.token = Some(TokenDigest::new("s3cret")))
}

/// A payment that the service redirects.
fn redirected(to: &str, run: u32) -> Request {
    let mut request = pay(&json!({"amount": 5}), run);
    let MethodCall::ToolCallRequest(step) = &mut request.call else { panic!("no call") };
    let sent =
        json!({"method": "GET", "url": to, "host": "bank.example", "path": "/", "redirect": 1});
    step.context.extra.insert("request".to_owned(), sent.as_object().unwrap().clone());
    request
}

/// The same as a preview.
fn as_preview(mut request: Request) -> Request {
    let context = match &mut request.call {
        MethodCall::ToolCallRequest(step) => &mut step.context,
        MethodCall::ToolCallResult(step) => &mut step.context,
        MethodCall::Mcp(step) => step.context.as_mut().unwrap(),
        other => panic!("{other:?}"),
    };
    context.extra.get_mut("capability").unwrap().insert("preview".to_owned(), true.into());
    request
}

#[tokio::test]
async fn an_approval_of_a_redirect_is_for_its_target() {
    let world = after_sending();
    let first = redirected("https://bank.example/a", 1);
    let id = waiting(&world.ask(&first).await);
    assert_ne!(waiting(&world.ask(&redirected("https://bank.example/b", 1)).await), id);
    settle(&world, &id, "approve", Some("s3cret")).await;
    assert_eq!(world.ask(&first).await["decision"], "allow");
    assert_eq!(world.ask(&first).await["decision"], "allow", "the same execution");
    waiting(&world.ask(&redirected("https://bank.example/b", 1)).await);
}

#[tokio::test]
async fn results_and_mcp_answers_wait_for_a_person_as_requests_do() {
    let answer = |text: &str| {
        let message = json!({"jsonrpc": "2.0", "id": 1, "result": {"content": [text]}});
        let params = json!({"message": message, "executionId": "x-1", "toolId": "bank.statement"});
        message_of_mcp(params)
    };
    let result = |text: &str| crate::world::result("bank.statement", &[text]);
    for question in [&answer as &dyn Fn(&str) -> Request, &result] {
        let world = after_sending();
        let told = world.ask(&as_preview(question("1"))).await;
        assert_eq!(told["reasonCode"], json!(["approval_required"]));
        assert_eq!(told["data"]["approval_id"], Value::Null, "a preview asks nobody");
        let id = waiting(&world.ask(&question("1")).await);
        assert_ne!(waiting(&world.ask(&question("2")).await), id, "another content");
        settle(&world, &id, "approve", Some("s3cret")).await;
        let told = world.ask(&as_preview(question("1"))).await;
        assert_eq!(told["reasonCode"], json!(["preview_only"]));
        for _ in 0..2 {
            assert_eq!(world.ask(&question("1")).await["decision"], "allow");
        }
        waiting(&world.ask(&question("2")).await);
    }
}

fn message_of_mcp(params: Value) -> Request {
    crate::world::message("protocols/MCP", params)
}
