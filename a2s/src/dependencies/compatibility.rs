//! Compatibility of a capability with its dependencies.

use std::collections::{BTreeMap, BTreeSet};

use crate::document::{Capability, CapabilityStep, Dependency, OnError, ValueType};
use semver::Version;

use super::dependency_interface::{DependencyInput, DependencyInterface};
use super::{
    CandidateVersion as _, DependencyIndex, MAX_DEPENDENCY_DEPTH, MAX_WALK_DEPTH, VersionInfo,
};
use crate::checksum::Digest;
use crate::diagnostic::{Diagnostic, did_you_mean};
use crate::error_code::{self, ErrorCode};
use crate::name::CapabilityName;
use crate::template::Template;
use crate::tree::member_path;

/// The maximum number of versions that a message lists.
const MAX_LISTED: usize = 8;

/// All direct and indirect dependencies of a version.
#[derive(Debug, Clone, Default)]
struct VersionClosure {
    /// The versions, by the name of the capability.
    below: BTreeMap<CapabilityName, BTreeMap<Digest, Version>>,
    /// The number of capabilities below it in its longest chain: 0 when it uses none.
    depth: usize,
    /// The needs below it that no version meets, in words.
    unresolved: BTreeSet<String>,
    /// Its inputs: its own, and those of the dependencies below it that no step in between sets.
    inputs: BTreeMap<String, DependencyInput>,
}

/// Returns every error and warning about the dependencies of `capability`.
pub(super) fn check(
    dependency_index: &DependencyIndex,
    capability: &Capability,
) -> Vec<Diagnostic> {
    let mut check = CompatibilityCheck {
        index: dependency_index,
        capability,
        known: BTreeMap::new(),
        found: Vec::new(),
    };
    let mut reaches = Vec::new();
    for dependency in &capability.dependencies {
        let Some(versions) = dependency_index.versions(&dependency.capability) else { continue };
        let Some(chosen) = dependency.select_version(versions) else {
            check.report_missing(dependency, versions);
            continue;
        };
        check.check_release(dependency, chosen);
        let Some(unit) = dependency_index.interfaces.get(&chosen.checksum) else { continue };
        check.check_unit(dependency, chosen, unit);
        let reach = check.reach(chosen.checksum, unit, 0);
        check.check_reach(dependency, chosen, &reach);
        check.check_inputs(dependency, chosen, &reach);
        reaches.push((dependency, chosen, reach));
    }
    check.check_conflicts(&reaches);
    check.found
}

struct CompatibilityCheck<'s> {
    index: &'s DependencyIndex,
    capability: &'s Capability,
    known: BTreeMap<Digest, VersionClosure>,
    found: Vec<Diagnostic>,
}

