//! Checks values against their schemas, so that a value that a service would reject is found before
//! anything is sent.
//!
//! A schema is compiled once and used often. Patterns run on an engine that is linear in the text; nothing
//! is loaded from a file or a network. A recursive schema can make a small value expensive to check, so the
//! work is estimated first, and a value that would take too much is accepted unchecked: the check is a
//! help, and the service decides.

mod check_cost;
mod coercion;
mod messages;
mod openapi_to_2020_12;

use a2s::{EvaluationCost, SchemaResolver, SchemaWeight};
use jsonschema::{Draft, PatternOptions, ValidationError, Validator};
use serde_json::{Value, json};

use check_cost::{CheckCost, size_of};
pub(crate) use coercion::WrittenForm;
pub(crate) use messages::SchemaViolation;

/// The maximum memory for one pattern, in bytes.
const MAX_PATTERN_BYTES: usize = 1 << 18;
/// The most memory that a pattern may take for its lazily built automaton, in bytes.
const MAX_DFA_BYTES: usize = 1 << 18;
/// The most violations that are reported for one value.
const MAX_VIOLATIONS: usize = 4;
/// The maximum number of errors of a value that are examined.
const MAX_ERRORS: usize = 100;
/// The maximum size of a value for which more than one error is searched, as its number of nested values.
const MAX_LISTED: u64 = 50_000;
/// The size of the stack that a check may use, in bytes: [`check_cost::MAX_DEPTH`] limits the required
/// size.
const STACK: usize = 16 << 20;
/// The most stack that each level of nested schemas may need, in bytes.
const STACK_PER_SCHEMA: usize = STACK / 2 / check_cost::MAX_DEPTH;

/// The direction in which a value is sent: `readOnly` and `writeOnly` depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueDirection {
    /// The value is sent to the service.
    Request,
    /// The value comes from the service.
    Response,
}

/// A compiled schema, ready for checks.
#[derive(Debug)]
pub(crate) struct SchemaCheck {
    validator: Validator,
    cost: CheckCost,
    weight: SchemaWeight,
    origins: Vec<String>,
}

impl SchemaCheck {
    /// Creates the check of a schema of a task; `None` when the schema requires nothing, or cannot be read.
    pub(crate) fn from_task_schema<'t>(
        schemas: impl Into<SchemaResolver<'t>>,
        schema: &'t Value,
        direction: ValueDirection,
    ) -> Option<Self> {
        let asks = schema.as_object().is_some_and(|members| !members.is_empty());
        if !asks && *schema != Value::Bool(false) {
            return None;
        }
        let openapi_to_2020_12::TranslatedSchema { schema, origins } =
            openapi_to_2020_12::translate(schemas.into(), schema, direction);
        Self::from_compiled(schema, origins)
    }

    /// Creates the check of a self-contained schema of JSON Schema 2020-12.
    pub(crate) fn from_json_schema(schema: &Value) -> Option<Self> {
        let mut whole = json!({ "allOf": [schema] });
        if let Some(definitions) = schema.get("$defs") {
            whole["$defs"] = definitions.clone();
        }
        Self::from_compiled(whole, Vec::new())
    }

    fn from_compiled(schema: Value, origins: Vec<String>) -> Option<Self> {
        let validator = compile(&schema, MAX_PATTERN_BYTES)?;
        let weight = SchemaWeight::of_schema(&schema);
        Some(Self { validator, cost: CheckCost::from_schema(schema), weight, origins })
    }

    /// Estimates the cost of checking a value.
    pub(crate) fn evaluation_cost(&self, value: &Value) -> EvaluationCost {
        self.weight.evaluation_cost(value)
    }

    /// The violations of a value; empty when it fits.
    pub(crate) fn violations(&self, value: &Value) -> Vec<SchemaViolation> {
        let errors = self.errors(value).unwrap_or_default();
        errors
            .iter()
            .take(MAX_VIOLATIONS)
            .map(|error| SchemaViolation::from_error(error, &self.origins))
            .collect()
    }

    /// Returns the errors of a value; `None` when finding them takes too much work. For a large value, it
    /// returns only the first one, because there may be as many as the value has members.
    fn errors<'v>(&'v self, value: &'v Value) -> Option<Vec<ValidationError<'v>>> {
        if !self.cost.is_affordable(value) {
            return None;
        }
        // Another stack is mapped and unmapped again, which takes longer than most checks.
        Some(stacker::maybe_grow(self.cost.depth() * STACK_PER_SCHEMA, STACK, || {
            if self.validator.is_valid(value) {
                return Vec::new();
            }
            if size_of(value) > MAX_LISTED {
                return self.validator.validate(value).err().into_iter().collect();
            }
            self.validator.iter_errors(value).take(MAX_ERRORS).collect()
        }))
    }
}

/// Compiles a schema of JSON Schema 2020-12. Returns `None` when it is not a valid schema, or when one of
/// its patterns takes more than `pattern_bytes`.
fn compile(schema: &Value, pattern_bytes: usize) -> Option<Validator> {
    let patterns = PatternOptions::regex().size_limit(pattern_bytes).dfa_size_limit(MAX_DFA_BYTES);
    let options = jsonschema::options()
        .with_draft(Draft::Draft202012)
        .with_pattern_options(patterns)
        .should_validate_formats(true)
        .offline();
    stacker::maybe_grow(STACK / 2, STACK, || options.build(schema).ok())
}

#[cfg(test)]
mod tests;
