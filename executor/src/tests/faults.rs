//! Steps that fail: which error, where, and what to do about it.

use std::time::Duration;

use a2s::Domain;
use a2s_api::{Run, RunStatus};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::world::{World, call, events, run, sequence, start, task, transcript};

async fn fail(world: &World, steps: Value, inputs: Value) -> Run {
    world.registry.publish("Bad", "1.0.0", &json!({"execution": sequence(steps)}));
    let app = world.open().await;
    let run = run(&app, "Bad", inputs).await;
    assert_ne!(run.status, RunStatus::Succeeded);
    run
}

/// Runs `step` and expects an error with this code whose message has all these words.
#[track_caller]
fn check(run: &Run, code: &str, words: &[&str]) {
    let error = run.error.as_ref().unwrap();
    assert_eq!(error.code, code, "{error:?}");
    assert_eq!(error.step.as_deref(), Some("step"));
    for word in words {
        assert!(error.message.contains(word), "{word:?} is not in {:?}", error.message);
    }
    assert!(!error.hint.is_empty());
}

#[tokio::test]
async fn an_error_status_fails_the_step_and_a_post_is_not_sent_again() {
    let world = World::new().await;
    let run =
        fail(&world, json!([task("step", "POST /status/503", json!({}), json!({}))]), json!({}))
            .await;
    check(&run, "A2S357", &["503"]);
    let error = run.error.unwrap();
    assert_eq!((error.attempt, error.repeat_safe), (Some(1), false));
    assert_eq!(world.service.count("POST /status/503"), 1);
}

#[tokio::test]
async fn a_read_is_tried_again_and_every_attempt_is_recorded() {
    let world = World::new().await;
    world.service.script([(503, json!({})), (200, json!({"value": 7}))]);
    world.registry.publish(
        "Again",
        "1.0.0",
        &json!({"execution": sequence(json!([task("step", "GET /script", json!({}), json!({"x": "$.value"}))]))}),
    );
    let app = world.open().await;
    let run = run(&app, "Again", json!({})).await;
    assert_eq!(run.output, Some(json!({"x": 7})));
    assert_eq!(run.steps[0].attempts, 2);
    let lines = transcript(&events(&app, run.id).await);
    assert_eq!(
        lines[2..9],
        [
            "step: request allow",
            "step: 1 GET https://api.example/script",
            "step: 1 got 503",
            "step: 1 failed, again",
            "step: 2 GET https://api.example/script",
            "step: 2 got 200",
            "step: result allow",
        ]
    );
}

#[tokio::test]
async fn attempts_end() {
    let world = World::new().await;
    let run =
        fail(&world, json!([task("step", "GET /status/503", json!({}), json!({}))]), json!({}))
            .await;
    check(&run, "A2S357", &["503"]);
    assert_eq!(run.error.unwrap().attempt, Some(3));
    assert_eq!(world.service.count("GET /status/503"), 3);
}

#[tokio::test]
async fn a_page_for_people_is_not_an_answer() {
    let world = World::new().await;
    let run =
        fail(&world, json!([task("step", "GET /page", json!({}), json!({"x": "$.x"}))]), json!({}))
            .await;
    check(&run, "A2S358", &["text/html"]);
}

#[tokio::test]
async fn a_missing_value_names_output_path_and_what_was_there() {
    let world = World::new().await;
    let run = fail(
        &world,
        json!([task("step", "GET /echo/1", json!({}), json!({"x": "$.value.deep"}))]),
        json!({}),
    )
    .await;
    check(&run, "A2S332", &["`x`", "$.value.deep"]);
}

#[tokio::test]
async fn a_value_that_does_not_fit_its_place_is_not_sent() {
    let world = World::new().await;
    let step = task("step", "GET /echo/{word}", json!({"word": "${word}"}), json!({}));
    let run = fail(&world, json!([step]), json!({"word": ".."})).await;
    check(&run, "A2S322", &["word"]);
    assert!(world.service.asked().is_empty() && world.guardian.asked().is_empty());
}

#[tokio::test]
async fn a_reference_into_nothing_names_place_and_reference() {
    let world = World::new().await;
    let step = task("step", "GET /echo/{word}", json!({"word": "${given.word}"}), json!({}));
    let run = fail(&world, json!([step]), json!({"given": {"other": 1}})).await;
    check(&run, "A2S330", &["pathParameters.word", "${given.word}"]);
    assert!(world.service.asked().is_empty());
}

#[tokio::test]
async fn a_condition_without_an_outcome_names_itself() {
    let world = World::new().await;
    let step = json!({"id": "step", "type": "condition", "condition": "${given} > 3", "if_true": {"steps": [task("never", "GET /echo/1", json!({}), json!({}))]}});
    let run = fail(&world, json!([step]), json!({"given": "three"})).await;
    check(&run, "A2S331", &["${given} > 3"]);
}

#[tokio::test]
async fn a_service_that_is_not_there_is_named() {
    let mut world = World::new().await;
    let upstream = World::nowhere();
    world.config.upstreams.values_mut().for_each(|url| url.clone_from(&upstream));
    let run =
        fail(&world, json!([task("step", "POST /say", json!({}), json!({}))]), json!({})).await;
    check(&run, "A2S351", &["api.example"]);
    // The guardian learns how it ended, as of every step that it was asked about.
    let asked = world.guardian.asked();
    assert_eq!((asked.len(), &asked[1]["method"]), (2, &serde_json::json!("steps/toolCallResult")));
    // Nothing left, so even a post may be tried again, and running again is safe.
    let error = run.error.unwrap();
    assert_eq!((error.attempt, error.repeat_safe), (Some(3), true));
}

