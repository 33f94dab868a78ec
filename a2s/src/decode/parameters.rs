//! Declared inputs.

use serde_json::Value;

use super::header::{MAX_DESCRIPTION, MAX_LIST, short_text};
use crate::diagnostic::{Diagnostic, SourcePosition};
use crate::document::{Parameter, ValueType};
use crate::error_code;
use crate::field_reader::DiagnosticSink;
use crate::field_reader::{DocumentField, ObjectReader};
use crate::template::is_name;

pub(super) fn decode_parameters(
    field: Option<DocumentField<'_>>,
    findings: &mut DiagnosticSink,
) -> Vec<Parameter> {
    let Some(field) = field else { return Vec::new() };
    let items = field.items(findings);
    if items.len() > MAX_LIST {
        let message =
            format!("the list has {} parameters; at most {MAX_LIST} are allowed", items.len());
        findings.error(error_code::BAD_VALUE, field.at_key(), message);
    }
    let mut parameters: Vec<(Parameter, SourcePosition)> = Vec::new();
    for item in items.iter().take(MAX_LIST) {
        let Some(mut fields) = ObjectReader::open(item, "a parameter", findings) else { continue };
        let name = fields.require("name", findings);
        let text = name.as_ref().and_then(|name| name.string(findings));
        let parameter = decode_parameter(text.unwrap_or_default(), &mut fields, findings);
        fields.finish(findings);
        let (Some(name), Some(text)) = (name, text) else { continue };
        let known = parameters.iter().find(|(known, _)| known.name == text);
        if !is_name(text) {
            let message = format!("`{text}` is not a valid name of a variable");
            let hint = "Start with a letter and use only letters, digits, `_` and `-`.";
            findings.error_with_hint(error_code::BAD_NAME, name.at_value(), message, hint);
        } else if let Some((_, first)) = known {
            let message = format!("the parameter `{text}` is declared already");
            let twice = Diagnostic::error(error_code::DUPLICATE_ID, name.at_value(), message);
            findings.diagnostics.push(twice.with_related(*first, "first written here"));
        } else {
            parameters.push((parameter, name.node.position));
        }
    }
    parameters.into_iter().map(|(parameter, _)| parameter).collect()
}

/// Reads the fields of the parameter `name`.
fn decode_parameter(
    name: &str,
    fields: &mut ObjectReader<'_>,
    findings: &mut DiagnosticSink,
) -> Parameter {
    let description = fields.take("description").and_then(|field| short_text(&field, findings));
    let patterns =
        fields.take("patterns").map_or_else(Vec::new, |field| decode_patterns(&field, findings));
    let kind = fields
        .take_since_1_1("type", findings)
        .and_then(|field| field.word("type of parameter", &ValueType::NAMES, findings));
    let required = fields.take_since_1_1("required", findings);
    let default = fields.take_since_1_1("default", findings);
    let choices = fields.take_since_1_1("enum", findings);
    let secret = fields
        .take_since_1_1("secret", findings)
        .and_then(|field| field.boolean(findings))
        .unwrap_or(false);
    let stated = required.as_ref().and_then(|field| field.boolean(findings));
    if let (Some(required), Some(true), Some(default)) = (&required, stated, &default) {
        let message = "a parameter with a default cannot be required";
        let both = Diagnostic::error(error_code::BAD_VALUE, required.at_value(), message)
            .with_hint("Remove `required`, or the default.")
            .with_related(default.key, "the default");
        findings.diagnostics.push(both);
    }
    let mut parameter = Parameter {
        name: name.to_owned(),
        description,
        patterns,
        kind,
        required: stated.unwrap_or_else(|| default.is_none()),
        default: None,
        choices: Vec::new(),
        secret,
    };
    if let Some(field) = choices {
        parameter.choices = decode_choices(&field, kind, findings);
    }
    if let Some(field) = default {
        if secret {
            let message =
                "a secret must not have a default: every reader of the document could read it";
            let hint = "Remove the default; the caller gives the value when the capability runs.";
            findings.error_with_hint(error_code::BAD_VALUE, field.at_key(), message, hint);
        } else {
            parameter.default = Some(decode_default(&field, &parameter, findings));
        }
    }
    parameter
}

fn decode_default(
    field: &DocumentField<'_>,
    parameter: &Parameter,
    findings: &mut DiagnosticSink,
) -> Value {
    let value = field.node.to_value();
    if let Some(reason) = parameter.find_violation(&value) {
        let message = format!("the default is not a valid value: {reason}");
        let hint = "Write a default that is also valid as an input.";
        findings.error_with_hint(error_code::BAD_VALUE, field.at_value(), message, hint);
    }
    value
}

fn decode_choices(
    field: &DocumentField<'_>,
    kind: Option<ValueType>,
    findings: &mut DiagnosticSink,
) -> Vec<Value> {
    let items = field.items(findings);
    let empty = field.node.members().is_none() && items.is_empty();
    if empty || items.len() > MAX_LIST {
        let message = format!("`enum` must have 1 to {MAX_LIST} values");
        let hint = "List the values that the parameter accepts, or remove `enum`.";
        findings.error_with_hint(error_code::BAD_VALUE, field.at_key(), message, hint);
    }
    let mut choices: Vec<Value> = Vec::new();
    for item in items.iter().take(MAX_LIST) {
        let value = item.node.to_value();
        if choices.contains(&value) {
            let message = format!("`{value}` is in the list already");
            let hint = "Remove one of the two.";
            findings.error_with_hint(error_code::DUPLICATE_ID, item.at_value(), message, hint);
        } else if let Some(kind) = kind.filter(|kind| !kind.accepts(&value)) {
            let message = format!("this is not a value of the type `{}`", kind.as_str());
            let hint = "Write values of the parameter's type.";
            findings.error_with_hint(error_code::BAD_VALUE, item.at_value(), message, hint);
        } else {
            choices.push(value);
        }
    }
    choices
}

fn decode_patterns(field: &DocumentField<'_>, findings: &mut DiagnosticSink) -> Vec<String> {
    let mut patterns = Vec::new();
    for item in field.items(findings).into_iter().take(MAX_LIST) {
        let Some(text) = item.string(findings) else { continue };
        if text.matches('*').count() == 1 && text.trim().len() > 1 && text.len() <= MAX_DESCRIPTION
        {
            patterns.push(text.to_owned());
        } else {
            let message = format!("`{text}` is not a pattern");
            let hint = "Write words, and one `*` at the position of the value: \"in *\".";
            findings.error_with_hint(error_code::BAD_VALUE, item.at_value(), message, hint);
        }
    }
    patterns
}
