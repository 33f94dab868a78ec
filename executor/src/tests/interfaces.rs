//! Inputs that are made from the interface of a document alone: those that fit its JSON Schema are
//! never refused for the schema of a request.

use std::path::{Path, PathBuf};

use a2s::{Document, SchemaResolver, StepAction};
use a2s_authoring::{OpenApiOptions, import_openapi, read_description};
use indexmap::IndexMap;
use serde_json::{Map, Value};

use crate::request::test_fixtures::prepare;
use crate::request::{PrepareError, join_violations};
use crate::scope::VariableScope;

/// Requests that were made of inputs from interfaces.
#[derive(Debug, Default)]
struct Tally {
    documents: usize,
    requests: usize,
    /// Requests that the executor would not send, for their schema.
    refused: Vec<String>,
    /// Those that it would not send for another reason.
    others: Vec<String>,
    /// Documents of whose inputs none could be made up.
    unbuilt: Vec<String>,
}

impl Tally {
    /// Prepares the requests of a document with inputs that are made from its interface.
    fn try_document(&mut self, text: &str, label: &str) {
        let document = Document::open(text.as_bytes());
        let document = document.unwrap_or_else(|error| panic!("{label}: {error:?}"));
        self.documents += 1;
        let schema = document.interface().to_json_schema("Test", "A test");
        let schema = &schema["input"];
        let validator = jsonschema::options()
            .with_draft(jsonschema::Draft::Draft202012)
            .should_validate_formats(true)
            .build(schema);
        let validator = validator.unwrap_or_else(|error| panic!("{label}: {error}: {schema}"));
        let mut seen: Vec<Value> = Vec::new();
        for inputs in SchemaResolver::request_samples(schema) {
            if validator.is_valid(&inputs) && !seen.contains(&inputs) {
                self.try_inputs(&document, &inputs, label);
                seen.push(inputs);
            }
        }
        if seen.is_empty() {
            let sample =
                SchemaResolver::request_samples(schema).into_iter().next().unwrap_or_default();
            let errors: Vec<_> =
                validator.iter_errors(&sample).take(2).map(|e| e.to_string()).collect();
            self.unbuilt.push(format!("{label}: {}", errors.join("; ")));
        }
    }

    fn try_inputs(&mut self, document: &Document, inputs: &Value, label: &str) {
        let empty = Map::new();
        let inputs = inputs.as_object().unwrap_or(&empty);
        let mut given = inputs.clone();
        for field in &document.interface().inputs {
            if let Some(default) = &field.default {
                given.entry(field.name.clone()).or_insert_with(|| default.clone());
            }
        }
        let mut scope = VariableScope::from_capability(document.capability(), &given);
        document.capability().for_each_step(|step| {
            if let Some(each) = &step.control.for_each
                && let Ok(Some(Value::Array(items))) = scope.render_optional(&each.items)
                && let Some(first) = items.first()
            {
                scope.set_local(&each.name, first.clone());
            }
            let StepAction::Task { task, inputs, .. } = &step.action else { return };
            let mut filled = IndexMap::new();
            for (place, template) in inputs {
                match template.render_input(place, &scope) {
                    Ok(Some(value)) => _ = filled.insert(place.clone(), value),
                    Ok(None) => {}
                    // It reads the result of another step.
                    Err(_) => return,
                }
            }
            self.requests += 1;
            let place = format!("{label} {}", step.pointer);
            match prepare(task, &filled) {
                Ok(_) => {}
                Err(PrepareError::Violation { place: at, violations }) => {
                    self.refused.push(format!("{place}: {at} {}", join_violations(&violations)));
                }
                Err(PrepareError::Arguments(violations)) => {
                    self.refused.push(format!("{place}: {}", join_violations(&violations)));
                }
                Err(other) => self.others.push(format!("{place}: {other:?}")),
            }
        });
    }

    /// Imports the operations of a description, one of so many, and tries each.
    fn try_description(&mut self, file: &Path, one_of: usize) {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let source = std::fs::read(file).unwrap();
        let description = read_description(&source).unwrap().value;
        let server = Some("https://service.example".parse().unwrap());
        let options = OpenApiOptions { server, ..Default::default() };
        let imported = import_openapi(&description, &options);
        for document in imported.unwrap().documents.iter().step_by(one_of) {
            self.try_document(&document.text, &format!("{name} {}", document.source));
        }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn files_in(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder);
    let entries = entries.unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|found| found == ending));
    files.sort();
    files
}

#[test]
fn shipped_documents_take_what_their_interfaces_show() {
    let mut tally = Tally::default();
    for file in files_in(&root().join("capabilities"), "yaml") {
        let text = std::fs::read_to_string(&file).unwrap();
        tally.try_document(&text, &file.file_stem().unwrap().to_string_lossy());
    }
    assert!(tally.requests >= 40, "{tally:#?}");
    assert_eq!(tally.refused, [""; 0]);
    assert_eq!(tally.others, [""; 0]);
    assert_eq!(tally.unbuilt, [""; 0]);
}

#[test]
fn imported_operations_take_what_their_interfaces_show() {
    let mut tally = Tally::default();
    let fixtures = root().join("tests/fixtures");
    for file in files_in(&fixtures.join("openapi"), "yaml") {
        tally.try_description(&file, 1);
    }
    tally.try_description(&fixtures.join("import/shop.yaml"), 1);
    assert!(tally.documents >= 30, "{tally:#?}");
    assert_eq!(tally.refused, [""; 0]);
    assert_eq!(tally.others, [""; 0]);
    assert_eq!(tally.unbuilt, [""; 0]);
}

/// The same over the descriptions of the data set; `A2S_ONLY=box,figma` takes these alone.
#[test]
fn operations_of_the_data_set_take_what_their_interfaces_show() {
    let Some(data) = std::env::var_os("A2S_TEST_DATA") else {
        eprintln!("skipped: A2S_TEST_DATA names no folder");
        return;
    };
    let only = std::env::var_os("A2S_ONLY");
    let only = only.map(|only| only.to_string_lossy().into_owned());
    let one_of = if only.is_some() { 1 } else { 5 };
    let mut tally = Tally::default();
    let data = root().join(data).join("openapi");
    for file in files_in(&data, "json") {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        if only.as_ref().is_none_or(|only| only.split(',').any(|one| one == name)) {
            tally.try_description(&file, one_of);
        }
    }
    let Tally { documents, requests, refused, others, unbuilt } = &tally;
    println!(
        "{documents} documents, {requests} requests, {} others, {} unbuilt",
        others.len(),
        unbuilt.len()
    );
    println!("{others:#?}\n{unbuilt:#?}");
    assert_eq!(*refused, [""; 0]);
    assert!(*documents > 0);
}