#[tokio::test]
async fn a_private_address_is_refused_unless_it_is_allowed() {
    let mut world = World::new().await;
    world.config.upstreams.clear();
    let mut step = task("step", "GET /echo/1", json!({}), json!({}));
    step["task"]["servers"] = json!([{"url": "http://localhost:9"}]);
    world.registry.publish(
        "Bad",
        "1.0.0",
        &json!({"domains": ["localhost:9"], "execution": sequence(json!([step]))}),
    );
    let app = world.open().await;
    let run = run(&app, "Bad", json!({})).await;
    check(&run, "A2S350", &["localhost"]);
}

#[tokio::test]
async fn a_run_that_takes_too_long_is_ended() {
    let mut world = World::new().await;
    world.config.limits.max_run_time = Duration::ZERO;
    world.registry.publish(
        "Long",
        "1.0.0",
        &json!({"execution": sequence(json!([task("step", "GET /hold/x", json!({}), json!({}))]))}),
    );
    let app = world.open().await;
    let run = run(&app, "Long", json!({})).await;
    assert_eq!(run.status, RunStatus::Failed);
    assert_eq!(run.error.unwrap().code, "A2S323");
}

#[tokio::test]
async fn a_capability_with_too_many_steps_is_not_started() {
    let mut world = World::new().await;
    world.config.limits.max_steps = 1;
    let step = |id| task(id, "GET /echo/1", json!({}), json!({}));
    world.registry.publish(
        "Long",
        "1.0.0",
        &json!({"execution": sequence(json!([step("a"), step("b")]))}),
    );
    let app = world.open().await;
    let body = json!({"name": "Long"});
    let answer = call(&app, http::Method::POST, "/v1/executions", &[], body).await;
    assert_eq!(answer.problem().1, "A2S323");
}

#[tokio::test]
async fn one_run_too_many_is_refused() {
    let mut world = World::new().await;
    world.config.limits.max_runs = 1;
    world.config.limits.max_tenant_queued = 0;
    world.registry.publish(
        "Slow",
        "1.0.0",
        &json!({"execution": sequence(json!([task("step", "GET /hold/x", json!({}), json!({}))]))}),
    );
    let app = world.open().await;
    start(&app, "Slow", json!({})).await;
    let body = json!({"name": "Slow"});
    let answer = call(&app, http::Method::POST, "/v1/executions", &[], body).await;
    assert_eq!(answer.headers["retry-after"], "5");
    let (status, code, problem) = answer.problem();
    assert_eq!((status, code.as_str()), (429, "A2S306"));
    let message = "`owner` has no free slot for another run, and its runs must not wait";
    assert_eq!(problem.detail, message);
}

#[tokio::test]
async fn endless_informational_responses_are_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let hint = b"HTTP/1.1 103 Early Hints\r\nlink: </style.css>\r\n\r\n";
        let (mut connection, _) = listener.accept().await.unwrap();
        assert_ne!(connection.read(&mut [0; 4096]).await.unwrap(), 0);
        while connection.write_all(hint).await.is_ok() {}
    });
    let mut world = World::new().await;
    let service = format!("http://{address}/").parse().unwrap();
    world.config.upstreams.insert(Domain::new("api.example").unwrap(), service);
    world.config.limits.read_timeout = Duration::from_millis(200);
    world.config.limits.max_attempts = 1;
    let steps = json!([task("step", "GET /hints", json!({}), json!({}))]);
    let words = &["more than 20 informational responses"];
    let run = fail(&world, steps, json!({})).await;
    check(&run, "A2S355", words);
    let hint = run.error.unwrap().hint;
    assert!(hint.contains("operator of the service"), "{hint}");
}

/// A world whose service responds with these bytes under a media type.
async fn world_of_response(media_type: &'static str, body: &'static str) -> World {
    let response = async move || ([("content-type", media_type)], body);
    let address = test_support::serve(axum::Router::new().fallback(response)).await;
    let mut world = World::new().await;
    let service = format!("http://{address}/").parse().unwrap();
    world.config.upstreams.insert(Domain::new("api.example").unwrap(), service);
    world
}

#[tokio::test]
async fn a_missing_value_names_the_media_type_that_came() {
    let world = world_of_response("text/javascript", "callback({})").await;
    let steps = json!([task("step", "GET /x", json!({}), json!({"v": "$.v"}))]);
    check(&fail(&world, steps, json!({})).await, "A2S332", &["$.v", "text/javascript"]);
}

#[tokio::test]
async fn half_of_a_surrogate_pair_is_a_warning() {
    let body = r#"{"v": "x", "other": "\ude00 cut"}"#;
    let world = world_of_response("application/json", body).await;
    let steps = json!([task("step", "GET /x", json!({}), json!({"v": "$.other"}))]);
    let document = json!({"execution": sequence(steps), "output": "${v}"});
    world.registry.publish_newer("Cut", &document);
    let app = world.open().await;
    let run = run(&app, "Cut", json!({})).await;
    assert_eq!(run.output, Some(json!("\u{fffd} cut")), "{:?}", run.error);
    let warnings = serde_json::to_string(&run.steps[0].warnings).unwrap();
    assert!(warnings.contains("A2S365") && warnings.contains("surrogate"), "{warnings}");
}
