//! Steps in sequence, side by side, in branches and in other capabilities.

use std::collections::BTreeSet;

use a2s_api::{EventKind, RunStatus};
use serde_json::json;

use super::world::{
    World, assert_gapless, assert_succeeded, events, output, read, run, sequence, start, task,
    transcript, wait_for,
};

#[tokio::test]
async fn a_sequence_hands_values_on_and_tells_all_it_did() {
    let world = World::new().await;
    let digest = world.registry.publish(
        "Greet",
        "1.2.0",
        &json!({
            "execution": sequence(json!([
                task("first", "GET /echo/{word}", json!({"word": "${word}"}), json!({"heard": "$.value"})),
                task("second", "POST /say", json!({"body": {"text": "I heard ${heard}"}}), json!({"said": "$.body.text"})),
            ])),
            "output": {"result": "${said}!"},
        }),
    );
    let app = world.open().await;

    let run = run(&app, "Greet", json!({"word": "a/b c"})).await;

    assert_succeeded(&run);
    assert_eq!(run.output, Some(json!({"result": "I heard a/b c!"})));
    assert_eq!(run.checksum, digest);
    let events = events(&app, run.id).await;
    assert_gapless(&events);
    assert_eq!(
        transcript(&events),
        [
            "run Greet 1.2.0",
            "first: task",
            "first: request allow",
            "first: 1 GET https://api.example/echo/a%2Fb%20c",
            "first: 1 got 200",
            "first: result allow",
            "first: set {\"heard\":\"a/b c\"}",
            "second: task",
            "second: request allow",
            "second: 1 POST https://api.example/say",
            "second: 1 got 200",
            "second: result allow",
            "second: set {\"said\":\"I heard a/b c\"}",
            "succeeded {\"result\":\"I heard a/b c!\"}",
        ]
    );
    let steps: Vec<_> = run.steps.iter().map(|s| (s.step.as_str(), s.status.as_str())).collect();
    assert_eq!(steps, [("first", "succeeded"), ("second", "succeeded")]);
    assert!(run.steps.iter().all(|step| step.attempts == 1 && step.decisions.len() == 2));
    // The upstream is shown beside the address that the document names.
    let EventKind::Sending { upstream: Some(_), repeat_safe: true, .. } = &events[3].kind else {
        panic!("{:?}", events[3]);
    };
}

#[tokio::test]
async fn without_output_the_result_is_every_mapped_variable() {
    let world = World::new().await;
    world.registry.publish(
        "Plain",
        "1.0.0",
        &json!({"execution": {
            "type": "sequence",
            "variables": {"shared": {"ids": "object", "note": "string"}},
            "steps": [
                task("one", "GET /echo/1", json!({}), json!({"ids.one": "$.value"})),
                task("two", "GET /echo/2", json!({}), json!({"ids.two": "$.value", "all": "$..value"})),
            ],
        }}),
    );
    let app = world.open().await;
    let run = run(&app, "Plain", json!({})).await;
    assert_succeeded(&run);
    assert_eq!(run.output, Some(json!({"ids": {"one": "1", "two": "2"}, "all": ["2"]})));
}

#[tokio::test]
async fn parallel_steps_overlap_and_see_entry_variables() {
    let world = World::new().await;
    // None of the three is answered before all have come.
    world.service.let_meet(3);
    let child = |id: &str, set: &str| {
        json!({"id": format!("{id}All"), "type": "sequence", "steps": [
            task(id, "POST /meet/x", json!({"body": {"seen": "${seen}", "me": id}}), json!({set: "$.body.me"})),
        ]})
    };
    world.registry.publish(
        "Together",
        "1.0.0",
        &json!({"execution": {
            "type": "sequence",
            "variables": {"shared": {"ids": "object"}},
            "steps": [
                task("before", "GET /echo/entry", json!({}), json!({"seen": "$.value"})),
                {"id": "all", "type": "parallel", "steps": [child("a", "ids.a"), child("b", "ids.b"), child("c", "ids.c")]},
                task("after", "POST /say", json!({"body": "${ids}"}), json!({"said": "$.body"})),
            ],
        }}),
    );
    let app = world.open().await;

    let run = run(&app, "Together", json!({})).await;

    assert_succeeded(&run);
    assert_eq!(output(&run)["said"], json!({"a": "a", "b": "b", "c": "c"}));
    let met: BTreeSet<String> = world
        .service
        .asked()
        .iter()
        .filter(|(call, _)| call == "POST /meet/x")
        .map(|(_, body)| body.to_string())
        .collect();
    assert_eq!(met.len(), 3);
    assert!(met.iter().all(|body| body.contains("\"seen\":\"entry\"")), "{met:?}");
}

