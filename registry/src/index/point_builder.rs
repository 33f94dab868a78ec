//! Builds the point of a capability in the index from its stored document.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use a2s::{ClosureSummary, Digest};

use crate::Error;
use crate::bm25::document_vector;
use crate::documents::{DocumentReader, VerifiedDocument};
use crate::embed::{EmbedDeadline, Embedder};
use crate::embedding_service::{EmbeddingService, WeightedParts};
use crate::learned_intents::{LearnedMean, LearnedWeight};
use crate::store::dependency_rows::VersionScope;
use crate::store::{CapabilityId, LiveVersionQuery, RegistryStore, VersionEntry, VersionId};
use crate::vectors::{IndexChange, IndexPoint};

/// The most versions whose documents are in memory together.
const BATCH: u32 = 64;

/// A builder of index points.
#[derive(Debug, Clone)]
pub(super) struct PointBuilder {
    pub(super) store: Arc<dyn RegistryStore>,
    pub(super) documents: Arc<DocumentReader>,
    pub(super) embedding_service: Arc<EmbeddingService>,
}

/// A point without its dense vector.
#[derive(Debug, Clone)]
struct PointDraft {
    point: IndexPoint,
    /// The digest of the document.
    digest: Digest,
    /// The weighted texts for the vectors.
    parts: WeightedParts,
}

impl PointBuilder {
    /// The index changes for capabilities that changed: for each one a point or its removal.
    ///
    /// # Errors
    /// When the store or the embedder does not answer.
    pub(super) async fn build_changes(
        &self,
        capabilities: &[CapabilityId],
        embedder: &Embedder,
        patience: EmbedDeadline,
    ) -> Result<Vec<IndexChange>, Error> {
        let drafts = self.draft_live_versions(capabilities).await?;
        let points = self.embed(drafts, embedder, patience).await?;
        Ok(to_changes(capabilities, points))
    }

    /// Builds changes like `build_changes`. When the embedder is not available, the points have only their
    /// words. The flag is true when they also have their vectors.
    pub(super) async fn build_changes_with_fallback(
        &self,
        capabilities: &[CapabilityId],
        embedder: &Embedder,
        patience: EmbedDeadline,
    ) -> Result<(Vec<IndexChange>, bool), Error> {
        let drafts = self.draft_live_versions(capabilities).await?;
        match self.embed(drafts.clone(), embedder, patience).await {
            Ok(points) => Ok((to_changes(capabilities, points), true)),
            Err(Error::Embedder(error)) => {
                tracing::warn!(%error, "the embedder is not available; searches find new changes by their words only");
                let points = drafts.into_iter().map(|draft| draft.point).collect();
                Ok((to_changes(capabilities, points), false))
            }
            Err(error) => Err(error),
        }
    }

    /// The same index changes with words alone: for an index whose embedder is not available any more.
    ///
    /// # Errors
    /// When the store does not answer.
    pub(super) async fn build_changes_without_vectors(
        &self,
        capabilities: &[CapabilityId],
    ) -> Result<Vec<IndexChange>, Error> {
        let drafts = self.draft_live_versions(capabilities).await?;
        Ok(to_changes(capabilities, drafts.into_iter().map(|draft| draft.point).collect()))
    }

    /// Builds the points of the entries whose documents are not damaged.
    ///
    /// # Errors
    /// Fails when the store or the embedder does not respond.
    pub(super) async fn build_points(
        &self,
        entries: &[VersionEntry],
        embedder: &Embedder,
        patience: EmbedDeadline,
    ) -> Result<Vec<IndexPoint>, Error> {
        let drafts = self.draft_points(entries).await?;
        self.embed(drafts, embedder, patience).await
    }

    /// Writes the rows of relations between documents. A damaged document has none until it is repaired and
    /// the registry restarts.
    ///
    /// # Errors
    /// When the store does not answer.
    pub(super) async fn update_relations(&self, which: VersionScope) -> Result<(), Error> {
        let mut after = VersionId(0);
        loop {
            let entries = self.store.list_versions_after(after, which, BATCH).await?;
            let Some(last) = entries.last() else { return Ok(()) };
            after = last.id;
            let opened = self.documents.open(&entries).await?;
            let whole = opened.into_iter().filter_map(|(entry, opened)| {
                Some((entry.id, opened.ok()?.facts.to_relation_rows()))
            });
            self.store.replace_relations(&whole.collect::<Vec<_>>()).await?;
        }
    }

    /// Gives the sentence encoder's vectors to capabilities without: those of an index that was built
    /// without the encoder.
    ///
    /// # Errors
    /// When the store does not answer.
    pub(super) async fn encode_sentences(&self) -> Result<(), Error> {
        let embedder = self.embedding_service.built_in();
        let Some(sentences) = self.embedding_service.sentences_of(embedder) else { return Ok(()) };
        let mut after = None::<String>;
        loop {
            let heads = LiveVersionQuery::AfterName(after.as_deref(), BATCH);
            let mut entries = self.store.live_versions(heads).await?;
            let Some(last) = entries.last() else { return Ok(()) };
            after = Some(last.name.to_string());
            let digests: Vec<_> = entries.iter().map(|entry| entry.digest).collect();
            let known = sentences.load(&digests).await?;
            entries.retain(|entry| !known.contains_key(&entry.digest));
            let drafts = self.draft_points(&entries).await?;
            sentences.encode(&to_documents(&drafts)).await?;
        }
    }

