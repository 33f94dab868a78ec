//! An example of each operation in the description of the API: a request to a service, and its response.

use std::collections::BTreeMap;

use a2s_api::operations_mut;
use serde::Deserialize;
use serde_json::Value;
use utoipa::openapi::{OpenApi, RefOr};

/// The examples of requests and responses. The test `tests/it/examples.rs` writes them, and fails when the
/// services respond differently.
const EXAMPLES: &str = include_str!("examples.json");

/// A request and its response.
#[derive(Debug, Deserialize)]
struct ApiExample {
    /// The body of the request, if it has one.
    #[serde(default)]
    request: Option<Value>,
    /// The status of the response.
    status: u16,
    /// The media type of the response; empty without a body.
    #[serde(default)]
    media_type: String,
    /// The body of the response. For a media type other than JSON, it is a text.
    #[serde(default)]
    response: Option<Value>,
}

/// Adds examples to the described operations.
pub(super) fn add_examples(openapi: &mut OpenApi) {
    let mut examples: BTreeMap<String, ApiExample> =
        serde_json::from_str(EXAMPLES).unwrap_or_default();
    for operation in operations_mut(openapi) {
        let id = operation.operation_id.as_deref().unwrap_or_default();
        let Some(example) = examples.remove(id) else { continue };
        if let (Some(RefOr::T(body)), Some(_)) = (&mut operation.request_body, &example.request)
            && let Some(RefOr::T(content)) = body.content.get_mut("application/json")
        {
            content.example = example.request;
        }
        let status = example.status.to_string();
        let response = operation.responses.responses.get_mut(&status);
        if let Some(RefOr::T(response)) = response
            && let Some(RefOr::T(content)) = response.content.get_mut(&example.media_type)
        {
            content.example = example.response;
        }
    }
}
