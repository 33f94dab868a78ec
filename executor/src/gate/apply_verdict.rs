//! Application of a guardian's `modify` to inputs, MCP messages and results. Pure.

use a2s::InputLocation;
use a2s_api::GuardianChange;
use aos::message::{MethodCall, Request, ToolCallResultStep};
use indexmap::IndexMap;
use serde_json::Value;

use super::GuardedInputs;
use crate::error::{Error, ErrorKind};
use crate::request::{McpMessage, read_message};
use crate::secrets::{has_placeholder, restore_masked};
use a2s::to_single_line;

/// The maximum number of characters of a value in a change of a result.
pub(super) const MAX_SHOWN_CHARS: usize = 200;
/// The maximum number of recorded changes of a result.
const MAX_CHANGES: usize = 20;
/// The replacement for a value of a result before the change: the guardian changed the value to hide it.
pub(super) const WITHHELD: &str = "(withheld)";

/// The reason for which a redirect cannot be modified.
pub(super) const NOT_CHANGEABLE: &str =
    "a guardian can allow or deny a redirect, but not modify it";

/// The reason for which a modification cannot be used; such a modification is a denial.
pub(super) type BadModification = String;

/// Returns the inputs that a guardian requires instead of `inputs`, and the differences. The guardian's
/// list is complete: an input that it leaves out is removed.
pub(super) fn modified_inputs(
    inputs: &IndexMap<InputLocation, Value>,
    modified: &Request,
) -> Result<(IndexMap<InputLocation, Value>, Vec<GuardianChange>), BadModification> {
    let MethodCall::ToolCallRequest(step) = &modified.call else {
        return Err("its method is not a tool call".to_owned());
    };
    let mut new = IndexMap::new();
    for input in &step.tool_call_request.inputs {
        let name = || to_single_line(&input.name, MAX_SHOWN_CHARS);
        let place: InputLocation =
            input.name.parse().map_err(|()| format!("unknown input `{}`", name()))?;
        if new.insert(place, input.value.clone()).is_some() {
            return Err(format!("the input `{}` occurs twice", name()));
        }
    }
    let changes = changes_of(inputs, &new);
    Ok((new, changes))
}

/// Rejects changes of the inputs of a redirect. A guardian that has changed the inputs before may send the same inputs
/// again.
pub(super) fn refuse_changes(
    shown: &IndexMap<InputLocation, Value>,
    modified: &Request,
) -> Result<Vec<GuardianChange>, BadModification> {
    match modified_inputs(shown, modified)? {
        (_, changes) if changes.is_empty() => Ok(changes),
        _ => Err(NOT_CHANGEABLE.to_owned()),
    }
}

/// The differences between inputs.
pub(super) fn changes_of(
    before: &IndexMap<InputLocation, Value>,
    after: &IndexMap<InputLocation, Value>,
) -> Vec<GuardianChange> {
    let mut changes = Vec::new();
    let mut note = |place: &InputLocation, from: Option<&Value>, to: Option<&Value>| {
        if from != to {
            let (from, to) = (from.cloned().unwrap_or_default(), to.cloned().unwrap_or_default());
            changes.push(GuardianChange { name: place.to_string(), from, to });
        }
    };
    for (place, from) in before {
        note(place, Some(from), after.get(place));
    }
    for (place, to) in after.iter().filter(|(place, _)| !before.contains_key(*place)) {
        note(place, None, Some(to));
    }
    changes
}

/// Restores the true values in inputs that a guardian has modified: a secret that it left unchanged is
/// inserted again. `has_secrets` is true when a placeholder can mean a secret: when the inputs of the step
/// contained secrets before any guardian changed them.
pub(super) fn restore_inputs(
    inputs: GuardedInputs<'_>,
    modified: IndexMap<InputLocation, Value>,
    has_secrets: bool,
) -> Result<IndexMap<InputLocation, Value>, BadModification> {
    let restored = modified.into_iter().map(|(place, made)| {
        let truth = inputs.actual.get(&place);
        let value = match (inputs.masked.get(&place), truth) {
            (Some(shown), Some(truth)) => restore_masked(shown, truth, made),
            _ => made,
        };
        // Sending the placeholder itself would be neither intended nor allowed.
        if has_secrets && has_placeholder(&value) && !truth.is_some_and(has_placeholder) {
            return Err(format!("the modification moves a secret inside `{place}`"));
        }
        Ok((place, value))
    });
    restored.collect()
}

