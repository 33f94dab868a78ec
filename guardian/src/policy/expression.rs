//! The `when` of a rule: a CEL expression, bounded before it is parsed.
//!
//! The parser recurses about 100 KiB of stack per parenthesis and has no cost limit, so length,
//! nesting and operators are counted in the source first. Loops over loops are refused, so that an
//! evaluation takes time in proportion to the message. Names and functions are checked when the
//! policy is loaded, because CEL itself finds them only when it gets there.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, LazyLock};

use cel::common::ast::{EntryExpr, Expr, IdedExpr, LiteralValue};
use cel::common::types::{
    CelBool, CelDouble, CelInt, CelList, CelMap, CelMapKey, CelNull, CelString, CelUInt,
};
use cel::common::value::Val;
use cel::{Context, Env, Program, Value};
use serde_json::Value as Json;

const MAX_BYTES: usize = 1024;
const MAX_NESTING: usize = 8;
const MAX_OPERATORS: usize = 32;
const MAX_SELECTIONS: usize = 64;

/// The size of the stack for the parser, in bytes. On it, the parser reaches its own limit of 96 levels
/// first.
const PARSER_STACK: usize = 32 << 20;
/// The rest of the stack, in bytes, below which an evaluation continues on a new stack.
const RED_ZONE: usize = 512 << 10;
const NEW_STACK: usize = 8 << 20;

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

static ENVIRONMENT: LazyLock<Arc<Env>> = LazyLock::new(|| {
    let mut env = Env::stdlib();
    env.add_extension(cel::extensions::strings)
        .expect("the string functions are new to this environment");
    Arc::new(env)
});

/// A compiled condition.
#[derive(Debug)]
pub(super) struct CelExpression {
    program: Program,
    /// The variables that it reads.
    variables: BTreeSet<String>,
}

/// The variables with their values, for every expression that reads them. They borrow from the message.
pub(super) struct CelVariables<'v>(Context<'v, 'v>);

impl Default for CelVariables<'_> {
    fn default() -> Self {
        Self(Context::with_env(Arc::clone(&ENVIRONMENT)))
    }
}

impl fmt::Debug for CelVariables<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What they say may be secret.
        f.debug_struct("Variables").finish_non_exhaustive()
    }
}

impl<'v> CelVariables<'v> {
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.get_variable(name).is_some()
    }

    pub(super) fn set(&mut self, name: &str, CelValue(value): CelValue<'v>) {
        self.0.add_variable_as_val(name, value);
    }
}

/// A value that an expression can read. Texts are borrowed wherever they can be.
pub(super) struct CelValue<'v>(Box<dyn Val + 'v>);

impl<'v> CelValue<'v> {
    fn new(value: impl Val + 'v) -> Self {
        Self(Box::new(value))
    }

    pub(super) fn list(items: impl IntoIterator<Item: Into<Self>>) -> Self {
        let items: Vec<_> = items.into_iter().map(|item| item.into().0).collect();
        Self::new(CelList::from(items))
    }

    /// Creates an object. When a member occurs twice, the last one counts.
    pub(super) fn object<N, V>(members: impl IntoIterator<Item = (N, V)>) -> Self
    where
        N: Into<Cow<'v, str>>,
        V: Into<Self>,
    {
        let member =
            |(name, value): (N, V)| (CelMapKey::String(name.into().into()), value.into().0);
        #[expect(clippy::disallowed_types, reason = "a map of CEL is made from one")]
        let members: std::collections::HashMap<_, _> = members.into_iter().map(member).collect();
        Self::new(CelMap::from(members))
    }
}

impl From<bool> for CelValue<'_> {
    fn from(value: bool) -> Self {
        Self::new(CelBool::from(value))
    }
}

impl<'v> From<&'v str> for CelValue<'v> {
    fn from(text: &'v str) -> Self {
        Self::from(Cow::Borrowed(text))
    }
}

impl<'v> From<Cow<'v, str>> for CelValue<'v> {
    fn from(text: Cow<'v, str>) -> Self {
        Self::new(CelString::from(text))
    }
}

impl<'v> From<&'v Json> for CelValue<'v> {
    fn from(json: &'v Json) -> Self {
        match json {
            Json::Null => Self::new(CelNull),
            Json::Bool(value) => Self::from(*value),
            Json::Number(number) => Self::from(number),
            Json::String(text) => Self::from(text.as_str()),
            Json::Array(items) => Self::list(items),
            Json::Object(members) => Self::object(members),
        }
    }
}

impl From<Json> for CelValue<'_> {
    fn from(json: Json) -> Self {
        match json {
            Json::Null => Self::new(CelNull),
            Json::Bool(value) => Self::from(value),
            Json::Number(number) => Self::from(&number),
            Json::String(text) => Self::from(Cow::Owned(text)),
            Json::Array(items) => Self::list(items),
            Json::Object(members) => Self::object(members),
        }
    }
}

