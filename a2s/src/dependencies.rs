//! Resolution of the dependencies of a document: chooses versions, collects all direct and indirect
//! dependencies, and checks that they fit.
//!
//! A [`DependencyIndex`] holds the known versions from any source: a registry, a folder, a lock. The caller
//! that fills it asks [`DependencyIndex::missing_dependencies`] for the missing items, adds them, and asks again.

mod compatibility;
mod dependency_interface;
mod pins;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use semver::{Comparator, Op, Version, VersionReq};

use crate::capability_ref::CapabilityRef;
use crate::checksum::Digest;
use crate::compile::Document;
use crate::deprecation::Deprecation;
use crate::diagnostic::Diagnostic;
use crate::document::{Capability, Dependency};
use crate::error_code;
use crate::name::{CapabilityName, Permission};
use crate::task::TaskFormat;
use crate::tree;

pub use dependency_interface::DependencyInterface;
pub use pins::{MAX_PINS, PinError, check_pins, choose_pin};

/// The maximum length of a chain of capabilities that use each other.
pub const MAX_DEPENDENCY_DEPTH: usize = 8;
/// The maximum length of a chain that the check follows. A chain longer than [`MAX_DEPENDENCY_DEPTH`] is
/// already an error.
const MAX_WALK_DEPTH: usize = 2 * MAX_DEPENDENCY_DEPTH;

/// A version of a capability, with the facts that the selection of a version needs.
pub trait CandidateVersion {
    /// The version number.
    fn version(&self) -> &Version;
    /// Its checksum.
    fn checksum(&self) -> Digest;
    /// True when the version was yanked.
    fn is_yanked(&self) -> bool;
}

/// A locked version is never yanked.
impl CandidateVersion for CapabilityRef {
    fn version(&self) -> &Version {
        &self.version
    }

    fn checksum(&self) -> Digest {
        self.checksum
    }

    fn is_yanked(&self) -> bool {
        false
    }
}

impl<R: CandidateVersion> CandidateVersion for &R {
    fn version(&self) -> &Version {
        (**self).version()
    }

    fn checksum(&self) -> Digest {
        (**self).checksum()
    }

    fn is_yanked(&self) -> bool {
        (**self).is_yanked()
    }
}

/// Selects a release from a range: the newest stable one that is not yanked, else the newest pre-release
/// that is not yanked.
///
/// A range that names one version selects it before versions that differ from it in build metadata alone,
/// which old registries and their mirrors may have.
#[must_use]
pub fn select_version<'r, R: CandidateVersion>(
    range: &VersionReq,
    releases: &'r [R],
) -> Option<&'r R> {
    releases
        .iter()
        .filter(|release| !release.is_yanked() && range.matches(release.version()))
        .max_by(|one, other| rank(range, *one).cmp(&rank(range, *other)))
}

/// Returns the rank of a version in a range: a stable version ranks above a pre-release, then the version that
/// the range names, then the number decides.
fn rank<'r, R: CandidateVersion>(range: &VersionReq, release: &'r R) -> (bool, bool, &'r Version) {
    let version = release.version();
    let is_named = names_one_version(range) && version.build.is_empty();
    (version.pre.is_empty(), is_named, version)
}

/// Returns true for a range such as `=1.2.0`. A range has no build metadata.
fn names_one_version(range: &VersionReq) -> bool {
    let names_one =
        |comparator: &Comparator| comparator.op == Op::Exact && comparator.patch.is_some();
    range.comparators.iter().any(names_one)
}

impl Dependency {
    /// Selects the release for this dependency: the pinned one, else the one that [`select_version`]
    /// selects from its range.
    #[must_use]
    pub fn select_version<'r, R: CandidateVersion>(&self, releases: &'r [R]) -> Option<&'r R> {
        match self.checksum {
            Some(pin) => releases.iter().find(|release| release.checksum() == pin),
            None => select_version(&self.range, releases),
        }
    }
}

/// One version in a list of versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionInfo {
    /// The version number.
    pub version: Version,
    /// Its checksum.
    pub checksum: Digest,
    /// True when the version was yanked.
    pub yanked: bool,
    /// The deprecation notice of its publisher, when it is deprecated.
    pub deprecated: Option<Deprecation>,
}

