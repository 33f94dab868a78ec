//! A plan that was shown, and the basis that it was made from. Pure.

use std::collections::{BTreeMap, BTreeSet};

use a2s::{CapabilityName, Digest, DigestError, canonical_json};
use a2s_api::{CapabilityRef, GuardianInfo, PlanRequest, PlannedCredential, StateScope};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::plan::ExecutionPlan;
use crate::registry_client::{ResolvedDependencies, RunDocuments};
use a2s::to_single_line;

/// The version of the data from which a digest is computed.
const VERSION: u8 = 1;
/// The most characters of a foreign name in a message.
const MAX_NAME: usize = 100;

/// A plan that was shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct ShownPlan {
    /// The request; it is resolved again before the plan runs.
    pub(super) request: PlanRequest,
    /// The basis that resulted from it.
    pub(super) basis: PlanBasis,
}

/// Everything that determines the effect of running a plan. Requests that depend on earlier responses
/// follow from the contents, which have them as templates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct PlanBasis {
    /// The capability that runs.
    pub(super) content: PlanContents,
    /// The inputs, with remembered values and defaults, in the form that may be shown.
    pub(super) inputs: Map<String, Value>,
    /// The keyed digest of the true inputs and session, when a part of them is not shown. Within one plan
    /// it cannot differ: only the caller gives secrets.
    #[serde(default)]
    pub(super) sealed: Option<Digest>,
    /// The inputs that were remembered, with the scope of each.
    pub(super) recalled: BTreeMap<String, StateScope>,
    /// The session, in the form that may be shown.
    pub(super) session: Option<String>,
    /// The hosts of requests, with the replacement address of connections.
    pub(super) hosts: BTreeMap<String, Option<String>>,
    /// The credentials that are sent with requests.
    pub(super) credentials: Vec<UsedCredential>,
    /// The guardians of its steps, in order.
    pub(super) guarding: Vec<GuardianInfo>,
    /// The policy of each guardian that reports its policy.
    pub(super) policies: BTreeMap<String, String>,
}

/// The contents of all capabilities of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct PlanContents {
    capability: CapabilityRef,
    /// All capabilities that it uses, in order of name and version.
    dependencies: Vec<CapabilityRef>,
    /// The content that each dependency resolves to.
    choices: ResolvedDependencies,
}

/// A credential that is sent with requests, without its value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct UsedCredential {
    host: String,
    scheme: String,
    kind: String,
    /// The time at which it was set; `None` for a client certificate.
    set_at: Option<Timestamp>,
}

impl PlanContents {
    pub(super) fn from_documents(library: &RunDocuments, plan: &ExecutionPlan) -> Self {
        Self {
            capability: plan.root.pin.clone(),
            dependencies: plan.dependencies.clone(),
            choices: library.resolved.clone(),
        }
    }

    /// Describes the contents that differ in `now`.
    pub(super) fn differences(&self, now: &Self) -> Vec<String> {
        let (was, is) = (&self.capability, &now.capability);
        let mut found = Vec::new();
        if was.version != is.version {
            let CapabilityRef { name, version, .. } = is;
            found.push(format!("`{name}` is now version {version}, and was {}", was.version));
        } else if was.checksum != is.checksum {
            let CapabilityRef { name, version, checksum } = is;
            found.push(format!(
                "`{name}` {version} now has the checksum {checksum}, and had {}",
                was.checksum
            ));
        }
        let (before, after) = (group_by_name(&self.dependencies), group_by_name(&now.dependencies));
        for name in union(&before, &after) {
            match (before.get(name), after.get(name)) {
                (Some(was), Some(is)) if was != is => {
                    let mut shown = [versions(was), versions(is)];
                    if shown[0] == shown[1] {
                        shown = [digests(was), digests(is)];
                    }
                    let [was, is] = shown;
                    found.push(format!("the version of `{name}` is now {is}, and was {was}"));
                }
                (Some(was), None) => {
                    found.push(format!("`{name}` {} is not used any more", versions(was)));
                }
                (None, Some(is)) => found.push(format!("`{name}` {} is used now", versions(is))),
                _ => {}
            }
        }
        if found.is_empty() && self != now {
            found.push("a dependency resolves to another version".to_owned());
        }
        found
    }
}

/// Groups the contents of capabilities by name.
fn group_by_name(pins: &[CapabilityRef]) -> BTreeMap<&CapabilityName, Vec<&CapabilityRef>> {
    let mut contents = BTreeMap::<_, Vec<_>>::new();
    pins.iter().for_each(|pin| contents.entry(&pin.name).or_default().push(pin));
    contents
}

fn versions(pins: &[&CapabilityRef]) -> String {
    pins.iter().map(|pin| pin.version.to_string()).collect::<Vec<_>>().join(" and ")
}

fn digests(pins: &[&CapabilityRef]) -> String {
    pins.iter().map(|pin| pin.checksum.to_string()).collect::<Vec<_>>().join(" and ")
}

impl UsedCredential {
    /// Converts the credentials of a plan without missing ones.
    pub(super) fn from_planned(planned: Vec<PlannedCredential>) -> Vec<Self> {
        let used = planned.into_iter().filter(|credential| credential.stored);
        let used = used.map(|PlannedCredential { host, scheme, kind, set_at, .. }| Self {
            host,
            scheme,
            kind,
            set_at,
        });
        used.collect()
    }
}

