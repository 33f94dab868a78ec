//! Time and ids come from outside, so that a run can be repeated exactly.

use std::fmt::Debug;
use std::sync::Arc;

use jiff::Timestamp;
use uuid::{Builder, Uuid};

/// The source of recorded times.
pub trait Clock: Debug + Send + Sync {
    /// Returns the current time. Durations in events are differences of such times, and at least zero.
    fn now(&self) -> Timestamp;
}

/// The source of randomness for ids.
pub trait RandomSource: Debug + Send + Sync {
    /// 16 bytes that are unique and cannot be guessed: keys are made of them, too.
    fn random_bytes(&self) -> [u8; 16];
}

/// Creates the id of a new run: `UUIDv7` (RFC 9562, 5.7), so that ids sort by time.
pub(crate) fn new_run_id(clock: &Arc<dyn Clock>, ids: &Arc<dyn RandomSource>) -> Uuid {
    let milliseconds = u64::try_from(clock.now().as_millisecond()).unwrap_or(0);
    let mut random = [0; 10];
    random.copy_from_slice(&ids.random_bytes()[..10]);
    Builder::from_unix_timestamp_millis(milliseconds, &random).into_uuid()
}

/// The id with which a guardian correlates request and result: the same after a restart, and for every
/// retry. The path of a step contains its iteration, so the suffix is always `#0`. Ids had this suffix
/// before iterations existed, so runs that began then keep their ids.
pub(crate) fn execution_id(run: Uuid, step: &str) -> Uuid {
    Uuid::new_v5(&run, format!("{step}#0").as_bytes())
}

/// Returns the id of the request after a redirect. Redirects are numbered from 1; zero is the request of
/// the step itself.
pub(crate) fn redirect_id(run: Uuid, step: &str, redirect: u32) -> Uuid {
    Uuid::new_v5(&run, format!("{step}#{redirect}").as_bytes())
}

/// Returns the milliseconds between two times; zero when the clock went back.
pub(crate) fn milliseconds_between(start: Timestamp, end: Timestamp) -> u64 {
    u64::try_from(end.as_millisecond() - start.as_millisecond()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_execution_id_depends_on_run_and_path_alone() {
        let run = Uuid::from_u128(1);
        assert_eq!(execution_id(run, "a/b[0]"), execution_id(run, "a/b[0]"));
        assert_ne!(execution_id(run, "a/b[0]"), execution_id(run, "a/b[1]"));
        assert_ne!(execution_id(run, "a/b"), execution_id(run, "a"));
        assert_ne!(execution_id(run, "a"), execution_id(Uuid::from_u128(2), "a"));
        assert_eq!(redirect_id(run, "a", 0), execution_id(run, "a"));
        assert_ne!(redirect_id(run, "a", 1), redirect_id(run, "a", 2));
    }
}
