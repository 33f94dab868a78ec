//! The ranks of a document in searches for its own example intents, as if it were the live version.
//!
//! The index has another version of the document, the same one, or none. So a hit that is computed from the
//! document takes the place of the capability's own hit, and everything after that is an ordinary search.

mod word_comparison;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use a2s::CapabilityName;
use a2s_api::{FindabilityReport, Rival, TextFindability, TextOrigin};
use a2s_intent::effect::wanted_effect;

use self::word_comparison::{DescribedWords, find_missing_words};
use super::{DocumentRules, SearchService};
use crate::Error;
use crate::bm25::{SparseVector, document_vector, rarity};
use crate::documents::{CapabilityFacts, HitSummary};
use crate::embed::{MAX_INTENTS, SentenceVector, cosine};
use crate::retrieval::{
    CANDIDATE_LIMIT, CapabilityVectors, FusedCandidate, IntentTexts, Probe, fuse,
};
use crate::store::{CapabilityId, VersionEntry};
use crate::vectors::{IndexReader, PointFilter, QueryResults, SearchQuery, VectorHit};

/// The id of a document whose name is not published. The ids of the store are positive.
const UNPUBLISHED: CapabilityId = CapabilityId(0);
/// The maximum number of capabilities that a report names for a text.
const MAX_RIVALS: usize = 3;
/// The share of the document's relevance from which a lower candidate is close.
const CLOSE_SHARE: f64 = 0.9;
/// The maximum number of different terms whose rarity the index is asked for; a further one counts as a
/// term that no other document has.
const MAX_MEASURED_TERMS: usize = 512;
/// The maximum length of the values of an example that count, in characters.
const MAX_VALUES_LENGTH: usize = 2000;

/// A document that a report is about.
struct SearchedDocument {
    /// The capability with its name, or [`UNPUBLISHED`].
    capability: CapabilityId,
    /// Set when the index has a point of the capability.
    is_indexed: bool,
    facts: CapabilityFacts,
    texts: Vec<SearchedText>,
    summary: Arc<HitSummary>,
    words: DescribedWords,
    terms: SparseVector,
    vectors: CapabilityVectors,
}

/// A text of a document to search for.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SearchedText {
    text: String,
    from: TextOrigin,
    /// The values of the example's inputs. A description need not contain them.
    values: String,
}

/// A candidate of a search in the final order.
struct RankedCandidate<'c> {
    candidate: FusedCandidate,
    name: &'c CapabilityName,
    /// The live version; none for the document of the report.
    entry: Option<&'c Arc<VersionEntry>>,
}

impl SearchService {
    /// Reports the ranks of a document in searches for its example intents, or for its description when it
    /// has none. The document need not have a checksum, and its dependencies are not checked. Nothing is
    /// published; the vectors of the texts may be cached.
    ///
    /// # Errors
    /// Fails when the document has errors, the index is not ready, or the embedder does not respond.
    pub(crate) async fn report_findability(
        &self,
        source: Vec<u8>,
    ) -> Result<FindabilityReport, Error> {
        let (facts, texts, read_only) =
            self.documents.compute(move || read_document(&source)).await??;
        if !self.index.wait_until_ready(self.index_wait).await {
            return Err(Error::IndexNotReady);
        }
        // One index from here on, as in a search.
        let index = self.vectors.current_reader()?;
        let document = self.embed_document(facts, texts, read_only, &*index).await?;
        let intents: Vec<_> =
            document.texts.iter().map(|text| IntentTexts::split(text.text.trim())).collect();
        let embeddings = &self.embedding_service;
        let (intents, degraded) = embeddings.embed_intents(&intents, index.identity()).await;
        let probes = intents.iter().flat_map(|intent| &intent.probes);
        let queries: Vec<_> = probes.map(|probe| probe.query.clone()).collect();
        let QueryResults { found, matching_points } =
            index.query(queries.clone(), PointFilter::default(), CANDIDATE_LIMIT).await?;
        let among = matching_points + usize::from(!document.is_indexed);
        let rarities = self.measure_rarities(&document, &queries, among, &*index).await?;
        let sentences = self.load_sentences(&intents, &found).await?;
        let mut found = found.into_iter();
        let mut texts = Vec::with_capacity(intents.len());
        for (intent, text) in intents.iter().zip(&document.texts) {
            let compared = intent.probes.iter().zip(found.by_ref()).map(|(probe, mut hits)| {
                hits.retain(|hit| hit.capability != document.capability);
                let own = document.to_hit(probe, &hits, &rarities);
                let vector = |id| sentences.get(&id).map(AsRef::as_ref);
                let mut compared = probe.compare(hits, vector);
                compared.hits.extend(own);
                compared
            });
            let compared: Vec<_> = compared.collect();
            let scales = embeddings.fusion_scales(index.identity(), intent.mode, among);
            let mut fused = fuse(&compared, &scales);
            let rules = DocumentRules {
                wanted: wanted_effect(&text.text),
                counts_services: scales.counts_services(),
                is_filtered: false,
            };
            let own = (document.facts.name.clone(), Arc::clone(&document.summary));
            self.apply_documents(&mut fused, &rules, Some((document.capability, own))).await?;
            texts.push(self.report_text(text, fused, &document).await?);
        }
        let degraded = degraded.map(|degraded| degraded.text().to_owned());
        let CapabilityFacts { name, version, .. } = document.facts;
        Ok(FindabilityReport { name, version, texts, degraded })
    }

