//! Keeps the search index level with the store.
//!
//! Publishing writes a document and a change in one transaction; the indexer, one task, follows the
//! changes. It stores in the database how far the index is *on disk*, and only after a flush. So after a
//! crash it repeats changes that may be lost, which does no harm, and never skips one.
//!
//! If the index is not as it should be, a new one is built from the documents, while the old one answers
//! and follows the changes:
//!
//! | the index is | the new index |
//! |---|---|
//! | missing, broken, or lacks documents | one by the built-in embedder, which takes seconds; searches fail until then |
//! | of an embedder that is not available any more | the same; until then searches use words alone |
//! | of another embedder than the configured one | one by the configured embedder, however long that takes |
//! | as it should be, and a rebuild is requested | the same |

mod backoff;
mod pending_embeddings;
mod point_builder;
mod rebuild;
mod rebuild_cutover;
mod reconcile;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use a2s_api::IndexBuilding;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use self::backoff::RetryBackoff;
use self::pending_embeddings::{LateEmbeddings, PendingEmbeddings};
use self::point_builder::PointBuilder;
use self::rebuild::{IndexRebuild, RebuildStep};
use self::reconcile::SHARED_CHECK_INTERVAL;
use crate::Error;
use crate::documents::DocumentReader;
use crate::embed::{EmbedDeadline, Embedder};
use crate::embedding_service::EmbeddingService;
use crate::live_version_cache::LiveVersionCache;
use crate::metrics::Metrics;
use crate::store::dependency_rows::VersionScope;
use crate::store::indexes::IndexId;
use crate::store::{CapabilityId, ChangeSeq, RegistryStore};
use crate::vectors::{self, IndexChange, VectorIndex};

/// The maximum number of changes in one batch.
const BATCH: u32 = 256;
/// The time that changes wait for the embedder; after that they are found by words alone until they have
/// vectors. Publishing waits a little longer.
const EMBED_DEADLINE: EmbedDeadline = EmbedDeadline::Short(Duration::from_secs(4));
/// The longest time from a change to its flush. Until then a crash costs only a repetition.
const FLUSH_DELAY: Duration = Duration::from_secs(1);
/// The number of changes after which a flush happens at once.
const FLUSH_CHANGES: usize = 2048;
/// The number of failures in a row after which the index counts as broken.
const FAILURES_BEFORE_REBUILD: u32 = 3;

/// The progress of the index.
#[derive(Debug, Clone, Default, PartialEq)]
struct IndexProgress {
    /// Queries see every change up to this one.
    applied: ChangeSeq,
    /// Set when the index has caught up with the store at least once since the start.
    is_ready: bool,
    /// The index that is being built, if one is.
    building: Option<IndexBuilding>,
}

/// The handle of the running indexer. Dropping it stops the indexer.
#[derive(Debug)]
pub(crate) struct IndexerHandle {
    progress: watch::Receiver<IndexProgress>,
    /// Wakes the indexer. Many changes at once wake it once.
    changed: Arc<Notify>,
    commands: mpsc::Sender<IndexCommand>,
    stop: CancellationToken,
    _stop_on_drop: DropGuard,
    task: tokio::sync::Mutex<Option<JoinHandle<()>>>,
}

/// A command to the indexer.
enum IndexCommand {
    /// Rebuilds rows and index; the reply is the number of capabilities in the index.
    Rebuild(oneshot::Sender<Result<usize, Error>>),
}

/// An event that wakes the indexer.
enum IndexerEvent {
    Command(IndexCommand),
    Step(RebuildStep),
    Embedded(Result<LateEmbeddings, Error>),
}

impl IndexerHandle {
    pub(crate) fn start(
        store: Arc<dyn RegistryStore>,
        live: Arc<LiveVersionCache>,
        documents: Arc<DocumentReader>,
        vectors: Arc<dyn VectorIndex>,
        meaning: Arc<EmbeddingService>,
        metrics: Metrics,
        identity: String,
    ) -> Self {
        let (progress_sender, progress) = watch::channel(IndexProgress::default());
        let (commands, inbox) = mpsc::channel(64);
        let changed = Arc::<Notify>::default();
        let stop = CancellationToken::new();
        let next_check = (store.is_shared() || vectors.is_shared()).then(Instant::now);
        let indexer = Indexer {
            points: PointBuilder { store, documents, embedding_service: meaning },
            live_versions: live,
            vectors,
            metrics,
            identity,
            changed: Arc::clone(&changed),
            progress: progress_sender,
            live: LiveIndex::default(),
            others: SharedState { next_check, reported: (i64::MAX, i64::MAX) },
            flush: FlushState::default(),
            health: IndexHealth::default(),
            rebuild_waiters: Vec::new(),
            build: None,
        };
        let (points, stopped) = (indexer.points.clone(), stop.clone());
        let mut built = progress.clone();
        tokio::spawn(stopped.run_until_cancelled_owned(async move {
            // An index that is built first encodes the same documents.
            let _ = built.wait_for(|progress| progress.is_ready).await;
            if let Err(error) = points.encode_sentences().await {
                tracing::warn!(%error, "some capabilities are compared without the sentence encoder");
            }
        }));
        let task = tokio::spawn(indexer.run(inbox, stop.clone()));
        Self {
            progress,
            changed,
            commands,
            _stop_on_drop: stop.clone().drop_guard(),
            stop,
            task: tokio::sync::Mutex::new(Some(task)),
        }
    }

