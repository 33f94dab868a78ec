//! Misfits in words.

use serde_json::Value;

use crate::diagnostic::{Diagnostic, did_you_mean};
use crate::error_code;
use crate::field_reader::shorten_for_message;
use crate::task::InputLocation;
use crate::template::{Template, VariableReference};
use crate::tree::{NodeValue, TreeNode, item_path, member_path};
use crate::types::JsonTypes;
use crate::types::assignable::{MismatchReason, PathStep, TypeMismatch, WireForm};
use crate::types::schema_alternative::AbsenceReason;

/// The maximum number of values that a message lists.
const MAX_CHOICES: usize = 8;

/// An input of a task: its location in the request, its template, and the location of the template in the
/// document.
pub(super) struct CheckedInput<'t, 'p> {
    pub(super) place: &'p InputLocation,
    pub(super) template: &'t Template,
    pub(super) node: &'t TreeNode<'t>,
    pub(super) path: &'p str,
    pub(super) form: WireForm,
}

/// The part of an input that does not fit.
struct InputPart<'t> {
    template: &'t Template,
    node: &'t TreeNode<'t>,
    path: String,
    /// Its name: `body.items[0]`.
    name: String,
    /// True when it is the whole result of the template, and not a part of it.
    is_whole: bool,
}

/// Returns the diagnostic for a mismatch, and the reference that supplies the value; `None` when the value
/// could not be read, which was already reported.
pub(super) fn describe_mismatch<'t>(
    input: &CheckedInput<'t, '_>,
    mismatch: &TypeMismatch,
) -> Option<(Diagnostic, Option<&'t VariableReference>)> {
    let part = find_part(input, &mismatch.path);
    if *part.template == Template::Literal(Value::Null)
        && !matches!(part.node.kind, NodeValue::Null)
    {
        return None;
    }
    let at = &part.name;
    let mut code = error_code::WRONG_KIND;
    let (mut path, mut position) = (part.path.clone(), part.node.position);
    let mut move_to = |name: &str| {
        if let Some((at, below)) = part.node.member(name).map(|m| (m.position, &part.path)) {
            (path, position) = (member_path(below, name), at);
        }
    };
    let (message, hint) = match &mismatch.reason {
        MismatchReason::Kind { found, wanted } => {
            // That null is accepted is of no help.
            let present = wanted.without(JsonTypes::NULL);
            let wanted = if present.is_empty() { *wanted } else { present };
            let message = format!("`{at}` accepts {wanted}{}", found_kind(&part, *found));
            (message, kind_hint(&part, *found, wanted, input.form))
        }
        MismatchReason::Choice { wanted } => {
            let listed: Vec<_> = wanted.iter().take(MAX_CHOICES).map(short_value).collect();
            let more = if wanted.len() > MAX_CHOICES { ", …" } else { "" };
            let list = listed.join(", ");
            let one_of = if wanted.len() == 1 { "only" } else { "one of" };
            let message = format!("`{at}` accepts {one_of} {list}{more}{}", found_choice(&part));
            (message, choice_hint(&part, wanted))
        }
        MismatchReason::Missing { name, lack: AbsenceReason::Always } => (
            format!("`{at}` requires the member `{}`, which is missing", shorten_for_message(name)),
            format!("Add `{}`, or correct the schema in the task.", shorten_for_message(name)),
        ),
        MismatchReason::Missing { name, lack: AbsenceReason::UnlessGiven } => {
            code = error_code::ABSENT_INPUT;
            move_to(name);
            let parameter = match part.template {
                Template::Object(members) => members.get(name).and_then(whole_reference),
                _ => None,
            };
            let parameter = parameter.map_or("its value", VariableReference::variable);
            let message = format!(
                "`{at}.{}` requires a value, but `{parameter}` is optional",
                shorten_for_message(name)
            );
            (message, code.remedy.to_owned())
        }
        MismatchReason::Surplus { name, known } => {
            move_to(name);
            let hint = match did_you_mean(name, known.iter().map(String::as_str)) {
                Some(close) => format!("Did you mean `{}`?", shorten_for_message(close)),
                None => "Remove it, or add it to the schema in the task.".to_owned(),
            };
            (format!("`{at}` does not accept a member `{}`", shorten_for_message(name)), hint)
        }
        MismatchReason::Forms(count) => (
            format!("`{at}` does not match any of the {count} forms that the specification allows"),
            "Compare it with each form: types, required members and fixed values.".to_owned(),
        ),
    };
    let found = Diagnostic::error(code, (path, position), message).with_hint(hint);
    let found = if is_doubtful(mismatch) { found.into_warning() } else { found };
    Some((found, whole_reference(part.template)))
}

/// Returns true when the value may fit after all: sometimes, or because services send text for numbers and
/// the like, despite their descriptions. They do not send objects for text.
fn is_doubtful(mismatch: &TypeMismatch) -> bool {
    let is_structure = match mismatch.reason {
        MismatchReason::Kind { found, wanted } => {
            let structures = JsonTypes::OBJECT.or(JsonTypes::ARRAY);
            found.overlaps(structures) || wanted.overlaps(structures)
        }
        _ => false,
    };
    !mismatch.certain || (mismatch.from_declaration && !is_structure)
}

