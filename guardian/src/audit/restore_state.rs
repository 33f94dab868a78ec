//! Restores the state of rules from the log.

use std::path::Path;

use jiff::Timestamp;
use serde::Deserialize as _;
use serde_json::Value;

use super::audit_record::subject_from_details;
use super::checkpoint::Checkpoint;
use super::records::LogCorruption;
use super::segments::LogFiles;
use crate::policy::{Approval, PolicyState, QuotaCharge};

/// Reads the records since the checkpoint into the state of the rules. It verifies them as it reads.
pub(crate) fn restore_state(path: &Path, now: Timestamp) -> Result<PolicyState, LogCorruption> {
    let segments = LogFiles::new(path);
    let checkpoint = Checkpoint::load(&segments);
    let records = checkpoint.records_after(&segments)?;
    let mut memory = checkpoint.into_state();
    for record in records {
        apply_record(&record?, &mut memory);
    }
    memory.remove_expired(now);
    Ok(memory)
}

/// Applies a record to the state. A member that is missing or has another form comes from an older version
/// that did not record it, and is ignored.
pub(super) fn apply_record(record: &Value, memory: &mut PolicyState) {
    let approval = &record["approval"];
    match record["event"].as_str() {
        Some("decision") => {
            if let (Some(charges), Ok(time)) =
                (record["charges"].as_array(), Timestamp::deserialize(&record["time"]))
            {
                let charges =
                    charges.iter().filter_map(|charge| QuotaCharge::deserialize(charge).ok());
                charges.for_each(|charge| memory.replay_charge(charge, time));
            }
            match (approval["is"].as_str(), approval["id"].as_str()) {
                (Some("asked"), _) => {
                    if let Ok(asked) = Approval::deserialize(approval) {
                        let subject =
                            record.as_object().map(subject_from_details).unwrap_or_default();
                        memory.replay_request(Approval { subject, ..asked });
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
                memory.set_approval(Approval { subject: known.subject.clone(), ..decided });
            }
        }
        _ => {}
    }
}
