//! From bytes to typed objects: bounded JSON, then members by name with the place of every fault.

use std::fmt;

use jiff::Timestamp;
use serde::de::{self, DeserializeOwned, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::map::Entry;
use serde_json::{Map, Value};

/// A JSON object with members that this crate does not interpret.
pub type Object = Map<String, Value>;

/// The limits of the JSON that is read. Larger JSON is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The maximum length of the text, in bytes.
    pub bytes: usize,
    /// The maximum nesting depth of arrays and objects.
    pub depth: usize,
}

impl Limits {
    /// Limits that are enough for every message about a response of `bytes` bytes. A text is escaped as
    /// JSON, and that JSON is escaped again as a text of the message: one byte becomes at most eight.
    pub const fn for_response(bytes: usize) -> Self {
        Self { bytes: bytes.saturating_mul(8).saturating_add(1 << 20), depth: 64 }
    }
}

impl Default for Limits {
    /// Returns 4 MiB and 64 levels: more than any step that a person could judge.
    fn default() -> Self {
        Self { bytes: 4 << 20, depth: 64 }
    }
}

/// The reason why bytes are not a JSON text with one clear meaning.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SyntaxError {
    /// The text is longer than [`Limits::bytes`].
    #[error("the text is longer than {limit} bytes")]
    TooLong {
        /// The limit, in bytes.
        limit: usize,
    },
    /// The text is not JSON, is nested deeper than [`Limits::depth`], or has an object with a repeated
    /// member.
    #[error("{0}")]
    Json(String),
}

/// Parses one JSON text. Rejects an object that has a member twice: two readers of such a text may see two
/// different messages, and a guardian must judge the one that will be used.
///
/// # Errors
/// When the text is too long, is nested too deeply, is not JSON, or is ambiguous.
pub fn parse_json(bytes: &[u8], limits: Limits) -> Result<Value, SyntaxError> {
    if limits.bytes < bytes.len() {
        return Err(SyntaxError::TooLong { limit: limits.bytes });
    }
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = BoundedJsonVisitor { depth: limits.depth }
        .deserialize(&mut reader)
        .and_then(|value| reader.end().map(|()| value));
    value.map_err(|error| SyntaxError::Json(error.to_string()))
}

/// Reads a [`Value`] with at most `depth` levels.
struct BoundedJsonVisitor {
    depth: usize,
}

impl<'de> DeserializeSeed<'de> for BoundedJsonVisitor {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for BoundedJsonVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let depth = self.inner_depth()?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Self { depth })? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let depth = self.inner_depth()?;
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            match object.entry(name) {
                Entry::Occupied(member) => {
                    let name = member.key();
                    return Err(de::Error::custom(format!("duplicate member {name:?}")));
                }
                Entry::Vacant(member) => {
                    member.insert(members.next_value_seed(Self { depth })?);
                }
            }
        }
        Ok(Value::Object(object))
    }
}

impl BoundedJsonVisitor {
    fn inner_depth<E: de::Error>(&self) -> Result<usize, E> {
        self.depth.checked_sub(1).ok_or_else(|| de::Error::custom("nested too deeply"))
    }
}

/// The error for a member that is missing or has the wrong type, with its location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidMember {
    path: String,
    reason: String,
}

/// Reads a value that is already JSON.
pub(crate) fn read<T: DeserializeOwned>(value: Value) -> Result<T, InvalidMember> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = match error.path().iter().next() {
            Some(_) => error.path().to_string(),
            None => String::new(),
        };
        InvalidMember::from_message(path, &error.inner().to_string())
    })
}

/// Removes and reads a member. If it is missing, `T` must accept `null`.
pub(crate) fn take<T: DeserializeOwned>(
    members: &mut Object,
    name: &str,
) -> Result<T, InvalidMember> {
    let found = match members.shift_remove(name) {
        Some(value) => read(value),
        None => read(Value::Null).map_err(|_| InvalidMember::new("is missing")),
    };
    found.map_err(|e| e.in_member(name))
}

