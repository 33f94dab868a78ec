//! Templates: JSON values with `${path}` in their strings.
//!
//! A string that is exactly one `${path}` takes the value with its JSON type. Inside text, strings are
//! inserted as they are and other values as JSON. `$${` stands for `${`. Inserted values are data: they are
//! never read as templates again.

use std::borrow::Cow;
use std::fmt;

use indexmap::IndexMap;
use serde_json::{Map, Value};

use crate::error_code;
use crate::field_reader::DiagnosticSink;
use crate::task::InputLocation;
use crate::tree::{NodeMember, NodePath, NodeValue, TreeNode};

/// A key of a reference: `.name` or `[0]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PathKey {
    Name(String),
    Item(usize),
}

/// Writes the key in the syntax of references.
impl fmt::Display for PathKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(f, ".{name}"),
            Self::Item(index) => write!(f, "[{index}]"),
        }
    }
}

/// A value that may contain references.
#[derive(Debug, Clone, PartialEq)]
pub enum Template {
    /// A value without references.
    Literal(Value),
    /// One reference: the value keeps its type.
    Reference(VariableReference),
    /// Text with references.
    Text(Vec<TemplatePart>),
    /// Items that have references.
    Array(Vec<Self>),
    /// Members that have references.
    Object(IndexMap<String, Self>),
}

/// A part of a text.
#[derive(Debug, Clone, PartialEq)]
pub enum TemplatePart {
    /// Literal characters.
    Literal(String),
    /// A value to insert.
    Reference(VariableReference),
}

/// A path to a value: `weather.days[0].text`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct VariableReference {
    /// The variable.
    variable: String,
    /// The path below the variable.
    path: Vec<ReferenceSegment>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum ReferenceSegment {
    Member(String),
    Item(usize),
}

/// The values that templates and conditions read, by the names of variables.
pub trait VariableSource {
    /// Returns the value of a variable.
    fn variable(&self, name: &str) -> Option<&Value>;

    /// Returns true when a name is that of an optional parameter without a value.
    fn is_absent(&self, _name: &str) -> bool {
        false
    }

    /// Returns the value to render in place of `value`, the value of a reference. `None` when that value
    /// itself is rendered.
    fn replacement(&self, _reference: &VariableReference, _value: &Value) -> Option<Value> {
        None
    }
}

impl VariableSource for Map<String, Value> {
    fn variable(&self, name: &str) -> Option<&Value> {
        self.get(name)
    }
}

/// The error for a reference without a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`${{{reference}}}` has no value: {reason}")]
pub struct MissingReference {
    /// The reference, without `${}`.
    pub reference: String,
    /// The point where the path ended, and the value there.
    pub reason: String,
}

impl Template {
    /// Returns the value with every reference replaced.
    ///
    /// # Errors
    /// Returns the first reference without a value.
    pub fn render(&self, variables: &dyn VariableSource) -> Result<Value, MissingReference> {
        Ok(self.render_as(variables, false)?.unwrap_or(Value::Null))
    }

    /// Renders the value like `render`, but leaves out a part that is exactly a reference to an absent
    /// variable: a member, an item, or the whole value, which is then `None`.
    ///
    /// # Errors
    /// The first reference that leads nowhere.
    pub fn render_present(
        &self,
        variables: &dyn VariableSource,
    ) -> Result<Option<Value>, MissingReference> {
        self.render_as(variables, true)
    }

    /// Renders the value of an input of a task like `render_present`. A text that contains an absent
    /// variable is left out, too, where the location [omits it](InputLocation::omits_incomplete_text):
    /// `Bearer null` is not a credential.
    ///
    /// # Errors
    /// The first reference that leads nowhere.
    pub fn render_input(
        &self,
        place: &InputLocation,
        variables: &dyn VariableSource,
    ) -> Result<Option<Value>, MissingReference> {
        let lacks_value = |reference: &&VariableReference| variables.is_absent(&reference.variable);
        let is_text = matches!(self, Self::Text(_)) && place.omits_incomplete_text();
        if is_text && self.references().iter().any(lacks_value) {
            return Ok(None);
        }
        self.render_present(variables)
    }

