//! Changes of a registry, in order, for mirrors, caches and auditors.

use super::schema;
use a2s::{CapabilityName, Digest};
use jiff::Timestamp;
use semver::Version;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::Deprecation;
use crate::auth::TokenSubject;

/// The type of a change in the registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Action)]
pub enum RegistryAction {
    /// A version was published.
    Publish,
    /// A version was withdrawn.
    Yank,
    /// A withdrawn version was brought back.
    Unyank,
    /// A version was deprecated, or the message or successor of its deprecation changed.
    Deprecate,
    /// A version is not deprecated any more.
    Undeprecate,
    /// A name got an additional owner.
    AddOwner,
    /// An owner of a name was removed.
    RemoveOwner,
    /// A name was transferred to a single other owner.
    Transfer,
    /// A token was created.
    CreateToken,
    /// A token was revoked.
    RevokeToken,
    /// Old entries of the audit were removed.
    TrimAudit,
    /// The accepted intents of a name were removed.
    ForgetIntents,
}

impl RegistryAction {
    /// All variants.
    pub const ALL: [Self; 12] = [
        Self::Publish,
        Self::Yank,
        Self::Unyank,
        Self::Deprecate,
        Self::Undeprecate,
        Self::AddOwner,
        Self::RemoveOwner,
        Self::Transfer,
        Self::CreateToken,
        Self::RevokeToken,
        Self::TrimAudit,
        Self::ForgetIntents,
    ];

    /// Returns the name that JSON uses.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Publish => "publish",
            Self::Yank => "yank",
            Self::Unyank => "unyank",
            Self::Deprecate => "deprecate",
            Self::Undeprecate => "undeprecate",
            Self::AddOwner => "add_owner",
            Self::RemoveOwner => "remove_owner",
            Self::Transfer => "transfer",
            Self::CreateToken => "create_token",
            Self::RevokeToken => "revoke_token",
            Self::TrimAudit => "trim_audit",
            Self::ForgetIntents => "forget_intents",
        }
    }

    /// Finds the action with this name.
    #[must_use]
    pub fn from_name(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.as_str() == text)
    }
}

/// The registries that this one has copies of.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MirrorList {
    /// The registries, by address.
    pub mirrors: Vec<MirroredRegistry>,
}

/// A registry that a mirror has copied versions from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MirroredRegistry {
    /// The address of the registry, as the mirror states it.
    pub source: String,
    /// The number of capabilities with copied versions.
    pub capabilities: u64,
    /// The number of copied versions.
    pub versions: u64,
    /// The time of the last copy.
    #[schema(value_type = String, format = DateTime)]
    pub latest_at: Timestamp,
}

/// A change of a version. It is public, and mirrors follow it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RegistryChange {
    /// Its number. Later changes have larger numbers; some numbers are not used.
    pub seq: u64,
    /// The time at which it was made.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// `publish`, `yank`, `unyank`, `deprecate` or `undeprecate`.
    pub action: RegistryAction,
    /// Name of the capability.
    pub name: CapabilityName,
    /// The version.
    #[schema(value_type = schema::Version)]
    pub version: Version,
    /// Its checksum.
    pub checksum: Digest,
    /// The deprecation of the version since this change; only with `deprecate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<Deprecation>,
}

/// A page of changes, in order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ChangePage {
    /// The id of this feed. Numbers of another feed are not valid here.
    pub feed: String,
    /// The changes after `since`.
    pub changes: Vec<RegistryChange>,
    /// Pass as `since` for the next changes.
    pub next: u64,
    /// True when more changes are already available.
    #[serde(alias = "more")]
    pub has_more: bool,
}

/// One change, and the subject that made it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AuditEntry {
    /// Its number. The feed of changes uses the same number.
    pub seq: u64,
    /// The time at which it was made.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// The subject that made it; absent for changes that are older than the audit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<TokenSubject>,
    /// The action.
    pub action: RegistryAction,
    /// The capability that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<CapabilityName>,
    /// The version that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Version>)]
    pub version: Option<Version>,
    /// The checksum of that version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<Digest>,
    /// The owner or token that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<TokenSubject>,
    /// Details: the deprecation of a version, or the scopes of a token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Value>,
}

impl AuditEntry {
    /// Converts the entry into its public form; `None` when the entry is not about a version.
    #[must_use]
    pub fn into_change(self) -> Option<RegistryChange> {
        let is_deprecation = self.action == RegistryAction::Deprecate;
        let deprecated = self.detail.filter(|_| is_deprecation);
        Some(RegistryChange {
            seq: self.seq,
            at: self.at,
            action: self.action,
            name: self.name?,
            version: self.version?,
            checksum: self.checksum?,
            deprecated: deprecated.and_then(|detail| serde_json::from_value(detail).ok()),
        })
    }
}

/// A page of the audit, the newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AuditPage {
    /// The entries of this page.
    pub entries: Vec<AuditEntry>,
    /// Pass as `before` for older entries; absent when there are no older entries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// A request to remove old entries of the audit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TrimAuditRequest {
    /// The registry removes the entries that are older than this time.
    #[schema(value_type = String, format = DateTime)]
    pub before: Timestamp,
}

/// The response to a request to remove old entries of the audit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TrimAuditResponse {
    /// The number of removed entries.
    pub removed: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_are_written_as_they_are_read() {
        for action in RegistryAction::ALL {
            assert_eq!(RegistryAction::from_name(action.as_str()), Some(action));
            assert_eq!(serde_json::json!(action), action.as_str());
        }
    }
}
