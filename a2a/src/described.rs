//! Requests and responses of A2A, for the description of the API. `wire_versions` and `agent_card` read and
//! write them; the types here name the members that both versions of A2A share.
#![expect(dead_code, reason = "these types are described, and not made")]

use serde_json::{Map, Value};
use utoipa::ToSchema;

/// A JSON-RPC 2.0 request.
#[derive(ToSchema)]
pub(crate) struct JsonRpcRequest {
    /// `2.0`.
    #[schema(pattern = "^2\\.0$", example = "2.0")]
    jsonrpc: String,
    /// A text, a number, or null; the response has the same id.
    id: Value,
    /// The method: `message/send`, `SendMessage` and so on.
    method: String,
    /// The parameters of the method (A2A 1.0, section 9.4).
    params: Map<String, Value>,
}

/// A JSON-RPC 2.0 response, which has a result or an error.
#[derive(ToSchema)]
pub(crate) struct JsonRpcResponse {
    /// `2.0`.
    #[schema(pattern = "^2\\.0$", example = "2.0")]
    jsonrpc: String,
    /// The id of the request.
    id: Value,
    /// A task or a message, depending on the method.
    #[schema(nullable = false)]
    result: Option<Map<String, Value>>,
    /// The error.
    #[schema(nullable = false)]
    error: Option<JsonRpcError>,
}

/// The error of a request of JSON-RPC.
#[derive(ToSchema)]
pub(crate) struct JsonRpcError {
    /// A JSON-RPC or A2A error code (A2A 1.0, section 9.5).
    code: i64,
    /// The error message.
    message: String,
    /// Details of the error.
    data: Value,
}

/// The description that an agent gives of itself (A2A 1.0, section 4.4.1). The card of version 0.3 has more
/// members.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(crate) struct AgentCard {
    /// Its name.
    name: String,
    /// Its description.
    description: String,
    /// Its version.
    version: String,
    /// Its addresses, with their protocols.
    supported_interfaces: Vec<AgentInterface>,
    /// Its optional capabilities, such as streaming.
    capabilities: Map<String, Value>,
    /// The media types that the agent reads.
    default_input_modes: Vec<String>,
    /// The media types that the agent writes.
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
    /// The name as separate words.
    name: String,
    /// Its description.
    description: String,
    /// The services that the capability talks to.
    tags: Vec<String>,
}
