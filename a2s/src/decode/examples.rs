//! Examples: runs that demonstrate a capability.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::header::short_text;
use crate::document::{CapabilityExample, ExampleResponse, StepPath};
use crate::error_code;
use crate::field_reader::DiagnosticSink;
use crate::field_reader::{DocumentField, ObjectReader, shorten_for_message};

/// The maximum number of examples of a document.
const MAX_EXAMPLES: usize = 50;

pub(super) fn decode_examples(
    field: Option<DocumentField<'_>>,
    findings: &mut DiagnosticSink,
) -> Vec<CapabilityExample> {
    let Some(field) = field else { return Vec::new() };
    let items = field.items(findings);
    if items.len() > MAX_EXAMPLES {
        let message =
            format!("the list has {} examples; at most {MAX_EXAMPLES} are allowed", items.len());
        findings.error(error_code::BAD_VALUE, field.at_key(), message);
    }
    // One that cannot be read has a substitute, so that the place of each is its index.
    items.iter().take(MAX_EXAMPLES).map(|item| decode_example(item, findings)).collect()
}

fn decode_example(item: &DocumentField<'_>, findings: &mut DiagnosticSink) -> CapabilityExample {
    let mut example = CapabilityExample {
        title: None,
        intent: None,
        inputs: Map::new(),
        answers: BTreeMap::new(),
        output: None,
    };
    let Some(mut fields) = ObjectReader::open(item, "an example", findings) else { return example };
    example.title = fields.take("title").and_then(|field| short_text(&field, findings));
    example.intent = fields.take("intent").and_then(|field| short_text(&field, findings));
    if let Some(inputs) = fields.take("inputs") {
        let entries = inputs.entries(findings).into_iter();
        example.inputs = entries.map(|(name, e)| (name.to_owned(), e.node.to_value())).collect();
    }
    let answers = fields.take("answers");
    for (step, entry) in answers.map_or_else(Vec::new, |answers| answers.entries(findings)) {
        let path = match StepPath::new(step) {
            Ok(path) => path,
            Err(reason) => {
                let message =
                    format!("`{}` is not the path of a step: {reason}", shorten_for_message(step));
                findings.error(error_code::BAD_EXAMPLE, entry.at_key(), message);
                continue;
            }
        };
        if let Some(answer) = decode_answer(&entry, findings) {
            example.answers.insert(path, answer);
        }
    }
    example.output = fields.take("output").map(|field| field.node.to_value());
    fields.finish(findings);
    example
}

fn decode_answer(
    entry: &DocumentField<'_>,
    findings: &mut DiagnosticSink,
) -> Option<ExampleResponse> {
    let mut fields = ObjectReader::open(entry, "an answer", findings)?;
    let status = fields.take("status");
    let status = status.and_then(|field| field.integer("an HTTP status", 200..=599, findings));
    let mut headers = BTreeMap::new();
    let written = fields.take("headers");
    for (name, value) in written.map_or_else(Vec::new, |field| field.entries(findings)) {
        if let Some(text) = value.string(findings) {
            headers.insert(name.to_owned(), text.to_owned());
        }
    }
    let body = fields.take("body").map_or(Value::Null, |field| field.node.to_value());
    fields.finish(findings);
    Some(ExampleResponse {
        status: status.and_then(|s| u16::try_from(s).ok()).unwrap_or(200),
        headers,
        body,
    })
}
