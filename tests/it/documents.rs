//! Documents: every good one compiles, every bad one says why, and the digest is of the content.

mod styles;

use std::collections::BTreeSet;
use std::path::PathBuf;

use a2s::{Compilation, Digest, compile};
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Map, Value, json};

use self::styles::Style;
use crate::harness::root;

/// The placeholder of a checksum or pin, which a draft may have.
const PLACEHOLDERS: [&str; 2] = ["A2S030", "A2S068"];
/// Documents with several kinds of mistake on purpose.
const MIXED: [&str; 3] = ["many_mistakes", "template_of_header", "variable_misspelt"];

/// The files below `tests/fixtures/documents`, by name.
fn documents(folder: &str) -> Vec<(String, String)> {
    let folder = root().join("tests/fixtures/documents").join(folder);
    let mut documents: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "yaml" || e == "json"))
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, std::fs::read_to_string(path).unwrap())
        })
        .collect();
    documents.sort();
    documents
}

/// What the compiler says, as a person sees it: each remark under the line that it is about.
fn render(source: &str, compilation: &Compilation) -> String {
    let remarks = compilation.diagnostics.iter().filter(|d| !PLACEHOLDERS.contains(&&*d.code));
    let rendered = remarks.map(|diagnostic| {
        let severity = if diagnostic.is_error() { "error" } else { "warning" };
        let (line, column) = (diagnostic.position.line, diagnostic.position.column);
        let text = source.lines().nth(line - 1).unwrap_or_default();
        let number = line.to_string();
        let margin = " ".repeat(number.len());
        format!(
            "{severity}[{}]: {}\n{margin}--> {line}:{column} {}\n{number} | {text}\n{margin} | {}^\n{margin} = {}\n",
            diagnostic.code,
            diagnostic.message,
            diagnostic.path,
            " ".repeat(column - 1),
            diagnostic.hint.as_deref().unwrap_or("no hint"),
        )
    });
    rendered.collect::<Vec<_>>().join("\n")
}

#[test]
fn every_valid_document_compiles() {
    let documents = documents("valid");
    assert!(documents.len() >= 6);
    for (file, source) in documents {
        let compilation = compile(source.as_bytes());
        assert!(compilation.document.is_some(), "{file}\n{}", render(&source, &compilation));
        let codes: Vec<_> = compilation.diagnostics.iter().map(|d| &*d.code).collect();
        // As published: its specification declares a list where its mapping reads an object.
        if file == "ListBreedsByReference.yaml" && codes.contains(&"A2S058") {
            continue;
        }
        assert_eq!(render(&source, &compilation), "", "{file} has remarks");
    }
}

/// The snapshot of a document stands beside it, so that mistake and answer are read together.
#[test]
fn every_invalid_document_says_why() {
    let documents = documents("invalid");
    for (file, source) in &documents {
        let name = file.replace(".json", "_json").replace(".yaml", "");
        let compilation = compile(source.as_bytes());
        let errors: BTreeSet<&str> =
            compilation.diagnostics.iter().filter(|d| d.is_error()).map(|d| &*d.code).collect();
        assert_eq!(compilation.document.is_none(), !errors.is_empty(), "{file}");
        let remarks = compilation.diagnostics.iter().filter(|d| !PLACEHOLDERS.contains(&&*d.code));
        let codes = if errors.is_empty() { remarks.map(|d| &*d.code).collect() } else { errors };
        if MIXED.contains(&&*name) {
            assert_ne!(codes.len(), 1, "{file} has one kind of mistake");
        } else {
            assert_eq!(codes.len(), 1, "{file}: one mistake, one code: {codes:?}");
        }
        insta::with_settings!({
            snapshot_path => "../fixtures/documents/invalid",
            prepend_module_to_snapshot => false,
            omit_expression => true,
        }, {
            insta::assert_snapshot!(name, render(source, &compilation));
        });
    }
    assert!(documents.len() >= 100);
}

