//! Times of limits, as `1m 30s`. None is so long that it could not be added to the clock.

use std::time::Duration;

use jiff::fmt::serde::unsigned_duration::friendly::compact::required;
use serde::de::Error as _;
use serde::{Deserializer, Serializer};

/// The longest, in days.
const MAX_DAYS: u64 = 366;

pub(super) fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    required::serialize(time, to)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let time = required::deserialize(from)?;
    if time > Duration::from_secs(MAX_DAYS * 24 * 60 * 60) {
        return Err(D::Error::custom(format_args!("a time has at most {MAX_DAYS} days")));
    }
    Ok(time)
}
