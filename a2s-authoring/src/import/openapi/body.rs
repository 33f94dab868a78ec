//! The request body of an operation.

use std::collections::BTreeSet;

use a2s::{BodyFormat, MediaType, ValueType};
use indexmap::{IndexMap, IndexSet};
use serde_json::{Map, Value, json};

use super::extract_operation::ExtractError;
use super::operation::SpecOperation;
use super::response::is_json;
use crate::import::ImportWarning;
use crate::import::ref_resolver::{
    MAX_PARTS, RefResolver, bool_member, quote_for_message, read_flag,
};
use crate::import::schema::SchemaImporter;
use crate::import::variable::{DocumentParameter, is_secret_name};
use crate::naming;

/// The maximum number of properties that become parameters. With more properties, the body is one
/// parameter.
const MAX_PROPERTIES: usize = 30;
/// The depth to which the parts of combined schemas are searched for properties.
const MAX_COMBINED: usize = 8;

/// A request body of one media type.
#[derive(Debug, Clone)]
pub(in crate::import) struct OperationBody<'a> {
    required: bool,
    description: Option<&'a str>,
    media_type: String,
    schema: Option<&'a Value>,
    encoding: Option<&'a Value>,
}

/// A top-level property of a body.
struct BodyProperty<'a> {
    name: &'a str,
    schema: &'a Value,
    required: bool,
}

impl<'a> OperationBody<'a> {
    pub(super) fn choose_media_type(
        operation: SpecOperation<'a>,
        wanted: Option<&str>,
        remarks: &mut Vec<ImportWarning>,
    ) -> Result<Option<Self>, ExtractError> {
        let Some(raw) = operation.raw.get("requestBody") else { return Ok(None) };
        let place = format!("{}.requestBody", operation.location());
        let raw = operation.source.resolve(raw);
        let raw = raw.map_err(|error| ExtractError::unresolved(&place, &error))?;
        let content = raw.get("content").and_then(Value::as_object);
        let kinds = content.into_iter().flatten().filter(|(media, _)| media.contains('/'));
        let rank = |media: &str| (Some(media) != wanted, media_type_rank(media));
        let Some((media, kind)) = kinds.min_by_key(|(media, _)| rank(media)) else {
            remarks.push(ImportWarning::new(
                &place,
                "the body has no media type; the import drops it",
            ));
            return Ok(None);
        };
        let others = content.map_or(0, |content| content.len().saturating_sub(1));
        if others > 0 && media_type_rank(media) > 1 && wanted.is_none() {
            let reason = format!(
                "the body has {} media types; the task sends `{}`",
                others + 1,
                quote_for_message(media)
            );
            remarks.push(ImportWarning::new(&place, reason));
        }
        let schema = kind.get("schema").filter(|schema| schema.is_object());
        let media_type = if media.contains('*') {
            let reason = format!(
                "`{}` does not fix the media type; the task sends JSON",
                quote_for_message(media)
            );
            remarks.push(ImportWarning::new(&place, reason));
            "application/json".to_owned()
        } else {
            media.trim().to_owned()
        };
        Ok(Some(Self {
            required: read_flag(raw, "required", &place, remarks) == Some(true),
            description: raw.get("description").and_then(Value::as_str),
            media_type,
            schema,
            encoding: kind.get("encoding").filter(|encoding| encoding.is_object()),
        }))
    }

    /// Returns the parameters of the document that fill the body, at most `room`, and the template of the
    /// body.
    pub(in crate::import) fn plan(
        &self,
        source: RefResolver<'a>,
        room: usize,
        taken: &mut naming::UsedNames,
    ) -> (Vec<DocumentParameter>, Value) {
        let most = room.min(MAX_PROPERTIES);
        let properties = self.properties(source).filter(|properties| properties.len() <= most);
        let Some(properties) = properties else {
            let name = taken.reserve_one_of(&["body".to_owned(), "request_body".to_owned()]);
            let mut variable = DocumentParameter::new(name, self.description, self.required);
            if let Some(schema) = self.schema {
                variable = variable.with_schema(source, schema);
            }
            let is_exact = match self.format() {
                Some(BodyFormat::Json) => true,
                // A string, or content with more about it.
                Some(BodyFormat::Text) => variable.kind == Some(ValueType::String),
                Some(BodyFormat::Form | BodyFormat::Multipart | BodyFormat::Other) | None => false,
            };
            if !is_exact {
                variable = variable.without_restrictions();
            }
            let template = variable.template();
            return (vec![variable], template);
        };
        let (mut variables, mut members) = (Vec::new(), Map::new());
        for property in properties {
            let plain = naming::variable_name(property.name);
            let name = taken.reserve_one_of(&[plain.clone(), format!("body_{plain}")]);
            let mut variable = DocumentParameter { name, ..property.variable(source) };
            if self.format() == Some(BodyFormat::Multipart) && property.is_binary(source) {
                variable = variable.without_restrictions();
            }
            members.insert(property.name.to_owned(), variable.template());
            variables.push(variable);
        }
        (variables, Value::Object(members))
    }

