//! Evaluation of an expression some of whose values are unknown: strong Kleene logic.
//!
//! An operand that is unknown does not decide `&&` or `||`, and a known one may: `false && unknown` is
//! `false`. Every other operator and function over something unknown is unknown. As in CEL, an error beside
//! the deciding operand does not count; beside an unknown operand it does, because the true value may lead
//! to the error.

use cel::common::ast::{Expr, IdedExpr, operators};
use cel::{ExecutionError, Value};

use crate::reads::{ReadPath, reads_of};
use crate::{CelProgram, CelVariables, on_large_stack};

impl CelProgram {
    /// Returns the parts of the variables that the expression reads.
    #[must_use]
    pub fn reads(&self) -> Vec<ReadPath> {
        on_large_stack(|| reads_of(self.0.expression()))
    }

    /// Evaluates the expression without the parts of variables that are unknown. Returns `None` when the
    /// result depends on them.
    ///
    /// # Errors
    /// CEL's own, which has the values in it.
    pub fn evaluate_known(
        &self,
        variables: &CelVariables<'_>,
        is_unknown: &mut dyn FnMut(&ReadPath) -> bool,
    ) -> Result<Option<Value>, ExecutionError> {
        on_large_stack(|| KnownEvaluation { variables, is_unknown }.evaluate(self.0.expression()))
    }
}

struct KnownEvaluation<'a, 'v> {
    variables: &'a CelVariables<'v>,
    is_unknown: &'a mut dyn FnMut(&ReadPath) -> bool,
}

impl KnownEvaluation<'_, '_> {
    fn evaluate(&mut self, part: &IdedExpr) -> Result<Option<Value>, ExecutionError> {
        if let Expr::Call(call) = &part.expr {
            match (call.func_name.as_str(), call.args.as_slice()) {
                (operators::LOGICAL_AND, [left, right]) => {
                    return self.evaluate_operands(operators::LOGICAL_AND, left, right, false);
                }
                (operators::LOGICAL_OR, [left, right]) => {
                    return self.evaluate_operands(operators::LOGICAL_OR, left, right, true);
                }
                (operators::LOGICAL_NOT, [operand]) => {
                    let operand = self.evaluate_bool(operators::LOGICAL_NOT, operand)?;
                    return Ok(operand.map(|value| Value::Bool(!value)));
                }
                (operators::CONDITIONAL, [condition, yes, no]) => {
                    return match self.evaluate_bool(operators::CONDITIONAL, condition)? {
                        Some(true) => self.evaluate(yes),
                        Some(false) => self.evaluate(no),
                        None => {
                            let (yes, no) = (self.evaluate(yes)?, self.evaluate(no)?);
                            Ok(yes.filter(|yes| no.as_ref() == Some(yes)))
                        }
                    };
                }
                _ => {}
            }
        }
        if reads_of(part).iter().any(&mut *self.is_unknown) {
            return Ok(None);
        }
        Value::resolve(part, &self.variables.0).map(Some)
    }

    /// Evaluates `&&` or `||`. An operand with the value `deciding` is the result.
    fn evaluate_operands(
        &mut self,
        operator: &str,
        left: &IdedExpr,
        right: &IdedExpr,
        deciding: bool,
    ) -> Result<Option<Value>, ExecutionError> {
        let left = self.evaluate_bool(operator, left);
        if left == Ok(Some(deciding)) {
            return Ok(Some(Value::Bool(deciding)));
        }
        let right = self.evaluate_bool(operator, right);
        if right == Ok(Some(deciding)) {
            return Ok(Some(Value::Bool(deciding)));
        }
        let is_known = left?.is_some() & right?.is_some();
        Ok(is_known.then_some(Value::Bool(!deciding)))
    }

