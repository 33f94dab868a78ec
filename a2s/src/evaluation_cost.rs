//! The cost of an expression over a value from a service: an estimate that evaluates nothing, so
//! that a caller knows whether the expression may run on a thread that serves others.

use regex_syntax::hir::{Class, Hir, HirKind};
use serde_json::Value;

/// The assumed number of states of a pattern that is not known in advance.
pub(crate) const UNKNOWN_STATES: f64 = 1_000.0;
/// The maximum number of visits of a cheap evaluation. A visit takes about half a microsecond in a release
/// build, so a cheap evaluation takes at most about 10 ms.
pub const CHEAP_VISITS: f64 = 20_000.0;
/// The maximum number of visits of a check against a schema, half a minute in a release build. Queries and
/// conditions have lower limits of their own.
const MAX_VISITS: f64 = 6e7;
/// The maximum depth to which a schema is examined.
const MAX_SCHEMA_DEPTH: usize = 64;
/// The cost of one state of a pattern for one byte of text, in visits.
const STATE_BYTE: f64 = 0.03;

/// The cost class of an evaluation: it may run next to others, or belongs on a bounded pool with a
/// deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EvaluationCost {
    /// At most [`CHEAP_VISITS`].
    Cheap,
    /// More than [`CHEAP_VISITS`].
    Expensive,
    /// So many that a thread would work on them long after every deadline.
    Excessive,
}

impl EvaluationCost {
    pub(crate) fn from_visits(visits: f64) -> Self {
        // A NaN is not known to be cheap.
        match visits {
            ..=CHEAP_VISITS => Self::Cheap,
            ..=MAX_VISITS => Self::Expensive,
            _ => Self::Excessive,
        }
    }

    /// Returns true when the evaluation does not run next to others.
    #[must_use]
    pub fn is_expensive(self) -> bool {
        self != Self::Cheap
    }

    /// Estimates the cost of the validation of `value` by a JSON Schema. In the worst case, each value is
    /// checked against each part of the schema, and each byte of text against each state of its patterns.
    #[must_use]
    pub fn of_schema(schema: &Value, value: &Value) -> Self {
        SchemaWeight::of_schema(schema).evaluation_cost(value)
    }
}

/// The contribution of a JSON Schema to the cost of a validation. It can be reused when the schema
/// validates many values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SchemaWeight {
    parts: f64,
    /// The number of states of all patterns.
    states: f64,
}

impl SchemaWeight {
    /// Computes the weight of a schema.
    #[must_use]
    pub fn of_schema(schema: &Value) -> Self {
        let (parts, states) = weigh_schema(schema, MAX_SCHEMA_DEPTH);
        Self { parts, states }
    }

    /// Estimates the cost of the validation of `value`: see [`EvaluationCost::of_schema`].
    #[must_use]
    pub fn evaluation_cost(&self, value: &Value) -> EvaluationCost {
        let Self { parts, states } = self;
        let (values, text) = weigh_value(value);
        let patterns = if *states == 0.0 { 0.0 } else { states * text * STATE_BYTE };
        EvaluationCost::from_visits(parts * values * 0.01 + values + patterns)
    }
}

/// Counts the parts of a schema, and the states of all its patterns.
fn weigh_schema(schema: &Value, depth: usize) -> (f64, f64) {
    if depth == 0 {
        return (f64::INFINITY, f64::INFINITY);
    }
    let add =
        |(parts, states): (f64, f64), (more, further): (f64, f64)| (parts + more, states + further);
    match schema {
        Value::Array(items) => {
            items.iter().map(|item| weigh_schema(item, depth - 1)).fold((1.0, 0.0), add)
        }
        Value::Object(members) => members
            .iter()
            .map(|(name, member)| match (name.as_str(), member) {
                ("pattern", Value::String(pattern)) => (1.0, pattern_states(pattern)),
                ("patternProperties", Value::Object(patterns)) => {
                    let states = patterns.keys().map(|pattern| pattern_states(pattern)).sum();
                    add((0.0, states), weigh_schema(member, depth - 1))
                }
                _ => weigh_schema(member, depth - 1),
            })
            .fold((1.0, 0.0), add),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => (1.0, 0.0),
    }
}

/// Counts the values in a value, itself included, and the bytes of its text.
fn weigh_value(value: &Value) -> (f64, f64) {
    let add =
        |(values, text): (f64, f64), (more, further): (f64, f64)| (values + more, text + further);
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => (1.0, 0.0),
        Value::String(text) => (1.0, text.len() as f64),
        Value::Array(items) => items.iter().map(weigh_value).fold((1.0, 0.0), add),
        Value::Object(members) => members
            .iter()
            .map(|(name, member)| add((0.0, name.len() as f64), weigh_value(member)))
            .fold((1.0, 0.0), add),
    }
}

/// Returns the number of states of a compiled pattern: its parts, with every repetition written out.
pub(crate) fn pattern_states(pattern: &str) -> f64 {
    regex_syntax::parse(pattern).map_or(UNKNOWN_STATES, |hir| hir_states(&hir))
}

fn hir_states(hir: &Hir) -> f64 {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => 1.0,
        HirKind::Literal(literal) => literal.0.len() as f64,
        HirKind::Class(Class::Unicode(class)) => class.ranges().len() as f64,
        HirKind::Class(Class::Bytes(class)) => class.ranges().len() as f64,
        HirKind::Repetition(repetition) => {
            let times = repetition.max.unwrap_or_else(|| repetition.min.saturating_add(1)).max(1);
            f64::from(times) * hir_states(&repetition.sub)
        }
        HirKind::Capture(capture) => hir_states(&capture.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().map(hir_states).sum(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::query::{JsonPathQuery, QueryError};

    #[test]
    fn a_pattern_costs_its_states_for_each_byte() {
        let query = JsonPathQuery::parse("$.l[?search(@,'(a{1,100}){1,100}b')]").unwrap();
        let one = json!({"l": ["a".repeat(2_000)]});
        assert!(query.evaluation_cost(&one).is_expensive());
        let many = json!({"l": vec!["a".repeat(2_000); 20]});
        assert!(matches!(query.evaluate(&many), Err(QueryError::TooExpensive { .. })));
        let plain = JsonPathQuery::parse("$.l[?search(@,'a+b')]").unwrap();
        assert!(!plain.evaluation_cost(&one).is_expensive());
    }

    #[test]
    fn ordinary_expressions_are_cheap_and_large_values_are_not() {
        let one = JsonPathQuery::parse("$.data[0].id").unwrap();
        let all = JsonPathQuery::parse("$..id").unwrap();
        let small = json!({"data": vec![json!({"id": 1}); 50]});
        let large = json!({"data": vec![json!({"id": 1}); 50_000]});
        assert!(!one.evaluation_cost(&large).is_expensive());
        assert!(!all.evaluation_cost(&small).is_expensive());
        assert!(all.evaluation_cost(&large).is_expensive());
        let schema = json!({"type": "array", "items": {"pattern": "^(a{1,100}){1,100}$"}});
        assert!(EvaluationCost::of_schema(&schema, &json!(["a".repeat(2_000)])).is_expensive());
        assert!(!EvaluationCost::of_schema(&schema, &json!(["a"])).is_expensive());
    }
}
