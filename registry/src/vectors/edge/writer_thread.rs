//! The thread that makes every change and every flush.

use std::fs;
use std::io::ErrorKind;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use qdrant_edge::{
    CountRequest, CreateIndex, Distance, EdgeConfig, EdgeShard, EdgeSparseVectorParams,
    EdgeVectorParams, FieldIndexOperations, JsonPath, Modifier, PayloadFieldSchema,
    PointInsertOperations, PointOperations, PointStruct, UpdateOperation, Vector, Vectors,
    WalOptions,
};
use tokio::sync::oneshot;

use super::super::filter::{FIELDS, payload};
use super::filter::to_type;
use super::hnsw_rebuild::{GraphPolicy, HnswGraph};
use super::index_dir::IndexDir;
use super::space::{IndexDisk, NEW_INDEX, graph_size, size_of};
use super::{
    CurrentGeneration, DENSE, Error, IndexChange, IndexGeneration, IndexIdentity, IndexPoint,
    IndexState, SPARSE, failed, guard, point_id, to_sparse,
};
use crate::store::ChangeSeq;

/// The size of a segment of the engine's log, in bytes. The engine creates it in full size.
const LOG_SEGMENT: usize = 4 * 1024 * 1024;
/// The size of the engine's log, in bytes, above which the index needs a rebuild. The next constant is
/// added for each point. Together they are about five changes of every point.
const LOG_ALLOWANCE: u64 = 64 * 1024 * 1024;
const LOG_ALLOWANCE_PER_POINT: u64 = 16 * 1024;

/// The folder in which the engine keeps unfinished segments.
const UNFINISHED_DIR: &str = "temp_segments";

/// The number of checks for running queries when the index closes.
const READER_ATTEMPTS: u32 = 1000;
const READER_PAUSE: Duration = Duration::from_millis(5);

pub(super) type Reply<T> = oneshot::Sender<Result<T, Error>>;

/// A command to the writer thread.
pub(super) enum WriterCommand {
    Apply(Vec<IndexChange>, ChangeSeq, Reply<()>),
    Flush(Reply<bool>),
    Begin(IndexIdentity, Reply<()>),
    Stage(Vec<IndexChange>, ChangeSeq, Reply<()>),
    Commit(Reply<()>),
    Status(Reply<IndexState>),
    Close(Reply<()>),
}

/// A handle of the writer thread. When it is dropped, the thread closes the files and ends.
#[derive(Debug)]
pub(super) struct WriterHandle {
    commands: Option<mpsc::Sender<WriterCommand>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl WriterHandle {
    /// Loads the index in the folder and starts the thread.
    pub(super) fn start(
        folder: IndexDir,
        current: CurrentGeneration,
        habits: GraphPolicy,
        disk: IndexDisk,
    ) -> Self {
        let (orders, inbox) = mpsc::channel();
        let graph = HnswGraph::new(habits);
        let mut state = WriterState {
            as_of: folder.as_of(),
            next_as_of: ChangeSeq::default(),
            folder,
            disk,
            current,
            next: None,
            graph,
            retired: Vec::new(),
        };
        state.load();
        let thread = std::thread::Builder::new()
            .name("search-index".to_owned())
            .spawn(move || state.run(&inbox))
            .inspect_err(
                |error| tracing::error!(%error, "cannot start the thread of the search index"),
            )
            .ok();
        Self { commands: Some(orders), thread: Mutex::new(thread) }
    }

    /// Sends a command and waits until the thread has executed it.
    pub(super) async fn send<T>(
        &self,
        order: impl FnOnce(Reply<T>) -> WriterCommand,
    ) -> Result<T, Error> {
        let closed = || Error::Failed("the search index is closed".to_owned());
        let (reply, answer) = oneshot::channel();
        self.commands.as_ref().ok_or_else(closed)?.send(order(reply)).map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?
    }
}

impl Drop for WriterHandle {
    fn drop(&mut self) {
        self.commands = None;
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // It ends with the last order; its panics were reported where they happened.
            let _ = thread.join();
        }
    }
}

struct WriterState {
    folder: IndexDir,
    disk: IndexDisk,
    current: CurrentGeneration,
    /// The last change of the store that the current generation knows of.
    as_of: ChangeSeq,
    /// The last change of the store that the next generation knows of.
    next_as_of: ChangeSeq,
    /// The generation being built.
    next: Option<IndexGeneration>,
    /// The graph of the current generation.
    graph: HnswGraph,
    /// Replaced generations that a query may still hold.
    retired: Vec<Arc<IndexGeneration>>,
}

