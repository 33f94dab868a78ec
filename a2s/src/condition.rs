//! Conditions: CEL expressions over `${path}` references.
//!
//! A reference is never spliced into the text as its value: it becomes a CEL variable that is
//! bound to the value. The expression is bounded before it is parsed, because the parser recurses.

mod cel_cost;
mod cel_messages;

use std::collections::BTreeSet;
use std::sync::Arc;

use cel::common::ast::{EntryExpr, Expr, IdedExpr};
use cel::{Context, Program};
use serde::{Serialize, Serializer};
use serde_json::Value;

use self::cel_cost::PerItemCost;
use crate::evaluation_cost::EvaluationCost;
use crate::template::{MissingReference, VariableReference, VariableSource};

/// The maximum length of a condition, in bytes.
const MAX_BYTES: usize = 2_000;
/// The maximum depth of nested brackets.
const MAX_NESTING: usize = 8;
/// The maximum number of operators and calls.
const MAX_OPERATORS: usize = 32;
/// The stack space for CEL's parser and evaluator, which are recursive: twice the use of the largest
/// condition, which is 1.6 MiB in a debug build and 0.1 MiB in a release build.
const RED_ZONE: usize = if cfg!(debug_assertions) { 4 << 20 } else { 1 << 20 };
/// The size of the new stack for them, in bytes, when less stack is left.
const STACK: usize = 16 << 20;
/// The prefix of variables that represent references. The source may not use it.
const PREFIX: &str = "__ref";

/// A checked condition.
#[derive(Debug, Clone)]
pub struct Condition {
    source: String,
    program: Arc<Program>,
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
    /// CEL found no overload, no key, an overflow, …, or the values are too large for CEL.
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
        let program =
            stacker::maybe_grow(RED_ZONE, STACK, || Program::compile(&text)).map_err(|errors| {
                let reason = in_plain_words(&errors.to_string());
                format!("`{source}` is not a condition: {}", in_own_words(&references, &reason))
            })?;
        let mut names = FreeNames::default();
        names.visit(program.expression(), 0)?;
        let unknown = names.free.iter().find(|name| !name.starts_with(PREFIX));
        if let Some(name) = unknown {
            return Err(format!("`{name}` is not a variable of CEL; write `${{{name}}}`"));
        }
        let repeated = names.repeated;
        Ok(Self {
            source: source.to_owned(),
            program: Arc::new(program),
            references,
            per_item_cost: repeated,
        })
    }

    /// A placeholder for a condition that could not be read, in a document with errors.
    pub(crate) fn substitute() -> Self {
        Self {
            source: String::new(),
            program: Arc::new(Program::compile("false").expect("CEL knows `false`")),
            references: Vec::new(),
            per_item_cost: PerItemCost::default(),
        }
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
        EvaluationCost::from_visits(
            self.per_item_cost.steps_over(values.into_iter()) / cel_cost::VISIT,
        )
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
        let mut context = Context::default();
        for (index, value) in values.into_iter().enumerate() {
            let value = cel::to_value(CelInput(value))
                .map_err(|_| failed("a value cannot be represented in CEL".to_owned()))?;
            context.add_variable_from_value(format!("{PREFIX}{index}"), value);
        }
        match stacker::maybe_grow(RED_ZONE, STACK, || self.program.execute(&context)) {
            Ok(cel::Value::Bool(outcome)) => Ok(outcome),
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
            let mut context = Context::default();
            for (index, values) in samples.iter().enumerate() {
                let value = cel::to_value(CelInput(values.get(rest % values.len())?)).ok()?;
                rest /= values.len();
                context.add_variable_from_value(format!("{PREFIX}{index}"), value);
            }
            let outcome = stacker::maybe_grow(RED_ZONE, STACK, || self.program.execute(&context));
            let reason = match outcome {
                Ok(cel::Value::Bool(_)) => return None,
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

/// A JSON value whose integers become CEL's `int`. Otherwise `3` would be a `uint`, and `${n} + 1` would
/// have no overload.
struct CelInput<'v>(&'v Value);

impl Serialize for CelInput<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Number(number) => match number.as_i64() {
                Some(integer) => serializer.serialize_i64(integer),
                None => serializer.serialize_f64(number.as_f64().unwrap_or(f64::NAN)),
            },
            Value::Array(items) => serializer.collect_seq(items.iter().map(CelInput)),
            Value::Object(members) => {
                serializer.collect_map(members.iter().map(|(key, value)| (key, CelInput(value))))
            }
            scalar @ (Value::Null | Value::Bool(_) | Value::String(_)) => {
                scalar.serialize(serializer)
            }
        }
    }
}