#[test]
fn a_required_field_is_missing_however_it_went() {
    let required = ["a2s", "name", "description", "domains", "version", "authors", "execution"];
    for (file, source) in documents("valid") {
        let content = a2s::parse_value(source.as_bytes()).unwrap();
        for key in required {
            for instead in [None, Some(format!("x-{key}")), Some(format!("{key}x"))] {
                let mut content = content.clone();
                let members = content.as_object_mut().unwrap();
                let value = members.shift_remove(key).unwrap();
                members.extend(instead.clone().map(|instead| (instead, value)));
                let compilation = compile(content.to_string().as_bytes());
                assert!(compilation.document.is_none(), "{file} without {key}: {instead:?}");
                let names_it = compilation.diagnostics.iter().any(|diagnostic| {
                    let hint = diagnostic.hint.as_deref().unwrap_or_default();
                    diagnostic.is_error()
                        && (diagnostic.message.contains(key) || hint.contains(key))
                });
                assert!(names_it, "{file} without {key}: {:?}", compilation.diagnostics);
            }
        }
    }
}

#[test]
fn every_remark_is_placed_and_reads_like_the_others() {
    for (file, source) in documents("invalid").into_iter().chain(documents("valid")) {
        for diagnostic in compile(source.as_bytes()).diagnostics {
            let remark = format!("{file}: {diagnostic}");
            let lines = source.lines().count().max(1);
            assert!((1..=lines).contains(&diagnostic.position.line), "{remark}");
            let message = &diagnostic.message;
            assert!(
                !message.starts_with(char::is_uppercase) || message.starts_with("OpenAPI"),
                "{remark}"
            );
            assert!(!message.ends_with('.'), "{remark}");
            let hint = diagnostic.hint.expect("every remark says what to do");
            assert!(hint.starts_with(|c: char| c.is_uppercase() || c == '`'), "{remark}: {hint}");
            assert!(hint.ends_with(['.', '?']), "{remark}: {hint}");
            assert!(a2s::CODES.iter().any(|code| code.id == diagnostic.code), "{remark}");
        }
    }
}

#[test]
fn every_snapshot_has_its_document() {
    let named = |name: &str, extension: &str| {
        let path = root().join("tests/fixtures/documents/invalid").join(name);
        path.with_extension(extension).exists()
    };
    for entry in std::fs::read_dir(root().join("tests/fixtures/documents/invalid")).unwrap() {
        let path: PathBuf = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "snap") {
            let name = path.file_stem().unwrap().to_str().unwrap();
            let known = named(name, "yaml") || named(&name.replace("_json", ""), "json");
            assert!(known, "{name}.snap is about a document that is gone");
        }
    }
}

/// The vectors are made by `check.py` beside them, which shares no code with the compiler.
#[test]
fn the_digest_is_that_of_the_published_vectors() {
    let path = root().join("tests/fixtures/checksum/vectors.json");
    let vectors: Vec<Value> =
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert!(vectors.len() >= 40);
    for vector in vectors {
        let name = vector["name"].as_str().unwrap();
        let source = vector["document"].as_str().unwrap();
        let compilation = compile(source.as_bytes());
        match vector["refused"].as_str() {
            Some(code) => {
                assert_eq!(compilation.digest, None, "{name}");
                let codes: Vec<_> = compilation.diagnostics.iter().map(|d| &*d.code).collect();
                assert!(codes.contains(&code), "{name}: {codes:?}");
            }
            None => {
                let mut content = a2s::parse_value(source.as_bytes()).unwrap();
                content.as_object_mut().unwrap().shift_remove("checksum");
                let canonical = a2s::canonical_json(&content).unwrap();
                assert_eq!(String::from_utf8(canonical).unwrap(), vector["canonical"], "{name}");
                let digest = compilation.digest.map(|digest| digest.to_string());
                assert_eq!(digest.as_deref(), vector["digest"].as_str(), "{name}");
            }
        }
    }
}

fn digest(source: &str) -> Option<Digest> {
    compile(source.as_bytes()).digest
}

#[test]
fn a_shipped_document_has_its_digest_in_every_style() {
    for entry in std::fs::read_dir(root().join("capabilities")).unwrap() {
        let path = entry.unwrap().path();
        let source = std::fs::read_to_string(&path).unwrap();
        let content = a2s::parse_value(source.as_bytes()).unwrap();
        for seed in 0..Style::ALL.len() {
            let style = Style::ALL[seed];
            let rewritten = style.write(&content, &[seed, 3, 1, 4, 1, 5, 9, 2, 6]);
            assert_eq!(digest(&rewritten), digest(&source), "{}\n{rewritten}", path.display());
        }
    }
}

