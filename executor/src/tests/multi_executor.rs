//! Several executors on one PostgreSQL database: that of `A2S_TEST_POSTGRES_URL`, and without it these
//! tests say that they were skipped.

use std::time::Duration;

use a2s::Secret;
use a2s_api::RunStatus;
use axum::http::Method;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use test_support::require_postgres_server;
use uuid::Uuid;

use super::world::{
    World, assert_gapless, assert_succeeded, call, cancel, events, read, sequence, start, task,
    transcript,
};
use crate::{App, ErrorKind, SecretKeySource};

/// A world whose executors are heard of so seldom that nothing is seen in time by looking again.
async fn shared() -> Option<World> {
    require_postgres_server()?;
    let mut world = World::new().await;
    world.config.limits.lease = Duration::from_secs(3_600);
    Some(world)
}

/// A capability that asks, waits for its answer, and pays.
fn publish(world: &World, held: &str) {
    let steps = json!([
        task("ask", held, json!({}), json!({"held": "$.value"})),
        task("pay", "POST /pay", json!({"body": "${held}"}), json!({"paid": "$.body"})),
    ]);
    world.registry.publish("Pay", "1.0.0", &json!({"execution": sequence(steps)}));
}

/// As if an executor had not been heard of for longer than its lease.
async fn expire(world: &World) {
    world.change_database("UPDATE run SET lease_until = 1 WHERE owner IS NOT NULL").await;
}

async fn start_with_key(app: &App, key: &str, wait: bool) -> super::world::Answer {
    let body = json!({"name": "Pay", "inputs": {}, "wait": wait});
    call(app, Method::POST, "/v1/executions", &[("idempotency-key", key)], body).await
}

#[tokio::test]
async fn a_run_is_cancelled_through_another_executor() {
    let Some(world) = shared().await else { return };
    publish(&world, "GET /hold/a");
    let (one, other) = (world.open().await, world.open().await);
    let id = start(&one, "Pay", json!({})).await;
    world.service.arrived("GET /hold/a", 1).await;
    let run = cancel(&other, id).await.run();
    assert_eq!(run.id, id);
    events(&other, id).await;
    assert_eq!(read(&one, id).await.status, RunStatus::Cancelled);
    assert_eq!(world.service.count("POST /pay"), 0);
}

#[tokio::test]
async fn a_run_is_followed_and_awaited_at_another_executor() {
    let Some(world) = shared().await else { return };
    publish(&world, "GET /hold/a");
    let (one, other) = (world.open().await, world.open().await);
    let id = start_with_key(&one, "k", false).await.run().id;
    world.service.arrived("GET /hold/a", 1).await;
    assert_eq!(read(&other, id).await.status, RunStatus::Running);
    let (followed, awaited) = tokio::join!(events(&other, id), async {
        world.service.release("a");
        start_with_key(&other, "k", true).await.run()
    });
    assert_gapless(&followed);
    assert_eq!(followed, events(&one, id).await);
    assert_eq!(awaited.id, id);
    assert_succeeded(&awaited);
    assert!(!transcript(&followed).contains(&"resumed".to_owned()));
    assert_eq!(world.service.count("POST /pay"), 1);
}

#[tokio::test]
async fn one_key_starts_one_run_through_two_executors_at_once() {
    let Some(world) = shared().await else { return };
    publish(&world, "GET /echo/a");
    let (one, other) = (world.open().await, world.open().await);
    for round in 0..5 {
        let key = format!("key-{round}");
        let (a, b, c, d) = tokio::join!(
            start_with_key(&one, &key, true),
            start_with_key(&other, &key, true),
            start_with_key(&one, &key, true),
            start_with_key(&other, &key, true),
        );
        let [a, b, c, d] = [a, b, c, d].map(|answer| answer.run());
        assert_succeeded(&a);
        assert_eq!([b.id, c.id, d.id], [a.id; 3]);
        assert_eq!(world.service.count("POST /pay"), round + 1);
    }
    let body = json!({"name": "Pay", "version": "1.0.0", "inputs": {}});
    let headers = [("idempotency-key", "key-0")];
    let refused = call(&other, Method::POST, "/v1/executions", &headers, body).await;
    assert_eq!(refused.problem().1, "A2S303");
}

