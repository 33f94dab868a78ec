//! The index in this process: Qdrant Edge.
//!
//! What the engine demands shapes this module. `flush` panics beside a concurrent update, so one
//! thread, the owner, makes every change and every flush; queries only read, on blocking threads,
//! a few at a time. `load` does not replay the engine's own log, so a change is lost in a crash
//! unless it was flushed, and the caller remembers how far that is. The log is never cut, so the
//! index wears out and is then built anew beside the old one.

mod filter;
mod folder;
mod owner;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use async_trait::async_trait;
use qdrant_edge::{
    CountRequest, EdgeShard, NamedQuery, PointId, QueryEnum, QueryRequest, ScoredPoint,
    ScoringQuery, VectorInternal, VectorStructInternal, WithPayloadInterface, WithVector,
};
use tokio::sync::Semaphore;

use self::filter::Conditions;
use self::folder::Folder;
use self::owner::{Order, Owner};
use super::{Answers, Change, Error, Filter, Found, Identity, Point, Probe, Status, Vectors};
use crate::keywords::SparseVector;
use crate::store::CapabilityId;

const DENSE: &str = "dense";
const SPARSE: &str = "sparse";

/// How many queries run at once; each keeps one blocking thread busy.
const READERS: usize = 4;

/// One index with its files. What it was made with is bound to it, so that no query can meet vectors
/// of another embedder.
#[derive(Debug)]
struct Generation {
    number: u64,
    identity: Identity,
    shard: EdgeShard,
}

/// The generation that queries are answered from; nothing until the first one is built.
#[derive(Debug, Clone, Default)]
struct Current(Arc<RwLock<Option<Arc<Generation>>>>);

impl Current {
    fn get(&self) -> Option<Arc<Generation>> {
        // An `Option` is replaced whole or not at all, so a panic elsewhere harms nothing.
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn replace(&self, generation: Option<Arc<Generation>>) -> Option<Arc<Generation>> {
        let mut current = self.0.write().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *current, generation)
    }
}

#[derive(Debug)]
pub(crate) struct Edge {
    current: Current,
    owner: Owner,
    readers: Arc<Semaphore>,
}

impl Edge {
    /// Opens what is in `path`; what cannot be used there is as good as nothing.
    pub(super) async fn open(path: PathBuf, store: String) -> Result<Self, Error> {
        let current = Current::default();
        let owner = {
            let current = current.clone();
            run_blocking(move || Ok(Owner::start(Folder::open(&path, &store)?, current))).await?
        };
        Ok(Self { current, owner, readers: Arc::new(Semaphore::new(READERS)) })
    }
}

#[async_trait]
impl Vectors for Edge {
    fn answering(&self) -> Result<Arc<dyn super::Answering>, Error> {
        let generation = self.current.get().ok_or(Error::NotReady)?;
        Ok(Arc::new(Reader { generation, readers: Arc::clone(&self.readers) }))
    }

    async fn apply(&self, changes: Vec<Change>) -> Result<(), Error> {
        self.owner.tell(|reply| Order::Apply(changes, reply)).await
    }

    async fn flush(&self) -> Result<(), Error> {
        self.owner.tell(Order::Flush).await
    }

    async fn begin(&self, identity: Identity) -> Result<(), Error> {
        self.owner.tell(|reply| Order::Begin(identity, reply)).await
    }

    async fn stage(&self, changes: Vec<Change>) -> Result<(), Error> {
        self.owner.tell(|reply| Order::Stage(changes, reply)).await
    }

    async fn commit(&self) -> Result<(), Error> {
        self.owner.tell(Order::Commit).await
    }

    async fn status(&self) -> Result<Status, Error> {
        self.owner.tell(Order::Status).await
    }

    async fn close(&self) {
        if let Err(error) = self.owner.tell(Order::Close).await {
            tracing::error!(%error, "the search index was not closed cleanly");
        }
    }
}

