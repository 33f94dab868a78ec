//! How often "nothing fits" is said, by labels: for 300 foreign queries a reader has decided whether a
//! capability of the set fits. `foreign-labels.md` has the rule.
//!
//! *Positive* is the answer "nothing fits". Queries that the reader was unsure about are left out.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::figures::percent;
use crate::model::Model;
use crate::set::{Set, Shelf};

const LABELS: &str = include_str!("foreign-labels.jsonl");

#[derive(Deserialize)]
struct Label {
    target: String,
    from: String,
    /// The number of the query in its set, from 0.
    query: usize,
    /// The beginning of the hash of its text.
    sha256: String,
    fits: bool,
    /// Set when only a general capability fits, such as a search of the web.
    #[serde(default)]
    general: bool,
    #[serde(default)]
    unsure: bool,
}

/// The answer to a query.
struct Judged {
    label: Label,
    is_nothing: bool,
}

pub(crate) fn measure(model: &Model, folder: &Path, names: &[&str]) -> Value {
    let sets: BTreeMap<_, _> = Set::read_all(folder, names).into_iter().collect();
    let labels = LABELS.lines().map(|line| serde_json::from_str::<Label>(line).unwrap());
    let mut judged = Vec::new();
    let mut shelves: BTreeMap<&str, Shelf<'_>> = BTreeMap::new();
    for label in labels.filter(|label| !label.unsure) {
        let (Some((name, set)), Some(from)) =
            (sets.get_key_value(label.target.as_str()), sets.get(label.from.as_str()))
        else {
            continue;
        };
        let shelf =
            shelves.entry(name).or_insert_with(|| Shelf::of(&set.tools, &BTreeMap::new(), model));
        let query = &from.queries[label.query].query;
        let hash = Sha256::digest(query.as_bytes());
        let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(hash.starts_with(&label.sha256), "{} {} has changed", label.from, label.query);
        let is_nothing = shelf.fits_nothing(query, model);
        judged.push(Judged { label, is_nothing });
    }
    let strict = |label: &Label| label.fits;
    let lenient = |label: &Label| label.fits && !label.general;
    json!({"\"Nothing fits\" by labels": [
        row("a general capability fits", &judged, strict),
        row("a general capability does not fit", &judged, lenient),
    ]})
}

fn row(reading: &str, judged: &[Judged], fits: fn(&Label) -> bool) -> Value {
    let count = |is_nothing: bool, does_fit: bool| {
        let of = |one: &&Judged| one.is_nothing == is_nothing && fits(&one.label) == does_fit;
        judged.iter().filter(of).count() as f64
    };
    let (right, wrong, missed) = (count(true, false), count(true, true), count(false, false));
    json!({
        "reading": reading,
        "queries": judged.len(),
        "nothing fits": right + missed,
        "precision": percent(right / (right + wrong)),
        "recall": percent(right / (right + missed)),
    })
}