impl CandidateVersion for VersionInfo {
    fn version(&self) -> &Version {
        &self.version
    }

    fn checksum(&self) -> Digest {
        self.checksum
    }

    fn is_yanked(&self) -> bool {
        self.yanked
    }
}

/// The known capabilities that others may use.
#[derive(Debug, Clone, Default)]
pub struct DependencyIndex {
    capabilities: BTreeMap<CapabilityName, Vec<VersionInfo>>,
    interfaces: BTreeMap<Digest, Arc<DependencyInterface>>,
}

/// An item that a [`DependencyIndex`] does not contain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MissingDependency {
    /// The list of versions of a capability.
    Versions(CapabilityName),
    /// The document of a version.
    Document(CapabilityName, VersionInfo),
}

impl MissingDependency {
    /// The capability that it is about.
    #[must_use]
    pub fn name(&self) -> &CapabilityName {
        match self {
            Self::Versions(name) | Self::Document(name, _) => name,
        }
    }
}

impl DependencyIndex {
    /// Adds versions of a capability to the known ones. An empty list records that the capability has no
    /// further versions.
    pub fn add_versions(
        &mut self,
        name: &CapabilityName,
        listings: impl IntoIterator<Item = VersionInfo>,
    ) {
        let known = self.capabilities.entry(name.clone()).or_default();
        for listing in listings {
            match known.iter_mut().find(|other| other.checksum == listing.checksum) {
                Some(other) => {
                    other.yanked |= listing.yanked;
                    other.deprecated = listing.deprecated.or_else(|| other.deprecated.take());
                }
                None => known.push(listing),
            }
        }
    }

    /// Adds the interface of the document with a checksum.
    pub fn add_interface(&mut self, checksum: Digest, unit: Arc<DependencyInterface>) {
        self.interfaces.insert(checksum, unit);
    }

    /// Adds the version and the interface of a document.
    pub fn add_document(&mut self, document: &Document) {
        let capability = document.capability();
        let checksum = document.digest();
        let version = capability.version.clone();
        let listing = VersionInfo { version, checksum, yanked: false, deprecated: None };
        self.add_versions(&capability.name, [listing]);
        self.add_interface(checksum, Arc::new(DependencyInterface::from_capability(capability)));
    }

    /// Removes all versions except the pinned ones, and marks these as not yanked.
    pub fn retain_pinned(&mut self, pins: &[CapabilityRef]) {
        for (name, versions) in &mut self.capabilities {
            versions.retain_mut(|listing| {
                listing.yanked = false;
                pins.iter().any(|pin| pin.checksum == listing.checksum && pin.name == *name)
            });
        }
    }

    /// Returns the versions of a capability, if they are known.
    #[must_use]
    pub fn versions(&self, name: &CapabilityName) -> Option<&[VersionInfo]> {
        self.capabilities.get(name).map(Vec::as_slice)
    }

    /// The interface of the document with a checksum, if the index contains it.
    #[must_use]
    pub fn interface(&self, checksum: Digest) -> Option<&DependencyInterface> {
        self.interfaces.get(&checksum).map(Arc::as_ref)
    }

    /// The number of interfaces in the index.
    #[must_use]
    pub fn len(&self) -> usize {
        self.interfaces.len()
    }

