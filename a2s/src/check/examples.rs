//! Examples have inputs that the capability takes, and answers for its tasks.

use crate::diagnostic::{SourcePosition, did_you_mean};
use crate::document::{Capability, CapabilityExample, find_task};
use crate::error_code;
use crate::field_reader::DiagnosticSink;
use crate::interface::{DeclaredInput, list_inputs};
use crate::tree::{TreeNode, member_path};

/// Checks every example of a capability that was read from `root`.
pub(super) fn check_examples(
    capability: &Capability,
    root: &TreeNode<'_>,
    findings: &mut DiagnosticSink,
) {
    if capability.examples.is_empty() {
        return;
    }
    let declared = list_inputs(capability);
    for (index, example) in capability.examples.iter().enumerate() {
        let path = format!("examples[{index}]");
        let mut report = |path: String, message: String, hint: Option<String>| {
            let at = place_of(root, index, &path);
            let hint = hint.unwrap_or_else(|| error_code::BAD_EXAMPLE.remedy.to_owned());
            findings.error_with_hint(error_code::BAD_EXAMPLE, (path, at), message, hint);
        };
        check_inputs(capability, &declared, example, &path, &mut report);
        check_answers(capability, example, &path, &mut report);
    }
}

/// The position of a path below an example. The keys of `answers` contain brackets, which paths do not.
fn place_of(root: &TreeNode<'_>, index: usize, path: &str) -> SourcePosition {
    let example = root.at(&format!("examples[{index}]"));
    let answers = example.and_then(|node| node.get("answers")).and_then(TreeNode::members);
    let is_meant = |key: &str| path == member_path(&format!("examples[{index}].answers"), key);
    let answer = answers.into_iter().flatten().find(|member| is_meant(&member.key));
    let place = answer.map(|member| member.position);
    let place = place.or_else(|| root.at(path).or(example).map(|node| node.position));
    place.unwrap_or(root.position)
}

fn check_inputs(
    capability: &Capability,
    declared: &[DeclaredInput<'_>],
    example: &CapabilityExample,
    path: &str,
    report: &mut impl FnMut(String, String, Option<String>),
) {
    let inputs = member_path(path, "inputs");
    // A used capability may need inputs that only its own document states.
    let is_whole = capability.dependencies.is_empty();
    for (name, value) in &example.inputs {
        if let Some(parameter) = capability.parameter(name) {
            if let Some(reason) = parameter.find_violation(value) {
                report(member_path(&inputs, name), reason, None);
            }
        } else if is_whole && !declared.iter().any(|input| input.name == name) {
            let known = declared.iter().map(|input| input.name);
            let hint = did_you_mean(name, known).map(|close| format!("Did you mean `{close}`?"));
            let message = format!("the capability has no input `{name}`");
            report(member_path(&inputs, name), message, hint);
        }
    }
    for input in declared.iter().filter(|input| input.required) {
        if !example.inputs.contains_key(input.name) {
            let message = format!("the example has no value for `{}`", input.name);
            report(path.to_owned(), message, None);
        }
    }
}

fn check_answers(
    capability: &Capability,
    example: &CapabilityExample,
    path: &str,
    report: &mut impl FnMut(String, String, Option<String>),
) {
    let answers = member_path(path, "answers");
    for key in example.answers.keys() {
        if let Err((message, hint)) = find_task(capability, key) {
            report(member_path(&answers, &key.to_string()), message, hint);
        }
    }
}
