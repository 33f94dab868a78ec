//! Assignability of a value to a place.

use serde_json::Value;

use super::schema_alternative::{AbsenceReason, MemberTypes, ObjectMember, SchemaAlternative};
use super::{InferredType, JsonTypes};

/// The depth to which two types are compared.
const MAX_DEPTH: usize = 64;
/// The depth that each level of a schema counts: only values written out in documents are compared deeply.
const SCHEMA_DEPTH: usize = 12;
/// The maximum number of mismatches of one value.
const MAX_MISMATCHES: usize = 20;

/// The form in which a value is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WireForm {
    /// As JSON: kinds are distinct.
    Json,
    /// As text: the text decides which values are numbers and booleans, and a single value is a list of
    /// one.
    Text,
    /// An object with each member sent as text.
    Fields,
}

/// A part of a value that certainly does not fit.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TypeMismatch {
    /// The path to the part.
    pub(super) path: Vec<PathStep>,
    pub(super) reason: MismatchReason,
    /// True when the value never fits; otherwise it fits when a list is empty, or null is given.
    pub(super) certain: bool,
    /// True when the value is only known from a service's description of its responses.
    pub(super) from_declaration: bool,
}

/// A step into a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PathStep {
    Member(String),
    Item(usize),
    EachItem,
}

/// The reason why a part does not fit.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum MismatchReason {
    /// The value is of another kind.
    Kind { found: JsonTypes, wanted: JsonTypes },
    /// The value is not one of the allowed values.
    Choice { wanted: Vec<Value> },
    /// The value does not have a required member.
    Missing { name: String, lack: AbsenceReason },
    /// The value has a member that is not allowed.
    Surplus { name: String, known: Vec<String> },
    /// The value does not fit any of the alternatives; this is their number.
    Forms(usize),
}

/// The parts that do not fit when `value` is sent in a `form` to a location that accepts `target`; empty
/// when it may fit.
pub(super) fn find_mismatches(
    value: &InferredType<'_>,
    target: &InferredType<'_>,
    form: WireForm,
) -> Vec<TypeMismatch> {
    let found = compare(value, target, form, 0);
    if !found.is_empty() || !value.kinds().contains(JsonTypes::NULL) {
        return found;
    }
    // Null may fit; what else it may be perhaps never does.
    let present = value.alternatives().into_iter().filter_map(|mut shape| {
        shape.kinds = shape.kinds.without(JsonTypes::NULL);
        shape.choices.iter_mut().for_each(|choices| choices.retain(|choice| !choice.is_null()));
        (!shape.kinds.is_empty()).then_some(shape)
    });
    let mut found = compare_shapes(&present.collect::<Vec<_>>(), target, form, 0);
    found.iter_mut().for_each(|mismatch| mismatch.certain = false);
    found
}

fn compare(
    value: &InferredType<'_>,
    target: &InferredType<'_>,
    form: WireForm,
    depth: usize,
) -> Vec<TypeMismatch> {
    if depth > MAX_DEPTH || value.is_unknown() || target.is_unknown() {
        return Vec::new();
    }
    let step = match value {
        InferredType::Schema(_) | InferredType::Union(_) => SCHEMA_DEPTH,
        _ => 1,
    };
    compare_shapes(&value.alternatives(), target, form, depth + step)
}

