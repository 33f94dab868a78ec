//! The error answer of every service: problem details (RFC 9457).

use a2s::{Diagnostic, ErrorCode, InputField};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Problem details (RFC 9457) with a stable code and a remedy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// The page of the code, relative to the service: `/errors/A2S201`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The general meaning of this code.
    pub title: String,
    /// The HTTP status of the response.
    pub status: u16,
    /// The code: `A2S201`.
    pub code: String,
    /// A description of this occurrence.
    pub detail: String,
    /// The suggested fix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// All diagnostics of a rejected document.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub diagnostics: Vec<Diagnostic>,
    /// The inputs that are missing (A2S320).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<InputField>,
    /// The differences between a run and its plan (A2S378), in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<String>,
}

impl Problem {
    /// Creates a problem with the title of its code.
    #[must_use]
    pub fn new(status: u16, code: &ErrorCode, detail: impl Into<String>) -> Self {
        Self {
            kind: format!("/errors/{}", code.id),
            title: code.title.to_owned(),
            status,
            code: code.id.to_owned(),
            detail: detail.into(),
            hint: Some(code.remedy.to_owned()).filter(|remedy| !remedy.is_empty()),
            diagnostics: Vec::new(),
            missing: Vec::new(),
            differences: Vec::new(),
        }
    }

    /// Returns the header `RetryPolicy-After` of the response, in seconds (RFC 9110, section 10.2.3). The
    /// time is longer when other work has to end first (429) than when a service is briefly unavailable
    /// (503).
    #[must_use]
    pub fn retry_after(&self) -> Option<&'static str> {
        match self.status {
            429 => Some("5"),
            503 => Some("1"),
            _ => None,
        }
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.code, self.detail)
    }
}
