//! Who says what a message is that nobody here wrote: an ordinary reader of JSON, the rules of
//! JSON-RPC, and the schema of the protocol.

use std::collections::BTreeSet;

use jsonschema::{Draft, Validator};
use serde_json::{Map, Value, json};

const SCHEMA: &str = include_str!("../../../../aos/tests/schema/aos_schema.repaired.json");

/// Spellings of the text beside those of the schema.
const OTHER_METHODS: [&str; 4] = [
    "tasks/get",
    "tasks/pushNotificationConfig/set",
    "tasks/pushNotificationConfig/get",
    "protocols/A2A",
];

pub(super) struct Judge {
    requests: Validator,
    responses: Validator,
    methods: BTreeSet<String>,
}

/// What a message has to be answered.
#[derive(Debug)]
pub(super) struct Judged {
    /// The code of the error; none where it is decided about.
    pub(super) code: Option<i64>,
    /// The id of the answer.
    pub(super) id: Value,
}

impl Judge {
    pub(super) fn new() -> Self {
        let schema: Value = serde_json::from_str(SCHEMA).unwrap();
        let validator = |definition: &str| {
            let mut schema = schema.clone();
            schema["$ref"] = format!("#/$defs/{definition}").into();
            let options = jsonschema::options().with_draft(Draft::Draft7);
            options.should_validate_formats(true).build(&schema).unwrap()
        };
        let definitions = schema["$defs"].as_object().unwrap().values();
        let methods = definitions
            .filter_map(|definition| definition["properties"]["method"]["const"].as_str())
            .chain(OTHER_METHODS)
            .map(str::to_owned);
        let methods = methods.collect();
        Self { requests: validator("ASOPRequest"), responses: validator("ASOPResponse"), methods }
    }

    pub(super) fn judge(&self, body: &[u8]) -> Judged {
        let refused = |code, id| Judged { code: Some(code), id };
        let Ok(message) = serde_json::from_slice::<Value>(body) else {
            return refused(-32700, Value::Null);
        };
        let Value::Object(members) = &message else { return refused(-32600, Value::Null) };
        let member = |name: &str| members.get(name).cloned().unwrap_or_default();
        let id = Some(member("id")).filter(|id| id.is_string() || id.is_i64()).unwrap_or_default();
        let method = member("method");
        let params = member("params");
        let is_scalar = params.is_string() || params.is_number() || params.is_boolean();
        if member("jsonrpc") != "2.0" || !method.is_string() || id.is_null() || is_scalar {
            return refused(-32600, id);
        }
        if !self.methods.contains(method.as_str().unwrap()) {
            return refused(-32601, id);
        }
        if !self.requests.is_valid(&in_one_form(message)) {
            return refused(-32602, id);
        }
        Judged { code: None, id }
    }

    /// What is wrong with an answer. The schema knows no id that is null, which JSON-RPC and the text
    /// ask for where a message cannot be read.
    pub(super) fn faults(&self, answer: &Value) -> Vec<String> {
        let mut answer = answer.clone();
        if answer.get("error").is_some() && answer["id"].is_null() {
            answer["id"] = json!(0);
        }
        if let Some(modified) = answer.pointer_mut("/result/modifiedRequest")
            && is_a2a(modified)
        {
            *modified = in_one_form(modified.take());
        }
        self.responses.iter_errors(&answer).map(|fault| fault.to_string()).collect()
    }
}

