//! One alternative of a type: what stands at and right below a value.

use indexmap::IndexSet;
use serde_json::Value;

use super::schema::{SchemaRef, alternatives_of};
use super::{FieldSelection, InferredType, JsonTypes, MemberPresence, ObjectType};
use crate::task::SelectedField;

/// The maximum number of names that are gathered for a message.
pub(super) const MAX_NAMES: usize = 100;

/// The maximum number of alternatives of a type.
const MAX_ALTERNATIVES: usize = 256;

/// One alternative of a type.
#[derive(Debug, Clone)]
pub(super) struct SchemaAlternative<'s> {
    /// The kinds that the value may have; never empty.
    pub(super) kinds: JsonTypes,
    /// The only possible values, if they are known.
    pub(super) choices: Option<Vec<&'s Value>>,
    pub(super) body: MemberTypes<'s>,
}

/// The known facts about members and items.
#[derive(Debug, Clone)]
pub(super) enum MemberTypes<'s> {
    Unknown,
    Value(&'s Value),
    Object(ObjectType<'s>),
    Tuple(Vec<InferredType<'s>>),
    List(InferredType<'s>),
    Schemas {
        /// The schemas that the value fits, all of them.
        parts: Vec<SchemaRef<'s>>,
        /// True when there are unknown schemas.
        open: bool,
    },
    Selection(FieldSelection),
}

/// The member of an object under a name.
#[derive(Debug, Clone)]
pub(super) enum ObjectMember<'s> {
    /// A value, if the member is present.
    Known(InferredType<'s>),
    /// A member that the schema does not describe and does not forbid.
    Undeclared,
    /// Nothing.
    Never,
}

/// The condition under which a member is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AbsenceReason {
    Always,
    UnlessGiven,
}

impl<'s> InferredType<'s> {
    /// Returns the alternatives; at least one.
    pub(super) fn alternatives(&self) -> Vec<SchemaAlternative<'s>> {
        let shape = |kinds, body| vec![SchemaAlternative { kinds, choices: None, body }];
        match self {
            Self::Unknown => vec![SchemaAlternative::unknown()],
            Self::Kinds(kinds) => shape(*kinds, MemberTypes::Unknown),
            Self::Choice(values) => {
                let kinds = values
                    .iter()
                    .fold(JsonTypes::NONE, |k, value| k.or(JsonTypes::from_value(value)));
                let body = match values.as_slice() {
                    [value] => MemberTypes::Value(value),
                    _ => MemberTypes::Unknown,
                };
                vec![SchemaAlternative { kinds, choices: Some(values.clone()), body }]
            }
            Self::Object(object) => shape(JsonTypes::OBJECT, MemberTypes::Object(object.clone())),
            Self::Tuple(items) => shape(JsonTypes::ARRAY, MemberTypes::Tuple(items.clone())),
            Self::List(item) => shape(JsonTypes::ARRAY, MemberTypes::List((**item).clone())),
            Self::Schema(parts) => alternatives_of(parts),
            Self::Selection(selection) => {
                let kinds = JsonTypes::OBJECT.or(JsonTypes::ARRAY).or(JsonTypes::NULL);
                shape(kinds, MemberTypes::Selection(selection.clone()))
            }
            Self::Union(types) => {
                let shapes: Vec<_> = types.iter().flat_map(Self::alternatives).collect();
                if shapes.len() > MAX_ALTERNATIVES {
                    vec![SchemaAlternative::unknown()]
                } else {
                    shapes
                }
            }
        }
    }
}

impl<'s> SchemaAlternative<'s> {
    /// Creates the alternative that allows any value.
    pub(super) fn unknown() -> Self {
        Self { kinds: JsonTypes::ANY, choices: None, body: MemberTypes::Unknown }
    }

    /// Creates an alternative for values of these kinds. When `open` is true, unknown schemas may also
    /// apply.
    pub(super) fn from_kinds(kinds: JsonTypes, open: bool) -> Self {
        Self { kinds, choices: None, body: MemberTypes::Schemas { parts: Vec::new(), open } }
    }

    /// The shape that both allow; `None` when both allow nothing in common.
    pub(super) fn intersect(&self, other: &Self) -> Option<Self> {
        let mut kinds = self.kinds.and(other.kinds);
        let choices = match (&self.choices, &other.choices) {
            (Some(one), Some(other)) => Some(one.iter().filter(|v| other.contains(v)).collect()),
            (Some(one), None) | (None, Some(one)) => Some(one.iter().collect::<Vec<_>>()),
            (None, None) => None,
        };
        let choices: Option<Vec<&Value>> = choices.map(|values| {
            values
                .into_iter()
                .copied()
                .filter(|v| kinds.contains(JsonTypes::from_value(v)))
                .collect()
        });
        if let Some(values) = &choices {
            kinds = values
                .iter()
                .fold(JsonTypes::NONE, |kinds, value| kinds.or(JsonTypes::from_value(value)));
        }
        let body = match (&self.body, &other.body) {
            (
                MemberTypes::Schemas { parts, open },
                MemberTypes::Schemas { parts: others, open: others_open },
            ) => MemberTypes::Schemas {
                parts: parts.iter().chain(others).copied().collect(),
                open: *open || *others_open,
            },
            (body, _) => body.clone(),
        };
        (!kinds.is_empty()).then_some(Self { kinds, choices, body })
    }

    /// The member of an object of this shape under `name`.
    pub(super) fn member(&self, name: &str) -> ObjectMember<'s> {
        let or_never = |found: Option<InferredType<'s>>| {
            found.map_or(ObjectMember::Never, ObjectMember::Known)
        };
        match &self.body {
            MemberTypes::Unknown => ObjectMember::Known(InferredType::Unknown),
            MemberTypes::Value(value) => or_never(value.get(name).map(InferredType::literal)),
            MemberTypes::Object(object) => match object.members.get(name) {
                Some((member, _)) => ObjectMember::Known(member.clone()),
                None if object.open => ObjectMember::Known(InferredType::Unknown),
                None => ObjectMember::Never,
            },
            MemberTypes::Tuple(_) | MemberTypes::List(_) => ObjectMember::Never,
            MemberTypes::Schemas { parts, open } => {
                let declared: Vec<_> = parts
                    .iter()
                    .filter_map(|part| Some(part.with_schema(part.map("properties")?.get(name)?)))
                    .collect();
                if declared.is_empty() {
                    rest(parts, *open)
                } else {
                    ObjectMember::Known(InferredType::Schema(declared))
                }
            }
            MemberTypes::Selection(selection) => match selection.member(name) {
                SelectedField::Nested(selection) => {
                    ObjectMember::Known(InferredType::Selection(selection))
                }
                SelectedField::Leaf | SelectedField::Unknown => {
                    ObjectMember::Known(InferredType::Unknown)
                }
                SelectedField::NotSelected => ObjectMember::Never,
            },
        }
    }

    /// Returns the names of the known members.
    pub(super) fn names(&self) -> Vec<String> {
        let keys: Vec<String> = match &self.body {
            MemberTypes::Unknown | MemberTypes::Tuple(_) | MemberTypes::List(_) => Vec::new(),
            MemberTypes::Value(value) => {
                value.as_object().into_iter().flat_map(|members| members.keys().cloned()).collect()
            }
            MemberTypes::Object(object) => object.members.keys().cloned().collect(),
            MemberTypes::Schemas { parts, .. } => parts
                .iter()
                .filter_map(|part| part.map("properties"))
                .flat_map(|properties| properties.keys().cloned())
                .take(MAX_NAMES)
                .collect(),
            MemberTypes::Selection(selection) => selection.names(),
        };
        let mut names = Vec::new();
        for key in keys.into_iter().take(MAX_NAMES) {
            if !names.contains(&key) {
                names.push(key);
            }
        }
        names
    }

    /// Returns the members that an object of this shape certainly has.
    pub(super) fn sure_members(&self) -> Vec<(&str, InferredType<'s>)> {
        match &self.body {
            MemberTypes::Value(Value::Object(members)) => members
                .iter()
                .map(|(name, value)| (name.as_str(), InferredType::literal(value)))
                .collect(),
            MemberTypes::Object(object) => object
                .members
                .iter()
                .filter(|(_, (_, presence))| *presence != MemberPresence::Optional)
                .map(|(name, (member, _))| (name.as_str(), member.clone()))
                .collect(),
            MemberTypes::Schemas { .. } => {
                let typed = |name| match self.member(name) {
                    ObjectMember::Known(member) => Some((name, member)),
                    ObjectMember::Undeclared | ObjectMember::Never => None,
                };
                self.required().into_iter().filter_map(typed).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The certain lack of a member in an object of this shape: always, or unless a value is given.
    pub(super) fn absence_of(&self, name: &str) -> Option<AbsenceReason> {
        match &self.body {
            MemberTypes::Value(value) => value.get(name).is_none().then_some(AbsenceReason::Always),
            MemberTypes::Object(object) => match object.members.get(name) {
                Some((_, MemberPresence::IfProvided)) => Some(AbsenceReason::UnlessGiven),
                Some(_) => None,
                None => (!object.open).then_some(AbsenceReason::Always),
            },
            _ => None,
        }
    }

    /// Returns true when it is only known from a service's description of its responses.
    pub(super) fn is_from_declaration(&self) -> bool {
        match &self.body {
            MemberTypes::Schemas { parts, .. } => !parts.is_empty(),
            MemberTypes::Selection(_) => true,
            _ => false,
        }
    }

    /// Returns the members that schemas require of values that are sent.
    pub(super) fn required(&self) -> IndexSet<&'s str> {
        let MemberTypes::Schemas { parts, .. } = &self.body else { return IndexSet::new() };
        let mut names = IndexSet::new();
        for part in parts {
            let listed = part.get("required").and_then(Value::as_array);
            let listed = listed.filter(|listed| part.book.budget.spend(listed.len()));
            names.extend(listed.into_iter().flatten().filter_map(Value::as_str));
        }
        names.retain(|name| {
            !parts.iter().any(|part| {
                let property = part.map("properties").and_then(|members| members.get(*name));
                property.is_some_and(|schema| part.with_schema(schema).is_read_only())
            })
        });
        names
    }

    /// Returns the item at an index, counted from the end when it is negative; `None` when there is never
    /// such an item.
    pub(super) fn item(&self, index: i64) -> Option<InferredType<'s>> {
        let place = |length: usize| match usize::try_from(index) {
            Ok(index) => Some(index),
            Err(_) => length.checked_sub(usize::try_from(index.unsigned_abs()).ok()?),
        };
        match &self.body {
            MemberTypes::Value(Value::Array(items)) => {
                Some(InferredType::literal(items.get(place(items.len())?)?))
            }
            MemberTypes::Tuple(items) => items.get(place(items.len())?).cloned(),
            MemberTypes::Object(_) | MemberTypes::Value(_) => None,
            MemberTypes::Schemas { parts, .. } => match usize::try_from(index) {
                Ok(index) => Some(item_at(parts, index)),
                Err(_) => Some(self.items()),
            },
            MemberTypes::List(_) | MemberTypes::Selection(_) | MemberTypes::Unknown => {
                Some(self.items())
            }
        }
    }

    /// Returns the type of any item.
    pub(super) fn items(&self) -> InferredType<'s> {
        match &self.body {
            MemberTypes::Value(Value::Array(items)) => {
                InferredType::any_of(items.iter().map(InferredType::literal))
            }
            MemberTypes::Tuple(items) => InferredType::any_of(items.iter().cloned()),
            MemberTypes::List(item) => item.clone(),
            MemberTypes::Selection(selection) => InferredType::Selection(selection.clone()),
            MemberTypes::Schemas { parts, .. } => {
                let tuples = parts.iter().filter_map(|part| tuple(*part)).map(Vec::len);
                let longest = tuples.max().unwrap_or(0);
                InferredType::any_of((0..=longest).map(|index| item_at(parts, index)))
            }
            MemberTypes::Object(_) | MemberTypes::Value(_) | MemberTypes::Unknown => {
                InferredType::Unknown
            }
        }
    }

    /// Returns the type of any member.
    pub(super) fn values(&self) -> InferredType<'s> {
        match &self.body {
            MemberTypes::Value(Value::Object(members)) => {
                InferredType::any_of(members.values().map(InferredType::literal))
            }
            MemberTypes::Object(object) if !object.open => {
                InferredType::any_of(object.members.values().map(|(member, _)| member.clone()))
            }
            _ => InferredType::Unknown,
        }
    }
}

