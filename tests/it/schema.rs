//! The JSON Schema of documents says what the compiler says about their shape.

use serde_json::{Value, json};

use crate::harness::{a2s, assert_page, root};

/// The codes that are about the shape of a document alone, as far as a schema can see it.
const SHAPE: [&str; 2] = ["A2S010", "A2S011"];

fn validator() -> jsonschema::Validator {
    jsonschema::validator_for(&a2s::json_schema()).unwrap()
}

fn fixtures(folder: &str) -> Vec<(String, Vec<u8>)> {
    let folder = root().join(folder);
    let entries = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let documents = entries.filter(|path| path.extension().is_some_and(|e| e == "yaml"));
    documents.map(|path| (path.display().to_string(), std::fs::read(path).unwrap())).collect()
}

#[test]
fn the_committed_schema_is_current() {
    let current = format!("{:#}\n", a2s::json_schema());
    assert_page("docs/capability.schema.json", &current);
}

#[test]
fn the_command_prints_the_schema() {
    let printed = a2s(&["schema"]).exits(0).stdout;
    assert_eq!(serde_json::from_str::<Value>(&printed).unwrap(), a2s::json_schema());
    assert!(printed.lines().count() > 100);
    assert_eq!(a2s(&["schema", "--json"]).exits(0).one(), a2s::json_schema());
}

#[test]
fn what_compiles_fits_the_schema() {
    let validator = validator();
    let documents = fixtures("tests/fixtures/documents/valid").into_iter();
    for (file, source) in documents.chain(fixtures("capabilities")) {
        let content = a2s::parse_value(&source).unwrap();
        let errors: Vec<_> = validator.iter_errors(&content).map(|e| e.to_string()).collect();
        assert_eq!(errors, [""; 0], "{file}");
    }
}

#[test]
fn a_missing_or_unknown_field_does_not_fit_the_schema() {
    let validator = validator();
    let mut seen = 0;
    for (file, source) in fixtures("tests/fixtures/documents/invalid") {
        let compilation = a2s::compile(&source);
        let shape = |d: &&a2s::Diagnostic| SHAPE.contains(&d.code.as_str());
        // What is inside a task belongs to other standards.
        let outside = |d: &&a2s::Diagnostic| !d.path.contains("task") && !d.path.contains("defin");
        let mut errors = compilation.diagnostics.iter().filter(|d| d.is_error());
        if !errors.clone().next().is_some_and(|d| shape(&d) && outside(&d))
            || !errors.all(|d| shape(&d))
        {
            continue;
        }
        seen += 1;
        let content = a2s::parse_value(&source).unwrap();
        assert!(!validator.is_valid(&content), "{file}");
    }
    assert!(seen >= 10, "{seen}");
}

/// Every object of the schema, as a path to it in a document that has all of them.
#[test]
fn schema_and_compiler_know_the_same_fields() {
    let document = std::fs::read(root().join("tests/fixtures/documents/valid/Everything.yaml"));
    let content = a2s::parse_value(&document.unwrap()).unwrap();
    let schema = a2s::json_schema();
    let places = [
        ("", vec!["capability"]),
        ("/authors/0", vec!["author"]),
        ("/parameters/0", vec!["parameter"]),
        ("/dependencies/0", vec!["dependency"]),
        ("/examples/0", vec!["example"]),
        ("/examples/0/answers/getWeather", vec!["answer"]),
        ("/execution", vec!["execution", "oneOf", "0"]),
        ("/execution/steps/0", vec!["step", "oneOf", "0"]),
        ("/execution/steps/1", vec!["step", "oneOf", "1"]),
        ("/execution/steps/2", vec!["step", "oneOf", "2"]),
        ("/execution/steps/3", vec!["step", "oneOf", "3"]),
        ("/execution/steps/4", vec!["step", "oneOf", "4"]),
        ("/execution/steps/4/if_true", vec!["branch"]),
        ("/execution/steps/0/retry", vec!["retry"]),
        ("/execution/steps/0/catch", vec!["catch"]),
        ("/execution/steps/2/for_each", vec!["for_each", "anyOf", "2"]),
        ("/execution/steps/0/output_mapping/request", vec!["output", "anyOf", "2"]),
        ("/execution/steps/0/output_mapping/text", vec!["output", "anyOf", "1"]),
    ];
    let unknown = |content: &Value, key: &str| {
        let compilation = a2s::compile(content.to_string().as_bytes());
        let named = format!("has no field `{key}`");
        compilation.diagnostics.iter().any(|d| d.code == "A2S011" && d.message.ends_with(&named))
    };
    for (place, definition) in places {
        let pointer = format!("/$defs/{}", definition.join("/"));
        let properties = schema.pointer(&pointer).and_then(|s| s.get("properties"));
        let properties = properties.unwrap_or_else(|| panic!("{pointer} has no properties"));
        let with = |key: &str| {
            let mut content = content.clone();
            let object = content.pointer_mut(place).and_then(Value::as_object_mut);
            let object = object.unwrap_or_else(|| panic!("the document has nothing at {place}"));
            // Kept when it is there: what else is known may depend on it.
            object.entry(key).or_insert(json!("x"));
            content
        };
        for key in properties.as_object().unwrap().keys() {
            assert!(!unknown(&with(key), key), "{place}: `{key}` is in the schema alone");
        }
        assert!(unknown(&with("zzz"), "zzz"), "{place}");
        assert!(!unknown(&with("x-zzz"), "x-zzz"), "{place}");
        assert!(!validator().is_valid(&with("zzz")), "{place}");
        assert!(validator().is_valid(&with("x-zzz")), "{place}");
    }
}
