//! Guardians that are not ours: what they are asked, and what becomes of what they say.

mod a2a_messages;
mod guardian_chain;
mod python_guardian;

use std::sync::{Arc, Mutex};

use axum::Json;
use axum::extract::State;
use axum::routing::post;
use serde_json::{Value, json};
use test_support::{allow, rpc_result};

use crate::harness::{RUNTIME, World, root, serve};

type Heard = Arc<Mutex<Vec<Value>>>;

/// Judges that nobody here wrote: the schema of the protocol in its mended form, and of the official
/// file the one definition that is meant, as the whole of that does not compile.
fn faults(schema: &str, definition: &str, message: &Value) -> Vec<String> {
    let path = root().join("aos/tests/schema").join(schema);
    let schema: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let schema = json!({
        "$schema": schema["$schema"],
        "$defs": schema["$defs"],
        "$ref": format!("#/$defs/{definition}"),
    });
    let options = jsonschema::options().should_validate_formats(true);
    let validator = options.build(&schema).unwrap();
    validator
        .iter_errors(message)
        .map(|fault| format!("{}: {fault}", fault.instance_path()))
        .collect()
}

/// Allows everything and keeps what it was asked; changes Paris in the weather request.
async fn answer(State(heard): State<Heard>, Json(request): Json<Value>) -> Json<Value> {
    heard.lock().unwrap().push(request.clone());
    let mut result = allow();
    let inputs = &request["params"]["toolCallRequest"]["inputs"];
    if inputs[0]["name"] == "pathParameters.city" && inputs[0]["value"] == "Paris" {
        let mut modified = request.clone();
        modified["params"]["toolCallRequest"]["inputs"][0]["value"] = json!("Rome");
        result = json!({ "decision": "modify", "message": "Rome is nicer", "modifiedRequest": modified });
    }
    rpc_result(&request, result)
}

/// A guardian that answers so: where it is, and what it was asked.
fn listen() -> (String, Heard) {
    let heard = Heard::default();
    let router = axum::Router::new().route("/", post(answer)).with_state(Arc::clone(&heard));
    let url = format!("{}/", serve(router));
    (url, heard)
}

#[test]
fn every_question_is_valid_aos_and_tells_what_runs() {
    let (url, heard) = listen();
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

    // And one that needs what is remembered.
    world.a2s(&["state", "set", "location=Paris"]).exits(0);
    world.a2s(&["run", "PostWeatherTweet", "--input", "message=Now:"]).exits(0);
    // And one that an event starts.
    let inputs = json!({"location": "Paris", "message": "Now:"});
    let execution = json!({"name": "PostWeatherTweet", "inputs": inputs, "wait": true});
    let body = json!({"event": {"type": "schedule", "id": "1"}, "execution": execution});
    let started = RUNTIME.block_on(async {
        let client = crate::http::client();
        let request = client.post(format!("{}v1/triggers", world.url()));
        let request = request.bearer_auth(world.token()).json(&body);
        request.send().await.unwrap().json::<Value>().await.unwrap()
    });
    assert_eq!(started["status"], "succeeded", "{started}");
    // And what the service refuses; and what is only planned.
    let fails =
        ["run", "PostWeatherTweet", "--input", "location=Brokenville", "--input", "message=x"];
    world.a2s(&fails).exits(1);
    let dry = ["--dry-run", "--preview"];
    world.a2s(&[&fails[..], &dry].concat()).exits(0);
    let heard = heard.lock().unwrap();
    let methods: Vec<_> = heard.iter().map(|message| message["method"].as_str().unwrap()).collect();
    let (before, after) = ("steps/toolCallRequest", "steps/toolCallResult");
    // The first request of each run is changed to another path, and shown once more as it is then.
    let steps = [before, before, after, before, after];
    assert_eq!(methods[..5], steps);
    assert_eq!(methods[5..7], ["steps/memoryStore", "steps/memoryContextRetrieval"]);
    assert_eq!(methods[7..12], steps);
    assert_eq!(methods[12], "steps/agentTrigger");
    assert_eq!(methods[13..18], steps);
    assert_eq!(methods[18..20], [before, after]);
    let shown: Vec<_> =
        heard[..2].iter().map(|asked| &asked["params"]["context"]["request"]["path"]).collect();
    assert_eq!(shown, ["/current/Paris", "/current/Rome"]);
    let failed = &heard[19]["params"]["toolCallResult"]["result"];
    assert_eq!(failed["isError"], true, "{failed}");
    let mut planned = methods[20..].to_vec();
    planned.sort_unstable();
    assert_eq!(planned, ["ping", before]);
    for message in heard.iter() {
        let definition = match message["method"].as_str().unwrap() {
            "steps/toolCallRequest" => "ToolCallRequestStep",
            "steps/toolCallResult" => "ToolCallResultStep",
            "steps/memoryStore" => "MemoryStoreStep",
            "steps/memoryContextRetrieval" => "MemoryContextRetrievalStep",
            "steps/agentTrigger" => "AgentTriggerStep",
            "ping" => "PingRequest",
            other => panic!("{other} is validated by no definition here"),
        };
        assert_eq!(
            faults("aos_schema.repaired.json", "ASOPRequest", message),
            [""; 0],
            "{message}"
        );
        assert_eq!(faults("aos_schema.json", definition, message), [""; 0], "{message}");
    }
    for message in &heard[..5] {
        let user = &message["params"]["context"]["user"];
        assert_eq!(*user, json!({"id": "owner"}));
        let capability = &message["params"]["context"]["capability"];
        assert_eq!(capability["name"], "PostWeatherTweet");
        assert_eq!(capability["checksum"], run["checksum"]);
        assert_eq!(capability["run"], run["id"]);
    }
    let execution = |index: usize| {
        let params = &heard[index]["params"];
        let call = if methods[index] == before {
            &params["toolCallRequest"]
        } else {
            &params["toolCallResult"]
        };
        call["executionId"].clone()
    };
    let (asked, asked_again, answered) = (execution(0), execution(1), execution(2));
    assert_eq!([&asked, &asked_again], [&answered; 2]);
    assert_eq!(execution(3), execution(4));
    assert_ne!(asked, execution(3));
}
