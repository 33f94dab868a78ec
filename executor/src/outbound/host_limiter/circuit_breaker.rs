//! The circuit breaker: a host that fails again and again is left alone. Pure: time is given.

use std::time::{Duration, Instant};

/// The time for which another request waits for the outcome of a trial.
const TRIAL_WAIT: Duration = Duration::from_secs(1);

/// A circuit breaker for one host. After too many failures in a row it opens: nothing is sent for a pause.
/// Then one request is tried; its outcome closes the breaker or opens it again.
#[derive(Debug)]
pub(super) struct CircuitBreaker {
    /// The number of failures in a row after which the breaker opens; never when 0.
    threshold: u32,
    pause: Duration,
    failures: u32,
    /// Set when the host was reached in at least one of these failures.
    was_reached: bool,
    state: BreakerState,
}

/// The state of the breaker: it decides if requests pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BreakerState {
    /// Requests pass.
    Closed,
    /// Requests do not pass until this time.
    Open(Instant),
    /// One request has passed, and its outcome is not known yet.
    Trial,
}

/// The meaning of a finished request for the health of its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::outbound) enum HostSignal {
    /// The host works.
    Good,
    /// The host does not work.
    Bad,
    /// A connection was not possible, which may also be caused by this machine.
    Unreachable,
    /// No information: no connection was tried, or the request was given up.
    Unknown,
}

impl CircuitBreaker {
    pub(super) fn new(threshold: u32, pause: Duration) -> Self {
        Self { threshold, pause, failures: 0, was_reached: false, state: BreakerState::Closed }
    }

    pub(super) fn state(&self) -> BreakerState {
        self.state
    }

    /// Returns the number of failures since the last success.
    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    /// Returns true when there were failures, and none of them reached the host.
    pub(super) fn is_unreachable(&self) -> bool {
        0 < self.failures && !self.was_reached
    }

    /// Checks whether a request would pass.
    ///
    /// # Errors
    /// The time that it should wait.
    pub(super) fn check(&self, now: Instant) -> Result<(), Duration> {
        match self.state {
            BreakerState::Open(until) if now < until => Err(until.duration_since(now)),
            BreakerState::Trial => Err(TRIAL_WAIT),
            BreakerState::Closed | BreakerState::Open(_) => Ok(()),
        }
    }

    /// Lets a request through. Each such request must be settled later.
    ///
    /// # Errors
    /// Returns the time for which the request should wait.
    pub(super) fn admit(&mut self, now: Instant) -> Result<(), Duration> {
        self.check(now)?;
        if let BreakerState::Open(_) = self.state {
            self.state = BreakerState::Trial;
        }
        Ok(())
    }

    /// Records the outcome of a request that passed.
    pub(super) fn settle(&mut self, health: HostSignal, now: Instant) {
        match (health, self.state) {
            (HostSignal::Good, _) => {
                self.failures = 0;
                self.was_reached = false;
                self.state = BreakerState::Closed;
            }
            (HostSignal::Bad | HostSignal::Unreachable, state) => {
                self.failures = self.failures.saturating_add(1);
                self.was_reached |= health == HostSignal::Bad;
                let is_enough = self.threshold != 0 && self.threshold <= self.failures;
                // One that was let through before it opened does not make the pause longer.
                if is_enough && !matches!(state, BreakerState::Open(_)) {
                    self.state = BreakerState::Open(now + self.pause);
                }
            }
            // The next one is tried.
            (HostSignal::Unknown, BreakerState::Trial) => self.state = BreakerState::Open(now),
            (HostSignal::Unknown, _) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PAUSE: Duration = Duration::from_secs(30);

    fn failed(times: u32, at: Instant) -> CircuitBreaker {
        let mut breaker = CircuitBreaker::new(3, PAUSE);
        for _ in 0..times {
            breaker.admit(at).unwrap();
            breaker.settle(HostSignal::Bad, at);
        }
        breaker
    }

    #[test]
    fn a_host_is_left_alone_after_failures_in_a_row_only() {
        let at = Instant::now();
        assert_eq!(failed(2, at).check(at), Ok(()));
        assert_eq!(failed(3, at).check(at), Err(PAUSE));
        let mut breaker = failed(2, at);
        breaker.settle(HostSignal::Good, at);
        breaker.settle(HostSignal::Bad, at);
        breaker.settle(HostSignal::Unknown, at);
        assert_eq!((breaker.check(at), breaker.failures()), (Ok(()), 1));
    }

    #[test]
    fn a_host_is_unreachable_while_no_failure_has_reached_it() {
        let at = Instant::now();
        let mut breaker = CircuitBreaker::new(2, PAUSE);
        assert!(!breaker.is_unreachable(), "nothing has failed");
        breaker.settle(HostSignal::Unreachable, at);
        breaker.settle(HostSignal::Unreachable, at);
        assert_eq!((breaker.check(at), breaker.is_unreachable()), (Err(PAUSE), true));
        breaker.settle(HostSignal::Bad, at + PAUSE);
        breaker.settle(HostSignal::Unreachable, at + PAUSE);
        assert!(!breaker.is_unreachable());
        breaker.settle(HostSignal::Good, at + PAUSE);
        breaker.settle(HostSignal::Unreachable, at + PAUSE);
        assert!(breaker.is_unreachable(), "a success begins anew");
    }

    #[test]
    fn after_the_pause_one_is_tried_and_decides() {
        let at = Instant::now();
        let later = at + PAUSE;
        for (health, expected) in [
            (HostSignal::Good, Ok(())),
            (HostSignal::Bad, Err(PAUSE)),
            // Another one is tried.
            (HostSignal::Unknown, Ok(())),
        ] {
            let mut breaker = failed(3, at);
            assert_eq!(breaker.admit(later), Ok(()));
            assert_eq!(breaker.admit(later), Err(TRIAL_WAIT), "only one");
            breaker.settle(health, later);
            assert_eq!(breaker.check(later), expected, "{health:?}");
        }
    }

    #[test]
    fn failures_that_come_late_do_not_make_the_pause_longer() {
        let at = Instant::now();
        let mut breaker = failed(3, at);
        breaker.settle(HostSignal::Bad, at + PAUSE / 2);
        assert_eq!(breaker.check(at + PAUSE), Ok(()));
    }

    #[test]
    fn it_can_be_switched_off() {
        let at = Instant::now();
        let mut breaker = CircuitBreaker::new(0, PAUSE);
        for _ in 0..1_000 {
            breaker.settle(HostSignal::Bad, at);
        }
        assert_eq!(breaker.check(at), Ok(()));
    }

    proptest! {
        /// However requests end, a host that has become good again is asked again.
        #[test]
        fn it_never_stays_shut(ends in proptest::collection::vec((0_u8..3, 0_u64..40), 0..60)) {
            let mut now = Instant::now();
            let mut breaker = CircuitBreaker::new(3, PAUSE);
            for (end, seconds) in ends {
                now += Duration::from_secs(seconds);
                if breaker.admit(now).is_ok() {
                    let health = [HostSignal::Good, HostSignal::Bad, HostSignal::Unknown][usize::from(end)];
                    breaker.settle(health, now);
                }
            }
            now += PAUSE;
            prop_assert_eq!(breaker.admit(now), Ok(()));
            breaker.settle(HostSignal::Good, now);
            prop_assert_eq!(breaker.state(), BreakerState::Closed);
        }
    }
}
