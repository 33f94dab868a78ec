//! The access matrix: every operation of the description of the API and every door beside it, asked by
//! every kind of caller with what belongs to the owner.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use insta::assert_snapshot;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{RUNTIME, World, root, shipped};

pub(crate) const POLICY: &str = "version: 1
default: allow
rules:
  - {id: dogs, on: toolCallRequest, tool: ListDogBreeds.*, decision: approve, message: Dogs need a person.}
";

/// A kind of caller: the heading of its column, the scopes of its token, and the end user that it names.
struct Caller {
    name: &'static str,
    scopes: Option<&'static str>,
    end_user: Option<&'static str>,
}

const CALLERS: [Caller; 11] = [
    Caller { name: "none", scopes: None, end_user: None },
    Caller { name: "wrong", scopes: None, end_user: None },
    Caller { name: "publish", scopes: Some("publish"), end_user: None },
    Caller { name: "execute", scopes: Some("execute"), end_user: None },
    Caller { name: "admin", scopes: Some("admin"), end_user: None },
    Caller { name: "delegate", scopes: Some("delegate"), end_user: Some("ann") },
    Caller { name: "service", scopes: Some("service"), end_user: None },
    Caller { name: "guard", scopes: Some("guard"), end_user: None },
    Caller { name: "exec as ann", scopes: Some("execute,delegate"), end_user: Some("ann") },
    Caller { name: "ann", scopes: Some("execute"), end_user: Some("ann") },
    Caller { name: "owner", scopes: None, end_user: None },
];

/// What belongs to the owner, made anew for each caller: some calls use it up.
pub(crate) struct Belongings {
    pub(crate) run: String,
    approval: String,
    task: String,
    /// A token and a credential have names of their own.
    pub(crate) name: String,
}

