//! Retrieval from an intent to candidates, as pure functions: without index, store, network or clock.
//!
//! [`to_probes`] makes queries of an intent, an index answers each with a list of [`VectorHit`], and
//! [`fuse`] makes one list of those. In the registry the index is an engine. This module has a
//! [`BruteForceIndex`] instead, which compares everything and gives the same results, to measure the rest.
//!
//! ```
//! use registry::embed::{BuiltIn, EmbeddingSource, index_text};
//! use registry::retrieval::{CapabilityId, BruteForceIndex, fuse, to_probes};
//!
//! let embedder = BuiltIn::new();
//! let mut scan = BruteForceIndex::default();
//! for (id, name, description) in [
//!     (1, "ListDogBreeds", "Retrieve a list of dog breeds"),
//!     (2, "GetRiverLevel", "Get the latest water level at a river gauge"),
//! ] {
//!     let text = index_text(&EmbeddingSource { name, description, ..EmbeddingSource::default() });
//!     scan.add(CapabilityId(id), &text.sparse, embedder.embed_parts(&text.dense));
//! }
//! let search = |intent| {
//!     let found: Vec<_> =
//!         to_probes(intent, &embedder).iter().map(|probe| scan.query(probe, 100)).collect();
//!     fuse(&found, scan.len(), embedder.scale())
//! };
//! let best = search("pooch kinds")[0];
//! assert!(best.capability == CapabilityId(1) && best.fits);
//! assert!(search("tune a violin").iter().all(|candidate| !candidate.fits));
//! ```

use std::collections::BTreeMap;

use a2s::split_name;
use a2s_intent::split_clauses;

use crate::bm25::document_vector;
pub use crate::bm25::{SparseVector, query_vector};
use crate::embed::{BuiltIn, Embedding};
pub use crate::rank_fusion::{FusedCandidate, fuse};
pub use crate::store::CapabilityId;
pub use crate::vectors::{SearchQuery, VectorHit};

/// The maximum number of candidates that each probe of a search takes from each of the two indexes for the
/// ranking.
pub const CANDIDATE_LIMIT: usize = 100;

/// Returns the texts to search with: the whole intent first, then its clauses. An intent that is an
/// identifier, such as the name of a capability, is split into words as names in the index are.
pub fn to_texts(intent: &str) -> Vec<String> {
    let is_identifier = !intent.trim().contains(char::is_whitespace);
    let whole = if is_identifier { split_name(intent) } else { intent.to_owned() };
    std::iter::once(whole).chain(split_clauses(intent).into_iter().map(str::to_owned)).collect()
}

/// The queries of an intent, embedded by the built-in embedder.
pub fn to_probes(intent: &str, embedder: &BuiltIn) -> Vec<SearchQuery> {
    to_texts(intent)
        .iter()
        .map(|text| SearchQuery { dense: embedder.embed(text), sparse: query_vector(text) })
        .collect()
}

/// An index that compares every point: exact, in memory, for thousands of capabilities.
#[derive(Debug, Clone, Default)]
pub struct BruteForceIndex {
    points: Vec<(CapabilityId, Embedding)>,
    /// The points of each term, with its weights.
    postings: BTreeMap<u32, Vec<(usize, f32)>>,
}

impl BruteForceIndex {
    /// Adds a capability by its words and its vector.
    pub fn add(&mut self, capability: CapabilityId, words: &str, vector: Embedding) {
        let SparseVector { indices, values } = document_vector(words);
        for (term, value) in indices.into_iter().zip(values) {
            self.postings.entry(term).or_default().push((self.points.len(), value));
        }
        self.points.push((capability, vector));
    }

    /// The number of capabilities.
    pub fn len(&self) -> usize {
        self.points.len()
    }

    /// Returns true when it is empty.
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// Returns the `limit` nearest points by cosine and the `limit` best by BM25, each with both scores. A
    /// point that is not among the best by BM25 has the BM25 score 0.
    pub fn query(&self, probe: &SearchQuery, limit: usize) -> Vec<VectorHit> {
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
                VectorHit { capability, cosine: cosines[index], bm25 }
            })
            .collect()
    }

    fn bm25(&self, probe: &SearchQuery) -> Vec<f32> {
        let mut scores = vec![0.0; self.points.len()];
        let all = self.points.len() as f32;
        for (term, wanted) in probe.sparse.indices.iter().zip(&probe.sparse.values) {
            let Some(places) = self.postings.get(term) else { continue };
            let with = places.len() as f32;
            let rarity = ((all - with + 0.5) / (with + 0.5)).ln_1p();
            for (index, value) in places {
                scores[*index] += wanted * value * rarity;
            }
        }
        scores
    }
}

fn cosine(probe: Option<&[f32]>, point: Option<&[f32]>) -> f32 {
    match (probe, point) {
        (Some(probe), Some(point)) => probe.iter().zip(point).map(|(a, b)| a * b).sum(),
        _ => 0.0,
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
        let embedder = BuiltIn::new();
        let folder = tempfile::tempdir().unwrap();
        let identity = vectors::IndexIdentity {
            id: IndexId("test".to_owned()),
            store: "test".to_owned(),
            embedder: Embedder::built_in().id().to_owned(),
            dimensions: embedder.dimensions(),
            scale: embedder.scale(),
            format: vectors::FORMAT,
        };
        let engine = vectors::open(
            IndexLocation::Folder(folder.path().to_owned()),
            identity.store.clone(),
            Vec::new(),
        )
        .await
        .unwrap();
        let mut scan = BruteForceIndex::default();
        let mut points = Vec::new();
        for (capability, text) in texts() {
            scan.add(capability, &text.sparse, embedder.embed_parts(&text.dense));
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
            let probes = to_probes(intent, &embedder);
            let of_engine =
                live.query(probes.clone(), PointFilter::default(), limit).await.unwrap();
            assert_eq!(of_engine.matching_points, scan.len());
            for (probe, mut of_engine) in probes.iter().zip(of_engine.found) {
                of_engine.sort_by_key(|found| found.capability);
                let of_scan = scan.query(probe, limit);
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
        drop(live);
        engine.close().await;
    }

    #[test]
    fn requested_outputs_rank_first() {
        let embedder = BuiltIn::new();
        let mut scan = BruteForceIndex::default();
        for (capability, text) in texts() {
            scan.add(capability, &text.sparse, embedder.embed_parts(&text.dense));
        }
        let search = |intent: &str| -> Vec<&str> {
            let probes = to_probes(intent, &embedder);
            let found: Vec<_> =
                probes.iter().map(|probe| scan.query(probe, CANDIDATE_LIMIT)).collect();
            let fitting = fuse(&found, scan.len(), embedder.scale());
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
}
