//! The type of a value by its schemas: its alternatives, each a [`SchemaAlternative`].
//!
//! The dialects of OpenAPI 3.0 and 3.1 are read together: `nullable` and lists of types both count.
//! A keyword that is not understood allows everything, and so does a schema that nothing can fit:
//! real specifications have such, and mean something else.

use serde_json::{Map, Value};

use super::JsonTypes;
use super::schema_alternative::{MemberTypes, SchemaAlternative};
use crate::budget::AnalysisBudget;
use crate::task::SchemaResolver;

/// The depth to which schemas are followed without a step into the value: `$ref`, `allOf`, `oneOf`,
/// `anyOf`.
const MAX_DEPTH: usize = 16;
/// The maximum number of schemas that are examined for one value.
const MAX_SCHEMAS: usize = 300;
/// The maximum number of alternatives of one value.
const MAX_ALTERNATIVES: usize = 64;
/// The longest chain of `$ref`s.
const MAX_REFS: usize = 8;

static NULL: Value = Value::Null;

/// The schemas of a task, and the remaining budget for reading them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SchemaContext<'s> {
    pub(crate) schemas: SchemaResolver<'s>,
    pub(crate) budget: &'s AnalysisBudget,
}

/// A schema of a specification.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SchemaRef<'s> {
    pub(crate) schema: &'s Value,
    pub(crate) book: SchemaContext<'s>,
    /// True when it stands for the whole value: then a `discriminator` allows other schemas, which extend
    /// this one, in its place.
    is_whole: bool,
}

impl<'s> SchemaRef<'s> {
    pub(crate) fn new(schema: &'s Value, book: SchemaContext<'s>) -> Self {
        Self { schema, book, is_whole: true }
    }

    /// Returns another schema of the same specification.
    pub(crate) fn with_schema(self, schema: &'s Value) -> Self {
        Self { schema, is_whole: true, ..self }
    }

    pub(crate) fn get(self, key: &str) -> Option<&'s Value> {
        self.schema.get(key)
    }

    /// Returns the members of a keyword that contains schemas by name.
    pub(super) fn map(self, key: &str) -> Option<&'s Map<String, Value>> {
        self.get(key)?.as_object().filter(|members| !members.is_empty())
    }

    /// Returns the items of a keyword that contains a list of schemas.
    fn list(self, key: &str) -> Option<&'s [Value]> {
        self.get(key)?.as_array().map(Vec::as_slice).filter(|items| !items.is_empty())
    }

    fn is_set(self, key: &str) -> bool {
        self.get(key) == Some(&Value::Bool(true))
    }

    /// The target of its `$ref`, when there is one that resolves.
    pub(crate) fn target(self) -> Option<Self> {
        let schema = self.book.schemas.resolve(self.get("$ref")?.as_str()?)?;
        Some(Self { schema, ..self })
    }

    /// Returns true when its values are never sent.
    pub(crate) fn is_read_only(self) -> bool {
        let mut part = self;
        for _ in 0..MAX_REFS {
            if part.is_set("readOnly") {
                return true;
            }
            match part.target() {
                Some(target) => part = target,
                None => break,
            }
        }
        false
    }
}

/// Returns the alternatives of a value that fits all of `parts`; at least one.
pub(super) fn alternatives_of<'s>(parts: &[SchemaRef<'s>]) -> Vec<SchemaAlternative<'s>> {
    let mut shapes = vec![SchemaAlternative::from_kinds(JsonTypes::ANY, false)];
    for part in parts {
        let mut reading = SchemaReader { book: part.book, left: MAX_SCHEMAS };
        let alternatives = reading.alternatives(*part, 0);
        shapes = reading.intersect(&shapes, &alternatives);
    }
    if shapes.is_empty() { vec![SchemaAlternative::unknown()] } else { shapes }
}

/// A reader of schemas with a limited budget.
struct SchemaReader<'s> {
    book: SchemaContext<'s>,
    left: usize,
}

