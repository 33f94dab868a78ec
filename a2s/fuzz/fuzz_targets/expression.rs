//! Any text as a condition, a query and a template: read or refused, evaluated or not, never a
//! panic; and what was read reads the same when it is written.

#![no_main]

use std::sync::LazyLock;

use a2s::{Condition, JsonPathQuery, compile};
use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value, json};

static VARIABLES: LazyLock<Value> = LazyLock::new(|| {
    json!({
        "a": 1, "b": -2.5, "c": "text", "d": true, "e": null, "f": "é\u{1F600}",
        "g": [1, 2, [3, {"a": 4}]], "h": {"a": {"b": [5]}, "b": [], "x y": 6, "": 7},
        "i": 9_007_199_254_740_991_i64, "j": i64::MIN, "k": u64::MAX, "l": 1e300, "m": [[], {}, ""]
    })
});

fuzz_target!(|text: &str| {
    let variables = VARIABLES.as_object().expect("it is one");
    condition(text, variables);
    query(text);
    template(text, variables);
});

fn condition(text: &str, variables: &Map<String, Value>) {
    let Ok(condition) = Condition::parse(text) else { return };
    let again = Condition::parse(condition.source()).expect("it was read before");
    assert_eq!(again.references(), condition.references());
    for reference in condition.references() {
        let written = format!("${{{reference}}}");
        let read = Condition::parse(&written).expect("it was read before");
        assert_eq!(read.references(), std::slice::from_ref(reference));
    }
    let outcome = condition.evaluate(variables);
    assert_eq!(again.evaluate(variables), outcome);
    if let Err(error) = outcome {
        assert!(error.to_string().len() < text.len() + 1_000, "{error}");
    }
}

fn query(text: &str) {
    let Ok(query) = JsonPathQuery::parse(text) else { return };
    let again = JsonPathQuery::parse(query.source()).expect("it was read before");
    assert_eq!(again.is_singular(), query.is_singular());
    let selected = query.evaluate(&VARIABLES);
    assert_eq!(again.evaluate(&VARIABLES), selected);
    if let Ok(selected) = selected {
        assert!(query.is_singular() || selected.is_array());
    }
}

fn template(text: &str, variables: &Map<String, Value>) {
    let document = json!({
        "a2s": "1.0.0", "name": "Fuzz", "description": "Fuzzes", "domains": ["api.example.com"],
        "version": "1.0.0", "authors": [{"name": "Fuzzer"}], "output": {"text": text},
        "execution": {"type": "sequence", "steps": [
            {"id": "ask", "format": "GraphQL", "output_mapping": {"given": "$.data"},
             "task": {"endpoint": "https://api.example.com/", "query": "{ x }"}}
        ]}
    });
    let compilation = compile(document.to_string().as_bytes());
    let Some(document) = compilation.document else {
        assert!(compilation.diagnostics.iter().any(|diagnostic| diagnostic.is_error()));
        return;
    };
    let template = document.capability().output.as_ref().expect("it was written");
    let rendered = template.render(variables);
    let preview = template.preview(variables);
    if let Ok(rendered) = rendered {
        assert_eq!(rendered, preview, "with every value known a preview is the value");
    }
    for reference in template.references() {
        assert!(text.contains(reference.variable()));
    }
}
