//! Retrieval from an intent to candidates, as pure functions: without index, store, network or clock.
//!
//! [`BuiltInEmbedders::probes`] makes queries of an intent, an index answers each with a list of [`VectorHit`],
//! the sentence encoder compares what was found, and [`fuse`] makes one list of those. In the registry the
//! index is an engine. This module has a [`BruteForceIndex`] instead, which compares everything and gives
//! the same results, to measure the rest.
//!
//! ```
//! use registry::embed::{BuiltIn, EmbeddingSource, index_text};
//! use registry::retrieval::{BruteForceIndex, BuiltInEmbedders, CapabilityId};
//!
//! let embedders = BuiltInEmbedders::quality();
//! let mut scan = BruteForceIndex::default();
//! for (id, name, description) in [
//!     (1, "ListDogBreeds", "Retrieve a list of dog breeds"),
//!     (2, "GetRiverLevel", "Get the latest water level at a river gauge"),
//! ] {
//!     let text = index_text(&EmbeddingSource { name, description, ..EmbeddingSource::default() });
//!     scan.add(CapabilityId(id), &text.sparse, embedders.embed_document(&text.dense));
//! }
//! let best = embedders.search(&scan, "pooch kinds")[0];
//! assert!(best.capability == CapabilityId(1) && best.fits);
//! assert!(embedders.search(&scan, "tune a violin").iter().all(|candidate| !candidate.fits));
//! ```

use std::collections::BTreeMap;

use std::ops::Range;

use a2s::split_name;
use a2s_intent::split_clauses;

pub use crate::bm25::{SparseVector, query_vector};
use crate::bm25::{document_vector, rarity};
use crate::embed::{
    BuiltIn, Embedding, QualityEmbedder, SentenceVector, cosine, elsewhere_heights,
};
pub use crate::fit::{FEATURES, FitEvidence, HitEvidence, STRONG_SCORE};
pub use crate::learned_intents::{AcceptedIntent, LearnedMean, LearnedWeight};
pub use crate::prerequisites::{DEMANDING_HITS, Prerequisite, lift_prerequisites};
pub use crate::rank_fusion::{
    FusedCandidate, FusionScales, ProbeHits, SERVICE_LIMIT, fuse, lift_services,
    lower_contradictions, read_evidence,
};
pub use crate::store::CapabilityId;
pub use crate::vectors::{SearchQuery, VectorHit};

/// The maximum number of candidates that each probe of a search takes from each of the two indexes for the
/// ranking.
pub const CANDIDATE_LIMIT: usize = 100;

/// The texts to search with: an intent, and its clauses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IntentTexts {
    /// The whole intent. The name of a capability is split into words, as names in the index are.
    pub whole: String,
    /// The clauses, as spans of the whole in bytes.
    pub clauses: Vec<Range<usize>>,
}

impl IntentTexts {
    /// Splits an intent.
    #[must_use]
    pub fn split(intent: &str) -> Self {
        if !intent.trim().contains(char::is_whitespace) {
            return Self { whole: split_name(intent), clauses: Vec::new() };
        }
        let mut from = 0;
        let spans = split_clauses(intent).into_iter().filter_map(|clause| {
            let start = from + intent.get(from..)?.find(clause)?;
            from = start + clause.len();
            Some(start..from)
        });
        Self { clauses: spans.collect(), whole: intent.to_owned() }
    }

    /// Returns the whole and the clauses.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        let clauses = self.clauses.iter().filter_map(|span| self.whole.get(span.clone()));
        std::iter::once(self.whole.as_str()).chain(clauses)
    }
}

/// A query for an index, and what the sentence encoder makes of its text.
#[derive(Debug, Clone)]
pub struct Probe {
    /// The query.
    pub query: SearchQuery,
    /// The vector of the text by the sentence encoder, when it is used.
    pub sentence: Embedding,
    /// The [height](elsewhere_heights) of operations elsewhere; `None` without the sentence encoder.
    pub elsewhere: Option<f64>,
}

/// The vectors of a capability.
#[derive(Debug, Clone, PartialEq)]
pub struct CapabilityVectors {
    /// The vector for the index.
    pub dense: Embedding,
    /// The vector by the sentence encoder, when it is used.
    pub sentence: Option<SentenceVector>,
}

/// The embedders in the binary.
#[derive(Debug, Clone)]
pub struct BuiltInEmbedders {
    table: BuiltIn,
    sentence: Option<QualityEmbedder>,
}

