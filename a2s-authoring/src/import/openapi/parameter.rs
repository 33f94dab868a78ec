//! The parameters of an operation.

use a2s::{ValueType, find_key_conflict, names_idempotency_key};
use serde_json::{Map, Value, json};

use super::extract_operation::ExtractError;
use super::operation::SpecOperation;
use crate::import::ImportWarning;
use crate::import::ref_resolver::{RefResolver, quote_for_message, read_flag};
use crate::import::schema::SchemaImporter;
use crate::import::variable::{DocumentParameter, is_secret_name};
use crate::sanitize;

/// The location of a parameter in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::import) enum ParameterIn {
    Path,
    Query,
    Header,
    Cookie,
}

/// A parameter of the task.
#[derive(Debug, Clone)]
pub(in crate::import) struct TaskParameter<'a> {
    /// Its name in the request.
    pub(in crate::import) name: String,
    pub(in crate::import) location: ParameterIn,
    pub(in crate::import) required: bool,
    /// The constant value. The import writes it into the step.
    pub(in crate::import) constant: Option<String>,
    description: Option<&'a str>,
    style: Option<&'a str>,
    explode: Option<bool>,
    allow_reserved: bool,
    shape: ParameterContent<'a>,
}

#[derive(Debug, Clone)]
enum ParameterContent<'a> {
    Schema(&'a Value),
    /// A type, without a schema.
    Kind(ValueType),
    /// A media type, with its schema if it has one.
    Content(&'a str, Option<&'a Value>),
}

/// Headers that identify the caller, describe the message or control its transfer: the request sets its
/// own. A description may not declare the first three (OpenAPI 3.0.3, section 4.7.12.2).
const OWN_HEADERS: [&str; 15] = [
    "accept",
    "content-type",
    "authorization",
    "connection",
    "content-encoding",
    "content-length",
    "cookie",
    "expect",
    "host",
    "keep-alive",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

impl ParameterIn {
    /// Reads the name that descriptions use.
    pub(in crate::import) fn from_name(word: &str) -> Option<Self> {
        [Self::Path, Self::Query, Self::Header, Self::Cookie]
            .into_iter()
            .find(|place| place.as_str() == word)
    }

    /// Returns the name that descriptions use.
    pub(in crate::import) fn as_str(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Query => "query",
            Self::Header => "header",
            Self::Cookie => "cookie",
        }
    }

    /// Returns the field of `input_mapping` for this location.
    pub(in crate::import) fn mapping_group(self) -> &'static str {
        match self {
            Self::Path => "pathParameters",
            Self::Query => "queryParameters",
            Self::Header => "headerParameters",
            Self::Cookie => "cookieParameters",
        }
    }

    fn styles(self) -> &'static [&'static str] {
        match self {
            Self::Path => &["simple", "label", "matrix"],
            Self::Query => &["form", "spaceDelimited", "pipeDelimited", "deepObject"],
            Self::Header => &["simple"],
            Self::Cookie => &["form"],
        }
    }
}

impl<'a> TaskParameter<'a> {
    /// Reads the parameters of path and operation together, those of the operation first.
    pub(super) fn read_all(
        operation: SpecOperation<'a>,
        remarks: &mut Vec<ImportWarning>,
    ) -> Result<Vec<Self>, ExtractError> {
        let mut parameters: Vec<Self> = Vec::new();
        let levels = [
            (operation.raw, operation.location()),
            (operation.item, format!("paths.{}", quote_for_message(operation.path))),
        ];
        for (level, place) in levels {
            let list = level.get("parameters").and_then(Value::as_array);
            for (index, raw) in list.into_iter().flatten().enumerate() {
                let place = format!("{place}.parameters[{index}]");
                let raw = operation.source.resolve(raw);
                let raw = raw.map_err(|error| ExtractError::unresolved(&place, &error))?;
                let Some(parameter) = Self::of(raw, &place, remarks)? else { continue };
                let known = parameters.iter().any(|known| {
                    known.location == parameter.location && known.is_called(&parameter.name)
                });
                if !known {
                    parameters.push(parameter);
                }
            }
        }
        Ok(parameters)
    }

