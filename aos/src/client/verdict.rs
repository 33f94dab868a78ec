//! The verdict on a question, and the one place where a silent guardian becomes a verdict.

use serde::Deserialize;

use crate::message::{ErrorObject, Object, Request, code};

/// The outcome of a question, with everything for a journal except the duration.
#[derive(Clone, Debug, PartialEq)]
pub struct GuardianOutcome {
    /// The verdict.
    pub verdict: Verdict,
    /// The explanation of the decision for people.
    pub message: String,
    /// The guardian's reasoning.
    pub reasoning: Option<String>,
    /// The reasons for programs; for a failure its [`GuardianError::reason_code`].
    pub reason_codes: Vec<String>,
    /// Other data from the guardian.
    pub data: Option<Object>,
    /// The source of the verdict: the guardian, or the fail mode.
    pub origin: VerdictSource,
}

/// The verdict on a step.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// The step may continue.
    Allow,
    /// The step must not continue.
    Deny,
    /// The step may continue with this request. It is the question, in which only the part that the hook
    /// covers is replaced; see [`Request::with_modification`].
    Modify(Box<Request>),
}

impl Verdict {
    /// Returns `allow`, `deny` or `modify`.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
            Self::Modify(_) => "modify",
        }
    }
}

/// The source of a verdict.
#[derive(Clone, Debug, PartialEq)]
pub enum VerdictSource {
    /// The guardian decided.
    Guardian,
    /// There was no usable decision, so the step is denied.
    FailedClosed(GuardianError),
    /// The guardian did not respond or failed, and the configuration lets the step continue.
    FailedOpen(GuardianError),
}

/// The effect of a guardian that cannot be asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FailMode {
    /// The step is denied.
    #[default]
    Closed,
    /// The step continues if the guardian did not respond or failed; see [`GuardianError::can_fail_open`].
    Open,
}

impl FailMode {
    /// `closed` or `open`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
        }
    }
}

/// The reason why there is no usable decision.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GuardianError {
    /// The guardian did not respond in time.
    #[error("the guardian did not respond in time")]
    Timeout,
    /// The connection could not be opened: the guardian has not received the question.
    #[error("the guardian cannot be reached: {0}")]
    NotConnected(String),
    /// The connection broke.
    #[error("the guardian cannot be reached: {0}")]
    Unreachable(String),
    /// The HTTP status is not a success. Redirects are not followed, so they have this error too.
    #[error("the guardian responded with HTTP status {0}")]
    Status(u16),
    /// The content type is not `application/json`.
    #[error("the guardian responded with content type {0:?}, not application/json")]
    ContentType(String),
    /// The body is not a JSON-RPC response.
    #[error("the guardian's response is malformed: {0}")]
    Malformed(String),
    /// The response is a JSON-RPC error: the guardian itself failed.
    #[error("the guardian failed: {message} ({code})")]
    Broken {
        /// The error code.
        code: i64,
        /// The error message.
        message: String,
    },
    /// The response is a JSON-RPC error: the guardian did not judge this question.
    #[error("the guardian rejected the request: {message} ({code})")]
    Refused {
        /// The error code.
        code: i64,
        /// The error message.
        message: String,
    },
    /// The response is longer than the limit.
    #[error("the guardian's response is longer than {limit} bytes")]
    TooLarge {
        /// The limit, in bytes.
        limit: usize,
    },
    /// The response is for another question.
    #[error("the guardian's response has another id than the request")]
    WrongId,
    /// The decision is missing, or is not allow, deny or modify.
    #[error("the guardian's decision is unknown: {0}")]
    UnknownDecision(String),
    /// The decision is `modify`, but the modification is missing or is about something else.
    #[error("the guardian's modification cannot be used: {0}")]
    Modification(String),
    /// The response breaks another rule of the protocol.
    #[error("the guardian's response cannot be used: {0}")]
    Unusable(String),
    /// The guardian has responded, and then could not record its response.
    #[error("the guardian cannot record its decisions")]
    NotRecorded,
}

impl GuardianError {
    /// Returns true when [`FailMode::Open`] lets the step go on.
    ///
    /// That is so when the guardian was silent or broken. It is not so when the guardian has given a
    /// response that cannot be followed, or when the step itself can cause the failure: otherwise a step
    /// that is too large for the guardian, or that makes its response too large, could bypass the guardian.
    pub const fn can_fail_open(&self) -> bool {
        match self {
            Self::Timeout
            | Self::NotConnected(_)
            | Self::Unreachable(_)
            | Self::Status(500..)
            | Self::ContentType(_)
            | Self::Malformed(_)
            | Self::Broken { .. } => true,
            Self::Status(_)
            | Self::Refused { .. }
            | Self::TooLarge { .. }
            | Self::WrongId
            | Self::UnknownDecision(_)
            | Self::Modification(_)
            | Self::Unusable(_)
            | Self::NotRecorded => false,
        }
    }

    /// Returns true when the guardian is away and has certainly not judged the question, so that the client
    /// may ask again: no connection was possible, or a proxy in front of the guardian had none (HTTP status
    /// 503).
    pub const fn is_unavailable(&self) -> bool {
        matches!(self, Self::NotConnected(_) | Self::Status(503))
    }

    /// Returns the reason for programs, such as `guardian_timeout`.
    pub const fn reason_code(&self) -> &'static str {
        match self {
            Self::Timeout => "guardian_timeout",
            Self::NotConnected(_) | Self::Unreachable(_) => "guardian_unreachable",
            Self::Status(_) => "guardian_status",
            Self::ContentType(_) => "guardian_content_type",
            Self::Malformed(_) => "guardian_malformed",
            Self::Broken { .. } => "guardian_error",
            Self::Refused { .. } => "guardian_refused",
            Self::TooLarge { .. } => "guardian_answer_too_large",
            Self::WrongId => "guardian_wrong_id",
            Self::UnknownDecision(_) => "guardian_unknown_decision",
            Self::Modification(_) => "guardian_bad_modification",
            Self::Unusable(_) => "guardian_bad_answer",
            Self::NotRecorded => "guardian_not_recorded",
        }
    }

    pub(super) fn from_transport(error: &reqwest::Error) -> Self {
        if error.is_timeout() {
            return Self::Timeout;
        }
        // The outermost text names the URL, which may hold a secret; the innermost says what happened.
        let mut cause: &dyn std::error::Error = error;
        while let Some(source) = cause.source() {
            cause = source;
        }
        if error.is_connect() {
            Self::NotConnected(cause.to_string())
        } else {
            Self::Unreachable(cause.to_string())
        }
    }

    pub(super) fn from_error_object(error: ErrorObject) -> Self {
        let (code, message) = (error.code, error.message);
        match code {
            code::PARSE_ERROR
            | code::INVALID_REQUEST
            | code::METHOD_NOT_FOUND
            | code::INVALID_PARAMS => Self::Refused { code, message },
            _ => Self::Broken { code, message },
        }
    }
}

impl GuardianOutcome {
    /// Returns the outcome for a missing or unusable decision. This is the only code that can turn a
    /// failure into an allow.
    pub(super) fn from_failure(failure: GuardianError, mode: FailMode) -> Self {
        let is_open = mode == FailMode::Open && failure.can_fail_open();
        Self {
            verdict: if is_open { Verdict::Allow } else { Verdict::Deny },
            message: failure.to_string(),
            reasoning: None,
            reason_codes: vec![failure.reason_code().to_owned()],
            data: None,
            origin: if is_open {
                VerdictSource::FailedOpen(failure)
            } else {
                VerdictSource::FailedClosed(failure)
            },
        }
    }
}
