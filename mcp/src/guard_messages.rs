//! MCP messages in front of the guardians: every request before anything is done for it, every
//! answer before it is sent (`protocols/MCP`).

use std::collections::BTreeSet;

use a2s::to_single_line;
use rmcp::model::{ElicitResult, JsonObject, RequestId};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::elicitation::is_accepted;
use super::run_tool::CONFIRM;
use super::server::McpServerState;
use agent::{ADDED_CONSENT, Guard, GuardContext, RedactedInputs};

/// The most characters of a guardian's message that are reported.
const MAX_WORDS: usize = 500;

/// The inputs of a capability in a request.
#[derive(Debug, Clone)]
pub(super) struct RequestInputs {
    /// The path to the inputs in `params`.
    pub(super) path: &'static [&'static str],
    /// The inputs among them that guardians may not see.
    pub(super) hidden: RedactedInputs,
}

/// A message and its response, as the guardians see them.
pub(super) struct GuardedExchange<'a> {
    pub(super) shared: &'a McpServerState,
    /// The guardians of the caller.
    pub(super) guard: &'a Guard,
    pub(super) session: &'a str,
    pub(super) id: RequestId,
    pub(super) method: &'static str,
    /// The turn: a call, and the questions that belong to it.
    pub(super) turn: String,
    /// The prefix of its step names, so that they are unique in a turn.
    prefix: String,
}

impl<'a> GuardedExchange<'a> {
    /// Creates the exchange for a message that begins a turn.
    pub(super) fn new(
        shared: &'a McpServerState,
        guard: &'a Guard,
        session: &'a str,
        id: RequestId,
        method: &'static str,
        turn: String,
    ) -> Self {
        Self { shared, guard, session, id, method, turn, prefix: String::new() }
    }

    /// A request to the client within the same turn, with its `number`. `id` stands for the id that the
    /// request gets when it is sent.
    pub(super) fn nested(&self, number: usize, id: RequestId, method: &'static str) -> Self {
        let prefix = format!("ask-{number}-");
        let Self { shared, guard, session, .. } = *self;
        let turn = self.turn.clone();
        Self { shared, guard, session, id, method, turn, prefix }
    }

    /// Asks the guardians about a request and returns the params to use: unchanged, or as the guardians
    /// have modified them. The params contain the `inputs` of a capability, or none.
    ///
    /// # Errors
    /// The message of the guardian that forbids the request, or the reason why its modification cannot be
    /// used.
    pub(super) async fn check_request<P: Serialize + DeserializeOwned>(
        &self,
        params: P,
        inputs: Option<&RequestInputs>,
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
            return Err("the guardian must not change the method of a message".to_owned());
        }
        let mut params = message.remove("params").unwrap_or_default();
        if let Some(inputs) = inputs {
            inputs.reveal(&mut params, &before);
        }
        accept_change(&before, params)
    }

    /// Asks the guardians about a result and returns the result to send: unchanged, or as the guardians
    /// have modified it.
    ///
    /// # Errors
    /// The message of the guardian that forbids the result, or the reason why its modification cannot be
    /// used.
    pub(super) async fn check_result<R: Serialize + DeserializeOwned>(
        &self,
        result: R,
    ) -> Result<R, String> {
        let before = json!(result);
        let message =
            object([("jsonrpc", json!("2.0")), ("id", json!(self.id)), ("result", before.clone())]);
        let Some(mut message) = self.ask("result", message).await? else { return Ok(result) };
        accept_change(&before, message.remove("result").unwrap_or_default())
    }

    /// The message that the guardians want instead of this one; none when it stays as it is.
    async fn ask(&self, step: &str, message: JsonObject) -> Result<Option<JsonObject>, String> {
        let step = format!("{}{step}", self.prefix);
        let scene = GuardContext { session: self.session, turn: &self.turn, step: &step };
        let guarded = self.guard.check_mcp(scene, message.clone()).await;
        let used = guarded.outcome.map_err(|denial| denial.message)?;
        if used == message {
            return Ok(None);
        }
        let is_same = |name: &str| used.get(name) == message.get(name);
        if !is_same("jsonrpc") || !is_same("id") {
            return Err("the guardian must not change `jsonrpc` or `id` of a message".to_owned());
        }
        Ok(Some(used))
    }
}

