//! The index in this process: Qdrant Edge.
//!
//! The constraints of the engine shape this module. `flush` panics during a concurrent update, so one
//! thread, the writer, makes every change and every flush, and does not flush while another thread rebuilds
//! the engine's graph; queries only read, on threads of their own. `load` does not replay the engine's own
//! log, so a crash loses a change unless it was flushed, and the caller records how far the flushes are.
//! The log is never truncated, so the index wears out and is then rebuilt alongside the old one.

mod filter;
mod hnsw_rebuild;
mod index_dir;
mod space;
#[cfg(test)]
mod tests;
mod writer_thread;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use async_trait::async_trait;
use qdrant_edge::{
    Condition, CountRequest, EdgeShard, JsonPath, NamedQuery, PointId, QueryEnum, QueryRequest,
    ScoredPoint, ScoringQuery, VectorInternal, WithPayloadInterface, WithVector,
};
use rayon::iter::{IntoParallelIterator as _, ParallelIterator as _};
use rayon::{ThreadPool, ThreadPoolBuilder};
use tokio::sync::oneshot;

use self::filter::EngineFilter;
use self::hnsw_rebuild::GraphPolicy;
use self::index_dir::IndexDir;
pub(super) use self::index_dir::read_store_identity;
use self::space::IndexDisk;
use self::writer_thread::{WriterCommand, WriterHandle};
use super::filter::CARD;
use super::{
    Error, IndexChange, IndexIdentity, IndexPoint, IndexState, PointFilter, QueryResults,
    SearchQuery, VectorHit, VectorIndex, merge_hits,
};
use crate::bm25::SparseVector;
use crate::store::{CapabilityId, ChangeSeq};

const DENSE: &str = "dense";
const SPARSE: &str = "sparse";

/// One index with its files. Its properties are stored with it, so that a query is never compared with
/// vectors of another embedder.
#[derive(Debug)]
struct IndexGeneration {
    number: u64,
    identity: IndexIdentity,
    shard: EdgeShard,
}

/// The generation that queries are answered from; nothing until the first one is built.
#[derive(Debug, Clone, Default)]
struct CurrentGeneration(Arc<RwLock<Option<Arc<IndexGeneration>>>>);

impl CurrentGeneration {
    fn get(&self) -> Option<Arc<IndexGeneration>> {
        // An `Option` is replaced whole or not at all, so a panic elsewhere harms nothing.
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn replace(&self, generation: Option<Arc<IndexGeneration>>) -> Option<Arc<IndexGeneration>> {
        let mut current = self.0.write().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *current, generation)
    }
}

#[derive(Debug)]
pub(crate) struct EdgeIndex {
    current: CurrentGeneration,
    writer: WriterHandle,
    readers: Arc<ThreadPool>,
}

impl EdgeIndex {
    /// Opens the index in `path`; unusable content counts as no index.
    pub(super) async fn open(path: PathBuf, store: String) -> Result<Self, Error> {
        let disk = IndexDisk::for_path(&path);
        Self::open_with(path, store, GraphPolicy::default(), disk).await
    }

    async fn open_with(
        path: PathBuf,
        store: String,
        habits: GraphPolicy,
        disk: IndexDisk,
    ) -> Result<Self, Error> {
        let current = CurrentGeneration::default();
        let owner = {
            let current = current.clone();
            let start = move || {
                Ok(WriterHandle::start(IndexDir::open(&path, &store)?, current, habits, disk))
            };
            run_blocking(start).await?
        };
        // As many as there are processors: the engine computes, and does not wait.
        let readers = ThreadPoolBuilder::new()
            .thread_name(|_| "search-read".to_owned())
            // Who waits for the answer learns that there is none.
            .panic_handler(|_| tracing::error!("a query of the search index panicked"))
            .build()
            .map_err(failed)?;
        Ok(Self { current, writer: owner, readers: Arc::new(readers) })
    }
}

#[async_trait]
impl VectorIndex for EdgeIndex {
    fn current_reader(&self) -> Result<Arc<dyn super::IndexReader>, Error> {
        let generation = self.current.get().ok_or(Error::NotReady)?;
        Ok(Arc::new(EdgeReader { generation, readers: Arc::clone(&self.readers) }))
    }

