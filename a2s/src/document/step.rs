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

    /// Returns the kind of a step with this block.
    #[must_use]
    pub fn kind(&self) -> StepKind {
        match self {
            Self::Sequence(_) => StepKind::Sequence,
            Self::Parallel { .. } => StepKind::Parallel,
            Self::Condition { .. } => StepKind::Condition,
        }
    }

    /// Returns the choice of a block that runs only some of its steps.
    #[must_use]
    pub fn choice(&self) -> Option<StepChoice<'_>> {
        match self {
            Self::Condition { condition, if_true, if_false } => {
                Some(StepChoice { condition, if_true, if_false })
            }
            Self::Sequence(_) | Self::Parallel { .. } => None,
        }
    }

    /// Returns the number of steps that run at the same time, when the document states it.
    #[must_use]
    pub fn max_concurrency(&self) -> Option<usize> {
        match self {
            Self::Parallel { max_concurrency, .. } => *max_concurrency,
            Self::Sequence(_) | Self::Condition { .. } => None,
        }
    }
}

/// A choice between two sequences of steps.
#[derive(Debug, Clone, Copy)]
pub struct StepChoice<'s> {
    /// The deciding condition.
    pub condition: &'s Condition,
    /// The steps that run when the condition is true.
    pub if_true: &'s [Step],
    /// The steps that run when the condition is false.
    pub if_false: &'s [Step],
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
        let mut children = self.action.as_block().map_or_else(Vec::new, StepBlock::children);
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

/// A step that sends one request.
#[derive(Debug, Clone, Copy)]
pub struct TaskStep<'s> {
    /// The request.
    pub task: &'s Arc<Task>,
    /// The inputs of the request.
    pub inputs: &'s TaskInputs,
    /// The values taken from the response.
    pub outputs: &'s [OutputMapping],
}

/// A step that uses another capability.
#[derive(Debug, Clone, Copy)]
pub struct CapabilityStep<'s> {
    /// The name of the capability.
    pub capability: &'s CapabilityName,
    /// Its inputs by name.
    pub inputs: &'s IndexMap<String, Template>,
    /// The values taken from its result.
    pub outputs: &'s [OutputMapping],
}

impl StepAction {
    /// Returns the kind of the step.
    #[must_use]
    pub fn kind(&self) -> StepKind {
        match self {
            Self::Task { .. } => StepKind::Task,
            Self::Capability { .. } => StepKind::Capability,
            Self::Block(block) => block.kind(),
        }
    }

    /// Returns the request, when the step sends one.
    #[must_use]
    pub fn as_task(&self) -> Option<TaskStep<'_>> {
        match self {
            Self::Task { task, inputs, outputs } => Some(TaskStep { task, inputs, outputs }),
            Self::Capability { .. } | Self::Block(_) => None,
        }
    }

    /// Returns the used capability, when the step uses one.
    #[must_use]
    pub fn as_capability(&self) -> Option<CapabilityStep<'_>> {
        match self {
            Self::Capability { capability, inputs, outputs } => {
                Some(CapabilityStep { capability, inputs, outputs })
            }
            Self::Task { .. } | Self::Block(_) => None,
        }
    }

    /// Returns the steps below, when the step is a block.
    #[must_use]
    pub fn as_block(&self) -> Option<&StepBlock> {
        match self {
            Self::Block(block) => Some(block),
            Self::Task { .. } | Self::Capability { .. } => None,
        }
    }

    /// Returns the templates of the inputs, in the order of the document; blocks have none themselves.
    #[must_use]
    pub fn input_templates(&self) -> Vec<&Template> {
        match self {
            Self::Task { inputs, .. } => inputs.values().collect(),
            Self::Capability { inputs, .. } => inputs.values().collect(),
            Self::Block(_) => Vec::new(),
        }
    }

    /// Returns the values that the step takes from its result; blocks take none themselves.
    #[must_use]
    pub fn outputs(&self) -> &[OutputMapping] {
        match self {
            Self::Task { outputs, .. } | Self::Capability { outputs, .. } => outputs,
            Self::Block(_) => &[],
        }
    }
}

/// The kind of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepKind {
    /// One request to a service.
    Task,
    /// Another capability.
    Capability,
    /// Steps that run one after another.
    Sequence,
    /// Steps that run at the same time.
    Parallel,
    /// A choice between two sequences.
    Condition,
}

impl StepKind {
    /// The kinds that a document names with `type`, in the order of messages.
    pub const TYPES: [Self; 4] =
        [Self::Capability, Self::Sequence, Self::Parallel, Self::Condition];

    /// Returns the word of the kind in documents, plans and events.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Task => "task",
            Self::Capability => "capability",
            Self::Sequence => "sequence",
            Self::Parallel => "parallel",
            Self::Condition => "condition",
        }
    }

    /// Finds the kind with this word.
    #[must_use]
    pub fn from_name(word: &str) -> Option<Self> {
        std::iter::once(Self::Task).chain(Self::TYPES).find(|kind| kind.as_str() == word)
    }

    /// Finds the kind with this word, among those that a document names with `type`.
    #[must_use]
    pub fn from_type(word: &str) -> Option<Self> {
        Self::from_name(word).filter(|kind| *kind != Self::Task)
    }
}
