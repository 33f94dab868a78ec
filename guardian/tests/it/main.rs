//! The guardian from outside: its rules, its answers over HTTP, its log.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod hostile;
mod policy;
mod service;
mod world;
