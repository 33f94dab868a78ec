//! Drafts: documents made from the description of a service.

use a2s::Digest;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The description of a service to make documents from.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DraftRequest {
    /// The description: OpenAPI 3.0 or 3.1, as JSON or YAML text, at most 4 MiB.
    pub description: String,
    /// The operations to take: by `operationId`, as `GET /users/{id}`, or by the names of their documents.
    /// All operations when the list is empty, at most 200.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operations: Vec<String>,
    /// The address of the service, in place of the one in the description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The prefix of every name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
}

/// Documents that were made from a description. Nothing is published.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DraftList {
    /// The documents, in the order of the description.
    pub drafts: Vec<Draft>,
    /// The operations that have no document.
    pub skipped: Vec<SkippedOperation>,
}

/// A document that was made from an operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Draft {
    /// The name of the capability.
    pub name: String,
    /// The operation: `GET /users/{id}`.
    pub operation: String,
    /// The document, in YAML, with its checksum.
    pub document: String,
    /// The checksum of the document.
    pub checksum: Digest,
    /// Parts of the description that the document leaves out or changes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

/// An operation that has no document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SkippedOperation {
    /// The operation: `GET /users/{id}`.
    pub operation: String,
    /// The reason.
    pub reason: String,
}
