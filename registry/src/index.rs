//! Keeps the search index level with the store.
//!
//! Publishing writes a document and a change in one transaction; the indexer, one task, follows
//! the changes. It remembers in the store how far the index is *on disk*, and only after a flush.
//! So after a crash it repeats what may be lost, which does no harm, and never skips anything.
//! Where there is no usable index it builds one from the documents.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use a2s::Whole;
use futures::StreamExt as _;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::Error;
use crate::documents::{Documents, Facts, Opened};
use crate::embed::{Described, Embedder, index_text};
use crate::keywords::document_vector;
use crate::live::Live;
use crate::metrics::Metrics;
use crate::store::relations::Which;
use crate::store::{CapabilityId, Entry, Heads, Seq, Store, VersionId};
use crate::vectors::{self, Change, Point, Vectors};

/// Changes that are made in one go.
const BATCH: u32 = 256;
/// Capabilities that are read in one go when the index is built; their documents are in memory
/// together.
const REBUILD_BATCH: u32 = 64;
/// How long a change may wait to be brought to disk. Until then a crash costs only a repetition.
const FLUSH_DELAY: Duration = Duration::from_secs(1);
/// So many changes are brought to disk at once.
const FLUSH_CHANGES: usize = 2048;
/// After so many changes the index is asked whether it is worn.
const CHECK_CHANGES: usize = 10_000;
/// Pauses between attempts while store or engine do not answer.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// After so many failures in a row the index is built anew.
const FAILURES_BEFORE_REBUILD: u32 = 3;

/// How far the index is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Progress {
    /// Queries see every change up to this one.
    applied: Seq,
    /// It was level with the store once since the start.
    is_ready: bool,
}

/// The running indexer. It stops when this is dropped.
#[derive(Debug)]
pub(crate) struct Index {
    progress: watch::Receiver<Progress>,
    wishes: mpsc::Sender<Wish>,
    stop: CancellationToken,
    _stop_on_drop: DropGuard,
    task: tokio::sync::Mutex<Option<JoinHandle<()>>>,
}

/// What the indexer is asked for.
enum Wish {
    /// Look for changes.
    Follow,
    /// Make rows and index anew; answers with the number of capabilities in the index.
    Rebuild(oneshot::Sender<Result<usize, Error>>),
}

impl Index {
    pub(crate) fn start(
        store: Arc<dyn Store>,
        live: Arc<Live>,
        documents: Arc<Documents>,
        vectors: Arc<dyn Vectors>,
        embedder: Embedder,
        metrics: Metrics,
    ) -> Self {
        let (progress_sender, progress) = watch::channel(Progress::default());
        let (wishes, inbox) = mpsc::channel(64);
        let stop = CancellationToken::new();
        let indexer = Indexer {
            store,
            live,
            documents,
            vectors,
            embedder: Arc::new(embedder),
            metrics,
            progress: progress_sender,
            applied: None,
            unflushed: 0,
            unchecked: 0,
            flush_at: None,
            failures: 0,
        };
        let task = tokio::spawn(indexer.run(inbox, stop.clone()));
        Self {
            progress,
            wishes,
            _stop_on_drop: stop.clone().drop_guard(),
            stop,
            task: tokio::sync::Mutex::new(Some(task)),
        }
    }

    /// Waits, but not for ever, until queries see the change. False when they do not yet; they
    /// will.
    pub(crate) async fn wait_for(&self, seq: Seq, at_most: Duration) -> bool {
        // A full inbox means that the indexer is about to look anyway.
        let _ = self.wishes.try_send(Wish::Follow);
        self.wait(at_most, |progress| progress.applied >= seq).await
    }

    /// Waits, but not for ever, until the index was level with the store once.
    pub(crate) async fn wait_until_ready(&self, at_most: Duration) -> bool {
        self.wait(at_most, |progress| progress.is_ready).await
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.progress.borrow().is_ready
    }

    /// Makes the rows between documents and the index anew; the old ones answer meanwhile. Gives
    /// the number of capabilities in the index.
    ///
    /// # Errors
    /// When store or engine fail; then the old index stays.
    pub(crate) async fn rebuild(&self) -> Result<usize, Error> {
        let closed = || Error::Internal("the indexer has stopped".into());
        let (reply, answer) = oneshot::channel();
        self.wishes.send(Wish::Rebuild(reply)).await.map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?
    }

    /// Follows the last changes, brings them to disk, and stops.
    pub(crate) async fn close(&self) {
        self.stop.cancel();
        if let Some(task) = self.task.lock().await.take()
            && let Err(error) = task.await
        {
            tracing::error!(%error, "the indexer ended badly");
        }
    }

    async fn wait(&self, at_most: Duration, until: impl FnMut(&Progress) -> bool) -> bool {
        let mut progress = self.progress.clone();
        matches!(tokio::time::timeout(at_most, progress.wait_for(until)).await, Ok(Ok(_)))
    }
}