    /// Waits at most `at_most` until queries see the change. Returns false when they do not see it yet;
    /// they will see it later.
    pub(crate) async fn wait_for(&self, seq: ChangeSeq, at_most: Duration) -> bool {
        self.follow_changes();
        self.wait(at_most, |progress| progress.applied >= seq).await
    }

    /// Lets the indexer look for changes soon.
    pub(crate) fn follow_changes(&self) {
        self.changed.notify_one();
    }

    /// Waits at most `at_most` until the index has caught up with the store once.
    pub(crate) async fn wait_until_ready(&self, at_most: Duration) -> bool {
        self.wait(at_most, |progress| progress.is_ready).await
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.progress.borrow().is_ready
    }

    /// The last change that queries see.
    pub(crate) fn applied(&self) -> ChangeSeq {
        self.progress.borrow().applied
    }

    /// Waits until no index is being built.
    #[cfg(test)]
    pub(crate) async fn wait_until_built(&self) {
        // A build that is called for is noted before the index says that it is ready.
        let mut progress = self.progress.clone();
        let is_built = |progress: &IndexProgress| progress.is_ready && progress.building.is_none();
        progress.wait_for(is_built).await.map(drop).expect("the indexer runs");
    }

    /// The index that is being built, if one is.
    pub(crate) fn building(&self) -> Option<IndexBuilding> {
        self.progress.borrow().building.clone()
    }

    /// Rebuilds the rows of documents and the index, with the configured embedder; the old ones answer
    /// until then. Returns the number of capabilities in the index.
    ///
    /// # Errors
    /// When store, engine or embedder fail; then the old index stays.
    pub(crate) async fn rebuild(&self) -> Result<usize, Error> {
        let closed = || Error::Internal("the indexer has stopped".into());
        let (reply, answer) = oneshot::channel();
        self.commands.send(IndexCommand::Rebuild(reply)).await.map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?
    }

    /// Follows the last changes, brings them to disk, and stops.
    pub(crate) async fn close(&self) {
        self.stop.cancel();
        if let Some(task) = self.task.lock().await.take()
            && let Err(error) = task.await
        {
            tracing::error!(%error, "the indexer stopped unexpectedly");
        }
    }

    async fn wait(&self, at_most: Duration, until: impl FnMut(&IndexProgress) -> bool) -> bool {
        let mut progress = self.progress.clone();
        matches!(tokio::time::timeout(at_most, progress.wait_for(until)).await, Ok(Ok(_)))
    }
}

struct Indexer {
    points: PointBuilder,
    live_versions: Arc<LiveVersionCache>,
    vectors: Arc<dyn VectorIndex>,
    metrics: Metrics,
    /// The identity of the store.
    identity: String,
    changed: Arc<Notify>,
    progress: watch::Sender<IndexProgress>,
    live: LiveIndex,
    others: SharedState,
    flush: FlushState,
    health: IndexHealth,
    /// The callers that requested a new index.
    rebuild_waiters: Vec<oneshot::Sender<Result<usize, Error>>>,
    /// The new index in the making.
    build: Option<IndexRebuild>,
}

/// The state of the index that answers queries.
#[derive(Default)]
struct LiveIndex {
    id: Option<IndexId>,
    /// The last change that is in the index; nothing while there is no index that can answer.
    applied: Option<ChangeSeq>,
    /// The last change that this index has on disk, as the store knew last: up to it, others have
    /// done the work.
    settled: ChangeSeq,
    pending: PendingEmbeddings,
}

/// The state of the checks for changes of other registries.
struct SharedState {
    /// The time of the next check, if the store or the index is shared.
    next_check: Option<Instant>,
    /// The numbers of the last reports of runs at the last two checks.
    reported: (i64, i64),
}