/// One request. `{…}` in its path are names of [`Belongings`] or fixed ones.
pub(crate) type Door = (Method, &'static str, fn(&Belongings) -> Value);

fn nothing(_: &Belongings) -> Value {
    Value::Null
}

/// Reads come first, and what ends a thing comes last.
pub(crate) fn doors() -> Vec<Door> {
    vec![
        (Method::GET, "/healthz", nothing),
        (Method::GET, "/readyz", nothing),
        (Method::GET, "/metrics", nothing),
        (Method::GET, "/openapi.json", nothing),
        (Method::GET, "/.well-known/agent-card.json", nothing),
        (Method::GET, "/v1/guardian/policy", nothing),
        (Method::GET, "/v1/guardian/records", nothing),
        (Method::GET, "/v1/guardian/verification", nothing),
        (Method::POST, "/v1/guardian/trials", |_| json!({"policy": POLICY, "last": 10})),
        (Method::GET, "/v1/usage", nothing),
        (Method::GET, "/v1/mirrors", nothing),
        (Method::GET, "/v1/search-counts", nothing),
        (Method::POST, "/v1/drafts", |_| json!({ "description": DESCRIPTION })),
        (Method::GET, "/v1/capabilities", nothing),
        (Method::GET, "/v1/capabilities/{name}", nothing),
        (Method::GET, "/v1/capabilities/{name}/graph", nothing),
        (Method::GET, "/v1/capabilities/{name}/owners", nothing),
        (Method::GET, "/v1/capabilities/{name}/{version}", nothing),
        (Method::GET, "/v1/capabilities/{name}/{version}/graph", nothing),
        (Method::GET, "/v1/capabilities/{name}/{version}/stats", nothing),
        (Method::GET, "/v1/changes", nothing),
        (Method::GET, "/v1/index", nothing),
        (Method::GET, "/v1/services", nothing),
        (Method::GET, "/v1/services/{host}", nothing),
        (Method::POST, "/v1/search", |_| json!({"intent": "list dog breeds"})),
        (Method::POST, "/v1/findability", |_| {
            a2s::parse_value(&std::fs::read(shipped("ListDogBreeds")).unwrap()).unwrap()
        }),
        (Method::POST, "/v1/verify", |_| json!({"name": "ListDogBreeds"})),
        (Method::GET, "/v1/audit", nothing),
        (Method::POST, "/v1/audit/trim", |_| json!({"before": "2026-01-01T00:00:00Z"})),
        (Method::GET, "/v1/tokens", nothing),
        (Method::POST, "/v1/tokens/introspect", |_| json!({"token": "x"})),
        (Method::GET, "/v1/executions", nothing),
        (Method::GET, "/v1/executions/{id}", nothing),
        (Method::GET, "/v1/executions/{id}/events", nothing),
        (Method::GET, "/v1/approvals", nothing),
        (Method::GET, "/v1/approvals/{id}", nothing),
        (Method::GET, "/v1/hosts", nothing),
        (Method::GET, "/v1/secrets", nothing),
        (Method::GET, "/v1/state", nothing),
        (Method::GET, "/v1/trust", nothing),
        (Method::GET, "/v1/sessions/{session}/state", nothing),
        (Method::POST, "/v1/plans", |_| json!({"name": "GetCountry"})),
        (Method::POST, "/v1/executions", |_| json!({"name": "GetCountry"})),
        (Method::POST, "/v1/executions/{id}/replay", |_| json!({})),
        (Method::GET, "/v1/executions/{id}/exchanges", |_| Value::Null),
        (
            Method::POST,
            "/v1/triggers",
            |_| json!({"event": {"type": "schedule", "id": "1"}, "execution": {"name": "GetCountry"}}),
        ),
        (Method::POST, "/v1/agent", |_| json!({"message": "what is the meaning of life"})),
        (
            Method::POST,
            "/a2a",
            |its| json!({"jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": {"id": its.task}}),
        ),
        (Method::POST, "/mcp", |_| {
            json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
                "protocolVersion": "2025-11-25", "capabilities": {},
                "clientInfo": {"name": "matrix", "version": "1"},
            }})
        }),
        (
            Method::POST,
            "/aos",
            |_| json!({"jsonrpc": "2.0", "id": "1", "method": "ping", "params": {}}),
        ),
        (Method::POST, "/v1/outcomes", |its| {
            json!({
                "run": its.run, "name": "ListDogBreeds", "version": "1.0.0", "success": true,
                "checksum": format!("sha256:{}", "0".repeat(64)), "duration_ms": 1,
            })
        }),
        (Method::POST, "/v1/capabilities", |_| {
            let text = std::fs::read(shipped("ListDogBreeds")).unwrap();
            let mut newer = a2s::parse_value(&text).unwrap();
            newer["version"] = json!("1.0.1");
            newer["checksum"] = json!(a2s::Digest::of_document(&newer).unwrap());
            newer
        }),
        (Method::POST, "/v1/capabilities/{name}/owners", |_| json!({"add": "publish"})),
        (Method::DELETE, "/v1/capabilities/{name}/learned", nothing),
        (Method::POST, "/v1/capabilities/{name}/{version}/deprecate", |_| json!({"message": "x"})),
        (Method::POST, "/v1/capabilities/{name}/{version}/yank", nothing),
        (Method::POST, "/v1/capabilities/{name}/{version}/unyank", nothing),
        (Method::PUT, "/v1/state/{variable}", |_| json!("Rome")),
        (Method::DELETE, "/v1/state/{variable}", nothing),
        (Method::PUT, "/v1/sessions/{session}/state/{variable}", |_| json!("Rome")),
        (Method::DELETE, "/v1/sessions/{session}/state/{variable}", nothing),
        (
            Method::PUT,
            "/v1/secrets/{host}/{scheme}",
            |_| json!({"kind": "api_key", "value": "abcdef"}),
        ),
        (Method::PUT, "/v1/secrets/{host}/{scheme}/users", |_| json!({})),
        (Method::DELETE, "/v1/secrets/{host}/{scheme}", nothing),
        (
            Method::PUT,
            "/v1/trust/{name}/{version}",
            |_| json!({"checksum": format!("sha256:{}", "0".repeat(64))}),
        ),
        (Method::DELETE, "/v1/trust/{name}/{version}", nothing),
        (Method::POST, "/v1/tokens", |its| json!({"name": its.name, "scopes": ["publish"]})),
        (Method::DELETE, "/v1/tokens/{token}", nothing),
        (Method::POST, "/v1/executions/{id}/resume", |_| json!({"decision": "skip"})),
        (Method::POST, "/v1/approvals/{id}/reject", nothing),
        (Method::POST, "/v1/approvals/{id}/approve", nothing),
        (Method::POST, "/v1/executions/{id}/cancel", nothing),
        (Method::DELETE, "/v1/executions/{id}", nothing),
    ]
}

/// A service with one operation.
pub(crate) const DESCRIPTION: &str = r#"{"openapi": "3.1.0",
  "info": {"title": "Weather", "version": "1.0.0"}, "servers": [{"url": "https://weather.example"}],
  "paths": {"/sky/{city}": {"get": {"operationId": "readSky", "summary": "Read the sky over a city",
    "parameters": [{"name": "city", "in": "path", "required": true, "schema": {"type": "string"}}],
    "responses": {"200": {"description": "The sky", "content": {"application/json": {
      "schema": {"type": "object", "properties": {"sky": {"type": "string"}}}}}}}}}}}"#;

/// The path with what belongs to the owner in it.
pub(crate) fn fill(path: &str, its: &Belongings) -> String {
    let id = if path.starts_with("/v1/approvals") { &its.approval } else { &its.run };
    let fixed = [("{name}", "ListDogBreeds"), ("{version}", "1.0.0"), ("{host}", "dogapi.dog")];
    let fixed = fixed.iter().fold(path.to_owned(), |path, (from, to)| path.replace(from, to));
    let fixed = fixed.replace("{session}", "mine").replace("{variable}", "location");
    fixed.replace("{id}", id).replace("{scheme}", &its.name).replace("{token}", &its.name)
}

