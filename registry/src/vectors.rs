//! The index that finds capabilities by meaning and by words.
//!
//! It holds one point per capability, made from the document of its live version. It is derived:
//! whatever happens to it, it is built again from the store. Engines only fetch; how the two
//! scores become one is decided in [`crate::rank_fusion`], so every engine ranks alike.

mod memory;
#[cfg(feature = "qdrant-server")]
mod qdrant;

use std::collections::BTreeMap;
use std::sync::Arc;

use a2s::{Secret, TaskFormat};
use async_trait::async_trait;
use reqwest::Url;
use semver::{Version, VersionReq};

use crate::bm25::SparseVector;
use crate::embed::SimilarityScale;
use crate::store::indexes::IndexId;
use crate::store::{CapabilityId, ChangeSeq, RegistryStore};

/// The location of a search index.
#[derive(Debug, Clone)]
pub enum IndexLocation {
    /// The memory of this process, with a copy in the database.
    Memory,
    /// A Qdrant server.
    Qdrant(QdrantConfig),
}

/// A Qdrant server or cluster that stores the search index.
#[derive(Debug, Clone)]
pub struct QdrantConfig {
    /// The URL of its gRPC API, such as `https://qdrant.example:6334`. The port of its REST API, usually
    /// 6333, is a different one.
    pub url: Url,
    /// The API key, which every request contains.
    pub key: Option<Secret>,
    /// The number of shards of a new index; the server decides when absent.
    pub shards: Option<u32>,
    /// The number of copies of each shard of a new index; the server decides when absent.
    pub replicas: Option<u32>,
}

/// A capability in the index. Its text form lacks the id and the vectors, which are stored as bytes.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct IndexPoint {
    #[serde(skip)]
    pub(crate) capability: CapabilityId,
    /// The dense vector, of length one; absent when the text has no meaning to the embedder.
    #[serde(skip)]
    pub(crate) dense: Option<Vec<f32>>,
    #[serde(skip)]
    pub(crate) sparse: SparseVector,
    /// The services it talks to, as domains.
    pub(crate) domains: Vec<String>,
    /// The permissions that a caller must hold.
    pub(crate) permissions: Vec<String>,
    /// Set when a run changes nothing.
    pub(crate) read_only: bool,
    /// The formats of its tasks.
    pub(crate) formats: Vec<TaskFormat>,
    /// The complexity: 0 low, 1 medium, 2 high.
    pub(crate) complexity: u8,
    /// All names of each author.
    pub(crate) authors: Vec<String>,
    /// The live version.
    pub(crate) version: Version,
    /// The summary of its document for searches. Opaque here.
    pub(crate) card: Option<String>,
}

/// A change of the index.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum IndexChange {
    /// Adds a point, or replaces the point of this capability.
    Upsert(Box<IndexPoint>),
    /// Removes the point, if there is one.
    Remove(CapabilityId),
}

impl IndexChange {
    /// The capability that it changes.
    pub(crate) fn capability(&self) -> CapabilityId {
        match self {
            Self::Upsert(point) => point.capability,
            Self::Remove(capability) => *capability,
        }
    }
}

/// One text to search with: the whole query or a clause of it.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchQuery {
    /// The dense vector of the text; absent when the text has no meaning to the embedder.
    pub dense: Option<Vec<f32>>,
    /// The terms of the text.
    pub sparse: SparseVector,
}

/// The conditions that every found point meets.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct PointFilter {
    /// The allowed domains. An empty list allows all.
    pub(crate) domains: Vec<String>,
    /// Needs only these permissions, when they are given.
    pub(crate) held_permissions: Option<Vec<String>>,
    /// Set when only capabilities that change nothing match.
    pub(crate) read_only: bool,
    /// The allowed formats. An empty list allows all.
    pub(crate) formats: Vec<TaskFormat>,
    /// The maximum complexity.
    pub(crate) max_complexity: Option<u8>,
    /// A name of an author.
    pub(crate) author: Option<String>,
    /// The allowed range of versions.
    pub(crate) version: Option<VersionReq>,
}

