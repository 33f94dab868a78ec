//! JSON text to a tree. `serde_json::Value` keeps the last of two equal keys; this keeps both, so
//! that the loss can be refused.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Number;

use super::{MAX_DEPTH, MAX_NODES, NodeMember, NodePath, NodeValue, TreeNode, refuse_duplicates};
use crate::checksum::check_number;
use crate::diagnostic::{Diagnostic, DiagnosticList, SourcePosition};
use crate::error_code;

/// Reads `text` if it is one JSON object. A flow mapping of YAML starts in the same way, but it is not
/// JSON.
pub(super) fn parse(text: &str) -> Option<TreeNode<'_>> {
    if !text.trim_start().starts_with('{') {
        return None;
    }
    serde_json::from_str(text).ok()
}

/// Copies the positions of the same text, read as YAML, to `tree`, as far as the two trees agree.
pub(super) fn take_positions(tree: &mut TreeNode<'_>, placed: &TreeNode<'_>) {
    tree.position = placed.position;
    match (&mut tree.kind, &placed.kind) {
        (NodeValue::Array(items), NodeValue::Array(others)) => {
            for (item, other) in items.iter_mut().zip(others) {
                take_positions(item, other);
            }
        }
        (NodeValue::Object(members), NodeValue::Object(others)) => {
            for (member, other) in members.iter_mut().zip(others) {
                member.position = other.position;
                take_positions(&mut member.value, &other.value);
            }
        }
        _ => {}
    }
}

/// Reports content that JSON allows and a document does not.
pub(super) fn check(tree: &TreeNode<'_>, diagnostics: &mut DiagnosticList) {
    if tree.depth() > MAX_DEPTH || tree.size().0 > MAX_NODES {
        let message = format!(
            "the document has more than {MAX_DEPTH} levels, or more than {MAX_NODES} values"
        );
        diagnostics.push(Diagnostic::error(error_code::BUDGET, ("", tree.position), message));
        return;
    }
    check_node(tree, &NodePath::Start(""), diagnostics);
}

fn check_node(node: &TreeNode<'_>, path: &NodePath<'_>, diagnostics: &mut DiagnosticList) {
    match &node.kind {
        NodeValue::Number(number) => {
            if let Err(error) = check_number(number) {
                diagnostics.push(Diagnostic::error(
                    error_code::NUMBER,
                    (path, node.position),
                    error.to_string(),
                ));
            }
        }
        NodeValue::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                check_node(item, &NodePath::Item(path, index), diagnostics);
            }
        }
        NodeValue::Object(members) => {
            refuse_duplicates(members, || path.into(), diagnostics);
            for member in members {
                check_node(&member.value, &NodePath::Member(path, &member.key), diagnostics);
            }
        }
        NodeValue::Null | NodeValue::Bool(_) | NodeValue::String(_) => {}
    }
}

impl<'de> Deserialize<'de> for TreeNode<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer
            .deserialize_any(NodeVisitor)
            .map(|kind| Self { kind, position: SourcePosition::default() })
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = NodeValue<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<NodeValue<'de>, E> {
        Ok(NodeValue::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<NodeValue<'de>, E> {
        Ok(NodeValue::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<NodeValue<'de>, E> {
        Ok(NodeValue::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<NodeValue<'de>, E> {
        Ok(NodeValue::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<NodeValue<'de>, E> {
        Number::from_f64(value)
            .map(NodeValue::Number)
            .ok_or_else(|| E::custom("not a finite number"))
    }

    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<NodeValue<'de>, E> {
        Ok(NodeValue::String(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<NodeValue<'de>, E> {
        Ok(NodeValue::String(value.to_owned().into()))
    }

    fn visit_string<E>(self, value: String) -> Result<NodeValue<'de>, E> {
        Ok(NodeValue::String(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<NodeValue<'de>, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(NodeValue::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<NodeValue<'de>, A::Error> {
        let mut members = Vec::new();
        while let Some((key, value)) = access.next_entry::<String, TreeNode<'de>>()? {
            members.push(NodeMember {
                key: key.into(),
                position: SourcePosition::default(),
                has_empty_key: false,
                value,
            });
        }
        Ok(NodeValue::Object(members))
    }
}
