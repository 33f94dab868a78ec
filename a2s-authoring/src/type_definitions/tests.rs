use serde_json::json;

use super::*;

fn capability(inputs: &Value, outputs: &Value) -> TypedCapability {
    let interface = json!({
        "inputs": inputs, "outputs": outputs, "services": [], "complexity": "low", "read_only": true,
    });
    TypedCapability {
        reference: serde_json::from_value(json!({
            "name": "FindTrip", "version": "1.2.0", "checksum": format!("sha256:{}", "0".repeat(64)),
        }))
        .unwrap(),
        description: "Finds a trip */ \"\"\" \\ \n and more".to_owned(),
        interface: serde_json::from_value(interface).unwrap(),
    }
}

fn trip() -> TypedCapability {
    let inputs = json!([
        {"name": "from", "required": true, "description": "Where it begins", "schema": {"type": "string"}},
        {"name": "class", "required": false, "schema": {"enum": ["first", "second"]}},
        {"name": "max-price", "required": false, "schema": {"type": ["number", "null"]}},
    ]);
    let stop = json!({
        "type": "object", "required": ["name"],
        "properties": {"name": {"type": "string", "description": "Its name */"}, "minute": {"type": "integer"}},
    });
    let outputs = json!([
        {"name": "stops", "schema": {"type": "array", "items": stop}},
        {"name": "prices", "schema": {"type": "object", "additionalProperties": {"type": "number"}}},
        {"name": "anything"},
        {"name": "maybe", "schema": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
    ]);
    capability(&inputs, &outputs)
}

#[test]
fn types_in_typescript() {
    insta::assert_snapshot!(write_types(TypeLanguage::TypeScript, &[trip()], ""));
}

#[test]
fn types_in_python() {
    insta::assert_snapshot!(write_types(TypeLanguage::Python, &[trip()], ""));
}

#[test]
fn types_in_go() {
    insta::assert_snapshot!(write_types(TypeLanguage::Go, &[trip()], "trips"));
}

#[test]
fn a_schema_that_never_ends_has_any_type() {
    let endless = json!({"type": "object", "properties": {"next": {"$ref": "#"}}});
    let outputs = json!([{"name": "node", "schema": endless}]);
    let text = write_types(TypeLanguage::TypeScript, &[capability(&json!([]), &outputs)], "");
    assert!(text.contains("unknown"), "{text}");
    assert!(text.len() < 10_000, "{}", text.len());
}
