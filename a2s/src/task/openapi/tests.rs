//! What is read from specifications, and what is refused.

mod bodies;
mod parameters;
mod security;

use serde_json::{Value, json};

use super::*;
use crate::diagnostic::{Diagnostic, DiagnosticSeverity};
use crate::document::StepAction;
use crate::task::Task;

/// A specification with one operation.
fn specification(path: &str, method: &str, operation: Value) -> Value {
    let mut operation = operation;
    let responses = json!({"200": {"description": "Good"}});
    operation.as_object_mut().unwrap().entry("responses").or_insert(responses);
    json!({
        "openapi": "3.0.3",
        "info": {"title": "Test", "version": "1"},
        "servers": [{"url": "https://api.example/v1"}],
        "paths": {path: {method: operation}},
    })
}

fn get(operation: Value) -> Value {
    specification("/a", "get", operation)
}

/// The specification as the task of a document that maps `inputs`.
fn compile_with(task: &Value, inputs: &Value) -> (Option<OpenApiTask>, Vec<Diagnostic>) {
    let document = json!({
        "a2s": "1.0.0",
        "name": "Test",
        "description": "A test",
        "domains": ["api.example"],
        "version": "1.0.0",
        "authors": [{"name": "Tester"}],
        "execution": {"type": "sequence", "steps": [
            {"id": "step", "format": "OpenAPI", "task": task, "input_mapping": inputs},
        ]},
    });
    let compilation = crate::compile(document.to_string().as_bytes());
    let mut diagnostics = compilation.diagnostics;
    diagnostics.retain(|diagnostic| diagnostic.path != "checksum");
    let mut task = None;
    if let Some(document) = &compilation.document {
        document.capability().for_each_step(|step| {
            let StepAction::Task { task: found, .. } = &step.action else { return };
            if let Task::OpenApi(found) = &**found {
                task = Some((**found).clone());
            }
        });
    }
    (task, diagnostics)
}

/// The task of a specification without any remark. Every parameter and the body are mapped.
#[track_caller]
fn read(task: &Value) -> OpenApiTask {
    let (task, diagnostics) = read_with_remarks(task);
    assert_eq!(diagnostics, []);
    task.unwrap()
}

#[track_caller]
fn read_with_remarks(task: &Value) -> (Option<OpenApiTask>, Vec<Diagnostic>) {
    // First without inputs, to learn what there is to map.
    let (_, diagnostics) = compile_with(task, &json!({}));
    let mut inputs = json!({});
    for diagnostic in &diagnostics {
        if diagnostic.code != "A2S055" {
            continue;
        }
        let place = diagnostic.message.split('`').nth(1).unwrap();
        match place.split_once('.') {
            Some((group, name)) => inputs[group][name] = json!("x"),
            None => inputs[place] = json!({}),
        }
    }
    compile_with(task, &inputs)
}

/// The one remark about a specification: severity, message and path below the task.
#[track_caller]
fn remark(task: &Value) -> (DiagnosticSeverity, String, String) {
    let (_, diagnostics) = read_with_remarks(task);
    let [diagnostic] = diagnostics.as_slice() else { panic!("one remark: {diagnostics:?}") };
    assert!(diagnostic.hint.as_ref().is_some_and(|hint| !hint.is_empty()), "{diagnostic:?}");
    let path = diagnostic.path.strip_prefix("execution.steps[0].task").unwrap();
    (diagnostic.severity, diagnostic.message.clone(), path.to_owned())
}

#[track_caller]
fn check_refused(task: &Value, message: &str, path: &str) {
    assert_eq!(remark(task), (DiagnosticSeverity::Error, message.to_owned(), path.to_owned()));
}

#[track_caller]
fn check_warned(task: &Value, message: &str, path: &str) -> OpenApiTask {
    assert_eq!(remark(task), (DiagnosticSeverity::Warning, message.to_owned(), path.to_owned()));
    read_with_remarks(task).0.unwrap()
}

