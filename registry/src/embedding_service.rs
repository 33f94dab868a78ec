//! Embeds texts with the configured or the built-in embedder, caches vectors, and falls back to words.
//!
//! Two embedders are available: the configured one, and the built-in one, which always answers. A query
//! uses the embedder of the index that it searches.

mod sentences;
mod workers;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use a2s::Digest;
use a2s_api::SearchMode;

use crate::embed::{
    EmbedDeadline, EmbedPurpose, Embedder, Embedding, SentenceVector, SimilarityScale,
    combine_parts,
};
use crate::metrics::{EmbeddedFrom, EmbeddedLabels, Metrics};
use crate::retrieval::{CapabilityVectors, FusionScales, IntentTexts, Probe};
use crate::store::RegistryStore;
use crate::vectors::IndexIdentity;

pub(crate) use self::sentences::SentenceService;

/// The maximum number of query texts in the cache, so that the next page of a response costs nothing.
const MAX_CACHED_QUERIES: usize = 1024;

/// Texts with weights that are combined into one vector.
pub(crate) type WeightedParts = Vec<(String, f32)>;

/// The reason why a query is answered by words alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DegradedReason {
    /// The embedder of the index is not available any more.
    EmbedderGone,
    /// The embedder of the index did not respond in time.
    EmbedderUnavailable,
}

impl DegradedReason {
    /// The message for the caller.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::EmbedderGone => {
                "found by words only: the registry is rebuilding the index for another embedder"
            }
            Self::EmbedderUnavailable => "found by words only: the embedder does not respond",
        }
    }
}

/// The probes of an intent.
#[derive(Debug)]
pub(crate) struct IntentProbes {
    pub(crate) probes: Vec<Probe>,
    /// The built-in embedder that has made them; none for another embedder, or without vectors.
    pub(crate) mode: Option<SearchMode>,
}

#[derive(Debug)]
pub(crate) struct EmbeddingService {
    configured: Arc<Embedder>,
    built_in: Arc<Embedder>,
    /// The sentence encoder, when it is used. It belongs to the built-in embedder.
    sentences: Option<SentenceService>,
    store: Arc<dyn RegistryStore>,
    metrics: Metrics,
    query_timeout: Duration,
    /// Set when accepted intents count.
    learns: bool,
    queries: Mutex<QueryCache>,
}

/// A cache of the vectors of queries, the oldest first.
#[derive(Debug, Default)]
struct QueryCache {
    vectors: BTreeMap<Digest, Embedding>,
    order: VecDeque<Digest>,
}

impl EmbeddingService {
    /// Creates the service.
    ///
    /// # Errors
    /// Fails when the system starts no threads for the sentence encoder.
    pub(crate) fn new(
        wanted: Embedder,
        query_timeout: Duration,
        learns: bool,
        store: Arc<dyn RegistryStore>,
        metrics: Metrics,
    ) -> Result<Self, crate::Error> {
        let wanted = Arc::new(wanted);
        let sentences = match &*wanted {
            Embedder::BuiltIn(built_in) if built_in.mode() == SearchMode::Quality => {
                Some(SentenceService::start(Arc::clone(&store), learns)?)
            }
            _ => None,
        };
        let built_in = match &*wanted {
            Embedder::BuiltIn(_) => Arc::clone(&wanted),
            _ => Arc::new(Embedder::built_in()),
        };
        Ok(Self {
            configured: wanted,
            built_in,
            sentences,
            store,
            metrics,
            query_timeout,
            learns,
            queries: Mutex::default(),
        })
    }

    /// Returns true when accepted intents count.
    pub(crate) fn learns(&self) -> bool {
        self.learns
    }

    /// Returns the vectors of an accepted intent, by the ids of their embedders.
    ///
    /// # Errors
    /// Fails when the embedder does not respond.
    pub(crate) async fn embed_accepted(
        &self,
        intent: &str,
    ) -> Result<BTreeMap<String, Vec<f32>>, crate::Error> {
        // An intent counts like a part of the text of a capability. Its vector goes into no cache.
        let (texts, patience) = (vec![intent.to_owned()], EmbedDeadline::Short(self.query_timeout));
        let dense = self.configured.embed(texts, EmbedPurpose::Document, patience).await?;
        let dense = dense.into_iter().next().flatten();
        let mut vectors: BTreeMap<_, _> =
            dense.map(|vector| (self.configured.id().to_owned(), vector)).into_iter().collect();
        if let Some(sentences) = &self.sentences {
            let vector = sentences.embed_accepted(intent.to_owned()).await;
            vectors.extend(vector.map(|vector| (sentences.embedder().id().to_owned(), vector)));
        }
        Ok(vectors)
    }

    /// Returns the sentence encoder for an embedder, when it is used.
    pub(crate) fn sentences_of(&self, embedder: &Embedder) -> Option<&SentenceService> {
        self.sentences.as_ref().filter(|_| matches!(embedder, Embedder::BuiltIn(_)))
    }