/// A message in the form of the schema, where it is in another that the texts have.
fn in_one_form(mut message: Value) -> Value {
    let method = message["method"].as_str().unwrap_or_default().to_owned();
    drop_nulls(&mut message);
    match method.as_str() {
        "protocols/MCP" => {
            let params = &message["params"];
            // What JSON-RPC calls a message: a call by name, or an outcome.
            let is_bare = params.get("message").is_none()
                && params["jsonrpc"] == "2.0"
                && (params["method"].is_string()
                    || params["result"].is_object()
                    || params["error"].is_object());
            if is_bare {
                message["params"] = json!({"message": params});
            }
        }
        "protocols/A2A" => {
            message["method"] = "message/send".into();
            if let Some(params) = message["params"].as_object_mut()
                && let Some(payload) = params.remove("message")
            {
                params.insert("payload".to_owned(), payload);
            }
        }
        "ping" => {
            let sent = message.pointer("/params/timestamp").cloned();
            let members = message.as_object_mut().unwrap();
            members
                .entry("timestamp")
                .or_insert_with(|| sent.unwrap_or_else(|| "2026-01-02T03:04:05Z".into()));
        }
        "steps/toolCallResult" => nest_result(&mut message["params"]),
        _ => {}
    }
    if is_a2a(&message) {
        tell_a2a(&mut message);
    }
    if let Some(context) = message.pointer_mut("/params/context") {
        if let Some(agent) = context.get_mut("agent").and_then(Value::as_object_mut) {
            agent.entry("url").or_insert_with(|| "".into());
        }
        tell_offset(context);
    }
    for place in ["/params/message/content", "/params/trigger/content"] {
        let parts = message.pointer_mut(place).and_then(Value::as_array_mut);
        parts.into_iter().flatten().for_each(tell_part);
    }
    message
}

/// `null` stands for what is not there, but where a value may be anything.
fn drop_nulls(value: &mut Value) {
    const FREE: [&str; 7] =
        ["value", "arguments", "outputs", "payload", "data", "metadata", "defaultParams"];
    match value {
        Value::Object(members) => {
            members.retain(|name, value| !value.is_null() || FREE.contains(&name.as_str()));
            for (name, value) in members {
                if !FREE.contains(&name.as_str()) {
                    drop_nulls(value);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

fn nest_result(params: &mut Value) {
    let Some(params) =
        params.as_object_mut().filter(|params| !params.contains_key("toolCallResult"))
    else {
        return;
    };
    let moved = ["executionId", "result"].into_iter();
    let moved: Map<_, _> =
        moved.filter_map(|name| Some((name.to_owned(), params.remove(name)?))).collect();
    params.insert("toolCallResult".to_owned(), moved.into());
}

fn is_a2a(message: &Value) -> bool {
    let method = message["method"].as_str().unwrap_or_default();
    ["message/", "task/", "tasks/"].iter().any(|start| method.starts_with(start))
}

/// Members that the text has beside `params`; names that it gives an `s`; and agents, of which the
/// schema takes those alone that are not told in full.
fn tell_a2a(message: &mut Value) {
    let method = message["method"].as_str().unwrap_or_default();
    let known = ["get", "pushNotificationConfig/set", "pushNotificationConfig/get"];
    if let Some(rest) = method.strip_prefix("tasks/").filter(|rest| known.contains(rest)) {
        message["method"] = format!("task/{rest}").into();
    }
    if message.get("params").is_none() {
        let members = message.as_object_mut().unwrap();
        let moved = ["payload", "context", "reasoning"].into_iter();
        let params: Map<_, _> =
            moved.filter_map(|name| Some((name.to_owned(), members.remove(name)?))).collect();
        members.insert("params".to_owned(), params.into());
    }
    let Some(params) = message["params"].as_object_mut() else { return };
    let context = params.entry("context").or_insert_with(|| json!({}));
    for name in ["from", "to"] {
        let Some(party) = context.get_mut(name).and_then(Value::as_object_mut) else { continue };
        let agent = party.entry("agent").or_insert_with(|| json!({}));
        if agent.is_object() {
            *agent = json!({});
        }
    }
}

/// A time without an offset is one of UTC.
fn tell_offset(context: &mut Value) {
    let Some(Value::String(time)) = context.get_mut("timestamp") else { return };
    let has_offset = time.ends_with(['Z', 'z'])
        || time.get(10..).is_some_and(|clock| clock.contains(['+', '-']));
    if !has_offset {
        time.push('Z');
    }
}

/// A part without its kind, and data that is a list.
fn tell_part(part: &mut Value) {
    let Some(part) = part.as_object_mut() else { return };
    if part.contains_key("file") && !part.contains_key("text") {
        part.entry("kind").or_insert_with(|| "file".into());
    }
    if let Some(data) = part.get_mut("data").filter(|data| data.is_array()) {
        *data = json!({});
    }
}
