//! Examples: checks of their answers and outputs without a run.

use crate::document::{
    Capability, CapabilityExample, ExampleResponse, OnError, OutputMapping, OutputSource, Step,
    StepPath, TaskStep, find_task,
};
use serde_json::Value;

use super::TypeChecker;
use crate::diagnostic::{Diagnostic, SourcePosition};
use crate::error_code;
use crate::field_reader::shorten_for_message;
use crate::secret::HIDDEN;
use crate::task::{MediaType, Task};
use crate::tree::{TreeNode, item_path, member_path};
use crate::types::assignable::{MismatchReason, PathStep, TypeMismatch, WireForm, find_mismatches};
use crate::types::{InferredType, LoopScope, MemberPresence, ObjectType};

/// The maximum number of values that a message lists.
const MAX_CHOICES: usize = 4;

/// Reports the certain causes of failing examples: answers that differ from the declarations of their
/// operations, or that lack the values that the step takes, and outputs that the capability never
/// gives.
pub(super) fn check_examples(checker: &mut TypeChecker<'_, '_>) {
    // Other errors change the meaning of all examples.
    if checker.diagnostics.has_errors() {
        return;
    }
    for (index, example) in checker.names.capability.examples.iter().enumerate() {
        let path = format!("examples[{index}]");
        let Some(node) = checker.root.at(&path) else { continue };
        check_answers(checker, example, node, &path);
        check_output(checker, example, node, &path);
    }
}

fn check_answers<'n>(
    checker: &mut TypeChecker<'n, '_>,
    example: &'n CapabilityExample,
    node: &'n TreeNode<'n>,
    path: &str,
) {
    let written = node.get("answers").and_then(TreeNode::members).into_iter().flatten();
    for member in written {
        let way = StepPath::new(&member.key).ok();
        let Some((way, answer)) = way.and_then(|way| example.answers.get_key_value(&way)) else {
            continue;
        };
        let Ok(Some(step)) = find_task(checker.names.capability, way) else { continue };
        let path = member_path(&member_path(path, "answers"), &member.key);
        let reason = if (200..300).contains(&answer.status) {
            find_mismatch(checker, step, answer).map(|reason| (reason, &member.value))
        } else {
            None
        };
        if let Some((reason, at)) = reason {
            let at = at.get("body").map_or(member.position, |body| body.position);
            let hint = "Correct the answer, or the declaration of the operation.";
            report_example(checker, &path, at, reason, hint);
        }
    }
}

/// The reason why a success answer fails the example.
fn find_mismatch<'n>(
    checker: &TypeChecker<'n, '_>,
    step: &'n Step,
    answer: &'n ExampleResponse,
) -> Option<String> {
    let TaskStep { task, outputs, .. } = step.action.as_task()?;
    if let Task::OpenApi(task) = &**task {
        let Some(declared) = checker.names.answer_with(task, answer.status) else {
            return Some(format!("the operation declares no status {}", answer.status));
        };
        if declares_json(answer) && !answer.body.is_null() {
            let body = InferredType::literal(&answer.body);
            let found = find_mismatches(&body, &declared, WireForm::Json);
            if let Some(mismatch) = found.iter().find(|mismatch| mismatch.certain) {
                return Some(format!("the answer {}", describe(mismatch, "body")));
            }
        }
    }
    // The example may be meant to show a failure; bytes get more members than are written.
    if let Task::Mcp(_) = &**task {
        if answer.body.get("isError") == Some(&Value::Bool(true)) {
            // The result of a tool that failed, which the example may mean to show.
            return None;
        }
        let body = InferredType::literal(&answer.body);
        let found = find_mismatches(&body, &checker.names.answer(step), WireForm::Json);
        if let Some(mismatch) = found.iter().find(|mismatch| mismatch.certain) {
            return Some(format!("the answer {}", describe(mismatch, "body")));
        }
    }
    if is_handled(checker.names.capability, step) || !declares_json(answer) {
        return None;
    }
    outputs.iter().find_map(|output| find_missing_value(output, answer))
}

/// Returns true when the capability continues after a step fails.
fn is_handled(capability: &Capability, step: &Step) -> bool {
    let top = capability.execution.children();
    let way = Step::path_to(&top, &step.id).unwrap_or_default();
    way.iter().any(|step| step.control.on_error != OnError::Stop)
}

