//! The line of "near enough": how high the similarity of the best of so many is, when nothing fits.
//!
//! The capabilities of a tuning set, fewer and more of them, are asked with the queries of another.
//! For each number, five in six of the best similarities lie below some value; the line through
//! these values over the logarithm of the number is the line that `fuse.rs` holds. An intent with
//! clauses compares each capability several times; what that adds by the line is taken off first.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use crate::model::Model;
use crate::off_topic_queries::pairs;
use crate::set::{Query, Set, Shelf};

const NUMBERS: [usize; 10] = [5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000];
/// The share of misfits that shall be turned away.
const SHARE: f64 = 5.0 / 6.0;
/// The rise depends on what is taken off for clauses, and that on the rise: it settles in three.
const ROUNDS: usize = 6;

/// The best similarities that foreign queries find among so many capabilities.
struct Misfits {
    capabilities: String,
    queries: String,
    number: usize,
    /// The height of each, and the logarithm of the number of probes.
    best: Vec<(f64, f64)>,
}

impl Misfits {
    /// What their share lies below when there is one probe.
    fn value(&self, rise: f64) -> f64 {
        let mut heights: Vec<f64> =
            self.best.iter().map(|(height, probes)| height - rise * probes).collect();
        heights.sort_by(f64::total_cmp);
        heights[(heights.len() as f64 * SHARE) as usize]
    }
}

pub(crate) fn measure(model: &Model, folder: &Path, names: &[&str]) -> Value {
    let sets = Set::read_all(folder, names);
    let mut all = Vec::new();
    for (name, set) in &sets {
        for number in NUMBERS.into_iter().filter(|number| *number <= set.tools.len()) {
            // Every so-many-th, so that no subject is left out.
            let kept = (0..number).map(|index| &set.tools[index * set.tools.len() / number]);
            let shelf = Shelf::of(kept, &BTreeMap::new(), model);
            for (other, foreign) in sets.iter().filter(|(other, _)| other != name) {
                all.push(Misfits {
                    capabilities: (*name).to_owned(),
                    queries: (*other).to_owned(),
                    number: shelf.len(),
                    best: foreign.queries.iter().map(|q| nearest(&shelf, q, model)).collect(),
                });
            }
        }
    }
    let (mut start, mut rise) = (0.0, 0.0);
    for _ in 0..ROUNDS {
        let point = |misfits: &Misfits| ((misfits.number as f64).ln(), misfits.value(rise));
        (start, rise) = line(&all.iter().map(point).collect::<Vec<_>>());
    }
    let row = |misfits: &Misfits| {
        json!({
            "capabilities": misfits.capabilities,
            "of them": misfits.number,
            "foreign queries": misfits.queries,
            "five in six lie below": thousandths(misfits.value(rise)),
        })
    };
    let rows: Vec<_> = all.iter().map(row).collect();
    json!({
        "Height of the best similarity where nothing fits": rows,
        "The line through them": [{"NEAR": thousandths(start), "NEAR_RISE": thousandths(rise)}],
        "\"Nothing fits\" with the line in the code": pairs(model, &sets),
    })
}

fn nearest(shelf: &Shelf<'_>, query: &Query, model: &Model) -> (f64, f64) {
    let found = shelf.find(&query.query, model);
    let candidates = shelf.fuse(&found);
    let best = candidates.iter().map(|candidate| candidate.height).fold(0.0, f64::max);
    (best, (found.len() as f64).ln())
}

/// Least squares: where it starts, and how it rises.
fn line(points: &[(f64, f64)]) -> (f64, f64) {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let spread: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    let rise = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum::<f64>() / spread;
    (y - rise * x, rise)
}

fn thousandths(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}
