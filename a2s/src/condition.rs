//! Conditions: CEL expressions over `${path}` references.
//!
//! A reference is never spliced into the text as its value: it becomes a CEL variable that is
//! bound to the value. The expression is bounded before it is parsed, because the parser recurses.

mod cel_messages;

use std::sync::Arc;

use bounded_cel::{
    Bounds, CelProgram, CelValue, CelVariables, Expr, FunctionSet, MAX_NESTING, ParseError,
    PerItemCost, Token,
};
use serde_json::{Number, Value};

use crate::evaluation_cost::EvaluationCost;
use crate::query::pattern_visits;
use crate::template::{MissingReference, VariableReference, VariableSource};

/// The maximum length of a condition, in bytes.
const MAX_BYTES: usize = 2_000;
/// The maximum number of operators and calls.
const MAX_OPERATORS: usize = 32;
/// `==`, `&&` and the like count twice; that is within the bound's meaning.
const BOUNDS: Bounds = Bounds {
    operators: 2 * MAX_OPERATORS,
    selections: 2 * MAX_OPERATORS,
    symbols: 2 * MAX_OPERATORS,
};
/// The cost of one visit of a query, in steps of CEL.
const VISIT: f64 = 5.0;
/// The prefix of variables that represent references. The source may not use it.
const PREFIX: &str = "__ref";

/// A checked condition.
#[derive(Debug, Clone)]
pub struct Condition {
    source: String,
    program: Arc<CelProgram>,
    /// The references `__ref0`, `__ref1`, … in order.
    references: Vec<VariableReference>,
    /// The work for each item of a list.
    per_item_cost: PerItemCost,
}

/// The reason why a condition has no outcome.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConditionError {
    /// A reference has no value.
    #[error(transparent)]
    Missing(#[from] MissingReference),
    /// CEL found no overload, no key, an overflow, …, or the work is too much.
    #[error("`{condition}` cannot be evaluated: {reason}")]
    Failed {
        /// The condition.
        condition: String,
        /// The reason in words, without any value.
        reason: String,
    },
    /// The outcome is not a boolean.
    #[error("the result of `{condition}` is {outcome}, not true or false")]
    NotBoolean {
        /// The condition.
        condition: String,
        /// The type of the outcome.
        outcome: String,
    },
}

impl Condition {
    /// Parses a condition.
    ///
    /// # Errors
    /// The mistake, in words.
    pub fn parse(source: &str) -> Result<Self, String> {
        let (text, references) = bind_references(source)?;
        let program = CelProgram::parse(&text, FunctionSet::Standard, BOUNDS).map_err(|error| {
            match error {
                ParseError::TooNested => {
                    format!("brackets are nested more than {MAX_NESTING} deep")
                }
                ParseError::TooMany { .. } => format!(
                    "the condition has more than {MAX_OPERATORS} operators; set a variable in an earlier step, or split the condition"
                ),
                ParseError::Syntax { message, .. } => {
                    let reason = in_own_words(&references, &in_plain_words(&message));
                    format!("`{source}` is not a condition: {reason}")
                }
            }
        })?;
        check_names(&program)?;
        let pattern_steps = |pattern: Option<&str>| VISIT * pattern_visits(pattern);
        Ok(Self {
            source: source.to_owned(),
            per_item_cost: PerItemCost::of_program(&program, pattern_steps),
            program: Arc::new(program),
            references,
        })
    }

    /// A placeholder for a condition that could not be read, in a document with errors.
    pub(crate) fn substitute() -> Self {
        Self { source: String::new(), ..Self::parse("false").expect("CEL knows `false`") }
    }

    /// Returns the condition as written.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns every reference, in the order of the text.
    #[must_use]
    pub fn references(&self) -> &[VariableReference] {
        &self.references
    }

