//! Errors of messages that cannot be judged, and their responses (text section 6).

use serde_json::{Value, json};

use super::codec::{InvalidMember, SyntaxError};
use super::{ErrorObject, RequestId, Response, ResponseBody};

/// The error codes of JSON-RPC 2.0 (text 6.1).
pub mod code {
    /// The body is not JSON.
    pub const PARSE_ERROR: i64 = -32700;
    /// The body is JSON, but not a request.
    pub const INVALID_REQUEST: i64 = -32600;
    /// The method does not exist.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The params do not match the method.
    pub const INVALID_PARAMS: i64 = -32602;
    /// The guardian failed.
    pub const INTERNAL_ERROR: i64 = -32603;
}

/// The reason why bytes are not a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The text is not JSON, or exceeds the limits.
    #[error("the body is not JSON: {0}")]
    Syntax(#[from] SyntaxError),
    /// The message is not a JSON-RPC 2.0 request.
    #[error("not a JSON-RPC 2.0 request: {0}")]
    InvalidRequest(String),
    /// The method is not part of the protocol.
    #[error("unknown method: {0}")]
    MethodNotFound(String),
    /// The params do not match the method.
    #[error("{0}")]
    InvalidParams(InvalidMember),
}

impl RequestError {
    /// Returns the code of [`code`] for the error response.
    pub const fn code(&self) -> i64 {
        match self {
            Self::Syntax(_) => code::PARSE_ERROR,
            Self::InvalidRequest(_) => code::INVALID_REQUEST,
            Self::MethodNotFound(_) => code::METHOD_NOT_FOUND,
            Self::InvalidParams(_) => code::INVALID_PARAMS,
        }
    }

    fn data(&self) -> Value {
        match self {
            Self::Syntax(error) => json!({"reason": error.to_string()}),
            Self::InvalidRequest(reason) => json!({"reason": reason}),
            // The schema wants null here.
            Self::MethodNotFound(_) => Value::Null,
            Self::InvalidParams(invalid) => {
                json!({"path": invalid.path(), "reason": invalid.reason()})
            }
        }
    }
}

impl ErrorObject {
    /// Creates an error with a standard code and the schema's message for it.
    pub fn standard(code: i64, data: Value) -> Self {
        let message = match code {
            code::PARSE_ERROR => "Invalid JSON payload",
            code::INVALID_REQUEST => "Request payload validation error",
            code::METHOD_NOT_FOUND => "Method not found",
            code::INVALID_PARAMS => "Invalid parameters",
            _ => "Internal error",
        };
        Self::new(code, message.to_owned(), data)
    }
}

/// The error for an invalid request, with the id for the response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{error}")]
pub struct RequestRejection {
    /// The id, if it could be read.
    pub id: Option<RequestId>,
    /// The error.
    pub error: RequestError,
}

impl RequestRejection {
    /// Returns the error response.
    pub fn to_response(&self) -> Response {
        let error = ErrorObject::standard(self.error.code(), self.error.data());
        Response { id: self.id.clone(), body: ResponseBody::Error(error) }
    }
}
