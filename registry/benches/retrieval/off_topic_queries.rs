//! How often "nothing fits" is said, rightly and wrongly.
//!
//! The capabilities of one set are asked with the queries of another, which nothing there was made
//! for, and with their own. Both kinds count alike, whatever their number. *Positive* is the answer
//! "nothing fits". Whoever wrote one set did not look at the others: some foreign queries do have a
//! fitting capability, and count as wrong all the same.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use crate::figures::percent;
use crate::model::Model;
use crate::set::{Query, Set, Shelf};

pub(crate) fn measure(model: &Model, folder: &Path, tuning: &[&str], test: &[&str]) -> Value {
    let mut found = serde_json::Map::new();
    for (title, names) in [("tuning", tuning), ("test", test)] {
        if names.len() > 1 {
            let sets = Set::read_all(folder, names);
            found.insert(
                format!("\"Nothing fits\" on the {title} sets"),
                pairs(model, &sets).into(),
            );
        }
    }
    found.into()
}

/// A row for each pair of sets, and one for the mean.
pub(crate) fn pairs(model: &Model, sets: &[(&str, Set)]) -> Vec<Value> {
    let mut rows = Vec::new();
    let mut sums = [0.0; 2];
    for (name, set) in sets {
        let shelf = Shelf::of(&set.tools, &BTreeMap::new(), model);
        let own = share_of_nothing(&shelf, &set.queries, model);
        for (other, foreign) in sets {
            if name == other || is_same_shelf(set, foreign) {
                continue;
            }
            let theirs = share_of_nothing(&shelf, &foreign.queries, model);
            sums = [sums[0] + theirs, sums[1] + own];
            rows.push(row(name, other, theirs, own));
        }
    }
    let count = rows.len().max(1) as f64;
    rows.push(row("mean", "", sums[0] / count, sums[1] / count));
    rows
}

/// Two sets of queries for the same capabilities are not foreign to each other.
fn is_same_shelf(a: &Set, b: &Set) -> bool {
    a.tools.iter().map(|tool| &tool.group).eq(b.tools.iter().map(|tool| &tool.group))
}

fn share_of_nothing(shelf: &Shelf<'_>, queries: &[Query], model: &Model) -> f64 {
    let nothing = queries.iter().filter(|query| shelf.fits_nothing(&query.query, model));
    nothing.count() as f64 / queries.len().max(1) as f64
}

/// `theirs` and `own` are the shares of foreign and of own queries that nothing fits.
fn row(capabilities: &str, queries: &str, theirs: f64, own: f64) -> Value {
    let ratio = |part: f64, rest: f64| percent(part / (part + rest).max(f64::MIN_POSITIVE));
    json!({
        "capabilities": capabilities,
        "foreign queries": queries,
        "\"nothing fits\": precision": ratio(theirs, own),
        "recall": percent(theirs),
        "hits: precision": ratio(1.0 - own, 1.0 - theirs),
        "hits: recall": percent(1.0 - own),
    })
}
