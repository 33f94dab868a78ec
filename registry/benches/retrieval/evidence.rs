//! What speaks for and against that something fits, for own and for foreign queries: one line of JSON for
//! each query, to fit the rule and the score with.
//!
//! Shelves are all of a set, and fewer of it. A query is own when a capability for it is on the shelf.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use registry::retrieval::FitEvidence;
use serde_json::json;

use crate::model::Model;
use crate::set::{Set, Shelf};

const NUMBERS: [usize; 5] = [5, 20, 50, 200, usize::MAX];
/// The most own queries for one shelf, and the most queries of each other set.
const QUERIES: usize = 150;
const FOREIGN_QUERIES: usize = 20;
/// The number of hits of a query to print.
const HITS: usize = 10;

pub(crate) fn print(model: &Model, folder: &Path, names: &[&str]) {
    let sets = Set::read_all(folder, names);
    for (name, set) in &sets {
        for number in NUMBERS {
            let number = number.min(set.tools.len());
            // Every so-many-th, so that no subject is left out.
            let kept: Vec<_> =
                (0..number).map(|index| &set.tools[index * set.tools.len() / number]).collect();
            let groups: BTreeSet<_> = kept.iter().map(|tool| tool.group.as_str()).collect();
            let shelf = Shelf::of(kept.iter().copied(), &BTreeMap::new(), model);
            for (other, asking) in &sets {
                let is_here = |query: &&crate::set::Query| {
                    name == other && query.gold.iter().any(|gold| groups.contains(gold.as_str()))
                };
                let is_own_set = name == other;
                let own = asking.queries.iter().filter(is_here).take(QUERIES);
                let step = (asking.queries.len() / FOREIGN_QUERIES).max(1);
                let foreign = asking.queries.iter().step_by(step).filter(|query| !is_here(query));
                for (query, own) in
                    own.map(|query| (query, true)).chain(foreign.map(|query| (query, false)))
                {
                    let found = shelf.find(&query.query, model);
                    let Some(evidence) = FitEvidence::of(&found, shelf.scales()) else { continue };
                    let FitEvidence { nearest, lead, among, compared } = evidence;
                    let hits = shelf.fuse(&found);
                    let hits: Vec<_> = hits
                        .iter()
                        .take(HITS)
                        .map(|hit| {
                            let group = shelf.group(hit.capability);
                            let right = is_own_set && query.gold.contains(group);
                            (hit.height, hit.relevance, right)
                        })
                        .collect();
                    println!(
                        "{}",
                        json!({"shelf": name, "queries": other, "of_set": is_own_set, "own": own,
                            "nearest": nearest, "lead": lead, "among": among, "compared": compared,
                            "hits": hits, "query": query.query})
                    );
                }
            }
        }
    }
}
