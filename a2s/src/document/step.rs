//! Steps and the blocks that they form.

use std::sync::Arc;

use indexmap::IndexMap;

use super::{OutputMapping, StepControl, TaskInputs};
use crate::condition::Condition;
use crate::diagnostic::SourcePosition;
use crate::name::{CapabilityName, StepId};
use crate::task::Task;
use crate::template::Template;

/// Steps that belong together.
#[derive(Debug, Clone, PartialEq)]
pub enum StepBlock {
    /// Steps that run one after another.
    Sequence(Vec<Step>),
    /// Steps that run at the same time: each step sees the variables as they were at the start of the
    /// block.
    Parallel {
        /// The steps.
        steps: Vec<Step>,
        /// The number of steps that run at the same time, when the document states it (1.1).
        max_concurrency: Option<usize>,
    },
    /// A choice between two sequences.
    Condition {
        /// The deciding condition.
        condition: Condition,
        /// The steps that run when the condition is true.
        if_true: Vec<Step>,
        /// The steps that run when the condition is false.
        if_false: Vec<Step>,
    },
}

impl StepBlock {
    /// Returns the steps directly below, in the order of the document.
    #[must_use]
    pub fn children(&self) -> Vec<&Step> {
        match self {
            Self::Sequence(steps) | Self::Parallel { steps, .. } => steps.iter().collect(),
            Self::Condition { if_true, if_false, .. } => if_true.iter().chain(if_false).collect(),
        }
    }

    /// `sequence`, `parallel` or `condition`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Sequence(_) => "sequence",
            Self::Parallel { .. } => "parallel",
            Self::Condition { .. } => "condition",
        }
    }
}

/// One step.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The id, which is unique in the document.
    pub id: StepId,
    /// The function that it performs.
    pub action: StepAction,
    /// Iteration, retries, timeout and error handling (1.1).
    pub control: StepControl,
    /// The path of the step: `execution.steps[0]`.
    pub pointer: String,
    /// The position of that path in the text.
    pub position: SourcePosition,
}

impl Step {
    /// Returns the steps directly below, in the order of the document: the steps of its block, then the
    /// steps of its `catch`.
    #[must_use]
    pub fn children(&self) -> Vec<&Self> {
        let mut children = match &self.action {
            StepAction::Block(block) => block.children(),
            StepAction::Task { .. } | StepAction::Capability { .. } => Vec::new(),
        };
        children.extend(self.control.on_error.caught());
        children
    }
}

/// The action of a step.
#[derive(Debug, Clone, PartialEq)]
pub enum StepAction {
    /// One request to a service.
    Task {
        /// The request; one value for all steps with the same shared task.
        task: Arc<Task>,
        /// The inputs of the request.
        inputs: TaskInputs,
        /// The values taken from the response.
        outputs: Vec<OutputMapping>,
    },
    /// Another capability.
    Capability {
        /// The name of the capability; declared under `dependencies`.
        capability: CapabilityName,
        /// Its inputs by name.
        inputs: IndexMap<String, Template>,
        /// The values taken from its result.
        outputs: Vec<OutputMapping>,
    },
    /// Steps below this one.
    Block(StepBlock),
}

impl StepAction {
    /// `task`, `capability`, `sequence`, `parallel` or `condition`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Task { .. } => "task",
            Self::Capability { .. } => "capability",
            Self::Block(block) => block.kind(),
        }
    }

    /// The values that the step takes from its response; blocks take none themselves.
    #[must_use]
    pub fn outputs(&self) -> &[OutputMapping] {
        match self {
            Self::Task { outputs, .. } | Self::Capability { outputs, .. } => outputs,
            Self::Block(_) => &[],
        }
    }
}
