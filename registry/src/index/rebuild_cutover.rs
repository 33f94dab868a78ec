//! The build of a new index alongside the live one, and the cutover to it.

use std::sync::Arc;

use a2s_api::IndexBuilding;

use super::pending_embeddings::PendingEmbeddings;
use super::rebuild::{IndexRebuild, RebuildStep};
use super::{BATCH, EMBED_DEADLINE, FlushState, IndexHealth, Indexer, distinct_capabilities};
use crate::Error;
use crate::embed::Embedder;
use crate::store::ChangeSeq;
use crate::vectors::{self, IndexChange, IndexIdentity};

impl Indexer {
    /// Starts to build a new index when one is required and no build is running.
    pub(super) async fn start_build(&mut self) -> Result<(), Error> {
        if self.build.is_none()
            && let Some(embedder) = self.find_rebuild_embedder()
        {
            // Read before the documents are: what changes meanwhile is followed afterwards.
            let target = self.points.store.count_live_versions().await?;
            let (name, total) = (embedder.id().to_owned(), target.live_count);
            tracing::info!(
                embedder = name,
                total,
                "the registry builds a search index from the documents"
            );
            self.build = Some(IndexRebuild::start(self.points.clone(), embedder, target.latest));
            let building = IndexBuilding { embedder: name, done: 0, total, waiting: false };
            self.note_building(Some(building));
        }
        if self.build.is_none() {
            self.note_building(None);
        }
        // An index that is in the making is as new as one that would be begun now.
        if let Some(build) = &mut self.build
            && build.embedder.id() == self.points.embedding_service.configured().id()
        {
            build.waiters.append(&mut self.rebuild_waiters);
        }
        Ok(())
    }

    /// Returns the embedder for a new index, when one has to be built.
    fn find_rebuild_embedder(&self) -> Option<Arc<Embedder>> {
        let meaning = &self.points.embedding_service;
        let answers = if self.live.applied.is_some() { self.live_embedder() } else { None };
        match answers {
            None => Some(Arc::clone(meaning.built_in())),
            Some(embedder) => {
                let is_wanted = embedder.id() == meaning.configured().id();
                let is_good = is_wanted && self.rebuild_waiters.is_empty();
                (!is_good).then(|| Arc::clone(meaning.configured()))
            }
        }
    }

    /// Applies a step of the build.
    pub(super) async fn apply_step(&mut self, step: RebuildStep) -> Result<(), Error> {
        let result = self.try_apply_step(step).await;
        if let Err(error) = &result
            && let Some(mut build) = self.build.take()
        {
            build.notify_failure(|| match error {
                Error::Vectors(error) => Error::Vectors(error.duplicate()),
                _ => Error::IndexNotReady,
            });
        }
        result
    }

    async fn try_apply_step(&mut self, step: RebuildStep) -> Result<(), Error> {
        let Some(build) = &mut self.build else { return Ok(()) };
        match step {
            RebuildStep::Begin { dimensions, scale } => {
                let id = self.points.store.create_index_id().await?;
                build.id = Some(id.clone());
                let identity = IndexIdentity {
                    id,
                    store: self.identity.clone(),
                    embedder: build.embedder.id().to_owned(),
                    dimensions,
                    scale,
                    format: vectors::FORMAT,
                };
                self.vectors.begin(identity).await?;
            }
            RebuildStep::Points { points, read } => {
                let changes = points.into_iter().map(Box::new).map(IndexChange::Upsert).collect();
                self.vectors.stage(changes, build.from).await?;
                self.note_read(read);
            }
            RebuildStep::Waiting(error) => {
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                tracing::warn!(%error, cause, "the new search index waits for its embedder");
                build.notify_failure(|| match &error {
                    Error::Embedder(error) => Error::Embedder(error.clone()),
                    _ => Error::IndexNotReady,
                });
                self.progress.send_modify(|progress| {
                    if let Some(building) = &mut progress.building {
                        building.waiting = true;
                    }
                });
            }
            RebuildStep::Failed(error) => return Err(error),
            RebuildStep::Done => self.finish_build().await?,
        }
        Ok(())
    }

    /// Applies the changes since the build began, and replaces the old index with the new one.
    async fn finish_build(&mut self) -> Result<(), Error> {
        let Some(build) = &self.build else { return Ok(()) };
        let id =
            build.id.clone().ok_or_else(|| Error::Internal("the new index has no name".into()))?;
        let (embedder, mut at) = (Arc::clone(&build.embedder), build.from);
        let mut pending = PendingEmbeddings::default();
        loop {
            let outbox = self.points.store.read_outbox(at, BATCH).await?;
            let Some((last, _)) = outbox.changes.last().copied() else { break };
            let capabilities = distinct_capabilities(&outbox.changes);
            self.live_versions.invalidate_all(&capabilities);
            let first = outbox.changes.first().map_or(last, |(first, _)| *first);
            let (changes, is_whole) = self
                .points
                .build_changes_with_fallback(&capabilities, &embedder, EMBED_DEADLINE)
                .await?;
            self.vectors.stage(changes, outbox.latest).await?;
            pending.note_indexed(&capabilities, first, is_whole);
            at = last;
        }
        // Noted ahead: an index that answers has all that is said of it.
        self.points.store.advance_index(&id, pending.persisted_up_to(at)).await?;
        self.vectors.commit().await?;
        // From here on the new index answers, whatever happens.
        let replaced = self.live.id.replace(id);
        self.live.settled = ChangeSeq::default();
        self.flush = FlushState::default();
        self.health = IndexHealth::default();
        self.live.pending = pending;
        self.note_applied(at);
        self.metrics.index.rebuilds.inc();
        let build = self.build.take();
        if let Some(replaced) = replaced {
            self.points.store.delete_index(&replaced).await?;
        }
        let points = self.vectors.status().await?.points.unwrap_or(0);
        tracing::info!(points, embedder = embedder.id(), "the search index is built");
        for waiting in build.into_iter().flat_map(|build| build.waiters) {
            let _ = waiting.send(Ok(points));
        }
        Ok(())
    }

    fn note_building(&self, building: Option<IndexBuilding>) {
        let (done, total) = building.as_ref().map_or((0, 0), |b| (b.done, b.total));
        self.metrics.index.build_done.set(done.cast_signed());
        self.metrics.index.build_size.set(total.cast_signed());
        self.progress.send_if_modified(|progress| {
            let is_new = progress.building != building;
            progress.building = building;
            is_new
        });
    }

    /// Records that `read` more capabilities are in the new index. Logs the progress at every tenth.
    fn note_read(&self, read: u64) {
        let mut building = self.progress.borrow().building.clone();
        if let Some(building) = &mut building {
            let tenth = |done: u64| done * 10 / building.total.max(1);
            let before = tenth(building.done);
            building.done += read;
            building.waiting = false;
            if tenth(building.done) != before {
                let IndexBuilding { embedder, done, total, .. } = building;
                tracing::info!(embedder, done, total, "the registry is building the search index");
            }
        }
        self.note_building(building);
    }
}
