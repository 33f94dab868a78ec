//! Values held to their schemas: what a service would refuse is found before anything is sent.
//!
//! A schema is compiled once and asked often. Patterns run on an engine that is linear in the text;
//! nothing is fetched from a file or a network. A schema that refers to itself can make a small
//! value expensive, so the work is added up first, and a value that would take too much of it is
//! let pass: checking is a help, the service decides.

mod dialect;
mod effort;
mod words;

use a2s::OpenApiTask;
use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::{Value, json};

use effort::Effort;
pub(crate) use words::Misfit;

/// The most memory that one pattern may take, in bytes.
const MAX_PATTERN_BYTES: usize = 1 << 20;
/// The most misfits that are told of one value.
const MAX_MISFITS: usize = 4;
/// Stack that a check may use, in bytes: [`effort::MAX_DEPTH`] bounds how much it needs.
const STACK: usize = 16 << 20;

/// Which way a value travels: `readOnly` and `writeOnly` depend on it.
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
    origins: Vec<String>,
}

impl Check {
    /// The check of a schema of an OpenAPI task; none when the schema asks for nothing, or cannot
    /// be read.
    pub(crate) fn of_schema(
        task: &OpenApiTask,
        schema: &Value,
        direction: Direction,
    ) -> Option<Self> {
        let asks = schema.as_object().is_some_and(|members| !members.is_empty());
        if !asks && *schema != Value::Bool(false) {
            return None;
        }
        let dialect::Translation { schema, origins } = dialect::translate(task, schema, direction);
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
        let validator = compile(&schema)?;
        Some(Self { validator, effort: Effort::of(schema), origins })
    }

    /// What of a value does not fit; nothing when it does.
    pub(crate) fn misfits(&self, value: &Value) -> Vec<Misfit> {
        if !self.effort.is_bearable(value) {
            return Vec::new();
        }
        stacker::maybe_grow(STACK / 2, STACK, || {
            if self.validator.is_valid(value) {
                return Vec::new();
            }
            let errors = self.validator.iter_errors(value).take(MAX_MISFITS);
            errors.map(|error| Misfit::of(&error, &self.origins)).collect()
        })
    }

    /// What of a value does not fit that is written as text, so that its types are lost on the
    /// way: `5` and `"5"` are one. A single value stands for a list of one.
    pub(crate) fn misfits_as_text(&self, value: &Value) -> Vec<Misfit> {
        let misfits = self.misfits(value);
        if misfits.is_empty() {
            return misfits;
        }
        let readings = [value.clone(), as_text(value), as_read(value)];
        let fits = readings.into_iter().any(|reading| {
            let alone = !reading.is_array() && !reading.is_object();
            self.misfits(&reading).is_empty()
                || (alone && self.misfits(&Value::Array(vec![reading])).is_empty())
        });
        if fits { Vec::new() } else { misfits }
    }
}

/// Compiles a schema of JSON Schema 2020-12; none when it is none.
fn compile(schema: &Value) -> Option<Validator> {
    let patterns =
        PatternOptions::regex().size_limit(MAX_PATTERN_BYTES).dfa_size_limit(MAX_PATTERN_BYTES);
    let options = jsonschema::options()
        .with_draft(Draft::Draft202012)
        .with_pattern_options(patterns)
        .should_validate_formats(true)
        .offline();
    stacker::maybe_grow(STACK / 2, STACK, || options.build(schema).ok())
}

/// The value with every scalar as the text that it is sent as.
fn as_text(value: &Value) -> Value {
    map_scalars(value, &|scalar| match scalar {
        Value::Number(_) | Value::Bool(_) => Value::String(scalar.to_string()),
        other => other.clone(),
    })
}

/// The value with every text as the number or boolean that it may be read as.
fn as_read(value: &Value) -> Value {
    map_scalars(value, &|scalar| match scalar {
        Value::String(text) => match serde_json::from_str(text) {
            Ok(read @ (Value::Number(_) | Value::Bool(_))) => read,
            _ => scalar.clone(),
        },
        other => other.clone(),
    })
}

/// Parameters nest as deep as documents and answers do, which is bounded where they are read.
fn map_scalars(value: &Value, change: &impl Fn(&Value) -> Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(|item| map_scalars(item, change)).collect(),
        Value::Object(members) => {
            let members = members.iter();
            members.map(|(name, member)| (name.clone(), map_scalars(member, change))).collect()
        }
        scalar => change(scalar),
    }
}

#[cfg(test)]
mod tests;
