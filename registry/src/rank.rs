//! Ranking of the capabilities that fit, with reasons. Pure arithmetic.
//!
//! Six terms are weighed, each from 0 to 1: relevance (see [`crate::rank_fusion`]), success rate, usage,
//! simplicity, how little has to be permitted, and whether the services are up. The weighed terms add
//! up to the rank score, to the last bit.

mod strategy;

use std::cmp::Ordering;

use a2s::Complexity;
use a2s_api::ScoreTerm;

pub(crate) use self::strategy::{RankStrategy, parse_strategies};
use crate::outcome_weighting::RunWeight;

/// The assumption about a capability that never ran: as if it had run this often with this success.
const PRIOR_SUCCESSES: f64 = 4.0;
const PRIOR_FAULTS: f64 = 1.0;
/// The weight of runs from which the usage of a capability counts as the maximum.
const MANY_RUNS: f64 = 10_000.0;

/// A number for each term, and for each term that can have a minimum.
type PerTerm = [f64; TERMS.len()];
type PerAbsoluteTerm = [f64; ABSOLUTE_TERMS.len()];

/// The terms of a rank score, as explanations name them.
const TERMS: [&str; 6] =
    ["relevance", "success_rate", "usage", "simplicity", "permissions", "service_health"];
/// The name of the relevance that a hit has from the one that needs it.
const PREREQUISITE_TERM: &str = "prerequisite";
/// The values that a strategy can have a minimum for: they are absolute, unlike the relevance.
const ABSOLUTE_TERMS: [&str; 7] =
    ["score", "similarity", "success_rate", "usage", "simplicity", "permissions", "service_health"];

/// The features of one hit for the ranking.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RankingFeatures {
    /// The relevance, 0 to 1: relative to the other hits.
    pub(crate) relevance: f64,
    /// The probability that it does what the intent asks for.
    pub(crate) score: f64,
    /// The absolute similarity of meaning, 0 to 1.
    pub(crate) similarity: f64,
    /// The current weights of its runs.
    pub(crate) runs: RunWeight,
    pub(crate) complexity: Complexity,
    /// The number of permissions that it needs.
    pub(crate) permissions: u32,
    /// The health of its services, 0 to 1.
    pub(crate) health: f64,
}

/// A hit that a strategy has chosen.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RankedChoice {
    /// Its index in the input.
    pub(crate) index: usize,
    /// Its rank score under the strategy, and under each later one in the list.
    rank_scores: Vec<f64>,
}

impl RankedChoice {
    /// Returns the rank score under the strategy that chose the hit.
    pub(crate) fn rank_score(&self) -> f64 {
        self.rank_scores.first().copied().unwrap_or_default()
    }

    /// Compares two hits. The better one comes first.
    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        let pairs = self.rank_scores.iter().zip(&other.rank_scores);
        pairs.map(|(a, b)| b.total_cmp(a)).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }
}

impl RankingFeatures {
    fn values(&self) -> PerTerm {
        [
            self.relevance,
            reliability(&self.runs),
            popularity(&self.runs),
            simplicity(self.complexity),
            1.0 / (1.0 + f64::from(self.permissions)),
            self.health,
        ]
    }

    fn absolute_values(&self) -> PerAbsoluteTerm {
        let [_, success_rate, usage, simplicity, permissions, health] = self.values();
        [self.score, self.similarity, success_rate, usage, simplicity, permissions, health]
    }
}

/// The index of the first strategy that admits a hit, and the hits that it admits, in input order. None
/// when no strategy admits one.
pub(crate) fn choose_strategy(
    merits: &[RankingFeatures],
    strategies: &[RankStrategy],
) -> Option<(usize, Vec<RankedChoice>)> {
    (0..strategies.len()).find_map(|place| {
        let rest = strategies.get(place..)?;
        let strategy = rest.first()?;
        let admitted = merits.iter().enumerate().filter(|(_, hit)| strategy.admits(hit));
        let chosen: Vec<_> = admitted
            .map(|(index, hit)| {
                let values = hit.values();
                let rank_scores = rest.iter().map(|strategy| rank_score(&values, strategy));
                RankedChoice { index, rank_scores: rank_scores.collect() }
            })
            .collect();
        (!chosen.is_empty()).then_some((place, chosen))
    })
}

