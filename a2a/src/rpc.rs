//! JSON-RPC 2.0 as A2A uses it (A2A 1.0, section 9): the rules for a request, the methods of both versions
//! in one table, and the errors. Pure.

use serde_json::{Map, Value, json};

use aos::message::A2aMethod;

use super::wire_versions::A2aVersion;

/// The maximum length of a request id, in bytes.
const MAX_ID: usize = 200;

pub(crate) type Object = Map<String, Value>;

/// The requested action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RpcMethod {
    Send,
    Stream,
    Get,
    Cancel,
    Follow,
    /// A method for push notifications, which this agent does not support.
    Push,
    /// The tasks of the caller, page by page.
    List,
    /// A card for callers with a token. This agent has one card only.
    ExtendedCard,
}

/// The methods with their names in each version.
const METHODS: [(&str, A2aVersion, RpcMethod); 21] = [
    ("message/send", A2aVersion::V0_3, RpcMethod::Send),
    ("message/stream", A2aVersion::V0_3, RpcMethod::Stream),
    ("tasks/get", A2aVersion::V0_3, RpcMethod::Get),
    ("tasks/cancel", A2aVersion::V0_3, RpcMethod::Cancel),
    ("tasks/resubscribe", A2aVersion::V0_3, RpcMethod::Follow),
    ("tasks/pushNotificationConfig/set", A2aVersion::V0_3, RpcMethod::Push),
    ("tasks/pushNotificationConfig/get", A2aVersion::V0_3, RpcMethod::Push),
    ("tasks/pushNotificationConfig/list", A2aVersion::V0_3, RpcMethod::Push),
    ("tasks/pushNotificationConfig/delete", A2aVersion::V0_3, RpcMethod::Push),
    ("agent/getAuthenticatedExtendedCard", A2aVersion::V0_3, RpcMethod::ExtendedCard),
    ("SendMessage", A2aVersion::V1_0, RpcMethod::Send),
    ("SendStreamingMessage", A2aVersion::V1_0, RpcMethod::Stream),
    ("GetTask", A2aVersion::V1_0, RpcMethod::Get),
    ("CancelTask", A2aVersion::V1_0, RpcMethod::Cancel),
    ("SubscribeToTask", A2aVersion::V1_0, RpcMethod::Follow),
    ("ListTasks", A2aVersion::V1_0, RpcMethod::List),
    ("CreateTaskPushNotificationConfig", A2aVersion::V1_0, RpcMethod::Push),
    ("GetTaskPushNotificationConfig", A2aVersion::V1_0, RpcMethod::Push),
    ("ListTaskPushNotificationConfigs", A2aVersion::V1_0, RpcMethod::Push),
    ("DeleteTaskPushNotificationConfig", A2aVersion::V1_0, RpcMethod::Push),
    ("GetExtendedAgentCard", A2aVersion::V1_0, RpcMethod::ExtendedCard),
];

impl RpcMethod {
    /// Returns the name of the method in a version.
    pub(crate) fn name(self, version: A2aVersion) -> &'static str {
        let named = METHODS.iter().find(|(_, of, method)| *of == version && *method == self);
        named.map_or("", |(name, ..)| name)
    }

    /// The hook at which the guardians are asked about it (AOS, 4.8.2); none for methods that are always
    /// rejected.
    pub(crate) fn hook(self) -> Option<A2aMethod> {
        match self {
            Self::Send => Some(A2aMethod::MessageSend),
            Self::Stream => Some(A2aMethod::MessageStream),
            // AOS knows no list of tasks: it is the look at several.
            Self::Get | Self::List => Some(A2aMethod::TaskGet),
            Self::Cancel => Some(A2aMethod::TaskCancel),
            Self::Follow => Some(A2aMethod::TaskResubscribe),
            Self::Push | Self::ExtendedCard => None,
        }
    }
}

/// A valid request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RpcRequest {
    pub(crate) id: Value,
    pub(crate) version: A2aVersion,
    pub(crate) method: RpcMethod,
    pub(crate) params: Object,
    /// The complete request as it was received.
    pub(crate) raw: Object,
}

/// The id and the error for the response to a request that is rejected.
pub(crate) type RejectedRequest = (Value, RpcError);

impl RpcRequest {
    /// Reads a request. `header` is the value of the header A2A-Version, if the caller sent it.
    pub(crate) fn read(body: &[u8], header: Option<&str>) -> Result<Self, RejectedRequest> {
        let value: Value = serde_json::from_slice(body)
            .map_err(|error| (Value::Null, RpcError::new(Kind::Parse, error.to_string())))?;
        let whole = match value {
            Value::Object(whole) => whole,
            Value::Array(_) => return Err(invalid(Value::Null, "batches are not supported")),
            _ => return Err(invalid(Value::Null, "a request must be an object")),
        };
        Self::from_object(whole, header)
    }

