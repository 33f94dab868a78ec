//! The policy, the log and trials of policies over HTTP.

use std::sync::Arc;

use aos::message::{MethodCall, Request};
use aos::{GuardianClient, GuardianError, Options, Verdict};
use guardian::{PolicySource, TokenDigest};
use serde_json::{Value, json};

use crate::world::{World, call};

const POLICY: &str = "version: 1\ndefault: allow\nrules:\n  - {id: large, on: toolCallRequest, tool: bank.pay, when: inputs.amount > 100, decision: deny}\n";

async fn world() -> World {
    let world = World::with(PolicySource::Text(POLICY.to_owned()), |config| {
        config.token = Some(TokenDigest::new("s3cret"));
        config.max_segment_bytes = 4096;
    });
    for amount in 0..30 {
        world.ask(&call("bank.pay", &json!({"amount": amount * 10}))).await;
    }
    world
}

async fn get(world: &World, path: &str) -> (u16, Value) {
    world.send("GET", &format!("/v1/guardian/{path}"), Some("s3cret"), Vec::new()).await
}

fn numbers(page: &Value) -> Vec<u64> {
    page["records"].as_array().unwrap().iter().map(|one| one["seq"].as_u64().unwrap()).collect()
}

#[tokio::test]
async fn records_come_newest_first_over_all_segments() {
    let world = world().await;
    let (status, page) = get(&world, "records?event=decision&limit=20").await;
    assert_eq!((status, numbers(&page).len()), (200, 20));
    let next = page["next"].as_u64().unwrap();
    let (_, rest) = get(&world, &format!("records?event=decision&limit=500&before={next}")).await;
    assert_eq!(rest["next"], Value::Null);
    let all = [numbers(&page), numbers(&rest)].concat();
    assert_eq!(all.len(), 30);
    assert!(all.is_sorted_by(|newer, older| newer > older), "{all:?}");

    let (_, denied) = get(&world, "records?decision=deny&rule=large&limit=500").await;
    assert_eq!(numbers(&denied).len(), 19);
    let (_, none) = get(&world, &format!("records?after={}", all[0])).await;
    assert_eq!(none["records"], json!([]));
    for wrong in
        ["records?limit=0", "records?limit=501", "records?since=yesterday", "records?differs=maybe"]
    {
        let (status, problem) = get(&world, wrong).await;
        assert_eq!((status, &problem["code"]), (400, &json!("bad_query")), "{wrong}");
    }
}

#[tokio::test]
async fn a_policy_is_tried_and_changes_nothing() {
    let world = world().await;
    let (_, before) = get(&world, "verification").await;
    assert_eq!((&before["valid"], before["error"].is_null()), (&json!(true), true), "{before}");
    assert!(before["segments"].as_u64().unwrap() > 1, "{before}");
    let try_policy = async |body: &Value| {
        let body = body.to_string().into_bytes();
        world.send("POST", "/v1/guardian/trials", Some("s3cret"), body).await
    };
    let stricter = POLICY.replace("100", "50");
    let (status, trial) = try_policy(&json!({"policy": stricter, "last": 25})).await;
    assert_eq!(
        (status, &trial["tried"], &trial["unchanged"]),
        (200, &json!(25), &json!(20)),
        "{trial}"
    );
    let first = &trial["differences"][0];
    assert_eq!(
        (&first["was"]["decision"], &first["would_be"]["decision"]),
        (&json!("allow"), &json!("deny"))
    );
    let (_, same) = try_policy(&json!({"policy": POLICY})).await;
    assert_eq!((&same["tried"], &same["differences"]), (&json!(30), &json!([])));
    let (_, after) = get(&world, "verification").await;
    assert_eq!(after, before);

    let (status, problem) = try_policy(&json!({"policy": "version: 1\nrules: []\nx: 1\n"})).await;
    assert_eq!((status, &problem["code"]), (422, &json!("policy_invalid")));
    assert!(problem["detail"].as_str().unwrap().contains("line 3"), "{problem}");
    for wrong in
        [json!({}), json!({"policy": POLICY, "last": 0}), json!({"policy": POLICY, "x": 1})]
    {
        assert_eq!(try_policy(&wrong).await.0, 400, "{wrong}");
    }
    let (_, policy) = get(&world, "policy").await;
    assert_eq!((&policy["text"], &policy["rules"]), (&json!(POLICY), &json!(["large"])));
}

#[tokio::test]
async fn only_the_token_of_the_guardian_reads_the_log() {
    let world = world().await;
    for (method, path) in
        [("GET", "policy"), ("GET", "records"), ("GET", "verification"), ("POST", "trials")]
    {
        for token in [None, Some("other")] {
            let path = format!("/v1/guardian/{path}");
            let (status, problem) = world.send(method, &path, token, b"{}".to_vec()).await;
            assert_eq!((status, &problem["code"]), (401, &json!("unauthorized")), "{path}");
        }
    }
}

