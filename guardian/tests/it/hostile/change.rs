//! What may happen to a message on its way: to its bytes, and to the JSON in them.

use proptest::prelude::*;
use serde_json::{Value, json};

/// A change of the bytes of a message.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Byte(prop::sample::Index, u8),
    Remove(prop::sample::Index),
    Cut(prop::sample::Index),
    Double(prop::sample::Index, u8),
    /// Put one of the words that mean something in its place.
    Word(prop::sample::Index, &'static str),
}

pub(super) fn changes() -> impl Strategy<Value = Vec<Change>> {
    let words = [
        "null",
        "{}",
        "[]",
        "\"\"",
        "\"id\":",
        "\"jsonrpc\":",
        "1e999",
        "-0",
        "\\u0000",
        "\u{feff}",
        "{\"a\":",
        "],",
    ];
    let change = prop_oneof![
        4 => (any::<prop::sample::Index>(), any::<u8>()).prop_map(|(at, byte)| Change::Byte(at, byte)),
        2 => any::<prop::sample::Index>().prop_map(Change::Remove),
        1 => any::<prop::sample::Index>().prop_map(Change::Cut),
        2 => (any::<prop::sample::Index>(), 1..40_u8).prop_map(|(at, length)| Change::Double(at, length)),
        2 => (any::<prop::sample::Index>(), prop::sample::select(words.to_vec())).prop_map(|(at, word)| Change::Word(at, word)),
    ];
    prop::collection::vec(change, 1..5)
}

pub(super) fn change(bytes: &mut Vec<u8>, change: &Change) {
    if bytes.is_empty() {
        return;
    }
    match change {
        Change::Byte(at, byte) => {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }
        Change::Remove(at) => drop(bytes.remove(at.index(bytes.len()))),
        Change::Cut(at) => bytes.truncate(at.index(bytes.len())),
        Change::Double(at, length) => {
            let at = at.index(bytes.len());
            let end = bytes.len().min(at + usize::from(*length));
            let part = bytes[at..end].to_vec();
            bytes.splice(at..at, part);
        }
        Change::Word(at, word) => {
            let at = at.index(bytes.len());
            bytes.splice(at..at, word.bytes());
        }
    }
}

/// A change of the JSON of a message, which stays JSON.
#[derive(Clone, Debug)]
pub(super) enum Turn {
    Remove(prop::sample::Index),
    Replace(prop::sample::Index, Value),
    /// What is at one place is put at another, too.
    Copy(prop::sample::Index, prop::sample::Index),
    Rename(prop::sample::Index, &'static str),
    /// A member is there twice.
    Twice(prop::sample::Index),
}

pub(super) fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let index = any::<prop::sample::Index>;
    let leaf = prop::sample::select(vec![
        Value::Null,
        json!(true),
        json!(0),
        json!(-1.5),
        json!(u64::MAX),
        json!(""),
        json!("text"),
        json!("2026-01-02T03:04:05Z"),
        json!("2026-13-02T03:04:05Z"),
        json!("2026-01-02"),
        json!([]),
        json!(["a"]),
        json!({}),
        json!({"id": "a"}),
        json!({"kind": "text", "text": "t"}),
        json!({"kind": "data", "data": []}),
        json!({"jsonrpc": "2.0", "method": "ping"}),
    ]);
    let names =
        ["context", "message", "toolCallResult", "result", "url", "kind", "text", "id", "required"];
    let turn = prop_oneof![
        4 => index().prop_map(Turn::Remove),
        4 => (index(), leaf).prop_map(|(at, value)| Turn::Replace(at, value)),
        2 => (index(), index()).prop_map(|(from, to)| Turn::Copy(from, to)),
        2 => (index(), prop::sample::select(names.to_vec())).prop_map(|(at, name)| Turn::Rename(at, name)),
        1 => index().prop_map(Turn::Twice),
    ];
    prop::collection::vec(turn, 0..4)
}

