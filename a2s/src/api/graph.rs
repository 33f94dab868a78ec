//! The graph of capabilities, as the registry reports it.

use super::schema;
use semver::Version;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::CapabilityRef;
use crate::checksum::Digest;
use crate::name::{CapabilityName, Domain};

/// What a version leads to, what leads to it, and what else it has to do with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CapabilityGraph {
    /// The node that was asked for: `NAME@VERSION`.
    pub root: String,
    /// The versions that are met, the root first, then in order of name and version.
    pub nodes: Vec<GraphNode>,
    /// Who uses whom, among the nodes; as it is today.
    pub edges: Vec<GraphEdge>,
    /// The services that it talks to, and who else does.
    pub services: Vec<SharedService>,
    /// Capabilities that can take what it gives; at most 50.
    pub consumers: Vec<CompatibleIo>,
    /// Capabilities that give what it can take; at most 50.
    pub producers: Vec<CompatibleIo>,
    /// What would become of its dependants if this version were yanked; when that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub impact: Option<Impact>,
    /// Whether there is more than is told: more than 256 versions that may lead here, or farther
    /// away than `depth`.
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
    /// Its digest.
    pub checksum: Digest,
    /// Withdrawn.
    #[serde(default)]
    pub yanked: bool,
}

/// A dependency, and the version that it means today.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GraphEdge {
    /// The node that uses another.
    pub from: String,
    /// The node that is used; absent when no version will do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The capability that is used.
    pub uses: CapabilityName,
    /// The versions that will do.
    pub range: String,
    /// Whether one content alone will do.
    pub pinned: bool,
}

/// A service, and who else talks to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SharedService {
    /// The host.
    pub host: Domain,
    /// Other live capabilities that talk to it, in order of name; at most 20.
    pub capabilities: Vec<CapabilityName>,
    /// How many capabilities talk to it, this one among them when it is live.
    pub total: u64,
}

/// An output of one capability that an input of another can take: their names are the same but for
/// case and separators, and some value is of both types.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CompatibleIo {
    /// The other capability.
    pub capability: CapabilityName,
    /// Its live version.
    #[schema(value_type = schema::Version)]
    pub version: Version,
    /// The output that is given.
    pub output: String,
    /// The types of its values; absent when nothing is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_type: Option<String>,
    /// The input that takes it.
    pub input: String,
    /// The types that it takes; absent when nothing is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_type: Option<String>,
    /// Whether a run needs the input.
    pub required: bool,
}

/// What would become of everything that leads to a version if it were yanked. Yanked versions are
/// not looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Impact {
    /// Those that would not fit any more.
    pub broken: Vec<BrokenDependent>,
    /// Those that would fall back to other versions, and fit.
    pub changed: Vec<ChangedDependency>,
    /// Those that keep it by a pin, of their own or of something between; what pins it itself can
    /// run, but not be published anew.
    pub pinned: Vec<String>,
}

/// A version that would not fit any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BrokenDependent {
    /// The node.
    pub id: String,
    /// Why, as a publisher would be told.
    #[serde(rename = "reasons")]
    pub because: Vec<String>,
}

/// A version that would use others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChangedDependency {
    /// The node.
    pub id: String,
    /// What it would lead to that it does not lead to today.
    pub replacements: Vec<CapabilityRef>,
}
