//! Any bytes as a document: the compiler gives an answer, and the answer is one.

#![no_main]

use a2s_authoring::format_document;
use a2s::{CODES, compile, compile_with_checksum};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|source: &[u8]| {
    let compilation = compile(source);
    let errors = compilation.diagnostics.iter().filter(|diagnostic| diagnostic.is_error());
    assert_eq!(compilation.document.is_none(), errors.count() > 0, "a document, or errors");
    for diagnostic in &compilation.diagnostics {
        assert!(CODES.iter().any(|code| code.id == diagnostic.code), "{diagnostic}");
        assert!(diagnostic.message.len() < 4_000, "{diagnostic}");
        assert!(diagnostic.hint.as_ref().is_none_or(|hint| hint.len() < 4_000), "{diagnostic}");
    }
    // Another layout is the same document, and laying it out again changes nothing.
    if let Ok(text) = format_document(source) {
        assert_eq!(compile(text.as_bytes()).digest, compilation.digest, "{text}");
        assert_eq!(format_document(text.as_bytes()).as_ref(), Ok(&text));
    }
    let Some(document) = compilation.document else { return };
    let _ = document.interface();
    let canonical = a2s::canonical_json(document.content()).expect("it has a digest");
    let again = compile(&canonical);
    assert_eq!(again.digest, Some(document.digest()));
    assert!(again.document.is_some(), "{:?}", again.diagnostics);
    // With its checksum filled in nothing but pins can be missing.
    let mut content = document.content().clone();
    content["checksum"] = document.digest().to_string().into();
    let published = compile_with_checksum(content.to_string().as_bytes());
    for error in published.diagnostics.iter().filter(|diagnostic| diagnostic.is_error()) {
        assert_eq!(error.code, "A2S068", "{error}");
    }
});
