//! The reference to one version of a capability.

use semver::Version;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::checksum::Digest;
use crate::name::CapabilityName;
use crate::version_schema;

/// An exact version of a capability.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CapabilityRef {
    /// Name of the capability.
    pub name: CapabilityName,
    /// Its version.
    #[schema(value_type = version_schema::Version)]
    pub version: Version,
    /// Its checksum.
    pub checksum: Digest,
}