    /// Estimates the cost of an evaluation with these variables, without evaluating anything. A missing
    /// variable ends an evaluation at once.
    #[must_use]
    pub fn evaluation_cost(&self, variables: &dyn VariableSource) -> EvaluationCost {
        let values = self.references.iter().map(|reference| reference.resolve(variables));
        let Ok(values) = values.collect::<Result<Vec<&Value>, _>>() else {
            return EvaluationCost::Cheap;
        };
        EvaluationCost::from_visits(self.per_item_cost.steps_over(values.into_iter()) / VISIT)
    }

    /// Returns true when the condition holds.
    ///
    /// # Errors
    /// When a reference has no value, or CEL finds no boolean outcome.
    pub fn evaluate(&self, variables: &dyn VariableSource) -> Result<bool, ConditionError> {
        let failed =
            |reason: String| ConditionError::Failed { condition: self.source.clone(), reason };
        let values = self.references.iter().map(|reference| reference.resolve(variables));
        let values: Vec<&Value> = values.collect::<Result<_, _>>()?;
        if self.per_item_cost.is_too_costly_over(values.iter().copied()) {
            return Err(failed(
                "a list is too long for the expression that is evaluated for each item".to_owned(),
            ));
        }
        match self.program.evaluate(&bind_values(values)) {
            Ok(bounded_cel::Value::Bool(outcome)) => Ok(outcome),
            Ok(other) => Err(ConditionError::NotBoolean {
                condition: self.source.clone(),
                outcome: format!("{:?}", other.type_of()).to_lowercase(),
            }),
            Err(complaint) => Err(failed(cel_messages::explain(&complaint, &self.source))),
        }
    }
}

/// The maximum number of combinations of samples that are tried for a condition.
const MAX_SAMPLES: usize = 256;

impl Condition {
    /// The reason why the condition never has an outcome for values of certain types. `samples` contains
    /// one value of each type that a reference may have, in the order of the references. `None` when the
    /// condition has an outcome for some of them, or may have one for other values.
    pub(crate) fn type_error(&self, samples: &[Vec<Value>]) -> Option<String> {
        let count = samples.iter().try_fold(1_usize, |count, one| count.checked_mul(one.len()))?;
        if count == 0 || count > MAX_SAMPLES || samples.len() != self.references.len() {
            return None;
        }
        let mut first = None;
        for number in 0..count {
            let mut rest = number;
            let values = samples.iter().map(|values| {
                let value = &values[rest % values.len()];
                rest /= values.len();
                value
            });
            let outcome = self.program.evaluate(&bind_values(values));
            let reason = match outcome {
                Ok(bounded_cel::Value::Bool(_)) => return None,
                Ok(other) => {
                    let outcome = format!("{:?}", other.type_of()).to_lowercase();
                    format!("its result is {outcome}, not true or false")
                }
                Err(complaint) if cel_messages::is_about_types(&complaint) => {
                    cel_messages::explain(&complaint, &self.source)
                }
                Err(_) => return None,
            };
            first.get_or_insert(reason);
        }
        first.map(|reason| in_own_words(&self.references, &reason))
    }
}

/// Replaces the internal names of variables in a message of CEL (`__ref0`) by the references that the
/// author wrote (`${alert}`).
fn in_own_words(references: &[VariableReference], reason: &str) -> String {
    references.iter().enumerate().rev().fold(reason.to_owned(), |text, (index, reference)| {
        text.replace(&format!("{PREFIX}{index}"), &format!("${{{reference}}}"))
    })
}

/// The first error of CEL's parser without its notation: its columns refer to another text, and its token
/// lists do not help.
fn in_plain_words(reason: &str) -> String {
    let first = reason.lines().next().unwrap_or_default();
    let found = first.split_once("input ").or_else(|| first.split_once(" at: "));
    let found = found.and_then(|(_, after)| after.strip_prefix('\'')?.split('\'').next());
    match found {
        Some("<EOF>") => "it is incomplete".to_owned(),
        Some(token) if !token.trim().is_empty() => {
            format!("`{}` is not expected there", token.trim())
        }
        _ => "it cannot be parsed".to_owned(),
    }
}

