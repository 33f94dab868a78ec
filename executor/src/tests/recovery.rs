//! What a database that fails for a while costs: the transactions of that while, and no more.

use a2s_api::EventKind;
use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use super::world::{World, assert_succeeded, call, events, read, run, sequence, task, wait_for};
use crate::App;

fn publish(world: &World) {
    let steps = json!([
        task("say", "POST /say", json!({"body": "${word}"}), json!({"said": "$.body"})),
        task("last", "GET /hold/last", json!({}), json!({"held": "$.value"})),
    ]);
    world.registry.publish("Say", "1.0.0", &json!({"execution": sequence(steps)}));
}

async fn is_ready(app: &App) -> StatusCode {
    call(app, Method::GET, "/readyz", &[], Value::Null).await.status
}

async fn try_start(app: &App) -> StatusCode {
    let body = json!({"name": "Say", "inputs": {"word": "x"}});
    call(app, Method::POST, "/v1/executions", &[], body).await.status
}

#[tokio::test]
async fn a_rolled_back_transaction_costs_no_later_one() {
    let world = World::new().await;
    publish(&world);
    let app = world.open().await;
    world.service.release("last");
    world.break_transactions("BEFORE INSERT ON run").await;
    for _ in 0..3 {
        assert!(try_start(&app).await.is_server_error());
    }
    world.mend_database().await;
    world.service.release("last");
    assert_succeeded(&run(&app, "Say", json!({"word": "hello"})).await);
    assert!(is_ready(&app).await.is_success());
}

#[tokio::test]
async fn readiness_asks_the_connection_that_writes() {
    let world = World::in_file().await;
    publish(&world);
    let app = world.open().await;
    assert!(is_ready(&app).await.is_success());
    world.break_transactions("BEFORE INSERT ON run").await;
    assert!(try_start(&app).await.is_server_error());
    world.mend_database().await;
    // Now nothing at all can be written.
    world.break_transactions("BEFORE INSERT ON turn").await;
    assert_eq!(is_ready(&app).await.as_u16() / 100, 5);
    assert_eq!(is_ready(&app).await.as_u16() / 100, 5);
    world.mend_database().await;
    assert!(is_ready(&app).await.is_success());
}

#[tokio::test]
async fn a_run_goes_on_after_its_events_could_not_be_written() {
    let mut world = World::in_file().await;
    world.config.limits.lease = std::time::Duration::from_secs(1);
    publish(&world);
    let (app, id) = world.open_until("Say", json!({"word": "hello"}), "GET /hold/last").await;
    // The end of the first step follows within milliseconds.
    wait_for(&app, id, |event| matches!(event, EventKind::StepFinished { .. })).await;
    world.break_transactions("BEFORE INSERT ON event").await;
    assert!(try_start(&app).await.is_server_error());
    world.service.release("last");
    world.service.idle().await;
    world.mend_database().await;
    world.service.release("last");
    events(&app, id).await;
    assert_succeeded(&read(&app, id).await);
    assert_eq!(world.service.count("POST /say"), 1);
}

/// What changes nothing leaves while nothing can be written, and what changes something does not.
#[tokio::test]
async fn only_requests_that_change_something_wait_for_the_disk() {
    let mut world = World::in_file().await;
    world.config.limits.lease = std::time::Duration::from_secs(1);
    let steps = json!([
        task("first", "GET /hold/first", json!({}), json!({"first": "$.value"})),
        task("second", "GET /echo/second", json!({}), json!({"second": "$.value"})),
        task("say", "POST /say", json!({"body": "${second}"}), json!({"said": "$.body"})),
    ]);
    world.registry.publish("Read", "1.0.0", &json!({"execution": sequence(steps)}));
    let (app, id) = world.open_until("Read", json!({}), "GET /hold/first").await;
    world.break_transactions("BEFORE INSERT ON event").await;
    world.service.release("first");
    world.service.arrived("GET /echo/second", 1).await;
    world.service.idle().await;
    assert_eq!(world.service.count("POST /say"), 0);
    world.mend_database().await;
    world.service.release("first");
    events(&app, id).await;
    assert_succeeded(&read(&app, id).await);
    assert_eq!(world.service.count("POST /say"), 1);
    assert!(world.service.count("GET /echo/second") >= 2, "what was not recorded runs again");
}
