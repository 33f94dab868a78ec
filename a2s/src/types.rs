//! Types: the known facts about a value before a run.
//!
//! A [`InferredType`] is a set of JSON values that contains every possible value, and perhaps more. The
//! type of an unknown value is [`InferredType::Unknown`], the set of all values. The types of names,
//! templates and responses come from declarations, from the schemas of specifications and from the text of
//! GraphQL queries. A finding states that two such sets have no value in common, or that a path leads out
//! of one; so an unknown type never causes a finding.
//!
//! Schemas are read along a path, not as a whole: they may refer to themselves, and a step does not need
//! most of a specification.

mod assignable;
mod check;
mod json_types;
mod schema;
mod schema_alternative;
mod type_env;
mod type_path;
mod variable;

use indexmap::IndexMap;
use serde_json::Value;

use crate::task::FieldSelection;
use crate::template::PathKey;
pub(crate) use check::check_types;
pub use json_types::JsonTypes;
pub(crate) use schema::{SchemaContext, SchemaRef};
pub(crate) use type_env::{LoopScope, TypeEnv};
pub(crate) use variable::{variable_schema, variable_type};

/// The maximum number of types in a union.
const MAX_UNION: usize = 64;

/// The known facts about a value: a set that surely contains it.
#[derive(Debug, Clone)]
pub(crate) enum InferredType<'s> {
    /// Nothing.
    Unknown,
    /// Its kind.
    Kinds(JsonTypes),
    /// The value is one of these.
    Choice(Vec<&'s Value>),
    /// The value is an object.
    Object(ObjectType<'s>),
    /// The value is a list of exactly these items.
    Tuple(Vec<Self>),
    /// The value is a list of items of this type.
    List(Box<Self>),
    /// The value fits all of these schemas.
    Schema(Vec<SchemaRef<'s>>),
    /// The value that a query selects: such an object, a list of them, or null.
    Selection(FieldSelection),
    /// The value has one of these types.
    Union(Vec<Self>),
}

/// An object with known members.
#[derive(Debug, Clone, Default)]
pub(crate) struct ObjectType<'s> {
    /// The members.
    pub(crate) members: IndexMap<String, (InferredType<'s>, MemberPresence)>,
    /// True when there may be others.
    pub(crate) open: bool,
}

/// The presence of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MemberPresence {
    /// The member is present.
    Always,
    /// The member may be present.
    Optional,
    /// The member is present when a value is given for an optional parameter.
    IfProvided,
}

impl<'s> InferredType<'s> {
    /// Returns the type of exactly this value.
    pub(crate) fn literal(value: &'s Value) -> Self {
        Self::Choice(vec![value])
    }

    /// The type of the values that fit a schema of a task.
    pub(crate) fn from_schema(schema: &'s Value, book: SchemaContext<'s>) -> Self {
        match schema {
            Value::Null => Self::Unknown,
            schema => Self::Schema(vec![SchemaRef::new(schema, book)]),
        }
    }

    /// Returns the type of a list of these items.
    pub(crate) fn list(self) -> Self {
        Self::List(Box::new(self))
    }

    /// Returns a type that also allows null.
    pub(crate) fn or_null(self) -> Self {
        self.or(Self::Kinds(JsonTypes::NULL))
    }

    /// Returns the union of two types.
    pub(crate) fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Unknown, _) | (_, Self::Unknown) => Self::Unknown,
            (Self::Kinds(one), Self::Kinds(other)) => Self::Kinds(one.or(other)),
            (Self::Union(mut types), Self::Union(others)) => {
                types.extend(others);
                Self::Union(types)
            }
            (Self::Union(mut types), other) | (other, Self::Union(mut types)) => {
                types.push(other);
                Self::Union(types)
            }
            (one, other) => Self::Union(vec![one, other]),
        }
    }

    /// Returns the union of several types. The result is unknown for zero types and for too many types.
    pub(crate) fn any_of(types: impl IntoIterator<Item = Self>) -> Self {
        let mut known: Vec<Self> = Vec::new();
        for one in types {
            if !known.iter().any(|known| known.is_same(&one)) {
                known.push(one);
            }
            if known.len() > MAX_UNION {
                return Self::Unknown;
            }
        }
        known.into_iter().reduce(Self::or).unwrap_or(Self::Unknown)
    }

    /// Returns true when two types are the same schemas: a specification that repeats itself would soon
    /// have too many.
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Schema(one), Self::Schema(other)) => {
                let same = |(one, other): (&SchemaRef<'_>, &SchemaRef<'_>)| {
                    std::ptr::eq(one.schema, other.schema)
                };
                one.len() == other.len() && one.iter().zip(other).all(same)
            }
            _ => false,
        }
    }

    /// The type of the member `name` in an object of this type.
    pub(crate) fn nested(&self, name: &str) -> Self {
        self.at(&[PathKey::Name(name.to_owned())]).unwrap_or(Self::Unknown)
    }

    /// The type of the items in a list of this type.
    pub(crate) fn item_type(&self) -> Self {
        self.items().unwrap_or(Self::Unknown)
    }

    /// Returns the known members of an object; empty when the value may be something other than an object.
    pub(crate) fn members(&self) -> Vec<(String, Self)> {
        if self.kinds() != JsonTypes::OBJECT {
            return Vec::new();
        }
        let mut members: IndexMap<String, Self> = IndexMap::new();
        for shape in self.alternatives() {
            for name in shape.names() {
                members.entry(name).or_insert(Self::Unknown);
            }
        }
        for (name, member) in &mut members {
            *member = self.nested(name);
        }
        members.into_iter().collect()
    }

    /// Returns true when nothing at all is known, without a look into schemas.
    pub(crate) fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown)
    }

    /// Returns the kinds that the value may have.
    pub(crate) fn kinds(&self) -> JsonTypes {
        self.alternatives().iter().fold(JsonTypes::NONE, |kinds, shape| kinds.or(shape.kinds))
    }
}