impl PartialEq for Condition {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

/// Binds the variables of the references to these values, in order.
fn bind_values<'v>(values: impl IntoIterator<Item = &'v Value>) -> CelVariables<'v> {
    // An integer that no `int` holds is a `double`.
    let to_number = |number: &Number| match number.as_i64() {
        Some(integer) => CelValue::from(integer),
        None => CelValue::from(number.as_f64().unwrap_or(f64::NAN)),
    };
    let mut variables = CelVariables::new(FunctionSet::Standard);
    for (index, value) in values.into_iter().enumerate() {
        variables.set(format!("{PREFIX}{index}"), CelValue::from_json(value, to_number));
    }
    variables
}

/// Replaces each `${path}` by a variable.
fn bind_references(source: &str) -> Result<(String, Vec<VariableReference>), String> {
    if source.trim().is_empty() {
        return Err("the condition is empty".to_owned());
    }
    if source.len() > MAX_BYTES {
        return Err(format!(
            "the condition has {} bytes; at most {MAX_BYTES} are allowed",
            source.len()
        ));
    }
    if source.contains(PREFIX) {
        return Err(format!("names with `{PREFIX}` are reserved"));
    }
    let mut text = String::with_capacity(source.len());
    let mut references: Vec<VariableReference> = Vec::new();
    let mut rest = source;
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix("${") {
            let (path, after) = inner.split_once('}').ok_or("`${` without `}`")?;
            let reference = VariableReference::parse(path)?;
            let index =
                references.iter().position(|known| *known == reference).unwrap_or_else(|| {
                    references.push(reference);
                    references.len() - 1
                });
            text.extend([PREFIX, &index.to_string()]);
            rest = after;
            continue;
        }
        let part = match Token::first(rest) {
            (Token::String | Token::OpenString, string) => {
                let quoted = string.trim_start_matches(|c: char| c.is_ascii_alphabetic());
                if quoted.starts_with("'''") || quoted.starts_with("\"\"\"") {
                    return Err("triple-quoted strings are not supported".to_owned());
                }
                if string.contains("${") {
                    return Err(
                        "a string must not contain a reference; write `${a} + ' text'`".to_owned()
                    );
                }
                string
            }
            // References in a comment are references too.
            (Token::Comment, _) => "//",
            (_, part) => part,
        };
        text.push_str(part);
        rest = &rest[part.len()..];
    }
    Ok((text, references))
}