    async fn refresh(&self) -> Result<(), Error> {
        // The folder is locked: no other process writes to it.
        Ok(())
    }

    fn is_shared(&self) -> bool {
        false
    }

    async fn apply(&self, changes: Vec<IndexChange>, as_of: ChangeSeq) -> Result<(), Error> {
        self.writer.send(|reply| WriterCommand::Apply(changes, as_of, reply)).await
    }

    async fn flush(&self) -> Result<bool, Error> {
        self.writer.send(WriterCommand::Flush).await
    }

    async fn begin(&self, identity: IndexIdentity) -> Result<(), Error> {
        self.writer.send(|reply| WriterCommand::Begin(identity, reply)).await
    }

    async fn stage(&self, changes: Vec<IndexChange>, as_of: ChangeSeq) -> Result<(), Error> {
        self.writer.send(|reply| WriterCommand::Stage(changes, as_of, reply)).await
    }

    async fn commit(&self) -> Result<(), Error> {
        self.writer.send(WriterCommand::Commit).await
    }

    async fn status(&self) -> Result<IndexState, Error> {
        self.writer.send(WriterCommand::Status).await
    }

    async fn close(&self) {
        if let Err(error) = self.writer.send(WriterCommand::Close).await {
            tracing::error!(%error, "the search index was not closed cleanly");
        }
    }
}

/// A generation as queries meet it.
#[derive(Debug)]
struct EdgeReader {
    generation: Arc<IndexGeneration>,
    readers: Arc<ThreadPool>,
}

#[async_trait]
impl super::IndexReader for EdgeReader {
    fn identity(&self) -> &IndexIdentity {
        &self.generation.identity
    }

    async fn query(
        &self,
        probes: Vec<SearchQuery>,
        filter: PointFilter,
        limit: usize,
    ) -> Result<QueryResults, Error> {
        let filter = match filter == PointFilter::default() {
            true => EngineFilter::None,
            false => self.read(move |shard| filter::to_engine_filter(shard, &filter)).await?,
        };
        let filter = match filter {
            EngineFilter::None => None,
            EngineFilter::Must(filter) => Some(filter),
            EngineFilter::Never => {
                return Ok(QueryResults {
                    found: vec![Vec::new(); probes.len()],
                    matching_points: 0,
                });
            }
        };
        self.read(move |shard| {
            // Lists do not wait for one another where there are processors.
            let find = |probe: SearchQuery| {
                let (nearest, best) = rayon::join(
                    || nearest(shard, probe.dense.clone(), filter.clone(), limit),
                    || best(shard, &probe.sparse, filter.clone(), limit),
                );
                with_cosines(shard, probe.dense, nearest?, best?)
            };
            let found = probes.into_par_iter().map(find).collect::<Result<_, _>>()?;
            let matching_points = guard(|| shard.count(CountRequest { filter, exact: false }))?;
            Ok(QueryResults { found, matching_points })
        })
        .await
    }

    async fn cards(
        &self,
        capabilities: Vec<CapabilityId>,
    ) -> Result<BTreeMap<CapabilityId, String>, Error> {
        self.read(move |shard| {
            let ids: Vec<_> = capabilities.into_iter().map(point_id).collect();
            let card = CARD.parse::<JsonPath>().map_err(|()| failed("malformed field"))?;
            let wanted = WithPayloadInterface::Fields(vec![card]);
            let records = guard(|| shard.retrieve(&ids, Some(wanted), None))?;
            let cards =
                records.into_iter().filter_map(|record| match record.payload?.0.remove(CARD)? {
                    serde_json::Value::String(card) => {
                        Some(to_capability(record.id).map(|id| (id, card)))
                    }
                    _ => None,
                });
            cards.collect()
        })
        .await
    }
}

impl EdgeReader {
    /// Asks the engine on a thread that may wait, when it is this job's turn.
    async fn read<T: Send + 'static>(
        &self,
        job: impl FnOnce(&EdgeShard) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (reply, answer) = oneshot::channel();
        let generation = Arc::clone(&self.generation);
        self.readers.spawn(move || {
            // A cancelled caller does not wait for a response.
            if !reply.is_closed() {
                let _ = reply.send(job(&generation.shard));
            }
        });
        answer.await.map_err(failed)?
    }
}