impl WriterState {
    /// Executes commands until all senders are gone.
    fn run(mut self, inbox: &mpsc::Receiver<WriterCommand>) {
        loop {
            let order = match inbox.recv_timeout(self.graph.check_interval()) {
                Ok(order) => order,
                Err(RecvTimeoutError::Timeout) => {
                    self.run_maintenance();
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => break,
            };
            // A cancelled caller does not wait for a response.
            match order {
                WriterCommand::Apply(changes, as_of, reply) => {
                    drop(reply.send(self.apply(changes, as_of)));
                }
                WriterCommand::Flush(reply) => drop(reply.send(self.flush())),
                WriterCommand::Begin(identity, reply) => drop(reply.send(self.begin(identity))),
                WriterCommand::Stage(changes, as_of, reply) => {
                    drop(reply.send(self.stage(changes, as_of)));
                }
                WriterCommand::Commit(reply) => drop(reply.send(self.commit())),
                WriterCommand::Status(reply) => drop(reply.send(self.status())),
                WriterCommand::Close(reply) => {
                    let result = self.close();
                    drop(reply.send(result));
                    return;
                }
            }
            self.run_maintenance();
        }
        self.release_files();
    }

    /// Does maintenance that no caller waits for.
    fn run_maintenance(&mut self) {
        let (folder, disk) = (&self.folder, &self.disk);
        let has_room = |number| disk.check(graph_size(&folder.generation(number))).is_ok();
        self.graph.rebuild_if_due(&self.current, has_room);
        self.remove_retired();
    }

    /// Loads the current generation. A generation that cannot be loaded is ignored.
    fn load(&mut self) {
        let Some((number, identity)) = self.folder.current.clone() else { return };
        let path = self.folder.generation(number);
        // An unfinished graph that a crash has left.
        if let Err(error) = fs::remove_dir_all(path.join(UNFINISHED_DIR))
            && error.kind() != ErrorKind::NotFound
        {
            tracing::warn!(%error, "unused data in the search index could not be removed");
        }
        let config = config(identity.dimensions);
        let load = || {
            self.disk.prepare(&path)?;
            guard(|| EdgeShard::load(&path, Some(config)))
        };
        match load() {
            Ok(shard) => {
                let generation = IndexGeneration { number, identity, shard };
                self.graph.reset(&generation.shard);
                drop(self.current.replace(Some(Arc::new(generation))));
            }
            Err(error) => tracing::warn!(%error, "the search index on disk cannot be used"),
        }
    }

    fn apply(&mut self, changes: Vec<IndexChange>, as_of: ChangeSeq) -> Result<(), Error> {
        let generation = self.current.get().ok_or(Error::NotReady)?;
        let count = changes.len();
        self.change(&generation, changes)?;
        self.graph.add_changes(count);
        self.as_of = self.as_of.max(as_of);
        Ok(())
    }

    /// Applies changes to a generation, as far as the disk has room.
    fn change(&self, generation: &IndexGeneration, changes: Vec<IndexChange>) -> Result<(), Error> {
        let path = self.folder.generation(generation.number);
        // Files that the engine has made since the last change.
        self.disk.allocate(&path)?;
        self.disk.check(0)?;
        change(&generation.shard, changes).map_err(|error| self.disk.classify_error(error))?;
        self.disk.allocate(&path)
    }

    fn flush(&self) -> Result<bool, Error> {
        match self.current.get() {
            // The engine is building its graph, and flushed data may be lost meanwhile.
            Some(_) if self.graph.is_rebuilding() => Ok(false),
            Some(generation) => flush(&generation.shard)
                .and_then(|()| self.folder.note_as_of(self.as_of))
                .map(|()| true)
                .map_err(|error| self.disk.classify_error(error)),
            None => Ok(true),
        }
    }

    fn close(mut self) -> Result<(), Error> {
        self.graph.wait();
        let result = self.flush();
        self.release_files();
        result.map(drop)
    }

    fn begin(&mut self, identity: IndexIdentity) -> Result<(), Error> {
        if let Some(abandoned) = self.next.take() {
            drop_shard(abandoned.shard);
            self.folder.remove(abandoned.number);
        }
        self.disk.check(NEW_INDEX)?;
        let number = self.folder.begin()?;
        let path = self.folder.generation(number);
        let config = config(identity.dimensions);
        let shard = guard(|| EdgeShard::new(&path, config))?;
        for (field, kind) in FIELDS {
            let index = CreateIndex {
                field_name: field.parse::<JsonPath>().map_err(|()| failed("malformed field"))?,
                field_schema: Some(PayloadFieldSchema::FieldType(to_type(kind))),
            };
            let operation = FieldIndexOperations::CreateIndex(index);
            guard(|| shard.update(UpdateOperation::FieldIndexOperation(operation)))?;
        }
        self.next = Some(IndexGeneration { number, identity, shard });
        self.next_as_of = ChangeSeq::default();
        self.disk.allocate(&path)
    }

    fn stage(&mut self, changes: Vec<IndexChange>, as_of: ChangeSeq) -> Result<(), Error> {
        let next =
            self.next.as_ref().ok_or_else(|| failed("no build of the index is in progress"))?;
        self.change(next, changes)?;
        self.next_as_of = self.next_as_of.max(as_of);
        Ok(())
    }

    fn commit(&mut self) -> Result<(), Error> {
        let next =
            self.next.as_ref().ok_or_else(|| failed("no build of the index is in progress"))?;
        let path = self.folder.generation(next.number);
        self.disk.check(graph_size(&path))?;
        guard(|| next.shard.optimize()).map_err(|error| self.disk.classify_error(error))?;
        flush(&next.shard).map_err(|error| self.disk.classify_error(error))?;
        self.disk.allocate(&path)?;
        let next =
            self.next.take().ok_or_else(|| failed("no build of the index is in progress"))?;
        self.graph.reset(&next.shard);
        self.folder.note_as_of(self.next_as_of)?;
        let before = self.folder.current.as_ref().map(|(number, _)| *number);
        self.folder.commit(next.number, &next.identity)?;
        self.as_of = self.next_as_of;
        match (before, self.current.replace(Some(Arc::new(next)))) {
            (_, Some(retired)) => self.retired.push(retired),
            // It could not be loaded.
            (Some(number), None) => self.folder.remove(number),
            (None, None) => {}
        }
        Ok(())
    }

    fn status(&self) -> Result<IndexState, Error> {
        let Some(generation) = self.current.get() else {
            return Ok(IndexState { points: None, fresh: 0, needs_rebuild: false, as_of: None });
        };
        let count = CountRequest { filter: None, exact: true };
        let points = guard(|| generation.shard.count(count))?;
        let log = size_of(&self.folder.generation(generation.number).join("wal"));
        let allowed = LOG_ALLOWANCE + LOG_ALLOWANCE_PER_POINT * points as u64;
        let fresh = self.graph.fresh();
        let as_of = Some(self.as_of).filter(|as_of| *as_of != ChangeSeq::default());
        Ok(IndexState { points: Some(points), fresh, needs_rebuild: log > allowed, as_of })
    }

    /// Deletes generations that no query holds any more.
    fn remove_retired(&mut self) {
        for generation in std::mem::take(&mut self.retired) {
            match Arc::try_unwrap(generation) {
                Ok(generation) => {
                    drop_shard(generation.shard);
                    self.folder.remove(generation.number);
                }
                Err(held) => self.retired.push(held),
            }
        }
    }

    fn release_files(&mut self) {
        if let Some(next) = self.next.take() {
            drop_shard(next.shard);
        }
        self.remove_retired();
        // A query that is still under way holds its generation until it is answered; files must
        // not be open any more when the lock on the folder is given up.
        let mut held = self.current.replace(None);
        for _ in 0..READER_ATTEMPTS {
            match held.map(Arc::try_unwrap) {
                Some(Err(generation)) => held = Some(generation),
                Some(Ok(generation)) => return drop_shard(generation.shard),
                None => return,
            }
            std::thread::sleep(READER_PAUSE);
        }
    }
}

fn config(dimensions: usize) -> EdgeConfig {
    EdgeConfig::builder()
        .vector(DENSE, EdgeVectorParams::builder(dimensions, Distance::Dot).build())
        .sparse_vector(SPARSE, EdgeSparseVectorParams::builder().modifier(Modifier::Idf).build())
        .wal_options(WalOptions { segment_capacity: LOG_SEGMENT, ..WalOptions::default() })
        .build()
}

/// Applies changes in their order. Points that follow one another are added together.
fn change(shard: &EdgeShard, changes: Vec<IndexChange>) -> Result<(), Error> {
    let make = |operation| guard(|| shard.update(UpdateOperation::PointOperation(operation)));
    let upsert = |points: &mut Vec<_>| match std::mem::take(points) {
        points if points.is_empty() => Ok(()),
        points => make(PointOperations::UpsertPoints(PointInsertOperations::PointsList(points))),
    };
    let mut points = Vec::new();
    for change in changes {
        match change {
            IndexChange::Upsert(point) => points.push(to_point(*point)?.into()),
            IndexChange::Remove(capability) => {
                upsert(&mut points)?;
                make(PointOperations::DeletePoints { ids: vec![point_id(capability)] })?;
            }
        }
    }
    upsert(&mut points)
}

fn to_point(point: IndexPoint) -> Result<PointStruct, Error> {
    let payload = payload(&point);
    let mut vectors: Vec<(String, Vector)> = Vec::new();
    if let Some(dense) = point.dense {
        vectors.push((DENSE.to_owned(), Vector::new_dense(dense)));
    }
    if !point.sparse.is_empty() {
        vectors.push((SPARSE.to_owned(), to_sparse(&point.sparse)?.into()));
    }
    Ok(PointStruct::new(point_id(point.capability), Vectors::new_named(vectors), payload))
}

fn flush(shard: &EdgeShard) -> Result<(), Error> {
    guard(|| {
        shard.flush();
        Ok(())
    })
}

/// Drops a shard. This flushes it, which can panic.
fn drop_shard(shard: EdgeShard) {
    let result = guard(|| {
        drop(shard);
        Ok(())
    });
    if let Err(error) = result {
        tracing::warn!(%error, "a search index was not closed cleanly");
    }
}
