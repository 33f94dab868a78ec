//! The values that are remembered between runs.

use std::time::Duration;

use a2s_api::{EventKind, StateScope};
use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use super::world::{World, assert_succeeded, call, events, run, sequence, task};
use crate::{App, Limits};

/// A capability that needs `city`, takes `unit`, and gives back what it got.
fn publish(world: &World) {
    let inputs = json!({"pathParameters": {"city": "${city}"}});
    world.registry.publish_newer(
        "Echo",
        &json!({
            "parameters": [
                {"name": "city", "type": "string"},
                {"name": "unit", "type": "string", "default": "celsius"},
            ],
            "execution": sequence(json!([task("step", "GET /echo/{city}", inputs, json!({"x": "$"}))])),
            "output": "${city} ${unit}",
        }),
    );
}

async fn put(app: &App, path: &str, value: Value) {
    let answer = call(app, Method::PUT, path, &[], value).await;
    assert_eq!(answer.status, StatusCode::OK, "{path}");
}

async fn remembered(app: &App, path: &str) -> Value {
    let mut list = call(app, Method::GET, path, &[], Value::Null).await.body;
    let entries = list["entries"].take();
    let pairs = entries.as_array().unwrap().iter();
    let pair = |entry: &Value| (entry["name"].as_str().unwrap().to_owned(), entry["value"].clone());
    Value::Object(pairs.map(pair).collect())
}

#[tokio::test]
async fn values_of_sessions_go_after_a_time_and_others_stay() {
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    let mut world = World::new().await;
    let app = world.open().await;
    put(&app, "/v1/state/city", json!("Paris")).await;
    put(&app, "/v1/sessions/mine/state/city", json!("Rome")).await;
    app.crash().await;
    for (days, keep, left) in [
        (29, None, json!({"city": "Rome"})),
        (2, Some("forever"), json!({"city": "Rome"})),
        (0, None, json!({})),
    ] {
        world.pass(days * DAY);
        if let Some(keep) = keep {
            let limits = json!({"keep-session-values": keep});
            world.config.limits = serde_json::from_value(limits).unwrap();
        } else {
            world.config.limits = Limits::default();
        }
        let app = world.open().await;
        assert_eq!(remembered(&app, "/v1/sessions/mine/state").await, left, "{days} {keep:?}");
        assert_eq!(remembered(&app, "/v1/state").await, json!({"city": "Paris"}));
        app.crash().await;
    }
}

#[tokio::test]
async fn inputs_come_from_session_then_global_state() {
    let world = World::new().await;
    publish(&world);
    let app = world.open().await;
    put(&app, "/v1/state/city", json!("Paris")).await;
    put(&app, "/v1/state/unit", json!("fahrenheit")).await;
    put(&app, "/v1/state/other", json!("unused")).await;
    put(&app, "/v1/sessions/mine/state/city", json!("Rome")).await;

    let of = async |inputs: Value, session: Option<&str>| {
        let body = json!({"name": "Echo", "inputs": inputs, "session": session, "wait": true});
        let ended = call(&app, Method::POST, "/v1/executions", &[], body).await.run();
        assert_succeeded(&ended);
        let EventKind::RunStarted(started) = events(&app, ended.id).await.remove(0).kind else {
            panic!()
        };
        (ended.output.unwrap(), started.recalled.get("city").copied(), started.recalled.len())
    };
    // A default is a value: only what would be asked for is taken.
    let everybody = (json!("Paris celsius"), Some(StateScope::Persistent), 1);
    assert_eq!(of(json!({}), None).await, everybody);
    assert_eq!(of(json!({}), Some("another")).await, everybody);
    let session = (json!("Rome celsius"), Some(StateScope::Session), 1);
    assert_eq!(of(json!({}), Some("mine")).await, session);
    assert_eq!(of(json!({"city": "Oslo"}), Some("mine")).await, (json!("Oslo celsius"), None, 0));

    let plan = json!({"name": "Echo", "session": "mine"});
    let plan = call(&app, Method::POST, "/v1/plans", &[], plan).await.body;
    assert_eq!((&plan["missing"], &plan["recalled"]), (&json!([]), &json!({"city": "session"})));
}

