//! Simulations of search with accepted intents, its benefit and attacks, with a seed. They go through the
//! same arithmetic as the vectors of a capability. `docs/search-evaluation.md` states the method and the
//! figures.

use std::collections::BTreeMap;

use super::outcome_simulation::SeededRandom;
use crate::embed::to_unit;
use crate::learned_intents::{AcceptedIntent, LearnedMean, LearnedWeight, SLOTS};

/// Any; the figures of the documentation are of this one.
const SEED: u64 = 20_261_126;
const DIMENSIONS: usize = 64;
const CAPABILITIES: usize = 200;
/// The number of executors that report.
const EXECUTORS: u8 = 10;
/// The number of queries for each capability.
const QUERIES: usize = 10;
/// The standard deviations of the texts and the intents of a capability from its meaning, in all dimensions
/// together.
const TEXT_NOISE: f64 = 1.0;
const INTENT_NOISE: f64 = 1.6;

/// The source of hostile reports of successful runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attack {
    None,
    /// Some executors report runs of one capability, their own, with intents that are meant for another.
    Lift(u8),
    /// Some executors report runs of each capability with intents that are meant for others.
    Scatter(u8),
}

/// What queries find, as shares.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Findings {
    /// The share of queries that have the right capability among the first five, and at the first place.
    recall: [f64; 2],
    /// The same shares for the queries of the attacked capabilities, and the share that have the hostile one
    /// before the right one; for [`Attack::Lift`].
    victims: [f64; 2],
    overtaken: f64,
}

/// Simulates `accepted` honest intents for each capability, and an attack.
fn search(seed: u64, accepted: usize, attack: Attack) -> Findings {
    let mut random = SeededRandom(seed);
    let meanings: Vec<_> = (0..CAPABILITIES).map(|_| vector(&mut random, &[], 1.0)).collect();
    let texts: Vec<_> = meanings.iter().map(|m| vector(&mut random, m, TEXT_NOISE)).collect();
    let mut intents: BTreeMap<usize, Vec<AcceptedIntent>> = BTreeMap::new();
    for place in (0..CAPABILITIES).flat_map(|place| std::iter::repeat_n(place, accepted)) {
        let reporter = (random.next() % u64::from(EXECUTORS)) as u8;
        let vector = vector(&mut random, &meanings[place], INTENT_NOISE);
        intents.entry(place).or_default().push(AcceptedIntent { reporter, vector });
    }
    let queries: Vec<Vec<_>> = meanings
        .iter()
        .map(|m| (0..QUERIES).map(|_| vector(&mut random, m, INTENT_NOISE)).collect())
        .collect();
    let mut count = [[0.0; 2]; 2];
    let mut overtaken = 0.0;
    // One hostile capability for each victim, one after the other: none meets the work of another.
    let pairs: Vec<_> = match attack {
        Attack::Lift(_) => (0..CAPABILITIES).map(|victim| (victim, hostile_to(victim))).collect(),
        Attack::None | Attack::Scatter(_) => Vec::new(),
    };
    let all = vectors(&texts, &with_attack(&intents, &meanings, attack, None, &mut random));
    for (place, queries) in queries.iter().enumerate() {
        let ranks = queries.iter().map(|query| rank(query, place, &all));
        count[0] = add(count[0], ranks);
    }
    for (victim, own) in &pairs {
        let hostile = with_attack(&intents, &meanings, attack, Some((*victim, *own)), &mut random);
        let all = vectors(&texts, &hostile);
        count[1] = add(count[1], queries[*victim].iter().map(|query| rank(query, *victim, &all)));
        let is_before = |query: &&Vec<f32>| rank(query, *own, &all) < rank(query, *victim, &all);
        overtaken += queries[*victim].iter().filter(is_before).count() as f64;
    }
    let share = |count: f64| count / (CAPABILITIES * QUERIES) as f64;
    Findings {
        recall: count[0].map(share),
        victims: count[1].map(share),
        overtaken: share(overtaken),
    }
}

/// The capability of the attacker: any other one.
fn hostile_to(victim: usize) -> usize {
    (victim + 1) % CAPABILITIES
}