    fn render_as(
        &self,
        variables: &dyn VariableSource,
        without_absent: bool,
    ) -> Result<Option<Value>, MissingReference> {
        let is_left_out = |name: &str| without_absent && variables.is_absent(name);
        let resolve = |reference: &VariableReference| {
            let value = reference.resolve(variables)?;
            let replacement = variables.replacement(reference, value);
            Ok(replacement.map_or(Cow::Borrowed(value), Cow::Owned))
        };
        Ok(Some(match self {
            Self::Literal(value) => value.clone(),
            Self::Reference(reference) if is_left_out(&reference.variable) => return Ok(None),
            Self::Reference(reference) => resolve(reference)?.into_owned(),
            Self::Text(pieces) => {
                let mut text = String::new();
                for piece in pieces {
                    match piece {
                        TemplatePart::Literal(literal) => text.push_str(literal),
                        TemplatePart::Reference(reference) => match &*resolve(reference)? {
                            Value::String(value) => text.push_str(value),
                            value => text.push_str(&value.to_string()),
                        },
                    }
                }
                Value::String(text)
            }
            Self::Array(items) => {
                let items = items.iter().map(|item| item.render_as(variables, without_absent));
                Value::Array(items.filter_map(Result::transpose).collect::<Result<_, _>>()?)
            }
            Self::Object(members) => {
                let mut object = Map::new();
                for (key, member) in members {
                    let value = member.render_as(variables, without_absent)?;
                    object.extend(value.map(|value| (key.clone(), value)));
                }
                Value::Object(object)
            }
        }))
    }

    /// The value with known references replaced; references without a value stay as `${path}`.
    #[must_use]
    pub fn preview(&self, variables: &dyn VariableSource) -> Value {
        match self {
            Self::Text(pieces) => {
                let text = pieces.iter().map(|piece| match piece {
                    TemplatePart::Literal(literal) => literal.clone(),
                    TemplatePart::Reference(reference) => match reference.resolve(variables) {
                        Ok(Value::String(value)) => value.clone(),
                        Ok(value) => value.to_string(),
                        Err(_) => format!("${{{reference}}}"),
                    },
                });
                Value::String(text.collect())
            }
            Self::Array(items) => items.iter().map(|item| item.preview(variables)).collect(),
            Self::Object(members) => members
                .iter()
                .map(|(key, member)| (key.clone(), member.preview(variables)))
                .collect::<Map<_, _>>()
                .into(),
            Self::Reference(reference) => match reference.resolve(variables) {
                Ok(value) => value.clone(),
                Err(_) => Value::String(format!("${{{reference}}}")),
            },
            Self::Literal(value) => value.clone(),
        }
    }

    /// Returns every reference, in the order of the text.
    #[must_use]
    pub fn references(&self) -> Vec<&VariableReference> {
        match self {
            Self::Literal(_) => Vec::new(),
            Self::Reference(reference) => vec![reference],
            Self::Text(pieces) => pieces
                .iter()
                .filter_map(|piece| match piece {
                    TemplatePart::Literal(_) => None,
                    TemplatePart::Reference(reference) => Some(reference),
                })
                .collect(),
            Self::Array(items) => items.iter().flat_map(Self::references).collect(),
            Self::Object(members) => members.values().flat_map(Self::references).collect(),
        }
    }

    /// Returns the names of the members, if the value is certainly an object.
    #[must_use]
    pub fn members(&self) -> Option<Vec<&str>> {
        match self {
            Self::Object(members) => Some(members.keys().map(String::as_str).collect()),
            Self::Literal(Value::Object(members)) => {
                Some(members.keys().map(String::as_str).collect())
            }
            Self::Literal(_) | Self::Reference(_) | Self::Text(_) | Self::Array(_) => None,
        }
    }

    /// Reads a template. Errors go to `findings`, and a part that cannot be read becomes null.
    pub(crate) fn decode(node: &TreeNode<'_>, path: &str, findings: &mut DiagnosticSink) -> Self {
        Self::decode_at(node, &NodePath::Start(path), findings)
    }