impl CompatibilityCheck<'_> {
    fn report(&mut self, code: ErrorCode, dependency: &Dependency, message: String) {
        let (path, at) = (&dependency.pointer, dependency.position);
        self.found.push(Diagnostic::error(code, (path, at), message));
    }

    fn report_missing(&mut self, dependency: &Dependency, versions: &[VersionInfo]) {
        let (name, range) = (&dependency.capability, &dependency.range);
        if versions.is_empty() {
            let message = format!("`{name}` is not published");
            self.report(error_code::DEPENDENCY_MISSING, dependency, message);
            return;
        }
        let known = listed(versions);
        match dependency.checksum {
            Some(pin) => {
                let message = format!("no version of `{name}` has the checksum {pin}");
                let close = versions.iter().find(|version| range.matches(&version.version));
                let hint = close.map_or_else(
                    || format!("The published versions are {known}."),
                    |close| format!("Version {} has {}.", close.version, close.checksum),
                );
                let (code, at) = (error_code::DEPENDENCY_CHECKSUM, dependency.position);
                let path = member_path(&dependency.pointer, "checksum");
                self.found.push(Diagnostic::error(code, (path, at), message).with_hint(hint));
            }
            None => {
                let message = format!(
                    "no live version of `{name}` matches `{range}`; published versions: {known}"
                );
                self.report(error_code::DEPENDENCY_MISSING, dependency, message);
            }
        }
    }

    /// Checks the entry in the list of versions.
    fn check_release(&mut self, dependency: &Dependency, chosen: &VersionInfo) {
        let (name, version) = (&dependency.capability, &chosen.version);
        if !dependency.range.matches(version) {
            let range = &dependency.range;
            let message = format!("the pinned version {version} of `{name}` is outside `{range}`");
            self.report(error_code::DEPENDENCY_RANGE, dependency, message);
        }
        if chosen.is_yanked() {
            let message = format!("version {version} of `{name}` was yanked");
            self.report(error_code::DEPENDENCY_YANKED, dependency, message);
        }
        if let Some(deprecated) = &chosen.deprecated {
            let message = format!("version {version} of `{name}` is {deprecated}");
            let (code, at) = (error_code::DEPENDENCY_DEPRECATED, dependency.position);
            let found = Diagnostic::error(code, (&dependency.pointer, at), message);
            self.found.push(found.into_warning());
        }
    }

    /// Checks the document of the version.
    fn check_unit(
        &mut self,
        dependency: &Dependency,
        chosen: &VersionInfo,
        unit: &DependencyInterface,
    ) {
        let (name, version) = (&dependency.capability, &chosen.version);
        let domains = &self.capability.domains;
        let foreign = quoted(unit.domains.iter().filter(|domain| !domains.contains(domain)));
        if !foreign.is_empty() {
            let message =
                format!("`{name}` sends requests to {foreign}, which `domains` does not list");
            self.report(error_code::DEPENDENCY_DOMAINS, dependency, message);
        }
        let held = &self.capability.permissions;
        let more = quoted(unit.permissions.iter().filter(|permission| !held.contains(permission)));
        if !more.is_empty() {
            let message =
                format!("`{name}` {version} requires {more}, which `permissions` does not list");
            self.report(error_code::DEPENDENCY_PERMISSIONS, dependency, message);
        }
    }

    /// Checks everything below the version.
    fn check_reach(
        &mut self,
        dependency: &Dependency,
        chosen: &VersionInfo,
        reach: &VersionClosure,
    ) {
        let (name, version) = (&dependency.capability, &chosen.version);
        let own = self.capability.name.clone();
        if *name == own {
            let message = format!("`{name}` uses itself");
            self.report(error_code::DEPENDENCY_CYCLE, dependency, message);
        } else if reach.below.contains_key(&own) {
            let message = format!("`{name}` {version} uses `{own}`, which closes a cycle");
            self.report(error_code::DEPENDENCY_CYCLE, dependency, message);
        }
        for hole in &reach.unresolved {
            let message =
                format!("`{name}` {version} depends on {hole}, which has no matching live version");
            self.report(error_code::DEPENDENCY_MISSING, dependency, message);
        }
        if reach.depth + 1 > MAX_DEPENDENCY_DEPTH {
            let message = format!(
                "`{name}` {version} already has a dependency chain of {} capabilities",
                reach.depth
            );
            self.report(error_code::DEPENDENCY_DEPTH, dependency, message);
        }
    }

    /// Checks that each step that uses the version gives it the inputs that it takes.
    fn check_inputs(
        &mut self,
        dependency: &Dependency,
        chosen: &VersionInfo,
        reach: &VersionClosure,
    ) {
        let capability = self.capability;
        capability.for_each_step(|step| {
            let Some(CapabilityStep { capability: name, inputs, .. }) = step.action.as_capability()
            else {
                return;
            };
            if *name != dependency.capability {
                return;
            }
            for (key, template) in inputs {
                let path = member_path(&member_path(&step.pointer, "input_mapping"), key);
                let (message, hint) = match reach.inputs.get(key) {
                    None => {
                        let version = &chosen.version;
                        let taken = reach.inputs.keys().map(String::as_str);
                        let hint = match did_you_mean(key, taken.clone()) {
                            Some(close) => format!("Did you mean `{close}`?"),
                            None if reach.inputs.is_empty() => "It has no inputs.".to_owned(),
                            None => format!("Known inputs are {}.", quoted(taken)),
                        };
                        (format!("`{name}` {version} has no input `{key}`"), hint)
                    }
                    Some(input) => {
                        let Some(why) = refuse(capability, input, template) else { continue };
                        let hint = error_code::DEPENDENCY_INPUTS.remedy.to_owned();
                        (format!("`{name}`: {why}"), hint)
                    }
                };
                let code = error_code::DEPENDENCY_INPUTS;
                let at = step.position;
                self.found.push(Diagnostic::error(code, (path, at), message).with_hint(hint));
            }
        });
    }

    /// Warns of each capability that two dependencies use with different contents. Each dependency gets the
    /// content that it names, so the run is correct. But the author may not know about the difference.
    fn check_conflicts(&mut self, reaches: &[(&Dependency, &VersionInfo, VersionClosure)]) {
        let mut first = BTreeMap::<CapabilityName, (usize, BTreeMap<Digest, Version>)>::new();
        for (index, (dependency, chosen, reach)) in reaches.iter().enumerate() {
            let mut all = reach.below.clone();
            let own = all.entry(dependency.capability.clone()).or_default();
            own.insert(chosen.checksum, chosen.version.clone());
            for (name, versions) in all {
                let Some((earlier, others)) = first.get(&name) else {
                    first.insert(name, (index, versions));
                    continue;
                };
                let (other, _, _) = &reaches[*earlier];
                let here = versions.iter().find(|(digest, _)| !others.contains_key(*digest));
                let there = others.iter().find(|(digest, _)| !versions.contains_key(*digest));
                let (here, there) = match (here, there) {
                    (Some(here), there) => (Some(here), there.or_else(|| others.iter().next())),
                    (None, Some(there)) => (versions.iter().next(), Some(there)),
                    (None, None) => continue,
                };
                let (Some((digest, version)), Some((other_digest, other_version))) = (here, there)
                else {
                    continue;
                };
                let same = if version == other_version {
                    format!(" ({} and {})", other_digest.to_hex(), digest.to_hex())
                } else {
                    String::new()
                };
                let message = format!(
                    "`{name}` is used in two versions: {other_version} through `{}`, {version} through `{}`{same}",
                    other.capability, dependency.capability
                );
                let code = error_code::DEPENDENCY_CONFLICT;
                let (path, at) = (&dependency.pointer, dependency.position);
                let place = format!("uses `{name}` {other_version}");
                self.found.push(
                    Diagnostic::error(code, (path, at), message)
                        .into_warning()
                        .with_related(other.position, place),
                );
            }
        }
    }

    fn reach(
        &mut self,
        checksum: Digest,
        unit: &DependencyInterface,
        chain: usize,
    ) -> VersionClosure {
        if let Some(reach) = self.known.get(&checksum) {
            return reach.clone();
        }
        let mut reach = VersionClosure { inputs: unit.inputs.clone(), ..VersionClosure::default() };
        // A chain that leads back to itself ends here; the cycle is refused by the name of the
        // document that closes it.
        self.known.insert(checksum, reach.clone());
        let dependency_index = self.index;
        for dependency in unit.dependencies.iter().filter(|_| chain < MAX_WALK_DEPTH) {
            let name = &dependency.capability;
            let versions = reach.below.entry(name.clone()).or_default();
            let Some(listed) = dependency_index.versions(name) else { continue };
            let Some(chosen) = dependency.select_version(listed) else {
                reach.unresolved.insert(match dependency.checksum {
                    Some(pin) => format!("`{name}` with the checksum {pin}"),
                    None => format!("`{name}` in `{}`", dependency.range),
                });
                continue;
            };
            versions.insert(chosen.checksum, chosen.version.clone());
            reach.depth = reach.depth.max(1);
            let Some(child) = dependency_index.interfaces.get(&chosen.checksum) else { continue };
            let below = self.reach(chosen.checksum, child, chain + 1);
            for (name, versions) in below.below {
                reach.below.entry(name).or_default().extend(versions);
            }
            reach.depth = reach.depth.max(below.depth + 1);
            reach.unresolved.extend(below.unresolved);
            for (_, covered) in unit.calls.iter().filter(|(called, _)| called == name) {
                let passed = below
                    .inputs
                    .iter()
                    .filter(|(input, about)| about.required && !covered.contains(*input));
                for (input, about) in passed {
                    reach.inputs.entry(input.clone()).or_insert_with(|| about.clone()).required =
                        true;
                }
            }
        }
        self.known.insert(checksum, reach.clone());
        reach
    }
}

