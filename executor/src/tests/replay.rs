//! Replays: a run that is walked again with the answers that were recorded, and what departs from
//! the recording.

use a2s_api::{ReplayResponse, RunStatus, StepDiff, ValueDiff};
use axum::http::{Method, StatusCode};
use serde_json::{Value, json};
use uuid::Uuid;

use super::world::{
    World, allow, assert_succeeded, call, deny, events, read, run, sequence, start, task, with,
};
use crate::App;

async fn replay(app: &App, id: Uuid, against: Option<&str>) -> ReplayResponse {
    let against = against.map(|version| json!({"name": "Trip", "version": version}));
    let body = json!({"against": against});
    let answer = call(app, Method::POST, &format!("/v1/executions/{id}/replay"), &[], body).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
    serde_json::from_value(answer.body).unwrap()
}

/// The differences, a line each.
fn lines(replay: &ReplayResponse) -> Vec<String> {
    let text =
        |value: &Option<Value>| value.as_ref().map_or_else(|| "-".to_owned(), Value::to_string);
    let line = |place: &str, difference: &ValueDiff| {
        let ValueDiff { path: at, before: was, after: is } = difference;
        format!("{place}{at}: {} -> {}", text(was), text(is))
    };
    let mut lines = Vec::new();
    for step in &replay.steps {
        if step.change != StepDiff::Changed {
            lines.push(format!("{} {:?}", step.step, step.change));
        }
        let place = format!("{} ", step.step);
        lines.extend(step.differences.iter().map(|difference| line(&place, difference)));
    }
    lines.extend(replay.result.iter().map(|difference| line("", difference)));
    lines
}

#[track_caller]
fn assert_same(replay: &ReplayResponse) {
    assert!(replay.unchanged, "{:#?}", lines(replay));
    assert_eq!(lines(replay), Vec::<String>::new());
}

/// What the world was asked for so far: by services and guardian.
fn traffic(world: &World) -> (usize, usize) {
    (world.service.asked().len(), world.guardian.asked().len())
}

fn say(id: &str, body: Value, output: &str) -> Value {
    task(id, "POST /say", json!({"body": body}), json!({output: "$.body"}))
}

#[tokio::test]
async fn a_run_of_every_kind_of_step_is_replayed_without_a_request() {
    let world = World::new().await;
    world.registry.publish_newer(
        "Child",
        &json!({"execution": sequence(json!([
            task("inner", "GET /echo/{word}", json!({"pathParameters": {"word": "${word}"}}), json!({
                "word_back": "$.value",
                "number": {"path": "X-Number", "from": "header"},
                "status": {"from": "status"},
            })),
        ]))}),
    );
    let steps = json!([
        {"id": "use", "type": "capability", "use": "Child",
         "input_mapping": {"word": "${start}"}, "output_mapping": {"first": "$.word_back", "number": "$.number"}},
        {"id": "both", "type": "parallel", "steps": [
            say("left", json!("l-${first}"), "left"), say("right", json!("r-${first}"), "right"),
        ]},
        with(say("each", json!("${item}"), "said"), json!({"for_each": {"in": ["a", "b", "${left}"]}})),
        {"id": "choose", "type": "condition", "condition": "${left} == 'l-go'",
         "if_true": {"steps": [say("yes", json!("yes"), "chosen")]},
         "if_false": {"steps": [say("no", json!("no"), "other")]}},
        with(task("bad", "GET /status/404", json!({}), json!({"kept": "$.value"})), json!({"on_error": "continue"})),
        with(task("worse", "GET /status/400", json!({}), json!({"lost": "$.value"})),
            json!({"catch": {"as": "error", "steps": [say("instead", json!("${error.code}"), "code")]}})),
    ]);
    let variables = json!({"shared": {"kept": "string", "lost": "string", "chosen": "string", "other": "string", "code": "string"}});
    let dependencies = json!([{"capability": "Child", "version": "^1.0"}]);
    let mut execution = sequence(steps);
    execution["variables"] = variables;
    let rest = json!({"dependencies": dependencies, "execution": execution});
    world.registry.publish_newer("Trip", &rest);
    let app = world.open().await;
    let run = run(&app, "Trip", json!({"start": "go"})).await;
    assert_succeeded(&run);
    let before = traffic(&world);
    let replay = replay(&app, run.id, None).await;
    assert_same(&replay);
    assert_eq!(replay.compared, 14);
    assert_eq!(
        (replay.recorded.version, replay.against.version),
        (run.version.clone(), run.version)
    );
    assert_eq!(traffic(&world), before);
}

