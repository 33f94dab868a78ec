//! A value of a specification that knows where it stands, and where its `$ref` leads.

use percent_encoding::percent_decode_str;
use serde_json::Value;

use crate::diagnostic::{SourceLocation, SourcePosition};
use crate::field_reader::{DocumentField, shorten_for_message};
use crate::task::Problem;
use crate::tree::{NodeValue, TreeNode, item_path, member_path};

/// The longest chain of `$ref`s.
pub(super) const MAX_REFS: usize = 32;

/// A value and its location in the document.
#[derive(Debug, Clone)]
pub(super) struct LocatedValue<'n> {
    pub(super) node: &'n TreeNode<'n>,
    path: String,
    key: SourcePosition,
}

impl<'n> LocatedValue<'n> {
    pub(super) fn from_field(field: &DocumentField<'n>) -> Self {
        Self { node: field.node, path: field.path.clone(), key: field.key }
    }

    pub(super) fn location(&self) -> SourceLocation {
        SourceLocation { path: self.path.clone(), position: self.key }
    }

    /// Returns the member `key`, unless it is missing or null.
    pub(super) fn get(&self, key: &str) -> Option<Self> {
        let member = self.node.member(key)?;
        let filled = !matches!(member.value.kind, NodeValue::Null);
        filled.then(|| Self {
            node: &member.value,
            path: member_path(&self.path, key),
            key: member.position,
        })
    }

    /// Returns the items of a list; empty for any other value.
    pub(super) fn items(&self) -> Vec<Self> {
        let NodeValue::Array(items) = &self.node.kind else { return Vec::new() };
        let item = |(index, node): (usize, &'n TreeNode<'n>)| Self {
            node,
            path: item_path(&self.path, index),
            key: node.position,
        };
        items.iter().enumerate().map(item).collect()
    }

    /// Returns the members of a mapping with their keys; empty for any other value.
    pub(super) fn entries(&self) -> Vec<(&'n str, Self)> {
        let members = self.node.members().unwrap_or_default();
        let entry = |member: &'n crate::tree::NodeMember<'n>| {
            let path = member_path(&self.path, &member.key);
            (&*member.key, Self { node: &member.value, path, key: member.position })
        };
        members.iter().map(entry).collect()
    }

    /// Returns the text of the member `key`.
    pub(super) fn text(&self, key: &str) -> Option<&'n str> {
        self.node.get(key).and_then(TreeNode::as_str)
    }

    pub(super) fn is_mapping(&self) -> bool {
        self.node.members().is_some()
    }

    /// The target of a fragment's JSON pointer, starting here.
    fn at(&self, fragment: &str) -> Option<Self> {
        // A pointer in an address is percent-encoded as well (RFC 6901, section 6).
        let pointer = percent_decode_str(fragment).decode_utf8().ok()?;
        let mut tokens = pointer.split('/');
        if tokens.next() != Some("") {
            return None;
        }
        tokens.try_fold(self.clone(), |spot, token| {
            let token = token.replace("~1", "/").replace("~0", "~");
            match &spot.node.kind {
                NodeValue::Array(items) => {
                    let index = token.parse().ok().filter(|index| *index < items.len())?;
                    let path = item_path(&spot.path, index);
                    Some(Self { node: &items[index], path, key: items[index].position })
                }
                _ => spot.get(&token),
            }
        })
    }

    /// The target of the `$ref` here inside `root`; `None` when there is no `$ref`.
    pub(super) fn step(&self, root: &Self) -> Result<Option<Self>, Problem> {
        let Some(reference) = self.node.get("$ref") else { return Ok(None) };
        let fragment = reference.as_str().and_then(|text| text.strip_prefix('#'));
        match fragment.and_then(|fragment| root.at(fragment)) {
            Some(target) => Ok(Some(target)),
            None => {
                let target = reference.as_str().unwrap_or("(not a string)");
                let message =
                    format!("`$ref: {}` does not exist in the task", shorten_for_message(target));
                Err((
                    message,
                    "Add the target of the reference, or write its content here.".to_owned(),
                ))
            }
        }
    }

    /// The value here, or the final target of its `$ref`s inside `root`.
    pub(super) fn follow(&self, root: &Self) -> Result<Self, Problem> {
        let mut spot = self.clone();
        for _ in 0..=MAX_REFS {
            match spot.step(root)? {
                Some(target) => spot = target,
                None => return Ok(spot),
            }
        }
        Err(too_many_refs())
    }

    /// Estimates the memory that the value takes, in values. It counts at most `limit` values.
    pub(super) fn weight(&self, limit: usize) -> usize {
        weigh(self.node, limit)
    }

    /// Returns the value as written.
    pub(super) fn to_value(&self) -> Value {
        self.node.to_value()
    }
}

/// Returns the problem for `$ref`s that form a circle or a chain that is too long.
pub(super) fn too_many_refs() -> Problem {
    let message = format!("the chain of `$ref`s is longer than {MAX_REFS}");
    (message, "Write the content of the reference here.".to_owned())
}

fn weigh(node: &TreeNode<'_>, limit: usize) -> usize {
    let text = |text: &str| 1 + text.len() / 32;
    let mut sum = match &node.kind {
        NodeValue::Null | NodeValue::Bool(_) | NodeValue::Number(_) => 1,
        NodeValue::String(string) => text(string),
        NodeValue::Array(_) | NodeValue::Object(_) => 1,
    };
    match &node.kind {
        NodeValue::Array(items) => {
            for item in items {
                if sum > limit {
                    break;
                }
                sum += weigh(item, limit - sum);
            }
        }
        NodeValue::Object(members) => {
            for member in members {
                if sum > limit {
                    break;
                }
                sum += text(&member.key);
                sum += weigh(&member.value, limit.saturating_sub(sum));
            }
        }
        NodeValue::Null | NodeValue::Bool(_) | NodeValue::Number(_) | NodeValue::String(_) => {}
    }
    sum
}