/// The text of a message after its turns.
pub(super) fn turn(mut message: Value, turns: &[Turn]) -> Vec<u8> {
    // A name that no message has stands for the one that is to be there twice.
    const TWICE: &str = "there twice";
    let mut twice = None;
    for turn in turns {
        let mut places = Vec::new();
        find_places(&message, "", &mut places);
        if places.is_empty() {
            break;
        }
        let at = |index: &prop::sample::Index| places[index.index(places.len())].clone();
        match turn {
            Turn::Remove(index) => drop(take(&mut message, &at(index))),
            Turn::Replace(index, value) => {
                *message.pointer_mut(&at(index)).unwrap() = value.clone()
            }
            Turn::Copy(from, to) => {
                let copied = message.pointer(&at(from)).unwrap().clone();
                *message.pointer_mut(&at(to)).unwrap() = copied;
            }
            Turn::Rename(index, name) => {
                let place = at(index);
                let value = take(&mut message, &place);
                put(&mut message, &place, name, value);
            }
            Turn::Twice(index) => {
                let place = at(index);
                let name = place.rsplit('/').next().unwrap().to_owned();
                let value = message.pointer(&place).unwrap().clone();
                put(&mut message, &place, TWICE, value);
                twice = Some(name);
            }
        }
    }
    let mut text = message.to_string();
    if let Some(name) = twice {
        text = text.replacen(TWICE, &name, 1);
    }
    text.into_bytes()
}

/// The JSON pointers of everything in a value. No name in a message needs escaping.
fn find_places(value: &Value, place: &str, places: &mut Vec<String>) {
    let inner: Vec<(String, &Value)> = match value {
        Value::Object(members) => members
            .iter()
            .filter(|(name, _)| !name.contains(['/', '~']))
            .map(|(name, value)| (name.clone(), value))
            .collect(),
        Value::Array(items) => {
            items.iter().enumerate().map(|(index, item)| (index.to_string(), item)).collect()
        }
        _ => Vec::new(),
    };
    for (name, value) in inner {
        let place = format!("{place}/{name}");
        find_places(value, &place, places);
        places.push(place);
    }
}

fn take(message: &mut Value, place: &str) -> Value {
    let (parent, name) = place.rsplit_once('/').unwrap();
    match message.pointer_mut(parent).unwrap() {
        Value::Object(members) => members.shift_remove(name).unwrap(),
        Value::Array(items) => items.remove(name.parse().unwrap()),
        _ => unreachable!("it has something in it"),
    }
}

/// Puts a member beside a place, where members are.
fn put(message: &mut Value, beside: &str, name: &str, value: Value) {
    let (parent, _) = beside.rsplit_once('/').unwrap();
    if let Some(Value::Object(members)) = message.pointer_mut(parent) {
        members.insert(name.to_owned(), value);
    }
}

/// JSON that has something of a message, in places where it belongs and where it does not.
pub(super) fn strange_messages() -> impl Strategy<Value = Vec<u8>> {
    let words = [
        "2.0",
        "steps/toolCallRequest",
        "steps/toolCallResult",
        "steps/message",
        "protocols/MCP",
        "protocols/A2A",
        "message/send",
        "ping",
        "allow",
        "2026-01-02T03:04:05Z",
        "text",
        "user",
        "",
    ];
    let names = [
        "jsonrpc",
        "id",
        "method",
        "params",
        "context",
        "toolCallRequest",
        "toolCallResult",
        "inputs",
        "name",
        "value",
        "executionId",
        "toolId",
        "result",
        "outputs",
        "message",
        "payload",
        "agent",
        "session",
        "turnId",
        "stepId",
        "timestamp",
        "memory",
        "knowledgeStep",
        "capability",
        "decision",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(words.to_vec()).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    let value = leaf.prop_recursive(5, 40, 6, move |inner| {
        let name = prop_oneof![
            9 => prop::sample::select(names.to_vec()).prop_map(str::to_owned),
            1 => any::<String>(),
        ];
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            3 => prop::collection::vec((name, inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    });
    let methods = prop::sample::select(words.to_vec());
    // Most have an envelope, so that what is inside of it is looked at.
    (value, methods, 0..4_u8).prop_map(|(value, method, kind)| {
        let message = match kind {
            0 => value,
            _ => json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": value}),
        };
        message.to_string().into_bytes()
    })
}
