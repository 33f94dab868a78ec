//! The index in the memory of this process, with a copy in the database.
//!
//! Queries meet the points in memory alone. The copy only makes a start quick: it is read once, and written
//! at each flush. Registries that share a database each have an index of their own, follow the changes by
//! themselves, and share the copy.

mod point_table;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use async_trait::async_trait;
use rayon::{ThreadPool, ThreadPoolBuilder};
use tokio::sync::oneshot;

use self::point_table::PointTable;
use super::{
    Error, FORMAT, IndexChange, IndexIdentity, IndexPoint, IndexReader, IndexState, PointFilter,
    QueryResults, SearchQuery, VectorIndex,
};
use crate::store::indexes::{CopyChange, PointRow};
use crate::store::{self, CapabilityId, ChangeSeq, RegistryStore};

/// The number of points that are read from the copy at a time.
const BATCH: u32 = 1000;

/// One index. Its identity tells the embedder, so that a query is never compared with vectors of another.
#[derive(Debug)]
struct Generation {
    identity: IndexIdentity,
    table: RwLock<PointTable>,
    /// The capabilities that differ from the copy, with the last change when they were read.
    unsaved: Mutex<BTreeMap<CapabilityId, ChangeSeq>>,
    /// The copy had every change up to this one when it was read.
    loaded: ChangeSeq,
}

impl Generation {
    fn new(identity: IndexIdentity, loaded: ChangeSeq) -> Self {
        let table = RwLock::new(PointTable::new(identity.dimensions));
        Self { identity, table, unsaved: Mutex::default(), loaded }
    }

    fn apply(&self, changes: Vec<IndexChange>, as_of: ChangeSeq) -> Result<(), Error> {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        for change in changes {
            self.unsaved().insert(change.capability(), as_of);
            match change {
                IndexChange::Upsert(point) => table.insert(*point)?,
                IndexChange::Remove(capability) => table.remove(capability),
            }
        }
        Ok(())
    }

