//! Any bytes as what another agent says: its card, an answer, an event of a stream.

#![no_main]

use libfuzzer_sys::fuzz_target;

mod a2a;

fuzz_target!(|bytes: &[u8]| {
    let Ok(value) = serde_json::from_slice(bytes) else { return };
    a2a::check_card(&value);
    a2a::check_answer(&value);
});

/// As much of the crate as the files under test name.
mod agent {
    pub const MAX_MESSAGE: usize = 8 << 10;
    pub const MAX_SESSION: usize = 200;
}
