//! Builds a new index in a task of its own: reads every capability and embeds it.
//!
//! It sends one step at a time and waits until the indexer has taken it, so a slow embedder delays nothing
//! else. It waits for an embedder that does not answer. The store caches vectors, so an interrupted build
//! does not pay for them twice.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::backoff::RetryBackoff;
use super::point_builder::PointBuilder;
use crate::Error;
use crate::embed::{EmbedDeadline, Embedder, SimilarityScale};
use crate::store::indexes::IndexId;
use crate::store::{ChangeSeq, LiveVersionQuery};
use crate::vectors::IndexPoint;

/// The maximum number of capabilities in one batch. Their documents are in memory at the same time.
const BATCH: u32 = 64;

/// The next step of an index build.
pub(super) enum RebuildStep {
    /// The build begins, with the length of its vectors and the scale of their cosines.
    Begin { dimensions: usize, scale: SimilarityScale },
    /// Points for the index. The build has read `read` capabilities for them.
    Points { points: Vec<IndexPoint>, read: u64 },
    /// The embedder does not respond; the build will ask it again.
    Waiting(Error),
    /// The build has sent all points.
    Done,
    /// The build failed, for example because the store does not respond.
    Failed(Error),
}

/// A running build of an index. Dropping it stops the build.
#[derive(Debug)]
pub(super) struct IndexRebuild {
    pub(super) embedder: Arc<Embedder>,
    /// The id from the store, as soon as the build has begun.
    pub(super) id: Option<IndexId>,
    /// The last change that the new index contains from the start. Later changes have to be followed.
    pub(super) from: ChangeSeq,
    /// The callers that wait for it.
    pub(super) waiters: Vec<oneshot::Sender<Result<usize, Error>>>,
    steps: mpsc::Receiver<RebuildStep>,
    _task: JoinSet<()>,
}

impl IndexRebuild {
    pub(super) fn start(points: PointBuilder, embedder: Arc<Embedder>, from: ChangeSeq) -> Self {
        let (sender, steps) = mpsc::channel(1);
        let mut task = JoinSet::new();
        let reader = RebuildWorker { points, embedder: Arc::clone(&embedder), steps: sender };
        task.spawn(async move {
            // There is no receiver if the build was dropped.
            let _ = reader.read_all().await;
        });
        Self { embedder, id: None, from, waiters: Vec::new(), steps, _task: task }
    }

    /// Returns the next step. Safe to cancel at any time.
    pub(super) async fn next(&mut self) -> RebuildStep {
        let ended = || {
            RebuildStep::Failed(Error::Internal(
                "the build of the index stopped unexpectedly".into(),
            ))
        };
        self.steps.recv().await.unwrap_or_else(ended)
    }

    /// Reports an error to the waiting callers.
    pub(super) fn notify_failure(&mut self, why: impl Fn() -> Error) {
        for waiting in self.waiters.drain(..) {
            let _ = waiting.send(Err(why()));
        }
    }
}

struct RebuildWorker {
    points: PointBuilder,
    embedder: Arc<Embedder>,
    steps: mpsc::Sender<RebuildStep>,
}

impl RebuildWorker {
    /// Sends every step. Ends early when the receiver is gone.
    async fn read_all(&self) -> Option<()> {
        let dimensions = self.call_with_retries(|| self.embedder.dimensions()).await?;
        let scale =
            self.call_with_retries(|| self.points.embedding_service.scale(&self.embedder)).await?;
        self.send_step(RebuildStep::Begin { dimensions, scale }).await?;
        let mut after = None::<String>;
        loop {
            let heads = LiveVersionQuery::AfterName(after.as_deref(), BATCH);
            let entries = match self.points.store.live_versions(heads).await {
                Ok(entries) => entries,
                Err(error) => return self.send_step(RebuildStep::Failed(error.into())).await,
            };
            let Some(last) = entries.last() else { break };
            after = Some(last.name.to_string());
            let embed = || self.points.build_points(&entries, &self.embedder, EmbedDeadline::Long);
            let points = self.call_with_retries(embed).await?;
            self.send_step(RebuildStep::Points { points, read: entries.len() as u64 }).await?;
        }
        self.send_step(RebuildStep::Done).await
    }

    /// Repeats a call until it succeeds. None when the store failed, or the receiver is gone.
    async fn call_with_retries<T, E: Into<Error>, F: Future<Output = Result<T, E>>>(
        &self,
        question: impl Fn() -> F,
    ) -> Option<T> {
        let mut pause = RetryBackoff::default();
        loop {
            match question().await.map_err(Into::into) {
                Ok(answer) => return Some(answer),
                Err(error @ Error::Embedder(_)) => {
                    self.send_step(RebuildStep::Waiting(error)).await?
                }
                Err(error) => {
                    self.send_step(RebuildStep::Failed(error)).await?;
                    return None;
                }
            }
            tokio::select! {
                () = tokio::time::sleep(pause.next()) => {}
                () = self.steps.closed() => return None,
            }
        }
    }

    async fn send_step(&self, step: RebuildStep) -> Option<()> {
        self.steps.send(step).await.ok()
    }
}
