//! What a new version may not have, and a published one may.

use a2s::{Compilation, DiagnosticSeverity, compile, compile_to_publish, compile_with_checksum};
use serde_json::{Value, json};

/// A document of a2s 1.1 with a declared input and these steps, and its checksum.
fn document(language: &str, parameters: &Value, condition: &str) -> String {
    let task = json!({
        "openapi": "3.0.3", "info": {"title": "T", "version": "1"},
        "servers": [{"url": "https://api.example"}],
        "paths": {"/": {"get": {"responses": {"200": {"description": "", "content": {"application/json": {
            "schema": {"type": "object", "required": ["events"], "properties": {
                "events": {"type": "array", "items": {"type": "string"}},
                "count": {"type": "integer"},
            }},
        }}}}}}},
    });
    let step = |id: &str| json!({"id": id, "format": "OpenAPI", "task": task});
    let mut first = step("read");
    first["output_mapping"] = json!({"events": "$.events"});
    let mut content = json!({
        "a2s": language, "name": "Test", "description": "A test", "domains": ["api.example"],
        "version": "1.0.0", "authors": [{"name": "A"}], "parameters": parameters,
        "execution": {"type": "sequence", "steps": [first, {
            "id": "decide", "type": "condition", "condition": condition,
            "if_true": {"steps": [step("again")]},
        }]},
    });
    content["checksum"] = json!(a2s::Digest::of_document(&content).unwrap().to_string());
    content.to_string()
}

/// The findings of a code, as `error` or `warning` and message.
fn findings(compilation: &Compilation, code: &str) -> Vec<(bool, String)> {
    let found = compilation.diagnostics.iter().filter(|found| found.code == code);
    found
        .map(|found| (found.severity == DiagnosticSeverity::Error, found.message.clone()))
        .collect()
}

#[test]
fn a_name_that_nothing_declares_is_refused_at_publishing_alone() {
    let declared = json!([{"name": "opens", "type": "integer"}]);
    let text = document("1.1.0", &declared, "${open} > 1 && ${opens} > 0");
    let message =
        "`open` is neither an output of a step nor declared under `parameters`".to_owned();
    let published = compile_to_publish(text.as_bytes());
    assert_eq!(findings(&published, "A2S047"), [(true, message.clone())]);
    let hint = published.diagnostics.iter().find_map(|found| found.hint.clone()).unwrap();
    assert!(hint.starts_with("Did you mean `opens`?"), "{hint}");
    assert_eq!(findings(&compile(text.as_bytes()), "A2S047"), [(false, message)]);
    // What was published before still runs.
    assert!(compile_with_checksum(text.as_bytes()).document.is_some());
    // Free variables are the inputs of a document that declares none, and of a2s 1.0.
    let free = document("1.1.0", &json!([]), "${open} > 1");
    assert_eq!(findings(&compile_to_publish(free.as_bytes()), "A2S047"), []);
    let old = document("1.0.0", &json!([{"name": "limit"}]), "${open} > 1 && ${limit} > 1");
    assert_eq!(findings(&compile_to_publish(old.as_bytes()), "A2S047"), []);
}

#[test]
fn impossible_condition_is_refused_only_at_publishing() {
    let declared =
        json!([{"name": "limit", "type": "integer"}, {"name": "word", "type": "string"}]);
    let check = |condition: &str, refused: bool| {
        // Each parameter is read.
        let condition = format!("({condition}) && (${{limit}} > 0 || ${{word}} != '')");
        let text = document("1.1.0", &declared, &condition);
        let found = findings(&compile_to_publish(text.as_bytes()), "A2S041");
        assert_eq!(found.iter().any(|(is_error, _)| *is_error), refused, "{condition}: {found:?}");
        let warned = findings(&compile(text.as_bytes()), "A2S041");
        assert_eq!(!warned.is_empty() && !warned[0].0, refused, "{condition}: {warned:?}");
        assert!(compile_with_checksum(text.as_bytes()).document.is_some(), "{condition}");
    };
    check("${events}.length > 0", true);
    check("${word} > 3", true);
    check("${limit} + 1", true);
    check("size(${events}) > 0", false);
    check("${events}[0] == 'a'", false);
    check("int(${word}) > 3", false);
    check("${limit} > 1", false);
    check("${events}.exists(e, e.startsWith('a'))", false);
}

