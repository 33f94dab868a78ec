//! Any sentence for inputs with any patterns: what is found is a part of the sentence.
//!
//! The first line is a pattern of each input, the rest is the sentence.

#![no_main]

use a2s::{InputField};
use a2s_intent::{extract_inputs, split_clauses, split_requests};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};

fuzz_target!(|text: &str| {
    let (patterns, sentence) = text.split_once('\n').unwrap_or(("in *", text));
    let schemas = [
        json!({}),
        json!({"type": "string", "pattern": "^[a-z]{1,3}$"}),
        json!({"type": "integer"}),
        json!({"type": ["number", "boolean", "null"]}),
        json!({"enum": ["bar", "Pie Chart", 3, null]}),
        json!({"type": "array", "items": {"type": "string"}}),
        json!({"type": "object"}),
    ];
    let patterns: Vec<&str> = patterns.split('|').collect();
    let fields = schemas.iter().enumerate().map(|(at, schema)| {
        let field = json!({
            "name": format!("input_{at}"), "required": true, "schema": schema,
            "patterns": patterns.get(at..).unwrap_or_default(),
        });
        serde_json::from_value(field).expect("it is a field")
    });
    let fields: Vec<InputField> = fields.collect();
    let found = extract_inputs(sentence, &fields);
    assert!(found.windows(2).all(|pair| pair[0].name < pair[1].name));
    for said in &found {
        assert!(sentence.contains(said.text));
        if let Some(Value::String(value)) = &said.value {
            assert!(value == said.text || said.name == "input_4");
        }
    }
    for part in split_requests(sentence).iter().chain(&split_clauses(sentence)) {
        assert!(sentence.contains(part));
    }
});
