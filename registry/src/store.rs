//! The store of documents, versions and outcomes.
//!
//! The store knows only the bytes of documents: [`crate::documents`] alone decides if stored bytes still
//! are the published ones.

pub(crate) mod dependency_rows;
pub(crate) mod embeddings;
pub(crate) mod indexes;
pub(crate) mod learning;
pub(crate) mod lifecycle;
mod row_mapping;
mod sql;
pub(crate) mod tokens;

use std::collections::BTreeMap;
use std::sync::Arc;

use a2s::{CandidateVersion, CapabilityName, Complexity, Digest, VersionInfo};
use a2s_api::TokenSubject;
use a2s_api::{Deprecation, FailureClass, FailureCount, FaultAttribution};
use async_trait::async_trait;
use jiff::Timestamp;
use semver::Version;
use uuid::Uuid;

pub use database::{Error, ErrorKind};

use self::dependency_rows::{RelationRows, RelationStore};
use self::embeddings::EmbeddingStore;
use self::indexes::IndexStore;
use self::learning::LearningStore;
use self::lifecycle::{AuditActor, LifecycleStore};
use self::sql::SqlStore;
use self::tokens::TokenStore;
use crate::latency_histogram::LatencyHistogram;
use crate::outcome_weighting::{RunEnd, RunWeight};

/// The address of a database: the path of an SQLite file, or a `sqlite:` URL, which is created when it is
/// missing; or a `postgres:` or `postgresql:` URL, whose database must exist.
///
/// It is never shown, because it may contain a password.
#[derive(Clone, PartialEq, Eq)]
pub struct DatabaseAddress(String);

impl From<String> for DatabaseAddress {
    fn from(address: String) -> Self {
        Self(address)
    }
}

impl From<&str> for DatabaseAddress {
    fn from(address: &str) -> Self {
        Self(address.to_owned())
    }
}

impl std::fmt::Debug for DatabaseAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0.split_once("://") {
            Some((scheme, _)) => write!(f, "{scheme}://…"),
            None => f.write_str(&self.0),
        }
    }
}

/// The number of remembered runs, so that a repeated report counts once.
const MAX_REMEMBERED_RUNS: i64 = 1_000_000;

/// The id of a capability in this store. It is never used for another one, even after a manual deletion.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct CapabilityId(pub i64);

/// The id of a version in this store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct VersionId(pub(crate) i64);

/// The data of a version without its document.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct VersionEntry {
    pub(crate) capability: CapabilityId,
    pub(crate) id: VersionId,
    pub(crate) name: CapabilityName,
    pub(crate) version: Version,
    /// The digest that was recorded when it was published.
    pub(crate) digest: Digest,
    pub(crate) complexity: Complexity,
    /// The number of permissions that its caller must hold.
    pub(crate) permissions: u32,
    pub(crate) published_at: Timestamp,
    pub(crate) yanked: bool,
    pub(crate) deprecated: Option<Deprecation>,
    pub(crate) stats: RunStats,
}

impl CandidateVersion for VersionEntry {
    fn version(&self) -> &Version {
        &self.version
    }

    fn checksum(&self) -> Digest {
        self.digest
    }

    fn is_yanked(&self) -> bool {
        self.yanked
    }
}

impl VersionEntry {
    /// Converts the entry to the form that the linker uses.
    pub(crate) fn to_version_info(&self) -> VersionInfo {
        VersionInfo {
            version: self.version.clone(),
            checksum: self.digest,
            yanked: self.yanked,
            deprecated: self.deprecated.clone(),
        }
    }
}

/// Statistics of the runs of a version.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct RunStats {
    /// The number of all runs.
    pub(crate) runs: u64,
    /// The successful ones.
    pub(crate) successes: u64,
    /// The runs that failed through the capability or its services.
    pub(crate) faults: u64,
    /// Their total weight, and the time of that weight (milliseconds since 1970).
    pub(crate) weight: RunWeight,
    pub(crate) weighed_at: i64,
}

impl RunStats {
    /// The weights of the runs at another time.
    pub(crate) fn weight_at(&self, now: Timestamp) -> RunWeight {
        self.weight.decayed(self.weighed_at, now.as_millisecond())
    }
}

