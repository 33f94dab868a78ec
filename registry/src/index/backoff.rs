//! Pauses between attempts while store, engine or embedder do not answer.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(30);

/// How long to wait before the next attempt.
#[derive(Debug)]
pub(super) struct Pause(Duration);

impl Default for Pause {
    fn default() -> Self {
        Self(FIRST)
    }
}

impl Pause {
    /// This one; the one behind it is twice as long, up to a bound.
    pub(super) fn next(&mut self) -> Duration {
        let pause = self.0;
        self.0 = (pause * 2).min(LONGEST);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_a_bound() {
        let mut pause = Pause::default();
        let pauses: Vec<_> = (0..10).map(|_| pause.next().as_millis()).collect();
        assert_eq!(pauses[..4], [200, 400, 800, 1600]);
        assert_eq!(pauses[8..], [30_000, 30_000]);
    }
}
