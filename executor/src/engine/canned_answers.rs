//! Canned responses in place of services: those of a recorded run, or of an example.

use std::fmt;
use std::sync::Arc;

use a2s_api::RunError;

use crate::request::TaskContract;
use crate::secrets::MaskedInputs;
use crate::step_result::StepResult;

/// A source of canned responses.
pub(crate) trait CannedResponses: fmt::Debug + Sync {
    /// Returns the response to the task of a step.
    ///
    /// # Errors
    /// The failure of the step: a recorded one, one that the response causes, or a missing response.
    fn respond(&self, question: &TaskRequest<'_>) -> Result<StepResult, RunError>;
}

/// The request that a task step would send.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TaskRequest<'a> {
    /// Path of the step in the run: `checkWeather/getWeather[2]`.
    pub(crate) step: &'a str,
    /// The task, with its schemas.
    pub(crate) contract: &'a Arc<TaskContract>,
    /// The values for its parameters.
    pub(crate) inputs: &'a MaskedInputs,
}
