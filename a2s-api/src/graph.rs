//! The graph of capabilities, as the registry reports it.

use super::schema;
use a2s::{CapabilityName, Digest, Domain};
use semver::Version;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::CapabilityRef;

/// The dependencies, dependents and other relations of a version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CapabilityGraph {
    /// The requested node: `NAME@VERSION`.
    pub root: String,
    /// The versions in the graph: first the root, then the others in order of name and version.
    pub nodes: Vec<GraphNode>,
    /// The current dependencies among the nodes.
    pub edges: Vec<GraphEdge>,
    /// The services that the capability uses, each with the other capabilities that use it.
    pub services: Vec<SharedService>,
    /// Capabilities with an input that accepts an output of this one; at most 50.
    pub consumers: Vec<CompatibleIo>,
    /// Capabilities with an output that an input of this one accepts; at most 50.
    pub producers: Vec<CompatibleIo>,
    /// Searches of the same services for the ids that this one takes.
    #[serde(default)]
    pub prerequisites: Vec<PrerequisiteSearch>,
    /// The effect on its dependents if this version were yanked; only when requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub impact: Option<YankImpact>,
    /// True when the response is incomplete: more than 256 versions may lead here, or some are farther away
    /// than `depth`.
    #[serde(default)]
    pub truncated: bool,
}

/// A version in a graph.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GraphNode {
    /// `NAME@VERSION`.
    pub id: String,
    /// Name of the capability.
    pub name: CapabilityName,
    /// The version.
    #[schema(value_type = schema::Version)]
    pub version: Version,
    /// Its checksum.
    pub checksum: Digest,
    /// True when the version is yanked.
    #[serde(default)]
    pub yanked: bool,
}

/// A dependency, and the version that it currently resolves to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GraphEdge {
    /// The dependent node.
    pub from: String,
    /// The node that is used; absent when no version satisfies the range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The capability that is used.
    pub uses: CapabilityName,
    /// The range of accepted versions.
    pub range: String,
    /// True when the dependency is pinned to one checksum.
    pub pinned: bool,
}

/// A service of the capability, and the other capabilities that use it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SharedService {
    /// The host.
    pub host: Domain,
    /// Other live capabilities that talk to it, in order of name; at most 20.
    pub capabilities: Vec<CapabilityName>,
    /// The number of capabilities that talk to it, including this one when it is live.
    pub total: u64,
}

/// An output of one capability that an input of another accepts. Their names are equal except for case and
/// separators, and at least one value is of both types.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CompatibleIo {
    /// The other capability.
    pub capability: CapabilityName,
    /// Its live version.
    #[schema(value_type = schema::Version)]
    pub version: Version,
    /// The name of the output.
    pub output: String,
    /// The types of its values; absent when the types are not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_type: Option<String>,
    /// The name of the input that accepts the output.
    pub input: String,
    /// The types that the input accepts; absent when the types are not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_type: Option<String>,
    /// True when a run needs the input.
    pub required: bool,
}

/// A search for something whose id a capability takes, by their names: `SearchPerson` for `person_id`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PrerequisiteSearch {
    /// The search.
    pub capability: CapabilityName,
    /// Its live version.
    #[schema(value_type = schema::Version)]
    pub version: Version,
    /// The input that takes the id.
    pub input: String,
}

/// The effect on all dependents of a version if it were yanked. Yanked versions are not considered.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Impact)]
pub struct YankImpact {
    /// The dependents that would no longer fit.
    pub broken: Vec<BrokenDependent>,
    /// The dependents that would switch to other versions and still fit.
    pub changed: Vec<ChangedDependency>,
    /// The dependents that keep it by a pin, of their own or of a capability between them. A dependent that
    /// pins it directly can run, but cannot be published again.
    pub pinned: Vec<String>,
}

/// A version that would no longer fit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BrokenDependent {
    /// The node.
    pub id: String,
    /// The reasons, in the words that a publisher would see.
    #[serde(rename = "reasons")]
    pub because: Vec<String>,
}

/// A dependent version that would switch to other dependencies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChangedDependency {
    /// The node.
    pub id: String,
    /// The new dependencies that it would have.
    pub replacements: Vec<CapabilityRef>,
}
