mod examples;
mod inputs;
mod names;
mod queries;

use serde_json::{Value, json};

use crate::compile;

const NOTHING: [&str; 0] = [];

/// A document of 1.1 with these members; declares no more than it must.
fn with_header(members: &Value) -> Value {
    let mut document = json!({
        "a2s": "1.1.0",
        "name": "Test",
        "description": "A test",
        "domains": ["api.example"],
        "version": "1.0.0",
        "checksum": "<checksum>",
        "authors": [{"name": "A"}],
    });
    for (key, member) in members.as_object().unwrap() {
        document[key] = member.clone();
    }
    document
}

/// The messages about a document with these members.
fn document(members: &Value) -> Vec<String> {
    let compilation = compile(with_header(members).to_string().as_bytes());
    let told = compilation.diagnostics.into_iter().filter(|found| {
        !["A2S030", "A2S045", "A2S049", "A2S048"].contains(&&*found.code) || found.is_error()
    });
    told.map(|found| {
        let severity = if found.is_error() { "error" } else { "warning" };
        format!("{severity} {}: {} ({})", found.code, found.message, found.path)
    })
    .collect()
}

/// A document with one step after another.
fn steps(parameters: &Value, steps: &[Value]) -> Vec<String> {
    document(&json!({
        "parameters": parameters,
        "execution": {"type": "sequence", "steps": steps},
    }))
}

/// `GET /` with a query parameter `x`, and an answer of this schema.
fn get(parameter: &Value, answer: &Value) -> Value {
    json!({
        "openapi": "3.0.3",
        "info": {"title": "Test", "version": "1"},
        "servers": [{"url": "https://api.example"}],
        "paths": {"/": {"get": {
            "parameters": [{"name": "x", "in": "query", "schema": parameter}],
            "responses": {"200": {
                "description": "An answer",
                "content": {"application/json": {"schema": answer}},
            }},
        }}},
        "components": {"schemas": {
            "Node": {"type": "object", "required": ["id"], "properties": {
                "id": {"type": "integer"},
                "next": {"$ref": "#/components/schemas/Node"},
                "more": {"type": "array", "items": {"$ref": "#/components/schemas/Node"}},
            }},
            "Loop": {"$ref": "#/components/schemas/Loop"},
            "Pet": {
                "type": "object",
                "discriminator": {"propertyName": "kind"},
                "properties": {"kind": {"type": "string"}},
            },
            "Cat": {"allOf": [
                {"$ref": "#/components/schemas/Pet"},
                {"type": "object", "properties": {"lives": {"type": "integer"}}},
            ]},
        }},
    })
}

/// `POST /` with a body of this schema.
fn post(body: &Value) -> Value {
    let mut task = get(&json!({}), &json!({}));
    let operation = json!({
        "requestBody": {"required": true, "content": {"application/json": {"schema": body}}},
        "responses": {"200": {"description": "Done"}},
    });
    task["paths"]["/"] = json!({"post": operation});
    task
}
