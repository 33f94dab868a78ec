//! Schemathesis sends to every operation what the description of the API allows and what it forbids, and
//! holds the responses to it.

use std::process::Command;

use crate::harness::{World, python, root, shipped};

/// Requests for each operation, at most.
const EXAMPLES: &str = "10";

#[test]
fn schemathesis_finds_nothing() {
    let Some(python) = python() else { return };
    // Without the shipped documents no request can leave this machine: no document can be made up, as each
    // has a checksum.
    let world = World::up(&["--no-examples"]);
    for name in ["ListDogBreeds", "GetJoke"] {
        world.a2s(&["publish", shipped(name).to_str().unwrap()]).exits(0);
    }
    let mut command = Command::new(python.join("schemathesis"));
    command
        .current_dir(root())
        .args(["--config-file", "tests/python/schemathesis.toml", "run", "docs/openapi.json"])
        .args(["--url", world.url(), "--phases", "examples,fuzzing", "--max-examples", EXAMPLES])
        // The agent runs what it finds, and a trigger what listens to it; both have their own tests.
        .args(["--exclude-path-regex", "^/v1/(agent|triggers)", "--generation-deterministic"])
        .args(["--header", &format!("Authorization: Bearer {}", world.token())])
        .args(["--request-timeout", "10", "--workers", "1", "--no-color"]);
    let ran = command.output().unwrap();
    let told = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{told}{}", String::from_utf8_lossy(&ran.stderr));
    assert!(told.contains("Tested: 67"), "{told}");
}
