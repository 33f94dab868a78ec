//! The result of a step, and the outputs that are taken from it.

use a2s::{OutputMapping, OutputSource};
use http::HeaderMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{Error, ErrorKind};
use crate::request::stored_headers;

/// The result of a step, from which its outputs are taken.
#[derive(Debug, Clone)]
pub(crate) struct StepResult {
    /// The body that the guardian allowed; for a capability, its result.
    pub(crate) body: Value,
    /// Status and headers of a service's response; the result of a capability has none.
    pub(crate) head: Option<ResponseHead>,
}

/// Status and headers, as they were received: a guardian that modifies a result modifies the body.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ResponseHead {
    /// HTTP status.
    pub(crate) status: u16,
    /// The headers.
    #[serde(with = "stored_headers")]
    pub(crate) headers: HeaderMap,
}

impl StepResult {
    /// Returns the value of one output.
    ///
    /// # Errors
    /// Returns [`ErrorKind::OutputMissing`] when there is no value, and the document has no default for it.
    pub(crate) fn extract_output(&self, output: &OutputMapping) -> Result<Value, Error> {
        let taken = match &output.source {
            OutputSource::Body(query) => query.evaluate(&self.body).map_err(|m| m.to_string()),
            OutputSource::Header(name) => self.header(name),
            OutputSource::Status => self
                .head
                .as_ref()
                .map(|head| Value::from(head.status))
                .ok_or_else(|| "only the response of a service has a status".to_owned()),
        };
        taken.or_else(|miss| {
            output.default.clone().ok_or_else(|| {
                let error = Error::new(ErrorKind::OutputMissing, miss);
                error.with_context(format_args!("output `{}`", output.dotted()))
            })
        })
    }

    /// Returns the first header with a name. Invalid UTF-8 is replaced.
    fn header(&self, name: &str) -> Result<Value, String> {
        let header = self.head.as_ref().and_then(|head| head.headers.get(name));
        let header = header.ok_or_else(|| format!("the response has no header `{name}`"))?;
        Ok(Value::String(String::from_utf8_lossy(header.as_bytes()).into_owned()))
    }
}
