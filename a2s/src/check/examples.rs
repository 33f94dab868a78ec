//! Examples have inputs that the capability takes, and answers for its tasks.

use crate::code;
use crate::decode::Findings;
use crate::diagnostic::did_you_mean;
use crate::document::{Action, Capability, Example};
use crate::interface::Interface;
use crate::tree::{Node, member_path};

/// Checks every example of a capability that was read from `root`.
pub(super) fn check_examples(capability: &Capability, root: &Node, findings: &mut Findings) {
    if capability.examples.is_empty() {
        return;
    }
    let interface = Interface::of(capability);
    for (index, example) in capability.examples.iter().enumerate() {
        let path = format!("examples[{index}]");
        let mut report = |path: String, message: String, hint: Option<String>| {
            let node = root.at(&path).or_else(|| root.at(&format!("examples[{index}]")));
            let at = node.map_or(root.position, |node| node.position);
            let hint = hint.unwrap_or_else(|| code::BAD_EXAMPLE.remedy.to_owned());
            findings.error_with_hint(code::BAD_EXAMPLE, &path, at, message, hint);
        };
        check_inputs(capability, &interface, example, &path, &mut report);
        check_answers(capability, example, &path, &mut report);
    }
}

fn check_inputs(
    capability: &Capability,
    interface: &Interface,
    example: &Example,
    path: &str,
    report: &mut impl FnMut(String, String, Option<String>),
) {
    let inputs = member_path(path, "inputs");
    // A capability that it uses may have needs that only its own document tells.
    let is_whole = capability.dependencies.is_empty();
    for (name, value) in &example.inputs {
        if let Some(parameter) = capability.parameter(name) {
            if let Some(reason) = parameter.refuse(value) {
                report(member_path(&inputs, name), reason, None);
            }
        } else if is_whole && !interface.inputs.iter().any(|field| field.name == *name) {
            let known = interface.inputs.iter().map(|field| field.name.as_str());
            let hint = did_you_mean(name, known).map(|close| format!("Did you mean `{close}`?"));
            let message = format!("the capability takes no input `{name}`");
            report(member_path(&inputs, name), message, hint);
        }
    }
    for field in interface.inputs.iter().filter(|field| field.required) {
        if !example.inputs.contains_key(&field.name) {
            let message = format!("the example gives no value for `{}`", field.name);
            report(path.to_owned(), message, None);
        }
    }
}

fn check_answers(
    capability: &Capability,
    example: &Example,
    path: &str,
    report: &mut impl FnMut(String, String, Option<String>),
) {
    let answers = member_path(path, "answers");
    let mut tasks = Vec::new();
    capability.for_each_step(|step| {
        if matches!(step.action, Action::Task { .. }) {
            tasks.push(step.id.as_str());
        }
    });
    for id in example.answers.keys() {
        if !tasks.contains(&id.as_str()) {
            let hint = did_you_mean(id.as_str(), tasks.iter().copied())
                .map(|close| format!("Did you mean `{close}`?"));
            let message = format!("there is no task step `{id}`");
            report(member_path(&answers, id.as_str()), message, hint);
        }
    }
}
