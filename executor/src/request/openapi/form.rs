//! `application/x-www-form-urlencoded` bodies.

use a2s::{BodyField, FieldType, RequestBody};
use serde_json::{Map, Value};

use super::binary::is_binary;
use super::body::refused_field;
use crate::request::PrepareError;
use crate::request::parameter_style::{self, EscapeMode, Reason, encode, plain_text};

/// Writes an object as the fields of a form, in the order that the task states. Null fields are left out.
pub(super) fn write(
    declared: &RequestBody,
    fields: &Map<String, Value>,
) -> Result<String, PrepareError> {
    let by_default = BodyField::default();
    let mut pairs = Vec::new();
    for (name, value) in declared.order_fields(fields) {
        let field = declared.fields.get(name).unwrap_or(&by_default);
        let written = write_field(name, value, field);
        pairs.extend(written.map_err(|reason| refused_field(declared, name, reason))?);
    }
    let pairs: Vec<_> = pairs.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
    // All that is left of a space by now is `%20`; forms write it so.
    Ok(pairs.join("&").replace("%20", "+"))
}

fn write_field(
    name: &str,
    value: &Value,
    field: &BodyField,
) -> Result<Vec<(String, String)>, Reason> {
    if let Some(style) = field.style {
        return parameter_style::write_query(name, value, style, EscapeMode::from_style(style));
    }
    let named = encode(name);
    let pair = |text: String| (named.clone(), encode(&text));
    Ok(match value {
        Value::Null => Vec::new(),
        _ if field.content_types.first().is_some_and(|media| media.is_json()) => {
            vec![pair(value.to_string())]
        }
        Value::Array(items) => {
            let items = items.iter().filter(|item| !item.is_null());
            let pairs: Result<Vec<_>, Reason> =
                items.map(|item| text(item, field).map(pair)).collect();
            pairs?
        }
        value => vec![pair(text(value, field)?)],
    })
}

/// Returns the text of one value: unchanged, or as JSON. Binary content stays Base64, because a form is
/// text.
fn text(value: &Value, field: &BodyField) -> Result<String, Reason> {
    match value {
        Value::Object(members) if field.kind != FieldType::Json && is_binary(members) => {
            let content = members.get("base64").or_else(|| members.get("text"));
            content.and_then(Value::as_str).map(str::to_owned).ok_or("its content is not a string")
        }
        value => Ok(plain_text(value)),
    }
}
