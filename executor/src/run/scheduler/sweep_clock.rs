//! A check of the wall clock before data is deleted by its age.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// The largest change of wall time that is not a jump.
const MAX_DRIFT: SignedDuration = SignedDuration::from_hours(24);
/// The time after which a clock that has jumped, and kept its pace since, is right.
const HOLD: Duration = Duration::from_secs(60 * 60);

/// The wall clock as of the last sweep, beside a clock that cannot be set.
#[derive(Debug)]
pub(super) struct SweepClock {
    last: Option<(Timestamp, Instant)>,
    /// The jump since then, and the time at which it was noticed.
    jump: Option<(SignedDuration, Instant)>,
}

impl SweepClock {
    /// Creates the check of a process that starts at `at`. `newest` is the latest stored time.
    pub(super) fn new(newest: Option<Timestamp>, at: Instant) -> Self {
        Self { last: newest.map(|newest| (newest, at)), jump: None }
    }

    /// Returns true when data may be deleted by its age. Returns false for an hour after wall time has moved
    /// by more than a day against the clock that cannot be set.
    pub(super) fn allows_sweep(&mut self, now: Timestamp, at: Instant) -> bool {
        let moved = match self.last {
            None => SignedDuration::ZERO,
            Some((wall, steady)) => {
                let passed = at.saturating_duration_since(steady);
                let passed = SignedDuration::try_from(passed).unwrap_or(SignedDuration::MAX);
                now.duration_since(wall).saturating_sub(passed)
            }
        };
        let is_small = |change: SignedDuration| change.abs() <= MAX_DRIFT;
        match self.jump {
            _ if is_small(moved) => {}
            Some((jump, since)) if is_small(moved.saturating_sub(jump)) => {
                if at.saturating_duration_since(since) < HOLD {
                    return false;
                }
            }
            _ => {
                tracing::warn!(
                    hours = moved.as_hours(),
                    "the clock differs by more than a day from the last known time: nothing is deleted by \
                     its age for an hour"
                );
                self.jump = Some((moved, at));
                return false;
            }
        }
        (self.last, self.jump) = (Some((now, at)), None);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn sweep_is_refused_for_an_hour_after_a_jump_of_the_clock() {
        let (wall, steady) = (Timestamp::UNIX_EPOCH, Instant::now());
        let mut clock = SweepClock::new(None, steady);
        let mut check = |wall_days: u32, minutes: u32| {
            let passed = minutes * MINUTE;
            clock.allows_sweep(wall + wall_days * DAY + passed, steady + passed)
        };
        assert!(check(0, 0) && check(0, 1) && check(1, 2));
        assert!(!check(41, 3) && !check(41, 4), "a jump");
        assert!(check(1, 5), "set right again");
        assert!(!check(41, 6) && !check(41, 65));
        assert!(!check(81, 66), "another jump");
        assert!(!check(81, 125));
        assert!(check(81, 126) && check(81, 127), "steady for an hour");
        assert!(!check(10, 128), "back");
    }

    #[test]
    fn start_compares_with_the_newest_stored_time() {
        let (stored, steady) = (Timestamp::UNIX_EPOCH, Instant::now());
        let mut clock = SweepClock::new(Some(stored), steady);
        assert!(!clock.allows_sweep(stored + 40 * DAY, steady));
        assert!(clock.allows_sweep(stored + DAY / 2, steady + MINUTE));
        let mut clock = SweepClock::new(Some(stored), steady);
        assert!(!clock.allows_sweep(stored + 40 * DAY, steady));
        assert!(clock.allows_sweep(stored + 40 * DAY + 60 * MINUTE, steady + 60 * MINUTE));
    }
}