impl PointFilter {
    /// Returns true when a point meets all conditions.
    fn matches(&self, point: &IndexPoint) -> bool {
        let is_one_of = |wanted: &[String], values: &[String]| {
            wanted.is_empty() || values.iter().any(|value| wanted.contains(value))
        };
        let may_run = |held: &Vec<String>| point.permissions.iter().all(|it| held.contains(it));
        is_one_of(&self.domains, &point.domains)
            && self.held_permissions.as_ref().is_none_or(may_run)
            && (!self.read_only || point.read_only)
            && (self.formats.is_empty() || point.formats.iter().any(|it| self.formats.contains(it)))
            && self.max_complexity.is_none_or(|most| point.complexity <= most)
            && self.author.as_ref().is_none_or(|author| point.authors.contains(author))
            && self.version.as_ref().is_none_or(|range| range.matches(&point.version))
    }
}

/// A point that a probe found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VectorHit {
    /// The capability.
    pub capability: CapabilityId,
    /// The cosine of probe and point; 0 when one of them has no dense vector.
    pub cosine: f32,
    /// The BM25 score of probe and point; 0 when they share no word, or the point is not among the best.
    pub bm25: f32,
    /// The cosine of probe and capability by the sentence encoder, when both have a vector of it. An index
    /// does not know it.
    pub sentence: Option<f32>,
}

/// One list of the hits of a probe, each with both scores: by meaning and by words. A point without a
/// vector has cosine 0.
#[cfg(feature = "qdrant-server")]
fn merge_hits(
    near: impl IntoIterator<Item = Result<(CapabilityId, f32), Error>>,
    best: impl IntoIterator<Item = Result<(CapabilityId, f32), Error>>,
) -> Result<Vec<VectorHit>, Error> {
    let mut found: BTreeMap<CapabilityId, VectorHit> = BTreeMap::new();
    let nothing = |capability| VectorHit { capability, cosine: 0.0, bm25: 0.0, sentence: None };
    for point in near {
        let (capability, cosine) = point?;
        found.entry(capability).or_insert_with(|| nothing(capability)).cosine = cosine;
    }
    for point in best {
        let (capability, bm25) = point?;
        found.entry(capability).or_insert_with(|| nothing(capability)).bm25 = bm25;
    }
    Ok(found.into_values().collect())
}

/// The results of a query.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct QueryResults {
    /// The hits of each probe, in no particular order.
    pub(crate) found: Vec<Vec<VectorHit>>,
    /// The approximate number of points that pass the filter.
    pub(crate) matching_points: usize,
}

/// The state of the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IndexState {
    /// The number of its points; none when there is no index.
    pub(crate) points: Option<usize>,
    /// The number of changes that its graph lacks: at most this many points are compared one by one.
    pub(crate) fresh: usize,
    /// The last change that the index knows by itself: of its newest point, when other registries may change
    /// the index, or of its copy when it was read.
    pub(crate) as_of: Option<ChangeSeq>,
}

/// The properties of an index, fixed when it is built.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct IndexIdentity {
    /// The id from its store.
    pub(crate) id: IndexId,
    /// The store of the points. An index of another store cannot be used.
    pub(crate) store: String,
    /// The embedder of the dense vectors. An index of another embedder serves queries until a new one
    /// exists.
    pub(crate) embedder: String,
    /// The length of the dense vectors.
    pub(crate) dimensions: usize,
    /// The scale of their cosines.
    pub(crate) scale: SimilarityScale,
    /// The format of these properties, of points and of keywords. A change of any of them raises
    /// [`FORMAT`]. An index of another format cannot be used.
    pub(crate) format: u32,
}

/// The current format.
pub(crate) const FORMAT: u32 = 7;

/// An engine that finds points.
///
/// Many callers can query it at any time. Only the indexer calls the other methods, one at a time.
#[async_trait]
pub(crate) trait VectorIndex: Send + Sync + std::fmt::Debug {
    /// Returns the live index.
    ///
    /// A caller that holds it uses this index, even if another one replaces it in between. So it never
    /// compares vectors for its [`IndexIdentity`] with vectors of another embedder.
    ///
    /// # Errors
    /// Returns [`Error::NotReady`] when there is no index yet.
    fn current_reader(&self) -> Result<Arc<dyn IndexReader>, Error>;