impl BuiltInEmbedders {
    /// The table alone.
    #[must_use]
    pub fn fast() -> Self {
        Self { table: BuiltIn::new(), sentence: None }
    }

    /// The table, and the sentence encoder for what it finds.
    #[must_use]
    pub fn quality() -> Self {
        Self { table: BuiltIn::new(), sentence: Some(QualityEmbedder::new()) }
    }

    /// Embeds the parts of a capability.
    #[must_use]
    pub fn embed_document(&self, parts: &[(String, f32)]) -> CapabilityVectors {
        let sentence = self.sentence.as_ref().and_then(|model| model.embed_parts(parts));
        CapabilityVectors {
            dense: self.table.embed_parts(parts),
            sentence: sentence.map(|vector| SentenceVector::from_unit(&vector)),
        }
    }

    /// Returns the probes of an intent. The sentence encoder does not read an intent that is too long.
    #[must_use]
    pub fn probes(&self, intent: &str) -> Vec<Probe> {
        let texts = IntentTexts::split(intent);
        let dense = texts.texts().map(|text| self.table.embed(text)).collect();
        Probe::of_intent(&texts, dense, self.sentence.as_ref())
    }

    /// Returns the scales of the cosines, for so many capabilities.
    #[must_use]
    pub fn scales(&self, among: usize) -> FusionScales {
        let sentence = self.sentence.as_ref().map(QualityEmbedder::scale);
        FusionScales { among, cosine: self.table.scale(), sentence }
    }

    /// Searches an index, the best first.
    #[must_use]
    pub fn search(&self, index: &BruteForceIndex, intent: &str) -> Vec<FusedCandidate> {
        let probes = self.probes(intent);
        let found: Vec<_> =
            probes.iter().map(|probe| index.query(probe, CANDIDATE_LIMIT)).collect();
        fuse(&found, &self.scales(index.len()))
    }
}

impl Probe {
    /// Creates the probes of an intent with the vectors of its texts. The sentence encoder, when it is used,
    /// does not read an intent that is too long.
    pub(crate) fn of_intent(
        texts: &IntentTexts,
        dense: Vec<Embedding>,
        encoder: Option<&QualityEmbedder>,
    ) -> Vec<Self> {
        let read = encoder.and_then(|model| model.embed_spans(&texts.whole, &texts.clauses));
        let sentences = read.unwrap_or_default().into_iter().chain(std::iter::repeat(None));
        let parts: Vec<_> = texts.texts().zip(dense).zip(sentences).collect();
        let pairs = parts
            .iter()
            .filter_map(|((_, dense), sentence)| dense.as_deref().zip(sentence.as_deref()));
        let mut heights = elsewhere_heights(&pairs.collect::<Vec<_>>()).into_iter();
        let to_probe = |((text, dense), sentence): ((&str, Embedding), Embedding)| {
            let is_compared = dense.is_some() && sentence.is_some();
            Self {
                elsewhere: is_compared.then(|| heights.next()).flatten(),
                query: SearchQuery { dense, sparse: query_vector(text) },
                sentence,
            }
        };
        parts.into_iter().map(to_probe).collect()
    }

    /// Adds to the hits of an index what the sentence encoder makes of them. `vector` is the vector of a
    /// capability by it.
    #[must_use]
    pub fn compare<'v>(
        &self,
        mut hits: Vec<VectorHit>,
        vector: impl Fn(CapabilityId) -> Option<&'v SentenceVector>,
    ) -> ProbeHits {
        let sentence = self.sentence.as_deref();
        for hit in &mut hits {
            let pair = sentence.zip(vector(hit.capability));
            hit.sentence = pair.map(|(probe, vector)| vector.cosine(probe));
        }
        ProbeHits { hits, elsewhere: self.elsewhere }
    }
}

/// An index that compares every point: exact, in memory, for thousands of capabilities.
#[derive(Debug, Clone, Default)]
pub struct BruteForceIndex {
    points: Vec<(CapabilityId, Embedding)>,
    sentences: BTreeMap<CapabilityId, SentenceVector>,
    /// The points of each term, with its weights.
    postings: BTreeMap<u32, Vec<(usize, f32)>>,
}

