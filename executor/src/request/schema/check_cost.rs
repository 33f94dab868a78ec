//! The cost of checking a value, computed before the check.
//!
//! A schema with `$ref`s that lead back to it from several alternatives causes work that doubles with each
//! level of a value; one that leads to itself at the same level never ends. Any other schema applies each
//! of its parts at most once to each member of the value: where that is little work, nothing is computed.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// The maximum work for one value, as the number of applied schemas.
const MAX_WORK: u64 = 5_000_000;
/// The maximum nesting depth of applied schemas.
pub(super) const MAX_DEPTH: usize = 512;

/// The data of a compiled schema that determines its cost.
#[derive(Debug)]
pub(super) struct CheckCost {
    schema: Value,
    /// The size and depth of the schema; `None` if `$ref`s may reach a part of it twice.
    bounds: Option<CostBounds>,
}

#[derive(Debug, Clone, Copy)]
struct CostBounds {
    size: u64,
    depth: usize,
}

/// The number of values in a value, itself included.
pub(super) fn size_of(value: &Value) -> u64 {
    match value {
        Value::Array(items) => items.iter().map(size_of).sum::<u64>() + 1,
        Value::Object(members) => members.values().map(size_of).sum::<u64>() + 1,
        _ => 1,
    }
}

/// The greatest nesting depth of values in a value.
fn depth_of(value: &Value) -> usize {
    let below = match value {
        Value::Array(items) => items.iter().map(depth_of).max(),
        Value::Object(members) => members.values().map(depth_of).max(),
        _ => None,
    };
    below.map_or(1, |below| below + 1)
}

impl CheckCost {
    /// The cost model of a schema.
    pub(super) fn from_schema(schema: Value) -> Self {
        let is_tree = schema.get("$defs").is_none();
        let bounds =
            is_tree.then(|| CostBounds { size: size_of(&schema), depth: depth_of(&schema) });
        Self { schema, bounds }
    }

    /// Returns the maximum nesting depth of applied schemas, for any value.
    pub(super) fn depth(&self) -> usize {
        self.bounds.map_or(MAX_DEPTH, |bounds| bounds.depth.min(MAX_DEPTH))
    }

    /// Returns true when the check of a value is cheap enough.
    pub(super) fn is_affordable(&self, value: &Value) -> bool {
        if self.bounds.is_some_and(|bounds| bounds.size.saturating_mul(size_of(value)) <= MAX_WORK)
        {
            return true;
        }
        let mut sum = CostSum { root: &self.schema, known: BTreeMap::new() };
        sum.add(&self.schema, value, 0).is_some()
    }
}

struct CostSum<'s> {
    root: &'s Value,
    /// The work of a `$ref` on a value, by their addresses; `None` while it is calculated.
    known: BTreeMap<(usize, usize), Option<u64>>,
}

fn address(value: &Value) -> usize {
    std::ptr::from_ref(value).addr()
}

impl<'s> CostSum<'s> {
    /// Returns the work of `schema` on `value`; `None` when it is too much, does not end, or is nested too
    /// deeply.
    fn add(&mut self, schema: &'s Value, value: &Value, depth: usize) -> Option<u64> {
        let Value::Object(members) = schema else { return Some(1) };
        if depth > MAX_DEPTH {
            return None;
        }
        let mut work = 1_u64;
        for (key, below) in members {
            let more = match key.as_str() {
                "$ref" => self.follow(below.as_str()?, value, depth)?,
                // Alternatives are checked, and then checked again to describe their errors.
                "anyOf" | "oneOf" => self.all(below, value, depth)?.saturating_mul(2),
                "allOf" => self.all(below, value, depth)?,
                "not" | "if" | "then" | "else" => self.add(below, value, depth + 1)?,
                "items" | "contains" | "unevaluatedItems" => {
                    self.each(below, value.as_array().into_iter().flatten(), depth)?
                }
                "prefixItems" => {
                    let pairs = below.as_array().into_iter().flatten();
                    let pairs = pairs.zip(value.as_array().into_iter().flatten());
                    self.pairs(pairs, depth)?
                }
                "additionalProperties" | "unevaluatedProperties" => {
                    let members = value.as_object().into_iter().flat_map(Map::values);
                    self.each(below, members, depth)?
                }
                "properties" => match (below.as_object(), value.as_object()) {
                    (Some(schemas), Some(members)) => {
                        let pairs = members.iter();
                        let pairs = pairs.filter_map(|(name, v)| Some((schemas.get(name)?, v)));
                        self.pairs(pairs, depth)?
                    }
                    _ => 0,
                },
                "patternProperties" | "dependentSchemas" => {
                    let mut work = 0_u64;
                    for schema in below.as_object().into_iter().flat_map(Map::values) {
                        let members = value.as_object().into_iter().flat_map(Map::values);
                        work = work.saturating_add(self.each(schema, members, depth)?);
                        work = work.saturating_add(self.add(schema, value, depth + 1)?);
                    }
                    work
                }
                "propertyNames" => {
                    let names = value.as_object().map_or(0, Map::len);
                    let each = self.add(below, &Value::Null, depth + 1)?;
                    each.saturating_mul(u64::try_from(names).ok()?)
                }
                _ => 0,
            };
            // Lists of values and names are gone through.
            let listed = match below {
                Value::Array(items) => items.len(),
                Value::Object(members) => members.len(),
                _ => 0,
            };
            let more = more.saturating_add(u64::try_from(listed).ok()?);
            work = work.saturating_add(more);
            if work > MAX_WORK {
                return None;
            }
        }
        Some(work)
    }

