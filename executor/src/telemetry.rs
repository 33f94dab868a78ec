//! Telemetry of runs, for tracing and for security systems: W3C Trace Context, OpenTelemetry, and OCSF.
//!
//! Traces and security events are not separate records of a run. Both are computed from the events in the
//! journal, once the run is over or waits: one pure fold, [`spans`], makes spans of them, and another one,
//! [`ocsf`], security events. Their ids follow from the ids of the run, the step and the attempt. So a run
//! that was resumed after a crash continues its trace, a header that a service received years ago still
//! leads to its span, and only data in events can be exported; their values are left out. Decisions without
//! a run ([`pre_run_decisions`]) are exported at once.
//!
//! Telemetry cannot change a run: [`export_queue`] gets the data when everything is recorded, never waits,
//! and drops items that no receiver accepts.

mod alarm;
mod context;
mod export_queue;
mod http_sink;
#[cfg(feature = "ocsf")]
mod ocsf;
mod otlp;
mod otlp_exporter;
mod pre_run_decisions;
#[cfg(feature = "ocsf")]
mod security_events;
#[cfg(not(feature = "ocsf"))]
mod security_events_left_out;
mod sinks;
mod span;
mod spans;
mod step_tracker;

pub(crate) use context::{RunTrace, SpanId, read_headers};
pub(crate) use pre_run_decisions::{DecisionSubject, StandaloneDecision};
pub(crate) use sinks::TelemetrySinks;
#[cfg(test)]
pub(crate) use spans::trace_of;
