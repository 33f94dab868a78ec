//! The responses of an operation, and the outputs that a capability takes from them.

use std::collections::BTreeSet;

use a2s::{MediaType, ValueType};
use indexmap::IndexSet;
use serde_json::{Map, Value, json};

use super::operation::SpecOperation;
use crate::import::ref_resolver::{MAX_PARTS, RefResolver, bool_member, quote_for_message};
use crate::import::schema::{SchemaDetail, SchemaImporter};
use crate::import::variable::kind_at;
use crate::import::{ImportWarning, jsonpath};
use crate::{naming, sanitize};

/// The maximum number of properties that become outputs. With more properties, the response is one output.
const MAX_OUTPUTS: usize = 40;
/// The maximum length of a response's description, in characters.
const MAX_DESCRIPTION: usize = 120;
/// The depth to which the parts of combined schemas are searched for properties.
const MAX_COMBINED: usize = 8;

/// A response with its status.
#[derive(Debug, Clone)]
pub(in crate::import) struct OperationResponse<'a> {
    status: String,
    description: String,
    media_type: Option<&'a str>,
    schema: Option<&'a Value>,
}

impl<'a> OperationResponse<'a> {
    /// Reads the single success response, then the error responses.
    pub(super) fn read_all(
        operation: SpecOperation<'a>,
        remarks: &mut Vec<ImportWarning>,
    ) -> Vec<Self> {
        let responses = operation.raw.get("responses").and_then(Value::as_object);
        let mut answers = Vec::new();
        for (status, raw) in responses.into_iter().flatten() {
            let place = format!("{}.responses.{}", operation.location(), quote_for_message(status));
            if status.starts_with("x-") {
                continue;
            }
            let Some(status) = normalize_status(status) else {
                remarks.push(ImportWarning::new(&place, "this is not a response status"));
                continue;
            };
            match operation.source.resolve(raw) {
                Ok(raw) => answers.push(Self::from_value(status, raw)),
                Err(error) => remarks.push(ImportWarning::new(&place, error.to_string())),
            }
        }
        let success = find_success(&answers);
        let is_error =
            |answer: &Self| answer.status.starts_with(['4', '5']) || answer.status == "default";
        let mut kept: Vec<Self> = success.map(|index| answers[index].clone()).into_iter().collect();
        for (index, answer) in answers.into_iter().enumerate() {
            if Some(index) != success && is_error(&answer) {
                kept.push(answer);
            }
        }
        if kept.is_empty() {
            let description = "Not described".to_owned();
            let status = "default".to_owned();
            kept.push(Self { status, description, media_type: None, schema: None });
        }
        kept
    }

    fn from_value(status: String, raw: &'a Value) -> Self {
        let content = raw.get("content").and_then(Value::as_object);
        let media = content.into_iter().flatten().filter(|(media, _)| media.contains('/'));
        let media = media.min_by_key(|(media, _)| (!is_json(media), media.contains('*')));
        let description = raw.get("description").and_then(Value::as_str).unwrap_or_default();
        Self {
            status,
            description: sanitize::clean_line(description, MAX_DESCRIPTION),
            media_type: media.map(|(media, _)| media.as_str()),
            schema: media.and_then(|(_, body)| body.get("schema")),
        }
    }

    /// Builds the response in the task.
    pub(super) fn value(
        &self,
        detail: SchemaDetail,
        schemas: &mut SchemaImporter<'a, '_>,
    ) -> Value {
        let mut value = Map::new();
        value.insert("description".to_owned(), json!(self.description));
        if let Some(media_type) = self.media_type {
            let mut media = json!({});
            let wanted = detail.errors || !self.status.starts_with(['4', '5']);
            if let Some(schema) = self.schema.filter(|_| wanted) {
                let place = format!("responses.{}", self.status);
                media["schema"] = schemas.import_schema(schema, &place);
            }
            let media_type = sanitize::clean_line(media_type, 100);
            value.insert("content".to_owned(), json!({ media_type: media }));
        }
        Value::Object(value)
    }

    /// Returns the status, a range of statuses, or `default`.
    pub(super) fn status(&self) -> &str {
        &self.status
    }

    /// Returns true when there is a body to take values from.
    fn has_body(&self) -> bool {
        self.media_type.is_some()
    }

    /// The outputs that a capability takes from this response of `operation`, by name.
    pub(super) fn outputs(
        &self,
        operation: SpecOperation<'a>,
        taken: &mut naming::UsedNames,
        remarks: &mut Vec<ImportWarning>,
    ) -> Map<String, Value> {
        let mut outputs = Map::new();
        if !self.has_body() || operation.method == "head" {
            let name = taken.reserve_one_of(&["status".to_owned(), "answer_status".to_owned()]);
            outputs.insert(name, json!({ "from": "status" }));
            return outputs;
        }
        let mut properties = self.schema.and_then(|schema| properties(operation.source, schema));
        if let Some(media) = self.media_type.filter(|media| !has_members(media))
            && properties.take().is_some()
        {
            let place = format!("{}.responses.{}", operation.location(), self.status);
            let media = quote_for_message(media);
            let reason =
                format!("a response of `{media}` has no members; the output is the whole response");
            remarks.push(ImportWarning::new(&place, reason));
        }
        let properties = properties.filter(|properties| properties.len() <= MAX_OUTPUTS);
        let Some(properties) = properties else {
            let name = self.name_of_whole(operation);
            outputs.insert(taken.reserve_one_of(&[name, "result".to_owned()]), json!("$"));
            return outputs;
        };
        for (property, required) in properties {
            let Some(query) = jsonpath::of_member(property) else {
                let place = format!(
                    "{}.responses.{}.{}",
                    operation.location(),
                    self.status,
                    quote_for_message(property)
                );
                remarks.push(ImportWarning::new(&place, "a JSONPath cannot express this name"));
                continue;
            };
            let plain = naming::variable_name(property);
            let name = taken.reserve_one_of(&[plain.clone(), format!("result_{plain}")]);
            let value =
                if required { json!(query) } else { json!({ "path": query, "optional": true }) };
            outputs.insert(name, value);
        }
        outputs
    }

