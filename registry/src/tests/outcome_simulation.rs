//! Simulations of ranking by outcomes, its benefit, cost and attacks, with a seed. They go through the
//! same tally and the same ranking as a search does. `docs/search-evaluation.md` states the method and
//! the figures.

use std::collections::BTreeMap;

use a2s::Complexity;

use crate::outcome_weighting::{ReporterWeights, RunEnd, RunWeight, SESSION_SLOTS, sum_reporters};
use crate::rank::{RankStrategy, RankedChoice, RankingFeatures, choose_strategy, parse_strategies};

/// Any; the figures of the documentation are of this one.
const SEED: u64 = 20_261_122;
const DAY: i64 = 86_400_000;
/// The number of capabilities that fit an intent.
const ALTERNATIVES: usize = 10;
/// The number of executors that report.
const EXECUTORS: u64 = 100;
/// The number of sessions of each executor.
const SESSIONS_PER_EXECUTOR: u64 = 20;
/// The share of the runs that fail because of the caller's input.
const CALLER_FAULT_RATE: f64 = 0.05;
/// The differences in relevance between the alternatives: the standard deviation of their distance from 1.
const SPREAD: f64 = 0.05;

/// A mean with its 95 % confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Estimate {
    /// The mean.
    mean: f64,
    /// Half of the width of its 95 % confidence interval.
    margin: f64,
}

/// The quality of service for intents, 0 to 1: the share of runs that succeed.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Comparison {
    /// If the most similar capability runs each time.
    most_similar: Estimate,
    /// If the one with the highest score runs each time.
    highest_score: Estimate,
    /// The gain of the second over the first, intent by intent.
    gain: Estimate,
    /// The best possible result: the most reliable one, known from the beginning.
    best: Estimate,
}

/// The source of hostile reports, which are against the winner and for others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attack {
    /// One executor; 1 % of all reports.
    OneExecutor,
    /// One session of an honest executor; 1 % of all reports.
    OneSession,
    /// As many made-up executors as there are hostile reports; 1 % of the reports of each capability.
    ManyNames,
    /// The same, but all reports are about the winner and the one after it: 5 % of the reports of each.
    /// This needs the owner's token.
    ManyNamesOnTwo,
    /// One executor that sends as many reports as all others together.
    Flood,
}

impl Attack {
    /// All attacks.
    const ALL: [Self; 5] =
        [Self::OneExecutor, Self::OneSession, Self::ManyNames, Self::ManyNamesOnTwo, Self::Flood];
}

/// The effect of hostile reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct AttackResult {
    /// The number of simulated intents.
    intents: usize,
    /// Intents with another winner.
    changed: usize,
    /// Intents that would have another winner if every report counted alike.
    changed_if_all_count: usize,
}

/// The effect of ranking by outcomes on recall when outcomes bring no gain.
#[derive(Debug, Clone, Copy, PartialEq)]
struct RecallCost {
    /// Recall at 5 by similarity alone.
    before: Estimate,
    /// The loss of recall, query by query.
    loss: Estimate,
}

/// Serves `intents` intents `runs` times each, over four weeks, and learns from the outcomes. Each run uses
/// the capability that comes first at that time; others are not tried for exploration.
fn compare(seed: u64, intents: usize, runs: usize) -> Comparison {
    let mut random = SeededRandom(seed);
    let mut series: [Vec<f64>; 4] = Default::default();
    for _ in 0..intents {
        let alternatives: Vec<_> =
            (0..ALTERNATIVES).map(|_| SimulatedCapability::new(&mut random)).collect();
        let best = alternatives.iter().map(|one| one.reliability).fold(0.0, f64::max);
        let nearest = alternatives.iter().max_by(|a, b| a.relevance.total_cmp(&b.relevance));
        let similar = nearest.map_or(0.0, |one| one.reliability);
        let score = serve(alternatives, runs, &mut random);
        for (series, value) in series.iter_mut().zip([similar, score, score - similar, best]) {
            series.push(value);
        }
    }
    let [similar, score, gain, best] = series;
    Comparison {
        most_similar: Estimate::from_values(&similar),
        highest_score: Estimate::from_values(&score),
        gain: Estimate::from_values(&gain),
        best: Estimate::from_values(&best),
    }
}

