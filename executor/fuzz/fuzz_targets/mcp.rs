//! Any bytes as what an MCP server answers: a value or a short error, never a panic; the same in
//! whatever pieces a stream of events comes in.
//!
//! The first line says how it comes: the status, the size of the pieces when it is a stream of
//! events (0 else), and the id of a session. The rest is the body.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| executor::fuzz::mcp::check(bytes));
