//! Reads the members of an object one by one; members left over at the end are unknown.

use std::ops::RangeInclusive;

use super::DiagnosticSink;
use crate::diagnostic::{SourceLocation, SourcePosition, did_you_mean};
use crate::error_code;
use crate::tree::{NodeMember, NodeValue, TreeNode, item_path, member_path};

/// A reader of the members of one object.
pub(crate) struct ObjectReader<'n> {
    node: &'n TreeNode<'n>,
    members: &'n [NodeMember<'n>],
    path: String,
    what: &'static str,
    known: Vec<&'static str>,
    hints: Vec<(&'static str, &'static str)>,
}

/// A member that was taken from an object, or an item of a list.
pub(crate) struct DocumentField<'n> {
    pub(crate) node: &'n TreeNode<'n>,
    pub(crate) path: String,
    /// The position of its key; for an item, the position of the item.
    pub(crate) key: SourcePosition,
}

/// The types of value that a field may require.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExpectedType {
    Text,
    Integer,
    Boolean,
    List,
    Mapping,
}

impl<'n> ObjectReader<'n> {
    /// Opens the members of `field` for reading. Messages call the object `what` ("a step").
    pub(crate) fn open(
        field: &DocumentField<'n>,
        what: &'static str,
        findings: &mut DiagnosticSink,
    ) -> Option<Self> {
        let Some(members) = field.node.members() else {
            findings.wrong_type(field, ExpectedType::Mapping, &format!("{what} must be a mapping"));
            return None;
        };
        let path = field.path.clone();
        Some(Self { node: field.node, members, path, what, known: Vec::new(), hints: Vec::new() })
    }

    /// Calls the object `what` in later messages.
    pub(crate) fn rename(&mut self, what: &'static str) {
        self.what = what;
    }

    /// Sets the hint for the member `key`, used when the decoder does not take the member.
    pub(crate) fn explain(&mut self, key: &'static str, hint: &'static str) {
        self.hints.push((key, hint));
    }

    /// Returns true when there is a member `key`; does not take it.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.members.iter().any(|member| member.key == key)
    }

    /// Takes the member `key`, if it exists.
    pub(crate) fn take(&mut self, key: &'static str) -> Option<DocumentField<'n>> {
        self.known.push(key);
        let member = self.members.iter().find(|member| member.key == key)?;
        let path = member_path(&self.path, key);
        Some(DocumentField { node: &member.value, path, key: member.position })
    }

    /// Takes the member `key`, which a2s 1.1 introduced. Reports it in an older document, but returns it
    /// anyway.
    pub(crate) fn take_since_1_1(
        &mut self,
        key: &'static str,
        findings: &mut DiagnosticSink,
    ) -> Option<DocumentField<'n>> {
        let taken = self.take(key);
        if let Some(taken) = &taken {
            findings.require_version(taken.at_key(), &format!("the field `{key}`"));
        }
        taken
    }

    /// Takes the member `key`. Reports when it is missing.
    pub(crate) fn require(
        &mut self,
        key: &'static str,
        findings: &mut DiagnosticSink,
    ) -> Option<DocumentField<'n>> {
        let taken = self.take(key);
        if taken.is_none() {
            findings.incomplete = true;
        }
        // A slip of the pen is reported once, as the unknown field that it makes.
        let misspelt = || {
            let mut unknown = self.members.iter().filter(|member| !is_extension(&member.key));
            unknown.any(|member| did_you_mean(&member.key, [key]).is_some())
        };
        if taken.is_none() && !misspelt() {
            let message = format!("{} requires the field `{key}`", self.what);
            let hint = match example(key) {
                Some(example) => format!("Add it: `{example}`."),
                None => error_code::MISSING_FIELD.remedy.to_owned(),
            };
            let code = error_code::MISSING_FIELD;
            findings.error_with_hint(code, (&self.path, self.node.position), message, hint);
        }
        taken
    }

    /// Takes the member that has one of two names for the same field. Reports an error when both are
    /// present.
    pub(crate) fn take_either(
        &mut self,
        one: &'static str,
        other: &'static str,
        findings: &mut DiagnosticSink,
    ) -> Option<DocumentField<'n>> {
        let (first, second) = (self.take(one), self.take(other));
        if let (Some(_), Some(second)) = (&first, &second) {
            let message = format!("`{one}` and `{other}` are two names for the same field");
            findings.error(error_code::DUPLICATE_KEY, second.at_key(), message);
        }
        first.or(second)
    }

    /// Reports every member that was not taken, unless its name begins with `x-`.
    pub(crate) fn finish(self, findings: &mut DiagnosticSink) {
        for member in self.members {
            let key = &*member.key;
            if self.known.contains(&key) || is_extension(key) {
                continue;
            }
            if findings.diagnostics.is_full() {
                findings.diagnostics.count_error();
                continue;
            }
            let path = member_path(&self.path, key);
            let message = format!("{} has no field `{key}`", self.what);
            let explained = self.hints.iter().find(|(name, _)| *name == key);
            let hint = match (explained, did_you_mean(key, self.known.iter().copied())) {
                (Some((_, hint)), _) => (*hint).to_owned(),
                (None, Some(close)) => format!("Did you mean `{close}`?"),
                (None, None) => error_code::UNKNOWN_FIELD.remedy.to_owned(),
            };
            let code = error_code::UNKNOWN_FIELD;
            findings.error_with_hint(code, (path, member.position), message, hint);
        }
    }
}

