//! Any bytes as what another agent says: its card, an answer, an event of a stream.

#![no_main]

use agent::fuzz::a2a::{check_answer, check_card};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(value) = serde_json::from_slice(bytes) else { return };
    check_card(&value);
    check_answer(&value);
});
