//! Positions of a step's inputs in the document.

use super::Step;
use crate::task::InputLocation;
use crate::tree::{TreeNode, member_path};

/// Returns the path and the value of a task's input, which is below the mapping of its group or beside the
/// others. `node` is the node of the step.
pub(crate) fn find_task_input<'n>(
    step: &Step,
    node: &'n TreeNode<'n>,
    place: &InputLocation,
) -> Option<(String, &'n TreeNode<'n>)> {
    let (group, name) = match place {
        InputLocation::Body => return find_input(step, node, None, "body"),
        InputLocation::Path(name) => ("pathParameters", name),
        InputLocation::Query(name) => ("queryParameters", name),
        InputLocation::Header(name) => ("headerParameters", name),
        InputLocation::Cookie(name) => ("cookieParameters", name),
        InputLocation::Variable(name) => return find_input(step, node, Some("variables"), name),
        InputLocation::Argument(name) => return find_input(step, node, Some("arguments"), name),
    };
    find_input(step, node, Some(group), name).or_else(|| find_input(step, node, None, name))
}

/// Returns the path and the value of a step's input, which is below `group` if there is one.
pub(crate) fn find_input<'n>(
    step: &Step,
    node: &'n TreeNode<'n>,
    group: Option<&str>,
    name: &str,
) -> Option<(String, &'n TreeNode<'n>)> {
    ["input_mapping", "input_template"].iter().find_map(|field| {
        let mut mapping = node.get(field)?;
        let mut path = member_path(&step.pointer, field);
        if let Some(group) = group {
            (mapping, path) = (mapping.get(group)?, member_path(&path, group));
        }
        // Header names are case-insensitive.
        let is_named = |key: &str| match group {
            None | Some("headerParameters") => key.eq_ignore_ascii_case(name),
            Some(_) => key == name,
        };
        let exact = mapping.member(name);
        let member = exact.or_else(|| mapping.members()?.iter().find(|m| is_named(&m.key)))?;
        Some((member_path(&path, &member.key), &member.value))
    })
}
