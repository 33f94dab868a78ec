//! Documents: every good one compiles, every bad one says why, and the digest is of the content.

use std::collections::BTreeSet;
use std::path::PathBuf;

use a2s::{Compilation, compile};
use serde_json::Value;

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
