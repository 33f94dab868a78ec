//! Properties that only the service sets, and parts of a schema that the executor does not check.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::types::SchemaRef;

/// The most `$ref`s and combined schemas that are followed to find unsent properties.
const MAX_HOPS: usize = 16;
/// The depth to which alternatives are examined.
const MAX_DEPTH: usize = 100;
/// The formats with a clear meaning: the executor checks these and no others.
const FORMATS: [&str; 5] = ["date", "date-time", "ipv4", "ipv6", "uuid"];

/// Names of properties that are not sent.
pub(super) type HiddenNames = BTreeSet<String>;

/// Adds the `readOnly` properties of a schema, of its parts and of its alternatives. The parts of one
/// combined schema share these properties: one part may require a property that another part describes.
pub(super) fn collect_read_only(
    part: SchemaRef<'_>,
    names: &mut HiddenNames,
    hops: usize,
    looks: &mut usize,
) {
    let Some(left) = looks.checked_sub(1) else { return };
    *looks = left;
    let properties = part.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        if part.with_schema(property).is_read_only() {
            names.insert(name.clone());
        }
    }
    if hops == MAX_HOPS {
        return;
    }
    if let Some(target) = part.target() {
        collect_read_only(target, names, hops + 1, looks);
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        for below in part.get(key).and_then(Value::as_array).into_iter().flatten() {
            collect_read_only(part.with_schema(below), names, hops + 1, looks);
        }
    }
}

/// Returns true when a part of a schema is not checked, so that a value may not fit although it seems to.
/// When two alternatives differ in such a part, both would fit.
pub(super) fn has_unchecked_keyword<'s>(
    part: SchemaRef<'s>,
    seen: &mut BTreeSet<&'s str>,
    depth: usize,
    looks: &mut usize,
) -> bool {
    let Some(left) = looks.checked_sub(1).filter(|_| depth <= MAX_DEPTH) else { return true };
    *looks = left;
    let members = match part.schema {
        Value::Array(items) => {
            return items
                .iter()
                .any(|item| has_unchecked_keyword(part.with_schema(item), seen, depth + 1, looks));
        }
        Value::Object(members) => members,
        _ => return false,
    };
    members.iter().any(|(key, value)| match (key.as_str(), value) {
        ("format", Value::String(name)) => !FORMATS.contains(&name.as_str()),
        ("const", _) => part.book.schemas.is_openapi_3_0(),
        ("$dynamicRef", _) => true,
        ("$ref", Value::String(text)) if seen.insert(text) => {
            part.target().is_none_or(|target| has_unchecked_keyword(target, seen, depth + 1, looks))
        }
        ("enum" | "default" | "example" | "examples", _) => false,
        (_, below) => has_unchecked_keyword(part.with_schema(below), seen, depth + 1, looks),
    })
}