/// Checks that an expression uses only references and the variables of its own loops, and has no loop
/// in a loop, whose cost is the product of the ranges.
fn check_names(program: &CelProgram) -> Result<(), String> {
    let mut unknown: Option<&str> = None;
    program.walk(|part, scope| match &part.expr {
        Expr::Ident(name) if !name.starts_with(PREFIX) && !scope.binds(name) => {
            unknown = unknown.into_iter().chain([name.as_str()]).min();
            Ok(())
        }
        Expr::Struct(_) => Err("a condition cannot create messages"),
        Expr::Comprehension(_) if scope.is_repeated() || scope.is_range() => {
            Err("`all`, `exists`, `map` and `filter` must not be nested")
        }
        _ => Ok(()),
    })?;
    match unknown {
        Some(name) => Err(format!("`{name}` is not a variable of CEL; write `${{{name}}}`")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn evaluate(condition: &str) -> Result<bool, String> {
        let variables = json!({
            "severity": "severe", "n": 3, "price": 2.5, "list": [1, 2, 3], "o": {"a": {"b": true}},
            "trap": "' || true || '", "none": null
        });
        let condition = Condition::parse(condition)?;
        condition.evaluate(variables.as_object().unwrap()).map_err(|e| e.to_string())
    }

    #[test]
    fn references_are_values() {
        for holds in [
            "${severity} in ['severe', 'extreme']",
            "${n} == 3 && ${price} > 2.0",
            "${n} + 1 == 4 && ${list}.map(x, x * 2)[2] == 6",
            "${n} > 2 || ${n} < 0",
            "${list}.exists(x, x > 2)",
            "${list[0]} == 1 && ${o.a.b}",
            "${severity}.startsWith('sev')",
            "size(${list}) == 3",
            "${none} == null",
            "has(${o}.a)",
            "${severity} == \"severe\" ? true : false",
            "'$' == '$' && '}' != '{'",
        ] {
            assert_eq!(evaluate(holds), Ok(true), "{holds}");
        }
        assert_eq!(evaluate("${trap} == 'x'"), Ok(false), "a value is never code");
    }

    #[test]
    fn what_cannot_be_decided_is_refused_with_words() {
        let refused = |condition: &str, words: &str| {
            let message = evaluate(condition).unwrap_err();
            assert!(message.contains(words), "{condition}: {message}");
        };
        refused("severity == 'x'", "write `${severity}`");
        refused("'${severity}' == 'x'", "a string must not contain a reference");
        refused("${severity", "without `}`");
        refused("${n} +", "is not a condition: it is incomplete");
        refused("${n} ${n}", "is not a condition: `${n}` is not expected there");
        refused("${n} = 3", "is not a condition: `=`");
        refused("", "empty");
        refused("${n} + 1", "not true or false");
        refused("${n} < 'a'", "cannot be evaluated");
        refused("${missing} == 1", "no value");
        refused("__ref0 == 1", "reserved");
        refused("${list}.all(x, ${list}.all(y, x == y))", "must not be nested");
        refused(&"(".repeat(500), "nested");
        refused(&vec!["true"; 3000].join(" && "), "bytes");
        refused(&vec!["1"; 100].join("+"), "operators");
        refused(&format!("true // '\n || {}", "(".repeat(20)), "nested");
        refused(&format!("r'\\' == '' || {}", "(".repeat(20)), "nested");
    }

    #[test]
    fn a_failure_tells_no_value() {
        let secret = json!({"s": "hunter2", "m": {"a": "hunter2"}, "l": ["hunter2"], "n": 1});
        for condition in [
            "${s} + ${n} == 1",
            "${m} + ${m} == ${m}",
            "${m}[${s}] == 1",
            "${l}[7] == 1",
            "${s} < ${n}",
            "int(${s}) == 1",
            "${s}.nothing(${m}) == 1",
            "'a'.matches(${s} + '(')",
            "${n} / 0 == ${n}",
            "${s}.size() + ${s} == 1",
            "${s}",
            "${l}.map(x, x)",
            "${m}.hunter2 == 1 && ${m}.b == 2",
        ] {
            let parsed = Condition::parse(condition).unwrap();
            let error = parsed.evaluate(secret.as_object().unwrap()).unwrap_err().to_string();
            let text = error.replace(condition, "");
            assert!(!text.contains("hunter2") || condition.contains("hunter2"), "{error}");
            assert!(text.len() < 100, "{error}");
        }
    }

    #[test]
    fn long_lists_are_not_walked_through_for_each_item() {
        let check = |condition: &str, items: usize, answered: bool| {
            let list: Vec<usize> = (0..items).collect();
            let variables = json!({"list": list, "text": "x".repeat(items), "pattern": "x"});
            let condition = Condition::parse(condition).unwrap();
            let outcome = condition.evaluate(variables.as_object().unwrap());
            assert_eq!(outcome.is_ok(), answered, "{condition:?} over {items}: {outcome:?}");
        };
        check("${list}.exists(x, x == 1)", 100_000, true);
        check("${list}.exists(x, x in ${list})", 1_000, true);
        check("${list}.exists(x, x in ${list})", 10_000, false);
        check("${list}.map(x, ${text} + ${text}).size() > 0", 1_000, true);
        check("${list}.map(x, ${text} + ${text}).size() > 0", 100_000, false);
        check("${list}.exists(x, string(x).matches('[0-9]{5}'))", 1_000, true);
        check("${list}.exists(x, string(x).matches('(a{99}){99}'))", 1_000, false);
        check("${list}.exists(x, string(x).matches(${pattern}))", 1_000, false);
        check("${text}.matches(${pattern})", 100_000, true);
        check("1 in ${list} && size(${list}) > 1", 100_000, true);
    }
}