/// Details of the runs of a version.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct RunDetails {
    /// The failures, the most frequent first.
    pub(crate) failures: Vec<FailureCount>,
    /// The durations of successful runs.
    pub(crate) latency: LatencyHistogram,
    /// The number of executors that have reported, as far as they can be distinguished.
    pub(crate) reporters: u64,
    /// The end of the last run.
    pub(crate) last_run: Option<Timestamp>,
}

/// A new version to store.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NewVersion {
    pub(crate) name: CapabilityName,
    pub(crate) version: Version,
    pub(crate) digest: Digest,
    /// The source text, in UTF-8.
    pub(crate) source: String,
    pub(crate) complexity: Complexity,
    /// The number of permissions that its caller must hold.
    pub(crate) permissions: u32,
    pub(crate) relations: RelationRows,
}

/// The result of storing a version.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum PublicationResult {
    /// The version is stored; the change has this number.
    Created(ChangeSeq),
    /// The version exists with the same digest; nothing changed.
    Same,
    /// The version exists with this other digest; nothing changed.
    Conflict(Digest),
    /// This published version has the same precedence: it differs in build metadata alone; nothing changed.
    SamePrecedence(Version),
    /// The kebab-case form of the name belongs to this capability; nothing changed.
    NameTaken(String),
    /// The name looks like this one, which belongs to others; nothing changed.
    LookAlike(CapabilityName),
    /// The name belongs to these owners; nothing changed.
    NotOwner(Vec<TokenSubject>),
    /// The mirror has not created this name; nothing changed. The value is the origin of the name.
    OtherOrigin(Option<String>),
    /// The publisher has no room for another version; nothing changed.
    ShareUsedUp,
}

/// A selection of live versions.
#[derive(Debug, Clone, Copy)]
pub(crate) enum LiveVersionQuery<'a> {
    /// The live versions of these capabilities.
    ByIds(&'a [CapabilityId]),
    /// At most a number of versions, in order of name, after a name.
    AfterName(Option<&'a str>, u32),
}

/// The outcome of one run, as the executor reports it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RunOutcome {
    pub(crate) run: Uuid,
    pub(crate) name: CapabilityName,
    pub(crate) version: Version,
    pub(crate) digest: Digest,
    /// The failure, unless the run succeeded.
    pub(crate) failure: Option<RunFailure>,
    pub(crate) duration_ms: u64,
    pub(crate) ended_at: Timestamp,
    pub(crate) reporter_key: ReporterKey,
    /// The time of recording.
    pub(crate) at: Timestamp,
    /// The store deletes runs that were recorded before this time, because they cannot be reported again.
    pub(crate) forget_before: Timestamp,
}

/// The failure of a run, as far as the executor reports it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RunFailure {
    pub(crate) code: Option<String>,
    pub(crate) class: Option<FailureClass>,
    pub(crate) blame: Option<FaultAttribution>,
}

/// The key of the reporter: it has few values, so that invented names cost nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReporterKey {
    /// The slot of the executor.
    pub(crate) reporter: u8,
    /// The slot of the session, among those of the executor.
    pub(crate) session: u8,
}

impl RunOutcome {
    /// The outcome for the weights. A failure without attribution counts against the capability: otherwise
    /// reports without it would make every capability look perfect.
    pub(crate) fn run_end(&self) -> RunEnd {
        match self.failure.as_ref().map(|failure| failure.blame) {
            None => RunEnd::Success,
            Some(None | Some(FaultAttribution::Capability | FaultAttribution::Service)) => {
                RunEnd::Fault
            }
            Some(Some(
                FaultAttribution::Caller | FaultAttribution::Guardian | FaultAttribution::Executor,
            )) => RunEnd::Neutral,
        }
    }
}

/// The result of recording an outcome.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum RecordResult {
    /// The run counts from now on.
    New,
    /// This run was reported before; nothing changed.
    Duplicate,
    /// The version has this digest instead of the reported one; nothing changed.
    OtherDigest(Digest),
    /// There is no such version; nothing changed.
    Unknown,
}

/// The number of a change; later changes have larger numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct ChangeSeq(pub(crate) i64);

