//! The clients of others: the official SDKs, the inspector and the conformance suite, which are
//! installed where `A2S_TEST_NPM` and `A2S_TEST_PYTHON` say; and the programs of `docs/agents.md`.

mod page;

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use mcp::Limits;
use serde_json::{Value, json};

use super::everything;
use crate::harness::{World, asked_others, npm, printed, root};

const OWN_TOOLS: [&str; 5] = [
    "search_capabilities",
    "describe_capability",
    "plan_capability",
    "execute_capability",
    "verify_capability",
];

/// The command `a2s` of a user whose services these are, in a folder of its own.
fn command_of(world: &World) -> PathBuf {
    let folder = world.folder().join("bin");
    std::fs::create_dir_all(&folder).unwrap();
    let (url, data) = (world.url(), world.data());
    let script = format!(
        "#!/bin/sh\nA2S_URL='{url}' A2S_DATA_DIR='{}' exec '{}' \"$@\"\n",
        data.display(),
        env!("CARGO_BIN_EXE_a2s")
    );
    let path = folder.join("a2s");
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Holds what a client saw to what it should have seen, with every transport.
#[track_caller]
fn assert_saw(lines: &str, transports: &[(&str, Option<&str>)]) {
    let saw: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(saw.len(), transports.len(), "{lines}");
    for (saw, (transport, version)) in saw.iter().zip(transports) {
        assert_eq!(saw["transport"], *transport);
        if let Some(version) = version {
            assert_eq!(saw["version"], *version);
        }
        assert_eq!(saw["tools"], json!(OWN_TOOLS));
        assert_eq!(saw["found"], "PostTweet");
        // The text was missing, and then the tweet was approved of.
        assert_eq!(saw["questions"].as_array().unwrap().len(), 2, "{saw}");
        assert_eq!(saw["output"]["tweet_text"], format!("by {transport}"), "{saw}");
        let progress = saw["progress"].as_array().unwrap();
        for step in ["createTweet: started", "createTweet: finished"] {
            assert!(progress.contains(&json!(step)), "{saw}");
        }
        assert_eq!(saw["read"], "application/yaml");
    }
}

#[test]
fn typescript_mcp_clients_run_over_both_transports() {
    let Some(npm) = npm() else { return };
    let world = World::up(&[]);
    let run = |script: &str| {
        printed(
            Command::new("node")
                .arg(root().join("tests/npm").join(script))
                .arg(&npm)
                .args([world.url(), &world.token()])
                .arg(command_of(&world)),
        )
    };
    let newest = Some("2026-07-28");
    assert_saw(&run("modern.mjs"), &[("http", newest), ("stdio", newest)]);
    assert_saw(&run("legacy.mjs"), &[("http", None), ("stdio", None)]);
    assert_eq!(world.standin("api.twitter.com").requests(), 4);
}

#[test]
fn python_mcp_client_runs_over_both_transports() {
    let world = World::up(&[]);
    let told = json!({
        "url": world.url(), "token": world.token(), "command": command_of(&world),
    });
    let Some(saw) = asked_others("mcp_client.py", told.to_string().as_bytes()) else { return };
    let [newest, before] = ["2026-07-28", "2025-11-25"].map(Some);
    let transports = [("http", newest), ("stdio", newest), ("http", before), ("stdio", before)];
    assert_saw(&saw, &transports);
    assert_eq!(world.standin("api.twitter.com").requests(), 4);
}

#[test]
fn the_inspector_lists_finds_and_runs_over_both_transports() {
    let Some(npm) = npm() else { return };
    let world = World::up(&[]);
    let authorization = format!("Authorization: Bearer {}", world.token());
    let over_http = [
        format!("{}mcp", world.url()),
        "--transport".to_owned(),
        "http".to_owned(),
        "--header".to_owned(),
        authorization,
    ];
    let over_stdio = [command_of(&world).to_str().unwrap().to_owned(), "mcp".to_owned()];
    for server in [&over_http[..], &over_stdio[..]] {
        let inspect = |arguments: &[&str]| -> Value {
            let text = printed(
                Command::new("node")
                    .arg(npm.join("node_modules/.bin/mcp-inspector"))
                    .arg("--cli")
                    .args(server)
                    .args(arguments)
                    .env("HOME", world.folder()),
            );
            serde_json::from_str(&text).unwrap()
        };
        let listed = inspect(&["--method", "tools/list"]);
        let tools = listed["tools"].as_array().unwrap();
        let names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        assert_eq!(names, OWN_TOOLS);
        let call = ["--method", "tools/call", "--tool-name"];
        let search = ["search_capabilities", "--tool-arg", "intent=list dog breeds"];
        let found = inspect(&[&call[..], &search].concat());
        assert_eq!(found["structuredContent"]["capabilities"][0]["name"], "ListDogBreeds");
        let execute = ["execute_capability", "--tool-arg", "name=ListDogBreeds"];
        let ran = inspect(&[&call[..], &execute].concat());
        assert_eq!(ran["structuredContent"]["status"], "succeeded", "{ran}");
    }
}

/// The revisions of the protocol whose requirements the suite knows.
const REVISIONS: [&str; 2] = ["2025-11-25", "2026-07-28"];

/// Runs all that a revision requires against a server; what `expected` names may fail, and has to.
fn conform(npm: &Path, folder: &Path, url: &str, revision: &str, expected: &str) {
    let node = npm.join("node_modules/node/bin/node");
    let suite = npm.join("node_modules/@modelcontextprotocol/conformance/dist/index.js");
    let results = folder.join(revision);
    let output = Command::new(node)
        .arg(suite)
        .current_dir(folder)
        .args(["server", "--url", url, "--requirements", revision, "--expected-failures"])
        .arg(root().join("tests/it/mcp").join(expected))
        .arg("-o")
        .arg(&results)
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    let summary = printed.split_once("=== SUMMARY ===").map_or(&*printed, |(_, summary)| summary);
    assert!(output.status.success(), "{revision}: {summary}\n{}", failures(&results));
}

/// What the suite found wrong, a line for each check.
fn failures(results: &Path) -> String {
    let mut lines = Vec::new();
    for folder in std::fs::read_dir(results).into_iter().flatten().flatten() {
        let Ok(text) = std::fs::read(folder.path().join("checks.json")) else { continue };
        let checks: Vec<Value> = serde_json::from_slice(&text).unwrap_or_default();
        let name = folder.file_name();
        for check in checks.iter().filter(|check| check["status"] == "FAILURE") {
            let (id, why) = (&check["id"], &check["errorMessage"]);
            lines.push(format!("{} {id}: {why}", name.to_string_lossy()));
        }
    }
    lines.sort();
    lines.join("\n")
}

/// `a2s up` has no tools, resources and prompts of the suite: a server that has them shows that the
/// transport carries whatever a revision requires, but for features that `a2s up` does not offer.
#[test]
fn the_transport_passes_what_each_revision_requires() {
    let Some(npm) = npm() else { return };
    let folder = tempfile::TempDir::new().unwrap();
    // The suite shows no token and ends no session.
    let limits = Limits { of_anonymous: 256, ..Limits::default() };
    let url = everything::serve(limits);
    for revision in REVISIONS {
        conform(&npm, folder.path(), &url, revision, "conformance.yaml");
    }
}

#[test]
fn a2s_up_passes_all_that_needs_no_tools_of_the_suite() {
    let Some(npm) = npm() else { return };
    let world = World::up(&["--mcp-anonymous-sessions", "256"]);
    let url = format!("{}mcp", world.url());
    for revision in REVISIONS {
        conform(&npm, world.folder(), &url, revision, "fixtures.yaml");
    }
}
