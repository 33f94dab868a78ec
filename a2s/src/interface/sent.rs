//! Requirements of request locations in addition to their schemas: any value, a file, a text.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::schema_keywords::write_kinds;
use crate::task::{BodyField, BodyFormat, FieldType, MediaType, RequestBody};
use crate::types::JsonTypes;

/// The pattern of Base64 text.
const BASE64: &str = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$";

/// Restricts a schema to values that are sent. Null is not sent. Where values are written as text
/// (`is_text`), a list or an object without members is not sent either.
pub(super) fn require_value(schema: &mut Value, is_text: bool) {
    let Some(members) = schema.as_object_mut() else { return };
    if let Some(Value::Array(_)) = members.get("type")
        && let Value::Object(typed) = write_kinds(kinds_of(members).without(JsonTypes::NULL))
    {
        members.shift_remove("type");
        members.extend(typed);
    }
    if let Some(Value::Array(values)) = members.get_mut("enum")
        && values.iter().any(|value| !value.is_null())
    {
        values.retain(|value| !value.is_null());
    }
    if let Some(Value::Array(choices)) = members.get_mut("anyOf") {
        choices.retain(|choice| *choice != json!({"type": "null"}));
        if let [only] = choices.as_slice()
            && let Value::Object(only) = only.clone()
        {
            members.shift_remove("anyOf");
            for (key, value) in only {
                members.entry(key).or_insert(value);
            }
        }
    }
    let kinds = members.get("type").map_or(JsonTypes::NONE, |_| kinds_of(members));
    for (kind, key) in [(JsonTypes::ARRAY, "minItems"), (JsonTypes::OBJECT, "minProperties")] {
        let least = members.get(key).and_then(Value::as_u64).unwrap_or(0);
        if is_text && kinds.overlaps(kind) && least == 0 {
            members.insert(key.to_owned(), json!(1));
        }
    }
}

/// Returns the types that the keyword `type` of a written schema names; all types without the keyword.
pub(super) fn kinds_of(members: &Map<String, Value>) -> JsonTypes {
    let named =
        |name: &Value| name.as_str().and_then(JsonTypes::from_name).unwrap_or(JsonTypes::ANY);
    match members.get("type") {
        None => JsonTypes::ANY,
        Some(Value::Array(names)) => names.iter().map(named).fold(JsonTypes::NONE, JsonTypes::or),
        Some(name) => named(name),
    }
}

/// Returns the members that a written schema requires, in all parts of its `allOf`.
pub(super) fn required_names(schema: &Value) -> BTreeSet<&str> {
    let parts = schema.get("allOf").and_then(Value::as_array).into_iter().flatten();
    let own = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    let own = own.filter_map(Value::as_str).collect();
    parts.map(required_names).fold(own, |mut all: BTreeSet<&str>, more| {
        all.extend(more);
        all
    })
}

/// Returns the schema of a field of a form or multipart body, from the schema of its value.
pub(super) fn field_schema(
    mut schema: Value,
    format: BodyFormat,
    field: Option<&BodyField>,
    is_required: bool,
) -> Value {
    let is_file =
        format == BodyFormat::Multipart && field.is_some_and(|field| field.kind == FieldType::File);
    if is_required {
        let has_style = field.is_some_and(|field| field.style.is_some());
        let is_list = schema.as_object().is_some_and(|own| kinds_of(own) == JsonTypes::ARRAY);
        require_value(&mut schema, has_style || is_list);
    }
    if !is_file {
        return schema;
    }
    match schema.get_mut("items") {
        Some(items) => {
            *items = file_schema(items.take());
            schema
        }
        None => file_schema(schema),
    }
}

/// Returns the schema of a complete form or multipart body.
pub(super) fn form_schema(mut schema: Value, body: &RequestBody) -> Value {
    let names: BTreeSet<String> = required_names(&schema).into_iter().map(str::to_owned).collect();
    adapt_fields(&mut schema, body, &names);
    if let Some(members) = schema.as_object_mut() {
        members.insert("type".to_owned(), json!("object"));
    }
    schema
}

fn adapt_fields(schema: &mut Value, body: &RequestBody, required: &BTreeSet<String>) {
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for (name, property) in properties {
            let field = body.fields.get(name);
            let is_required = required.contains(name);
            *property = field_schema(property.take(), body.format, field, is_required);
        }
    }
    if let Some(Value::Array(parts)) = schema.get_mut("allOf") {
        parts.iter_mut().for_each(|part| adapt_fields(part, body, required));
    }
}

/// The schema of a body that is sent as text or bytes, from the schema of its content.
pub(super) fn content_schema(schema: Value, body: &RequestBody) -> Value {
    let kinds = schema.as_object().map_or(JsonTypes::ANY, kinds_of);
    let is_scalar = JsonTypes::SCALAR.contains(kinds);
    let is_yaml = MediaType::essence(&body.media_type).ends_with("yaml");
    match body.format {
        BodyFormat::Text if is_scalar || is_yaml => schema,
        BodyFormat::Text => json!({"type": "string"}),
        _ if body.media_type.is_range() => schema,
        _ => {
            file_schema(if kinds == JsonTypes::STRING { schema } else { json!({"type": "string"}) })
        }
    }
}

/// The schema of binary content: the text of a file, or its bytes as Base64. A `content_type` next to them
/// must be one that the service declares, and is rarely needed.
fn file_schema(text: Value) -> Value {
    let mut about = Map::new();
    let mut text = text;
    if let Some(description) = text.as_object_mut().and_then(|own| own.shift_remove("description"))
    {
        about.insert("description".to_owned(), description);
    }
    let text = if text == json!({}) { json!({"type": "string"}) } else { text };
    let bytes = json!({
        "type": "object",
        "properties": {
            "base64": {"type": "string", "contentEncoding": "base64", "pattern": BASE64},
            "filename": {"type": "string"},
        },
        "required": ["base64"],
    });
    about.insert("anyOf".to_owned(), json!([text, bytes]));
    Value::Object(about)
}
