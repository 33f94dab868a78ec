//! Reconciles an index with the database: how far it is, and what other registries did to it.

use std::time::Duration;

use tokio::time::Instant;

use super::{Indexer, Owed};
use crate::Error;
use crate::store::Seq;
use crate::store::dependency_rows::Which;
use crate::store::indexes::IndexId;

/// How often a registry that shares its database or index looks for what others have done. Doubled,
/// it is how long an index server that was away is unknown to be back.
pub(super) const LOOK_AROUND: Duration = Duration::from_secs(1);

impl Indexer {
    /// Finds out how far the index on disk is, if it is one that can answer.
    pub(super) async fn look(&mut self) -> Result<(), Error> {
        self.points.relate(Which::Unrelated).await?;
        self.vectors.refresh().await?;
        let index = self.answering();
        let indexed = match &index {
            Some(index) => self.points.store.indexed(index).await?,
            None => None,
        };
        let status = self.vectors.status().await?;
        // Read last: when others publish meanwhile, the index looks behind, and not wrong.
        let outbox = self.points.store.outbox(Seq::default(), 0).await?;
        if let Some(known) = status.as_of.filter(|as_of| *as_of > outbox.latest) {
            tracing::error!(
                known = known.0,
                latest = outbox.latest.0,
                "the database lacks changes that its search index knows of: its log (`-wal`) was \
                 lost, or it was restored from a backup; the index is made anew from what there is"
            );
        }
        // A damaged document has no point, so a store with one always looks incomplete: then
        // every start builds the index anew until it is mended.
        let is_whole = |indexed: &Seq| {
            let is_level = *indexed == outbox.latest;
            *indexed <= outbox.latest
                // What knows of more than there is would never give way to what is written from now on.
                && status.as_of.is_none_or(|as_of| as_of <= outbox.latest)
                && status.points.is_some_and(|points| !is_level || points as u64 == outbox.live)
        };
        match indexed.filter(is_whole) {
            Some(indexed) => {
                (self.index, self.is_worn, self.settled) = (index, status.is_worn, indexed);
                self.note_applied(indexed);
            }
            None => {
                let live = outbox.live;
                tracing::info!(?status, ?indexed, live, "there is no search index to begin with");
            }
        }
        Ok(())
    }

    /// Finds out, from time to time, what other registries have done to the index.
    pub(super) async fn look_around(&mut self) -> Result<(), Error> {
        if self.around_at.is_none_or(|at| Instant::now() < at) {
            return Ok(());
        }
        self.around_at = Some(Instant::now() + LOOK_AROUND);
        let (latest, reported) = self.points.store.reported(self.reported.0).await?;
        if !reported.is_empty() {
            self.live.changed_all(&reported);
        }
        // Those of two looks at a time, as a report may be seen after one that has a larger number.
        self.reported = (self.reported.1, latest);
        self.vectors.refresh().await?;
        let answering = self.answering();
        if let Some(index) = &self.index
            && answering.as_ref() != Some(index)
        {
            tracing::info!(?answering, "another registry has put another search index in place");
            (self.applied, self.index, self.owed) = (None, None, Owed::default());
            (self.unflushed, self.unchecked, self.flush_at) = (0, 0, None);
        }
        if let Some(index) = &self.index {
            self.settled = self.points.store.indexed(index).await?.unwrap_or_default();
        }
        Ok(())
    }

    /// The index that answers, when one does.
    fn answering(&self) -> Option<IndexId> {
        self.vectors.answering().ok().map(|live| live.identity().id.clone())
    }
}
