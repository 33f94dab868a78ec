//! Which of the capabilities found comes first, and why. Pure arithmetic.
//!
//! Three steps. *Fusion*: each probe (the whole intent, and each clause of it) gives points two
//! scores, a cosine and a BM25; they become one relevance. *Floor*: what is not similar enough in
//! absolute terms does not fit, however good it looks beside the rest. *Strategy*: relevance,
//! success rate, usage and simplicity are weighed; every term is from 0 to 1 and depends on the
//! capability alone or on the best of the answer, so that a weaker hit never changes the order of
//! stronger ones.

use std::collections::BTreeMap;

use a2s::Complexity;
use a2s::api::{Strategy, Term, Weights};

use crate::Error;
use crate::store::{CapabilityId, Stats};
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

/// What is believed of a capability that never ran: as if it had run so often, so well.
const PRIOR_SUCCESSES: f64 = 4.0;
const PRIOR_FAULTS: f64 = 1.0;
/// So many runs count as the most popular there can be.
const MANY_RUNS: f64 = 1_000_000.0;

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

/// What is weighed of one hit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Merits {
    pub(crate) relevance: f64,
    pub(crate) stats: Stats,
    pub(crate) complexity: Complexity,
}

/// The score of a hit and the terms that add up to it.
pub(crate) fn score(merits: &Merits, weights: &Weights) -> (f64, Vec<Term>) {
    let parts = [
        ("similarity", merits.relevance, weights.vector_similarity),
        ("success_rate", reliability(&merits.stats), weights.success_rate),
        ("usage", popularity(&merits.stats), weights.usage_count),
        ("simplicity", simplicity(merits.complexity), weights.complexity),
    ];
    let sum: f64 = parts.iter().map(|(_, _, weight)| weight).sum();
    let terms: Vec<_> = parts
        .into_iter()
        .map(|(term, value, weight)| {
            let weight = ratio(weight, sum);
            Term { term: term.to_owned(), value, weight, contribution: value * weight }
        })
        .collect();
    (terms.iter().map(|term| term.contribution).sum(), terms)
}

/// The share of runs that succeeded, of those that tell something about the capability.
pub(crate) fn success_rate(stats: &Stats) -> Option<f64> {
    let counted = stats.successes + stats.faults;
    (counted > 0).then(|| stats.successes as f64 / counted as f64)
}

/// What success can be relied on: the mean of the Beta distribution that prior and runs make,
/// less one standard deviation. Few runs are little evidence, so ten successes of ten stand
/// behind a thousand of a thousand, and before none at all.
fn reliability(stats: &Stats) -> f64 {
    let successes = PRIOR_SUCCESSES + stats.successes as f64;
    let faults = PRIOR_FAULTS + stats.faults as f64;
    let all = successes + faults;
    let mean = successes / all;
    (mean - (mean * (1.0 - mean) / (all + 1.0)).sqrt()).max(0.0)
}

/// Runs on a logarithmic scale.
fn popularity(stats: &Stats) -> f64 {
    ((stats.runs as f64).ln_1p() / MANY_RUNS.ln_1p()).min(1.0)
}

fn simplicity(complexity: Complexity) -> f64 {
    match complexity {
        Complexity::Low => 1.0,
        Complexity::Medium => 0.5,
        Complexity::High => 0.0,
    }
}

/// `part / whole` from 0 to 1; 0 when there is no whole.
fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { (part / whole).clamp(0.0, 1.0) } else { 0.0 }
}

/// The presets by name; the first one is the default.
const PRESETS: [(&str, Weights); 5] = [
    ("highest_score", weights(0.85, 0.10, 0.03, 0.02)),
    ("most_similar", weights(1.0, 0.0, 0.0, 0.0)),
    ("most_reliable", weights(0.5, 0.5, 0.0, 0.0)),
    ("most_used", weights(0.5, 0.0, 0.5, 0.0)),
    ("simplest", weights(0.5, 0.0, 0.0, 0.5)),
];

const fn weights(similarity: f64, success: f64, usage: f64, complexity: f64) -> Weights {
    Weights { vector_similarity: similarity, success_rate: success, usage_count: usage, complexity }
}

