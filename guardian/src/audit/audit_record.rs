//! Records of the audit log, and the parts that they leave out.

use std::borrow::Cow;
use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use aos::message::{Method, MethodCall, Object, Request, RequestId};
use data_encoding::HEXLOWER;
use jiff::Timestamp;
use serde::ser::{SerializeMap as _, SerializeSeq as _};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::policy::{
    Approval, ApprovalEffect, ParsedTexts, Policy, PolicyDecision, QuotaCharge, caller_of, tool_of,
    user_of,
};

/// The maximum length of a text that is recorded whole, in bytes.
const MAX_TEXT: usize = 256;
/// The recorded bytes at the start of a longer text.
const MAX_TEXT_START: usize = 128;
/// The maximum number of items of an array, and of members of an object, that are recorded.
const MAX_ITEMS: usize = 32;
/// The nesting depth up to which content is recorded.
const MAX_DEPTH: usize = 48;
/// The text in place of a secret.
const SECRET: &str = "[secret]";
/// The maximum length of the content of a record, in bytes.
const MAX_CONTENT: usize = 16 << 10;

/// Words in the names of likely secrets. Other characters between their letters are ignored.
static SECRET_WORDS: LazyLock<AhoCorasick> = LazyLock::new(|| {
    let words = [
        "authorization",
        "apikey",
        "accesskey",
        "privatekey",
        "token",
        "password",
        "passwd",
        "passphrase",
        "secret",
        "cookie",
        "credential",
    ];
    let built = AhoCorasick::builder().ascii_case_insensitive(true).build(words);
    built.expect("a few short words")
});

/// One event of the log: the text of a JSON object.
#[derive(Clone, Debug)]
pub(crate) struct AuditRecord(Vec<u8>);

impl AsRef<[u8]> for AuditRecord {
    fn as_ref(&self) -> &[u8] {
        let Self(text) = self;
        text
    }
}

/// A message with the decision about it.
pub(crate) struct DecidedStep<'a> {
    pub(crate) request: &'a Request,
    /// The decision of the policy. If it cannot be written to the log, the response becomes a denial and
    /// there is no record.
    pub(crate) ruling: &'a PolicyDecision,
    pub(crate) policy: &'a Policy,
    /// The decision of the shadow policy, which is only tried.
    pub(crate) shadow: Option<(&'a PolicyDecision, &'a Policy)>,
}

/// The members of every event.
#[derive(Serialize)]
struct EventEnvelope<T> {
    event: &'static str,
    time: Timestamp,
    #[serde(flatten)]
    details: T,
}

#[derive(Serialize)]
struct DecisionDetails<'a> {
    request: Cow<'a, str>,
    method: Method,
    #[serde(flatten)]
    result: PolicyResult<'a>,
    #[serde(flatten)]
    place: Option<StepIds<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<RecordedAgent<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    caller: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    execution: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    charges: &'a [QuotaCharge],
    #[serde(skip_serializing_if = "Option::is_none")]
    approval: Option<&'a ApprovalEffect>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shadow: Option<ShadowResult<'a>>,
}

/// The result of a policy.
#[derive(Serialize)]
struct PolicyResult<'a> {
    decision: &'static str,
    message: Cow<'a, str>,
    reason_codes: &'a [String],
    rules: &'a [String],
    policy: &'a str,
}

#[derive(Serialize)]
struct StepIds<'a> {
    session: Cow<'a, str>,
    turn: Cow<'a, str>,
    step: Cow<'a, str>,
}

#[derive(Serialize)]
struct RecordedAgent<'a> {
    id: Cow<'a, str>,
    name: Cow<'a, str>,
    version: Cow<'a, str>,
}

#[derive(Serialize)]
struct ShadowResult<'a> {
    #[serde(flatten)]
    result: PolicyResult<'a>,
    differs: bool,
}

/// The outcome of a tool call, as the agent reports it.
#[derive(Serialize)]
struct OutcomeDetails<'a> {
    execution: &'a Option<Cow<'a, str>>,
    is_error: bool,
    #[serde(flatten)]
    place: &'a Option<StepIds<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: &'a Option<Cow<'a, str>>,
}

