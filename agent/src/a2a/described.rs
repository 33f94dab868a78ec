//! Requests and responses of A2A, for the description of the API. `wire_versions` and `agent_card` read and
//! write them; the types here name the members that both versions of A2A share.
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
    /// The method: `message/send`, `SendMessage` and so on.
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

/// The error of a request of JSON-RPC.
#[derive(ToSchema)]
pub(crate) struct JsonRpcError {
    /// A code of JSON-RPC or of A2A (A2A 1.0, section 9.5).
    code: i64,
    /// The error message.
    message: String,
    /// More about it.
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
    /// Its description.
    description: String,
    /// The services that it talks to.
    tags: Vec<String>,
}
