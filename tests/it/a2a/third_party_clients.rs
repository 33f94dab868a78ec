//! The official clients in Python and JavaScript ask.

use std::process::Command;

use serde_json::{Value, json};

use super::world;
use crate::harness::{World, asked_others, npm, printed, root};

const VERSIONS: [&str; 2] = ["1.0", "0.3"];

fn told(world: &World) -> String {
    let told = json!({
        "url": world.url(), "token": world.token(), "versions": VERSIONS,
        "quick": "tell me a joke", "slow": "meditate in silence",
        "asks": "tweet the weather in Paris", "answer": "Hello from Paris",
    });
    told.to_string()
}

/// Holds what a client saw in each version to what it should have seen.
#[track_caller]
fn assert_saw(saw: &Value) {
    assert_eq!(saw["name"], "A2S agent");
    assert!(saw["skills"].as_array().unwrap().contains(&json!("GetJoke")), "{saw}");
    for version in VERSIONS {
        let saw = &saw[version];
        assert_eq!(saw["sent"], "COMPLETED", "{version}: {saw}");
        assert!(saw["artifact"].to_string().contains("borrow"), "{version}: {saw}");
        assert_eq!(saw["streamed"][0], "task", "{version}: {saw}");
        assert_eq!(saw["streamed"][2], "COMPLETED", "{version}: {saw}");
        assert_eq!(saw["got"], "COMPLETED");
        assert_eq!(saw["asked"], "INPUT_REQUIRED", "{version}: {saw}");
        assert_eq!(saw["confirms"], "INPUT_REQUIRED", "{version}: {saw}");
        assert_eq!(saw["confirms"], "INPUT_REQUIRED", "{version}: {saw}");
        assert_eq!(saw["answered"], json!(["COMPLETED", true]), "{version}: {saw}");
        assert_eq!(saw["cancelled"], "CANCELED", "{version}: {saw}");
        assert_eq!(saw["unknown"], "TaskNotFoundError", "{version}: {saw}");
    }
}

#[test]
fn python_a2a_client_sends_streams_and_cancels() {
    let world = world(&[]);
    let Some(saw) = asked_others("a2a_client.py", told(&world).as_bytes()) else { return };
    let mut saw: Value = serde_json::from_str(&saw).unwrap();
    for version in VERSIONS {
        let saw = &mut saw[version];
        assert_eq!(saw["begun"], "SUBMITTED");
        // Its question in words stands beside the state.
        saw["asked"] = saw["asked"][0].take();
    }
    assert_saw(&saw);
}

#[test]
fn javascript_client_resubscribes_to_its_task() {
    let Some(npm) = npm() else { return };
    let world = world(&[]);
    let script = root().join("tests/npm/a2a_client.mjs");
    let saw = printed(Command::new("node").arg(script).arg(npm).arg(told(&world)));
    let saw: Value = serde_json::from_str(&saw).unwrap();
    assert_saw(&saw);
    for version in VERSIONS {
        let saw = &saw[version];
        assert_eq!(saw["spoken"], version, "{saw}");
        assert_eq!(saw["left"], "AbortError", "{saw}");
        assert_eq!((&saw["followed"], &saw["ended"]), (&json!("task"), &json!("CANCELED")));
        assert_eq!(saw["over"], "TaskNotCancelableError", "{saw}");
    }
}