impl<'s> SchemaReader<'s> {
    /// Returns the alternatives of a value that fits `part`; empty when no value fits.
    fn alternatives(&mut self, part: SchemaRef<'s>, depth: usize) -> Vec<SchemaAlternative<'s>> {
        if depth > MAX_DEPTH || self.left == 0 || !part.schema.is_object() {
            return vec![SchemaAlternative::from_kinds(JsonTypes::ANY, true)];
        }
        self.left -= 1;
        let mut shapes = vec![own_shape(part)];
        if part.get("$ref").is_some() {
            let target = match part.target() {
                Some(target) => self.alternatives(target, depth + 1),
                None => vec![SchemaAlternative::from_kinds(JsonTypes::ANY, true)],
            };
            shapes = self.intersect(&shapes, &target);
        }
        for schema in part.list("allOf").into_iter().flatten() {
            let one = self.alternatives(SchemaRef { schema, is_whole: false, ..part }, depth + 1);
            shapes = self.intersect(&shapes, &one);
        }
        for key in ["oneOf", "anyOf"] {
            let Some(schemas) = part.list(key) else { continue };
            let variants: Vec<_> = schemas
                .iter()
                .take(MAX_ALTERNATIVES + 1)
                .flat_map(|schema| self.alternatives(part.with_schema(schema), depth + 1))
                .collect();
            shapes = self.intersect(&shapes, &variants);
        }
        // Next to a reference or `allOf`, `nullable` has no meaning in OpenAPI 3.0, but authors use
        // it to allow null.
        if part.is_set("nullable") && part.get("type").is_none() {
            shapes.push(SchemaAlternative::from_kinds(JsonTypes::NULL, false));
        }
        shapes
    }

    /// Combines each alternative of one side with each alternative of the other side.
    fn intersect(
        &self,
        one: &[SchemaAlternative<'s>],
        other: &[SchemaAlternative<'s>],
    ) -> Vec<SchemaAlternative<'s>> {
        let count = one.len() * other.len();
        if count > MAX_ALTERNATIVES || !self.book.budget.spend(count) {
            return vec![SchemaAlternative::from_kinds(JsonTypes::ANY, true)];
        }
        one.iter().flat_map(|one| other.iter().filter_map(|other| one.intersect(other))).collect()
    }
}

/// The shape that the keywords of one schema state, without those that contain or name other schemas for
/// the same value.
fn own_shape(part: SchemaRef<'_>) -> SchemaAlternative<'_> {
    let kind =
        |name: &Value| name.as_str().and_then(JsonTypes::from_name).unwrap_or(JsonTypes::ANY);
    let typed = match part.get("type") {
        None => None,
        Some(Value::Array(names)) if !names.is_empty() => {
            Some(names.iter().fold(JsonTypes::NONE, |kinds, name| kinds.or(kind(name))))
        }
        Some(name) => Some(kind(name)),
    };
    let nullable = part.is_set("nullable");
    let typed = typed.map(|kinds| if nullable { kinds.or(JsonTypes::NULL) } else { kinds });
    let mut choices: Vec<&Value> = match (part.get("const"), part.list("enum")) {
        (Some(only), _) => vec![only],
        (None, Some(values)) => values.iter().collect(),
        (None, None) => Vec::new(),
    };
    if !part.book.budget.spend(choices.len()) {
        choices.clear();
    }
    // Values that the type does not allow were meant in another way: numbers without quotes in a
    // list of strings, for example. Null was meant as such.
    let allowed = typed.unwrap_or(JsonTypes::ANY).or(JsonTypes::NULL);
    if choices.iter().any(|value| !allowed.contains(JsonTypes::from_value(value))) {
        choices.clear();
    }
    if nullable && !choices.is_empty() {
        choices.push(&NULL);
    }
    let mut shape = SchemaAlternative::from_kinds(typed.unwrap_or(JsonTypes::ANY), opens(part));
    if !choices.is_empty() {
        shape.kinds = choices
            .iter()
            .fold(JsonTypes::NONE, |kinds, value| kinds.or(JsonTypes::from_value(value)));
        shape.choices = Some(choices);
    }
    if let MemberTypes::Schemas { parts, .. } = &mut shape.body {
        parts.push(part);
    }
    shape
}

/// Returns true when a schema allows members by keywords that are not followed here.
fn opens(part: SchemaRef<'_>) -> bool {
    const OPENING: [&str; 6] =
        ["if", "dependentSchemas", "dependencies", "$dynamicRef", "$recursiveRef", "extends"];
    let inherited = part.is_whole
        && part.get("discriminator").is_some()
        && part.get("oneOf").is_none()
        && part.get("anyOf").is_none();
    // An object without properties in an `allOf` was meant to have some.
    let free = !part.is_whole
        && part.get("type").is_some_and(|kind| kind == "object")
        && ["properties", "allOf", "oneOf", "anyOf", "$ref"]
            .iter()
            .all(|key| part.get(key).is_none());
    inherited || free || OPENING.iter().any(|key| part.get(key).is_some())
}
