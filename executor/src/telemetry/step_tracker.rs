//! The steps of a run that have begun, as every account of a run has to know them. Pure.

use std::collections::BTreeMap;

use a2s::api::{CapabilityRef, around};

/// Steps by path, each with what its account keeps of it.
pub(super) struct Steps<'e, T> {
    /// The capability that runs.
    root: &'e CapabilityRef,
    begun: BTreeMap<&'e str, Step<'e, T>>,
}

/// A step that has begun.
pub(super) struct Step<'e, T> {
    /// The capability with the document that has the steps below it.
    below: &'e CapabilityRef,
    pub(super) kept: T,
}

impl<'e, T> Steps<'e, T> {
    /// None of a run of `root`.
    pub(super) fn of(root: &'e CapabilityRef) -> Self {
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

    /// A step began, which uses a capability or does not.
    pub(super) fn begin(&mut self, path: &'e str, uses: Option<&'e CapabilityRef>, kept: T) {
        let below = uses.unwrap_or_else(|| self.document_of(path));
        self.begun.insert(path, Step { below, kept });
    }

    /// The capability whose document has the step.
    pub(super) fn document_of(&self, path: &str) -> &'e CapabilityRef {
        self.around(path).map_or(self.root, |(_, step)| step.below)
    }

    /// The nearest step around a path that has begun.
    pub(super) fn around(&self, path: &str) -> Option<(&'e str, &Step<'e, T>)> {
        let mut outwards = std::iter::successors(around(path), |path| around(path));
        let (path, step) = outwards.find_map(|path| self.begun.get_key_value(path))?;
        Some((*path, step))
    }

    pub(super) fn get(&self, path: &str) -> Option<&T> {
        self.begun.get(path).map(|step| &step.kept)
    }

    pub(super) fn get_mut(&mut self, path: &str) -> Option<&mut T> {
        self.begun.get_mut(path).map(|step| &mut step.kept)
    }

    /// All of them, in order of path.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&'e str, &T)> {
        self.begun.iter().map(|(path, step)| (*path, &step.kept))
    }
}
