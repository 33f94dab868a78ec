//! What a guardian sees, and what its word does.

use a2s_api::{DecisionSource, RunStatus};
use serde_json::{Value, json};

use super::world::{World, allow, deny, events, run, sequence, task, transcript};
use crate::{FailMode, GuardianSettings};

pub(super) fn publish(world: &World) {
    world.registry.publish(
        "Two",
        "1.0.0",
        &json!({"execution": sequence(json!([
            task("read", "GET /echo/{word}", json!({"word": "${word}"}), json!({"heard": "$.value"})),
            task("write", "POST /say", json!({"body": {"text": "${heard}"}}), json!({"said": "$.body.text"})),
        ]))}),
    );
}

fn is_about(question: &Value, method: &str, step: &str) -> bool {
    question["method"] == method && question["params"]["context"]["stepId"] == step
}

#[tokio::test]
async fn guardian_questions_share_execution_id_and_digest() {
    let world = World::new().await;
    publish(&world);
    let app = world.open().await;
    let run = run(&app, "Two", json!({"word": "x"})).await;
    let asked = world.guardian.asked();
    let methods: Vec<_> =
        asked.iter().map(|question| question["method"].as_str().unwrap()).collect();
    let both = ["steps/toolCallRequest", "steps/toolCallResult"];
    assert_eq!(methods, [both, both].concat());
    let request = &asked[0]["params"]["toolCallRequest"];
    assert_eq!(request["inputs"], json!([{"name": "pathParameters.word", "value": "x"}]));
    assert_eq!(request["executionId"], asked[1]["params"]["toolCallResult"]["executionId"]);
    assert_ne!(request["executionId"], asked[2]["params"]["toolCallRequest"]["executionId"]);
    assert!(asked.iter().all(|question| question.to_string().contains(&run.checksum.to_string())));
}

#[tokio::test]
async fn a_denied_request_sends_nothing_and_ends_the_run() {
    let world = World::new().await;
    publish(&world);
    world.guardian.decide(|question| {
        if is_about(question, "steps/toolCallRequest", "write") { deny() } else { allow() }
    });
    let app = world.open().await;
    let run = run(&app, "Two", json!({"word": "x"})).await;
    assert_eq!(run.status, RunStatus::Denied);
    let error = run.error.unwrap();
    assert_eq!((error.code.as_str(), error.step.as_deref()), ("A2S340", Some("write")));
    assert!(error.message.contains("not today"), "{}", error.message);
    assert!(error.repeat_safe, "only a read was sent");
    assert_eq!(world.service.count("POST /say"), 0);
    assert_eq!(run.steps[1].status, "denied");
    assert_eq!(run.steps[1].decisions[0].reason_codes, ["test"]);
}

#[tokio::test]
async fn a_denied_result_is_not_used_and_counts_as_sent() {
    let world = World::new().await;
    publish(&world);
    world.guardian.decide(|question| {
        if is_about(question, "steps/toolCallResult", "write") { deny() } else { allow() }
    });
    let app = world.open().await;
    let run = run(&app, "Two", json!({"word": "x"})).await;
    assert_eq!(run.status, RunStatus::Denied);
    assert_eq!(run.output, None);
    let error = run.error.unwrap();
    assert_eq!(error.code, "A2S341");
    assert!(!error.repeat_safe, "a post was sent");
    assert_eq!(world.service.count("POST /say"), 1);
}

#[tokio::test]
async fn a_modified_request_is_sent_and_recorded() {
    let world = World::new().await;
    publish(&world);
    world.guardian.decide(|question| {
        if is_about(question, "steps/toolCallRequest", "read") {
            let mut modified = question.clone();
            modified["params"]["toolCallRequest"]["inputs"][0]["value"] = json!("y");
            json!({"decision": "modify", "message": "softer", "modifiedRequest": modified})
        } else {
            allow()
        }
    });
    let app = world.open().await;
    let run = run(&app, "Two", json!({"word": "x"})).await;
    assert_eq!(run.status, RunStatus::Succeeded);
    assert_eq!(run.output, Some(json!({"heard": "y", "said": "y"})));
    let change = &run.steps[0].decisions[0].changes[0];
    assert_eq!((change.name.as_str(), &change.to), ("pathParameters.word", &json!("y")));
    assert_eq!(world.service.count("GET /echo/x"), 0);
}

#[tokio::test]
async fn a_silent_guardian_means_that_nothing_is_sent() {
    let mut world = World::new().await;
    publish(&world);
    let guardian = world.guarded_by();
    guardian.endpoint = World::silent();
    let app = world.open().await;
    let run = run(&app, "Two", json!({"word": "x"})).await;
    assert_eq!(run.status, RunStatus::Denied);
    let error = run.error.unwrap();
    assert_eq!(error.code, "A2S342");
    assert!(error.repeat_safe);
    assert!(error.hint.contains("guardian"), "{}", error.hint);
    assert_eq!(run.steps[0].decisions[0].source, DecisionSource::FailedClosed);
    assert!(world.service.asked().is_empty());
}

#[tokio::test]
async fn failing_open_is_a_choice_that_every_event_shows() {
    let mut world = World::new().await;
    publish(&world);
    let guardian = world.guarded_by();
    guardian.endpoint = World::silent();
    guardian.fail = FailMode::Open.into();
    let app = world.open().await;
    let run = run(&app, "Two", json!({"word": "x"})).await;
    assert_eq!(run.status, RunStatus::Succeeded);
    let decisions: Vec<_> = run.steps.iter().flat_map(|step| &step.decisions).collect();
    assert_eq!(decisions.len(), 4);
    assert!(decisions.iter().all(|decision| decision.source == DecisionSource::FailedOpen));
}

#[tokio::test]
async fn without_a_guardian_the_verdict_is_recorded_as_unguarded() {
    let mut world = World::new().await;
    publish(&world);
    world.config.guardian = GuardianSettings::Off;
    let app = world.open().await;
    let run = run(&app, "Two", json!({"word": "x"})).await;
    assert_eq!(run.status, RunStatus::Succeeded);
    let lines = transcript(&events(&app, run.id).await);
    assert_eq!(lines.iter().filter(|line| line.ends_with("unguarded")).count(), 4);
}
