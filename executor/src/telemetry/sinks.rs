//! All sinks for runs and decisions, from the configuration.

use std::time::Duration;

use a2s_api::{DecisionSource, EventKind, RunEvent};

use super::alarm::{AlarmReceiver, alarm_of};
use super::export_queue::{ExportQueue, close};
use super::otlp;
use super::otlp_exporter::SpanReceiver;
use super::pre_run_decisions::{DecisionSubject, StandaloneDecision};
#[cfg(feature = "ocsf")]
use super::security_events::SecurityEvents;
#[cfg(not(feature = "ocsf"))]
use super::security_events_left_out::SecurityEvents;
use super::spans::{ExportedTrace, standalone_trace, trace_of};
use crate::config::TelemetryConfig;
use crate::error::Error;
use crate::metrics::Metrics;

/// The configured sinks.
#[derive(Debug)]
pub(crate) struct TelemetrySinks {
    spans: Option<ExportQueue<SpanReceiver>>,
    security_events: SecurityEvents,
    alarms: Option<ExportQueue<AlarmReceiver>>,
}

impl TelemetrySinks {
    /// Opens the sinks of the configuration. The file is opened; nothing is sent to the others yet.
    ///
    /// # Errors
    /// When one of them cannot be used.
    pub(crate) fn open(config: &TelemetryConfig, metrics: &Metrics) -> Result<Self, Error> {
        let TelemetryConfig { spans: export, alarm, service, .. } = config;
        let spans = export.as_ref().map(|export| SpanReceiver::new(export, service)).transpose()?;
        let alarms = alarm.as_ref().map(AlarmReceiver::new).transpose()?;
        Ok(Self {
            alarms: alarms.map(|taker| ExportQueue::new(taker, metrics.alarm_counters())),
            spans: spans.map(|taker| ExportQueue::new(taker, metrics.span_counters())),
            security_events: SecurityEvents::open(config, metrics)?,
        })
    }

    /// Returns true when runs are recorded as traces.
    pub(crate) fn exports_spans(&self) -> bool {
        self.spans.is_some()
    }

    /// Returns true when there is any sink for runs.
    pub(crate) fn has_sinks(&self) -> bool {
        self.spans.is_some() || self.alarms.is_some() || self.security_events.is_configured()
    }

    /// Reports a run that is over or waits for a person. Data that was reported when it waited before is
    /// not reported again. Never waits.
    pub(crate) fn export_run(&self, events: &[RunEvent]) {
        let is_over =
            events.last().is_some_and(|event| matches!(event.kind, EventKind::RunFinished { .. }));
        if let Some(spans) = self.spans.as_ref().filter(|_| is_over) {
            let trace = trace_of(events).filter(ExportedTrace::is_sampled);
            trace.into_iter().for_each(|trace| spans.enqueue(otlp::ready_spans(trace)));
        }
        if let Some(alarms) = &self.alarms {
            alarms.enqueue(alarm_of(events).into_iter().collect());
        }
        self.security_events.export_run(events);
    }

    /// Reports a decision without a run. Never waits.
    pub(crate) fn export_decision(&self, decision: &StandaloneDecision<'_>) {
        if decision.decisions.iter().all(|said| said.source == DecisionSource::Unguarded) {
            return;
        }
        // A run's trace has the decisions before it.
        let is_alone =
            decision.is_rejected || matches!(decision.subject, DecisionSubject::Remembered);
        if let Some(spans) = self.spans.as_ref().filter(|_| is_alone) {
            let trace = Some(standalone_trace(decision)).filter(ExportedTrace::is_sampled);
            trace.into_iter().for_each(|trace| spans.enqueue(otlp::ready_spans(trace)));
        }
        self.security_events.export_decision(decision);
    }

    /// Delivers the waiting items for at most `time`, and accepts no further items.
    pub(crate) async fn close(&self, time: Duration) {
        tokio::join!(
            close(self.spans.as_ref(), time),
            self.security_events.close(time),
            close(self.alarms.as_ref(), time),
        );
    }
}
