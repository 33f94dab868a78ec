//! Summaries of documents for searches, without compiling them where possible.

use std::collections::BTreeMap;
use std::sync::Arc;

use a2s::Digest;
use futures::future::{join, try_join_all};

use super::hit_summary_cache::SummaryCard;
use super::{DocumentReader, HitSummary, VerifiedDocument, lock};
use crate::Error;
use crate::store::{CapabilityId, VersionEntry};
use crate::vectors::IndexReader;

impl DocumentReader {
    /// The summaries of the documents of `entries`, in their order; none for damaged ones. Reads and hashes
    /// the bytes of each. A document that is not cached takes its summary from its card in `index`, and is
    /// compiled when it has no card that is valid for these bytes.
    ///
    /// # Errors
    /// When the store does not answer.
    pub(crate) async fn load_summaries(
        &self,
        entries: &[&VersionEntry],
        index: &dyn IndexReader,
    ) -> Result<Vec<Option<Arc<HitSummary>>>, Error> {
        let ids: Vec<_> = entries.iter().map(|entry| entry.id).collect();
        let (sources, mut cards) =
            join(self.store.load_sources(&ids), self.load_cards(entries, index)).await;
        let mut sources = sources?;
        let summaries = entries.iter().map(|entry| {
            let (source, card) = (sources.remove(&entry.id), cards.remove(&entry.capability));
            self.load_summary(entry, source, card)
        });
        try_join_all(summaries).await
    }

    /// The same to compare many candidates: what was verified once is not read again. A hit is verified when
    /// it is offered.
    ///
    /// # Errors
    /// When the store does not answer.
    pub(crate) async fn load_ranking_summaries(
        &self,
        entries: &[&VersionEntry],
        index: &dyn IndexReader,
    ) -> Result<Vec<Option<Arc<HitSummary>>>, Error> {
        let mut summaries: Vec<_> = {
            let remembered = lock(&self.cards);
            let cached = |entry: &&VersionEntry| {
                let card = remembered.entries.get(&entry.digest)?;
                card.is_of(entry).then(|| Arc::clone(&card.summary))
            };
            entries.iter().map(cached).collect()
        };
        let slots = summaries.iter_mut().zip(entries).filter(|(summary, _)| summary.is_none());
        let (slots, unknown): (Vec<_>, Vec<_>) = slots.map(|(slot, entry)| (slot, *entry)).unzip();
        if !unknown.is_empty() {
            let read = self.load_summaries(&unknown, index).await?;
            slots.into_iter().zip(read).for_each(|(slot, summary)| *slot = summary);
        }
        Ok(summaries)
    }

    /// Loads the cached cards, and the missing ones from the index.
    async fn load_cards(
        &self,
        entries: &[&VersionEntry],
        index: &dyn IndexReader,
    ) -> BTreeMap<CapabilityId, SummaryCard> {
        let (mut cards, mut unknown) = (BTreeMap::new(), Vec::new());
        {
            let remembered = lock(&self.cards);
            for entry in entries {
                match remembered.entries.get(&entry.digest) {
                    Some(card) => drop(cards.insert(entry.capability, card.clone())),
                    None => unknown.push(entry.capability),
                }
            }
        }
        if unknown.is_empty() {
            return cards;
        }
        match index.cards(unknown).await {
            Ok(carried) => {
                let read = carried
                    .into_iter()
                    .filter_map(|(id, card)| Some((id, SummaryCard::from_json(&card)?)));
                cards.extend(read);
            }
            Err(error) => tracing::warn!(%error, "the search index returned no summaries"),
        }
        cards
    }