    fn decode_at(node: &TreeNode<'_>, path: &NodePath<'_>, findings: &mut DiagnosticSink) -> Self {
        match &node.kind {
            NodeValue::Null | NodeValue::Bool(_) | NodeValue::Number(_) => {
                Self::Literal(node.to_value())
            }
            NodeValue::String(text) => Self::parse(text).unwrap_or_else(|message| {
                findings.error(error_code::BAD_TEMPLATE, (path, node.position), message);
                Self::Literal(Value::Null)
            }),
            NodeValue::Array(items) => {
                let decode =
                    |(at, item)| Self::decode_at(item, &NodePath::Item(path, at), findings);
                Self::Array(items.iter().enumerate().map(decode).collect())
            }
            NodeValue::Object(members) => {
                let decode = |member: &NodeMember<'_>| {
                    let path = NodePath::Member(path, &member.key);
                    (
                        member.key.as_ref().to_owned(),
                        Self::decode_at(&member.value, &path, findings),
                    )
                };
                Self::Object(members.iter().map(decode).collect())
            }
        }
    }

    /// Parses the template of one string.
    ///
    /// # Errors
    /// The mistake, in words.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            literal.push_str(&rest[..at]);
            rest = &rest[at..];
            if let Some(after) = rest.strip_prefix("$${") {
                literal.push_str("${");
                rest = after;
            } else if let Some(after) = rest.strip_prefix("${") {
                let end = after.find('}').ok_or("`${` without `}`")?;
                if !literal.is_empty() {
                    pieces.push(TemplatePart::Literal(std::mem::take(&mut literal)));
                }
                pieces.push(TemplatePart::Reference(VariableReference::parse(&after[..end])?));
                rest = &after[end + 1..];
            } else {
                literal.push('$');
                rest = &rest[1..];
            }
        }
        literal.push_str(rest);
        if pieces.is_empty() {
            return Ok(Self::Literal(Value::String(literal)));
        }
        if literal.is_empty()
            && let [TemplatePart::Reference(reference)] = pieces.as_slice()
        {
            return Ok(Self::Reference(reference.clone()));
        }
        if !literal.is_empty() {
            pieces.push(TemplatePart::Literal(literal));
        }
        Ok(Self::Text(pieces))
    }
}

impl VariableReference {
    /// Parses the path between `${` and `}`.
    ///
    /// # Errors
    /// The mistake, in words.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`${{{text}}}` is not a reference; write names separated by dots and indexes in brackets, as in `${{days[0].text}}`"
            )
        };
        let mut rest = text.trim();
        let name = |rest: &mut &str| {
            let end = rest
                .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-'))
                .unwrap_or(rest.len());
            let (name, after) = rest.split_at(end);
            *rest = after;
            is_name(name).then(|| name.to_owned())
        };
        let variable = name(&mut rest).ok_or_else(wrong)?;
        let mut way = Vec::new();
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix('.') {
                rest = after;
                way.push(ReferenceSegment::Member(name(&mut rest).ok_or_else(wrong)?));
            } else if let Some(after) = rest.strip_prefix('[') {
                let (index, after) = after.split_once(']').ok_or_else(wrong)?;
                let digits = !index.is_empty() && index.bytes().all(|b| b.is_ascii_digit());
                let index = index.parse().ok().filter(|_| digits).ok_or_else(wrong)?;
                way.push(ReferenceSegment::Item(index));
                rest = after;
            } else {
                return Err(wrong());
            }
        }
        Ok(Self { variable, path: way })
    }

    /// Returns the variable at the start of the path.
    #[must_use]
    pub fn variable(&self) -> &str {
        &self.variable
    }

    /// Returns true when it is a whole variable, without a path below it.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.path.is_empty()
    }

    /// Returns the path below the variable.
    pub(crate) fn path_keys(&self) -> Vec<PathKey> {
        let key = |segment: &ReferenceSegment| match segment {
            ReferenceSegment::Member(name) => PathKey::Name(name.clone()),
            ReferenceSegment::Item(index) => PathKey::Item(*index),
        };
        self.path.iter().map(key).collect()
    }

    /// The value that the path leads to.
    ///
    /// # Errors
    /// When it leads nowhere: the point where the path ended, and the value there.
    pub fn resolve<'v>(
        &self,
        variables: &'v dyn VariableSource,
    ) -> Result<&'v Value, MissingReference> {
        let missing = |reason| MissingReference { reference: self.to_string(), reason };
        let mut value = variables
            .variable(&self.variable)
            .ok_or_else(|| missing(format!("unknown name `{}`", self.variable)))?;
        for (index, segment) in self.path.iter().enumerate() {
            let next = match segment {
                ReferenceSegment::Member(name) => value.get(name),
                ReferenceSegment::Item(index) => value.get(index),
            };
            value = next.ok_or_else(|| {
                let (variable, way) = (self.variable.clone(), self.path[..index].to_vec());
                let walked = Self { variable, path: way };
                missing(format!("`{walked}` is {}", crate::query::describe(value)))
            })?;
        }
        Ok(value)
    }
}

