//! The `Idempotency-Key` that the executor makes, compared with the schema of its header.

use regex::RegexBuilder;
use serde_json::{Map, Value};

use crate::field_reader::shorten_for_message;

/// The number of characters of a key that the executor makes.
const KEY_CHARS: u64 = 36;
/// Keys as the executor makes them: UUIDs of version 5 in lower case.
const SAMPLE_KEYS: [&str; 8] = [
    "082d9f3f-cf7a-59cf-b77f-bd72f21dcb33",
    "7fe812a1-8c97-56cd-b530-2e82c8d8586a",
    "a9902f3c-1333-5b20-b1cc-7445d227a064",
    "c0e60dbf-36ba-52b8-91e3-99324fdab9f8",
    "f118b39e-ce92-5708-9342-e186d6a4f011",
    "39f65da1-7453-5980-8470-4aab7533dcb1",
    "9f6b64ad-d69b-5e62-89bc-e2b188340a0c",
    "52fd080e-19a7-580b-a385-120593652955",
];
/// The formats that no UUID has, of those that the executor checks.
const OTHER_FORMATS: [&str; 4] = ["date", "date-time", "ipv4", "ipv6"];
/// The maximum number of schemas that are examined.
const MAX_SCHEMAS: usize = 100;
/// The maximum depth of nested schemas.
const MAX_DEPTH: usize = 16;
/// The maximum length of a pattern that is compared, in bytes.
const MAX_PATTERN: usize = 2_000;
/// The maximum memory for a compiled pattern, in bytes.
const MAX_PATTERN_BYTES: usize = 1 << 18;

/// Returns the rule of a header's schema that rejects every `Idempotency-Key` that the executor makes.
///
/// An example is `maxLength: 20`; `None` when the schema may accept a key. `resolve` returns the target of a
/// `$ref`.
pub fn find_key_conflict<'s>(
    schema: &'s Value,
    resolve: &dyn Fn(&str) -> Option<&'s Value>,
) -> Option<String> {
    KeyCheck { resolve, left: MAX_SCHEMAS }.find_conflict(schema, 0)
}

struct KeyCheck<'r, 's> {
    resolve: &'r dyn Fn(&str) -> Option<&'s Value>,
    /// The number of schemas that may still be examined.
    left: usize,
}

impl<'s> KeyCheck<'_, 's> {
    fn find_conflict(&mut self, schema: &'s Value, depth: usize) -> Option<String> {
        if depth > MAX_DEPTH || self.left == 0 {
            return None;
        }
        self.left -= 1;
        if *schema == Value::Bool(false) {
            return Some("false".to_owned());
        }
        let members = schema.as_object()?;
        if let Some(reference) = members.get("$ref").and_then(Value::as_str) {
            // OpenAPI 3.0 ignores the other members.
            let target = (self.resolve)(reference)?;
            return self.find_conflict(target, depth + 1);
        }
        let own =
            RULES.iter().find(|(keyword, rejects)| members.get(*keyword).is_some_and(rejects));
        if let Some((keyword, _)) = own {
            return members.get(*keyword).map(|value| describe_rule(keyword, value));
        }
        self.find_in_parts(members, depth)
    }

    /// Searches the schemas that the key has to match, too: all of `allOf`, and one of `anyOf` and `oneOf`.
    fn find_in_parts(&mut self, members: &'s Map<String, Value>, depth: usize) -> Option<String> {
        let list = |key: &str| members.get(key).and_then(Value::as_array).filter(|l| !l.is_empty());
        let all = list("allOf").into_iter().flatten();
        if let Some(conflict) = all.into_iter().find_map(|part| self.find_conflict(part, depth + 1))
        {
            return Some(conflict);
        }
        ["anyOf", "oneOf"].into_iter().find_map(|key| {
            let parts = list(key)?;
            let conflicts: Option<Vec<String>> =
                parts.iter().map(|part| self.find_conflict(part, depth + 1)).collect();
            conflicts?.into_iter().next()
        })
    }
}

/// A test of a keyword's value; true when the keyword rejects every key.
type RejectsKey = fn(&Value) -> bool;

