//! What a record says, and what it leaves out.

use aos::message::{Call, Object, Request};
use data_encoding::HEXLOWER;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::policy::{Approval, Opened, Policy, Ruling, tool_of};

/// Longest text that is recorded whole, in bytes.
const MAX_TEXT: usize = 256;
/// How much of a longer text is recorded.
const TEXT_START: usize = 128;
/// Most items of an array and members of an object that are recorded.
const MAX_ITEMS: usize = 32;
/// How deep content is recorded.
const MAX_DEPTH: usize = 48;
/// Longest content of a record, in bytes.
const MAX_CONTENT: usize = 16 << 10;

/// One event of the log.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Entry {
    event: &'static str,
    time: Timestamp,
    #[serde(flatten)]
    details: Object,
}

/// A message, and what was said of it.
pub(crate) struct Step<'a> {
    pub(crate) request: &'a Request,
    /// What the policy said. The answer may still become a denial if this cannot be written, and
    /// then there is no record.
    pub(crate) ruling: &'a Ruling,
    pub(crate) policy: &'a Policy,
    /// What the policy would have said that is only tried.
    pub(crate) shadow: Option<(&'a Ruling, &'a Policy)>,
}

impl Entry {
    /// The records of one step: what the agent tells that came of a tool call, then the decision.
    /// `opened` is what is known of the texts of its message.
    pub(crate) fn of_step(time: Timestamp, step: &Step<'_>, opened: Opened) -> Vec<Self> {
        let decision = Self::of_decision(time, step, opened);
        match &step.request.call {
            Call::ToolCallResult(result) => {
                let mut details = json!({
                    "execution": decision.details["execution"],
                    "is_error": result.result.is_error,
                });
                for name in ["session", "turn", "step", "tool", "capability"] {
                    if let Some(value) = decision.details.get(name) {
                        details[name] = value.clone();
                    }
                }
                vec![Self::new("outcome", time, details), decision]
            }
            _ => vec![decision],
        }
    }

    fn of_decision(time: Timestamp, step: &Step<'_>, opened: Opened) -> Self {
        let Step { request, ruling, policy, shadow } = step;
        let call = &request.call;
        let mut details = json!({
            "request": cut_text(&request.id.to_string()),
            "method": call.method(),
            "decision": ruling.answer.decision.as_str(),
            "message": cut_text(&ruling.answer.message),
            "reason_codes": ruling.answer.reason_codes,
            "rules": ruling.rules,
            "policy": policy.digest(),
        });
        if let Some(context) = call.context() {
            details["session"] = cut_text(&context.session.id).into();
            details["turn"] = cut_text(&context.turn_id).into();
            details["step"] = cut_text(&context.step_id).into();
            details["agent"] = json!({
                "id": cut_text(&context.agent.id),
                "name": cut_text(&context.agent.name),
                "version": cut_text(&context.agent.version),
            });
            if let Some(user) = &context.user {
                details["user"] = cut_text(&user.id).into();
            }
            if let Some(capability) = context.extra.get("capability") {
                details["capability"] = cut(capability.clone().into());
            }
        }
        match call {
            Call::ToolCallRequest(step) => {
                details["execution"] = cut_text(&step.tool_call_request.execution_id).into()
            }
            Call::ToolCallResult(step) => {
                details["execution"] = cut_text(&step.execution_id).into()
            }
            _ => {}
        }
        if let Some(tool) = tool_of(call) {
            details["tool"] = cut_text(tool).into();
        }
        if !ruling.traces.charges.is_empty() {
            details["charges"] = json!(ruling.traces.charges);
        }
        if let Some(approval) = &ruling.traces.approval {
            details["approval"] = json!(approval);
        }
        if let Some((shadow, policy)) = shadow {
            details["shadow"] = json!({
                "decision": shadow.answer.decision.as_str(),
                "message": cut_text(&shadow.answer.message),
                "reason_codes": shadow.answer.reason_codes,
                "rules": shadow.rules,
                "policy": policy.digest(),
                "differs": !shadow.decides_like(ruling),
            });
        }
        details["content"] = content(&policy.redact(call, opened));
        Self::new("decision", time, details)
    }

    /// What a person is shown of this when they have to approve it.
    pub(crate) fn subject(&self) -> Value {
        subject_of(&self.details)
    }

    /// A line that a crash left unfinished was set aside.
    pub(crate) fn of_recovery(time: Timestamp, bytes: u64) -> Self {
        Self::new("recovery", time, json!({"set_aside_bytes": bytes}))
    }

    /// A policy came into force, or is only tried.
    pub(crate) fn of_policy(time: Timestamp, policy: &Policy, is_shadow: bool) -> Self {
        let event = if is_shadow { "shadow_policy" } else { "policy" };
        Self::new(event, time, json!({"policy": policy.digest(), "rules": policy.rules()}))
    }

    /// A person has decided.
    pub(crate) fn of_approval(time: Timestamp, approval: &Approval) -> Self {
        let approval = Approval {
            subject: Value::Null,
            by: approval.by.as_deref().map(cut_text),
            reason: approval.reason.as_deref().map(cut_text),
            ..approval.clone()
        };
        Self::new("approval", time, json!({"approval": approval}))
    }

