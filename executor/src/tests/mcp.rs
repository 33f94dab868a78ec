//! Tools of MCP servers, called by steps: those of the official SDKs, which nobody here wrote, and
//! those of one that means no good.

mod hostile;
mod official;
mod plain;

use std::sync::atomic::{AtomicUsize, Ordering};

use a2s_api::Run;
use serde_json::{Value, json};

use super::world::{World, run, sequence};
use crate::App;

/// A world with a server of MCP at `https://mcp.example`, wherever it is.
async fn open(server: &str) -> (World, App) {
    let mut world = World::new().await;
    let host = a2s::Domain::new("mcp.example").unwrap();
    world.config.upstreams.insert(host, server.parse().unwrap());
    let app = world.open().await;
    (world, app)
}

/// A step that calls a tool. `more` is what its task says besides.
fn step(path: &str, tool: &str, arguments: &Value, more: &Value) -> Value {
    let mut task = json!({"server": format!("https://mcp.example{path}"), "tool": tool});
    task.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({
        "id": "call",
        "format": "MCP",
        "task": task,
        "input_mapping": {"arguments": arguments},
        "output_mapping": {"all": "$"},
    })
}

/// Publishes a capability that is one step.
fn publish(world: &World, name: &str, step: Value) {
    let document = json!({"domains": ["mcp.example"], "execution": sequence(json!([step])), "output": "${all}"});
    world.registry.publish_newer(name, &document);
}

/// Calls a tool in a run of its own.
async fn call(world: &World, app: &App, path: &str, tool: &str, arguments: Value) -> Run {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let name = format!("Call{}", CALLS.fetch_add(1, Ordering::Relaxed));
    publish(world, &name, step(path, tool, &arguments, &json!({})));
    run(app, &name, json!({})).await
}

/// Code and words of a run that failed.
fn failure(run: &Run) -> (&str, &str) {
    let error = run.error.as_ref().unwrap_or_else(|| panic!("{:?}", run.output));
    (&error.code, &error.message)
}

/// What a run gave.
fn gave(run: &Run) -> Value {
    run.output.clone().unwrap_or_else(|| panic!("{:?}", run.error))
}
