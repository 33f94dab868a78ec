//! The lifecycle of names and versions, and its record.

use a2s::{CapabilityName, Digest};
use a2s_api::{AuditEntry, Deprecation, MirroredRegistry, OwnerUpdate, RegistryAction};
use a2s_api::{Caller, TokenScope, TokenSubject};
use async_trait::async_trait;
use jiff::Timestamp;
use semver::Version;

use super::{ChangeSeq, Error, VersionEntry};
use crate::PublisherShare;
use crate::mirror::MirrorSource;

/// The subject of an action and its time, for the audit.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AuditActor {
    pub(crate) subject: TokenSubject,
    /// Set when the subject also owns the names of others.
    pub(crate) is_admin: bool,
    pub(crate) at: Timestamp,
    /// The mirror that acts for its source.
    pub(crate) mirror: Option<MirrorSource>,
    /// The maximum that the subject may have published; `None` for the owner.
    pub(crate) share: Option<PublisherShare>,
}

impl AuditActor {
    pub(crate) fn from_caller(caller: &Caller, at: Timestamp) -> Self {
        let is_admin = caller.has_scope(TokenScope::Admin);
        Self { subject: caller.subject.clone(), is_admin, at, mirror: None, share: None }
    }

    /// Returns the actor with this share, unless it is the owner.
    pub(crate) fn with_share(self, share: PublisherShare) -> Self {
        Self { share: (!self.subject.is_owner()).then_some(share), ..self }
    }

    /// Returns the actor with this mirror.
    pub(crate) fn for_mirror(self, mirror: Option<&MirrorSource>) -> Self {
        Self { mirror: mirror.cloned(), ..self }
    }

    /// The source to record for a created name or version.
    pub(crate) fn source(&self) -> Option<&str> {
        self.mirror.as_ref().map(|mirror| mirror.source.as_str())
    }

    /// Returns true when the actor may change an item with this origin. Always true, except for mirrors.
    pub(crate) fn may_change_origin(&self, origin: Option<&str>) -> bool {
        self.mirror.as_ref().is_none_or(|mirror| mirror.is_origin(origin))
    }

    /// Returns true when the request is about a version with this checksum. Only a mirror has to state one.
    pub(crate) fn matches_checksum(&self, digest: Digest) -> bool {
        self.mirror.as_ref().is_none_or(|mirror| mirror.checksum == Some(digest))
    }

    /// Returns true when the actor owns a name of these owners.
    pub(crate) fn owns(&self, owners: &[TokenSubject]) -> bool {
        self.is_admin || owners.contains(&self.subject)
    }
}

/// A change of the lifecycle of a version.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum LifecycleChange {
    /// Yanks the version, or brings it back.
    Yanked(bool),
    /// Deprecates the version, or removes its deprecation.
    Deprecated(Option<Deprecation>),
}

impl LifecycleChange {
    /// The action that it is for a version, and its detail for the audit; none when the version already has
    /// this state.
    pub(super) fn to_audit_action(
        &self,
        entry: &VersionEntry,
    ) -> Option<(RegistryAction, Option<serde_json::Value>)> {
        Some(match self {
            Self::Yanked(yanked) if entry.yanked == *yanked => return None,
            Self::Yanked(true) => (RegistryAction::Yank, None),
            Self::Yanked(false) => (RegistryAction::Unyank, None),
            Self::Deprecated(words) if entry.deprecated == *words => return None,
            Self::Deprecated(None) => (RegistryAction::Undeprecate, None),
            Self::Deprecated(Some(words)) => {
                (RegistryAction::Deprecate, Some(serde_json::json!(words)))
            }
        })
    }
}

/// The result of a lifecycle change.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum LifecycleResult {
    /// The version has the new state; the change has this number.
    Changed(ChangeSeq),
    /// The version had this state already; nothing changed.
    Unchanged,
    /// The name belongs to others; nothing changed.
    NotOwner(Vec<TokenSubject>),
    /// The mirror has not copied this version; nothing changed. The value is the origin of the version.
    OtherOrigin(Option<String>),
    /// There is no such version; nothing changed.
    Unknown,
}

