//! The executor as its callers see it: over HTTP, with a registry, a guardian and a service that
//! are real servers on loopback.

#![expect(clippy::needless_pass_by_value, reason = "`json!` at the call reads better without `&`")]

mod alarms;
mod approvals;
mod catch;
mod conformance;
mod crash_loops;
mod credentials;
pub(crate) mod database;
mod dependencies;
mod durability;
mod early_responses;
mod engine;
mod evaluation;
mod faults;
mod for_each;
mod graphql_yoga;
mod guardian;
mod guardian_chain;
mod identity;
mod in_memory;
mod inputs;
mod interfaces;
mod list_runs;
mod matrix;
mod mcp;
mod memory;
mod multi_executor;
mod outcome_reports;
mod outputs;
mod plans;
mod preview;
mod recovery;
mod redirects;
mod replay;
mod request_times;
mod requests;
mod responses;
mod resume;
mod retries;
mod secret_leaks;
mod secrets;
mod security;
mod shown_requests;
mod shuffled;
mod state;
mod tenants;
mod tracing;
mod triggers;
mod trust;
pub(crate) mod world;
