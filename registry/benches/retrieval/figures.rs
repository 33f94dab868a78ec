//! Recall, NDCG and MRR of each method on each set.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value, json};

use crate::method::METHODS;
use crate::model::Model;
use crate::set::{Set, Shelf};

/// Recall@5 measured elsewhere, in percent: BM25, RRF of BM25 and MiniLM, and what is aimed at.
/// They are of other documents (descriptions of parameters left out) and without clauses.
const REFERENCE: [(&str, f64, f64, f64); 5] = [
    ("toole", 62.0, 72.9, 79.5),
    ("sealtools", 78.4, 72.5, 95.5),
    ("stabletoolbench", 67.4, 66.9, 76.0),
    ("bfcl", 82.3, 89.0, 91.8),
    ("restbench_tmdb", 45.4, 47.0, 60.0),
];
const RESAMPLES: usize = 2_000;
const METRICS: [&str; 5] = ["Recall@5", "Recall@1", "Recall@10", "NDCG@10", "MRR"];

pub(crate) fn measure(model: &Model, folder: &Path, names: &[&str]) -> Value {
    let mut tables: BTreeMap<usize, Vec<Value>> = BTreeMap::new();
    let mut intervals: Vec<Value> = Vec::new();
    for (name, set) in Set::read_all(folder, names) {
        let shelf = Shelf::of(&set.tools, &BTreeMap::new(), model);
        let mut scores = METHODS.map(|_| Vec::with_capacity(set.queries.len()));
        let mut turned_away = 0;
        for query in &set.queries {
            let found = shelf.find(&query.query, model);
            turned_away += usize::from(!shelf.fuse(&found).iter().any(|candidate| candidate.fits));
            for (method, scores) in METHODS.iter().zip(&mut scores) {
                scores.push(judge(&shelf.groups(method.order(&shelf, &found)), &query.gold));
            }
        }
        for (metric, _) in METRICS.iter().enumerate() {
            let mut row = serde_json::Map::from_iter([("set".to_owned(), json!(name))]);
            for (method, scores) in METHODS.iter().zip(&scores) {
                row.insert(method.name.to_owned(), json!(percent(mean(scores, metric))));
            }
            if metric == 0 {
                let known = REFERENCE.iter().find(|(reference, ..)| *reference == name);
                row.insert("(BM25 elsewhere)".to_owned(), json!(known.map(|k| k.1)));
                row.insert("(RRF60 with MiniLM)".to_owned(), json!(known.map(|k| k.2)));
                row.insert("(aim)".to_owned(), json!(known.map(|k| k.3)));
                let away = turned_away as f64 / set.queries.len() as f64;
                row.insert("turned away".to_owned(), json!(percent(away)));
            }
            tables.entry(metric).or_default().push(row.into());
        }
        for (method, scores_of) in METHODS.iter().zip(&scores).skip(1) {
            let mut row = serde_json::Map::from_iter([
                ("set".to_owned(), json!(name)),
                ("method".to_owned(), json!(method.name)),
            ]);
            for (metric, title) in METRICS.iter().enumerate() {
                let gains: Vec<f64> = scores_of
                    .iter()
                    .zip(&scores[0])
                    .map(|(of, base)| of[metric] - base[metric])
                    .collect();
                row.insert((*title).to_owned(), json!(interval(&gains).map(percent)));
            }
            intervals.push(row.into());
        }
    }
    let mut found: serde_json::Map<String, Value> = tables
        .into_iter()
        .map(|(metric, rows)| (format!("{} in percent", METRICS[metric]), rows.into()))
        .collect();
    found.insert("Gain over BM25 in points, 95 % of paired resamples".to_owned(), intervals.into());
    found.into()
}

/// The metrics of one order of groups.
pub(crate) fn judge(order: &[&str], gold: &BTreeSet<String>) -> [f64; METRICS.len()] {
    let hits: Vec<bool> = order.iter().map(|group| gold.contains(*group)).collect();
    let recall = |places| {
        hits.iter().take(places).filter(|hit| **hit).count() as f64 / gold.len().max(1) as f64
    };
    let discount = |place: usize| 1.0 / (place as f64 + 2.0).log2();
    let gain: f64 =
        hits.iter().take(10).enumerate().filter(|(_, h)| **h).map(|(p, _)| discount(p)).sum();
    let ideal: f64 = (0..gold.len().min(10)).map(discount).sum();
    let first = hits.iter().position(|hit| *hit);
    let reciprocal = first.map_or(0.0, |place| 1.0 / (place as f64 + 1.0));
    [recall(5), recall(1), recall(10), gain / ideal.max(f64::MIN_POSITIVE), reciprocal]
}

fn mean(scores: &[[f64; METRICS.len()]], metric: usize) -> f64 {
    scores.iter().map(|score| score[metric]).sum::<f64>() / scores.len().max(1) as f64
}

/// Where 95 of 100 means of resamples lie. Queries are drawn, so each takes its two results along.
pub(crate) fn interval(gains: &[f64]) -> [f64; 2] {
    let mut state = 7u64;
    let mut draw = || {
        // SplitMix64: the same resamples on every run.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    let count = gains.len() as u64;
    let mut means: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let drawn = (0..count).map(|_| usize::try_from(draw() % count).unwrap());
            drawn.map(|place| gains[place]).sum::<f64>() / count as f64
        })
        .collect();
    means.sort_by(f64::total_cmp);
    [means[RESAMPLES / 40], means[RESAMPLES - 1 - RESAMPLES / 40]]
}

/// With one decimal.
pub(crate) fn percent(share: f64) -> f64 {
    (share * 1000.0).round() / 10.0
}
