//! What happens behind a failure: `on_error`, `catch` and `timeout`.

use std::time::Duration;

use a2s_api::{ErrorHandlerKind, EventKind, Run, RunStatus};
use serde_json::{Value, json};

use super::world::{
    World, allow, assert_succeeded, cancel, deny, events, output, read, run, sequence, start, task,
    transcript, wait_for, with,
};

fn bad(more: Value) -> Value {
    with(task("bad", "GET /status/404", json!({}), json!({"kept": "$.value"})), more)
}

fn say(id: &str, body: &str, output: &str) -> Value {
    task(id, "POST /say", json!({"body": body}), json!({output: "$.body"}))
}

fn statuses(run: &Run) -> Vec<(&str, &str, Option<ErrorHandlerKind>)> {
    run.steps.iter().map(|s| (s.step.as_str(), s.status.as_str(), s.handled)).collect()
}

#[tokio::test]
async fn a_run_goes_on_behind_a_step_that_may_fail() {
    let world = World::new().await;
    world.registry.publish_newer(
        "Go",
        &json!({"execution": {"type": "sequence", "variables": {"shared": {"kept": "string"}}, "steps": [
            task("before", "GET /echo/old", json!({}), json!({"kept": "$.value"})),
            bad(json!({"on_error": "continue"})),
            say("after", "${kept}", "said"),
        ]}}),
    );
    let app = world.open().await;
    let run = run(&app, "Go", json!({})).await;
    assert_succeeded(&run);
    assert_eq!(run.error, None);
    assert_eq!(output(&run)["said"], "old");
    assert_eq!(
        statuses(&run),
        [
            ("before", "succeeded", None),
            ("bad", "failed", Some(ErrorHandlerKind::Continue)),
            ("after", "succeeded", None),
        ]
    );
    let lines = transcript(&events(&app, run.id).await);
    let at = lines.iter().position(|line| line == "bad: failed A2S357").unwrap();
    assert_eq!(lines[at + 1], "bad: handled, Continue");
}

#[tokio::test]
async fn what_a_failed_block_has_set_is_forgotten() {
    let world = World::new().await;
    world.registry.publish_newer(
        "Block",
        &json!({"execution": {
            "type": "sequence",
            "variables": {"shared": {"x": "string", "y": "string", "said": "string"}},
            "steps": [
                {"id": "try", "type": "sequence", "on_error": "continue", "steps": [
                    say("first", "set", "x"), bad(json!({})),
                ]},
                {"id": "again", "type": "sequence", "steps": [
                    say("second", "set", "y"), bad(json!({"id": "worse"})),
                ], "catch": {"steps": [say("instead", "x=${x} y=${y}", "said")]}},
            ],
        }, "output": {"x": "${x}", "y": "${y}", "said": "${said}"}}),
    );
    let app = world.open().await;
    let run = run(&app, "Block", json!({})).await;
    assert_succeeded(&run);
    assert_eq!(run.output, Some(json!({"x": null, "y": null, "said": "x=null y=null"})));
}

#[tokio::test]
async fn a_catch_is_told_what_happened_and_its_outputs_stay() {
    let world = World::new().await;
    let posts = task(
        "tell",
        "POST /say",
        json!({"body": {"all": "${error}", "text": "${error.code} at ${error.step}"}}),
        json!({"kept": "$.body.text", "all": "$.body.all"}),
    );
    world.registry.publish_newer(
        "Caught",
        &json!({"execution": {"type": "sequence", "variables": {"shared": {"all": "object"}}, "steps": [
            {"id": "block", "type": "sequence", "steps": [bad(json!({}))], "catch": {"steps": [posts]}},
            say("after", "${kept}", "said"),
        ]}}),
    );
    let app = world.open().await;
    let run = run(&app, "Caught", json!({})).await;
    assert_succeeded(&run);
    let output = output(&run);
    assert_eq!(output["said"], "A2S357 at block/bad");
    assert_eq!(
        output["all"],
        json!({
            "code": "A2S357",
            "message": "the service responded with status 404: {\"error\":\"no luck\"}",
            "step": "block/bad",
            "status": 404,
        })
    );
    assert_eq!(
        statuses(&run),
        [
            ("block", "failed", Some(ErrorHandlerKind::Catch)),
            ("block/bad", "failed", None),
            ("block/tell", "succeeded", None),
            ("after", "succeeded", None),
        ]
    );
}

