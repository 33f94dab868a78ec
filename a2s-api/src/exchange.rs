//! Recorded requests and responses of the steps of a run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// The requests and responses of a run, by the paths of their steps.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ExchangeList {
    /// The exchanges.
    pub exchanges: Vec<StepExchange>,
}

/// The last request of a step, and the response that the step used. Secret values are masked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StepExchange {
    /// Path of the step.
    pub step: String,
    /// The method and the address, with the unfilled parameters in braces.
    pub operation: String,
    /// The inputs by dotted location, such as `queryParameters.q` and `body.city`.
    pub inputs: Map<String, Value>,
    /// The response; absent when the step failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<RecordedResponse>,
}

/// A response that was recorded for replays.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RecordedResponse {
    /// HTTP status; absent when the response was not recorded, or had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The headers by name, without cookies.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The body that the guardian allowed; absent when the response was not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// The size in bytes of a response that was too large to record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out_bytes: Option<usize>,
}
