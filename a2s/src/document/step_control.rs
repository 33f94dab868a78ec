//! The control of a step, a2s 1.1: repetition, time limit and error handling.

use std::time::Duration;

use super::Step;
use crate::template::Template;

/// The iteration, retries, timeout and error handling of a step (1.1).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StepControl {
    /// The list over which the step runs, once for each item.
    pub for_each: Option<ForEach>,
    /// The conditions for sending its request again; only tasks have it.
    pub retry: Option<RetryPolicy>,
    /// The time limit, including attempts and pauses; each iteration has its own.
    pub timeout: Option<Duration>,
    /// The reaction to a failure.
    pub on_error: OnError,
}

/// The list that a step runs over.
#[derive(Debug, Clone, PartialEq)]
pub struct ForEach {
    /// The template that produces the list.
    pub items: Template,
    /// The variable that holds the item.
    pub name: String,
    /// The maximum length of the list; a longer list fails the step.
    pub max_items: usize,
    /// The number of iterations that run at the same time.
    pub max_concurrency: usize,
}

/// The reaction to the failure of a step. A denial, a cancellation and a waiting run are not failures.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum OnError {
    /// The enclosing block or run fails, too.
    #[default]
    Stop,
    /// The run continues; variables that the step would have set stay as they were.
    Continue,
    /// The steps of `catch` run instead, one after another.
    Catch {
        /// The variable that describes the failure for these steps: `{code, message, step, status}`.
        name: String,
        /// The steps.
        steps: Vec<Step>,
    },
}

impl OnError {
    /// Returns the steps of `catch`.
    #[must_use]
    pub fn caught(&self) -> &[Step] {
        match self {
            Self::Stop | Self::Continue => &[],
            Self::Catch { steps, .. } => steps,
        }
    }
}

/// The conditions for sending a request again, where that is safe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The most attempts in total.
    pub max_attempts: u32,
    /// The pause before the second attempt; `None` means the executor's default.
    pub initial_delay: Option<Duration>,
    /// The maximum pause; `None` means the executor's default.
    pub max_delay: Option<Duration>,
    /// The growth of the pauses.
    pub backoff: BackoffKind,
    /// The HTTP statuses after which the executor tries again; empty means the executor's defaults.
    pub on_status: Vec<u16>,
}

/// The growth of the pauses between attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BackoffKind {
    /// Each pause is twice as long as the pause before.
    #[default]
    Exponential,
    /// All pauses have the same length.
    Constant,
}
