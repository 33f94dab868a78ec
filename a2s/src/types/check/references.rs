//! References: each leads to something, and a step runs over a list.

use super::{TypeChecker, names_there};
use crate::diagnostic::{Diagnostic, SourceLocation};
use crate::error_code;
use crate::template::PathKey;
use crate::template::{Template, VariableReference};
use crate::tree::{NodeValue, TreeNode, item_path, member_path};
use crate::types::{InferredType, JsonTypes};

/// Checks every reference of a template that was read from `node`.
pub(super) fn check_reads<'n>(
    checker: &mut TypeChecker<'n, '_>,
    template: &'n Template,
    node: &TreeNode<'_>,
    path: &str,
) {
    match (template, &node.kind) {
        (Template::Literal(_), _) => {}
        (Template::Array(items), NodeValue::Array(nodes)) => {
            for (index, (item, node)) in items.iter().zip(nodes).enumerate() {
                check_reads(checker, item, node, &item_path(path, index));
            }
        }
        (Template::Object(members), _) => {
            for (name, member) in members {
                if let Some(node) = node.get(name) {
                    check_reads(checker, member, node, &member_path(path, name));
                }
            }
        }
        _ => {
            for reference in template.references() {
                let site = SourceLocation { path: path.to_owned(), position: node.position };
                check_reference(checker, reference, &site);
            }
        }
    }
}

/// Checks that the target of a reference may exist.
pub(super) fn check_reference<'n>(
    checker: &mut TypeChecker<'n, '_>,
    reference: &'n VariableReference,
    site: &SourceLocation,
) {
    if reference.is_plain() {
        return;
    }
    let name = reference.variable();
    let way = reference.path_keys();
    let Err(leaves) = checker.names.variable(name, &checker.scope).at(&way) else { return };
    let key = way.get(leaves.matched_keys);
    let walked: String = way.iter().take(leaves.matched_keys).map(ToString::to_string).collect();
    let there = format!("{name}{walked}");
    let (needed, what) = match key {
        Some(PathKey::Name(_)) => (JsonTypes::OBJECT, "member"),
        Some(PathKey::Item(_)) | None => (JsonTypes::ARRAY, "item"),
    };
    let (message, hint) = if leaves.kinds.overlaps(needed) {
        let missing = key.map(ToString::to_string).unwrap_or_default();
        let missing = missing.trim_start_matches('.');
        let wanted = match key {
            Some(PathKey::Name(name)) => Some(name.as_str()),
            Some(PathKey::Item(_)) | None => None,
        };
        let hint = names_there(&leaves, wanted);
        (format!("`${{{reference}}}` finds nothing: `{there}` has no `{missing}`"), hint)
    } else {
        let hint = (leaves.kinds == JsonTypes::ARRAY)
            .then(|| format!("Select an item of the list first, such as `${{{there}[0]}}`."));
        let kinds = leaves.kinds;
        let message =
            format!("`${{{reference}}}` finds nothing: `{there}` is {kinds} and has no {what}s");
        (message, hint)
    };
    let found = if leaves.from_declaration {
        Diagnostic::error(error_code::QUERY_MISS, site.clone(), message).into_warning()
    } else {
        Diagnostic::error(error_code::WRONG_TYPE, site.clone(), message)
    };
    let hint = hint.unwrap_or_else(|| "Correct the reference.".to_owned());
    let sources = checker.sources(name);
    checker.report(found.with_hint(hint), sources);
}

/// Checks the list that a step runs over, and returns the type of its items.
pub(super) fn check_items<'n>(
    checker: &mut TypeChecker<'n, '_>,
    items: &'n Template,
    step: &TreeNode<'_>,
    path: &str,
) -> InferredType<'n> {
    let Some(mut node) = step.get("for_each") else { return InferredType::Unknown };
    let mut path = path.to_owned();
    if let Some(inner) = node.get("in") {
        (node, path) = (inner, member_path(&path, "in"));
    }
    check_reads(checker, items, node, &path);
    let list = checker.names.template(items, &checker.scope);
    if let Ok(item) = list.items() {
        return item;
    }
    if let Template::Reference(reference) = items {
        let message = format!("`${{{reference}}}` is {}; `for_each` requires a list", list.kinds());
        let hint = "Use a variable that contains a list, or a list inside this variable.";
        let found = Diagnostic::error(error_code::WRONG_TYPE, (path, node.position), message);
        let sources = checker.sources(reference.variable());
        checker.report(found.with_hint(hint), sources);
    }
    InferredType::Unknown
}