    async fn load_summary(
        &self,
        entry: &VersionEntry,
        source: Option<Vec<u8>>,
        card: Option<SummaryCard>,
    ) -> Result<Option<Arc<HitSummary>>, Error> {
        if let (Some(source), Some(card)) = (&source, card)
            && card.is_valid_for(Digest::of_bytes(source), entry)
        {
            return Ok(Some(self.cache_card(entry, source.len(), card)));
        }
        let Ok(VerifiedDocument { source, facts }) = self.verify_entry(entry, source).await? else {
            return Ok(None);
        };
        if let Some(card) = SummaryCard::from_facts(Digest::of_bytes(&source), entry, &facts) {
            return Ok(Some(self.cache_card(entry, source.len(), card)));
        }
        let whole = self.summarize_closure(&facts.dependency_interface).await?;
        Ok(Some(Arc::new(HitSummary::from_facts(&facts, whole))))
    }

    fn cache_card(
        &self,
        entry: &VersionEntry,
        length: usize,
        card: SummaryCard,
    ) -> Arc<HitSummary> {
        let summary = Arc::clone(&card.summary);
        lock(&self.cards).insert(entry.digest, length, card);
        summary
    }

    /// Builds the card of a document for the index.
    pub(crate) fn build_card(entry: &VersionEntry, opened: &VerifiedDocument) -> Option<String> {
        SummaryCard::from_facts(Digest::of_bytes(&opened.source), entry, &opened.facts)?.to_json()
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use prometheus_client::metrics::counter::Counter;

    use super::*;
    use crate::store::LiveVersionQuery;
    use crate::tests::world::{World, document};
    use crate::vectors::{IndexIdentity, PointFilter, QueryResults, SearchQuery};

    /// An index that has cards alone.
    #[derive(Debug, Default)]
    struct Cards(BTreeMap<CapabilityId, String>);

    #[async_trait]
    impl IndexReader for Cards {
        fn identity(&self) -> &IndexIdentity {
            unreachable!("nobody asks")
        }

        async fn query(
            &self,
            _: Vec<SearchQuery>,
            _: PointFilter,
            _: usize,
        ) -> Result<QueryResults, crate::vectors::Error> {
            unreachable!("nobody asks")
        }

        async fn cards(
            &self,
            capabilities: Vec<CapabilityId>,
        ) -> Result<BTreeMap<CapabilityId, String>, crate::vectors::Error> {
            let is_wanted = |id: &CapabilityId| capabilities.contains(id);
            Ok(self.0.clone().into_iter().filter(|(id, _)| is_wanted(id)).collect())
        }
    }

    #[tokio::test]
    async fn a_card_is_believed_for_the_bytes_that_it_was_made_of() {
        let world = World::new().await;
        world.publish_all([document("Tool", "1.0.0", "Waters the plants")]).await;
        let store = &world.app.shared.catalog.versions.store;
        let entries = store.live_versions(LiveVersionQuery::AfterName(None, 10)).await.unwrap();
        let entry = &entries[0];
        let summary = async |card: String| {
            // Nothing is remembered by this one yet.
            let documents = DocumentReader::new(Arc::clone(store), Counter::default());
            let cards = Cards(BTreeMap::from([(entry.capability, card)]));
            let summaries = documents.load_summaries(&[entry], &cards).await.unwrap();
            let again = documents.load_summaries(&[entry], &Cards::default()).await.unwrap();
            assert_eq!(summaries, again, "what was told is remembered");
            summaries[0].clone().map(|summary| summary.description.clone())
        };
        let documents = DocumentReader::new(Arc::clone(store), Counter::default());
        let opened = documents.open_one(entry).await.unwrap();
        let card = DocumentReader::build_card(entry, &opened).unwrap();
        // A card that says something else shows who was asked.
        let marked = card.replace("Waters the plants", "As the card has it");
        assert_eq!(summary(marked.clone()).await.as_deref(), Some("As the card has it"));

        let text = Digest::of_bytes(&opened.source).to_string();
        let foreign = marked.replace(&text, &Digest::of_bytes(b"other bytes").to_string());
        for unbelieved in [foreign, "{}".to_owned(), String::new()] {
            assert_eq!(summary(unbelieved).await.as_deref(), Some("Waters the plants"));
        }
        world.tamper("Waters the plants", "Waters the plant").await;
        assert_eq!(summary(marked).await, None, "the document is damaged");
    }
}