impl BruteForceIndex {
    /// Adds a capability by its words and its vectors.
    pub fn add(&mut self, capability: CapabilityId, words: &str, vectors: CapabilityVectors) {
        let SparseVector { indices, values } = document_vector(words);
        for (term, value) in indices.into_iter().zip(values) {
            self.postings.entry(term).or_default().push((self.points.len(), value));
        }
        self.points.push((capability, vectors.dense));
        self.sentences.extend(vectors.sentence.map(|vector| (capability, vector)));
    }

    /// The number of capabilities.
    pub fn len(&self) -> usize {
        self.points.len()
    }

    /// Returns true when it is empty.
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// Returns what [`Self::find`] finds, compared by the sentence encoder.
    #[must_use]
    pub fn query(&self, probe: &Probe, limit: usize) -> ProbeHits {
        probe.compare(self.find(&probe.query, limit), |capability| self.sentences.get(&capability))
    }

    /// Returns the `limit` nearest points by cosine and the `limit` best by BM25, each with both scores. A
    /// point that is not among the best by BM25 has the BM25 score 0.
    #[must_use]
    pub fn find(&self, probe: &SearchQuery, limit: usize) -> Vec<VectorHit> {
        let dense = probe.dense.as_deref();
        let cosines: Vec<_> =
            self.points.iter().map(|(_, point)| cosine(dense, point.as_deref())).collect();
        let bm25 = self.bm25(probe);
        let mut found = BTreeMap::new();
        for index in best_indices(&bm25, limit, |score| score > 0.0) {
            found.insert(index, bm25[index]);
        }
        if probe.dense.is_some() {
            let has_meaning: Vec<_> = (0..self.points.len())
                .map(|index| match self.points[index].1 {
                    Some(_) => cosines[index],
                    None => f32::NEG_INFINITY,
                })
                .collect();
            for index in best_indices(&has_meaning, limit, |score| score > f32::NEG_INFINITY) {
                found.entry(index).or_insert(0.0);
            }
        }
        found
            .into_iter()
            .map(|(index, bm25)| {
                let capability = self.points[index].0;
                VectorHit { capability, cosine: cosines[index], bm25, sentence: None }
            })
            .collect()
    }

    fn bm25(&self, probe: &SearchQuery) -> Vec<f32> {
        let mut scores = vec![0.0; self.points.len()];
        for (term, wanted) in probe.sparse.indices.iter().zip(&probe.sparse.values) {
            let Some(places) = self.postings.get(term) else { continue };
            let rarity = rarity(self.points.len(), places.len());
            for (index, value) in places {
                scores[*index] += wanted * value * rarity;
            }
        }
        scores
    }
}

