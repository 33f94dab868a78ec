//! Messages about violations of a schema. Values are never quoted: they may be secret, and the caller has
//! them anyway.

use std::fmt;

use jsonschema::ValidationError;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use serde_json::Value;

use a2s::to_single_line;

/// The most characters of a name, and of a text from the schema.
const MAX_NAME: usize = 60;
const MAX_STATED: usize = 200;
/// The greatest depth of nested alternatives that are examined.
const MAX_NESTED: usize = 4;

/// One violation of a schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SchemaViolation {
    /// The location in the value: `.items[3].name`, empty for the whole.
    at: String,
    /// The problem with the value at this location.
    reason: String,
    /// The location of the rule: `#/components/schemas/Pet/properties/age/maximum`.
    rule: String,
}

impl fmt::Display for SchemaViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, reason, rule } = self;
        if at.is_empty() {
            write!(f, "it {reason} (schema: {rule})")
        } else {
            write!(f, "`{at}` {reason} (schema: {rule})")
        }
    }
}

impl SchemaViolation {
    /// Returns the location in the value: `.items[3].name`, empty for the whole.
    pub(crate) fn location(&self) -> &str {
        &self.at
    }

    /// A violation by the whole value, of a rule that is not in a schema.
    pub(crate) fn of_whole_value(reason: String, rule: &str) -> Self {
        Self { at: String::new(), reason, rule: rule.to_owned() }
    }

    /// The violation that an error of the validator describes. `origins` are the locations of its `$defs`
    /// in the task.
    pub(super) fn from_error(error: &ValidationError<'_>, origins: &[String]) -> Self {
        let error = closest_error(error, 0);
        let mut rule = rule_location(error.schema_path().as_str(), origins);
        if let ValidationErrorKind::Enum { options } = error.kind()
            && is_empty(options)
            && let Some(property) = rule.strip_suffix("enum")
        {
            rule = format!("{property}readOnly");
        }
        Self {
            at: dotted_path(error.instance_path().as_str()),
            reason: describe_error(error.kind()),
            rule,
        }
    }
}

/// The error itself, or that of the one alternative that was meant: the only one with a fitting type.
fn closest_error<'e>(error: &'e ValidationError<'_>, depth: usize) -> &'e ValidationError<'e> {
    let (ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context }) =
        error.kind()
    else {
        return error;
    };
    let at = error.instance_path().as_str();
    let is_of_another_kind = |errors: &&Vec<ValidationError<'_>>| {
        errors.iter().any(|inner| {
            matches!(inner.kind(), ValidationErrorKind::Type { .. })
                && inner.instance_path().as_str() == at
        })
    };
    let mut meant = context.iter().filter(|errors| !is_of_another_kind(errors));
    match (meant.next().and_then(|errors| errors.first()), meant.next()) {
        (Some(inner), None) if depth < MAX_NESTED => closest_error(inner, depth + 1),
        _ => error,
    }
}

