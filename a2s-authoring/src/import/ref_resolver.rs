//! A foreign description and the `$ref`s inside it.

use serde_json::Value;

use super::ImportWarning;

/// The longest chain of `$ref`s.
const MAX_REFS: usize = 16;

/// The maximum number of schemas that one search through combined schemas examines. A few schemas that
/// combine each other have more paths than any computer follows.
pub(super) const MAX_PARTS: usize = 1_000;

/// A description with references between its parts.
#[derive(Debug, Clone, Copy)]
pub(super) struct RefResolver<'a> {
    root: &'a Value,
}

/// A `$ref` that the import cannot resolve.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum UnresolvedRef {
    /// The `$ref` refers to another file or address.
    #[error("`$ref: {0}` refers to another file, but the import reads only this description")]
    External(String),
    /// The target of the `$ref` does not exist.
    #[error("`$ref: {0}` does not exist in the description")]
    Dangling(String),
    /// The `$ref` refers to itself in a cycle.
    #[error("`$ref: {0}` refers to itself in a cycle")]
    Circular(String),
}

impl UnresolvedRef {
    /// The suggested fix.
    pub(super) fn hint(&self) -> &'static str {
        match self {
            Self::External(_) => {
                "Bundle the description into one file first, with `npx @redocly/cli bundle FILE`, for example."
            }
            Self::Dangling(_) | Self::Circular(_) => {
                "Correct the description, or get it again from its publisher."
            }
        }
    }
}

impl<'a> RefResolver<'a> {
    pub(super) fn new(root: &'a Value) -> Self {
        Self { root }
    }

    /// Returns a top-level member of the description.
    pub(super) fn get(self, key: &str) -> Option<&'a Value> {
        self.root.get(key)
    }

    /// `value` itself, or the final target of its `$ref`.
    pub(super) fn resolve(self, value: &'a Value) -> Result<&'a Value, UnresolvedRef> {
        let mut at = value;
        let mut last = "";
        for _ in 0..MAX_REFS {
            let Some(reference) = reference_of(at) else { return Ok(at) };
            last = reference;
            at = self.follow(reference)?;
        }
        Err(UnresolvedRef::Circular(quote_for_message(last)))
    }

    /// The target of a reference.
    pub(super) fn follow(self, reference: &str) -> Result<&'a Value, UnresolvedRef> {
        let Some(pointer) = reference.strip_prefix('#') else {
            return Err(UnresolvedRef::External(quote_for_message(reference)));
        };
        // A pointer in a URI may be percent-encoded (RFC 6901, section 6).
        let decoded = percent_decoded(pointer);
        self.root
            .pointer(pointer)
            .or_else(|| self.root.pointer(&decoded))
            .ok_or_else(|| UnresolvedRef::Dangling(quote_for_message(reference)))
    }
}

/// Returns the `$ref` of a value.
pub(super) fn reference_of(value: &Value) -> Option<&str> {
    value.get("$ref")?.as_str()
}

/// Returns the flag `key` of a value. Some descriptions write it as text.
pub(super) fn bool_member(value: &Value, key: &str) -> Option<bool> {
    to_bool(value.get(key)?)
}

/// Converts a value to a flag.
pub(super) fn to_bool(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(flag) => Some(*flag),
        Value::String(text) => text.trim().to_ascii_lowercase().parse().ok(),
        _ => None,
    }
}

/// Returns the flag `key` of a value, and adds a warning when it is text.
pub(super) fn read_flag(
    value: &Value,
    key: &str,
    place: &str,
    remarks: &mut Vec<ImportWarning>,
) -> Option<bool> {
    let flag = bool_member(value, key)?;
    if value.get(key).is_some_and(Value::is_string) {
        let reason = format!("`{key}` is a text; the import reads it as `{flag}`");
        remarks.push(ImportWarning::new(place, reason));
    }
    Some(flag)
}

/// Cleans and shortens a foreign reference or name for a message.
pub(super) fn quote_for_message(text: &str) -> String {
    crate::sanitize::clean_line(text, 80)
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()).filter(|_| first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references_are_followed_to_their_end() {
        let root = json!({
            "a": {"$ref": "#/b"}, "b": {"$ref": "#/c~1d"}, "c/d": {"x": 1},
            "loop": {"$ref": "#/loop"}, "{e}": {"x": 2}
        });
        let source = RefResolver::new(&root);
        let resolve = |reference: &str| source.resolve(source.follow(reference)?);
        assert_eq!(resolve("#/a"), Ok(&json!({"x": 1})));
        assert_eq!(resolve("#/%7Be%7D"), Ok(&json!({"x": 2})));
        assert!(matches!(resolve("#/loop"), Err(UnresolvedRef::Circular(_))));
        assert!(matches!(resolve("#/nothing"), Err(UnresolvedRef::Dangling(_))));
        assert!(matches!(resolve("other.json#/a"), Err(UnresolvedRef::External(_))));
    }
}
