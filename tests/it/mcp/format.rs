//! Steps that call tools of MCP servers, as every command shows them.

use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};
use test_support::mock_services::MockServiceBuilder;

use super::client::Client;
use super::tools::with_forms;
use crate::harness::{RUNTIME, World};

const DOCUMENT: &str = r#"execution:
  steps:
    - output_mapping: {high: "$.high"}
      input_mapping: {arguments: {city: "${city}"}}
      task:
        server: https://mcp.example/mcp
        tool: get_forecast
        description: Tells the weather
        inputSchema: {type: object, properties: {city: {type: string}}, required: [city]}
        outputSchema: {type: object, properties: {high: {type: number}}, required: [high]}
      format: MCP
      id: ask
  type: sequence
name: TellForecast
a2s: 1.1.0
description: Tells the weather forecast of a city
domains: [mcp.example]
version: 1.0.0
checksum: "<checksum>"
authors: [{name: A}]
"#;

/// An MCP server without sessions.
async fn server(Json(call): Json<Value>) -> Json<Value> {
    assert_eq!(call["params"]["name"], "get_forecast", "{call}");
    let result = json!({"content": [], "structuredContent": {"high": 21}});
    Json(json!({"jsonrpc": "2.0", "id": call["id"], "result": result}))
}

/// A world with that server and the document, and the file that it is in.
fn world() -> (World, String) {
    let router = Router::new().route("/mcp", post(server));
    let service = MockServiceBuilder::for_host("mcp.example", router);
    let mut world = World::among(vec![service], &[]);
    let told = world.folder().join("events.jsonl").to_str().unwrap().to_owned();
    world.add_flags(&["--ocsf-file", &told]);
    world.start();
    let file = world.write("TellForecast.yaml", DOCUMENT);
    world.a2s(&["checksum", "--write", &file]).exits(0);
    world.a2s(&["publish", "--skip-tests", &file]).exits(0);
    (world, file)
}

#[test]
fn a_tool_is_named_wherever_a_step_is_shown() {
    let (mut world, file) = world();
    let digest = world.a2s(&["checksum", &file]).exits(0).stdout;
    world.a2s(&["fmt", &file]).exits(0);
    let formatted = std::fs::read_to_string(&file).unwrap();
    assert!(formatted.contains("- id: ask\n      format: MCP\n      task:"), "{formatted}");
    assert_eq!(world.a2s(&["checksum", &file]).exits(0).stdout, digest);
    let shown = world.a2s(&["show", &file]).exits(0).stdout;
    assert!(shown.contains("MCP tool get_forecast at https://mcp.example/mcp"), "{shown}");

    let run = ["run", "TellForecast", "--input", "city=Bern"];
    let planned = world.a2s(&[&run[..], &["--dry-run"]].concat()).exits(0).stdout;
    assert!(planned.contains("MCP POST https://mcp.example/mcp tool get_forecast"), "{planned}");
    assert!(planned.contains("arguments.city = \"Bern\""), "{planned}");
    let planned = world.a2s(&[&run[..], &["--dry-run", "--json"]].concat()).exits(0).one();
    assert_eq!(planned["steps"][0]["tool"], "get_forecast", "{planned}");
    assert_eq!(world.standin("mcp.example").requests(), 0);
    let ran = world.a2s(&[&run[..], &["--json"]].concat()).exits(0);
    assert_eq!(ran.json().last().unwrap()["output"], json!({"high": 21}), "{ran:?}");

    let search = ["search", "weather forecast", "--json", "--format"];
    let found = |format| world.a2s(&[&search[..], &[format]].concat()).stdout;
    assert!(found("mcp").contains("TellForecast"), "{}", found("mcp"));
    assert!(!found("openapi").contains("TellForecast"), "{}", found("openapi"));
    let bill = world.a2s(&["bom", "TellForecast@1.0.0"]).exits(0).stdout;
    assert!(bill.contains("tools/call get_forecast"), "{bill}");

    // What listeners are told is written by the time the services have stopped.
    let events = world.folder().join("events.jsonl");
    world.stop();
    let events = std::fs::read_to_string(events).unwrap();
    let last: Value = serde_json::from_str(events.lines().last().unwrap()).unwrap();
    assert_eq!(last["api"]["operation"], "TellForecast.ask", "{last}");
    let decisions = last["unmapped"]["aos"]["decisions"].as_array().unwrap();
    let methods: Vec<_> = decisions.iter().map(|one| one["method"].as_str().unwrap()).collect();
    let [request, result] = ["steps/toolCallRequest", "steps/toolCallResult"];
    assert_eq!(methods, [request, "protocols/MCP", "protocols/MCP", result], "{last}");
}

#[test]
fn a_person_is_told_which_tool_would_be_called() {
    let (world, _) = world();
    let (url, token) = (world.url().to_owned(), world.token());
    RUNTIME.block_on(async {
        let client = Client::open(&url, Some(&token), with_forms()).await;
        let call = json!({"name": "TellForecast", "inputs": {"city": "Bern"}});
        let call = json!({"name": "execute_capability", "arguments": call});
        let person = async |asked: &Value| {
            let words = asked["message"].as_str().unwrap();
            let line = "- POST https://mcp.example/mcp tool get_forecast";
            assert!(words.lines().any(|told| told == line), "{words}");
            json!({"action": "accept", "content": {}})
        };
        let ran = client.ask_with(1, "tools/call", call, person).await;
        assert_eq!(ran.content()["output"], json!({"high": 21}), "{ran:?}");
        assert_eq!(ran.before.len(), 1, "it was asked");
    });
}