/// Values as documents have them.
fn any_value() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        "[a-zA-Z0-9_./:#${}'\"-]{0,12}",
        "[ \t\na-z:#-]{0,12}",
        any::<String>(),
        proptest::sample::select(vec![
            "null", "true", "~", "1", "1.0", "0x1f", "<<", "yes", "- a", "k: v", "|"
        ])
        .prop_map(str::to_owned),
    ];
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-9_007_199_254_740_991_i64..=9_007_199_254_740_991).prop_map(Value::from),
        (-1000_i64..1000).prop_map(Value::from),
        (-1e9..1e9_f64).prop_map(Value::from),
        text.clone().prop_map(Value::from),
    ];
    scalar.prop_recursive(4, 40, 6, move |inner| {
        let members = prop::collection::btree_map(text.clone(), inner.clone(), 0..6);
        prop_oneof![
            prop::collection::vec(inner, 0..6).prop_map(Value::from),
            members.prop_map(|members| members.into_iter().collect::<Map<_, _>>().into()),
        ]
    })
}

fn any_document() -> impl Strategy<Value = Value> {
    let text = prop_oneof!["[a-z]{1,8}", any::<String>()];
    prop::collection::btree_map(text, any_value(), 1..6).prop_map(|mut members| {
        members.remove("checksum");
        members.into_iter().collect::<Map<_, _>>().into()
    })
}

/// The pointers of all scalars.
fn scalars(value: &Value, pointer: &str, found: &mut Vec<String>) {
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                scalars(item, &format!("{pointer}/{index}"), found);
            }
        }
        Value::Object(members) => {
            for (key, member) in members {
                let key = key.replace('~', "~0").replace('/', "~1");
                scalars(member, &format!("{pointer}/{key}"), found);
            }
        }
        _ => found.push(pointer.to_owned()),
    }
}

proptest! {
    #[test]
    fn the_way_it_is_written_does_not_change_the_digest(
        document in any_document(),
        style in proptest::sample::select(Style::ALL.to_vec()),
        choices in prop::collection::vec(0_usize..1000, 1..30),
    ) {
        let source = style.write(&document, &choices);
        prop_assert_eq!(digest(&source), Digest::of_document(&document).ok(), "{}", source);
    }

    #[test]
    fn every_scalar_changes_the_digest(document in any_document(), place in any::<Index>()) {
        let mut pointers = Vec::new();
        scalars(&document, "", &mut pointers);
        prop_assume!(!pointers.is_empty());
        let mut changed = document.clone();
        let scalar = changed.pointer_mut(&pointers[place.index(pointers.len())]).unwrap();
        *scalar = match scalar.take() {
            Value::Null => json!(""),
            Value::Bool(value) => json!(!value),
            Value::String(text) => json!(text + "x"),
            other => json!(other.to_string()),
        };
        prop_assert_ne!(digest(&changed.to_string()), digest(&document.to_string()));
    }

    #[test]
    fn every_key_and_element_changes_the_digest(document in any_document(), key in "[a-z]{9,12}") {
        let mut more = document.clone();
        more.as_object_mut().unwrap().insert(key, Value::Null);
        let mut fewer = document.clone();
        fewer.as_object_mut().unwrap().shift_remove_entry(document.as_object().unwrap().keys().next().unwrap());
        let nested = json!({ "inner": [document] });
        let twice = json!({ "inner": [document, null] });
        let digests = [&document, &more, &fewer, &nested, &twice].map(|value| digest(&value.to_string()));
        prop_assert_eq!(digests.iter().collect::<BTreeSet<_>>().len(), digests.len());
    }

    #[test]
    fn no_text_makes_the_compiler_panic(source in any::<String>()) {
        let _ = compile(source.as_bytes());
    }

    #[test]
    fn no_change_of_a_document_makes_the_compiler_panic(
        place in any::<Index>(),
        length in 0_usize..40,
        instead in prop_oneof!["[-:{}\\[\\]$'\"#&*!|> \na-z0-9]{0,20}", any::<String>()],
        which in any::<Index>(),
    ) {
        let documents = documents("valid");
        let (_, source) = which.get(&documents);
        let mut letters: Vec<char> = source.chars().collect();
        let from = place.index(letters.len());
        let to = (from + length).min(letters.len());
        letters.splice(from..to, instead.chars());
        let compilation = compile(letters.iter().collect::<String>().as_bytes());
        prop_assert_eq!(compilation.document.is_none(), compilation.diagnostics.iter().any(a2s::Diagnostic::is_error));
    }
}
