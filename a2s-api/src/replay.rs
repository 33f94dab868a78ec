//! Replays of runs: requests and responses.

use a2s::{CapabilityName, CapabilityRef, Digest};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

/// A request to replay a run with the recorded responses of services.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplayRequest {
    /// The version to replay instead of the documents with which the run started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<ReplayTarget>,
}

/// A version of a capability that a run is replayed against.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplayTarget {
    /// Name of the capability.
    pub name: CapabilityName,
    /// Version or semver range; the newest stable one when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<super::schema::VersionSelector>)]
    pub version: Option<String>,
    /// The checksum that it must have.
    #[serde(
        default,
        rename = "checksum",
        alias = "digest",
        skip_serializing_if = "Option::is_none"
    )]
    pub digest: Option<Digest>,
}

/// The result of a replay: its differences from the recorded run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReplayResponse {
    /// The run.
    pub run: Uuid,
    /// The capability that the recorded run executed.
    pub recorded: CapabilityRef,
    /// The capability that the replay executed.
    pub against: CapabilityRef,
    /// True when the replay equals the recorded run.
    pub unchanged: bool,
    /// The number of compared steps.
    pub compared: usize,
    /// The steps that differ, those of the recording first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<ReplayedStep>,
    /// The differences of the result: at `inputs.…`, `status`, `error` or `output…`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub result: Vec<ValueDiff>,
    /// The number of differences that are not listed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_differences: usize,
}

/// A step that differs from its recording.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReplayedStep {
    /// Path of the step.
    pub step: String,
    /// The kind of difference.
    pub change: StepDiff,
    /// The differences: at `operation`, `inputs.…`, `outputs.…` or `error`.
    pub differences: Vec<ValueDiff>,
}

/// The kind of difference between a step and the recorded one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepDiff {
    /// The step ran both times, and something is different.
    Changed,
    /// The step runs now, but is not in the recording.
    New,
    /// The step is in the recording, but does not run now.
    Gone,
}

/// A value that differs from the recorded one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ValueDiff {
    /// The location: `inputs.pathParameters.city`, `outputs.forecast[0].high`.
    pub path: String,
    /// The recorded value; absent when the recording has no value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// The new value; absent when the replay has no value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use serde::Serialize;
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::ReplayTarget;
    use crate::{AgentEvent, ExecutionRequest, PlanRequest};

    fn read<T: DeserializeOwned + Serialize>(json: Value) -> Value {
        json!(serde_json::from_value::<T>(json).unwrap())
    }

    #[test]
    fn requests_with_the_old_member_digest_are_read() {
        let checksum = format!("sha256:{}", "0".repeat(64));
        let old = json!({"name": "GetThing", "digest": checksum});
        for new in [
            read::<PlanRequest>(old.clone()),
            read::<ExecutionRequest>(old.clone()),
            read::<ReplayTarget>(old),
        ] {
            assert_eq!((&new["checksum"], &new["digest"]), (&json!(checksum), &Value::Null));
        }
    }

    #[test]
    fn events_with_the_old_type_passed_over_are_read() {
        let capability = json!({
            "name": "GetThing", "version": "1.0.0", "checksum": format!("sha256:{}", "0".repeat(64)),
        });
        let old = json!({"type": "passed_over", "capability": capability, "message": "refused"});
        assert_eq!(read::<AgentEvent>(old)["type"], "candidate_skipped");
    }
}
