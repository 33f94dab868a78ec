//! Reconciles an index with the database: how far it is, and what other registries did to it.

use std::time::Duration;

use tokio::time::Instant;

use super::{FlushState, Indexer, LiveIndex};
use crate::Error;
use crate::store::ChangeSeq;
use crate::store::dependency_rows::VersionScope;
use crate::store::indexes::IndexId;

/// The interval at which a registry with a shared database or index checks for changes of others. Twice
/// this interval is the longest pause before it retries an index server that was away.
pub(super) const SHARED_CHECK_INTERVAL: Duration = Duration::from_secs(1);

impl Indexer {
    /// Determines the last change of the index on disk, if that index can serve queries.
    pub(super) async fn load_progress(&mut self) -> Result<(), Error> {
        self.points.update_relations(VersionScope::WithoutCurrentRows).await?;
        self.vectors.refresh().await?;
        let index = self.live_index_id();
        let status = self.vectors.status().await?;
        let indexed = match &index {
            Some(index) if self.vectors.is_shared() => {
                self.points.store.load_indexed_seq(index).await?
            }
            // What it had when it was read: others may have written to its copy since.
            Some(_) => status.as_of,
            None => None,
        };
        // Read last: if others publish meanwhile, the index looks outdated, and not wrong.
        let target = self.points.store.count_live_versions().await?;
        if let Some(known) = status.as_of.filter(|as_of| *as_of > target.latest) {
            tracing::error!(
                known = known.0,
                latest = target.latest.0,
                "the database lacks changes that its search index contains: its log (`-wal`) was \
                 lost, or it was restored from a backup; the registry rebuilds the index from the database"
            );
        }
        // A damaged document has no point, so a store with one always looks incomplete: then every
        // start builds the index again until it is fixed.
        let is_whole = |indexed: &ChangeSeq| {
            let is_level = *indexed == target.latest;
            *indexed <= target.latest
                // An index that is ahead would never accept the changes written from now on.
                && status.as_of.is_none_or(|as_of| as_of <= target.latest)
                && status.points.is_some_and(|points| !is_level || points as u64 == target.live_count)
        };
        match indexed.filter(is_whole) {
            Some(indexed) => {
                (self.live.id, self.live.settled) = (index, indexed);
                self.note_applied(indexed);
            }
            None => {
                let live = target.live_count;
                tracing::info!(?status, ?indexed, live, "no usable search index found");
            }
        }
        Ok(())
    }

    /// Checks from time to time for changes that other registries have made in the index.
    pub(super) async fn check_other_registries(&mut self) -> Result<(), Error> {
        if self.others.next_check.is_none_or(|at| Instant::now() < at) {
            return Ok(());
        }
        self.others.next_check = Some(Instant::now() + SHARED_CHECK_INTERVAL);
        let (latest, reported) = self.points.store.list_reported(self.others.reported.0).await?;
        if !reported.is_empty() {
            self.live_versions.invalidate_all(&reported);
        }
        // Those of two looks at a time, as a report may be seen after one that has a larger number.
        self.others.reported = (self.others.reported.1, latest);
        self.vectors.refresh().await?;
        let answering = self.live_index_id();
        if let Some(index) = &self.live.id
            && answering.as_ref() != Some(index)
        {
            tracing::info!(?answering, "another registry has replaced the search index");
            self.live = LiveIndex::default();
            self.flush = FlushState::default();
        }
        // Only this registry changes an index in its memory.
        if let Some(index) = &self.live.id
            && self.vectors.is_shared()
        {
            self.live.settled =
                self.points.store.load_indexed_seq(index).await?.unwrap_or_default();
        }
        Ok(())
    }

    /// Returns the index that serves queries, if there is one.
    fn live_index_id(&self) -> Option<IndexId> {
        self.vectors.current_reader().ok().map(|live| live.identity().id.clone())
    }
}