#[test]
fn both_versions_are_read_and_no_other() {
    let mut task = get(json!({}));
    for (version, expected) in [
        ("3.0.0", OpenApiVersion::V3_0),
        ("3.0.4", OpenApiVersion::V3_0),
        ("3.1.0", OpenApiVersion::V3_1),
        ("3.1.2", OpenApiVersion::V3_1),
    ] {
        task["openapi"] = json!(version);
        assert_eq!(read(&task).version, expected);
    }
    for version in ["3.2.0", "3", "2.0", "4.0.0"] {
        task["openapi"] = json!(version);
        let message = format!("OpenAPI `{version}` is not supported; use 3.0 or 3.1");
        check_refused(&task, &message, ".openapi");
    }
}

#[test]
fn what_is_new_in_3_1_is_no_mistake() {
    let schema = json!({"type": ["string", "null"], "$ref": "#/components/schemas/A", "const": 1});
    let task = json!({
        "openapi": "3.1.0",
        "jsonSchemaDialect": "https://spec.openapis.org/oas/3.1/dialect/base",
        "info": {
            "title": "T", "version": "1", "summary": "S", "termsOfService": "/terms",
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [{
            "url": "https://{place}.example",
            "variables": {"place": {"enum": ["api", "test"], "default": "api"}},
        }],
        "webhooks": {"new": {"post": {}}},
        "paths": {"/a": {"get": {"parameters": [
            {"$ref": "#/components/parameters/P", "description": "Of the reference"},
            {"name": "q", "in": "query", "schema": true},
        ]}}},
        "components": {
            "pathItems": {},
            "parameters": {"P": {"name": "p", "in": "query", "description": "D", "schema": schema}},
            "schemas": {"A": {"type": "string"}},
        },
    });
    let task = read(&task);
    assert_eq!(task.server.as_str(), "https://api.example/");
    assert_eq!(task.parameters[0].schema, schema);
    assert_eq!(task.parameters[0].description.as_deref(), Some("Of the reference"));
    assert_eq!(task.responses, []);
}

#[test]
fn a_path_item_may_stand_elsewhere_in_the_task() {
    let mut task = get(json!({}));
    let item = json!({"get": {
        "responses": {"204": {"description": "Nothing"}}, "parameters": [{"name": "q", "in": "query"}],
    }});
    task["components"] = json!({"pathItems": {"A": {"$ref": "#/x-items/~1a"}}});
    task["x-items"] = json!({"/a": item});
    task["paths"]["/a"] = json!({
        "$ref": "#/components/pathItems/A", "servers": [{"url": "https://api.example/other"}],
    });
    let found = read(&task);
    assert_eq!(found.responses[0].0, "204");
    assert_eq!(found.parameters[0].name, "q");
    assert_eq!(found.server.path(), "/other");
    // A pointer may be percent-encoded, as in an address.
    task["components"]["pathItems"]["A"] = json!({"$ref": "#/x-items/~1%61"});
    assert_eq!(read(&task).parameters[0].name, "q");
    task["x-items"] = json!({"/a": {"$ref": "#/components/pathItems/A"}});
    check_refused(&task, "the chain of `$ref`s is longer than 32", ".paths[\"/a\"]");
}

#[test]
fn paths_are_kept_only_for_references_into_them() {
    let respond = |reference: &str| {
        let schema = json!({"schema": {"$ref": reference}});
        let response = json!({"description": "D", "content": {"application/json": schema}});
        let mut task = get(json!({"responses": {"200": response}, "x-a": {"type": "string"}}));
        task["components"] = json!({"schemas": {"A": {"type": "string"}}});
        task
    };
    let own = "#/paths/~1a/get/x-a";
    let kept = read(&respond(own));
    assert_eq!(kept.schema_at(own), Some(&json!({"type": "string"})));
    let task = read(&respond("#/components/schemas/A"));
    assert_eq!(task.schema_at(own), None);
    assert_eq!(task.schema_at("#/info/title"), Some(&json!("Test")));
}

#[test]
fn references_may_form_schema_cycles() {
    let schema =
        json!({"type": "object", "properties": {"next": {"$ref": "#/components/schemas/A"}}});
    let mut task = specification(
        "/a",
        "post",
        json!({
            "requestBody": {"$ref": "#/components/requestBodies/B"},
            "responses": {"200": {"$ref": "#/components/responses/R"}},
        }),
    );
    task["components"] = json!({
        "schemas": {"A": schema, "B": {"$ref": "#/components/schemas/B"}},
        "requestBodies": {"B": {"content": {"multipart/form-data": {
            "schema": {"$ref": "#/components/schemas/A"},
        }}}},
        "responses": {"R": {"description": "D", "content": {"application/json": {
            "schema": {"$ref": "#/paths/~1a/post/x-schemas/0"},
        }}}},
    });
    task["paths"]["/a"]["post"]["x-schemas"] = json!([schema]);
    let task = read(&task);
    let [(status, response)] = &task.responses[..] else { panic!() };
    assert_eq!(status, "200");
    let reference = &response["content"]["application/json"]["schema"];
    let target = task.schema_at(reference["$ref"].as_str().unwrap());
    assert_eq!(target, Some(&schema));
    assert_eq!(task.schema_at("#/components/schemas/A"), Some(&schema));
    assert_eq!(task.schema_at("#/components/schemas/%41"), Some(&schema));
    assert_eq!(task.schema_at("#/components"), Some(&*task.components));
    let own = json!({"$ref": "#/components/schemas/B"});
    assert_eq!(task.schema_at("#/components/schemas/B"), Some(&own));
    for nowhere in ["#/components/schemas/C", "A", "other.json#/A", "#/componentsA", "#A", ""] {
        assert_eq!(task.schema_at(nowhere), None, "{nowhere}");
    }
}

#[test]
fn a_task_that_grows_by_references_is_refused() {
    let words: Vec<_> = (0..2000).map(|number| format!("word {number}")).collect();
    let response = json!({"$ref": "#/components/responses/R"});
    let responses: serde_json::Map<_, _> =
        (100..600).map(|status| (status.to_string(), response.clone())).collect();
    let mut task = get(json!({"responses": responses}));
    task["components"] = json!({"responses": {"R": {"description": "D", "x-words": words}}});
    let (_, diagnostics) = read_with_remarks(&task);
    assert_eq!(diagnostics.len(), 1);
    assert_eq!(diagnostics[0].code, "A2S004");
    assert_eq!(diagnostics[0].message, "the task is too large with the content of its `$ref`s");
}

#[test]
fn server_variables_are_replaced_once_by_their_defaults() {
    let mut task = get(json!({}));
    task["servers"] = json!([
        {
            "url": "https://{host}{base}/{version}",
            "variables": {
                "host": {"default": "api.example"},
                "base": {"default": "/x"},
                "version": {"default": "v1", "enum": ["v1", "v2"]},
                "unused": {"default": "u"},
            },
        },
        {"url": "https://other.example"},
    ]);
    assert_eq!(read(&task).server.as_str(), "https://api.example/x/v1");
    let server = |url: &str, variables: Value| {
        let mut task = task.clone();
        task["servers"] = json!([{"url": url, "variables": variables}]);
        task
    };
    let address = "https://api.example/{v}";
    check_refused(
        &server(address, json!({})),
        "the server's address has `{v}`, but no variable `v`",
        ".servers[0].url",
    );
    check_refused(
        &server(address, json!({"v": {"enum": ["a"]}})),
        "the server variable `v` has no `default`",
        ".servers[0].variables.v",
    );
    check_refused(
        &server(address, json!({"v": {"default": 1}})),
        "the default of the server variable `v` is a number; a string is required here",
        ".servers[0].variables.v.default",
    );
    // What a default holds is no variable again.
    let twice =
        server("https://api.example/{a}", json!({"a": {"default": "{b}"}, "b": {"default": ""}}));
    assert_eq!(read(&twice).server.as_str(), "https://api.example/%7Bb%7D");
    let long = json!({"v": {"default": "x".repeat(1000)}});
    let many = format!("https://api.example/{}", "{v}".repeat(600));
    check_refused(
        &server(&many, long),
        "the server's address has more than 2048 bytes",
        ".servers[0].url",
    );
    let stray = server(address, json!({"v": {"default": "c", "enum": ["a", "b"]}}));
    let message = "the default `c` of the server variable `v` is not in its `enum`";
    check_warned(&stray, message, ".servers[0].variables.v.default");
    let mut stray = stray;
    stray["openapi"] = json!("3.1.0");
    check_refused(&stray, message, ".servers[0].variables.v.default");
}

#[test]
fn the_nearest_server_counts_and_an_empty_list_is_none() {
    let mut task = get(json!({"servers": [{"url": "https://api.example/operation"}]}));
    task["paths"]["/a"]["servers"] = json!([{"url": "https://api.example/path"}]);
    assert_eq!(read(&task).server.path(), "/operation");
    task["paths"]["/a"]["get"]["servers"] = json!([]);
    assert_eq!(read(&task).server.path(), "/path");
    task["paths"]["/a"]["servers"] = json!([]);
    assert_eq!(read(&task).server.path(), "/v1");
    task["servers"] = json!([]);
    check_refused(&task, "the specification has no `servers`", "");
}

#[test]
fn path_template_names_may_share_or_repeat() {
    let path = "/x/{a}.{b}/%7Bc%7D/{a}";
    let parameter = |name: &str| json!({"name": name, "in": "path", "required": true});
    let task = specification(path, "get", json!({"parameters": [parameter("a"), parameter("b")]}));
    assert_eq!(read(&task).path, path);
    for path in ["/x/../y", "/x/%2e%2E", "/./x"] {
        let task = specification(path, "get", json!({}));
        check_refused(&task, "the path has a segment `.` or `..`", &format!(".paths[{path:?}]"));
    }
}

#[test]
fn extension_fields_of_any_kind_are_ignored() {
    let mut task = get(json!({
        "x-a": 1, "parameters": [{"name": "q", "in": "query", "x-b": {}}],
        "responses": {"200": {"description": "", "x-c": 1}, "x-d": {"a": 1}},
        "requestBody": {"x-e": 1, "content": {"application/json": {"x-f": 1, "schema": {"x-g": 1}}}},
    }));
    task["x-h"] = json!({"$ref": "#/nowhere"});
    task["paths"]["x-i"] = json!({"get": 1});
    task["paths"]["/a"]["x-j"] = json!(1);
    task["servers"][0]["x-k"] = json!(1);
    task["info"]["x-l"] = json!(1);
    let task = read(&task);
    assert_eq!(task.responses.len(), 1);
    assert_eq!(task.body.unwrap().schema, json!({"x-g": 1}));
}

#[test]
fn a_document_chooses_the_server_and_its_variables() {
    let with = |choice: Value| {
        let mut task = get(json!({}));
        task["servers"] = json!([
            {"url": "https://api.example/v1"},
            {
                "url": "https://api.example/{region}/{version}",
                "variables": {
                    "region": {"default": "us", "enum": ["us", "eu"]},
                    "version": {"default": "v1"},
                },
            },
        ]);
        task["x-a2s-server"] = choice;
        task
    };
    let url = "https://api.example/{region}/{version}";
    let eu = with(json!({"url": url, "variables": {"region": "eu"}}));
    assert_eq!(read(&eu).server.as_str(), "https://api.example/eu/v1");
    assert_eq!(read(&with(json!({"url": url}))).server.as_str(), "https://api.example/us/v1");
    check_refused(
        &with(json!({"url": url, "variables": {"region": "evil.example/"}})),
        "the server variable `region` does not accept this value",
        ".x-a2s-server.variables.region",
    );
    check_refused(
        &with(json!({"variables": {"region": "eu"}})),
        "the server has no variable `region`",
        ".x-a2s-server.variables.region",
    );
    check_refused(
        &with(json!({"url": "https://evil.example"})),
        "no server has this address",
        ".x-a2s-server.url",
    );
    check_refused(
        &with(json!({"index": 1})),
        "`x-a2s-server` has no `index`",
        ".x-a2s-server.index",
    );
    // The host that comes of it is held to `domains`.
    let mut elsewhere = with(json!({"variables": {"host": "evil.example"}}));
    elsewhere["servers"] =
        json!([{"url": "https://{host}", "variables": {"host": {"default": "api.example"}}}]);
    check_refused(
        &elsewhere,
        "the task sends requests to `evil.example`, which `domains` does not list",
        ".servers[0].url",
    );
}
