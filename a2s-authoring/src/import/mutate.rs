//! Descriptions with mistakes in them, for tests: a value somewhere is another one, or gone.

use proptest::prelude::*;
use serde_json::{Value, json};

/// The location of a mistake, and the new value there; `None` removes the old value.
pub(super) type Mistake = (prop::sample::Index, Option<Value>);

/// Generates mistakes of every kind.
pub(super) fn mistakes() -> impl Strategy<Value = Vec<Mistake>> {
    let values = [
        json!(null),
        json!(true),
        json!(-1),
        json!(1e300),
        json!(""),
        json!("x"),
        json!("$inputs.x"),
        json!("${x"),
        json!("#/paths"),
        json!([]),
        json!([[]]),
        json!({}),
        json!({"$ref": "#"}),
        json!({"$ref": "#/components/schemas/Item"}),
        json!({"$ref": 1}),
        json!({"type": ["object", 1], "properties": {"": {"": 1}}}),
    ];
    let value = prop::option::weighted(0.8, prop::sample::select(values.to_vec()));
    prop::collection::vec((any::<prop::sample::Index>(), value), 1..4)
}

/// Inserts mistakes into the value.
pub(super) fn mangle(mut value: Value, mistakes: &[Mistake]) -> Value {
    for (index, replacement) in mistakes {
        let mut pointers = Vec::new();
        pointers_of(&value, "", &mut pointers);
        let Some(pointer) = (!pointers.is_empty()).then(|| index.get(&pointers).clone()) else {
            continue;
        };
        match replacement {
            Some(replacement) => {
                if let Some(place) = value.pointer_mut(&pointer) {
                    *place = replacement.clone();
                }
            }
            None => {
                let (parent, key) = pointer.rsplit_once('/').unwrap_or_default();
                let key = key.replace("~1", "/").replace("~0", "~");
                match value.pointer_mut(parent) {
                    Some(Value::Object(members)) => {
                        members.shift_remove(&key);
                    }
                    Some(Value::Array(items)) => items.clear(),
                    _ => {}
                }
            }
        }
    }
    value
}

fn pointers_of(value: &Value, at: &str, pointers: &mut Vec<String>) {
    let children: Vec<(String, &Value)> = match value {
        Value::Array(items) => {
            items.iter().enumerate().map(|(index, item)| (index.to_string(), item)).collect()
        }
        Value::Object(members) => members
            .iter()
            .map(|(key, member)| (key.replace('~', "~0").replace('/', "~1"), member))
            .collect(),
        _ => Vec::new(),
    };
    for (key, child) in children {
        let pointer = format!("{at}/{key}");
        pointers_of(child, &pointer, pointers);
        pointers.push(pointer);
    }
}
