//! Keys that appear more than once in one object of a description. A reader keeps one of their values, so
//! an import reports each of them.

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

#[cfg(test)]
mod tests {
    use super::*;

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