fn describe_error(kind: &ValidationErrorKind) -> String {
    use ValidationErrorKind as K;
    match kind {
        K::Type { kind } => {
            let wanted = match kind {
                TypeKind::Single(kind) => kind.to_string(),
                TypeKind::Multiple(kinds) => {
                    let kinds: Vec<_> = kinds.iter().map(|kind| kind.to_string()).collect();
                    kinds.join(" or ")
                }
            };
            format!("is not of the type {wanted}")
        }
        K::Enum { options } if is_empty(options) => {
            "must not be sent: only the service sets it".to_owned()
        }
        K::Enum { options } => format!("is not one of {}", quote_value(options)),
        K::Constant { expected_value } => format!("is not {}", quote_value(expected_value)),
        K::Required { property } => format!("lacks the member {}", quote_value(property)),
        K::AdditionalProperties { unexpected } | K::UnevaluatedProperties { unexpected } => {
            format!("has unknown members: {}", list_names(unexpected))
        }
        K::FalseSchema => "is not allowed".to_owned(),
        K::Maximum { limit } => format!("is more than {limit}"),
        K::Minimum { limit } => format!("is less than {limit}"),
        K::ExclusiveMaximum { limit } => format!("is not less than {limit}"),
        K::ExclusiveMinimum { limit } => format!("is not more than {limit}"),
        K::MultipleOf { multiple_of } => format!("is not a multiple of {multiple_of}"),
        K::MaxLength { limit } => format!("is longer than {limit} characters"),
        K::MinLength { limit } => format!("is shorter than {limit} characters"),
        K::MaxItems { limit } => format!("has more than {limit} items"),
        K::MinItems { limit } => format!("has fewer than {limit} items"),
        K::MaxProperties { limit } => format!("has more than {limit} members"),
        K::MinProperties { limit } => format!("has fewer than {limit} members"),
        K::UniqueItems => "contains an item twice".to_owned(),
        K::Pattern { pattern } => {
            format!("does not match the pattern {}", to_single_line(pattern, MAX_STATED))
        }
        K::Format { format } => format!("does not match the format {format}"),
        K::AnyOf { context } => format!("does not match any of its {} alternatives", context.len()),
        K::OneOfNotValid { context } => {
            format!("does not match any of its {} alternatives", context.len())
        }
        K::OneOfMultipleValid { .. } => {
            "matches several alternatives, but only one is allowed".to_owned()
        }
        K::Not { .. } => "has a value that its schema excludes".to_owned(),
        K::Contains => "lacks required items".to_owned(),
        K::AdditionalItems { .. } | K::UnevaluatedItems { .. } => "has unknown items".to_owned(),
        K::PropertyNames { .. } => "has a member with a name that is not allowed".to_owned(),
        other => format!("does not meet the rule `{}`", other.keyword()),
    }
}

/// Returns true when the list allows no value. Descriptions do not contain such a list: it is the
/// translation of `readOnly`.
fn is_empty(options: &Value) -> bool {
    options.as_array().is_some_and(Vec::is_empty)
}

/// Returns a value that the schema states, as a message shows it.
fn quote_value(value: &Value) -> String {
    to_single_line(&value.to_string(), MAX_STATED)
}

/// Returns the complete name of a member, or a placeholder: a part of a secret could not be found and
/// masked.
fn shown_name(name: &str) -> &str {
    let is_plain = name.chars().all(|c| c == ' ' || c.is_alphanumeric() || c.is_ascii_graphic());
    if is_plain && name.chars().count() <= MAX_NAME { name } else { "…" }
}

fn list_names(names: &[String]) -> String {
    let shown = names.iter().take(3).map(|name| format!("`{}`", shown_name(name)));
    let shown = shown.collect::<Vec<_>>().join(", ");
    match names.len().checked_sub(3) {
        None | Some(0) => shown,
        Some(more) => format!("{shown} and {more} more"),
    }
}

/// Converts a pointer: `/items/3/name` becomes `.items[3].name`.
fn dotted_path(pointer: &str) -> String {
    let mut place = String::new();
    for token in pointer.split('/').skip(1) {
        if !token.is_empty() && token.bytes().all(|b| b.is_ascii_digit()) {
            place.extend(["[", token, "]"]);
        } else {
            let name = token.replace("~1", "/").replace("~0", "~");
            place.push('.');
            place.push_str(shown_name(&name));
        }
    }
    place
}

/// Returns the location of a rule in the task.
fn rule_location(path: &str, origins: &[String]) -> String {
    let (origin, rest) = match path.strip_prefix("/$defs/") {
        Some(rest) => {
            let (number, below) = rest.split_once('/').unwrap_or((rest, ""));
            let origin = number.parse().ok().and_then(|number: usize| origins.get(number));
            match origin {
                Some(origin) => (origin.as_str(), below),
                // A type of GraphQL goes by its name.
                None => ("#", rest),
            }
        }
        // The schema is wrapped, so that its `$ref` has no siblings.
        None => ("", path.strip_prefix("/allOf/0/").unwrap_or(path)),
    };
    let rest = to_single_line(rest, MAX_STATED);
    if origin.is_empty() { rest } else { format!("{}/{rest}", to_single_line(origin, MAX_STATED)) }
}
