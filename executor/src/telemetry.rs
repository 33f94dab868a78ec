//! Telemetry of runs, for tracing and for security systems: W3C Trace Context,
//! OpenTelemetry, and OCSF.
//!
//! Neither a trace nor a security event is a second account of a run. Both are told from the events
//! that the journal has, when the run has come to rest: one pure fold, [`spans`], makes spans of
//! them, another one, [`ocsf`], security events, and their ids follow from the ids of the run, the
//! step and the attempt. So a run that was resumed after a crash continues its trace, a header that a
//! service got years ago still leads to its span, and nothing that an event does not tell can be
//! told; of what an event does tell, values are left out. What is decided without a run ([`pre_run_decisions`])
//! is told at once.
//!
//! Nothing here can change a run: [`export_queue`] is handed what is to be told when all is recorded, never
//! waits for anybody, and drops what nobody takes.

mod alarm;
mod context;
mod export_queue;
mod http_sink;
mod ocsf;
mod otlp;
mod otlp_exporter;
mod pre_run_decisions;
mod sinks;
mod span;
mod spans;
mod step_tracker;

pub(crate) use context::{RunTrace, SpanId, read_headers};
pub(crate) use pre_run_decisions::{Aside, Matter};
pub(crate) use sinks::Listeners;
#[cfg(test)]
pub(crate) use spans::trace_of;
