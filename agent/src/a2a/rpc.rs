//! JSON-RPC 2.0 as A2A uses it (A2A 1.0, section 9): what a request has to be, the methods of both
//! versions in one table, and the errors. Pure.

use serde_json::{Map, Value, json};

use aos::message::A2aMethod;

use super::wire_versions::Version;

/// The longest id of a request, in bytes.
const MAX_ID: usize = 200;

pub(crate) type Object = Map<String, Value>;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    Send,
    Stream,
    Get,
    Cancel,
    Follow,
    /// Anything about push notifications, which there are none of.
    Push,
    /// The tasks of whoever asks, page by page.
    List,
    /// A card for those who show a token; there is one card.
    ExtendedCard,
}

/// The methods, by the names that each version has for them.
const METHODS: [(&str, Version, Method); 21] = [
    ("message/send", Version::V0_3, Method::Send),
    ("message/stream", Version::V0_3, Method::Stream),
    ("tasks/get", Version::V0_3, Method::Get),
    ("tasks/cancel", Version::V0_3, Method::Cancel),
    ("tasks/resubscribe", Version::V0_3, Method::Follow),
    ("tasks/pushNotificationConfig/set", Version::V0_3, Method::Push),
    ("tasks/pushNotificationConfig/get", Version::V0_3, Method::Push),
    ("tasks/pushNotificationConfig/list", Version::V0_3, Method::Push),
    ("tasks/pushNotificationConfig/delete", Version::V0_3, Method::Push),
    ("agent/getAuthenticatedExtendedCard", Version::V0_3, Method::ExtendedCard),
    ("SendMessage", Version::V1_0, Method::Send),
    ("SendStreamingMessage", Version::V1_0, Method::Stream),
    ("GetTask", Version::V1_0, Method::Get),
    ("CancelTask", Version::V1_0, Method::Cancel),
    ("SubscribeToTask", Version::V1_0, Method::Follow),
    ("ListTasks", Version::V1_0, Method::List),
    ("CreateTaskPushNotificationConfig", Version::V1_0, Method::Push),
    ("GetTaskPushNotificationConfig", Version::V1_0, Method::Push),
    ("ListTaskPushNotificationConfigs", Version::V1_0, Method::Push),
    ("DeleteTaskPushNotificationConfig", Version::V1_0, Method::Push),
    ("GetExtendedAgentCard", Version::V1_0, Method::ExtendedCard),
];

impl Method {
    /// Its name in a version.
    pub(crate) fn name(self, version: Version) -> &'static str {
        let named = METHODS.iter().find(|(_, of, method)| *of == version && *method == self);
        named.map_or("", |(name, ..)| name)
    }

    /// The hook at which guardians are asked about it (AOS, 4.8.2); none for what is refused anyway.
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

/// A request that can be read.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call {
    pub(crate) id: Value,
    pub(crate) version: Version,
    pub(crate) method: Method,
    pub(crate) params: Object,
    /// All of it, as it came.
    pub(crate) whole: Object,
}

/// A request that cannot be used, or not now: the id to answer with, and why.
pub(crate) type Refusal = (Value, Fault);

impl Call {
    /// Reads a request. `header` is `A2A-Version`, where one was sent.
    pub(crate) fn read(body: &[u8], header: Option<&str>) -> Result<Self, Refusal> {
        let value: Value = serde_json::from_slice(body)
            .map_err(|error| (Value::Null, Fault::new(Kind::Parse, error.to_string())))?;
        let whole = match value {
            Value::Object(whole) => whole,
            Value::Array(_) => return Err(invalid(Value::Null, "batches are not taken")),
            _ => return Err(invalid(Value::Null, "a request is an object")),
        };
        Self::of(whole, header)
    }

    /// Reads a request that is JSON already.
    pub(crate) fn of(whole: Object, header: Option<&str>) -> Result<Self, Refusal> {
        let id = match whole.get("id") {
            Some(Value::String(id)) if id.len() <= MAX_ID => Value::from(id.as_str()),
            Some(Value::Number(id)) if !id.is_f64() => Value::from(id.clone()),
            Some(Value::Null) => Value::Null,
            None => {
                return Err(invalid(Value::Null, "`id` is missing: every method has an answer"));
            }
            Some(_) => {
                let text = format!("`id` is a text of at most {MAX_ID} bytes or a whole number");
                return Err(invalid(Value::Null, text));
            }
        };
        if whole.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
            return Err(invalid(id, "`jsonrpc` is \"2.0\""));
        }
        let Some(name) = whole.get("method").and_then(Value::as_str) else {
            return Err(invalid(id, "`method` is a text"));
        };
        let Some((_, version, method)) = METHODS.iter().find(|(known, ..)| *known == name) else {
            return Err((id, Fault::new(Kind::NoMethod, "there is no such method")));
        };
        // 0.3 knew no header, so a request without one is as old as its method. One with a header
        // has the method that its version has (A2A 1.0, section 3.6).
        let said = header.filter(|header| !header.trim().is_empty());
        if said.is_some_and(|said| Version::of(said) != Some(*version)) {
            let text = "`A2A-Version` is 0.3 or 1.0, whichever has the method";
            return Err((id, Fault::new(Kind::Version, text)));
        }
        let params = match whole.get("params") {
            Some(Value::Object(params)) => params.clone(),
            None => Object::new(),
            Some(_) => return Err((id, Fault::new(Kind::Params, "`params` is no object"))),
        };
        Ok(Self { id, version: *version, method: *method, params, whole })
    }
}

fn invalid(id: Value, text: impl Into<String>) -> Refusal {
    (id, Fault::new(Kind::Request, text))
}

/// Why there is no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
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

impl Fault {
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// The answer to the request with this id.
    pub(crate) fn answer(&self, id: &Value) -> Object {
        let info = json!({
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": self.kind.reason(),
            "domain": "a2a-protocol.org",
        });
        let error = json!({ "code": self.kind.code(), "message": self.message, "data": [info] });
        envelope(id, "error", error)
    }
}

/// The answer with a result.
pub(crate) fn result(id: &Value, result: Value) -> Object {
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
