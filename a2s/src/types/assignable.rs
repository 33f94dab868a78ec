//! Assignability of a value to a place.

use serde_json::Value;

use super::schema_alternative::{Body, Lack, Member, Shape};
use super::{Kinds, Type};

/// How deep two types are compared.
const MAX_DEPTH: usize = 64;
/// How much deeper each level of a schema counts: only what documents write out is compared far
/// down.
const SCHEMA_DEPTH: usize = 12;
/// The most misfits of one value.
const MAX_MISFITS: usize = 20;

/// How a value is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// As JSON: kinds are told apart.
    Json,
    /// As text: numbers and booleans are what the text reads as, and a single value is a list of
    /// one.
    Text,
    /// An object whose members are sent as text each.
    Fields,
}

/// A part of a value that surely does not fit.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Misfit {
    /// The way to the part.
    pub(super) way: Vec<Turn>,
    pub(super) reason: Reason,
    /// Whether the value never fits; else it does when a list is empty, or null is given.
    pub(super) certain: bool,
    /// Whether the value is only known from what a service says of its answers.
    pub(super) hearsay: bool,
}

/// A step into a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Turn {
    Member(String),
    Item(usize),
    EachItem,
}

/// Why a part does not fit.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Reason {
    /// It is of another kind.
    Kind { found: Kinds, wanted: Kinds },
    /// It is none of the values that may stand there.
    Choice { wanted: Vec<Value> },
    /// It lacks a member.
    Missing { name: String, lack: Lack },
    /// It has a member that may not be there.
    Surplus { name: String, known: Vec<String> },
    /// It fits none of so many forms.
    Forms(usize),
}

/// What does not fit when `value` is sent in a `form` to a place that takes `target`; empty when it
/// may fit.
pub(super) fn misfits(value: &Type<'_>, target: &Type<'_>, form: Form) -> Vec<Misfit> {
    let found = compare(value, target, form, 0);
    if !found.is_empty() || !value.kinds().contains(Kinds::NULL) {
        return found;
    }
    // Null may fit; what else it may be perhaps never does.
    let present = value.shapes().into_iter().filter_map(|mut shape| {
        shape.kinds = shape.kinds.without(Kinds::NULL);
        shape.choices.iter_mut().for_each(|choices| choices.retain(|choice| !choice.is_null()));
        (!shape.kinds.is_empty()).then_some(shape)
    });
    let mut found = compare_shapes(&present.collect::<Vec<_>>(), target, form, 0);
    found.iter_mut().for_each(|misfit| misfit.certain = false);
    found
}

fn compare(value: &Type<'_>, target: &Type<'_>, form: Form, depth: usize) -> Vec<Misfit> {
    if depth > MAX_DEPTH || value.is_unknown() || target.is_unknown() {
        return Vec::new();
    }
    let step = match value {
        Type::Schema(_) | Type::Union(_) => SCHEMA_DEPTH,
        _ => 1,
    };
    compare_shapes(&value.shapes(), target, form, depth + step)
}

