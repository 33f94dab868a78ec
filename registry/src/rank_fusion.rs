//! Fuses the hits by meaning and by words into one list. Pure arithmetic.
//!
//! *Fusion*: each probe (the whole intent, and each clause of it) gives points two scores, a cosine and a
//! BM25; they become one relevance. *Fit*: on the scale of its embedder, a cosine is an absolute measure of
//! nearness, independent of the other hits. When the best is not near enough, nothing fits; when it is, all
//! candidates fit that are not far off. The result for a capability depends only on itself and on the best
//! of the response, so that a weaker hit never changes the order of stronger ones.

use std::collections::BTreeMap;

use crate::embed::SimilarityScale;
use crate::store::CapabilityId;
use crate::vectors::VectorHit;

// How the constants were chosen: on the tuning sets alone (API-Bank, ToolE multi, commands of the
// Azure CLI), with the built-in embedder; `docs/search.md` has the figures. Scaling cosines by the
// best one found alone, instead of from the worst to the best, keeps the order of strong hits
// independent of weak ones, and found a little more. The line of `near_enough` is what
// `cargo bench -p registry --bench retrieval -- calibrate` prints.

/// Share of the cosine in the relevance; the rest is BM25.
const DENSE_SHARE: f64 = 0.6;
/// The factor of a clause: a clause counts a little less than the whole intent.
const CLAUSE_DISCOUNT: f64 = 0.9;
/// The minimum height of a similarity at which a single capability fits.
const NEAR: f64 = 1.58;
/// The additional nearness that the best of many must have, for each e-fold of the comparisons.
const NEAR_RISE: f64 = 0.39;

/// A capability that a search found, before its runs count.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FusedCandidate {
    /// The capability.
    pub capability: CapabilityId,
    /// The relevance, 0 to 1, comparable within one response.
    pub relevance: f64,
    /// The best cosine of a probe, 0 to 1, comparable between responses.
    pub similarity: f64,
    /// Set when it fits in absolute terms.
    pub fits: bool,
}

/// Fuses the hits of the probes into one list, the best first.
///
/// The first probe is the whole intent, the others are its clauses. `among` is the number of searched
/// capabilities, `scale` the scale of the cosines.
///
/// When the best is not [near enough](near_enough), nothing fits. When it is, all candidates fit that would
/// fit on their own.
///
/// An intent in a script that the embedder does not know has no cosines: then every point that shares a
/// word fits.
pub fn fuse(
    probes: &[Vec<VectorHit>],
    among: usize,
    scale: SimilarityScale,
) -> Vec<FusedCandidate> {
    let mut candidates: BTreeMap<CapabilityId, FusedCandidate> = BTreeMap::new();
    for (index, found) in probes.iter().enumerate() {
        let discount = if index == 0 { 1.0 } else { CLAUSE_DISCOUNT };
        let best =
            |score: fn(&VectorHit) -> f32| f64::from(found.iter().map(score).fold(0.0, f32::max));
        let (best_cosine, best_bm25) = (best(|found| found.cosine), best(|found| found.bm25));
        for found in found {
            let cosine = f64::from(found.cosine);
            let dense = ratio(cosine, best_cosine);
            let sparse = ratio(f64::from(found.bm25), best_bm25);
            let relevance = discount * (DENSE_SHARE * dense + (1.0 - DENSE_SHARE) * sparse);
            let candidate = candidates.entry(found.capability).or_insert(FusedCandidate {
                capability: found.capability,
                relevance: 0.0,
                similarity: 0.0,
                fits: false,
            });
            candidate.relevance = candidate.relevance.max(relevance);
            candidate.similarity = candidate.similarity.max(cosine.clamp(0.0, 1.0));
        }
    }
    let mut candidates: Vec<_> = candidates.into_values().collect();
    // A clause without a meaning was compared with nothing.
    let has_cosines = |found: &&Vec<VectorHit>| found.iter().any(|found| found.cosine != 0.0);
    let compared = probes.iter().filter(has_cosines).count();
    let enough = near_enough(among, compared);
    let is_near = |candidate: &FusedCandidate, height| scale.height(candidate.similarity) >= height;
    let is_any_near = candidates.iter().any(|candidate| is_near(candidate, enough));
    for candidate in &mut candidates {
        candidate.fits = compared == 0 || is_any_near && is_near(candidate, NEAR);
    }
    candidates.sort_by(|a, b| b.relevance.total_cmp(&a.relevance));
    candidates
}

/// Returns the [height](SimilarityScale::height) that the best of `among` capabilities must have for
/// `probes` probes. Below it, nothing fits.
///
/// With more comparisons, the best of them is nearer by chance. Of the intents that nothing fits, five in
/// six have no capability as near as this, for any number of capabilities and of clauses.
fn near_enough(among: usize, probes: usize) -> f64 {
    NEAR + NEAR_RISE * (among.max(1) as f64 * probes.max(1) as f64).ln()
}