/// Sends a request, and gives its status and what came with it.
fn ask(
    world: &World,
    (token, end_user): (Option<&str>, Option<&str>),
    door: (&Method, &str),
    body: &Value,
) -> (u16, Value) {
    let (method, path) = door;
    let url = format!("{}{}", world.url(), path.trim_start_matches('/'));
    let mut request = crate::http::client().request(method.clone(), url);
    if let Some(token) = token {
        request = request.bearer_auth(token);
    }
    if let Some(end_user) = end_user {
        request = request.header(a2s_api::ON_BEHALF_OF, end_user);
    }
    let accept =
        if path == "/mcp" { "application/json, text/event-stream" } else { "application/json" };
    request = request.header("accept", accept);
    if !body.is_null() {
        request = request.json(body);
    }
    RUNTIME.block_on(async {
        let response = request.send().await.unwrap();
        let (status, text) = (response.status().as_u16(), response.text().await.unwrap());
        (status, serde_json::from_str(&text).unwrap_or_default())
    })
}

pub(crate) fn make_belongings(world: &World, number: usize) -> Belongings {
    let token = world.token();
    let owner = (Some(token.as_str()), None);
    let name = format!("thing-{number}");
    let run = json!({"name": "ListDogBreeds", "wait": true});
    let (status, run) = ask(world, owner, (&Method::POST, "/v1/executions"), &run);
    assert_eq!((status, &run["status"]), (200, &json!("waiting")), "{run}");
    let error = run["error"].to_string();
    let command = regex::Regex::new(r"a2s guardian approve ([^\s`]+)").unwrap();
    let approval = command.captures(&error).unwrap_or_else(|| panic!("{error}"))[1].to_owned();
    world.a2s(&["state", "set", "location=Paris"]).exits(0);
    world.a2s(&["tokens", "create", &name, "--scope", "publish"]).exits(0);
    world.a2s_reading("a-secret\n", &["secrets", "set", "dogapi.dog", &name]).exits(0);
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": {
        "kind": "message", "messageId": name, "role": "user",
        "parts": [{"kind": "text", "text": "what is the meaning of life"}],
    }}});
    let (_, task) = ask(world, owner, (&Method::POST, "/a2a"), &message);
    Belongings {
        run: run["id"].as_str().unwrap().to_owned(),
        approval,
        task: task["result"]["id"].as_str().unwrap_or_else(|| panic!("{task}")).to_owned(),
        name,
    }
}

#[test]
fn every_door_lets_in_whom_the_matrix_says() {
    let mut world = World::down(&[]);
    let policy = world.write("policy.yaml", POLICY);
    world.add_flags(&["--policy", &policy]);
    world.start();
    let owner = world.token();
    let mut columns: Vec<Vec<String>> = Vec::new();
    for (number, caller) in CALLERS.iter().enumerate() {
        let its = make_belongings(&world, number);
        let made = caller.scopes.map(|scopes| {
            let name = format!("caller-{number}");
            let made = world.a2s(&["tokens", "create", &name, "--scope", scopes]).exits(0);
            made.stdout.trim().to_owned()
        });
        let token = match caller.name {
            "none" => None,
            "wrong" => Some("wrong"),
            "owner" => Some(owner.as_str()),
            _ => made.as_deref(),
        };
        let mut column = Vec::new();
        for (method, path, body) in doors() {
            let path = fill(path, &its);
            let shown = (token, caller.end_user);
            let (status, answer) = ask(&world, shown, (&method, &path), &body(&its));
            // JSON-RPC says in the body whether it has what was asked for.
            let code = answer["error"]["code"].as_i64();
            column.push(code.map_or_else(|| status.to_string(), |code| format!("{status} {code}")));
        }
        columns.push(column);
    }
    let mut matrix = format!("{:<56}", "");
    for caller in &CALLERS {
        write!(matrix, "{:<13}", caller.name).unwrap();
    }
    for (at, (method, path, _)) in doors().into_iter().enumerate() {
        write!(matrix, "\n{:<56}", format!("{method} {path}")).unwrap();
        for column in &columns {
            write!(matrix, "{:<13}", column[at]).unwrap();
        }
    }
    let matrix: Vec<_> = matrix.lines().map(str::trim_end).collect();
    assert_snapshot!(matrix.join("\n"));
}

#[test]
fn the_matrix_has_every_operation_of_the_api() {
    let text = std::fs::read(root().join("docs/openapi.json")).unwrap();
    let description: Value = serde_json::from_slice(&text).unwrap();
    let paths = description["paths"].as_object().unwrap();
    let operations = paths.iter().flat_map(|(path, operations)| {
        operations.as_object().unwrap().keys().map(move |method| (method.to_uppercase(), path))
    });
    let asked: BTreeSet<(String, String)> = doors()
        .into_iter()
        .map(|(method, path, _)| {
            let path = match path {
                "/v1/tokens/{token}" => "/v1/tokens/{name}".to_owned(),
                path => path.replace("{variable}", "{name}"),
            };
            (method.to_string(), path)
        })
        .collect();
    let missing: Vec<_> = operations
        .filter(|(method, path)| !asked.contains(&(method.clone(), (*path).clone())))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}
