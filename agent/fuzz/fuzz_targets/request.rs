//! Any bytes as what another agent asks, with any header.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| agent::fuzz::a2a::check_request(bytes));
