//! The state of the hosts that an executor sends to.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The reason for which a request waits before it leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WaitReason {
    /// As many requests to the host are under way as may be.
    Concurrency,
    /// Requests to the host follow one another no faster.
    Rate,
    /// The host has asked to be left alone (`Retry-After`).
    RetryAfter,
}

impl WaitReason {
    /// As it is written in JSON.
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
    /// Host, and port where it is not the scheme's.
    pub host: String,
    /// Requests under way.
    pub in_flight: u32,
    /// The maximum number of requests in flight.
    pub max_concurrency: u32,
    /// Failures since the last success: no connection, no answer, a status from 500.
    pub failures: u32,
    /// The circuit breaker: `closed`, `open` (the host is left alone) or `half_open` (one request is
    /// tried).
    pub breaker: String,
    /// The time for which the executor sends nothing to it, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_ms: Option<u64>,
}

/// The hosts that an executor has sent requests to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HostList {
    /// By name.
    pub hosts: Vec<HostState>,
}
