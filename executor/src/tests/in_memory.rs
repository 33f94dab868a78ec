//! Runs that are kept in memory: everything can be done with them, and nothing is left of them.

use a2s_api::RunStatus;
use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use super::world::{
    World, assert_gapless, assert_succeeded, call, events, output, read, run, sequence, task, with,
};
use crate::Durability;

#[tokio::test]
async fn in_memory_run_behaves_like_others() {
    let mut world = World::new().await;
    world.config.durability = Durability::Memory;
    let items: Vec<_> = (0..100).map(|item| item.to_string()).collect();
    let steps = json!([
        with(
            task("each", "POST /say", json!({"body": "${item}"}), json!({"said": "$.body"})),
            json!({"for_each": {"in": items, "max_items": 100}})
        ),
        task("held", "GET /hold/x", json!({}), json!({"x": "$.value"})),
    ]);
    world.registry.publish_newer("Many", &json!({"execution": sequence(steps)}));
    let (app, id) = world.open_until("Many", json!({}), "GET /hold/x").await;
    assert_eq!(read(&app, id).await.status, RunStatus::Running);
    world.service.release("x");
    let told = events(&app, id).await;
    assert_gapless(&told);
    assert!(told.len() > 400, "{}", told.len());
    let ended = read(&app, id).await;
    assert_succeeded(&ended);
    assert_eq!(output(&ended)["said"].as_array().unwrap().len(), 100);
    let list = call(&app, Method::GET, "/v1/executions", &[], Value::Null).await;
    assert_eq!(list.body["executions"][0]["id"], json!(id));
    let replay = format!("/v1/executions/{id}/replay");
    let replay = call(&app, Method::POST, &replay, &[], json!({})).await;
    assert_eq!(replay.body["unchanged"], true, "{}", replay.body);
    let state = call(&app, Method::PUT, "/v1/state/word", &[], json!("kept")).await;
    assert!(state.status.is_success(), "{}", state.body);
    assert_eq!(world.count_rows("run").await, 0);
    assert_eq!(world.count_rows("event").await, 0);
    world.crash(app).await;

    let app = world.open().await;
    let gone = call(&app, Method::GET, &format!("/v1/executions/{id}"), &[], Value::Null).await;
    assert_eq!(gone.status, StatusCode::NOT_FOUND);
    let state = call(&app, Method::GET, "/v1/state", &[], Value::Null).await;
    assert!(state.body.to_string().contains("kept"), "{}", state.body);
}

#[tokio::test]
async fn two_executors_in_memory_know_nothing_of_each_other() {
    let mut world = World::new().await;
    world.config.durability = Durability::Memory;
    let steps = json!([task("a", "POST /say", json!({"body": "x"}), json!({"a": "$.body"}))]);
    world.registry.publish("One", "1.0.0", &json!({"execution": sequence(steps)}));
    let (first, second) = (world.open().await, world.open().await);
    let ended = run(&first, "One", json!({})).await;
    assert_succeeded(&ended);
    let path = format!("/v1/executions/{}", ended.id);
    let answer = call(&second, Method::GET, &path, &[], Value::Null).await;
    assert_eq!(answer.status, StatusCode::NOT_FOUND);
}
