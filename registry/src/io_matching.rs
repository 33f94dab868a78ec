//! Matching of outputs of a capability with inputs of another. Pure.

use a2s::{InputField, JsonTypes};

use crate::store::dependency_rows::normalize_port_name;

/// A value that a capability returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OutputPort {
    pub(crate) name: String,
    pub(crate) types: JsonTypes,
}

/// An output that fits an input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IoMatch<'a> {
    pub(crate) output: &'a OutputPort,
    pub(crate) input: &'a InputField,
    /// Set when the types of both are known, so that the match does not depend on names alone.
    pub(crate) typed: bool,
}

/// Returns every pair of an output and an input that can take it. Their names differ at most in case and
/// separators, and at least one value has both types.
pub(crate) fn match_outputs<'a>(
    outputs: &'a [OutputPort],
    inputs: &'a [InputField],
) -> Vec<IoMatch<'a>> {
    let mut fits = Vec::new();
    for input in inputs.iter().filter(|input| !input.secret) {
        let (name, takes) =
            (normalize_port_name(&input.name), JsonTypes::from_schema(&input.schema));
        // A name of separators alone says nothing.
        let same = outputs
            .iter()
            .filter(|port| !name.is_empty() && normalize_port_name(&port.name) == name);
        fits.extend(same.filter(|output| output.types.is_compatible_with(takes)).map(|output| {
            IoMatch { output, input, typed: output.types.is_known() && takes.is_known() }
        }));
    }
    fits
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn port(name: &str, schema: &Value) -> OutputPort {
        OutputPort { name: name.to_owned(), types: JsonTypes::from_schema(schema) }
    }

    fn field(name: &str, schema: &Value) -> InputField {
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
            let found: Vec<_> = match_outputs(&outputs, &inputs)
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
}
