//! A file as a tree in which everything has its place, so that one fault does not hide the others.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_saphyr::Spanned;

/// A position in a file, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FilePosition {
    pub(crate) line: u64,
    pub(crate) column: u64,
}

impl FilePosition {
    /// Returns the position of a value.
    pub(crate) fn from_spanned<T>(spanned: &Spanned<T>) -> Self {
        Self { line: spanned.referenced.line(), column: spanned.referenced.column() }
    }
}

/// A value with its position.
#[derive(Clone, Debug)]
pub(super) struct PositionedValue<T> {
    pub(super) value: T,
    pub(super) place: FilePosition,
}

impl<T> From<Spanned<T>> for PositionedValue<T> {
    fn from(spanned: Spanned<T>) -> Self {
        Self { place: FilePosition::from_spanned(&spanned), value: spanned.value }
    }
}

/// A node of a YAML file.
#[derive(Clone, Debug)]
pub(super) enum YamlNode {
    /// A value that is neither a list nor a mapping.
    Scalar(Value),
    List(Vec<PositionedValue<Self>>),
    Members(Vec<(PositionedValue<String>, PositionedValue<Self>)>),
}

impl YamlNode {
    /// Returns the value without positions.
    pub(super) fn to_value(&self) -> Value {
        match self {
            Self::Scalar(value) => value.clone(),
            Self::List(items) => items.iter().map(|item| item.value.to_value()).collect(),
            Self::Members(members) => {
                let members = members.iter();
                let members =
                    members.map(|(name, node)| (name.value.clone(), node.value.to_value()));
                Value::Object(members.collect())
            }
        }
    }
}

impl<'de> Deserialize<'de> for YamlNode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct YamlNodeVisitor;

        impl<'de> Visitor<'de> for YamlNodeVisitor {
            type Value = YamlNode;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }

            fn visit_bool<E: Error>(self, value: bool) -> Result<YamlNode, E> {
                Ok(YamlNode::Scalar(value.into()))
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<YamlNode, E> {
                Ok(YamlNode::Scalar(value.into()))
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<YamlNode, E> {
                Ok(YamlNode::Scalar(value.into()))
            }

            fn visit_f64<E: Error>(self, value: f64) -> Result<YamlNode, E> {
                Ok(YamlNode::Scalar(value.into()))
            }

            fn visit_str<E: Error>(self, value: &str) -> Result<YamlNode, E> {
                Ok(YamlNode::Scalar(value.into()))
            }

            fn visit_unit<E: Error>(self) -> Result<YamlNode, E> {
                Ok(YamlNode::Scalar(Value::Null))
            }

            fn visit_none<E: Error>(self) -> Result<YamlNode, E> {
                Ok(YamlNode::Scalar(Value::Null))
            }

            fn visit_some<D: Deserializer<'de>>(
                self,
                deserializer: D,
            ) -> Result<YamlNode, D::Error> {
                YamlNode::deserialize(deserializer)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<YamlNode, A::Error> {
                let mut list = Vec::new();
                while let Some(item) = items.next_element::<Spanned<YamlNode>>()? {
                    list.push(item.into());
                }
                Ok(YamlNode::List(list))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<YamlNode, A::Error> {
                let mut members = Vec::new();
                while let Some((name, node)) =
                    entries.next_entry::<Spanned<String>, Spanned<YamlNode>>()?
                {
                    members.push((name.into(), node.into()));
                }
                Ok(YamlNode::Members(members))
            }
        }

        deserializer.deserialize_any(YamlNodeVisitor)
    }
}
