//! References to variables, and their places in the document.

use std::collections::BTreeSet;

use crate::diagnostic::SourceLocation;
use crate::document::{Capability, OnError, Step, StepBlock};
use crate::template::{Template, VariableReference};
use crate::tree::{NodeValue, TreeNode, item_path, member_path};

/// A part of a document that can read variables.
#[derive(Debug, Clone, Copy)]
pub(crate) enum VariableReader<'c> {
    /// The condition of `execution` itself.
    Execution,
    /// The list that a step runs over: read once, before the first iteration.
    Items(&'c Step),
    /// A step, without the steps below it.
    Step(&'c Step),
    /// The top-level `output`.
    Output,
}

impl<'c> VariableReader<'c> {
    pub(crate) fn references(self, capability: &'c Capability) -> Vec<&'c VariableReference> {
        let of_block = |block: &'c StepBlock| {
            let choice = block.choice().into_iter();
            choice.flat_map(|choice| choice.condition.references())
        };
        match self {
            Self::Execution => of_block(&capability.execution).collect(),
            Self::Items(step) => {
                let for_each = step.control.for_each.iter();
                for_each.flat_map(|for_each| for_each.items.references()).collect()
            }
            Self::Step(step) => {
                let inputs = step.action.input_templates().into_iter();
                let conditions = step.action.as_block().into_iter().flat_map(of_block);
                inputs.flat_map(Template::references).chain(conditions).collect()
            }
            Self::Output => capability.output.iter().flat_map(Template::references).collect(),
        }
    }

    /// Returns the location where it reads `reference`.
    pub(crate) fn site(self, root: &TreeNode<'_>, reference: &VariableReference) -> SourceLocation {
        let (owner, fields): (_, &[&str]) = match self {
            Self::Execution => ("execution", &["condition"]),
            Self::Items(step) => (step.pointer.as_str(), &["for_each"]),
            Self::Step(step) => {
                (step.pointer.as_str(), &["condition", "input_mapping", "input_template"])
            }
            Self::Output => ("", &["output"]),
        };
        let node = root.at(owner).unwrap_or(root);
        let found = fields.iter().find_map(|field| {
            let value = &node.member(field)?.value;
            find_reference(value, &member_path(owner, field), reference)
        });
        found.unwrap_or_else(|| SourceLocation { path: owner.to_owned(), position: node.position })
    }

    pub(crate) fn subject(self) -> String {
        match self {
            Self::Execution => "the condition of `execution`".to_owned(),
            Self::Items(step) | Self::Step(step) => format!("`{}`", step.id),
            Self::Output => "`output`".to_owned(),
        }
    }
}

/// Returns every variable that a capability reads, except the variables that a `for_each` or a `catch`
/// defines.
pub(crate) fn references<'c>(capability: &'c Capability) -> BTreeSet<&'c str> {
    let mut names = BTreeSet::new();
    let mut add = |reader: VariableReader<'c>| {
        let read = reader.references(capability);
        names.extend(read.into_iter().map(VariableReference::variable));
    };
    add(VariableReader::Execution);
    capability.for_each_step(|step| {
        add(VariableReader::Items(step));
        add(VariableReader::Step(step));
    });
    add(VariableReader::Output);
    capability.for_each_step(|step| {
        for (name, _) in locals(step) {
            names.remove(name);
        }
    });
    names
}

/// Returns the variables that a step defines for the steps below it, and the field that names each
/// variable.
pub(crate) fn locals(step: &Step) -> Vec<(&str, &'static str)> {
    let mut names = Vec::new();
    if let Some(for_each) = &step.control.for_each {
        names.push((for_each.name.as_str(), "for_each"));
    }
    if let OnError::Catch { name, .. } = &step.control.on_error {
        names.push((name.as_str(), "catch"));
    }
    names
}

/// Returns the location of the first string at or below `node` that contains `reference`.
fn find_reference(
    node: &TreeNode<'_>,
    path: &str,
    reference: &VariableReference,
) -> Option<SourceLocation> {
    match &node.kind {
        NodeValue::String(text) => text
            .match_indices("${")
            .filter_map(|(at, _)| text[at + 2..].split('}').next())
            .any(|inner| VariableReference::parse(inner).as_ref() == Ok(reference))
            .then(|| SourceLocation { path: path.to_owned(), position: node.position }),
        NodeValue::Array(items) => items
            .iter()
            .enumerate()
            .find_map(|(index, item)| find_reference(item, &item_path(path, index), reference)),
        NodeValue::Object(members) => members.iter().find_map(|member| {
            find_reference(&member.value, &member_path(path, &member.key), reference)
        }),
        NodeValue::Null | NodeValue::Bool(_) | NodeValue::Number(_) => None,
    }
}