/// Returns the terms that add up to the rank score of a hit, in this order. The relevance of a prerequisite
/// is that of the hit that needs it, and has another name.
pub(crate) fn explain_rank(
    merits: &RankingFeatures,
    strategy: &RankStrategy,
    is_prerequisite: bool,
) -> Vec<ScoreTerm> {
    let relevance = if is_prerequisite { PREREQUISITE_TERM } else { TERMS[0] };
    let names = std::iter::once(relevance).chain(TERMS.into_iter().skip(1));
    let shares = names.zip(strategy.shares());
    let terms = shares.zip(merits.values()).map(|((term, weight), value)| ScoreTerm {
        term: term.to_owned(),
        value,
        weight: *weight,
        contribution: value * weight,
    });
    terms.collect()
}

fn rank_score(values: &PerTerm, strategy: &RankStrategy) -> f64 {
    values.iter().zip(strategy.shares()).map(|(value, share)| value * share).sum()
}

/// The share of successful runs, by weight, among the runs that say something about the capability.
pub(crate) fn success_rate(runs: &RunWeight) -> Option<f64> {
    let counted = runs.good + runs.bad;
    (0.0 < counted).then(|| runs.good / counted)
}

/// A cautious estimate of success: the mean of the Beta distribution of prior and runs, less one standard
/// deviation. Few runs are little evidence, so ten successes of ten rank after a thousand of a thousand,
/// and before none at all.
pub(crate) fn reliability(runs: &RunWeight) -> f64 {
    let successes = PRIOR_SUCCESSES + runs.good;
    let faults = PRIOR_FAULTS + runs.bad;
    let all = successes + faults;
    let mean = successes / all;
    (mean - (mean * (1.0 - mean) / (all + 1.0)).sqrt()).max(0.0)
}

/// Returns the weight of runs on a logarithmic scale, at most 1.
fn popularity(runs: &RunWeight) -> f64 {
    (runs.runs.ln_1p() / MANY_RUNS.ln_1p()).min(1.0)
}

