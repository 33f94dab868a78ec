//! What a person has to approve: bound to what is done, good for one time, with an end.

use aos::message::{Call, Request};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::facts::Names;

/// An act that waits for a person, or about which one has decided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Approval {
    /// Its id.
    pub id: String,
    /// The rule that wants it.
    pub rule: String,
    /// The digest of what is done, by whom and for whom: an approval is good for that alone.
    pub binding: String,
    /// How it stands.
    pub state: State,
    /// When it was first asked for.
    #[schema(value_type = String, format = DateTime)]
    pub asked: Timestamp,
    /// When it ends, decided or not.
    #[schema(value_type = String, format = DateTime)]
    pub until: Timestamp,
    /// How long it is good for once it is given, in seconds.
    pub within_seconds: i64,
    /// What is done, redacted and cut as in the audit log.
    #[serde(default)]
    #[schema(value_type = Object)]
    pub subject: Value,
    /// Who has decided, as they call themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why, in their words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// How an approval stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Nobody has decided yet.
    Waiting,
    /// A person has agreed, and it is not used yet.
    Approved,
    /// A person has refused.
    Rejected,
    /// It was used.
    Used,
}

/// What a person has decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    /// Whether they agree.
    pub is_approved: bool,
    /// Who they are, as they say.
    pub by: Option<String>,
    /// Why, in their words.
    pub reason: Option<String>,
}

/// What is wanted by a rule for a message.
pub(super) struct Wanted<'a> {
    pub(super) rule: &'a str,
    pub(super) binding: String,
    pub(super) within: SignedDuration,
}

impl Approval {
    pub(super) fn asked(wanted: Wanted<'_>, now: Timestamp, number: u64) -> Self {
        let id = super::digest_of(&format!("{number} {now} {} {}", wanted.rule, wanted.binding));
        // Twelve digits are enough to tell a thousand apart, and few enough to be read out.
        let id = id.trim_start_matches("sha256:").chars().take(12).collect();
        Self {
            id,
            rule: wanted.rule.to_owned(),
            binding: wanted.binding,
            state: State::Waiting,
            asked: now,
            until: later(now, wanted.within),
            within_seconds: wanted.within.as_secs(),
            subject: Value::Null,
            by: None,
            reason: None,
        }
    }

    pub(super) fn is_for(&self, wanted: &Wanted<'_>) -> bool {
        self.state != State::Used && self.rule == wanted.rule && self.binding == wanted.binding
    }

    pub(super) fn after(&self, decided: &Decided, now: Timestamp) -> Self {
        let state = if decided.is_approved { State::Approved } else { State::Rejected };
        let until = later(now, SignedDuration::from_secs(self.within_seconds));
        let (by, reason) = (decided.by.clone(), decided.reason.clone());
        Self { state, until, by, reason, ..self.clone() }
    }
}

fn later(now: Timestamp, within: SignedDuration) -> Timestamp {
    now.saturating_add(within).unwrap_or(Timestamp::MAX)
}

/// The digest of what a message does, for whom and by whom. Ids of the message, of its run, turn and
/// step, its time and its reasoning are left out: who asks again has others, and does the same.
pub(super) fn binding(call: &Call) -> String {
    let of = Names::of(call);
    let message = Request { id: 0.into(), call: call.clone() };
    let mut params = serde_json::to_value(&message).unwrap_or_default()["params"].take();
    if let Value::Object(params) = &mut params {
        params.retain(|name, _| name != "context" && name != "reasoning");
        for name in ["toolCallRequest", "toolCallResult"] {
            if let Some(Value::Object(inner)) = params.get_mut(name) {
                inner.retain(|name, _| name != "executionId");
            }
        }
        if let Some(Value::Object(message)) = params.get_mut("message") {
            message.retain(|name, _| name != "id");
        }
    }
    let capability = call.context().and_then(|context| context.extra.get("capability"));
    let member = |name: &str| capability.and_then(|members| members.get(name)).cloned();
    let mut act = json!({
        "method": call.method(),
        "agent": of.agent,
        "user": of.user,
        "capability": [member("name"), member("version"), member("digest"), member("root")],
        "params": sorted(params),
    });
    if !of.caller.is_empty() {
        act["caller"] = of.caller.into();
    }
    super::digest_of(&act.to_string())
}

/// With the members of every object in order, so that one content has one text. Numbers stay as they
/// are: two that differ are never written alike.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.into_iter().collect();
            members.sort_by(|(a, _), (b, _)| a.cmp(b));
            let members = members.into_iter().map(|(name, value)| (name, sorted(value)));
            Value::Object(members.collect::<Map<_, _>>())
        }
        Value::Array(items) => items.into_iter().map(sorted).collect(),
        other => other,
    }
}