    /// Returns the format of its value.
    fn format(&self) -> Option<BodyFormat> {
        MediaType::parse(&self.media_type).as_ref().map(BodyFormat::from_media_type)
    }

    /// Returns the top-level properties; `None` unless the body is surely an object with only these
    /// properties.
    fn properties(&self, source: RefResolver<'a>) -> Option<Vec<BodyProperty<'a>>> {
        let is_form = self.media_type.starts_with("application/x-www-form-urlencoded")
            || self.media_type.starts_with("multipart/");
        if !is_form && !is_json(&self.media_type) {
            return None;
        }
        let mut found = PropertySet::default();
        found.gather(source, self.schema?, 0)?;
        let PropertySet { mut properties, required, read_only, .. } = found;
        for property in properties.values_mut() {
            property.required = required.contains(property.name);
        }
        if properties.is_empty() {
            return None;
        }
        // Some descriptions demand what they do not describe.
        for name in required {
            if !properties.contains_key(name) && !read_only.contains(name) {
                let property = BodyProperty { name, schema: &Value::Null, required: true };
                properties.insert(name, property);
            }
        }
        Some(properties.into_values().collect())
    }

    /// Returns the parameter for a top-level property.
    pub(in crate::import) fn property(
        &self,
        source: RefResolver<'a>,
        name: &str,
    ) -> Option<DocumentParameter> {
        let properties = self.properties(source)?;
        properties.iter().find(|property| property.name == name).map(|p| p.variable(source))
    }

    /// Returns true when the body surely does not accept a property of this name: it lists its members and
    /// forbids others, or the property is only in responses.
    pub(in crate::import) fn forbids(&self, source: RefResolver<'a>, name: &str) -> bool {
        let mut found = PropertySet::default();
        let Some(()) = self.schema.and_then(|schema| found.gather(source, schema, 0)) else {
            return false;
        };
        let is_known = found.properties.contains_key(name);
        !is_known && (found.is_closed || found.read_only.contains(name))
    }

    /// Returns the required top-level properties, each with its parameter.
    pub(in crate::import) fn required(
        &self,
        source: RefResolver<'a>,
    ) -> Vec<(&'a str, DocumentParameter)> {
        let properties = self.properties(source).unwrap_or_default();
        let required = properties.iter().filter(|property| property.required);
        required.map(|property| (property.name, property.variable(source))).collect()
    }

    /// True when a request without it is rejected.
    pub(in crate::import) fn is_required(&self) -> bool {
        self.required
    }

    /// Builds the body in the task.
    pub(super) fn value(&self, schemas: &mut SchemaImporter<'a, '_>) -> Value {
        let mut media = Map::new();
        if let Some(schema) = self.schema {
            media.insert("schema".to_owned(), schemas.import_schema(schema, "requestBody"));
        }
        if let Some(Value::Object(encoding)) = self.encoding {
            let kept = |(name, raw): (&String, &Value)| {
                let keys = ["contentType", "style", "explode", "allowReserved"];
                let kept: Map<String, Value> = keys
                    .into_iter()
                    .filter_map(|key| {
                        let value = match key {
                            "explode" | "allowReserved" => json!(bool_member(raw, key)?),
                            _ => raw.get(key).filter(|value| value.is_string())?.clone(),
                        };
                        Some((key.to_owned(), value))
                    })
                    .collect();
                (!kept.is_empty()).then(|| (name.clone(), Value::Object(kept)))
            };
            let kept: Map<String, Value> = encoding.iter().filter_map(kept).collect();
            if !kept.is_empty() {
                media.insert("encoding".to_owned(), Value::Object(kept));
            }
        }
        let mut body = Map::new();
        if self.required {
            body.insert("required".to_owned(), json!(true));
        }
        body.insert("content".to_owned(), json!({ &self.media_type: media }));
        Value::Object(body)
    }
}

impl BodyProperty<'_> {
    /// Returns true when its value is a file, given as `{base64: …}` or as a string of its characters.
    fn is_binary(&self, source: RefResolver<'_>) -> bool {
        let Ok(schema) = source.resolve(self.schema) else { return false };
        schema.get("format").is_some_and(|format| format == "binary")
            || schema.get("contentMediaType").is_some()
    }