    fn follow(&mut self, reference: &str, value: &Value, depth: usize) -> Option<u64> {
        let target = self.root.pointer(reference.strip_prefix('#')?)?;
        let key = (address(target), address(value));
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        if u64::try_from(self.known.len()).is_ok_and(|steps| steps > MAX_WORK / 10) {
            return None;
        }
        self.known.insert(key, None);
        let work = self.add(target, value, depth + 1);
        self.known.insert(key, work);
        work
    }

    fn all(&mut self, schemas: &'s Value, value: &Value, depth: usize) -> Option<u64> {
        self.pairs(schemas.as_array().into_iter().flatten().map(|schema| (schema, value)), depth)
    }

    fn each<'v>(
        &mut self,
        schema: &'s Value,
        values: impl Iterator<Item = &'v Value>,
        depth: usize,
    ) -> Option<u64> {
        self.pairs(values.map(|value| (schema, value)), depth)
    }

    fn pairs<'v>(
        &mut self,
        mut pairs: impl Iterator<Item = (&'s Value, &'v Value)>,
        depth: usize,
    ) -> Option<u64> {
        pairs.try_fold(0, |work: u64, (schema, value)| {
            let work = work.saturating_add(self.add(schema, value, depth + 1)?);
            (work <= MAX_WORK).then_some(work)
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn nested(depth: usize) -> Value {
        (0..depth).fold(json!(1), |inner, _| json!({ "x": inner }))
    }

    #[test]
    fn what_doubles_with_each_level_is_found_out_before_it_is_done() {
        let twice = json!({"properties": {"x": {"$ref": "#/$defs/0"}}, "required": ["x"]});
        let schema = json!({
            "allOf": [{"$ref": "#/$defs/0"}],
            "$defs": {"0": {"anyOf": [twice, twice]}},
        });
        let effort = CheckCost::from_schema(schema);
        assert!(effort.is_affordable(&nested(3)));
        assert!(!effort.is_affordable(&nested(60)));
    }

    #[test]
    fn what_leads_to_itself_has_no_end() {
        let schema =
            json!({"allOf": [{"$ref": "#/$defs/0"}], "$defs": {"0": {"$ref": "#/$defs/0"}}});
        assert!(!CheckCost::from_schema(schema).is_affordable(&json!(1)));
    }

    #[test]
    fn a_long_list_of_choices_is_an_effort_for_a_long_list() {
        let choices: Vec<Value> = (0..5000).map(|n| json!(format!("choice {n}"))).collect();
        let one_by_one: Vec<Value> = choices.iter().map(|one| json!({ "const": one })).collect();
        for schema in [
            json!({"items": {"enum": choices}}),
            json!({"items": {"anyOf": one_by_one}}),
            json!({"items": {"required": choices}}),
        ] {
            let effort = CheckCost::from_schema(json!({ "allOf": [schema] }));
            assert!(effort.is_affordable(&json!([1, 2, 3])), "{schema}");
            assert!(!effort.is_affordable(&Value::Array(vec![json!("x"); 5000])), "{schema}");
        }
        let named = json!({"propertyNames": {"enum": choices}, "$defs": {}});
        let names = |count| (0..count).map(|n| (n.to_string(), json!(1))).collect::<Value>();
        let effort = CheckCost::from_schema(named);
        assert!(effort.is_affordable(&names(9)) && !effort.is_affordable(&names(5000)));
        let plain = CheckCost::from_schema(json!({"allOf": [{"items": {"type": "integer"}}]}));
        assert!(plain.is_affordable(&Value::Array(vec![json!(1); 500_000])));
    }

    #[test]
    fn a_list_of_lists_is_no_effort() {
        let schema = json!({
            "allOf": [{"$ref": "#/$defs/0"}],
            "$defs": {"0": {"properties": {"x": {"$ref": "#/$defs/0"}}}},
        });
        assert!(CheckCost::from_schema(schema).is_affordable(&nested(100)));
    }
}
