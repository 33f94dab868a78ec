//! The steps of a run that have begun, as every account of a run has to know them. Pure.

use std::collections::BTreeMap;

use a2s_api::{CapabilityRef, parent_path};

/// The begun steps by path, each with further state.
pub(super) struct StepTracker<'e, T> {
    /// The capability that runs.
    root: &'e CapabilityRef,
    begun: BTreeMap<&'e str, TrackedStep<'e, T>>,
}

/// A step that has begun.
pub(super) struct TrackedStep<'e, T> {
    /// The capability with the document that has the steps below it.
    document: &'e CapabilityRef,
    pub(super) state: T,
}

impl<'e, T> StepTracker<'e, T> {
    /// Creates a tracker without steps, for a run of `root`.
    pub(super) fn new(root: &'e CapabilityRef) -> Self {
        Self { root, begun: BTreeMap::new() }
    }

    /// The number of entries.
    pub(super) fn len(&self) -> usize {
        self.begun.len()
    }

    /// Returns true when a step has begun.
    pub(super) fn contains(&self, path: &str) -> bool {
        self.begun.contains_key(path)
    }

    /// Adds a step that began, with the capability that it uses, if any.
    pub(super) fn begin(&mut self, path: &'e str, uses: Option<&'e CapabilityRef>, kept: T) {
        let below = uses.unwrap_or_else(|| self.document_of(path));
        self.begun.insert(path, TrackedStep { document: below, state: kept });
    }

    /// The capability with the document that contains the step.
    pub(super) fn document_of(&self, path: &str) -> &'e CapabilityRef {
        self.find_parent(path).map_or(self.root, |(_, step)| step.document)
    }

    /// Returns the innermost begun step that encloses a path.
    pub(super) fn find_parent(&self, path: &str) -> Option<(&'e str, &TrackedStep<'e, T>)> {
        let mut outwards = std::iter::successors(parent_path(path), |path| parent_path(path));
        let (path, step) = outwards.find_map(|path| self.begun.get_key_value(path))?;
        Some((*path, step))
    }

    pub(super) fn get(&self, path: &str) -> Option<&T> {
        self.begun.get(path).map(|step| &step.state)
    }

    pub(super) fn get_mut(&mut self, path: &str) -> Option<&mut T> {
        self.begun.get_mut(path).map(|step| &mut step.state)
    }

    /// Returns all steps, in order of path.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&'e str, &T)> {
        self.begun.iter().map(|(path, step)| (*path, &step.state))
    }
}
