//! The interface of a document, as its dependents need it.

use std::collections::{BTreeMap, BTreeSet};

use crate::document::{Action, Capability, Dependency, Parameter};
use crate::interface::Interface;
use crate::name::{CapabilityName, Domain, Permission};
use crate::task::Format;

/// What a document takes and needs, as the documents that use it want to know.
#[derive(Debug, Clone, PartialEq)]
pub struct Unit {
    /// The hosts that it talks to.
    pub domains: Vec<Domain>,
    /// What its caller must hold.
    pub permissions: Vec<Permission>,
    /// Whether its own tasks only read.
    pub read_only: bool,
    /// The formats of its own tasks.
    pub formats: BTreeSet<Format>,
    /// The capabilities that it uses.
    pub dependencies: Vec<Dependency>,
    /// Its own inputs by name.
    pub(super) inputs: BTreeMap<String, Input>,
    /// Each step that uses a capability, and the inputs of it that the step maps or other steps
    /// set: its needs beyond those are passed on to whoever calls this capability.
    pub(super) calls: Vec<(CapabilityName, BTreeSet<String>)>,
}

/// An input of a capability.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Input {
    pub(super) required: bool,
    /// What the document says about it.
    pub(super) declared: Option<Parameter>,
}

impl Unit {
    /// What a document says.
    #[must_use]
    pub fn of(capability: &Capability) -> Self {
        let mut calls = Vec::new();
        let mut set = BTreeSet::new();
        let (mut read_only, mut formats) = (true, BTreeSet::new());
        capability.for_each_step(|step| {
            set.extend(step.action.outputs().iter().map(|output| output.variable().to_owned()));
            match &step.action {
                Action::Task { task, .. } => {
                    read_only &= task.is_read_only();
                    formats.insert(task.format());
                }
                Action::Capability { capability, inputs, .. } => {
                    let covered = inputs.keys().cloned().collect::<BTreeSet<_>>();
                    calls.push((capability.clone(), covered));
                }
                Action::Block(_) => {}
            }
        });
        for (_, covered) in &mut calls {
            covered.extend(set.iter().cloned());
        }
        let inputs = Interface::of(capability).inputs.into_iter().map(|field| {
            let declared = capability.parameter(&field.name).cloned();
            (field.name, Input { required: field.required, declared })
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