/// The misfits of a value with these alternatives: none as soon as one of them may fit.
fn compare_shapes(
    values: &[Shape<'_>],
    target: &Type<'_>,
    form: Form,
    depth: usize,
) -> Vec<Misfit> {
    let targets = target.shapes();
    let mut found: Vec<Vec<Misfit>> = Vec::new();
    for value in values {
        let misfits = compare_shape(value, &targets, form, depth);
        if misfits.is_empty() {
            return misfits;
        }
        found.push(misfits);
    }
    let kinds = found.iter().map(|misfits| match misfits.as_slice() {
        [Misfit { way, reason: Reason::Kind { found, .. }, .. }] if way.is_empty() => Some(*found),
        _ => None,
    });
    let kinds: Option<Vec<Kinds>> = kinds.collect();
    let mut found = found.into_iter();
    let mut first = found.next().unwrap_or_default();
    if let (Some(kinds), [Misfit { reason: Reason::Kind { found, .. }, hearsay, .. }]) =
        (kinds, first.as_mut_slice())
    {
        *found = kinds.into_iter().fold(Kinds::NONE, Kinds::or);
        *hearsay = values.iter().any(Shape::is_hearsay);
        return first;
    }
    // The one that comes closest says the most.
    let rest = found.filter(|misfits| misfits.iter().any(|misfit| !misfit.way.is_empty()));
    rest.into_iter().next().unwrap_or(first)
}

fn compare_shape(
    value: &Shape<'_>,
    targets: &[Shape<'_>],
    form: Form,
    depth: usize,
) -> Vec<Misfit> {
    let misfit =
        |reason| Misfit { way: Vec::new(), reason, certain: true, hearsay: value.is_hearsay() };
    let mut close: Vec<Vec<Misfit>> = Vec::new();
    for target in targets {
        if !meets(value, target.kinds, form) {
            continue;
        }
        let misfits = compare_pair(value, target, form, depth);
        if misfits.is_empty() {
            return misfits;
        }
        close.push(misfits);
    }
    if close.is_empty() {
        let mut wanted = targets.iter().fold(Kinds::NONE, |kinds, target| kinds.or(target.kinds));
        if form == Form::Fields {
            wanted = Kinds::OBJECT;
        }
        return vec![misfit(Reason::Kind { found: value.kinds, wanted })];
    }
    let choices: Option<Vec<&Vec<Value>>> = close
        .iter()
        .map(|misfits| match misfits.as_slice() {
            [Misfit { way, reason: Reason::Choice { wanted }, .. }] if way.is_empty() => {
                Some(wanted)
            }
            _ => None,
        })
        .collect();
    if let Some(choices) = choices {
        let wanted = choices.into_iter().flatten().cloned().collect();
        return vec![misfit(Reason::Choice { wanted })];
    }
    // The form that comes closest was meant, if there is one.
    let count = close.len();
    close.sort_by_key(Vec::len);
    match close.as_slice() {
        [first, second, ..] if first.len() == second.len() && first != second => {
            vec![misfit(Reason::Forms(count))]
        }
        _ => close.into_iter().next().unwrap_or_default(),
    }
}

/// Whether a value may be of one of these kinds.
fn meets(value: &Shape<'_>, kinds: Kinds, form: Form) -> bool {
    match form {
        Form::Json => value.kinds.overlaps(kinds),
        Form::Fields => value.kinds.overlaps(kinds.and(Kinds::OBJECT.or(Kinds::NULL))),
        Form::Text => reads_as(value, kinds),
    }
}

/// Whether the text of a value may be one of these kinds.
fn reads_as(value: &Shape<'_>, kinds: Kinds) -> bool {
    // What is null or empty is not sent, and text may be a list or an object that is written out.
    let written_out = kinds.overlaps(Kinds::ARRAY.or(Kinds::OBJECT));
    if let Some(choices) = &value.choices {
        return choices.iter().any(|choice| match choice {
            Value::Null => true,
            Value::Array(items) => items.is_empty() || kinds.overlaps(Kinds::ARRAY),
            Value::Object(members) => members.is_empty() || kinds.overlaps(Kinds::OBJECT),
            Value::String(text) => written_out || text_reads_as(text, kinds),
            scalar => kinds.overlaps(Kinds::ARRAY) || text_reads_as(&scalar.to_string(), kinds),
        });
    }
    let is = |kind| value.kinds.overlaps(kind);
    is(Kinds::NULL)
        || matches!(&value.body, Body::Tuple(items) if items.is_empty())
        || matches!(&value.body, Body::Object(object) if object.members.is_empty())
        || is(Kinds::STRING)
        || (is(Kinds::NUMBER) && kinds.overlaps(Kinds::STRING.or(Kinds::NUMBER).or(Kinds::ARRAY)))
        || (is(Kinds::BOOLEAN) && kinds.overlaps(Kinds::STRING.or(Kinds::BOOLEAN).or(Kinds::ARRAY)))
        || (is(Kinds::ARRAY) && kinds.overlaps(Kinds::ARRAY))
        || (is(Kinds::OBJECT) && kinds.overlaps(Kinds::OBJECT))
}

fn text_reads_as(text: &str, kinds: Kinds) -> bool {
    let number = text.parse::<f64>().ok();
    kinds.overlaps(Kinds::STRING)
        || (kinds.contains(Kinds::NUMBER) && number.is_some())
        || (kinds.overlaps(Kinds::INTEGER) && number.is_some_and(|number| number.fract() == 0.0))
        || (kinds.overlaps(Kinds::BOOLEAN)
            && (text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false")))
        || (kinds.overlaps(Kinds::NULL) && text.is_empty())
}

/// The misfits of two shapes whose kinds meet.
fn compare_pair(value: &Shape<'_>, target: &Shape<'_>, form: Form, depth: usize) -> Vec<Misfit> {
    if let Some(wanted) = &target.choices {
        return compare_choices(value, wanted, form);
    }
    let shared = match form {
        Form::Json => value.kinds.and(target.kinds),
        Form::Text | Form::Fields => value.kinds,
    };
    if shared.overlaps(Kinds::SCALAR.or(Kinds::NULL)) {
        return Vec::new();
    }
    let mut found = Vec::new();
    if shared.overlaps(Kinds::OBJECT) {
        found = compare_members(value, target, form, depth);
        if found.is_empty() {
            return found;
        }
    }
    if shared.overlaps(Kinds::ARRAY) {
        let items = compare_items(value, target, form, depth);
        if items.is_empty() {
            return items;
        }
        found.extend(items);
    }
    found.truncate(MAX_MISFITS);
    found
}

fn compare_choices(value: &Shape<'_>, wanted: &[&Value], form: Form) -> Vec<Misfit> {
    let fits = match (&value.choices, form) {
        (Some(choices), Form::Text) => choices
            .iter()
            .any(|choice| is_left_out(choice) || wanted.iter().any(|w| text(w) == text(choice))),
        (Some(choices), Form::Json | Form::Fields) => {
            choices.iter().any(|choice| wanted.iter().any(|wanted| is_same(wanted, choice)))
        }
        (None, Form::Text) => wanted.iter().any(|wanted| {
            let is_number = text(wanted).parse::<f64>().is_ok();
            let is_boolean = text_reads_as(&text(wanted), Kinds::BOOLEAN);
            value.kinds.overlaps(Kinds::ANY.without(Kinds::NUMBER.or(Kinds::BOOLEAN)))
                || (value.kinds.overlaps(Kinds::NUMBER) && is_number)
                || (value.kinds.overlaps(Kinds::BOOLEAN) && is_boolean)
        }),
        // Their kinds meet.
        (None, Form::Json | Form::Fields) => true,
    };
    if fits {
        return Vec::new();
    }
    let wanted = wanted.iter().map(|value| (*value).clone()).collect();
    let hearsay = value.is_hearsay();
    vec![Misfit { way: Vec::new(), reason: Reason::Choice { wanted }, certain: true, hearsay }]
}

fn compare_members(value: &Shape<'_>, target: &Shape<'_>, form: Form, depth: usize) -> Vec<Misfit> {
    let misfit =
        |reason| Misfit { way: Vec::new(), reason, certain: true, hearsay: value.is_hearsay() };
    let below = if form == Form::Fields { Form::Text } else { form };
    let mut found = Vec::new();
    for (name, member) in value.sure_members() {
        if found.len() > MAX_MISFITS {
            break;
        }
        // Fields may be files, which are objects however they are described.
        if form == Form::Fields && member.kinds().overlaps(Kinds::OBJECT.or(Kinds::ARRAY)) {
            continue;
        }
        match target.member(name) {
            Member::Is(wanted) => {
                let turn = || Turn::Member(name.to_owned());
                found.extend(led_by(turn, compare(&member, &wanted, below, depth)));
            }
            Member::Undeclared => {}
            Member::Never => {
                let known = target.names();
                found.push(misfit(Reason::Surplus { name: name.to_owned(), known }));
            }
        }
    }
    for name in target.required() {
        if let Some(lack) = value.lacks(name) {
            found.push(misfit(Reason::Missing { name: name.to_owned(), lack }));
        }
    }
    found
}

fn compare_items(value: &Shape<'_>, target: &Shape<'_>, form: Form, depth: usize) -> Vec<Misfit> {
    let items: Vec<Type<'_>> = match &value.body {
        Body::Tuple(items) => items.clone(),
        Body::Value(Value::Array(items)) => items.iter().map(Type::literal).collect(),
        _ => {
            let found = compare(&value.items(), &target.items(), form, depth);
            // An empty list fits.
            let perhaps = found.into_iter().map(|misfit| Misfit { certain: false, ..misfit });
            return led_by(|| Turn::EachItem, perhaps.collect());
        }
    };
    let mut found = Vec::new();
    for (index, item) in items.iter().enumerate() {
        if found.len() > MAX_MISFITS {
            break;
        }
        let wanted = i64::try_from(index).ok().and_then(|index| target.item(index));
        if let Some(wanted) = wanted {
            let misfits = compare(item, &wanted, form, depth);
            found.extend(led_by(|| Turn::Item(index), misfits));
        }
    }
    found
}

fn led_by(turn: impl Fn() -> Turn, mut misfits: Vec<Misfit>) -> Vec<Misfit> {
    misfits.iter_mut().for_each(|misfit| misfit.way.insert(0, turn()));
    misfits
}

fn is_left_out(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// A value as it is written in an address.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => {
            // `1.0` and `1` are the same number.
            number.as_f64().map_or_else(|| number.to_string(), |number| number.to_string())
        }
        other => other.to_string(),
    }
}

/// Whether two values are the same in the JSON data model, where `1` is `1.0`.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            one == other || one.as_f64() == other.as_f64()
        }
        _ => one == other,
    }
}
