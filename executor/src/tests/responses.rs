//! Answers that are not as their operation declares them: `check_answers`, through a whole run.

use a2s_api::{ErrorHandlerKind, EventKind, Run, RunEvent, RunStatus, StepWarning};
use serde_json::{Value, json};

use super::world::{
    World, assert_succeeded, events, output, run, sequence, task, transcript, with,
};
use crate::ResponseValidation;

/// A step whose answer has to be an object with a list of numbers.
fn counting(id: &str, method: &str, more: Value) -> Value {
    let outputs = json!({"first": "$.counts[0]"});
    let mut step = task(id, &format!("{method} /counts"), json!({}), outputs);
    step["task"]["paths"]["/counts"][method.to_lowercase()]["responses"] = json!({
        "200": {"description": "Counts", "content": {"application/json": {"schema": {
            "$ref": "#/components/schemas/Counts",
        }}}},
    });
    step["task"]["components"] = json!({"schemas": {"Counts": {
        "type": "object",
        "required": ["counts"],
        "properties": {"counts": {"type": "array", "items": {"type": "integer"}}},
    }}});
    with(step, more)
}

/// What became of it is in the answer, and where the rule is in the description.
const TOLD: &str = "the response does not match its declaration in the operation: `.counts[1]` is not of the \
                    type integer (schema: #/components/schemas/Counts/properties/counts/items/type)";

async fn world(check: ResponseValidation) -> World {
    let mut world = World::new().await;
    world.config.response_validation = check;
    world.service.answer("/counts", json!({"counts": [1, "a secret"]}));
    world
}

/// Runs one step that asks for the counts.
async fn count(world: &World, method: &str, more: Value) -> (Run, Vec<RunEvent>) {
    world.registry.publish_newer(
        "Count",
        &json!({"execution": sequence(json!([counting("count", method, more)]))}),
    );
    let app = world.open().await;
    let run = run(&app, "Count", json!({})).await;
    let events = events(&app, run.id).await;
    (run, events)
}

fn warnings(events: &[RunEvent]) -> Vec<(&str, &StepWarning)> {
    let warned = events.iter().filter_map(|event| match &event.kind {
        EventKind::Warned { step, warning } => Some((step.as_str(), warning)),
        _ => None,
    });
    warned.collect()
}

#[tokio::test]
async fn nobody_looks_when_that_is_off() {
    let (run, events) = count(&world(ResponseValidation::Off).await, "GET", json!({})).await;
    assert_succeeded(&run);
    assert_eq!(output(&run)["first"], 1);
    assert_eq!(warnings(&events), []);
    assert!(run.steps[0].warnings.is_empty());
}

#[tokio::test]
async fn a_warning_says_where_and_the_run_goes_on() {
    let world = world(ResponseValidation::Warn).await;
    let (run, events) = count(&world, "GET", json!({})).await;
    assert_succeeded(&run);
    assert_eq!(output(&run)["first"], 1);
    let told = StepWarning { code: "A2S365".to_owned(), message: TOLD.to_owned() };
    assert_eq!(warnings(&events), [("count", &told)]);
    assert_eq!(run.steps[0].warnings, [told]);
    assert_eq!(
        transcript(&events)[3..],
        [
            "count: 1 GET https://api.example/counts",
            "count: 1 got 200",
            "count: warned A2S365",
            "count: result allow",
            "count: set {\"first\":1}",
            "succeeded {\"first\":1}",
        ]
    );
    assert!(!serde_json::to_string(&events).unwrap().contains("a secret"), "no value is told");
}

#[tokio::test]
async fn an_answer_that_fits_is_not_remarked_on() {
    for check in [ResponseValidation::Warn, ResponseValidation::Error] {
        let world = world(check).await;
        world.service.answer("/counts", json!({"counts": [1, 2]}));
        let (run, events) = count(&world, "GET", json!({})).await;
        assert_succeeded(&run);
        assert_eq!(warnings(&events), []);
    }
}

#[tokio::test]
async fn an_error_fails_the_step_and_says_whether_it_may_be_repeated() {
    for (method, repeat_safe) in [("GET", true), ("POST", false)] {
        let world = world(ResponseValidation::Error).await;
        let retry = json!({"retry": {"max_attempts": 3, "initial_delay": "1ms"}});
        let (run, events) = count(&world, method, retry).await;
        assert_eq!(run.status, RunStatus::Failed);
        let error = run.error.unwrap();
        assert_eq!((error.code.as_str(), error.message.as_str()), ("A2S365", TOLD));
        assert_eq!(error.step.as_deref(), Some("count"));
        assert_eq!(error.repeat_safe, repeat_safe, "{method}");
        // The service would answer the same again.
        assert_eq!(world.service.count(&format!("{method} /counts")), 1);
        assert_eq!(warnings(&events), []);
        let lines = transcript(&events);
        assert_eq!(lines[lines.len() - 2..], ["count: failed A2S365", "failed A2S365"]);
        // The guardian was told that it failed.
        let asked = world.guardian.asked();
        let result = &asked.last().unwrap()["params"];
        assert!(result.to_string().contains("\"isError\":true"), "{result}");
    }
}

#[tokio::test]
async fn a_failure_by_its_answer_is_handled_like_any_other() {
    let world = world(ResponseValidation::Error).await;
    let tell = task("tell", "POST /say", json!({"body": "${error}"}), json!({"told": "$.body"}));
    world.registry.publish_newer(
        "Handled",
        &json!({"execution": {
            "type": "sequence",
            "variables": {"shared": {"first": "integer", "told": "object"}},
            "steps": [
                counting("tolerated", "GET", json!({"on_error": "continue"})),
                {"id": "block", "type": "sequence", "steps": [counting("caught", "GET", json!({}))],
                 "catch": {"steps": [tell]}},
            ],
        }, "output": {"first": "${first}", "told": "${told}"}}),
    );
    let app = world.open().await;
    let run = run(&app, "Handled", json!({})).await;
    assert_succeeded(&run);
    let told = &output(&run)["told"];
    assert_eq!((&told["code"], &told["message"]), (&json!("A2S365"), &json!(TOLD)));
    assert_eq!(told["step"], "block/caught");
    // What does not fit sets nothing.
    assert_eq!(output(&run)["first"], Value::Null);
    let handled: Vec<_> = run.steps.iter().map(|step| (step.step.as_str(), step.handled)).collect();
    assert_eq!(
        handled,
        [
            ("tolerated", Some(ErrorHandlerKind::Continue)),
            ("block", Some(ErrorHandlerKind::Catch)),
            ("block/caught", None),
            ("block/tell", None),
        ]
    );
}