#[tokio::test]
async fn a_catch_that_fails_is_the_failure() {
    let world = World::new().await;
    let worse = task("worse", "GET /status/500", json!({}), json!({}));
    world.registry.publish_newer(
        "Worse",
        &json!({"execution": sequence(json!([bad(json!({"catch": {"as": "e", "steps": [worse]}}))]))}),
    );
    let app = world.open().await;
    let run = run(&app, "Worse", json!({})).await;
    assert_eq!(run.status, RunStatus::Failed);
    let error = run.error.as_ref().unwrap();
    assert_eq!((error.step.as_deref(), error.status), (Some("bad/worse"), Some(500)));
    assert_eq!(statuses(&run), [("bad", "failed", None), ("bad/worse", "failed", None)]);
}

#[tokio::test]
async fn a_tolerant_block_lets_all_its_steps_end() {
    let world = World::new().await;
    let parallel = |more: Value| {
        with(
            json!({"id": "both", "type": "parallel", "steps": [
                bad(json!({})),
                task("slow", "GET /hold/slow", json!({}), json!({"b": "$.value"})),
                task("last", "GET /echo/last", json!({}), json!({"c": "$.value"})),
            ]}),
            more,
        )
    };
    let shared = json!({"kept": "string", "b": "string", "c": "string"});
    let execution = |more: Value| json!({"execution": {"type": "sequence", "variables": {"shared": shared}, "steps": [parallel(more)]}});
    world.registry.publish_newer("Tolerant", &execution(json!({"on_error": "continue"})));
    let narrow = json!({"on_error": "continue", "max_concurrency": 1});
    world.registry.publish_newer("Narrow", &execution(narrow));
    let app = world.open().await;
    let id = start(&app, "Tolerant", json!({})).await;
    wait_for(
        &app,
        id,
        |kind| matches!(kind, EventKind::ErrorHandled { step, .. } if step == "both/bad"),
    )
    .await;
    assert_eq!(read(&app, id).await.status, RunStatus::Running);
    world.service.release("slow");
    events(&app, id).await;
    let told = read(&app, id).await;
    assert_succeeded(&told);
    assert_eq!(told.output, Some(json!({"kept": null, "b": "slow", "c": "last"})));
    assert_eq!(
        statuses(&told)[..2],
        [("both", "succeeded", None), ("both/bad", "failed", Some(ErrorHandlerKind::Continue))]
    );
    world.service.release("slow");
    let before = world.service.asked().len();
    let narrow = run(&app, "Narrow", json!({})).await;
    assert_succeeded(&narrow);
    let order: Vec<_> =
        world.service.asked()[before..].iter().map(|(call, _)| call.clone()).collect();
    assert_eq!(order, ["GET /status/404", "GET /hold/slow", "GET /echo/last"]);
}

#[tokio::test]
async fn nothing_goes_on_behind_a_denial() {
    let world = World::new().await;
    let instead = say("instead", "x", "kept");
    let denied = |more: Value| {
        with(task("denied", "GET /echo/1", json!({}), json!({"kept": "$.value"})), more)
    };
    let documents = [
        ("Continue", denied(json!({"on_error": "continue"}))),
        ("Catch", denied(json!({"catch": {"steps": [instead]}}))),
        ("Each", denied(json!({"for_each": [1, 2], "on_error": "continue"}))),
        // A failure beside it does not hide it.
        (
            "Beside",
            json!({"id": "both", "type": "parallel", "max_concurrency": 1, "on_error": "continue", "steps": [
                bad(json!({"output_mapping": {"other": "$.x"}})), denied(json!({})),
            ]}),
        ),
    ];
    for (name, step) in documents {
        let steps = json!([step, task("after", "GET /echo/after", json!({}), json!({}))]);
        world.registry.publish_newer(name, &json!({"execution": sequence(steps)}));
    }
    world.guardian.decide(|question| {
        let step = question["params"]["context"]["stepId"].as_str().unwrap();
        if step.contains("denied") { deny() } else { allow() }
    });
    let app = world.open().await;
    for name in ["Continue", "Catch", "Each", "Beside"] {
        let run = run(&app, name, json!({})).await;
        assert_eq!(run.status, RunStatus::Denied, "{name}");
        assert_eq!(run.error.unwrap().code, "A2S340", "{name}");
    }
    // A guardian that is silent denies just as much.
    world.guardian.decide(|_| json!({"decision": "perhaps"}));
    let run = run(&app, "Catch", json!({})).await;
    assert_eq!(run.status, RunStatus::Denied);
    for call in ["GET /echo/1", "GET /echo/after", "POST /say"] {
        assert_eq!(world.service.count(call), 0, "{call}");
    }
}

