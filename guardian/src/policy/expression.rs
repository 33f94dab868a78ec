//! The `when` of a rule: a CEL expression over the message.
//!
//! Loops over loops are refused, so that an evaluation takes time in proportion to the message.
//! Names and functions are checked when the policy is loaded, because CEL itself finds them only
//! when it gets there.

use std::collections::BTreeSet;

use bounded_cel::{
    Bounds, CelProgram, CelVariables, ExecutionError, Expr, FunctionSet, IdedExpr, LoopScope,
    ReadPath, Value, literal_text,
};

use super::unknown_facts::{Truth, UnknownFacts};

const MAX_BYTES: usize = 1024;
const BOUNDS: Bounds = Bounds { operators: 32, selections: 64, symbols: MAX_BYTES };
/// The functions that CEL knows. An expression may call fewer.
pub(super) const FUNCTION_SET: FunctionSet = FunctionSet::WithStrings;

/// The functions that an expression may call. Functions that build values larger than their arguments are
/// left out.
const FUNCTIONS: [&str; 15] = [
    "size",
    "contains",
    "startsWith",
    "endsWith",
    "matches",
    "lowerAscii",
    "upperAscii",
    "trim",
    "indexOf",
    "substring",
    "int",
    "uint",
    "double",
    "string",
    "type",
];

/// The names that `type` returns.
const TYPES: [&str; 9] =
    ["bool", "bytes", "double", "int", "list", "map", "null_type", "string", "uint"];

/// A compiled condition.
#[derive(Debug)]
pub(super) struct CelExpression {
    program: CelProgram,
    /// The variables that it reads.
    variables: BTreeSet<String>,
    /// The parts of the variables that it reads.
    reads: Vec<ReadPath>,
}

/// The result of an expression that counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum CelNumber {
    Integer(i64),
    Decimal(f64),
}

impl CelExpression {
    /// Compiles a condition over `known` variables.
    ///
    /// # Errors
    /// A sentence that describes the problem.
    pub(super) fn compile(source: &str, known: &[&str]) -> Result<Self, String> {
        if MAX_BYTES < source.len() {
            return Err(format!("is longer than {MAX_BYTES} bytes"));
        }
        let program =
            CelProgram::parse(source, FUNCTION_SET, BOUNDS).map_err(|error| error.to_string())?;
        let mut variables = BTreeSet::new();
        program.walk(|part, scope| check_part(part, scope, known, &mut variables))?;
        let reads = program.reads();
        Ok(Self { program, variables, reads })
    }

    /// Returns the variables that the expression reads.
    pub(super) fn variables(&self) -> impl Iterator<Item = &str> {
        self.variables.iter().map(String::as_str)
    }

    /// Returns true when the expression reads something of the prepared request.
    pub(super) fn reads_request(&self) -> bool {
        self.reads.iter().any(|read| {
            let names: Vec<_> = read.segments.iter().map(String::as_str).collect();
            match names[..] {
                ["request", ..] | ["params"] | ["params", "context"] => true,
                ["params", "context", member, ..] => member == "request",
                _ => false,
            }
        })
    }

    /// Evaluates the condition with these variables, which include all that it reads.
    ///
    /// # Errors
    /// It fails, for instance because it reads a missing member, or its result is not a boolean.
    pub(super) fn evaluate_bool(
        &self,
        variables: &CelVariables<'_>,
        unknown: &UnknownFacts,
    ) -> Result<Truth, String> {
        match self.evaluate(variables, unknown)? {
            Ok(Value::Bool(holds)) => Ok(holds.into()),
            Ok(other) => Err(format!("results in a {}, not a boolean", other.type_of())),
            Err(fact) => Ok(Truth::Unknown(fact)),
        }
    }

