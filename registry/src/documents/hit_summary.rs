//! Summaries of documents for searches, without compiling them where possible.

use std::collections::BTreeMap;
use std::sync::Arc;

use a2s::Digest;
use futures::future::{join, try_join_all};

use super::hit_summary_cache::Card;
use super::{Documents, Opened, Told, lock};
use crate::Error;
use crate::store::{CapabilityId, Entry};
use crate::vectors::Answering;

impl Documents {
    /// What searches tell of the documents of `entries`, in their order; nothing of damaged ones.
    /// The bytes of each are read and hashed; one that is not remembered is told of by its card in
    /// `index`, and compiled when it has none that holds for these bytes.
    ///
    /// # Errors
    /// When the store does not answer.
    pub(crate) async fn tell(
        &self,
        entries: &[&Entry],
        index: &dyn Answering,
    ) -> Result<Vec<Option<Arc<Told>>>, Error> {
        let ids: Vec<_> = entries.iter().map(|entry| entry.id).collect();
        let (sources, mut cards) = join(self.store.sources(&ids), self.cards(entries, index)).await;
        let mut sources = sources?;
        let told = entries.iter().map(|entry| {
            let (source, card) = (sources.remove(&entry.id), cards.remove(&entry.capability));
            self.tell_one(entry, source, card)
        });
        try_join_all(told).await
    }

    /// The cards that are remembered, and of the others those that the index has.
    async fn cards(
        &self,
        entries: &[&Entry],
        index: &dyn Answering,
    ) -> BTreeMap<CapabilityId, Card> {
        let (mut cards, mut unknown) = (BTreeMap::new(), Vec::new());
        {
            let remembered = lock(&self.cards);
            for entry in entries {
                match remembered.known.get(&entry.digest) {
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
                let read =
                    carried.into_iter().filter_map(|(id, card)| Some((id, Card::read(&card)?)));
                cards.extend(read);
            }
            Err(error) => tracing::warn!(%error, "the search index gives no cards"),
        }
        cards
    }

    async fn tell_one(
        &self,
        entry: &Entry,
        source: Option<Vec<u8>>,
        card: Option<Card>,
    ) -> Result<Option<Arc<Told>>, Error> {
        if let (Some(source), Some(card)) = (&source, card)
            && card.is_of(Digest::of_bytes(source), entry)
        {
            return Ok(Some(self.remember(entry, source.len(), card)));
        }
        let Ok(Opened { source, facts }) = self.check(entry, source).await? else {
            return Ok(None);
        };
        if let Some(card) = Card::of(Digest::of_bytes(&source), entry, &facts) {
            return Ok(Some(self.remember(entry, source.len(), card)));
        }
        let whole = self.whole(&facts.unit).await?;
        Ok(Some(Arc::new(Told::of(&facts, whole))))
    }

    fn remember(&self, entry: &Entry, length: usize, card: Card) -> Arc<Told> {
        let told = Arc::clone(&card.told);
        lock(&self.cards).insert(entry.digest, length, card);
        told
    }

    /// The card of a document, for the index to carry.
    pub(crate) fn card(entry: &Entry, opened: &Opened) -> Option<String> {
        Card::of(Digest::of_bytes(&opened.source), entry, &opened.facts)?.write()
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use prometheus_client::metrics::counter::Counter;

    use super::*;
    use crate::store::Heads;
    use crate::tests::world::{World, document};
    use crate::vectors::{Answers, Filter, Identity, SearchQuery};

    /// An index that has cards alone.
    #[derive(Debug, Default)]
    struct Cards(BTreeMap<CapabilityId, String>);

    #[async_trait]
    impl Answering for Cards {
        fn identity(&self) -> &Identity {
            unreachable!("nobody asks")
        }

        async fn query(
            &self,
            _: Vec<SearchQuery>,
            _: Filter,
            _: usize,
        ) -> Result<Answers, crate::vectors::Error> {
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
        let store = &world.app.shared.catalog.store;
        let entries = store.heads(Heads::After(None, 10)).await.unwrap();
        let entry = &entries[0];
        let told = async |card: String| {
            // Nothing is remembered by this one yet.
            let documents = Documents::new(Arc::clone(store), Counter::default());
            let cards = Cards(BTreeMap::from([(entry.capability, card)]));
            let told = documents.tell(&[entry], &cards).await.unwrap();
            let again = documents.tell(&[entry], &Cards::default()).await.unwrap();
            assert_eq!(told, again, "what was told is remembered");
            told[0].clone().map(|told| told.description.clone())
        };
        let documents = Documents::new(Arc::clone(store), Counter::default());
        let opened = documents.open_one(entry).await.unwrap();
        let card = Documents::card(entry, &opened).unwrap();
        // A card that says something else shows who was asked.
        let marked = card.replace("Waters the plants", "As the card has it");
        assert_eq!(told(marked.clone()).await.as_deref(), Some("As the card has it"));

        let text = Digest::of_bytes(&opened.source).to_string();
        let foreign = marked.replace(&text, &Digest::of_bytes(b"other bytes").to_string());
        for unbelieved in [foreign, "{}".to_owned(), String::new()] {
            assert_eq!(told(unbelieved).await.as_deref(), Some("Waters the plants"));
        }
        world.tamper("Waters the plants", "Waters the plant").await;
        assert_eq!(told(marked).await, None, "the document is damaged");
    }
}
