//! The line of "near enough": how high the similarity of the best of so many is, when nothing fits.
//!
//! The capabilities of a tuning set, fewer and more of them, are asked with the queries of another.
//! For each number, four in five of the best similarities lie below some value; the line through
//! these values over the logarithm of the number is the line that `fuse.rs` holds.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use crate::misfits::pairs;
use crate::model::Model;
use crate::set::{Query, Set, Shelf};

const NUMBERS: [usize; 10] = [5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000];
/// The share of misfits that shall be turned away.
const SHARE: f64 = 0.8;

pub(crate) fn measure(model: &Model, folder: &Path, names: &[&str]) -> Value {
    let sets = Set::read_all(folder, names);
    let mut rows = Vec::new();
    let mut points = Vec::new();
    for (name, set) in &sets {
        for number in NUMBERS.into_iter().filter(|number| *number <= set.tools.len()) {
            // Every so-many-th, so that no subject is left out.
            let kept = (0..number).map(|index| &set.tools[index * set.tools.len() / number]);
            let shelf = Shelf::of(kept, &BTreeMap::new(), model);
            for (other, foreign) in sets.iter().filter(|(other, _)| other != name) {
                let mut best: Vec<f64> =
                    foreign.queries.iter().map(|query| nearest(&shelf, query, model)).collect();
                best.sort_by(f64::total_cmp);
                let value = best[(best.len() as f64 * SHARE) as usize];
                points.push(((shelf.len() as f64).ln(), value));
                rows.push(json!({
                    "capabilities": name,
                    "of them": number,
                    "foreign queries": other,
                    "80 % lie below": thousandths(value),
                }));
            }
        }
    }
    let (start, rise) = line(&points);
    json!({
        "Height of the best similarity where nothing fits": rows,
        "The line through them": [{"NEAR": thousandths(start), "NEAR_RISE": thousandths(rise), "NEAR as similarity": thousandths(model.scale().cosine(start)), "NEAR_RISE as similarity": thousandths(model.scale().cosine(rise) - model.scale().cosine(0.0))}],
        "\"Nothing fits\" with the line in the code": pairs(model, &sets),
    })
}

fn nearest(shelf: &Shelf<'_>, query: &Query, model: &Model) -> f64 {
    let candidates = shelf.fuse(&shelf.find(&query.query, model));
    let best = candidates.iter().map(|candidate| candidate.similarity).fold(0.0, f64::max);
    model.scale().height(best)
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
