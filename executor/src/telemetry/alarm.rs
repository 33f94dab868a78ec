//! Alarms: a receiver learns at once of a run that waits for a person.

use a2s::api::{Event, EventKind};
use serde_json::json;

use super::export_queue::Taker;
use super::http_sink::Receiver;
use crate::config::OtlpExport;
use crate::error::Error;

/// The receiver of alarms.
#[derive(Debug)]
pub(crate) struct AlarmReceiver(Receiver);

/// One alarm, as it is sent.
pub(crate) type Alarm = Vec<u8>;

impl AlarmReceiver {
    /// The receiver of the configuration. Nothing is sent yet.
    ///
    /// # Errors
    /// When its address or a header cannot be used, or no client can be made.
    pub(crate) fn new(export: &OtlpExport) -> Result<Self, Error> {
        Receiver::new(export, "alarms", "application/json").map(Self)
    }
}

impl Taker for AlarmReceiver {
    type Item = Alarm;
    const ITEMS: &'static str = "alarms";
    const MAX_WAITING: usize = 1_024;
    // Each is a request of its own.
    const BATCH: usize = 1;

    async fn take(&self, batch: Vec<Alarm>) -> Result<usize, String> {
        for alarm in batch {
            self.0.send(alarm).await?;
        }
        Ok(0)
    }
}

/// The alarm about a run with these events; none unless it waits for a person. It has names, codes and
/// times, and no values.
pub(crate) fn alarm_of(events: &[Event]) -> Option<Alarm> {
    let Event { run, kind: EventKind::RunStarted(started), .. } = events.first()? else {
        return None;
    };
    let Event { at, kind: EventKind::RunWaiting { error }, .. } = events.last()? else {
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
