//! Bytes to a tree of values that know their place in the text.
//!
//! YAML 1.2 with the core schema, and JSON. Both give the JSON data model: keys are strings (`200:`
//! becomes `"200"`), tags, merge keys and several documents are refused, aliases are expanded
//! within a budget, and a key written twice is an error instead of the loss of one.

mod json;
mod node_path;
mod yaml;

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Serialize, Serializer};
use serde_json::{Map, Number, Value};

use crate::checksum::compare_names;
use crate::diagnostic::{Diagnostic, DiagnosticList, SourcePosition};
use crate::error_code;

pub use node_path::member_path;
pub(crate) use node_path::{NodePath, item_path};

/// The maximum size of a document, in bytes.
pub const MAX_BYTES: usize = 1 << 20;
/// The maximum depth of nested values.
pub(crate) const MAX_DEPTH: usize = 64;
/// The maximum number of values, after aliases are expanded.
pub const MAX_NODES: usize = 100_000;
/// The maximum size of the text in keys and strings, in bytes, after aliases are expanded.
const MAX_TEXT: usize = 4 << 20;
/// The maximum length of a key of a mapping in a new version, in bytes. YAML has the same limit for keys
/// without `? `. Versions that were published before may have longer keys.
pub(crate) const MAX_KEY_BYTES: usize = 1 << 10;

/// The number of members up to which duplicates are found by a comparison of all pairs.
const SMALL_OBJECT: usize = 16;

/// A value and its start position. It borrows keys and texts from the document where it can.
#[derive(Debug, Clone)]
pub struct TreeNode<'s> {
    /// The value.
    pub kind: NodeValue<'s>,
    /// The position of its first character.
    pub position: SourcePosition,
}

/// The JSON data model.
#[derive(Debug, Clone)]
pub enum NodeValue<'s> {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A text.
    String(Cow<'s, str>),
    /// A list.
    Array(Vec<TreeNode<'s>>),
    /// The members of an object, in the order of the document.
    Object(Vec<NodeMember<'s>>),
}

/// A member of an object and the start position of its key.
#[derive(Debug, Clone)]
pub struct NodeMember<'s> {
    /// The key.
    pub key: Cow<'s, str>,
    /// The position of the key.
    pub position: SourcePosition,
    /// True when the text has no key here: YAML reads `: 1` as the key `~`.
    pub(crate) has_empty_key: bool,
    /// The value.
    pub value: TreeNode<'s>,
}

impl<'s> TreeNode<'s> {
    /// Returns the value without positions.
    pub fn to_value(&self) -> Value {
        match &self.kind {
            NodeValue::Null => Value::Null,
            NodeValue::Bool(value) => Value::Bool(*value),
            NodeValue::Number(value) => Value::Number(value.clone()),
            NodeValue::String(value) => Value::String(value.as_ref().to_owned()),
            NodeValue::Array(items) => Value::Array(items.iter().map(Self::to_value).collect()),
            NodeValue::Object(members) => Value::Object(
                members
                    .iter()
                    .map(|member| (member.key.as_ref().to_owned(), member.value.to_value()))
                    .collect::<Map<_, _>>(),
            ),
        }
    }

    /// Returns the canonical form: the members of every object are in the order of RFC 8785, which compares
    /// names by their UTF-16 code units. Positions still refer to the original text.
    pub(crate) fn into_canonical(mut self) -> Self {
        self.sort_members();
        self
    }

    fn sort_members(&mut self) {
        match &mut self.kind {
            NodeValue::Null | NodeValue::Bool(_) | NodeValue::Number(_) | NodeValue::String(_) => {}
            NodeValue::Array(items) => items.iter_mut().for_each(Self::sort_members),
            NodeValue::Object(members) => {
                members.sort_by(|a, b| compare_names(&a.key, &b.key));
                members.iter_mut().for_each(|member| member.value.sort_members());
            }
        }
    }

    /// Returns the kind of value with its article, for messages.
    pub(crate) fn describe(&self) -> &'static str {
        match self.kind {
            NodeValue::Null => "null",
            NodeValue::Bool(_) => "a boolean",
            NodeValue::Number(_) => "a number",
            NodeValue::String(_) => "a string",
            NodeValue::Array(_) => "a list",
            NodeValue::Object(_) => "a mapping",
        }
    }

    /// Returns the members, if the value is an object.
    pub fn members(&self) -> Option<&[NodeMember<'s>]> {
        match &self.kind {
            NodeValue::Object(members) => Some(members),
            _ => None,
        }
    }

    /// Returns the items, if the value is a list.
    pub(crate) fn items(&self) -> Option<&[Self]> {
        match &self.kind {
            NodeValue::Array(items) => Some(items),
            _ => None,
        }
    }

    /// Returns the member `key`.
    pub(crate) fn member(&self, key: &str) -> Option<&NodeMember<'s>> {
        self.members()?.iter().find(|member| member.key == key)
    }

    /// Returns the value of a member.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.member(key).map(|member| &member.value)
    }

    /// Returns the value at a path of plain keys and indexes, such as `execution.steps[0].if_true`.
    pub(crate) fn at(&self, path: &str) -> Option<&Self> {
        path.split(['.', '[']).filter(|part| !part.is_empty()).try_fold(self, |node, part| {
            match (&node.kind, part.strip_suffix(']')) {
                (NodeValue::Array(items), Some(index)) => items.get(index.parse::<usize>().ok()?),
                _ => node.get(part),
            }
        })
    }

    /// Returns the text, if the value is a string.
    pub(crate) fn as_str(&self) -> Option<&str> {
        match &self.kind {
            NodeValue::String(text) => Some(text),
            _ => None,
        }
    }

    /// The number of values and the bytes of text, here and below.
    fn size(&self) -> (usize, usize) {
        let add = |(n, t): (usize, usize), (m, u): (usize, usize)| (n + m, t + u);
        match &self.kind {
            NodeValue::Null | NodeValue::Bool(_) | NodeValue::Number(_) => (1, 0),
            NodeValue::String(text) => (1, text.len()),
            NodeValue::Array(items) => items.iter().map(Self::size).fold((1, 0), add),
            NodeValue::Object(members) => members
                .iter()
                .map(|member| add((0, member.key.len()), member.value.size()))
                .fold((1, 0), add),
        }
    }

    /// The depth of nested values here: 1 for a scalar.
    fn depth(&self) -> usize {
        let below = match &self.kind {
            NodeValue::Null | NodeValue::Bool(_) | NodeValue::Number(_) | NodeValue::String(_) => 0,
            NodeValue::Array(items) => items.iter().map(Self::depth).max().unwrap_or(0),
            NodeValue::Object(members) => {
                members.iter().map(|member| member.value.depth()).max().unwrap_or(0)
            }
        };
        below + 1
    }
}