impl InvalidMember {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self { path: String::new(), reason: reason.into() }
    }

    /// Creates the error of the member at `path` from the message of `serde` about it. Its words for Rust
    /// become those for JSON, and the value, which may be secret, is left out.
    fn from_message(path: String, message: &str) -> Self {
        if let Some((reason, inner)) = split_nested(message) {
            return Self::new(reason).in_member(inner).in_member(&path);
        }
        if let Some(name) = message.strip_prefix("missing field `") {
            return Self::new("is missing").in_member(name.trim_end_matches('`')).in_member(&path);
        }
        let mismatch = message.strip_prefix("invalid type: ");
        let mismatch = mismatch.or_else(|| message.strip_prefix("invalid value: "));
        let Some((found, expected)) = mismatch.and_then(|m| m.rsplit_once(", expected ")) else {
            return Self { path, reason: message.to_owned() };
        };
        let found = match found.split(' ').next() {
            Some("boolean") => "a boolean",
            Some("integer" | "floating") => "a number",
            Some("string") => "a string",
            Some("sequence") => "an array",
            Some("map") => "an object",
            _ => found,
        };
        let expected = match expected {
            "i64" => "an integer",
            "a sequence" => "an array",
            "a map" => "an object",
            _ if expected.starts_with("struct ") => "an object",
            _ => expected,
        };
        Self { path, reason: format!("must be {expected}, found {found}") }
    }

    /// Adds the name of the enclosing member to the path of the error.
    pub(crate) fn in_member(mut self, name: &str) -> Self {
        if !name.is_empty() {
            let separator =
                if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
            self.path = format!("{name}{separator}{}", self.path);
        }
        self
    }

    /// The reason, as a sentence without the location.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// The path of the member: `params.toolCallRequest.inputs[0].name`.
    pub fn path(&self) -> &str {
        &self.path
    }
}

impl fmt::Display for InvalidMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            f.write_str(&self.reason)
        } else {
            write!(f, "{}: {}", self.path, self.reason)
        }
    }
}

impl std::error::Error for InvalidMember {}

/// The error of a value that a type reads as a whole before it reads its members. `serde` passes errors on
/// as text, so this text carries the path to [`InvalidMember::from_message`].
#[derive(Debug)]
pub struct NestedError(InvalidMember);

impl From<InvalidMember> for NestedError {
    fn from(invalid: InvalidMember) -> Self {
        Self(invalid)
    }
}

impl fmt::Display for NestedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.path.is_empty() {
            f.write_str(&self.0.reason)
        } else {
            write!(f, "{} (at {})", self.0.reason, self.0.path)
        }
    }
}

/// Splits the text of a [`NestedError`] into its reason and its path.
fn split_nested(message: &str) -> Option<(&str, &str)> {
    message.strip_suffix(')')?.rsplit_once(" (at ")
}

/// Reads a member that must be present, but may be `null`.
pub(crate) fn nullable<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    value: D,
) -> Result<Option<T>, D::Error> {
    Option::deserialize(value)
}

/// Reads a member for which `null` counts as empty.
pub(crate) fn null_as_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    value: D,
) -> Result<T, D::Error> {
    Option::deserialize(value).map(Option::unwrap_or_default)
}

/// Reads an instant. The texts ask for ISO 8601 with "UTC recommended", so a time without an offset is read
/// as UTC; the written form always ends in `Z`. A date alone is not an instant.
pub(crate) fn timestamp<'de, D: Deserializer<'de>>(value: D) -> Result<Timestamp, D::Error> {
    parse_timestamp(&String::deserialize(value)?)
}

/// Reads an instant that may be absent.
pub(crate) fn optional_timestamp<'de, D: Deserializer<'de>>(
    value: D,
) -> Result<Option<Timestamp>, D::Error> {
    Option::<String>::deserialize(value)?.map(|text| parse_timestamp(&text)).transpose()
}

fn parse_timestamp<E: de::Error>(text: &str) -> Result<Timestamp, E> {
    let as_utc = || {
        let has_time = text.contains([':', 'T', 't']);
        let local: jiff::civil::DateTime = text.parse().ok().filter(|_| has_time)?;
        Some(local.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp())
    };
    let timestamp = text.parse().ok().or_else(as_utc);
    timestamp.ok_or_else(|| E::custom("must be an ISO 8601 time such as 2025-01-24T15:30:45Z"))
}

