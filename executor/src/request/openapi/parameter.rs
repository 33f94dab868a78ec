//! A parameter and its value, written for its place.

use a2s::{MediaType, OperationParameter, ParameterStyle};
use serde_json::Value;

use crate::request::PrepareError;
use crate::request::parameter_style::{self, EscapeMode, Reason, StyledValue};

/// A parameter and its given value; null when none was given.
#[derive(Debug)]
pub(super) struct ParameterValue<'a> {
    pub(super) parameter: &'a OperationParameter,
    pub(super) value: &'a Value,
}

/// The reason why a media type other than JSON takes neither an array nor an object.
const NO_TEXT: Reason = "it is sent as text, so it must be a text, a number or a boolean";

impl ParameterValue<'_> {
    /// Creates the error for a value that cannot be sent for this reason.
    pub(super) fn to_error(&self, reason: Reason) -> PrepareError {
        PrepareError::value(&self.parameter.input_location(), reason)
    }

    /// Returns true when there is something to send. Null is never sent; an empty array or object is sent
    /// only if it has its own notation.
    pub(super) fn is_defined(&self) -> bool {
        match self.value {
            Value::Null => false,
            _ if self.parameter.content.is_some() || self.parameter.allow_empty_value => true,
            value => StyledValue::from_value(value).is_some(),
        }
    }

    /// Returns the encoded text for the location in the path.
    pub(super) fn path_text(&self) -> Result<String, Reason> {
        if let Some(text) = self.content_text()? {
            return Ok(parameter_style::encode(&text));
        }
        let shape = StyledValue::from_scalars(self.value)?.ok_or("it has no items")?;
        parameter_style::write_path(&self.parameter.name, shape, self.parameter.style)
    }

    /// Returns the encoded pairs for the query.
    pub(super) fn query_pairs(&self) -> Result<Vec<(String, String)>, Reason> {
        let name = &self.parameter.name;
        if let Some(text) = self.content_text()? {
            return Ok(vec![(parameter_style::encode(name), parameter_style::encode(&text))]);
        }
        let style = self.parameter.style;
        let pairs =
            parameter_style::write_query(name, self.value, style, EscapeMode::from_style(style))?;
        if pairs.is_empty() && self.parameter.allow_empty_value {
            return Ok(vec![(parameter_style::encode(name), String::new())]);
        }
        Ok(pairs)
    }

    /// Returns the text of a header. It may contain characters that a header does not allow.
    pub(super) fn header_text(&self) -> Result<String, Reason> {
        if let Some(media_type) = &self.parameter.content {
            let text = content_text(media_type, self.value)?;
            return Ok(if media_type.is_json() { ascii_json(&text) } else { text });
        }
        let shape = StyledValue::from_scalars(self.value)?.ok_or("it has no items")?;
        Ok(parameter_style::write_header(shape, self.parameter.style.explode))
    }

    /// Returns the pairs for the `Cookie` header. They are encoded, except for text whose media type keeps
    /// it unchanged.
    pub(super) fn cookie_pairs(&self) -> Result<Vec<(String, String)>, Reason> {
        let name = &self.parameter.name;
        let Some(media_type) = &self.parameter.content else {
            StyledValue::from_scalars(self.value)?;
            let style = a2s::ValueStyle { style: ParameterStyle::Form, ..self.parameter.style };
            return parameter_style::write_query(name, self.value, style, EscapeMode::All);
        };
        let text = content_text(media_type, self.value)?;
        if media_type.is_json() {
            return Ok(vec![(parameter_style::encode(name), parameter_style::encode(&text))]);
        }
        if !text.bytes().all(is_cookie_octet) {
            return Err(
                "a cookie must have visible ASCII characters only, without spaces, quotes, `,`, `;` and `\\`",
            );
        }
        Ok(vec![(parameter_style::encode(name), text)])
    }

    fn content_text(&self) -> Result<Option<String>, Reason> {
        let media_type = self.parameter.content.as_ref();
        media_type.map(|media_type| content_text(media_type, self.value)).transpose()
    }
}

/// Returns the value in its media type: JSON, or text.
fn content_text(media_type: &MediaType, value: &Value) -> Result<String, Reason> {
    match value {
        _ if media_type.is_json() => Ok(value.to_string()),
        Value::Array(_) | Value::Object(_) => Err(NO_TEXT),
        scalar => Ok(parameter_style::plain_text(scalar)),
    }
}

/// Returns true for a `cookie-octet` (RFC 6265, section 4.1.1).
fn is_cookie_octet(byte: u8) -> bool {
    matches!(byte, 0x21 | 0x23..=0x2b | 0x2d..=0x3a | 0x3c..=0x5b | 0x5d..=0x7e)
}

/// Returns the same JSON in ASCII, because a header contains only ASCII.
fn ascii_json(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if (' '..='~').contains(&c) {
            text.push(c);
        } else {
            // A character beyond ASCII can only be inside a string.
            let mut units = [0; 2];
            text.extend(c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
    text
}