/// The changes that an index has to follow.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ChangeOutbox {
    /// The identity of this store. An index of another store cannot be used.
    pub(crate) identity: String,
    /// The number of the last change.
    pub(crate) latest: ChangeSeq,
    /// The next changes, in order.
    pub(crate) changes: Vec<(ChangeSeq, CapabilityId)>,
}

/// The state of a complete index.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct IndexTarget {
    /// The number of the last change.
    pub(crate) latest: ChangeSeq,
    /// The number of capabilities with a live version at that change.
    pub(crate) live_count: u64,
}

/// A database of documents, versions and outcomes.
///
/// Acknowledged changes are on disk. Methods are atomic: after a crash, all of a change is there or
/// nothing. Every method can be called concurrently.
#[async_trait]
pub(crate) trait RegistryStore:
    EmbeddingStore
    + IndexStore
    + LearningStore
    + LifecycleStore
    + RelationStore
    + TokenStore
    + std::fmt::Debug
{
    /// Stores a version. Makes it the live one when it is the newest, and appends a change for it and for
    /// all its direct and indirect dependents. Stores nothing when the version or the kebab-case name is
    /// taken, or the name belongs to others. A free name belongs to its first publisher. When many callers
    /// publish one version at once with different digests, or claim one name, exactly one gets
    /// [`PublicationResult::Created`].
    async fn publish(&self, new: &NewVersion, by: &AuditActor) -> Result<PublicationResult, Error>;

    /// Returns all versions of a capability, the newest first; none when the name is unknown.
    async fn list_versions(&self, name: &CapabilityName) -> Result<Vec<VersionEntry>, Error>;

    /// Returns live versions, in order of name. A capability with only yanked versions has none.
    async fn live_versions(&self, which: LiveVersionQuery<'_>) -> Result<Vec<VersionEntry>, Error>;

    /// The current bytes of documents. A version whose bytes are gone is left out. Only
    /// [`crate::documents`] may use them before their digest was checked.
    async fn load_sources(&self, ids: &[VersionId]) -> Result<BTreeMap<VersionId, Vec<u8>>, Error>;

    /// Counts the outcome of a run, once.
    async fn record_outcome(&self, outcome: &RunOutcome) -> Result<RecordResult, Error>;

    /// Returns the details of the runs of a version that [`RunStats`] does not contain.
    async fn load_run_details(&self, version: VersionId) -> Result<RunDetails, Error>;

    /// The capabilities with runs that other registries may have reported after the number `after`, and the
    /// last number. A report may become visible after one with a larger number.
    async fn list_reported(&self, after: i64) -> Result<(i64, Vec<CapabilityId>), Error>;

    /// At most `limit` changes after `after`.
    async fn read_outbox(&self, after: ChangeSeq, limit: u32) -> Result<ChangeOutbox, Error>;

    /// Returns the state of a complete index now. Counts all capabilities, so it is for a start and for a new
    /// index.
    async fn count_live_versions(&self) -> Result<IndexTarget, Error>;

    /// Checks that the writing connection can write. After a failure, it writes data that changes nothing.
    async fn check_writer(&self) -> Result<(), Error>;

    /// Returns true when other registries may use this database at the same time.
    fn is_shared(&self) -> bool;

    /// Waits for running operations and closes the database; later calls fail.
    async fn close(&self);
}

/// Opens a database.
///
/// # Errors
/// Fails when the database cannot be opened or is not a registry database, or a newer version of the
/// program created it.
pub(crate) async fn open(database: &DatabaseAddress) -> Result<Arc<dyn RegistryStore>, Error> {
    let address = database.0.as_str();
    let path = match address.split_once(':') {
        Some(("postgres" | "postgresql", _)) => {
            return Ok(Arc::new(SqlStore::open_server(address).await?));
        }
        Some(("sqlite", path)) => path.strip_prefix("//").unwrap_or(path),
        // A letter alone is a drive, not a scheme.
        Some((scheme, _)) if scheme.len() > 1 && !scheme.contains(['/', '\\', '.']) => {
            return Err(Error::unusable(format!("unknown kind of database `{scheme}:`")));
        }
        _ => address,
    };
    Ok(Arc::new(SqlStore::open_file(path.as_ref()).await?))
}
