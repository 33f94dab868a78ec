//! Requests and answers of a tool of an MCP server: one that needs no session.

use a2s::{ExampleResponse, InputLocation, McpTask};
use axum::response::Response;
use serde_json::{Map, json};

use super::{Misfit, Request, Values, respond};

/// Holds a request to the task.
pub(super) fn check(task: &McpTask, request: &Request) -> Result<Values, Misfit> {
    let is_host = request.host.covers(&task.server);
    if !is_host || request.method != "POST" || request.path != task.server.path() {
        return Err(Misfit::Elsewhere);
    }
    let wrong = |reason: String| Err(Misfit::Wrong(reason));
    let body = request.json()?;
    if body["jsonrpc"] != "2.0" || body["method"] != "tools/call" {
        return wrong("it is no call of a tool".to_owned());
    }
    if body["params"]["name"] != task.tool.as_str() {
        return Err(Misfit::Elsewhere);
    }
    let revision = body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"].as_str();
    let header = |name: &str| request.headers.get(name).and_then(|value| value.to_str().ok());
    if revision.is_none() || revision != header("mcp-protocol-version") {
        return wrong(format!("the revision is {revision:?} and another one in the header"));
    }
    if header("mcp-method") != Some("tools/call") || header("mcp-name") != Some(&task.tool) {
        return wrong("the headers do not say what the message says".to_owned());
    }
    let none = Map::new();
    let sent = body["params"]["arguments"].as_object().unwrap_or(&none);
    if !task.input_schema.is_null() {
        let schema = jsonschema::validator_for(&task.input_schema);
        let schema = schema.map_err(|error| Misfit::Wrong(error.to_string()))?;
        if let Err(error) = schema.validate(&body["params"]["arguments"]) {
            return wrong(format!("the arguments do not fit: {error}"));
        }
    }
    let place = |name: &String| InputLocation::Argument(name.clone());
    Ok(sent.iter().map(|(name, value)| (place(name), value.clone())).collect())
}

/// The answer of an example, or a made-up one.
pub(super) fn answer(task: &McpTask, answer: Option<&ExampleResponse>) -> Result<Response, String> {
    let (status, headers, content) = match answer {
        Some(answer) => (answer.status, answer.headers.clone(), answer.body.clone()),
        None => {
            let sample = task.outputs().samples(&task.output_schema).next();
            (200, Default::default(), sample.ok_or("there is nothing to make an answer of")?)
        }
    };
    let result = json!({"resultType": "complete", "content": [], "structuredContent": content});
    let body = match status {
        200 => json!({"jsonrpc": "2.0", "id": 1, "result": result}),
        _ => content,
    };
    Ok(respond(status, &headers, "application/json", Some(&body)))
}