/// Returns `part / whole`, limited to 0 to 1; 0 when `whole` is not positive.
fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { (part / whole).clamp(0.0, 1.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use proptest::prelude::*;

    use super::*;
    use crate::embed::BuiltIn;

    fn found(capability: i64, cosine: f32, bm25: f32) -> VectorHit {
        VectorHit { capability: CapabilityId(capability), cosine, bm25 }
    }

    fn scale() -> SimilarityScale {
        static SCALE: LazyLock<SimilarityScale> = LazyLock::new(|| BuiltIn::new().scale());
        *SCALE
    }

    fn order(probes: &[Vec<VectorHit>]) -> Vec<i64> {
        fuse(probes, probes[0].len(), scale())
            .iter()
            .map(|candidate| candidate.capability.0)
            .collect()
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

    fn fitting(cosines: &[f32], among: usize) -> Vec<i64> {
        let found = (1..).zip(cosines).map(|(id, cosine)| found(id, *cosine, 9.0)).collect();
        let candidates = fuse(&[found], among, scale());
        assert!(candidates.iter().all(|candidate| candidate.relevance > 0.0));
        candidates.iter().filter(|c| c.fits).map(|c| c.capability.0).collect()
    }

    #[test]
    fn what_is_far_off_does_not_fit_even_as_the_best() {
        assert_eq!(fitting(&[0.15], 1), [0; 0]);
        assert_eq!(fitting(&[0.35, 0.3], 1_000), [0; 0]);
        // If one is near, others may be further off, but not far.
        assert_eq!(fitting(&[0.5, 0.3, 0.1], 1_000), [1, 2]);
        // Without any meaning, words have to do.
        assert_eq!(fitting(&[0.0, 0.0], 1_000), [1, 2]);
    }

    #[test]
    fn the_best_of_many_must_be_nearer() {
        assert_eq!(fitting(&[0.35], 5), [1]);
        assert_eq!(fitting(&[0.35], 5_000), [0; 0]);
        assert_eq!(fitting(&[0.55], 5_000), [1]);
        assert_eq!(near_enough(0, 0), near_enough(1, 1));
    }

    #[test]
    fn the_best_for_one_of_many_clauses_must_be_nearer() {
        let fits = |clauses: usize| {
            let mut probes = vec![vec![found(1, 0.4, 3.0)]; clauses];
            probes.insert(0, vec![found(1, 0.45, 3.0)]);
            fuse(&probes, 1_000, scale())[0].fits
        };
        assert!(fits(0) && !fits(5));
        // Clauses in a script that the embedder does not know were compared with nothing.
        let whole = vec![found(1, 0.45, 3.0)];
        let unknown = vec![found(1, 0.0, 3.0)];
        let probes = [vec![whole], vec![unknown; 5]].concat();
        assert!(fuse(&probes, 1_000, scale())[0].fits);
        // Who looks for two things among a hundred compares as often as for one among two hundred.
        assert_eq!(near_enough(100, 2), near_enough(200, 1));
    }

    #[test]
    fn embedder_with_high_cosines_gets_equal_verdicts() {
        // One direction that all vectors share, as some models have it: 0.1 becomes 0.775.
        let share = |vector: &[f32]| {
            let own = vector.iter().map(|x| x * 0.5);
            Some(own.chain([0.75f32.sqrt()]).collect::<Vec<f32>>())
        };
        let texts: Vec<_> = SimilarityScale::texts()
            .map(|text| share(&BuiltIn::new().embed(text).unwrap()))
            .collect();
        let high = SimilarityScale::from_vectors(&texts, &texts);
        for cosines in [[0.15, 0.1], [0.35, 0.3], [0.5, 0.2], [0.5, 0.1]] {
            let fitting = |by: fn(f32) -> f32, scale| -> Vec<bool> {
                let found = vec![found(1, by(cosines[0]), 9.0), found(2, by(cosines[1]), 9.0)];
                fuse(&[found], 1_000, scale).iter().map(|candidate| candidate.fits).collect()
            };
            let as_usual = fitting(|cosine| cosine, scale());
            assert_eq!(fitting(|cosine| 0.75 + 0.25 * cosine, high), as_usual, "{cosines:?}");
        }
    }

    #[test]
    fn a_clause_that_fits_is_enough() {
        let whole = vec![found(1, 0.35, 3.0), found(2, 0.3, 3.0)];
        let none = fuse(std::slice::from_ref(&whole), 1_000, scale());
        assert!(none.iter().all(|candidate| !candidate.fits));
        let both = fuse(&[whole, vec![found(2, 0.6, 5.0)]], 1_000, scale());
        assert!(both.iter().all(|candidate| candidate.fits));
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
            for candidate in fuse(&probes, 10, scale()) {
                prop_assert!((0.0..=1.0 + 1e-9).contains(&candidate.relevance));
                prop_assert!((0.0..=1.0).contains(&candidate.similarity));
            }
        }
    }
}
