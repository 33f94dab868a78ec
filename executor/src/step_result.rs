//! The result of a step, and the outputs that are taken from it.

use a2s::{MediaType, OutputMapping, OutputSource};
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::{Error, ErrorKind};
use crate::request::{decode_header, stored_headers};

/// The result of a step, from which its outputs are taken.
#[derive(Debug, Clone)]
pub(crate) struct StepResult {
    /// The body that the guardian allowed; for a capability, its result.
    pub(crate) body: Value,
    /// Status and headers of a service's response; the result of a capability has none.
    pub(crate) head: Option<ResponseHead>,
    /// The outputs that the guardian allowed to take from status and headers. They take the place of the
    /// received ones.
    pub(crate) head_outputs: Map<String, Value>,
}

/// Status and headers, as they were received.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ResponseHead {
    /// HTTP status.
    pub(crate) status: u16,
    /// The headers.
    #[serde(with = "stored_headers")]
    pub(crate) headers: HeaderMap,
}

impl StepResult {
    /// Creates a result with status and headers as they were received.
    pub(crate) fn new(body: Value, head: Option<ResponseHead>) -> Self {
        Self { body, head, head_outputs: Map::new() }
    }

    /// Returns the value of one output.
    ///
    /// # Errors
    /// Returns [`ErrorKind::OutputMissing`] when there is no value, and the document has no default for it.
    pub(crate) fn extract_output(&self, output: &OutputMapping) -> Result<Value, Error> {
        let taken = match &output.source {
            OutputSource::Body(query) => {
                let taken = query.evaluate(&self.body);
                taken.map_err(|miss| format!("{miss}{}", self.describe_media_type()))
            }
            source => match self.head_outputs.get(&output.dotted()) {
                Some(allowed) => Ok(allowed.clone()),
                None => ResponseHead::value_of(self.head.as_ref(), source),
            },
        };
        taken.or_else(|miss| {
            output.default.clone().ok_or_else(|| {
                let error = Error::new(ErrorKind::OutputMissing, miss);
                error.with_context(format_args!("output `{}`", output.dotted()))
            })
        })
    }
}

impl StepResult {
    /// Names the media type of a response that is not JSON, which explains a body of another shape.
    fn describe_media_type(&self) -> String {
        let named = self.head.as_ref().and_then(|head| head.headers.get(CONTENT_TYPE));
        let named = named.and_then(|value| MediaType::parse(value.to_str().ok()?));
        let named = named.filter(|media_type| !media_type.is_json());
        named.map_or_else(String::new, |media_type| {
            format!("; the media type of the response is {}", media_type.essence())
        })
    }
}

impl ResponseHead {
    /// Returns the value that an output takes from status and headers. Of several headers with one name it
    /// takes the first; a value that is not UTF-8 is Windows-1252.
    fn value_of(head: Option<&Self>, source: &OutputSource) -> Result<Value, String> {
        match source {
            OutputSource::Header(name) => {
                let header = head.and_then(|head| head.headers.get(name));
                let header =
                    header.ok_or_else(|| format!("the response has no header `{name}`"))?;
                Ok(Value::String(decode_header(header.as_bytes()).into_owned()))
            }
            OutputSource::Status => head
                .map(|head| Value::from(head.status))
                .ok_or_else(|| "only the response of a service has a status".to_owned()),
            OutputSource::Body(_) => Err("the body is no part of the head".to_owned()),
        }
    }

    /// Returns the values that `outputs` take from status and headers, by the names of the outputs.
    pub(crate) fn values_of(&self, outputs: &[OutputMapping]) -> Map<String, Value> {
        let values = outputs.iter().filter_map(|output| {
            let value = Self::value_of(Some(self), &output.source).ok()?;
            Some((output.dotted(), value))
        });
        values.collect()
    }
}
