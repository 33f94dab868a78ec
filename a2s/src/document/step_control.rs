//! The control of a step, a2s 1.1: repetition, time limit and error handling.

use std::time::Duration;

use super::Step;
use crate::template::Template;

/// How often a step runs, how long it may take, and what happens when it fails (1.1).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StepControl {
    /// Run it once for each item of a list.
    pub for_each: Option<ForEach>,
    /// When its request is sent again; only tasks have it.
    pub retry: Option<RetryPolicy>,
    /// How long it may take, attempts and pauses included; each iteration on its own.
    pub timeout: Option<Duration>,
    /// What happens when it fails.
    pub on_error: OnError,
}

/// The list that a step runs over.
#[derive(Debug, Clone, PartialEq)]
pub struct ForEach {
    /// Gives the list.
    pub items: Template,
    /// The variable that holds the item.
    pub name: String,
    /// A longer list fails the step.
    pub max_items: usize,
    /// The number of iterations that run at the same time.
    pub max_concurrency: usize,
}

/// What happens when a step fails. A denial, a cancellation and a run that waits are no failures.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum OnError {
    /// What is around it fails, too.
    #[default]
    Stop,
    /// The run goes on; what the step would have set stays as it was.
    Continue,
    /// Other steps run instead, one after another.
    Catch {
        /// The variable that tells them what happened: `{code, message, step, status}`.
        name: String,
        /// The steps.
        steps: Vec<Step>,
    },
}

impl OnError {
    /// The steps of `catch`.
    #[must_use]
    pub fn caught(&self) -> &[Step] {
        match self {
            Self::Stop | Self::Continue => &[],
            Self::Catch { steps, .. } => steps,
        }
    }
}

/// When a request is sent again, where that is safe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    /// How often it is sent in all.
    pub max_attempts: u32,
    /// The pause before the second attempt; the executor's own when none is given.
    pub initial_delay: Option<Duration>,
    /// The longest pause; the executor's own when none is given.
    pub max_delay: Option<Duration>,
    /// How pauses grow.
    pub backoff: BackoffKind,
    /// The statuses that are worth another attempt; empty for the executor's own.
    pub on_status: Vec<u16>,
}

/// How the pauses between attempts grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BackoffKind {
    /// Each is twice as long as the one before.
    #[default]
    Exponential,
    /// All are the same.
    Constant,
}