/// The keywords that can reject every key.
const RULES: [(&str, RejectsKey); 7] = [
    ("type", is_other_type),
    // A key is new for each step of each run.
    ("const", |_| true),
    ("enum", |values| values.as_array().is_some_and(|values| !values.is_empty())),
    ("maxLength", |most| most.as_u64().is_some_and(|most| most < KEY_CHARS)),
    ("minLength", |least| least.as_u64().is_some_and(|least| least > KEY_CHARS)),
    ("format", |format| format.as_str().is_some_and(|format| OTHER_FORMATS.contains(&format))),
    ("pattern", is_unmatched_pattern),
];

/// Returns true when no text is of the type. A list may have a text as its only item.
fn is_other_type(kind: &Value) -> bool {
    let is_other = |kind: &Value| {
        matches!(kind.as_str(), Some("number" | "integer" | "boolean" | "object" | "null"))
    };
    match kind {
        Value::Array(kinds) => !kinds.is_empty() && kinds.iter().all(is_other),
        kind => is_other(kind),
    }
}

/// Returns true when a pattern matches none of the sample keys. A pattern that cannot be read may match.
fn is_unmatched_pattern(pattern: &Value) -> bool {
    let Some(pattern) = pattern.as_str().filter(|pattern| pattern.len() <= MAX_PATTERN) else {
        return false;
    };
    let mut builder = RegexBuilder::new(&pattern.replace("\\/", "/"));
    let regex = builder.size_limit(MAX_PATTERN_BYTES).dfa_size_limit(MAX_PATTERN_BYTES).build();
    regex.is_ok_and(|regex| !SAMPLE_KEYS.iter().any(|key| regex.is_match(key)))
}

fn describe_rule(keyword: &str, value: &Value) -> String {
    let value = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    format!("{keyword}: {}", shorten_for_message(&value))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn conflict(schema: &Value) -> Option<String> {
        let root = json!({"short": {"maxLength": 20}, "loop": {"$ref": "loop"}});
        find_key_conflict(schema, &|reference| root.get(reference))
    }

    #[test]
    fn schemas_that_accept_a_key_have_no_conflict() {
        for schema in [
            json!({}),
            json!(true),
            json!({"type": "string", "maxLength": 36, "minLength": 36, "format": "uuid"}),
            json!({"type": ["string", "null"], "maxLength": 255, "pattern": "^[A-Za-z0-9-]+$"}),
            json!({"type": "array", "items": {"type": "string"}}),
            json!({"pattern": "^[0-9a-f]{8}-[0-9a-f]{4}-[1-5]"}),
            json!({"pattern": "(?=look-ahead)x"}),
            json!({"pattern": 5, "maxLength": "20", "enum": []}),
            json!({"anyOf": [{"maxLength": 20}, {"type": "string"}]}),
            json!({"$ref": "nowhere"}),
            json!({"$ref": "loop"}),
        ] {
            assert_eq!(conflict(&schema), None, "{schema}");
        }
    }

    #[test]
    fn a_rule_that_rejects_every_key_is_named() {
        for (schema, rule) in [
            (json!(false), "false"),
            (json!({"type": "string", "maxLength": 20}), "maxLength: 20"),
            (json!({"minLength": 40}), "minLength: 40"),
            (json!({"type": "integer"}), "type: integer"),
            (json!({"type": ["integer", "null"]}), "type: [\"integer\",\"null\"]"),
            (json!({"enum": ["a", "b"]}), "enum: [\"a\",\"b\"]"),
            (json!({"const": "c"}), "const: c"),
            (json!({"format": "date-time"}), "format: date-time"),
            (json!({"pattern": "^[A-Z0-9]{20}$"}), "pattern: ^[A-Z0-9]{20}$"),
            (json!({"pattern": "^[A-F0-9-]{36}$"}), "pattern: ^[A-F0-9-]{36}$"),
            (json!({"$ref": "short", "maxLength": 90}), "maxLength: 20"),
            (json!({"allOf": [{"type": "string"}, {"$ref": "short"}]}), "maxLength: 20"),
            (json!({"oneOf": [{"type": "integer"}, {"maxLength": 9}]}), "type: integer"),
        ] {
            assert_eq!(conflict(&schema).as_deref(), Some(rule), "{schema}");
        }
    }

    #[test]
    fn nested_schemas_are_read_within_a_bound() {
        let mut schema = json!({"maxLength": 20});
        for _ in 0..30 {
            schema = json!({"anyOf": [schema.clone(), schema]});
            if schema.to_string().len() > 1 << 20 {
                break;
            }
        }
        assert_eq!(conflict(&schema), None);
    }
}
