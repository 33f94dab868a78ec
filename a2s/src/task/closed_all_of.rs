//! Opens parts of one combined schema that are closed to each other.
//!
//! `additionalProperties` considers only the `properties` next to it. Descriptions combine schemas with
//! `allOf` as if it considered the whole. Read literally, one part forbids what another requires, and no
//! value fits. So this module opens a part that is closed to names of its whole.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// The most `$ref`s and `allOf`s that are followed into one another.
const MAX_HOPS: usize = 16;
/// The maximum number of schemas that are examined.
const MAX_LOOKS: usize = 100_000;

/// Removes `additionalProperties` from each part of an `allOf` if it forbids properties of another part.
/// `schema` is a JSON Schema 2020-12 with its `$defs`. Returns true when a part has changed.
pub fn open_closed_all_of(schema: &mut Value) -> bool {
    let mut finder =
        ClosedPartFinder { root: schema, lookups_left: MAX_LOOKS, closed: BTreeSet::new() };
    finder.search(schema, "");
    let closed = finder.closed;
    for pointer in &closed {
        if let Some(Value::Object(members)) = schema.pointer_mut(pointer) {
            members.remove("additionalProperties");
        }
    }
    !closed.is_empty()
}

struct ClosedPartFinder<'v> {
    root: &'v Value,
    lookups_left: usize,
    /// The locations of the parts to open.
    closed: BTreeSet<String>,
}

impl<'v> ClosedPartFinder<'v> {
    /// Searches a schema and everything in it for combined schemas (`allOf`).
    fn search(&mut self, value: &'v Value, pointer: &str) {
        match value {
            Value::Object(members) => {
                if members.contains_key("allOf") {
                    self.check_whole(value, pointer);
                }
                for (key, value) in members {
                    self.search(value, &below(pointer, key));
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.search(item, &format!("{pointer}/{index}"));
                }
            }
            _ => {}
        }
    }

    fn check_whole(&mut self, whole: &'v Value, pointer: &str) {
        let mut parts = Vec::new();
        self.gather(whole, pointer, 0, &mut parts);
        let names: BTreeSet<&String> =
            parts.iter().flat_map(|(_, part)| properties(part)).collect();
        for (pointer, part) in parts {
            let is_closed = part.get("additionalProperties").is_some_and(|rest| *rest != true);
            let own: BTreeSet<&String> = properties(part).collect();
            if is_closed && own.len() < names.len() {
                self.closed.insert(pointer);
            }
        }
    }

    /// Gathers the parts of a combined schema, itself included.
    fn gather(
        &mut self,
        schema: &'v Value,
        pointer: &str,
        hops: usize,
        parts: &mut Vec<(String, &'v Map<String, Value>)>,
    ) {
        let Some(members) = schema.as_object() else { return };
        if self.lookups_left == 0 || hops == MAX_HOPS {
            return;
        }
        self.lookups_left -= 1;
        parts.push((pointer.to_owned(), members));
        let target = members.get("$ref").and_then(Value::as_str);
        if let Some(target) = target.and_then(|target| target.strip_prefix('#'))
            && let Some(schema) = self.root.pointer(target)
        {
            self.gather(schema, target, hops + 1, parts);
        }
        let list = members.get("allOf").and_then(Value::as_array);
        for (index, part) in list.into_iter().flatten().enumerate() {
            self.gather(part, &format!("{pointer}/allOf/{index}"), hops + 1, parts);
        }
    }
}

fn properties(members: &Map<String, Value>) -> impl Iterator<Item = &String> {
    members.get("properties").and_then(Value::as_object).into_iter().flatten().map(|(name, _)| name)
}

fn below(pointer: &str, key: &str) -> String {
    format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"))
}
