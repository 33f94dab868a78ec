//! What runs look like to systems that trace: W3C Trace Context and OpenTelemetry.
//!
//! A trace is no second account of a run. It is told from the events that the journal has, when the
//! run is over: one pure fold, [`spans`], makes spans of events, and their ids follow from the ids of
//! the run, the step and the attempt. So a run that was resumed after a crash continues its trace, a
//! header that a service got years ago still leads to its span, and nothing that an event does not
//! tell can be in a span; of what an event does tell, values are left out.
//!
//! Nothing here can change a run: [`export`] is handed spans when all is recorded, never waits for
//! anybody, and drops what nobody takes.

mod context;
mod export;
mod otlp;
mod span;
mod spans;

pub(crate) use context::{RunTrace, SpanId, is_trace_header, read_headers};
pub(crate) use export::Exporter;
pub(crate) use spans::{Trace, trace_of};
