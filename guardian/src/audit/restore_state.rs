//! Restores the state of rules from the log.

use std::path::Path;

use jiff::Timestamp;
use serde::Deserialize as _;
use serde_json::Value;

use super::audit_record::subject_of;
use super::checkpoint::Checkpoint;
use super::records::LogCorruption;
use super::segments::Segments;
use crate::policy::{Approval, Charge, Memory};

/// Read what a log says since its checkpoint. It is checked on the way.
pub(crate) fn replay(path: &Path, now: Timestamp) -> Result<Memory, LogCorruption> {
    let segments = Segments::of(path);
    let checkpoint = Checkpoint::load(&segments);
    let records = checkpoint.records_behind(&segments)?;
    let mut memory = checkpoint.into_memory();
    for record in records {
        apply(&record?, &mut memory);
    }
    memory.forget(now);
    Ok(memory)
}

/// What is not there or has another form is of a time before it was recorded, and says nothing.
pub(super) fn apply(record: &Value, memory: &mut Memory) {
    let approval = &record["approval"];
    match record["event"].as_str() {
        Some("decision") => {
            if let (Some(charges), Ok(time)) =
                (record["charges"].as_array(), Timestamp::deserialize(&record["time"]))
            {
                let charges = charges.iter().filter_map(|charge| Charge::deserialize(charge).ok());
                charges.for_each(|charge| memory.replay_charge(charge, time));
            }
            match (approval["is"].as_str(), approval["id"].as_str()) {
                (Some("asked"), _) => {
                    if let Ok(asked) = Approval::deserialize(approval) {
                        let subject = record.as_object().map(subject_of).unwrap_or_default();
                        memory.replay_asked(Approval { subject, ..asked });
                    }
                }
                (Some("used"), Some(id)) => memory.replay_use(id, approval["execution"].as_str()),
                _ => {}
            }
        }
        Some("approval") => {
            if let Ok(decided) = Approval::deserialize(approval)
                && let Some(known) = memory.approval(&decided.id)
            {
                memory.set(Approval { subject: known.subject.clone(), ..decided });
            }
        }
        _ => {}
    }
}