    /// Evaluates the expression to a number, or to the name of an unknown fact that the number depends on.
    /// The variables must include all that it reads.
    ///
    /// # Errors
    /// Fails when the evaluation fails, or the result is not a number.
    pub(super) fn evaluate_number(
        &self,
        variables: &CelVariables<'_>,
        unknown: &UnknownFacts,
    ) -> Result<Result<CelNumber, String>, String> {
        let value = match self.evaluate(variables, unknown)? {
            Ok(value) => value,
            Err(fact) => return Ok(Err(fact)),
        };
        match value {
            Value::Int(integer) => Ok(Ok(CelNumber::Integer(integer))),
            // What no `int` holds is more than any limit.
            Value::UInt(integer) => {
                Ok(Ok(CelNumber::Integer(i64::try_from(integer).unwrap_or(i64::MAX))))
            }
            Value::Float(decimal) => Ok(Ok(CelNumber::Decimal(decimal))),
            other => Err(format!("results in a {}, not a number", other.type_of())),
        }
    }

    /// Returns the value, or else the name of an unknown fact that it depends on.
    fn evaluate(
        &self,
        variables: &CelVariables<'_>,
        unknown: &UnknownFacts,
    ) -> Result<Result<Value, String>, String> {
        let result = if self.reads.iter().any(|read| unknown.covers(read)) {
            let mut fact = None;
            let mut is_unknown = |read: &ReadPath| {
                let is_unknown = unknown.covers(read);
                if is_unknown && fact.is_none() {
                    fact = Some(read.segments.join("."));
                }
                is_unknown
            };
            let result = self.program.evaluate_known(variables, &mut is_unknown);
            result.map(|value| value.ok_or_else(|| fact.unwrap_or_default()))
        } else {
            self.program.evaluate(variables).map(Ok)
        };
        match result {
            Ok(value) => Ok(value),
            // The error of CEL prints the values it was given, which may be secret: keep its kind.
            Err(ExecutionError::NoSuchKey(name)) => {
                Err(format!("the message has no {name}; test with has(…)"))
            }
            Err(ExecutionError::NoSuchOverload(error)) => Err(error.to_string()),
            Err(_) => Err("cannot be evaluated on this message".to_owned()),
        }
    }
}

/// Checks a part of a parsed expression, and collects the variables that it reads.
fn check_part(
    part: &IdedExpr,
    scope: &LoopScope<'_>,
    known: &[&str],
    variables: &mut BTreeSet<String>,
) -> Result<(), String> {
    match &part.expr {
        Expr::Ident(name) if !scope.binds(name) && !TYPES.contains(&name.as_str()) => {
            if !known.contains(&name.as_str()) {
                return Err(format!("reads {name}, which is not one of {}", known.join(", ")));
            }
            variables.insert(name.clone());
            Ok(())
        }
        Expr::Call(call) => {
            check_function(&call.func_name)?;
            if call.func_name == "matches" { check_pattern(call.args.last()) } else { Ok(()) }
        }
        Expr::Comprehension(_) if scope.is_repeated() => Err("has a loop inside a loop".to_owned()),
        Expr::Struct(message) => {
            Err(format!("creates a {}, which is not supported", message.type_name))
        }
        _ => Ok(()),
    }
}

/// Checks the name of a function. Operators have names with a symbol, such as `_==_` and `@in`.
fn check_function(name: &str) -> Result<(), String> {
    let is_operator = name.starts_with(|c: char| !c.is_ascii_alphabetic());
    if is_operator || FUNCTIONS.contains(&name) {
        return Ok(());
    }
    Err(format!("calls {name}, which is not one of {}", FUNCTIONS.join(", ")))
}

/// Returns the message of an invalid pattern, without the drawing above it.
pub(super) fn regex_error_message(error: &regex::Error) -> String {
    let text = error.to_string();
    text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

/// Checks a pattern. It must be a literal, so that the check happens here and not when a message arrives.
fn check_pattern(pattern: Option<&IdedExpr>) -> Result<(), String> {
    let Some(pattern) = pattern.and_then(literal_text) else {
        return Err("calls matches with a pattern that is not a literal string".to_owned());
    };
    regex::Regex::new(pattern)
        .map(drop)
        .map_err(|e| format!("has an invalid pattern: {}", regex_error_message(&e)))
}