/// Writes the value without positions.
impl Serialize for TreeNode<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.kind {
            NodeValue::Null => serializer.serialize_unit(),
            NodeValue::Bool(value) => serializer.serialize_bool(*value),
            NodeValue::Number(value) => value.serialize(serializer),
            NodeValue::String(value) => serializer.serialize_str(value),
            NodeValue::Array(items) => serializer.collect_seq(items),
            NodeValue::Object(members) => {
                serializer.collect_map(members.iter().map(|member| (&*member.key, &member.value)))
            }
        }
    }
}

/// Reads a document. Returns the tree, if the document has a usable one, and every error, at most 100.
#[must_use]
pub fn parse_tree(source: &[u8]) -> (Option<TreeNode<'_>>, Vec<Diagnostic>) {
    let (root, diagnostics) = parse(source);
    (root, diagnostics.into_vec())
}

/// Reads a document as [`parse_tree`] does, into a list that more diagnostics can join.
pub(crate) fn parse(source: &[u8]) -> (Option<TreeNode<'_>>, DiagnosticList) {
    let start = SourcePosition { line: 1, column: 1 };
    if source.len() > MAX_BYTES {
        let message =
            format!("the document has {} bytes; at most {MAX_BYTES} are allowed", source.len());
        return (None, Diagnostic::error(error_code::TOO_LARGE, ("", start), message).into());
    }
    let text = match std::str::from_utf8(source) {
        Ok(text) => text,
        Err(error) => {
            let before = String::from_utf8_lossy(&source[..error.valid_up_to()]);
            let message = "the document has a byte here that is not UTF-8".to_owned();
            let diagnostic =
                Diagnostic::error(error_code::NOT_UTF8, ("", position_after(&before)), message);
            return (None, diagnostic.into());
        }
    };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    match json::parse(text) {
        Some(mut tree) => {
            // The JSON reader knows no positions; the same text read as YAML has them.
            if let (Some(placed), _) = yaml::parse(text) {
                json::take_positions(&mut tree, &placed);
            }
            let mut diagnostics = DiagnosticList::default();
            json::check(&tree, &mut diagnostics);
            (Some(tree), diagnostics)
        }
        None => yaml::parse(text),
    }
}

/// Returns the position right after `text`.
fn position_after(text: &str) -> SourcePosition {
    let line = text.matches('\n').count() + 1;
    let column = text.rsplit('\n').next().unwrap_or("").chars().count() + 1;
    SourcePosition { line, column }
}