/// The reason why an input surely does not accept a mapped value.
fn refuse(capability: &Capability, input: &DependencyInput, template: &Template) -> Option<String> {
    let given = match template {
        Template::Literal(value) => return input.declared.as_ref()?.find_violation(value),
        Template::Text(_) => ValueType::String,
        Template::Array(_) => ValueType::Array,
        Template::Object(_) => ValueType::Object,
        Template::Reference(reference) => {
            let parameter = capability.parameter(reference.variable())?;
            if !reference.is_plain() || is_set(capability, &parameter.name) {
                return None;
            }
            if input.required && !parameter.required && parameter.default.is_none() {
                let name = &parameter.name;
                return Some(format!("it requires a value, but `{name}` is optional"));
            }
            parameter.kind?
        }
    };
    let declared = input.declared.as_ref()?;
    let taken = declared.kind.filter(|taken| !overlap(*taken, given))?;
    let name = &declared.name;
    Some(format!("`{name}` accepts {}, not {}", taken.describe(), given.describe()))
}

/// Returns true when some value is of both types.
fn overlap(one: ValueType, other: ValueType) -> bool {
    let is_number = |kind| matches!(kind, ValueType::Number | ValueType::Integer);
    one == other || is_number(one) && is_number(other)
}

/// Returns true when a name is an output of a step, or comes from a `for_each` or a `catch`.
fn is_set(capability: &Capability, name: &str) -> bool {
    let mut found = false;
    capability.for_each_step(|step| {
        found |= step.action.outputs().iter().any(|output| output.variable() == name)
            || step.control.for_each.as_ref().is_some_and(|for_each| for_each.name == name)
            || matches!(&step.control.on_error, OnError::Catch { name: local, .. } if local == name);
    });
    found
}

/// Formats names for a message: `a`, `b` and so on.
fn quoted<D: std::fmt::Display>(names: impl IntoIterator<Item = D>) -> String {
    names.into_iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// Lists the newest versions for a message.
fn listed(versions: &[VersionInfo]) -> String {
    let mut sorted: Vec<_> = versions.iter().collect();
    sorted.sort_by(|a, b| b.version.cmp(&a.version));
    sorted.dedup_by(|a, b| a.version == b.version);
    let mut words: Vec<_> = sorted
        .iter()
        .take(MAX_LISTED)
        .map(|listing| {
            format!("{}{}", listing.version, if listing.yanked { " (yanked)" } else { "" })
        })
        .collect();
    if sorted.len() > MAX_LISTED {
        words.push("older versions".to_owned());
    }
    words.join(", ")
}