/// A generation as queries meet it.
#[derive(Debug)]
struct Reader {
    generation: Arc<Generation>,
    readers: Arc<Semaphore>,
}

#[async_trait]
impl super::Answering for Reader {
    fn identity(&self) -> &Identity {
        &self.generation.identity
    }

    async fn query(
        &self,
        probes: Vec<Probe>,
        filter: Filter,
        limit: usize,
    ) -> Result<Answers, Error> {
        let readers = Arc::clone(&self.readers);
        let permit = readers.acquire_owned().await.map_err(failed)?;
        let generation = Arc::clone(&self.generation);
        run_blocking(move || {
            let _permit = permit;
            let shard = &generation.shard;
            let filter = match filter::to_conditions(shard, &filter)? {
                Conditions::None => None,
                Conditions::Must(filter) => Some(filter),
                Conditions::Never => {
                    return Ok(Answers { found: vec![Vec::new(); probes.len()], among: 0 });
                }
            };
            let found = probes
                .iter()
                .map(|probe| query_one(shard, probe, filter.as_ref(), limit))
                .collect::<Result<_, _>>()?;
            let count = CountRequest { filter, exact: false };
            let among = guard(|| shard.count(count))?;
            Ok(Answers { found, among })
        })
        .await
    }
}

fn query_one(
    shard: &EdgeShard,
    probe: &Probe,
    filter: Option<&qdrant_edge::Filter>,
    limit: usize,
) -> Result<Vec<Found>, Error> {
    let mut found = BTreeMap::new();
    if !probe.sparse.is_empty() {
        let query = VectorInternal::Sparse(to_sparse(&probe.sparse)?);
        // The dense vectors come along, so that every hit has its cosine.
        let with_vector = WithVector::Selector(vec![DENSE.to_owned()]);
        for point in search(shard, SPARSE, query, with_vector, filter, limit)? {
            let cosine = match (&probe.dense, dense_of(&point)) {
                (Some(query), Some(vector)) => {
                    query.iter().zip(vector).map(|(a, b)| a * b).sum::<f32>()
                }
                _ => 0.0,
            };
            let capability = capability_of(&point)?;
            found.insert(capability, Found { capability, cosine, bm25: point.score });
        }
    }
    if let Some(dense) = &probe.dense {
        let query = VectorInternal::Dense(dense.clone());
        for point in search(shard, DENSE, query, WithVector::Bool(false), filter, limit)? {
            let capability = capability_of(&point)?;
            found
                .entry(capability)
                .or_insert(Found { capability, cosine: point.score, bm25: 0.0 })
                .cosine = point.score;
        }
    }
    Ok(found.into_values().collect())
}

fn search(
    shard: &EdgeShard,
    vector: &str,
    query: VectorInternal,
    with_vector: WithVector,
    filter: Option<&qdrant_edge::Filter>,
    limit: usize,
) -> Result<Vec<ScoredPoint>, Error> {
    let query = NamedQuery { query, using: Some(vector.to_owned()) };
    let request = QueryRequest {
        prefetches: Vec::new(),
        query: Some(ScoringQuery::Vector(QueryEnum::Nearest(query))),
        filter: filter.cloned(),
        score_threshold: None,
        limit,
        offset: 0,
        params: None,
        with_vector,
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

fn dense_of(point: &ScoredPoint) -> Option<&[f32]> {
    match point.vector.as_ref()? {
        VectorStructInternal::Named(vectors) => match vectors.get(DENSE)? {
            VectorInternal::Dense(vector) => Some(vector),
            VectorInternal::Sparse(_) | VectorInternal::MultiDense(_) => None,
        },
        VectorStructInternal::Single(_) | VectorStructInternal::MultiDense(_) => None,
    }
}

fn point_id(capability: CapabilityId) -> PointId {
    PointId::NumId(capability.0.unsigned_abs())
}

fn capability_of(point: &ScoredPoint) -> Result<CapabilityId, Error> {
    match point.id {
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