    /// Determines the index that serves queries now: on a server, other registries may have replaced it.
    async fn refresh(&self) -> Result<(), Error>;

    /// Returns true when other registries may change or replace the index.
    fn is_shared(&self) -> bool;

    /// Applies changes that were read from the store when `as_of` was its last change or later. Queries see
    /// them at once; a crash may lose them until the next `flush`. If others change the index as well,
    /// points of a later change stay, however late a change arrives.
    async fn apply(&self, changes: Vec<IndexChange>, as_of: ChangeSeq) -> Result<(), Error>;

    /// Writes every change so far to disk.
    async fn flush(&self) -> Result<(), Error>;

    /// Begins a new index alongside the live one, in place of any that was begun before.
    async fn begin(&self, identity: IndexIdentity) -> Result<(), Error>;

    /// Applies changes to the new index; queries do not see them yet.
    async fn stage(&self, changes: Vec<IndexChange>, as_of: ChangeSeq) -> Result<(), Error>;

    /// Writes the new index to disk and replaces the old one with it. The old one serves queries until
    /// then, and stays when this fails.
    async fn commit(&self) -> Result<(), Error>;

    /// The state of the live index.
    async fn status(&self) -> Result<IndexState, Error>;
}

/// An index that serves queries as long as it is held.
#[async_trait]
pub(crate) trait IndexReader: Send + Sync + std::fmt::Debug {
    /// The properties of the index.
    fn identity(&self) -> &IndexIdentity;

    /// For each probe the `limit` points nearest by cosine and the `limit` best by BM25, each with both
    /// scores. Queries see every change whose `apply` has returned.
    async fn query(
        &self,
        probes: Vec<SearchQuery>,
        filter: PointFilter,
        limit: usize,
    ) -> Result<QueryResults, Error>;

    /// Returns the cards of the points that have one.
    async fn cards(
        &self,
        capabilities: Vec<CapabilityId>,
    ) -> Result<BTreeMap<CapabilityId, String>, Error>;
}

/// Opens the index of a store with this identity, whatever its embedder. It can be used even if its location
/// is empty: then `status` reports that, and a rebuild fixes it. If there are several indexes, the one of the
/// first embedder in `embedders` that has one answers.
///
/// # Errors
/// When the server can never be used with this configuration. A server that is away may come back.
pub(crate) async fn open(
    place: IndexLocation,
    store: Arc<dyn RegistryStore>,
    identity: String,
    embedders: Vec<String>,
) -> Result<Arc<dyn VectorIndex>, Error> {
    match place {
        IndexLocation::Memory => {
            Ok(Arc::new(memory::MemoryIndex::open(store, identity, embedders)?))
        }
        #[cfg(feature = "qdrant-server")]
        IndexLocation::Qdrant(config) => {
            Ok(Arc::new(qdrant::QdrantIndex::open(config, identity, embedders).await?))
        }
        #[cfg(not(feature = "qdrant-server"))]
        IndexLocation::Qdrant(_) => Err(Error::NotBuilt("qdrant-server")),
    }
}

/// An error of the index. The engine's message is for the log, not for callers.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no index yet; it is being built.
    #[error("the index is not built yet")]
    NotReady,
    /// The engine failed.
    #[error("{0}")]
    Failed(String),
    /// The server, or the database with the copy, does not respond; it may respond later.
    #[error("{0}")]
    Unavailable(String),
    /// The server will not answer until an operator fixes it or the configuration.
    #[error("{0}")]
    Unusable(String),
    /// This build lacks the feature with the engine.
    #[error("this build has no engine for this index; build it with the feature `{0}`")]
    NotBuilt(&'static str),
}

impl Error {
    /// A copy of the error for another waiting caller.
    pub(crate) fn duplicate(&self) -> Self {
        match self {
            Self::NotReady => Self::NotReady,
            Self::Unavailable(text) => Self::Unavailable(text.clone()),
            Self::Unusable(text) => Self::Unusable(text.clone()),
            Self::NotBuilt(feature) => Self::NotBuilt(feature),
            Self::Failed(text) => Self::Failed(text.clone()),
        }
    }
}
