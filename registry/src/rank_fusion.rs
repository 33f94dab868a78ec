//! Fuses the hits by meaning and by words into one list. Pure arithmetic.
//!
//! *Fusion*: each probe (the whole intent, and each clause of it) gives points two or three scores: a
//! cosine, a BM25, and a cosine by the sentence encoder. They become one relevance. *Service*: what else
//! fits of the service counts a little. *Effects*: a capability that does something else than the intent
//! asks for comes after others. Whether a candidate fits at all follows from its score ([`crate::fit`]). The relevance
//! of a capability depends only on itself and on better ones of the response, so that a weaker hit never
//! changes the order of stronger ones.

use std::collections::BTreeMap;

use crate::embed::SimilarityScale;
use crate::fit::{FitEvidence, HitEvidence};
use crate::store::CapabilityId;
use crate::vectors::VectorHit;

// How the constants were chosen: on the tuning sets alone (API-Bank, ToolE multi, commands of the
// Azure CLI); `docs/search.md` has the figures. Scaling cosines by the best one found alone, instead of
// from the worst to the best, keeps the order of strong hits independent of weak ones, and found a little
// more.

/// The shares of the scores in the relevance.
struct Shares {
    cosine: f64,
    bm25: f64,
    sentence: f64,
}

/// Without the sentence encoder.
const FAST: Shares = Shares { cosine: 0.6, bm25: 0.4, sentence: 0.0 };
/// With it.
const QUALITY: Shares = Shares { cosine: 0.25, bm25: 0.30, sentence: 0.45 };
/// The factor of a clause: a clause counts a little less than the whole intent.
const CLAUSE_DISCOUNT: f64 = 0.9;
/// The share of the service in the relevance, and the number of its candidates that count.
const SERVICE_SHARE: f64 = 0.3;
const SERVICE_CANDIDATES: usize = 3;
/// The number of candidates whose services count.
pub const SERVICE_LIMIT: usize = 50;
/// The minimum height of a further hit.
const NEAR: f64 = 1.58;
/// The factor for the relevance of a capability that does something else than the intent asks for.
const CONTRADICTION_FACTOR: f64 = 0.5;

/// The result of a probe.
#[derive(Debug, Clone, Default)]
pub struct ProbeHits {
    /// The hits of the index.
    pub hits: Vec<VectorHit>,
    /// The [height](crate::embed::elsewhere_heights) of operations elsewhere; `None` without the sentence
    /// encoder.
    pub elsewhere: Option<f64>,
}

/// The facts about the index that [`fuse`] needs.
#[derive(Debug, Clone, Copy)]
pub struct FusionScales {
    /// The number of searched capabilities.
    pub among: usize,
    /// The scale of the index's cosines.
    pub cosine: SimilarityScale,
    /// The scale of the sentence encoder's cosines, when the probes have them.
    pub sentence: Option<SimilarityScale>,
}

/// A capability that a search found, before its runs count.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FusedCandidate {
    /// The capability.
    pub capability: CapabilityId,
    /// The relevance, 0 to 1, comparable within one response.
    pub relevance: f64,
    /// The best cosine of a probe by the index's embedder, 0 to 1, comparable between responses of any
    /// mode.
    pub similarity: f64,
    /// The best height of a similarity of a probe: the mean over the embedders.
    pub height: f64,
    /// The absolute evidence that it does what the intent asks for.
    pub evidence: HitEvidence,
    /// Set when it does something else than the intent asks for.
    pub contradicts: bool,
    /// Set when it fits in absolute terms.
    pub fits: bool,
}

impl FusedCandidate {
    /// The probability that the capability does what the intent asks for, 0 to 1.
    #[must_use]
    pub fn score(&self) -> f64 {
        self.evidence.score(self.relevance, self.contradicts)
    }
}