/// The result of a change of owners.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum OwnerResult {
    /// The new owners.
    Owners(Vec<TokenSubject>),
    /// The name belongs to others; nothing changed.
    NotOwner(Vec<TokenSubject>),
    /// The name would have no owner; nothing changed.
    LastOwner,
    /// No token has this subject; nothing changed.
    UnknownSubject(TokenSubject),
    /// There is no such capability; nothing changed.
    Unknown,
}

/// Applies a change to the owners of a name: returns the action for the audit, the subject of the change,
/// and the new owners, in order.
pub(super) fn apply_owner_update<'c>(
    before: &[TokenSubject],
    change: &'c OwnerUpdate,
) -> (RegistryAction, &'c TokenSubject, Vec<TokenSubject>) {
    let mut after = before.to_vec();
    let (action, subject) = match change {
        OwnerUpdate::Add(subject) => {
            after.push(subject.clone());
            (RegistryAction::AddOwner, subject)
        }
        OwnerUpdate::Remove(subject) => {
            after.retain(|owner| owner != subject);
            (RegistryAction::RemoveOwner, subject)
        }
        OwnerUpdate::Transfer(subject) => {
            after = vec![subject.clone()];
            (RegistryAction::Transfer, subject)
        }
    };
    after.sort();
    after.dedup();
    (action, subject, after)
}

/// A selection of audit entries.
#[derive(Debug, Clone, Copy)]
pub(crate) enum HistoryQuery<'a> {
    /// Entries about versions, after a number, the oldest first.
    FeedAfter(ChangeSeq),
    /// Entries before a number, or about one name, the newest first.
    AuditBefore(Option<ChangeSeq>, Option<&'a CapabilityName>),
}

/// The store of the lifecycle of names and versions. It writes each change together with its audit entry in
/// one transaction.
#[async_trait]
pub(crate) trait LifecycleStore: Send + Sync {
    /// Yanks, unyanks or deprecates a version, selects the live version again, and appends a change for the
    /// capability and for all its direct and indirect dependents.
    async fn change_lifecycle(
        &self,
        name: &CapabilityName,
        version: &Version,
        turn: &LifecycleChange,
        by: &AuditActor,
    ) -> Result<LifecycleResult, Error>;

    /// Returns the owners of a name, in order; none when the name is unknown.
    async fn list_owners(&self, name: &CapabilityName) -> Result<Vec<TokenSubject>, Error>;

    /// Changes the owners of a name. A name always has an owner, and at least one owner that has a token.
    async fn change_owners(
        &self,
        name: &CapabilityName,
        change: &OwnerUpdate,
        by: &AuditActor,
    ) -> Result<OwnerResult, Error>;

    /// Returns at most `limit` audit entries. Their numbers grow with time: when an entry is visible, no
    /// entry with a smaller number appears later.
    async fn list_history(
        &self,
        which: HistoryQuery<'_>,
        limit: u32,
    ) -> Result<Vec<AuditEntry>, Error>;

    /// Returns the registries that versions were copied from, by address.
    async fn list_mirrors(&self) -> Result<Vec<MirroredRegistry>, Error>;

    /// Removes audit entries that are older than `before`, and records that. Entries that a new mirror
    /// needs stay: each publish, and the last entry of each kind about a version. Returns the number of
    /// removed entries.
    async fn trim_history(&self, before: Timestamp, by: &AuditActor) -> Result<u64, Error>;
}

/// The data of an audit entry in addition to actor and time.
#[derive(Debug, Clone)]
pub(crate) struct AuditDetail<'a> {
    pub(crate) action: RegistryAction,
    pub(crate) name: Option<&'a CapabilityName>,
    pub(crate) release: Option<(&'a Version, Digest)>,
    pub(crate) subject: Option<&'a TokenSubject>,
    pub(crate) detail: Option<serde_json::Value>,
}
