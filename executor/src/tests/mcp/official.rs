//! Servers of the official TypeScript SDKs, of the stateless revision and of those with sessions.

use std::ffi::OsStr;
use std::path::Path;

use a2s_api::{EventKind, RunEvent};
use serde_json::{Value, json};

use super::{call, failure, gave, open, publish, step};
use crate::App;
use crate::tests::conformance::mock::{Process, packages};
use crate::tests::world::{World, assert_succeeded, events, run, transcript};

struct Weather {
    world: World,
    app: App,
    _service: Process,
}

impl Weather {
    /// A world with the servers; none when they are not installed.
    async fn open() -> Option<Self> {
        let packages = packages()?;
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/npm/mcp_server.mjs");
        let arguments: [&OsStr; 2] = [script.as_os_str(), packages.as_os_str()];
        let service = Process::start(arguments).unwrap();
        let (world, app) = open(&service.url).await;
        Some(Self { world, app, _service: service })
    }
}

const ALL: [&str; 4] = ["/modern", "/strict", "/stateful", "/stateless"];

#[tokio::test(flavor = "multi_thread")]
async fn tools_of_every_revision_are_called() {
    let Some(weather) = Weather::open().await else { return };
    let Weather { world, app, .. } = &weather;
    for path in ALL {
        let found =
            call(world, app, path, "forecast", json!({"city": "Zürich \"x\"", "days": 1})).await;
        let expected = json!({"city": "Zürich \"x\"", "days": [{"day": 1, "high": 20.5}]});
        assert_eq!(gave(&found), expected, "{path}");
        let noted = call(world, app, path, "add_note", json!({"text": path})).await;
        assert!(gave(&noted).as_str().unwrap().ends_with(path), "{path}");
        let failed = call(world, app, path, "fail", json!({})).await;
        let expected = "the tool reported an error: there is no weather today";
        assert_eq!(failure(&failed), ("A2S361", expected), "{path}");
        let (code, words) = (failed_code(world, app, path, "nothing").await, path);
        assert!(["A2S361", "A2S362"].contains(&code.as_str()), "{words}: {code}");
        let wrong = call(world, app, path, "forecast", json!({"city": 5})).await;
        assert!(["A2S361", "A2S362"].contains(&failure(&wrong).0), "{path}");
    }
    let notes = call(world, app, "/modern", "list_notes", json!({})).await;
    assert_eq!(gave(&notes), json!(ALL), "each note was kept once");
}

async fn failed_code(world: &World, app: &App, path: &str, tool: &str) -> String {
    let run = call(world, app, path, tool, json!({})).await;
    failure(&run).0.to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_opened_where_it_is_wanted_and_ended_again() {
    let Some(weather) = Weather::open().await else { return };
    let Weather { world, app, .. } = &weather;
    let told = async |path: &str| {
        let run = call(world, app, path, "add_note", json!({"text": "x"})).await;
        assert_succeeded(&run);
        let lines = transcript(&events(app, run.id).await);
        let wanted = |line: &&String| {
            ["POST", "session", "got", "again"].iter().any(|word| line.contains(word))
        };
        lines.iter().filter(wanted).cloned().collect::<Vec<_>>()
    };
    let modern = ["call: 1 POST https://mcp.example/modern", "call: 1 got 200"];
    assert_eq!(told("/modern").await, modern);
    let sent = "POST https://mcp.example/stateful";
    let first = [
        &format!("call: 1 {sent}"),
        "call: 1 got 400",
        "call: 1 failed, again",
        &format!("call: 2 {sent} for a session"),
        &format!("call: 2 {sent} for a session"),
        "call: 2 session 2025-11-25",
        &format!("call: 2 {sent}"),
        "call: 2 got 200",
        "call: 2 DELETE https://mcp.example/stateful for a session",
    ];
    assert_eq!(told("/stateful").await, first);
    let later = [
        &format!("call: 1 {sent} for a session"),
        &format!("call: 1 {sent} for a session"),
        "call: 1 session 2025-11-25",
        &format!("call: 1 {sent}"),
        "call: 1 got 200",
        "call: 1 DELETE https://mcp.example/stateful for a session",
    ];
    assert_eq!(told("/stateful").await, later, "it is known by now");
    let left = call(world, app, "/modern", "count_sessions", json!({})).await;
    assert_eq!(gave(&left), json!("0 sessions"), "no session is left open");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_document_declares_holds() {
    let Some(weather) = Weather::open().await else { return };
    let Weather { world, app, .. } = &weather;
    let schemas = json!({
        "inputSchema": {
            "type": "object",
            "properties": {"city": {"type": "string", "minLength": 2}, "days": {"type": "integer"}},
            "required": ["city"],
        },
        "outputSchema": {"type": "object", "required": ["city", "rain"]},
    });
    publish(world, "Declared", step("/modern", "forecast", &json!({"city": "${city}"}), &schemas));
    let short = run(app, "Declared", json!({"city": "x"})).await;
    let (code, words) = failure(&short);
    assert!(code == "A2S328" && words.contains("`arguments.city`"), "{code} {words}");
    assert_eq!(short.steps[0].attempts, 0, "nothing was sent");
    let missing = run(app, "Declared", json!({"city": "Paris"})).await;
    let told = events(app, missing.id).await;
    let warned = |event: &RunEvent| match &event.kind {
        EventKind::Warned { warning, .. } => Some((warning.code.clone(), warning.message.clone())),
        _ => None,
    };
    let (code, words) = told.iter().find_map(warned).unwrap();
    assert!(code == "A2S365" && words.contains("rain"), "{code} {words}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guardian_sees_step_and_message_and_may_change_both() {
    let Some(weather) = Weather::open().await else { return };
    let Weather { world, app, .. } = &weather;
    let run = call(world, app, "/stateful", "forecast", json!({"city": "Bern", "days": 1})).await;
    assert_succeeded(&run);
    let asked = world.guardian.asked();
    let methods: Vec<_> = asked.iter().map(|asked| asked["method"].as_str().unwrap()).collect();
    let expected =
        ["steps/toolCallRequest", "protocols/MCP", "protocols/MCP", "steps/toolCallResult"];
    assert_eq!(methods, expected);
    let inputs = &asked[0]["params"]["toolCallRequest"]["inputs"];
    assert_eq!(inputs[0], json!({"name": "arguments.city", "value": "Bern"}));
    let call = json!({"name": "forecast", "arguments": {"city": "Bern", "days": 1}});
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call});
    assert_eq!(asked[1]["params"]["message"], message);
    assert_eq!(asked[1]["params"]["context"]["capability"]["format"], "MCP");
    assert_eq!(asked[2]["params"]["message"]["result"]["structuredContent"]["city"], "Bern");
    let id = &asked[0]["params"]["toolCallRequest"]["executionId"];
    assert!([1, 2].iter().all(|n| asked[*n]["params"]["executionId"] == *id));
    let decided = events(app, run.id).await;
    let phases: Vec<_> = decided
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::Decided { decision, .. } => serde_json::to_value(decision.phase).ok(),
            _ => None,
        })
        .collect();
    assert_eq!(Value::Array(phases), json!(["request", "mcp_outbound", "mcp_inbound", "result"]));
}