#[test]
fn what_is_wrong_elsewhere_hides_what_is_declared() {
    let declared = json!([{"name": "opens", "type": "integer"}]);
    let text = document("1.1.0", &declared, "${open} > 1 && ${opens} > 0");
    let broken = text.replacen("\"description\":\"A test\"", "\"description\":7", 1);
    assert_ne!(broken, text);
    let found = compile_to_publish(broken.as_bytes());
    assert!(found.document.is_none());
    // The name is close to a declared one, so it is remarked on all the same.
    let message = "no step sets `open`, so it becomes an input".to_owned();
    assert_eq!(findings(&found, "A2S047"), [(false, message)]);
}

/// A document whose step posts with an `Idempotency-Key` of this schema, and maps these inputs.
fn keyed_document(schema: &Value, mapping: &Value) -> String {
    let mut content = json!({
        "a2s": "1.1.0", "name": "Test", "description": "A test", "domains": ["api.example"],
        "version": "1.0.0", "authors": [{"name": "A"}], "parameters": [{"name": "order"}],
        "execution": {"type": "sequence", "steps": [{
            "id": "pay", "format": "OpenAPI", "input_mapping": mapping,
            "task": {
                "openapi": "3.0.3", "info": {"title": "T", "version": "1"},
                "servers": [{"url": "https://api.example"}],
                "paths": {"/": {"post": {
                    "parameters": [
                        {"name": "idempotency-key", "in": "header", "schema": schema},
                        {"name": "order", "in": "query", "schema": {"type": "string"}},
                    ],
                    "responses": {"200": {"description": ""}},
                }}},
                "components": {"schemas": {"Key": {"type": "string", "maxLength": 20}}},
            },
        }]},
    });
    content["checksum"] = json!(a2s::Digest::of_document(&content).unwrap().to_string());
    content.to_string()
}

#[test]
fn a_header_that_rejects_made_keys_is_refused() {
    let unmapped = json!({"queryParameters": {"order": "${order}"}});
    for (schema, rule) in [
        (json!({"$ref": "#/components/schemas/Key"}), "maxLength: 20"),
        (json!({"type": "string", "pattern": "^[A-Z0-9]{12}$"}), "pattern: ^[A-Z0-9]{12}$"),
        (json!({"type": "string", "enum": ["first", "second"]}), "enum: [\"first\",\"second\"]"),
    ] {
        let text = keyed_document(&schema, &unmapped);
        let message = format!(
            "the executor makes a key of 36 characters for `headerParameters.idempotency-key`, but the schema of the header rejects it (`{rule}`)"
        );
        let published = compile_to_publish(text.as_bytes());
        assert_eq!(findings(&published, "A2S057"), [(true, message.clone())]);
        let found = published.diagnostics.iter().find(|found| found.code == "A2S057").unwrap();
        let hint = found.hint.as_deref().unwrap();
        assert_eq!(found.path, "execution.steps[0]");
        assert!(hint.starts_with("Map `headerParameters.idempotency-key` in `input_mapping`"));
        assert_eq!(findings(&compile(text.as_bytes()), "A2S057"), [(false, message)]);
        // A version that was published before still runs.
        let old = compile_with_checksum(text.as_bytes());
        assert_eq!((findings(&old, "A2S057"), old.document.is_some()), (Vec::new(), true));
    }
}

#[test]
fn a_header_that_accepts_made_keys_or_is_mapped_is_published() {
    let mapped = json!({"headerParameters": {"Idempotency-Key": "${order}"}});
    let unmapped = json!({"queryParameters": {"order": "${order}"}});
    for (schema, mapping) in [
        (json!({"$ref": "#/components/schemas/Key"}), mapped),
        (json!({"type": "string", "maxLength": 36}), unmapped.clone()),
        (json!({"type": "string", "format": "uuid"}), unmapped),
    ] {
        let published = compile_to_publish(keyed_document(&schema, &mapping).as_bytes());
        assert_eq!(findings(&published, "A2S057"), [], "{schema}");
    }
}