/// Expected success of the chosen capabilities for one intent, over all its runs.
fn serve(
    mut alternatives: Vec<SimulatedCapability>,
    runs: usize,
    random: &mut SeededRandom,
) -> f64 {
    let strategies = strategies("highest_score");
    let mut expected = 0.0;
    for run in 0..runs {
        let now = 28 * DAY * run as i64 / runs.max(1) as i64;
        let first = winner(&alternatives, &strategies, now);
        let Some(chosen) = alternatives.get_mut(first) else { continue };
        expected += chosen.reliability;
        let end = chosen.run(random);
        chosen.ledger.report(SimulatedReporter::honest(random), end, now);
        chosen.ledger.settle();
    }
    expected / runs.max(1) as f64
}

/// Simulates reports of honest executors on `intents` intents, then hostile ones.
///
/// There are `runs` for each alternative over two weeks. The alternatives differ only in their reliability:
/// one succeeds 95 times of 100, the others are worse by at least `gap`.
fn attack(seed: u64, intents: usize, runs: usize, gap: f64, attack: Attack) -> AttackResult {
    let mut random = SeededRandom(seed);
    let strategies = strategies("highest_score");
    let (mut changed, mut changed_if_all_count) = (0, 0);
    for _ in 0..intents {
        let mut alternatives: Vec<_> = (0..ALTERNATIVES)
            .map(|place| SimulatedCapability {
                relevance: 1.0,
                reliability: 0.95 - if place == 0 { 0.0 } else { gap + 0.25 * random.share() },
                ledger: ReportLedger::default(),
            })
            .collect();
        for alternative in &mut alternatives {
            for run in 0..runs {
                let end = alternative.run(&mut random);
                let now = 14 * DAY * run as i64 / runs.max(1) as i64;
                alternative.ledger.report(SimulatedReporter::honest(&mut random), end, now);
            }
            alternative.ledger.settle();
        }
        let now = 14 * DAY;
        let first = winner(&alternatives, &strategies, now);
        let first_of_all = plain_winner(&alternatives);
        let second = second_to(first, &alternatives, &strategies, now);
        let honest = runs * ALTERNATIVES;
        let hostile = if attack == Attack::Flood { honest } else { honest.div_ceil(100) };
        for report in 0..hostile {
            let voice = SimulatedReporter::hostile(attack, report, &mut random);
            let (victim, end) = match attack {
                Attack::ManyNames if report % ALTERNATIVES == first => (first, RunEnd::Fault),
                Attack::ManyNames => (report % ALTERNATIVES, RunEnd::Success),
                _ if report % 2 == 0 => (first, RunEnd::Fault),
                _ => (second, RunEnd::Success),
            };
            if let Some(victim) = alternatives.get_mut(victim) {
                victim.ledger.report(voice, end, now);
            }
        }
        for alternative in &mut alternatives {
            alternative.ledger.settle();
        }
        changed += usize::from(winner(&alternatives, &strategies, now) != first);
        changed_if_all_count += usize::from(plain_winner(&alternatives) != first_of_all);
    }
    AttackResult { intents, changed, changed_if_all_count }
}

/// Simulates recall at 5 of `queries` queries with 20 candidates each, one of them right, by similarity and
/// by score. All candidates are equally reliable and have up to a thousand runs.
fn cost(seed: u64, queries: usize) -> RecallCost {
    const CANDIDATES: usize = 20;
    let mut random = SeededRandom(seed);
    let (mut before, mut loss) = (Vec::new(), Vec::new());
    let (similar, score) = (strategies("most_similar"), strategies("highest_score"));
    for _ in 0..queries {
        // The right one is in front most of the time; the others follow one another at distances
        // like those of real answers.
        let right = 1.0 - 0.15 * random.normal().abs();
        let mut candidates: Vec<_> = (0..CANDIDATES)
            .map(|place| SimulatedCapability {
                relevance: if place == 0 { right } else { 1.0 - 0.6 * random.share().sqrt() },
                reliability: 0.9,
                ledger: ReportLedger::default(),
            })
            .collect();
        for candidate in &mut candidates {
            let runs = (1000_f64.powf(random.share()) - 1.0) as usize;
            for _ in 0..runs {
                let end = candidate.run(&mut random);
                candidate.ledger.report(SimulatedReporter::honest(&mut random), end, 0);
            }
            candidate.ledger.settle();
        }
        let found = |strategies: &[RankStrategy]| {
            let order = order(&candidates, strategies, 0);
            if order.iter().take(5).any(|place| *place == 0) { 1.0 } else { 0.0 }
        };
        before.push(found(&similar));
        loss.push(found(&similar) - found(&score));
    }
    RecallCost { before: Estimate::from_values(&before), loss: Estimate::from_values(&loss) }
}

