//! Checks of a document against the capabilities that it uses.

use std::collections::BTreeMap;

use semver::Version;

use crate::checksum::Digest;
use crate::code;
use crate::diagnostic::Diagnostic;
use crate::document::{Capability, Dependency};
use crate::name::{CapabilityName, Domain};

/// A published version of a capability that a document may depend on.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// Its version.
    pub version: Version,
    /// Its digest.
    pub checksum: Digest,
    /// Whether it was withdrawn.
    pub yanked: bool,
    /// The hosts that it talks to.
    pub domains: Vec<Domain>,
    /// The names of the capabilities that it uses, directly or not.
    pub uses: Vec<CapabilityName>,
    /// How many capabilities stand below it in a chain: 0 when it uses none.
    pub depth: usize,
}

/// The longest chain of capabilities.
pub const MAX_CHAIN: usize = 8;

impl Dependency {
    /// The version that this dependency means: the pinned one, else the newest stable version in
    /// the range that is not yanked.
    #[must_use]
    pub fn choose<'a>(&self, candidates: &'a [Candidate]) -> Option<&'a Candidate> {
        match self.checksum {
            Some(pin) => candidates.iter().find(|candidate| candidate.checksum == pin),
            None => candidates
                .iter()
                .filter(|candidate| !candidate.yanked && self.range.matches(&candidate.version))
                .max_by_key(|candidate| (candidate.version.pre.is_empty(), &candidate.version)),
        }
    }
}

/// Every error in the dependencies of `capability`, given all published versions of each.
#[must_use]
pub fn link(
    capability: &Capability,
    published: &BTreeMap<CapabilityName, Vec<Candidate>>,
) -> Vec<Diagnostic> {
    let mut diagnostics = Vec::new();
    for dependency in &capability.dependencies {
        let candidates = published.get(&dependency.capability).map_or(&[][..], Vec::as_slice);
        check_dependency(capability, dependency, candidates, &mut diagnostics);
    }
    diagnostics
}

fn check_dependency(
    capability: &Capability,
    dependency: &Dependency,
    candidates: &[Candidate],
    diagnostics: &mut Vec<Diagnostic>,
) {
    let name = &dependency.capability;
    let mut report = |code, message| {
        diagnostics.push(Diagnostic::error(
            code,
            &dependency.pointer,
            dependency.position,
            message,
        ));
    };
    let Some(chosen) = dependency.choose(candidates) else {
        let versions: Vec<_> = candidates.iter().map(|c| c.version.to_string()).collect();
        match (dependency.checksum, versions.is_empty()) {
            (_, true) => report(code::DEPENDENCY_MISSING, format!("`{name}` is not published")),
            (Some(pin), false) => report(
                code::DEPENDENCY_CHECKSUM,
                format!(
                    "no version of `{name}` has the checksum {pin}; there are {}",
                    versions.join(", ")
                ),
            ),
            (None, false) => report(
                code::DEPENDENCY_MISSING,
                format!(
                    "no live version of `{name}` lies in `{}`; there are {}",
                    dependency.range,
                    versions.join(", ")
                ),
            ),
        }
        return;
    };
    let version = &chosen.version;
    if !dependency.range.matches(version) {
        report(
            code::DEPENDENCY_RANGE,
            format!("the pinned version {version} of `{name}` lies outside `{}`", dependency.range),
        );
    }
    if chosen.yanked {
        report(code::DEPENDENCY_YANKED, format!("version {version} of `{name}` was yanked"));
    }
    if *name == capability.name || chosen.uses.contains(&capability.name) {
        report(
            code::DEPENDENCY_CYCLE,
            format!("`{name}` {version} uses `{}`, which would use it again", capability.name),
        );
    }
    if chosen.depth + 1 > MAX_CHAIN {
        report(
            code::DEPENDENCY_DEPTH,
            format!("`{name}` {version} already stands on {} capabilities", chosen.depth),
        );
    }
    let foreign: Vec<_> = chosen
        .domains
        .iter()
        .filter(|domain| !capability.domains.contains(domain))
        .map(|domain| format!("`{domain}`"))
        .collect();
    if !foreign.is_empty() {
        report(
            code::DEPENDENCY_DOMAINS,
            format!("`{name}` talks to {}, which `domains` does not name", foreign.join(", ")),
        );
    }
}
