//! Which of the capabilities that fit comes first, and why. Pure arithmetic.
//!
//! *Strategy*: relevance (see [`crate::fuse`]), success rate, usage and simplicity are weighed; every
//! term is from 0 to 1, and the terms add up to the score.

use a2s::Complexity;
use a2s::api::{Strategy, Term, Weights};

use crate::Error;
use crate::store::Stats;

/// What is believed of a capability that never ran: as if it had run so often, so well.
const PRIOR_SUCCESSES: f64 = 4.0;
const PRIOR_FAULTS: f64 = 1.0;
/// So many runs count as the most popular there can be.
const MANY_RUNS: f64 = 1_000_000.0;

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
pub(crate) fn ratio(part: f64, whole: f64) -> f64 {
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

    proptest! {
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
    }
}
