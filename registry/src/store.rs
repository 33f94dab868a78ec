//! The store of documents, versions and outcomes.
//!
//! One small trait, so that SQLite and a server database are the same to the rest of the crate.
//! It knows nothing of documents beyond their bytes: whether stored bytes still are what was
//! published is decided in one place, [`crate::documents`].

pub(crate) mod dependency_rows;
pub(crate) mod embeddings;
pub(crate) mod indexes;
pub(crate) mod life;
#[expect(clippy::duplicate_mod, reason = "SQL for both engines is written once: `store/sql`")]
mod postgres;
mod row_mapping;
#[expect(clippy::duplicate_mod, reason = "SQL for both engines is written once: `store/sql`")]
mod sqlite;
pub(crate) mod tokens;

use std::collections::BTreeMap;
use std::sync::Arc;

use a2s::api::{Deprecation, FailureClass, FailureCount, FaultAttribution};
use a2s::{CapabilityName, Complexity, Digest, Listing, Subject};
use async_trait::async_trait;
use jiff::Timestamp;
use semver::Version;
use uuid::Uuid;

use self::dependency_rows::{RelationStore, Relations};
use self::embeddings::EmbeddingStore;
use self::indexes::IndexStore;
use self::life::{Actor, LifeStore};
use self::tokens::TokenStore;
use crate::latency_histogram::Histogram;
use crate::outcome_weighting::{End, Weight};

/// Where a database is: the path of an SQLite file, or a `sqlite:` URL, which is made when it is
/// missing; or a `postgres:` or `postgresql:` URL, whose database has to be there.
///
/// It is never shown, as it may have a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Database(String);

impl From<String> for Database {
    fn from(address: String) -> Self {
        Self(address)
    }
}

impl From<&str> for Database {
    fn from(address: &str) -> Self {
        Self(address.to_owned())
    }
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0.split_once("://") {
            Some((scheme, _)) => write!(f, "{scheme}://…"),
            None => f.write_str(&self.0),
        }
    }
}

/// How many runs are remembered, so that a report which comes again counts once.
const MOST_REMEMBERED: i64 = 1_000_000;

/// A capability in this store; never used for another one, even after a deletion by hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CapabilityId(pub i64);

/// A version in this store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct VersionId(pub(crate) i64);

/// What is known of a version without its document.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) capability: CapabilityId,
    pub(crate) id: VersionId,
    pub(crate) name: CapabilityName,
    pub(crate) version: Version,
    /// The digest that was recorded when it was published.
    pub(crate) digest: Digest,
    pub(crate) complexity: Complexity,
    /// How many permissions its caller must hold.
    pub(crate) permissions: u32,
    pub(crate) published_at: Timestamp,
    pub(crate) yanked: bool,
    pub(crate) deprecated: Option<Deprecation>,
    pub(crate) stats: Stats,
}

impl Entry {
    /// The same as the linker wants to know it.
    pub(crate) fn to_listing(&self) -> Listing {
        Listing {
            version: self.version.clone(),
            checksum: self.digest,
            yanked: self.yanked,
            deprecated: self.deprecated.clone(),
        }
    }
}

/// How the runs of a version ended.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Stats {
    /// All runs.
    pub(crate) runs: u64,
    /// Those that succeeded.
    pub(crate) successes: u64,
    /// Those that failed through the capability or its services.
    pub(crate) faults: u64,
    /// What they weigh together, and when that was (milliseconds since 1970).
    pub(crate) weight: Weight,
    pub(crate) weighed_at: i64,
}

impl Stats {
    /// What the runs weigh at another time.
    pub(crate) fn weight_at(&self, now: Timestamp) -> Weight {
        self.weight.at(self.weighed_at, now.as_millisecond())
    }
}

/// What else is known of the runs of a version.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Record {
    /// The most frequent first.
    pub(crate) failures: Vec<FailureCount>,
    /// How long successful runs took.
    pub(crate) latency: Histogram,
    /// How many executors have reported, as far as they are told apart.
    pub(crate) reporters: u64,
    /// When the last run ended.
    pub(crate) last_run: Option<Timestamp>,
}

