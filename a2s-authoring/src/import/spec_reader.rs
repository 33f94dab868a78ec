//! Reads foreign descriptions, JSON or YAML, into values.
//!
//! This reader is more lenient than the reader of documents: descriptions are larger, were written for
//! other tools, and only the extracted parts must satisfy the compiler.

use std::borrow::Cow;
use std::collections::BTreeMap;

use granit_parser::{Event, Parser, ScalarStyle};
use serde_json::{Map, Number, Value};

use super::ImportWarning;
use super::duplicate_keys::{self, DuplicateKeys, TextPosition};

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
        if let Ok(value) = serde_json::from_str(text) {
            let remarks = duplicate_keys::find_in_json(text).into_warnings();
            return Ok(ApiDescription { value, remarks });
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

#[derive(Default)]
struct ValueBuilder {
    open: Vec<OpenValue>,
    root: Option<Value>,
    anchors: BTreeMap<usize, Value>,
    nodes: usize,
    text: usize,
    /// The position of the current event.
    position: TextPosition,
    duplicates: DuplicateKeys,
}

/// A collection with its anchor; the end of the collection has not been read yet.
struct OpenValue {
    anchor: usize,
    items: ValueItems,
}

enum ValueItems {
    Array(Vec<Value>),
    Object(ObjectMembers),
}

#[derive(Default)]
struct ObjectMembers {
    members: Map<String, Value>,
    /// The positions of the keys.
    positions: BTreeMap<String, TextPosition>,
    /// The key whose value is not read yet.
    key: Option<String>,
    /// The values of a schema that YAML reads as numbers or booleans, as written, by key and index.
    written: Vec<(&'static str, usize, String)>,
}

/// The keywords of a schema that hold values of its type.
const VALUE_KEYWORDS: [&str; 4] = ["enum", "const", "default", "example"];

impl ObjectMembers {
    /// Returns the members. In the schema of a text, a listed value is the text as written: `1.10`, not 1.1.
    fn into_members(self) -> Map<String, Value> {
        let mut members = self.members;
        if members.get("type").is_none_or(|kind| kind != "string") {
            return members;
        }
        for (key, index, text) in self.written {
            let value = match members.get_mut(key) {
                Some(Value::Array(values)) => values.get_mut(index),
                value => value,
            };
            if let Some(value) = value.filter(|value| value.is_number() || value.is_boolean()) {
                *value = Value::String(text);
            }
        }
        members
    }
}

impl ValueBuilder {
    /// Processes an event. Returns true when the first document has ended; later documents are ignored.
    fn accept(&mut self, event: Event<'_>) -> Result<bool, DescriptionError> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.spend_budget(1, text.len())?;
                let is_text = style != ScalarStyle::Plain
                    || tag.is_some_and(|tag| tag.suffix() == "str")
                    || self.expects_key();
                let value =
                    if is_text { Value::String(text.into_owned()) } else { self.plain(&text) };
                self.add(value, anchor)?;
            }
            Event::SequenceStart(_, anchor, _) => {
                self.open(OpenValue { anchor, items: ValueItems::Array(Vec::new()) })?;
            }
            Event::MappingStart(_, anchor, _) => {
                self.open(OpenValue {
                    anchor,
                    items: ValueItems::Object(ObjectMembers::default()),
                })?;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some(OpenValue { anchor, items }) = self.open.pop() {
                    let value = match items {
                        ValueItems::Array(items) => Value::Array(items),
                        ValueItems::Object(object) => Value::Object(merged(object.into_members())),
                    };
                    self.add(value, anchor)?;
                }
            }
            Event::Alias(anchor) => {
                let value = self.anchors.get(&anchor).cloned().ok_or_else(|| {
                    DescriptionError::Syntax(
                        "an alias names an anchor that does not come earlier".to_owned(),
                    )
                })?;
                let (nodes, text, depth) = size(&value);
                self.spend_budget(nodes, text)?;
                if self.open.len() + depth > MAX_DEPTH {
                    return Err(DescriptionError::TooComplex);
                }
                self.add(value, 0)?;
            }
            Event::DocumentEnd => return Ok(self.root.is_some()),
            _ => {}
        }
        Ok(false)
    }

    fn spend_budget(&mut self, nodes: usize, text: usize) -> Result<(), DescriptionError> {
        self.nodes += nodes;
        self.text += text;
        let within = self.nodes <= MAX_NODES && self.text <= MAX_TEXT;
        if within { Ok(()) } else { Err(DescriptionError::TooComplex) }
    }

    fn open(&mut self, open: OpenValue) -> Result<(), DescriptionError> {
        self.spend_budget(1, 0)?;
        if self.open.len() >= MAX_DEPTH {
            return Err(DescriptionError::TooComplex);
        }
        self.open.push(open);
        Ok(())
    }

    /// Reads a plain scalar. The text of a value that a schema lists is recorded, because the schema may
    /// say that the value is a text.
    fn plain(&mut self, text: &str) -> Value {
        let value = plain(text);
        if value.is_number() || value.is_boolean() {
            let (object, index) = match self.open.as_mut_slice() {
                [.., OpenValue { items: ValueItems::Object(object), .. }] => (object, 0),
                [
                    ..,
                    OpenValue { items: ValueItems::Object(object), .. },
                    OpenValue { items: ValueItems::Array(items), .. },
                ] => (object, items.len()),
                _ => return value,
            };
            let keyword = VALUE_KEYWORDS.into_iter().find(|k| object.key.as_deref() == Some(*k));
            object.written.extend(keyword.map(|key| (key, index, text.to_owned())));
        }
        value
    }

    fn expects_key(&self) -> bool {
        let innermost = self.open.last().map(|open| &open.items);
        matches!(innermost, Some(ValueItems::Object(ObjectMembers { key: None, .. })))
    }

    fn add(&mut self, value: Value, anchor: usize) -> Result<(), DescriptionError> {
        if anchor > 0 {
            let (nodes, text, _) = size(&value);
            self.spend_budget(nodes, text)?;
            self.anchors.insert(anchor, value.clone());
        }
        match self.open.last_mut().map(|open| &mut open.items) {
            Some(ValueItems::Array(items)) => items.push(value),
            Some(ValueItems::Object(object)) => match object.key.take() {
                Some(key) => {
                    object.members.insert(key, value);
                }
                None => {
                    let key = match value {
                        Value::String(key) => key,
                        other => other.to_string(),
                    };
                    let earlier = object.positions.insert(key.clone(), self.position);
                    object.key = Some(key);
                    if let Some(earlier) = earlier {
                        self.report_duplicate(earlier);
                    }
                }
            },
            None => self.root = Some(value),
        }
        Ok(())
    }

    /// Reports the current key, which its object has already.
    fn report_duplicate(&mut self, earlier: TextPosition) {
        self.duplicates.add(|| {
            let mut path = String::new();
            for open in &self.open {
                match &open.items {
                    ValueItems::Array(items) => duplicate_keys::push_item(&mut path, items.len()),
                    ValueItems::Object(object) => {
                        let key = object.key.as_deref().unwrap_or_default();
                        duplicate_keys::push_member(&mut path, key);
                    }
                }
            }
            (path, [earlier, self.position])
        });
    }
}

