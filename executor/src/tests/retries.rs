//! What a document says about attempts, and what becomes of faulty services.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use a2s::Domain;
use a2s_api::{EventKind, RunStatus, WaitReason};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use url::Url;

use super::world::{World, assert_succeeded, events, output, run, sequence, task, with};
use crate::clock::Clock as _;

/// The key that a document gives itself.
const OWN_KEY: &str = "01234567-89ab-4def-8123-456789abcdef";

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
async fn unsafe_request_is_never_repeated_by_a_document() {
    let world = World::new().await;
    publish(&world, "Post", "POST /status/503", json!({"max_attempts": 5, "on_status": [503]}));
    let app = world.open().await;
    let run = run(&app, "Post", json!({})).await;
    assert_eq!(run.status, RunStatus::Failed);
    assert_eq!(world.service.count("POST /status/503"), 1);
}

/// A step that posts to an operation with an idempotency key, which has to be there.
fn keyed(call: &str, inputs: Value) -> Value {
    let mut step = task("step", call, inputs, json!({"x": "$.value"}));
    let (method, path) = call.split_once(' ').unwrap();
    let key = json!({"name": "Idempotency-key", "in": "header", "required": true,
        "schema": {"type": "string", "format": "uuid"}});
    step["task"]["paths"][path][method.to_lowercase()]["parameters"] = json!([key]);
    step
}

/// The keys that a service was sent, in their order.
fn keys(world: &World) -> Vec<String> {
    let key = |heard: String| {
        let (_, behind) = heard.split_once("\"idempotency-key\": \"")?;
        Some(behind.split('"').next().unwrap().to_owned())
    };
    world.service.heard().into_iter().filter_map(key).collect()
}

#[tokio::test]
async fn a_service_knows_a_request_again_by_its_key() {
    let world = World::new().await;
    let over = with(
        keyed("POST /script", json!({})),
        json!({"for_each": {"in": "${words}", "max_concurrency": 1}}),
    );
    world.registry.publish_newer("Twice", &json!({"execution": sequence(json!([over]))}));
    let own = keyed("POST /script", json!({"headerParameters": {"Idempotency-Key": OWN_KEY}}));
    world.registry.publish_newer("Own", &json!({"execution": sequence(json!([own]))}));
    let app = world.open().await;
    let (busy, good) = (|| (503, json!({})), || (200, json!({"value": 1})));
    world.service.script([busy(), good(), busy(), good()]);
    let twice = run(&app, "Twice", json!({"words": [1, 2]})).await;
    assert_succeeded(&twice);
    let sent: Vec<_> = events(&app, twice.id)
        .await
        .into_iter()
        .filter_map(|event| match event.kind {
            EventKind::Sending { execution_id, repeat_safe, .. } => {
                assert!(repeat_safe);
                Some(execution_id.to_string())
            }
            _ => None,
        })
        .collect();
    assert_eq!(keys(&world), sent);
    assert!(sent[0] == sent[1] && sent[2] == sent[3] && sent[0] != sent[2], "{sent:?}");

    world.service.script([busy(), good()]);
    assert_succeeded(&run(&app, "Own", json!({})).await);
    assert_eq!(keys(&world)[4..], [OWN_KEY, OWN_KEY]);
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
async fn host_limit_delays_requests_and_is_recorded() {
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
async fn circuit_breaker_holds_for_every_run() {
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

/// A service that reads a request and then does what it is for: sends these bytes and closes, or
/// holds the connection without a word. Gives its address and how many requests came.
async fn raw_service(answer: Option<&'static str>) -> (Url, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((mut connection, _)) = listener.accept().await {
            let mut request = [0; 4_096];
            let _ = connection.read(&mut request).await;
            counted.fetch_add(1, Ordering::SeqCst);
            match answer {
                Some(answer) => {
                    let _ = connection.write_all(answer.as_bytes()).await;
                }
                None => held.push(connection),
            }
        }
    });
    (url, asked)
}

#[tokio::test]
async fn every_fault_is_tried_as_often_as_configured_and_a_post_once() {
    let busy = "HTTP/1.1 503 Busy\r\nretry-after: 0\r\ncontent-length: 2\r\n\r\n{}";
    let limited = "HTTP/1.1 429 Slow down\r\ncontent-length: 2\r\n\r\n{}";
    let half =
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 90\r\n\r\n{\"a\":";
    for (fault, answer, code) in [
        ("busy", Some(busy), "A2S357"),
        ("limited", Some(limited), "A2S357"),
        ("cut", Some(""), "A2S352"),
        ("half a body", Some(half), "A2S352"),
        ("slow", None, "A2S353"),
    ] {
        let (service, asked) = raw_service(answer).await;
        let mut world = World::new().await;
        world.config.limits.max_attempts = 4;
        world.config.limits.request_timeout = Duration::from_millis(60);
        world.config.upstreams.insert(Domain::new("api.example").unwrap(), service);
        for (name, call) in [("Read", "GET /x"), ("Write", "POST /x")] {
            let execution = sequence(json!([task("step", call, json!({}), json!({"x": "$.a"}))]));
            world.registry.publish_newer(name, &json!({"execution": execution}));
        }
        let app = world.open().await;
        let read = run(&app, "Read", json!({})).await.error.unwrap();
        assert_eq!((read.code.as_str(), read.attempt), (code, Some(4)), "{fault}");
        assert_eq!((asked.swap(0, Ordering::SeqCst), read.repeat_safe), (4, true), "{fault}");
        let write = run(&app, "Write", json!({})).await.error.unwrap();
        assert_eq!((write.code.as_str(), write.attempt), (code, Some(1)), "{fault}");
        assert_eq!((asked.load(Ordering::SeqCst), write.repeat_safe), (1, false), "{fault}");
    }
}

#[tokio::test]
async fn the_pause_that_a_service_asks_for_is_made_up_to_the_longest() {
    let seconds = "HTTP/1.1 503 Busy\r\nretry-after: 1\r\ncontent-length: 2\r\n\r\n{}";
    // The test's clock stands still at this time, but for a second.
    let date = "HTTP/1.1 429 Slow\r\nretry-after: DATE\r\ncontent-length: 2\r\n\r\n{}";
    let long = "HTTP/1.1 503 Busy\r\nretry-after: 3600\r\ncontent-length: 2\r\n\r\n{}";
    let mut world = World::new().await;
    let soon = world.clock.now().checked_add(Duration::from_secs(1)).unwrap();
    let soon = soon.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
    let date: &'static str = Box::leak(date.replace("DATE", &soon).into_boxed_str());
    world.config.limits.max_attempts = 2;
    world.config.limits.max_pause = Duration::from_secs(2);
    publish(&world, "Read", "GET /x", json!({"max_attempts": 2, "initial_delay": "1ms"}));
    for (answer, attempts, pauses) in
        [(seconds, 2, 1_000..=1_000), (date, 2, 1..=1_000), (long, 1, 0..=0)]
    {
        let (service, asked) = raw_service(Some(answer)).await;
        world.config.upstreams.insert(Domain::new("api.example").unwrap(), service);
        let app = world.open().await;
        let ended = run(&app, "Read", json!({})).await;
        assert_eq!(asked.load(Ordering::SeqCst), attempts, "{answer}");
        let paused = events(&app, ended.id).await.into_iter().find_map(|event| match event.kind {
            EventKind::Retrying { pause_ms, .. } => Some(pause_ms),
            _ => None,
        });
        assert!(pauses.contains(&paused.unwrap_or_default()), "{answer}: {paused:?}");
    }
}
