//! The retry policy of requests. Pure.

use std::time::Duration;

use a2s::{BackoffKind, RetryPolicy};
use http::HeaderMap;
use http::header::RETRY_AFTER;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::SendError;
use crate::config::Limits;
use crate::error::ErrorKind;
use crate::request::RawResponse;

/// The pause before the second attempt, without jitter, unless the document states another one.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// The statuses that are worth another attempt, unless the document names others: each means that the
/// service does not respond now, but may soon.
const TRANSIENT_STATUSES: &[u16] = &[429, 502, 503, 504];

/// The number of attempts for a request, and the pauses between them.
#[derive(Debug, Clone)]
pub(crate) struct RetrySchedule {
    max_attempts: u32,
    first_pause: Duration,
    max_pause: Duration,
    backoff: BackoffKind,
    on_status: Vec<u16>,
    max_step_attempts: u32,
}

/// A pause before the next attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RetryPause {
    /// The length.
    pub(crate) length: Duration,
    /// The reason for another attempt.
    pub(crate) reason: String,
}

impl RetryPause {
    /// Another attempt that follows at once.
    pub(crate) fn none(reason: &str) -> Self {
        Self { length: Duration::ZERO, reason: reason.to_owned() }
    }
}

impl RetrySchedule {
    /// Creates the schedule of a configuration.
    pub(crate) fn from_limits(limits: &Limits) -> Self {
        Self {
            max_attempts: limits.max_attempts,
            first_pause: FIRST_PAUSE,
            max_pause: limits.max_pause,
            backoff: BackoffKind::Exponential,
            on_status: TRANSIENT_STATUSES.to_vec(),
            max_step_attempts: limits.attempts_ceiling,
        }
    }

    /// The policy for a step with a `retry` of its own, within the limits of the configuration.
    pub(crate) fn for_step(&self, retry: Option<&RetryPolicy>) -> Self {
        let Some(retry) = retry else { return self.clone() };
        let statuses = if retry.on_status.is_empty() { &self.on_status } else { &retry.on_status };
        Self {
            max_attempts: retry.max_attempts.min(self.max_step_attempts),
            first_pause: retry.initial_delay.unwrap_or(self.first_pause),
            max_pause: retry.max_delay.map_or(self.max_pause, |most| most.min(self.max_pause)),
            backoff: retry.backoff,
            on_status: statuses.clone(),
            max_step_attempts: self.max_step_attempts,
        }
    }

    /// Returns the pause before another attempt after the one numbered `attempt` from 1. Returns `None`
    /// when there is nothing to repeat, when repeating is not safe, or after the last attempt.
    ///
    /// A request is repeated when doing it twice has the same effect as doing it once, or when it was
    /// certainly not sent. In addition, another attempt must be useful: after a missing connection, a
    /// missing response, or a status that indicates it. A request is not repeated when the service asks for
    /// a longer wait than the maximum pause.
    pub(crate) fn next_pause(
        &self,
        repeat_safe: bool,
        attempt: u32,
        outcome: Result<&RawResponse, &SendError>,
        now: Timestamp,
        random: [u8; 16],
    ) -> Option<RetryPause> {
        if self.max_attempts <= attempt {
            return None;
        }
        let (reason, wanted) = match outcome {
            Ok(response) => {
                let may_help = self.on_status.contains(&response.status);
                if !(may_help && repeat_safe) {
                    return None;
                }
                let wanted = retry_after(&response.headers, now);
                (format!("the service responded with status {}", response.status), wanted)
            }
            Err(failure) => {
                let may_help = matches!(
                    failure.error.kind,
                    ErrorKind::ConnectFailed | ErrorKind::ConnectionLost | ErrorKind::Timeout
                ) || failure.retry_after.is_some();
                if !(may_help && (repeat_safe || !failure.sent)) {
                    return None;
                }
                (failure.error.message.clone(), failure.retry_after)
            }
        };
        let wanted = wanted.unwrap_or_default();
        if self.max_pause < wanted {
            return None;
        }
        Some(RetryPause { length: wanted.max(self.backoff_pause(attempt, random)), reason })
    }

