//! What was found by meaning and by words becomes one list. Pure arithmetic.
//!
//! *Fusion*: each probe (the whole intent, and each clause of it) gives points two scores, a cosine
//! and a BM25; they become one relevance. *Floor*: what is not similar enough in absolute terms does
//! not fit, however good it looks beside the rest. A relevance depends on the capability alone and
//! on the best of the answer, so that a weaker hit never changes the order of stronger ones.

use std::collections::BTreeMap;

use crate::rank::ratio;
use crate::store::CapabilityId;
use crate::vectors::Found;

// How the constants were chosen: on the sets API-Bank (70 tools, 260 queries) and ToolE multi (199
// and 497) with the built-in embedder. Scaling cosines by the best one found alone, instead of from
// the worst to the best, gives a mean Recall@5 of 76.6 instead of 75.9, and keeps the order of
// strong hits independent of weak ones. The floor is what 95 of 100 pairs of a query and a tool of
// the other set stay below; it rises with the length of the query, as all cosines do. It turns away
// 1 in 1,000 queries that fit their set.

/// Share of the cosine in the relevance; the rest is BM25.
const DENSE_SHARE: f64 = 0.6;
/// A clause counts a little less than the whole intent.
const CLAUSE_DISCOUNT: f64 = 0.9;
/// The similarity below which nothing fits: for the shortest texts, for the longest, and the
/// numbers of words in which it rises.
const FLOOR: (f64, f64) = (0.18, 0.23);
const FLOOR_WORDS: (f64, f64) = (2.0, 12.0);

/// What a probe found: the whole intent, or a clause of it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Findings {
    /// How long the text is.
    pub(crate) words: usize,
    pub(crate) found: Vec<Found>,
}

/// A capability that was found, before its history is looked at.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Candidate {
    pub(crate) capability: CapabilityId,
    /// 0 to 1, comparable within one answer.
    pub(crate) relevance: f64,
    /// The best cosine of a probe, 0 to 1, comparable between answers.
    pub(crate) similarity: f64,
    /// Whether it fits in absolute terms.
    pub(crate) fits: bool,
}

/// Makes one relevance of what the probes found. The first probe is the whole intent, the others
/// are its clauses. The best comes first.
///
/// An intent in a script that the embedder does not know has no cosines at all: then every point
/// that shares a word fits.
pub(crate) fn fuse(probes: &[Findings]) -> Vec<Candidate> {
    let mut candidates: BTreeMap<CapabilityId, Candidate> = BTreeMap::new();
    let all = || probes.iter().flat_map(|probe| &probe.found);
    let has_meaning = all().any(|found| found.cosine != 0.0);
    for (index, probe) in probes.iter().enumerate() {
        let discount = if index == 0 { 1.0 } else { CLAUSE_DISCOUNT };
        let floor = floor(probe.words);
        let best =
            |score: fn(&Found) -> f32| f64::from(probe.found.iter().map(score).fold(0.0, f32::max));
        let (best_cosine, best_bm25) = (best(|found| found.cosine), best(|found| found.bm25));
        for found in &probe.found {
            let cosine = f64::from(found.cosine);
            let dense = ratio(cosine, best_cosine);
            let sparse = ratio(f64::from(found.bm25), best_bm25);
            let relevance = discount * (DENSE_SHARE * dense + (1.0 - DENSE_SHARE) * sparse);
            let candidate = candidates.entry(found.capability).or_insert(Candidate {
                capability: found.capability,
                relevance: 0.0,
                similarity: 0.0,
                fits: !has_meaning,
            });
            candidate.relevance = candidate.relevance.max(relevance);
            candidate.similarity = candidate.similarity.max(cosine.clamp(0.0, 1.0));
            candidate.fits |= cosine >= floor;
        }
    }
    let mut candidates: Vec<_> = candidates.into_values().collect();
    candidates.sort_by(|a, b| b.relevance.total_cmp(&a.relevance));
    candidates
}

/// The similarity below which nothing fits a text of so many words.
fn floor(words: usize) -> f64 {
    let rise = ratio(words as f64 - FLOOR_WORDS.0, FLOOR_WORDS.1 - FLOOR_WORDS.0);
    FLOOR.0 + rise * (FLOOR.1 - FLOOR.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(capability: i64, cosine: f32, bm25: f32) -> Found {
        Found { capability: CapabilityId(capability), cosine, bm25 }
    }

    fn probe(found: Vec<Found>) -> Findings {
        Findings { words: 8, found }
    }

    fn order(probes: &[Findings]) -> Vec<i64> {
        fuse(probes).iter().map(|candidate| candidate.capability.0).collect()
    }

    #[test]
    fn meaning_and_words_both_count() {
        let best_of_both = [found(1, 0.7, 6.0), found(2, 0.8, 0.0), found(3, 0.2, 7.0)];
        assert_eq!(order(&[probe(best_of_both.to_vec())]), [1, 2, 3]);
    }

    #[test]
    fn a_clause_lifts_what_the_whole_intent_hides() {
        let whole = probe(vec![found(1, 0.6, 5.0), found(2, 0.3, 1.0), found(3, 0.35, 2.0)]);
        let clause = probe(vec![found(2, 0.7, 6.0)]);
        assert_eq!(order(std::slice::from_ref(&whole)), [1, 3, 2]);
        assert_eq!(order(&[whole, clause]), [1, 2, 3]);
    }

    #[test]
    fn what_is_far_off_does_not_fit_even_as_the_best() {
        let fits = |words, cosine| {
            let candidates = fuse(&[Findings { words, found: vec![found(1, cosine, 9.0)] }]);
            assert!(candidates[0].relevance > 0.0);
            candidates[0].fits
        };
        assert!(!fits(1, 0.15) && !fits(30, 0.15));
        assert!(fits(1, 0.5) && fits(30, 0.5));
        // A long text is a little like everything.
        assert!(fits(2, 0.2) && !fits(20, 0.2));
        // Without any meaning, words have to do.
        assert!(fits(2, 0.0));
    }

    prop_compose! {
        fn any_found()(cosine in -0.3f32..1.0, bm25 in 0f32..20.0) -> (f32, f32) {
            (cosine, bm25)
        }
    }

    fn number(found: &[(f32, f32)]) -> Findings {
        let ids = 1..;
        probe(
            found
                .iter()
                .zip(ids)
                .map(|((cosine, bm25), id)| self::found(id, *cosine, *bm25))
                .collect(),
        )
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
            more_whole.found.push(weaker(&whole));
            more_clause.found.push(weaker(&clause));
            let after: Vec<_> =
                order(&[more_whole, more_clause]).into_iter().filter(|id| *id != 0).collect();
            prop_assert_eq!(before, after);
        }

        #[test]
        fn relevance_and_similarity_stay_from_0_to_1(
            lists in prop::collection::vec(prop::collection::vec(any_found(), 0..10), 0..5),
        ) {
            let probes: Vec<_> = lists.iter().map(|list| number(list)).collect();
            for candidate in fuse(&probes) {
                prop_assert!((0.0..=1.0 + 1e-9).contains(&candidate.relevance));
                prop_assert!((0.0..=1.0).contains(&candidate.similarity));
            }
        }
    }
}
