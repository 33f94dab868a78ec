//! No bytes make the compiler panic, and its answer is always one: a document, or errors.

use a2s::{CODES, Compilation, compile, compile_with_checksum, parse_value};
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Map, Value, json};

use crate::samples::{any_text, any_value, documents, places};
use crate::writer::write;

/// What holds of every answer, whatever was asked.
fn check(source: &[u8]) -> Result<Compilation, TestCaseError> {
    let compilation = compile(source);
    let errors = compilation.diagnostics.iter().filter(|diagnostic| diagnostic.is_error()).count();
    prop_assert_eq!(compilation.document.is_none(), errors > 0, "{:?}", compilation.diagnostics);
    let text = String::from_utf8_lossy(source);
    let lines = text.split(['\n', '\r']).count();
    for diagnostic in &compilation.diagnostics {
        prop_assert!(CODES.iter().any(|code| code.id == diagnostic.code), "{}", diagnostic);
        // JSON that YAML cannot read has no places: line and column are 0.
        prop_assert!(diagnostic.position.line <= lines, "{} of {}", diagnostic, lines);
        prop_assert_eq!(
            diagnostic.position.line == 0,
            diagnostic.position.column == 0,
            "{}",
            diagnostic
        );
        prop_assert!(diagnostic.message.len() < 2_000, "{}", diagnostic);
    }
    let Some(document) = &compilation.document else { return Ok(compilation) };
    // What was accepted means something: it can be read in its canonical form, too.
    let canonical = a2s::canonical_json(document.content()).unwrap();
    let again = compile(&canonical);
    prop_assert_eq!(again.digest, Some(document.digest()), "{:?}", again.diagnostics);
    prop_assert!(again.document.is_some(), "{:?}", again.diagnostics);
    let _ = document.interface();
    // A checksum that is filled in is one that publishes.
    let mut content = document.content().clone();
    content["checksum"] = json!(document.digest().to_string());
    let published = compile_with_checksum(content.to_string().as_bytes());
    let unpinned = |code: &str| ["A2S030", "A2S068"].contains(&code);
    for error in published.diagnostics.iter().filter(|diagnostic| diagnostic.is_error()) {
        prop_assert!(unpinned(&error.code), "{}", error);
    }
    Ok(compilation)
}

/// One change of a tree, from what a slip of the pen to what malice would do.
#[derive(Debug, Clone)]
enum Change {
    Replace(Index, Value),
    Remove(Index),
    Rename(Index, String),
    Add(Index, String, Value),
    /// Another part of the document comes here.
    Move(Index, Index),
    Duplicate(Index),
}

fn any_change() -> impl Strategy<Value = Change> {
    let field = proptest::sample::select(vec![
        "a2s",
        "$ref",
        "type",
        "steps",
        "execution",
        "task",
        "definition",
        "format",
        "input_mapping",
        "output_mapping",
        "condition",
        "if_true",
        "if_false",
        "for_each",
        "in",
        "as",
        "retry",
        "timeout",
        "on_error",
        "catch",
        "parameters",
        "required",
        "default",
        "enum",
        "secret",
        "permissions",
        "max_concurrency",
        "examples",
        "dependencies",
        "capability",
        "use",
        "variables",
        "shared",
        "output",
        "paths",
        "components",
        "servers",
        "schema",
        "content",
        "allOf",
        "get",
        "post",
        "requestBody",
        "responses",
        "query",
        "endpoint",
        "checksum",
        "x-note",
        "",
    ]);
    let value = prop_oneof![
        any_value(),
        any_text().prop_map(Value::from),
        proptest::sample::select(vec![
            json!("#/tasks/x"),
            json!("#"),
            json!("#/"),
            json!("#/components/schemas/a"),
            json!("${a}"),
            json!("1.1.0"),
            json!("1.1"),
            json!(1.1),
            json!("10s"),
            json!("continue"),
            json!(9e15),
            json!({"$ref": "#/tasks/x"}),
            json!({"$ref": "#/components/schemas/a"}),
            json!([[[[[]]]]]),
            json!("3.1.0"),
            json!("3.0.3"),
            json!("GraphQL"),
            json!("OpenAPI"),
            json!("https://[::1]:0/"),
        ]),
    ];
    prop_oneof![
        (any::<Index>(), value.clone()).prop_map(|(at, value)| Change::Replace(at, value)),
        any::<Index>().prop_map(Change::Remove),
        (any::<Index>(), field.clone()).prop_map(|(at, key)| Change::Rename(at, key.to_owned())),
        (any::<Index>(), field, value).prop_map(|(at, key, v)| Change::Add(at, key.to_owned(), v)),
        (any::<Index>(), any::<Index>()).prop_map(|(from, to)| Change::Move(from, to)),
        any::<Index>().prop_map(Change::Duplicate),
    ]
}