/// Two versions of a capability: a run of the first, replayed against the second.
async fn drift_between(first: Value, second: Value) -> Vec<String> {
    let world = World::new().await;
    world.registry.publish("Trip", "1.0.0", &json!({"execution": sequence(first)}));
    world.registry.publish("Trip", "2.0.0", &json!({"execution": sequence(second)}));
    let app = world.open().await;
    let body = json!({"name": "Trip", "version": "1.0.0", "inputs": {"start": "go"}, "wait": true});
    let run = call(&app, Method::POST, "/v1/executions", &[], body).await.run();
    let before = traffic(&world);
    assert_same(&replay(&app, run.id, None).await);
    let replay = replay(&app, run.id, Some("2.0.0")).await;
    assert_eq!(traffic(&world), before);
    assert_eq!(replay.against.version.to_string(), "2.0.0");
    assert_eq!(replay.unchanged, lines(&replay).is_empty());
    lines(&replay)
}

#[tokio::test]
async fn what_another_version_does_otherwise_is_told() {
    let first = json!([
        say("a", json!({"x": "${start}", "y": [1, 2]}), "a"),
        say("b", json!("${a.x}"), "b")
    ]);
    // Another input, and with it nothing else: the answer is the recorded one.
    let second = json!([
        say("a", json!({"x": "new ${start}", "y": [1, 3]}), "a"),
        say("b", json!("${a.x}"), "b")
    ]);
    assert_eq!(
        drift_between(first.clone(), second).await,
        [r#"a inputs.body.x: "go" -> "new go""#, "a inputs.body.y[1]: 2 -> 3"]
    );
    // Another mapping: the output differs, and what is made of it.
    let mapped =
        task("a", "POST /say", json!({"body": {"x": "${start}", "y": [1, 2]}}), json!({"a": "$"}));
    let second = json!([mapped, say("b", json!("${a.body.x}"), "b")]);
    let told = drift_between(first.clone(), second).await;
    assert!(
        told.contains(&r#"a outputs.a.body: - -> {"x":"go","y":[1,2]}"#.to_owned()),
        "{told:#?}"
    );
    assert!(!told.iter().any(|line| line.starts_with("b ")), "{told:#?}");
    // Another operation under the same id.
    let second = json!([
        task(
            "a",
            "PUT /said",
            json!({"body": {"x": "${start}", "y": [1, 2]}}),
            json!({"a": "$.body"})
        ),
        say("b", json!("${a.x}"), "b"),
    ]);
    assert_eq!(
        drift_between(first.clone(), second).await,
        [r#"a operation: "POST https://api.example/say" -> "PUT https://api.example/said""#]
    );
    // One that is gone.
    let second = json!([say("a", json!({"x": "${start}", "y": [1, 2]}), "a")]);
    assert_eq!(drift_between(first.clone(), second).await, ["b Gone", r#"output.b: "go" -> -"#]);
    // One that is new: nobody knows what it would be answered.
    let second = json!([
        say("a", json!({"x": "${start}", "y": [1, 2]}), "a"),
        say("new", json!("x"), "c"),
        say("b", json!("${a.x}"), "b"),
    ]);
    assert_eq!(
        drift_between(first, second).await,
        [
            "b Gone",
            "new New",
            r#"new error: - -> "A2S373: no response of `new` was recorded""#,
            r#"status: "succeeded" -> "failed""#,
            r#"error: - -> "A2S373""#,
            r#"output: {"a":{"x":"go","y":[1,2]},"b":"go"} -> -"#,
        ]
    );
}

#[tokio::test]
async fn inputs_that_another_version_does_not_take_or_needs_are_told() {
    let first = json!([say("a", json!("${start}"), "a")]);
    let second = json!([say("a", json!("${begin}"), "a")]);
    assert_eq!(
        drift_between(first, second).await,
        [
            "a Gone",
            r#"inputs.start: "go" -> -"#,
            r#"status: "succeeded" -> "failed""#,
            r#"error: - -> "A2S320""#,
            r#"output: {"a":"go"} -> -"#,
        ]
    );
}

#[tokio::test]
async fn a_failure_is_replayed_and_a_version_that_mends_it_is_seen() {
    let missing = task("a", "POST /say", json!({"body": "${start}"}), json!({"a": "$.nothing"}));
    let mended = say("a", json!("${start}"), "a");
    assert_eq!(
        drift_between(json!([missing]), json!([mended])).await,
        [
            r#"a error: "A2S332: output `a`: `$.nothing` finds nothing: `$` is an object with the members `value`, `number`, `body`" -> -"#,
            r#"status: "failed" -> "succeeded""#,
            r#"error: "A2S332" -> -"#,
            r#"output: - -> {"a":"go"}"#,
        ]
    );
}

#[tokio::test]
async fn branches_stopped_by_a_failure_are_replayed() {
    let world = World::new().await;
    world.registry.publish_newer(
        "Trip",
        &json!({"execution": {"type": "parallel", "max_concurrency": 3, "steps": [
            {"id": "slow", "type": "sequence", "steps": [
                task("held", "GET /hold/x", json!({}), json!({"x": "$.value"})),
                say("never", json!("${x}"), "never"),
            ]},
            say("quick", json!("quick"), "quick"),
            {"id": "late", "type": "sequence", "steps": [
                task("first", "GET /hold/y", json!({}), json!({"y": "$.value"})),
                task("bad", "GET /status/404", json!({}), json!({"bad": "$.value"})),
            ]},
            say("unbegun", json!("unbegun"), "unbegun"),
        ]}}),
    );
    let app = world.open().await;
    let id = start(&app, "Trip", json!({})).await;
    // The quick one has its result, another is in flight, and the last has not begun.
    world.service.arrived("GET /hold/x", 1).await;
    world.service.arrived("POST /say", 1).await;
    world.service.arrived("GET /hold/y", 1).await;
    world.service.release("y");
    events(&app, id).await;
    let run = read(&app, id).await;
    assert_eq!(run.status, RunStatus::Failed);
    assert_eq!(run.error.unwrap().code, "A2S357");
    assert_same(&replay(&app, id, None).await);
}

#[tokio::test]
async fn iterations_stopped_by_a_failure_are_replayed() {
    let world = World::new().await;
    let each = task(
        "each",
        "GET /even/{n}",
        json!({"pathParameters": {"n": "${item}"}}),
        json!({"n": "$.value"}),
    );
    let over = json!({"for_each": {"in": ["0", "2", "3", "4", "6"], "max_concurrency": 1}});
    world
        .registry
        .publish_newer("Trip", &json!({"execution": sequence(json!([with(each, over)]))}));
    let app = world.open().await;
    let run = run(&app, "Trip", json!({})).await;
    assert_eq!(run.status, RunStatus::Failed);
    assert_eq!(world.service.asked().len(), 3);
    let replay = replay(&app, run.id, None).await;
    assert_same(&replay);
}

#[tokio::test]
async fn replay_reuses_guardian_decisions() {
    let world = World::new().await;
    let steps = json!([say("a", json!("alpha"), "a"), say("b", json!("beta"), "b")]);
    world.registry.publish("Trip", "1.0.0", &json!({"execution": sequence(steps)}));
    // The first result is rewritten; the second request is denied.
    world.guardian.decide(|question| {
        if question["method"] == "steps/toolCallResult" {
            let mut modified = question.clone();
            modified["params"]["toolCallResult"]["result"]["outputs"][0]["text"] =
                json!(r#"{"body": "rewritten"}"#);
            return json!({"decision": "modify", "message": "less", "modifiedRequest": modified});
        }
        if question.to_string().contains("alpha") { allow() } else { deny() }
    });
    let app = world.open().await;
    let run = run(&app, "Trip", json!({})).await;
    assert_eq!(run.error.unwrap().code, "A2S340");
    let before = traffic(&world);
    let replay = replay(&app, run.id, None).await;
    assert_same(&replay);
    assert_eq!(replay.compared, 2);
    assert_eq!(traffic(&world), before);
    // What the guardian took away is nowhere.
    let kept = world.query("SELECT exchange FROM exchange").await;
    assert!(kept[0].contains("rewritten") && !kept[0].contains("value"), "{kept:?}");
}

#[tokio::test]
async fn a_run_with_secrets_is_replayed_without_them() {
    const TOKEN: &str = "canary-5ecret-token";
    let world = World::new().await;
    let steps = json!([
        task(
            "send",
            "POST /say",
            json!({"body": {"token": "${token}", "n": "${number}"}}),
            json!({"said": "$.body"})
        ),
        say("after", json!("${said.token}!"), "last"),
    ]);
    let parameters = json!([
        {"name": "token", "secret": true},
        {"name": "number", "secret": true, "type": "integer"},
    ]);
    let rest = json!({"parameters": parameters, "execution": sequence(steps)});
    world.registry.publish_newer("Trip", &rest);
    let app = world.open().await;
    let run = run(&app, "Trip", json!({"token": TOKEN, "number": 918_273_645})).await;
    assert_succeeded(&run);
    assert_same(&replay(&app, run.id, None).await);
    let kept = world.query("SELECT exchange FROM exchange ORDER BY step").await;
    assert_eq!(kept.len(), 2);
    for text in kept {
        assert!(!text.contains(TOKEN) && !text.contains("918273645"), "{text}");
    }
}

#[tokio::test]
async fn too_large_response_is_not_recorded_for_replay() {
    let mut world = World::new().await;
    world.config.limits.keep_answer_bytes = 200;
    let steps =
        json!([say("small", json!("x"), "small"), say("large", json!("y".repeat(200)), "large")]);
    world.registry.publish("Trip", "1.0.0", &json!({"execution": sequence(steps)}));
    let app = world.open().await;
    let run = run(&app, "Trip", json!({})).await;
    assert_succeeded(&run);
    let replay = replay(&app, run.id, None).await;
    let told = lines(&replay);
    assert!(
        told[0].starts_with("large error: - -> \"A2S373: the response of `large` had "),
        "{told:#?}"
    );
    assert!(!replay.unchanged);
    assert!(told.iter().all(|line| !line.starts_with("small")), "{told:#?}");
}

#[tokio::test]
async fn nothing_is_kept_where_nothing_is_to_be_kept() {
    let mut world = World::new().await;
    world.config.limits.keep_answer_bytes = 0;
    world.registry.publish(
        "Trip",
        "1.0.0",
        &json!({"execution": sequence(json!([say("a", json!("x"), "a")]))}),
    );
    let app = world.open().await;
    let run = run(&app, "Trip", json!({})).await;
    assert_eq!(world.query("SELECT step FROM exchange").await, Vec::<String>::new());
    let told = lines(&replay(&app, run.id, None).await);
    assert_eq!(told[0], r#"a error: - -> "A2S373: no response of `a` was recorded""#);
}

#[tokio::test]
async fn what_a_person_decided_holds_in_a_replay() {
    let world = World::new().await;
    let pay = task("pay", "POST /hold/pay", json!({"body": "5"}), json!({"paid": "$.value"}));
    let steps = json!([pay, say("tell", json!("${paid}"), "told")]);
    world.registry.publish("Trip", "1.0.0", &json!({"execution": sequence(steps)}));
    let (app, id) = world.open_until("Trip", json!({}), "POST /hold/pay").await;
    let app = world.crash_and_open(app).await;
    events(&app, id).await;
    let decision = json!({"decision": "set", "outputs": {"paid": "by hand"}});
    call(&app, Method::POST, &format!("/v1/executions/{id}/resume"), &[], decision).await.run();
    events(&app, id).await;
    assert_succeeded(&read(&app, id).await);
    assert_same(&replay(&app, id, None).await);
}

#[tokio::test]
async fn only_a_run_that_is_known_and_at_rest_is_replayed() {
    let world = World::new().await;
    let held = task("held", "GET /hold/x", json!({}), json!({"x": "$.value"}));
    world.registry.publish("Trip", "1.0.0", &json!({"execution": sequence(json!([held]))}));
    let (app, id) = world.open_until("Trip", json!({}), "GET /hold/x").await;
    let ask = async |id: Uuid, body: Value| {
        call(&app, Method::POST, &format!("/v1/executions/{id}/replay"), &[], body).await
    };
    let (status, code, _) = ask(id, json!({})).await.problem();
    assert_eq!((status, code.as_str()), (409, "A2S309"));
    let (status, code, _) = ask(Uuid::nil(), json!({})).await.problem();
    assert_eq!((status, code.as_str()), (404, "A2S302"));
    world.service.release("x");
    events(&app, id).await;
    let other = json!({"against": {"name": "Trip", "version": "^9"}});
    let (status, code, _) = ask(id, other).await.problem();
    assert_eq!((status, code.as_str()), (404, "A2S312"));
    // Forgotten with the run.
    assert_eq!(world.query("SELECT step FROM exchange").await, ["held"]);
    call(&app, Method::DELETE, &format!("/v1/executions/{id}"), &[], Value::Null).await;
    assert_eq!(world.query("SELECT step FROM exchange").await, Vec::<String>::new());
}
