//! Errors of the guardian: one table for the wire, one type for the start.

use std::path::PathBuf;

use aos::message::code;

use crate::policy::{Approval, PolicyErrors};

/// The reason why a guardian cannot start, or cannot load a new policy.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The policy file cannot be read.
    #[error("cannot read the policy {}", path.display())]
    PolicyUnreadable {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The policy has errors.
    #[error("{faults}")]
    PolicyInvalid {
        /// The file with the policy, if the policy is from a file.
        path: Option<PathBuf>,
        /// All errors of the policy.
        faults: PolicyErrors,
    },
    /// The audit log cannot be opened or written.
    #[error("cannot use the audit log {}", path.display())]
    AuditUnavailable {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The audit log does not end with a valid record of its chain.
    #[error("the audit log {} is broken: {reason}; move the file to start a new audit log", path.display())]
    AuditBroken {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The audit log ends before records that were acknowledged.
    #[error(
        "the audit log {} has lost records: it ends with record {last}, but {redo} has record {first}; restore the \
         audit log, or move {redo} away to continue without the lost records",
        path.display()
    )]
    AuditIncomplete {
        /// The file.
        path: PathBuf,
        /// The name of its redo file.
        redo: String,
        /// The number of the last record.
        last: u64,
        /// The number of the first record in the redo file.
        first: u64,
    },
    /// Another guardian writes this audit log.
    #[error("the audit log {} is in use by another guardian", path.display())]
    AuditInUse {
        /// The file.
        path: PathBuf,
    },
}

impl Error {
    /// Returns the code of this error in logs and machine output.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::PolicyUnreadable { .. } => "policy_unreadable",
            Self::PolicyInvalid { .. } => "policy_invalid",
            Self::AuditUnavailable { .. } => "audit_unavailable",
            Self::AuditBroken { .. } => "audit_broken",
            Self::AuditIncomplete { .. } => "audit_incomplete",
            Self::AuditInUse { .. } => "audit_in_use",
        }
    }
}

/// A response of the guardian that does not come from its rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RejectionCode {
    /// The body is not JSON.
    Parse,
    /// The body is not a request.
    InvalidRequest,
    /// The method does not exist.
    MethodNotFound,
    /// The params are invalid.
    InvalidParams,
    /// The body is too long.
    TooLarge,
    /// The body is not declared as JSON.
    MediaType,
    /// The decision could not be written to the audit log.
    AuditUnavailable,
    /// An internal error of the guardian.
    Internal,
    /// The caller wants to see or decide approvals, or to read the log, and has not sent the guardian's token.
    Unauthorized,
    /// The approval is closed, or a person has decided otherwise.
    ApprovalNotPending,
    /// The body of a decision about an approval cannot be parsed.
    BadDecision,
    /// No known approval has this id.
    UnknownApproval,
    /// The query names an unknown status.
    BadStatus,
    /// The approvals have the maximum number of followers.
    TooManyFollowers,
    /// The query of a list of records has an unknown member or value.
    BadQuery,
    /// The policy to try is not valid.
    PolicyInvalid,
    /// The audit log cannot be read.
    LogUnreadable,
}

/// The reason for which a decision about an approval does not count.
#[derive(Debug)]
pub(crate) enum ApprovalError {
    /// The approval is closed, or a person has decided otherwise.
    NotPending(Box<Approval>),
    /// Any other reason.
    Rejected(RejectionCode),
}

impl From<RejectionCode> for ApprovalError {
    fn from(code: RejectionCode) -> Self {
        Self::Rejected(code)
    }
}

/// The response for a [`RejectionCode`].
///
/// A failure of the guardian itself becomes a denial, not a JSON-RPC error with its number: after an error,
/// an agent that fails open would continue.
pub(crate) struct ErrorMapping {
    /// The label of the metric, and the reason code when the response is a denial.
    pub(crate) name: &'static str,
    /// The error code of JSON-RPC.
    pub(crate) error: i64,
    /// The HTTP status.
    pub(crate) status: u16,
    /// The message for people.
    pub(crate) text: &'static str,
}

#[rustfmt::skip]
const TABLE: [(RejectionCode, &str, i64, u16, &str); 17] = [
    (RejectionCode::Parse,            "parse_error",            code::PARSE_ERROR,      200, "The body is not JSON."),
    (RejectionCode::InvalidRequest,   "invalid_request",        code::INVALID_REQUEST,  200, "The body is not a JSON-RPC request."),
    (RejectionCode::MethodNotFound,   "method_not_found",       code::METHOD_NOT_FOUND, 200, "Unknown method."),
    (RejectionCode::InvalidParams,    "invalid_params",         code::INVALID_PARAMS,   200, "The params do not match the method."),
    (RejectionCode::TooLarge,         "body_too_large",         code::INVALID_REQUEST,  413, "The body is too long."),
    (RejectionCode::MediaType,        "unsupported_media_type", code::INVALID_REQUEST,  415, "The body must be application/json."),
    (RejectionCode::AuditUnavailable, "audit_unavailable",      code::INTERNAL_ERROR,   200, "Denied, because the guardian cannot write the decision to the audit log."),
    (RejectionCode::Internal,         "internal_error",         code::INTERNAL_ERROR,   200, "Denied, because the guardian failed on this message."),
    (RejectionCode::Unauthorized,     "unauthorized",           code::INVALID_REQUEST,  401, "Approvals and the log require the guardian's token."),
    (RejectionCode::ApprovalNotPending,       "approval_not_waiting",   code::INVALID_REQUEST,  409, "The approval is not pending."),
    (RejectionCode::BadDecision,      "bad_decision",           code::INVALID_REQUEST,  400, "The body is not a JSON object with `decided_by` and `reason`."),
    (RejectionCode::UnknownApproval,       "approval_unknown",       code::INVALID_REQUEST,  404, "Unknown approval."),
    (RejectionCode::BadStatus,        "bad_status",             code::INVALID_REQUEST,  400, "`status` must be pending, approved, rejected, used, expired, withdrawn or all."),
    (RejectionCode::TooManyFollowers, "too_many_followers",     code::INVALID_REQUEST,  503, "Too many clients follow the approvals; try again later."),
    (RejectionCode::BadQuery,         "bad_query",              code::INVALID_REQUEST,  400, "The query is invalid."),
    (RejectionCode::PolicyInvalid,    "policy_invalid",         code::INVALID_REQUEST,  422, "The policy is not valid."),
    (RejectionCode::LogUnreadable,    "log_unreadable",         code::INTERNAL_ERROR,   500, "The audit log cannot be read."),
];

impl RejectionCode {
    pub(crate) const fn mapping(self) -> ErrorMapping {
        // The table is in the order of the enum, which a test holds.
        let (_, name, error, status, text) = TABLE[self as usize];
        ErrorMapping { name, error, status, text }
    }

    /// Returns the code for the JSON-RPC error of an unreadable message.
    pub(crate) fn from_jsonrpc_code(error: i64) -> Self {
        TABLE.iter().find(|row| row.2 == error).map_or(Self::InvalidRequest, |row| row.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_codes() {
        for (place, (code, ..)) in TABLE.into_iter().enumerate() {
            assert_eq!(code as usize, place);
        }
        assert_eq!(
            RejectionCode::from_jsonrpc_code(code::INVALID_REQUEST),
            RejectionCode::InvalidRequest
        );
    }
}
