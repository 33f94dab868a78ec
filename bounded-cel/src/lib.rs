//! CEL expressions from other people, within bounds.
//!
//! CEL itself has no limits: its parser recurses about 100 KiB of stack per parenthesis, and a loop
//! may be inside a loop. So [`CelProgram::parse`] counts brackets and operators before the parser
//! sees a text, [`CelProgram::walk`] shows the parsed expression for checks, [`PerItemCost`] is the
//! cost of its loops, [`CelProgram::evaluate_known`] evaluates it when
//! parts of its variables are unknown, and everything that recurses does so on a stack that grows. The names that an
//! expression may use, and the words for its errors, belong to the caller.

mod bounds;
mod kleene;
mod per_item_cost;
mod reads;
mod value;
mod walk;

use std::fmt;
use std::sync::{Arc, LazyLock};

use cel::{Context, Env, Program};

pub use cel::common::ast::{Expr, IdedExpr};
pub use cel::{ExecutionError, Value};

pub use self::bounds::{Bounds, MAX_NESTING, ParseError, Token};
pub use self::per_item_cost::PerItemCost;
pub use self::reads::{ReadKind, ReadPath};
pub use self::value::CelValue;
pub use self::walk::{LoopScope, literal_text};

/// The rest of the stack, in bytes, below which CEL continues on a new stack: twice the use of the
/// largest expression, which is 1.6 MiB in a debug build and 0.1 MiB in a release build.
const RED_ZONE: usize = if cfg!(debug_assertions) { 4 << 20 } else { 1 << 20 };
/// The size of the new stack, in bytes. On it, the parser reaches its own limit of 96 levels first.
const STACK: usize = 16 << 20;

fn on_large_stack<R>(run: impl FnOnce() -> R) -> R {
    stacker::maybe_grow(RED_ZONE, STACK, run)
}

/// The functions of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FunctionSet {
    /// Those of the CEL specification.
    Standard,
    /// These and the extension for strings.
    WithStrings,
}

impl FunctionSet {
    fn environment(self) -> &'static Arc<Env> {
        static STANDARD: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(Env::stdlib()));
        static WITH_STRINGS: LazyLock<Arc<Env>> = LazyLock::new(|| {
            let mut env = Env::stdlib();
            env.add_extension(cel::extensions::strings)
                .expect("the string functions are new to this environment");
            Arc::new(env)
        });
        match self {
            Self::Standard => &STANDARD,
            Self::WithStrings => &WITH_STRINGS,
        }
    }
}

/// A parsed expression.
#[derive(Debug)]
pub struct CelProgram(Program);

impl CelProgram {
    /// Parses an expression.
    ///
    /// # Errors
    /// When the text exceeds a bound or is not CEL.
    pub fn parse(source: &str, functions: FunctionSet, bounds: Bounds) -> Result<Self, ParseError> {
        let has_open_string = bounds.check(source)?;
        let program = on_large_stack(|| functions.environment().compile(source));
        program.map(Self).map_err(|errors| {
            let first = errors.errors.first();
            let message = first.map_or("cannot be parsed", |error| error.msg.as_str());
            let message = message.trim_start_matches("Syntax error: ").to_owned();
            ParseError::Syntax { message, has_open_string }
        })
    }

    /// Evaluates the expression with these variables.
    ///
    /// # Errors
    /// CEL's own, which has the values in it.
    pub fn evaluate(&self, variables: &CelVariables<'_>) -> Result<Value, ExecutionError> {
        on_large_stack(|| self.0.execute(&variables.0))
    }
}

/// The variables with their values, for every expression that reads them. The values may borrow.
pub struct CelVariables<'v>(Context<'v, 'v>);

impl<'v> CelVariables<'v> {
    /// No variables yet, for expressions with these functions.
    #[must_use]
    pub fn new(functions: FunctionSet) -> Self {
        Self(Context::with_env(Arc::clone(functions.environment())))
    }

    /// Returns true when the variable has a value.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.0.get_variable(name).is_some()
    }

    /// Sets the value of a variable.
    pub fn set(&mut self, name: impl Into<String>, value: CelValue<'v>) {
        self.0.add_variable_as_val(name, value.into_inner());
    }
}

impl fmt::Debug for CelVariables<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The values may be secret.
        f.debug_struct("CelVariables").finish_non_exhaustive()
    }
}
