//! A body as its service reads it: the value that the schema of the media type describes.

use std::borrow::Cow;

use a2s::{BodyField, BodyFormat, FieldType, MediaType, OpenApiTask, RequestBody};
use serde_json::{Map, Value};

use super::binary::{BinaryContent, is_binary};
use crate::request::parameter_style::StyledValue;
use crate::request::schema::WrittenForm;

/// The maximum number of schemas that are visited to find the type of one.
const MAX_SCHEMAS_VISITED: usize = 100;

/// A body that can be checked against its schema.
#[derive(Debug)]
pub(in super::super) struct BodyView<'v> {
    body: &'v RequestBody,
    /// The value as the service reads it: fields without a value are left out, and files are texts with one
    /// character for each byte.
    pub(in super::super) value: Cow<'v, Value>,
}

impl<'v> BodyView<'v> {
    /// The value that a service reads from a body that can be sent. `None` where the schema does not
    /// describe the sent data: text in a structured format, such as XML, and bytes of a media type of their
    /// own.
    pub(in super::super) fn from_body(
        task: &OpenApiTask,
        body: &'v RequestBody,
        value: &'v Value,
    ) -> Option<Self> {
        let value = match (body.format, value) {
            (BodyFormat::Json, value) => Cow::Borrowed(value),
            (BodyFormat::Form | BodyFormat::Multipart, Value::Object(fields)) => {
                Cow::Owned(Value::Object(view_fields(body, fields)))
            }
            (BodyFormat::Form | BodyFormat::Multipart, _) => return None,
            (BodyFormat::Other, Value::String(_)) if !body.media_type.is_range() => {
                view_text(task, body, Cow::Owned(view_file(value)?))?
            }
            (BodyFormat::Text | BodyFormat::Other, Value::Object(members))
                if is_binary(members) =>
            {
                view_text(task, body, Cow::Owned(view_file(value)?))?
            }
            // YAML, or JSON under a range.
            (BodyFormat::Text | BodyFormat::Other, Value::Array(_) | Value::Object(_)) => {
                Cow::Borrowed(value)
            }
            (BodyFormat::Text | BodyFormat::Other, _) => {
                view_text(task, body, Cow::Borrowed(value))?
            }
        };
        Some(Self { body, value })
    }

    /// The encoding of the part at a location of the value (a JSON pointer).
    pub(in super::super) fn written_form(&self, at: &str) -> WrittenForm {
        match self.body.format {
            BodyFormat::Json => WrittenForm::Exact,
            BodyFormat::Text | BodyFormat::Other if at.is_empty() => WrittenForm::Text,
            BodyFormat::Text | BodyFormat::Other => WrittenForm::Exact,
            BodyFormat::Form | BodyFormat::Multipart => self.field_written_form(at),
        }
    }

    fn field_written_form(&self, at: &str) -> WrittenForm {
        let mut names = at.split('/').skip(1);
        let Some(name) = names.next() else { return WrittenForm::Exact };
        let name = name.replace("~1", "/").replace("~0", "~");
        let by_default = BodyField::default();
        let field = self.body.fields.get(&name).unwrap_or(&by_default);
        let is_item = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
        match (names.next(), names.next()) {
            _ if field.style.is_some() => WrittenForm::Text,
            _ if is_sent_as_json(self.body, field) => WrittenForm::Exact,
            (None, _) => WrittenForm::Inline,
            (Some(item), None) if is_item(item) => WrittenForm::Inline,
            // An object without a style is sent as JSON.
            _ => WrittenForm::Exact,
        }
    }
}

fn is_sent_as_json(body: &RequestBody, field: &BodyField) -> bool {
    let sent = match body.format {
        BodyFormat::Multipart => field.content_types.iter().find(|media| !media.is_range()),
        _ => field.content_types.first(),
    };
    sent.is_some_and(MediaType::is_json)
}

/// Returns the fields that are sent, as the service reads them.
fn view_fields(body: &RequestBody, fields: &Map<String, Value>) -> Map<String, Value> {
    let by_default = BodyField::default();
    let seen = fields.iter().filter_map(|(name, value)| {
        let field = body.fields.get(name).unwrap_or(&by_default);
        let value = match value {
            Value::Null => return None,
            value if field.style.is_some() => {
                StyledValue::from_value(value)?;
                without_nulls(value)
            }
            Value::Array(_) if is_sent_as_json(body, field) && body.format == BodyFormat::Form => {
                value.clone()
            }
            Value::Array(items) => {
                let items = items.iter().filter(|item| !item.is_null());
                let items: Vec<Value> = items.map(|item| view_item(body, field, item)).collect();
                if items.is_empty() {
                    return None;
                }
                Value::Array(items)
            }
            value => view_item(body, field, value),
        };
        Some((name.clone(), value))
    });
    seen.collect()
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().filter(|item| !item.is_null()).cloned().collect(),
        Value::Object(members) => {
            let members = members.iter().filter(|(_, member)| !member.is_null());
            members.map(|(name, member)| (name.clone(), member.clone())).collect()
        }
        scalar => scalar.clone(),
    }
}

fn view_item(body: &RequestBody, field: &BodyField, value: &Value) -> Value {
    let holds_binary = matches!(value, Value::Object(members) if is_binary(members));
    let seen = match (body.format, field.kind) {
        (_, FieldType::Json) => None,
        // A form is text: binary content stays Base64.
        (BodyFormat::Form, _) if holds_binary => {
            value.get("base64").or_else(|| value.get("text")).cloned()
        }
        (BodyFormat::Multipart, FieldType::File) if holds_binary || value.is_string() => {
            view_file(value)
        }
        (BodyFormat::Multipart, FieldType::ByValue) if holds_binary => view_file(value),
        _ => None,
    };
    seen.unwrap_or_else(|| value.clone())
}

/// Converts binary content to text with a character for each byte: the length of a file is that of its
/// bytes (OpenAPI 3.1.1, "Working with Binary Data").
fn view_file(value: &Value) -> Option<Value> {
    let bytes = BinaryContent::read(value).ok()?.bytes;
    Some(Value::String(bytes.into_iter().map(char::from).collect()))
}

/// Returns the text when the schema is that of a text, a number or a boolean.
fn view_text<'v>(
    task: &OpenApiTask,
    body: &RequestBody,
    value: Cow<'v, Value>,
) -> Option<Cow<'v, Value>> {
    is_scalar_schema(task, &body.schema).then_some(value)
}

/// Returns true when a schema states that its values are neither arrays nor objects.
fn is_scalar_schema(task: &OpenApiTask, schema: &Value) -> bool {
    let is_scalar = |kind: &Value| kind.as_str().is_some_and(|k| !matches!(k, "array" | "object"));
    let mut waiting = vec![schema];
    for _ in 0..MAX_SCHEMAS_VISITED {
        let Some(schema) = waiting.pop() else { break };
        match schema.get("type") {
            Some(Value::Array(kinds)) => return !kinds.is_empty() && kinds.iter().all(is_scalar),
            Some(kind) => return is_scalar(kind),
            None => {}
        }
        let target = schema.get("$ref").and_then(Value::as_str);
        waiting.extend(target.and_then(|reference| task.schema_at(reference)));
        let parts = schema.get("allOf").and_then(Value::as_array).into_iter().flatten();
        waiting.extend(parts.take(MAX_SCHEMAS_VISITED));
    }
    false
}