    async fn embed_document(
        &self,
        facts: CapabilityFacts,
        texts: Vec<SearchedText>,
        read_only: bool,
        index: &dyn IndexReader,
    ) -> Result<SearchedDocument, Error> {
        let published = self.store.list_versions(&facts.name).await?;
        let capability = published.first().map_or(UNPUBLISHED, |entry| entry.capability);
        let indexed = facts.to_index_text();
        let vectors = self.embedding_service.embed_draft(indexed.dense, index.identity()).await?;
        let summary = HitSummary {
            description: facts.description.clone(),
            domains: facts.domains.clone(),
            complexity: facts.complexity,
            parameters: facts.parameters.clone(),
            permissions: Vec::new(),
            read_only,
        };
        Ok(SearchedDocument {
            capability,
            is_indexed: published.iter().any(|entry| !entry.yanked),
            words: DescribedWords::new(&facts.name, &summary),
            summary: Arc::new(summary),
            facts,
            texts,
            terms: document_vector(&indexed.sparse),
            vectors,
        })
    }

    /// The rarity of each term that the queries and the document share.
    ///
    /// Only the engine knows it. The best hit for a single term has as score its weight of the term times
    /// the rarity, and its text gives the weight.
    async fn measure_rarities(
        &self,
        document: &SearchedDocument,
        queries: &[SearchQuery],
        among: usize,
        index: &dyn IndexReader,
    ) -> Result<BTreeMap<u32, f32>, Error> {
        let terms = queries.iter().flat_map(|query| &query.sparse.indices).copied();
        let shared: BTreeSet<_> =
            terms.filter(|term| document.terms.weight(*term).is_some()).collect();
        let to_query = |term: &u32| SearchQuery {
            dense: None,
            sparse: SparseVector { indices: vec![*term], values: vec![1.0] },
        };
        let single: Vec<_> = shared.iter().take(MAX_MEASURED_TERMS).map(to_query).collect();
        let QueryResults { found, .. } = index.query(single, PointFilter::default(), 1).await?;
        let best: Vec<_> = found.iter().map(|hits| hits.first()).collect();
        let ids: BTreeSet<_> = best.iter().flatten().map(|hit| hit.capability).collect();
        let entries = self.live_versions.load(ids).await?;
        let opened = self.documents.open(entries.values().map(AsRef::as_ref)).await?;
        let texts = opened.into_iter().filter_map(|(entry, opened)| {
            let text = opened.ok()?.facts.to_index_text();
            Some((entry.capability, document_vector(&text.sparse)))
        });
        let texts: BTreeMap<_, _> = texts.collect();
        let best = best.into_iter().chain(std::iter::repeat(None));
        let measured = shared.into_iter().zip(best).map(|(term, best)| {
            let measured =
                best.and_then(|hit| Some(hit.bm25 / texts.get(&hit.capability)?.weight(term)?));
            (term, measured.unwrap_or_else(|| rarity(among, 1)))
        });
        Ok(measured.collect())
    }

    async fn report_text(
        &self,
        text: &SearchedText,
        fused: Vec<FusedCandidate>,
        document: &SearchedDocument,
    ) -> Result<TextFindability, Error> {
        let ids = fused.iter().map(|candidate| candidate.capability);
        let entries = self.live_versions.load(ids.filter(|id| *id != document.capability)).await?;
        let ranked = rank_candidates(fused, &entries, document);
        let place = ranked.iter().position(|ranked| ranked.entry.is_none());
        let rivals = find_rivals(&ranked, place);
        let ids = rivals.iter().map(|(_, rival)| rival.candidate.capability);
        let summaries = self.load_named_summaries(ids).await?;
        let own = place.and_then(|place| ranked.get(place)).map(|own| own.candidate);
        let (mut confused_with, mut others) = (Vec::new(), Vec::new());
        for (rank, rival) in rivals {
            let Some((name, summary)) = summaries.get(&rival.candidate.capability) else {
                continue;
            };
            let Some(entry) = rival.entry else { continue };
            others.push(DescribedWords::new(name, summary));
            confused_with.push(Rival {
                name: name.clone(),
                version: entry.version.clone(),
                description: summary.description.clone(),
                rank,
            });
        }
        let mut report = TextFindability {
            text: text.text.clone(),
            from: text.from,
            rank: place.map(|place| place + 1),
            score: own.map_or(0.0, |own| own.score()),
            similarity: own.map_or(0.0, |own| own.similarity),
            fits: own.is_some_and(|own| own.fits),
            confused_with,
            missing_words: Vec::new(),
            distinct_words: document.words.find_distinct_words(&others),
        };
        if !report.is_clear() {
            report.missing_words = find_missing_words(&text.text, &document.words, &text.values);
        }
        Ok(report)
    }
}