/// Merges the members below `<<` into the other members (YAML 1.1, "Merge Key").
fn merged(mut members: Map<String, Value>) -> Map<String, Value> {
    let Some(merge) = members.shift_remove("<<") else { return members };
    let sources = match merge {
        Value::Array(sources) => sources,
        source => vec![source],
    };
    for source in sources {
        let Value::Object(source) = source else { continue };
        for (key, value) in source {
            members.entry(key).or_insert(value);
        }
    }
    members
}

/// The number of values, the bytes of text, and the depth.
fn size(value: &Value) -> (usize, usize, usize) {
    let add = |(nodes, text, depth): (usize, usize, usize), (n, t, d)| {
        (nodes + n, text + t, depth.max(d + 1))
    };
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => (1, 0, 1),
        Value::String(text) => (1, text.len(), 1),
        Value::Array(items) => items.iter().map(size).fold((1, 0, 1), add),
        Value::Object(members) => members.iter().fold((1, 0, 1), |sum, (key, value)| {
            let (nodes, text, depth) = size(value);
            add(sum, (nodes, text + key.len(), depth))
        }),
    }
}

/// Reads a plain scalar by the core schema of YAML 1.2. A number that JSON cannot represent remains text.
fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        _ => {}
    }
    number(text).map_or_else(|| Value::String(text.to_owned()), Value::Number)
}