    /// Returns true when the index has no interfaces.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.interfaces.is_empty()
    }

    /// The items that are missing for a full check of these dependencies. After they are added, more may be
    /// missing.
    #[must_use]
    pub fn missing_dependencies(&self, dependencies: &[Dependency]) -> Vec<MissingDependency> {
        self.walk(dependencies).missing
    }

    /// Every known version that these dependencies lead to, directly or indirectly, in order of name and
    /// version.
    #[must_use]
    pub fn closure(&self, dependencies: &[Dependency]) -> Vec<CapabilityRef> {
        self.walk(dependencies).pins
    }

    /// The combined properties of a document and all its direct and indirect dependencies.
    #[must_use]
    pub fn summarize_closure(&self, unit: &DependencyInterface) -> ClosureSummary {
        let walk = self.walk(&unit.dependencies);
        let mut whole = ClosureSummary {
            read_only: unit.read_only && walk.missing.is_empty() && !walk.is_incomplete,
            permissions: unit.permissions.iter().cloned().collect(),
            formats: unit.formats.clone(),
        };
        for below in walk.pins.iter().filter_map(|pin| self.interfaces.get(&pin.checksum)) {
            whole.read_only &= below.read_only;
            whole.permissions.extend(below.permissions.iter().cloned());
            whole.formats.extend(&below.formats);
        }
        whole
    }

    /// The errors and warnings about the dependencies of `capability`. Capabilities with unknown versions
    /// are not reported.
    #[must_use]
    pub fn check_dependencies(&self, capability: &Capability) -> Vec<Diagnostic> {
        compatibility::check(self, capability)
    }

    fn walk(&self, dependencies: &[Dependency]) -> ClosureWalk {
        let ClosureWalk { mut pins, missing: mut needs, is_incomplete: mut has_holes } =
            ClosureWalk::default();
        let mut seen = BTreeSet::new();
        let mut waiting: VecDeque<_> = dependencies.iter().map(|below| (below, 1)).collect();
        while let Some((dependency, chain)) = waiting.pop_front() {
            let name = &dependency.capability;
            let Some(versions) = self.versions(name) else {
                let need = MissingDependency::Versions(name.clone());
                if !needs.contains(&need) {
                    needs.push(need);
                }
                continue;
            };
            let Some(chosen) = dependency.select_version(versions) else {
                has_holes = true;
                continue;
            };
            if !seen.insert(chosen.checksum) {
                continue;
            }
            pins.push(CapabilityRef {
                name: name.clone(),
                version: chosen.version.clone(),
                checksum: chosen.checksum,
            });
            match self.interfaces.get(&chosen.checksum) {
                Some(unit) if chain < MAX_WALK_DEPTH => {
                    waiting.extend(unit.dependencies.iter().map(|below| (below, chain + 1)));
                }
                Some(unit) => has_holes |= !unit.dependencies.is_empty(),
                None => needs.push(MissingDependency::Document(name.clone(), chosen.clone())),
            }
        }
        pins.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
        ClosureWalk { pins, missing: needs, is_incomplete: has_holes }
    }
}

/// The result of a walk over everything below some dependencies.
#[derive(Default)]
struct ClosureWalk {
    pins: Vec<CapabilityRef>,
    missing: Vec<MissingDependency>,
    /// True when the walk could not continue somewhere: no version fits, or the chain is too long.
    is_incomplete: bool,
}

/// The combined properties of a document and all its direct and indirect dependencies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClosureSummary {
    /// True when every task only reads; false when a part below is not known.
    pub read_only: bool,
    /// The permissions that a caller must hold.
    pub permissions: BTreeSet<Permission>,
    /// The formats of the tasks.
    pub formats: BTreeSet<TaskFormat>,
}

/// Moves each diagnostic to the exact position of its path in `source`, when known. Diagnostics about
/// dependencies have only the positions of steps.
#[must_use]
pub fn add_positions(source: &[u8], mut diagnostics: Vec<Diagnostic>) -> Vec<Diagnostic> {
    if diagnostics.is_empty() {
        return diagnostics;
    }
    let (Some(root), _) = tree::parse(source) else { return diagnostics };
    for diagnostic in &mut diagnostics {
        let (above, key) = diagnostic.path.rsplit_once('.').unwrap_or(("", &diagnostic.path));
        let member = root.at(above).and_then(|node| node.member(key));
        // An error about an input points at its name.
        let is_name = diagnostic.code == error_code::DEPENDENCY_INPUTS.id;
        let place = member.map(|at| if is_name { at.position } else { at.value.position });
        let place = place.or_else(|| root.at(&diagnostic.path).map(|node| node.position));
        if let Some(place) = place.filter(|place| place.line > 0) {
            diagnostic.position = place;
        }
    }
    diagnostics
}

#[cfg(test)]
mod tests;
