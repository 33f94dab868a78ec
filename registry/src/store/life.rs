//! What becomes of names and versions after they were published, and the record of it.

use a2s::api::{Action, AuditEntry, Deprecation, OwnerChange};
use a2s::{Caller, CapabilityName, Digest, Scope, Subject};
use async_trait::async_trait;
use jiff::Timestamp;
use semver::Version;

use super::{Error, Seq};

/// Who does something, and when: what the audit says of it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Actor {
    pub(crate) subject: Subject,
    /// Whether names of others are theirs, too.
    pub(crate) is_admin: bool,
    pub(crate) at: Timestamp,
}

impl Actor {
    pub(crate) fn of(caller: &Caller, at: Timestamp) -> Self {
        let is_admin = caller.may(Scope::Admin);
        Self { subject: caller.subject.clone(), is_admin, at }
    }
}

/// What a version becomes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Turn {
    /// Withdrawn, or brought back.
    Yanked(bool),
    /// Deprecated, or not any more.
    Deprecated(Option<Deprecation>),
}

/// What came of it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Turned {
    /// It is so; the change has this number.
    Done(Seq),
    /// It was so; nothing changed.
    Same,
    /// The name belongs to others; nothing changed.
    NotOwner(Vec<Subject>),
    /// There is no such version; nothing changed.
    Unknown,
}

/// What came of a change of owners.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Owned {
    /// These are the owners now.
    Owners(Vec<Subject>),
    /// The name belongs to others; nothing changed.
    NotOwner(Vec<Subject>),
    /// Nobody would own the name; nothing changed.
    Last,
    /// There is no token of this subject; nothing changed.
    NoSubject(Subject),
    /// There is no such capability; nothing changed.
    Unknown,
}

/// Which entries of the record.
#[derive(Debug, Clone, Copy)]
pub(crate) enum History<'a> {
    /// Those about versions, behind a number, the oldest first.
    FeedAfter(Seq),
    /// All before a number, or about one name, the newest first.
    AuditBefore(Option<Seq>, Option<&'a CapabilityName>),
}

/// The life of names and versions. What changes is written together with who did it, in one
/// transaction: there is never one without the other.
#[async_trait]
pub(crate) trait LifeStore: Send + Sync {
    /// Yanks a version, brings it back, or deprecates it; chooses the live version anew, and
    /// appends a change for it and for everything that leads to it.
    async fn turn(
        &self,
        name: &CapabilityName,
        version: &Version,
        turn: &Turn,
        by: &Actor,
    ) -> Result<Turned, Error>;

    /// The owners of a name, in order; none when the name is unknown.
    async fn owners(&self, name: &CapabilityName) -> Result<Vec<Subject>, Error>;

    /// Changes who owns a name. A name always has an owner, and one that holds a token.
    async fn change_owners(
        &self,
        name: &CapabilityName,
        change: &OwnerChange,
        by: &Actor,
    ) -> Result<Owned, Error>;

    /// At most `limit` entries of the record. Their numbers grow with time: once one can be seen,
    /// none with a smaller number will come.
    async fn history(&self, which: History<'_>, limit: u32) -> Result<Vec<AuditEntry>, Error>;
}

/// What the record says of a change beside who made it and when.
#[derive(Debug, Clone)]
pub(crate) struct Deed<'a> {
    pub(crate) action: Action,
    pub(crate) name: Option<&'a CapabilityName>,
    pub(crate) release: Option<(&'a Version, Digest)>,
    pub(crate) subject: Option<&'a Subject>,
    pub(crate) detail: Option<serde_json::Value>,
}