    fn new(event: &'static str, time: Timestamp, details: Value) -> Self {
        let details = if let Value::Object(details) = details { details } else { Object::new() };
        Self { event, time, details }
    }
}

/// What a record of a decision says of the act itself.
pub(super) fn subject_of(details: &Object) -> Value {
    let names = ["method", "tool", "capability", "agent", "user", "session", "content"];
    let present = |name: &str| Some((name.to_owned(), details.get(name)?.clone()));
    names.into_iter().filter_map(present).collect::<Object>().into()
}

/// The params of a message without its context, cut to what a record may hold.
fn content(call: &Call) -> Value {
    let params = || {
        let mut params = call.to_params();
        if let Value::Object(params) = &mut params {
            params.shift_remove("context");
        }
        params
    };
    let content = cut(params());
    if length(&content) <= MAX_CONTENT {
        content
    } else {
        json!({"cut": describe(&params().to_string())})
    }
}

/// How many bytes a value has as JSON.
fn length(value: &Value) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // A value of JSON can always be written.
    serde_json::to_writer(&mut count, value).map_or(usize::MAX, |()| count.0)
}

/// The value with secrets replaced and long texts and lists cut.
fn cut(mut value: Value) -> Value {
    cut_within(&mut value, MAX_DEPTH);
    value
}

/// A text cut if it is long. JSON inside it is cut as JSON, since it may name secrets.
fn cut_text(text: &str) -> String {
    cut_text_within(text, MAX_DEPTH).unwrap_or_else(|| text.to_owned())
}

/// Cuts in place: most of a message stays as it is.
fn cut_within(value: &mut Value, depth: usize) {
    let Some(depth) = depth.checked_sub(1) else {
        *value = describe(&value.to_string()).into();
        return;
    };
    match value {
        Value::String(text) => {
            if let Some(kept) = cut_text_within(text, depth) {
                *text = kept;
            }
        }
        Value::Array(items) => {
            let more = items.len().saturating_sub(MAX_ITEMS);
            items.truncate(MAX_ITEMS);
            items.iter_mut().for_each(|item| cut_within(item, depth));
            if more != 0 {
                items.push(format!("[{more} more]").into());
            }
        }
        Value::Object(members) => cut_members(members, depth),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn cut_members(members: &mut Object, depth: usize) {
    let more = members.len().saturating_sub(MAX_ITEMS);
    if more != 0 || members.keys().any(|name| MAX_TEXT < name.len()) {
        let kept = std::mem::take(members).into_iter().take(MAX_ITEMS);
        *members = kept.map(|(name, value)| (cut_plain(&name).unwrap_or(name), value)).collect();
    }
    // An input of a tool is a pair of members: its name says what its value is.
    let is_secret_input = members.get("name").and_then(Value::as_str).is_some_and(names_secret);
    for (name, value) in members.iter_mut() {
        let is_secret = names_secret(name) || (is_secret_input && name == "value");
        match is_secret && !value.is_null() {
            true => *value = "[secret]".into(),
            false => cut_within(value, depth),
        }
    }
    if more != 0 {
        members.insert("…".to_owned(), format!("[{more} more]").into());
    }
}

/// A text cut, if it is not kept as it is.
fn cut_text_within(text: &str, depth: usize) -> Option<String> {
    let inner = match text.trim_start().as_bytes().first() {
        Some(b'{' | b'[') => serde_json::from_str::<Value>(text).ok(),
        _ => None,
    };
    let Some(mut inner) = inner else { return cut_plain(text) };
    cut_within(&mut inner, depth);
    let kept = inner.to_string();
    Some(if kept.len() <= MAX_CONTENT / 4 { kept } else { describe(text) })
}

/// The start of a text that is long.
fn cut_plain(text: &str) -> Option<String> {
    if text.len() <= MAX_TEXT {
        return None;
    }
    let end = (0..=TEXT_START).rev().find(|&end| text.is_char_boundary(end)).unwrap_or_default();
    Some(format!("{}… {}", &text[..end], describe(text)))
}

/// The length and digest of a text, by which it can be recognised later.
fn describe(text: &str) -> String {
    format!("[{} bytes, sha256:{}]", text.len(), HEXLOWER.encode(&Sha256::digest(text)))
}

/// Whether what goes by this name is likely to be a secret.
fn names_secret(name: &str) -> bool {
    const WORDS: [&str; 11] = [
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
    if name.len() < WORDS.iter().map(|word| word.len()).min().unwrap_or_default() {
        return false;
    }
    let plain: String =
        name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    WORDS.iter().any(|word| plain.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(value: &Value, expected: &Value) {
        assert_eq!(cut(value.clone()), *expected);
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
        let kept = cut_text(&text);
        assert!(kept.contains("sha256:") && kept.len() < 1000, "{kept}");
    }

    #[test]
    fn long_things_are_cut_and_can_be_recognised() {
        let long = "é".repeat(400);
        let kept = cut_text(&long);
        assert!(kept.starts_with(&"é".repeat(64)) && kept.contains("800 bytes, sha256:"), "{kept}");
        check(&json!(vec![1; 40]), &{
            let mut kept = vec![json!(1); 32];
            kept.push(json!("[8 more]"));
            json!(kept)
        });
    }
}
