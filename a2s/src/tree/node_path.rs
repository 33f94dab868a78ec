//! Paths of values in a document, as diagnostics name them: `execution.steps[0]`, `a["b c"]`.

use std::fmt::Write as _;

use crate::diagnostic::MAX_NAME_CHARS;

/// The path of a value that a walk has reached. It refers to the path above, and becomes a text only for a
/// diagnostic: most walks report nothing.
#[derive(Debug, Clone, Copy)]
pub(crate) enum NodePath<'p> {
    /// The value where the walk started, with its path.
    Start(&'p str),
    /// The member with this key.
    Member(&'p Self, &'p str),
    /// The item with this index.
    Item(&'p Self, usize),
}

impl NodePath<'_> {
    fn push_to(&self, text: &mut String) {
        match self {
            Self::Start(path) => text.push_str(path),
            Self::Member(above, key) => {
                above.push_to(text);
                push_member(text, key);
            }
            Self::Item(above, index) => {
                above.push_to(text);
                push_item(text, *index);
            }
        }
    }
}

impl From<&NodePath<'_>> for String {
    fn from(path: &NodePath<'_>) -> Self {
        let mut text = Self::new();
        path.push_to(&mut text);
        text
    }
}

/// Returns the path of a member below `path`: `a.b`, or `a["b c"]` when the key is not a plain word.
pub fn member_path(path: &str, key: &str) -> String {
    let mut text = String::with_capacity(path.len() + key.len() + 1);
    text.push_str(path);
    push_member(&mut text, key);
    text
}

/// Returns the path of an item below `path`: `a[0]`.
pub(crate) fn item_path(path: &str, index: usize) -> String {
    let mut text = String::with_capacity(path.len() + 4);
    text.push_str(path);
    push_item(&mut text, index);
    text
}

fn push_member(path: &mut String, key: &str) {
    if key.len() > MAX_NAME_CHARS
        && let Some((end, _)) = key.char_indices().nth(MAX_NAME_CHARS)
    {
        let cut = format!("{}…", &key[..end]);
        return push_name(path, &cut);
    }
    push_name(path, key);
}

fn push_name(path: &mut String, key: &str) {
    let is_plain =
        !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '$'));
    if !is_plain {
        push_formatted(path, format_args!("[{key:?}]"));
        return;
    }
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(key);
}

fn push_item(path: &mut String, index: usize) {
    push_formatted(path, format_args!("[{index}]"));
}

fn push_formatted(path: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = path.write_fmt(text);
}