impl AuditRecord {
    /// Returns the records of one step: the outcome of a tool call that the agent reports, then the
    /// decision. `opened` has the parsed texts.
    pub(crate) fn from_step(
        time: Timestamp,
        step: &DecidedStep<'_>,
        opened: &mut ParsedTexts,
    ) -> Vec<Self> {
        let call = &step.request.call;
        let capability = context_member_json(call, "capability", None);
        let prepared = context_member_json(call, "request", Some(opened));
        let hidden = context_member_json(call, "hidden", None);
        let decided = DecisionDetails::from_step(step);
        let mut entries = Vec::with_capacity(2);
        if let MethodCall::ToolCallResult(result) = call {
            let DecisionDetails { execution, place, tool, .. } = &decided;
            let is_error = result.result.is_error;
            let outcome = OutcomeDetails { execution, is_error, place, tool };
            let outcome = Self::new("outcome", time, outcome);
            entries.push(outcome.with_json("capability", capability.as_deref()));
        }
        let decision = Self::new("decision", time, decided);
        let call = step.policy.redact(call, opened);
        let is_redacted = matches!(call, Cow::Owned(_));
        let content = content_json(&call, opened);
        entries.push(
            decision
                .with_json("capability", capability.as_deref())
                .with_json("prepared", prepared.as_deref())
                .with_json("hidden", hidden.as_deref())
                .with_json("redacted", is_redacted.then_some(b"true".as_slice()))
                .with_json("content", Some(&content)),
        );
        entries
    }

    /// The description of the act that a person sees when they have to approve it.
    pub(crate) fn subject(&self) -> Value {
        let details: Object = serde_json::from_slice(self.as_ref()).unwrap_or_default();
        subject_from_details(&details)
    }

    /// Creates the record of an unfinished line that a crash left and that was set aside.
    pub(crate) fn new_recovery(time: Timestamp, bytes: u64) -> Self {
        Self::new("recovery", time, json!({"set_aside_bytes": bytes}))
    }

    /// Creates the record of the start of a segment, with the time of the first entry in it.
    pub(crate) fn new_segment(segment: u64, entries: &[impl AsRef<[u8]>]) -> Self {
        #[derive(serde::Deserialize)]
        struct TimedRecord {
            time: Timestamp,
        }
        let first = entries.first().and_then(|entry| serde_json::from_slice(entry.as_ref()).ok());
        let time = first.map_or(Timestamp::UNIX_EPOCH, |TimedRecord { time }| time);
        Self::new("segment", time, json!({ "segment": segment }))
    }

    /// Creates the record of a policy that came into force, or that is only tried.
    pub(crate) fn from_policy(time: Timestamp, policy: &Policy, is_shadow: bool) -> Self {
        let event = if is_shadow { "shadow_policy" } else { "policy" };
        Self::new(event, time, json!({"policy": policy.digest(), "rules": policy.rule_count()}))
    }

    /// Creates the record of a person's decision, or of a withdrawal.
    pub(crate) fn from_approval(time: Timestamp, approval: &Approval) -> Self {
        let cut_text = |text: &String| truncate_text(text).into_owned();
        let approval = Approval {
            subject: Value::Null,
            decided_by: approval.decided_by.as_ref().map(cut_text),
            reason: approval.reason.as_ref().map(cut_text),
            ..approval.clone()
        };
        Self::new("approval", time, json!({"approval": approval}))
    }

    fn new(event: &'static str, time: Timestamp, details: impl Serialize) -> Self {
        let text = serde_json::to_vec(&EventEnvelope { event, time, details });
        Self(text.expect("an event is an object of plain data"))
    }

    /// Adds a member whose value is already JSON.
    fn with_json(self, name: &str, json: Option<&[u8]>) -> Self {
        let Some(json) = json else { return self };
        let Self(mut text) = self;
        text.pop();
        text.extend_from_slice(b",\"");
        text.extend_from_slice(name.as_bytes());
        text.extend_from_slice(b"\":");
        text.extend_from_slice(json);
        text.push(b'}');
        Self(text)
    }
}

impl<'a> DecisionDetails<'a> {
    fn from_step(step: &'a DecidedStep<'_>) -> Self {
        let DecidedStep { request, ruling, policy, shadow } = step;
        let call = &request.call;
        let context = call.context();
        Self {
            request: match &request.id {
                RequestId::Text(id) => truncate_text(id),
                RequestId::Number(id) => id.to_string().into(),
            },
            method: call.method(),
            result: PolicyResult::from_decision(ruling, policy),
            place: context.map(|context| StepIds {
                session: truncate_text(&context.session.id),
                turn: truncate_text(&context.turn_id),
                step: truncate_text(&context.step_id),
            }),
            agent: context.map(|context| RecordedAgent {
                id: truncate_text(&context.agent.id),
                name: truncate_text(&context.agent.name),
                version: truncate_text(&context.agent.version),
            }),
            user: user_of(call).map(truncate_text),
            caller: caller_of(call).map(truncate_text),
            execution: match call {
                MethodCall::ToolCallRequest(step) => {
                    Some(truncate_text(&step.tool_call_request.execution_id))
                }
                MethodCall::ToolCallResult(step) => Some(truncate_text(&step.execution_id)),
                _ => None,
            },
            tool: tool_of(call).map(truncate_text),
            charges: &ruling.effects.charges,
            approval: ruling.effects.approval.as_ref(),
            shadow: shadow.map(|(shadow, policy)| ShadowResult {
                result: PolicyResult::from_decision(shadow, policy),
                differs: !shadow.has_same_effect(ruling),
            }),
        }
    }
}

