//! Any value as an OpenAPI task, in a document that is good otherwise.

#![no_main]

use a2s::{compile, parse_value};
use libfuzzer_sys::fuzz_target;
use serde_json::json;

fuzz_target!(|source: &[u8]| {
    let Ok(task) = parse_value(source) else { return };
    let document = json!({
        "a2s": "1.1.0", "name": "Fuzz", "description": "Fuzzes",
        "domains": ["api.example.com", "example.com", "localhost:8080"],
        "version": "1.0.0", "authors": [{"name": "Fuzzer"}],
        "parameters": [{"name": "city", "type": "string"}, {"name": "n", "type": "integer"}],
        "execution": {"type": "sequence", "steps": [{
            "id": "ask", "format": "OpenAPI", "task": task,
            "input_mapping": {
                "pathParameters": {"city": "${city}"}, "queryParameters": {"n": "${n}"},
                "body": {"city": "${city}", "n": ["${n}"]}
            },
            "output_mapping": {
                "one": "$.data[0].id", "all": "$..name", "some": "$.items[?@.id == 1].name",
                "status": {"from": "status"}, "tag": {"from": "header", "path": "etag", "optional": true}
            }
        }]}
    });
    let mut flat = document.clone();
    flat["execution"]["steps"][0]["input_mapping"] = json!({"city": "${city}", "n": "${n}"});
    let mut none = document.clone();
    none["execution"]["steps"][0]["input_mapping"] = json!({});
    none["parameters"] = json!([]);
    for document in [document, flat, none] {
        let compilation = compile(document.to_string().as_bytes());
        let errors = compilation.diagnostics.iter().filter(|diagnostic| diagnostic.is_error());
        assert_eq!(compilation.document.is_none(), errors.count() > 0);
        for diagnostic in &compilation.diagnostics {
            assert!(diagnostic.message.len() < 4_000, "{diagnostic}");
        }
        if let Some(document) = compilation.document {
            let _ = document.interface();
        }
    }
});
