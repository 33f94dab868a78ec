//! Builds values from the events of a parser.

use std::collections::BTreeMap;

use granit_parser::{Event, ScalarStyle};
use serde_json::{Map, Number, Value};

use super::{DescriptionError, MAX_DEPTH, MAX_NODES, MAX_TEXT};
use crate::import::duplicate_keys::{self, DuplicateKeys, TextPosition};

/// A builder of one value, which gets the parts of a text in their order.
#[derive(Default)]
pub(super) struct ValueBuilder {
    open: Vec<OpenValue>,
    pub(super) root: Option<Value>,
    anchors: BTreeMap<usize, Value>,
    nodes: usize,
    text: usize,
    /// The position of the current event.
    pub(super) position: TextPosition,
    pub(super) duplicates: DuplicateKeys,
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
    /// The numbers and booleans among the values of a schema, as written, by key and index.
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
        // Of two values of a key, the later one is in the members.
        for (key, index, text) in self.written.into_iter().rev() {
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
    pub(super) fn accept(&mut self, event: Event<'_>) -> Result<bool, DescriptionError> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let is_text = style != ScalarStyle::Plain
                    || tag.is_some_and(|tag| tag.suffix() == "str")
                    || self.expects_key();
                let value = if is_text { Value::String(text.to_string()) } else { plain(&text) };
                self.add_scalar(value, &text, anchor)?;
            }
            Event::SequenceStart(_, anchor, _) => self.open_array(anchor)?,
            Event::MappingStart(_, anchor, _) => self.open_object(anchor)?,
            Event::SequenceEnd | Event::MappingEnd => self.close(merged)?,
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

    pub(super) fn open_array(&mut self, anchor: usize) -> Result<(), DescriptionError> {
        self.open(OpenValue { anchor, items: ValueItems::Array(Vec::new()) })
    }

    pub(super) fn open_object(&mut self, anchor: usize) -> Result<(), DescriptionError> {
        self.open(OpenValue { anchor, items: ValueItems::Object(ObjectMembers::default()) })
    }

    /// Closes the innermost collection. `finish` changes the members of an object.
    pub(super) fn close(
        &mut self,
        finish: fn(Map<String, Value>) -> Map<String, Value>,
    ) -> Result<(), DescriptionError> {
        let Some(OpenValue { anchor, items }) = self.open.pop() else { return Ok(()) };
        let value = match items {
            ValueItems::Array(items) => Value::Array(items),
            ValueItems::Object(object) => Value::Object(finish(object.into_members())),
        };
        self.add(value, anchor)
    }

    /// Adds a scalar or a key, which the text has in the form `written`.
    pub(super) fn add_scalar(
        &mut self,
        value: Value,
        written: &str,
        anchor: usize,
    ) -> Result<(), DescriptionError> {
        self.spend_budget(1, written.len())?;
        if value.is_number() || value.is_boolean() {
            self.record_written(written);
        }
        self.add(value, anchor)
    }

    fn open(&mut self, open: OpenValue) -> Result<(), DescriptionError> {
        self.spend_budget(1, 0)?;
        if self.open.len() >= MAX_DEPTH {
            return Err(DescriptionError::TooComplex);
        }
        self.open.push(open);
        Ok(())
    }

    /// Records the text of a value that a schema lists, because the schema may say that the value is a text.
    fn record_written(&mut self, text: &str) {
        let (object, index) = match self.open.as_mut_slice() {
            [.., OpenValue { items: ValueItems::Object(object), .. }] => (object, 0),
            [
                ..,
                OpenValue { items: ValueItems::Object(object), .. },
                OpenValue { items: ValueItems::Array(items), .. },
            ] => (object, items.len()),
            _ => return,
        };
        let keyword = VALUE_KEYWORDS.into_iter().find(|k| object.key.as_deref() == Some(*k));
        object.written.extend(keyword.map(|key| (key, index, text.to_owned())));
    }

    /// Returns true when the next scalar is a key.
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
pub(super) fn plain(text: &str) -> Value {
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
