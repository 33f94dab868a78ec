//! Any bytes as what another agent asks, with any header.

#![no_main]

use libfuzzer_sys::fuzz_target;

mod a2a;

fuzz_target!(|bytes: &[u8]| a2a::check_request(bytes));

/// As much of the crate as the files under test name.
mod agent {
    pub const MAX_MESSAGE: usize = 8 << 10;
    pub const MAX_SESSION: usize = 200;
}
