//! The guardian from outside: its rules, its answers over HTTP, its log.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod approvals;
mod cases;
mod hooks;
mod hostile;
mod limits;
mod log;
mod ordinary;
mod policy;
mod service;
mod shadow;
mod unknown;
mod users;
mod world;
