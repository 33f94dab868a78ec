//! Builds the point of a capability in the index from its stored document.

use std::collections::BTreeSet;
use std::sync::Arc;

use a2s::Whole;

use crate::Error;
use crate::bm25::document_vector;
use crate::documents::{Documents, Opened};
use crate::embed::{EmbedDeadline, Embedder, EmbeddingSource, index_text};
use crate::embedding_service::{Meaning, Parts};
use crate::store::dependency_rows::Which;
use crate::store::{CapabilityId, Entry, Heads, Store, VersionId};
use crate::vectors::{Change, Point};

/// Versions whose documents are in memory together.
const BATCH: u32 = 64;

/// Makes points.
#[derive(Debug, Clone)]
pub(super) struct Points {
    pub(super) store: Arc<dyn Store>,
    pub(super) documents: Arc<Documents>,
    pub(super) meaning: Arc<Meaning>,
}

impl Points {
    /// What has to be done for capabilities that changed: for each one a point or its removal.
    ///
    /// # Errors
    /// When the store does not answer, or the embedder.
    pub(super) async fn changes(
        &self,
        capabilities: &[CapabilityId],
        embedder: &Embedder,
        patience: EmbedDeadline,
    ) -> Result<Vec<Change>, Error> {
        let drafts = self.drafts_of_heads(capabilities).await?;
        let points = self.embed(drafts, embedder, patience).await?;
        Ok(to_changes(capabilities, points))
    }

    /// The same; but when the embedder does not answer, the points have their words alone. The flag
    /// says whether they are whole.
    pub(super) async fn changes_now(
        &self,
        capabilities: &[CapabilityId],
        embedder: &Embedder,
        patience: EmbedDeadline,
    ) -> Result<(Vec<Change>, bool), Error> {
        let drafts = self.drafts_of_heads(capabilities).await?;
        match self.embed(drafts.clone(), embedder, patience).await {
            Ok(points) => Ok((to_changes(capabilities, points), true)),
            Err(Error::Embedder(error)) => {
                tracing::warn!(%error, "changes are found by their words alone for now");
                let points = drafts.into_iter().map(|(point, _)| point).collect();
                Ok((to_changes(capabilities, points), false))
            }
            Err(error) => Err(error),
        }
    }

    /// The same by their words alone: for an index whose embedder nobody has any more.
    ///
    /// # Errors
    /// When the store does not answer.
    pub(super) async fn changes_by_words(
        &self,
        capabilities: &[CapabilityId],
    ) -> Result<Vec<Change>, Error> {
        let drafts = self.drafts_of_heads(capabilities).await?;
        Ok(to_changes(capabilities, drafts.into_iter().map(|(point, _)| point).collect()))
    }

    /// The points of those that are not damaged.
    ///
    /// # Errors
    /// When the store does not answer, or the embedder.
    pub(super) async fn of(
        &self,
        entries: &[Entry],
        embedder: &Embedder,
        patience: EmbedDeadline,
    ) -> Result<Vec<Point>, Error> {
        let drafts = self.drafts(entries).await?;
        self.embed(drafts, embedder, patience).await
    }

    /// Makes the rows that lead from one document to others. A damaged document has none, until it
    /// is mended and the next start comes by.
    ///
    /// # Errors
    /// When the store does not answer.
    pub(super) async fn relate(&self, which: Which) -> Result<(), Error> {
        let mut after = VersionId(0);
        loop {
            let entries = self.store.versions_behind(after, which, BATCH).await?;
            let Some(last) = entries.last() else { return Ok(()) };
            after = last.id;
            let opened = self.documents.open(&entries).await?;
            let whole = opened
                .into_iter()
                .filter_map(|(entry, opened)| Some((entry.id, opened.ok()?.facts.relations())));
            self.store.relate(&whole.collect::<Vec<_>>()).await?;
        }
    }

    async fn drafts_of_heads(
        &self,
        capabilities: &[CapabilityId],
    ) -> Result<Vec<(Point, Parts)>, Error> {
        let entries = self.store.heads(Heads::Of(capabilities)).await?;
        self.drafts(&entries).await
    }

    /// Points without their dense vectors, and what those are to be made of.
    async fn drafts(&self, entries: &[Entry]) -> Result<Vec<(Point, Parts)>, Error> {
        let mut known = Vec::with_capacity(entries.len());
        for (entry, opened) in self.documents.open(entries).await? {
            let Ok(opened) = opened else { continue };
            let whole = self.documents.whole(&opened.facts.unit).await?;
            known.push((entry.clone(), opened, whole));
        }
        tokio::task::spawn_blocking(move || {
            known.iter().map(|(entry, opened, whole)| to_draft(entry, opened, whole)).collect()
        })
        .await
        .map_err(|e| Error::Internal(e.into()))
    }

    async fn embed(
        &self,
        drafts: Vec<(Point, Parts)>,
        embedder: &Embedder,
        patience: EmbedDeadline,
    ) -> Result<Vec<Point>, Error> {
        let (mut points, parts): (Vec<_>, Vec<_>) = drafts.into_iter().unzip();
        let vectors = self.meaning.of_documents(parts, embedder, patience).await?;
        for (point, vector) in points.iter_mut().zip(vectors) {
            point.dense = vector;
        }
        Ok(points)
    }
}

fn to_changes(capabilities: &[CapabilityId], points: Vec<Point>) -> Vec<Change> {
    let kept: BTreeSet<_> = points.iter().map(|point| point.capability).collect();
    let removed = capabilities.iter().filter(|id| !kept.contains(id)).copied();
    removed
        .map(Change::Remove)
        .chain(points.into_iter().map(Box::new).map(Change::Upsert))
        .collect()
}

fn to_draft(entry: &Entry, opened: &Opened, whole: &Whole) -> (Point, Parts) {
    let facts = &opened.facts;
    let parameters: Vec<_> = facts
        .parameters
        .iter()
        .map(|parameter| {
            (parameter.name.as_str(), parameter.description.as_deref().unwrap_or_default())
        })
        .collect();
    let domains: Vec<_> = facts.domains.iter().map(a2s::Domain::as_str).collect();
    let intents: Vec<_> = facts.intents.iter().map(String::as_str).collect();
    let text = index_text(&EmbeddingSource {
        name: facts.name.as_str(),
        description: &facts.description,
        parameters: &parameters,
        domains: &domains,
        intents: &intents,
    });
    let point = Point {
        capability: entry.capability,
        dense: None,
        sparse: document_vector(&text.sparse),
        domains: domains.into_iter().map(str::to_owned).collect(),
        permissions: whole.permissions.iter().map(ToString::to_string).collect(),
        read_only: whole.read_only,
        formats: whole.formats.iter().copied().collect(),
        complexity: facts.complexity as u8,
        authors: facts.authors.iter().cloned().collect(),
        version: facts.version.clone(),
        card: Documents::card(entry, opened),
    };
    (point, text.dense)
}
