//! Any bytes as the answer of an embeddings API: refused, or vectors that can be compared; never a
//! panic.

#![no_main]

use std::fmt::Write as _;

use libfuzzer_sys::fuzz_target;
use registry::embed::Embedding;
use registry::fuzz::{MAX_DIMENSIONS, parse_response};

fuzz_target!(|input: (u8, Option<u8>, &[u8])| {
    let (count, expected, bytes) = input;
    let (count, expected) = (usize::from(count % 5), expected.map(usize::from));
    let Ok((vectors, length)) = parse_response(bytes, count, expected) else { return };
    check(&vectors, count, length);
    assert!(expected.is_none_or(|expected| expected == length));
    // What was read is an answer itself, in another form.
    let mut text = String::new();
    for (index, vector) in vectors.iter().enumerate() {
        let numbers = vector.clone().unwrap_or_else(|| vec![0.0; length]);
        let comma = if index == 0 { "" } else { "," };
        write!(text, "{comma}{{\"index\":{index},\"embedding\":{numbers:?}}}").expect("it is text");
    }
    let again = format!("{{\"data\":[{text}]}}");
    let (again, _) = parse_response(again.as_bytes(), count, expected).expect("it was read before");
    check(&again, count, length);
    for pair in vectors.iter().zip(&again) {
        match pair {
            (Some(before), Some(after)) => {
                let near = |(a, b): (&f32, &f32)| (a - b).abs() < 1e-5;
                assert!(before.iter().zip(after).all(near));
            }
            (before, after) => assert_eq!(before, after),
        }
    }
});

fn check(vectors: &[Embedding], count: usize, length: usize) {
    assert_eq!(vectors.len(), count);
    for vector in vectors.iter().flatten() {
        assert!(vector.len() == length && length <= MAX_DIMENSIONS);
        let square: f32 = vector.iter().map(|number| number * number).sum();
        assert!((square - 1.0).abs() < 1e-3, "{square}");
    }
}
