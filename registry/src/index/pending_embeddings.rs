//! Changes that are in the index by their words alone, because the embedder did not answer.
//!
//! Until they have their vectors, the index does not count as having them on disk: after a crash they
//! are followed again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::task::JoinSet;

use super::backoff::RetryBackoff;
use super::point_builder::PointBuilder;
use crate::Error;
use crate::embed::{EmbedDeadline, Embedder};
use crate::store::{CapabilityId, ChangeSeq};
use crate::vectors::IndexChange;

/// The most capabilities that are embedded in one batch.
const BATCH: usize = 64;

/// Embeddings that were not available in time.
#[derive(Debug)]
pub(super) struct LateEmbeddings {
    pub(super) changes: Vec<IndexChange>,
    /// The last change of the store when the capabilities were read.
    pub(super) as_of: ChangeSeq,
}

#[derive(Debug, Default)]
pub(super) struct PendingEmbeddings {
    /// Each capability, with its first change that has no vectors.
    since: BTreeMap<CapabilityId, ChangeSeq>,
    /// The capabilities that are being embedded.
    in_progress: BTreeSet<CapabilityId>,
    task: JoinSet<Result<LateEmbeddings, Error>>,
    pause: RetryBackoff,
}

impl PendingEmbeddings {
    /// Records that the points of capabilities are in the index as of `seq`, with vectors or without.
    pub(super) fn note_indexed(
        &mut self,
        capabilities: &[CapabilityId],
        seq: ChangeSeq,
        is_whole: bool,
    ) {
        for capability in capabilities {
            // The running embedding is of an older version.
            self.in_progress.remove(capability);
            match is_whole {
                true => drop(self.since.remove(capability)),
                false => drop(self.since.entry(*capability).or_insert(seq)),
            }
        }
    }

    /// Returns the last change that may count as being on disk when every change up to `applied` is.
    pub(super) fn persisted_up_to(&self, applied: ChangeSeq) -> ChangeSeq {
        let first = self.since.values().min();
        first.map_or(applied, |first| ChangeSeq(first.0 - 1).min(applied))
    }

    /// Starts to embed some of the pending capabilities, after a pause, unless a task is running already.
    pub(super) fn start(&mut self, points: &PointBuilder, embedder: &Arc<Embedder>) {
        if self.since.is_empty() || !self.task.is_empty() {
            return;
        }
        let capabilities: Vec<_> = self.since.keys().take(BATCH).copied().collect();
        self.in_progress = capabilities.iter().copied().collect();
        let (points, embedder) = (points.clone(), Arc::clone(embedder));
        let pause = self.pause.next();
        self.task.spawn(async move {
            tokio::time::sleep(pause).await;
            let as_of = points.store.read_outbox(ChangeSeq::default(), 0).await?.latest;
            let changes =
                points.build_changes(&capabilities, &embedder, EmbedDeadline::Long).await?;
            Ok(LateEmbeddings { changes, as_of })
        });
    }

    /// The next finished embeddings. Pending while no task runs. Safe to cancel.
    pub(super) async fn next(&mut self) -> Result<LateEmbeddings, Error> {
        let Some(result) = self.task.join_next().await else {
            return std::future::pending().await;
        };
        let result = result.map_err(|error| Error::Internal(error.into())).flatten();
        if result.is_ok() {
            self.pause = RetryBackoff::default();
        }
        result
    }

    /// The result of `next` without capabilities that have changed since.
    pub(super) fn retain_pending(&self, mut late: LateEmbeddings) -> LateEmbeddings {
        late.changes.retain(|change| self.in_progress.contains(&change.capability()));
        late
    }

    /// Marks the embedded capabilities as complete: their points are in the index.
    pub(super) fn finish_batch(&mut self) {
        for capability in std::mem::take(&mut self.in_progress) {
            self.since.remove(&capability);
        }
    }
}
