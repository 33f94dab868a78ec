//! A request whose outcome is not known: what a person says about it is what happens.

use a2s_api::{RunEvent, RunStatus};
use axum::http::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use super::world::{
    Answer, World, assert_gapless, assert_succeeded, call, events, output, read, sequence, task,
    transcript, with,
};
use crate::App;

/// Says something, pays, and tells what came of it.
fn publish(world: &World) {
    let pay = task("pay", "POST /hold/pay", json!({"body": "5"}), json!({"paid": "$.value"}));
    let told = json!({"body": "${said} ${paid}"});
    let steps = json!([
        task("say", "POST /say", json!({"body": "hello"}), json!({"said": "$.body"})),
        pay,
        task("tell", "POST /tell", told, json!({"told": "$.body"})),
    ]);
    world.registry.publish_newer("Pay", &json!({"execution": sequence(steps)}));
}

/// A run that waits, because its executor died while it paid.
async fn in_doubt(world: &World) -> (App, Uuid) {
    let (app, id) = world.open_until("Pay", json!({}), "POST /hold/pay").await;
    let app = world.crash_and_open(app).await;
    events(&app, id).await;
    assert_eq!(read(&app, id).await.status, RunStatus::Waiting);
    (app, id)
}

async fn resume(app: &App, id: Uuid, decision: Value) -> Answer {
    call(app, Method::POST, &format!("/v1/executions/{id}/resume"), &[], decision).await
}

/// The events behind the one that says that the run waits.
fn since(told: &[RunEvent]) -> Vec<String> {
    let lines = transcript(told);
    let waits = lines.iter().position(|line| line.starts_with("waiting")).unwrap();
    lines[waits + 1..].to_vec()
}

#[tokio::test]
async fn what_did_not_take_effect_is_sent_again() {
    let world = World::new().await;
    publish(&world);
    let (app, id) = in_doubt(&world).await;
    world.service.release("pay");
    resume(&app, id, json!({"decision": "repeat"})).await.run();
    let told = events(&app, id).await;
    assert_gapless(&told);
    let run = read(&app, id).await;
    assert_succeeded(&run);
    assert_eq!(output(&run)["told"], "hello pay");
    assert_eq!(world.service.count("POST /hold/pay"), 2);
    assert_eq!(world.service.count("POST /say"), 1);
    let lines = since(&told);
    assert_eq!(lines[..2], ["pay: Repeat", "resumed"]);
    assert!(lines.contains(&"pay: 2 POST https://api.example/hold/pay".to_owned()), "{lines:#?}");
}

#[tokio::test]
async fn what_took_effect_is_not_sent_again() {
    let world = World::new().await;
    publish(&world);
    let (app, id) = in_doubt(&world).await;
    resume(&app, id, json!({"decision": "set", "outputs": {"paid": "by hand"}})).await.run();
    events(&app, id).await;
    let run = read(&app, id).await;
    assert_succeeded(&run);
    assert_eq!(output(&run)["told"], "hello by hand");
    assert_eq!(run.steps[1].status, "succeeded");
    assert_eq!(world.service.count("POST /hold/pay"), 1);
    // It survives the next crash, as any finished step does.
    let told = events(&app, id).await;
    world.crash(app).await;
    let resolved =
        told.iter().position(|event| transcript(std::slice::from_ref(event))[0] == "pay: Set");
    world.rewrite_journal(&told[..=resolved.unwrap()]).await;
    let app = world.open().await;
    events(&app, id).await;
    assert_eq!(output(&read(&app, id).await)["told"], "hello by hand");
    assert_eq!(world.service.count("POST /hold/pay"), 1);
}

#[tokio::test]
async fn a_step_that_is_skipped_sets_nothing() {
    let world = World::new().await;
    publish(&world);
    let (app, id) = in_doubt(&world).await;
    resume(&app, id, json!({"decision": "skip"})).await.run();
    events(&app, id).await;
    let run = read(&app, id).await;
    // The step behind it needs what it would have set.
    assert_eq!(run.error.unwrap().code, "A2S330");
    assert_eq!(world.service.count("POST /hold/pay"), 1);
    assert_eq!(run.steps[1].status, "skipped");
}

