//! Misfits in words.

use serde_json::Value;

use crate::diagnostic::{Diagnostic, did_you_mean};
use crate::error_code;
use crate::field_reader::short;
use crate::task::Place;
use crate::template::{Reference, Template};
use crate::tree::{Kind, Node, item_path, member_path};
use crate::types::Kinds;
use crate::types::assignable::{Form, Misfit, Reason, Turn};
use crate::types::schema_alternative::Lack;

/// The most values that a message lists.
const MAX_CHOICES: usize = 8;

/// An input of a task: its place, its template, and where that stands.
pub(super) struct Input<'t, 'p> {
    pub(super) place: &'p Place,
    pub(super) template: &'t Template,
    pub(super) node: &'t Node,
    pub(super) path: &'p str,
    pub(super) form: Form,
}

/// The part of an input that does not fit.
struct Part<'t> {
    template: &'t Template,
    node: &'t Node,
    path: String,
    /// Its name: `body.items[0]`.
    name: String,
    /// Whether it is all of what the template gives, and not a part of that.
    is_whole: bool,
}

/// The finding for a misfit, and the reference that brings the value; none when the value could not
/// be read, which was reported.
pub(super) fn describe_misfit<'t>(
    input: &Input<'t, '_>,
    misfit: &Misfit,
) -> Option<(Diagnostic, Option<&'t Reference>)> {
    let part = find_part(input, &misfit.way);
    if *part.template == Template::Literal(Value::Null) && !matches!(part.node.kind, Kind::Null) {
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
    let (message, hint) = match &misfit.reason {
        Reason::Kind { found, wanted } => {
            // That nothing may stand there is of no help.
            let present = wanted.without(Kinds::NULL);
            let wanted = if present.is_empty() { *wanted } else { present };
            let message = format!("`{at}` takes {wanted}{}", found_kind(&part, *found));
            (message, kind_hint(&part, *found, wanted, input.form))
        }
        Reason::Choice { wanted } => {
            let listed: Vec<_> = wanted.iter().take(MAX_CHOICES).map(short_value).collect();
            let more = if wanted.len() > MAX_CHOICES { ", …" } else { "" };
            let list = listed.join(", ");
            let one_of = if wanted.len() == 1 { "only" } else { "one of" };
            let message = format!("`{at}` takes {one_of} {list}{more}{}", found_choice(&part));
            (message, choice_hint(&part, wanted))
        }
        Reason::Missing { name, lack: Lack::Always } => (
            format!("`{at}` needs the member `{}`, which is not there", short(name)),
            format!("Add `{}`, or correct the schema in the task.", short(name)),
        ),
        Reason::Missing { name, lack: Lack::UnlessGiven } => {
            code = error_code::ABSENT_INPUT;
            move_to(name);
            let parameter = match part.template {
                Template::Object(members) => members.get(name).and_then(whole_reference),
                _ => None,
            };
            let parameter = parameter.map_or("its value", Reference::variable);
            let message =
                format!("`{at}.{}` is required, and `{parameter}` is optional", short(name));
            (message, code.remedy.to_owned())
        }
        Reason::Surplus { name, known } => {
            move_to(name);
            let hint = match did_you_mean(name, known.iter().map(String::as_str)) {
                Some(close) => format!("Did you mean `{}`?", short(close)),
                None => "Remove it, or add it to the schema in the task.".to_owned(),
            };
            (format!("`{at}` takes no member `{}`", short(name)), hint)
        }
        Reason::Forms(count) => (
            format!("`{at}` fits none of the {count} forms that the specification allows"),
            "Compare it with each: kinds, required members and fixed values.".to_owned(),
        ),
    };
    let found = Diagnostic::error(code, &path, position, message).with_hint(hint);
    let found = if is_doubtful(misfit) { found.into_warning() } else { found };
    Some((found, whole_reference(part.template)))
}

/// Whether the value may fit after all: now and then, or because services send texts for numbers
/// and the like, whatever they say. They do not send objects for texts.
fn is_doubtful(misfit: &Misfit) -> bool {
    let is_structure = match misfit.reason {
        Reason::Kind { found, wanted } => {
            let structures = Kinds::OBJECT.or(Kinds::ARRAY);
            found.overlaps(structures) || wanted.overlaps(structures)
        }
        _ => false,
    };
    !misfit.certain || (misfit.hearsay && !is_structure)
}

/// Follows the way as far as the template is written out.
fn find_part<'t>(input: &Input<'t, '_>, way: &[Turn]) -> Part<'t> {
    let mut part = Part {
        template: input.template,
        node: input.node,
        path: input.path.to_owned(),
        name: input.place.to_string(),
        is_whole: true,
    };
    for turn in way {
        let next = match (turn, part.template, &part.node.kind) {
            (Turn::Member(name), Template::Object(members), _) => members
                .get(name)
                .zip(part.node.get(name))
                .map(|(template, node)| (template, node, member_path(&part.path, name))),
            (Turn::Item(index), Template::Array(items), Kind::Array(nodes)) => items
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
            Turn::Member(name) => part.name = member_path(&part.name, name),
            Turn::Item(index) => part.name = item_path(&part.name, *index),
            Turn::EachItem => part.name += "[*]",
        }
    }
    part
}

fn whole_reference(template: &Template) -> Option<&Reference> {
    match template {
        Template::Reference(reference) => Some(reference),
        _ => None,
    }
}

fn found_kind(part: &Part<'_>, found: Kinds) -> String {
    match part.template {
        Template::Reference(reference) if part.is_whole => {
            format!(", and `${{{reference}}}` is {found}")
        }
        Template::Reference(reference) => format!(", and `${{{reference}}}` has {found} there"),
        Template::Literal(Value::String(text)) => format!(", not the text `{}`", short(text)),
        Template::Literal(value) => format!(", not {}", short_value(value)),
        Template::Text(_) => ", not a text".to_owned(),
        Template::Array(_) | Template::Object(_) => format!(", not {found}"),
    }
}

fn found_choice(part: &Part<'_>) -> String {
    match part.template {
        Template::Reference(reference) => format!(", and `${{{reference}}}` is never that"),
        Template::Literal(value) => format!(", not {}", short_value(value)),
        Template::Text(_) | Template::Array(_) | Template::Object(_) => String::new(),
    }
}

fn kind_hint(part: &Part<'_>, found: Kinds, wanted: Kinds, form: Form) -> String {
    let is_list = found == Kinds::ARRAY && !wanted.overlaps(Kinds::ARRAY);
    let is_object = found == Kinds::OBJECT && !wanted.overlaps(Kinds::OBJECT);
    match part.template {
        Template::Literal(Value::String(text)) if form == Form::Json => {
            let unquoted =
                serde_json::from_str(text).map_or(Kinds::STRING, |value: Value| Kinds::of(&value));
            if wanted.overlaps(unquoted) {
                return "Write it without quotes.".to_owned();
            }
            format!("Write {wanted}.")
        }
        Template::Literal(Value::Number(_) | Value::Bool(_)) if wanted.overlaps(Kinds::STRING) => {
            "Put it in quotes.".to_owned()
        }
        Template::Literal(Value::Null) => "Map a value.".to_owned(),
        Template::Literal(_) => format!("Write {wanted}."),
        Template::Reference(reference) if is_list && part.is_whole => {
            format!("Map one item, such as `${{{reference}[0]}}`, or declare a list in the task.")
        }
        Template::Reference(reference) if is_object && part.is_whole => {
            format!("Map one of its members, such as `${{{reference}.id}}`.")
        }
        Template::Reference(reference) if wanted == Kinds::ARRAY && part.is_whole => {
            format!("Put it in a list: `[\"${{{reference}}}\"]`.")
        }
        _ => error_code::WRONG_KIND.remedy.to_owned(),
    }
}

fn choice_hint(part: &Part<'_>, wanted: &[Value]) -> String {
    let texts = wanted.iter().filter_map(Value::as_str);
    match part.template {
        Template::Literal(Value::String(text)) => match did_you_mean(text, texts) {
            Some(close) => format!("Did you mean `{}`?", short(close)),
            None => "Write one of the values that the specification lists.".to_owned(),
        },
        _ => "Write one of the values that the specification lists.".to_owned(),
    }
}

/// A value as a message shows it.
fn short_value(value: &Value) -> String {
    match value {
        Value::String(text) => format!("`{}`", short(text)),
        Value::Array(_) | Value::Object(_) => crate::query::describe(value),
        scalar => format!("`{}`", short(&scalar.to_string())),
    }
}