/// Fuses the hits of the probes into one list, the best first.
///
/// The first probe is the whole intent, the others are its clauses.
///
/// An intent in a script that the embedder does not know has no cosines: then every point that shares a
/// word fits.
#[must_use]
pub fn fuse(probes: &[ProbeHits], scales: &FusionScales) -> Vec<FusedCandidate> {
    let mut candidates: BTreeMap<CapabilityId, FusedCandidate> = BTreeMap::new();
    let evidence = read_evidence(probes, scales);
    for (index, probe) in probes.iter().enumerate() {
        let discount = if index == 0 { 1.0 } else { CLAUSE_DISCOUNT };
        let best = |score: fn(&VectorHit) -> f32| {
            f64::from(probe.hits.iter().map(score).fold(0.0, f32::max))
        };
        let best_sentence = best(|hit| hit.sentence.unwrap_or_default());
        let (best_cosine, best_bm25) = (best(|hit| hit.cosine), best(|hit| hit.bm25));
        let shares = if best_sentence > 0.0 { QUALITY } else { FAST };
        for hit in &probe.hits {
            let cosine = f64::from(hit.cosine);
            let sentence = hit.sentence.map(f64::from);
            let dense = ratio(cosine, best_cosine);
            let sparse = ratio(f64::from(hit.bm25), best_bm25);
            // A capability without a vector of the encoder counts by its cosine.
            let read = sentence.map_or(dense, |sentence| ratio(sentence, best_sentence));
            let relevance =
                discount * (shares.cosine * dense + shares.bm25 * sparse + shares.sentence * read);
            let candidate = candidates.entry(hit.capability).or_insert(FusedCandidate {
                capability: hit.capability,
                relevance: 0.0,
                similarity: 0.0,
                height: f64::NEG_INFINITY,
                evidence: HitEvidence::WordsAlone,
                contradicts: false,
                fits: false,
            });
            candidate.relevance = candidate.relevance.max(relevance);
            candidate.similarity = candidate.similarity.max(cosine.clamp(0.0, 1.0));
            candidate.height = candidate.height.max(scales.height(cosine, sentence));
        }
    }
    let mut candidates: Vec<_> = candidates.into_values().collect();
    for candidate in &mut candidates {
        candidate.evidence = evidence.at(candidate.height);
    }
    mark_fitting(&mut candidates);
    sort_by_relevance(&mut candidates);
    candidates
}

/// Reads the evidence from the hits of the probes.
#[must_use]
pub fn read_evidence(probes: &[ProbeHits], scales: &FusionScales) -> FitEvidence {
    let height =
        |hit: &VectorHit| scales.height(f64::from(hit.cosine), hit.sentence.map(f64::from));
    let bests = || {
        probes.iter().filter_map(|probe| {
            Some((probe.hits.iter().map(height).reduce(f64::max)?, probe.elsewhere))
        })
    };
    let leads = bests().filter_map(|(best, elsewhere)| Some(best - elsewhere?));
    // A clause without a meaning was compared with nothing.
    let has_cosines = |probe: &&ProbeHits| probe.hits.iter().any(|hit| hit.cosine != 0.0);
    FitEvidence {
        nearest: bests().map(|(best, _)| best).fold(f64::NEG_INFINITY, f64::max),
        lead: leads.reduce(f64::max),
        among: scales.among.max(1) as f64,
        compared: probes.iter().filter(has_cosines).count() as f64,
    }
}

/// Decides which candidates fit: none when the best score is too low, otherwise all that are near.
fn mark_fitting(candidates: &mut [FusedCandidate]) {
    let has_fitting =
        candidates.iter().any(|candidate| candidate.score() >= candidate.evidence.minimum());
    for candidate in candidates {
        let is_near = candidate.evidence == HitEvidence::WordsAlone || candidate.height >= NEAR;
        candidate.fits = has_fitting && is_near;
    }
}

/// Lets the services of candidates count.
///
/// A capability is more likely meant when others of its service are relevant, too. One that is alone in its
/// services keeps its relevance. Only the first [`SERVICE_LIMIT`] candidates count.
///
/// `services` names the services of a capability.
pub fn lift_services<S: Ord>(
    candidates: &mut [FusedCandidate],
    services: impl Fn(CapabilityId) -> Vec<S>,
) {
    let all = candidates;
    let most = all.len().min(SERVICE_LIMIT);
    let candidates = &mut all[..most];
    let named: Vec<_> = candidates.iter().map(|candidate| services(candidate.capability)).collect();
    let mut best: BTreeMap<&S, Vec<f64>> = BTreeMap::new();
    // They come best first.
    for (candidate, services) in candidates.iter().zip(&named) {
        for service in services {
            let best = best.entry(service).or_default();
            if best.len() < SERVICE_CANDIDATES {
                best.push(candidate.relevance);
            }
        }
    }
    for (candidate, services) in candidates.iter_mut().zip(&named) {
        let means = services.iter().filter_map(|service| {
            let best = best.get(service).filter(|best| best.len() > 1)?;
            Some(best.iter().sum::<f64>() / best.len() as f64)
        });
        if let Some(service) = means.reduce(f64::max) {
            candidate.relevance =
                (1.0 - SERVICE_SHARE) * candidate.relevance + SERVICE_SHARE * service;
        }
    }
    sort_by_relevance(candidates);
    mark_fitting(all);
}

