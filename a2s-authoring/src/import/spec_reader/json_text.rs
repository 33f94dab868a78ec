//! Reads JSON with the positions of its keys and its numbers as written, which the values of `serde_json` do
//! not contain.

use serde::de::IgnoredAny;
use serde_json::Value;

use super::value_builder::{ValueBuilder, plain};
use super::{ApiDescription, DescriptionError};
use crate::import::duplicate_keys::TextPosition;

/// Reads a text. Returns `None` when it is not JSON.
///
/// # Errors
/// Fails when the values are nested too deep, or there are too many of them.
pub(super) fn read(text: &str) -> Result<Option<ApiDescription>, DescriptionError> {
    if serde_json::from_str::<IgnoredAny>(text).is_err() {
        return Ok(None);
    }
    let mut builder = ValueBuilder::default();
    // The text is valid, so its brackets match, and a token of another kind is a scalar.
    for (token, position) in JsonTokens::new(text) {
        builder.position = position;
        match token.as_bytes().first() {
            Some(b'{') => builder.open_object(0)?,
            Some(b'[') => builder.open_array(0)?,
            Some(b'}' | b']') => builder.close(|members| members)?,
            _ => {
                // Half of a surrogate pair has no value.
                let Some(value) = read_scalar(token) else { return Ok(None) };
                builder.add_scalar(value, token, 0)?;
            }
        }
    }
    let remarks = builder.duplicates.into_warnings();
    Ok(Some(ApiDescription { value: builder.root.unwrap_or(Value::Null), remarks }))
}

fn read_scalar(token: &str) -> Option<Value> {
    let value = serde_json::from_str(token).ok();
    // A number beyond the range of a double is text, as in YAML.
    value.or_else(|| (!token.starts_with('"')).then(|| plain(token)))
}

/// The brackets and scalars of a text that is valid JSON, with their positions.
struct JsonTokens<'t> {
    rest: &'t str,
    position: TextPosition,
}

impl<'t> JsonTokens<'t> {
    fn new(text: &'t str) -> Self {
        Self { rest: text, position: TextPosition { line: 1, column: 1 } }
    }

    /// Removes the first bytes of the rest, and returns them.
    fn take(&mut self, length: usize) -> &'t str {
        let (taken, rest) = self.rest.split_at_checked(length).unwrap_or((self.rest, ""));
        self.rest = rest;
        for letter in taken.chars() {
            if letter == '\n' {
                self.position = TextPosition { line: self.position.line + 1, column: 1 };
            } else {
                self.position.column += 1;
            }
        }
        taken
    }
}

impl<'t> Iterator for JsonTokens<'t> {
    type Item = (&'t str, TextPosition);

    fn next(&mut self) -> Option<Self::Item> {
        let is_between = |c: char| c.is_ascii_whitespace() || matches!(c, ',' | ':');
        let start = self.rest.find(|c| !is_between(c))?;
        self.take(start);
        let position = self.position;
        let length = match self.rest.as_bytes().first()? {
            b'{' | b'[' | b'}' | b']' => 1,
            b'"' => string_length(self.rest.as_bytes()),
            _ => {
                let end = self.rest.find(|c| is_between(c) || matches!(c, '}' | ']'));
                end.unwrap_or(self.rest.len())
            }
        };
        Some((self.take(length), position))
    }
}

/// Returns the length of the string at the start of `bytes`, with its quotation marks.
fn string_length(bytes: &[u8]) -> usize {
    let mut at = 1;
    while let Some(byte) = bytes.get(at).filter(|byte| **byte != b'"') {
        at += if *byte == b'\\' { 2 } else { 1 };
    }
    at + 1
}
