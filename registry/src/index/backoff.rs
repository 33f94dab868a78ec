//! Pauses between attempts while store, engine or embedder do not answer.

use std::time::Duration;

const FIRST_PAUSE: Duration = Duration::from_millis(200);
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// The pause before the next attempt.
#[derive(Debug)]
pub(super) struct RetryBackoff(Duration);

impl Default for RetryBackoff {
    fn default() -> Self {
        Self(FIRST_PAUSE)
    }
}

impl RetryBackoff {
    /// The current pause; the next one is twice as long, up to a bound.
    pub(super) fn next(&mut self) -> Duration {
        let pause = self.0;
        self.0 = (pause * 2).min(MAX_PAUSE);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_a_bound() {
        let mut pause = RetryBackoff::default();
        let pauses: Vec<_> = (0..10).map(|_| pause.next().as_millis()).collect();
        assert_eq!(pauses[..4], [200, 400, 800, 1600]);
        assert_eq!(pauses[8..], [30_000, 30_000]);
    }
}