impl PlanBasis {
    /// Returns the digest of the whole plan: SHA-256 of its canonical JSON (RFC 8785).
    ///
    /// # Errors
    /// Fails when an input is a number without a canonical form.
    pub(super) fn digest(&self) -> Result<Digest, DigestError> {
        let Self {
            content,
            inputs,
            sealed,
            recalled,
            session,
            hosts,
            credentials,
            guarding,
            policies,
        } = self;
        let PlanContents { capability, dependencies, choices } = content;
        let mut value = json!({
            "plan": VERSION,
            "capability": capability,
            "dependencies": dependencies,
            "choices": choices,
            "inputs": inputs,
            "recalled": recalled,
            "session": session,
            "hosts": hosts,
            "credentials": credentials,
            "guardians": guarding,
            "policies": policies,
        });
        if let Some(sealed) = sealed {
            value["sealed"] = json!(sealed);
        }
        canonical_json(&value).map(|bytes| Digest::of_bytes(&bytes))
    }
}

/// Describes each difference. Values are not shown; empty when nothing differs.
pub(super) fn differences(was: &PlanBasis, is: &PlanBasis) -> Vec<String> {
    let mut found = was.content.differences(&is.content);
    found.extend(differences_of_inputs(was, is));
    for host in union(&was.hosts, &is.hosts) {
        match (was.hosts.get(host), is.hosts.get(host)) {
            (Some(was), Some(is)) if was != is => {
                let goes = |to: &Option<String>| {
                    to.clone().unwrap_or_else(|| "the host itself".to_owned())
                };
                let (was, is) = (goes(was), goes(is));
                found.push(format!("connections for {host} now go to {is}, and went to {was}"));
            }
            (Some(_), None) => found.push(format!("the run sends no requests to {host} any more")),
            (None, Some(_)) => found.push(format!("the run now sends requests to {host}")),
            _ => {}
        }
    }
    found.extend(differences_of_credentials(&was.credentials, &is.credentials));
    found.extend(differences_of_guardians(was, is));
    if was.session != is.session {
        found.push("the session is different".to_owned());
    }
    found
}

fn differences_of_inputs(was: &PlanBasis, is: &PlanBasis) -> Vec<String> {
    let names: BTreeSet<&String> = was.inputs.keys().chain(is.inputs.keys()).collect();
    let difference = |name: &String| {
        let (before, after) = (was.recalled.get(name), is.recalled.get(name));
        let same = was.inputs.get(name) == is.inputs.get(name);
        Some(match (before, after) {
            (Some(_), None) => format!("state `{name}` is not remembered any more"),
            (None, Some(_)) => format!("state `{name}` is now remembered and used"),
            (Some(before), Some(after)) if before != after => {
                let (before, after) = (before.as_str(), after.as_str());
                format!("state `{name}` now comes from {after} state, and came from {before} state")
            }
            (Some(_), Some(_)) if !same => format!("state `{name}` has changed"),
            // The given inputs are the same.
            (None, None) if !same => format!("input `{name}` has another default"),
            _ => return None,
        })
    };
    names.into_iter().filter_map(difference).collect()
}

fn differences_of_guardians(was: &PlanBasis, is: &PlanBasis) -> Vec<String> {
    let names = |guarding: &[GuardianInfo]| {
        let names: Vec<_> = guarding.iter().map(|guarding| guarding.guardian.as_str()).collect();
        if names.is_empty() { "off".to_owned() } else { names.join(", then ") }
    };
    let (before, after) = (names(&was.guarding), names(&is.guarding));
    let mut found = Vec::new();
    if before != after {
        found.push(format!("the guardian is now {after}, and was {before}"));
    }
    for is in &is.guarding {
        let was = was.guarding.iter().find(|was| was.guardian == is.guardian);
        if let Some(was) = was.filter(|was| *was != is) {
            let name = &is.guardian;
            if was.address != is.address {
                found.push(format!("the guardian {name} now has another address"));
            }
            let (was, is) = (was.describe_fail_mode(), is.describe_fail_mode());
            if was != is {
                found.push(format!("the fail mode of guardian {name} is now {is}, and was {was}"));
            }
        }
    }
    let text_of = |policy: Option<&String>| policy.map_or("unknown", String::as_str).to_owned();
    for name in union(&was.policies, &is.policies) {
        let (was, is) = (was.policies.get(name), is.policies.get(name));
        if was != is {
            let (was, is) = (text_of(was), text_of(is));
            found.push(format!("the policy of guardian {name} is now {is}, and was {was}"));
        }
    }
    found
}

fn differences_of_credentials(was: &[UsedCredential], is: &[UsedCredential]) -> Vec<String> {
    let by_place = |used: &[UsedCredential]| -> BTreeMap<(String, String), UsedCredential> {
        let place = |used: &UsedCredential| (used.host.clone(), used.scheme.clone());
        used.iter().map(|used| (place(used), used.clone())).collect()
    };
    let (before, after) = (by_place(was), by_place(is));
    let difference = |place: &(String, String)| {
        let what = format!("credential `{}` for {}", to_single_line(&place.1, MAX_NAME), place.0);
        match (before.get(place), after.get(place)) {
            (Some(was), Some(is)) if was != is => Some(format!("{what} was replaced")),
            (Some(_), None) => Some(format!("{what} is not sent any more")),
            (None, Some(_)) => Some(format!("{what} is now sent")),
            _ => None,
        }
    };
    union(&before, &after).into_iter().filter_map(difference).collect()
}

fn union<'m, K: Ord, V>(a: &'m BTreeMap<K, V>, b: &'m BTreeMap<K, V>) -> BTreeSet<&'m K> {
    a.keys().chain(b.keys()).collect()
}

#[cfg(test)]
mod tests;