fn apply(content: &mut Value, change: &Change) {
    let places = places(content);
    let split = |at: &Index| {
        let place = at.get(&places).clone();
        let (parent, key) = place.rsplit_once('/')?;
        Some((parent.to_owned(), key.replace("~1", "/").replace("~0", "~")))
    };
    match change {
        Change::Replace(at, value) => {
            *content.pointer_mut(at.get(&places).as_str()).unwrap() = value.clone();
        }
        Change::Move(from, to) => {
            let moved = content.pointer(from.get(&places).as_str()).unwrap().clone();
            *content.pointer_mut(to.get(&places).as_str()).unwrap() = moved;
        }
        Change::Add(at, key, value) => match content.pointer_mut(at.get(&places).as_str()).unwrap()
        {
            Value::Object(members) => drop(members.insert(key.clone(), value.clone())),
            Value::Array(items) => items.push(value.clone()),
            _ => {}
        },
        Change::Remove(at) | Change::Rename(at, _) | Change::Duplicate(at) => {
            let Some((parent, key)) = split(at) else { return };
            match (content.pointer_mut(&parent), change) {
                (Some(Value::Object(members)), Change::Remove(_)) => {
                    drop(members.shift_remove(&key))
                }
                (Some(Value::Object(members)), Change::Rename(_, name)) => {
                    if let Some(value) = members.shift_remove(&key) {
                        members.insert(name.clone(), value);
                    }
                }
                (Some(Value::Array(items)), Change::Remove(_)) => {
                    drop(items.remove(key.parse().unwrap()));
                }
                (Some(Value::Array(items)), Change::Duplicate(_)) => {
                    let index: usize = key.parse().unwrap();
                    items.insert(index, items[index].clone());
                }
                _ => {}
            }
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_get_an_answer(bytes in prop::collection::vec(any::<u8>(), 0..400), text in any::<String>()) {
        check(&bytes)?;
        check(text.as_bytes())?;
    }

    #[test]
    fn any_text_of_indicators_gets_an_answer(
        text in "[-?:,\\[\\]{}#&*!|>'\"%@`~=<$. \n\ta-c0-9é\u{feff}\u{85}]{0,200}",
    ) {
        check(text.as_bytes())?;
        let _ = parse_value(text.as_bytes());
    }

    #[test]
    fn any_mapping_gets_an_answer(value in any_value(), choices in prop::collection::vec(any::<usize>(), 1..9)) {
        let members: Map<String, Value> = [("a2s".to_owned(), json!("1.0.0")), ("x".to_owned(), value)].into_iter().collect();
        check(write(&members.into(), &choices).as_bytes())?;
    }

    #[test]
    fn any_change_of_a_text_gets_an_answer(
        which in any::<Index>(),
        changes in prop::collection::vec((any::<Index>(), 0_usize..60, prop_oneof![
            "[-:{}\\[\\]$'\"#&*!|> \na-z0-9]{0,20}", any_text(),
        ]), 1..4),
    ) {
        let documents = documents();
        let (_, source) = which.get(&documents);
        let mut letters: Vec<char> = source.chars().collect();
        for (place, length, instead) in changes {
            let from = place.index(letters.len() + 1);
            let to = (from + length).min(letters.len());
            letters.splice(from..to, instead.chars());
        }
        check(letters.iter().collect::<String>().as_bytes())?;
    }

    #[test]
    fn any_change_of_a_document_gets_an_answer(
        which in any::<Index>(),
        changes in prop::collection::vec(any_change(), 1..5),
        choices in prop::collection::vec(any::<usize>(), 1..9),
    ) {
        let documents = documents();
        let (_, source) = which.get(&documents);
        let mut content = parse_value(source.as_bytes()).unwrap();
        for change in &changes {
            apply(&mut content, change);
        }
        check(write(&content, &choices).as_bytes())?;
    }

    #[test]
    fn lines_of_two_documents_mixed_get_an_answer(
        one in any::<Index>(), other in any::<Index>(),
        cuts in prop::collection::vec(any::<Index>(), 4),
    ) {
        let documents = documents();
        let one: Vec<&str> = one.get(&documents).1.lines().collect();
        let other: Vec<&str> = other.get(&documents).1.lines().collect();
        let (head, tail) = (cuts[0].index(one.len()), cuts[1].index(other.len()));
        let mixed = [&one[..head], &other[tail..]].concat().join("\n");
        check(mixed.as_bytes())?;
    }
}