    /// Returns the scales for hits of an index that were compared in this mode, among so many capabilities.
    pub(crate) fn fusion_scales(
        &self,
        identity: &IndexIdentity,
        mode: Option<SearchMode>,
        among: usize,
    ) -> FusionScales {
        let sentences = self.sentences.as_ref().filter(|_| mode == Some(SearchMode::Quality));
        let sentence = sentences.map(|sentences| sentences.embedder().scale());
        FusionScales { among, cosine: identity.scale, sentence }
    }

    /// Returns the embedder that the index should use.
    pub(crate) fn configured(&self) -> &Arc<Embedder> {
        &self.configured
    }

    /// Returns the built-in embedder, which is always available.
    pub(crate) fn built_in(&self) -> &Arc<Embedder> {
        &self.built_in
    }

    /// Returns the embedder of the vectors in an index.
    pub(crate) fn embedder_of(&self, identity: &IndexIdentity) -> Option<&Arc<Embedder>> {
        [&self.configured, &self.built_in].into_iter().find(|known| known.id() == identity.embedder)
    }

    /// The probes of intents for an index.
    pub(crate) async fn embed_intents(
        &self,
        intents: &[IntentTexts],
        identity: &IndexIdentity,
    ) -> (Vec<IntentProbes>, Option<DegradedReason>) {
        let texts: Vec<_> =
            intents.iter().flat_map(IntentTexts::texts).map(str::to_owned).collect();
        let (vectors, degraded) = self.embed_queries(&texts, identity).await;
        let embedder = self.embedder_of(identity).map(|embedder| &**embedder);
        let is_built_in = matches!(embedder, Some(Embedder::BuiltIn(_)));
        let sentences = embedder.and_then(|embedder| self.sentences_of(embedder));
        let mut vectors = vectors.into_iter();
        let mut probes = Vec::with_capacity(intents.len());
        for intent in intents {
            let dense: Vec<_> = vectors.by_ref().take(1 + intent.clauses.len()).collect();
            let read = match sentences {
                Some(sentences) => {
                    let (intent, dense) = (intent.clone(), dense.clone());
                    let read = move |model: &_| Probe::of_intent(&intent, dense, Some(model));
                    sentences.for_search(read).await
                }
                None => None,
            };
            let of_intent = read.unwrap_or_else(|| Probe::of_intent(intent, dense, None));
            let is_read = of_intent.iter().any(|probe| probe.sentence.is_some());
            let mode = if is_read { SearchMode::Quality } else { SearchMode::Fast };
            probes.push(IntentProbes { probes: of_intent, mode: is_built_in.then_some(mode) });
        }
        (probes, degraded)
    }