#[tokio::test]
async fn values_are_kept_over_a_restart_and_forgotten_on_demand() {
    let world = World::new().await;
    let app = world.open().await;
    put(&app, "/v1/state/a", json!({"deep": [1, null]})).await;
    put(&app, "/v1/state/a", json!({"deep": [2, null]})).await;
    put(&app, "/v1/sessions/s%2F1/state/b", json!([])).await;
    let app = world.crash_and_open(app).await;
    assert_eq!(remembered(&app, "/v1/state").await, json!({"a": {"deep": [2, null]}}));
    assert_eq!(remembered(&app, "/v1/sessions/s%2F1/state").await, json!({"b": []}));
    assert_eq!(remembered(&app, "/v1/sessions/other/state").await, json!({}));
    for (path, status) in [
        ("/v1/sessions/other/state/b", 404),
        ("/v1/state/b", 404),
        ("/v1/state/a", 204),
        ("/v1/state/a", 404),
        ("/v1/sessions/s%2F1/state/b", 204),
    ] {
        let answer = call(&app, Method::DELETE, path, &[], Value::Null).await;
        assert_eq!(answer.status.as_u16(), status, "{path}");
    }
    assert_eq!(remembered(&app, "/v1/state").await, json!({}));
}

#[tokio::test]
async fn unfit_stored_value_is_refused_with_location() {
    let world = World::new().await;
    publish(&world);
    let app = world.open().await;
    for value in [json!(1.1), json!([7]), json!({"name": "Oslo"})] {
        put(&app, "/v1/state/city", value).await;
        let body = json!({"name": "Echo"});
        let response = call(&app, Method::POST, "/v1/executions", &[], body).await.body;
        assert_eq!(response["code"], "A2S324");
        let hint = response["hint"].as_str().unwrap();
        assert!(hint.contains("a2s state list") && hint.contains("quote it"), "{response}");
    }
}

#[tokio::test]
async fn a_remembered_integer_is_text_for_an_input_of_text() {
    let world = World::new().await;
    publish(&world);
    let app = world.open().await;
    for (value, text) in [(json!(7), "7"), (json!(-7), "-7"), (json!(true), "true")] {
        put(&app, "/v1/state/city", value).await;
        let ended = run(&app, "Echo", json!({})).await;
        assert_succeeded(&ended);
        assert_eq!(ended.output, Some(json!(format!("{text} celsius"))));
    }
}

#[tokio::test]
async fn secrets_are_not_taken_from_what_is_stored_as_it_is() {
    let world = World::new().await;
    world.registry.publish_newer(
        "Hidden",
        &json!({
            "parameters": [{"name": "pin", "type": "string", "secret": true}],
            "execution": sequence(json!([task(
                "step",
                "GET /echo/{pin}",
                json!({"pathParameters": {"pin": "${pin}"}}),
                json!({"x": "$"}),
            )])),
        }),
    );
    let app = world.open().await;
    put(&app, "/v1/state/pin", json!("1234")).await;
    let refused = call(&app, Method::POST, "/v1/executions", &[], json!({"name": "Hidden"})).await;
    let (status, code, problem) = refused.problem();
    assert_eq!((status, code.as_str()), (422, "A2S320"));
    let named: Vec<_> =
        problem.missing.iter().map(|field| (field.name.as_str(), field.secret)).collect();
    assert_eq!(named, [("pin", true)]);
    let _ = run(&app, "Hidden", json!({"pin": "1234"})).await;
}

#[tokio::test]
async fn what_is_remembered_is_bounded() {
    let world = World::new().await;
    let app = world.open().await;
    let refused = async |path: &str, value: Value| {
        let answer = call(&app, Method::PUT, path, &[], value).await;
        answer.problem().1
    };
    assert_eq!(refused("/v1/state/1a", json!(1)).await, "A2S300");
    assert_eq!(refused("/v1/state/a.b", json!(1)).await, "A2S300");
    assert_eq!(refused(&format!("/v1/state/{}", "a".repeat(101)), json!(1)).await, "A2S300");
    assert_eq!(refused("/v1/state/a", json!("x".repeat(64 << 10))).await, "A2S300");
    let long = format!("/v1/sessions/{}/state/a", "s".repeat(201));
    assert_eq!(refused(&long, json!(1)).await, "A2S300");
    for n in 0..1_000 {
        put(&app, &format!("/v1/state/n{n}"), json!(n)).await;
    }
    assert_eq!(refused("/v1/state/more", json!(1)).await, "A2S300");
    put(&app, "/v1/state/n7", json!("another")).await;
    put(&app, "/v1/sessions/s/state/more", json!(1)).await;
}