/// An integer becomes an `int` when it fits.
impl From<&serde_json::Number> for CelValue<'_> {
    fn from(number: &serde_json::Number) -> Self {
        match (number.as_i64(), number.as_u64()) {
            (Some(integer), _) => Self::new(CelInt::from(integer)),
            (None, Some(integer)) => Self::new(CelUInt::from(integer)),
            (None, None) => Self::new(CelDouble::from(number.as_f64().unwrap_or(f64::NAN))),
        }
    }
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
        check_bounds(source)?;
        stacker::grow(PARSER_STACK, || {
            let program = ENVIRONMENT.compile(source).map_err(|errors| {
                let first =
                    errors.errors.first().map_or("cannot be parsed", |error| error.msg.as_str());
                format!("is not CEL: {}", first.trim_start_matches("Syntax error: "))
            })?;
            let mut walk = ExpressionChecker {
                known,
                locals: Vec::new(),
                variables: BTreeSet::new(),
                loops: 0,
            };
            walk.check(program.expression())?;
            let variables = walk.variables;
            Ok(Self { program, variables })
        })
    }

    /// Returns the variables that the expression reads.
    pub(super) fn variables(&self) -> impl Iterator<Item = &str> {
        self.variables.iter().map(String::as_str)
    }

    /// Evaluates the condition with these variables, which include all that it reads.
    ///
    /// # Errors
    /// It fails, for instance because it reads a missing member, or its result is not a boolean.
    pub(super) fn evaluate_bool(&self, variables: &CelVariables<'_>) -> Result<bool, String> {
        match self.evaluate(variables)? {
            Value::Bool(holds) => Ok(holds),
            other => Err(format!("results in a {}, not a boolean", other.type_of())),
        }
    }

    /// Evaluates the expression to a number. The variables must include all that it reads.
    ///
    /// # Errors
    /// Fails when the evaluation fails, or the result is not a number.
    pub(super) fn evaluate_number(
        &self,
        variables: &CelVariables<'_>,
    ) -> Result<CelNumber, String> {
        match self.evaluate(variables)? {
            Value::Int(integer) => Ok(CelNumber::Integer(integer)),
            // What no `int` holds is more than any limit.
            Value::UInt(integer) => {
                Ok(CelNumber::Integer(i64::try_from(integer).unwrap_or(i64::MAX)))
            }
            Value::Float(decimal) => Ok(CelNumber::Decimal(decimal)),
            other => Err(format!("results in a {}, not a number", other.type_of())),
        }
    }

    fn evaluate(&self, variables: &CelVariables<'_>) -> Result<Value, String> {
        let CelVariables(context) = variables;
        let result = stacker::maybe_grow(RED_ZONE, NEW_STACK, || self.program.execute(context));
        match result {
            Ok(value) => Ok(value),
            // The error of CEL prints the values it was given, which may be secret: keep its kind.
            Err(cel::ExecutionError::NoSuchKey(name)) => {
                Err(format!("the message has no {name}; test with has(…)"))
            }
            Err(cel::ExecutionError::NoSuchOverload(error)) => Err(error.to_string()),
            Err(_) => Err("cannot be evaluated on this message".to_owned()),
        }
    }
}

/// Checks the numbers of brackets, operators and selections outside strings and comments, without a parser.
fn check_bounds(source: &str) -> Result<(), String> {
    if MAX_BYTES < source.len() {
        return Err(format!("is longer than {MAX_BYTES} bytes"));
    }
    let (mut nesting, mut operators, mut selections) = (0_usize, 0, 0);
    let mut rest = source;
    while let Some(c) = rest.chars().next() {
        let token = match c {
            '"' | '\'' => string_length(rest, false)?,
            _ if c.is_alphanumeric() || c == '_' => {
                let word =
                    rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
                let is_raw =
                    ["r", "br", "rb"].contains(&rest[..word].to_ascii_lowercase().as_str());
                let is_string = rest[word..].starts_with(['"', '\'']);
                word + if is_raw && is_string { string_length(&rest[word..], true)? } else { 0 }
            }
            _ if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '(' | '[' | '{' => {
                nesting += 1;
                selections += usize::from(c == '[');
                1
            }
            ')' | ']' | '}' => {
                nesting = nesting.saturating_sub(1);
                1
            }
            '.' => {
                selections += 1;
                1
            }
            '+' | '-' | '*' | '/' | '%' | '<' | '>' | '!' | '=' | '&' | '|' | '?' => {
                operators += 1;
                if ["==", "!=", "<=", ">=", "&&", "||"].iter().any(|two| rest.starts_with(two)) {
                    2
                } else {
                    1
                }
            }
            _ => c.len_utf8(),
        };
        let bounds = [
            (nesting, MAX_NESTING, "nested brackets"),
            (operators, MAX_OPERATORS, "operators"),
            (selections, MAX_SELECTIONS, "selections"),
        ];
        for (count, most, what) in bounds {
            if most < count {
                return Err(format!("has more than {most} {what}"));
            }
        }
        rest = &rest[token..];
    }
    Ok(())
}