#[tokio::test]
async fn an_executor_that_has_lost_its_run_sends_nothing_more() {
    let Some(world) = shared().await else { return };
    publish(&world, "GET /hold/a");
    let one = world.open().await;
    let id = start(&one, "Pay", json!({})).await;
    world.service.arrived("GET /hold/a", 1).await;
    expire(&world).await;
    let other = world.open().await;
    world.service.arrived("GET /hold/a", 2).await;
    // Both get their answer, and pay comes next.
    world.service.release("a");
    world.service.release("a");
    let recorded = events(&other, id).await;
    // The first one has let go of the run when it is idle.
    one.shutdown(Duration::from_secs(30)).await;
    assert_eq!(world.service.count("POST /pay"), 1);
    assert_gapless(&recorded);
    assert_eq!(recorded, events(&other, id).await);
    assert_succeeded(&read(&other, id).await);
    assert_eq!(transcript(&recorded).iter().filter(|line| *line == "resumed").count(), 1);
    let ends = recorded.iter().filter(|event| {
        matches!(&event.kind, a2s_api::EventKind::StepFinished { step, .. } if step == "ask")
    });
    assert_eq!(ends.count(), 1);
}

#[tokio::test]
async fn sent_request_is_not_repeated_by_another_executor() {
    let Some(world) = shared().await else { return };
    publish(&world, "POST /hold/a");
    let one = world.open().await;
    let id = start(&one, "Pay", json!({})).await;
    world.service.arrived("POST /hold/a", 1).await;
    expire(&world).await;
    let other = world.open().await;
    events(&other, id).await;
    assert_eq!(read(&other, id).await.status, RunStatus::Waiting);
    assert_eq!(world.service.count("POST /hold/a"), 1);
    // Whoever had sent it gets its answer too late to say so.
    world.service.release("a");
    one.shutdown(Duration::from_secs(30)).await;
    assert_eq!(read(&other, id).await.status, RunStatus::Waiting);

    let third = world.open().await;
    let path = format!("/v1/executions/{id}/resume");
    let body = json!({"decision": "set", "outputs": {"held": "b"}});
    call(&third, Method::POST, &path, &[], body.clone()).await.run();
    events(&other, id).await;
    assert_succeeded(&read(&other, id).await);
    assert_eq!(world.service.count("POST /hold/a"), 1);
    assert_eq!(world.service.count("POST /pay"), 1);
    let again = call(&other, Method::POST, &path, &[], body).await;
    assert_eq!(again.problem().1, "A2S305");
}

#[tokio::test]
async fn a_run_that_is_given_back_is_taken_at_once() {
    let Some(world) = shared().await else { return };
    publish(&world, "GET /hold/a");
    let (one, other) = (world.open().await, world.open().await);
    let id = start(&one, "Pay", json!({})).await;
    world.service.arrived("GET /hold/a", 1).await;
    one.shutdown(Duration::ZERO).await;
    world.service.arrived("GET /hold/a", 2).await;
    world.service.idle_but(1).await;
    world.service.release("a");
    events(&other, id).await;
    assert_succeeded(&read(&other, id).await);
}

#[tokio::test]
async fn lease_is_renewed_and_expires_after_its_executor() {
    let Some(mut world) = shared().await else { return };
    world.config.limits.lease = Duration::from_secs(1);
    publish(&world, "GET /hold/a");
    let (one, other) = (world.open().await, world.open().await);
    let id = start(&one, "Pay", json!({})).await;
    world.service.arrived("GET /hold/a", 1).await;
    let lease = async || -> (Uuid, i64) {
        let row = world.query("SELECT owner || ' ' || lease_until FROM run").await;
        let (owner, until) = row[0].split_once(' ').unwrap();
        (owner.parse().unwrap(), until.parse().unwrap())
    };
    let (owner, granted) = lease().await;
    // Beyond the time that was granted first, and it is still the same one's.
    loop {
        let (still, until) = lease().await;
        assert_eq!(still, owner);
        if until > granted + 2_000 {
            break;
        }
        tokio::task::yield_now().await;
    }
    // Killed: `crash` lets the lease run out, and nobody tells the other one.
    one.crash().await;
    world.service.arrived("GET /hold/a", 2).await;
    world.service.idle_but(1).await;
    world.service.release("a");
    events(&other, id).await;
    assert_succeeded(&read(&other, id).await);
    assert_eq!(world.service.count("POST /pay"), 1);
}

#[tokio::test]
async fn executors_of_one_database_have_one_key() {
    let Some(mut world) = shared().await else { return };
    let key = |byte: u8| SecretKeySource::Given(Secret::new(STANDARD.encode([byte; 32])));
    world.config.secret_key = key(1);
    let one = world.open().await;
    drop(world.open().await);
    world.config.secret_key = key(2);
    let refused = world.try_open().await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Configuration);
    assert!(refused.message.contains("use the key"), "{}", refused.message);
    drop(one);
}

#[tokio::test]
async fn a_lease_that_nobody_could_keep_is_refused() {
    let mut world = World::new().await;
    world.config.limits.lease = Duration::from_millis(999);
    let refused = world.try_open().await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Configuration);
    assert!(refused.message.contains("`lease`"), "{}", refused.message);
}
