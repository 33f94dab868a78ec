//! MCP messages in front of the guardians: every request before anything is done for it, every
//! answer before it is sent (`protocols/MCP`).

use a2s::one_line;
use rmcp::model::{JsonObject, RequestId};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::server::Shared;
use crate::guard::{Hidden, Scene};

/// The longest words of a guardian that are told.
const MAX_WORDS: usize = 500;

/// The inputs of a capability in a request.
#[derive(Debug, Clone)]
pub(super) struct Inputs {
    /// The members of `params` that lead to them.
    pub(super) way: &'static [&'static str],
    /// Which of them guardians are not shown.
    pub(super) hidden: Hidden,
}

/// A message and its answer, as the guardians see them.
pub(super) struct Exchange<'a> {
    pub(super) shared: &'a Shared,
    pub(super) session: &'a str,
    pub(super) id: RequestId,
    pub(super) method: &'static str,
    /// The turn: a call, and what is asked for its sake.
    pub(super) turn: String,
    /// What its steps are named with, so that no two of a turn are named alike.
    prefix: String,
}

impl<'a> Exchange<'a> {
    /// A message that begins a turn.
    pub(super) fn new(
        shared: &'a Shared,
        session: &'a str,
        id: RequestId,
        method: &'static str,
        turn: String,
    ) -> Self {
        Self { shared, session, id, method, turn, prefix: String::new() }
    }

    /// A request to the client within the same turn, the `number`th. `id` stands for the one that it
    /// gets when it is sent.
    pub(super) fn within(&self, number: usize, id: RequestId, method: &'static str) -> Self {
        let prefix = format!("ask-{number}-");
        let (shared, session, turn) = (self.shared, self.session, self.turn.clone());
        Self { shared, session, id, method, turn, prefix }
    }

    /// The params that are used: as they came, or as the guardians want them. They have `inputs`
    /// of a capability, or none.
    ///
    /// # Errors
    /// The words of the guardian that forbids it, or why what it wants cannot be done.
    pub(super) async fn request<P: Serialize + DeserializeOwned>(
        &self,
        params: P,
        inputs: Option<&Inputs>,
    ) -> Result<P, String> {
        let before = json!(params);
        let mut shown = before.clone();
        if let Some(inputs) = inputs {
            inputs.hide(&mut shown);
        }
        let message = object([
            ("jsonrpc", json!("2.0")),
            ("id", json!(self.id)),
            ("method", json!(self.method)),
            ("params", shown),
        ]);
        let Some(mut message) = self.ask("request", message).await? else { return Ok(params) };
        if message.get("method").and_then(Value::as_str) != Some(self.method) {
            return Err("the guardian wants another method, which cannot be done".to_owned());
        }
        let mut params = message.remove("params").unwrap_or_default();
        if let Some(inputs) = inputs {
            inputs.reveal(&mut params, &before);
        }
        serde_json::from_value(params).map_err(|error| unusable(&error))
    }

    /// The answer that is sent: as it is, or as the guardians want it.
    ///
    /// # Errors
    /// The words of the guardian that forbids it, or why what it wants cannot be done.
    pub(super) async fn answer<R: Serialize + DeserializeOwned>(
        &self,
        result: R,
    ) -> Result<R, String> {
        let message =
            object([("jsonrpc", json!("2.0")), ("id", json!(self.id)), ("result", json!(result))]);
        let Some(mut message) = self.ask("result", message).await? else { return Ok(result) };
        let result = message.remove("result").unwrap_or_default();
        serde_json::from_value(result).map_err(|error| unusable(&error))
    }

    /// What the guardians want in the place of a message; none when it may stay as it is.
    async fn ask(&self, step: &str, message: JsonObject) -> Result<Option<JsonObject>, String> {
        let step = format!("{}{step}", self.prefix);
        let scene = Scene { session: self.session, turn: &self.turn, step: &step };
        let guarded = self.shared.guard.mcp(scene, message.clone()).await;
        let used = guarded.outcome.map_err(|denial| denial.message)?;
        if used == message {
            return Ok(None);
        }
        let is_same = |name: &str| used.get(name) == message.get(name);
        if !is_same("jsonrpc") || !is_same("id") {
            return Err("the guardian wants another message, which cannot be done".to_owned());
        }
        Ok(Some(used))
    }
}

fn object<const N: usize>(members: [(&str, Value); N]) -> JsonObject {
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn unusable(error: &serde_json::Error) -> String {
    let error = one_line(&error.to_string(), MAX_WORDS);
    format!("what the guardian wants instead cannot be used: {error}")
}

impl Inputs {
    fn hide(&self, params: &mut Value) {
        if let Some(inputs) = self.of_mut(params) {
            self.hidden.hide(inputs);
        }
    }

    fn reveal(&self, params: &mut Value, before: &Value) {
        let before = self.way.iter().try_fold(before, |value, name| value.get(*name));
        if let (Some(inputs), Some(before)) =
            (self.of_mut(params), before.and_then(Value::as_object))
        {
            self.hidden.reveal(inputs, before);
        }
    }

    fn of_mut<'v>(&self, params: &'v mut Value) -> Option<&'v mut JsonObject> {
        let found = self.way.iter().try_fold(params, |value, name| value.get_mut(*name));
        found.and_then(Value::as_object_mut)
    }
}
