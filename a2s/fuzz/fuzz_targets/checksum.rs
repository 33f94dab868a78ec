//! Two texts of one content have one digest: any accepted text and its canonical JSON. Where the
//! text is JSON, an ordinary JSON parser has to read the same content.

#![no_main]

use a2s::{Digest, canonical_json, compile, parse_value};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|source: &[u8]| {
    let digest = compile(source).digest;
    let Ok(content) = parse_value(source) else {
        assert_eq!(digest, None, "a text with errors has no digest");
        return;
    };
    assert_eq!(digest, Digest::of_document(&content).ok());
    let canonical = canonical_json(&content).expect("what is accepted has a canonical form");
    let text = std::str::from_utf8(&canonical).expect("canonical JSON is UTF-8");
    assert!(!text.contains('\n'));
    // The canonical text of a list or scalar is no document, so it goes into one.
    let canonical_again = format!("{{\"v\":{text}}}");
    let again = parse_value(canonical_again.as_bytes()).expect("canonical JSON is accepted");
    assert_eq!(canonical_json(&again["v"]), Ok(canonical.clone()));
    if content.is_object() {
        assert_eq!(compile(&canonical).digest, digest);
    }
    let plain: Value = serde_json::from_str(text).expect("canonical JSON is JSON");
    assert_eq!(canonical_json(&plain), Ok(canonical.clone()));
    if let Ok(plain) = serde_json::from_slice::<Value>(source) {
        assert_eq!(canonical_json(&plain), Ok(canonical), "JSON means what JSON says");
    }
});