/// Returns the result that a guardian requires instead of `result`, and the differences. A failure stays a
/// failure.
pub(super) fn modified_result(
    result: &Result<Value, Error>,
    modified: &Request,
) -> Result<(Result<Value, Error>, Vec<GuardianChange>), BadModification> {
    let MethodCall::ToolCallResult(step) = &modified.call else {
        return Err("its method is not a tool result".to_owned());
    };
    let text = single_text(step)?;
    match (result, step.result.is_error) {
        (Ok(before), false) => {
            let after: Value = serde_json::from_str(text)
                .map_err(|error| format!("the result is not JSON: {error}"))?;
            let mut changes = Vec::new();
            note_changes("outputs", before, &after, &mut changes);
            Ok((Ok(after), changes))
        }
        (Ok(_), true) => {
            let words = to_single_line(text, MAX_SHOWN_CHARS);
            let message = format!("the guardian replaced the result with an error: {words}");
            Ok((Err(Error::new(ErrorKind::GuardianDeniedResult, message)), Vec::new()))
        }
        (Err(error), true) => {
            let message = to_single_line(text, 4 * MAX_SHOWN_CHARS);
            Ok((Err(Error { message, ..error.clone() }), Vec::new()))
        }
        (Err(_), false) => {
            Err("a modification cannot turn a failed step into a success".to_owned())
        }
    }
}

fn single_text(step: &ToolCallResultStep) -> Result<&str, BadModification> {
    match step.result.outputs.as_slice() {
        [part] => Ok(&part.text),
        parts => Err(format!("the result has {} outputs instead of one", parts.len())),
    }
}

/// Records the differences between two results, member by member. Old values are not recorded: a journal
/// with them would undo a redaction.
pub(super) fn note_changes(
    name: &str,
    before: &Value,
    after: &Value,
    changes: &mut Vec<GuardianChange>,
) {
    if before == after || MAX_CHANGES <= changes.len() {
        return;
    }
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            let added = after.keys().filter(|key| !before.contains_key(*key));
            for key in before.keys().chain(added) {
                let (from, to) = (before.get(key), after.get(key));
                let name = format!("{name}.{}", to_single_line(key, MAX_SHOWN_CHARS));
                let null = &Value::Null;
                note_changes(&name, from.unwrap_or(null), to.unwrap_or(null), changes);
            }
        }
        (Value::Array(before), Value::Array(after)) if before.len() == after.len() => {
            for (index, (from, to)) in before.iter().zip(after).enumerate() {
                note_changes(&format!("{name}[{index}]"), from, to, changes);
            }
        }
        (_, after) => {
            let to = match after {
                Value::Null | Value::Bool(_) | Value::Number(_) => after.clone(),
                Value::String(text) => Value::String(to_single_line(text, MAX_SHOWN_CHARS)),
                Value::Array(_) | Value::Object(_) => {
                    Value::String(to_single_line(&after.to_string(), MAX_SHOWN_CHARS))
                }
            };
            let from = Value::String(WITHHELD.to_owned());
            changes.push(GuardianChange { name: name.to_owned(), from, to });
        }
    }
}

fn message_in(modified: &Request) -> Result<&McpMessage, BadModification> {
    match &modified.call {
        MethodCall::Mcp(step) => Ok(&step.message),
        _ => Err("its method is not an MCP message".to_owned()),
    }
}

/// Returns the arguments that a guardian requires instead of those of a call.
pub(super) fn modified_arguments(
    asked: &McpMessage,
    modified: &Request,
) -> Result<IndexMap<InputLocation, Value>, BadModification> {
    let mut made = message_in(modified)?.clone();
    let params = made.get_mut("params").and_then(Value::as_object_mut);
    let arguments = params.and_then(|params| params.get_mut("arguments"));
    let Some(Value::Object(arguments)) = arguments.map(Value::take) else {
        return Err("its arguments are not an object".to_owned());
    };
    let mut rest = asked.clone();
    if let Some(arguments) = rest.get_mut("params").and_then(|params| params.get_mut("arguments")) {
        *arguments = Value::Null;
    }
    if made != rest {
        return Err("it changes more than the arguments of the call".to_owned());
    }
    Ok(arguments.into_iter().map(|(name, value)| (InputLocation::Argument(name), value)).collect())
}

/// Returns the response that a guardian requires instead of the original.
pub(super) fn modified_answer(
    asked: &Value,
    modified: &Request,
) -> Result<McpMessage, BadModification> {
    let made = message_in(modified)?;
    let asked = asked.as_object().ok_or("the original message is missing")?;
    for name in ["jsonrpc", "id", "method"] {
        if made.get(name) != asked.get(name) {
            return Err(format!("`{name}` differs from the original message"));
        }
    }
    if read_message(asked).is_err() && read_message(made).is_ok() {
        return Err("a modification cannot turn a failed call into a success".to_owned());
    }
    Ok(made.clone())
}
