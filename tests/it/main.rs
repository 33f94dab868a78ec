//! The integration tests: one binary, real servers on loopback, the real command.

#![expect(clippy::unwrap_used, reason = "a test that cannot set up its world has to fail")]

mod gauges;
mod harness;
mod http;
mod servers;
mod standin_of_task;

mod a2a;
mod access;
mod agent;
mod apart;
mod architecture;
mod authoring;
mod away;
mod backup;
mod capabilities;
mod cli;
mod connections;
mod contract;
mod crash;
mod deploy;
mod disk;
mod doctor;
mod documents;
mod embedders;
mod examples;
mod executors;
mod generated;
mod guardian;
mod language;
mod life;
mod limits;
mod live;
mod mcp;
mod metrics;
mod pages;
mod postgres;
mod qdrant;
mod schema;
mod schemathesis;
mod secrets;
mod shipping;
mod state;
mod telemetry;
mod whole_loop;
