//! MCP messages in front of the guardians: every request before anything is done for it, every
//! answer before it is sent (`protocols/MCP`).

use a2s::{HIDDEN, one_line};
use rmcp::model::{JsonObject, RequestId};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::server::Shared;
use crate::guard::Scene;

/// The longest words of a guardian that are told.
const MAX_WORDS: usize = 500;

/// Inputs of a capability whose values nobody is shown.
#[derive(Debug, Clone, Default)]
pub(super) struct Hidden {
    /// The members of `params` that lead to the inputs.
    pub(super) way: &'static [&'static str],
    /// Their names; none stands for all: nothing is known of the capability.
    pub(super) names: Option<Vec<String>>,
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

    /// The params that are used: as they came, or as the guardians want them.
    ///
    /// # Errors
    /// The words of the guardian that forbids it, or why what it wants cannot be done.
    pub(super) async fn request<P: Serialize + DeserializeOwned>(
        &self,
        params: P,
        hidden: &Hidden,
    ) -> Result<P, String> {
        let mut shown = json!(params);
        let kept = hidden.take(&mut shown);
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
        hidden.put_back(&mut params, kept);
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

impl Hidden {
    /// Takes the hidden values out, and leaves a word in their places.
    fn take(&self, params: &mut Value) -> JsonObject {
        let Some(inputs) = self.inputs(params) else { return JsonObject::new() };
        let is_hidden = |name: &str| match &self.names {
            Some(names) => names.iter().any(|hidden| hidden == name),
            None => true,
        };
        let mut kept = JsonObject::new();
        for (name, value) in inputs.iter_mut().filter(|(name, _)| is_hidden(name)) {
            kept.insert(name.clone(), std::mem::replace(value, json!(HIDDEN)));
        }
        kept
    }

    /// Puts them back where that word still stands.
    fn put_back(&self, params: &mut Value, kept: JsonObject) {
        let Some(inputs) = self.inputs(params) else { return };
        for (name, value) in kept {
            if let Some(place) = inputs.get_mut(&name)
                && *place == HIDDEN
            {
                *place = value;
            }
        }
    }

    fn inputs<'v>(&self, params: &'v mut Value) -> Option<&'v mut JsonObject> {
        let found = self.way.iter().try_fold(params, |value, name| value.get_mut(*name));
        found.and_then(Value::as_object_mut).filter(|_| !self.way.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guardians_see_no_secret_and_cannot_move_one() {
        let hidden = Hidden {
            way: &["arguments", "inputs"],
            names: Some(vec!["pin".to_owned(), "key".to_owned()]),
        };
        let call = json!({"arguments": {"inputs": {"pin": 1234, "key": "k", "city": "Bern"}}});
        let mut shown = call.clone();
        let kept = hidden.take(&mut shown);
        let inputs = json!({"pin": HIDDEN, "key": HIDDEN, "city": "Bern"});
        assert_eq!(shown["arguments"]["inputs"], inputs);
        let mut same = shown.clone();
        hidden.put_back(&mut same, kept.clone());
        assert_eq!(same, call);
        // Another value in its place stays; a value is put where it came from, and nowhere else.
        shown["arguments"]["inputs"] = json!({"pin": 1, "city": HIDDEN});
        hidden.put_back(&mut shown, kept);
        assert_eq!(shown["arguments"]["inputs"], json!({"pin": 1, "city": HIDDEN}));
        let all = Hidden { way: &["arguments"], names: None };
        let mut shown = json!({"arguments": {"a": 1, "b": [2]}});
        all.take(&mut shown);
        assert_eq!(shown["arguments"], json!({"a": HIDDEN, "b": HIDDEN}));
    }
}