/// The points nearest by cosine.
fn nearest(
    shard: &EdgeShard,
    probe: Option<Vec<f32>>,
    filter: Option<qdrant_edge::Filter>,
    limit: usize,
) -> Result<Vec<ScoredPoint>, Error> {
    let Some(probe) = probe else { return Ok(Vec::new()) };
    search(shard, DENSE, VectorInternal::Dense(probe), filter, limit)
}

/// The points that are best by BM25.
fn best(
    shard: &EdgeShard,
    probe: &SparseVector,
    filter: Option<qdrant_edge::Filter>,
    limit: usize,
) -> Result<Vec<ScoredPoint>, Error> {
    if probe.is_empty() {
        return Ok(Vec::new());
    }
    search(shard, SPARSE, VectorInternal::Sparse(to_sparse(probe)?), filter, limit)
}

/// All hits of a probe, with the cosines of those that were found by words alone.
fn with_cosines(
    shard: &EdgeShard,
    probe: Option<Vec<f32>>,
    nearest: Vec<ScoredPoint>,
    best: Vec<ScoredPoint>,
) -> Result<Vec<VectorHit>, Error> {
    let near: BTreeSet<_> = nearest.iter().map(|point| point.id).collect();
    let others: Vec<_> =
        best.iter().map(|point| point.id).filter(|id| !near.contains(id)).collect();
    let far = match others.len() {
        0 => Vec::new(),
        count => {
            let those = Condition::HasId(others.into_iter().collect());
            self::nearest(shard, probe, Some(qdrant_edge::Filter::new_must(those)), count)?
        }
    };
    let to_pair = |point: ScoredPoint| Ok((to_capability(point.id)?, point.score));
    merge_hits(nearest.into_iter().chain(far).map(to_pair), best.into_iter().map(to_pair))
}

fn search(
    shard: &EdgeShard,
    vector: &str,
    query: VectorInternal,
    filter: Option<qdrant_edge::Filter>,
    limit: usize,
) -> Result<Vec<ScoredPoint>, Error> {
    let query = NamedQuery { query, using: Some(vector.to_owned()) };
    let request = QueryRequest {
        prefetches: Vec::new(),
        query: Some(ScoringQuery::Vector(QueryEnum::Nearest(query))),
        filter,
        score_threshold: None,
        limit,
        offset: 0,
        params: None,
        with_vector: WithVector::Bool(false),
        with_payload: WithPayloadInterface::Bool(false),
    };
    guard(|| shard.query(request))
}

fn to_sparse(vector: &SparseVector) -> Result<qdrant_edge::SparseVector, Error> {
    match qdrant_edge::Vector::new_sparse(vector.indices.clone(), vector.values.clone()) {
        Ok(qdrant_edge::Vector(VectorInternal::Sparse(sparse))) => Ok(sparse),
        Ok(_) => Err(Error::Failed("a sparse vector became another kind".to_owned())),
        Err(error) => Err(failed(error)),
    }
}

fn point_id(capability: CapabilityId) -> PointId {
    PointId::NumId(capability.0.unsigned_abs())
}

fn to_capability(point: PointId) -> Result<CapabilityId, Error> {
    match point {
        PointId::NumId(id) => i64::try_from(id).map(CapabilityId).map_err(failed),
        PointId::Uuid(id) => Err(Error::Failed(format!("foreign point {id}"))),
    }
}

/// Calls the engine. It panics where it should fail, and a broken file must not end the process.
fn guard<T>(call: impl FnOnce() -> qdrant_edge::OperationResult<T>) -> Result<T, Error> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(result) => result.map_err(failed),
        Err(panic) => {
            let text = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("no message");
            Err(Error::Failed(format!("the engine panicked: {text}")))
        }
    }
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::Failed(error.to_string())
}

async fn run_blocking<T: Send + 'static>(
    call: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    tokio::task::spawn_blocking(call).await.map_err(failed)?
}