fn number(text: &str) -> Option<Number> {
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    for (prefix, radix) in [("0o", 8), ("0x", 16)] {
        if let Some(rest) = text.strip_prefix(prefix).filter(|rest| !rest.starts_with(['+', '-'])) {
            return i64::from_str_radix(rest, radix).ok().map(Number::from);
        }
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits(unsigned) {
        if let Ok(integer) = text.parse::<i64>() {
            return Some(integer.into());
        }
        return text.parse().ok().and_then(Number::from_f64);
    }
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let shaped = (digits(whole) && (fraction.is_empty() || digits(fraction)))
        || (whole.is_empty() && digits(fraction));
    let exponent = exponent.is_none_or(|exponent| digits(exponent.trim_start_matches(['+', '-'])));
    (shaped && exponent).then(|| text.parse().ok().and_then(Number::from_f64)).flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn yaml_and_json_are_read_alike() {
        let yaml = b"# c\nopenapi: 3.0.3\nversion: 1.10\npaths:\n  /a:\n    get: {responses: {200: {description: no}}}\n";
        let value = json!({
            "openapi": "3.0.3",
            "version": 1.1,
            "paths": {"/a": {"get": {"responses": {"200": {"description": "no"}}}}},
        });
        assert_eq!(read_description(yaml).unwrap().value, value);
        assert_eq!(read_description(value.to_string().as_bytes()).unwrap().value, value);
    }

    #[test]
    fn what_documents_may_not_use_is_read_here() {
        let yaml = b"base: &b {x: 1, y: 2}\nmore: {<<: *b, y: 3}\nbig: 9223372036854775808\ntag: !!str 12\nx: [1, 1]\n";
        let ApiDescription { value, remarks } = read_description(yaml).unwrap();
        assert_eq!(remarks, []);
        assert_eq!(value["more"], json!({"y": 3, "x": 1}));
        assert_eq!(value["tag"], "12");
        assert!(value["big"].is_f64());
    }

    #[test]
    fn duplicate_yaml_key_is_reported_with_both_positions() {
        let yaml = b"paths:\n  /a:\n    get: 1\n  /b: [{x: 1, x: 2}]\n  /a:\n    200: no\n    '200': yes\n";
        let ApiDescription { value, remarks } = read_description(yaml).unwrap();
        assert_eq!(value["paths"]["/a"], json!({"200": "yes"}));
        let remarks: Vec<_> =
            remarks.iter().map(|r| (r.place.as_str(), r.reason.as_str())).collect();
        let reason = |first: &str, second: &str| {
            format!(
                "the key appears at {first} and again at {second}; the import uses the later value only"
            )
        };
        assert_eq!(
            remarks,
            [
                ("paths./b[0].x", &*reason("line 4, column 9", "line 4, column 15")),
                ("paths./a", &*reason("line 2, column 3", "line 5, column 3")),
                ("paths./a.200", &*reason("line 6, column 5", "line 7, column 5")),
            ]
        );
    }

    #[test]
    fn values_of_a_text_are_kept_as_written() {
        let read = |yaml: &str| read_description(yaml.as_bytes()).unwrap().value;
        assert_eq!(
            read("{enum: [1.9, 1.10, 01234, 0x10, 1e5, yes, true], type: string, default: 1.10}"),
            json!({
                "enum": ["1.9", "1.10", "01234", "0x10", "1e5", "yes", "true"],
                "type": "string",
                "default": "1.10",
            })
        );
        assert_eq!(read("{type: string, const: 007}")["const"], "007");
        assert_eq!(
            read("type: string\nenum:\n- 10\n- null\n- '1'\n")["enum"],
            json!(["10", null, "1"])
        );
        // Values of other types, and values below them, are numbers.
        assert_eq!(read("{type: number, enum: [1.10]}")["enum"], json!([1.1]));
        assert_eq!(read("{type: [string, number], enum: [1.10]}")["enum"], json!([1.1]));
        assert_eq!(read("{type: string, minLength: 1}")["minLength"], 1);
        assert_eq!(read("{properties: {type: {default: 1}}}")["properties"]["type"]["default"], 1);
    }

    #[test]
    fn several_yaml_documents_are_reported() {
        let several = |text: &str| !read_description(text.as_bytes()).unwrap().remarks.is_empty();
        assert!(several("a: 1\n---\nb: 2\n"));
        assert!(!several("---\na: 1\n...\n"));
    }

    #[test]
    fn text_may_have_a_byte_order_mark() {
        let utf16 = |mark: [u8; 2], unit: fn(u16) -> [u8; 2]| {
            let units = "{\"a\": \"ü\"}".encode_utf16().flat_map(unit);
            mark.into_iter().chain(units).collect::<Vec<u8>>()
        };
        for source in [
            b"\xef\xbb\xbf{\"a\": \"\xc3\xbc\"}".to_vec(),
            utf16([0xff, 0xfe], u16::to_le_bytes),
            utf16([0xfe, 0xff], u16::to_be_bytes),
        ] {
            assert_eq!(read_description(&source).unwrap().value, json!({"a": "ü"}));
        }
        assert_eq!(read_description(b"\xff\xfea"), Err(DescriptionError::NotUtf8));
    }

    #[test]
    fn bombs_are_refused() {
        let deep = "[".repeat(100_000);
        assert!(read_description(deep.as_bytes()).is_err());
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..12 {
            let before = format!("*a{}, ", level - 1).repeat(10);
            let line = format!("a{level}: &a{level} [{}]\n", before.trim_end_matches(", "));
            bomb.push_str(&line);
        }
        assert_eq!(read_description(bomb.as_bytes()), Err(DescriptionError::TooComplex));
        let many = format!("[{}0]", "0,".repeat(MAX_NODES));
        assert_eq!(read_description(many.as_bytes()), Err(DescriptionError::TooComplex));
        let commas = format!(r#"["\"{}"]"#, ",".repeat(MAX_NODES));
        assert!(read_description(commas.as_bytes()).is_ok());
        assert_eq!(read_description(b"\xff"), Err(DescriptionError::NotUtf8));
        assert!(matches!(read_description(b"a: [1"), Err(DescriptionError::Syntax(_))));
    }
}
