//! Responses of a guardian: a decision, a pong, or an error (text section 5 and 6).

use jiff::Timestamp;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::codec::{self, InvalidMember, Limits, Object, SyntaxError, objects, read, take, words};
use super::{Request, RequestId};

/// A response of a guardian.
#[derive(Clone, Debug, PartialEq)]
pub struct Response {
    /// The id of the question; `None` (written as `null`) if it could not be read.
    pub id: Option<RequestId>,
    /// The content of a response.
    pub body: ResponseBody,
}

/// The content of a response.
#[derive(Clone, Debug, PartialEq)]
pub enum ResponseBody {
    /// A decision on a step.
    Decision(DecisionResponse),
    /// The response to a ping.
    Pong(Pong),
    /// The guardian could not judge the question.
    Error(ErrorObject),
}

/// A decision and its reasons (text 5.1.1).
#[derive(Clone, Debug, PartialEq)]
pub struct DecisionResponse {
    /// The decision.
    pub decision: Decision,
    /// The explanation of the decision for people.
    pub message: String,
    /// The guardian's reasoning.
    pub reasoning: Option<String>,
    /// The reasons for programs.
    pub reason_codes: Vec<String>,
    /// Further data.
    pub data: Option<Object>,
}

/// A decision on a step.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// The step may continue.
    Allow,
    /// The step must not continue.
    Deny,
    /// The step continues with this message instead of the original one.
    Modify(Box<Request>),
}

impl Decision {
    /// Returns the word in the protocol.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
            Self::Modify(_) => "modify",
        }
    }
}

impl DecisionResponse {
    /// A decision with an explanation only.
    pub fn new(decision: Decision, message: impl Into<String>) -> Self {
        Self {
            decision,
            message: message.into(),
            reasoning: None,
            reason_codes: Vec::new(),
            data: None,
        }
    }
}

objects! {
    /// The response to a ping (text 5.3.1).
    Pong {
        required {
            /// The state of the guardian.
            status "status": PongStatus,
            /// The guardian's version.
            version "version": String,
            /// The time of the response.
            #[serde(deserialize_with = "codec::timestamp")]
            timestamp "timestamp": Timestamp,
        }
        optional {
            /// Further data.
            metadata "metadata": Object,
        }
    }

    /// The reason why a question could not be judged (text 3.13).
    ErrorObject {
        required {
            /// One of [`code`](super::code), or a guardian's own number.
            code "code": i64,
            /// The error, in a few words.
            message "message": String,
        }
        sent {
            /// Details of the error; `null` if there are none.
            data "data": Value,
        }
    }
}

words! {
    /// The state of a guardian.
    PongStatus {
        /// The guardian works.
        Connected "connected",
        /// The guardian responds, but does not work.
        Error "error",
    }
}

impl Serialize for Response {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("jsonrpc", "2.0")?;
        map.serialize_entry("id", &self.id)?;
        match &self.body {
            ResponseBody::Decision(answer) => map.serialize_entry("result", answer)?,
            ResponseBody::Pong(pong) => map.serialize_entry("result", pong)?,
            ResponseBody::Error(error) => map.serialize_entry("error", error)?,
        }
        map.end()
    }
}

impl Serialize for DecisionResponse {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("decision", self.decision.as_str())?;
        map.serialize_entry("message", &self.message)?;
        if let Some(reasoning) = &self.reasoning {
            map.serialize_entry("reasoning", reasoning)?;
        }
        if !self.reason_codes.is_empty() {
            map.serialize_entry("reasonCode", &self.reason_codes)?;
        }
        if let Some(data) = &self.data {
            map.serialize_entry("data", data)?;
        }
        if let Decision::Modify(request) = &self.decision {
            map.serialize_entry("modifiedRequest", request)?;
        }
        map.end()
    }
}

/// The reason why a response cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResponseError {
    /// The text is not JSON.
    #[error("not JSON: {0}")]
    Syntax(#[from] SyntaxError),
    /// The text is JSON, but not a response: it is not an object, or has neither `result` nor `error`.
    #[error("not a JSON-RPC response: {0}")]
    NotAResponse(String),
    /// `decision` is missing, or is not allow, deny or modify.
    #[error("unknown decision {0}")]
    UnknownDecision(String),
    /// The decision is `modify`, but `modifiedRequest` is missing or is not a complete request.
    #[error("modifiedRequest: {0}")]
    UnusableModification(String),
    /// Another member is invalid.
    #[error("{0}")]
    Invalid(InvalidMember),
}

