//! The integration tests: one binary, real servers on loopback, the real command.

#![expect(clippy::unwrap_used, reason = "a test that cannot set up its world has to fail")]

mod harness;
mod http;
mod metric_samples;
mod mock_from_spec;
mod test_servers;

mod a2a;
mod access;
mod agent;
mod architecture;
mod authoring;
mod backend_outages;
mod backup;
mod capabilities;
mod cli;
mod connect;
mod console;
mod contract;
mod crash;
mod deploy;
mod disk;
mod doctor;
mod documents;
mod embedders;
mod end_to_end;
mod examples;
mod executors;
mod generated;
mod guardian;
mod http_connections;
mod language_docs;
mod lifecycle;
mod limits;
mod live_output;
mod mcp;
mod metrics;
mod old_data;
mod pages;
mod postgres;
mod qdrant;
mod schema;
mod schemathesis;
mod sdk_contract;
mod secrets;
mod separate_services;
mod shipping;
mod state;
mod telemetry;
mod types;
