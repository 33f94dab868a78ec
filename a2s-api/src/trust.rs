//! The checksums that an executor remembers of versions.

use super::schema;
use a2s::{CapabilityName, Digest};
use jiff::Timestamp;
use semver::Version;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The checksum that an executor accepts for a version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TrustedVersion {
    /// Name of the capability.
    pub name: CapabilityName,
    /// Its version.
    #[schema(value_type = schema::Version)]
    pub version: Version,
    /// The only checksum that runs and plans of this version may have.
    pub checksum: Digest,
    /// The time at which the executor first saw this checksum, or accepted it.
    #[schema(value_type = String, format = DateTime)]
    pub remembered_at: Timestamp,
    /// The principal who accepted it. Absent for the first checksum that the executor saw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted_by: Option<String>,
}

/// A page of remembered checksums.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TrustList {
    /// The versions, in alphabetical order of name and version.
    pub versions: Vec<TrustedVersion>,
    /// The `after` of the next page. Absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// The checksum that is accepted for a version from now on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TrustRequest {
    /// The checksum.
    pub checksum: Digest,
}