impl Response {
    /// Reads a response. A `deny` is never lost: it stays a deny even if its other members are wrong.
    ///
    /// # Errors
    /// [`ResponseError`] distinguishes a text that is not a response from a response that cannot be
    /// followed.
    pub fn from_slice(bytes: &[u8], limits: Limits) -> Result<Self, ResponseError> {
        let Value::Object(mut envelope) = codec::parse_json(bytes, limits)? else {
            return Err(ResponseError::NotAResponse("not an object".to_owned()));
        };
        let id = envelope.get("id").and_then(RequestId::from_value);
        match (envelope.remove("result"), envelope.remove("error")) {
            (None | Some(Value::Null), Some(error)) => {
                let error =
                    read(error).map_err(|e| ResponseError::Invalid(e.in_member("error")))?;
                Ok(Self { id, body: ResponseBody::Error(error) })
            }
            (Some(result), None | Some(Value::Null)) => {
                let body = read_result(result)?;
                let is_deny = matches!(&body, ResponseBody::Decision(answer) if answer.decision == Decision::Deny);
                if !is_deny && envelope.get("jsonrpc").is_none_or(|version| version != "2.0") {
                    return Err(ResponseError::Invalid(
                        InvalidMember::new("must be \"2.0\"").in_member("jsonrpc"),
                    ));
                }
                Ok(Self { id, body })
            }
            (None, None) => Err(ResponseError::NotAResponse("neither result nor error".to_owned())),
            (Some(_), Some(_)) => Err(ResponseError::Invalid(InvalidMember::new(
                "must have either result or error, not both",
            ))),
        }
    }

    /// Returns the response as JSON text.
    pub fn to_vec(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a message is JSON by construction")
    }
}

fn read_result(result: Value) -> Result<ResponseBody, ResponseError> {
    let in_result = |e: InvalidMember| ResponseError::Invalid(e.in_member("result"));
    let mut members: Object = read(result).map_err(in_result)?;
    if members.contains_key("status") && !members.contains_key("decision") {
        return read(Value::Object(members)).map(ResponseBody::Pong).map_err(in_result);
    }
    let said = members.shift_remove("decision").unwrap_or_default();
    // The exact words of the protocol. One page of the texts spells `deny` as `block`.
    let decision = match said.as_str() {
        Some("deny" | "block") => {
            return Ok(ResponseBody::Decision(DecisionResponse {
                decision: Decision::Deny,
                message: take(&mut members, "message").unwrap_or_default(),
                reasoning: take(&mut members, "reasoning").unwrap_or_default(),
                reason_codes: take_reason_codes(&mut members).unwrap_or_default(),
                data: take(&mut members, "data").unwrap_or_default(),
            }));
        }
        Some("allow") => Decision::Allow,
        Some("modify") => Decision::Modify(Box::new(take_modification(&mut members)?)),
        _ => return Err(ResponseError::UnknownDecision(said.to_string())),
    };
    Ok(ResponseBody::Decision(DecisionResponse {
        decision,
        message: take(&mut members, "message").map_err(in_result)?,
        reasoning: take(&mut members, "reasoning").map_err(in_result)?,
        reason_codes: take_reason_codes(&mut members).map_err(in_result)?,
        data: take(&mut members, "data").map_err(in_result)?,
    }))
}

fn take_modification(members: &mut Object) -> Result<Request, ResponseError> {
    let modified = members.shift_remove("modifiedRequest").filter(|modified| !modified.is_null());
    let modified =
        modified.ok_or_else(|| ResponseError::UnusableModification("is missing".to_owned()))?;
    Request::from_value(modified)
        .map_err(|e| ResponseError::UnusableModification(e.error.to_string()))
}

/// Reads `reasonCode`, which is an array. A single string is read as an array of one.
fn take_reason_codes(members: &mut Object) -> Result<Vec<String>, InvalidMember> {
    match members.get_mut("reasonCode") {
        Some(code) if code.is_string() => *code = Value::Array(vec![code.take()]),
        _ => {}
    }
    Ok(take::<Option<_>>(members, "reasonCode")?.unwrap_or_default())
}