/// Returns the mismatches of a value that has one of these alternatives; empty as soon as one of them may
/// fit.
fn compare_shapes(
    values: &[SchemaAlternative<'_>],
    target: &InferredType<'_>,
    form: WireForm,
    depth: usize,
) -> Vec<TypeMismatch> {
    let targets = target.alternatives();
    let mut found: Vec<Vec<TypeMismatch>> = Vec::new();
    for value in values {
        let mismatches = compare_shape(value, &targets, form, depth);
        if mismatches.is_empty() {
            return mismatches;
        }
        found.push(mismatches);
    }
    let kinds = found.iter().map(|mismatches| match mismatches.as_slice() {
        [TypeMismatch { path: way, reason: MismatchReason::Kind { found, .. }, .. }]
            if way.is_empty() =>
        {
            Some(*found)
        }
        _ => None,
    });
    let kinds: Option<Vec<JsonTypes>> = kinds.collect();
    let mut found = found.into_iter();
    let mut first = found.next().unwrap_or_default();
    if let (
        Some(kinds),
        [
            TypeMismatch {
                reason: MismatchReason::Kind { found, .. },
                from_declaration: hearsay,
                ..
            },
        ],
    ) = (kinds, first.as_mut_slice())
    {
        *found = kinds.into_iter().fold(JsonTypes::NONE, JsonTypes::or);
        *hearsay = values.iter().any(SchemaAlternative::is_from_declaration);
        return first;
    }
    // The one that comes closest says the most.
    let rest =
        found.filter(|mismatches| mismatches.iter().any(|mismatch| !mismatch.path.is_empty()));
    rest.into_iter().next().unwrap_or(first)
}

fn compare_shape(
    value: &SchemaAlternative<'_>,
    targets: &[SchemaAlternative<'_>],
    form: WireForm,
    depth: usize,
) -> Vec<TypeMismatch> {
    let mismatch = |reason| TypeMismatch {
        path: Vec::new(),
        reason,
        certain: true,
        from_declaration: value.is_from_declaration(),
    };
    let mut close: Vec<Vec<TypeMismatch>> = Vec::new();
    for target in targets {
        if !meets(value, target.kinds, form) {
            continue;
        }
        let mismatches = compare_pair(value, target, form, depth);
        if mismatches.is_empty() {
            return mismatches;
        }
        close.push(mismatches);
    }
    if close.is_empty() {
        let mut wanted =
            targets.iter().fold(JsonTypes::NONE, |kinds, target| kinds.or(target.kinds));
        if form == WireForm::Fields {
            wanted = JsonTypes::OBJECT;
        }
        return vec![mismatch(MismatchReason::Kind { found: value.kinds, wanted })];
    }
    let choices: Option<Vec<&Vec<Value>>> = close
        .iter()
        .map(|mismatches| match mismatches.as_slice() {
            [TypeMismatch { path: way, reason: MismatchReason::Choice { wanted }, .. }]
                if way.is_empty() =>
            {
                Some(wanted)
            }
            _ => None,
        })
        .collect();
    if let Some(choices) = choices {
        let wanted = choices.into_iter().flatten().cloned().collect();
        return vec![mismatch(MismatchReason::Choice { wanted })];
    }
    // The form that comes closest was meant, if there is one.
    let count = close.len();
    close.sort_by_key(Vec::len);
    match close.as_slice() {
        [first, second, ..] if first.len() == second.len() && first != second => {
            vec![mismatch(MismatchReason::Forms(count))]
        }
        _ => close.into_iter().next().unwrap_or_default(),
    }
}

/// Returns true when a value may be of one of these kinds.
fn meets(value: &SchemaAlternative<'_>, kinds: JsonTypes, form: WireForm) -> bool {
    match form {
        WireForm::Json => value.kinds.overlaps(kinds),
        WireForm::Fields => value.kinds.overlaps(kinds.and(JsonTypes::OBJECT.or(JsonTypes::NULL))),
        WireForm::Text => reads_as(value, kinds),
    }
}

/// Returns true when the text of a value may be one of these kinds.
fn reads_as(value: &SchemaAlternative<'_>, kinds: JsonTypes) -> bool {
    // Null and empty values are not sent, and a text may be a list or an object in text form.
    let written_out = kinds.overlaps(JsonTypes::ARRAY.or(JsonTypes::OBJECT));
    if let Some(choices) = &value.choices {
        return choices.iter().any(|choice| match choice {
            Value::Null => true,
            Value::Array(items) => items.is_empty() || kinds.overlaps(JsonTypes::ARRAY),
            Value::Object(members) => members.is_empty() || kinds.overlaps(JsonTypes::OBJECT),
            Value::String(text) => written_out || text_reads_as(text, kinds),
            scalar => kinds.overlaps(JsonTypes::ARRAY) || text_reads_as(&scalar.to_string(), kinds),
        });
    }
    let is = |kind| value.kinds.overlaps(kind);
    is(JsonTypes::NULL)
        || matches!(&value.body, MemberTypes::Tuple(items) if items.is_empty())
        || matches!(&value.body, MemberTypes::Object(object) if object.members.is_empty())
        || is(JsonTypes::STRING)
        || (is(JsonTypes::NUMBER)
            && kinds.overlaps(JsonTypes::STRING.or(JsonTypes::NUMBER).or(JsonTypes::ARRAY)))
        || (is(JsonTypes::BOOLEAN)
            && kinds.overlaps(JsonTypes::STRING.or(JsonTypes::BOOLEAN).or(JsonTypes::ARRAY)))
        || (is(JsonTypes::ARRAY) && kinds.overlaps(JsonTypes::ARRAY))
        || (is(JsonTypes::OBJECT) && kinds.overlaps(JsonTypes::OBJECT))
}

fn text_reads_as(text: &str, kinds: JsonTypes) -> bool {
    let number = text.parse::<f64>().ok();
    kinds.overlaps(JsonTypes::STRING)
        || (kinds.contains(JsonTypes::NUMBER) && number.is_some())
        || (kinds.overlaps(JsonTypes::INTEGER)
            && number.is_some_and(|number| number.fract() == 0.0))
        || (kinds.overlaps(JsonTypes::BOOLEAN)
            && (text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false")))
        || (kinds.overlaps(JsonTypes::NULL) && text.is_empty())
}

/// The misfits of two shapes with overlapping kinds.
fn compare_pair(
    value: &SchemaAlternative<'_>,
    target: &SchemaAlternative<'_>,
    form: WireForm,
    depth: usize,
) -> Vec<TypeMismatch> {
    if let Some(wanted) = &target.choices {
        return compare_choices(value, wanted, form);
    }
    let shared = match form {
        WireForm::Json => value.kinds.and(target.kinds),
        WireForm::Text | WireForm::Fields => value.kinds,
    };
    if shared.overlaps(JsonTypes::SCALAR.or(JsonTypes::NULL)) {
        return Vec::new();
    }
    let mut found = Vec::new();
    if shared.overlaps(JsonTypes::OBJECT) {
        found = compare_members(value, target, form, depth);
        if found.is_empty() {
            return found;
        }
    }
    if shared.overlaps(JsonTypes::ARRAY) {
        let items = compare_items(value, target, form, depth);
        if items.is_empty() {
            return items;
        }
        found.extend(items);
    }
    found.truncate(MAX_MISMATCHES);
    found
}

fn compare_choices(
    value: &SchemaAlternative<'_>,
    wanted: &[&Value],
    form: WireForm,
) -> Vec<TypeMismatch> {
    let fits = match (&value.choices, form) {
        (Some(choices), WireForm::Text) => choices
            .iter()
            .any(|choice| is_left_out(choice) || wanted.iter().any(|w| text(w) == text(choice))),
        (Some(choices), WireForm::Json | WireForm::Fields) => {
            choices.iter().any(|choice| wanted.iter().any(|wanted| is_same(wanted, choice)))
        }
        (None, WireForm::Text) => wanted.iter().any(|wanted| {
            let is_number = text(wanted).parse::<f64>().is_ok();
            let is_boolean = text_reads_as(&text(wanted), JsonTypes::BOOLEAN);
            value.kinds.overlaps(JsonTypes::ANY.without(JsonTypes::NUMBER.or(JsonTypes::BOOLEAN)))
                || (value.kinds.overlaps(JsonTypes::NUMBER) && is_number)
                || (value.kinds.overlaps(JsonTypes::BOOLEAN) && is_boolean)
        }),
        // Their kinds meet.
        (None, WireForm::Json | WireForm::Fields) => true,
    };
    if fits {
        return Vec::new();
    }
    let wanted = wanted.iter().map(|value| (*value).clone()).collect();
    let from_declaration = value.is_from_declaration();
    vec![TypeMismatch {
        path: Vec::new(),
        reason: MismatchReason::Choice { wanted },
        certain: true,
        from_declaration,
    }]
}

fn compare_members(
    value: &SchemaAlternative<'_>,
    target: &SchemaAlternative<'_>,
    form: WireForm,
    depth: usize,
) -> Vec<TypeMismatch> {
    let mismatch = |reason| TypeMismatch {
        path: Vec::new(),
        reason,
        certain: true,
        from_declaration: value.is_from_declaration(),
    };
    let below = if form == WireForm::Fields { WireForm::Text } else { form };
    let mut found = Vec::new();
    for (name, member) in value.sure_members() {
        if found.len() > MAX_MISMATCHES {
            break;
        }
        // Fields may be files, which are objects however they are described.
        if form == WireForm::Fields
            && member.kinds().overlaps(JsonTypes::OBJECT.or(JsonTypes::ARRAY))
        {
            continue;
        }
        match target.member(name) {
            ObjectMember::Known(wanted) => {
                let turn = || PathStep::Member(name.to_owned());
                found.extend(prepend_step(turn, compare(&member, &wanted, below, depth)));
            }
            ObjectMember::Undeclared => {}
            ObjectMember::Never => {
                let known = target.names();
                found.push(mismatch(MismatchReason::Surplus { name: name.to_owned(), known }));
            }
        }
    }
    for name in target.required() {
        if let Some(lack) = value.absence_of(name) {
            found.push(mismatch(MismatchReason::Missing { name: name.to_owned(), lack }));
        }
    }
    found
}

fn compare_items(
    value: &SchemaAlternative<'_>,
    target: &SchemaAlternative<'_>,
    form: WireForm,
    depth: usize,
) -> Vec<TypeMismatch> {
    let items: Vec<InferredType<'_>> = match &value.body {
        MemberTypes::Tuple(items) => items.clone(),
        MemberTypes::Value(Value::Array(items)) => {
            items.iter().map(InferredType::literal).collect()
        }
        _ => {
            let found = compare(&value.items(), &target.items(), form, depth);
            // An empty list fits.
            let perhaps =
                found.into_iter().map(|mismatch| TypeMismatch { certain: false, ..mismatch });
            return prepend_step(|| PathStep::EachItem, perhaps.collect());
        }
    };
    let mut found = Vec::new();
    for (index, item) in items.iter().enumerate() {
        if found.len() > MAX_MISMATCHES {
            break;
        }
        let wanted = i64::try_from(index).ok().and_then(|index| target.item(index));
        if let Some(wanted) = wanted {
            let mismatches = compare(item, &wanted, form, depth);
            found.extend(prepend_step(|| PathStep::Item(index), mismatches));
        }
    }
    found
}

fn prepend_step(
    turn: impl Fn() -> PathStep,
    mut mismatches: Vec<TypeMismatch>,
) -> Vec<TypeMismatch> {
    mismatches.iter_mut().for_each(|mismatch| mismatch.path.insert(0, turn()));
    mismatches
}

fn is_left_out(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Formats a value as in an address.
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

/// Returns true when two values are equal in the JSON data model, where `1` equals `1.0`.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            one == other || one.as_f64() == other.as_f64()
        }
        _ => one == other,
    }
}
