//! Any bytes as a document, up to its largest size: within bounded memory, and with a small answer.

#![no_main]

use a2s::compile;
use libfuzzer_sys::fuzz_target;

/// The most memory that compiling takes above the text, in bytes.
const MAX_MEMORY: u64 = 64 << 20;
/// The largest answer as JSON, in bytes.
const MAX_ANSWER: usize = 256 << 10;

fuzz_target!(|source: &[u8]| {
    let mut compilation = None;
    let used = allocation_counter::measure(|| compilation = Some(compile(source)));
    assert!(used.bytes_max <= MAX_MEMORY, "{} bytes of memory", used.bytes_max);
    let found = compilation.expect("it was compiled").diagnostics;
    let answer = serde_json::to_vec(&found).expect("diagnostics are JSON");
    assert!(answer.len() <= MAX_ANSWER, "an answer of {} bytes", answer.len());
});
