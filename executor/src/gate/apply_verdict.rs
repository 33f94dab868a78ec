//! Application of a guardian's `modify` to inputs, MCP messages and results. Pure.

use a2s::InputLocation;
use a2s_api::GuardianChange;
use aos::message::{MethodCall, Request};
use indexmap::IndexMap;
use serde_json::Value;

use crate::error::{Error, ErrorKind};
use crate::request::{McpMessage, read_message};
use crate::secrets::Masked;
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

/// Returns the inputs that a guardian requires. Its list is complete: an input that it leaves out is removed.
pub(super) fn modified_inputs(
    modified: &Request,
) -> Result<IndexMap<InputLocation, Value>, BadModification> {
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
    Ok(new)
}

/// Rejects changes of the inputs of a redirect. A guardian that has changed the inputs before may send the same inputs
/// again.
pub(super) fn refuse_changes(
    shown: &IndexMap<InputLocation, Value>,
    modified: &Request,
) -> Result<Vec<GuardianChange>, BadModification> {
    match changes_of(shown, &modified_inputs(modified)?) {
        changes if changes.is_empty() => Ok(changes),
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

/// The result of a step as guardians judge it: its body, then the outputs that the step takes from status and
/// headers if there are any; or its failure.
pub(super) type JudgedResult = Result<Vec<Masked<Value>>, Masked<Error>>;

/// Returns the result that a guardian requires instead of `result`, and the differences. A failure stays a
/// failure.
pub(super) fn modified_result(
    result: &JudgedResult,
    modified: &Request,
) -> Result<(JudgedResult, Vec<GuardianChange>), BadModification> {
    let MethodCall::ToolCallResult(step) = &modified.call else {
        return Err("its method is not a tool result".to_owned());
    };
    let outputs = step.result.outputs.as_slice();
    match (result, step.result.is_error, outputs) {
        (Ok(before), false, outputs) if before.len() == outputs.len() => {
            let mut changes = Vec::new();
            let after = before.iter().zip(outputs).enumerate().map(|(index, (before, output))| {
                let after: Value = serde_json::from_str(&output.text)
                    .map_err(|error| format!("the result is not JSON: {error}"))?;
                let name = if index == 0 { "outputs" } else { "outputs[1]" };
                if index > 0 && !has_same_members(before.shown(), &after) {
                    return Err(format!("`{name}` is not an object with the same members"));
                }
                note_changes(name, before.shown(), &after, &mut changes);
                Ok(before.restore(after))
            });
            let after = after.collect::<Result<_, _>>()?;
            Ok((Ok(after), changes))
        }
        (Ok(_), true, [first, ..]) => {
            let words = to_single_line(&first.text, MAX_SHOWN_CHARS);
            let message = format!("the guardian replaced the result with an error: {words}");
            Ok((Err(Error::new(ErrorKind::GuardianDeniedResult, message).into()), Vec::new()))
        }
        (Err(error), true, [only]) => {
            let message = to_single_line(&only.text, 4 * MAX_SHOWN_CHARS);
            Ok((Err(Error { message, ..error.actual().clone() }.into()), Vec::new()))
        }
        (Err(_), false, _) => {
            Err("a modification cannot turn a failed step into a success".to_owned())
        }
        (before, _, outputs) => {
            let expected = before.as_ref().map_or(1, Vec::len);
            Err(format!("the result has {} outputs instead of {expected}", outputs.len()))
        }
    }
}

fn has_same_members(before: &Value, after: &Value) -> bool {
    let (Value::Object(before), Value::Object(after)) = (before, after) else { return false };
    before.len() == after.len() && before.keys().all(|name| after.contains_key(name))
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