    /// The vectors of query texts for an index. Without vectors the search uses words alone; a query never
    /// fails because of its embedder.
    async fn embed_queries(
        &self,
        texts: &[String],
        identity: &IndexIdentity,
    ) -> (Vec<Embedding>, Option<DegradedReason>) {
        let Some(embedder) = self.embedder_of(identity) else {
            return (vec![None; texts.len()], Some(DegradedReason::EmbedderGone));
        };
        if let Embedder::BuiltIn(built_in) = &**embedder {
            return (texts.iter().map(|text| built_in.embed(text)).collect(), None);
        }
        let keys: Vec<_> =
            texts.iter().map(|text| key(embedder, EmbedPurpose::Query, text)).collect();
        if let Some(remembered) = self.cached_vectors(&keys) {
            return (remembered, None);
        }
        let patience = EmbedDeadline::Short(self.query_timeout);
        // A model in this process knows no patience of its own, and many intents are several requests.
        let embed = embedder.embed(texts.to_vec(), EmbedPurpose::Query, patience);
        let result = tokio::time::timeout(2 * self.query_timeout, embed).await;
        let why = match result {
            Ok(Ok(vectors)) if have_length(&vectors, identity.dimensions) => {
                self.cache_vectors(&keys, &vectors);
                return (vectors, None);
            }
            Ok(Ok(_)) => {
                "its vectors do not have the length of the vectors in the index".to_owned()
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the request takes too long".to_owned(),
        };
        tracing::warn!(why, "a search uses words only, without the embedder");
        (vec![None; texts.len()], Some(DegradedReason::EmbedderUnavailable))
    }

    /// The vectors of capabilities, each given in parts. Cached texts cost nothing.
    ///
    /// # Errors
    /// When a text is not cached and cannot be embedded now.
    pub(crate) async fn embed_documents(
        &self,
        documents: Vec<WeightedParts>,
        embedder: &Embedder,
        patience: EmbedDeadline,
    ) -> Result<Vec<Embedding>, crate::Error> {
        if let Embedder::BuiltIn(built_in) = embedder {
            let built_in = built_in.clone();
            let embed_all = move || documents.iter().map(|d| built_in.embed_parts(d)).collect();
            return tokio::task::spawn_blocking(embed_all)
                .await
                .map_err(|error| crate::Error::Internal(error.into()));
        }
        let texts: Vec<_> = documents.iter().flatten().map(|(text, _)| text.as_str()).collect();
        let vectors = self.embed_texts(&texts, embedder, EmbedPurpose::Document, patience).await?;
        let mut vectors = vectors.into_iter();
        let to_vector = |parts: &WeightedParts| {
            combine_parts(
                parts.iter().zip(vectors.by_ref()).map(|((_, weight), vector)| (vector, *weight)),
            )
        };
        Ok(documents.iter().map(to_vector).collect())
    }

    /// The vectors of a document that is not in the index, by the embedders of the index. Those of an
    /// embedder that is gone are missing, as is that of the sentence encoder when too many searches wait.
    ///
    /// # Errors
    /// Fails when the embedder does not respond in time.
    pub(crate) async fn embed_draft(
        &self,
        parts: WeightedParts,
        identity: &IndexIdentity,
    ) -> Result<CapabilityVectors, crate::Error> {
        let Some(embedder) = self.embedder_of(identity) else {
            return Ok(CapabilityVectors { dense: None, sentence: None });
        };
        let sentence = match self.sentences_of(embedder) {
            Some(sentences) => {
                let parts = parts.clone();
                sentences.for_search(move |model| model.embed_parts(&parts)).await.flatten()
            }
            None => None,
        };
        let patience = EmbedDeadline::Short(self.query_timeout);
        let mut dense = self.embed_documents(vec![parts], embedder, patience).await?;
        dense.retain(|vector| have_length(std::slice::from_ref(vector), identity.dimensions));
        Ok(CapabilityVectors {
            dense: dense.pop().flatten(),
            sentence: sentence.map(|vector| SentenceVector::from_unit(&vector)),
        })
    }

    /// The scale of an embedder's cosines, measured with texts that are the same for all embedders.
    ///
    /// # Errors
    /// When a text is not cached and cannot be embedded now.
    pub(crate) async fn scale(&self, embedder: &Embedder) -> Result<SimilarityScale, crate::Error> {
        if let Embedder::BuiltIn(built_in) = embedder {
            return Ok(built_in.scale());
        }
        let texts: Vec<_> = SimilarityScale::texts().collect();
        let documents =
            self.embed_texts(&texts, embedder, EmbedPurpose::Document, EmbedDeadline::Long).await?;
        let queries =
            self.embed_texts(&texts, embedder, EmbedPurpose::Query, EmbedDeadline::Long).await?;
        Ok(SimilarityScale::from_vectors(&queries, &documents))
    }

    /// The vectors of texts, in their order. Cached texts cost nothing.
    async fn embed_texts(
        &self,
        texts: &[&str],
        embedder: &Embedder,
        purpose: EmbedPurpose,
        patience: EmbedDeadline,
    ) -> Result<Vec<Embedding>, crate::Error> {
        let keys: Vec<_> = texts.iter().map(|text| key(embedder, purpose, text)).collect();
        let mut known = self.store.load_embeddings(&keys).await?;
        self.count(EmbeddedFrom::cache, known.len());
        // A text that occurs twice is asked for once.
        let mut missing = BTreeMap::new();
        for (key, text) in keys.iter().zip(texts) {
            if !known.contains_key(key) {
                missing.entry(*key).or_insert_with(|| (*text).to_owned());
            }
        }
        if !missing.is_empty() {
            let (keys, texts): (Vec<_>, Vec<_>) = missing.into_iter().unzip();
            let vectors = embedder.embed(texts, purpose, patience).await?;
            self.count(EmbeddedFrom::embedder, vectors.len());
            let new: Vec<_> = keys.into_iter().zip(vectors).collect();
            if let Err(error) = self.store.save_embeddings(&new).await {
                // It costs the same again some day; that is all.
                tracing::warn!(%error, "vectors could not be cached");
            }
            known.extend(new);
        }
        Ok(keys.iter().map(|key| known.get(key).cloned().flatten()).collect())
    }

    fn count(&self, from: EmbeddedFrom, texts: usize) {
        self.metrics.embedded.get_or_create(&EmbeddedLabels { from }).inc_by(texts as u64);
    }

    /// Returns the vectors of all keys, or `None` when one is missing.
    fn cached_vectors(&self, keys: &[Digest]) -> Option<Vec<Embedding>> {
        let queries = self.queries.lock().unwrap_or_else(PoisonError::into_inner);
        keys.iter().map(|key| queries.vectors.get(key).cloned()).collect()
    }

    fn cache_vectors(&self, keys: &[Digest], vectors: &[Embedding]) {
        let mut queries = self.queries.lock().unwrap_or_else(PoisonError::into_inner);
        let QueryCache { vectors: kept, order } = &mut *queries;
        for (key, vector) in keys.iter().zip(vectors) {
            if kept.insert(*key, vector.clone()).is_none() {
                order.push_back(*key);
            }
        }
        while order.len() > MAX_CACHED_QUERIES {
            if let Some(oldest) = order.pop_front() {
                kept.remove(&oldest);
            }
        }
    }
}

/// The cache key of a text. The length of the id comes first, so that different inputs never give the same
/// key.
fn key(embedder: &Embedder, purpose: EmbedPurpose, text: &str) -> Digest {
    let id = embedder.id();
    Digest::of_bytes(format!("{}:{id}{purpose:?}:{text}", id.len()).as_bytes())
}

fn have_length(vectors: &[Embedding], length: usize) -> bool {
    vectors.iter().flatten().all(|vector| vector.len() == length)
}