    async fn draft_live_versions(
        &self,
        capabilities: &[CapabilityId],
    ) -> Result<Vec<PointDraft>, Error> {
        let entries = self.store.live_versions(LiveVersionQuery::ByIds(capabilities)).await?;
        self.draft_points(&entries).await
    }

    /// Builds points without their dense vectors.
    async fn draft_points(&self, entries: &[VersionEntry]) -> Result<Vec<PointDraft>, Error> {
        let mut known = Vec::with_capacity(entries.len());
        for (entry, opened) in self.documents.open(entries).await? {
            let Ok(opened) = opened else { continue };
            let whole =
                self.documents.summarize_closure(&opened.facts.dependency_interface).await?;
            known.push((entry.clone(), opened, whole));
        }
        tokio::task::spawn_blocking(move || {
            known.iter().map(|(entry, opened, whole)| draft_point(entry, opened, whole)).collect()
        })
        .await
        .map_err(|e| Error::Internal(e.into()))
    }

    async fn embed(
        &self,
        drafts: Vec<PointDraft>,
        embedder: &Embedder,
        patience: EmbedDeadline,
    ) -> Result<Vec<IndexPoint>, Error> {
        if let Some(sentences) = self.embedding_service.sentences_of(embedder) {
            sentences.encode(&to_documents(&drafts)).await?;
        }
        let (mut points, parts): (Vec<_>, Vec<_>) =
            drafts.into_iter().map(|draft| (draft.point, draft.parts)).unzip();
        let learned = self.load_learned(&points, embedder).await?;
        let vectors = self.embedding_service.embed_documents(parts, embedder, patience).await?;
        for (point, vector) in points.iter_mut().zip(vectors) {
            point.dense = match learned.get(&point.capability) {
                Some(mean) => mean.add_to(vector, LearnedWeight::INDEX),
                None => vector,
            };
        }
        Ok(points)
    }

    /// The means of accepted intents, when they count.
    async fn load_learned(
        &self,
        points: &[IndexPoint],
        embedder: &Embedder,
    ) -> Result<BTreeMap<CapabilityId, LearnedMean>, Error> {
        if !self.embedding_service.learns() {
            return Ok(BTreeMap::new());
        }
        let capabilities: Vec<_> = points.iter().map(|point| point.capability).collect();
        Ok(self.store.load_learned(&capabilities, embedder.id()).await?)
    }

    /// Drops from memory what capabilities have that another registry has indexed.
    ///
    /// # Errors
    /// Fails when the store does not respond.
    pub(super) async fn forget_vectors(&self, capabilities: &[CapabilityId]) -> Result<(), Error> {
        let sentences = self.embedding_service.sentences_of(self.embedding_service.built_in());
        if let Some(sentences) = sentences
            && self.embedding_service.learns()
            && !capabilities.is_empty()
        {
            let live = self.store.live_versions(LiveVersionQuery::ByIds(capabilities)).await?;
            sentences.forget(&live.iter().map(|entry| entry.digest).collect::<Vec<_>>());
        }
        Ok(())
    }
}

/// The texts for the sentence encoder, with the digests of their documents.
fn to_documents(drafts: &[PointDraft]) -> Vec<(Digest, WeightedParts)> {
    drafts.iter().map(|draft| (draft.digest, draft.parts.clone())).collect()
}

fn to_changes(capabilities: &[CapabilityId], points: Vec<IndexPoint>) -> Vec<IndexChange> {
    let kept: BTreeSet<_> = points.iter().map(|point| point.capability).collect();
    let removed = capabilities.iter().filter(|id| !kept.contains(id)).copied();
    removed
        .map(IndexChange::Remove)
        .chain(points.into_iter().map(Box::new).map(IndexChange::Upsert))
        .collect()
}

fn draft_point(
    entry: &VersionEntry,
    opened: &VerifiedDocument,
    whole: &ClosureSummary,
) -> PointDraft {
    let facts = &opened.facts;
    let text = facts.to_index_text();
    let point = IndexPoint {
        capability: entry.capability,
        dense: None,
        sparse: document_vector(&text.sparse),
        domains: facts.domains.iter().map(|domain| domain.as_str().to_owned()).collect(),
        permissions: whole.permissions.iter().map(ToString::to_string).collect(),
        read_only: whole.read_only,
        formats: whole.formats.iter().copied().collect(),
        complexity: facts.complexity as u8,
        authors: facts.authors.iter().cloned().collect(),
        version: facts.version.clone(),
        card: DocumentReader::build_card(entry, opened),
    };
    PointDraft { point, digest: entry.digest, parts: text.dense }
}
