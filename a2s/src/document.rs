//! The capability that a document describes: header, steps, inputs and outputs.

mod find_task;
mod input_node;
mod input_output;
mod parameter;
mod step;
mod step_control;
mod step_path;

use std::collections::BTreeMap;

use semver::{Version, VersionReq};

use serde_json::Value;

use crate::checksum::Digest;
use crate::diagnostic::SourcePosition;
use crate::name::{CapabilityName, Domain, Permission};
use crate::template::Template;

pub(crate) use find_task::find_task;
pub(crate) use input_node::{find_input, find_task_input};
pub use input_output::{OutputMapping, OutputSource, TaskInputs};
pub use parameter::{Parameter, ValueType};
pub use step::{CapabilityStep, Step, StepAction, StepBlock, StepChoice, StepKind, TaskStep};
pub use step_control::{BackoffKind, ForEach, OnError, RetryPolicy, StepControl};
pub use step_path::{StepPath, StepPathSegment};

/// One capability: a header, a tree of steps, and the result that they produce (A2S, "Core Concepts").
#[derive(Debug, Clone, PartialEq)]
pub struct Capability {
    /// Version of the language (`a2s`).
    pub language: Version,
    /// The name, which is unique in a registry.
    pub name: CapabilityName,
    /// The description of its purpose: 1 to 200 characters.
    pub description: String,
    /// The only hosts that its tasks may address.
    pub domains: Vec<Domain>,
    /// The version of the capability.
    pub version: Version,
    /// The authors; at least one.
    pub authors: Vec<Author>,
    /// The permissions that a caller must hold (1.1).
    pub permissions: Vec<Permission>,
    /// The author's declarations of inputs; the whole interface is [`CapabilityInterface`](crate::CapabilityInterface).
    pub parameters: Vec<Parameter>,
    /// The capabilities that its steps use.
    pub dependencies: Vec<Dependency>,
    /// Runs that demonstrate it (1.1).
    pub examples: Vec<CapabilityExample>,
    /// `execution.variables.shared`: the variables that every branch can read.
    pub variables: BTreeMap<String, ValueType>,
    /// The steps.
    pub execution: StepBlock,
    /// The template of the result. Without it, the result contains every variable that steps set.
    pub output: Option<Template>,
}

impl Capability {
    /// Calls `visit` with every step, parents before children, in the order of the document.
    pub fn for_each_step<'a>(&'a self, mut visit: impl FnMut(&'a Step)) {
        let mut waiting: Vec<&Step> = self.execution.children().into_iter().rev().collect();
        while let Some(step) = waiting.pop() {
            visit(step);
            waiting.extend(step.children().into_iter().rev());
        }
    }

    /// Calls `visit` with every step that sends a request, in the order of the document.
    pub fn for_each_task<'a>(&'a self, mut visit: impl FnMut(&'a Step, TaskStep<'a>)) {
        self.for_each_step(|step| {
            if let Some(task) = step.action.as_task() {
                visit(step, task);
            }
        });
    }

    /// Returns the declared parameter with this name.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<&Parameter> {
        self.parameters.iter().find(|parameter| parameter.name == name)
    }

    /// Returns the declared dependency that a `capability` step uses.
    #[must_use]
    pub fn dependency(&self, name: &CapabilityName) -> Option<&Dependency> {
        self.dependencies.iter().find(|dependency| dependency.capability == *name)
    }
}

/// An author of a capability.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Author {
    /// Name of a person or team.
    pub name: String,
    /// The email address.
    pub email: Option<String>,
    /// The organization that the author works for.
    pub organization: Option<String>,
    /// Account on GitHub.
    pub github: Option<String>,
}

/// A run that demonstrates a capability: documentation, material for search, and a test (1.1).
#[derive(Debug, Clone, PartialEq)]
pub struct CapabilityExample {
    /// The title.
    pub title: Option<String>,
    /// A possible request of a user.
    pub intent: Option<String>,
    /// A value for each input.
    pub inputs: serde_json::Map<String, Value>,
    /// The responses of the services, by the path to the task step. A path without an iteration number
    /// applies to all iterations.
    pub answers: BTreeMap<StepPath, ExampleResponse>,
    /// The result, if the example states it.
    pub output: Option<Value>,
}

/// The response of a service in an example.
#[derive(Debug, Clone, PartialEq)]
pub struct ExampleResponse {
    /// HTTP status.
    pub status: u16,
    /// Headers by name.
    pub headers: BTreeMap<String, String>,
    /// The body; null when there is none.
    pub body: Value,
}

/// A capability that steps use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dependency {
    /// Its name.
    pub capability: CapabilityName,
    /// The accepted versions.
    pub range: VersionReq,
    /// The checksum of the only accepted content, if the dependency is pinned.
    pub checksum: Option<Digest>,
    /// The path of the declaration: `dependencies[0]`.
    pub pointer: String,
    /// The position of that path in the text.
    pub position: SourcePosition,
}
