//! Output mappings: the values that a step takes from its response.

use super::bounded_entries;
use crate::document::{OutputMapping, OutputSource};
use crate::error_code;
use crate::field_reader::{DiagnosticSink, DocumentField, ObjectReader, shorten_for_message};
use crate::query::JsonPathQuery;
use crate::template::is_name;
use crate::tree::NodeValue;

/// The maximum number of names in a dotted output.
const MAX_NAMES: usize = 8;

/// The keywords that name the parts of a response.
#[derive(Clone, Copy)]
enum OutputKeyword {
    Body,
    Header,
    Status,
}

/// Reads `output_mapping`. `has_head` is true for a task: only its response has headers and a status.
pub(super) fn decode_outputs(
    fields: &mut ObjectReader<'_>,
    has_head: bool,
    findings: &mut DiagnosticSink,
) -> Vec<OutputMapping> {
    let Some(mapping) = fields.take("output_mapping") else { return Vec::new() };
    let mut outputs = Vec::new();
    for (name, entry) in bounded_entries(&mapping, findings) {
        let name = decode_output_name(name, &entry, findings);
        let output = match &entry.node.kind {
            NodeValue::Object(_) => decode_output_object(&entry, has_head, findings),
            _ => decode_query(&entry, findings).map(|query| (OutputSource::Body(query), None)),
        };
        if let (Some(name), Some((source, default))) = (name, output) {
            outputs.push(OutputMapping { name, source, default });
        }
    }
    outputs
}

fn decode_output_name(
    name: &str,
    entry: &DocumentField<'_>,
    findings: &mut DiagnosticSink,
) -> Option<Vec<String>> {
    let parts: Vec<String> = name.split('.').map(str::to_owned).collect();
    let named = parts.iter().all(|part| is_name(part)) && parts.len() <= MAX_NAMES;
    if !named {
        let message = format!("`{}` is not a valid name of an output", shorten_for_message(name));
        findings.error(error_code::BAD_OUTPUT_NAME, entry.at_key(), message);
    }
    named.then_some(parts)
}

/// Reads an output in the form of a2s 1.1: `{path, from, optional, default}`.
fn decode_output_object(
    entry: &DocumentField<'_>,
    has_head: bool,
    findings: &mut DiagnosticSink,
) -> Option<(OutputSource, Option<serde_json::Value>)> {
    findings.require_version(entry.at_key(), "an output as a mapping");
    let mut fields = ObjectReader::open(entry, "an output", findings)?;
    let from = fields.take("from");
    let known = [
        ("body", OutputKeyword::Body),
        ("header", OutputKeyword::Header),
        ("status", OutputKeyword::Status),
    ];
    let part = from.as_ref().map_or(Some(OutputKeyword::Body), |field| {
        field.word("part of a response", &known, findings)
    });
    if let (Some(from), Some(OutputKeyword::Header | OutputKeyword::Status), false) =
        (&from, part, has_head)
    {
        let message = "the result of a capability has no headers and no status";
        let hint = "Write `from: body`, or leave `from` out.";
        findings.error_with_hint(error_code::BAD_VALUE, from.at_value(), message, hint);
    }
    let source = match part {
        Some(OutputKeyword::Body) => {
            let path = fields.require("path", findings);
            path.and_then(|path| decode_query(&path, findings)).map(OutputSource::Body)
        }
        Some(OutputKeyword::Header) => {
            let path = fields.require("path", findings);
            path.and_then(|path| decode_header_name(&path, findings)).map(OutputSource::Header)
        }
        Some(OutputKeyword::Status) => {
            fields.explain("path", "Remove it: a response has one status.");
            Some(OutputSource::Status)
        }
        None => {
            fields.take("path");
            None
        }
    };
    let optional = fields.take("optional").and_then(|field| field.boolean(findings));
    let default = fields.take("default").map(|field| field.node.to_value());
    fields.finish(findings);
    let default = default.or_else(|| (optional == Some(true)).then_some(serde_json::Value::Null));
    Some((source?, default))
}

fn decode_header_name(field: &DocumentField<'_>, findings: &mut DiagnosticSink) -> Option<String> {
    let text = field.string(findings)?;
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if text.is_empty() || text.len() > 100 || !text.chars().all(token) {
        let message = format!("`{}` is not a header name", shorten_for_message(text));
        let hint = "Write the header's name, such as `X-Request-Id`.";
        findings.error_with_hint(error_code::BAD_VALUE, field.at_value(), message, hint);
        return None;
    }
    Some(text.to_owned())
}

fn decode_query(field: &DocumentField<'_>, findings: &mut DiagnosticSink) -> Option<JsonPathQuery> {
    let text = field.string(findings)?;
    let message = match JsonPathQuery::parse(text) {
        Ok(query) => return Some(query),
        Err(message) => message,
    };
    let hint = match JsonPathQuery::suggest(text) {
        _ if text.contains("${") => {
            "Start a path into the response with `$.`; use `${…}` only in inputs.".to_owned()
        }
        Some(query) => format!("Did you mean `{}`?", query.source()),
        None => error_code::BAD_QUERY.remedy.to_owned(),
    };
    findings.error_with_hint(error_code::BAD_QUERY, field.at_value(), message, hint);
    None
}