    /// Reads a parameter; `None` for a header that each request sets itself.
    fn of(
        raw: &'a Value,
        at: &str,
        remarks: &mut Vec<ImportWarning>,
    ) -> Result<Option<Self>, ExtractError> {
        let name = raw.get("name").and_then(Value::as_str).unwrap_or_default();
        if name.is_empty() || name.chars().any(char::is_control) {
            return Err(ExtractError::new(at, "the parameter has no name"));
        }
        let place = raw.get("in").and_then(Value::as_str).and_then(ParameterIn::from_name);
        let place = place.ok_or_else(|| {
            let found = raw.get("in").and_then(Value::as_str).unwrap_or_default();
            ExtractError::new(
                at,
                format!(
                    "`in` must be path, query, header or cookie, not `{}`",
                    quote_for_message(found)
                ),
            )
        })?;
        if place == ParameterIn::Header && OWN_HEADERS.contains(&name.to_ascii_lowercase().as_str())
        {
            // A security scheme takes its place, with a remark of its own.
            if !name.eq_ignore_ascii_case("authorization") {
                let reason = format!(
                    "a document must not set the header `{}`: the executor sets it for each request",
                    quote_for_message(name)
                );
                remarks.push(ImportWarning::new(at, reason));
            }
            return Ok(None);
        }
        let style = raw.get("style").and_then(Value::as_str);
        let fitting = style.filter(|style| place.styles().contains(style));
        if let (Some(style), None) = (style, fitting) {
            let reason = format!(
                "a parameter in {} cannot have the style `{}`",
                place.as_str(),
                quote_for_message(style)
            );
            remarks.push(ImportWarning::new(at, reason));
        }
        let [required, explode, allow_reserved] =
            ["required", "explode", "allowReserved"].map(|key| read_flag(raw, key, at, remarks));
        if place == ParameterIn::Path && required != Some(true) {
            remarks.push(ImportWarning::new(at, "a path parameter is always required"));
        }
        let content = raw.get("content").and_then(Value::as_object).and_then(|c| c.iter().next());
        let shape = match (raw.get("schema").filter(|s| s.is_object() || s.is_boolean()), content) {
            (Some(schema), _) => ParameterContent::Schema(schema),
            (None, Some((media, body))) => ParameterContent::Content(media, body.get("schema")),
            (None, None) => {
                // Older descriptions have the type next to the name.
                let named = raw.get("type").and_then(Value::as_str);
                let kind = ValueType::NAMES.iter().find(|(name, _)| Some(*name) == named);
                let kind = kind.map_or(ValueType::String, |(_, kind)| *kind);
                let reason =
                    format!("the parameter has no schema; the import accepts {}", kind.describe());
                remarks.push(ImportWarning::new(at, reason));
                ParameterContent::Kind(kind)
            }
        };
        Ok(Some(Self {
            name: name.to_owned(),
            location: place,
            required: place == ParameterIn::Path || required == Some(true),
            constant: None,
            description: raw.get("description").and_then(Value::as_str),
            style: fitting,
            explode,
            allow_reserved: place == ParameterIn::Query && allow_reserved == Some(true),
            shape,
        }))
    }

    /// Creates a parameter of which only the name is known. Its type is text.
    pub(super) fn text(name: &str, place: ParameterIn, constant: Option<String>) -> Self {
        Self {
            name: name.to_owned(),
            location: place,
            required: true,
            constant,
            description: None,
            style: None,
            explode: None,
            allow_reserved: false,
            shape: ParameterContent::Kind(ValueType::String),
        }
    }

    /// Returns true when it is the header by which a service recognizes a repeated request.
    pub(super) fn is_idempotency_key(&self) -> bool {
        self.location == ParameterIn::Header && names_idempotency_key(&self.name)
    }

    /// Returns the rule of its schema that rejects every idempotency key that the executor makes.
    pub(super) fn key_conflict(&self, source: RefResolver<'_>) -> Option<String> {
        match &self.shape {
            ParameterContent::Schema(schema) | ParameterContent::Content(_, Some(schema)) => {
                find_key_conflict(schema, &|reference| source.follow(reference).ok())
            }
            ParameterContent::Kind(kind) => {
                find_key_conflict(&json!({ "type": kind.as_str() }), &|_| None)
            }
            ParameterContent::Content(_, None) => None,
        }
    }

    /// The same parameter in the query, under a name from the path after `?`.
    pub(super) fn in_query(&self, name: &str) -> Self {
        let (name, place) = (name.to_owned(), ParameterIn::Query);
        Self { name, location: place, required: true, style: None, explode: None, ..self.clone() }
    }

    /// Returns true when a name refers to it: header names are case-insensitive.
    pub(in crate::import) fn is_called(&self, name: &str) -> bool {
        self.name == name
            || (self.location == ParameterIn::Header && self.name.eq_ignore_ascii_case(name))
    }

    /// Creates the parameter of the document that fills it.
    pub(in crate::import) fn variable(
        &self,
        source: RefResolver<'_>,
        name: String,
    ) -> DocumentParameter {
        let mut variable = DocumentParameter::new(name, self.description, self.required);
        variable.secret =
            self.location != ParameterIn::Path && is_secret_name(&self.name, self.description);
        match &self.shape {
            ParameterContent::Schema(schema) | ParameterContent::Content(_, Some(schema)) => {
                variable.with_schema(source, schema)
            }
            ParameterContent::Kind(kind) => DocumentParameter { kind: Some(*kind), ..variable },
            ParameterContent::Content(_, None) => variable,
        }
    }

    /// Builds the parameter in the task.
    pub(super) fn value(&self, schemas: &mut SchemaImporter<'a, '_>) -> Value {
        let mut value = Map::new();
        value.insert("name".to_owned(), json!(self.name));
        value.insert("in".to_owned(), json!(self.location.as_str()));
        if self.required {
            value.insert("required".to_owned(), json!(true));
        }
        if let Some(style) = self.style {
            value.insert("style".to_owned(), json!(style));
        }
        if let Some(explode) = self.explode {
            value.insert("explode".to_owned(), json!(explode));
        }
        if self.allow_reserved {
            value.insert("allowReserved".to_owned(), json!(true));
        }
        let place = format!("parameters.{}", quote_for_message(&self.name));
        match &self.shape {
            ParameterContent::Schema(schema) => {
                value.insert("schema".to_owned(), schemas.import_schema(schema, &place));
            }
            ParameterContent::Kind(kind) => {
                value.insert("schema".to_owned(), json!({ "type": kind.as_str() }));
            }
            ParameterContent::Content(media, schema) => {
                let media = sanitize::clean_line(media, 100);
                let mut content = json!({});
                if let Some(schema) = schema {
                    content["schema"] = schemas.import_schema(schema, &place);
                }
                value.insert("content".to_owned(), json!({ media: content }));
            }
        }
        Value::Object(value)
    }
}
