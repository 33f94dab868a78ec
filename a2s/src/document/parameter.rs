//! Declared inputs and the types of values.

use serde_json::Value;

/// A declared input.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    /// Name of the variable.
    pub name: String,
    /// Its meaning, in words.
    pub description: Option<String>,
    /// Patterns that extract it from a query: `in *`.
    pub patterns: Vec<String>,
    /// The type of its values, if the document states it (1.1).
    pub kind: Option<ValueType>,
    /// True when a run needs a value: always, unless the document states `required: false` or gives a
    /// default (1.1).
    pub required: bool,
    /// The value when the caller does not provide one (1.1).
    pub default: Option<Value>,
    /// `enum`: the only accepted values; empty when the document does not restrict them (1.1).
    pub choices: Vec<Value>,
    /// True when its value is kept out of events, logs, guardians and errors (1.1).
    pub secret: bool,
}

impl Parameter {
    /// The reason why the parameter does not accept `value`, in words that do not reveal the value.
    #[must_use]
    pub fn find_violation(&self, value: &Value) -> Option<String> {
        if let Some(kind) = self.kind.filter(|kind| !kind.accepts(value)) {
            let found = crate::query::describe(value);
            return Some(format!("`{}` accepts {}, not {found}", self.name, kind.describe()));
        }
        if self.choices.is_empty() || self.choices.iter().any(|choice| same_value(choice, value)) {
            return None;
        }
        let choices: Vec<_> = self.choices.iter().take(20).map(|c| format!("`{c}`")).collect();
        let more = if self.choices.len() > 20 { ", …" } else { "" };
        Some(format!("`{}` accepts only {}{more}", self.name, choices.join(", ")))
    }
}

/// Returns true when two values are equal in the JSON data model, where `1` equals `1.0`.
fn same_value(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            one == other || one.as_f64() == other.as_f64()
        }
        _ => one == other,
    }
}

/// The declared type of a shared variable or a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueType {
    /// Text.
    String,
    /// Any number.
    Number,
    /// A whole number.
    Integer,
    /// True or false.
    Boolean,
    /// Members by name.
    Object,
    /// Items in order.
    Array,
}

impl ValueType {
    /// Every type with its name in documents.
    pub const NAMES: [(&'static str, Self); 6] = [
        ("string", Self::String),
        ("number", Self::Number),
        ("integer", Self::Integer),
        ("boolean", Self::Boolean),
        ("object", Self::Object),
        ("array", Self::Array),
    ];

    /// Returns the name of the type in documents and in JSON Schema.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        let mut names = Self::NAMES.iter();
        names.find(|(_, kind)| *kind == self).map_or("string", |(name, _)| name)
    }

    /// Returns the name of the type with its article, for messages.
    pub fn describe(self) -> &'static str {
        match self {
            Self::String => "a string",
            Self::Number => "a number",
            Self::Integer => "a whole number",
            Self::Boolean => "a boolean",
            Self::Object => "an object",
            Self::Array => "a list",
        }
    }

    /// Returns true when `value` is of this type. A number without a fraction is an integer however it is
    /// written, as in JSON Schema.
    #[must_use]
    pub fn accepts(self, value: &Value) -> bool {
        match (self, value) {
            (Self::String, Value::String(_))
            | (Self::Number, Value::Number(_))
            | (Self::Boolean, Value::Bool(_))
            | (Self::Object, Value::Object(_))
            | (Self::Array, Value::Array(_)) => true,
            (Self::Integer, Value::Number(number)) => {
                number.is_i64()
                    || number.is_u64()
                    || number.as_f64().is_some_and(|number| number.fract() == 0.0)
            }
            _ => false,
        }
    }

    /// Returns the value of a shared variable before any step has set it: `object` starts as `{}`, other
    /// types as null.
    #[must_use]
    pub fn initial(self) -> Value {
        match self {
            Self::Object => Value::Object(serde_json::Map::new()),
            Self::String | Self::Number | Self::Integer | Self::Boolean | Self::Array => {
                Value::Null
            }
        }
    }
}
