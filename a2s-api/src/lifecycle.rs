//! The life of a published version: withdrawn, brought back, superseded.

use std::fmt;

use super::schema;
use a2s::{CapabilityName, CapabilityRef, Deprecation, Digest, SuccessorRef};
use semver::Version;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::YankImpact;

/// A request to deprecate a version, or to undo its deprecation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DeprecateRequest {
    /// The reason, or advice: 1 to 500 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 500)]
    pub message: Option<String>,
    /// The replacement: `NAME` or `NAME@RANGE`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub successor: Option<SuccessorRef>,
    /// True to remove the deprecation. The request then has no message and no successor.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub undo: bool,
}

/// The state of a version after it was yanked, restored or deprecated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LifecycleResponse {
    /// Name of the capability.
    pub name: CapabilityName,
    /// The version.
    #[schema(value_type = schema::Version)]
    pub version: Version,
    /// Its checksum.
    pub checksum: Digest,
    /// False when the version was in this state before, so nothing changed.
    pub changed: bool,
    /// Yanked: kept for dependents that pin it, never offered.
    pub yanked: bool,
    /// Its deprecation, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<Deprecation>,
    /// The version that a user without a pin gets from now on; null when all versions are yanked.
    #[schema(value_type = Option<schema::Version>)]
    pub latest: Option<Version>,
    /// The dependents that a yank breaks, changes or leaves alone. Absent for all other actions, and when
    /// there are too many dependents to follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub impact: Option<YankImpact>,
}

/// A notice for the users of a version, about it or about a version that it uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunNotice {
    /// The version.
    pub capability: CapabilityRef,
    /// True when the version is yanked. It runs only because the caller or a document names exactly this
    /// version.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub yanked: bool,
    /// The publisher's deprecation of the version, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<Deprecation>,
}

impl fmt::Display for RunNotice {
    /// Writes `Dogs 1.0.0 was yanked and is deprecated; use Cats instead`, for example.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { capability: CapabilityRef { name, version, .. }, yanked, deprecated } = self;
        write!(f, "{name} {version}")?;
        match (yanked, deprecated) {
            (true, Some(deprecated)) => write!(f, " was yanked and is {deprecated}"),
            (true, None) => f.write_str(" was yanked"),
            (false, Some(deprecated)) => write!(f, " is {deprecated}"),
            (false, None) => Ok(()),
        }
    }
}
