//! The integration tests: one binary, real servers on loopback, the real command.

#![expect(clippy::unwrap_used, reason = "a test that cannot set up its world has to fail")]

mod harness;

mod architecture;
mod cli;
mod whole_loop;
