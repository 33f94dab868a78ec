//! Answers that are at hand, instead of services: those of a recorded run, or of an example.

use std::fmt;
use std::sync::Arc;

use a2s::api::RunError;

use super::StepResult;
use crate::gate::GuardedInputs;
use crate::request::TaskContract;

/// Who has the answers at hand.
pub(crate) trait CannedResponses: fmt::Debug + Sync {
    /// What the task of a step is answered.
    ///
    /// # Errors
    /// How the step fails: as it did, as the answer makes it fail, or because there is no answer.
    fn respond(&self, question: &TaskRequest<'_>) -> Result<StepResult, RunError>;
}

/// The request that a task step would send.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TaskRequest<'a> {
    /// Path of the step in the run: `checkWeather/getWeather[2]`.
    pub(crate) step: &'a str,
    /// The task, with its schemas.
    pub(crate) contract: &'a Arc<TaskContract>,
    /// What its places are filled with.
    pub(crate) inputs: GuardedInputs<'a>,
}
