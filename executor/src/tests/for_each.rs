//! Steps that run once for each item of a list.

use std::collections::BTreeSet;

use a2s_api::{ErrorHandlerKind, EventKind, IterationSummary, RunStatus};
use serde_json::{Value, json};

use super::world::{
    World, assert_gapless, assert_succeeded, call, events, output, read, run, sequence, start,
    task, transcript, wait_for, with,
};

fn echo(id: &str) -> Value {
    task(id, "GET /echo/{word}", json!({"word": "${item}"}), json!({"heard": "$.value"}))
}

#[tokio::test]
async fn each_item_is_a_step_and_outputs_are_lists() {
    let world = World::new().await;
    world.registry.publish_newer(
        "Each",
        &json!({"execution": sequence(json!([
            with(echo("each"), json!({"for_each": "${words}"})),
            task("after", "POST /say", json!({"body": "${heard}"}), json!({"said": "$.body"})),
        ]))}),
    );
    let app = world.open().await;
    let run = run(&app, "Each", json!({"words": ["a", "b"]})).await;
    assert_succeeded(&run);
    assert_eq!(output(&run)["said"], json!(["a", "b"]));
    let events = events(&app, run.id).await;
    assert_gapless(&events);
    assert_eq!(
        transcript(&events)[..20],
        [
            "run Each 1.0.0",
            "each: task",
            "each: over 2 items",
            "each[0]: task",
            "each[0]: request allow",
            "each[0]: 1 GET https://api.example/echo/a",
            "each[0]: 1 got 200",
            "each[0]: result allow",
            "each[0]: set {\"heard\":\"a\"}",
            "each[1]: task",
            "each[1]: request allow",
            "each[1]: 1 GET https://api.example/echo/b",
            "each[1]: 1 got 200",
            "each[1]: result allow",
            "each[1]: set {\"heard\":\"b\"}",
            "each: set {\"heard\":[\"a\",\"b\"]}",
            "after: task",
            "after: request allow",
            "after: 1 POST https://api.example/say",
            "after: 1 got 200",
        ]
    );
    // A table has one line for the step and none for iterations that are well.
    let steps: Vec<_> = run.steps.iter().map(|s| (s.step.as_str(), s.attempts)).collect();
    assert_eq!(steps, [("each", 2), ("after", 1)]);
    assert_eq!(
        run.steps[0].iterations,
        Some(IterationSummary { total: 2, succeeded: 2, failed: 0 })
    );
    // A guardian is asked about each of them, as the same tool.
    let asked = world.guardian.asked();
    let of = |pointer: &str| -> Vec<String> {
        let found = asked.iter().filter_map(|question| question.pointer(pointer));
        found.map(|value| value.as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(of("/params/context/stepId")[..3], ["each[0]", "each[0]", "each[1]"]);
    assert_eq!(of("/params/toolCallRequest/toolId")[..2], ["Each.each", "Each.each"]);
    let ids: BTreeSet<_> = of("/params/toolCallRequest/executionId").into_iter().collect();
    assert_eq!(ids.len(), 3);
}

#[tokio::test]
async fn only_so_many_iterations_run_at_the_same_time() {
    let mut world = World::new().await;
    let publish = |name: &str, width: usize| {
        let each =
            task("each", "GET /meet/{word}", json!({"word": "${item}"}), json!({"w": "$.value"}));
        let for_each = json!({"in": "${words}", "max_concurrency": width});
        world.registry.publish_newer(
            name,
            &json!({"execution": sequence(json!([with(each, json!({"for_each": for_each}))]))}),
        );
    };
    publish("Three", 3);
    publish("Many", 64);
    world.config.limits.max_parallel = 3;
    let app = world.open().await;
    // None is answered before three have come, so three do come; and never more.
    world.service.let_meet(3);
    let words = json!({"words": ["0", "1", "2", "3", "4", "5"]});
    for name in ["Three", "Many"] {
        let run = run(&app, name, words.clone()).await;
        assert_succeeded(&run);
        // In the order of the items, whichever came first.
        assert_eq!(output(&run)["w"], words["words"]);
        assert_eq!(world.service.busiest(), 3);
    }
}

#[tokio::test]
async fn blocks_gather_what_is_set_below_them() {
    let world = World::new().await;
    let inner = with(
        task(
            "say",
            "POST /say",
            json!({"body": "${outer.name}${item}"}),
            json!({"ids.said": "$.body"}),
        ),
        json!({"for_each": {"in": "${outer.letters}"}}),
    );
    world.registry.publish_newer(
        "Nested",
        &json!({"execution": {
            "type": "sequence",
            "variables": {"shared": {"ids": "object", "note": "string"}},
            "steps": [
                {"id": "all", "type": "sequence", "for_each": {"in": "${groups}", "as": "outer"}, "steps": [
                    inner,
                    {"id": "perhaps", "type": "condition", "condition": "${outer.name} == 'x'", "if_true": {"steps": [
                        task("note", "GET /echo/noted", json!({}), json!({"note": "$.value"})),
                    ]}},
                ]},
            ],
        }, "output": {"said": "${ids.said}", "notes": "${note}"}}),
    );
    let app = world.open().await;
    let groups = json!([{"name": "x", "letters": ["a", "b"]}, {"name": "y", "letters": []}, {"name": "z", "letters": ["c"]}]);
    let run = run(&app, "Nested", json!({"groups": groups})).await;
    assert_succeeded(&run);
    // An iteration that has set none gives null, and an empty list gives an empty one.
    assert_eq!(
        run.output,
        Some(json!({"said": [["xa", "xb"], [], ["zc"]], "notes": ["noted", null, null]}))
    );
    let lines = transcript(&events(&app, run.id).await);
    assert!(lines.contains(&"all[2]/say[0]: task".to_owned()), "{lines:#?}");
    let steps: Vec<_> = run.steps.iter().map(|s| (s.step.as_str(), s.attempts)).collect();
    assert_eq!(steps, [("all", 4)], "three posts and a note");
}

#[tokio::test]
async fn iterations_begin_with_the_variables_on_entry() {
    let world = World::new().await;
    let each = task(
        "each",
        "POST /say",
        json!({"body": {"seen": "${last}", "item": "${item}"}}),
        json!({"last": "$.body.item", "bodies": "$.body"}),
    );
    world.registry.publish_newer(
        "Apart",
        &json!({"execution": {"type": "sequence", "variables": {"shared": {"last": "string"}}, "steps": [
            with(each, json!({"for_each": ["a", "b", "${more}"]})),
        ]}}),
    );
    let app = world.open().await;
    let run = run(&app, "Apart", json!({"more": "c"})).await;
    assert_succeeded(&run);
    let seen = |item| json!({"seen": null, "item": item});
    assert_eq!(
        run.output,
        Some(json!({"last": ["a", "b", "c"], "bodies": [seen("a"), seen("b"), seen("c")]}))
    );
}

#[tokio::test]
async fn a_capability_runs_for_each_item() {
    let world = World::new().await;
    world.registry.publish_newer(
        "Inner",
        &json!({"execution": sequence(json!([
            task("ask", "GET /echo/{city}", json!({"city": "${city}"}), json!({"text": "$.value"})),
        ]))}),
    );
    world.registry.publish_newer(
        "Outer",
        &json!({
            "dependencies": [{"capability": "Inner", "version": "*"}],
            // The need that is not mapped is met by the item of its name.
            "execution": sequence(json!([
                {"id": "each", "type": "capability", "use": "Inner", "for_each": {"in": "${cities}", "as": "city"},
                 "output_mapping": {"texts": "$.text"}},
            ])),
        }),
    );
    let app = world.open().await;
    let run = run(&app, "Outer", json!({"cities": ["Rome", "Oslo"]})).await;
    assert_succeeded(&run);
    assert_eq!(run.output, Some(json!({"texts": ["Rome", "Oslo"]})));
    let lines = transcript(&events(&app, run.id).await);
    assert!(lines.contains(&"each[1]/ask: set {\"text\":\"Oslo\"}".to_owned()), "{lines:#?}");
}

#[tokio::test]
async fn an_empty_list_sends_nothing_and_gives_empty_lists() {
    let world = World::new().await;
    world.registry.publish_newer(
        "Each",
        &json!({"execution": sequence(json!([with(echo("each"), json!({"for_each": "${words}"}))]))}),
    );
    let app = world.open().await;
    let run = run(&app, "Each", json!({"words": []})).await;
    assert_succeeded(&run);
    assert_eq!(run.output, Some(json!({"heard": []})));
    assert!(world.service.asked().is_empty());
}

#[tokio::test]
async fn what_is_no_list_or_too_long_fails_before_anything_is_sent() {
    let world = World::new().await;
    let each = with(
        echo("step"),
        // Both are about iterations, of which there are none.
        json!({"for_each": {"in": "${words}", "max_items": 2}, "on_error": "continue"}),
    );
    world.registry.publish_newer("Each", &json!({"execution": sequence(json!([each]))}));
    let app = world.open().await;
    for (words, said) in [
        (json!(["a", "b", "c"]), "the list has 3 items, but `max_items` is 2"),
        (json!("abc"), "the value is a text, but a list is required"),
        (json!({"0": "a"}), "the value is an object, but a list is required"),
    ] {
        let run = run(&app, "Each", json!({"words": words})).await;
        assert_eq!(run.status, RunStatus::Failed);
        let error = run.error.unwrap();
        assert_eq!((error.code.as_str(), error.step.as_deref()), ("A2S333", Some("step")));
        assert_eq!(error.message, format!("`for_each`: {said}"));
        assert!(error.repeat_safe);
    }
    assert!(world.service.asked().is_empty() && world.guardian.asked().is_empty());
}

fn even(more: Value) -> Value {
    let step = task("each", "GET /even/{n}", json!({"n": "${item}"}), json!({"evens": "$.value"}));
    with(step, more)
}

#[tokio::test]
async fn a_failed_iteration_fails_the_step_and_no_more_begin() {
    let world = World::new().await;
    world.registry.publish_newer(
        "Evens",
        &json!({"execution": sequence(json!([even(json!({"for_each": "${numbers}"}))]))}),
    );
    let app = world.open().await;
    let run = run(&app, "Evens", json!({"numbers": [0, 1, 2, 3]})).await;
    assert_eq!(run.status, RunStatus::Failed);
    let error = run.error.unwrap();
    assert_eq!((error.code.as_str(), error.step.as_deref()), ("A2S357", Some("each[1]")));
    assert_eq!(error.status, Some(422));
    assert_eq!(world.service.asked().len(), 2);
    let steps: Vec<_> = run.steps.iter().map(|s| (s.step.as_str(), s.status.as_str())).collect();
    assert_eq!(steps, [("each", "failed"), ("each[1]", "failed")]);
    assert_eq!(
        run.steps[0].iterations,
        Some(IterationSummary { total: 4, succeeded: 1, failed: 1 })
    );
}

#[tokio::test]
async fn with_continue_a_failed_iteration_gives_null() {
    let world = World::new().await;
    let each = even(json!({"for_each": "${numbers}", "on_error": "continue"}));
    world.registry.publish_newer("Evens", &json!({"execution": sequence(json!([each]))}));
    let app = world.open().await;
    let numbers: Vec<_> = (0..60).collect();
    let run = run(&app, "Evens", json!({"numbers": numbers})).await;
    assert_succeeded(&run);
    let evens: Vec<_> = (0..30).flat_map(|n| [json!((2 * n).to_string()), Value::Null]).collect();
    assert_eq!(output(&run)["evens"], json!(evens));
    // Only the first twenty of those that failed are shown.
    assert_eq!(run.steps.len(), 21);
    assert_eq!(
        run.steps[0].iterations,
        Some(IterationSummary { total: 60, succeeded: 30, failed: 30 })
    );
    assert_eq!(run.steps[0].status, "succeeded");
    assert_eq!(
        (run.steps[20].step.as_str(), run.steps[20].status.as_str()),
        ("each[39]", "failed")
    );
    assert_eq!(run.steps[20].handled, Some(ErrorHandlerKind::Continue));
    let attempts: u32 = run.steps.iter().map(|step| step.attempts).sum();
    assert_eq!(attempts, 60);
}

#[tokio::test]
async fn with_catch_each_failed_iteration_is_caught() {
    let world = World::new().await;
    let fallback = task(
        "fall",
        "POST /say",
        json!({"body": "${item}: ${error.status}"}),
        json!({"evens": "$.body"}),
    );
    let each = even(json!({"for_each": "${numbers}", "catch": {"steps": [fallback]}}));
    world.registry.publish_newer("Evens", &json!({"execution": sequence(json!([each]))}));
    let app = world.open().await;
    let run = run(&app, "Evens", json!({"numbers": [1, 2, 3]})).await;
    assert_succeeded(&run);
    assert_eq!(run.output, Some(json!({"evens": ["1: 422", "2", "3: 422"]})));
    let lines = transcript(&events(&app, run.id).await);
    assert!(lines.contains(&"each[2]/fall: set {\"evens\":\"3: 422\"}".to_owned()), "{lines:#?}");
    assert!(lines.contains(&"each[2]: handled, Catch".to_owned()), "{lines:#?}");
}

#[tokio::test]
async fn iterations_count_towards_the_steps_of_a_run() {
    let mut world = World::new().await;
    world.config.limits.max_steps = 5;
    let each = with(echo("each"), json!({"for_each": "${words}", "on_error": "continue"}));
    world.registry.publish_newer("Each", &json!({"execution": sequence(json!([each]))}));
    let block = json!({"id": "all", "type": "sequence", "for_each": "${words}", "on_error": "continue", "steps": [
        task("one", "GET /echo/one", json!({}), json!({"a": "$.value"})),
    ]});
    world.registry.publish_newer("Blocks", &json!({"execution": sequence(json!([block]))}));
    let app = world.open().await;
    assert_succeeded(&run(&app, "Each", json!({"words": vec!["x"; 5]})).await);
    let before = world.service.asked().len();
    let too_many = run(&app, "Each", json!({"words": vec!["x"; 6]})).await;
    assert_eq!(too_many.error.unwrap().code, "A2S323");
    assert_eq!(world.service.asked().len(), before, "known before anything is sent");
    // Each iteration of the block is one, and the task in it another; nothing goes on behind it.
    let too_many = run(&app, "Blocks", json!({"words": vec!["x"; 4]})).await;
    assert_eq!(too_many.status, RunStatus::Failed);
    assert_eq!(too_many.error.unwrap().code, "A2S323");
    assert_eq!(world.service.count("GET /echo/one"), 2);
}

#[tokio::test]
async fn variables_and_events_of_a_run_are_bounded() {
    let mut world = World::new().await;
    world.config.limits.max_variable_bytes = 1_000;
    let each = with(
        task("each", "POST /say", json!({"body": "${text}"}), json!({"texts": "$.body"})),
        json!({"for_each": [1, 2, 3, 4, 5], "on_error": "continue"}),
    );
    world.registry.publish_newer("Large", &json!({"execution": sequence(json!([each]))}));
    let app = world.open().await;
    let large = run(&app, "Large", json!({"text": "x".repeat(300)})).await;
    let error = large.error.unwrap();
    assert_eq!(error.code, "A2S323");
    assert!(error.message.contains("1000 bytes"), "{}", error.message);
    assert_eq!(world.service.count("POST /say"), 4);
    // A result may name one value many times.
    let many: Vec<_> = ["${text}"; 10].to_vec();
    world.registry.publish_newer(
        "Grow",
        &json!({"execution": sequence(json!([task("one", "GET /echo/1", json!({}), json!({"n": "$.value"}))])),
                "output": {"all": many, "n": "${n}"}}),
    );
    let grown = run(&app, "Grow", json!({"text": "x".repeat(300)})).await;
    assert_eq!(grown.error.unwrap().code, "A2S323");
    drop(app);

    world.config.limits.max_events = 20;
    let app = world.open().await;
    let long = run(&app, "Large", json!({"text": "x"})).await;
    let error = long.error.unwrap();
    assert_eq!((error.code.as_str(), long.status), ("A2S323", RunStatus::Failed));
    assert!(error.message.contains("20 events"), "{}", error.message);
}

#[tokio::test]
async fn a_cancelled_run_begins_no_more_iterations() {
    let world = World::new().await;
    let each = with(
        task("each", "POST /hold/x", json!({"body": "${item}"}), json!({"x": "$.body"})),
        json!({"for_each": [1, 2, 3], "on_error": "continue"}),
    );
    world.registry.publish_newer("Held", &json!({"execution": sequence(json!([each]))}));
    let (app, id) = world.open_until("Held", json!({}), "POST /hold/x").await;
    let path = format!("/v1/executions/{id}/cancel");
    call(&app, http::Method::POST, &path, &[], Value::Null).await;
    world.service.release("x");
    let told = events(&app, id).await;
    assert_eq!(read(&app, id).await.status, RunStatus::Cancelled);
    assert_eq!(world.service.count("POST /hold/x"), 1);
    let begun = told.iter().filter(|e| matches!(&e.kind, EventKind::StepStarted { .. })).count();
    assert_eq!(begun, 2);
}

#[tokio::test]
async fn failed_iteration_stops_siblings_but_no_write() {
    let world = World::new().await;
    // One iteration fails, one reads and one writes, all at the same time.
    let call = |id: &str, call: &str| task(id, call, json!({}), json!({}));
    let branch = |id: &str, is: &str, steps: Value, other: Value| {
        json!({"id": id, "type": "condition", "condition": format!("${{item}} == '{is}'"),
               "if_true": {"steps": steps}, "if_false": {"steps": other}})
    };
    let others = json!([branch(
        "reads",
        "read",
        json!([call("read", "GET /hold/read")]),
        json!([call("write", "POST /hold/write")]),
    )]);
    let fails = json!([call("first", "GET /hold/fail"), call("bad", "GET /status/404")]);
    let each = with(
        branch("each", "fail", fails, others),
        json!({"for_each": {"in": ["fail", "read", "write", "never"], "max_concurrency": 3}}),
    );
    world.registry.publish_newer("Beside", &json!({"execution": sequence(json!([each]))}));
    let app = world.open().await;
    let id = start(&app, "Beside", json!({})).await;
    for call in ["GET /hold/fail", "GET /hold/read", "POST /hold/write"] {
        world.service.arrived(call, 1).await;
    }
    world.service.release("fail");
    let cancelled = |kind: &EventKind| matches!(kind, EventKind::StepFailed { step, .. } if step == "each[1]/reads/read");
    wait_for(&app, id, cancelled).await;
    assert_eq!(read(&app, id).await.status, RunStatus::Running, "the write is awaited");
    world.service.release("write");
    let lines = transcript(&events(&app, id).await);
    assert!(lines.contains(&"each[1]: failed A2S370".to_owned()), "{lines:#?}");
    assert!(lines.contains(&"each[2]/reads/write: set {}".to_owned()), "{lines:#?}");
    assert!(!lines.iter().any(|line| line.starts_with("each[3]")), "{lines:#?}");
    let run = read(&app, id).await;
    assert_eq!(run.error.unwrap().step.as_deref(), Some("each[0]/bad"));
    let iterations = IterationSummary { total: 4, succeeded: 1, failed: 2 };
    assert_eq!(run.steps[0].iterations, Some(iterations));
}
