//! Documents of tests.

use serde_json::{Value, json};

/// Returns a document as JSON with its checksum. `members` are its execution and all other members that
/// the test is about; they replace those of the usual header.
///
/// # Panics
/// Panics when the document has errors.
#[must_use]
#[track_caller]
pub fn fixture_document(name: &str, members: &Value) -> String {
    let mut document = json!({
        "a2s": "1.0.0",
        "name": name,
        "description": format!("{name} for tests"),
        "domains": ["api.example"],
        "version": "1.0.0",
        "checksum": "<checksum>",
        "authors": [{"name": "Test"}],
    });
    document.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    let draft = document.to_string();
    let diagnostics = a2s::compile(draft.as_bytes()).diagnostics;
    let errors: Vec<_> = diagnostics.iter().filter(|found| found.is_error()).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    fill_checksum(&draft)
}

/// Returns an OpenAPI step: `call` is a method and a path, whose parameters and body take `inputs`.
#[must_use]
#[expect(clippy::needless_pass_by_value, reason = "callers pass literals")]
pub fn http_step(host: &str, id: &str, call: &str, inputs: Value, outputs: Value) -> Value {
    let (method, path) = call.split_once(' ').unwrap();
    let names = path.split('{').skip(1).map(|part| part.split('}').next().unwrap());
    let parameters: Vec<_> = names
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}))
        .collect();
    let mut operation =
        json!({"parameters": parameters, "responses": {"200": {"description": "Good"}}});
    if inputs.get("body").is_some() {
        operation["requestBody"] = json!({"content": {"application/json": {"schema": {}}}});
    }
    json!({
        "id": id,
        "format": "OpenAPI",
        "task": {
            "openapi": "3.0.1",
            "info": {"title": "Test", "version": "1.0.0"},
            "servers": [{"url": format!("https://{host}")}],
            "paths": {path: {method.to_lowercase(): operation}},
        },
        "input_mapping": inputs,
        "output_mapping": outputs,
    })
}

/// Puts the checksum of a draft where it has `<checksum>` or `<sha256>`.
///
/// # Panics
/// Panics when the draft is not a document, and so has no checksum.
#[must_use]
#[track_caller]
pub fn fill_checksum(draft: &str) -> String {
    let compilation = a2s::compile(draft.as_bytes());
    let Some(checksum) = compilation.digest else {
        panic!("{draft}\n{:?}", compilation.diagnostics)
    };
    let checksum = checksum.to_string();
    draft.replace("<checksum>", &checksum).replace("<sha256>", &checksum)
}
