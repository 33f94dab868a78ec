//! Keys that appear more than once in one object of a description. A reader keeps one of their values, so
//! an import reports each of them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::ImportWarning;
use super::ref_resolver::quote_for_message;

/// The most duplicate keys that an import lists.
const MAX_LISTED: usize = 50;

/// A line and a column, both counted from 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct TextPosition {
    pub(super) line: usize,
    pub(super) column: usize,
}

/// The warnings about duplicate keys, in the order of the text.
#[derive(Debug, Default)]
pub(super) struct DuplicateKeys {
    listed: Vec<ImportWarning>,
    /// The number of duplicate keys that are not listed.
    unlisted: usize,
}

impl DuplicateKeys {
    /// Adds a key that appears at two positions. `locate` returns its path and the positions; it is called
    /// only for a key that is listed, because the path of a deep key is long.
    pub(super) fn add(&mut self, locate: impl FnOnce() -> (String, [TextPosition; 2])) {
        if self.listed.len() == MAX_LISTED {
            self.unlisted += 1;
            return;
        }
        let (path, [first, second]) = locate();
        let reason = format!(
            "the key appears at line {}, column {} and again at line {}, column {}; the import uses the later value only",
            first.line, first.column, second.line, second.column
        );
        self.listed.push(ImportWarning::new(&path, reason));
    }

    pub(super) fn into_warnings(self) -> Vec<ImportWarning> {
        let mut warnings = self.listed;
        if self.unlisted > 0 {
            let reason = format!("{} more keys appear twice", self.unlisted);
            warnings.push(ImportWarning::new("", reason));
        }
        warnings
    }
}

/// Appends a member to the path of a value in a description.
pub(super) fn push_member(path: &mut String, name: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(&quote_for_message(name));
}

/// Appends an item to the path of a value in a description.
pub(super) fn push_item(path: &mut String, index: usize) {
    // Writing to a string cannot fail.
    let _ = write!(path, "[{index}]");
}

/// A collection of JSON whose end is not read yet.
enum OpenCollection<'t> {
    /// The number of the items before the current one.
    Array(usize),
    /// The byte offsets of the keys, as written, and the current key.
    Object(BTreeMap<String, usize>, &'t str),
}

/// Finds the keys that appear more than once in one object of `text`, which is valid JSON.
pub(super) fn find_in_json(text: &str) -> DuplicateKeys {
    let mut found = DuplicateKeys::default();
    let mut open: Vec<OpenCollection<'_>> = Vec::new();
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'{' => open.push(OpenCollection::Object(BTreeMap::new(), "")),
            b'[' => open.push(OpenCollection::Array(0)),
            b'}' | b']' => {
                open.pop();
            }
            b',' => {
                if let Some(OpenCollection::Array(index)) = open.last_mut() {
                    *index += 1;
                }
            }
            b'"' => {
                let end = end_of_string(bytes, at);
                let written = text.get(at + 1..end).unwrap_or_default();
                let next = bytes.iter().skip(end + 1).find(|byte| !byte.is_ascii_whitespace());
                if next == Some(&b':') {
                    add_key(text, written, at, &mut open, &mut found);
                }
                at = end;
            }
            _ => {}
        }
        at += 1;
    }
    found
}

/// Returns the offset of the quotation mark that ends the string at `start`.
fn end_of_string(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(byte) = bytes.get(at).filter(|byte| **byte != b'"') {
        at += if *byte == b'\\' { 2 } else { 1 };
    }
    at
}

/// Adds the key at the offset `at` to the innermost open object, and reports it if the object has it already.
fn add_key<'t>(
    text: &str,
    written: &'t str,
    at: usize,
    open: &mut [OpenCollection<'t>],
    found: &mut DuplicateKeys,
) {
    let Some(OpenCollection::Object(keys, current)) = open.last_mut() else { return };
    *current = written;
    let Some(first) = keys.insert(unescape(written), at) else { return };
    found.add(|| {
        let mut path = String::new();
        for collection in open.iter() {
            match collection {
                OpenCollection::Array(index) => push_item(&mut path, *index),
                OpenCollection::Object(_, key) => push_member(&mut path, &unescape(key)),
            }
        }
        (path, [first, at].map(|offset| position_of(text, offset)))
    });
}

/// Returns the key that the text between quotation marks means: two texts can mean one key.
fn unescape(written: &str) -> String {
    let key = written.contains('\\').then(|| serde_json::from_str(&format!("\"{written}\"")).ok());
    key.flatten().unwrap_or_else(|| written.to_owned())
}

fn position_of(text: &str, offset: usize) -> TextPosition {
    let before = text.get(..offset).unwrap_or_default();
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
    TextPosition { line, column: before[line_start..].chars().count() + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(text: &str) -> Vec<String> {
        let warnings = find_in_json(text).into_warnings();
        warnings
            .into_iter()
            .map(|warning| format!("{}: {}", warning.place, warning.reason))
            .collect()
    }

    #[test]
    fn json_keys_are_compared_within_their_object_only() {
        assert!(places(r#"{"a": {"b": 1}, "b": [{"b": "a\": {"}, {"b": 2}]}"#).is_empty());
    }

    #[test]
    fn duplicate_json_key_is_reported_with_both_positions() {
        let text =
            "{\"p\": {\"/a\": 1,\n  \"b\": [0, {\"ü\": 1, \"x\": 2, \"\\u00fc\": 3}]},\n \"p\": 2}";
        let at = "the key appears at line";
        let only = "the import uses the later value only";
        assert_eq!(
            places(text),
            [
                format!("p.b[1].ü: {at} 2, column 13 and again at line 2, column 29; {only}"),
                format!("p: {at} 1, column 2 and again at line 3, column 2; {only}"),
            ]
        );
    }

    #[test]
    fn listed_keys_are_bounded() {
        let text = format!("{{{}\"a\": 1}}", "\"a\": 1, ".repeat(60));
        let found = places(&text);
        assert_eq!(found.len(), MAX_LISTED + 1);
        assert_eq!(found.last().unwrap(), ": 10 more keys appear twice");
    }

    #[test]
    fn unlisted_keys_are_not_located() {
        let (mut keys, mut located) = (DuplicateKeys::default(), 0);
        for _ in 0..MAX_LISTED + 10 {
            keys.add(|| {
                located += 1;
                (String::new(), [TextPosition::default(); 2])
            });
        }
        assert_eq!((located, keys.unlisted), (MAX_LISTED, 10));
    }
}
