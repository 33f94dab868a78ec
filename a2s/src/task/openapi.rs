//! OpenAPI tasks: a specification cut down to exactly one path and one operation.

mod body;
mod decode;
mod field;
mod idempotency_key;
mod parameter;
mod path;
mod server;

use std::sync::Arc;

use percent_encoding::percent_decode_str;
use serde_json::Value;
use url::Url;

use super::security::SecurityRequirement;

pub use body::{BodyFormat, RequestBody};
pub(crate) use decode::decode_openapi;
pub use field::{BodyField, FieldHeader, FieldType};
pub use idempotency_key::find_key_conflict;
pub use parameter::names_idempotency_key;
pub use parameter::{OperationParameter, ParameterLocation, ParameterStyle, ValueStyle};

/// One operation of an HTTP API.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenApiTask {
    /// The version of OpenAPI, which decides the meaning of the keywords of schemas.
    pub version: OpenApiVersion,
    /// The address of the server, with its variables replaced by their defaults. The path is appended to
    /// it.
    pub server: Url,
    /// The method.
    pub method: HttpMethod,
    /// The path template: `/current/{city}`.
    pub path: String,
    /// `operationId`, when given.
    pub operation_id: Option<String>,
    /// `summary` or `description`, for a person.
    pub summary: Option<String>,
    /// The parameters of the path item and the operation together, with references resolved. Parameters
    /// that OpenAPI ignores are left out.
    pub parameters: Vec<OperationParameter>,
    /// The request body, when the operation takes one.
    pub body: Option<RequestBody>,
    /// The responses by status (`200`, `2XX`, `default`), with references at the top resolved.
    pub responses: Vec<(String, Value)>,
    /// The authentication alternatives: one of them is enough, and each may require several schemes at
    /// once. An empty list, or an empty alternative, allows requests without credentials.
    pub security: Vec<Vec<SecurityRequirement>>,
    /// `components` of the specification as written; null when there are none. Most `$ref`s of schemas
    /// point into them.
    pub components: Arc<Value>,
    /// The specification as written, without `components`. Other `$ref`s may point into it. It has no
    /// `paths` when no `$ref` leads there.
    pub specification: Arc<Value>,
}

/// The supported versions of OpenAPI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum OpenApiVersion {
    /// 3.0: schemas are written in a special dialect, where `nullable` allows null.
    V3_0,
    /// 3.1: schemas are JSON Schema 2020-12, where `type` may be a list, and keywords may stand next to
    /// `$ref`.
    V3_1,
}

/// An HTTP method that OpenAPI supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum HttpMethod {
    Get,
    Put,
    Post,
    Delete,
    Options,
    Head,
    Patch,
    Trace,
}

impl OpenApiTask {
    /// The target of a `$ref` such as `#/components/schemas/Pet`, exactly as written: it may contain
    /// further `$ref`s, or be one. Only pointers into the task itself resolve.
    #[must_use]
    pub fn schema_at(&self, reference: &str) -> Option<&Value> {
        let pointer = percent_decode_str(reference.strip_prefix('#')?).decode_utf8().ok()?;
        match pointer.strip_prefix("/components") {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => self.components.pointer(rest),
            Some(_) | None => self.specification.pointer(&pointer),
        }
    }
}

impl HttpMethod {
    const ALL: [(&'static str, Self); 8] = [
        ("get", Self::Get),
        ("put", Self::Put),
        ("post", Self::Post),
        ("delete", Self::Delete),
        ("options", Self::Options),
        ("head", Self::Head),
        ("patch", Self::Patch),
        ("trace", Self::Trace),
    ];

    /// `GET`, `POST`, …
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Put => "PUT",
            Self::Post => "POST",
            Self::Delete => "DELETE",
            Self::Options => "OPTIONS",
            Self::Head => "HEAD",
            Self::Patch => "PATCH",
            Self::Trace => "TRACE",
        }
    }

    /// Returns true when it only reads (RFC 9110, section 9.2.1).
    #[must_use]
    pub fn is_safe(self) -> bool {
        matches!(self, Self::Get | Self::Head | Self::Options | Self::Trace)
    }

    /// Returns true when doing it twice has the same effect as once (RFC 9110, section 9.2.2).
    #[must_use]
    pub fn is_idempotent(self) -> bool {
        self.is_safe() || matches!(self, Self::Put | Self::Delete)
    }
}

#[cfg(test)]
mod tests;