/// Returns the length of the string literal at the start, including its quotes.
fn string_length(source: &str, is_raw: bool) -> Result<usize, String> {
    let is_triple = source.starts_with("\"\"\"") || source.starts_with("'''");
    let quote = &source[..if is_triple { 3 } else { 1 }];
    let mut place = quote.len();
    while let Some(c) = source[place..].chars().next() {
        if source[place..].starts_with(quote) {
            return Ok(place + quote.len());
        }
        if c == '\n' && !is_triple {
            break;
        }
        place += c.len_utf8();
        if c == '\\' && !is_raw {
            place += source[place..].chars().next().map_or(0, char::len_utf8);
        }
    }
    Err("has a string without an end".to_owned())
}

/// Checks a parsed expression and collects the variables that it reads.
struct ExpressionChecker<'a> {
    known: &'a [&'a str],
    /// The variables of the enclosing loops.
    locals: Vec<String>,
    variables: BTreeSet<String>,
    /// The number of enclosing loops.
    loops: usize,
}

impl ExpressionChecker<'_> {
    fn check(&mut self, expression: &IdedExpr) -> Result<(), String> {
        match &expression.expr {
            Expr::Ident(name) => self.check_name(name),
            Expr::Select(select) => self.check(&select.operand),
            Expr::Call(call) => {
                self.check_function(&call.func_name)?;
                if call.func_name == "matches" {
                    check_pattern(call.args.last())?;
                }
                call.target
                    .iter()
                    .map(AsRef::as_ref)
                    .chain(&call.args)
                    .try_for_each(|inner| self.check(inner))
            }
            Expr::List(list) => list.elements.iter().try_for_each(|element| self.check(element)),
            Expr::Map(map) => map.entries.iter().try_for_each(|entry| match &entry.expr {
                EntryExpr::MapEntry(entry) => {
                    self.check(&entry.key).and_then(|()| self.check(&entry.value))
                }
                EntryExpr::StructField(field) => self.check(&field.value),
            }),
            Expr::Comprehension(comprehension) => {
                self.check(&comprehension.iter_range)?;
                if 0 < self.loops {
                    return Err("has a loop inside a loop".to_owned());
                }
                let outer = self.locals.len();
                self.locals.push(comprehension.iter_var.clone());
                self.locals.extend(comprehension.iter_var2.clone());
                self.locals.push(comprehension.accu_var.clone());
                self.loops += 1;
                let parts = [
                    &comprehension.accu_init,
                    &comprehension.loop_cond,
                    &comprehension.loop_step,
                    &comprehension.result,
                ];
                parts.into_iter().try_for_each(|part| self.check(part))?;
                self.loops -= 1;
                self.locals.truncate(outer);
                Ok(())
            }
            Expr::Struct(message) => {
                Err(format!("creates a {}, which is not supported", message.type_name))
            }
            Expr::Literal(_) | Expr::Unspecified => Ok(()),
        }
    }

    fn check_name(&mut self, name: &str) -> Result<(), String> {
        if self.locals.iter().any(|local| local == name) || TYPES.contains(&name) {
            return Ok(());
        }
        if !self.known.contains(&name) {
            return Err(format!("reads {name}, which is not one of {}", self.known.join(", ")));
        }
        self.variables.insert(name.to_owned());
        Ok(())
    }

    /// Checks the name of a function. Operators have names with a symbol, such as `_==_` and `@in`.
    #[expect(clippy::unused_self, reason = "it belongs to the other checks of the walk")]
    fn check_function(&self, name: &str) -> Result<(), String> {
        let is_operator = name.starts_with(|c: char| !c.is_ascii_alphabetic());
        if is_operator || FUNCTIONS.contains(&name) {
            return Ok(());
        }
        Err(format!("calls {name}, which is not one of {}", FUNCTIONS.join(", ")))
    }
}

/// Returns the message of an invalid pattern, without the drawing above it.
pub(super) fn regex_error_message(error: &regex::Error) -> String {
    let text = error.to_string();
    text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

/// Checks a pattern. It must be a literal, so that the check happens here and not when a message arrives.
fn check_pattern(pattern: Option<&IdedExpr>) -> Result<(), String> {
    let Some(Expr::Literal(LiteralValue::String(pattern))) = pattern.map(|pattern| &pattern.expr)
    else {
        return Err("calls matches with a pattern that is not a literal string".to_owned());
    };
    regex::Regex::new(pattern.inner())
        .map(drop)
        .map_err(|e| format!("has an invalid pattern: {}", regex_error_message(&e)))
}