#[tokio::test]
async fn a_denial_does_not_hide_behind_a_failure_that_came_first() {
    let world = World::new().await;
    let held = task("held", "POST /hold/x", json!({}), json!({"x": "$.value"}));
    let both = json!({"id": "both", "type": "parallel", "steps": [bad(json!({})), held],
                      "catch": {"steps": [say("instead", "x", "kept")]}});
    world.registry.publish_newer(
        "Beside",
        &json!({"execution": {"type": "sequence", "variables": {"shared": {"x": "string"}}, "steps": [both]}}),
    );
    world.guardian.decide(|question| {
        let denies = question["method"] == "steps/toolCallResult"
            && question["params"]["context"]["stepId"] == "both/held";
        if denies { deny() } else { allow() }
    });
    let (app, id) = world.open_until("Beside", json!({}), "POST /hold/x").await;
    wait_for(
        &app,
        id,
        |kind| matches!(kind, EventKind::StepFailed { step, .. } if step == "both/bad"),
    )
    .await;
    world.service.release("x");
    events(&app, id).await;
    let run = read(&app, id).await;
    assert_eq!(run.status, RunStatus::Denied);
    assert_eq!(run.error.unwrap().step.as_deref(), Some("both/held"));
    assert_eq!(world.service.count("POST /say"), 0);
}

#[tokio::test]
async fn nothing_goes_on_behind_a_cancellation() {
    let world = World::new().await;
    let held = |more: Value| {
        with(task("held", "GET /hold/x", json!({}), json!({"kept": "$.value"})), more)
    };
    let instead = json!({"catch": {"steps": [say("instead", "x", "kept")]}});
    let execution = sequence(json!([
        {"id": "around", "type": "sequence", "steps": [held(instead)], "on_error": "continue"},
        task("after", "GET /echo/after", json!({}), json!({})),
    ]));
    world.registry.publish_newer("Held", &json!({"execution": execution}));
    let (app, id) = world.open_until("Held", json!({}), "GET /hold/x").await;
    cancel(&app, id).await;
    events(&app, id).await;
    assert_eq!(read(&app, id).await.status, RunStatus::Cancelled);
    assert_eq!(world.service.asked().len(), 1);
}

#[tokio::test]
async fn nothing_goes_on_behind_an_unknown_outcome() {
    let world = World::new().await;
    let held = task("held", "POST /hold/x", json!({}), json!({"kept": "$.value"}));
    let execution =
        sequence(json!([with(held, json!({"catch": {"steps": [say("instead", "x", "kept")]}})),]));
    world.registry.publish_newer(
        "Held",
        &json!({"execution": {"type": "sequence", "steps": [
            with(execution, json!({"id": "around", "on_error": "continue"})),
        ]}}),
    );
    let (app, id) = world.open_until("Held", json!({}), "POST /hold/x").await;
    let app = world.crash_and_open(app).await;
    events(&app, id).await;
    let run = read(&app, id).await;
    assert_eq!((run.status, run.error.unwrap().code.as_str()), (RunStatus::Waiting, "A2S371"));
    assert_eq!(world.service.asked().len(), 1);
}

