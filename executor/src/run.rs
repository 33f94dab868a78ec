//! Runs: starting, driving, resuming, ending and reporting them.
//!
//! A run is its journal. This module decides which executor writes to which journal and when;
//! [`crate::engine`] decides on the events in between.
//!
//! [`RunService`] has one method for each operation of the HTTP interface. [`start`] takes a request through
//! typed stages: requested, resolved, prepared, admitted, recorded, running. [`scheduler`] owns the runs that
//! are driven here: slots, leases, takeovers and threads. [`resolver`] finds documents and inputs. All of them
//! share a [`context`]: configuration, store and clients.

mod approvals;
mod context;
pub(crate) mod dry_run;
mod event_stream;
pub(crate) mod ownership;
mod plan;
mod pre_run_guard;
mod preview;
mod replay;
mod report;
mod resolver;
mod restored_run;
mod resume;
mod run_task;
mod scheduler;
mod service;
mod shown_plan;
mod start;
mod usage;

use std::time::Duration;

use a2s_api::{EventKind, RunStatus};
use uuid::Uuid;

#[cfg(test)]
use crate::config::Config;
use crate::engine::CancelReason;
use crate::error::{Error, ErrorKind};
pub(crate) use crate::journal::store::{RunFilter, RunStore};
pub(crate) use service::RunService;
pub(crate) use start::StartRequest;

/// The interval at which a run on another executor is checked.
const POLL: Duration = Duration::from_secs(1);
/// The number of events that are read at a time.
const PAGE: usize = 256;

/// The last event of a cancelled run.
fn cancelled(repeat_safe: bool, duration_ms: u64) -> EventKind {
    let error = Error::new(ErrorKind::Cancelled, CancelReason::Cancelled.message());
    EventKind::RunFinished {
        status: RunStatus::Cancelled,
        output: None,
        error: Some(error.to_run_error(None, None, repeat_safe)),
        duration_ms,
    }
}

/// Makes the database of a configuration, and brings its schema up to date.
#[cfg(test)]
pub(crate) async fn create_database(config: &Config) -> Result<(), Error> {
    RunStore::open(&config.database, config.durability).await.map(drop)
}

/// The error of a change to a run that is over.
fn ended(run: Uuid, status: RunStatus) -> Error {
    let message = format!("run {run} has already ended: {}", status.as_str());
    Error::new(ErrorKind::RunEnded, message)
}

/// The error of a run that does not exist, or that the caller may not see.
fn not_found(run: Uuid) -> Error {
    Error::new(ErrorKind::RunNotFound, format!("unknown run {run}"))
}
