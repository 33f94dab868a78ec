//! A guardian that nobody here wrote: a few lines that follow the AOS text alone.

use std::sync::{Arc, Mutex};

use axum::Json;
use axum::extract::State;
use axum::routing::post;
use serde_json::{Value, json};

use crate::harness::{RUNTIME, World, root};

type Heard = Arc<Mutex<Vec<Value>>>;

/// Allows everything and keeps what it was asked; changes the city of the weather request.
async fn answer(State(heard): State<Heard>, Json(request): Json<Value>) -> Json<Value> {
    heard.lock().unwrap().push(request.clone());
    let mut result = json!({ "decision": "allow", "message": "fine" });
    let inputs = &request["params"]["toolCallRequest"]["inputs"];
    if inputs[0]["name"] == "pathParameters.city" {
        let mut modified = request.clone();
        modified["params"]["toolCallRequest"]["inputs"][0]["value"] = json!("Rome");
        result = json!({ "decision": "modify", "message": "Rome is nicer", "modifiedRequest": modified });
    }
    Json(json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }))
}

#[test]
fn every_question_is_valid_aos_and_tells_what_runs() {
    let heard = Heard::default();
    let router = axum::Router::new().route("/", post(answer)).with_state(Arc::clone(&heard));
    let url = RUNTIME.block_on(async {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        url
    });
    let world = World::up(&["--guardian", &url]);
    let arguments = [
        "run",
        "PostWeatherTweet",
        "--json",
        "--input",
        "location=Paris",
        "--input",
        "message=Now:",
    ];
    let run = world.a2s(&arguments).exits(0).one();
    assert_eq!(world.standin("api.weather.com").received()[0].target, "/current/Rome");

    let schema = root().join("aos/tests/schema/aos_schema.repaired.json");
    let schema: Value = serde_json::from_slice(&std::fs::read(schema).unwrap()).unwrap();
    let schema = json!({
        "$schema": schema["$schema"], "$defs": schema["$defs"], "$ref": "#/$defs/ASOPRequest"
    });
    let validator = jsonschema::validator_for(&schema).unwrap();
    let heard = heard.lock().unwrap();
    let methods: Vec<_> = heard.iter().map(|message| message["method"].as_str().unwrap()).collect();
    let (before, after) = ("steps/toolCallRequest", "steps/toolCallResult");
    assert_eq!(methods, [before, after, before, after]);
    for message in heard.iter() {
        let errors: Vec<_> = validator.iter_errors(message).map(|e| e.to_string()).collect();
        assert_eq!(errors, [""; 0], "{message}");
        let capability = &message["params"]["context"]["capability"];
        assert_eq!(capability["name"], "PostWeatherTweet");
        assert_eq!(capability["digest"], run["checksum"]);
        assert_eq!(capability["run"], run["id"]);
    }
    let execution = |index: usize| {
        let params = &heard[index]["params"];
        let call = if index.is_multiple_of(2) {
            &params["toolCallRequest"]
        } else {
            &params["toolCallResult"]
        };
        call["executionId"].clone()
    };
    assert_eq!(execution(0), execution(1));
    assert_eq!(execution(2), execution(3));
    assert_ne!(execution(0), execution(2));
}