impl<'a> PolicyResult<'a> {
    fn from_decision(ruling: &'a PolicyDecision, policy: &'a Policy) -> Self {
        Self {
            decision: ruling.response.decision.as_str(),
            message: truncate_text(&ruling.response.message),
            reason_codes: &ruling.response.reason_codes,
            rules: &ruling.rules,
            policy: policy.digest(),
        }
    }
}

/// The members of a decision record that describe the act itself.
pub(super) fn subject_from_details(details: &Object) -> Value {
    let names = [
        "method",
        "tool",
        "capability",
        "agent",
        "user",
        "caller",
        "session",
        "step",
        "prepared",
        "content",
    ];
    let present = |name: &str| Some((name.to_owned(), details.get(name)?.clone()));
    names.into_iter().filter_map(present).collect::<Object>().into()
}

/// Returns a member of the context as JSON, cut to the limits of a record: the capability that runs, or the
/// prepared request. The record has the latter as `prepared`, since `request` is the message.
fn context_member_json(
    call: &MethodCall,
    name: &str,
    opened: Option<&ParsedTexts>,
) -> Option<Vec<u8>> {
    let members = call.context()?.extra.get(name)?;
    Some(to_json(&TruncatedMembers { members, depth: MAX_DEPTH - 1, opened }))
}

/// Returns the params of a message without its context as JSON, cut to the limits of a record.
fn content_json(call: &MethodCall, opened: &ParsedTexts) -> Vec<u8> {
    let act = call.to_params_without_context();
    let content = truncate_value(&act, opened);
    if content.len() <= MAX_CONTENT {
        content
    } else {
        json!({"cut": describe_text(&act.to_string())}).to_string().into_bytes()
    }
}

/// Returns the value as JSON, with secrets replaced and long texts and lists truncated.
fn truncate_value(value: &Value, opened: &ParsedTexts) -> Vec<u8> {
    to_json(&TruncatedValue { value, depth: MAX_DEPTH, opened: Some(opened) })
}

fn to_json(cut: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(cut).expect("a JSON value can always be written")
}

/// Truncates a long text. JSON inside it is truncated as JSON, because it may name secrets.
fn truncate_text(text: &str) -> Cow<'_, str> {
    truncate_text_within(text, MAX_DEPTH, None)
}

/// A value that is truncated when it is written.
struct TruncatedValue<'a> {
    value: &'a Value,
    depth: usize,
    /// The texts that are parsed already.
    opened: Option<&'a ParsedTexts>,
}

/// The members of an object that are truncated when they are written.
struct TruncatedMembers<'a> {
    members: &'a Object,
    depth: usize,
    opened: Option<&'a ParsedTexts>,
}

impl Serialize for TruncatedValue<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { value, depth, opened } = *self;
        let Some(depth) = depth.checked_sub(1) else {
            return serializer.serialize_str(&describe_text(&value.to_string()));
        };
        match value {
            Value::String(text) => {
                serializer.serialize_str(&truncate_text_within(text, depth, opened))
            }
            Value::Array(items) => {
                let mut list = serializer.serialize_seq(None)?;
                for value in items.iter().take(MAX_ITEMS) {
                    list.serialize_element(&TruncatedValue { value, depth, opened })?;
                }
                if MAX_ITEMS < items.len() {
                    list.serialize_element(&format!("[{} more]", items.len() - MAX_ITEMS))?;
                }
                list.end()
            }
            Value::Object(members) => {
                TruncatedMembers { members, depth, opened }.serialize(serializer)
            }
            plain @ (Value::Null | Value::Bool(_) | Value::Number(_)) => {
                plain.serialize(serializer)
            }
        }
    }
}