#[tokio::test]
async fn failure_stops_parallel_steps_but_no_write() {
    let world = World::new().await;
    world.registry.publish(
        "Fragile",
        "1.0.0",
        &json!({"execution": {"type": "parallel", "steps": [
            task("failing", "GET /hold/failing", json!({}), json!({"x": "$.nothing"})),
            task("reading", "GET /hold/reading", json!({}), json!({"r": "$.value"})),
            task("writing", "POST /hold/writing", json!({}), json!({"w": "$.value"})),
        ]}}),
    );
    let app = world.open().await;
    let id = start(&app, "Fragile", json!({})).await;
    for call in ["GET /hold/failing", "GET /hold/reading", "POST /hold/writing"] {
        world.service.arrived(call, 1).await;
    }

    world.service.release("failing");
    let failed = |kind: &EventKind, name: &str| matches!(kind, EventKind::StepFailed { step, .. } if step == name);
    wait_for(&app, id, |kind| failed(kind, "failing")).await;
    wait_for(&app, id, |kind| failed(kind, "reading")).await;
    // The read was given up; the write is still awaited, and so is the run.
    assert_eq!(read(&app, id).await.status, RunStatus::Running);
    world.service.release("writing");

    let lines = transcript(&events(&app, id).await);
    assert!(lines.contains(&"reading: failed A2S370".to_owned()), "{lines:#?}");
    assert!(lines.contains(&"writing: set {\"w\":\"writing\"}".to_owned()), "{lines:#?}");
    let run = read(&app, id).await;
    assert_eq!(run.status, RunStatus::Failed);
    let error = run.error.unwrap();
    assert_eq!((error.code.as_str(), error.step.as_deref()), ("A2S332", Some("failing")));
    let statuses: Vec<_> = run.steps.iter().map(|s| (s.step.as_str(), s.status.as_str())).collect();
    assert!(
        statuses.contains(&("reading", "cancelled"))
            && statuses.contains(&("writing", "succeeded"))
    );
}

#[tokio::test]
async fn parallel_limit_holds_and_failure_skips_the_rest() {
    let mut world = World::new().await;
    world.config.limits.max_parallel = 1;
    world.registry.publish(
        "OneByOne",
        "1.0.0",
        &json!({"execution": {"type": "parallel", "steps": [
            task("bad", "GET /status/404", json!({}), json!({"a": "$.value"})),
            task("never", "GET /echo/never", json!({}), json!({"b": "$.value"})),
        ]}}),
    );
    let app = world.open().await;
    let run = run(&app, "OneByOne", json!({})).await;
    assert_eq!(run.status, RunStatus::Failed);
    assert_eq!(world.service.count("GET /echo/never"), 0);
    assert_eq!(
        run.steps.last().map(|s| (s.step.as_str(), s.status.as_str())),
        Some(("never", "skipped"))
    );
}

#[tokio::test]
async fn a_condition_takes_one_branch_and_skips_the_other() {
    let world = World::new().await;
    world.registry.publish(
        "Choose",
        "1.0.0",
        &json!({"execution": {
            "type": "sequence",
            "variables": {"shared": {"picked": "string"}},
            "steps": [
                task("look", "GET /echo/{level}", json!({"level": "${level}"}), json!({"seen": "$.value"})),
                {"id": "decide", "type": "condition", "condition": "${seen} in ['severe', 'extreme']",
                 "if_true": {"steps": [task("loud", "GET /echo/loud", json!({}), json!({"picked": "$.value"}))]},
                 "if_false": {"steps": [task("quiet", "GET /echo/quiet", json!({}), json!({"picked": "$.value"}))]}},
            ],
        }}),
    );
    let app = world.open().await;
    for (level, taken, other, holds) in
        [("severe", "loud", "quiet", true), ("mild", "quiet", "loud", false)]
    {
        let run = run(&app, "Choose", json!({"level": level})).await;
        assert_succeeded(&run);
        assert_eq!(output(&run)["picked"], taken);
        let lines = transcript(&events(&app, run.id).await);
        let expected = [
            "decide: condition".to_owned(),
            format!("decide: is {holds}"),
            format!("decide/{other}: skipped, `${{seen}} in ['severe', 'extreme']` is {holds}"),
            format!("decide/{taken}: task"),
        ];
        assert_eq!(lines[7..11], expected);
        assert_eq!(lines[lines.len() - 2], "decide: set {}");
    }
    assert_eq!(
        (world.service.count("GET /echo/loud"), world.service.count("GET /echo/quiet")),
        (1, 1)
    );
}

