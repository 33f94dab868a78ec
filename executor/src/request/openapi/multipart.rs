//! `multipart/…` bodies (RFC 7578, RFC 2046).

use a2s::{BodyField, Digest, FieldType, MediaType, RequestBody};
use serde_json::{Map, Value};

use super::binary::{BinaryContent, is_binary};
use super::body::refused_field;
use crate::request::parameter_style::{self, EscapeMode, Reason, plain_text};
use crate::request::{PrepareError, header_value};

/// The maximum number of parts in a body.
const MAX_PARTS: usize = 1000;

/// A part of a multipart body.
#[derive(Debug, Default)]
struct MultipartPart {
    name: String,
    filename: Option<String>,
    content_type: Option<String>,
    headers: Vec<(String, String)>,
    bytes: Vec<u8>,
}

/// Returns the media type with its boundary, and the body: a part for each field in the order that the task
/// states, and for each item of an array. Null fields and items are left out.
///
/// The boundary contains the digest of all parts, so that the same inputs result in the same bytes. It
/// cannot occur in a part, because that part would have to contain a digest of itself.
pub(super) fn write(
    declared: &RequestBody,
    fields: &Map<String, Value>,
) -> Result<(String, Vec<u8>), PrepareError> {
    let by_default = BodyField::default();
    let mut parts = Vec::new();
    for (name, value) in declared.order_fields(fields) {
        let field = declared.fields.get(name).unwrap_or(&by_default);
        let refused = |reason| refused_field(declared, name, reason);
        parts.extend(write_field(name, value, field).map_err(refused)?);
        if parts.len() > MAX_PARTS {
            return Err(PrepareError::TooLarge { part: "a multipart body", limit: MAX_PARTS });
        }
    }
    let parts: Vec<Vec<u8>> = parts.into_iter().map(MultipartPart::into_bytes).collect();
    let digests: Vec<_> = parts.iter().map(|part| Digest::of_bytes(part).to_hex()).collect();
    let boundary = format!("a2s-{}", &Digest::of_bytes(digests.concat().as_bytes()).to_hex()[..48]);
    let mut body = Vec::new();
    for part in parts {
        body.extend_from_slice(format!("--{boundary}\r\n").as_bytes());
        body.extend_from_slice(&part);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    Ok((format!("{}; boundary={boundary}", without_boundary(&declared.media_type)), body))
}

/// Returns the media type with all its parameters except the boundary: `multipart/related` has others (RFC
/// 2387, section 3).
fn without_boundary(media_type: &MediaType) -> String {
    let mut named = media_type.essence();
    for parameter in media_type.as_str().split(';').skip(1) {
        let name = parameter.split('=').next().unwrap_or_default();
        if !name.trim().eq_ignore_ascii_case("boundary") && !parameter.trim().is_empty() {
            named.extend([";", parameter.trim_end()]);
        }
    }
    named
}

impl MultipartPart {
    fn into_bytes(self) -> Vec<u8> {
        let mut head = format!("Content-Disposition: form-data; name=\"{}\"", quoted(&self.name));
        if let Some(filename) = &self.filename {
            head.extend(["; filename=\"", &quoted(filename), "\""]);
        }
        head.push_str("\r\n");
        if let Some(content_type) = &self.content_type {
            head.extend(["Content-Type: ", content_type, "\r\n"]);
        }
        for (name, value) in &self.headers {
            head.extend([name, ": ", value, "\r\n"]);
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(&self.bytes);
        bytes
    }
}

/// Encodes a name for the inside of quotes, as browsers write it: characters that would end it are
/// percent-encoded. So is `\`, which some readers treat as the beginning of a quoted pair.
fn quoted(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '"' => text.push_str("%22"),
            '\\' => text.push_str("%5C"),
            '\r' => text.push_str("%0D"),
            '\n' => text.push_str("%0A"),
            c if c.is_control() => text.push_str(&parameter_style::encode(&c.to_string())),
            c => text.push(c),
        }
    }
    text
}

