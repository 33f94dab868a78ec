//! Outputs that are taken from headers and status, and those that need not be there.

use a2s_api::RunStatus;
use serde_json::{Value, json};

use super::world::{World, allow, assert_succeeded, deny, run, sequence, task};

fn publish(world: &World, outputs: Value) {
    let execution = sequence(json!([task("step", "GET /echo/x", json!({}), outputs)]));
    world.registry.publish_newer("Map", &json!({"execution": execution}));
}

fn head() -> Value {
    json!({
        "number": {"from": "header", "path": "X-Number"},
        "status": {"from": "status"},
        "value": {"path": "$.value"},
    })
}

#[tokio::test]
async fn headers_and_status_are_outputs() {
    let world = World::new().await;
    publish(&world, head());
    let app = world.open().await;
    let run = run(&app, "Map", json!({})).await;
    assert_succeeded(&run);
    assert_eq!(run.output, Some(json!({"number": "1", "status": 200, "value": "x"})));
}

#[tokio::test]
async fn what_need_not_be_there_has_a_default() {
    let world = World::new().await;
    publish(
        &world,
        json!({
            "a": {"path": "$.nothing", "optional": true},
            "b": {"path": "$.nothing", "default": {"n": [1]}},
            "c": {"path": "$.value", "default": "unused"},
            "d": {"from": "header", "path": "X-Nothing", "optional": true},
            "e": {"from": "header", "path": "X-Nothing", "default": "none"},
        }),
    );
    let app = world.open().await;
    let run = run(&app, "Map", json!({})).await;
    assert_succeeded(&run);
    assert_eq!(
        run.output,
        Some(json!({"a": null, "b": {"n": [1]}, "c": "x", "d": null, "e": "none"}))
    );
}

#[tokio::test]
async fn a_header_that_is_not_there_fails_the_step() {
    let world = World::new().await;
    publish(&world, json!({"id": {"from": "header", "path": "X-Request-Id"}}));
    let app = world.open().await;
    let run = run(&app, "Map", json!({})).await;
    let error = run.error.unwrap();
    assert_eq!((error.code.as_str(), error.status), ("A2S332", Some(200)));
    assert_eq!(error.message, "output `id`: the response has no header `X-Request-Id`");
}

#[tokio::test]
async fn a_guardian_changes_the_body_and_the_head_stays_what_came() {
    let world = World::new().await;
    publish(&world, head());
    world.guardian.decide(|question| {
        if question["method"] != "steps/toolCallResult" {
            return allow();
        }
        let mut modified = question.clone();
        modified["params"]["toolCallResult"]["result"]["outputs"][0]["text"] =
            json!("{\"value\": \"less\"}");
        json!({"decision": "modify", "message": "less", "modifiedRequest": modified})
    });
    let app = world.open().await;
    let modified = run(&app, "Map", json!({})).await;
    assert_succeeded(&modified);
    assert_eq!(modified.output, Some(json!({"number": "1", "status": 200, "value": "less"})));

    // Of a denied result nothing is used, the head neither.
    world.guardian.decide(|question| {
        if question["method"] == "steps/toolCallResult" { deny() } else { allow() }
    });
    let denied = run(&app, "Map", json!({})).await;
    assert_eq!((denied.status, denied.output), (RunStatus::Denied, None));
    let error = denied.error.unwrap();
    assert_eq!(error.code, "A2S341");
}

#[tokio::test]
async fn graphql_answers_have_a_head_too() {
    let world = World::new().await;
    world.registry.publish_newer(
        "Query",
        &json!({"execution": sequence(json!([{
            "id": "ask",
            "format": "GraphQL",
            "task": {"endpoint": "https://api.example/graph", "query": "{ a }"},
            "output_mapping": {
                "status": {"from": "status"},
                "number": {"from": "header", "path": "x-number"},
                "b": {"path": "$.data.b", "default": "none"},
            },
        }]))}),
    );
    world.service.answer("/graph", json!({"data": {"a": 1}}));
    let app = world.open().await;
    let run = run(&app, "Query", json!({})).await;
    assert_succeeded(&run);
    assert_eq!(run.output, Some(json!({"status": 200, "number": "1", "b": "none"})));
}

#[tokio::test]
async fn outputs_of_a_capability_may_be_optional() {
    let world = World::new().await;
    world.registry.publish_newer(
        "Inner",
        &json!({"execution": sequence(json!([
            task("ask", "GET /echo/x", json!({}), json!({"text": "$.value"})),
        ]))}),
    );
    world.registry.publish_newer(
        "Outer",
        &json!({
            "dependencies": [{"capability": "Inner", "version": "*"}],
            "execution": sequence(json!([
                {"id": "use", "type": "capability", "use": "Inner",
                 "output_mapping": {"t": "$.text", "u": {"path": "$.unit", "default": "none"}}},
            ])),
        }),
    );
    let app = world.open().await;
    let run = run(&app, "Outer", json!({})).await;
    assert_succeeded(&run);
    assert_eq!(run.output, Some(json!({"t": "x", "u": "none"})));
}
