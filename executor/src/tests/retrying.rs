//! What a document says about attempts.

use std::time::Duration;

use a2s::api::{EventKind, RunStatus};
use serde_json::{Value, json};

use super::world::{World, assert_succeeded, events, output, run, sequence, task, with};

fn publish(world: &World, name: &str, call: &str, retry: Value) {
    let step = task("step", call, json!({}), json!({"x": "$.value"}));
    let execution = sequence(json!([with(step, json!({"retry": retry}))]));
    world.registry.publish_newer(name, &json!({"execution": execution}));
}

#[tokio::test]
async fn a_document_names_attempts_and_statuses() {
    let world = World::new().await;
    publish(&world, "Again", "GET /script", json!({"max_attempts": 4, "on_status": [500]}));
    let app = world.open().await;
    let broken = || (500, json!({}));
    world.service.script([broken(), broken(), broken(), (200, json!({"value": 7}))]);
    let again = run(&app, "Again", json!({})).await;
    assert_succeeded(&again);
    assert_eq!((output(&again)["x"].clone(), again.steps[0].attempts), (json!(7), 4));
    // What it does not name is not worth another attempt any more.
    world.service.script([(503, json!({}))]);
    let again = run(&app, "Again", json!({})).await;
    assert_eq!((again.status, again.steps[0].attempts), (RunStatus::Failed, 1));
}

#[tokio::test]
async fn the_executor_has_the_last_word_on_attempts() {
    let mut world = World::new().await;
    world.config.limits.attempts_ceiling = 4;
    publish(&world, "Many", "GET /status/503", json!({"max_attempts": 10}));
    publish(&world, "Once", "GET /status/502", json!({"max_attempts": 1}));
    let app = world.open().await;
    run(&app, "Many", json!({})).await;
    assert_eq!(world.service.count("GET /status/503"), 4);
    run(&app, "Once", json!({})).await;
    assert_eq!(world.service.count("GET /status/502"), 1);
}

#[tokio::test]
async fn what_changes_something_is_not_repeated_whatever_a_document_says() {
    let world = World::new().await;
    publish(&world, "Post", "POST /status/503", json!({"max_attempts": 5, "on_status": [503]}));
    let app = world.open().await;
    let run = run(&app, "Post", json!({})).await;
    assert_eq!(run.status, RunStatus::Failed);
    assert_eq!(world.service.count("POST /status/503"), 1);
}

#[tokio::test]
async fn pauses_are_those_of_the_document() {
    let mut world = World::new().await;
    world.config.limits.max_pause = Duration::from_secs(30);
    let retry = json!({"max_attempts": 3, "initial_delay": "3ms", "backoff": "constant"});
    publish(&world, "Paused", "GET /status/503", retry);
    let app = world.open().await;
    let run = run(&app, "Paused", json!({})).await;
    let pauses: Vec<_> = events(&app, run.id)
        .await
        .into_iter()
        .filter_map(|event| match event.kind {
            EventKind::Retrying { pause_ms, .. } => Some(pause_ms),
            _ => None,
        })
        .collect();
    assert_eq!(pauses, [3, 3]);
}
