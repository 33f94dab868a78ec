//! Exchanges of task steps, as they are kept for replays.

use std::collections::BTreeMap;

use a2s::{InputLocation, OutputMapping, OutputSource, Task};
use a2s_api::{RecordedResponse, StepExchange};
use http::header::SET_COOKIE;
use http::{HeaderMap, HeaderName, HeaderValue};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::request::method_and_url;
use crate::scope::size_of;
use crate::secrets::RunSecrets;
use crate::step_result::{ResponseHead, StepResult};

/// The request and the response of a task step, without secrets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RecordedExchange {
    /// The request.
    #[serde(flatten)]
    pub(crate) question: ExchangeRequest,
    /// The response; `None` when the step failed.
    pub(crate) answer: Option<ExchangeResponse>,
}

/// The request of a task step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ExchangeRequest {
    /// The method and the address, with the unfilled parameters in braces.
    pub(crate) operation: String,
    /// The inputs by dotted location, in the form that may be shown.
    pub(crate) inputs: Map<String, Value>,
}

/// The response that a step received.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum ExchangeResponse {
    /// A stored response.
    Whole {
        /// HTTP status.
        status: u16,
        /// The headers by name that the step takes, without cookies.
        headers: BTreeMap<String, String>,
        /// The body that the guardian allowed.
        body: Value,
    },
    /// A response that was too large to store.
    LeftOut {
        /// The size of the response, in bytes.
        bytes: usize,
    },
}

impl ExchangeRequest {
    /// The request that a step makes for its task.
    pub(crate) fn from_task(task: &Task, shown: &IndexMap<InputLocation, Value>) -> Self {
        let (method, address) = method_and_url(task);
        let inputs = shown.iter().map(|(place, value)| (place.to_string(), value.clone()));
        Self { operation: format!("{method} {address}"), inputs: inputs.collect() }
    }
}

impl RecordedExchange {
    /// Returns the exchange of a step as callers see it.
    pub(crate) fn into_api(self, step: String) -> StepExchange {
        let Self { question: ExchangeRequest { operation, inputs }, answer } = self;
        StepExchange { step, operation, inputs, response: answer.map(ExchangeResponse::into_api) }
    }
}

impl ExchangeResponse {
    fn into_api(self) -> RecordedResponse {
        let nothing = RecordedResponse::default();
        match self {
            Self::Whole { status, headers, body } => {
                // A tool of MCP has no status of its own.
                let status = Some(status).filter(|status| *status != 0);
                RecordedResponse { status, headers, body: Some(body), ..nothing }
            }
            Self::LeftOut { bytes } => RecordedResponse { left_out_bytes: Some(bytes), ..nothing },
        }
    }

    /// Creates the record of a response, with its content if it has at most `limit` bytes. Guardians see
    /// only the headers that `outputs` take, so it has no others.
    pub(crate) fn from_result(
        answer: &StepResult,
        outputs: &[OutputMapping],
        secrets: &RunSecrets,
        limit: usize,
    ) -> Self {
        let StepResult { body, head, head_outputs } = answer;
        let mut status = head.as_ref().map_or(0, |head| head.status);
        let mut headers = BTreeMap::new();
        for output in outputs {
            let Some(value) = head_outputs.get(&output.dotted()) else { continue };
            match &output.source {
                OutputSource::Header(name) if !SET_COOKIE.as_str().eq_ignore_ascii_case(name) => {
                    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                    headers.insert(name.to_ascii_lowercase(), secrets.mask_text(&text));
                }
                OutputSource::Status => {
                    status = value.as_u64().and_then(|status| status.try_into().ok()).unwrap_or(0);
                }
                OutputSource::Header(_) | OutputSource::Body(_) => {}
            }
        }
        let in_headers = headers.iter().map(|(name, value)| name.len() + value.len());
        let bytes = size_of(body).saturating_add(in_headers.sum());
        if bytes > limit {
            return Self::LeftOut { bytes };
        }
        Self::Whole { status, headers, body: secrets.mask(body) }
    }

    /// Returns the stored response.
    ///
    /// # Errors
    /// Returns the size of the response when it was not stored.
    pub(crate) fn to_step_result(&self) -> Result<StepResult, usize> {
        let (status, headers, body) = match self {
            Self::Whole { status, headers, body } => (*status, headers, body.clone()),
            Self::LeftOut { bytes } => return Err(*bytes),
        };
        let headers = headers.iter().filter_map(|(name, value)| {
            let name: HeaderName = name.parse().ok()?;
            Some((name, HeaderValue::from_str(value).ok()?))
        });
        let headers: HeaderMap = headers.collect();
        Ok(StepResult::new(body, Some(ResponseHead { status, headers })))
    }
}