    /// Returns a pause that doubles with each attempt. It is a random time between half and all of that, so
    /// that requests that failed together are not repeated together. A constant pause has the length that
    /// the document states.
    fn backoff_pause(&self, attempt: u32, random: [u8; 16]) -> Duration {
        let doublings = match self.backoff {
            BackoffKind::Exponential => attempt.saturating_sub(1).min(16),
            BackoffKind::Constant => return self.first_pause.min(self.max_pause),
        };
        let whole = self.first_pause.saturating_mul(1 << doublings).min(self.max_pause);
        let [a, b, ..] = random;
        whole / 2 + (whole / 2).mul_f64(f64::from(u16::from_be_bytes([a, b])) / 65_536.0)
    }
}

/// The time that the headers of a response ask to wait.
pub(super) fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let header = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    header.and_then(|text| read_retry_after(text, now))
}

/// The time that `Retry-After` asks to wait: seconds, or one of the three forms of a date (RFC 9110,
/// sections 10.2.3 and 5.6.7).
fn read_retry_after(text: &str, now: Timestamp) -> Option<Duration> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        // More seconds than a number holds are longer than any pause.
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let forms = ["%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"];
    let date = forms.iter().find_map(|form| DateTime::strptime(form, text).ok())?;
    let date = date.to_zoned(TimeZone::UTC).ok()?.timestamp();
    // A date that has passed asks for no pause.
    Some(Duration::try_from(date.duration_since(now)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::HeaderValue;

    use super::*;

    const NOW: &str = "1994-11-06T08:49:00Z";

    fn pause(
        repeat_safe: bool,
        attempt: u32,
        outcome: Result<&RawResponse, &SendError>,
    ) -> Option<Duration> {
        let retries = RetrySchedule::from_limits(&Limits {
            max_attempts: 3,
            max_pause: Duration::from_secs(30),
            ..Limits::default()
        });
        let pause =
            retries.next_pause(repeat_safe, attempt, outcome, NOW.parse().unwrap(), [0; 16]);
        pause.map(|pause| pause.length)
    }

    fn answer(status: u16, retry_after: Option<&str>) -> RawResponse {
        let mut headers = HeaderMap::new();
        if let Some(text) = retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from_str(text).unwrap());
        }
        RawResponse { status, headers, body: Bytes::new(), redirects: 0 }
    }

    #[test]
    fn only_transient_status_of_safe_request_is_retried() {
        for status in [429, 502, 503, 504] {
            assert!(pause(true, 1, Ok(&answer(status, None))).is_some(), "{status}");
            assert!(pause(false, 1, Ok(&answer(status, None))).is_none(), "{status}");
        }
        for status in [200, 302, 400, 401, 404, 409, 500, 501] {
            assert!(pause(true, 1, Ok(&answer(status, None))).is_none(), "{status}");
        }
    }

    #[test]
    fn failure_is_retried_when_unsent_or_safe() {
        let kinds = [
            (ErrorKind::ConnectFailed, true),
            (ErrorKind::ConnectionLost, true),
            (ErrorKind::Timeout, true),
            (ErrorKind::AddressRefused, false),
            (ErrorKind::ResponseTooLarge, false),
            (ErrorKind::RedirectRefused, false),
        ];
        for (kind, may_help) in kinds {
            let (sent, unsent) = (SendError::after_send(kind, ""), SendError::not_sent(kind, ""));
            assert_eq!(pause(true, 1, Err(&sent)).is_some(), may_help, "{kind:?}");
            assert_eq!(pause(false, 1, Err(&unsent)).is_some(), may_help, "{kind:?}");
            assert_eq!(pause(false, 1, Err(&sent)), None, "{kind:?}");
        }
        // An authorization server that is busy says how long.
        let busy = |seconds| SendError {
            retry_after: Some(Duration::from_secs(seconds)),
            ..SendError::not_sent(ErrorKind::TokenUnavailable, "")
        };
        assert_eq!(pause(false, 1, Err(&busy(7))), Some(Duration::from_secs(7)));
        assert_eq!(pause(false, 1, Err(&busy(31))), None);
        assert_eq!(pause(true, 1, Err(&SendError::not_sent(ErrorKind::TokenRefused, ""))), None);
    }

    #[test]
    fn pauses_double_with_jitter_and_end() {
        let busy = answer(503, None);
        assert_eq!(pause(true, 1, Ok(&busy)), Some(Duration::from_millis(125)));
        assert_eq!(pause(true, 2, Ok(&busy)), Some(Duration::from_millis(250)));
        assert_eq!(pause(true, 3, Ok(&busy)), None);
        let limits = Limits { max_pause: Duration::from_secs(30), ..Limits::default() };
        let retries = RetrySchedule::from_limits(&limits);
        for attempt in [1, 2, 5, 40, u32::MAX - 1] {
            let [least, most] =
                [[0; 16], [255; 16]].map(|random| retries.backoff_pause(attempt, random));
            assert!(least < most && most < least * 2, "{attempt}: {least:?} {most:?}");
            assert!(most <= Duration::from_secs(30));
        }
    }

    #[test]
    fn the_service_is_left_alone_as_long_as_it_asks() {
        let wait = |text: &str| pause(true, 1, Ok(&answer(503, Some(text))));
        assert_eq!(wait("7"), Some(Duration::from_secs(7)));
        assert_eq!(wait("0"), Some(Duration::from_millis(125)));
        for date in [
            "Sun, 06 Nov 1994 08:49:20 GMT",
            "Sunday, 06-Nov-94 08:49:20 GMT",
            "Sun Nov  6 08:49:20 1994",
        ] {
            assert_eq!(wait(date), Some(Duration::from_secs(20)), "{date}");
        }
        assert_eq!(wait("Sun, 06 Nov 1994 08:00:00 GMT"), Some(Duration::from_millis(125)));
        // Longer than the longest pause.
        for long in ["31", "99999999999999999999999", "Sun, 06 Nov 1994 09:49:00 GMT"] {
            assert_eq!(wait(long), None, "{long}");
        }
        for nonsense in ["soon", "-1", "1.5", ""] {
            assert_eq!(wait(nonsense), Some(Duration::from_millis(125)), "{nonsense}");
        }
    }

    #[test]
    fn a_document_chooses_within_the_limits() {
        let limits = Limits {
            max_attempts: 3,
            attempts_ceiling: 5,
            max_pause: Duration::from_secs(30),
            ..Limits::default()
        };
        let pause = |retry: &RetryPolicy, repeat_safe: bool, attempt: u32, status: u16| {
            let retries = RetrySchedule::from_limits(&limits).for_step(Some(retry));
            let (answer, now) = (answer(status, None), NOW.parse().unwrap());
            let pause = retries.next_pause(repeat_safe, attempt, Ok(&answer), now, [0; 16]);
            pause.map(|pause| pause.length)
        };
        let seconds = |n| Some(Duration::from_secs(n));
        let constant = RetryPolicy {
            max_attempts: 10,
            initial_delay: seconds(2),
            max_delay: None,
            backoff: BackoffKind::Constant,
            on_status: vec![500],
        };
        assert_eq!(pause(&constant, true, 1, 500), seconds(2));
        assert_eq!(pause(&constant, true, 4, 500), seconds(2));
        assert_eq!(pause(&constant, true, 5, 500), None, "the ceiling");
        assert_eq!(pause(&constant, true, 1, 503), None, "another status");
        assert_eq!(pause(&constant, false, 1, 500), None, "not safe");
        let growing = RetryPolicy {
            max_attempts: 4,
            initial_delay: seconds(8),
            max_delay: seconds(600),
            backoff: BackoffKind::Exponential,
            on_status: Vec::new(),
        };
        assert_eq!(pause(&growing, true, 1, 503), seconds(4));
        assert_eq!(pause(&growing, true, 3, 503), seconds(15), "the longest pause, by half");
        assert_eq!(pause(&growing, true, 1, 500), None);
        let once = RetryPolicy { max_attempts: 1, ..growing };
        assert_eq!(pause(&once, true, 1, 503), None);
    }
}
