//! Binary content in JSON: `{base64: "…"}` or `{text: "…"}`, with its metadata.

use a2s::{HIDDEN, MediaType};
use base64::Engine as _;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::{Map, Value, json};

use crate::request::parameter_style::Reason;

/// Bytes, with the metadata for a part of a multipart body.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct BinaryContent {
    pub(super) bytes: Vec<u8>,
    pub(super) filename: Option<String>,
    pub(super) content_type: Option<MediaType>,
    pub(super) headers: Vec<(String, String)>,
}

/// A configuration that accepts missing padding, which is common.
const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);

/// Returns true when an object is binary content: it has exactly one of `base64` and `text`, and no other
/// members than the known ones.
pub(super) fn is_binary(members: &Map<String, Value>) -> bool {
    let known = ["base64", "text", "filename", "content_type", "headers"];
    members.contains_key("base64") != members.contains_key("text")
        && members.keys().all(|key| known.contains(&key.as_str()))
}

impl BinaryContent {
    /// Reads a value as binary content; a plain string gives its own characters.
    pub(super) fn read(value: &Value) -> Result<Self, Reason> {
        match value {
            Value::String(text) => Ok(Self { bytes: text.clone().into_bytes(), ..Self::default() }),
            Value::Object(members) if is_binary(members) => Self::read_members(members),
            _ => Err("binary content must be a string, `{base64: …}` or `{text: …}`"),
        }
    }

    fn read_members(members: &Map<String, Value>) -> Result<Self, Reason> {
        let text = |key: &str, reason: Reason| match members.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str())),
            Some(_) => Err(reason),
        };
        let bytes = match (text("base64", NOT_BASE64)?, text("text", "`text` must be a string")?) {
            (Some(encoded), _) => decode(encoded).ok_or(NOT_BASE64)?,
            (None, Some(text)) => text.as_bytes().to_vec(),
            (None, None) => return Err("binary content must have `base64` or `text`"),
        };
        let reason = "`content_type` must be a media type such as `image/png`";
        let content_type = match text("content_type", reason)? {
            None => None,
            Some(text) => {
                let media_type = MediaType::parse(text).filter(|media| !media.is_range());
                Some(media_type.ok_or(reason)?)
            }
        };
        let filename = text("filename", "`filename` must be a string")?.map(str::to_owned);
        let mut headers = Vec::new();
        match members.get("headers") {
            None | Some(Value::Null) => {}
            Some(Value::Object(given)) => {
                for (name, value) in given {
                    match value {
                        Value::Null => {}
                        Value::String(text) => headers.push((name.clone(), text.clone())),
                        Value::Number(_) | Value::Bool(_) => {
                            headers.push((name.clone(), value.to_string()));
                        }
                        Value::Array(_) | Value::Object(_) => return Err(NO_HEADERS),
                    }
                }
            }
            Some(_) => return Err(NO_HEADERS),
        }
        Ok(Self { bytes, filename, content_type, headers })
    }
}

/// Returns an input without each binary content in which `has_secret` finds something. Its Base64 would show
/// the secret to everybody who decodes it.
pub(crate) fn mask_binary(value: Value, has_secret: &impl Fn(&str) -> bool) -> Value {
    match value {
        Value::Object(mut members) if is_binary(&members) => {
            if let Some(Value::String(text)) = members.get_mut("base64")
                && decode(text).is_some_and(|bytes| has_secret(&String::from_utf8_lossy(&bytes)))
            {
                HIDDEN.clone_into(text);
            }
            Value::Object(members)
        }
        Value::Object(members) => {
            let members = members.into_iter();
            members.map(|(name, member)| (name, mask_binary(member, has_secret))).collect()
        }
        Value::Array(items) => {
            items.into_iter().map(|item| mask_binary(item, has_secret)).collect()
        }
        scalar => scalar,
    }
}

/// Returns masked content in a form that can be written. Content that the mask makes unreadable becomes its
/// text.
pub(super) fn with_readable_content(shown: &Value) -> Value {
    match shown {
        Value::Object(members) if is_binary(members) => {
            let is_readable = BinaryContent::read(shown).is_ok();
            if is_readable { shown.clone() } else { json!({"text": HIDDEN}) }
        }
        Value::Object(members) => {
            let members = members.iter();
            members.map(|(name, member)| (name.clone(), with_readable_content(member))).collect()
        }
        Value::Array(items) => items.iter().map(with_readable_content).collect(),
        scalar => scalar.clone(),
    }
}

const NOT_BASE64: Reason = "`base64` is not Base64";
const NO_HEADERS: Reason = "`headers` must be an object of texts";

/// Decodes Base64 in both alphabets of RFC 4648, with or without padding, on one line or on several.
fn decode(text: &str) -> Option<Vec<u8>> {
    let text: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let standard = GeneralPurpose::new(&STANDARD, LENIENT);
    let decoded = standard.decode(&text);
    decoded.or_else(|_| GeneralPurpose::new(&URL_SAFE, LENIENT).decode(&text)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_alphabets_are_read_with_or_without_padding_and_lines() {
        for text in ["+/8A", "-_8A", "+/8\n A", "+/\r\n8A"] {
            assert_eq!(decode(text).unwrap(), [0xfb, 0xff, 0], "{text}");
        }
        for text in ["aGk=", "aGk", " aG\tk= "] {
            assert_eq!(decode(text).unwrap(), b"hi", "{text}");
        }
        for text in ["a", "aGk!", "+_8A", "data:text/plain;base64,aGk="] {
            assert_eq!(decode(text), None, "{text}");
        }
    }

    #[test]
    fn a_string_is_its_own_characters() {
        assert_eq!(BinaryContent::read(&json!("aGk=")).unwrap().bytes, b"aGk=");
        assert_eq!(BinaryContent::read(&json!({"base64": "aGk="})).unwrap().bytes, b"hi");
        assert_eq!(BinaryContent::read(&json!({"text": "é"})).unwrap().bytes, "é".as_bytes());
    }

    #[test]
    fn what_is_no_content_is_refused() {
        for value in [
            json!(7),
            json!([]),
            json!({}),
            json!({"base64": "aGk=", "text": "hi"}),
            json!({"base64": 7}),
            json!({"base64": "é"}),
            json!({"base64": null}),
            json!({"text": "x", "name": "y"}),
            json!({"text": "x", "filename": 1}),
            json!({"text": "x", "content_type": "image/*"}),
            json!({"text": "x", "content_type": "a/b\r\nX: y"}),
            json!({"text": "x", "headers": {"X": []}}),
        ] {
            assert!(BinaryContent::read(&value).is_err(), "{value}");
        }
    }
}
