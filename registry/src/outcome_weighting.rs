//! The weights of a version's runs. Pure arithmetic; times are milliseconds since 1970.
//!
//! Three rules. *Time*: a run has half its weight after [`HALF_LIFE_DAYS`]. All weights fall by the same
//! factor, so sums are stored with the time of their calculation and updated by one multiplication.
//! *Sessions*: the runs of one session weigh at most [`SESSION_LIMIT`], and those of one executor at most
//! [`SESSION_SLOTS`] times that; a new run then displaces older ones of the same session, so that recent runs
//! count. *Reporters*: no executor weighs more than [`MAX_AVERAGES`] average ones.
//!
//! A keyed hash with few values separates executors and sessions. So the stored data is bounded, however
//! many names a reporter invents, and a reporter cannot choose the slot of another one.

use serde::{Deserialize, Serialize};

/// The days after which a run has half its weight: two weeks, so that a repaired service has a good rate
/// again within a month, and a rarely used one keeps some of its history.
pub(crate) const HALF_LIFE_DAYS: f64 = 14.0;
/// The largest weight of the runs of one session.
pub(crate) const SESSION_LIMIT: f64 = 8.0;
/// The number of session slots of an executor.
pub(crate) const SESSION_SLOTS: usize = 16;
/// The maximum weight of an executor, as a multiple of the average weight.
const MAX_AVERAGES: f64 = 2.0;

const DAY: f64 = 86_400_000.0;

/// Weights of runs: the successful ones, those that count against the capability, and all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "(f64, f64, f64)", into = "(f64, f64, f64)")]
pub(crate) struct RunWeight {
    pub(crate) good: f64,
    pub(crate) bad: f64,
    pub(crate) runs: f64,
}

/// The outcome of a run for the weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunEnd {
    Success,
    /// The run counts against the capability.
    Fault,
    /// It says nothing about the capability.
    Neutral,
}

/// The weights of the runs that one executor has reported for one version.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ReporterWeights {
    /// By session slot; missing slots at the end have no runs.
    pub(crate) sessions: Vec<RunWeight>,
    /// The time of the last update.
    pub(crate) at: i64,
}

impl RunWeight {
    /// Returns the weight of a run that ended just now.
    pub(crate) fn from_end(end: RunEnd) -> Self {
        let one = |is| if is { 1.0 } else { 0.0 };
        Self { good: one(end == RunEnd::Success), bad: one(end == RunEnd::Fault), runs: 1.0 }
    }

    /// Returns the weight at the time `now`. A time before `since` changes nothing, because clocks can go
    /// back.
    pub(crate) fn decayed(self, since: i64, now: i64) -> Self {
        let days = now.saturating_sub(since).max(0) as f64 / DAY;
        let factor = (-days / HALF_LIFE_DAYS).exp2();
        self.scale(factor, factor)
    }

    /// Weight of the runs that say something about the capability.
    fn evidence(self) -> f64 {
        self.good + self.bad
    }

    /// Returns the weight with at most this evidence and at most this weight of runs.
    fn limit(self, evidence: f64, runs: f64) -> Self {
        self.scale(limit_factor(evidence, self.evidence()), limit_factor(runs, self.runs))
    }

    fn scale(self, evidence: f64, runs: f64) -> Self {
        Self { good: self.good * evidence, bad: self.bad * evidence, runs: self.runs * runs }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            good: self.good + other.good,
            bad: self.bad + other.bad,
            runs: self.runs + other.runs,
        }
    }
}

impl ReporterWeights {
    /// Counts a run that ended at `ended` and is reported at `now`.
    pub(crate) fn count(&mut self, session: usize, end: RunEnd, ended: i64, now: i64) {
        self.decay_to(now);
        let place = session % SESSION_SLOTS;
        if self.sessions.len() <= place {
            self.sessions.resize(place + 1, RunWeight::default());
        }
        if let Some(weight) = self.sessions.get_mut(place) {
            let run = RunWeight::from_end(end).decayed(ended, now);
            let room = SESSION_LIMIT - run.evidence();
            *weight = weight.limit(room, SESSION_LIMIT - run.runs).plus(run);
        }
    }

    pub(crate) fn decay_to(&mut self, now: i64) {
        for weight in &mut self.sessions {
            *weight = weight.decayed(self.at, now);
        }
        self.at = self.at.max(now);
    }

