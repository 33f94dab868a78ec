//! All sinks for runs and decisions, from the configuration.

use std::time::Duration;

use a2s::api::{DecisionSource, Event, EventKind};

use super::alarm::{AlarmReceiver, alarm_of};
use super::export_queue::Queue;
use super::ocsf::{self, EventFile, EventReceiver, Product};
use super::otlp;
use super::otlp_exporter::Collector;
use super::pre_run_decisions::{Aside, Matter};
use super::spans::{Trace, trace_aside, trace_of};
use crate::config::Telemetry;
use crate::error::Error;
use crate::metrics::Metrics;

/// The configured sinks.
#[derive(Debug)]
pub(crate) struct Listeners {
    spans: Option<Queue<Collector>>,
    file: Option<Queue<EventFile>>,
    endpoint: Option<Queue<EventReceiver>>,
    alarms: Option<Queue<AlarmReceiver>>,
    product: Product,
}

impl Listeners {
    /// Opens the sinks of the configuration. The file is opened; nothing is sent to the others yet.
    ///
    /// # Errors
    /// When one of them cannot be used.
    pub(crate) fn open(config: &Telemetry, metrics: &Metrics) -> Result<Self, Error> {
        let Telemetry { export, ocsf_file, ocsf_endpoint, alarm, service, propagate: _ } = config;
        let spans = export.as_ref().map(|export| Collector::new(export, service)).transpose()?;
        let file = ocsf_file.as_ref().map(EventFile::open).transpose()?;
        let endpoint = ocsf_endpoint.as_ref().map(EventReceiver::new).transpose()?;
        let alarms = alarm.as_ref().map(AlarmReceiver::new).transpose()?;
        Ok(Self {
            alarms: alarms.map(|taker| Queue::to(taker, metrics.alarms())),
            spans: spans.map(|taker| Queue::to(taker, metrics.spans())),
            file: file.map(|taker| Queue::to(taker, metrics.security_events("file"))),
            endpoint: endpoint.map(|taker| Queue::to(taker, metrics.security_events("http"))),
            product: Product { service: service.clone() },
        })
    }

    /// Returns true when runs are recorded as traces.
    pub(crate) fn take_spans(&self) -> bool {
        self.spans.is_some()
    }

    /// Returns true when there is any sink for runs.
    pub(crate) fn is_anybody_there(&self) -> bool {
        self.spans.is_some() || self.alarms.is_some() || self.take_security_events()
    }

    fn take_security_events(&self) -> bool {
        self.file.is_some() || self.endpoint.is_some()
    }

    /// Reports a run that is over or waits for a person. Data that was reported when it waited before is
    /// not reported again. Never waits.
    pub(crate) fn tell_run(&self, events: &[Event]) {
        let is_over =
            events.last().is_some_and(|event| matches!(event.kind, EventKind::RunFinished { .. }));
        if let Some(spans) = self.spans.as_ref().filter(|_| is_over) {
            let trace = trace_of(events).filter(Trace::is_sampled);
            trace.into_iter().for_each(|trace| spans.offer(otlp::ready(trace)));
        }
        if let Some(alarms) = &self.alarms {
            alarms.offer(alarm_of(events).into_iter().collect());
        }
        if self.take_security_events() {
            self.offer(&ocsf::events_of_run(events, &self.product));
        }
    }

    /// Reports a decision without a run. Never waits.
    pub(crate) fn tell_aside(&self, aside: &Aside<'_>) {
        if aside.decisions.iter().all(|said| said.source == DecisionSource::Unguarded) {
            return;
        }
        // What a run comes of, the run's trace tells.
        let is_alone = aside.is_refused || matches!(aside.matter, Matter::Remembered);
        if let Some(spans) = self.spans.as_ref().filter(|_| is_alone) {
            let trace = Some(trace_aside(aside)).filter(Trace::is_sampled);
            trace.into_iter().for_each(|trace| spans.offer(otlp::ready(trace)));
        }
        if self.take_security_events() {
            self.offer(&ocsf::events_aside(aside, &self.product));
        }
    }

    fn offer(&self, events: &[ocsf::Event]) {
        let lines: Vec<_> = events.iter().filter_map(ocsf::line).collect();
        if let Some(file) = &self.file {
            file.offer(lines.clone());
        }
        if let Some(endpoint) = &self.endpoint {
            endpoint.offer(lines);
        }
    }

    /// Hands over what waits, for so long at the most, and takes nothing more.
    pub(crate) async fn close(&self, time: Duration) {
        let spans = async {
            if let Some(queue) = &self.spans {
                queue.close(time).await;
            }
        };
        let file = async {
            if let Some(queue) = &self.file {
                queue.close(time).await;
            }
        };
        let endpoint = async {
            if let Some(queue) = &self.endpoint {
                queue.close(time).await;
            }
        };
        let alarms = async {
            if let Some(queue) = &self.alarms {
                queue.close(time).await;
            }
        };
        tokio::join!(spans, file, endpoint, alarms);
    }
}
