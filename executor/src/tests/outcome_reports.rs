//! What the registry is told of runs.

use a2s::Secret;
use a2s_api::RunStatus;
use axum::http::Method;
use serde_json::{Value, json};

use super::world::{World, assert_succeeded, call, read, run, sequence, task};

fn publish(world: &World, name: &str, operation: &str) -> a2s::Digest {
    let steps = json!([task("step", operation, json!({}), json!({}))]);
    world.registry.publish(name, "1.0.0", &json!({"execution": sequence(steps)}))
}

#[tokio::test]
async fn failed_outcome_report_changes_no_run() {
    let mut world = World::new().await;
    world.config.registry_token = Some(Secret::new("mine"));
    let digest = publish(&world, "Good", "GET /status/200");
    publish(&world, "Bad", "GET /status/500");
    publish(&world, "Refused", "GET /status/422");
    let app = world.open().await;
    let good = run(&app, "Good", json!({})).await;
    let (outcome, authorization) = world.registry.outcome().await;
    assert_eq!(outcome["run"], json!(good.id));
    assert_eq!((&outcome["success"], &outcome["checksum"]), (&json!(true), &json!(digest)));
    assert_eq!(outcome["finished_at"], json!(good.finished_at));
    assert_eq!(outcome["hosts"], json!([{"host": "api.example", "health": 1.0}]));
    assert_eq!(authorization.as_deref(), Some("Bearer mine"));

    let refused = run(&app, "Refused", json!({})).await;
    assert_eq!(json!(refused.error.unwrap().cause), "caller");
    let (outcome, _) = world.registry.outcome().await;
    assert_eq!((&outcome["code"], &outcome["attribution"]), (&json!("A2S357"), &json!("caller")));

    world.registry.refuse_outcomes(true);
    let bad = run(&app, "Bad", json!({})).await;
    let (outcome, _) = world.registry.outcome().await;
    assert_eq!(
        (&outcome["attribution"], &outcome["class"]),
        (&json!("service"), &json!("service"))
    );
    assert!(outcome["hosts"][0]["health"].as_f64().unwrap() < 1.0, "{outcome}");
    assert_eq!(read(&app, bad.id).await.status, RunStatus::Failed);
    assert_succeeded(&run(&app, "Good", json!({})).await);
}

#[tokio::test]
async fn documents_are_public_unless_configured_otherwise() {
    let mut world = World::new().await;
    world.config.registry_token = Some(Secret::new("mine"));
    world.config.token = Some(Secret::new("owner"));
    publish(&world, "Good", "GET /status/200");
    let app = world.open().await;
    let owner = [("authorization", "Bearer owner")];
    let start = json!({"name": "Good", "wait": true});
    let ended = call(&app, Method::POST, "/v1/executions", &owner, start.clone()).await.run();
    assert_succeeded(&ended);
    assert_eq!(world.registry.readers(), [None, None]);
    assert_eq!(world.registry.outcome().await.1.as_deref(), Some("Bearer mine"));

    world.registry.ask_readers();
    // It is asked once, and shown the service's own token from then on; the owner's never.
    let mine = || Some("Bearer mine".to_owned());
    for expected in [vec![None, mine()], vec![mine()]] {
        let ended = call(&app, Method::POST, "/v1/executions", &owner, start.clone()).await.run();
        assert_succeeded(&ended);
        assert_eq!(world.registry.readers(), expected);
    }
}

#[tokio::test]
async fn a_session_and_an_executor_are_told_apart_without_their_names() {
    let world = World::new().await;
    publish(&world, "Good", "GET /status/200");
    let app = world.open().await;
    let report = async |session: Value| {
        let mut request = json!({"name": "Good", "wait": true});
        if session.is_string() {
            request["session"] = session;
        }
        call(&app, Method::POST, "/v1/executions", &[], request).await.run();
        world.registry.outcome().await.0
    };
    let (one, same) = (report(json!("alice")).await, report(json!("alice")).await);
    let (other, none) = (report(json!("bob")).await, report(Value::Null).await);
    assert_eq!((&one["session"], &one["reporter"]), (&same["session"], &other["reporter"]));
    assert_ne!(one["session"], other["session"]);
    assert_eq!(none["session"], Value::Null);
    assert!(!one.to_string().contains("alice"));
    world.crash(app).await;
    // Its name outlives the process.
    let app = world.open().await;
    run(&app, "Good", json!({})).await;
    assert_eq!(world.registry.outcome().await.0["reporter"], one["reporter"]);
}

#[tokio::test]
async fn the_intent_of_a_run_is_reported_as_its_caller_gave_it() {
    let world = World::new().await;
    publish(&world, "Good", "GET /status/200");
    publish(&world, "Bad", "GET /status/500");
    let app = world.open().await;
    let start =
        async |request: Value| call(&app, Method::POST, "/v1/executions", &[], request).await;
    start(json!({"name": "Good", "intent": "show me that it works", "wait": true})).await.run();
    assert_eq!(world.registry.outcome().await.0["intent"], "show me that it works");
    for name in ["Good", "Bad"] {
        let intent = if name == "Bad" { json!("show me that it works") } else { Value::Null };
        start(json!({"name": name, "intent": intent, "wait": true})).await.run();
        assert_eq!(world.registry.outcome().await.0["intent"], Value::Null);
    }
    let plan = call(&app, Method::POST, "/v1/plans", &[], json!({"name": "Good"})).await;
    let plan = json!({"plan": plan.body["token"], "intent": "as planned", "wait": true});
    start(plan).await.run();
    assert_eq!(world.registry.outcome().await.0["intent"], "as planned");
    for intent in [" ".to_owned(), "x".repeat(2001)] {
        let refused = start(json!({"name": "Good", "intent": intent})).await;
        assert_eq!(refused.body["code"], "A2S300", "{}", refused.body);
    }
}

#[tokio::test]
async fn what_was_not_reported_is_reported_after_a_restart() {
    let world = World::new().await;
    publish(&world, "Good", "GET /hold/x");
    world.registry.refuse_outcomes(true);
    let (app, id) = world.open_until("Good", json!({}), "GET /hold/x").await;
    world.service.release("x");
    let first = world.registry.outcome().await.0;
    assert_eq!(first["run"], json!(id));
    world.crash(app).await;

    world.registry.refuse_outcomes(false);
    let _app = world.open().await;
    let again = world.registry.outcome().await.0;
    for member in ["run", "success", "checksum", "finished_at", "duration_ms", "reporter"] {
        assert_eq!(again[member], first[member], "{member}");
    }
}
