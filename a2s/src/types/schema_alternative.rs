//! One alternative of a type: what stands at and right below a value.

use indexmap::IndexSet;
use serde_json::Value;

use super::schema::{Part, shapes_of};
use super::{Kinds, Object, Presence, Selection, Type};
use crate::task::Selected;

/// The most names that are gathered for a message.
pub(super) const MAX_NAMES: usize = 100;

/// The most alternatives of a type.
const MAX_SHAPES: usize = 256;

/// One alternative of a type.
#[derive(Debug, Clone)]
pub(super) struct Shape<'s> {
    /// The kinds that it may be of; never none.
    pub(super) kinds: Kinds,
    /// The only values that there are.
    pub(super) choices: Option<Vec<&'s Value>>,
    pub(super) body: Body<'s>,
}

/// What is known of members and items.
#[derive(Debug, Clone)]
pub(super) enum Body<'s> {
    Unknown,
    Value(&'s Value),
    Object(Object<'s>),
    Tuple(Vec<Type<'s>>),
    List(Type<'s>),
    Schemas {
        /// It fits all of these.
        parts: Vec<Part<'s>>,
        /// Whether there are schemas that are not known.
        open: bool,
    },
    Selection(Selection),
}

/// What an object has under a name.
#[derive(Debug, Clone)]
pub(super) enum Member<'s> {
    /// A value, if it is there.
    Is(Type<'s>),
    /// Nothing that the schema speaks of; it does not forbid it either.
    Undeclared,
    /// Nothing.
    Never,
}

/// When a member is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lack {
    Always,
    UnlessGiven,
}

impl<'s> Type<'s> {
    /// The alternatives; at least one.
    pub(super) fn shapes(&self) -> Vec<Shape<'s>> {
        let shape = |kinds, body| vec![Shape { kinds, choices: None, body }];
        match self {
            Self::Unknown => vec![Shape::unknown()],
            Self::Kinds(kinds) => shape(*kinds, Body::Unknown),
            Self::Choice(values) => {
                let kinds = values.iter().fold(Kinds::NONE, |k, value| k.or(Kinds::of(value)));
                let body = match values.as_slice() {
                    [value] => Body::Value(value),
                    _ => Body::Unknown,
                };
                vec![Shape { kinds, choices: Some(values.clone()), body }]
            }
            Self::Object(object) => shape(Kinds::OBJECT, Body::Object(object.clone())),
            Self::Tuple(items) => shape(Kinds::ARRAY, Body::Tuple(items.clone())),
            Self::List(item) => shape(Kinds::ARRAY, Body::List((**item).clone())),
            Self::Schema(parts) => shapes_of(parts),
            Self::Selection(selection) => {
                let kinds = Kinds::OBJECT.or(Kinds::ARRAY).or(Kinds::NULL);
                shape(kinds, Body::Selection(selection.clone()))
            }
            Self::Union(types) => {
                let shapes: Vec<_> = types.iter().flat_map(Self::shapes).collect();
                if shapes.len() > MAX_SHAPES { vec![Shape::unknown()] } else { shapes }
            }
        }
    }
}

impl<'s> Shape<'s> {
    /// Any value.
    pub(super) fn unknown() -> Self {
        Self { kinds: Kinds::ANY, choices: None, body: Body::Unknown }
    }

    /// Values of some kinds, about which schemas may say more.
    pub(super) fn of_schemas(kinds: Kinds, open: bool) -> Self {
        Self { kinds, choices: None, body: Body::Schemas { parts: Vec::new(), open } }
    }

    /// What both allow; none when that is nothing.
    pub(super) fn with(&self, other: &Self) -> Option<Self> {
        let mut kinds = self.kinds.and(other.kinds);
        let choices = match (&self.choices, &other.choices) {
            (Some(one), Some(other)) => Some(one.iter().filter(|v| other.contains(v)).collect()),
            (Some(one), None) | (None, Some(one)) => Some(one.iter().collect::<Vec<_>>()),
            (None, None) => None,
        };
        let choices: Option<Vec<&Value>> = choices.map(|values| {
            values.into_iter().copied().filter(|v| kinds.contains(Kinds::of(v))).collect()
        });
        if let Some(values) = &choices {
            kinds = values.iter().fold(Kinds::NONE, |kinds, value| kinds.or(Kinds::of(value)));
        }
        let body = match (&self.body, &other.body) {
            (Body::Schemas { parts, open }, Body::Schemas { parts: others, open: others_open }) => {
                Body::Schemas {
                    parts: parts.iter().chain(others).copied().collect(),
                    open: *open || *others_open,
                }
            }
            (body, _) => body.clone(),
        };
        (!kinds.is_empty()).then_some(Self { kinds, choices, body })
    }

    /// What an object of this shape has under `name`.
    pub(super) fn member(&self, name: &str) -> Member<'s> {
        let or_never = |found: Option<Type<'s>>| found.map_or(Member::Never, Member::Is);
        match &self.body {
            Body::Unknown => Member::Is(Type::Unknown),
            Body::Value(value) => or_never(value.get(name).map(Type::literal)),
            Body::Object(object) => match object.members.get(name) {
                Some((member, _)) => Member::Is(member.clone()),
                None if object.open => Member::Is(Type::Unknown),
                None => Member::Never,
            },
            Body::Tuple(_) | Body::List(_) => Member::Never,
            Body::Schemas { parts, open } => {
                let declared: Vec<_> = parts
                    .iter()
                    .filter_map(|part| Some(part.beside(part.map("properties")?.get(name)?)))
                    .collect();
                if declared.is_empty() {
                    rest(parts, *open)
                } else {
                    Member::Is(Type::Schema(declared))
                }
            }
            Body::Selection(selection) => match selection.member(name) {
                Selected::Below(selection) => Member::Is(Type::Selection(selection)),
                Selected::Leaf | Selected::Unknown => Member::Is(Type::Unknown),
                Selected::Nothing => Member::Never,
            },
        }
    }

    /// The names of the members that are known.
    pub(super) fn names(&self) -> Vec<String> {
        let keys: Vec<String> = match &self.body {
            Body::Unknown | Body::Tuple(_) | Body::List(_) => Vec::new(),
            Body::Value(value) => {
                value.as_object().into_iter().flat_map(|members| members.keys().cloned()).collect()
            }
            Body::Object(object) => object.members.keys().cloned().collect(),
            Body::Schemas { parts, .. } => parts
                .iter()
                .filter_map(|part| part.map("properties"))
                .flat_map(|properties| properties.keys().cloned())
                .take(MAX_NAMES)
                .collect(),
            Body::Selection(selection) => selection.names(),
        };
        let mut names = Vec::new();
        for key in keys.into_iter().take(MAX_NAMES) {
            if !names.contains(&key) {
                names.push(key);
            }
        }
        names
    }

    /// The members that an object of this shape surely has.
    pub(super) fn sure_members(&self) -> Vec<(&str, Type<'s>)> {
        match &self.body {
            Body::Value(Value::Object(members)) => {
                members.iter().map(|(name, value)| (name.as_str(), Type::literal(value))).collect()
            }
            Body::Object(object) => object
                .members
                .iter()
                .filter(|(_, (_, presence))| *presence != Presence::Perhaps)
                .map(|(name, (member, _))| (name.as_str(), member.clone()))
                .collect(),
            Body::Schemas { .. } => {
                let typed = |name| match self.member(name) {
                    Member::Is(member) => Some((name, member)),
                    Member::Undeclared | Member::Never => None,
                };
                self.required().into_iter().filter_map(typed).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Whether an object of this shape surely lacks a member, or lacks it unless a value is given.
    pub(super) fn lacks(&self, name: &str) -> Option<Lack> {
        match &self.body {
            Body::Value(value) => value.get(name).is_none().then_some(Lack::Always),
            Body::Object(object) => match object.members.get(name) {
                Some((_, Presence::IfGiven)) => Some(Lack::UnlessGiven),
                Some(_) => None,
                None => (!object.open).then_some(Lack::Always),
            },
            _ => None,
        }
    }

    /// Whether it is only known from what a service says of its answers.
    pub(super) fn is_hearsay(&self) -> bool {
        match &self.body {
            Body::Schemas { parts, .. } => !parts.is_empty(),
            Body::Selection(_) => true,
            _ => false,
        }
    }

    /// The members that schemas require of values that are sent.
    pub(super) fn required(&self) -> IndexSet<&'s str> {
        let Body::Schemas { parts, .. } = &self.body else { return IndexSet::new() };
        let mut names = IndexSet::new();
        for part in parts {
            let listed = part.get("required").and_then(Value::as_array);
            let listed = listed.filter(|listed| part.book.fuel.burn(listed.len()));
            names.extend(listed.into_iter().flatten().filter_map(Value::as_str));
        }
        names.retain(|name| {
            !parts.iter().any(|part| {
                let property = part.map("properties").and_then(|members| members.get(*name));
                property.is_some_and(|schema| part.beside(schema).is_read_only())
            })
        });
        names
    }

    /// The item at an index, from the end when it is negative; none when there never is one.
    pub(super) fn item(&self, index: i64) -> Option<Type<'s>> {
        let place = |length: usize| match usize::try_from(index) {
            Ok(index) => Some(index),
            Err(_) => length.checked_sub(usize::try_from(index.unsigned_abs()).ok()?),
        };
        match &self.body {
            Body::Value(Value::Array(items)) => {
                Some(Type::literal(items.get(place(items.len())?)?))
            }
            Body::Tuple(items) => items.get(place(items.len())?).cloned(),
            Body::Object(_) | Body::Value(_) => None,
            Body::Schemas { parts, .. } => match usize::try_from(index) {
                Ok(index) => Some(item_at(parts, index)),
                Err(_) => Some(self.items()),
            },
            Body::List(_) | Body::Selection(_) | Body::Unknown => Some(self.items()),
        }
    }

    /// Any item.
    pub(super) fn items(&self) -> Type<'s> {
        match &self.body {
            Body::Value(Value::Array(items)) => Type::any_of(items.iter().map(Type::literal)),
            Body::Tuple(items) => Type::any_of(items.iter().cloned()),
            Body::List(item) => item.clone(),
            Body::Selection(selection) => Type::Selection(selection.clone()),
            Body::Schemas { parts, .. } => {
                let tuples = parts.iter().filter_map(|part| tuple(*part)).map(Vec::len);
                let longest = tuples.max().unwrap_or(0);
                Type::any_of((0..=longest).map(|index| item_at(parts, index)))
            }
            Body::Object(_) | Body::Value(_) | Body::Unknown => Type::Unknown,
        }
    }

    /// Any member.
    pub(super) fn values(&self) -> Type<'s> {
        match &self.body {
            Body::Value(Value::Object(members)) => {
                Type::any_of(members.values().map(Type::literal))
            }
            Body::Object(object) if !object.open => {
                Type::any_of(object.members.values().map(|(member, _)| member.clone()))
            }
            _ => Type::Unknown,
        }
    }
}

