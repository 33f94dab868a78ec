//! Alarms: a receiver learns at once of a run that waits for a person.

use a2s_api::{EventKind, RunEvent};
use serde_json::json;

use super::export_queue::ExportSink;
use super::http_sink::HttpReceiver;
use crate::config::OtlpExport;
use crate::error::Error;

/// The receiver of alarms.
#[derive(Debug)]
pub(crate) struct AlarmReceiver(HttpReceiver);

/// One alarm as it is sent.
pub(crate) type AlarmBody = Vec<u8>;

impl AlarmReceiver {
    /// Creates the receiver from the configuration. Nothing is sent yet.
    ///
    /// # Errors
    /// Fails when its address or a header cannot be used, or when a client cannot be created.
    pub(crate) fn new(export: &OtlpExport) -> Result<Self, Error> {
        HttpReceiver::new(export, "alarms", "application/json").map(Self)
    }
}

impl ExportSink for AlarmReceiver {
    type Item = AlarmBody;
    const ITEMS: &'static str = "alarms";
    const MAX_WAITING: usize = 1_024;
    // Each is a request of its own.
    const BATCH: usize = 1;

    async fn export(&self, batch: Vec<AlarmBody>) -> Result<usize, String> {
        for alarm in batch {
            self.0.send(alarm).await?;
        }
        Ok(0)
    }
}

/// Returns the alarm about a run with these events; `None` unless the run waits for a person. The alarm
/// contains names, codes and times, but no values.
pub(crate) fn alarm_of(events: &[RunEvent]) -> Option<AlarmBody> {
    let RunEvent { run, kind: EventKind::RunStarted(started), .. } = events.first()? else {
        return None;
    };
    let RunEvent { at, kind: EventKind::RunWaiting { error }, .. } = events.last()? else {
        return None;
    };
    let alarm = json!({
        "type": "run_waiting",
        "run": run,
        "capability": started.capability.name,
        "version": started.capability.version,
        "code": error.code,
        "step": error.step,
        "at": at,
    });
    Some(alarm.to_string().into_bytes())
}