/// Adds hostile intents. With a pair, they are meant for the first of it and reported for the second.
fn with_attack(
    honest: &BTreeMap<usize, Vec<AcceptedIntent>>,
    meanings: &[Vec<f32>],
    attack: Attack,
    pair: Option<(usize, usize)>,
    random: &mut SeededRandom,
) -> BTreeMap<usize, Vec<AcceptedIntent>> {
    let mut intents = honest.clone();
    let (executors, pairs): (u8, Vec<_>) = match (attack, pair) {
        (Attack::Lift(executors), Some(pair)) => (executors, vec![pair]),
        (Attack::Scatter(executors), _) => {
            (executors, (0..CAPABILITIES).map(|victim| (victim, hostile_to(victim))).collect())
        }
        _ => return intents,
    };
    for (meant, reported) in pairs {
        for reporter in EXECUTORS..EXECUTORS + executors {
            let hostile = (0..SLOTS).map(|_| {
                let vector = vector(random, &meanings[meant], INTENT_NOISE);
                AcceptedIntent { reporter, vector }
            });
            intents.entry(reported).or_default().extend(hostile);
        }
    }
    intents
}

/// The vectors of capabilities with their accepted intents.
fn vectors(texts: &[Vec<f32>], intents: &BTreeMap<usize, Vec<AcceptedIntent>>) -> Vec<Vec<f32>> {
    let learned = |place: usize| {
        LearnedMean::from_intents(intents.get(&place).map_or(&[][..], Vec::as_slice))
    };
    let vector = |(place, text): (usize, &Vec<f32>)| {
        learned(place).add_to(Some(text.clone()), LearnedWeight::SENTENCE).unwrap()
    };
    texts.iter().enumerate().map(vector).collect()
}

/// The number of capabilities that are nearer to the query.
fn rank(query: &[f32], place: usize, all: &[Vec<f32>]) -> usize {
    let cosine = |vector: &[f32]| query.iter().zip(vector).map(|(a, b)| a * b).sum::<f32>();
    let own = cosine(&all[place]);
    all.iter().filter(|vector| cosine(vector) > own).count()
}

fn add(counts: [f64; 2], ranks: impl Iterator<Item = usize>) -> [f64; 2] {
    ranks.fold(counts, |[five, one], rank| {
        [five + f64::from(u8::from(rank < 5)), one + f64::from(u8::from(rank < 1))]
    })
}

/// A vector of length one around a meaning.
fn vector(random: &mut SeededRandom, meaning: &[f32], noise: f64) -> Vec<f32> {
    let scale = noise / (DIMENSIONS as f64).sqrt();
    let value = |place: usize| {
        let center = meaning.get(place).copied().unwrap_or_default();
        center + (scale * random.normal()) as f32
    };
    to_unit((0..DIMENSIONS).map(value).collect()).unwrap()
}

#[test]
fn accepted_intents_find_more() {
    let (none, learned) = (search(SEED, 0, Attack::None), search(SEED, 3, Attack::None));
    assert!(learned.recall[0] > none.recall[0] + 0.05, "{none:?} {learned:?}");
}

#[test]
fn one_hostile_executor_in_ten_takes_little() {
    let honest = search(SEED, 5, Attack::None);
    for (executors, bound) in [(1, 0.015), (3, 0.04)] {
        let scattered = search(SEED, 5, Attack::Scatter(executors));
        assert!(honest.recall[0] - scattered.recall[0] < bound, "{honest:?} {scattered:?}");
    }
    let lifted = search(SEED, 5, Attack::Lift(1));
    assert!(honest.recall[0] - lifted.victims[0] < 0.01, "{honest:?} {lifted:?}");
    assert!(lifted.overtaken < 0.02, "{lifted:?}");
}

#[test]
#[ignore = "prints figures: cargo test --release -p registry --lib -- --ignored --nocapture figures_of_learning"]
fn figures_of_learning() {
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    for accepted in [0, 1, 3, 5, 10] {
        for attack in [Attack::None, Attack::Scatter(1), Attack::Scatter(3), Attack::Scatter(10)] {
            let [five, one] = search(SEED, accepted, attack).recall.map(percent);
            println!("{accepted} accepted, {attack:?}: Recall@5 {five}, Recall@1 {one}");
        }
        for attack in [Attack::Lift(1), Attack::Lift(3), Attack::Lift(10)] {
            let found = search(SEED, accepted, attack);
            let ([five, one], overtaken) = (found.victims.map(percent), percent(found.overtaken));
            println!(
                "{accepted} accepted, {attack:?}: of the victim Recall@5 {five}, Recall@1 {one}; overtaken {overtaken}"
            );
        }
    }
}
