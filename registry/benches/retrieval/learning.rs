//! What accepted intents are worth, and what hostile ones cost.
//!
//! A fixed half of the queries, by their hash, are accepted for the right capability; the others are the test.
//! An accepted one that shares most of its words with a test query for the same capability is left out. These
//! are new wordings for known capabilities, and so no figures of a search without examples.

use std::collections::BTreeMap;
use std::path::Path;

use a2s::Digest;
use serde_json::{Value, json};

use crate::examples::{Example, mean, without_twins};
use crate::figures::{interval, judge, percent};
use crate::method::METHODS;
use crate::model::Model;
use crate::set::{Accepted, Query, Set, Shelf};

const NUMBERS: [usize; 4] = [0, 200, 600, 1_000];
/// The number of honest reporters.
const REPORTERS: u8 = 10;
/// The numbers of hostile reporters, and of the honest intents that they meet.
const ATTACKS: [(u8, usize); 6] =
    [(1, 0), (1, 200), (1, 1_000), (2, 1_000), (5, 1_000), (10, 1_000)];
/// The number of intents of a hostile reporter for each capability.
const HOSTILE_INTENTS: usize = 16;

pub(crate) fn measure(model: &Model, folder: &Path, names: &[&str]) -> Value {
    let (mut gains, mut attacks) = (Vec::new(), Vec::new());
    for (name, set) in Set::read_all(folder, names) {
        let (accepted, test) = split(&set);
        let recall = |accepted: &Accepted<'_>| {
            let shelf = Shelf::with_accepted(&set.tools, accepted, model);
            recall(&shelf, &test, model)
        };
        let none = recall(&Accepted::new());
        let mut honest = BTreeMap::new();
        for number in NUMBERS {
            let taken: Vec<_> = accepted.iter().take(number).copied().collect();
            if taken.len() < number {
                continue;
            }
            let found = recall(&by_group(&taken));
            gains.push(json!({
                "set": name,
                "accepted intents": number,
                "test queries": test.len(),
                "Recall@5": percent(mean_of(&found, 0)),
                "gain over none": gain(&found, &none, 0),
                "Recall@1": percent(mean_of(&found, 1)),
                "gain of Recall@1": gain(&found, &none, 1),
            }));
            honest.insert(number, (taken, found));
        }
        for (hostile, number) in ATTACKS {
            let Some((taken, before)) = honest.get(&number) else { continue };
            let found = recall(&poison(by_group(taken), &accepted, &set, hostile));
            attacks.push(json!({
                "set": name,
                "hostile reporters": hostile,
                "honest ones": if number == 0 { 0 } else { REPORTERS },
                "accepted intents": number,
                "Recall@5": percent(mean_of(&found, 0)),
                "change by the attack": gain(&found, before, 0),
                "gain over none": gain(&found, &none, 0),
            }));
        }
    }
    json!({"Accepted intents": gains, "Hostile accepted intents": attacks})
}

/// The intents that are accepted, with their capabilities, and the queries of the test.
fn split(set: &Set) -> (Vec<(&str, &str)>, Vec<&Query>) {
    let hash = |query: &Query| *Digest::of_bytes(query.query.as_bytes()).as_bytes();
    let (accepted, test): (Vec<_>, Vec<_>) =
        set.queries.iter().partition(|query| hash(query)[0] % 2 == 0);
    let examples = accepted.iter().filter_map(|query| {
        let group = query.gold.first()?.clone();
        Some(Example { group, intents: vec![query.query.clone()] })
    });
    let kept = without_twins(examples.collect(), test.iter().copied());
    let mut accepted: Vec<_> = accepted
        .into_iter()
        .filter_map(|query| {
            let group = query.gold.first()?;
            let is_kept = kept.get(group)?.contains(&query.query);
            is_kept.then_some((query, group.as_str()))
        })
        .collect();
    accepted.sort_by_key(|(query, _)| hash(query));
    (accepted.into_iter().map(|(query, group)| (group, query.query.as_str())).collect(), test)
}

/// The intents by capability, each with a reporter.
fn by_group<'a>(accepted: &[(&'a str, &'a str)]) -> Accepted<'a> {
    let mut groups = Accepted::new();
    for (group, intent) in accepted {
        let reporter = Digest::of_bytes(intent.as_bytes()).as_bytes()[1] % REPORTERS;
        groups.entry(group).or_default().push((reporter, intent));
    }
    groups
}

/// Adds the reports of hostile reporters: for every capability, intents that are meant for another one.
fn poison<'a>(
    mut groups: Accepted<'a>,
    accepted: &[(&'a str, &'a str)],
    set: &'a Set,
    hostile: u8,
) -> Accepted<'a> {
    let meant = by_group(accepted);
    let names: Vec<&str> = set.tools.iter().map(|tool| tool.group.as_str()).collect();
    let others = names.iter().cycle().skip(1);
    for (name, other) in names.iter().zip(others) {
        let stolen = meant.get(other).into_iter().flatten().take(HOSTILE_INTENTS);
        let stolen: Vec<_> = stolen.map(|(_, intent)| *intent).collect();
        let reporters = REPORTERS..REPORTERS + hostile;
        let reports = reporters.flat_map(|r| stolen.iter().map(move |intent| (r, *intent)));
        groups.entry(name).or_default().extend(reports);
    }
    groups
}

fn recall(shelf: &Shelf<'_>, test: &[&Query], model: &Model) -> Vec<[f64; 5]> {
    let [.., product] = METHODS;
    let judge = |query: &&Query| {
        let order = product.order(shelf, &shelf.find(&query.query, model));
        judge(&shelf.groups(order), &query.gold)
    };
    test.iter().map(judge).collect()
}

fn mean_of(found: &[[f64; 5]], metric: usize) -> f64 {
    mean(found.iter().map(|found| found[metric]))
}

fn gain(now: &[[f64; 5]], then: &[[f64; 5]], metric: usize) -> [f64; 2] {
    let gains: Vec<_> = now.iter().zip(then).map(|(a, b)| a[metric] - b[metric]).collect();
    interval(&gains).map(percent)
}
