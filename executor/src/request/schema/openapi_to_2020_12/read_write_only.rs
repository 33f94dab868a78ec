//! Properties that do not travel: `readOnly` on the way there, `writeOnly` on the way back.

use serde_json::{Map, Value};

use super::{SchemaTranslator, UnsentNames};
use crate::request::schema::ValueDirection;

/// The most `$ref`s and `allOf`s that are followed to find the properties that are not sent.
const MAX_HOPS: usize = 16;

impl<'t> SchemaTranslator<'t> {
    /// Adds the properties of a schema, its parts and its alternatives that are not sent in this direction.
    pub(super) fn collect_unsent(
        &mut self,
        members: &'t Map<String, Value>,
        hidden: &mut UnsentNames,
        hops: usize,
    ) {
        let properties = members.get("properties").and_then(Value::as_object);
        for (name, property) in properties.into_iter().flatten() {
            if self.visited == 0 {
                self.has_gaps = true;
                return;
            }
            self.visited -= 1;
            if self.is_unsent(property, false) {
                hidden.insert(name.clone());
            }
        }
        if hops == MAX_HOPS || self.visited == 0 {
            return;
        }
        self.visited -= 1;
        let target = members.get("$ref").and_then(Value::as_str);
        let target = target.and_then(|reference| self.schemas.resolve(reference));
        let lists = ["allOf", "anyOf", "oneOf"].map(|key| members.get(key));
        let parts = lists.into_iter().flatten().filter_map(Value::as_array).flatten();
        for part in parts.chain(target).filter_map(Value::as_object) {
            self.collect_unsent(part, hidden, hops + 1);
        }
    }

    /// Returns true when a property is `readOnly` in a request, or `writeOnly` in a response. With
    /// `surely`, ignores the keyword next to a `$ref`, as OpenAPI 3.0 does.
    pub(super) fn is_unsent(&self, property: &'t Value, surely: bool) -> bool {
        let key = match self.direction {
            ValueDirection::Request => "readOnly",
            ValueDirection::Response => "writeOnly",
        };
        let mut schema = property;
        for _ in 0..MAX_HOPS {
            let target = schema.get("$ref").and_then(Value::as_str);
            let is_ignored = surely && target.is_some() && self.schemas.is_openapi_3_0();
            if schema.get(key) == Some(&Value::Bool(true)) && !is_ignored {
                return true;
            }
            match target.and_then(|reference| self.schemas.resolve(reference)) {
                Some(target) => schema = target,
                None => return false,
            }
        }
        false
    }
}