/// Moves candidates that do something else than the intent asks for behind others.
pub fn lower_contradictions(
    candidates: &mut [FusedCandidate],
    contradicts: impl Fn(CapabilityId) -> bool,
) {
    for candidate in candidates.iter_mut().filter(|candidate| contradicts(candidate.capability)) {
        candidate.contradicts = true;
        candidate.relevance *= CONTRADICTION_FACTOR;
    }
    sort_by_relevance(candidates);
    mark_fitting(candidates);
}

/// Sorts candidates, the most relevant first.
pub(crate) fn sort_by_relevance(candidates: &mut [FusedCandidate]) {
    candidates.sort_by(|a, b| b.relevance.total_cmp(&a.relevance));
}

impl FusionScales {
    /// Tells if services count, see [`lift_services`]: with the sentence encoder. The limits of the agent
    /// were chosen for the order without both.
    #[must_use]
    pub fn counts_services(&self) -> bool {
        self.sentence.is_some()
    }

    /// The mean of the heights of both cosines.
    fn height(&self, cosine: f64, sentence: Option<f64>) -> f64 {
        let table = self.cosine.height(cosine);
        match (sentence, self.sentence) {
            (Some(sentence), Some(scale)) => f64::midpoint(table, scale.height(sentence)),
            _ => table,
        }
    }
}