    fn evaluate_bool(
        &mut self,
        operator: &str,
        part: &IdedExpr,
    ) -> Result<Option<bool>, ExecutionError> {
        match self.evaluate(part)? {
            None => Ok(None),
            Some(Value::Bool(value)) => Ok(Some(value)),
            Some(other) => {
                Err(ExecutionError::no_such_overload(operator, vec![other.type_of().to_string()]))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bounds, FunctionSet, ReadKind};

    const VARIABLES: [&str; 3] = ["a", "b", "c"];

    fn parse(source: &str) -> CelProgram {
        let bounds = Bounds { operators: 64, selections: 64, symbols: 1024 };
        CelProgram::parse(source, FunctionSet::Standard, bounds).unwrap()
    }

    fn variables(values: [bool; 3]) -> CelVariables<'static> {
        let mut variables = CelVariables::new(FunctionSet::Standard);
        for (name, value) in VARIABLES.into_iter().zip(values) {
            variables.set(name, value.into());
        }
        variables
    }

    /// Evaluates with the variables of `unknown` unknown.
    fn evaluate(
        program: &CelProgram,
        values: [bool; 3],
        unknown: &[&str],
    ) -> Result<Option<Value>, ExecutionError> {
        program.evaluate_known(&variables(values), &mut |read| {
            unknown.contains(&read.segments[0].as_str())
        })
    }

    /// Every expression with at most two levels of operators.
    fn expressions() -> Vec<String> {
        let atoms = ["a", "b", "true", "a == b"].map(str::to_owned);
        let combine = |left: &[String], right: &[String]| {
            let mut made = Vec::new();
            for x in left {
                made.push(format!("!({x})"));
                for y in right {
                    made.push(format!("({x}) && ({y})"));
                    made.push(format!("({x}) || ({y})"));
                    made.push(format!("c ? ({x}) : ({y})"));
                    made.push(format!("({y}) ? ({x}) : b"));
                }
            }
            made
        };
        let first = combine(&atoms, &atoms);
        let second = combine(&first, &atoms);
        first.into_iter().chain(second).collect()
    }

    const ALL: [[bool; 3]; 8] = {
        let mut all = [[false; 3]; 8];
        let mut n = 0;
        while n < 8 {
            all[n] = [n & 1 != 0, n & 2 != 0, n & 4 != 0];
            n += 1;
        }
        all
    };

    #[test]
    fn a_known_result_holds_for_every_true_value() {
        for source in expressions() {
            let program = parse(&source);
            let results = ALL.map(|values| program.evaluate(&variables(values)).unwrap());
            for is_unknown in ALL {
                let unknown: Vec<_> = VARIABLES.into_iter().zip(is_unknown).collect();
                let unknown: Vec<_> =
                    unknown.iter().filter(|(_, is)| *is).map(|(n, _)| *n).collect();
                for values in ALL {
                    let Some(known) = evaluate(&program, values, &unknown).unwrap() else {
                        assert!(!unknown.is_empty(), "{source} needs nothing unknown");
                        continue;
                    };
                    for (other, result) in ALL.iter().zip(&results) {
                        let is_possible = (0..3).all(|n| is_unknown[n] || other[n] == values[n]);
                        assert!(
                            !is_possible || *result == known,
                            "{source} {values:?} {unknown:?}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn connectives_follow_the_tables_of_kleene() {
        let cases = [
            ("a && b", [Some(false), None, None]),
            ("b && a", [Some(false), None, None]),
            ("a || b", [None, Some(true), None]),
            ("b || a", [None, Some(true), None]),
            ("!b", [None, None, None]),
            ("b ? a : a", [Some(false), Some(true), None]),
            ("b ? a : !a", [None, None, None]),
        ];
        for (source, expected) in cases {
            let program = parse(source);
            let known = |a| evaluate(&program, [a, false, false], &["b"]).unwrap();
            let unknown = evaluate(&program, [false; 3], &["a", "b"]).unwrap();
            let expected = expected.map(|value| value.map(Value::Bool));
            assert_eq!([known(false), known(true), unknown], expected, "{source}");
        }
    }

    #[test]
    fn an_error_beside_an_unknown_operand_stays_an_error() {
        let check = |source: &str, expected: Option<Option<bool>>| {
            let found = evaluate(&parse(source), [false, true, false], &["c"]);
            assert_eq!(found.ok(), expected.map(|value| value.map(Value::Bool)), "{source}");
        };
        check("c && 1 / 0 == 1", None);
        check("1 / 0 == 1 || c", None);
        check("a && 1 / 0 == 1", Some(Some(false)));
        check("1 / 0 == 1 && a", Some(Some(false)));
        check("b || 1 / 0 == 1", Some(Some(true)));
        check("c ? b : 1 / 0 == 1", None);
        check("c && 1", None);
        check("c || b", Some(Some(true)));
    }

    #[test]
    fn reads_are_as_narrow_as_literals_allow() {
        let check = |source: &str, expected: &[(&str, &str)]| {
            let reads: Vec<_> = parse(source)
                .reads()
                .into_iter()
                .map(|read| {
                    let kind = match read.kind {
                        ReadKind::Value => String::new(),
                        ReadKind::Existence => "has".to_owned(),
                        ReadKind::Containment(name) => name,
                    };
                    (read.segments.join("/"), kind)
                })
                .collect();
            let reads: Vec<_> = reads.iter().map(|(p, k)| (p.as_str(), k.as_str())).collect();
            assert_eq!(reads, expected, "{source}");
        };
        check("a.b == c['d'][0].e", &[("a/b", ""), ("c/d/0/e", "")]);
        check("has(a.b.c) && 'x' in a.h", &[("a/b/c", "has"), ("a/h", "x")]);
        check("a[b].c == 1", &[("b", ""), ("a", "")]);
        check("has(a[b].c)", &[("b", ""), ("a", "")]);
        check("a.l.exists(b, b.x == c)", &[("a/l", ""), ("c", "")]);
        check("size(a.l) > 0 && a.t.startsWith(b)", &[("a/l", ""), ("a/t", ""), ("b", "")]);
        check("[a.x, {'k': b}].size() == 1", &[("a/x", ""), ("b", "")]);
    }
}
