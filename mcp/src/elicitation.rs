//! Questions to the user of a client (elicitation), in both ways that MCP has: the server sends a request
//! of its own while the call waits, or, from 2026-07-28, it responds to the call with the question, and the
//! client calls again with the answer. In both cases the guardians see the question and the answer.

use std::collections::BTreeMap;
use std::time::Duration;

use a2s::{InputField, to_single_line};
use rmcp::RoleServer;
use rmcp::model::{
    ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema,
    InputRequest, InputRequiredResult, InputResponses, JsonObject, PrimitiveSchemaDefinition,
    ProtocolVersion, RequestId,
};
use rmcp::service::RequestContext;
use serde_json::{Map, Value, json};

use super::guard_messages::GuardedExchange;
use super::tool_result::ToolError;

/// The time that a person has for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// The maximum length of a field description, in characters.
const MAX_WORDS: usize = 500;

/// The person at the client, who can be asked.
pub(super) struct ElicitationSession<'a> {
    context: &'a RequestContext<RoleServer>,
    exchange: &'a GuardedExchange<'a>,
    /// The answers to earlier questions of this call.
    answers: InputResponses,
    /// The number of questions while the call waits.
    asked: usize,
}

/// The result of a question.
pub(super) enum ElicitationOutcome {
    Answer(ElicitResult),
    /// The client must ask the person, and call again with the answer.
    InputRequired(Box<InputRequiredResult>),
}

impl<'a> ElicitationSession<'a> {
    pub(super) fn new(
        context: &'a RequestContext<RoleServer>,
        exchange: &'a GuardedExchange<'a>,
        answers: Option<InputResponses>,
    ) -> Self {
        Self { context, exchange, answers: answers.unwrap_or_default(), asked: 0 }
    }

    /// Returns true when the client can show forms.
    pub(super) fn supports_forms(&self) -> bool {
        let elicitation = self.context.client_capabilities().and_then(|can| can.elicitation);
        // Before there were kinds of it, forms were the only one.
        elicitation.is_some_and(|can| can.form.is_some() || can.url.is_none())
    }

    /// Asks one question; questions with the same `key` are the same. If the answer comes with another
    /// call, that call also contains `state`.
    pub(super) async fn ask(
        &mut self,
        key: &str,
        message: String,
        schema: ElicitationSchema,
        state: Option<String>,
    ) -> Result<ElicitationOutcome, ToolError> {
        if let Some(answer) = self.answers.get(key) {
            let answer = serde_json::from_value(answer.clone());
            return answer.map(ElicitationOutcome::Answer).map_err(|error| {
                let message = format!("the answer to `{key}` is invalid: {error}");
                ToolError::for_caller(message, "Answer with `action` and `content`.")
            });
        }
        let params: Result<ElicitRequestParams, _> = serde_json::from_value(json!({
            "mode": "form", "message": message, "requestedSchema": schema,
        }));
        let params = params.map_err(|error| {
            ToolError::for_caller(format!("the user cannot be asked: {error}"), "Ask the user.")
        })?;
        let version = self.context.protocol_version();
        if version.is_some_and(|version| version >= ProtocolVersion::V_2026_07_28) {
            let question = InputRequest::Elicitation(ElicitRequest::new(params));
            let questions = BTreeMap::from([(key.to_owned(), question)]);
            return Ok(ElicitationOutcome::InputRequired(Box::new(InputRequiredResult::new(
                Some(questions),
                state,
            ))));
        }
        self.ask_now(key, params).await.map(ElicitationOutcome::Answer)
    }

    /// Asks the person while the call waits.
    async fn ask_now(
        &mut self,
        key: &str,
        params: ElicitRequestParams,
    ) -> Result<ElicitResult, ToolError> {
        self.asked += 1;
        let id = RequestId::String(key.into());
        let exchange = self.exchange.nested(self.asked, id, "elicitation/create");
        let params = exchange.check_request(params, None).await;
        let params =
            params.map_err(|words| ToolError::from_denial("the question to the user", &words))?;
        let peer = &self.context.peer;
        let answer = peer.create_elicitation_with_timeout(params, Some(ANSWER_TIMEOUT)).await;
        let answer = answer.map_err(|error| {
            let message = format!("the user did not answer the question: {error}");
            ToolError::for_caller(message, "Ask the user yourself, then call it again.")
        })?;
        let used = exchange.check_result(answer).await;
        used.map_err(|words| ToolError::from_denial("the answer of the user", &words))
    }
}

/// Creates a form with these fields; returns none when a field is secret or has a type that forms do not
/// support.
pub(super) fn form(fields: &[InputField]) -> Option<ElicitationSchema> {
    let mut properties = BTreeMap::new();
    for field in fields {
        if field.secret {
            return None;
        }
        properties.insert(field.name.clone(), to_form_field(field)?);
    }
    let names = fields.iter().map(|field| field.name.clone()).collect();
    Some(ElicitationSchema::new(properties).with_required(names))
}

/// Converts the schema of a field to a type of forms: text, number, boolean, or a choice of texts.
fn to_form_field(field: &InputField) -> Option<PrimitiveSchemaDefinition> {
    let schema = field.schema.as_object()?;
    let mut plain = JsonObject::new();
    let choices = schema.get("enum").and_then(Value::as_array);
    let kind = match schema.get("type") {
        Some(Value::String(kind)) => kind.as_str(),
        Some(_) => return None,
        None if choices.is_some() || schema.is_empty() => "string",
        None => return None,
    };
    if !matches!(kind, "string" | "number" | "integer" | "boolean") {
        return None;
    }
    plain.insert("type".to_owned(), json!(kind));
    if let Some(choices) = choices {
        if kind != "string" || !choices.iter().all(Value::is_string) {
            return None;
        }
        plain.insert("enum".to_owned(), json!(choices));
    }
    plain.insert("title".to_owned(), json!(field.name));
    if let Some(description) = &field.description {
        plain.insert("description".to_owned(), json!(to_single_line(description, MAX_WORDS)));
    }
    serde_json::from_value(Value::Object(plain)).ok()
}

/// Creates a form without fields, to accept or reject.
pub(super) fn yes_or_no() -> ElicitationSchema {
    ElicitationSchema::new(BTreeMap::new())
}

/// The values that the person has entered for the requested fields.
pub(super) fn filled_values(
    answer: &ElicitResult,
    fields: &[InputField],
) -> Option<Map<String, Value>> {
    if answer.action != ElicitationAction::Accept {
        return None;
    }
    let content = answer.content.as_ref().and_then(Value::as_object)?;
    let values = fields.iter().filter_map(|field| {
        content.get(&field.name).map(|value| (field.name.clone(), value.clone()))
    });
    Some(values.collect())
}

/// Returns true when a person has accepted.
pub(super) fn is_accepted(answer: &ElicitResult) -> bool {
    answer.action == ElicitationAction::Accept
}