    pub(crate) fn weight(&self) -> RunWeight {
        self.sessions
            .iter()
            .take(SESSION_SLOTS)
            .fold(RunWeight::default(), |sum, one| sum.plus(*one))
    }
}

/// Sums the weights of all executors, each with at most [`MAX_AVERAGES`] times the average weight. All
/// weights must be of the same time. The limits are relative, so the sum falls with time as its parts do.
pub(crate) fn sum_reporters(reporters: &[RunWeight]) -> RunWeight {
    let evidence = fair_limit(reporters.iter().map(|weight| weight.evidence()));
    let runs = fair_limit(reporters.iter().map(|weight| weight.runs));
    reporters.iter().fold(RunWeight::default(), |sum, one| sum.plus(one.limit(evidence, runs)))
}

/// Returns the limit that is [`MAX_AVERAGES`] times the average of the amounts under that same limit. With
/// at most [`MAX_AVERAGES`] amounts, no amount needs a limit.
fn fair_limit(amounts: impl Iterator<Item = f64>) -> f64 {
    // Those with nothing to say are no crowd.
    let mut amounts: Vec<_> = amounts.filter(|amount| 0.0 < *amount).collect();
    amounts.sort_by(|a, b| b.total_cmp(a));
    let count = amounts.len() as f64;
    let mut rest: f64 = amounts.iter().sum();
    let mut limited = 0.0;
    for amount in amounts {
        let room = count - MAX_AVERAGES * limited;
        if room <= 0.0 {
            break;
        }
        let limit = MAX_AVERAGES * rest / room;
        if amount <= limit {
            return limit;
        }
        rest -= amount;
        limited += 1.0;
    }
    f64::INFINITY
}

/// Returns the factor that reduces `amount` to `limit`; 1 when the amount is not larger.
fn limit_factor(limit: f64, amount: f64) -> f64 {
    if amount <= limit { 1.0 } else { limit / amount }
}

impl From<(f64, f64, f64)> for RunWeight {
    fn from((good, bad, runs): (f64, f64, f64)) -> Self {
        Self { good, bad, runs }
    }
}