/// A simulated capability that fits an intent.
#[derive(Debug)]
struct SimulatedCapability {
    relevance: f64,
    /// The probability that a run succeeds.
    reliability: f64,
    ledger: ReportLedger,
}

impl SimulatedCapability {
    fn new(random: &mut SeededRandom) -> Self {
        let relevance = (1.0 - SPREAD * random.normal().abs()).max(0.0);
        // Most are good, some are bad: 0.5 to 1, 0.83 on the average.
        let reliability = 1.0 - 0.5 * random.share().powi(2);
        Self { relevance, reliability, ledger: ReportLedger::default() }
    }

    fn run(&self, random: &mut SeededRandom) -> RunEnd {
        if random.share() < CALLER_FAULT_RATE {
            RunEnd::Neutral
        } else if random.share() < self.reliability {
            RunEnd::Success
        } else {
            RunEnd::Fault
        }
    }

    fn merits(&self, now: i64) -> RankingFeatures {
        RankingFeatures {
            relevance: self.relevance,
            score: self.relevance,
            similarity: self.relevance,
            runs: self.ledger.sum.decayed(self.ledger.at, now),
            complexity: Complexity::Low,
            permissions: 0,
            health: 1.0,
        }
    }
}

/// The data of a registry about one version.
#[derive(Debug, Default)]
struct ReportLedger {
    reporters: BTreeMap<u8, ReporterWeights>,
    sum: RunWeight,
    at: i64,
    /// Successes and faults, each counted as one.
    counts: (f64, f64),
}

impl ReportLedger {
    fn report(&mut self, voice: SimulatedReporter, end: RunEnd, now: i64) {
        self.reporters.entry(voice.reporter).or_default().count(voice.session, end, now, now);
        self.at = now;
        match end {
            RunEnd::Success => self.counts.0 += 1.0,
            RunEnd::Fault => self.counts.1 += 1.0,
            RunEnd::Neutral => {}
        }
    }

    /// Sums up the reports.
    fn settle(&mut self) {
        let weights = self.reporters.values_mut().map(|reporter| {
            reporter.decay_to(self.at);
            reporter.weight()
        });
        self.sum = sum_reporters(&weights.collect::<Vec<_>>());
    }
}

/// The reporter of a report, after hashing.
#[derive(Debug, Clone, Copy)]
struct SimulatedReporter {
    reporter: u8,
    session: usize,
}

impl SimulatedReporter {
    fn new(reporter: u64, session: u64) -> Self {
        let places = SESSION_SLOTS as u64;
        // Any names, hashed: as the registry does it, with another hash.
        let reporter = SeededRandom(reporter).next();
        let session = SeededRandom(reporter ^ session).next() % places;
        Self { reporter: (reporter % 256) as u8, session: session as usize }
    }

    fn honest(random: &mut SeededRandom) -> Self {
        Self::new(random.next() % EXECUTORS, random.next() % SESSIONS_PER_EXECUTOR)
    }

    fn hostile(attack: Attack, report: usize, random: &mut SeededRandom) -> Self {
        match attack {
            // With as many sessions as it likes.
            Attack::OneExecutor | Attack::Flood => Self::new(EXECUTORS, random.next()),
            Attack::OneSession => Self::new(0, SESSIONS_PER_EXECUTOR),
            Attack::ManyNames | Attack::ManyNamesOnTwo => {
                Self::new(EXECUTORS + 1 + report as u64, 0)
            }
        }
    }
}

fn strategies(preset: &str) -> Vec<RankStrategy> {
    let asked = a2s_api::SelectionStrategy::Preset(preset.to_owned());
    // The names are those of presets.
    parse_strategies(Some(&asked)).unwrap_or_default()
}