/// A version to be stored.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NewVersion {
    pub(crate) name: CapabilityName,
    pub(crate) version: Version,
    pub(crate) digest: Digest,
    /// UTF-8.
    pub(crate) source: String,
    pub(crate) complexity: Complexity,
    /// How many permissions its caller must hold.
    pub(crate) permissions: u32,
    pub(crate) relations: Relations,
}

/// What came of storing a version.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Publication {
    /// It is stored; the change has this number.
    Created(Seq),
    /// The same digest was there; nothing changed.
    Same,
    /// The version is there with this digest; nothing changed.
    Conflict(Digest),
    /// The kebab-case form of the name belongs to this capability; nothing changed.
    NameTaken(String),
    /// The name looks like this one, which belongs to others; nothing changed.
    LookAlike(CapabilityName),
    /// The name belongs to these; nothing changed.
    NotOwner(Vec<Subject>),
    /// A mirror has not created this name; nothing changed. Where the name came from.
    OtherOrigin(Option<String>),
}

/// Which live versions.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Heads<'a> {
    /// Those of these capabilities.
    Of(&'a [CapabilityId]),
    /// So many, in order of name, behind a name.
    After(Option<&'a str>, u32),
}

/// One run, as the executor tells it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) run: Uuid,
    pub(crate) name: CapabilityName,
    pub(crate) version: Version,
    pub(crate) digest: Digest,
    pub(crate) success: bool,
    pub(crate) code: Option<String>,
    pub(crate) class: Option<FailureClass>,
    pub(crate) blame: Option<FaultAttribution>,
    pub(crate) duration_ms: u64,
    pub(crate) ended_at: Timestamp,
    pub(crate) voice: Voice,
    /// When it is recorded.
    pub(crate) at: Timestamp,
    /// Runs that were recorded before are forgotten: they will not be reported again.
    pub(crate) forget_before: Timestamp,
}

/// Whose word an outcome is: few values, so that names which somebody makes up cost nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Voice {
    /// The executor.
    pub(crate) reporter: u8,
    /// The session, among those of the executor.
    pub(crate) session: u8,
}

impl Outcome {
    /// Whether it counts against the capability. A failure that nobody is blamed for does: else
    /// leaving the blame out would make every capability look perfect.
    pub(crate) fn is_fault(&self) -> bool {
        !self.success
            && match self.blame {
                None | Some(FaultAttribution::Capability | FaultAttribution::Service) => true,
                Some(
                    FaultAttribution::Caller
                    | FaultAttribution::Guardian
                    | FaultAttribution::Executor,
                ) => false,
            }
    }

    /// What it tells about the capability.
    pub(crate) fn end(&self) -> End {
        match (self.success, self.is_fault()) {
            (true, _) => End::Success,
            (false, true) => End::Fault,
            (false, false) => End::Neither,
        }
    }
}

/// What came of recording an outcome.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Recorded {
    /// It counts from now on.
    New,
    /// This run was reported before; nothing changed.
    Again,
    /// The version has this digest, not the reported one; nothing changed.
    OtherDigest(Digest),
    /// There is no such version; nothing changed.
    Unknown,
}

/// The number of a change; later changes have larger numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Seq(pub(crate) i64);

/// What an index has yet to follow.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Outbox {
    /// Identity of this store; an index made from another one is worthless.
    pub(crate) identity: String,
    /// The last change there is.
    pub(crate) latest: Seq,
    /// How many capabilities have a live version.
    pub(crate) live: u64,
    /// The next changes, in order.
    pub(crate) changes: Vec<(Seq, CapabilityId)>,
}

