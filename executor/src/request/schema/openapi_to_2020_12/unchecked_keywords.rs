//! Keywords that are not checked: patterns that cannot be read, formats that only the service knows.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::keyword::types;
use super::{FORMATS, MAX_DEPTH, SchemaTranslator};
use crate::request::schema::{MAX_PATTERN_BYTES, compile};

/// The memory limits for a pattern, in bytes. The smallest sufficient one is used.
const PATTERN_BYTES: [usize; 3] = [1 << 11, 1 << 14, MAX_PATTERN_BYTES];
/// The maximum memory for all patterns of a translation, in bytes, including attempts that fail. The time
/// for reading the patterns grows with it.
pub(super) const MAX_PATTERNS_BYTES: usize = 4 << 20;

impl<'t> SchemaTranslator<'t> {
    /// Returns true when a pattern compiles, and the memory that is left suffices to use it once more.
    pub(super) fn is_usable_pattern(&mut self, pattern: &'t str) -> bool {
        let bytes = match self.patterns.get(pattern) {
            Some(known) => *known,
            None => {
                let bytes = self.measure(pattern);
                *self.patterns.entry(pattern).or_insert(bytes)
            }
        };
        bytes.is_some_and(|bytes| self.reserve_memory(bytes))
    }

    /// Returns the memory that a pattern takes.
    fn measure(&mut self, pattern: &'t str) -> Option<usize> {
        let schema = json!({ "pattern": pattern });
        PATTERN_BYTES
            .into_iter()
            .find(|bytes| self.reserve_memory(*bytes) && compile(&schema, *bytes).is_some())
    }

    fn reserve_memory(&mut self, bytes: usize) -> bool {
        let left = self.pattern_bytes.checked_sub(bytes);
        self.pattern_bytes = left.unwrap_or(self.pattern_bytes);
        left.is_some()
    }

    /// Returns true when all patterns for names of properties compile.
    pub(super) fn has_readable_patterns(&mut self, members: &'t Map<String, Value>) -> bool {
        let patterns = members.get("patternProperties").and_then(Value::as_object);
        patterns.into_iter().flatten().all(|(pattern, _)| self.is_usable_pattern(pattern))
    }

    /// Returns true when a part of a schema is not checked, so that a value that seems to fit may not fit.
    pub(super) fn is_unchecked(&mut self, schema: Option<&'t Value>) -> bool {
        schema.is_some_and(|schema| self.has_unchecked_parts(schema, &mut BTreeSet::new(), 0))
    }

    fn has_unchecked_parts(
        &mut self,
        schema: &'t Value,
        seen: &mut BTreeSet<&'t str>,
        depth: usize,
    ) -> bool {
        if self.visited == 0 || depth > MAX_DEPTH {
            return true;
        }
        self.visited -= 1;
        let members = match schema {
            Value::Array(items) => {
                return items.iter().any(|item| self.has_unchecked_parts(item, seen, depth + 1));
            }
            Value::Object(members) => members,
            _ => return false,
        };
        for (key, value) in members {
            let is_soft = match (key.as_str(), value) {
                ("format", Value::String(name)) => !FORMATS.contains(&name.as_str()),
                ("type", Value::String(_) | Value::Array(_)) => types(value).is_none(),
                ("pattern", Value::String(pattern)) => !self.is_usable_pattern(pattern),
                ("const", _) => self.schemas.is_openapi_3_0(),
                ("$dynamicRef", _) => true,
                ("$ref", Value::String(text)) if seen.insert(text) => {
                    let target = self.schemas.resolve(text);
                    target.is_none_or(|target| self.has_unchecked_parts(target, seen, depth + 1))
                }
                ("enum" | "default" | "example" | "examples", _) => false,
                (_, below) => self.has_unchecked_parts(below, seen, depth + 1),
            };
            if is_soft {
                return true;
            }
        }
        false
    }
}