/// The changes since the last flush.
#[derive(Default)]
struct FlushState {
    /// Changes that are in the index but may not be on disk.
    unflushed: usize,
    /// The time of the next flush.
    at: Option<Instant>,
}

/// The health of the live index.
#[derive(Default)]
struct IndexHealth {
    /// The number of failures in a row.
    failures: u32,
    /// Set when the index failed again and again: it does not answer, whatever its state says.
    is_broken: bool,
}

impl Indexer {
    async fn run(mut self, mut inbox: mpsc::Receiver<IndexCommand>, stop: CancellationToken) {
        let mut pause = RetryBackoff::default();
        let mut event = None;
        loop {
            // Stopping does not wait: interrupted work is repeated at the next start.
            let result = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                result = self.handle_event(event.take()) => result,
            };
            let wake = match &result {
                Ok(()) => {
                    (self.health.failures, pause) = (0, RetryBackoff::default());
                    [self.flush.at, self.others.next_check].into_iter().flatten().min()
                }
                Err(error) => {
                    self.note_failure(error);
                    let is_away = match error {
                        Error::Vectors(vectors::Error::Unavailable(_)) => true,
                        Error::Store(_) => self.points.store.is_shared(),
                        _ => false,
                    };
                    // Asking costs a server nothing that is not there.
                    let most = if is_away { 2 * SHARED_CHECK_INTERVAL } else { Duration::MAX };
                    Some(Instant::now() + pause.next().min(most))
                }
            };
            event = tokio::select! {
                () = stop.cancelled() => break,
                () = sleep_until(wake) => None,
                () = self.changed.notified() => None,
                command = inbox.recv() => match command {
                    Some(command) => Some(IndexerEvent::Command(command)),
                    None => break,
                },
                step = next_step(&mut self.build) => Some(IndexerEvent::Step(step)),
                mended = self.live.pending.next() => Some(IndexerEvent::Embedded(mended)),
            };
        }
        self.build = None;
        if self.progress.borrow().is_ready
            && let Err(error) = self.finish().await
        {
            self.note_failure(&error);
        }
    }

    /// Does what an event asks for, and then everything that has to be done in any case.
    async fn handle_event(&mut self, event: Option<IndexerEvent>) -> Result<(), Error> {
        let mut late = None;
        match event {
            Some(IndexerEvent::Command(IndexCommand::Rebuild(reply))) => {
                match self.points.update_relations(VersionScope::All).await {
                    Ok(()) => self.rebuild_waiters.push(reply),
                    Err(error) => drop(reply.send(Err(error))),
                }
            }
            None => {}
            Some(IndexerEvent::Step(step)) => self.apply_step(step).await?,
            Some(IndexerEvent::Embedded(Err(Error::Embedder(error)))) => {
                tracing::warn!(%error, "capabilities without vectors still wait for the embedder");
            }
            Some(IndexerEvent::Embedded(mended)) => late = Some(mended?),
        }
        self.check_other_registries().await?;
        if self.live.applied.is_none() && self.build.is_none() && !self.health.is_broken {
            self.load_progress().await?;
        }
        self.start_build().await?;
        if self.live.applied.is_some() {
            self.follow().await?;
            // After the changes since it was read.
            if let Some(late) = late {
                self.apply_late_embeddings(late).await?;
            }
            if let Some(embedder) = self.live_embedder() {
                self.live.pending.start(&self.points, &embedder);
            }
        }
        Ok(())
    }

    /// Puts points with vectors in the place of those that have their words alone.
    async fn apply_late_embeddings(&mut self, late: LateEmbeddings) -> Result<(), Error> {
        let LateEmbeddings { changes, as_of } = self.live.pending.retain_pending(late);
        self.apply(changes, as_of).await?;
        self.live.pending.finish_batch();
        Ok(())
    }

    /// Makes the index level with the store.
    async fn follow(&mut self) -> Result<(), Error> {
        let Some(mut applied) = self.live.applied else { return Ok(()) };
        loop {
            let outbox = self.points.store.read_outbox(applied, BATCH).await?;
            self.metrics.index.lag.set(outbox.latest.0 - applied.0);
            let Some((last, _)) = outbox.changes.last().copied() else { break };
            self.live_versions.invalidate_all(&distinct_capabilities(&outbox.changes));
            let (done, undone): (Vec<_>, Vec<_>) =
                outbox.changes.iter().copied().partition(|(seq, _)| *seq <= self.live.settled);
            // With vectors: embeddings in progress here are of an older version.
            let done = distinct_capabilities(&done);
            self.points.forget_vectors(&done).await?;
            self.live.pending.note_indexed(&done, last, true);
            let capabilities = distinct_capabilities(&undone);
            if capabilities.is_empty() {
                applied = last;
                self.note_applied(applied);
                continue;
            }
            let first = outbox.changes.first().map_or(last, |(first, _)| *first);
            let (changes, is_whole) = match self.live_embedder() {
                Some(embedder) => {
                    self.points
                        .build_changes_with_fallback(&capabilities, &embedder, EMBED_DEADLINE)
                        .await?
                }
                None => (self.points.build_changes_without_vectors(&capabilities).await?, true),
            };
            self.apply(changes, outbox.latest).await?;
            self.live.pending.note_indexed(&capabilities, first, is_whole);
            applied = last;
            self.note_applied(applied);
            if self.flush.unflushed >= FLUSH_CHANGES {
                self.flush().await?;
            }
            // A registry that appends a change from now on wakes the indexer again.
            if applied == outbox.latest {
                self.metrics.index.lag.set(0);
                break;
            }
        }
        self.note_applied(applied);
        self.progress.send_if_modified(|progress| !std::mem::replace(&mut progress.is_ready, true));
        if self.flush.at.is_some_and(|at| at <= Instant::now()) {
            self.flush().await?;
        }
        Ok(())
    }

    async fn apply(&mut self, changes: Vec<IndexChange>, as_of: ChangeSeq) -> Result<(), Error> {
        self.flush.unflushed += changes.len();
        self.vectors.apply(changes, as_of).await?;
        self.flush.at.get_or_insert_with(|| Instant::now() + FLUSH_DELAY);
        Ok(())
    }

    /// The embedder of the live index, when it is available.
    fn live_embedder(&self) -> Option<Arc<Embedder>> {
        let live = self.vectors.current_reader().ok()?;
        self.points.embedding_service.embedder_of(live.identity()).cloned()
    }

    async fn flush(&mut self) -> Result<(), Error> {
        let Some(applied) = self.live.applied else { return Ok(()) };
        self.vectors.flush().await?;
        if let Some(index) = &self.live.id {
            self.points
                .store
                .advance_index(index, self.live.pending.persisted_up_to(applied))
                .await?;
        }
        (self.flush.unflushed, self.flush.at) = (0, None);
        Ok(())
    }

    async fn finish(&mut self) -> Result<(), Error> {
        self.follow().await?;
        if self.flush.unflushed > 0 {
            self.flush().await?;
        }
        Ok(())
    }

    fn note_applied(&mut self, applied: ChangeSeq) {
        self.live.applied = Some(applied);
        self.progress.send_if_modified(|progress| {
            std::mem::replace(&mut progress.applied, applied) != applied
        });
    }

    fn note_failure(&mut self, error: &Error) {
        self.log_failure(error);
        if self.build.is_none()
            && let Error::Vectors(error) = error
        {
            for asked in self.rebuild_waiters.drain(..) {
                let _ = asked.send(Err(Error::Vectors(error.duplicate())));
            }
        }
        self.health.failures = match error {
            Error::Vectors(vectors::Error::NotReady) => FAILURES_BEFORE_REBUILD,
            // Nor a server of the index that does not.
            Error::Vectors(vectors::Error::Unavailable(_) | vectors::Error::Unusable(_)) => {
                self.health.failures
            }
            Error::Vectors(_) => self.health.failures + 1,
            // A rebuild does not help a store that does not respond.
            _ => self.health.failures,
        };
        if self.health.failures >= FAILURES_BEFORE_REBUILD && self.build.is_none() {
            (self.health.is_broken, self.live.applied) = (true, None);
        }
    }

    fn log_failure(&self, error: &Error) {
        self.metrics.index.failures.inc();
        let cause = std::error::Error::source(error).map(ToString::to_string);
        tracing::error!(%error, cause, "the search index could not be updated; the registry tries again");
    }
}

/// The distinct capabilities of changes.
fn distinct_capabilities(changes: &[(ChangeSeq, CapabilityId)]) -> Vec<CapabilityId> {
    let capabilities: BTreeSet<_> = changes.iter().map(|(_, id)| *id).collect();
    capabilities.into_iter().collect()
}

async fn next_step(build: &mut Option<IndexRebuild>) -> RebuildStep {
    match build {
        Some(build) => build.next().await,
        None => std::future::pending().await,
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
