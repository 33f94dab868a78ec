//! Any bytes as what another agent asks, with any header.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| a2a::fuzz::check_request(bytes));