fn write_field(name: &str, value: &Value, field: &BodyField) -> Result<Vec<MultipartPart>, Reason> {
    if let Some(style) = field.style {
        let pairs = parameter_style::write_query(name, value, style, EscapeMode::Nothing)?;
        let parts = pairs.into_iter().map(|(name, text)| {
            let headers = write_headers(field, &[])?;
            Ok(MultipartPart {
                name,
                headers,
                bytes: text.into_bytes(),
                ..MultipartPart::default()
            })
        });
        return parts.collect();
    }
    match value {
        Value::Array(items) => {
            let items = items.iter().filter(|item| !item.is_null());
            items.map(|item| write_part(name, item, field)).collect()
        }
        Value::Null => Ok(Vec::new()),
        value => Ok(vec![write_part(name, value, field)?]),
    }
}

fn write_part(name: &str, value: &Value, field: &BodyField) -> Result<MultipartPart, Reason> {
    let is_content = match (field.kind, value) {
        (FieldType::File, _) => true,
        (FieldType::ByValue, Value::Object(members)) => is_binary(members),
        _ => false,
    };
    if is_content {
        return write_content(name, value, field);
    }
    let is_structure = matches!(value, Value::Array(_) | Value::Object(_));
    let mut declared = field.content_types.iter().filter(|media| !media.is_range());
    // Of several types, a structure takes the one that can hold it.
    let json = declared.clone().find(|media| is_structure && media.is_json());
    let declared = json.or_else(|| declared.next());
    let (content_type, bytes) = match (declared, value) {
        (Some(media), value) if media.is_json() => (Some(media.as_str()), value.to_string()),
        // A part without a declared type is text.
        (None, Value::String(_) | Value::Number(_) | Value::Bool(_)) => (None, plain_text(value)),
        (None, value) => (Some("application/json"), value.to_string()),
        (Some(_), Value::Array(_) | Value::Object(_)) => {
            return Err("its media type is not JSON, so it must be a string");
        }
        (Some(media), value) => (Some(media.as_str()), plain_text(value)),
    };
    Ok(MultipartPart {
        name: name.to_owned(),
        filename: None,
        content_type: content_type.map(str::to_owned),
        headers: write_headers(field, &[])?,
        bytes: bytes.into_bytes(),
    })
}

/// Writes a file. Without its own file name it gets the name of its field: services recognize files by
/// their file name.
fn write_content(name: &str, value: &Value, field: &BodyField) -> Result<MultipartPart, Reason> {
    let content = match value {
        Value::Number(_) | Value::Bool(_) => {
            BinaryContent::read(&Value::String(plain_text(value)))?
        }
        value => BinaryContent::read(value)?,
    };
    let headers = write_headers(field, &content.headers)?;
    let content_type = match content.content_type {
        Some(named) => {
            let taken = &field.content_types;
            if !taken.is_empty() && !taken.iter().any(|declared| declared.covers(&named)) {
                return Err("its `content_type` is not one that the field accepts");
            }
            named.as_str().to_owned()
        }
        None => {
            let first = field.content_types.iter().find(|media| !media.is_range());
            first.map_or("application/octet-stream", MediaType::as_str).to_owned()
        }
    };
    Ok(MultipartPart {
        name: name.to_owned(),
        filename: Some(content.filename.unwrap_or_else(|| name.to_owned())),
        content_type: Some(content_type),
        headers,
        bytes: content.bytes,
    })
}

/// Returns the headers that the field declares, with the values `given` or the only values that the schema
/// allows.
fn write_headers(
    field: &BodyField,
    given: &[(String, String)],
) -> Result<Vec<(String, String)>, Reason> {
    let is = |name: &str, other: &str| name.eq_ignore_ascii_case(other);
    if given.iter().any(|(name, _)| !field.headers.iter().any(|header| is(&header.name, name))) {
        return Err("the field does not declare this header");
    }
    let mut headers = Vec::new();
    for header in &field.headers {
        // The part says it itself.
        if is(&header.name, "content-disposition") {
            continue;
        }
        let named = given.iter().find(|(name, _)| is(&header.name, name));
        let value = named.map(|(_, value)| value).or(header.value.as_ref());
        match value {
            Some(value) if header_value(value).is_some() => {
                headers.push((header.name.clone(), value.clone()));
            }
            Some(_) => return Err("a header must have visible ASCII characters on one line"),
            None if header.required => return Err("a required header of the field has no value"),
            None => {}
        }
    }
    Ok(headers)
}