fn check_output<'n>(
    checker: &mut TypeChecker<'n, '_>,
    example: &'n CapabilityExample,
    node: &'n TreeNode<'n>,
    path: &str,
) {
    let Some(expected) = &example.output else { return };
    let names = checker.names;
    let scope = LoopScope::default();
    let result = match &names.capability.output {
        Some(output) => names.template(output, &scope),
        None => {
            let member = |name: &'n str| {
                (name.to_owned(), (names.variable(name, &scope), MemberPresence::Optional))
            };
            let members = names.set().map(member).collect();
            InferredType::Object(ObjectType { members, open: false })
        }
    };
    let found = find_mismatches(&InferredType::literal(expected), &result, WireForm::Json);
    let is_reported =
        |mismatch: &&TypeMismatch| mismatch.certain && !is_hidden(expected, &mismatch.path);
    let Some(mismatch) = found.iter().find(is_reported) else { return };
    let at = node.member("output").map_or(node.position, |member| member.position);
    let message = format!(
        "the capability never returns this result: the example {}",
        describe(mismatch, "output")
    );
    let hint = "Compare it with the result of the capability: `a2s show FILE`.";
    report_example(checker, &member_path(path, "output"), at, message, hint);
}

fn report_example(
    checker: &mut TypeChecker<'_, '_>,
    path: &str,
    at: SourcePosition,
    message: String,
    hint: &str,
) {
    let found = Diagnostic::error(error_code::BAD_EXAMPLE, (path, at), message).with_hint(hint);
    checker.report(found, Vec::new());
}

/// Returns true when the members of an answer's body give its content, and not bytes.
fn declares_json(answer: &ExampleResponse) -> bool {
    let named = answer.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    let is_bytes = answer.body.get("base64").is_some();
    named.and_then(|(_, value)| MediaType::parse(value)).map_or(!is_bytes, |one| one.is_json())
}

/// The part that an output needs and the answer does not have.
fn find_missing_value(output: &OutputMapping, answer: &ExampleResponse) -> Option<String> {
    if output.default.is_some() {
        return None;
    }
    let reason = match &output.source {
        OutputSource::Body(query) => query.evaluate(&answer.body).err()?.to_string(),
        OutputSource::Header(name) => {
            let is_given = answer.headers.keys().any(|known| known.eq_ignore_ascii_case(name));
            // The content type is always implied.
            if is_given || name.eq_ignore_ascii_case("content-type") {
                return None;
            }
            format!("the response has no header `{}`", shorten_for_message(name))
        }
        OutputSource::Status => return None,
    };
    Some(format!("the step sets `{}` from the answer, but {reason}", output.dotted()))
}

/// The part that does not fit, and its location.
fn describe(mismatch: &TypeMismatch, whole: &str) -> String {
    let place = mismatch.path.iter().fold(whole.to_owned(), |place, turn| match turn {
        PathStep::Member(name) => member_path(&place, name),
        PathStep::Item(index) => item_path(&place, *index),
        PathStep::EachItem => format!("{place}[*]"),
    });
    match &mismatch.reason {
        MismatchReason::Kind { found, wanted } => {
            format!("has {found} at `{place}`, where {wanted} is required")
        }
        MismatchReason::Choice { wanted } => {
            let listed = wanted
                .iter()
                .take(MAX_CHOICES)
                .map(|value| shorten_for_message(&value.to_string()));
            let listed: Vec<String> = listed.collect();
            let more = if wanted.len() > MAX_CHOICES { ", …" } else { "" };
            format!("has a value at `{place}` that is not one of {}{more}", listed.join(", "))
        }
        MismatchReason::Missing { name, .. } => {
            format!("lacks `{}` at `{place}`", shorten_for_message(name))
        }
        MismatchReason::Surplus { name, .. } => {
            format!("has `{}` at `{place}`, which does not exist there", shorten_for_message(name))
        }
        MismatchReason::Forms(count) => {
            format!("does not match any of the {count} forms of `{place}`")
        }
    }
}

/// Returns true when the value at the end of a path stands in place of a secret.
fn is_hidden(value: &Value, way: &[PathStep]) -> bool {
    let reached = way.iter().try_fold(value, |value, turn| match turn {
        PathStep::Member(name) => value.get(name),
        PathStep::Item(index) => value.get(index),
        PathStep::EachItem => None,
    });
    reached.is_some_and(|value| value == HIDDEN)
}
