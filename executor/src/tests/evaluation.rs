//! Expensive expressions over answers: evaluated apart from other runs, and with a deadline.

use std::time::Duration;

use a2s_api::{EventKind, Run, RunStatus};
use axum::http::StatusCode;
use serde_json::{Value, json};

use super::world::{
    World, assert_succeeded, cancel, events, output, read, run, sequence, start, task, wait_for,
};
use crate::ResponseValidation;

/// A query that visits thousands of states for each letter.
const SEARCH: &str = "$.letters[?search(@,'(a{1,100}){1,100}b')]";

async fn world() -> World {
    let world = World::new().await;
    world.service.answer("/letters", json!({"letters": ["a".repeat(4_000)]}));
    world.service.answer("/few", json!({"letters": ["a".repeat(100)]}));
    world.service.answer("/items", json!({"items": (0..600).collect::<Vec<_>>()}));
    publish(&world, "Expensive", json!([task("ask", "GET /few", json!({}), found())]));
    publish(&world, "Cheap", json!([task("ask", "GET /few", json!({}), json!({"all": "$"}))]));
    world
}

fn found() -> Value {
    json!({"found": SEARCH})
}

fn publish(world: &World, name: &str, steps: Value) {
    world.registry.publish_newer(name, &json!({"execution": sequence(steps)}));
}

/// Asserts that a step took too long, and that the message names the step and the expression.
#[track_caller]
fn assert_overdue(run: &Run, expression: &str) {
    let error = run.error.as_ref().expect("an expression takes too long");
    assert_eq!((error.code.as_str(), error.step.as_deref()), ("A2S334", Some("ask")));
    assert!(error.message.contains(expression), "{}", error.message);
    assert!(error.message.contains("step `ask` takes longer than 0ns"), "{}", error.message);
    assert!(error.hint.contains("evaluation-timeout"), "{}", error.hint);
}

#[tokio::test]
async fn expensive_expression_delays_only_its_own_run() {
    let world = world().await;
    let app = world.open().await;
    let permits = app.runs().evaluations().occupy().await;
    let expensive = start(&app, "Expensive", json!({})).await;
    let is_received = |event: &EventKind| matches!(event, EventKind::Received { .. });
    wait_for(&app, expensive, is_received).await;

    assert_succeeded(&run(&app, "Cheap", json!({})).await);
    assert_eq!(read(&app, expensive).await.status, RunStatus::Running);

    let cancelled = cancel(&app, expensive).await;
    assert_eq!(cancelled.status, StatusCode::ACCEPTED);
    events(&app, expensive).await;
    assert_eq!(read(&app, expensive).await.status, RunStatus::Cancelled);

    drop(permits);
    let run = run(&app, "Expensive", json!({})).await;
    assert_succeeded(&run);
    assert_eq!(output(&run)["found"], json!([]));
}

#[tokio::test]
async fn an_expression_past_its_deadline_fails_the_step() {
    let mut world = world().await;
    world.config.limits.evaluation_timeout = Duration::ZERO;
    let app = world.open().await;
    assert_succeeded(&run(&app, "Cheap", json!({})).await);
    assert_overdue(&run(&app, "Expensive", json!({})).await, SEARCH);
}

#[tokio::test]
async fn a_condition_past_its_deadline_fails_the_step() {
    let mut world = world().await;
    world.config.limits.evaluation_timeout = Duration::ZERO;
    let condition = "${items}.all(one, one in ${items})";
    publish(
        &world,
        "Decide",
        json!([
            task("get", "GET /items", json!({}), json!({"items": "$.items"})),
            {"id": "ask", "type": "condition", "condition": condition, "if_true": {"steps": [
                task("then", "GET /few", json!({}), json!({"few": "$"})),
            ]}},
        ]),
    );
    let app = world.open().await;
    assert_overdue(&run(&app, "Decide", json!({})).await, condition);
}

#[tokio::test]
async fn a_check_past_its_deadline_fails_the_step_or_warns() {
    let mut world = world().await;
    world.config.limits.evaluation_timeout = Duration::ZERO;
    let mut step = task("ask", "GET /letters", json!({}), json!({"all": "$"}));
    step["task"]["paths"]["/letters"]["get"]["responses"] = json!({
        "200": {"description": "Letters", "content": {"application/json": {"schema": {
            "properties": {"letters": {"items": {"pattern": "^(a{1,20}){1,20}b$"}}},
        }}}},
    });
    publish(&world, "Check", json!([step]));

    world.config.response_validation = ResponseValidation::Error;
    let strict = run(&world.open().await, "Check", json!({})).await;
    assert_overdue(&strict, "the check of the response against its schema");

    world.config.response_validation = ResponseValidation::Warn;
    let warned = run(&world.open().await, "Check", json!({})).await;
    assert_succeeded(&warned);
    assert_eq!(warned.steps[0].warnings[0].code, "A2S334");
}