#[tokio::test]
async fn a_step_has_so_much_time_and_its_failure_is_handled() {
    let world = World::new().await;
    let slow = task("slow", "GET /hold/never", json!({}), json!({"kept": "$.value"}));
    let told =
        json!({"timeout": "200ms", "catch": {"steps": [say("instead", "${error.code}", "kept")]}});
    world.registry.publish_newer(
        "Slow",
        &json!({"execution": sequence(json!([with(slow.clone(), told.clone())]))}),
    );
    // The same for a block: what is inside ends with it, and does not handle it.
    let inner = with(slow.clone(), json!({"on_error": "continue"}));
    let block = json!({"id": "block", "type": "parallel", "steps": [
        inner, task("never", "GET /hold/other", json!({}), json!({"b": "$.value"})),
    ]});
    world.registry.publish_newer("Block", &json!({"execution": {"type": "sequence", "variables": {"shared": {"b": "string"}}, "steps": [
        with(block, told.clone()),
    ]}}));
    let app = world.open().await;
    let run_slow = run(&app, "Slow", json!({})).await;
    assert_succeeded(&run_slow);
    assert_eq!(run_slow.output, Some(json!({"kept": "A2S372"})));
    let run_block = run(&app, "Block", json!({})).await;
    assert_succeeded(&run_block);
    assert_eq!(output(&run_block)["kept"], "A2S372");
    let lines = transcript(&events(&app, run_block.id).await);
    for line in ["block: failed A2S372", "block/slow: failed A2S372", "block/never: failed A2S372"]
    {
        assert!(lines.contains(&line.to_owned()), "{lines:#?}");
    }
    assert!(!lines.contains(&"block/slow: handled, Continue".to_owned()), "{lines:#?}");
}

#[tokio::test]
async fn unsafe_request_has_the_timeout_of_its_step() {
    let world = World::new().await;
    let slow =
        with(task("slow", "POST /hold/never", json!({}), json!({})), json!({"timeout": "1s"}));
    world.registry.publish_newer("Slow", &json!({"execution": sequence(json!([slow]))}));
    let app = world.open().await;
    let run = run(&app, "Slow", json!({})).await;
    assert_eq!(run.status, RunStatus::Failed);
    let error = run.error.unwrap();
    assert!(error.message.contains("within 0."), "{}", error.message);
    // The request was sent and given up: nobody knows what came of it.
    assert_eq!((error.code.as_str(), error.repeat_safe), ("A2S353", false));
    let asked = world.guardian.asked();
    assert_eq!(asked.last().unwrap()["method"], "steps/toolCallResult");
}

#[tokio::test]
async fn time_includes_pauses_and_each_iteration_has_its_own() {
    let mut world = World::new().await;
    world.config.limits.max_pause = Duration::from_secs(600);
    let retry = json!({"max_attempts": 3, "initial_delay": "5m", "backoff": "constant"});
    let pausing = task("pausing", "GET /status/503", json!({}), json!({"x": "$.value"}));
    world.registry.publish_newer(
        "Pausing",
        &json!({"execution": sequence(json!([with(pausing, json!({"retry": retry, "timeout": "2s"}))]))}),
    );
    let held =
        task("held", "GET /hold/{word}", json!({"word": "${item}"}), json!({"x": "$.value"}));
    let each = json!({"for_each": {"in": ["slow", "quick"], "max_concurrency": 2}, "timeout": "2s", "on_error": "continue"});
    world
        .registry
        .publish_newer("Each", &json!({"execution": sequence(json!([with(held, each)]))}));
    let app = world.open().await;
    let pausing = run(&app, "Pausing", json!({})).await;
    assert_eq!(pausing.error.unwrap().code, "A2S372");
    assert_eq!(world.service.count("GET /status/503"), 1);
    world.service.release("quick");
    let each = run(&app, "Each", json!({})).await;
    assert_succeeded(&each);
    assert_eq!(each.output, Some(json!({"x": [null, "quick"]})));
}

#[tokio::test]
async fn an_enclosing_step_that_is_late_is_the_one_that_failed() {
    let world = World::new().await;
    let slow =
        with(task("slow", "GET /hold/never", json!({}), json!({})), json!({"timeout": "10m"}));
    let block = json!({"id": "block", "type": "sequence", "timeout": "30ms", "steps": [slow]});
    world.registry.publish_newer("Outer", &json!({"execution": sequence(json!([block]))}));
    let app = world.open().await;
    let run = run(&app, "Outer", json!({})).await;
    let error = run.error.unwrap();
    assert_eq!((error.code.as_str(), error.step.as_deref()), ("A2S372", Some("block")));
    assert!(error.message.contains("30ms"), "{}", error.message);
}
