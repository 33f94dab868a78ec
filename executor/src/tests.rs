//! The executor as its callers see it: over HTTP, with a registry, a guardian and a service that
//! are real servers on loopback.

#![expect(clippy::needless_pass_by_value, reason = "`json!` at the call reads better without `&`")]

mod alarming;
mod answering;
mod approvals;
mod canary;
mod conform;
mod credentials;
pub(crate) mod database;
mod durable;
mod evaluating;
mod faults;
mod guarded;
mod handling;
mod identity;
mod in_memory;
mod inputs;
mod interfaces;
mod iterating;
mod listing;
mod mapping;
mod matrix;
mod mcp;
mod memory;
mod planning;
mod poison;
mod previewing;
mod recovering;
mod redirects;
mod remembering;
mod replaying;
mod reporting;
mod requests;
mod resolving;
mod resuming;
mod retrying;
mod secrecy;
mod security;
mod several;
mod sharing;
mod shuffled;
mod tenants;
mod tracing;
mod triggering;
mod trusting;
mod walking;
pub(crate) mod world;
mod yoga;
