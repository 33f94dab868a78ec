//! A language model reads and writes; what it cannot do, patterns do.

use std::sync::{Arc, Mutex};

use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};

use super::Turn;
use crate::harness::{World, serve};

type Log = Arc<Mutex<Vec<Value>>>;
type Answers = fn(&str) -> Value;

/// An endpoint of chat completions. It answers by what it is told to do.
fn model(answers: Answers) -> (String, Log) {
    let log = Log::default();
    let state = (Arc::clone(&log), answers);
    let router = Router::new().route("/v1/chat/completions", post(complete)).with_state(state);
    let url = format!("{}/v1", serve(router));
    (url, log)
}

async fn complete(
    State((log, answers)): State<(Log, Answers)>,
    Json(request): Json<Value>,
) -> Json<Value> {
    let system = request["messages"][0]["content"].as_str().unwrap().to_owned();
    log.lock().unwrap().push(request);
    let content = match answers(&system) {
        Value::String(text) => text,
        other => other.to_string(),
    };
    Json(json!({"choices": [{"message": {"role": "assistant", "content": content}}]}))
}

fn world(url: &str) -> World {
    World::up(&["--model-url", url, "--model", "tiny"])
}

#[test]
fn model_reads_intent_fills_inputs_and_phrases_reply() {
    let (url, log) = model(|system| {
        if system.contains("separate tasks") {
            json!({"intents": ["Get the weather in Paris and tweet it"]})
        } else if system.contains("named inputs") {
            json!({"message": "Bonjour!", "no_such_input": 1})
        } else {
            json!("It is sunny in Paris, and everybody knows.")
        }
    });
    let world = world(&url);
    let turn =
        Turn::take(&world, "tell everybody on twitter how Paris weather is in Paris", &["--yes"]);
    let answer = turn.answer();
    assert_eq!(answer["message"], "It is sunny in Paris, and everybody knows.", "{answer}");
    assert_eq!(turn.all("understood")[0]["interpreter"], "tiny");
    assert_eq!(turn.chosen().1, &json!({"location": "Paris", "message": "Bonjour!"}));
    // It is shown what came of it as data, and never the owner's token.
    let log = log.lock().unwrap();
    assert!(log.last().unwrap()["messages"][1]["content"].as_str().unwrap().contains("tweet_id"));
    let token = world.token();
    assert!(log.iter().all(|request| !request.to_string().contains(&token)));
}

#[test]
fn without_a_sane_model_the_agent_goes_on_by_patterns() {
    for (answers, what) in [
        ((|_| json!("I would rather write a poem.")) as Answers, "no JSON"),
        (|_| json!({"intents": 7}), "no list"),
        (|_| json!("[]"), "no list"),
    ] {
        let (url, _) = model(answers);
        let world = world(&url);
        let turn = Turn::take(&world, "list dog breeds", &[]);
        let degraded = turn.all("degraded")[0]["message"].as_str().unwrap();
        assert!(degraded.contains("tiny") && degraded.contains(what), "{degraded}");
        assert_eq!(turn.all("understood")[0]["interpreter"], "patterns");
        assert_eq!(turn.answer()["status"], "completed", "{:?}", turn.ran);
    }
    let world = world("http://127.0.0.1:1/v1");
    let turn = Turn::take(&world, "list dog breeds", &[]);
    assert_eq!(turn.answer()["status"], "completed", "{:?}", turn.ran);
}
