//! The interface of a document, as its dependents need it.

use std::collections::{BTreeMap, BTreeSet};

use crate::document::{Capability, CapabilityStep, Dependency, Parameter, TaskStep};
use crate::interface::list_inputs;
use crate::name::{CapabilityName, Domain, Permission};
use crate::task::TaskFormat;

/// The interface of a document, as its dependents see it.
#[derive(Debug, Clone, PartialEq)]
pub struct DependencyInterface {
    /// The hosts that it talks to.
    pub domains: Vec<Domain>,
    /// The permissions that its caller must hold.
    pub permissions: Vec<Permission>,
    /// True when its own tasks only read.
    pub read_only: bool,
    /// The formats of its own tasks.
    pub formats: BTreeSet<TaskFormat>,
    /// The capabilities that it uses.
    pub dependencies: Vec<Dependency>,
    /// The capability's own inputs, by name.
    pub(super) inputs: BTreeMap<String, DependencyInput>,
    /// Each step that uses a capability, with the inputs of the capability that the step maps or other
    /// steps set. The caller of this capability must supply the other inputs.
    pub(super) calls: Vec<(CapabilityName, BTreeSet<String>)>,
}

/// An input of a capability.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct DependencyInput {
    pub(super) required: bool,
    /// The declaration in the document.
    pub(super) declared: Option<Parameter>,
}

impl DependencyInterface {
    /// Builds the interface of a document.
    #[must_use]
    pub fn from_capability(capability: &Capability) -> Self {
        let mut calls = Vec::new();
        let mut set = BTreeSet::new();
        let (mut read_only, mut formats) = (true, BTreeSet::new());
        capability.for_each_step(|step| {
            set.extend(step.action.outputs().iter().map(|output| output.variable().to_owned()));
            if let Some(TaskStep { task, .. }) = step.action.as_task() {
                read_only &= task.is_read_only();
                formats.insert(task.format());
            }
            if let Some(CapabilityStep { capability, inputs, .. }) = step.action.as_capability() {
                let covered = inputs.keys().cloned().collect::<BTreeSet<_>>();
                calls.push((capability.clone(), covered));
            }
        });
        for (_, covered) in &mut calls {
            covered.extend(set.iter().cloned());
        }
        let inputs = list_inputs(capability).into_iter().map(|input| {
            let (required, declared) = (input.required, input.parameter.cloned());
            (input.name.to_owned(), DependencyInput { required, declared })
        });
        Self {
            domains: capability.domains.clone(),
            permissions: capability.permissions.clone(),
            read_only,
            formats,
            dependencies: capability.dependencies.clone(),
            inputs: inputs.collect(),
            calls,
        }
    }
}
