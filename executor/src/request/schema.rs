//! Checks values against their schemas, so that a value that a service would reject is found before
//! anything is sent.
//!
//! A schema is compiled once and used often. Patterns run on an engine that is linear in the text; nothing
//! is loaded from a file or a network. A recursive schema can make a small value expensive to check, so the
//! work is estimated first, and a value that would take too much is accepted unchecked: the check is a
//! help, and the service decides.

mod dialect;
mod effort;
mod reading;
mod words;

use a2s::{EvaluationCost, SchemaWeight, Schemas};
use jsonschema::{Draft, PatternOptions, ValidationError, Validator};
use serde_json::{Value, json};

use effort::{Effort, size_of};
pub(crate) use reading::Spelling;
pub(crate) use words::Misfit;

/// The most memory that one pattern may take, in bytes.
const MAX_PATTERN_BYTES: usize = 1 << 18;
/// The most memory that a pattern may take for its lazily built automaton, in bytes.
const MAX_DFA_BYTES: usize = 1 << 18;
/// The most violations that are reported for one value.
const MAX_MISFITS: usize = 4;
/// The most errors of a value that are looked at.
const MAX_ERRORS: usize = 100;
/// The largest value, in values within one another, of which more than one error is looked for.
const MAX_LISTED: u64 = 50_000;
/// Stack that a check may use, in bytes: [`effort::MAX_DEPTH`] bounds how much it needs.
const STACK: usize = 16 << 20;
/// The most stack that each level of nested schemas may need, in bytes.
const STACK_OF_ONE: usize = STACK / 2 / effort::MAX_DEPTH;

/// The direction in which a value is sent: `readOnly` and `writeOnly` depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// To the service.
    Request,
    /// From the service.
    Response,
}

/// A schema that is ready to be asked.
#[derive(Debug)]
pub(crate) struct Check {
    validator: Validator,
    effort: Effort,
    weight: SchemaWeight,
    origins: Vec<String>,
}

impl Check {
    /// The check of a schema of a task; none when the schema asks for nothing, or cannot be read.
    pub(crate) fn of_schema<'t>(
        schemas: impl Into<Schemas<'t>>,
        schema: &'t Value,
        direction: Direction,
    ) -> Option<Self> {
        let asks = schema.as_object().is_some_and(|members| !members.is_empty());
        if !asks && *schema != Value::Bool(false) {
            return None;
        }
        let dialect::Translation { schema, origins } =
            dialect::translate(schemas.into(), schema, direction);
        Self::compiled(schema, origins)
    }

    /// The check of a schema of JSON Schema 2020-12 that is whole in itself.
    pub(crate) fn of_json_schema(schema: &Value) -> Option<Self> {
        let mut whole = json!({ "allOf": [schema] });
        if let Some(definitions) = schema.get("$defs") {
            whole["$defs"] = definitions.clone();
        }
        Self::compiled(whole, Vec::new())
    }

    fn compiled(schema: Value, origins: Vec<String>) -> Option<Self> {
        let validator = compile(&schema, MAX_PATTERN_BYTES)?;
        let weight = SchemaWeight::of_schema(&schema);
        Some(Self { validator, effort: Effort::of(schema), weight, origins })
    }

    /// The cost of the check of a value, by an estimate.
    pub(crate) fn evaluation_cost(&self, value: &Value) -> EvaluationCost {
        self.weight.evaluation_cost(value)
    }

    /// The violations of a value; empty when it fits.
    pub(crate) fn misfits(&self, value: &Value) -> Vec<Misfit> {
        let errors = self.errors(value).unwrap_or_default();
        errors.iter().take(MAX_MISFITS).map(|error| Misfit::of(error, &self.origins)).collect()
    }

    /// The errors of a value; none when it is too much work to find them. Of a large value it is
    /// the first one, as there may be as many as it has members.
    fn errors<'v>(&'v self, value: &'v Value) -> Option<Vec<ValidationError<'v>>> {
        if !self.effort.is_bearable(value) {
            return None;
        }
        // Another stack is mapped and unmapped again, which takes longer than most checks.
        Some(stacker::maybe_grow(self.effort.depth() * STACK_OF_ONE, STACK, || {
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

/// Compiles a schema of JSON Schema 2020-12; none when it is none, or when one of its patterns takes
/// more than `pattern_bytes`.
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
