//! The latency of runs: a histogram of fixed size, fine enough for percentiles to within 10 %.

use a2s_api::Latency;
use serde::{Deserialize, Serialize};

/// The number of buckets for each doubling of the time. Each bucket is 19 % wide.
const PER_DOUBLING: f64 = 4.0;
/// The number of buckets. They cover times up to 2²³ ms, about two hours; longer times are in the last one.
const BUCKETS: usize = 93;
/// At this number of counted runs, all counts are halved, so that recent runs count more.
const MAX_RUNS: u32 = 4_096;

/// The distribution of run times.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct LatencyHistogram {
    /// By bucket; missing buckets at the end are 0.
    counts: Vec<u32>,
}

impl LatencyHistogram {
    pub(crate) fn record(&mut self, milliseconds: u64) {
        let bucket = (milliseconds.max(1) as f64).log2() * PER_DOUBLING;
        let bucket = (bucket as usize).min(BUCKETS - 1);
        if self.counts.len() <= bucket {
            self.counts.resize(bucket + 1, 0);
        }
        if let Some(count) = self.counts.get_mut(bucket) {
            *count = count.saturating_add(1);
        }
        if MAX_RUNS <= self.total() {
            self.counts.iter_mut().for_each(|count| *count /= 2);
        }
    }

    /// Returns the percentiles; `None` before the first run.
    pub(crate) fn percentiles(&self) -> Option<Latency> {
        Some(Latency { p50_ms: self.percentile(0.5)?, p95_ms: self.percentile(0.95)? })
    }

    fn percentile(&self, share: f64) -> Option<f64> {
        let wanted = share * f64::from(self.total());
        let mut seen = 0.0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += f64::from(*count);
            if 0 < *count && wanted <= seen {
                return Some(((bucket as f64 + 0.5) / PER_DOUBLING).exp2());
            }
        }
        None
    }

    fn total(&self) -> u32 {
        self.counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(times: impl IntoIterator<Item = u64>) -> LatencyHistogram {
        let mut histogram = LatencyHistogram::default();
        times.into_iter().for_each(|time| histogram.record(time));
        histogram
    }

    #[test]
    fn without_runs_nothing_is_known() {
        assert_eq!(LatencyHistogram::default().percentiles(), None);
        assert_eq!(of([0, u64::MAX]).counts.len(), BUCKETS);
    }

    #[test]
    fn recent_runs_count_more() {
        let long_ago = std::iter::repeat_n(10, 1_000_000);
        let now = std::iter::repeat_n(1_000, 8_000);
        assert!(of(long_ago.chain(now)).percentiles().unwrap().p50_ms > 900.0);
    }

    proptest! {
        #[test]
        fn percentiles_are_right_to_within_10_percent(
            mut times in prop::collection::vec(1u64..4_000_000, 1..500),
        ) {
            let found = of(times.iter().copied()).percentiles().unwrap();
            times.sort_unstable();
            for (share, found) in [(0.5, found.p50_ms), (0.95, found.p95_ms)] {
                let rank = (share * times.len() as f64).ceil() as usize;
                let exact = times[rank.max(1) - 1] as f64;
                prop_assert!((0.9..=1.1).contains(&(found / exact)), "{} {}", found, exact);
            }
        }
    }
}
