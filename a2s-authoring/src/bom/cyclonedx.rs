//! The part of CycloneDX 1.6 (ECMA-424) that a bill of materials needs.

use std::fmt;

use jiff::Timestamp;
use serde::{Serialize, Serializer};
use uuid::Uuid;

/// A bill of materials in the format CycloneDX 1.6.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Bom {
    pub(super) bom_format: &'static str,
    pub(super) spec_version: &'static str,
    #[serde(serialize_with = "as_urn")]
    pub(super) serial_number: Uuid,
    pub(super) version: u32,
    pub(super) metadata: BomMetadata,
    pub(super) components: Vec<Component>,
    pub(super) services: Vec<BomService>,
    pub(super) dependencies: Vec<BomDependency>,
}

impl Bom {
    /// Returns its id, which the digests of all its capabilities determine.
    #[must_use]
    pub fn serial_number(&self) -> Uuid {
        self.serial_number
    }

    /// The number of components below the capability: capabilities and tools.
    #[must_use]
    pub fn component_count(&self) -> usize {
        self.components.len()
    }

    /// The number of services.
    #[must_use]
    pub fn service_count(&self) -> usize {
        self.services.len()
    }
}

impl fmt::Display for Bom {
    /// Writes indented JSON with a final line break.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = serde_json::to_string_pretty(self).map_err(|_| fmt::Error)?;
        writeln!(f, "{text}")
    }
}

fn as_urn<S: Serializer>(id: &Uuid, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&id.urn())
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct BomMetadata {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) timestamp: Option<Timestamp>,
    pub(super) tools: BomTools,
    pub(super) component: Component,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct BomTools {
    pub(super) components: [Component; 1],
}

#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub(super) struct Component {
    #[serde(rename = "type")]
    pub(super) kind: ComponentKind,
    #[serde(rename = "bom-ref", skip_serializing_if = "Option::is_none")]
    pub(super) reference: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) authors: Vec<Contact>,
    pub(super) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) hashes: Vec<Hash>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) properties: Vec<BomProperty>,
}

/// The kind of a component. Capabilities and tools are applications: CycloneDX has no type of its own for
/// either.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ComponentKind {
    #[default]
    Application,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Contact {
    pub(super) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) email: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Hash {
    pub(super) alg: &'static str,
    pub(super) content: String,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct BomProperty {
    pub(super) name: &'static str,
    pub(super) value: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct BomService {
    #[serde(rename = "bom-ref")]
    pub(super) reference: String,
    pub(super) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<String>,
    pub(super) endpoints: Vec<String>,
    pub(super) authenticated: bool,
    #[serde(rename = "x-trust-boundary")]
    pub(super) crosses_trust_boundary: bool,
    pub(super) properties: Vec<BomProperty>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BomDependency {
    #[serde(rename = "ref")]
    pub(super) reference: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) depends_on: Vec<String>,
}
