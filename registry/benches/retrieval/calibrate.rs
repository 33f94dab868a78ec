//! The model of the score: fitted on the tuning sets, and judged on the others.
//!
//! The capabilities of a set, all of them and fewer, are asked with their own queries and with those of other
//! sets. A hit is right when its set says so. The model is a logistic regression on what `FitEvidence` has and
//! on the relevance. The *expected calibration error* is the mean distance between the score and the share of
//! right hits, over ten ranges of scores.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use registry::retrieval::{FEATURES, FusedCandidate, read_evidence};
use serde_json::{Value, json};

use crate::figures::percent;
use crate::model::Model;
use crate::set::{Query, Set, Shelf};

const NUMBERS: [usize; 5] = [5, 20, 50, 200, usize::MAX];
/// The most own queries for one shelf, and the most queries of each other set.
const QUERIES: usize = 150;
const FOREIGN_QUERIES: usize = 20;
/// The number of hits of a query that count.
const HITS: usize = 10;
const ROUNDS: usize = 50;
/// It keeps the weight of a feature that is always the same at 0.
const RIDGE: f64 = 1e-3;
const RANGES: usize = 10;
/// The number of weights: the last one is that of the relevance.
const WEIGHTS: usize = FEATURES.len() + 1;

type Weights = [f64; WEIGHTS];

/// One hit of one query.
struct Sample {
    /// The set of the capabilities, their number, and whether the query is their own.
    group: (String, usize, bool),
    rank: usize,
    features: Weights,
    is_right: bool,
    /// The score by the code.
    score: f64,
    minimum: f64,
}

pub(crate) fn measure(model: &Model, folder: &Path, tuning: &[&str], test: &[&str]) -> Value {
    let samples = |names: &[&str]| match names {
        [] => Vec::new(),
        names => samples(model, &Set::read_all(folder, names)),
    };
    let (tuning, test) = (samples(tuning), samples(test));
    let fitted = fit(&tuning);
    let coefficients = FEATURES
        .iter()
        .chain(&["relevance"])
        .zip(fitted)
        .map(|(name, weight)| json!({"of": name, "weight": round(weight)}));
    let errors = [("tuning", &tuning), ("test", &test)].into_iter().flat_map(|(sets, samples)| {
        [1, 3, 5].map(|most| {
            json!({
                "sets": sets,
                "hits": most,
                "error of the code": round(calibration_error(samples, most)),
            })
        })
    });
    json!({
        "The fitted model": coefficients.collect::<Vec<_>>(),
        "Expected calibration error": errors.collect::<Vec<_>>(),
        "Reliability of the first hit, test sets": reliability(&test),
        "\"Nothing fits\"": [turned_away("tuning", &tuning), turned_away("test", &test)],
    })
}

fn samples(model: &Model, sets: &[(&str, Set)]) -> Vec<Sample> {
    let mut samples = Vec::new();
    for (name, set) in sets {
        for number in NUMBERS {
            let number = number.min(set.tools.len());
            // Every so-many-th, so that no subject is left out.
            let kept: Vec<_> =
                (0..number).map(|index| &set.tools[index * set.tools.len() / number]).collect();
            let groups: BTreeSet<_> = kept.iter().map(|tool| tool.group.as_str()).collect();
            let shelf = Shelf::of(kept.iter().copied(), &BTreeMap::new(), model);
            for (other, asking) in sets {
                let is_here = |query: &&Query| {
                    name == other && query.gold.iter().any(|gold| groups.contains(gold.as_str()))
                };
                let own = asking.queries.iter().filter(is_here).take(QUERIES);
                let step = (asking.queries.len() / FOREIGN_QUERIES).max(1);
                let foreign = asking.queries.iter().step_by(step).filter(|query| !is_here(query));
                for (query, is_own) in
                    own.map(|query| (query, true)).chain(foreign.map(|query| (query, false)))
                {
                    let group = ((*name).to_owned(), number, is_own);
                    let gold = (name == other).then_some(&query.gold);
                    samples.extend(hits_of(&shelf, model, &query.query, gold, &group));
                }
            }
        }
    }
    samples
}

fn hits_of(
    shelf: &Shelf<'_>,
    model: &Model,
    query: &str,
    gold: Option<&BTreeSet<String>>,
    group: &(String, usize, bool),
) -> Vec<Sample> {
    let found = shelf.find(query, model);
    let evidence = read_evidence(&found, shelf.scales());
    let hits = shelf.fuse(&found).into_iter().take(HITS).filter(|hit| hit.height.is_finite());
    let sample = |(rank, hit): (usize, FusedCandidate)| Sample {
        group: group.clone(),
        rank,
        features: {
            let [start, height, nearest, lead, among, compared] = evidence.features(hit.height);
            // Words alone were compared with nothing.
            [start, height, nearest, lead, among, compared.max(0.0), hit.relevance]
        },
        is_right: gold.is_some_and(|gold| gold.contains(shelf.group(hit.capability))),
        score: hit.score(),
        minimum: hit.evidence.minimum(),
    };
    (1..).zip(hits).map(sample).collect()
}

