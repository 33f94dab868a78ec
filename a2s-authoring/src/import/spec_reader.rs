//! Reads foreign descriptions, JSON or YAML, into values.
//!
//! This reader is more lenient than the reader of documents: descriptions are larger, were written for
//! other tools, and only the extracted parts must satisfy the compiler.

mod json_text;
mod value_builder;

use std::borrow::Cow;

use granit_parser::{Event, Parser};
use serde_json::Value;

use self::value_builder::ValueBuilder;
use super::ImportWarning;
use super::duplicate_keys::TextPosition;

/// The maximum size of an API description, in bytes.
pub const MAX_DESCRIPTION_BYTES: usize = 32 << 20;
/// The maximum depth of nested values.
const MAX_DEPTH: usize = 120;
/// The maximum number of values, after aliases are expanded.
const MAX_NODES: usize = 4_000_000;
/// The maximum size of the text in keys and strings, in bytes, after aliases are expanded.
const MAX_TEXT: usize = 128 << 20;

/// The error for a text that is not a description.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DescriptionError {
    /// The text is longer than [`MAX_DESCRIPTION_BYTES`].
    #[error("it has more than {MAX_DESCRIPTION_BYTES} bytes")]
    TooLarge,
    /// The text is not UTF-8.
    #[error("it is not UTF-8")]
    NotUtf8,
    /// The text is neither JSON nor YAML.
    #[error("it is neither JSON nor YAML: {0}")]
    Syntax(String),
    /// The values are nested too deep, or there are too many of them.
    #[error("it has more than {MAX_DEPTH} levels, or too many values")]
    TooComplex,
}

/// A description of a service or of workflows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiDescription {
    /// The content.
    pub value: Value,
    /// The parts of the text that the content does not contain, such as the first value of a duplicate key.
    pub remarks: Vec<ImportWarning>,
}

/// Reads a description, JSON or YAML.
///
/// # Errors
/// Fails when the text is too large, or is neither JSON nor YAML.
pub fn read_description(source: &[u8]) -> Result<ApiDescription, DescriptionError> {
    if source.len() > MAX_DESCRIPTION_BYTES {
        return Err(DescriptionError::TooLarge);
    }
    let text = &*decode_text(source)?;
    if text.trim_start().starts_with(['{', '[']) {
        if max_values(text) > MAX_NODES {
            return Err(DescriptionError::TooComplex);
        }
        if let Some(description) = json_text::read(text)? {
            return Ok(description);
        }
    }
    read_yaml(text)
}

/// Decodes a foreign text, and removes its byte order mark. The text is UTF-8; with the mark of UTF-16, it is
/// UTF-16, as PowerShell writes it.
///
/// # Errors
/// Fails when the bytes are not text in this encoding.
pub fn decode_text(source: &[u8]) -> Result<Cow<'_, str>, DescriptionError> {
    let decode = |bytes: &[u8], unit: fn([u8; 2]) -> u16| {
        let (pairs, rest) = bytes.as_chunks();
        let units: Vec<u16> = pairs.iter().map(|pair| unit(*pair)).collect();
        let text = String::from_utf16(&units).ok().filter(|_| rest.is_empty());
        text.map(Cow::Owned).ok_or(DescriptionError::NotUtf8)
    };
    match source {
        [0xff, 0xfe, rest @ ..] => decode(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => decode(rest, u16::from_be_bytes),
        _ => {
            let text = std::str::from_utf8(source).map_err(|_| DescriptionError::NotUtf8)?;
            Ok(Cow::Borrowed(text.trim_start_matches('\u{feff}')))
        }
    }
}

/// Returns the maximum number of values in a text as JSON: one before each comma, one in each collection.
fn max_values(text: &str) -> usize {
    let (mut values, mut in_text, mut escaped) = (1, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_text,
            b'"' => in_text = !in_text,
            b',' | b'[' | b'{' if !in_text => values += 1,
            _ => {}
        }
    }
    values
}

fn read_yaml(text: &str) -> Result<ApiDescription, DescriptionError> {
    let options = granit_parser::options! {
        emit_comments: false,
        flow_nesting_limit: MAX_DEPTH,
        block_nesting_limit: MAX_DEPTH,
    };
    let mut builder = ValueBuilder::default();
    let mut events = Parser::new_from_str_with_options(text, options);
    for event in events.by_ref() {
        let (event, span) = event.map_err(|error| {
            let marker = error.marker();
            let info = error.info();
            if info.contains("nesting") {
                return DescriptionError::TooComplex;
            }
            let (line, column) = (marker.line(), marker.col() + 1);
            DescriptionError::Syntax(format!("{info} at line {line}, column {column}"))
        })?;
        builder.position = TextPosition { line: span.start.line(), column: span.start.col() + 1 };
        if builder.accept(event)? {
            break;
        }
    }
    let mut remarks = builder.duplicates.into_warnings();
    // Text after the first document may be anything, so an error in it is another document as well.
    let has_more = events.any(|event| !matches!(event, Ok((Event::StreamEnd, _))));
    if has_more {
        let reason = "the file contains several YAML documents; the import reads only the first";
        remarks.push(ImportWarning::new("", reason));
    }
    Ok(ApiDescription { value: builder.root.unwrap_or(Value::Null), remarks })
}

#[cfg(test)]
mod tests;