/// Declares the data objects of the protocol: one line per member, in the words of the text.
///
/// `required` members must be present. `sent` members are always written; when reading, a missing one
/// counts as empty. `optional` members may be absent; `null` counts as absent, because most writers of
/// optional members send it. All other members go to `extra` and are written back, so that a guardian does
/// not lose data of an agent.
macro_rules! objects {
    ($(
        $(#[$meta:meta])*
        $object:ident {
            $(required { $( $(#[$rmeta:meta])* $rfield:ident $rname:literal: $rtype:ty, )+ })?
            $(sent { $( $(#[$smeta:meta])* $sfield:ident $sname:literal: $stype:ty, )+ })?
            $(optional { $( $(#[$ometa:meta])* $ofield:ident $oname:literal: $otype:ty, )+ })?
        }
    )+) => { $(
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, serde::Deserialize, serde::Serialize)]
        pub struct $object {
            $($( $(#[$rmeta])* #[serde(rename = $rname)] pub $rfield: $rtype, )+)?
            $($(
                $(#[$smeta])*
                #[serde(rename = $sname, default)]
                #[serde(deserialize_with = "crate::message::codec::null_as_default")]
                pub $sfield: $stype,
            )+)?
            $($(
                $(#[$ometa])*
                #[serde(rename = $oname, skip_serializing_if = "Option::is_none")]
                pub $ofield: Option<$otype>,
            )+)?
            /// Members that the text does not define, unchanged.
            #[serde(flatten)]
            pub extra: $crate::message::Object,
        }

        impl $object {
            /// Creates the object from the members that are always sent; the others are absent.
            pub fn new($($($rfield: $rtype,)+)? $($($sfield: $stype,)+)?) -> Self {
                Self {
                    $($($rfield,)+)?
                    $($($sfield,)+)?
                    $($($ofield: None,)+)?
                    extra: $crate::message::Object::new(),
                }
            }
        }
    )+ };
}
pub(crate) use objects;

/// Declares enumerations of protocol words.
macro_rules! words {
    ($(
        $(#[doc = $doc:literal])*
        $set:ident { $( $(#[doc = $wdoc:literal])* $variant:ident $word:literal, )+ }
    )+) => { $(
        $(#[doc = $doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
        pub enum $set { $( $(#[doc = $wdoc])* #[serde(rename = $word)] $variant, )+ }

        impl $set {
            /// All words of the set.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// Returns the word in the protocol.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
        }

        impl std::fmt::Display for $set {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $set {
            fn deserialize<D: serde::Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
                let found = String::deserialize(value)?;
                Self::ALL.iter().copied().find(|word| word.as_str() == found).ok_or_else(|| {
                    let known: Vec<_> = Self::ALL.iter().map(|word| word.as_str()).collect();
                    serde::de::Error::custom(format!("must be one of {}", known.join(", ")))
                })
            }
        }
    )+ };
}
pub(crate) use words;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::message::{Agent, ContentPart, Message, Model, Role, ToolDefinition, ToolResult};

    #[track_caller]
    fn check<T: DeserializeOwned + fmt::Debug>(value: Value, expected: &str) {
        assert_eq!(read::<T>(value).unwrap_err().to_string(), expected);
    }

    #[test]
    fn errors_state_location_and_reason() {
        check::<String>(json!(5), "must be a string, found a number");
        check::<Agent>(json!([]), "must be an object, found an array");
        check::<Agent>(json!({"id": {}}), "id: must be a string, found an object");
        check::<Agent>(json!({"id": null}), "id: must be a string, found null");
        check::<Agent>(json!({}), "id: is missing");
        check::<ToolResult>(
            json!({"outputs": "secret"}),
            "outputs: must be an array, found a string",
        );
        check::<ToolDefinition>(
            json!({"name": "", "id": "", "type": "", "outputs": null}),
            "arguments: is missing",
        );
        let provider = json!({"name": "p"});
        let model =
            |max: Value| json!({"id": "", "name": "", "provider": provider, "maxTokens": max});
        check::<Model>(model(json!(1.5)), "maxTokens: must be an integer, found a number");
        check::<Model>(model(json!(u64::MAX)), "maxTokens: must be an integer, found a number");
        check::<Role>(json!("robot"), "must be one of user, agent, system");
        check::<ContentPart>(
            json!({"kind": "text", "text": true}),
            "text: must be a string, found a boolean",
        );
        let message = |part: Value| json!({"id": "m", "role": "user", "content": [part]});
        check::<Message>(
            message(json!({"kind": 1})),
            "content[0].kind: must be a string, found a number",
        );
        check::<Message>(
            message(json!({"kind": "form"})),
            "content[0].kind: must be one of text, file, data",
        );
        check::<Message>(
            message(json!({"file": {"bytes": 1}})),
            "content[0].file.bytes: must be a string, found a number",
        );
        check::<Message>(
            message(json!({"file": {}})),
            "content[0].file: must have either bytes or uri",
        );
        check::<Message>(
            message(json!({})),
            "content[0]: must be a part: an object with kind text, file or data",
        );
        check::<ToolResult>(
            json!({"outputs": [{"text": ""}, {"data": {}}], "isError": false}),
            "outputs[1].kind: must be \"text\"",
        );
    }
}