/// What stands under a name that no schema declares.
fn rest<'s>(parts: &[Part<'s>], open: bool) -> Member<'s> {
    let (mut declares, mut forbids, mut others) = (false, false, Vec::new());
    for part in parts {
        declares |= part.map("properties").is_some();
        if part.map("patternProperties").is_some() {
            return Member::Is(Type::Unknown);
        }
        for key in ["additionalProperties", "unevaluatedProperties"] {
            match part.get(key) {
                None => {}
                Some(Value::Bool(false)) => forbids = true,
                Some(Value::Object(schema)) if !schema.is_empty() => {
                    others.extend(part.get(key).map(|schema| part.beside(schema)));
                }
                Some(_) => return Member::Is(Type::Unknown),
            }
        }
    }
    match (open, others.is_empty()) {
        (true, _) => Member::Is(Type::Unknown),
        (false, false) => Member::Is(Type::Schema(others)),
        (false, true) if forbids => Member::Never,
        (false, true) if declares => Member::Undeclared,
        (false, true) => Member::Is(Type::Unknown),
    }
}

/// The schemas of the first items, as 2020-12 or as older drafts write them.
fn tuple<'s>(part: Part<'s>) -> Option<&'s Vec<Value>> {
    ["prefixItems", "items"].iter().find_map(|key| part.get(key)?.as_array())
}

fn item_at<'s>(parts: &[Part<'s>], index: usize) -> Type<'s> {
    let declared = parts.iter().filter_map(|part| {
        let first = tuple(*part).and_then(|schemas| schemas.get(index));
        let others = ["items", "additionalItems"].iter().filter_map(|key| part.get(key));
        let schema = first.or_else(|| others.into_iter().find(|schema| schema.is_object()))?;
        Some(part.beside(schema))
    });
    let declared: Vec<_> = declared.collect();
    if declared.is_empty() { Type::Unknown } else { Type::Schema(declared) }
}
