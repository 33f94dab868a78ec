//! Ways into a value: the keys of a reference, and the segments of a JSONPath.

use jsonpath_rust::parser::model::{Segment, Selector};

use super::schema_alternative::{MAX_NAMES, ObjectMember, SchemaAlternative};
use super::{InferredType, JsonTypes};
use crate::template::PathKey;

/// A path that does not exist in a type: the values of the type do not contain it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PathNotFound {
    /// The number of keys of the path before it.
    pub(super) matched_keys: usize,
    /// The kinds of the last value that exists.
    pub(super) kinds: JsonTypes,
    /// The names of its members, as far as they are known.
    pub(super) names: Vec<String>,
    /// True when this is only known from a service's description of its responses.
    pub(super) from_declaration: bool,
}

impl<'s> InferredType<'s> {
    /// The type at a path of keys.
    pub(super) fn at(&self, way: &[PathKey]) -> Result<Self, PathNotFound> {
        let mut reached = self.clone();
        for (walked, key) in way.iter().enumerate() {
            let next = match key {
                PathKey::Name(name) => reached.member(name),
                PathKey::Item(index) => reached.item(i64::try_from(*index).unwrap_or(i64::MAX)),
            };
            reached = next.map_err(|leaves| PathNotFound { matched_keys: walked, ..leaves })?;
        }
        Ok(reached)
    }

    /// The type of each single value that the segments of a JSONPath select.
    pub(super) fn select(&self, segments: &[Segment]) -> Result<Self, PathNotFound> {
        let mut reached = self.clone();
        for (walked, segment) in segments.iter().enumerate() {
            if reached.is_unknown() {
                break;
            }
            let next = match segment {
                // Nested values may have any type.
                Segment::Descendant(_) => Ok(Self::Unknown),
                Segment::Selector(selector) => reached.select_one(selector),
                Segment::Selectors(selectors) => {
                    let found = selectors.iter().map(|selector| reached.select_one(selector));
                    let (found, missed): (Vec<_>, Vec<_>) = found.partition(Result::is_ok);
                    match missed.into_iter().next() {
                        Some(missed) if found.is_empty() => missed,
                        _ => Ok(Self::any_of(found.into_iter().flatten())),
                    }
                }
            };
            reached = next.map_err(|leaves| PathNotFound { matched_keys: walked, ..leaves })?;
        }
        Ok(reached)
    }

    fn select_one(&self, selector: &Selector) -> Result<Self, PathNotFound> {
        match selector {
            Selector::Name(name) => self.member(name),
            Selector::Index(index) => self.item(*index),
            Selector::Slice(..) => self.items(),
            Selector::Wildcard | Selector::Filter(_) => {
                self.gather(JsonTypes::ARRAY.or(JsonTypes::OBJECT), |shape| {
                    let items = shape.kinds.overlaps(JsonTypes::ARRAY).then(|| shape.items());
                    let values = shape.kinds.overlaps(JsonTypes::OBJECT).then(|| shape.values());
                    ObjectMember::Known(Self::any_of(items.into_iter().chain(values)))
                })
            }
        }
    }

    /// Returns the type of a member of an object.
    fn member(&self, name: &str) -> Result<Self, PathNotFound> {
        self.gather(JsonTypes::OBJECT, |shape| shape.member(name))
    }

    /// Returns the type of an item of a list, counted from the end when the index is negative.
    fn item(&self, index: i64) -> Result<Self, PathNotFound> {
        self.gather(JsonTypes::ARRAY, |shape| {
            shape.item(index).map_or(ObjectMember::Never, ObjectMember::Known)
        })
    }

    /// Returns the type of any item of a list.
    pub(super) fn items(&self) -> Result<Self, PathNotFound> {
        self.gather(JsonTypes::ARRAY, |shape| ObjectMember::Known(shape.items()))
    }

    /// The type that `take` finds in the alternatives of these kinds.
    fn gather(
        &self,
        kinds: JsonTypes,
        take: impl Fn(&SchemaAlternative<'s>) -> ObjectMember<'s>,
    ) -> Result<Self, PathNotFound> {
        let shapes = self.alternatives();
        let fitting = || shapes.iter().filter(|shape| shape.kinds.overlaps(kinds));
        let mut found = fitting().map(take).filter_map(|member| match member {
            ObjectMember::Known(value) => Some(value),
            ObjectMember::Undeclared | ObjectMember::Never => None,
        });
        if let Some(first) = found.next() {
            return Ok(Self::any_of([first].into_iter().chain(found)));
        }
        let mut names: Vec<String> = Vec::new();
        for name in fitting().flat_map(|shape| shape.names()) {
            if names.len() < MAX_NAMES && !names.contains(&name) {
                names.push(name);
            }
        }
        let kinds = shapes.iter().fold(JsonTypes::NONE, |kinds, shape| kinds.or(shape.kinds));
        let hearsay = shapes.iter().any(SchemaAlternative::is_from_declaration);
        Err(PathNotFound { matched_keys: 0, kinds, names, from_declaration: hearsay })
    }
}