struct Indexer {
    store: Arc<dyn Store>,
    live: Arc<Live>,
    documents: Arc<Documents>,
    vectors: Arc<dyn Vectors>,
    embedder: Arc<Embedder>,
    metrics: Metrics,
    progress: watch::Sender<Progress>,
    /// The last change that is in the index; unknown until the index was looked at.
    applied: Option<Seq>,
    /// Changes that are in the index but may not be on disk.
    unflushed: usize,
    /// Changes since the index was last asked whether it is worn.
    unchecked: usize,
    flush_at: Option<Instant>,
    failures: u32,
}

impl Indexer {
    async fn run(mut self, mut inbox: mpsc::Receiver<Wish>, stop: CancellationToken) {
        let mut pause = FIRST_PAUSE;
        loop {
            // Stopping does not wait for an index that is being built: what is cut short here is
            // repeated at the next start.
            let result = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                result = self.follow() => result,
            };
            let wake = match &result {
                Ok(()) => {
                    (self.failures, pause) = (0, FIRST_PAUSE);
                    self.flush_at
                }
                Err(error) => {
                    self.note_failure(error);
                    pause = (pause * 2).min(LONGEST_PAUSE);
                    Some(Instant::now() + pause)
                }
            };
            let wish = tokio::select! {
                () = stop.cancelled() => break,
                () = sleep_until(wake) => Wish::Follow,
                wish = inbox.recv() => match wish {
                    Some(wish) => wish,
                    None => break,
                },
            };
            if let Wish::Rebuild(reply) = wish {
                tokio::select! {
                    () = stop.cancelled() => break,
                    result = self.derive() => drop(reply.send(result)),
                }
            }
        }
        if self.progress.borrow().is_ready
            && let Err(error) = self.finish().await
        {
            self.note_failure(&error);
        }
        self.vectors.close().await;
    }

    /// Makes the index level with the store.
    async fn follow(&mut self) -> Result<(), Error> {
        if self.failures >= FAILURES_BEFORE_REBUILD {
            self.rebuild().await?;
        }
        let mut applied = match self.applied {
            Some(applied) => applied,
            None => self.look().await?,
        };
        loop {
            let outbox = self.store.outbox(Some(applied), BATCH).await?;
            self.metrics.index_lag.set(outbox.latest.0 - applied.0);
            let Some((last, _)) = outbox.changes.last().copied() else { break };
            let capabilities: BTreeSet<_> = outbox.changes.iter().map(|(_, id)| *id).collect();
            let capabilities: Vec<_> = capabilities.into_iter().collect();
            self.live.changed_all(&capabilities);
            let changes = self.changes_of(&capabilities).await?;
            self.unflushed += changes.len();
            self.vectors.apply(changes).await?;
            self.flush_at.get_or_insert_with(|| Instant::now() + FLUSH_DELAY);
            applied = last;
            self.note_applied(applied);
            if self.unflushed >= FLUSH_CHANGES {
                self.flush().await?;
            }
        }
        self.note_applied(applied);
        self.progress.send_if_modified(|progress| !std::mem::replace(&mut progress.is_ready, true));
        if self.flush_at.is_some_and(|at| at <= Instant::now()) {
            self.flush().await?;
        }
        Ok(())
    }

    /// Finds out how far the index on disk is; one that is not whole is built anew.
    async fn look(&mut self) -> Result<Seq, Error> {
        self.relate(Which::Unrelated).await?;
        let outbox = self.store.outbox(None, 0).await?;
        let status = self.vectors.status().await?;
        let is_level = outbox.indexed == outbox.latest;
        // A damaged document has no point, so a store with one always looks incomplete: then
        // every start builds the index anew until it is mended.
        let is_whole =
            status.points.is_some_and(|points| !is_level || points as u64 == outbox.live);
        if !is_whole || status.is_worn || outbox.indexed > outbox.latest {
            tracing::info!(
                ?status,
                live = outbox.live,
                "the search index is built from the documents"
            );
            self.rebuild().await?;
        } else {
            self.note_applied(outbox.indexed);
        }
        Ok(self.applied.unwrap_or_default())
    }

    /// Makes the rows that lead from one document to others. A damaged document has none, until it
    /// is mended and the next start comes by.
    async fn relate(&self, which: Which) -> Result<(), Error> {
        let mut after = VersionId(0);
        loop {
            let entries = self.store.versions_behind(after, which, REBUILD_BATCH).await?;
            let Some(last) = entries.last() else { return Ok(()) };
            after = last.id;
            let opened = self.documents.open(&entries).await?;
            let whole = opened
                .into_iter()
                .filter_map(|(entry, opened)| Some((entry.id, opened.ok()?.facts.relations())));
            self.store.relate(&whole.collect::<Vec<_>>()).await?;
        }
    }

    async fn changes_of(&self, capabilities: &[CapabilityId]) -> Result<Vec<Change>, Error> {
        let entries = self.store.heads(Heads::Of(capabilities)).await?;
        let points = self.points_of(&entries).await?;
        let kept: BTreeSet<_> = points.iter().map(|point| point.capability).collect();
        let removed = capabilities.iter().filter(|id| !kept.contains(id)).copied();
        Ok(removed
            .map(Change::Remove)
            .chain(points.into_iter().map(Box::new).map(Change::Upsert))
            .collect())
    }

    /// The points of those that are not damaged.
    async fn points_of(&self, entries: &[Entry]) -> Result<Vec<Point>, Error> {
        let mut known = Vec::with_capacity(entries.len());
        for (entry, opened) in self.documents.open(entries).await? {
            let Ok(Opened { facts, .. }) = opened else { continue };
            let whole = self.documents.whole(&facts.unit).await?;
            known.push((entry.capability, facts, whole));
        }
        let embedder = Arc::clone(&self.embedder);
        tokio::task::spawn_blocking(move || {
            known.iter().map(|(id, facts, whole)| to_point(*id, facts, whole, &embedder)).collect()
        })
        .await
        .map_err(|e| Error::Internal(e.into()))
    }

    /// Makes everything anew that is derived from documents.
    async fn derive(&mut self) -> Result<usize, Error> {
        self.relate(Which::All).await?;
        self.rebuild().await
    }

    async fn rebuild(&mut self) -> Result<usize, Error> {
        // Read before the documents are: what changes meanwhile is followed afterwards.
        let latest = self.store.outbox(None, 0).await?.latest;
        let this: &Self = self;
        let batches = futures::stream::try_unfold(None::<String>, move |after| async move {
            let heads = Heads::After(after.as_deref(), REBUILD_BATCH);
            let entries = this.store.heads(heads).await?;
            let Some(last) = entries.last().map(|entry| entry.name.to_string()) else {
                return Ok(None);
            };
            Ok(Some((this.points_of(&entries).await?, Some(last))))
        });
        this.vectors.rebuild(batches.boxed()).await?;
        self.metrics.index_rebuilds.inc();
        self.store.advance(latest).await?;
        (self.unflushed, self.flush_at, self.failures) = (0, None, 0);
        self.note_applied(latest);
        let points = self.vectors.status().await?.points.unwrap_or(0);
        tracing::info!(points, "the search index is built");
        Ok(points)
    }

    async fn flush(&mut self) -> Result<(), Error> {
        let Some(applied) = self.applied else { return Ok(()) };
        self.vectors.flush().await?;
        self.store.advance(applied).await?;
        self.unchecked += self.unflushed;
        (self.unflushed, self.flush_at) = (0, None);
        if self.unchecked >= CHECK_CHANGES {
            self.unchecked = 0;
            if self.vectors.status().await?.is_worn {
                self.rebuild().await?;
            }
        }
        Ok(())
    }

    async fn finish(&mut self) -> Result<(), Error> {
        self.follow().await?;
        if self.unflushed > 0 {
            self.flush().await?;
        }
        Ok(())
    }

    fn note_applied(&mut self, applied: Seq) {
        self.applied = Some(applied);
        self.progress.send_if_modified(|progress| {
            std::mem::replace(&mut progress.applied, applied) != applied
        });
    }

    fn note_failure(&mut self, error: &Error) {
        self.metrics.index_failures.inc();
        let cause = std::error::Error::source(error).map(ToString::to_string);
        tracing::error!(%error, cause, "the search index could not follow the store; trying again");
        self.failures = match error {
            Error::Vectors(vectors::Error::NotReady) => FAILURES_BEFORE_REBUILD,
            Error::Vectors(_) => self.failures + 1,
            // Building anew does not help a store that does not answer.
            _ => self.failures,
        };
    }
}

/// What the index knows of a capability.
fn to_point(capability: CapabilityId, facts: &Facts, whole: &Whole, embedder: &Embedder) -> Point {
    let parameters: Vec<_> = facts
        .parameters
        .iter()
        .map(|parameter| {
            (parameter.name.as_str(), parameter.description.as_deref().unwrap_or_default())
        })
        .collect();
    let domains: Vec<_> = facts.domains.iter().map(a2s::Domain::as_str).collect();
    let intents: Vec<_> = facts.intents.iter().map(String::as_str).collect();
    let text = index_text(&Described {
        name: facts.name.as_str(),
        description: &facts.description,
        parameters: &parameters,
        domains: &domains,
        intents: &intents,
    });
    Point {
        capability,
        dense: embedder.embed_parts(&text.dense),
        sparse: document_vector(&text.sparse),
        domains: domains.into_iter().map(str::to_owned).collect(),
        permissions: whole.permissions.iter().map(ToString::to_string).collect(),
        read_only: whole.read_only,
        formats: whole.formats.iter().copied().collect(),
        complexity: facts.complexity as u8,
        authors: facts.authors.iter().cloned().collect(),
        version: facts.version.clone(),
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