#[tokio::test]
async fn one_of_several_is_named() {
    let world = World::new().await;
    let pay = task("pay", "POST /hold/{n}", json!({"n": "${item}"}), json!({"paid": "$.value"}));
    let pay = with(pay, json!({"for_each": {"in": ["a", "b"], "max_concurrency": 2}}));
    world.registry.publish_newer("Pay", &json!({"execution": sequence(json!([pay]))}));
    let (app, id) = world.open_until("Pay", json!({}), "POST /hold/a").await;
    world.service.arrived("POST /hold/b", 1).await;
    let app = world.crash_and_open(app).await;
    events(&app, id).await;
    let (status, code, problem) = resume(&app, id, json!({"decision": "skip"})).await.problem();
    assert_eq!((status, code.as_str()), (400, "A2S300"));
    assert_eq!(problem.hint.as_deref(), Some("Steps in doubt: `pay[0]`, `pay[1]`."));
    resume(&app, id, json!({"step": "pay[1]", "decision": "set", "outputs": {"paid": "B"}}))
        .await
        .run();
    events(&app, id).await;
    let run = read(&app, id).await;
    assert_eq!(run.status, RunStatus::Waiting);
    assert_eq!(run.error.unwrap().step.as_deref(), Some("pay[0]"));
    world.service.release("a");
    resume(&app, id, json!({"decision": "repeat"})).await.run();
    events(&app, id).await;
    let run = read(&app, id).await;
    assert_succeeded(&run);
    assert_eq!(output(&run)["paid"], json!(["a", "B"]));
    assert_eq!(world.service.count("POST /hold/b"), 1);
}

#[tokio::test]
async fn a_decision_that_does_not_fit_changes_nothing() {
    let world = World::new().await;
    publish(&world);
    let (app, id) = in_doubt(&world).await;
    let before = events(&app, id).await.len();
    for (decision, says) in [
        (json!({"decision": "set"}), "`set` requires `outputs`"),
        (
            json!({"decision": "skip", "outputs": {"paid": 1}}),
            "`outputs` require the decision `set`",
        ),
        (json!({"decision": "set", "outputs": {"sum": 1}}), "`pay` does not set `sum`"),
        (json!({"step": "say", "decision": "repeat"}), "`say` is not in doubt"),
        (json!({"step": "pay/x", "decision": "repeat"}), "`pay/x` is not in doubt"),
        (json!({"decision": "undo"}), "unknown variant `undo`"),
        (json!({}), "missing field `decision`"),
    ] {
        let (status, code, problem) = resume(&app, id, decision.clone()).await.problem();
        assert_eq!((status, code.as_str()), (400, "A2S300"), "{decision}");
        assert!(problem.detail.contains(says), "{decision}: {}", problem.detail);
    }
    assert_eq!(events(&app, id).await.len(), before);
    // Two who decide at the same time: one of them does.
    world.service.release("pay");
    let both = futures::future::join(
        resume(&app, id, json!({"decision": "repeat"})),
        resume(&app, id, json!({"decision": "set", "outputs": {"paid": 1}})),
    );
    let (first, second) = both.await;
    let taken = [first.status, second.status].into_iter().filter(|status| *status == 202).count();
    assert_eq!(taken, 1, "{} {}", first.body, second.body);
    events(&app, id).await;
    assert_succeeded(&read(&app, id).await);
    let (status, code, _) = resume(&app, id, json!({"decision": "repeat"})).await.problem();
    assert_eq!((status, code.as_str()), (409, "A2S305"));
    let (status, _, _) = resume(&app, Uuid::nil(), json!({"decision": "repeat"})).await.problem();
    assert_eq!(status, 404);
}

#[tokio::test]
async fn a_run_under_way_has_nothing_to_be_decided() {
    let world = World::new().await;
    publish(&world);
    let (app, id) = world.open_until("Pay", json!({}), "POST /hold/pay").await;
    let (status, code, _) = resume(&app, id, json!({"decision": "repeat"})).await.problem();
    assert_eq!((status, code.as_str()), (409, "A2S309"));
    world.service.release("pay");
    events(&app, id).await;
    assert_eq!(world.service.count("POST /hold/pay"), 1);
}
