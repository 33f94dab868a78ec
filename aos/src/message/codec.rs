//! From bytes to typed objects: bounded JSON, then members by name with the place of every fault.

use std::fmt;

use serde::de::{self, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserializer, Serialize, Serializer};
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
    /// The path, with the innermost segment first: it is built only while the error is returned, so that a
    /// valid message has no cost.
    segments: Vec<MemberPathSegment>,
    reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum MemberPathSegment {
    Member(String),
    Item(usize),
}

impl InvalidMember {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self { segments: Vec::new(), reason: reason.into() }
    }

    /// Adds the name of the enclosing member to the path of the error.
    pub(crate) fn in_member(mut self, name: &str) -> Self {
        self.segments.push(MemberPathSegment::Member(name.to_owned()));
        self
    }

    fn in_item(mut self, index: usize) -> Self {
        self.segments.push(MemberPathSegment::Item(index));
        self
    }

    /// The reason, as a sentence without the location.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// The path of the member: `params.toolCallRequest.inputs[0].name`.
    pub fn path(&self) -> String {
        let mut path = String::new();
        for segment in self.segments.iter().rev() {
            match segment {
                MemberPathSegment::Member(name) if path.is_empty() => path.push_str(name),
                MemberPathSegment::Member(name) => {
                    path.push('.');
                    path.push_str(name);
                }
                MemberPathSegment::Item(index) => path.extend(["[", &index.to_string(), "]"]),
            }
        }
        path
    }
}

impl fmt::Display for InvalidMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path();
        if path.is_empty() {
            write!(f, "{}", self.reason)
        } else {
            write!(f, "{path}: {}", self.reason)
        }
    }
}

impl std::error::Error for InvalidMember {}

/// A type that is read from one JSON value.
pub(crate) trait ReadJson: Sized {
    fn read(value: Value) -> Result<Self, InvalidMember>;
}

/// The members of one object, which are removed one by one.
pub(crate) struct ObjectMembers(Object);

impl From<Object> for ObjectMembers {
    fn from(object: Object) -> Self {
        Self(object)
    }
}

impl ObjectMembers {
    pub(crate) fn from_value(value: Value) -> Result<Self, InvalidMember> {
        match value {
            Value::Object(members) => Ok(Self(members)),
            other => Err(type_error("an object", &other)),
        }
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// Removes and reads a required member.
    pub(crate) fn required<T: ReadJson>(&mut self, name: &str) -> Result<T, InvalidMember> {
        let value = self.0.shift_remove(name);
        value
            .ok_or_else(|| InvalidMember::new("is missing"))
            .and_then(T::read)
            .map_err(|e| e.in_member(name))
    }

    /// Removes and reads an optional member. `null` counts as absent: most writers of optional members send
    /// it.
    pub(crate) fn optional<T: ReadJson>(&mut self, name: &str) -> Result<Option<T>, InvalidMember> {
        match self.0.shift_remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => T::read(value).map(Some).map_err(|e| e.in_member(name)),
        }
    }

    /// The members that were not taken.
    pub(crate) fn into_remaining(self) -> Object {
        self.0
    }
}

/// Creates the error for a value of the wrong type.
pub(crate) fn type_error(what: &str, found: &Value) -> InvalidMember {
    let found = match found {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    };
    InvalidMember::new(format!("must be {what}, found {found}"))
}

impl ReadJson for Value {
    fn read(value: Value) -> Result<Self, InvalidMember> {
        Ok(value)
    }
}

impl ReadJson for String {
    fn read(value: Value) -> Result<Self, InvalidMember> {
        match value {
            Value::String(text) => Ok(text),
            other => Err(type_error("a string", &other)),
        }
    }
}

impl ReadJson for bool {
    fn read(value: Value) -> Result<Self, InvalidMember> {
        value.as_bool().ok_or_else(|| type_error("a boolean", &value))
    }
}

impl ReadJson for i64 {
    fn read(value: Value) -> Result<Self, InvalidMember> {
        value.as_i64().ok_or_else(|| InvalidMember::new("must be an integer"))
    }
}

impl ReadJson for Object {
    fn read(value: Value) -> Result<Self, InvalidMember> {
        match value {
            Value::Object(object) => Ok(object),
            other => Err(type_error("an object", &other)),
        }
    }
}

impl<T: ReadJson> ReadJson for Vec<T> {
    fn read(value: Value) -> Result<Self, InvalidMember> {
        let Value::Array(items) = value else { return Err(type_error("an array", &value)) };
        let read = |(index, item)| T::read(item).map_err(|e| e.in_item(index));
        items.into_iter().enumerate().map(read).collect()
    }
}

/// Reads members that are required but may be `null`.
impl<T: ReadJson> ReadJson for Option<T> {
    fn read(value: Value) -> Result<Self, InvalidMember> {
        if value.is_null() { Ok(None) } else { T::read(value).map(Some) }
    }
}

