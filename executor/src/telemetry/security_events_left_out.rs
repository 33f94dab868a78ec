//! Security events in a build without them: a destination is refused.
#![expect(clippy::unused_self, reason = "the same methods as in a build with them")]

use std::time::Duration;

use a2s_api::RunEvent;

use super::pre_run_decisions::StandaloneDecision;
use crate::config::TelemetryConfig;
use crate::error::{Error, ErrorKind};
use crate::metrics::Metrics;

/// No destinations of security events.
#[derive(Debug)]
pub(super) struct SecurityEvents;

impl SecurityEvents {
    /// Checks that the configuration has no destination.
    ///
    /// # Errors
    /// When it has one.
    pub(super) fn open(config: &TelemetryConfig, _metrics: &Metrics) -> Result<Self, Error> {
        if config.ocsf_file.is_none() && config.ocsf_endpoint.is_none() {
            return Ok(Self);
        }
        let message =
            "this build does not contain security events; build it with the feature `ocsf`";
        Err(Error::new(ErrorKind::Configuration, message))
    }

    /// Returns false: there is no destination.
    pub(super) fn is_configured(&self) -> bool {
        false
    }

    /// Has nothing to report to.
    pub(super) fn export_run(&self, _events: &[RunEvent]) {}

    /// Has nothing to report to.
    pub(super) fn export_decision(&self, _decision: &StandaloneDecision<'_>) {}

    /// Has nothing to close.
    pub(super) async fn close(&self, _time: Duration) {}
}
