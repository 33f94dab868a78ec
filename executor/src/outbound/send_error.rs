//! Errors of sending, which show no more of an address than its host.

use std::error::Error as StdError;
use std::io;
use std::time::Duration;

use hyper_util::client::legacy;
use tower::timeout::error::Elapsed;
use url::Url;

use super::resolve::NoAllowedAddress;
use crate::error::{Error, ErrorKind};
use crate::request::authority;
use a2s::to_single_line;

/// The reason for a missing response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SendError {
    /// The error, for a person.
    pub(crate) error: Error,
    /// False when certainly no byte of the request was sent, so that it had no effect.
    pub(crate) sent: bool,
    /// Set when the other side reports that it cannot respond now, but may soon: the time for which it asks
    /// for no requests.
    pub(crate) retry_after: Option<Duration>,
}

impl SendError {
    /// Creates the error for a failure before anything was sent.
    pub(crate) fn before_send(error: Error) -> Self {
        Self { error, sent: false, retry_after: None }
    }

    pub(super) fn not_sent(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self::before_send(Error::new(kind, message))
    }

    /// Creates the error for a service that sent nothing for the read timeout.
    pub(super) fn silent(host: &str, what: &str, time: Duration) -> Self {
        let seconds = time.as_secs_f32();
        let message = format!("{host} sent {what} within {seconds} s (`read-timeout`)");
        let hint = "Find out whether the request took effect before you run it again. If the service needs more time, raise `read-timeout`.";
        let error = Error::new(ErrorKind::Timeout, message).with_hint(hint);
        Self { sent: true, ..Self::before_send(error) }
    }

    pub(super) fn after_send(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { sent: true, ..Self::not_sent(kind, message) }
    }
}

pub(super) fn blocked_target(url: &Url, rule: &str) -> SendError {
    let message = format!("requests to {} are not allowed: {rule}", authority(url));
    let hint = "If the request is intended, allow the address in the executor's configuration, or set an upstream.";
    SendError::before_send(Error::new(ErrorKind::AddressRefused, message).with_hint(hint))
}

/// Translates an error of the HTTP client.
pub(super) fn explain(error: &legacy::Error, url: &Url) -> SendError {
    let host = authority(url);
    let mut is_timeout = false;
    let mut cause = error.source();
    while let Some(source) = cause {
        if let Some(refused) = source.downcast_ref::<NoAllowedAddress>() {
            return blocked_target(url, &refused.to_string());
        }
        let io = source.downcast_ref::<io::Error>();
        is_timeout |= io.is_some_and(|io| io.kind() == io::ErrorKind::TimedOut);
        is_timeout |= source.is::<Elapsed>();
        cause = source.source();
    }
    let cause = innermost(error);
    if error.is_connect() {
        let message = match is_timeout {
            true => format!("no connection to {host} in time"),
            false => format!("no connection to {host}: {cause}"),
        };
        return SendError::not_sent(ErrorKind::ConnectFailed, message);
    }
    SendError::after_send(
        ErrorKind::ConnectionLost,
        format!("the connection to {host} was lost: {cause}"),
    )
}

/// Returns the text of the innermost cause. Outer ones contain the whole address, which may contain a
/// secret.
pub(super) fn innermost(error: &dyn StdError) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    to_single_line(&cause.to_string(), 200)
}
