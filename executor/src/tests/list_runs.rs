//! Runs that are listed, deleted, and kept for a time.

use std::time::Duration;

use a2s_api::{ExecutionList, RunStatus};
use axum::http::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use super::world::{World, call, events, read, run, sequence, start, task};
use crate::App;

/// One capability that succeeds, one that fails, and one that is held.
fn publish(world: &World) {
    for (name, path) in [("Good", "POST /say"), ("Bad", "GET /status/404"), ("Held", "GET /hold/x")]
    {
        let inputs = if path.starts_with("POST") { json!({"body": "x"}) } else { json!({}) };
        let steps = json!([task("one", path, inputs, json!({}))]);
        world.registry.publish_newer(name, &json!({"execution": sequence(steps)}));
    }
}

async fn list(app: &App, query: &str) -> Vec<Uuid> {
    let answer = call(app, Method::GET, &format!("/v1/executions?{query}"), &[], Value::Null).await;
    let list: ExecutionList = serde_json::from_value(answer.body).unwrap();
    list.executions.iter().map(|run| run.id).collect()
}

async fn delete(app: &App, id: Uuid) -> u16 {
    let path = format!("/v1/executions/{id}");
    call(app, Method::DELETE, &path, &[], Value::Null).await.status.as_u16()
}

#[tokio::test]
async fn runs_are_listed_by_state_and_capability() {
    let world = World::new().await;
    publish(&world);
    let app = world.open().await;
    let good = run(&app, "Good", json!({})).await.id;
    let bad = run(&app, "Bad", json!({})).await.id;
    let again = run(&app, "Good", json!({})).await.id;
    let held = start(&app, "Held", json!({})).await;
    assert_eq!(list(&app, "status=succeeded").await, [again, good]);
    assert_eq!(list(&app, "status=failed").await, [bad]);
    assert_eq!(list(&app, "status=running").await, [held]);
    assert_eq!(list(&app, "name=Good&limit=1").await, [again]);
    assert_eq!(list(&app, &format!("name=Good&limit=1&before={again}")).await, [good]);
    assert_eq!(list(&app, "name=Good&status=failed").await, [] as [Uuid; 0]);
    for wrong in ["status=done", "name=not%20a%20name", "state=failed"] {
        let path = format!("/v1/executions?{wrong}");
        let (status, code, _) = call(&app, Method::GET, &path, &[], Value::Null).await.problem();
        assert_eq!((status, code.as_str()), (400, "A2S300"), "{wrong}");
    }
    world.service.release("x");
    events(&app, held).await;
}

#[tokio::test]
async fn a_run_that_is_over_can_be_deleted_and_nothing_of_it_is_left() {
    let world = World::new().await;
    publish(&world);
    let app = world.open().await;
    let body = json!({"name": "Good", "wait": true});
    let post = async || {
        let key = [("idempotency-key", "mine")];
        call(&app, Method::POST, "/v1/executions", &key, body.clone()).await.run().id
    };
    let id = post().await;
    assert_eq!(post().await, id);
    let other = run(&app, "Bad", json!({})).await.id;
    assert_eq!(delete(&app, id).await, 204);
    assert_eq!(delete(&app, id).await, 404);
    assert_eq!(list(&app, "").await, [other]);
    // Its key is free again.
    assert_ne!(post().await, id);
    assert_eq!(world.count_rows("run").await, 2);

    let held = start(&app, "Held", json!({})).await;
    world.service.arrived("GET /hold/x", 1).await;
    assert_eq!(delete(&app, held).await, 409);
    world.service.release("x");
    events(&app, held).await;
    assert_eq!(read(&app, held).await.status, RunStatus::Succeeded);
}

#[tokio::test]
async fn runs_that_are_over_go_after_a_time() {
    let mut world = World::new().await;
    publish(&world);
    let app = world.open().await;
    run(&app, "Good", json!({})).await;
    let held = start(&app, "Held", json!({})).await;
    world.service.arrived("GET /hold/x", 1).await;
    world.crash(app).await;
    world.pass(Duration::from_secs(3_600));
    world.config.limits.keep_runs = Some(Duration::from_secs(7_200));
    let app = world.open().await;
    assert_eq!(list(&app, "").await.len(), 2);
    world.crash(app).await;
    world.pass(Duration::from_secs(7_200));
    let app = world.open().await;
    // However old: it is not over.
    assert_eq!(list(&app, "").await, [held]);
    assert_eq!(world.count_rows("run").await, 1);
    world.service.release("x");
    events(&app, held).await;
}