/// The weights of a strategy.
///
/// # Errors
/// When no preset has the name, or the weights are not from 0 to 1, or all are 0.
pub(crate) fn weights_of(strategy: Option<&Strategy>) -> Result<Weights, Error> {
    match strategy {
        None => Ok(PRESETS[0].1),
        Some(Strategy::Preset(name)) => PRESETS
            .iter()
            .find(|(preset, _)| preset == name)
            .map(|(_, weights)| *weights)
            .ok_or_else(|| Error::UnknownStrategy {
                given: name.chars().take(64).collect(),
                known: PRESETS.map(|(preset, _)| format!("`{preset}`")).join(", "),
            }),
        Some(Strategy::Weights(weights)) => {
            let all = [
                weights.vector_similarity,
                weights.success_rate,
                weights.usage_count,
                weights.complexity,
            ];
            if all.iter().any(|weight| !(0.0..=1.0).contains(weight)) {
                return Err(Error::BadSearch(
                    "`strategy`: a weight is a number from 0 to 1".to_owned(),
                ));
            }
            if all.iter().sum::<f64>() <= 0.0 {
                return Err(Error::BadSearch(
                    "`strategy`: one weight at least must be more than 0".to_owned(),
                ));
            }
            Ok(*weights)
        }
    }
}

#[cfg(test)]
mod tests {
    use a2s::api::Strategy;
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

    #[test]
    fn few_runs_are_no_certainty() {
        let of =
            |successes, faults| reliability(&Stats { runs: successes + faults, successes, faults });
        let descending =
            [of(1000, 0), of(100, 0), of(10, 0), of(0, 0), of(0, 1), of(10, 10), of(0, 10)];
        assert!(descending.is_sorted_by(|a, b| a > b), "{descending:?}");
        assert!(of(1000, 0) > 0.99 && of(0, 1000) < 0.01);
    }

    #[test]
    fn the_success_rate_is_unknown_before_a_run_tells_something() {
        let rate = |runs, successes, faults| success_rate(&Stats { runs, successes, faults });
        assert_eq!(rate(0, 0, 0), None);
        assert_eq!(rate(5, 0, 0), None);
        assert_eq!(rate(5, 3, 1), Some(0.75));
    }

    #[test]
    fn every_preset_is_a_strategy_and_nothing_else_is() {
        for (name, weights) in PRESETS {
            assert_eq!(weights_of(Some(&Strategy::Preset(name.to_owned()))).unwrap(), weights);
        }
        assert_eq!(weights_of(None).unwrap(), PRESETS[0].1);
        assert!(weights_of(Some(&Strategy::Preset("Highest_Score".to_owned()))).is_err());
        for bad in [weights(0.0, 0.0, 0.0, 0.0), weights(-0.1, 1.0, 0.0, 0.0)] {
            assert!(weights_of(Some(&Strategy::Weights(bad))).is_err(), "{bad:?}");
        }
        assert!(weights_of(Some(&Strategy::Weights(weights(f64::NAN, 1.0, 0.0, 0.0)))).is_err());
    }

    #[test]
    fn a_strategy_does_what_it_is_called() {
        let plain = Stats { runs: 10, successes: 9, faults: 1 };
        let merits = |relevance, stats, complexity| Merits { relevance, stats, complexity };
        let base = merits(0.5, plain, Complexity::Medium);
        for (name, better) in [
            ("most_similar", merits(0.6, plain, Complexity::Medium)),
            ("most_reliable", merits(0.5, Stats { faults: 0, ..plain }, Complexity::Medium)),
            ("most_used", merits(0.5, Stats { runs: 1000, ..plain }, Complexity::Medium)),
            ("simplest", merits(0.5, plain, Complexity::Low)),
        ] {
            for preset in [name, "highest_score"] {
                let weights = weights_of(Some(&Strategy::Preset(preset.to_owned()))).unwrap();
                assert!(score(&better, &weights).0 > score(&base, &weights).0, "{name} {preset}");
            }
        }
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
        fn terms_add_up_to_a_score_from_0_to_1(
            relevance in 0f64..=1.0,
            successes in 0u64..10_000,
            faults in 0u64..10_000,
            others in 0u64..10_000_000,
            weights in (0f64..=1.0, 0f64..=1.0, 0f64..=1.0, 0.001f64..=1.0),
        ) {
            let stats = Stats { runs: successes + faults + others, successes, faults };
            let merits = Merits { relevance, stats, complexity: Complexity::Medium };
            let weights = self::weights(weights.0, weights.1, weights.2, weights.3);
            let (score, terms) = score(&merits, &weights);
            let sum: f64 = terms.iter().map(|term| term.contribution).sum();
            let shares: f64 = terms.iter().map(|term| term.weight).sum();
            prop_assert!((sum - score).abs() < 1e-9 && (shares - 1.0).abs() < 1e-9);
            prop_assert!((0.0..=1.0 + 1e-9).contains(&score));
            for term in &terms {
                prop_assert!((0.0..=1.0).contains(&term.value), "{:?}", term);
                prop_assert!((term.value * term.weight - term.contribution).abs() < 1e-9);
            }
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