impl Serialize for TruncatedMembers<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { members, depth, opened } = *self;
        // An input of a tool is a pair of members: its name says what its value is.
        let is_secret_input = members.contains_key("value")
            && members.get("name").and_then(Value::as_str).is_some_and(is_secret_name);
        let mut map = serializer.serialize_map(None)?;
        for (name, value) in members.iter().take(MAX_ITEMS) {
            let is_secret = is_secret_name(name) || (is_secret_input && name == "value");
            let name = truncate_plain_text(name);
            match is_secret && !value.is_null() {
                true => map.serialize_entry(&name, SECRET)?,
                false => map.serialize_entry(&name, &TruncatedValue { value, depth, opened })?,
            }
        }
        if MAX_ITEMS < members.len() {
            map.serialize_entry("…", &format!("[{} more]", members.len() - MAX_ITEMS))?;
        }
        map.end()
    }
}

fn truncate_text_within<'t>(
    text: &'t str,
    depth: usize,
    opened: Option<&ParsedTexts>,
) -> Cow<'t, str> {
    if !text.trim_start().starts_with(['{', '[']) {
        return truncate_plain_text(text);
    }
    let known = opened.and_then(|opened| opened.get(text));
    let read: Option<Value> = match known {
        Some(_) => None,
        None => serde_json::from_str(text).ok(),
    };
    let Some(value) = known.or(read.as_ref()) else { return truncate_plain_text(text) };
    match serde_json::to_string(&TruncatedValue { value, depth, opened }) {
        Ok(kept) if kept.len() <= MAX_CONTENT / 4 => kept.into(),
        _ => describe_text(text).into(),
    }
}

/// Returns the start of a long text, and a short text unchanged.
fn truncate_plain_text(text: &str) -> Cow<'_, str> {
    if text.len() <= MAX_TEXT {
        return text.into();
    }
    let end =
        (0..=MAX_TEXT_START).rev().find(|&end| text.is_char_boundary(end)).unwrap_or_default();
    format!("{}… {}", &text[..end], describe_text(text)).into()
}

/// Returns true when the record of a decision leaves out a part of its message: a secret, what a rule
/// redacts, or the rest of something long.
pub(crate) fn leaves_out(record: &Value) -> bool {
    fn is_gap(value: &Value) -> bool {
        match value {
            Value::String(text) => {
                text.contains(SECRET)
                    || text.contains(" bytes, sha256:")
                    || text.ends_with(" more]")
            }
            Value::Array(items) => items.iter().any(is_gap),
            Value::Object(members) => members.values().any(is_gap),
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }
    record["redacted"] == true || is_gap(&record["content"]) || is_gap(&record["prepared"])
}

/// Returns the length and digest of a text, by which it can be recognised later.
fn describe_text(text: &str) -> String {
    format!("[{} bytes, sha256:{}]", text.len(), HEXLOWER.encode(&Sha256::digest(text)))
}

/// Returns true when a value of this name is likely to be a secret.
fn is_secret_name(name: &str) -> bool {
    if name.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return SECRET_WORDS.is_match(name);
    }
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    SECRET_WORDS.is_match(&plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(value: &Value, expected: &Value) {
        assert_eq!(
            serde_json::from_slice::<Value>(&truncate_value(value, &ParsedTexts::default()))
                .unwrap(),
            *expected
        );
    }

    #[test]
    fn what_is_named_like_a_secret_is_not_recorded() {
        check(
            &json!({"Authorization": "Bearer x", "x-api-key": 1, "user": {"passWord": ["a"]}, "city": "Paris"}),
            &json!({"Authorization": "[secret]", "x-api-key": "[secret]", "user": {"passWord": "[secret]"}, "city": "Paris"}),
        );
        check(
            &json!([{"name": "headerParameters.X-Api-Key", "value": "k"}, {"name": "city", "value": "Paris"}]),
            &json!([{"name": "headerParameters.X-Api-Key", "value": "[secret]"}, {"name": "city", "value": "Paris"}]),
        );
        check(
            &json!("{\"access_token\":\"t\",\"ok\":true}"),
            &json!("{\"access_token\":\"[secret]\",\"ok\":true}"),
        );
    }

    /// JSON in a text in JSON in a text, each as deep as its reader takes.
    #[test]
    fn depth_is_bounded() {
        let mut text = "x".to_owned();
        for _ in 0..9 {
            text = format!("{}{}{}", "[".repeat(120), Value::from(text), "]".repeat(120));
        }
        let kept = truncate_text(&text);
        assert!(kept.contains("sha256:") && kept.len() < 1000, "{kept}");
    }

    #[test]
    fn long_things_are_cut_and_can_be_recognised() {
        let long = "é".repeat(400);
        let kept = truncate_text(&long);
        assert!(kept.starts_with(&"é".repeat(64)) && kept.contains("800 bytes, sha256:"), "{kept}");
        check(&json!(vec![1; 40]), &{
            let mut kept = vec![json!(1); 32];
            kept.push(json!("[8 more]"));
            json!(kept)
        });
    }
}