/// The member under a name that no schema declares.
fn rest<'s>(parts: &[SchemaRef<'s>], open: bool) -> ObjectMember<'s> {
    let (mut declares, mut forbids, mut others) = (false, false, Vec::new());
    for part in parts {
        declares |= part.map("properties").is_some();
        if part.map("patternProperties").is_some() {
            return ObjectMember::Known(InferredType::Unknown);
        }
        for key in ["additionalProperties", "unevaluatedProperties"] {
            match part.get(key) {
                None => {}
                Some(Value::Bool(false)) => forbids = true,
                Some(Value::Object(schema)) if !schema.is_empty() => {
                    others.extend(part.get(key).map(|schema| part.with_schema(schema)));
                }
                Some(_) => return ObjectMember::Known(InferredType::Unknown),
            }
        }
    }
    match (open, others.is_empty()) {
        (true, _) => ObjectMember::Known(InferredType::Unknown),
        (false, false) => ObjectMember::Known(InferredType::Schema(others)),
        (false, true) if forbids => ObjectMember::Never,
        (false, true) if declares => ObjectMember::Undeclared,
        (false, true) => ObjectMember::Known(InferredType::Unknown),
    }
}

/// Returns the schemas of the first items, as 2020-12 or older drafts write them.
fn tuple<'s>(part: SchemaRef<'s>) -> Option<&'s Vec<Value>> {
    ["prefixItems", "items"].iter().find_map(|key| part.get(key)?.as_array())
}

fn item_at<'s>(parts: &[SchemaRef<'s>], index: usize) -> InferredType<'s> {
    let declared = parts.iter().filter_map(|part| {
        let first = tuple(*part).and_then(|schemas| schemas.get(index));
        let others = ["items", "additionalItems"].iter().filter_map(|key| part.get(key));
        let schema = first.or_else(|| others.into_iter().find(|schema| schema.is_object()))?;
        Some(part.with_schema(schema))
    });
    let declared: Vec<_> = declared.collect();
    if declared.is_empty() { InferredType::Unknown } else { InferredType::Schema(declared) }
}
