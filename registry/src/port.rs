//! What a capability gives and another can take. Pure.

use a2s::Field;
use serde_json::Value;

use crate::store::relations::port_name;

/// How deep alternatives in a schema are followed.
const MAX_DEPTH: usize = 4;

/// A value that a capability gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Port {
    pub(crate) name: String,
    pub(crate) types: Types,
}

/// The types of JSON that values may have; all of them when nothing is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Types(u8);

impl Types {
    const NAMES: [(&'static str, u8); 7] = [
        ("string", 1),
        // Every integer is a number.
        ("number", 2 | 4),
        ("integer", 4),
        ("boolean", 8),
        ("object", 16),
        ("array", 32),
        ("null", 64),
    ];
    const ANY: Self = Self(127);

    /// The types that a JSON Schema admits, as far as `type`, `enum`, `const` and alternatives
    /// tell.
    pub(crate) fn of_schema(schema: &Value) -> Self {
        Self::at(schema, 0)
    }

    fn at(schema: &Value, depth: usize) -> Self {
        let union = |types: &mut dyn Iterator<Item = Self>| {
            types.fold(Self(0), |all, types| Self(all.0 | types.0))
        };
        if let Some(kind) = schema.get("type") {
            let kinds = kind.as_array().map_or_else(|| std::slice::from_ref(kind), Vec::as_slice);
            return union(&mut kinds.iter().map(Self::named));
        }
        if let Some(choices) = schema.get("enum").and_then(Value::as_array) {
            return union(&mut choices.iter().map(Self::of_value));
        }
        if let Some(value) = schema.get("const") {
            return Self::of_value(value);
        }
        let alternatives = ["anyOf", "oneOf"].iter().find_map(|key| schema.get(key)?.as_array());
        match alternatives {
            Some(alternatives) if depth < MAX_DEPTH => {
                union(&mut alternatives.iter().map(|schema| Self::at(schema, depth + 1)))
            }
            Some(_) | None => Self::ANY,
        }
    }

    fn named(name: &Value) -> Self {
        let mut names = Self::NAMES.iter();
        names.find(|(known, _)| name == known).map_or(Self::ANY, |(_, types)| Self(*types))
    }

    fn of_value(value: &Value) -> Self {
        Self(match value {
            Value::String(_) => 1,
            Value::Number(number) if number.is_f64() => 2,
            Value::Number(_) => 4,
            Value::Bool(_) => 8,
            Value::Object(_) => 16,
            Value::Array(_) => 32,
            Value::Null => 64,
        })
    }

    /// Whether some value other than null is of both.
    fn meets(self, other: Self) -> bool {
        self.0 & other.0 & !64 != 0
    }

    /// Whether anything is known.
    fn is_known(self) -> bool {
        self != Self::ANY
    }

    /// In words: `string or integer`; none when nothing is known.
    pub(crate) fn describe(self) -> Option<String> {
        let mut left = self.0;
        let mut words = Vec::new();
        for (name, types) in Self::NAMES {
            if left & types == types {
                words.push(name);
                left &= !types;
            }
        }
        // What is left is a number with a fraction.
        words.extend((left & 2 != 0).then_some("number"));
        self.is_known().then(|| words.join(" or "))
    }
}

/// An output that fits an input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fit<'a> {
    pub(crate) output: &'a Port,
    pub(crate) input: &'a Field,
    /// Whether the types of both are known, so that more than the names speak for it.
    pub(crate) typed: bool,
}

/// Every output that an input can take: their names are the same but for case and separators, and
/// some value is of both types.
pub(crate) fn fits<'a>(outputs: &'a [Port], inputs: &'a [Field]) -> Vec<Fit<'a>> {
    let mut fits = Vec::new();
    for input in inputs.iter().filter(|input| !input.secret) {
        let (name, takes) = (port_name(&input.name), Types::of_schema(&input.schema));
        // A name of separators alone says nothing.
        let same = outputs.iter().filter(|port| !name.is_empty() && port_name(&port.name) == name);
        fits.extend(same.filter(|output| output.types.meets(takes)).map(|output| Fit {
            output,
            input,
            typed: output.types.is_known() && takes.is_known(),
        }));
    }
    fits
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn port(name: &str, schema: &Value) -> Port {
        Port { name: name.to_owned(), types: Types::of_schema(schema) }
    }

    fn field(name: &str, schema: &Value) -> Field {
        serde_json::from_value(json!({"name": name, "required": true, "schema": schema})).unwrap()
    }

    #[test]
    fn an_output_fits_an_input_of_its_name_and_type() {
        let outputs = [
            port("city_name", &json!({"type": "string"})),
            port("count", &json!({"type": "integer"})),
            port("anything", &json!({})),
        ];
        let fit = |name: &str, schema: Value| {
            let inputs = [field(name, &schema)];
            let found: Vec<_> = fits(&outputs, &inputs)
                .into_iter()
                .map(|fit| (fit.output.name.clone(), fit.typed))
                .collect();
            found
        };
        let named = |name: &str, typed| vec![(name.to_owned(), typed)];
        assert_eq!(fit("cityName", json!({"type": "string"})), named("city_name", true));
        assert_eq!(fit("CITY-NAME", json!({})), named("city_name", false));
        assert_eq!(fit("count", json!({"type": ["number", "null"]})), named("count", true));
        assert_eq!(fit("anything", json!({"type": "object"})), named("anything", false));
        assert_eq!(fit("count", json!({"enum": ["a", "b"]})), []);
        assert_eq!(fit("city", json!({"type": "string"})), []);
    }

    #[test]
    fn types_are_told_in_words() {
        let words = |schema: Value| Types::of_schema(&schema).describe();
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
    }
}