impl SearchedDocument {
    /// The hit of a probe that the index would return for the document, next to `others`. None when it is
    /// not among the best by meaning or by words.
    fn to_hit(
        &self,
        probe: &Probe,
        others: &[VectorHit],
        rarities: &BTreeMap<u32, f32>,
    ) -> Option<VectorHit> {
        let SearchQuery { dense, sparse } = &probe.query;
        let is_among_best = |score: fn(&VectorHit) -> f32, own: f32| {
            others.iter().filter(|other| score(other) > own).count() < CANDIDATE_LIMIT
        };
        let pair = dense.as_deref().zip(self.vectors.dense.as_deref());
        let cosine = cosine(dense.as_deref(), self.vectors.dense.as_deref());
        let is_near = pair.is_some() && is_among_best(|hit| hit.cosine, cosine);
        let scores = sparse.indices.iter().zip(&sparse.values).filter_map(|(term, wanted)| {
            Some(wanted * self.terms.weight(*term)? * rarities.get(term)?)
        });
        let bm25: f32 = scores.sum();
        let has_words = bm25 > 0.0 && is_among_best(|hit| hit.bm25, bm25);
        let bm25 = if has_words { bm25 } else { 0.0 };
        let sentence = probe.sentence.as_deref().zip(self.vectors.sentence.as_ref());
        let sentence = sentence.map(|(probe, vector): (_, &SentenceVector)| vector.cosine(probe));
        let hit = VectorHit { capability: self.capability, cosine, bm25, sentence };
        (is_near || has_words).then_some(hit)
    }
}

/// Compiles a document. The flag is true when its own tasks only read.
///
/// # Errors
/// Fails when it has errors.
fn read_document(source: &[u8]) -> Result<(CapabilityFacts, Vec<SearchedText>, bool), Error> {
    let compilation = a2s::compile(source);
    let document = compilation.document.ok_or(Error::DocumentRejected(compilation.diagnostics))?;
    let facts = CapabilityFacts::from_document(&document);
    let examples = &document.capability().examples;
    let mut texts: Vec<_> = examples
        .iter()
        .filter_map(|example| {
            let values = example.inputs.values().map(ToString::to_string).collect::<Vec<_>>();
            let values = values.join(" ").chars().take(MAX_VALUES_LENGTH).collect();
            let text = example.intent.clone()?;
            Some(SearchedText { text, from: TextOrigin::Intent, values })
        })
        .take(MAX_INTENTS)
        .collect();
    if texts.is_empty() {
        let (text, values) = (facts.description.clone(), String::new());
        texts.push(SearchedText { text, from: TextOrigin::Description, values });
    }
    Ok((facts, texts, document.interface().read_only))
}

/// Sorts the candidates as a search with the strategy `most_similar` does, those that fit first. Leaves out
/// candidates that are not published any more.
fn rank_candidates<'c>(
    fused: Vec<FusedCandidate>,
    entries: &'c BTreeMap<CapabilityId, Arc<VersionEntry>>,
    document: &'c SearchedDocument,
) -> Vec<RankedCandidate<'c>> {
    let to_ranked = |candidate: FusedCandidate| {
        if candidate.capability == document.capability {
            let name = &document.facts.name;
            return Some(RankedCandidate { candidate, name, entry: None });
        }
        let entry = entries.get(&candidate.capability)?;
        Some(RankedCandidate { candidate, name: &entry.name, entry: Some(entry) })
    };
    let mut ranked: Vec<_> = fused.into_iter().filter_map(to_ranked).collect();
    ranked.sort_by(|a, b| {
        let (one, other) = (&a.candidate, &b.candidate);
        let by_fit = other.fits.cmp(&one.fits);
        by_fit
            .then_with(|| other.relevance.total_cmp(&one.relevance))
            .then_with(|| other.similarity.total_cmp(&one.similarity))
            .then_with(|| a.name.cmp(b.name))
    });
    ranked
}

/// The candidates that users may get instead of the one at `place`, each with its rank.
fn find_rivals<'r, 'c>(
    ranked: &'r [RankedCandidate<'c>],
    place: Option<usize>,
) -> Vec<(usize, &'r RankedCandidate<'c>)> {
    let numbered = (1..).zip(ranked);
    match place.and_then(|place| Some((place, ranked.get(place)?.candidate))) {
        Some((0, own)) => numbered
            .skip(1)
            .take_while(|(_, next)| {
                let next = next.candidate;
                own.fits && next.fits && next.relevance >= CLOSE_SHARE * own.relevance
            })
            .take(MAX_RIVALS)
            .collect(),
        Some((place, _)) => numbered.take(place.min(MAX_RIVALS)).collect(),
        None => numbered.take(MAX_RIVALS).collect(),
    }
}