/// An instant. The texts ask for ISO 8601 with "UTC recommended", so a time without an offset is read as
/// UTC; the written form always ends in `Z`. A date alone is not an instant.
impl ReadJson for jiff::Timestamp {
    fn read(value: Value) -> Result<Self, InvalidMember> {
        let text = String::read(value)?;
        let no_time =
            || InvalidMember::new("must be an ISO 8601 time such as 2025-01-24T15:30:45Z");
        if let Ok(timestamp) = text.parse() {
            return Ok(timestamp);
        }
        if !text.contains([':', 'T', 't']) {
            return Err(no_time());
        }
        let local: jiff::civil::DateTime = text.parse().map_err(|_| no_time())?;
        let utc = local.to_zoned(jiff::tz::TimeZone::UTC).map_err(|_| no_time())?;
        Ok(utc.timestamp())
    }
}

/// The part of an object that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteExtent {
    Whole,
    WithoutContext,
}

impl WriteExtent {
    /// Returns true when a member of this name is written.
    pub(crate) fn includes(self, name: &str) -> bool {
        self == Self::Whole || name != "context"
    }
}

/// A type that is written as one JSON object.
pub(crate) trait WriteJson {
    fn write<M: SerializeMap>(&self, map: &mut M, extent: WriteExtent) -> Result<(), M::Error>;
}

pub(crate) fn serialize<S: Serializer>(
    object: &impl WriteJson,
    serializer: S,
    extent: WriteExtent,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(None)?;
    object.write(&mut map, extent)?;
    map.end()
}

/// Writes the unknown members, except names that the object itself has written.
pub(crate) fn write_extra<M: SerializeMap>(
    map: &mut M,
    known: &[&str],
    extra: &Object,
) -> Result<(), M::Error> {
    for (name, value) in extra {
        if !known.contains(&name.as_str()) {
            map.serialize_entry(name, value)?;
        }
    }
    Ok(())
}

/// Writes a member unless it is absent.
pub(crate) fn write_optional<M: SerializeMap, T: Serialize>(
    map: &mut M,
    name: &str,
    value: Option<&T>,
) -> Result<(), M::Error> {
    value.map_or(Ok(()), |value| map.serialize_entry(name, value))
}

/// Declares the data objects of the protocol: one line per member, in the words of the text.
///
/// `required` members must be present. `sent` members are always written; when reading, a missing one
/// counts as empty. `optional` members may be absent. All other members go to `extra` and are written back,
/// so that a guardian does not lose data of an agent.
macro_rules! objects {
    ($(
        $(#[$meta:meta])*
        $object:ident {
            $(required { $( $(#[doc = $rdoc:literal])* $rfield:ident $rname:literal: $rtype:ty, )+ })?
            $(sent { $( $(#[doc = $sdoc:literal])* $sfield:ident $sname:literal: $stype:ty, )+ })?
            $(optional { $( $(#[doc = $odoc:literal])* $ofield:ident $oname:literal: $otype:ty, )+ })?
        }
    )+) => { $(
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $object {
            $($( $(#[doc = $rdoc])* pub $rfield: $rtype, )+)?
            $($( $(#[doc = $sdoc])* pub $sfield: $stype, )+)?
            $($( $(#[doc = $odoc])* pub $ofield: Option<$otype>, )+)?
            /// Members that the text does not define, unchanged.
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

        impl $crate::message::codec::ReadJson for $object {
            fn read(value: serde_json::Value) -> Result<Self, $crate::message::InvalidMember> {
                let mut members = $crate::message::codec::ObjectMembers::from_value(value)?;
                Ok(Self {
                    $($($rfield: members.required($rname)?,)+)?
                    $($($sfield: members.optional($sname)?.unwrap_or_default(),)+)?
                    $($($ofield: members.optional($oname)?,)+)?
                    extra: members.into_remaining(),
                })
            }
        }

        impl $crate::message::codec::WriteJson for $object {
            fn write<M: serde::ser::SerializeMap>(
                &self,
                map: &mut M,
                extent: $crate::message::codec::WriteExtent,
            ) -> Result<(), M::Error> {
                $($(if extent.includes($rname) {
                    map.serialize_entry($rname, &self.$rfield)?;
                })+)?
                $($(if extent.includes($sname) {
                    map.serialize_entry($sname, &self.$sfield)?;
                })+)?
                $($(if extent.includes($oname) {
                    $crate::message::codec::write_optional(map, $oname, self.$ofield.as_ref())?;
                })+)?
                let known = [$($($rname,)+)? $($($sname,)+)? $($($oname,)+)?];
                $crate::message::codec::write_extra(map, &known, &self.extra)
            }
        }

        impl serde::Serialize for $object {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use $crate::message::codec::{WriteExtent, serialize};
                serialize(self, serializer, WriteExtent::Whole)
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
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $set { $( $(#[doc = $wdoc])* $variant, )+ }

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

        impl $crate::message::codec::ReadJson for $set {
            fn read(value: serde_json::Value) -> Result<Self, $crate::message::InvalidMember> {
                let known = Self::ALL.iter().copied();
                known.clone().find(|word| value == word.as_str()).ok_or_else(|| {
                    let known: Vec<_> = known.map(Self::as_str).collect();
                    $crate::message::InvalidMember::new(format!("must be one of {}", known.join(", ")))
                })
            }
        }

        impl serde::Serialize for $set {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }
    )+ };
}
pub(crate) use words;
