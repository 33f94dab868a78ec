//! Runs that their executors do not survive.

use std::time::Duration;

use a2s_api::{FaultAttribution, NextAction, Run, RunStatus};
use axum::http::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use super::world::{
    Answer, World, assert_gapless, assert_succeeded, call, events, read, sequence, start, task,
    transcript, until_recorded,
};
use crate::App;

/// Says something, and then asks for what its executors do not survive.
async fn poisoned(held: &str) -> World {
    let mut world = World::new().await;
    world.config.limits.max_takeovers = 2;
    // Nobody is waited for: a test says who is gone.
    world.config.limits.lease = Duration::from_secs(3_600);
    let steps = json!([
        task("say", "POST /say", json!({"body": "hello"}), json!({"said": "$.body"})),
        task("ask", held, json!({}), json!({"held": "$.value"})),
    ]);
    world.registry.publish("Poison", "1.0.0", &json!({"execution": sequence(steps)}));
    world
}

/// Lets every executor be gone that drives the run, as often as it is taken over. The one that is open
/// then has set it aside.
async fn end_all(world: &World, id: Uuid, asked: usize) -> (App, Run) {
    let mut app = world.open().await;
    for number in 1..=world.config.limits.max_takeovers as usize {
        world.service.arrived("GET /hold/a", asked + number).await;
        until_recorded(&app, id, "GET /hold/a", asked + number).await;
        world.crash(app).await;
        app = world.open().await;
    }
    events(&app, id).await;
    let run = read(&app, id).await;
    (app, run)
}

async fn resume(app: &App, id: Uuid, body: Value) -> Answer {
    call(app, Method::POST, &format!("/v1/executions/{id}/resume"), &[], body).await
}

#[tokio::test]
async fn run_that_crashes_executors_is_set_aside() {
    let world = poisoned("GET /hold/a").await;
    let (app, id) = world.open_until("Poison", json!({}), "GET /hold/a").await;
    world.crash(app).await;
    let (app, run) = end_all(&world, id, 1).await;
    assert_eq!(run.status, RunStatus::Waiting);
    let error = run.error.unwrap();
    assert_eq!((error.code.as_str(), error.step), ("A2S374", None));
    assert_eq!(
        (error.cause, error.next),
        (Some(FaultAttribution::Executor), Some(NextAction::AskOperator))
    );
    assert!(error.message.contains("3 executors in a row"), "{}", error.message);
    assert!(error.message.contains("`ask`"), "{}", error.message);
    assert!(error.hint.contains("a2s runs resume ID --repeat"), "{}", error.hint);
    // Nobody takes it over any more.
    app.crash().await;
    let app = world.open().await;
    assert_eq!(read(&app, id).await.status, RunStatus::Waiting);
    assert_eq!(world.service.count("GET /hold/a"), 3);

    let refused = resume(&app, id, json!({"decision": "skip"})).await.problem();
    assert_eq!((refused.0, refused.1.as_str()), (400, "A2S300"));
    resume(&app, id, json!({"decision": "repeat"})).await.run();
    world.service.arrived("GET /hold/a", 4).await;
    until_recorded(&app, id, "GET /hold/a", 4).await;
    world.crash(app).await;
    // It is counted anew.
    let (app, run) = end_all(&world, id, 4).await;
    assert_eq!((run.status, run.error.unwrap().code.as_str()), (RunStatus::Waiting, "A2S374"));
    assert_eq!(world.service.count("GET /hold/a"), 6);
    world.service.release("a");
    resume(&app, id, json!({"decision": "repeat"})).await.run();
    let told = events(&app, id).await;
    assert_gapless(&told);
    assert_succeeded(&read(&app, id).await);
    assert_eq!(world.service.count("POST /say"), 1);
    let lines = transcript(&told);
    let after = lines.iter().rposition(|line| line == "waiting A2S374").unwrap();
    assert_eq!(lines[after + 1..after + 3], ["queued", "resumed"]);
}

#[tokio::test]
async fn executors_that_end_in_order_do_not_count() {
    let world = poisoned("GET /hold/a").await;
    let mut app = world.open().await;
    let id = start(&app, "Poison", json!({})).await;
    for number in 1..=5 {
        world.service.arrived("GET /hold/a", number).await;
        app.shutdown(Duration::ZERO).await;
        drop(app);
        world.service.idle().await;
        app = world.open().await;
    }
    world.service.arrived("GET /hold/a", 6).await;
    world.service.release("a");
    events(&app, id).await;
    assert_succeeded(&read(&app, id).await);
}

#[tokio::test]
async fn set_aside_run_asks_about_unconfirmed_requests() {
    let mut world = poisoned("POST /hold/a").await;
    world.config.limits.max_takeovers = 0;
    let (app, id) = world.open_until("Poison", json!({}), "POST /hold/a").await;
    let app = world.crash_and_open(app).await;
    events(&app, id).await;
    let error = read(&app, id).await.error.unwrap();
    assert_eq!((error.code.as_str(), error.repeat_safe), ("A2S374", false));
    resume(&app, id, json!({"decision": "repeat"})).await.run();
    events(&app, id).await;
    let error = read(&app, id).await.error.unwrap();
    assert_eq!((error.code.as_str(), error.step.as_deref()), ("A2S371", Some("ask")));
    // The step may be decided about at once, too.
    let done = json!({"decision": "set", "step": "ask", "outputs": {"held": "x"}});
    resume(&app, id, done).await.run();
    events(&app, id).await;
    assert_succeeded(&read(&app, id).await);
    assert_eq!(world.service.count("POST /hold/a"), 1);
}
