//! Usage over time: runs of an executor, and searches of a registry.

use a2s::CapabilityName;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Principal;

/// The runs of a period: in all, over time, and by capability, tenant and error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UsageReport {
    /// The start of the period.
    #[schema(value_type = String, format = DateTime)]
    pub since: Timestamp,
    /// The time of the report.
    #[schema(value_type = String, format = DateTime)]
    pub until: Timestamp,
    /// False when the period has more runs, or more intervals, than the executor counts at once: only the
    /// latest are counted.
    pub complete: bool,
    /// All runs that were started in the period and are not deleted.
    pub total: RunCounts,
    /// The runs of each interval by their start, the oldest first; intervals without runs are there, too.
    pub intervals: Vec<UsageInterval>,
    /// The runs of each capability, the most used first; at most 100.
    pub capabilities: Vec<CapabilityUsage>,
    /// The runs of each principal, the one with the most runs first; at most 100. Only for administrators.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tenants: Vec<TenantUsage>,
    /// The errors of runs, the most frequent first; at most 100.
    pub errors: Vec<ErrorUsage>,
}

/// Numbers of runs, and how long those that succeeded took.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunCounts {
    /// All runs.
    pub runs: u64,
    /// Runs that succeeded.
    pub succeeded: u64,
    /// Runs that failed.
    pub failed: u64,
    /// Runs that a guardian denied.
    pub denied: u64,
    /// Runs that were cancelled.
    pub cancelled: u64,
    /// Runs that have not ended.
    pub open: u64,
    /// Half of the runs that succeeded took at most this time, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_ms: Option<u64>,
    /// 95 of 100 runs that succeeded took at most this time, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p95_ms: Option<u64>,
}

/// The runs that were started in an interval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UsageInterval {
    /// The start of the interval.
    #[schema(value_type = String, format = DateTime)]
    pub from: Timestamp,
    /// The runs.
    #[serde(flatten)]
    pub counts: RunCounts,
}

/// The runs of a capability.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CapabilityUsage {
    /// Name of the capability.
    pub name: CapabilityName,
    /// The runs.
    #[serde(flatten)]
    pub counts: RunCounts,
}

/// The runs of a principal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TenantUsage {
    /// The name of a token, `owner`, or `token/end user`.
    pub tenant: Principal,
    /// The runs.
    #[serde(flatten)]
    pub counts: RunCounts,
}

/// The runs that ended with an error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ErrorUsage {
    /// The code of the error.
    pub code: String,
    /// The number of runs.
    pub runs: u64,
    /// The latest of these runs.
    pub latest: uuid::Uuid,
}

/// The length of an interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum UsageUnit {
    /// A minute.
    Minute,
    /// An hour.
    #[default]
    Hour,
    /// 24 hours.
    Day,
}

impl UsageUnit {
    /// All units.
    pub const ALL: [Self; 3] = [Self::Minute, Self::Hour, Self::Day];

    /// Returns the word that JSON uses.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
        }
    }

    /// The length in seconds.
    pub const fn seconds(self) -> i64 {
        match self {
            Self::Minute => 60,
            Self::Hour => 3_600,
            Self::Day => 86_400,
        }
    }

    /// Returns the start of the interval that a time is in; intervals are counted in UTC.
    pub fn start_of(self, time: Timestamp) -> Timestamp {
        let second = time.as_second();
        Timestamp::from_second(second - second.rem_euclid(self.seconds())).unwrap_or(time)
    }
}

/// The numbers of searches of a registry, by hour. The registry counts them and stores no intents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SearchCounts {
    /// The time from which on this registry has counted: its start, or a week ago.
    #[schema(value_type = String, format = DateTime)]
    pub since: Timestamp,
    /// The hours with searches, the oldest first.
    pub hours: Vec<SearchHour>,
}

/// The searches of an hour.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SearchHour {
    /// The start of the hour.
    #[schema(value_type = String, format = DateTime)]
    pub from: Timestamp,
    /// All searches; each intent of a request counts.
    pub searches: u64,
    /// Searches whose best hit was weak.
    pub weak: u64,
    /// Searches without a hit.
    pub without_hit: u64,
}
