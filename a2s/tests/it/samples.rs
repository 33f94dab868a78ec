//! Documents and values to try things with: the repository's own, the public data sets, and any.

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use serde_json::{Map, Value};

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Every good document of the repository: its name and its text.
pub(crate) fn documents() -> Vec<(String, String)> {
    let mut documents = Vec::new();
    for folder in ["tests/fixtures/documents/valid", "capabilities"] {
        for entry in std::fs::read_dir(root().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "yaml" || extension == "json")
            {
                let name = path.file_name().unwrap().to_str().unwrap();
                let source = std::fs::read_to_string(&path).unwrap();
                documents.push((format!("{folder}/{name}"), source));
            }
        }
    }
    documents.sort();
    assert!(documents.len() > 20, "the documents of the repository are somewhere else");
    documents
}

/// A public data set, when there is one here. Nobody needs it to build or run; whoever names the
/// folder gets the tests, and failures if it is not what it should be.
#[expect(clippy::disallowed_methods, reason = "this is the one setting of these tests")]
#[expect(clippy::print_stderr, reason = "a test that is skipped has to be heard")]
pub(crate) fn data_set(name: &str) -> Option<PathBuf> {
    let Ok(folder) = std::env::var("A2S_TEST_DATA") else {
        eprintln!("SKIPPED: A2S_TEST_DATA names no folder, so nothing was held against `{name}`");
        return None;
    };
    let folder = PathBuf::from(folder).join(name);
    assert!(folder.is_dir(), "A2S_TEST_DATA is set, but {} is no folder", folder.display());
    Some(folder)
}

/// Text as documents have it, and text that looks like something else.
pub(crate) fn any_text() -> impl Strategy<Value = String> + Clone {
    prop_oneof![
        4 => "[a-zA-Z0-9_./:#${}'\"-]{0,12}",
        2 => "[ \t\na-z:#-]{0,12}",
        2 => any::<String>(),
        2 => proptest::sample::select(vec![
            "null", "Null", "true", "FALSE", "~", "", "1", "-1", "1.0", "1e3", "0x1f", "0o7", "007", "+1", ".5",
            "1_000", "12:30", "2001-01-01", ".inf", ".nan", "<<", "=", "yes", "no", "on", "-", "- a",
            "?", "? a", "k: v", "|", ">-", "&a", "*a", "!a", "%a", "@a", "`a", "#a", " #a", "a #b", "a:", ":a",
            "---", "...", "[", "]", "{}", ",", "''", "\"", "\\", "\\n", "${a}", "$${a}", "\u{feff}", "\u{85}",
            "\u{2028}", "\u{7f}", "\u{0}", "\r\n", "a\nb", "a\n\nb\n", "\n", " a", "a ", "\ta",
        ])
        .prop_map(str::to_owned),
    ]
}

/// Numbers that every JSON implementation reads alike.
fn any_number() -> impl Strategy<Value = Value> {
    prop_oneof![
        (-9_007_199_254_740_991_i64..=9_007_199_254_740_991).prop_map(Value::from),
        (-1000_i64..1000).prop_map(Value::from),
        (-1e9..1e9_f64).prop_map(Value::from),
        any::<f64>().prop_filter("no canonical form", |n| n.fract() != 0.0).prop_map(Value::from),
    ]
}

/// Any value that a document may hold.
pub(crate) fn any_value() -> impl Strategy<Value = Value> + Clone {
    let text = any_text().boxed();
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any_number(),
        text.clone().prop_map(Value::from),
    ];
    scalar
        .prop_recursive(4, 40, 6, move |inner| {
            let members = prop::collection::btree_map(text.clone(), inner.clone(), 0..6);
            prop_oneof![
                prop::collection::vec(inner, 0..6).prop_map(Value::from),
                members.prop_map(|members| members.into_iter().collect::<Map<_, _>>().into()),
            ]
        })
        .boxed()
}

/// Any content of a document, without a checksum.
pub(crate) fn any_content() -> impl Strategy<Value = Value> {
    let key = prop_oneof!["[a-z]{1,8}", any_text()];
    prop::collection::btree_map(key, any_value(), 1..6).prop_map(|mut members| {
        members.remove("checksum");
        members.into_iter().collect::<Map<_, _>>().into()
    })
}

/// The places of all values below `value`, and of itself, as JSON pointers.
pub(crate) fn places(value: &Value) -> Vec<String> {
    fn add(value: &Value, here: String, places: &mut Vec<String>) {
        match value {
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    add(item, format!("{here}/{index}"), places);
                }
            }
            Value::Object(members) => {
                for (key, member) in members {
                    let key = key.replace('~', "~0").replace('/', "~1");
                    add(member, format!("{here}/{key}"), places);
                }
            }
            _ => {}
        }
        places.push(here);
    }
    let mut found = Vec::new();
    add(value, String::new(), &mut found);
    found
}