#[tokio::test]
async fn a_capability_step_runs_in_a_scope_of_its_own() {
    let world = World::new().await;
    let child = world.registry.publish(
        "Weather",
        "1.4.0",
        &json!({
            "execution": sequence(json!([
                task("ask", "GET /echo/{city}", json!({"city": "${city}"}), json!({"hidden": "$.value"})),
                task("unit", "GET /echo/{unit}", json!({"unit": "${unit}"}), json!({"shown": "$.value"})),
            ])),
            "output": {"report": {"text": "${hidden} in ${shown}"}},
        }),
    );
    world.registry.publish(
        "Tell",
        "1.0.0",
        &json!({
            "dependencies": [{"capability": "Weather", "version": "^1.0.0", "checksum": child}],
            "execution": sequence(json!([
                {"id": "weather", "type": "capability", "use": "Weather",
                 "input_mapping": {"city": "${place}"}, "output_mapping": {"text": "$.report.text"}},
                task("post", "POST /say", json!({"body": "${text}"}), json!({"said": "$.body"})),
            ])),
        }),
    );
    let app = world.open().await;

    // `unit` is needed by the child and not mapped: it is asked of the caller.
    let run = run(&app, "Tell", json!({"place": "Paris", "unit": "celsius"})).await;

    assert_succeeded(&run);
    assert_eq!(run.output, Some(json!({"text": "Paris in celsius", "said": "Paris in celsius"})));
    let events = events(&app, run.id).await;
    let lines = transcript(&events);
    assert_eq!(lines[1], "weather: capability");
    assert_eq!(lines[2], "weather/ask: task");
    assert!(lines.contains(&"weather: set {\"text\":\"Paris in celsius\"}".to_owned()));
    let EventKind::RunStarted(started) = &events[0].kind else { panic!() };
    let dependencies = &started.dependencies;
    assert_eq!((dependencies.len(), dependencies[0].checksum), (1, child));
    // The guardian is asked about the tasks inside, and told whose they are.
    let asked = world.guardian.asked();
    assert_eq!(asked.len(), 6);
    let message = asked[0].to_string();
    assert!(message.contains(&child.to_string()) && message.contains("Weather"), "{message}");
}

#[tokio::test]
async fn an_error_inside_a_capability_step_names_the_inner_step() {
    let world = World::new().await;
    world.registry.publish(
        "Inner",
        "1.0.0",
        &json!({"execution": sequence(json!([task("bad", "GET /status/404", json!({}), json!({"x": "$.x"}))]))}),
    );
    world.registry.publish(
        "Outer",
        "1.0.0",
        &json!({
            "dependencies": [{"capability": "Inner", "version": "*"}],
            "execution": sequence(json!([
                {"id": "call", "type": "capability", "use": "Inner", "output_mapping": {"x": "$.x"}},
            ])),
        }),
    );
    let app = world.open().await;
    let run = run(&app, "Outer", json!({})).await;
    assert_eq!(run.status, RunStatus::Failed);
    assert_eq!(run.error.unwrap().step.as_deref(), Some("call/bad"));
    let steps: Vec<_> = run.steps.iter().map(|s| (s.step.as_str(), s.status.as_str())).collect();
    assert_eq!(steps, [("call", "failed"), ("call/bad", "failed")]);
}

#[tokio::test]
async fn graphql_step_posts_variables_and_maps_response() {
    let world = World::new().await;
    world.service.script([(200, json!({"data": {"post": {"id": "t1"}}}))]);
    world.registry.publish(
        "Post",
        "1.0.0",
        &json!({"execution": sequence(json!([{
            "id": "post",
            "format": "GraphQL",
            "task": {
                "endpoint": "https://api.example/script",
                "query": "mutation Post($text: String!) { post(text: $text) { id } }",
            },
            "input_mapping": {"variables": {"text": "${text}"}},
            "output_mapping": {"id": "$.data.post.id"},
        }]))}),
    );
    let app = world.open().await;
    let run = run(&app, "Post", json!({"text": "\"} hi"})).await;
    assert_succeeded(&run);
    assert_eq!(run.output, Some(json!({"id": "t1"})));
    let (call, body) = &world.service.asked()[0];
    assert_eq!(call, "POST /script");
    assert_eq!(body["variables"], json!({"text": "\"} hi"}));
    let asked = &world.guardian.asked()[0]["params"]["toolCallRequest"];
    assert_eq!(asked["inputs"][0]["name"], "variables.text");
    let events = events(&app, run.id).await;
    let sending = events.iter().find_map(|event| match &event.kind {
        EventKind::Sending { repeat_safe, .. } => Some(*repeat_safe),
        _ => None,
    });
    assert_eq!(sending, Some(false), "a mutation changes something");
}
