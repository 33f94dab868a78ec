//! The cost of a condition. CEL has no limit of its own, and a list from a service may be long:
//! `all`, `exists`, `map` and `filter` do their work once for each item.

use cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue};
use serde_json::Value;

use super::PREFIX;
use crate::query::pattern_visits;

/// The maximum cost of an evaluation, in steps. A step is about a tenth of a microsecond or, where the
/// evaluation creates text, eight bytes.
const MAX_STEPS: f64 = 2e7;
/// The cost of one visit of a query, in steps.
pub(super) const VISIT: f64 = 5.0;

/// The work of a condition for each item of a list.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct PerItemCost {
    /// The number of evaluated expressions.
    expressions: f64,
    /// The number of references among them: CEL may compare, search or copy their whole values.
    references: f64,
    /// The cost of the patterns.
    patterns: f64,
}

impl PerItemCost {
    /// Adds the work that CEL repeats for each item of a list.
    pub(super) fn add(&mut self, expr: &IdedExpr) {
        self.expressions += 1.0;
        match &expr.expr {
            Expr::Unspecified | Expr::Literal(_) => {}
            Expr::Ident(name) => {
                if name.starts_with(PREFIX) {
                    self.references += 1.0;
                }
            }
            Expr::Select(select) => self.add(&select.operand),
            Expr::List(list) => list.elements.iter().for_each(|item| self.add(item)),
            Expr::Call(call) => {
                self.patterns += pattern_steps(call);
                call.target.iter().for_each(|target| self.add(target));
                call.args.iter().for_each(|argument| self.add(argument));
            }
            Expr::Map(map) => map.entries.iter().for_each(|entry| match &entry.expr {
                EntryExpr::MapEntry(entry) => {
                    self.add(&entry.key);
                    self.add(&entry.value);
                }
                EntryExpr::StructField(field) => self.add(&field.value),
            }),
            Expr::Struct(message) => message.entries.iter().for_each(|entry| {
                if let EntryExpr::StructField(field) = &entry.expr {
                    self.add(&field.value);
                }
            }),
            // Refused before it comes here.
            Expr::Comprehension(_) => {}
        }
    }

    /// Returns true when this is too much work with these values.
    pub(super) fn is_too_costly_over<'v>(&self, values: impl Iterator<Item = &'v Value>) -> bool {
        self.expressions > 0.0 && self.steps_over(values) > MAX_STEPS
    }

    /// The steps of an evaluation with these values. Each value may be copied and compared once; repeated
    /// work is done for each item.
    pub(super) fn steps_over<'v>(&self, values: impl Iterator<Item = &'v Value>) -> f64 {
        let (items, size) = values
            .map(measure)
            .fold((8.0, 8.0), |(items, size), (i, s)| (f64::max(items, i), size + s));
        items * (self.expressions + self.references * size + self.patterns) + size
    }
}

/// The number of items that a loop may visit in a value, and the size of the value: the number of its
/// values, and one more for each eight bytes of text.
fn measure(value: &Value) -> (f64, f64) {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => (0.0, 1.0),
        Value::String(text) => (0.0, 1.0 + text.len() as f64 / 8.0),
        Value::Array(items) => sum(items.len(), items.iter().map(measure)),
        Value::Object(members) => sum(
            members.len(),
            members.iter().map(|(name, member)| {
                let (items, size) = measure(member);
                (items, size + name.len() as f64 / 8.0)
            }),
        ),
    }
}

fn sum(own: usize, below: impl Iterator<Item = (f64, f64)>) -> (f64, f64) {
    below.fold((own as f64, 1.0), |(items, size), (i, s)| (f64::max(items, i), size + s))
}

fn pattern_steps(call: &CallExpr) -> f64 {
    if call.func_name != "matches" {
        return 0.0;
    }
    let literal = call.args.last().and_then(|argument| match &argument.expr {
        Expr::Literal(LiteralValue::String(pattern)) => Some(pattern.inner()),
        _ => None,
    });
    VISIT * pattern_visits(literal)
}