fn object<const N: usize>(members: [(&str, Value); N]) -> JsonObject {
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Reads the value that the guardians want instead of `before`. An error when it cannot be used, or adds a
/// consent that the person did not give.
fn accept_change<T: Serialize + DeserializeOwned>(
    before: &Value,
    wanted: Value,
) -> Result<T, String> {
    let wanted: T = serde_json::from_value(wanted).map_err(|error| {
        let error = to_single_line(&error.to_string(), MAX_WORDS);
        format!("the modification of the guardian cannot be used: {error}")
    })?;
    match confirmed_questions(&json!(wanted)).is_subset(&confirmed_questions(before)) {
        true => Ok(wanted),
        false => Err(ADDED_CONSENT.to_owned()),
    }
}

/// The questions that a message consents to: those with their answers in a call, by key, and the question
/// that the message itself answers, which needs no name.
fn confirmed_questions(message: &Value) -> BTreeSet<&str> {
    // However an answer is written, it is read as it is where it counts.
    let says_yes =
        |answer: &Value| ElicitResult::deserialize(answer).is_ok_and(|it| is_accepted(&it));
    let answers = message.get("inputResponses").and_then(Value::as_object);
    let answers = answers.into_iter().flatten().filter(|(_, answer)| says_yes(answer));
    // A client without forms says yes by an argument.
    let confirmed = message.get("arguments").and_then(|arguments| arguments.get(CONFIRM)?.as_str());
    let answers = answers.map(|(key, _)| key.as_str());
    answers.chain(says_yes(message).then_some("")).chain(confirmed).collect()
}

impl RequestInputs {
    fn hide(&self, params: &mut Value) {
        if let Some(inputs) = self.of_mut(params) {
            self.hidden.redact(inputs);
        }
    }

    fn reveal(&self, params: &mut Value, before: &Value) {
        let before = self.path.iter().try_fold(before, |value, name| value.get(*name));
        if let (Some(inputs), Some(before)) =
            (self.of_mut(params), before.and_then(Value::as_object))
        {
            self.hidden.restore(inputs, before);
        }
    }

    fn of_mut<'v>(&self, params: &'v mut Value) -> Option<&'v mut JsonObject> {
        let found = self.path.iter().try_fold(params, |value, name| value.get_mut(*name));
        found.and_then(Value::as_object_mut)
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::CallToolRequestParams;

    use super::*;

    #[test]
    fn no_yes_is_added_however_it_is_written() {
        let call = |answers: Value| json!({"name": "t", "inputResponses": answers});
        let check = |before: &Value, after: Value, is_used: bool| {
            let used =
                accept_change::<CallToolRequestParams>(&call(before.clone()), call(after.clone()));
            assert_eq!(used.is_ok(), is_used, "{before} {after}");
        };
        let (yes, no) = (json!({"action": "accept"}), json!({"action": "decline"}));
        let said = json!({"a": yes, "b": no});
        check(&said, said.clone(), true);
        check(&said, json!({"a": {"action": "accept", "content": {"text": "quiet"}}}), true);
        check(&said, json!({"a": no}), true);
        check(&said, json!({}), true);
        check(&said, json!({"a": yes, "b": yes}), false);
        check(&said, json!({"c": yes}), false);
        for other in [json!({"action": {"accept": null}}), json!(["accept", null, null])] {
            check(&said, json!({"b": other}), false);
        }

        let confirmed = |digest: &str| json!({"name": "t", "arguments": {CONFIRM: digest}});
        let with = |before: &Value, after| accept_change::<CallToolRequestParams>(before, after);
        assert!(with(&confirmed("a"), confirmed("a")).is_ok());
        assert!(with(&confirmed("a"), json!({"name": "t", "arguments": {}})).is_ok());
        assert!(with(&confirmed("a"), confirmed("b")).is_err());
        assert!(with(&json!({"name": "t"}), confirmed("a")).is_err());

        assert!(accept_change::<ElicitResult>(&yes, no.clone()).is_ok());
        assert!(accept_change::<ElicitResult>(&no, no.clone()).is_ok());
        assert!(accept_change::<ElicitResult>(&no, yes).is_err());
    }
}
