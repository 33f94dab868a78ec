//! Canonical JSON (RFC 8785): compact, with the members of each object in one order and numbers as
//! ECMAScript writes them.

use std::cmp::Ordering;
use std::io::{self, Write};

use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_json::ser::Formatter;

use super::DigestError;

/// Compares two names by their UTF-16 code units, which is the order of canonical JSON (RFC 8785, section
/// 3.2.3).
pub(crate) fn compare_names(one: &str, other: &str) -> Ordering {
    if one.is_ascii() && other.is_ascii() {
        return one.cmp(other);
    }
    one.encode_utf16().cmp(other.encode_utf16())
}

/// Writes a value that serializes its members in canonical order.
pub(super) fn write(value: &impl Serialize) -> Result<Vec<u8>, DigestError> {
    let mut bytes = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, CanonicalFormatter);
    value
        .serialize(&mut serializer)
        .map_err(|error| DigestError::NotCanonical(error.to_string()))?;
    Ok(bytes)
}

/// The compact form of `serde_json`, whose strings and integers are canonical, with the floating-point
/// numbers of ECMAScript.
struct CanonicalFormatter;

impl Formatter for CanonicalFormatter {
    fn write_f64<W: Write + ?Sized>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        writer.write_all(ryu_js::Buffer::new().format_finite(value).as_bytes())
    }
}

/// A value that serializes its members in canonical order.
pub(super) struct CanonicalValue<'v>(pub(super) &'v Value);

impl Serialize for CanonicalValue<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Array(items) => serializer.collect_seq(items.iter().map(CanonicalValue)),
            Value::Object(members) => CanonicalMembers::new(members).serialize(serializer),
            scalar @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => {
                scalar.serialize(serializer)
            }
        }
    }
}

/// Members of an object in canonical order.
pub(super) struct CanonicalMembers<'v>(Vec<(&'v String, &'v Value)>);

impl<'v> CanonicalMembers<'v> {
    pub(super) fn new(members: impl IntoIterator<Item = (&'v String, &'v Value)>) -> Self {
        let mut members: Vec<_> = members.into_iter().collect();
        members.sort_by(|(one, _), (other, _)| compare_names(one, other));
        Self(members)
    }
}

impl Serialize for CanonicalMembers<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, member)| (name, CanonicalValue(member))))
    }
}
