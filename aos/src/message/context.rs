//! `StepContext`: the actor, the session and the step of a message.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::codec::{self, NestedError, Object, objects, read, words};

/// The context of one step (text 3.8).
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StepContext {
    /// The agent that takes the step.
    pub agent: Agent,
    /// The session in which the agent acts.
    pub session: Session,
    /// The turn, unique in the session.
    pub turn_id: String,
    /// The step, unique in the turn.
    pub step_id: String,
    /// The time at which the step was recorded.
    #[serde(deserialize_with = "codec::timestamp")]
    pub timestamp: Timestamp,
    /// The person that the agent acts for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<User>,
    /// Further members. The schema allows only objects here, so a trace parent is sent as `"trace":
    /// {"traceparent": "…"}`.
    #[serde(flatten, deserialize_with = "object_members")]
    pub extra: BTreeMap<String, Object>,
}

impl StepContext {
    /// Creates a context without a user and without further members.
    pub fn new(
        agent: Agent,
        session: Session,
        turn_id: impl Into<String>,
        step_id: impl Into<String>,
        timestamp: Timestamp,
    ) -> Self {
        Self {
            agent,
            session,
            turn_id: turn_id.into(),
            step_id: step_id.into(),
            timestamp,
            user: None,
            extra: BTreeMap::new(),
        }
    }
}

/// Reads the further members. Their names are part of the error.
fn object_members<'de, D: Deserializer<'de>>(
    members: D,
) -> Result<BTreeMap<String, Object>, D::Error> {
    let mut members = Object::deserialize(members)?;
    members.retain(|_, value| !value.is_null());
    read(Value::Object(members)).map_err(|e| D::Error::custom(NestedError::from(e)))
}

objects! {
    /// An agent (text 3.1).
    Agent {
        required {
            /// Its id.
            id "id": String,
            /// Its name, for people.
            name "name": String,
            /// Its instructions, also called the system prompt.
            instructions "instructions": String,
            /// Its version.
            version "version": String,
            /// Its provider.
            provider "provider": AgentProvider,
        }
        sent {
            /// Its address. The schema requires it; the text does not mention it.
            url "url": String,
        }
        optional {
            /// Its purpose.
            description "description": String,
            /// Its language model.
            model "model": Model,
            /// The tools that the agent may call.
            tools "tools": Vec<ToolDefinition>,
            /// The MCP servers that the agent may use.
            mcp_servers "mcpServers": Vec<McpServer>,
            /// The resources that it may read.
            resources "resources": Vec<Resource>,
            /// The organisation that it belongs to.
            organization "organization": Organization,
            /// Further data.
            metadata "metadata": Object,
        }
    }

    /// The provider of an agent (text 3.1.1).
    AgentProvider {
        required {
            /// Its name, for people.
            name "name": String,
            /// Its website.
            url "url": String,
        }
        optional {
            /// Further data.
            metadata "metadata": Object,
        }
    }

    /// A language model (text 3.1.2).
    Model {
        required {
            /// Its id.
            id "id": String,
            /// Its name, for people.
            name "name": String,
            /// Its provider.
            provider "provider": LlmProvider,
        }
        optional {
            /// Its kind.
            kind "type": ModelKind,
            /// The maximum number of tokens in a response.
            max_tokens "maxTokens": i64,
            /// The maximum number of tokens in question and response together.
            context_window "contextWindow": i64,
            /// Texts at which the model stops a response.
            stop_sequences "stopSequences": Vec<String>,
            /// The default parameters, which a call can override.
            default_params "defaultParams": Object,
            /// Further data.
            metadata "metadata": Object,
        }
    }

    /// The provider of a language model (text 3.1.3).
    LlmProvider {
        required {
            /// Its name, for people.
            name "name": String,
        }
        optional {
            /// Further data.
            metadata "metadata": Object,
        }
    }

    /// An MCP server that an agent may use (text 3.1.4).
    McpServer {
        required {
            /// Its name.
            name "name": String,
            /// Its version.
            version "version": String,
        }
    }

    /// Something that an agent may read (text 3.1.5).
    Resource {
        required {
            /// Its id.
            id "id": String,
            /// Its name, for people.
            name "name": String,
            /// Its content.
            content "content": String,
        }
        optional {
            /// Its subject.
            description "description": String,
            /// The media type of `content`.
            mime_type "mimeType": String,
            /// Further data.
            metadata "metadata": Object,
        }
    }

    /// A tool as an agent knows it (text 3.2).
    ToolDefinition {
        required {
            /// Its name, for people.
            name "name": String,
            /// The id, which calls contain as `toolId`.
            id "id": String,
            /// Its kind, for instance `function_call` or `api_request`.
            kind "type": String,
            /// Its arguments; `null` if there are none.
            #[serde(deserialize_with = "codec::nullable")]
            arguments "arguments": Option<Vec<ToolArgumentDefinition>>,
            /// Its outputs; `null` if there are none.
            #[serde(deserialize_with = "codec::nullable")]
            outputs "outputs": Option<Vec<ToolOutputDefinition>>,
        }
        optional {
            /// Its purpose.
            description "description": String,
            /// Further data.
            metadata "metadata": Object,
        }
    }

    /// An argument of a tool (text 3.2.1).
    ToolArgumentDefinition {
        required {
            /// Its name.
            name "name": String,
            /// Set when a call must have it.
            required "required": bool,
        }
        optional {
            /// Its id.
            id "id": String,
            /// Its meaning.
            description "description": String,
            /// The JSON type of the value.
            kind "type": ValueKind,
            /// The media type of its value.
            mime_type "mimeType": String,
        }
    }

    /// An output value of a tool (text 3.2.2).
    #[derive(Default)]
    ToolOutputDefinition {
        optional {
            /// Its name.
            name "name": String,
            /// Its id.
            id "id": String,
            /// Its meaning.
            description "description": String,
            /// The JSON type of the value.
            kind "type": ValueKind,
            /// The media type of its value.
            mime_type "mimeType": String,
        }
    }

    /// A session: a continuous interaction (text 3.9).
    Session {
        required {
            /// Its id.
            id "id": String,
        }
        optional {
            /// Further data.
            metadata "metadata": Object,
        }
    }

    /// The person that an agent acts for (text 3.10).
    User {
        required {
            /// Their id.
            id "id": String,
        }
        optional {
            /// Their name.
            name "name": String,
            /// Their e-mail address.
            email "email": String,
            /// The organisation to which the user belongs.
            organization "organization": Organization,
            /// Further data about the user.
            metadata "metadata": Object,
        }
    }

    /// An organisation (text 3.11).
    Organization {
        required {
            /// Its id.
            id "id": String,
        }
        optional {
            /// Its name.
            name "name": String,
            /// Further data.
            metadata "metadata": Object,
        }
    }
}

words! {
    /// The kind of a language model.
    ModelKind {
        /// The model chats in a dialogue.
        Chat "chat",
        /// The model continues a text.
        Completion "completion",
        /// The model converts text to a vector.
        Embedding "embedding",
    }

    /// The JSON type of an argument or an output.
    ValueKind {
        /// A string.
        String "string",
        /// A number.
        Number "number",
        /// `true` or `false`.
        Boolean "boolean",
        /// An object.
        Object "object",
        /// An array.
        Array "array",
        /// `null`.
        Null "null",
    }
}