/// Returns true when `text` can name a variable: a letter or `_`, then letters, digits, `_` and `-`.
pub fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

impl fmt::Display for ReferenceSegment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Member(name) => write!(f, ".{name}"),
            Self::Item(index) => write!(f, "[{index}]"),
        }
    }
}

impl fmt::Display for VariableReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.variable)?;
        self.path.iter().try_for_each(|segment| segment.fmt(f))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn render(template: &Value, variables: &Value) -> Result<Value, String> {
        let source = template.to_string();
        let mut findings = DiagnosticSink::default();
        let text = format!("{{\"t\": {source}}}");
        let (tree, _) = crate::tree::parse(text.as_bytes());
        let template = Template::decode(tree.unwrap().get("t").unwrap(), "", &mut findings);
        if let Some(diagnostic) = findings.diagnostics.iter().next() {
            return Err(diagnostic.message.clone());
        }
        template.render(variables.as_object().unwrap()).map_err(|e| e.to_string())
    }

    #[track_caller]
    fn check(template: &Value, expected: &Value) {
        let variables = json!({
            "city": "Paris", "n": 3, "list": [1, {"x": "y"}], "none": null, "trap": "${city}", "a-b": true
        });
        assert_eq!(render(template, &variables).as_ref(), Ok(expected));
    }

    #[test]
    fn a_whole_reference_keeps_its_type_and_text_takes_text() {
        check(&json!("${n}"), &json!(3));
        check(&json!("${list}"), &json!([1, {"x": "y"}]));
        check(&json!("${list[1].x}"), &json!("y"));
        check(
            &json!("in ${city}: ${n} ${none} ${list}"),
            &json!("in Paris: 3 null [1,{\"x\":\"y\"}]"),
        );
        check(
            &json!({"a": ["${n}", {"b": "${a-b}"}], "c": 1}),
            &json!({"a": [3, {"b": true}], "c": 1}),
        );
    }

    #[test]
    fn what_was_not_given_is_left_out_where_it_stands_alone() {
        let template = |text: &str| {
            let (tree, _) = crate::tree::parse(text.as_bytes());
            Template::decode(&tree.unwrap(), "", &mut DiagnosticSink::default())
        };
        struct Given(Value);
        impl VariableSource for Given {
            fn variable(&self, name: &str) -> Option<&Value> {
                self.0.get(name)
            }

            fn is_absent(&self, name: &str) -> bool {
                name == "gone"
            }
        }
        let given = Given(json!({"a": 1, "gone": null}));
        let render = |text: &str| template(text).render_present(&given).unwrap();
        assert_eq!(render("'${gone}'"), None);
        assert_eq!(
            render("{x: '${a}', y: '${gone}', z: ['${gone}', '${a}'], t: 'no ${gone}'}"),
            Some(json!({"x": 1, "z": [1], "t": "no null"}))
        );
    }

    #[test]
    fn escapes_and_lone_dollars_stand_for_themselves() {
        check(&json!("$${city} costs $5 $$ ${n}$"), &json!("${city} costs $5 $$ 3$"));
        check(&json!(["$${n}"]), &json!(["${n}"]));
        check(&json!({"a": {"b": "$${n}"}}), &json!({"a": {"b": "${n}"}}));
    }

    #[test]
    fn inserted_text_is_never_a_template() {
        check(&json!("<${trap}>"), &json!("<${city}>"));
        check(&json!("${trap}"), &json!("${city}"));
    }

    #[test]
    fn what_is_no_reference_is_refused_with_words() {
        for bad in [
            "${}", "${ }", "${a.}", "${a[x]}", "${a[+1]}", "${a b}", "${1}", "${a", "${a[0}",
            "${é}",
        ] {
            assert!(render(&json!(bad), &json!({})).is_err(), "{bad}");
        }
        let missing = render(&json!("${a.b.c}"), &json!({"a": {"x": 1}})).unwrap_err();
        assert_eq!(missing, "`${a.b.c}` has no value: `a` is an object with the members `x`");
    }
}
