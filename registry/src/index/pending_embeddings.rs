//! Changes that are in the index by their words alone, because the embedder did not answer.
//!
//! Until they have their vectors, the index does not count as having them on disk: after a crash they
//! are followed again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::task::JoinSet;

use super::backoff::Pause;
use super::point_builder::Points;
use crate::Error;
use crate::embed::{EmbedDeadline, Embedder};
use crate::store::{CapabilityId, Seq};
use crate::vectors::Change;

/// Capabilities that are mended in one go.
const BATCH: usize = 64;

/// What was embedded later than it should have been.
#[derive(Debug)]
pub(super) struct Late {
    pub(super) changes: Vec<Change>,
    /// The last change when they were read.
    pub(super) as_of: Seq,
}

#[derive(Debug, Default)]
pub(super) struct Owed {
    /// Which, and since which change.
    since: BTreeMap<CapabilityId, Seq>,
    /// Those that are being embedded.
    under_way: BTreeSet<CapabilityId>,
    task: JoinSet<Result<Late, Error>>,
    pause: Pause,
}

impl Owed {
    /// Notes capabilities whose points are in the index as of `seq`: with vectors or without.
    pub(super) fn note(&mut self, capabilities: &[CapabilityId], seq: Seq, is_whole: bool) {
        for capability in capabilities {
            // What is under way is of a version that is past.
            self.under_way.remove(capability);
            match is_whole {
                true => drop(self.since.remove(capability)),
                false => drop(self.since.entry(*capability).or_insert(seq)),
            }
        }
    }

    /// The last change that may count as being on disk when everything up to `applied` is.
    pub(super) fn settled(&self, applied: Seq) -> Seq {
        let first = self.since.values().min();
        first.map_or(applied, |first| Seq(first.0 - 1).min(applied))
    }

    /// Begins to embed some of them, after a pause, unless that is under way.
    pub(super) fn start(&mut self, points: &Points, embedder: &Arc<Embedder>) {
        if self.since.is_empty() || !self.task.is_empty() {
            return;
        }
        let capabilities: Vec<_> = self.since.keys().take(BATCH).copied().collect();
        self.under_way = capabilities.iter().copied().collect();
        let (points, embedder) = (points.clone(), Arc::clone(embedder));
        let pause = self.pause.next();
        self.task.spawn(async move {
            tokio::time::sleep(pause).await;
            let as_of = points.store.outbox(Seq::default(), 0).await?.latest;
            let changes = points.changes(&capabilities, &embedder, EmbedDeadline::Long).await?;
            Ok(Late { changes, as_of })
        });
    }

    /// What was embedded. Never comes while nothing is under way. Can be cut short at any time.
    pub(super) async fn next(&mut self) -> Result<Late, Error> {
        let Some(result) = self.task.join_next().await else {
            return std::future::pending().await;
        };
        let result = result.map_err(|error| Error::Internal(error.into())).flatten();
        if result.is_ok() {
            self.pause = Pause::default();
        }
        result
    }

    /// What `next` gave, without what has changed meanwhile.
    pub(super) fn still_owed(&self, mut late: Late) -> Late {
        late.changes.retain(|change| self.under_way.contains(&change.capability()));
        late
    }

    /// What is still owed of it is in the index.
    pub(super) fn settle(&mut self) {
        for capability in std::mem::take(&mut self.under_way) {
            self.since.remove(&capability);
        }
    }
}