    /// Builds the parameter for this property, without its name.
    fn variable(&self, source: RefResolver<'_>) -> DocumentParameter {
        let mut variable = DocumentParameter::new(String::new(), None, self.required);
        let resolved = source.resolve(self.schema).ok();
        let format = resolved.and_then(|schema| schema.get("format"));
        let is_password = format.is_some_and(|format| format == "password");
        variable.secret = is_password || is_secret_name(self.name, None);
        variable.with_schema(source, self.schema)
    }
}

/// The properties of a schema and of the schemas that it combines.
#[derive(Default)]
struct PropertySet<'a> {
    properties: IndexMap<&'a str, BodyProperty<'a>>,
    required: IndexSet<&'a str>,
    /// The properties that are only in responses.
    read_only: BTreeSet<&'a str>,
    /// True when other properties are forbidden.
    is_closed: bool,
    /// The number of examined schemas.
    parts: usize,
}

impl<'a> PropertySet<'a> {
    /// Collects the properties. `None` when a value may be something other than an object with these
    /// properties.
    fn gather(&mut self, source: RefResolver<'a>, schema: &'a Value, depth: usize) -> Option<()> {
        let schema = source.resolve(schema).ok()?;
        // Rules about several properties together hold for a whole body alone.
        let other = [
            "oneOf",
            "anyOf",
            "not",
            "if",
            "patternProperties",
            "dependentRequired",
            "dependentSchemas",
        ];
        self.parts += 1;
        let is_too_deep = depth > MAX_COMBINED || self.parts > MAX_PARTS;
        if is_too_deep || other.iter().any(|key| schema.get(key).is_some()) {
            return None;
        }
        match schema.get("type") {
            None => {}
            Some(Value::String(kind)) if kind == "object" => {}
            Some(Value::Array(kinds)) if kinds.iter().any(|kind| kind == "object") => {}
            Some(_) => return None,
        }
        self.is_closed |= schema.get("additionalProperties") == Some(&json!(false));
        let names = schema.get("required").and_then(Value::as_array);
        let least = schema.get("minProperties").and_then(Value::as_u64).unwrap_or(0);
        if least > names.map_or(0, |names| names.len() as u64) {
            return None;
        }
        self.required.extend(names.into_iter().flatten().filter_map(Value::as_str));
        let own = schema.get("properties").and_then(Value::as_object);
        for (name, schema) in own.into_iter().flatten() {
            let resolved = source.resolve(schema).unwrap_or(schema);
            if bool_member(resolved, "readOnly") == Some(true) {
                self.read_only.insert(name);
            } else {
                let property = BodyProperty { name, schema, required: false };
                self.properties.entry(name).or_insert(property);
            }
        }
        for part in schema.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            self.gather(source, part, depth + 1)?;
        }
        Some(())
    }
}

/// The preference rank of a media type. The request uses the type with the smallest rank.
fn media_type_rank(media: &str) -> usize {
    let media = media.to_ascii_lowercase();
    let name = media.split(';').next().unwrap_or_default().trim();
    match name {
        "application/json" => 0,
        _ if name.contains('*') => 6,
        _ if is_json(name) => 1,
        "application/x-www-form-urlencoded" => 2,
        "multipart/form-data" => 3,
        "text/plain" => 4,
        _ if name.starts_with("text/") => 5,
        _ => 7,
    }
}
