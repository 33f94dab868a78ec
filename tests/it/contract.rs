//! What others rely on: the description of the HTTP API is committed and current, and has every
//! route that is promised.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

use crate::harness::{World, asked_others, assert_page, npm, printed, root};
use crate::http;

/// Method and path of every route that is promised.
const ROUTES: [(&str, &str); 26] = [
    ("post", "/v1/capabilities"),
    ("get", "/v1/capabilities"),
    ("get", "/v1/capabilities/{name}"),
    ("get", "/v1/capabilities/{name}/{version}"),
    ("get", "/v1/capabilities/{name}/{version}/stats"),
    ("post", "/v1/capabilities/{name}/{version}/yank"),
    ("post", "/v1/capabilities/{name}/{version}/unyank"),
    ("post", "/v1/capabilities/{name}/{version}/deprecate"),
    ("get", "/v1/capabilities/{name}/owners"),
    ("post", "/v1/capabilities/{name}/owners"),
    ("get", "/v1/changes"),
    ("get", "/v1/audit"),
    ("get", "/v1/tokens"),
    ("post", "/v1/tokens"),
    ("delete", "/v1/tokens/{name}"),
    ("post", "/v1/tokens/introspect"),
    ("post", "/v1/search"),
    ("post", "/v1/findability"),
    ("post", "/v1/verify"),
    ("post", "/v1/outcomes"),
    ("post", "/v1/plans"),
    ("post", "/v1/executions"),
    ("get", "/v1/executions"),
    ("get", "/v1/executions/{id}"),
    ("get", "/v1/executions/{id}/events"),
    ("post", "/v1/executions/{id}/cancel"),
];

#[test]
fn the_description_of_the_api_is_committed_and_current() {
    let world = World::up(&[]);
    let (status, body) = http::get(&format!("{}openapi.json", world.url()), &[]);
    assert_eq!(status, 200);
    let description: Value = serde_json::from_str(&body).unwrap();
    let described: BTreeSet<(String, String)> = description["paths"]
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(path, item)| {
            item.as_object().unwrap().keys().map(|method| (method.clone(), path.clone()))
        })
        .collect();
    for (method, path) in ROUTES {
        assert!(described.contains(&(method.to_owned(), path.to_owned())), "{method} {path}");
    }

    let schemas = description["components"]["schemas"].as_object().unwrap();
    let reference = regex::Regex::new(r##""#/components/schemas/([^"]+)""##).unwrap();
    for found in reference.captures_iter(&body) {
        assert!(schemas.contains_key(&found[1]), "`{}` is described nowhere", &found[1]);
    }

    let current = serde_json::to_string_pretty(&description).unwrap() + "\n";
    assert_page("docs/openapi.json", &current);
}

#[test]
fn three_validators_accept_the_openapi_description() {
    let path = root().join("docs/openapi.json");
    let description = std::fs::read(&path).unwrap();
    if let Some(said) = asked_others("check_openapi.py", &description) {
        assert_eq!(said, "openapi-spec-validator: valid\n");
    }
    let Some(npm) = npm() else { return };
    let script = root().join("tests/npm/check_openapi.mjs");
    let said = printed(Command::new("node").arg(script).arg(npm).arg(path));
    assert_eq!(said, "openapi-schema-validator: valid\nswagger-parser: valid\n");
}

/// Method, path, headers and body of a bad request, and the status of the answer to it.
type Case<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)], &'a str, u16);

#[test]
fn bad_requests_are_answered_with_problems() {
    let world = World::up(&[]);
    let token = format!("Bearer {}", world.token());
    let json = ("content-type", "application/json");
    let owner = ("authorization", token.as_str());
    let deep = "[".repeat(20_000);
    let huge = "x".repeat(3 << 20);
    let cases: &[Case<'_>] = &[
        ("POST", "v1/search", &[json], "{", 400),
        ("POST", "v1/search", &[json], r#"{"intent": "x", "limitt": 3}"#, 400),
        ("POST", "v1/search", &[json], r#"{"intent": "x", "strategy": "best"}"#, 422),
        ("POST", "v1/search", &[json], &deep, 400),
        ("POST", "v1/search", &[("content-type", "text/plain")], r#"{"intent": "x"}"#, 415),
        ("POST", "v1/search", &[json], &huge, 413),
        ("POST", "v1/capabilities", &[("content-type", "application/yaml")], "a: 1", 401),
        ("POST", "v1/capabilities", &[("content-type", "application/yaml"), owner], "a: 1", 422),
        ("POST", "v1/capabilities", &[("content-type", "application/yaml"), owner], "", 422),
        ("POST", "v1/capabilities", &[("content-type", "application/yaml"), owner], &huge, 413),
        ("POST", "v1/capabilities", &[("content-type", "image/png"), owner], "a: 1", 415),
        ("GET", "v1/capabilities/Nothing", &[], "", 404),
        ("GET", "v1/capabilities/GetJoke/9.9.9", &[], "", 404),
        ("DELETE", "v1/capabilities/GetJoke", &[owner], "", 405),
        ("GET", "v1/executions/not-a-uuid", &[owner], "", 404),
        ("POST", "v1/executions", &[json, owner], r#"{"name": "GetJoke", "inputs": []}"#, 400),
        ("POST", "v1/executions", &[json, owner], r#"{"name": "Nothing"}"#, 404),
    ];
    let mut wrong = Vec::new();
    for (method, path, headers, body, expected) in cases {
        let url = format!("{}{path}", world.url());
        let (status, answer) = http::send(method, &url, headers, Some((*body).to_owned()));
        let problem: Value = serde_json::from_str(&answer).unwrap_or_default();
        let told = ["type", "title", "code", "detail"].iter().all(|key| problem[key].is_string());
        if status != *expected || problem["status"] != status || !told {
            let short: String = body.chars().take(60).collect();
            wrong.push(format!("{method} {path} {short}: {expected} wanted, {status} {answer}"));
        }
    }
    assert_eq!(wrong, [""; 0]);
}