fn simplicity(complexity: Complexity) -> f64 {
    match complexity {
        Complexity::Low => 1.0,
        Complexity::Medium => 0.5,
        Complexity::High => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use a2s_api::{SelectionStrategy as Asked, StrategyWeights};
    use proptest::prelude::*;
    use serde_json::json;

    use super::{RankStrategy, *};

    fn runs(good: f64, bad: f64) -> RunWeight {
        RunWeight { good, bad, runs: good + bad }
    }

    fn plain() -> RankingFeatures {
        RankingFeatures {
            relevance: 0.5,
            score: 0.7,
            similarity: 0.4,
            runs: runs(9.0, 1.0),
            complexity: Complexity::Medium,
            permissions: 1,
            health: 0.5,
        }
    }

    fn strategies(asked: serde_json::Value) -> Vec<RankStrategy> {
        parse_strategies(Some(&serde_json::from_value(asked).unwrap())).unwrap()
    }

    /// The indexes of the choices, best first.
    fn order(merits: &[RankingFeatures], asked: serde_json::Value) -> Option<(usize, Vec<usize>)> {
        let (place, mut chosen) = choose_strategy(merits, &strategies(asked))?;
        chosen.sort_by(RankedChoice::compare);
        Some((place, chosen.iter().map(|chosen| chosen.index).collect()))
    }

    #[test]
    fn a_least_value_is_enough() {
        let least = |simplicity: f64| {
            let asked = json!({"complexity": 1, "minimum": {"simplicity": simplicity}});
            order(&[plain()], asked)
        };
        assert_eq!(least(0.5), Some((0, vec![0])));
        assert_eq!(least(0.51), None);
    }

    #[test]
    fn minimum_scores_do_not_depend_on_the_relevance() {
        for (term, value) in [("score", 0.7), ("similarity", 0.4)] {
            let least = |least: f64| {
                let asked = json!({"vectorSimilarity": 1, "minimum": {term: least}});
                order(&[RankingFeatures { relevance: 1.0, ..plain() }], asked)
            };
            assert_eq!(least(value), Some((0, vec![0])), "{term}");
            assert_eq!(least(value + 0.01), None, "{term}");
        }
    }

    #[test]
    fn few_runs_are_no_certainty() {
        let of = |good, bad| reliability(&runs(good, bad));
        let descending = [
            of(1000.0, 0.0),
            of(100.0, 0.0),
            of(10.0, 0.0),
            of(0.0, 0.0),
            of(0.0, 1.0),
            of(10.0, 10.0),
            of(0.0, 10.0),
        ];
        assert!(descending.is_sorted_by(|a, b| a > b), "{descending:?}");
        assert!(of(1000.0, 0.0) > 0.99 && of(0.0, 1000.0) < 0.01);
    }

    #[test]
    fn the_success_rate_is_unknown_before_a_run_tells_something() {
        let neither = RunWeight { good: 0.0, bad: 0.0, runs: 5.0 };
        assert_eq!(success_rate(&neither), None);
        assert_eq!(success_rate(&runs(3.0, 1.0)), Some(0.75));
    }

    #[test]
    fn a_strategy_does_what_it_is_called() {
        let base = plain();
        for (name, better) in [
            ("most_similar", RankingFeatures { relevance: 0.6, ..base }),
            ("most_reliable", RankingFeatures { runs: runs(10.0, 0.0), ..base }),
            ("most_used", RankingFeatures { runs: runs(900.0, 100.0), ..base }),
            ("simplest", RankingFeatures { complexity: Complexity::Low, ..base }),
            ("least_privilege", RankingFeatures { permissions: 0, ..base }),
            ("healthiest", RankingFeatures { health: 1.0, ..base }),
        ] {
            for preset in [name, "highest_score"] {
                let found = order(&[base, better], serde_json::json!(preset));
                assert_eq!(found, Some((0, vec![1, 0])), "{name} {preset}");
            }
        }
    }

    #[test]
    fn the_next_strategy_decides_between_equals() {
        let near = RankingFeatures { relevance: 0.9, ..plain() };
        let simple = RankingFeatures { complexity: Complexity::Low, ..plain() };
        let only_used = serde_json::json!({"usageCount": 1});
        let all = [plain(), near, simple];
        let list = serde_json::json!([only_used, "most_similar", "simplest"]);
        assert_eq!(order(&all, list), Some((0, vec![1, 2, 0])));
    }

    #[test]
    fn the_next_strategy_takes_over_where_nothing_is_good_enough() {
        let reliable = serde_json::json!({"successRate": 1, "minimum": {"success_rate": 0.9}});
        let good = RankingFeatures { runs: runs(200.0, 1.0), ..plain() };
        let near = RankingFeatures { relevance: 0.9, ..plain() };
        let list = serde_json::json!([reliable, "most_similar"]);
        assert_eq!(order(&[near, good], list.clone()), Some((0, vec![1])));
        assert_eq!(order(&[plain(), near], list), Some((1, vec![1, 0])));
        assert_eq!(order(&[plain(), near], reliable), None);
    }

    proptest! {
        #[test]
        fn terms_add_up_to_a_rank_score_from_0_to_1(
            relevance in 0f64..=1.0,
            good in 0f64..40_000.0,
            bad in 0f64..40_000.0,
            neither in 0f64..40_000.0,
            permissions in 0u32..100,
            health in 0f64..=1.0,
            weights in prop::array::uniform6(0f64..=1.0),
        ) {
            prop_assume!(0.001 < weights.iter().sum::<f64>());
            let runs = RunWeight { good, bad, runs: good + bad + neither };
            let merits = RankingFeatures { relevance, runs, permissions, health, ..plain() };
            let [similarity, success, usage, complexity, few, well] = weights;
            let asked = Asked::Weights(StrategyWeights {
                vector_similarity: similarity,
                success_rate: success,
                usage_count: usage,
                complexity,
                permissions: few,
                service_health: well,
                ..StrategyWeights::default()
            });
            let strategies = parse_strategies(Some(&asked)).unwrap();
            let (_, chosen) = choose_strategy(&[merits], &strategies).unwrap();
            let terms = explain_rank(&merits, &strategies[0], false);
            let sum: f64 = terms.iter().map(|term| term.contribution).sum();
            prop_assert_eq!(sum, chosen[0].rank_score());
            prop_assert!((0.0..=1.0 + 1e-9).contains(&sum));
            let shares: f64 = terms.iter().map(|term| term.weight).sum();
            prop_assert!((shares - 1.0).abs() < 1e-9);
            for (term, asked) in terms.iter().zip(weights) {
                prop_assert!((0.0..=1.0).contains(&term.value), "{:?}", term);
                prop_assert_eq!(term.value * term.weight, term.contribution);
                prop_assert!((term.weight * weights.iter().sum::<f64>() - asked).abs() < 1e-9);
            }
        }
    }
}