#[tokio::test]
async fn a_changed_log_is_told() {
    let world = world().await;
    let path = world.log();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replacen("bank.pay", "bank.pal", 1)).unwrap();
    let (status, verification) = get(&world, "verification").await;
    assert_eq!((status, &verification["valid"]), (200, &json!(false)));
    assert!(verification["error"].as_str().unwrap().contains("wrong digest"), "{verification}");
}

/// A call of which the agent states that it changes nothing.
fn reading(number: u32) -> Request {
    let mut request = call("bank.read", &json!({"account": number}));
    let MethodCall::ToolCallRequest(step) = &mut request.call else { panic!("no call") };
    let capability = step.context.extra.get_mut("capability").unwrap();
    capability.insert("readOnly".to_owned(), true.into());
    request
}

#[tokio::test]
async fn steps_that_change_nothing_are_recorded_in_order() {
    let world = World::new(POLICY);
    for number in 0..40 {
        let request = if number % 10 == 9 {
            call("bank.pay", &json!({"amount": 1}))
        } else {
            reading(number)
        };
        assert_eq!(world.ask(&request).await["decision"], "allow");
        if number % 10 == 9 {
            // What changes something has its record before the response, and all before it.
            assert_eq!(decisions(&world), usize::try_from(number).unwrap() + 1);
        }
    }
    world.ask(&reading(40)).await;
    world.app.flush().await;
    assert_eq!(decisions(&world), 41);
}

#[tokio::test]
async fn an_agent_that_waits_itself_is_answered_before_the_record() {
    let world = World::new(POLICY);
    let guardian = GuardianClient::in_process(Arc::new(world.app.clone()), Options::default())
        .with_early_responses();
    for number in 0..40 {
        let answer = guardian.ask(&call("bank.pay", &json!({"amount": 1}))).await;
        assert_eq!(answer.verdict, Verdict::Allow);
        if number % 10 == 9 {
            assert_eq!(guardian.flush().await, Ok(()));
            assert_eq!(decisions(&world), number + 1);
        }
    }
    // A denial is recorded before its response, and so is all before it.
    guardian.ask(&call("bank.pay", &json!({"amount": 1}))).await;
    let denied = guardian.ask(&call("bank.pay", &json!({"amount": 1_000_000}))).await;
    assert_eq!((denied.verdict, decisions(&world)), (Verdict::Deny, 42));
}

#[tokio::test]
async fn an_agent_that_waits_itself_learns_that_the_log_is_full() {
    let world = World::with(PolicySource::Text(POLICY.to_owned()), |config| {
        config.max_audit_bytes = Some(8 << 10);
    });
    let guardian = GuardianClient::in_process(Arc::new(world.app.clone()), Options::default())
        .with_early_responses();
    let payment = call("bank.pay", &json!({"amount": 1}));
    let mut flushed = 0;
    while guardian.ask(&payment).await.verdict == Verdict::Allow {
        if let Err(failure) = guardian.flush().await {
            assert_eq!(failure, GuardianError::NotRecorded);
            break;
        }
        flushed += 1;
        assert_eq!(decisions(&world), flushed, "what is flushed is in the log");
    }
    let denied = guardian.ask(&payment).await;
    assert_eq!(denied.reason_codes, ["audit_unavailable"]);
    assert_eq!(decisions(&world), flushed);
}

#[tokio::test]
async fn a_flush_without_records_does_not_make_a_full_log_ready() {
    let world = World::with(PolicySource::Text(POLICY.to_owned()), |config| {
        config.max_audit_bytes = Some(8 << 10);
    });
    let payment = call("bank.pay", &json!({"amount": 1}));
    while world.ask(&payment).await["decision"] == "allow" {}
    assert!(!world.app.is_ready());
    // Nothing that was allowed is missing from the log.
    assert!(world.app.flush().await);
    assert!(!world.app.is_ready());
}

fn decisions(world: &World) -> usize {
    world.records().iter().filter(|record| record["event"] == "decision").count()
}

#[tokio::test]
async fn a_full_log_denies_steps_that_change_nothing_too() {
    let world = World::with(PolicySource::Text(POLICY.to_owned()), |config| {
        config.max_audit_bytes = Some(8 << 10);
    });
    let mut allowed = 0;
    let denied = loop {
        let answer = world.ask(&reading(allowed)).await;
        if answer["decision"] != "allow" {
            break answer;
        }
        allowed += 1;
        assert!(allowed < 1000, "the guardian allows what it cannot record");
        world.app.flush().await;
    };
    assert_eq!(denied["reasonCode"], json!(["audit_unavailable"]));
    // One step may be allowed before the guardian learns that its record does not fit.
    let recorded = u32::try_from(decisions(&world)).unwrap();
    assert!(recorded + 1 >= allowed, "{allowed} allowed, {recorded} recorded");
    assert_eq!(world.ask(&reading(0)).await["decision"], "deny");
}