/// Returns the path and position of the first member that `is_wanted` accepts.
pub(crate) fn find_member(
    node: &TreeNode<'_>,
    path: &NodePath<'_>,
    is_wanted: fn(&NodeMember<'_>) -> bool,
) -> Option<(String, SourcePosition)> {
    match &node.kind {
        NodeValue::Null | NodeValue::Bool(_) | NodeValue::Number(_) | NodeValue::String(_) => None,
        NodeValue::Array(items) => {
            let mut items = items.iter().enumerate();
            items.find_map(|(at, item)| find_member(item, &NodePath::Item(path, at), is_wanted))
        }
        NodeValue::Object(members) => members.iter().find_map(|member| {
            let path = NodePath::Member(path, &member.key);
            if is_wanted(member) {
                return Some((String::from(&path), member.position));
            }
            find_member(&member.value, &path, is_wanted)
        }),
    }
}

/// Reports every key that appears twice in `members`, the members of the object at `path`. Both members
/// stay in the tree, because the error prevents any use of the tree.
fn refuse_duplicates(
    members: &[NodeMember<'_>],
    path: impl Fn() -> String,
    diagnostics: &mut DiagnosticList,
) {
    // Nearly all objects are small and have no duplicates. A comparison of all pairs finds that out without
    // memory of its own.
    let is_repeated = |at: usize| members[..at].iter().any(|other| other.key == members[at].key);
    if members.len() <= SMALL_OBJECT && !(1..members.len()).any(is_repeated) {
        return;
    }
    let mut seen = BTreeMap::<&str, SourcePosition>::new();
    for member in members {
        let Some(first) = seen.insert(&member.key, member.position) else { continue };
        let message = if first.line > 0 {
            format!("`{}` was already written on line {}", member.key, first.line)
        } else {
            format!("`{}` is written twice", member.key)
        };
        let path = member_path(&path(), &member.key);
        let twice = Diagnostic::error(error_code::DUPLICATE_KEY, (path, member.position), message);
        diagnostics.push(twice.with_related(first, "first written here"));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(source: &str, expected: &Value) {
        let (tree, diagnostics) = parse(source.as_bytes());
        assert!(diagnostics.is_empty(), "{source}");
        assert_eq!(tree.unwrap().to_value(), *expected, "{source}");
    }

    #[track_caller]
    fn check_refused(source: &[u8], code: &str) -> Vec<Diagnostic> {
        let diagnostics = parse(source).1.into_vec();
        let codes: Vec<_> = diagnostics.iter().map(|d| d.code.as_str()).collect();
        assert!(codes.contains(&code), "{codes:?}");
        diagnostics
    }

    #[test]
    fn scalars_follow_the_core_schema() {
        check("[yes, no, on, True, FALSE]", &json!(["yes", "no", "on", true, false]));
        check("[017, 0o17, 0x1F, +3, -0, 1_000]", &json!([17, 15, 31, 3, 0, "1_000"]));
        check("[1.5, .5, 1., 1e3, 1.0.0, 1:30]", &json!([1.5, 0.5, 1.0, 1e3, "1.0.0", "1:30"]));
        check("[~, null, Null, 'null', '', ]", &json!([null, null, null, "null", ""]));
        check("[2001-01-01, 0o8, 0x, '1']", &json!(["2001-01-01", "0o8", "0x", "1"]));
        check("a:", &json!({ "a": null }));
    }

    #[test]
    fn yaml_and_json_give_the_same_tree() {
        let value = json!({"200": {"a": [1, 2.5, "x\u{1F600}\n"]}, "b": false});
        check(&value.to_string(), &value);
        check("200:\n  a: [1, 2.5, \"x\\U0001F600\\n\"]\nb: false # no\n", &value);
        check(r#"{"a": "\ud83d\ude00\/"}"#, &json!({"a": "\u{1F600}/"}));
    }

    #[test]
    fn json_has_positions_too() {
        let diagnostics = check_refused(b"{\n \"a\": 1,\n \"a\": 2}", "A2S005");
        assert_eq!(diagnostics[0].position, SourcePosition { line: 3, column: 2 });
    }

    #[test]
    fn aliases_are_expanded() {
        check("a: &x {b: 1}\nc: *x", &json!({"a": {"b": 1}, "c": {"b": 1}}));
    }

    #[test]
    fn what_a_document_may_not_use_is_refused() {
        for source in [
            "a: !!str 1",
            "a: !x {}",
            "<<: {a: 1}",
            "--- 1\n--- 2",
            "? [a]\n: 1",
            "%YAML 1.1\n---\na",
        ] {
            check_refused(
                source.as_bytes(),
                if source.starts_with('%') { "A2S003" } else { "A2S006" },
            );
        }
        check_refused(b"a: .nan", "A2S007");
        check_refused(b"a: 9007199254740993", "A2S007");
        check_refused(b"{\"a\": 9007199254740993}", "A2S007");
        check_refused(b"a: [1, 2", "A2S003");
        check_refused(b"a: *nowhere", "A2S003");
        check_refused(b"a: \xff", "A2S002");
        check_refused(b"1: a\n'1': b", "A2S005");
    }

    #[test]
    fn bombs_are_refused_in_bounded_time() {
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..12 {
            let below = level - 1;
            let items = vec![format!("*a{below}"); 10].join(", ");
            bomb.extend([format!("a{level}: &a{level} [{items}]\n")]);
        }
        check_refused(bomb.as_bytes(), "A2S004");
        check_refused("[".repeat(10_000).as_bytes(), "A2S004");
        check_refused(("[".repeat(100) + &"]".repeat(100)).as_bytes(), "A2S004");
        check_refused(&vec![b'a'; MAX_BYTES + 1], "A2S001");
        let long = format!("a: &a {}\nb: [{}]", "x".repeat(100_000), vec!["*a"; 1000].join(","));
        check_refused(long.as_bytes(), "A2S004");
    }
}