/// Returns `part / whole`, limited to 0 to 1; 0 when `whole` is not positive.
fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { (part / whole).clamp(0.0, 1.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::embed::BuiltIn;

    fn found(capability: i64, cosine: f32, bm25: f32) -> VectorHit {
        VectorHit { capability: CapabilityId(capability), cosine, bm25, sentence: None }
    }

    /// Fuses without the sentence encoder.
    fn fuse_fast(probes: &[Vec<VectorHit>]) -> Vec<FusedCandidate> {
        let cosine = BuiltIn::new().scale();
        let to_probe = |hits: &Vec<VectorHit>| ProbeHits { hits: hits.clone(), elsewhere: None };
        let probes: Vec<_> = probes.iter().map(to_probe).collect();
        fuse(&probes, &FusionScales { among: 10, cosine, sentence: None })
    }

    fn order(probes: &[Vec<VectorHit>]) -> Vec<i64> {
        let found = fuse_fast(probes);
        found.iter().map(|candidate| candidate.capability.0).collect()
    }

    #[test]
    fn meaning_and_words_both_count() {
        let best_of_both = [found(1, 0.7, 6.0), found(2, 0.8, 0.0), found(3, 0.2, 7.0)];
        assert_eq!(order(&[best_of_both.to_vec()]), [1, 2, 3]);
    }

    #[test]
    fn a_clause_lifts_what_the_whole_intent_hides() {
        let whole = vec![found(1, 0.6, 5.0), found(2, 0.3, 1.0), found(3, 0.35, 2.0)];
        let clause = vec![found(2, 0.7, 6.0)];
        assert_eq!(order(std::slice::from_ref(&whole)), [1, 3, 2]);
        assert_eq!(order(&[whole, clause]), [1, 2, 3]);
    }

    fn read(capability: i64, cosine: f32, bm25: f32, sentence: f32) -> VectorHit {
        VectorHit { sentence: Some(sentence), ..found(capability, cosine, bm25) }
    }

    #[test]
    fn the_sentence_encoder_decides_between_alike() {
        let hits = vec![read(1, 0.6, 5.0, 0.5), read(2, 0.6, 5.0, 0.8), found(3, 0.6, 5.0)];
        // What it has not read yet counts by the rest: as the best, which it is.
        assert_eq!(order(&[hits]), [2, 3, 1]);
    }

    #[test]
    fn what_does_something_else_comes_after_others() {
        let mut found = fuse_fast(&[vec![found(1, 0.7, 6.0), found(2, 0.6, 5.0)]]);
        let scores: Vec<_> = found.iter().map(FusedCandidate::score).collect();
        lower_contradictions(&mut found, |id| id.0 == 1);
        let order: Vec<_> = found.iter().map(|found| found.capability.0).collect();
        assert_eq!(order, [2, 1]);
        assert_eq!(found[0].score(), scores[1]);
        assert!(found[1].contradicts && found[1].score() < 0.6 * scores[0]);
    }

    fn lifted(relevances: &[(i64, f64)], services: &[(i64, &'static str)]) -> Vec<(i64, f64)> {
        let candidate = |(id, relevance): &(i64, f64)| FusedCandidate {
            capability: CapabilityId(*id),
            relevance: *relevance,
            similarity: 0.5,
            height: 3.0,
            evidence: HitEvidence::WordsAlone,
            contradicts: false,
            fits: true,
        };
        let mut candidates: Vec<_> = relevances.iter().map(candidate).collect();
        lift_services(&mut candidates, |id| {
            services.iter().filter(|(of, _)| *of == id.0).map(|(_, service)| *service).collect()
        });
        candidates.iter().map(|found| (found.capability.0, found.relevance)).collect()
    }

    #[test]
    fn siblings_of_what_was_found_are_lifted() {
        let found = [(1, 0.9), (2, 0.6), (3, 0.5), (4, 0.3)];
        let services = [(1, "a"), (3, "a"), (4, "a"), (2, "b")];
        let order: Vec<_> = lifted(&found, &services).iter().map(|(id, _)| *id).collect();
        assert_eq!(order, [1, 2, 3, 4]);
        let near = lifted(&[(1, 0.9), (2, 0.6), (3, 0.58)], &services);
        assert_eq!(near.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [1, 3, 2]);
        // Alone in its service, or without one, nothing changes.
        assert_eq!(lifted(&[(1, 0.9), (2, 0.6)], &services), [(1, 0.9), (2, 0.6)]);
        assert_eq!(lifted(&[(1, 0.9), (2, 0.6)], &[]), [(1, 0.9), (2, 0.6)]);
        // Of several services the best counts.
        let both =
            lifted(&[(1, 0.9), (2, 0.6), (3, 0.1)], &[(1, "a"), (2, "a"), (2, "b"), (3, "b")]);
        assert!((both[1].1 - (0.7 * 0.6 + 0.3 * 0.75)).abs() < 1e-9);
    }

    prop_compose! {
        fn any_found()(cosine in -0.3f32..1.0, bm25 in 0f32..20.0) -> (f32, f32) {
            (cosine, bm25)
        }
    }

    fn number(found: &[(f32, f32)]) -> Vec<VectorHit> {
        let ids = 1..;
        found.iter().zip(ids).map(|((cosine, bm25), id)| self::found(id, *cosine, *bm25)).collect()
    }

    proptest! {
        #[test]
        fn a_weaker_hit_never_reorders_stronger_ones(
            whole in prop::collection::vec(any_found(), 1..12),
            clause in prop::collection::vec(any_found(), 1..12),
            by in 0f32..0.5,
        ) {
            let weaker = |list: &[(f32, f32)]| {
                let least = |f: fn(&(f32, f32)) -> f32| list.iter().map(f).fold(f32::MAX, f32::min);
                found(0, least(|x| x.0).min(1.0) - by, (least(|x| x.1).min(20.0) - by).max(0.0))
            };
            let (mut more_whole, mut more_clause) = (number(&whole), number(&clause));
            let before = order(&[more_whole.clone(), more_clause.clone()]);
            more_whole.push(weaker(&whole));
            more_clause.push(weaker(&clause));
            let after: Vec<_> =
                order(&[more_whole, more_clause]).into_iter().filter(|id| *id != 0).collect();
            prop_assert_eq!(before, after);
        }

        #[test]
        fn relevance_and_similarity_stay_from_0_to_1(
            lists in prop::collection::vec(prop::collection::vec(any_found(), 0..10), 0..5),
        ) {
            let probes: Vec<_> = lists.iter().map(|list| number(list)).collect();
            for candidate in fuse_fast(&probes) {
                prop_assert!((0.0..=1.0 + 1e-9).contains(&candidate.relevance));
                prop_assert!((0.0..=1.0).contains(&candidate.similarity));
            }
        }
    }
}
