//! Requests and responses of A2A, for the description of the API. What is read and
//! written is in `wire` and `card`; this names the members on which both versions of A2A agree.
#![expect(dead_code, reason = "these types are described, and not made")]

use serde_json::{Map, Value};
use utoipa::ToSchema;

/// A request of JSON-RPC 2.0.
#[derive(ToSchema)]
pub(crate) struct JsonRpcRequest {
    /// `2.0`.
    #[schema(pattern = "^2\\.0$", example = "2.0")]
    jsonrpc: String,
    /// A text, a number, or null; the answer has it.
    id: Value,
    /// What is asked for: `message/send`, `SendMessage` and so on.
    method: String,
    /// The parameters of the method (A2A 1.0, section 9.4).
    params: Map<String, Value>,
}

/// An answer of JSON-RPC 2.0: it has a result or an error.
#[derive(ToSchema)]
pub(crate) struct JsonRpcResponse {
    /// `2.0`.
    #[schema(pattern = "^2\\.0$", example = "2.0")]
    jsonrpc: String,
    /// That of the request.
    id: Value,
    /// A task or a message, as the method gives it.
    #[schema(nullable = false)]
    result: Option<Map<String, Value>>,
    /// The fault.
    #[schema(nullable = false)]
    error: Option<JsonRpcError>,
}

/// Why a request of JSON-RPC has no result.
#[derive(ToSchema)]
pub(crate) struct JsonRpcError {
    /// A code of JSON-RPC or of A2A (A2A 1.0, section 9.5).
    code: i64,
    /// What is wrong.
    message: String,
    /// More about it.
    data: Value,
}

/// What an agent reports of itself (A2A 1.0, section 4.4.1). The card of version 0.3 has more members.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(crate) struct AgentCard {
    /// Its name.
    name: String,
    /// What it does.
    description: String,
    /// Its version.
    version: String,
    /// Where it is asked, and how.
    supported_interfaces: Vec<AgentInterface>,
    /// What it can do beside answering.
    capabilities: Map<String, Value>,
    /// Media types that it reads.
    default_input_modes: Vec<String>,
    /// Media types that it writes.
    default_output_modes: Vec<String>,
    /// The first 100 published capabilities.
    skills: Vec<AgentSkill>,
}

/// An address and a protocol.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(crate) struct AgentInterface {
    /// The address.
    url: String,
    /// `JSONRPC`.
    protocol_binding: String,
    /// The version of A2A.
    protocol_version: String,
}

/// A published capability, as a skill.
#[derive(ToSchema)]
pub(crate) struct AgentSkill {
    /// The name of the capability.
    id: String,
    /// The name in words.
    name: String,
    /// What it does.
    description: String,
    /// The services that it talks to.
    tags: Vec<String>,
}
