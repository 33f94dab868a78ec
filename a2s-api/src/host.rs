//! The state of the hosts that an executor sends to.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The reason for which a request waits before it leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WaitReason {
    /// The maximum number of requests to the host is in flight.
    Concurrency,
    /// The rate limit of the host delays the request.
    Rate,
    /// The host asked for a pause (`RetryPolicy-After`).
    RetryAfter,
}

impl WaitReason {
    /// Returns the name that JSON uses.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Concurrency => "concurrency",
            Self::Rate => "rate",
            Self::RetryAfter => "retry_after",
        }
    }
}

/// The state of a host since the executor started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HostState {
    /// The host, with its port unless it is the default port of the scheme.
    pub host: String,
    /// The number of requests in flight.
    pub in_flight: u32,
    /// The maximum number of requests in flight.
    pub max_concurrency: u32,
    /// The number of failures since the last success: no connection, no response, or a status of 500 or
    /// higher.
    pub failures: u32,
    /// The circuit breaker: `closed`, `open` (the executor sends no requests to the host) or `half_open`
    /// (the executor tries one request).
    pub breaker: String,
    /// The time for which the executor sends nothing to it, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_ms: Option<u64>,
}

/// The hosts that an executor has sent requests to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HostList {
    /// The entries, in order of name.
    pub hosts: Vec<HostState>,
}