/// Returns the positions of the alternatives, the best first.
fn order(
    alternatives: &[SimulatedCapability],
    strategies: &[RankStrategy],
    now: i64,
) -> Vec<usize> {
    let merits: Vec<_> = alternatives.iter().map(|one| one.merits(now)).collect();
    let mut chosen =
        choose_strategy(&merits, strategies).map(|(_, chosen)| chosen).unwrap_or_default();
    chosen.sort_by(RankedChoice::compare);
    chosen.iter().map(|chosen| chosen.index).collect()
}

fn winner(alternatives: &[SimulatedCapability], strategies: &[RankStrategy], now: i64) -> usize {
    order(alternatives, strategies, now).first().copied().unwrap_or_default()
}

fn second_to(
    first: usize,
    alternatives: &[SimulatedCapability],
    strategies: &[RankStrategy],
    now: i64,
) -> usize {
    let order = order(alternatives, strategies, now);
    order.into_iter().find(|place| *place != first).unwrap_or_default()
}

/// Returns the position of the winner if every report counted equally.
fn plain_winner(alternatives: &[SimulatedCapability]) -> usize {
    let rate = |one: &SimulatedCapability| {
        let (good, bad) = one.ledger.counts;
        good / (good + bad).max(1.0)
    };
    let rates = alternatives.iter().map(rate).enumerate();
    rates.max_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(place, _)| place)
}

impl Estimate {
    fn from_values(values: &[f64]) -> Self {
        let count = values.len().max(2) as f64;
        let mean = values.iter().sum::<f64>() / count;
        let variance =
            values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
        Self { mean, margin: 1.96 * (variance / count).sqrt() }
    }
}

/// The random generator `SplitMix64`: the same numbers on every machine.
#[derive(Debug)]
pub(super) struct SeededRandom(pub(super) u64);

impl SeededRandom {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// Returns a number from 0 to 1, without 1.
    fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a number of the standard normal distribution, approximated by the sum of twelve.
    pub(super) fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.share()).sum::<f64>() - 6.0
    }
}

#[test]
fn outcomes_find_what_works() {
    let found = compare(SEED, 40, 200);
    assert!(found.gain.margin < found.gain.mean, "{found:?}");
    assert!(found.highest_score.mean < found.best.mean, "{found:?}");
}

#[test]
fn one_hostile_report_in_a_hundred_changes_no_winner() {
    for kind in [Attack::OneExecutor, Attack::OneSession, Attack::ManyNames] {
        let found = attack(SEED, 20, 500, 0.1, kind);
        assert_eq!(found.changed, 0, "{kind:?} {found:?}");
    }
}

#[test]
fn flooding_executor_changes_no_winner() {
    let found = attack(SEED, 10, 300, 0.1, Attack::Flood);
    assert_eq!((found.changed, found.changed_if_all_count), (0, 10));
}

#[test]
fn where_all_are_equally_reliable_recall_is_as_before() {
    let found = cost(SEED, 200);
    assert!(found.loss.mean <= found.loss.margin.max(0.01), "{found:?}");
}

#[test]
#[ignore = "prints figures: cargo test --release -p registry --lib -- --ignored --nocapture figures_of_outcomes"]
fn figures_of_outcomes() {
    println!("success of what is run, 95 % confidence");
    for runs in [10, 30, 100, 300, 1_000] {
        let found = compare(SEED, 500, runs);
        println!(
            "{runs:>5} runs for each intent: most similar {}, highest score {}, gain {}, best possible {}",
            percent(found.most_similar),
            percent(found.highest_score),
            percent(found.gain),
            percent(found.best),
        );
    }
    println!("\nintents with another winner after hostile reports");
    for kind in Attack::ALL {
        for (runs, gap) in [(100, 0.1), (500, 0.05), (500, 0.1), (2_000, 0.05)] {
            let found = attack(SEED, 100, runs, gap, kind);
            println!(
                "{kind:?}, {runs} honest runs for each capability, best ahead by {gap}: {} of {} (if all reports counted alike: {})",
                found.changed, found.intents, found.changed_if_all_count
            );
        }
    }
    let found = cost(SEED, 2_000);
    println!(
        "\nall equally reliable: Recall@5 {} by similarity, {} lost by score",
        percent(found.before),
        percent(found.loss)
    );
}

fn percent(Estimate { mean, margin }: Estimate) -> String {
    format!("{:.1} ± {:.1} %", mean * 100.0, margin * 100.0)
}
