//! What example intents are worth: the product with none, three, five and ten of them.
//!
//! The intents come from `examples.jsonl` of a set. One that shares most of its words with a query
//! for the same capability is left out, so that no query finds itself.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use registry::retrieval::query_vector;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::figures::{interval, judge, percent};
use crate::method::METHODS;
use crate::model::Model;
use crate::set::{Query, Set, Shelf, read_lines};

const NUMBERS: [usize; 4] = [0, 3, 5, 10];
/// Two texts with this share of their terms in common are nearly the same.
const TWINS: f64 = 0.6;

#[derive(Debug, Deserialize)]
pub(crate) struct Example {
    pub(crate) group: String,
    pub(crate) intents: Vec<String>,
}

pub(crate) fn measure(model: &Model, folder: &Path, names: &[&str]) -> Value {
    let [.., product] = METHODS;
    let mut rows = Vec::new();
    for name in names {
        let path = folder.join(name).join("examples.jsonl");
        let Some(set) = Set::read(folder, name).filter(|_| path.is_file()) else { continue };
        let intents = without_twins(read_lines(&path), &set.queries);
        let mut before: Option<Vec<f64>> = None;
        for number in NUMBERS {
            let few: BTreeMap<String, Vec<String>> = intents
                .iter()
                .map(|(group, all)| (group.clone(), all.iter().take(number).cloned().collect()))
                .collect();
            let shelf = Shelf::of(&set.tools, &few, model);
            let recall: Vec<f64> = set
                .queries
                .iter()
                .map(|query| {
                    let order = product.order(&shelf, &shelf.find(&query.query, model));
                    judge(&shelf.groups(order), &query.gold)[0]
                })
                .collect();
            let base = before.get_or_insert_with(|| recall.clone());
            let gains: Vec<f64> = recall.iter().zip(base).map(|(now, then)| now - *then).collect();
            rows.push(json!({
                "set": name,
                "intents at most": number,
                "intents on average": percent(mean(few.values().map(|all| all.len() as f64))) / 100.0,
                "Recall@5 in percent": percent(mean(recall.iter().copied())),
                "gain over none": interval(&gains).map(percent),
            }));
        }
    }
    json!({"Example intents, fused with clauses": rows})
}

/// The intents of examples by their groups, without those that are nearly a query for the same group.
pub(crate) fn without_twins<'q>(
    examples: Vec<Example>,
    queries: impl IntoIterator<Item = &'q Query>,
) -> BTreeMap<String, Vec<String>> {
    let terms = |text: &str| BTreeSet::from_iter(query_vector(text).indices);
    let mut asked: BTreeMap<&str, Vec<BTreeSet<u32>>> = BTreeMap::new();
    for query in queries {
        for group in &query.gold {
            asked.entry(group).or_default().push(terms(&query.query));
        }
    }
    let is_twin = |group: &str, intent: &str| {
        let own = terms(intent);
        asked.get(group).into_iter().flatten().any(|query| {
            let common = own.intersection(query).count() as f64;
            common >= TWINS * own.union(query).count() as f64
        })
    };
    let mut kept: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for Example { group, mut intents } in examples {
        intents.retain(|intent| !is_twin(&group, intent));
        kept.entry(group).or_default().extend(intents);
    }
    kept
}

pub(crate) fn mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let (sum, count) = values.into_iter().fold((0.0, 0.0), |(s, c), value| (s + value, c + 1.0));
    sum / f64::max(count, 1.0)
}
