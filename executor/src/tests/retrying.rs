//! What a document says about attempts.

use std::num::NonZeroU32;
use std::time::Duration;

use a2s::api::{EventKind, RunStatus, WaitReason};
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

#[tokio::test]
async fn a_host_gets_its_requests_one_after_another_and_the_run_says_that_it_waits() {
    let mut world = World::new().await;
    world.config.hosts.default.max_concurrency = NonZeroU32::MIN;
    let step = |id: &str| task(id, "GET /echo", json!({}), json!({id: "$"}));
    let steps = json!([step("a"), step("b"), step("c")]);
    let execution = json!({"type": "parallel", "steps": steps});
    world.registry.publish_newer("Crowd", &json!({"execution": execution}));
    let app = world.open().await;
    let crowd = run(&app, "Crowd", json!({})).await;
    assert_succeeded(&crowd);
    let waits: Vec<_> = events(&app, crowd.id)
        .await
        .into_iter()
        .filter_map(|event| match event.kind {
            EventKind::Throttled { reason, wait_ms, .. } => Some((reason, wait_ms)),
            _ => None,
        })
        .collect();
    assert!(!waits.is_empty());
    assert!(waits.iter().all(|wait| *wait == (WaitReason::Concurrency, None)), "{waits:?}");
}

#[tokio::test]
async fn a_service_that_fails_again_and_again_is_left_alone_by_every_run() {
    let mut world = World::new().await;
    world.config.hosts.default.breaker_failures = 4;
    publish(&world, "Broken", "GET /status/503", json!({"max_attempts": 3}));
    let app = world.open().await;
    run(&app, "Broken", json!({})).await;
    assert_eq!(world.service.count("GET /status/503"), 3);
    // One more opens it; the second attempt of this run is refused before it leaves.
    let second = run(&app, "Broken", json!({})).await;
    assert_eq!(world.service.count("GET /status/503"), 4);
    let error = second.error.unwrap();
    assert_eq!((error.code.as_str(), error.attempt), ("A2S360", Some(2)));
    assert!(error.repeat_safe);
    let third = run(&app, "Broken", json!({})).await;
    assert_eq!(third.error.unwrap().code, "A2S360");
    assert_eq!(world.service.count("GET /status/503"), 4);
}

#[tokio::test]
async fn a_run_sends_and_receives_no_more_than_its_traffic() {
    let mut world = World::new().await;
    world.config.limits.max_traffic_bytes = 1;
    let step = |id: &str| task(id, "GET /echo", json!({}), json!({id: "$"}));
    let execution = sequence(json!([step("a"), step("b")]));
    world.registry.publish_newer("Chatty", &json!({"execution": execution}));
    let app = world.open().await;
    let chatty = run(&app, "Chatty", json!({})).await;
    let error = chatty.error.unwrap();
    assert_eq!((error.code.as_str(), error.step.as_deref()), ("A2S323", Some("b")));
    assert_eq!(world.service.count("GET /echo"), 1);
}
