//! Sets of kinds of JSON values.

use std::fmt;

use serde_json::Value;

use crate::document::ValueType;

/// The depth to which alternatives in a schema are followed.
const MAX_DEPTH: usize = 4;

/// A set of kinds of JSON values. Whole numbers and other numbers are separate kinds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct JsonTypes(u8);

impl JsonTypes {
    pub(crate) const NONE: Self = Self(0);
    /// Null.
    pub const NULL: Self = Self(1);
    /// True and false.
    pub const BOOLEAN: Self = Self(1 << 1);
    pub(crate) const INTEGER: Self = Self(1 << 2);
    const FRACTION: Self = Self(1 << 3);
    /// All numbers.
    pub const NUMBER: Self = Self(Self::INTEGER.0 | Self::FRACTION.0);
    /// Texts.
    pub const STRING: Self = Self(1 << 4);
    /// Lists.
    pub const ARRAY: Self = Self(1 << 5);
    /// Objects.
    pub const OBJECT: Self = Self(1 << 6);
    /// Every type.
    pub const ANY: Self = Self((1 << 7) - 1);
    /// The kinds that form one text in an address or a header: booleans, numbers and texts.
    pub const SCALAR: Self = Self(Self::BOOLEAN.0 | Self::NUMBER.0 | Self::STRING.0);

    /// The names of types in JSON Schema.
    const NAMES: [(&'static str, Self); 7] = [
        ("string", Self::STRING),
        ("number", Self::NUMBER),
        ("integer", Self::INTEGER),
        ("boolean", Self::BOOLEAN),
        ("object", Self::OBJECT),
        ("array", Self::ARRAY),
        ("null", Self::NULL),
    ];

    /// Returns the kind of a value. A number without a fraction is whole in every notation, as in JSON
    /// Schema.
    #[must_use]
    pub fn from_value(value: &Value) -> Self {
        match value {
            Value::Null => Self::NULL,
            Value::Bool(_) => Self::BOOLEAN,
            Value::Number(_) if ValueType::Integer.accepts(value) => Self::INTEGER,
            Value::Number(_) => Self::FRACTION,
            Value::String(_) => Self::STRING,
            Value::Array(_) => Self::ARRAY,
            Value::Object(_) => Self::OBJECT,
        }
    }

    /// The kinds of values that a JSON Schema accepts, as far as `type`, `enum`, `const` and alternatives
    /// state them; all of them when nothing is known.
    #[must_use]
    pub fn from_schema(schema: &Value) -> Self {
        Self::at(schema, 0)
    }

    fn at(schema: &Value, depth: usize) -> Self {
        let all = |kinds: &mut dyn Iterator<Item = Self>| kinds.fold(Self::NONE, Self::or);
        if let Some(kind) = schema.get("type") {
            let names = kind.as_array().map_or_else(|| std::slice::from_ref(kind), Vec::as_slice);
            let named = |name: &Value| name.as_str().and_then(Self::from_name).unwrap_or(Self::ANY);
            return all(&mut names.iter().map(named));
        }
        if let Some(choices) = schema.get("enum").and_then(Value::as_array) {
            return all(&mut choices.iter().map(Self::from_value));
        }
        if let Some(value) = schema.get("const") {
            return Self::from_value(value);
        }
        let alternatives = ["anyOf", "oneOf"].iter().find_map(|key| schema.get(key)?.as_array());
        match alternatives {
            Some(alternatives) if depth < MAX_DEPTH => {
                all(&mut alternatives.iter().map(|schema| Self::at(schema, depth + 1)))
            }
            Some(_) | None => Self::ANY,
        }
    }

    /// Returns true when some value other than null is of both.
    #[must_use]
    pub fn is_compatible_with(self, other: Self) -> bool {
        self.and(other).without(Self::NULL) != Self::NONE
    }

    /// Returns true when anything is known.
    #[must_use]
    pub fn is_known(self) -> bool {
        self != Self::ANY
    }

    /// Returns the types in the words of JSON Schema, `string or integer`; `None` when nothing is known.
    #[must_use]
    pub fn describe(self) -> Option<String> {
        self.is_known().then(|| self.names().join(" or "))
    }

    /// Returns the kinds of a type of JSON Schema; `None` when there is no such type.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, kinds)| *kinds)
    }

