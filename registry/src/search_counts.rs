//! Counts of searches by hour, in memory. No intent is stored.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use a2s_api::{SearchCounts, SearchHour, UsageUnit};
use jiff::{SignedDuration, Timestamp};

/// The number of hours that are kept: a week.
const HOURS: i64 = 168;

/// The result of a search, for its count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CountedSearch {
    /// The best hit is strong.
    Strong,
    /// The best hit is weak.
    Weak,
    /// There is no hit.
    WithoutHit,
}

/// The counts of the last week.
#[derive(Debug)]
pub(crate) struct SearchCounter {
    since: Timestamp,
    hours: Mutex<VecDeque<SearchHour>>,
}

impl SearchCounter {
    /// Starts to count at this time.
    pub(crate) fn new(since: Timestamp) -> Self {
        Self { since, hours: Mutex::default() }
    }

    /// Counts a search.
    pub(crate) fn add(&self, now: Timestamp, search: CountedSearch) {
        let from = UsageUnit::Hour.start_of(now);
        let mut hours = self.hours.lock().unwrap_or_else(PoisonError::into_inner);
        if hours.back().is_none_or(|last| last.from < from) {
            hours.push_back(SearchHour { from, searches: 0, weak: 0, without_hit: 0 });
            let kept = oldest_hour(now);
            while hours.front().is_some_and(|hour| hour.from < kept) {
                hours.pop_front();
            }
        }
        // A clock that was set back counts for the latest hour.
        let Some(hour) = hours.back_mut() else { return };
        hour.searches += 1;
        hour.weak += u64::from(search == CountedSearch::Weak);
        hour.without_hit += u64::from(search == CountedSearch::WithoutHit);
    }

    /// Returns the counts.
    pub(crate) fn counts(&self, now: Timestamp) -> SearchCounts {
        let kept = oldest_hour(now);
        let hours = self.hours.lock().unwrap_or_else(PoisonError::into_inner);
        let hours = hours.iter().filter(|hour| kept <= hour.from).cloned().collect();
        SearchCounts { since: self.since.max(kept), hours }
    }
}

fn oldest_hour(now: Timestamp) -> Timestamp {
    let from = UsageUnit::Hour.start_of(now);
    from.saturating_sub(SignedDuration::from_hours(HOURS - 1)).unwrap_or(Timestamp::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn searches_are_counted_by_hour_for_a_week() {
        let at = |hours: i64| Timestamp::from_second(1_800_000_000 + hours * 3_600).unwrap();
        let counter = SearchCounter::new(at(0));
        counter.add(at(0), CountedSearch::Strong);
        counter.add(at(0), CountedSearch::Weak);
        counter.add(at(2), CountedSearch::WithoutHit);
        counter.add(at(1), CountedSearch::Strong);
        let counts = counter.counts(at(3));
        assert_eq!(counts.since, at(0));
        let shown = |counts: &SearchCounts| -> Vec<(u64, u64, u64)> {
            counts.hours.iter().map(|hour| (hour.searches, hour.weak, hour.without_hit)).collect()
        };
        assert_eq!(shown(&counts), [(2, 1, 0), (2, 0, 1)]);
        assert_eq!(shown(&counter.counts(at(169))), [(2, 0, 1)]);
        counter.add(at(1000), CountedSearch::Strong);
        assert_eq!(shown(&counter.counts(at(1000))), [(1, 0, 0)]);
        assert!(at(0) < counter.counts(at(1000)).since);
    }
}
