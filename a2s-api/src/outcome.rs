//! Outcomes of runs: reports of executors, and the sums of registries.

use super::schema;
use a2s::{CapabilityName, Digest, Domain};
use jiff::Timestamp;
use semver::Version;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

/// The report that an executor sends to the registry after a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OutcomeReport {
    /// The id of the run. A second report for the same run changes nothing.
    pub run: Uuid,
    /// Name of the capability.
    pub name: CapabilityName,
    /// Version that ran.
    #[schema(value_type = schema::Version)]
    pub version: Version,
    /// The checksum of the document that ran.
    pub checksum: Digest,
    /// True when it succeeded.
    pub success: bool,
    /// The code of the failure: `A2S` and three digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The class of the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<FailureClass>,
    /// The party responsible for a failure.
    #[serde(default, alias = "blame", skip_serializing_if = "Option::is_none")]
    pub attribution: Option<FaultAttribution>,
    /// The duration of the run, in milliseconds.
    #[serde(deserialize_with = "super::whole_number::required")]
    pub duration_ms: u64,
    /// The time at which it ended; the current time when absent. A late report counts as much less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub finished_at: Option<Timestamp>,
    /// The reporter: a persistent id of an executor. All its reports together have a bounded weight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reporter: Option<String>,
    /// A pseudonym of the run's session, which only its executor can recognise. All runs of one session
    /// together have a bounded weight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The words of the search that led to the run, when its caller has given them. A registry that learns
    /// keeps their vector if the run succeeded, and never the words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent: Option<String>,
    /// The current health of the hosts that the run talked to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostHealth>,
}

/// The result of the removal of a capability's accepted intents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ForgetResponse {
    /// Name of the capability.
    pub name: CapabilityName,
    /// False when it had none.
    pub changed: bool,
}

/// The party responsible for a failed run. Only the capability and its services count against it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FaultAttribution {
    /// The document expects something that the service does not provide.
    Capability,
    /// The service was down or responded with an error.
    Service,
    /// The caller's input was rejected.
    Caller,
    /// A guardian denied it, or could not be asked.
    Guardian,
    /// The executor or its limits.
    Executor,
}

/// The part of a run that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    /// The caller's request.
    Request,
    /// The lookup of the documents.
    Resolution,
    /// Inputs, and the limits of a run.
    Input,
    /// The evaluation of the document: templates, conditions, outputs.
    Evaluation,
    /// The guardian.
    Guardian,
    /// The requests to services and their responses.
    Service,
    /// The run as a whole: it was cancelled, ran out of time, or is unknown.
    Run,
    /// Credentials.
    Credential,
    /// The executor itself.
    Executor,
}

/// The health of a host, as one executor sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HostHealth {
    /// The host, with its port unless it is the default port of the scheme.
    pub host: Domain,
    /// The health from 0 to 1: 1 when the host responded to its last request, less with each further
    /// failure in a row, and 0 while the executor sends it no requests.
    pub health: f64,
}

macro_rules! words {
    ($($type:ident { $($variant:ident = $word:literal),* $(,)? })*) => {$(
        impl $type {
            /// All variants.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Returns the name that JSON uses.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),* }
            }
        }
    )*};
}

words! {
    FaultAttribution {
        Capability = "capability",
        Service = "service",
        Caller = "caller",
        Guardian = "guardian",
        Executor = "executor",
    }
    FailureClass {
        Request = "request",
        Resolution = "resolution",
        Input = "input",
        Evaluation = "evaluation",
        Guardian = "guardian",
        Service = "service",
        Run = "run",
        Credential = "credential",
        Executor = "executor",
    }
}

/// Statistics of the runs of one version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CapabilityStats {
    /// Name of the capability.
    pub name: CapabilityName,
    /// This version.
    #[schema(value_type = schema::Version)]
    pub version: Version,
    /// The checksum of the document.
    pub checksum: Digest,
    /// The number of all runs.
    pub runs: u64,
    /// The runs that succeeded.
    pub successes: u64,
    /// The runs that failed because of the capability or its services. Only these count against it.
    pub faults: u64,
    /// The failures by code, class and attribution, the most frequent first.
    pub failures: Vec<FailureCount>,
    /// The weights that ranking uses.
    pub weights: OutcomeWeights,
    /// The duration of successful runs; absent before the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
    /// The number of executors that have reported, as far as the registry can distinguish them.
    pub reporters: u64,
    /// The end of the last reported run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last_run: Option<Timestamp>,
}

/// The number of failed runs with the same code, class and attribution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FailureCount {
    /// The code; absent when the reports state none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The part of the run; absent when the reports state none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<FailureClass>,
    /// The responsible party; absent when the reports name none, which counts against the capability.
    #[serde(default, alias = "blame", skip_serializing_if = "Option::is_none")]
    pub attribution: Option<FaultAttribution>,
    /// The number of runs.
    pub count: u64,
}

/// The current weights of a version's runs. Old runs count less, and the weight of one reporter is bounded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OutcomeWeights {
    /// The weight of successes.
    pub successes: f64,
    /// The weight of faults.
    pub faults: f64,
    /// The weight of all runs, including those that say nothing about the capability.
    pub runs: f64,
    /// The share of successes by weight; null while no run says anything about the capability.
    pub success_rate: Option<f64>,
    /// A lower bound for the success rate; with few runs it stays low. The term `success_rate` of a score.
    pub success_rate_lower: f64,
    /// The number of days after which a run has half of its weight.
    pub half_life_days: f64,
}

/// The duration of runs, in milliseconds, to within 10 %.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Latency {
    /// The median: half of the runs took at most this time.
    pub p50_ms: f64,
    /// The 95th percentile: 95 of 100 runs took at most this time.
    pub p95_ms: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_json() {
        for blame in FaultAttribution::ALL {
            assert_eq!(serde_json::json!(blame), blame.as_str());
        }
        for class in FailureClass::ALL {
            assert_eq!(serde_json::json!(class), class.as_str());
        }
    }
}
