//! The destinations of security events: a file and an endpoint.

use std::time::Duration;

use a2s_api::RunEvent;

use super::export_queue::{ExportQueue, close};
use super::ocsf::{self, EventFile, EventReceiver, OcsfProduct};
use super::pre_run_decisions::StandaloneDecision;
use crate::config::TelemetryConfig;
use crate::error::Error;
use crate::metrics::Metrics;

/// The configured destinations of security events.
#[derive(Debug)]
pub(super) struct SecurityEvents {
    file: Option<ExportQueue<EventFile>>,
    endpoint: Option<ExportQueue<EventReceiver>>,
    product: OcsfProduct,
}

impl SecurityEvents {
    /// Opens the destinations of the configuration.
    ///
    /// # Errors
    /// When one of them cannot be used.
    pub(super) fn open(config: &TelemetryConfig, metrics: &Metrics) -> Result<Self, Error> {
        let file = config.ocsf_file.as_ref().map(EventFile::open_for_append).transpose()?;
        let endpoint = config.ocsf_endpoint.as_ref().map(EventReceiver::new).transpose()?;
        Ok(Self {
            file: file
                .map(|taker| ExportQueue::new(taker, metrics.security_event_counters("file"))),
            endpoint: endpoint
                .map(|taker| ExportQueue::new(taker, metrics.security_event_counters("http"))),
            product: OcsfProduct { service: config.service.clone() },
        })
    }

    /// Returns true when there is any destination.
    pub(super) fn is_configured(&self) -> bool {
        self.file.is_some() || self.endpoint.is_some()
    }

    /// Reports the events of a run.
    pub(super) fn export_run(&self, events: &[RunEvent]) {
        if self.is_configured() {
            self.enqueue(&ocsf::events_of_run(events, &self.product));
        }
    }

    /// Reports a decision without a run.
    pub(super) fn export_decision(&self, decision: &StandaloneDecision<'_>) {
        if self.is_configured() {
            self.enqueue(&ocsf::standalone_events(decision, &self.product));
        }
    }

    fn enqueue(&self, events: &[ocsf::OcsfEvent]) {
        let lines: Vec<_> = events.iter().filter_map(ocsf::line).collect();
        if let Some(file) = &self.file {
            file.enqueue(lines.clone());
        }
        if let Some(endpoint) = &self.endpoint {
            endpoint.enqueue(lines);
        }
    }

    /// Delivers the waiting events for at most `time`, and accepts no further ones.
    pub(super) async fn close(&self, time: Duration) {
        tokio::join!(close(self.file.as_ref(), time), close(self.endpoint.as_ref(), time));
    }
}
