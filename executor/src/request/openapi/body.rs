//! Bodies: the value of the step's `body`, written in the media type that the task sends.

use std::borrow::Cow;

use a2s::{BodyFormat, InputLocation, MediaType, RequestBody};
use serde_json::{Map, Value};

use super::binary::{BinaryContent, is_binary};
use super::{form, multipart};
use crate::request::PrepareError;
use crate::request::parameter_style::plain_text;

/// Returns the media type and the bytes of a body.
///
/// # Errors
/// Fails when the value does not have the form that the media type requires: see [`BodyFormat`].
pub(super) fn write(
    declared: &RequestBody,
    value: &Value,
) -> Result<(String, Vec<u8>), PrepareError> {
    let media_type = &declared.media_type;
    match declared.format {
        BodyFormat::Json => Ok((media_type.as_str().to_owned(), value.to_string().into_bytes())),
        BodyFormat::Form => {
            let body =
                form::write(declared, members(value, "a form must be an object of its fields")?)?;
            Ok((media_type.as_str().to_owned(), body.into_bytes()))
        }
        BodyFormat::Multipart => {
            let fields = members(value, "a multipart body must be an object of its fields")?;
            multipart::write(declared, fields)
        }
        BodyFormat::Text => write_text(media_type, value),
        BodyFormat::Other if media_type.is_range() => write_by_value(media_type, value),
        BodyFormat::Other => {
            let content = BinaryContent::read(value).map_err(refused)?;
            check_type(media_type, content.content_type.as_ref())?;
            Ok((media_type.as_str().to_owned(), content.bytes))
        }
    }
}

/// Creates the error of a body that cannot be written.
pub(super) fn refused(reason: impl Into<Cow<'static, str>>) -> PrepareError {
    PrepareError::value(&InputLocation::Body, reason)
}

/// Creates the error of one of its fields. It shows only names from the specification: other names are
/// data.
pub(super) fn refused_field(declared: &RequestBody, name: &str, reason: &str) -> PrepareError {
    let known = declared.fields.contains_key(name);
    refused(if known { format!("field `{name}`: {reason}") } else { reason.to_owned() })
}

fn members<'v>(
    value: &'v Value,
    reason: &'static str,
) -> Result<&'v Map<String, Value>, PrepareError> {
    value.as_object().ok_or_else(|| refused(reason))
}

fn write_text(media_type: &MediaType, value: &Value) -> Result<(String, Vec<u8>), PrepareError> {
    let bytes = match value {
        Value::Object(members) if is_binary(members) => {
            let content = BinaryContent::read(value).map_err(refused)?;
            check_type(media_type, content.content_type.as_ref())?;
            return Ok((media_type.as_str().to_owned(), content.bytes));
        }
        // YAML holds JSON.
        Value::Array(_) | Value::Object(_) if is_yaml(media_type) => value.to_string(),
        Value::Array(_) | Value::Object(_) => {
            return Err(refused(format!("a body of type {media_type} must be a string")));
        }
        scalar => plain_text(scalar),
    };
    let mut named = media_type.as_str().to_owned();
    if !bytes.is_ascii() {
        match media_type.parameter("charset").as_deref() {
            Some("utf-8" | "utf8") => {}
            Some(_) => {
                return Err(refused(
                    "text with characters outside ASCII can only be sent as UTF-8",
                ));
            }
            // XML and the like say it themselves.
            None if named.starts_with("text/") => named.push_str("; charset=utf-8"),
            None => {}
        }
    }
    Ok((named, bytes.into_bytes()))
}

fn is_yaml(media_type: &MediaType) -> bool {
    media_type.essence().ends_with("yaml")
}

/// Writes a body for a media type that is a range: the value decides.
fn write_by_value(range: &MediaType, value: &Value) -> Result<(String, Vec<u8>), PrepareError> {
    let (wanted, bytes) = match value {
        Value::Object(members) if is_binary(members) => {
            let content = BinaryContent::read(value).map_err(refused)?;
            if let Some(media_type) = &content.content_type {
                check_type(range, Some(media_type))?;
                return Ok((media_type.as_str().to_owned(), content.bytes));
            }
            (&["application/octet-stream"][..], content.bytes)
        }
        Value::String(text) => (
            &["text/plain; charset=utf-8", "application/octet-stream"][..],
            text.clone().into_bytes(),
        ),
        other => (&["application/json"][..], other.to_string().into_bytes()),
    };
    let fits = |text: &&&str| MediaType::parse(text).is_some_and(|media| range.covers(&media));
    match wanted.iter().find(fits) {
        Some(media_type) => Ok(((*media_type).to_owned(), bytes)),
        None => {
            let reason =
                format!("the body must be {range}: write `{{base64: …, content_type: …}}`");
            Err(refused(reason))
        }
    }
}

/// Checks that the `content_type` of the content fits the declared media type.
fn check_type(declared: &MediaType, named: Option<&MediaType>) -> Result<(), PrepareError> {
    match named {
        Some(named) if !declared.covers(named) => {
            Err(refused(format!("its `content_type` is not {declared}")))
        }
        _ => Ok(()),
    }
}
