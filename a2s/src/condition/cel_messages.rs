//! CEL's complaints in plain words. Its own have the values in them, which may be secret, are of
//! any length, and come in another order each time.

use bounded_cel::{ExecutionError as Complaint, Value};

/// Explains why an evaluation has no outcome. The text contains only the types of the values.
pub(super) fn explain(complaint: &Complaint, source: &str) -> String {
    // A name may come from a value, as in `${map}[${key}]`; one that the author wrote does not.
    let name = |name: &str| match source.contains(name) && !name.is_empty() {
        true => format!(" `{name}`"),
        false => String::new(),
    };
    match complaint {
        Complaint::InvalidArgumentCount { .. }
        | Complaint::MissingArgumentOrTarget
        | Complaint::NoSuchOverload(_) => complaint.to_string(),
        Complaint::UnsupportedTargetType { target } => {
            format!("the function does not accept {}", kind(target))
        }
        Complaint::NotSupportedAsMethod { method, target } => {
            format!("{} has no method{}", kind(target), name(method))
        }
        Complaint::UnsupportedKeyType(key) => format!("{} cannot be a key", kind(key)),
        Complaint::UnexpectedType { .. } => "a value is of the wrong type".to_owned(),
        Complaint::NoSuchKey(key) => format!("unknown member{}", name(key)),
        Complaint::UndeclaredReference(function) => {
            format!("unknown function{}", name(function))
        }
        Complaint::ValuesNotComparable(left, right) => {
            format!("{} and {} cannot be compared", kind(left), kind(right))
        }
        Complaint::UnsupportedBinaryOperator(operator, left, right) => {
            format!("`{operator}` does not accept {} and {}", kind(left), kind(right))
        }
        Complaint::UnsupportedIndex(index, of) => {
            format!("{} cannot be the index of {}", kind(index), kind(of))
        }
        Complaint::FunctionError { function, .. } => {
            format!("the function{} fails for its arguments", name(function))
        }
        Complaint::DivisionByZero(_) | Complaint::RemainderByZero(_) => {
            "division by zero".to_owned()
        }
        Complaint::Overflow(operator, ..) => {
            format!("the result of `{operator}` is too large for a number")
        }
        Complaint::IndexOutOfBounds(_) => "an index is beyond the end of its list".to_owned(),
        Complaint::DuplicateKey(_) => "a map has a duplicate key".to_owned(),
        _ => "CEL does not accept these values".to_owned(),
    }
}

/// Returns true when an error is about the types of the values, and not about these values.
pub(super) fn is_about_types(complaint: &Complaint) -> bool {
    matches!(
        complaint,
        Complaint::InvalidArgumentCount { .. }
            | Complaint::MissingArgumentOrTarget
            | Complaint::NoSuchOverload(_)
            | Complaint::UnsupportedTargetType { .. }
            | Complaint::NotSupportedAsMethod { .. }
            | Complaint::UnsupportedKeyType(_)
            | Complaint::UnexpectedType { .. }
            | Complaint::UndeclaredReference(_)
            | Complaint::ValuesNotComparable(..)
            | Complaint::UnsupportedBinaryOperator(..)
            | Complaint::UnsupportedIndex(..)
    )
}

/// Returns the type of a value with its article.
fn kind(value: &Value) -> String {
    let kind = format!("{:?}", value.type_of()).to_lowercase();
    let article = if kind.starts_with(['a', 'e', 'i', 'o']) { "an" } else { "a" };
    if kind == "null" { kind } else { format!("{article} {kind}") }
}