/// Follows the path as far as the template is written out.
fn find_part<'t>(input: &CheckedInput<'t, '_>, way: &[PathStep]) -> InputPart<'t> {
    let mut part = InputPart {
        template: input.template,
        node: input.node,
        path: input.path.to_owned(),
        name: input.place.to_string(),
        is_whole: true,
    };
    for turn in way {
        let next = match (turn, part.template, &part.node.kind) {
            (PathStep::Member(name), Template::Object(members), _) => members
                .get(name)
                .zip(part.node.get(name))
                .map(|(template, node)| (template, node, member_path(&part.path, name))),
            (PathStep::Item(index), Template::Array(items), NodeValue::Array(nodes)) => items
                .get(*index)
                .zip(nodes.get(*index))
                .map(|(template, node)| (template, node, item_path(&part.path, *index))),
            _ => None,
        };
        match next.filter(|_| part.is_whole) {
            Some((template, node, path)) => {
                (part.template, part.node, part.path) = (template, node, path)
            }
            None => part.is_whole = false,
        }
        match turn {
            PathStep::Member(name) => part.name = member_path(&part.name, name),
            PathStep::Item(index) => part.name = item_path(&part.name, *index),
            PathStep::EachItem => part.name += "[*]",
        }
    }
    part
}

fn whole_reference(template: &Template) -> Option<&VariableReference> {
    match template {
        Template::Reference(reference) => Some(reference),
        _ => None,
    }
}

fn found_kind(part: &InputPart<'_>, found: JsonTypes) -> String {
    match part.template {
        Template::Reference(reference) if part.is_whole => {
            format!(", but `${{{reference}}}` is {found}")
        }
        Template::Reference(reference) => format!(", but `${{{reference}}}` has {found} there"),
        Template::Literal(Value::String(text)) => {
            format!(", not the text `{}`", shorten_for_message(text))
        }
        Template::Literal(value) => format!(", not {}", short_value(value)),
        Template::Text(_) => ", not a text".to_owned(),
        Template::Array(_) | Template::Object(_) => format!(", not {found}"),
    }
}

fn found_choice(part: &InputPart<'_>) -> String {
    match part.template {
        Template::Reference(reference) => {
            format!(", but `${{{reference}}}` never has such a value")
        }
        Template::Literal(value) => format!(", not {}", short_value(value)),
        Template::Text(_) | Template::Array(_) | Template::Object(_) => String::new(),
    }
}

fn kind_hint(part: &InputPart<'_>, found: JsonTypes, wanted: JsonTypes, form: WireForm) -> String {
    let is_list = found == JsonTypes::ARRAY && !wanted.overlaps(JsonTypes::ARRAY);
    let is_object = found == JsonTypes::OBJECT && !wanted.overlaps(JsonTypes::OBJECT);
    match part.template {
        Template::Literal(Value::String(text)) if form == WireForm::Json => {
            let unquoted = serde_json::from_str(text)
                .map_or(JsonTypes::STRING, |value: Value| JsonTypes::from_value(&value));
            if wanted.overlaps(unquoted) {
                return "Write the value without quotes.".to_owned();
            }
            format!("Write {wanted}.")
        }
        Template::Literal(Value::Number(_) | Value::Bool(_))
            if wanted.overlaps(JsonTypes::STRING) =>
        {
            "Put the value in quotes.".to_owned()
        }
        Template::Literal(Value::Null) => "Map a value.".to_owned(),
        Template::Literal(_) => format!("Write {wanted}."),
        Template::Reference(reference) if is_list && part.is_whole => {
            format!("Map one item, such as `${{{reference}[0]}}`, or declare a list in the task.")
        }
        Template::Reference(reference) if is_object && part.is_whole => {
            format!("Map one of its members, such as `${{{reference}.id}}`.")
        }
        Template::Reference(reference) if wanted == JsonTypes::ARRAY && part.is_whole => {
            format!("Put the value in a list: `[\"${{{reference}}}\"]`.")
        }
        _ => error_code::WRONG_KIND.remedy.to_owned(),
    }
}

fn choice_hint(part: &InputPart<'_>, wanted: &[Value]) -> String {
    let texts = wanted.iter().filter_map(Value::as_str);
    match part.template {
        Template::Literal(Value::String(text)) => match did_you_mean(text, texts) {
            Some(close) => format!("Did you mean `{}`?", shorten_for_message(close)),
            None => "Write one of the values that the specification lists.".to_owned(),
        },
        _ => "Write one of the values that the specification lists.".to_owned(),
    }
}

/// Formats a value for a message.
fn short_value(value: &Value) -> String {
    match value {
        Value::String(text) => format!("`{}`", shorten_for_message(text)),
        Value::Array(_) | Value::Object(_) => crate::query::describe(value),
        scalar => format!("`{}`", shorten_for_message(&scalar.to_string())),
    }
}