impl<'n> DocumentField<'n> {
    /// The whole document, with an empty path.
    pub(crate) fn root(node: &'n TreeNode<'n>) -> Self {
        Self { node, path: String::new(), key: node.position }
    }

    /// Returns the location of the value.
    pub(crate) fn at_value(&self) -> SourceLocation {
        SourceLocation { path: self.path.clone(), position: self.node.position }
    }

    /// Returns the location of the key.
    pub(crate) fn at_key(&self) -> SourceLocation {
        SourceLocation { path: self.path.clone(), position: self.key }
    }

    /// Returns the text if the value is a string. Reports any other value.
    pub(crate) fn string(&self, findings: &mut DiagnosticSink) -> Option<&'n str> {
        let text = self.node.as_str();
        if text.is_none() {
            findings.wrong_type(self, ExpectedType::Text, "a string is required here");
        }
        text
    }

    /// Returns the number if the value is a whole number within `range`. Reports any other value. Messages
    /// call the number `what`.
    pub(crate) fn integer(
        &self,
        what: &str,
        range: RangeInclusive<u64>,
        findings: &mut DiagnosticSink,
    ) -> Option<u64> {
        let NodeValue::Number(number) = &self.node.kind else {
            findings.wrong_type(self, ExpectedType::Integer, "a whole number is required here");
            return None;
        };
        // `3.0` is the same number as `3`: a rewritten document may have either.
        let whole = number.as_u64().or_else(|| {
            let number = number.as_f64().filter(|number| number.fract() == 0.0)?;
            format!("{number:.0}").parse().ok()
        });
        let found = whole.filter(|number| range.contains(number));
        if found.is_none() {
            let (least, most) = (range.start(), range.end());
            let message = format!("{what} cannot be {number}");
            let hint = format!("Write a whole number from {least} to {most}.");
            findings.error_with_hint(error_code::BAD_VALUE, self.at_value(), message, hint);
        }
        found
    }

    /// The value of a boolean; reports any other type.
    pub(crate) fn boolean(&self, findings: &mut DiagnosticSink) -> Option<bool> {
        let NodeValue::Bool(value) = self.node.kind else {
            findings.wrong_type(self, ExpectedType::Boolean, "`true` or `false` is required here");
            return None;
        };
        Some(value)
    }

    /// The meaning of one of the known words; `what` names the kind of word in messages. Reports an unknown
    /// word.
    pub(crate) fn word<T: Copy>(
        &self,
        what: &str,
        known: &[(&'static str, T)],
        findings: &mut DiagnosticSink,
    ) -> Option<T> {
        let text = self.string(findings)?;
        let found = known.iter().find(|(word, _)| *word == text).map(|(_, meaning)| *meaning);
        if found.is_none() {
            let words: Vec<_> = known.iter().map(|(word, _)| *word).collect();
            findings.unknown_word(self, what, text, &words);
        }
        found
    }

    /// Returns the items if the value is a list. Reports any other value.
    pub(crate) fn items(&self, findings: &mut DiagnosticSink) -> Vec<Self> {
        let NodeValue::Array(items) = &self.node.kind else {
            findings.wrong_type(self, ExpectedType::List, "a list is required here");
            return Vec::new();
        };
        let item = |(index, node): (usize, &'n TreeNode<'n>)| DocumentField {
            node,
            path: item_path(&self.path, index),
            key: node.position,
        };
        items.iter().enumerate().map(item).collect()
    }

    /// Returns the members with their keys if the value is a mapping. Reports any other value.
    pub(crate) fn entries(&self, findings: &mut DiagnosticSink) -> Vec<(&'n str, Self)> {
        let Some(members) = self.node.members() else {
            findings.wrong_type(self, ExpectedType::Mapping, "a mapping is required here");
            return Vec::new();
        };
        let entry = |member: &'n NodeMember<'n>| {
            let path = member_path(&self.path, &member.key);
            (&*member.key, DocumentField { node: &member.value, path, key: member.position })
        };
        members.iter().map(entry).collect()
    }
}

/// Returns true when a field is an extension of the author, which the language ignores.
fn is_extension(key: &str) -> bool {
    key.starts_with("x-")
}

/// An example of a required field.
fn example(key: &str) -> Option<&'static str> {
    Some(match key {
        "a2s" => "a2s: 1.0.0",
        "name" => "name: GetWeather",
        "description" => "description: What it does, in one sentence",
        "domains" => "domains: [api.example.com]",
        "version" => "version: \"1.0.0\"",
        "authors" => "authors: [{name: Your Name}]",
        "execution" => "execution: {type: sequence, steps: […]}",
        "id" => "id: getWeather",
        "type" => "type: sequence",
        "use" => "use: GetWeather",
        "steps" => "steps: [{id: getWeather, …}]",
        "condition" => "condition: \"${severity} == 'high'\"",
        "if_true" => "if_true: {steps: […]}",
        "task" => "task: {…}",
        "endpoint" => "endpoint: \"https://api.example.com/graphql\"",
        "query" => "query: \"{ … }\"",
        "server" => "server: \"https://mcp.example.com/mcp\"",
        "tool" => "tool: get_forecast",
        "capability" => "capability: GetWeather",
        "in" => "in: \"${cities}\"",
        "max_attempts" => "max_attempts: 3",
        "path" => "path: \"$.data.id\"",
        _ => return None,
    })
}

/// Returns true when `text` is a placeholder of the published templates: `<calculated_checksum>`.
pub fn is_placeholder(text: &str) -> bool {
    text.starts_with('<') && text.ends_with('>')
}
