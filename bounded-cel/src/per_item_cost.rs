//! The cost of an expression. A list from a service may be long: `all`, `exists`, `map` and `filter`
//! do their work once for each item.

use cel::common::ast::Expr;
use serde_json::Value as Json;

use crate::{CelProgram, literal_text};

/// The maximum cost of an evaluation, in steps. A step is about a tenth of a microsecond or, where the
/// evaluation creates text, eight bytes.
const MAX_STEPS: f64 = 2e7;

/// The work of an expression for each item of a list.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PerItemCost {
    /// The number of evaluated expressions.
    expressions: f64,
    /// The number of variables among them: CEL may compare, search or copy their whole values.
    variables: f64,
    /// The cost of the patterns.
    patterns: f64,
}

impl PerItemCost {
    /// Adds up the work that CEL repeats. `pattern_steps` is the cost of a pattern, which is unknown
    /// unless it is a literal.
    pub fn of_program(program: &CelProgram, pattern_steps: fn(Option<&str>) -> f64) -> Self {
        let mut cost = Self::default();
        let walked = program.walk(|part, scope| {
            if scope.is_repeated() {
                cost.expressions += 1.0;
                match &part.expr {
                    Expr::Ident(name) if !scope.binds(name) => cost.variables += 1.0,
                    Expr::Call(call) if call.func_name == "matches" => {
                        cost.patterns += pattern_steps(call.args.last().and_then(literal_text));
                    }
                    _ => {}
                }
            }
            Ok::<_, std::convert::Infallible>(())
        });
        let Ok(()) = walked;
        cost
    }

    /// Returns true when this is too much work with these values.
    pub fn is_too_costly_over<'v>(&self, values: impl Iterator<Item = &'v Json>) -> bool {
        self.expressions > 0.0 && self.steps_over(values) > MAX_STEPS
    }

    /// The steps of an evaluation with these values. Each value may be copied and compared once; repeated
    /// work is done for each item.
    pub fn steps_over<'v>(&self, values: impl Iterator<Item = &'v Json>) -> f64 {
        let (items, size) = values
            .map(measure)
            .fold((8.0, 8.0), |(items, size), (i, s)| (f64::max(items, i), size + s));
        items * (self.expressions + self.variables * size + self.patterns) + size
    }
}

/// The number of items that a loop may visit in a value, and the size of the value: the number of its
/// values, and one more for each eight bytes of text.
fn measure(value: &Json) -> (f64, f64) {
    match value {
        Json::Null | Json::Bool(_) | Json::Number(_) => (0.0, 1.0),
        Json::String(text) => (0.0, 1.0 + text.len() as f64 / 8.0),
        Json::Array(items) => sum(items.len(), items.iter().map(measure)),
        Json::Object(members) => sum(
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