    /// Reads a request that is already parsed as JSON.
    pub(crate) fn from_object(
        whole: Object,
        header: Option<&str>,
    ) -> Result<Self, RejectedRequest> {
        let id = match whole.get("id") {
            Some(Value::String(id)) if id.len() <= MAX_ID => Value::from(id.as_str()),
            Some(Value::Number(id)) if !id.is_f64() => Value::from(id.clone()),
            Some(Value::Null) => Value::Null,
            None => {
                return Err(invalid(
                    Value::Null,
                    "`id` is missing: notifications are not supported",
                ));
            }
            Some(_) => {
                let text =
                    format!("`id` must be a text of at most {MAX_ID} bytes or a whole number");
                return Err(invalid(Value::Null, text));
            }
        };
        if whole.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
            return Err(invalid(id, "`jsonrpc` must be \"2.0\""));
        }
        let Some(name) = whole.get("method").and_then(Value::as_str) else {
            return Err(invalid(id, "`method` must be a text"));
        };
        let Some((_, version, method)) = METHODS.iter().find(|(known, ..)| *known == name) else {
            return Err((id, RpcError::new(Kind::NoMethod, "unknown method")));
        };
        // 0.3 knew no header, so a request without one is as old as its method. One with a header
        // has the method that its version has (A2A 1.0, section 3.6).
        let said = header.filter(|header| !header.trim().is_empty());
        if said.is_some_and(|said| A2aVersion::from_text(said) != Some(*version)) {
            let text = "`A2A-Version` must be 0.3 or 1.0, the version that has the method";
            return Err((id, RpcError::new(Kind::Version, text)));
        }
        let params = match whole.get("params") {
            Some(Value::Object(params)) => params.clone(),
            None => Object::new(),
            Some(_) => return Err((id, RpcError::new(Kind::Params, "`params` must be an object"))),
        };
        Ok(Self { id, version: *version, method: *method, params, raw: whole })
    }
}

fn invalid(id: Value, text: impl Into<String>) -> RejectedRequest {
    (id, RpcError::new(Kind::Request, text))
}

/// The error of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RpcError {
    pub(crate) kind: Kind,
    pub(crate) message: String,
}

macro_rules! kinds {
    ($($kind:ident = $code:literal $reason:literal;)*) => {
        /// The kinds of errors (A2A 1.0, sections 5.4 and 9.5).
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Kind {
            $(#[doc = concat!($code, ": ", $reason)] $kind,)*
        }

        impl Kind {
            fn code(self) -> i32 {
                match self { $(Self::$kind => $code,)* }
            }

            fn reason(self) -> &'static str {
                match self { $(Self::$kind => $reason,)* }
            }
        }
    };
}

kinds! {
    Parse = -32700 "INVALID_JSON";
    Request = -32600 "INVALID_REQUEST";
    NoMethod = -32601 "METHOD_NOT_FOUND";
    Params = -32602 "INVALID_PARAMS";
    Denied = -32000 "DENIED_BY_GUARDIAN";
    Busy = -32000 "TOO_MANY_TASKS";
    NoTask = -32001 "TASK_NOT_FOUND";
    NotCancelable = -32002 "TASK_NOT_CANCELABLE";
    NoPush = -32003 "PUSH_NOTIFICATION_NOT_SUPPORTED";
    Unsupported = -32004 "UNSUPPORTED_OPERATION";
    ContentType = -32005 "CONTENT_TYPE_NOT_SUPPORTED";
    NoExtendedCard = -32007 "EXTENDED_AGENT_CARD_NOT_CONFIGURED";
    Version = -32009 "VERSION_NOT_SUPPORTED";
}

impl RpcError {
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// Creates the response to the request with this id.
    pub(crate) fn to_response(&self, id: &Value) -> Object {
        let info = json!({
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": self.kind.reason(),
            "domain": "a2a-protocol.org",
        });
        let error = json!({ "code": self.kind.code(), "message": self.message, "data": [info] });
        envelope(id, "error", error)
    }
}

/// Creates a response with a result.
pub(crate) fn result_response(id: &Value, result: Value) -> Object {
    envelope(id, "result", result)
}

fn envelope(id: &Value, name: &str, value: Value) -> Object {
    Map::from_iter([
        ("jsonrpc".to_owned(), "2.0".into()),
        ("id".to_owned(), id.clone()),
        (name.to_owned(), value),
    ])
}

#[cfg(test)]
mod tests;
