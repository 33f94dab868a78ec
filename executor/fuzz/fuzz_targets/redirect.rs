//! Any statuses and locations as a chain of redirects: every hop stays on the host, never goes from
//! https to http, and no address grows beyond its bound.
//!
//! The first line has status and method; each further line is one `Location`.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| executor::fuzz::redirect::check(data));
