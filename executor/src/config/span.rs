//! Times of limits, as `1m 30s`. None is so long that it could not be added to the clock.

use std::time::Duration;

use jiff::fmt::serde::unsigned_duration::friendly::compact::required;
use serde::de::Error;
use serde::{Deserializer, Serializer};

/// The maximum duration, in days.
const MAX_DAYS: u64 = 366;

pub(super) fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    required::serialize(time, to)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    bound(required::deserialize(from)?)
}

fn bound<E: Error>(time: Duration) -> Result<Duration, E> {
    if time > Duration::from_secs(MAX_DAYS * 24 * 60 * 60) {
        return Err(E::custom(format_args!("a duration must be at most {MAX_DAYS} days")));
    }
    Ok(time)
}

/// The serialization of durations without a required end: `720h`, or `forever`.
pub(super) mod option {
    use std::time::Duration;

    use jiff::SignedDuration;
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    /// The word for a duration without an end.
    const FOREVER: &str = "forever";

    #[expect(clippy::ref_option, reason = "serde calls it so")]
    pub(in crate::config) fn serialize<S: Serializer>(
        time: &Option<Duration>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match time {
            Some(time) => super::serialize(time, to),
            None => to.serialize_str(FOREVER),
        }
    }

    pub(in crate::config) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Duration>, D::Error> {
        let text = String::deserialize(from)?;
        if text == FOREVER {
            return Ok(None);
        }
        let time: SignedDuration = text.parse().map_err(D::Error::custom)?;
        super::bound(time.try_into().map_err(D::Error::custom)?).map(Some)
    }
}