/// Replaces each `${path}` by a variable, and checks the limits of the text.
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
    let (mut depth, mut operators, mut quote) = (0_usize, 0_usize, None);
    let mut rest = source.char_indices();
    while let Some((at, c)) = rest.next() {
        let after = &source[at..];
        if let Some(open) = quote {
            if after.starts_with("${") {
                return Err(
                    "a string must not contain a reference; write `${a} + ' text'`".to_owned()
                );
            }
            if c == '\\' {
                text.push(c);
                text.extend(rest.next().map(|(_, c)| c));
                continue;
            }
            if c == open {
                quote = None;
            }
            text.push(c);
            continue;
        }
        if let Some(inner) = after.strip_prefix("${") {
            let end = inner.find('}').ok_or("`${` without `}`")?;
            let reference = VariableReference::parse(&inner[..end])?;
            let index =
                references.iter().position(|known| *known == reference).unwrap_or_else(|| {
                    references.push(reference);
                    references.len() - 1
                });
            text.extend([PREFIX, &index.to_string()]);
            while rest.clone().next().is_some_and(|(next, _)| next < at + 2 + end + 1) {
                rest.next();
            }
            continue;
        }
        match c {
            '\'' | '"' => {
                if after.starts_with("'''") || after.starts_with("\"\"\"") {
                    return Err("triple-quoted strings are not supported".to_owned());
                }
                quote = Some(c);
            }
            '(' | '[' | '{' => {
                depth += 1;
                operators += 1;
                if depth > MAX_NESTING {
                    return Err(format!("brackets are nested more than {MAX_NESTING} deep"));
                }
            }
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            '+' | '-' | '*' | '/' | '%' | '!' | '<' | '>' | '=' | '&' | '|' | '?' | '.' => {
                operators += 1;
            }
            _ => {}
        }
        text.push(c);
    }
    // `==`, `&&` and the like count twice; that is within the bound's meaning.
    if operators > 2 * MAX_OPERATORS {
        return Err(format!(
            "the condition has more than {MAX_OPERATORS} operators; set a variable in an earlier step, or split the condition"
        ));
    }
    Ok((text, references))
}

/// The names that an expression uses but does not bind itself.
#[derive(Default)]
struct FreeNames {
    bound: Vec<String>,
    free: BTreeSet<String>,
    repeated: PerItemCost,
}

impl FreeNames {
    /// Visits an expression and its parts. `comprehensions` is the number of comprehensions around it. A
    /// nested comprehension is rejected, because its cost is the product of the ranges.
    fn visit(&mut self, expr: &IdedExpr, comprehensions: usize) -> Result<(), String> {
        let all = |names: &mut Self, exprs: &[&IdedExpr]| {
            exprs.iter().try_for_each(|expr| names.visit(expr, comprehensions))
        };
        match &expr.expr {
            Expr::Unspecified | Expr::Literal(_) => Ok(()),
            Expr::Ident(name) => {
                if !self.bound.contains(name) {
                    self.free.insert(name.clone());
                }
                Ok(())
            }
            Expr::Select(select) => all(self, &[&select.operand]),
            Expr::List(list) => all(self, &list.elements.iter().collect::<Vec<_>>()),
            Expr::Call(call) => {
                all(self, &call.target.iter().map(|t| &**t).chain(&call.args).collect::<Vec<_>>())
            }
            Expr::Map(map) => map.entries.iter().try_for_each(|entry| match &entry.expr {
                EntryExpr::MapEntry(entry) => all(self, &[&entry.key, &entry.value]),
                EntryExpr::StructField(field) => all(self, &[&field.value]),
            }),
            Expr::Struct(_) => Err("a condition cannot create messages".to_owned()),
            Expr::Comprehension(inner) => {
                if comprehensions > 0 {
                    return Err("`all`, `exists`, `map` and `filter` must not be nested".to_owned());
                }
                self.visit(&inner.iter_range, comprehensions + 1)?;
                self.visit(&inner.accu_init, comprehensions + 1)?;
                let before = self.bound.len();
                self.bound.push(inner.iter_var.clone());
                self.bound.push(inner.accu_var.clone());
                self.bound.extend(inner.iter_var2.clone());
                for part in [&inner.loop_cond, &inner.loop_step, &inner.result] {
                    self.visit(part, comprehensions + 1)?;
                    self.repeated.add(part);
                }
                self.bound.truncate(before);
                Ok(())
            }
        }
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
