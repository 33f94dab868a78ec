//! The official client in Python asks.

use serde_json::{Value, json};

use super::world;
use crate::harness::asked_others;

#[test]
fn the_official_client_finds_sends_streams_gets_and_cancels() {
    let world = world(&[]);
    let told = json!({
        "url": world.url(), "token": world.token(), "versions": ["1.0", "0.3"],
        "quick": "tell me a joke", "slow": "meditate in silence",
        "asks": "tweet the weather in Paris", "answer": "Hello from Paris",
    });
    let Some(saw) = asked_others("a2a_client.py", told.to_string().as_bytes()) else { return };
    let saw: Value = serde_json::from_str(&saw).unwrap();
    assert_eq!(saw["name"], "A2S agent");
    assert!(saw["skills"].as_array().unwrap().contains(&json!("GetJoke")), "{saw}");
    for version in ["1.0", "0.3"] {
        let saw = &saw[version];
        assert_eq!(saw["sent"], "COMPLETED", "{version}: {saw}");
        assert!(saw["artifact"].to_string().contains("borrow"), "{version}: {saw}");
        assert_eq!(saw["streamed"], json!(["task", "status_update", "COMPLETED"]), "{version}");
        assert_eq!(saw["got"], "COMPLETED");
        assert_eq!(saw["asked"][0], "INPUT_REQUIRED", "{version}: {saw}");
        assert_eq!(saw["answered"], json!(["COMPLETED", true]), "{version}: {saw}");
        assert_eq!(saw["begun"], "SUBMITTED");
        assert_eq!(saw["cancelled"], "CANCELED", "{version}: {saw}");
        assert_eq!(saw["unknown"], "TaskNotFoundError", "{version}: {saw}");
    }
}