    /// Returns the types of JSON Schema that make up the set.
    pub(crate) fn names(self) -> Vec<&'static str> {
        let mut names: Vec<_> = Self::NAMES
            .iter()
            .filter(|(_, kinds)| self.contains(*kinds))
            .map(|(name, _)| *name)
            .collect();
        if names.contains(&"number") {
            names.retain(|name| *name != "integer");
        } else if self.contains(Self::FRACTION) {
            // Numbers with a fraction alone have no name of their own.
            names.push("number");
        }
        names
    }

    pub(crate) fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns the types of either set.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the types of this set that `other` does not contain.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(crate) fn is_empty(self) -> bool {
        self == Self::NONE
    }

    /// Returns true when a type is in both sets.
    #[must_use]
    pub fn overlaps(self, other: Self) -> bool {
        !self.and(other).is_empty()
    }

    /// Returns true when every type of `other` is in this set.
    #[must_use]
    pub fn contains(self, other: Self) -> bool {
        self.and(other) == other
    }
}

impl From<ValueType> for JsonTypes {
    fn from(kind: ValueType) -> Self {
        match kind {
            ValueType::String => Self::STRING,
            ValueType::Number => Self::NUMBER,
            ValueType::Integer => Self::INTEGER,
            ValueType::Boolean => Self::BOOLEAN,
            ValueType::Object => Self::OBJECT,
            ValueType::Array => Self::ARRAY,
        }
    }
}

/// Writes the kinds in words, for messages: "a string or null".
impl fmt::Display for JsonTypes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = match (self.contains(Self::INTEGER), self.contains(Self::FRACTION)) {
            (false, false) => None,
            (true, false) => Some("a whole number"),
            (_, true) => Some("a number"),
        };
        let others = [
            (Self::OBJECT, "an object"),
            (Self::ARRAY, "a list"),
            (Self::STRING, "a string"),
            (Self::BOOLEAN, "a boolean"),
            (Self::NULL, "null"),
        ];
        let mut words: Vec<_> =
            others.iter().filter(|(kind, _)| self.contains(*kind)).map(|(_, word)| *word).collect();
        let at = words.iter().position(|word| matches!(*word, "a boolean" | "null"));
        if let Some(number) = number {
            words.insert(at.unwrap_or(words.len()), number);
        }
        match words.as_slice() {
            [] => f.write_str("nothing"),
            [one] => f.write_str(one),
            [first @ .., last] => write!(f, "{} or {last}", first.join(", ")),
        }
    }
}

impl fmt::Debug for JsonTypes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.names().join("|"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn kinds_are_read_from_schemas_and_told_in_their_words() {
        let words = |schema: Value| JsonTypes::from_schema(&schema).describe();
        assert_eq!(words(json!({"type": "string"})).unwrap(), "string");
        assert_eq!(words(json!({"type": "number"})).unwrap(), "number");
        assert_eq!(words(json!({"enum": [1, "a"]})).unwrap(), "string or integer");
        assert_eq!(words(json!({"enum": [1.5]})).unwrap(), "number");
        assert_eq!(
            words(json!({"anyOf": [{"type": "array"}, {"const": null}]})).unwrap(),
            "array or null"
        );
        assert_eq!(words(json!({})), None);
        assert_eq!(words(json!({"type": "colour"})), None);
        let meets = |one: Value, other: Value| {
            JsonTypes::from_schema(&one).is_compatible_with(JsonTypes::from_schema(&other))
        };
        assert!(meets(json!({"type": "integer"}), json!({"type": ["number", "null"]})));
        assert!(!meets(json!({"type": ["string", "null"]}), json!({"type": ["object", "null"]})));
    }

    #[test]
    fn kinds_are_told_in_words() {
        assert_eq!(JsonTypes::from_value(&json!(3.0)).to_string(), "a whole number");
        assert_eq!(JsonTypes::from_value(&json!(3.5)).to_string(), "a number");
        let several = JsonTypes::NULL.or(JsonTypes::STRING).or(JsonTypes::NUMBER);
        assert_eq!(several.to_string(), "a string, a number or null");
        assert_eq!(several.names(), ["string", "number", "null"]);
        assert_eq!(JsonTypes::from_name("file"), None);
        assert!(
            JsonTypes::NUMBER.contains(JsonTypes::INTEGER)
                && !JsonTypes::INTEGER.contains(JsonTypes::NUMBER)
        );
    }
}
