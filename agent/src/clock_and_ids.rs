//! The source of time and ids, passed in so that a turn can be replayed exactly.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use uuid::Uuid;

/// The source of time and ids. Clones share both.
#[derive(Clone)]
pub struct ClockAndIds {
    clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    ids: Arc<dyn Fn() -> Uuid + Send + Sync>,
}

impl ClockAndIds {
    /// `clock` returns the time; `ids` returns ids that were never used before.
    pub fn new(
        clock: impl Fn() -> Timestamp + Send + Sync + 'static,
        ids: impl Fn() -> Uuid + Send + Sync + 'static,
    ) -> Self {
        Self { clock: Arc::new(clock), ids: Arc::new(ids) }
    }

    /// Returns the current time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// Returns the current date in UTC: the time zone of a user is not known.
    pub(crate) fn today(&self) -> Date {
        TimeZone::UTC.to_datetime(self.now()).date()
    }

    /// Returns a new id.
    #[must_use]
    pub fn new_id(&self) -> Uuid {
        (self.ids)()
    }
}

impl fmt::Debug for ClockAndIds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Outside")
    }
}