    fn read<T>(&self, read: impl FnOnce(&PointTable) -> T) -> T {
        read(&self.table.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes the changes that are to be saved.
    fn take_unsaved(&self) -> BTreeMap<CapabilityId, ChangeSeq> {
        std::mem::take(&mut *self.unsaved())
    }

    /// The changes with their points.
    fn to_changes(
        &self,
        unsaved: &BTreeMap<CapabilityId, ChangeSeq>,
    ) -> Result<Vec<CopyChange>, Error> {
        self.read(|table| {
            let to_change = |(capability, as_of): (&CapabilityId, &ChangeSeq)| {
                let row = table.get(*capability).map(to_row).transpose()?;
                Ok(CopyChange { capability: *capability, as_of: *as_of, row })
            };
            unsaved.iter().map(to_change).collect()
        })
    }

    fn unsaved(&self) -> MutexGuard<'_, BTreeMap<CapabilityId, ChangeSeq>> {
        self.unsaved.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
pub(crate) struct MemoryIndex {
    store: Arc<dyn RegistryStore>,
    /// The identity of the store.
    store_identity: String,
    /// The embedders whose index is preferred, the best first.
    embedders: Vec<String>,
    current: RwLock<Option<Arc<Generation>>>,
    next: Mutex<Option<Arc<Generation>>>,
    readers: Arc<ThreadPool>,
}

impl MemoryIndex {
    pub(super) fn open(
        store: Arc<dyn RegistryStore>,
        store_identity: String,
        embedders: Vec<String>,
    ) -> Result<Self, Error> {
        // As many as there are processors: a query computes, and does not wait.
        let readers = ThreadPoolBuilder::new()
            .thread_name(|_| "search-read".to_owned())
            // Who waits for the answer learns that there is none.
            .panic_handler(|_| tracing::error!("a query of the search index panicked"))
            .build()
            .map_err(failed)?;
        Ok(Self {
            store,
            store_identity,
            embedders,
            current: RwLock::default(),
            next: Mutex::default(),
            readers: Arc::new(readers),
        })
    }

    fn current(&self) -> Option<Arc<Generation>> {
        // An `Option` is replaced whole or not at all, so a panic elsewhere harms nothing.
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_current(&self, generation: Arc<Generation>) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Some(generation);
    }

    fn next(&self) -> Result<Arc<Generation>, Error> {
        let next = self.next.lock().unwrap_or_else(PoisonError::into_inner).clone();
        next.ok_or_else(|| failed("no build of the index is in progress"))
    }

    /// The identity of the copy to use, if there is one: the newest of the most preferred embedder.
    async fn find_copy(&self) -> Result<Option<(IndexIdentity, ChangeSeq)>, Error> {
        let rank = |identity: &IndexIdentity| {
            let known = self.embedders.iter().position(|known| *known == identity.embedder);
            known.unwrap_or(self.embedders.len())
        };
        let copies = self.store.list_index_copies().await.map_err(|error| unavailable(&error))?;
        let usable = copies.into_iter().filter_map(|(identity, indexed)| {
            let identity: IndexIdentity = serde_json::from_str(&identity).ok()?;
            let is_usable = identity.format == FORMAT && identity.store == self.store_identity;
            is_usable.then_some((identity, indexed))
        });
        // Of equal ones the first, which is the newest.
        Ok(usable.min_by_key(|(identity, _)| rank(identity)))
    }

    /// Removes the other copies of the same embedder: a registry that crashed has left them, or one that
    /// built an index at the same time.
    async fn remove_older_copies(&self, newest: &IndexIdentity) -> Result<(), store::Error> {
        for (identity, _) in self.store.list_index_copies().await? {
            if let Ok(identity) = serde_json::from_str::<IndexIdentity>(&identity)
                && identity.embedder == newest.embedder
                && identity.id != newest.id
            {
                self.store.delete_index(&identity.id).await?;
            }
        }
        Ok(())
    }

    async fn load(&self, identity: IndexIdentity, indexed: ChangeSeq) -> Result<Generation, Error> {
        let generation = Generation::new(identity, indexed);
        let mut after = CapabilityId(0);
        loop {
            let id = &generation.identity.id;
            let rows = self.store.load_index_points(id, after, BATCH).await;
            let rows = rows.map_err(|error| unavailable(&error))?.ok_or_else(damaged)?;
            let Some((last, _)) = rows.last() else { return Ok(generation) };
            after = *last;
            let mut table = generation.table.write().unwrap_or_else(PoisonError::into_inner);
            for (capability, row) in rows {
                let point = to_point(capability, row).ok_or_else(damaged)?;
                table.insert(point)?;
            }
        }
    }
}

#[async_trait]
impl VectorIndex for MemoryIndex {
    fn current_reader(&self) -> Result<Arc<dyn IndexReader>, Error> {
        let generation = self.current().ok_or(Error::NotReady)?;
        Ok(Arc::new(MemoryReader { generation, readers: Arc::clone(&self.readers) }))
    }

    /// Loads the copy at the start, and when another registry has built a better one.
    async fn refresh(&self) -> Result<(), Error> {
        let current = self.current();
        if current.is_some() && !self.store.is_shared() {
            return Ok(());
        }
        let Some((identity, indexed)) = self.find_copy().await? else { return Ok(()) };
        let is_better = current.is_none_or(|current| {
            // One that answers, and whose copy is gone, is no worse than a copy of another embedder.
            identity.id != current.identity.id
                && (identity.embedder == current.identity.embedder
                    || self.embedders.first() == Some(&identity.embedder))
        });
        if is_better {
            match self.load(identity, indexed).await {
                Ok(generation) => self.set_current(Arc::new(generation)),
                Err(error @ Error::Unavailable(_)) => return Err(error),
                Err(error) => tracing::warn!(%error, "the copy of the search index cannot be used"),
            }
        }
        Ok(())
    }

    fn is_shared(&self) -> bool {
        false
    }

    async fn apply(&self, changes: Vec<IndexChange>, as_of: ChangeSeq) -> Result<(), Error> {
        self.current().ok_or(Error::NotReady)?.apply(changes, as_of)
    }

    async fn flush(&self) -> Result<(), Error> {
        let Some(generation) = self.current() else { return Ok(()) };
        let unsaved = generation.take_unsaved();
        let changes = generation.to_changes(&unsaved)?;
        let saved = self.store.save_index_points(&generation.identity.id, &changes).await;
        if saved.is_err() {
            // What has changed since stays as it is.
            let mut newer = generation.unsaved();
            for (capability, as_of) in unsaved {
                newer.entry(capability).or_insert(as_of);
            }
        }
        saved.map_err(|error| unavailable(&error))
    }

    async fn begin(&self, identity: IndexIdentity) -> Result<(), Error> {
        let next = Generation::new(identity, ChangeSeq::default());
        *self.next.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(next));
        Ok(())
    }

    async fn stage(&self, changes: Vec<IndexChange>, as_of: ChangeSeq) -> Result<(), Error> {
        self.next()?.apply(changes, as_of)
    }

    async fn commit(&self) -> Result<(), Error> {
        let next = self.next()?;
        let unsaved = next.take_unsaved();
        let changes = next.to_changes(&unsaved)?;
        let identity = serde_json::to_string(&next.identity).map_err(failed)?;
        let copied = self.store.save_index_copy(&next.identity.id, &identity, &changes).await;
        copied.map_err(|error| unavailable(&error))?;
        *self.next.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.set_current(Arc::clone(&next));
        if let Err(error) = self.remove_older_copies(&next.identity).await {
            // They do no harm, and the next new index tries again.
            tracing::warn!(%error, "old copies of the search index could not be removed");
        }
        Ok(())
    }

    async fn status(&self) -> Result<IndexState, Error> {
        let current = self.current();
        Ok(IndexState {
            points: current.as_ref().map(|generation| generation.read(PointTable::len)),
            fresh: 0,
            as_of: current.map(|generation| generation.loaded),
        })
    }
}

/// A generation as queries meet it.
#[derive(Debug)]
struct MemoryReader {
    generation: Arc<Generation>,
    readers: Arc<ThreadPool>,
}

#[async_trait]
impl IndexReader for MemoryReader {
    fn identity(&self) -> &IndexIdentity {
        &self.generation.identity
    }

    async fn query(
        &self,
        probes: Vec<SearchQuery>,
        filter: PointFilter,
        limit: usize,
    ) -> Result<QueryResults, Error> {
        let (reply, answer) = oneshot::channel();
        let generation = Arc::clone(&self.generation);
        self.readers.spawn(move || {
            // A cancelled caller does not wait for a response.
            if !reply.is_closed() {
                let _ = reply.send(generation.read(|table| table.query(probes, &filter, limit)));
            }
        });
        answer.await.map_err(failed)
    }

    async fn cards(
        &self,
        capabilities: Vec<CapabilityId>,
    ) -> Result<BTreeMap<CapabilityId, String>, Error> {
        Ok(self.generation.read(|table| {
            let card = |capability| Some((capability, table.card(capability)?));
            capabilities.into_iter().filter_map(card).collect()
        }))
    }
}

fn to_row(point: IndexPoint) -> Result<PointRow, Error> {
    let facts = serde_json::to_string(&point).map_err(failed)?;
    Ok(PointRow { dense: point.dense, sparse: point.sparse, facts })
}

/// Returns none for a row that was changed by hand.
fn to_point(capability: CapabilityId, row: PointRow) -> Option<IndexPoint> {
    let mut point: IndexPoint = serde_json::from_str(&row.facts).ok()?;
    (point.capability, point.dense, point.sparse) = (capability, row.dense, row.sparse);
    Some(point)
}

fn damaged() -> Error {
    failed("it is damaged")
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::Failed(error.to_string())
}

/// The index waits for its database as for a server.
fn unavailable(error: &store::Error) -> Error {
    Error::Unavailable(error.to_string())
}
