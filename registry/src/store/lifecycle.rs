//! The lifecycle of names and versions, and its record.

use a2s::api::{AuditEntry, Deprecation, OwnerUpdate, RegistryAction};
use a2s::{Caller, CapabilityName, Digest, TokenScope, TokenSubject};
use async_trait::async_trait;
use jiff::Timestamp;
use semver::Version;

use super::{ChangeSeq, Error, VersionEntry};
use crate::mirror::MirrorSource;

/// Who does something, and when: what the audit says of it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AuditActor {
    pub(crate) subject: TokenSubject,
    /// Whether names of others are theirs, too.
    pub(crate) is_admin: bool,
    pub(crate) at: Timestamp,
    /// The mirror that does it for its source.
    pub(crate) mirror: Option<MirrorSource>,
}

impl AuditActor {
    pub(crate) fn from_caller(caller: &Caller, at: Timestamp) -> Self {
        let is_admin = caller.has_scope(TokenScope::Admin);
        Self { subject: caller.subject.clone(), is_admin, at, mirror: None }
    }

    /// The same, acting for a mirror.
    pub(crate) fn for_mirror(self, mirror: Option<&MirrorSource>) -> Self {
        Self { mirror: mirror.cloned(), ..self }
    }

    /// The source to record for what is created.
    pub(crate) fn source(&self) -> Option<&str> {
        self.mirror.as_ref().map(|mirror| mirror.source.as_str())
    }

    /// Whether what has this origin is theirs to change. Everything is, but for mirrors.
    pub(crate) fn may_change_origin(&self, origin: Option<&str>) -> bool {
        self.mirror.as_ref().is_none_or(|mirror| mirror.is_origin(origin))
    }

    /// Whether a version with this checksum is the one that they are about. Only a mirror has to say.
    pub(crate) fn matches_checksum(&self, digest: Digest) -> bool {
        self.mirror.as_ref().is_none_or(|mirror| mirror.checksum == Some(digest))
    }

    /// Whether a name of these owners is theirs.
    pub(crate) fn owns(&self, owners: &[TokenSubject]) -> bool {
        self.is_admin || owners.contains(&self.subject)
    }
}

/// What a version becomes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum LifecycleChange {
    /// Withdrawn, or brought back.
    Yanked(bool),
    /// Deprecated, or not any more.
    Deprecated(Option<Deprecation>),
}

impl LifecycleChange {
    /// What it is to a version: its name, and what the record says beside; none when the version
    /// is so already.
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

/// What came of it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum LifecycleResult {
    /// It is so; the change has this number.
    Changed(ChangeSeq),
    /// It was so; nothing changed.
    Unchanged,
    /// The name belongs to others; nothing changed.
    NotOwner(Vec<TokenSubject>),
    /// A mirror has not copied this version; nothing changed. Where it came from.
    OtherOrigin(Option<String>),
    /// There is no such version; nothing changed.
    Unknown,
}

/// What came of a change of owners.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum OwnerResult {
    /// These are the owners now.
    Owners(Vec<TokenSubject>),
    /// The name belongs to others; nothing changed.
    NotOwner(Vec<TokenSubject>),
    /// Nobody would own the name; nothing changed.
    LastOwner,
    /// There is no token of this subject; nothing changed.
    UnknownSubject(TokenSubject),
    /// There is no such capability; nothing changed.
    Unknown,
}

/// What a change makes of the owners of a name: how the record calls it, who it is about, and the
/// owners behind it, in order.
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

/// Which entries of the record.
#[derive(Debug, Clone, Copy)]
pub(crate) enum HistoryQuery<'a> {
    /// Those about versions, behind a number, the oldest first.
    FeedAfter(ChangeSeq),
    /// All before a number, or about one name, the newest first.
    AuditBefore(Option<ChangeSeq>, Option<&'a CapabilityName>),
}

/// The life of names and versions. What changes is written together with who did it, in one
/// transaction: there is never one without the other.
#[async_trait]
pub(crate) trait LifecycleStore: Send + Sync {
    /// Yanks a version, brings it back, or deprecates it; chooses the live version anew, and
    /// appends a change for it and for everything that leads to it.
    async fn change_lifecycle(
        &self,
        name: &CapabilityName,
        version: &Version,
        turn: &LifecycleChange,
        by: &AuditActor,
    ) -> Result<LifecycleResult, Error>;

    /// The owners of a name, in order; none when the name is unknown.
    async fn list_owners(&self, name: &CapabilityName) -> Result<Vec<TokenSubject>, Error>;

    /// Changes who owns a name. A name always has an owner, and one that holds a token.
    async fn change_owners(
        &self,
        name: &CapabilityName,
        change: &OwnerUpdate,
        by: &AuditActor,
    ) -> Result<OwnerResult, Error>;

    /// At most `limit` entries of the record. Their numbers grow with time: once one can be seen,
    /// none with a smaller number will come.
    async fn list_history(
        &self,
        which: HistoryQuery<'_>,
        limit: u32,
    ) -> Result<Vec<AuditEntry>, Error>;

    /// Removes entries of the record that are older than `before`, and says so in the record. What a
    /// mirror needs that begins now stays: each publish, and the last entry of each kind about a
    /// version. Gives how many were removed.
    async fn trim_history(&self, before: Timestamp, by: &AuditActor) -> Result<u64, Error>;
}

/// What the record says of a change beside who made it and when.
#[derive(Debug, Clone)]
pub(crate) struct AuditDetail<'a> {
    pub(crate) action: RegistryAction,
    pub(crate) name: Option<&'a CapabilityName>,
    pub(crate) release: Option<(&'a Version, Digest)>,
    pub(crate) subject: Option<&'a TokenSubject>,
    pub(crate) detail: Option<serde_json::Value>,
}