/// Returns the positions of the highest scores, the highest first.
fn best_indices(scores: &[f32], limit: usize, counts: fn(f32) -> bool) -> Vec<usize> {
    let mut places: Vec<_> = (0..scores.len()).filter(|place| counts(scores[*place])).collect();
    places.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
    places.truncate(limit);
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embed::{CAPABILITIES, Embedder, EmbeddingSource, IndexedText, index_text};
    use crate::store::ChangeSeq;
    use crate::store::indexes::IndexId;
    use crate::tests::database::Folder;
    use crate::vectors::{self, IndexChange, IndexLocation, IndexPoint, PointFilter};

    const INTENTS: [&str; 8] = [
        "pooch kinds",
        "Convert 20 dollars to yen, and then send a text message with the amount",
        "what is the current weather; also list my calendar events",
        "get",
        "xkcd 中文",
        "北京的天气",
        "…",
        "latest price of the stock of a company, translated into another language",
    ];

    fn texts() -> impl Iterator<Item = (CapabilityId, IndexedText)> {
        (1..).zip(CAPABILITIES).map(|(id, (name, description))| {
            let described = EmbeddingSource { name, description, ..EmbeddingSource::default() };
            (CapabilityId(id), index_text(&described))
        })
    }

    #[tokio::test]
    async fn a_scan_finds_what_the_engine_finds_with_the_same_scores() {
        let (embedder, embedders) = (BuiltIn::new(), BuiltInEmbedders::fast());
        let identity = vectors::IndexIdentity {
            id: IndexId("test".to_owned()),
            store: "test".to_owned(),
            embedder: Embedder::built_in().id().to_owned(),
            dimensions: embedder.dimensions(),
            scale: embedder.scale(),
            format: vectors::FORMAT,
        };
        let folder = Folder::with_file();
        let store = crate::store::open(&folder.config(None).database).await.unwrap();
        let store_id = identity.store.clone();
        let engine =
            vectors::open(IndexLocation::Memory, store, store_id, Vec::new()).await.unwrap();
        let mut scan = BruteForceIndex::default();
        let mut points = Vec::new();
        for (capability, text) in texts() {
            scan.add(capability, &text.sparse, embedders.embed_document(&text.dense));
            points.push(IndexChange::Upsert(Box::new(IndexPoint {
                capability,
                dense: embedder.embed_parts(&text.dense),
                sparse: document_vector(&text.sparse),
                domains: Vec::new(),
                permissions: Vec::new(),
                read_only: true,
                formats: Vec::new(),
                complexity: 0,
                authors: Vec::new(),
                version: semver::Version::new(1, 0, 0),
                card: None,
            })));
        }
        engine.begin(identity).await.unwrap();
        engine.stage(points, ChangeSeq::default()).await.unwrap();
        engine.commit().await.unwrap();
        let live = engine.current_reader().unwrap();
        // Few enough are wanted that most are not among the best by words.
        for (intent, limit) in INTENTS.iter().flat_map(|intent| [(intent, 100), (intent, 3)]) {
            let probes: Vec<_> =
                embedders.probes(intent).into_iter().map(|probe| probe.query).collect();
            let of_engine =
                live.query(probes.clone(), PointFilter::default(), limit).await.unwrap();
            assert_eq!(of_engine.matching_points, scan.len());
            for (probe, mut of_engine) in probes.iter().zip(of_engine.found) {
                of_engine.sort_by_key(|found| found.capability);
                let of_scan = scan.find(probe, limit);
                let alike = |(a, b): (&VectorHit, &VectorHit)| {
                    a.capability == b.capability
                        && (a.cosine - b.cosine).abs() < 1e-4
                        && (a.bm25 - b.bm25).abs() < 1e-3
                };
                assert!(
                    of_engine.len() == of_scan.len() && of_engine.iter().zip(&of_scan).all(alike),
                    "{intent}, {limit}: {of_engine:#?} {of_scan:#?}"
                );
            }
        }
    }

    fn requested_outputs_rank_first(embedders: &BuiltInEmbedders) {
        let mut scan = BruteForceIndex::default();
        for (capability, text) in texts() {
            scan.add(capability, &text.sparse, embedders.embed_document(&text.dense));
        }
        let search = |intent: &str| -> Vec<&str> {
            let fitting = embedders.search(&scan, intent);
            let fitting = fitting.into_iter().filter(|candidate| candidate.fits);
            fitting.map(|c| CAPABILITIES[usize::try_from(c.capability.0).unwrap() - 1].0).collect()
        };
        for (intent, expected) in [
            ("stars of a GitHub repository", "GetGitHubRepository"),
            ("how many euros do I get for a hundred dollars", "GetExchangeRate"),
            ("cooking instructions for dinner", "FindRecipes"),
            ("TrackParcel", "TrackParcel"),
        ] {
            assert_eq!(search(intent).first(), Some(&expected), "{intent}");
        }
        let both =
            search("Look up flights from Oslo to Rome, and then create an invoice for my client");
        assert!(["SearchFlights", "CreateInvoice"].iter().all(|name| both[..2].contains(name)));
        for intent in ["polish my shoes", "remove rust from a bicycle chain", "tune a violin"] {
            assert_eq!(search(intent), [""; 0], "{intent}");
        }
    }

    #[test]
    fn requested_outputs_rank_first_by_the_table() {
        requested_outputs_rank_first(&BuiltInEmbedders::fast());
    }

    #[test]
    fn requested_outputs_rank_first_by_the_sentence_encoder() {
        requested_outputs_rank_first(&BuiltInEmbedders::quality());
    }

    #[test]
    fn clauses_are_spans_of_the_intent() {
        let texts = IntentTexts::split("Check the weather in Paris, and then post it to Twitter");
        let all: Vec<_> = texts.texts().skip(1).collect();
        assert_eq!(all, ["Check the weather in Paris,", "post it to Twitter"]);
        let twice = IntentTexts::split("tell a joke now; tell a joke now; go");
        assert_eq!(twice.clauses, [0..16, 17..33]);
        assert_eq!(IntentTexts::split("GetWeather").whole, "Get Weather");
    }
}
