use std::sync::Arc;

use a2s::StepAction;
use serde_json::{Value, json};

use super::generate_responses;
use crate::request::{TaskContract, read_response};

/// The first made-up answer of an operation that fits what it declares: its body.
fn made(responses_: &Value) -> Option<Value> {
    let document = json!({
        "a2s": "1.1.0", "name": "Made", "description": "up", "domains": ["api.example"],
        "version": "1.0.0", "authors": [{"name": "A"}],
        "execution": {"type": "sequence", "steps": [{
            "id": "a", "format": "OpenAPI",
            "task": {
                "openapi": "3.1.0", "info": {"title": "a", "version": "1"},
                "servers": [{"url": "https://api.example"}],
                "paths": {"/": {"get": {"responses": responses_}}},
                "components": {"schemas": {"Tree": {
                    "type": "object", "required": ["name"],
                    "properties": {"name": {"type": "string"}, "next": {"$ref": "#/components/schemas/Tree"}},
                }, "Endless": {
                    "type": "object", "required": ["next"],
                    "properties": {"next": {"$ref": "#/components/schemas/Endless"}},
                }}},
            },
        }]},
    });
    let compilation = a2s::compile(document.to_string().as_bytes());
    let document = compilation.document.unwrap_or_else(|| panic!("{:?}", compilation.diagnostics));
    let StepAction::Task { task, .. } = &document.capability().execution.children()[0].action
    else {
        panic!()
    };
    let contract = TaskContract::new(Arc::clone(task));
    generate_responses(task, &[]).find_map(|response| {
        let value = read_response(task, &response).ok()?;
        contract.check_response(&response, &value).is_empty().then_some(value)
    })
}

#[test]
fn what_a_description_shows_goes_first_when_it_fits() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "integer", "example": 5}}});
    let content = |media: Value| {
        made(&json!({"200": {"description": "a", "content": {"application/json": media}}})).unwrap()
    };
    assert_eq!(content(json!({"schema": schema, "example": {"a": 3}})), json!({"a": 3}));
    assert_eq!(
        content(json!({"schema": schema, "examples": {"x": {"value": {"a": 4}}}})),
        json!({"a": 4})
    );
    assert_eq!(content(json!({"schema": schema, "example": {"a": "no"}})), json!({"a": 5}));
    let wrong = json!({"type": "integer", "example": "no"});
    assert_eq!(content(json!({"schema": wrong})), json!(1));
}

#[test]
fn mock_answers_first_success_in_richest_media_type() {
    assert_eq!(made(&json!({"204": {"description": "a"}})), Some(Value::Null));
    let text = json!({"404": {"description": "b"}, "201": {"description": "a", "content": {"text/plain": {"schema": {"type": "string", "const": "hi"}}}}});
    assert_eq!(made(&text), Some(json!("hi")));
    let any = json!({"2XX": {"description": "a", "content": {"*/*": {"schema": {"type": "object", "properties": {"a": {"type": "integer"}}}}}}});
    assert_eq!(made(&any), Some(json!({"a": 1})));
}

#[test]
fn schemas_without_end_have_an_end() {
    let tree = |name: &str| {
        made(
            &json!({"200": {"description": "a", "content": {"application/json": {"schema": {"$ref": format!("#/components/schemas/{name}")}}}}}),
        )
    };
    assert_eq!(tree("Tree").unwrap()["next"]["name"], "text".replace("text", "name"));
    // Nothing fits it, and that is found out in time.
    assert_eq!(tree("Endless"), None);
    let wide = json!({"type": "array", "minItems": 1_000_000, "items": {"type": "array", "minItems": 1_000_000, "items": {"type": "integer"}}});
    assert_eq!(
        made(
            &json!({"200": {"description": "a", "content": {"application/json": {"schema": wide}}}})
        ),
        None
    );
}