    /// Returns true when the body is declared to have this top-level member.
    pub(super) fn has_member(&self, source: RefResolver<'a>, name: &str) -> bool {
        let properties = self.schema.and_then(|schema| properties(source, schema));
        properties.is_some_and(|properties| properties.iter().any(|(known, _)| *known == name))
    }

    /// The type at a pointer into the body; the pointer is given as tokens.
    pub(super) fn kind_at(&self, source: RefResolver<'a>, tokens: &[&str]) -> Option<ValueType> {
        kind_at(source, self.schema?, tokens)
    }

    /// A name for the whole body. A list takes its name from the end of the path.
    fn name_of_whole(&self, operation: SpecOperation<'a>) -> String {
        let schema = self.schema.and_then(|schema| operation.source.resolve(schema).ok());
        let is_list = schema.is_some_and(|schema| schema.get("type").is_some_and(|t| t == "array"));
        if !is_list {
            return "result".to_owned();
        }
        let mut segments = operation.path.rsplit('/');
        let plain = |segment: &&str| !segment.is_empty() && !segment.contains(['{', '?', '.', ':']);
        segments.find(plain).map_or_else(|| "items".to_owned(), naming::variable_name)
    }
}

/// Finds the best success response: a 2xx status with JSON, else a 2xx status, a range or `default`.
fn find_success(answers: &[OperationResponse<'_>]) -> Option<usize> {
    let rank = |answer: &OperationResponse<'_>| {
        let json = answer.media_type.is_some_and(is_json);
        let kind = match answer.status.as_str() {
            "2XX" => 1,
            "default" => 2,
            status if status.starts_with('2') => 0,
            _ => return None,
        };
        let rank = if kind == 2 { (2, false) } else { (0, !json) };
        Some((rank, kind, answer.status.clone()))
    };
    let ranked = answers.iter().enumerate().filter_map(|(index, a)| Some((rank(a)?, index)));
    ranked.min().map(|(_, index)| index)
}

/// Returns the status in the form that documents use; `None` when the text is not a status.
fn normalize_status(status: &str) -> Option<String> {
    if status == "default" {
        return Some(status.to_owned());
    }
    let upper = status.trim().to_ascii_uppercase();
    let class = upper.starts_with(|c: char| ('1'..='5').contains(&c));
    let rest = upper.get(1..)?;
    let range = rest == "XX" || (rest.len() == 2 && rest.bytes().all(|b| b.is_ascii_digit()));
    (class && range).then_some(upper)
}

/// Returns the top-level properties of a response, and whether each is always present. `None` when the
/// response may be something other than an object with these properties.
fn properties<'a>(source: RefResolver<'a>, schema: &'a Value) -> Option<Vec<(&'a str, bool)>> {
    let (mut found, mut required) = (IndexSet::new(), BTreeSet::new());
    gather(source, schema, (0, &mut 0), &mut found, &mut required)?;
    (!found.is_empty())
        .then(|| found.into_iter().map(|name| (name, required.contains(name))).collect())
}

fn gather<'a>(
    source: RefResolver<'a>,
    schema: &'a Value,
    (depth, examined): (usize, &mut usize),
    found: &mut IndexSet<&'a str>,
    required: &mut BTreeSet<&'a str>,
) -> Option<()> {
    let schema = source.resolve(schema).ok()?;
    *examined += 1;
    let is_too_deep = depth > MAX_COMBINED || *examined > MAX_PARTS;
    if is_too_deep || ["oneOf", "anyOf"].iter().any(|key| schema.get(key).is_some()) {
        return None;
    }
    match schema.get("type") {
        None => {}
        Some(Value::String(kind)) if kind == "object" => {}
        Some(_) => return None,
    }
    if bool_member(schema, "nullable") == Some(true) && depth == 0 {
        return None;
    }
    let names = schema.get("required").and_then(Value::as_array);
    required.extend(names.into_iter().flatten().filter_map(Value::as_str));
    let own = schema.get("properties").and_then(Value::as_object);
    for (name, property) in own.into_iter().flatten() {
        let property = source.resolve(property).unwrap_or(property);
        if bool_member(property, "writeOnly") != Some(true) {
            found.insert(name);
        }
    }
    for part in schema.get("allOf").and_then(Value::as_array).into_iter().flatten() {
        gather(source, part, (depth + 1, &mut *examined), found, required)?;
    }
    Some(())
}

/// Returns true when a response of this media type may have members: JSON, a range, or a type that does not
/// identify its content.
fn has_members(media: &str) -> bool {
    let media = MediaType::parse(media);
    media.is_some_and(|media| media.is_json() || media.is_range() || media.is_vague())
}

/// Returns true when a media type is JSON.
pub(super) fn is_json(media: &str) -> bool {
    let name = media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    !name.contains('*')
        && (name == "application/json" || name == "text/json" || name.ends_with("+json"))
}