/// A database of documents, versions and outcomes.
///
/// What a method acknowledges is on disk. Methods are atomic: a crash leaves all of one or
/// nothing. Every method can be called by many at once.
#[async_trait]
pub(crate) trait Store:
    EmbeddingStore + IndexStore + LifeStore + RelationStore + TokenStore + std::fmt::Debug
{
    /// Stores a version, makes it the live one where it is newest, and appends a change for it and
    /// for everything that leads to it; unless the version or the kebab-case name is taken, or the
    /// name belongs to others. A name that is free belongs to its first publisher. Of many that
    /// publish one version at once with different digests, or claim one name, exactly one gets
    /// [`Publication::Created`].
    async fn publish(&self, new: &NewVersion, by: &Actor) -> Result<Publication, Error>;

    /// Every version of a capability, newest first; none when the name is unknown.
    async fn versions(&self, name: &CapabilityName) -> Result<Vec<Entry>, Error>;

    /// Live versions, in order of name. A capability of which all versions are yanked has none.
    async fn heads(&self, which: Heads<'_>) -> Result<Vec<Entry>, Error>;

    /// The bytes of documents as they are now. A version whose bytes are gone is left out.
    /// Nobody but [`crate::documents`] may use them before their digest was checked.
    async fn sources(&self, ids: &[VersionId]) -> Result<BTreeMap<VersionId, Vec<u8>>, Error>;

    /// Counts the outcome of a run, once.
    async fn record(&self, outcome: &Outcome) -> Result<Recorded, Error>;

    /// What is known of the runs of a version beside its [`Stats`].
    async fn record_of(&self, version: VersionId) -> Result<Record, Error>;

    /// The capabilities of which others may have reported runs behind the number `after`, and the
    /// last number there is. A report may be seen after one that has a larger number.
    async fn reported(&self, after: i64) -> Result<(i64, Vec<CapabilityId>), Error> {
        // Nobody else reports to a store that is not shared.
        Ok((after, Vec::new()))
    }

    /// At most `limit` changes behind `after`.
    async fn outbox(&self, after: Seq, limit: u32) -> Result<Outbox, Error>;

    /// Asks the connection that writes whether it can. After a failure it writes something that changes
    /// nothing to find out.
    async fn check_writer(&self) -> Result<(), Error>;

    /// Whether other registries may use this database at the same time.
    fn is_shared(&self) -> bool;

    /// Waits for what is under way and lets the database go; later calls fail.
    async fn close(&self);
}

/// Opens a database.
///
/// # Errors
/// When it cannot be opened, is no registry database, or was made by a newer version.
pub(crate) async fn open(database: &Database) -> Result<Arc<dyn Store>, Error> {
    let address = database.0.as_str();
    let path = match address.split_once(':') {
        Some(("postgres" | "postgresql", _)) => {
            return Ok(Arc::new(postgres::Postgres::open(address).await?));
        }
        Some(("sqlite", path)) => path.strip_prefix("//").unwrap_or(path),
        // A letter alone is a drive, not a scheme.
        Some((scheme, _)) if scheme.len() > 1 && !scheme.contains(['/', '\\', '.']) => {
            return Err(Error::unusable(format!("no database is known for `{scheme}:`")));
        }
        _ => address,
    };
    Ok(Arc::new(sqlite::Sqlite::open(path.as_ref()).await?))
}

/// Why the store failed. What the engine said is for the log, not for callers.
#[derive(Debug, thiserror::Error)]
#[error("{source}")]
pub struct Error {
    kind: ErrorKind,
    source: Box<dyn std::error::Error + Send + Sync>,
}

/// What a failure of the store means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// It did not answer as it should; it may later.
    Unavailable,
    /// It cannot be opened.
    Unusable,
    /// A newer version of the program made it.
    Newer,
    /// It has not what was there before.
    Lost,
}

impl Error {
    pub(crate) fn unavailable(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self { kind: ErrorKind::Unavailable, source: source.into() }
    }

    pub(crate) fn unusable(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self { kind: ErrorKind::Unusable, source: source.into() }
    }

    pub(crate) fn newer(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self { kind: ErrorKind::Newer, source: source.into() }
    }

    pub(crate) fn lost(why: String) -> Self {
        Self { kind: ErrorKind::Lost, source: why.into() }
    }

    /// What it means.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// What the database or its driver said.
    pub(crate) fn detail(&self) -> String {
        self.source.to_string()
    }
}

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        Self::unavailable(error)
    }
}
