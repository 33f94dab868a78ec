//! The form of a file of cases, as it is written.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use serde_saphyr::Spanned;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CaseFileText {
    pub(super) cases: Vec<CaseText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CaseText {
    pub(super) name: Spanned<String>,
    pub(super) request: Option<RequestText>,
    pub(super) expect: Option<ExpectText>,
    pub(super) steps: Option<Vec<StepText>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StepText {
    pub(super) after: Option<String>,
    pub(super) approve: Option<bool>,
    pub(super) times: Option<u32>,
    pub(super) request: RequestText,
    pub(super) expect: ExpectText,
}

/// A message in short form, or complete under `aos`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RequestText {
    pub(super) hook: Option<String>,
    pub(super) tool: Option<String>,
    pub(super) inputs: Map<String, Value>,
    pub(super) outputs: Vec<Value>,
    pub(super) is_error: bool,
    /// The texts of a message, a trigger, a retrieval or memory.
    pub(super) texts: Vec<String>,
    /// The role of the sender of the message.
    pub(super) role: Option<String>,
    pub(super) query: Option<String>,
    pub(super) reasoning: Option<String>,
    /// The MCP or A2A message.
    pub(super) message: Option<Map<String, Value>>,
    /// The user: an id, an e-mail address, or an object with both.
    pub(super) user: Option<Value>,
    /// The token that acts for the user.
    pub(super) caller: Option<String>,
    pub(super) session: Option<String>,
    pub(super) agent: Option<String>,
    /// The capability: a name, or an object.
    pub(super) capability: Option<Value>,
    pub(super) host: Option<String>,
    /// The prepared request, as in `context.request`.
    pub(super) request: Option<Map<String, Value>>,
    /// The facts that the message hides, as JSON pointers.
    pub(super) hidden: Vec<String>,
    pub(super) aos: Option<Value>,
}

#[derive(Debug)]
pub(super) struct ExpectText {
    pub(super) decision: ExpectedDecision,
    pub(super) reason_codes: Option<OneOrMany>,
    pub(super) rules: Option<OneOrMany>,
    /// A part of the expected message.
    pub(super) message: Option<String>,
    pub(super) inputs: Option<Map<String, Value>>,
    pub(super) outputs: Option<Vec<String>>,
    pub(super) texts: Option<Vec<String>>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum ExpectedDecision {
    Allow,
    Deny,
    Modify,
}

impl ExpectedDecision {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
            Self::Modify => "modify",
        }
    }
}

/// One text, or a list of them.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    pub(super) fn texts(&self) -> &[String] {
        match self {
            Self::One(text) => std::slice::from_ref(text),
            Self::Many(texts) => texts,
        }
    }
}

/// `expect: deny` is short for `expect: {decision: deny}`.
impl<'de> Deserialize<'de> for ExpectText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct FullExpectation {
            decision: ExpectedDecision,
            reason_codes: Option<OneOrMany>,
            rules: Option<OneOrMany>,
            message: Option<String>,
            inputs: Option<Map<String, Value>>,
            outputs: Option<Vec<String>>,
            texts: Option<Vec<String>>,
        }
        let value = match Value::deserialize(deserializer)? {
            Value::String(word) => serde_json::json!({ "decision": word }),
            value => value,
        };
        let FullExpectation { decision, reason_codes, rules, message, inputs, outputs, texts } =
            serde_json::from_value(value).map_err(|e| D::Error::custom(format!("expect: {e}")))?;
        Ok(Self { decision, reason_codes, rules, message, inputs, outputs, texts })
    }
}