impl From<RunWeight> for (f64, f64, f64) {
    fn from(RunWeight { good, bad, runs }: RunWeight) -> Self {
        (good, bad, runs)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HALF_LIFE: i64 = 14 * 86_400_000;

    fn weight(good: f64, bad: f64) -> RunWeight {
        RunWeight { good, bad, runs: good + bad }
    }

    fn reporter(ends: impl IntoIterator<Item = (usize, RunEnd)>) -> RunWeight {
        let mut reporter = ReporterWeights::default();
        for (session, end) in ends {
            reporter.count(session, end, 0, 0);
        }
        reporter.weight()
    }

    #[test]
    fn run_weight_halves_after_a_half_life() {
        let mut reporter = ReporterWeights::default();
        reporter.count(0, RunEnd::Success, 0, 0);
        reporter.decay_to(HALF_LIFE);
        assert_eq!(reporter.weight(), RunWeight { good: 0.5, bad: 0.0, runs: 0.5 });
        reporter.count(0, RunEnd::Fault, 0, HALF_LIFE);
        assert_eq!(reporter.weight(), RunWeight { good: 0.5, bad: 0.5, runs: 1.0 });
        // A clock that goes back makes nothing heavier.
        reporter.decay_to(0);
        assert_eq!(reporter.weight(), RunWeight { good: 0.5, bad: 0.5, runs: 1.0 });
    }

    #[test]
    fn what_the_caller_got_wrong_is_a_run_and_tells_nothing() {
        assert_eq!(reporter([(0, RunEnd::Neutral)]), RunWeight { good: 0.0, bad: 0.0, runs: 1.0 });
    }

    #[test]
    fn a_session_and_an_executor_weigh_only_so_much() {
        let close = |weight: RunWeight, good: f64, bad: f64| {
            assert!(
                (weight.good - good).abs() < 1e-9 && (weight.bad - bad).abs() < 1e-9,
                "{weight:?}"
            );
        };
        close(reporter((0..1_000).map(|_| (3, RunEnd::Fault))), 0.0, SESSION_LIMIT);
        let most = SESSION_LIMIT * SESSION_SLOTS as f64;
        close(reporter((0..10_000).map(|run| (run, RunEnd::Success))), most, 0.0);
        // A session that floods moves the others by no more than its own weight.
        let honest = (0..10_000).map(|run| (run, RunEnd::Success));
        let flood = (0..10_000).map(|_| (3, RunEnd::Fault));
        close(reporter(honest.chain(flood)), most - SESSION_LIMIT, SESSION_LIMIT);
    }

    #[test]
    fn who_runs_much_is_heard_about_what_is() {
        let was = (0..1_000).map(|_| (0, RunEnd::Success));
        let is = (0..16).map(|_| (0, RunEnd::Fault));
        let weight = reporter(was.chain(is));
        assert!(weight.bad > 0.8 * SESSION_LIMIT, "{weight:?}");
    }

    #[test]
    fn no_executor_weighs_more_than_two_average_ones() {
        let mut crowd = vec![weight(1.0, 0.0); 99];
        crowd.push(weight(0.0, 128.0));
        let sum = sum_reporters(&crowd);
        assert!((sum.bad / (sum.good + sum.bad) - 0.02).abs() < 1e-9, "{sum:?}");
        // A few reporters are too few to compare with.
        let few = [weight(100.0, 0.0), weight(0.0, 1.0)];
        assert_eq!(sum_reporters(&few), weight(100.0, 1.0));
        // A reporter without an opinion of the capability is not counted.
        let mut silent = few.to_vec();
        silent.extend([RunWeight { good: 0.0, bad: 0.0, runs: 1.0 }; 50]);
        assert_eq!(sum_reporters(&silent).good, 100.0);
        assert_eq!(sum_reporters(&[]), RunWeight::default());
    }

    fn any_weight() -> impl Strategy<Value = RunWeight> {
        (0f64..130.0, 0f64..130.0, 0f64..100.0).prop_map(|(good, bad, neither)| RunWeight {
            good,
            bad,
            runs: good + bad + neither,
        })
    }

    proptest! {
        #[test]
        fn no_part_of_a_sum_is_more_than_its_share(
            reporters in prop::collection::vec(any_weight(), 1..60),
        ) {
            let all = sum_reporters(&reporters);
            let without = |index: usize| {
                let limit = fair_limit(reporters.iter().map(|weight| weight.evidence()));
                let rest = reporters.iter().enumerate().filter(|(other, _)| *other != index);
                rest.map(|(_, weight)| weight.limit(limit, f64::INFINITY).evidence()).sum::<f64>()
            };
            let share = MAX_AVERAGES / reporters.len() as f64;
            for index in 0..reporters.len() {
                let part = all.evidence() - without(index);
                prop_assert!(part <= share * all.evidence() + 1e-9 || 1.0 <= share);
            }
        }

        /// A stored sum is of one moment; at a later time it must equal a new sum.
        #[test]
        fn a_sum_falls_as_its_parts_do(
            reporters in prop::collection::vec(any_weight(), 1..20),
            days in 0i64..100,
        ) {
            let later = days * 86_400_000;
            let before = sum_reporters(&reporters).decayed(0, later);
            let parts: Vec<_> = reporters.iter().map(|weight| weight.decayed(0, later)).collect();
            let after = sum_reporters(&parts);
            prop_assert!((before.good - after.good).abs() < 1e-9);
            prop_assert!((before.bad - after.bad).abs() < 1e-9);
            prop_assert!((before.runs - after.runs).abs() < 1e-9);
        }

        #[test]
        fn weights_are_never_negative_or_beyond_their_limits(
            runs in prop::collection::vec((0usize..40, 0u8..3, 0i64..HALF_LIFE), 0..200),
        ) {
            let mut reporter = ReporterWeights::default();
            let mut now = 0;
            for (session, end, pause) in runs {
                now += pause;
                let end = [RunEnd::Success, RunEnd::Fault, RunEnd::Neutral][usize::from(end)];
                reporter.count(session, end, now - pause, now);
                for weight in &reporter.sessions {
                    prop_assert!(0.0 <= weight.good && 0.0 <= weight.bad);
                    prop_assert!(weight.evidence() <= SESSION_LIMIT + 1e-9);
                    prop_assert!(weight.runs <= SESSION_LIMIT + 1e-9);
                }
            }
            prop_assert!(reporter.sessions.len() <= SESSION_SLOTS);
        }
    }
}
