//! Ways into a value: the keys of a reference, and the segments of a JSONPath.

use jsonpath_rust::parser::model::{Segment, Selector};

use super::schema_alternative::{MAX_NAMES, Member, Shape};
use super::{Kinds, Type};
use crate::template::Key;

/// A way that leads out of a type: no value of the type has anything there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Leaves {
    /// How many keys of the way there are before.
    pub(super) walked: usize,
    /// The kinds of the value there.
    pub(super) kinds: Kinds,
    /// The names of its members, as far as they are known.
    pub(super) names: Vec<String>,
    /// Whether this is only known from what a service says of its answers.
    pub(super) hearsay: bool,
}

impl<'s> Type<'s> {
    /// What a way of keys leads to.
    pub(super) fn at(&self, way: &[Key]) -> Result<Self, Leaves> {
        let mut reached = self.clone();
        for (walked, key) in way.iter().enumerate() {
            let next = match key {
                Key::Name(name) => reached.member(name),
                Key::Item(index) => reached.item(i64::try_from(*index).unwrap_or(i64::MAX)),
            };
            reached = next.map_err(|leaves| Leaves { walked, ..leaves })?;
        }
        Ok(reached)
    }

    /// What the segments of a JSONPath select: one of these values each.
    pub(super) fn select(&self, segments: &[Segment]) -> Result<Self, Leaves> {
        let mut reached = self.clone();
        for (walked, segment) in segments.iter().enumerate() {
            if reached.is_unknown() {
                break;
            }
            let next = match segment {
                // What stands further below may be anything.
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
            reached = next.map_err(|leaves| Leaves { walked, ..leaves })?;
        }
        Ok(reached)
    }

    fn select_one(&self, selector: &Selector) -> Result<Self, Leaves> {
        match selector {
            Selector::Name(name) => self.member(name),
            Selector::Index(index) => self.item(*index),
            Selector::Slice(..) => self.items(),
            Selector::Wildcard | Selector::Filter(_) => {
                self.gather(Kinds::ARRAY.or(Kinds::OBJECT), |shape| {
                    let items = shape.kinds.overlaps(Kinds::ARRAY).then(|| shape.items());
                    let values = shape.kinds.overlaps(Kinds::OBJECT).then(|| shape.values());
                    Member::Is(Self::any_of(items.into_iter().chain(values)))
                })
            }
        }
    }

    /// The member of an object.
    fn member(&self, name: &str) -> Result<Self, Leaves> {
        self.gather(Kinds::OBJECT, |shape| shape.member(name))
    }

    /// An item of a list, from the end when the index is negative.
    fn item(&self, index: i64) -> Result<Self, Leaves> {
        self.gather(Kinds::ARRAY, |shape| shape.item(index).map_or(Member::Never, Member::Is))
    }

    /// Any item of a list.
    pub(super) fn items(&self) -> Result<Self, Leaves> {
        self.gather(Kinds::ARRAY, |shape| Member::Is(shape.items()))
    }

    /// What `take` finds in the alternatives of these kinds.
    fn gather(
        &self,
        kinds: Kinds,
        take: impl Fn(&Shape<'s>) -> Member<'s>,
    ) -> Result<Self, Leaves> {
        let shapes = self.shapes();
        let fitting = || shapes.iter().filter(|shape| shape.kinds.overlaps(kinds));
        let mut found = fitting().map(take).filter_map(|member| match member {
            Member::Is(value) => Some(value),
            Member::Undeclared | Member::Never => None,
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
        let kinds = shapes.iter().fold(Kinds::NONE, |kinds, shape| kinds.or(shape.kinds));
        let hearsay = shapes.iter().any(Shape::is_hearsay);
        Err(Leaves { walked: 0, kinds, names, hearsay })
    }
}
