//! The members of an object, taken one by one; what is left over at the end is unknown.

use super::Findings;
use crate::code;
use crate::diagnostic::{Position, did_you_mean};
use crate::tree::{Member, Node, member_path};

/// Fields of the language's next version, so that its documents get a better error than "unknown".
const NEWER_FIELDS: [&str; 12] = [
    "retry",
    "timeout",
    "for_each",
    "on_error",
    "catch",
    "permissions",
    "max_concurrency",
    "required",
    "default",
    "enum",
    "secret",
    "examples",
];

/// The members of one object.
pub(crate) struct Fields<'n> {
    node: &'n Node,
    members: &'n [Member],
    path: String,
    what: &'static str,
    known: Vec<&'static str>,
    hints: Vec<(&'static str, &'static str)>,
}

/// A member that was taken, or an item of a list.
pub(crate) struct Taken<'n> {
    pub(crate) node: &'n Node,
    pub(crate) path: String,
    /// Where its key stands; of an item, where the item does.
    pub(crate) key: Position,
}

/// The kinds of value that a field may want.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Text,
    List,
    Mapping,
}

impl<'n> Fields<'n> {
    /// The members of `field`, which is called `what` ("a step") in messages.
    pub(crate) fn open(
        field: &Taken<'n>,
        what: &'static str,
        findings: &mut Findings,
    ) -> Option<Self> {
        let Some(members) = field.node.members() else {
            findings.wrong_type(field, Shape::Mapping, &format!("{what} is a mapping"));
            return None;
        };
        let path = field.path.clone();
        Some(Self { node: field.node, members, path, what, known: Vec::new(), hints: Vec::new() })
    }

    /// Calls the object `what` in messages from here on.
    pub(crate) fn rename(&mut self, what: &'static str) {
        self.what = what;
    }

    /// Says what to do about the member `key` in case that nobody takes it.
    pub(crate) fn explain(&mut self, key: &'static str, hint: &'static str) {
        self.hints.push((key, hint));
    }

    /// Whether there is a member `key`; does not take it.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.members.iter().any(|member| member.key == key)
    }

    /// The member `key`, when it is there.
    pub(crate) fn take(&mut self, key: &'static str) -> Option<Taken<'n>> {
        self.known.push(key);
        let member = self.members.iter().find(|member| member.key == key)?;
        let path = member_path(&self.path, key);
        Some(Taken { node: &member.value, path, key: member.position })
    }

    /// The member `key`; reports when it is missing.
    pub(crate) fn require(
        &mut self,
        key: &'static str,
        findings: &mut Findings,
    ) -> Option<Taken<'n>> {
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
            let message = format!("{} needs the field `{key}`", self.what);
            let hint = match example(key) {
                Some(example) => format!("Add it: `{example}`."),
                None => code::MISSING_FIELD.remedy.to_owned(),
            };
            let at = self.node.position;
            findings.error_with_hint(code::MISSING_FIELD, &self.path, at, message, hint);
        }
        taken
    }

    /// The member under one of two names of the same thing; both at once are refused.
    pub(crate) fn take_either(
        &mut self,
        one: &'static str,
        other: &'static str,
        findings: &mut Findings,
    ) -> Option<Taken<'n>> {
        let (first, second) = (self.take(one), self.take(other));
        if let (Some(_), Some(second)) = (&first, &second) {
            let message = format!("`{one}` and `{other}` are two names of one field");
            findings.error(code::DUPLICATE_KEY, &second.path, second.key, message);
        }
        first.or(second)
    }

    /// Reports every member that nobody took, unless its name begins with `x-`.
    pub(crate) fn finish(self, findings: &mut Findings) {
        for member in self.members {
            let key = member.key.as_str();
            if self.known.contains(&key) || is_extension(key) {
                continue;
            }
            let path = member_path(&self.path, key);
            let message = format!("{} has no field `{key}`", self.what);
            let explained = self.hints.iter().find(|(name, _)| *name == key);
            let hint = match (explained, did_you_mean(key, self.known.iter().copied())) {
                (Some((_, hint)), _) => (*hint).to_owned(),
                (None, Some(close)) => format!("Did you mean `{close}`?"),
                (None, None) if NEWER_FIELDS.contains(&key) => {
                    "This field belongs to a2s 1.1, which is not read yet; remove it.".to_owned()
                }
                (None, None) => code::UNKNOWN_FIELD.remedy.to_owned(),
            };
            findings.error_with_hint(code::UNKNOWN_FIELD, &path, member.position, message, hint);
        }
    }
}

impl<'n> Taken<'n> {
    /// Where the whole document stands.
    pub(crate) fn root(node: &'n Node) -> Self {
        Self { node, path: String::new(), key: node.position }
    }

    /// The text, when it is a string; reports when it is not.
    pub(crate) fn string(&self, findings: &mut Findings) -> Option<&'n str> {
        let text = self.node.as_str();
        if text.is_none() {
            findings.wrong_type(self, Shape::Text, "a string belongs here");
        }
        text
    }

    /// The items, when it is a list; reports when it is not.
    pub(crate) fn items(&self, findings: &mut Findings) -> Vec<Self> {
        let crate::tree::Kind::Array(items) = &self.node.kind else {
            findings.wrong_type(self, Shape::List, "a list belongs here");
            return Vec::new();
        };
        let item = |(index, node): (usize, &'n Node)| Taken {
            node,
            path: crate::tree::item_path(&self.path, index),
            key: node.position,
        };
        items.iter().enumerate().map(item).collect()
    }

    /// The members with their keys, when it is a mapping; reports when it is not.
    pub(crate) fn entries(&self, findings: &mut Findings) -> Vec<(&'n str, Self)> {
        let Some(members) = self.node.members() else {
            findings.wrong_type(self, Shape::Mapping, "a mapping belongs here");
            return Vec::new();
        };
        let entry = |member: &'n Member| {
            let path = member_path(&self.path, &member.key);
            (member.key.as_str(), Taken { node: &member.value, path, key: member.position })
        };
        members.iter().map(entry).collect()
    }
}

/// Whether a field is the author's own, which the language ignores.
fn is_extension(key: &str) -> bool {
    key.starts_with("x-")
}

/// How a required field looks.
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
        "capability" => "capability: GetWeather",
        _ => return None,
    })
}

/// Whether `text` is a placeholder of the published templates: `<calculated_checksum>`.
pub(crate) fn is_placeholder(text: &str) -> bool {
    text.starts_with('<') && text.ends_with('>')
}