/// The weight of each sample: all groups count alike, and the first hits more than later ones.
fn weights(samples: &[Sample]) -> Vec<f64> {
    let mut sums: BTreeMap<_, f64> = BTreeMap::new();
    for sample in samples.iter().filter(|sample| sample.rank == 1) {
        *sums.entry(&sample.group).or_default() += 1.0;
    }
    let weight = |sample: &Sample| {
        let group = sums.get(&sample.group).copied().unwrap_or(1.0);
        1.0 / (group * (sample.rank as f64).powi(2))
    };
    let weights: Vec<_> = samples.iter().map(weight).collect();
    let mean = weights.iter().sum::<f64>() / weights.len().max(1) as f64;
    weights.into_iter().map(|weight| weight / mean).collect()
}

/// Newton's method for the logistic regression.
fn fit(samples: &[Sample]) -> Weights {
    let mut model = Weights::default();
    let weights = weights(samples);
    for _ in 0..ROUNDS {
        let mut gradient = model.map(|weight| RIDGE * weight);
        let mut curvature = [[0.0; WEIGHTS]; WEIGHTS];
        for (index, row) in curvature.iter_mut().enumerate() {
            row[index] = RIDGE;
        }
        for (sample, weight) in samples.iter().zip(&weights) {
            let sum: f64 = sample.features.iter().zip(model).map(|(x, weight)| x * weight).sum();
            let probability = 1.0 / (1.0 + (-sum).exp());
            let error = probability - f64::from(u8::from(sample.is_right));
            for (row, x) in sample.features.iter().enumerate() {
                gradient[row] += weight * error * x;
                for (column, y) in sample.features.iter().enumerate() {
                    curvature[row][column] += weight * probability * (1.0 - probability) * x * y;
                }
            }
        }
        let step = solve(curvature, gradient);
        for (weight, step) in model.iter_mut().zip(step) {
            *weight -= step;
        }
    }
    model
}

/// Solves a system of equations with a positive definite matrix.
fn solve(mut matrix: [Weights; WEIGHTS], mut right: Weights) -> Weights {
    for pivot in 0..WEIGHTS {
        for row in 0..WEIGHTS {
            if row != pivot {
                let factor = matrix[row][pivot] / matrix[pivot][pivot];
                let subtracted = matrix[pivot];
                for (value, other) in matrix[row].iter_mut().zip(subtracted) {
                    *value -= factor * other;
                }
                right[row] -= factor * right[pivot];
            }
        }
    }
    std::array::from_fn(|row| right[row] / matrix[row][row])
}

/// One range of scores: the sum of the weights, of the weighed scores, and of the weights of right hits.
#[derive(Clone, Copy, Default)]
struct ScoreRange {
    weight: f64,
    score: f64,
    right: f64,
    number: usize,
}

fn ranges(samples: &[Sample], most: usize) -> [ScoreRange; RANGES] {
    let mut ranges = [ScoreRange::default(); RANGES];
    for (sample, weight) in samples.iter().zip(weights(samples)) {
        if sample.rank <= most {
            // All hits that count do so alike.
            let weight = weight * (sample.rank as f64).powi(2);
            let range = &mut ranges[((sample.score * RANGES as f64) as usize).min(RANGES - 1)];
            range.weight += weight;
            range.score += weight * sample.score;
            range.right += weight * f64::from(u8::from(sample.is_right));
            range.number += 1;
        }
    }
    ranges
}

fn calibration_error(samples: &[Sample], most: usize) -> f64 {
    let ranges = ranges(samples, most);
    let all: f64 = ranges.iter().map(|range| range.weight).sum();
    ranges.iter().map(|range| (range.score - range.right).abs()).sum::<f64>() / all
}

fn reliability(samples: &[Sample]) -> Vec<Value> {
    let rows = ranges(samples, 1).into_iter().zip(0u32..).map(|(range, index)| {
        json!({
            "score from": f64::from(index) / RANGES as f64,
            "hits": range.number,
            "mean score": percent(range.score / range.weight),
            "right": percent(range.right / range.weight),
        })
    });
    rows.collect()
}

/// The shares of own and of foreign queries without a hit.
fn turned_away(sets: &str, samples: &[Sample]) -> Value {
    let share = |is_own: bool| {
        let firsts = samples.iter().zip(weights(samples));
        let firsts = firsts.filter(|(sample, _)| sample.rank == 1 && sample.group.2 == is_own);
        let (mut away, mut all) = (0.0, 0.0);
        for (sample, weight) in firsts {
            all += weight;
            away += if sample.score < sample.minimum { weight } else { 0.0 };
        }
        percent(away / all)
    };
    json!({"sets": sets, "own queries": share(true), "foreign queries": share(false)})
}

fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}
