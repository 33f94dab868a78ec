//! The state that the closed segments lead to, so that a start reads what came after it alone.
//!
//! A checkpoint is derived: it is the fold of a whole number of segments, and is made again from
//! them where it is missing or damaged. It is written to a file of its own and renamed, so that a
//! crash leaves the old one or the new one.

use std::io::{self, Write as _};
use std::path::Path;
use std::thread::{self, JoinHandle};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::records::{LogCorruption, RecordReader, digest_of};
use super::restore_state::apply_record;
use super::segments::{LogFiles, open_private, remove_if_present};
use crate::policy::{PolicyState, SavedPolicyState};

/// The state at the end of the closed segments, so that a start need not read them again.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Checkpoint {
    v: u32,
    /// The last segment that the checkpoint covers.
    pub(super) segment: u64,
    /// The number of its last record.
    pub(super) records: u64,
    /// The digest of its last record.
    pub(super) head: Option<String>,
    /// The time of its last record.
    time: Option<Timestamp>,
    memory: SavedPolicyState,
}

const VERSION: u32 = 1;

impl Checkpoint {
    /// Reads the checkpoint of a log. When it is missing or damaged, returns a checkpoint that covers no
    /// segment.
    pub(super) fn load(segments: &LogFiles) -> Self {
        let path = segments.checkpoint_path();
        match read(&path) {
            Ok(Some(checkpoint)) => checkpoint,
            Ok(None) => Self::default(),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "the checkpoint of the audit log cannot be used; the guardian reads the log from its beginning");
                Self::default()
            }
        }
    }

    /// Returns the records after the checkpoint.
    pub(super) fn records_after(&self, segments: &LogFiles) -> Result<RecordReader, LogCorruption> {
        RecordReader::after_segment(segments.clone(), self.segment, self.records, self.head.clone())
    }

    pub(super) fn into_state(self) -> PolicyState {
        PolicyState::from(self.memory)
    }

    /// Returns the checkpoint that also covers the next segment.
    fn with_next_segment(self, segments: &LogFiles) -> Result<Self, LogCorruption> {
        let mut records = self.records_after(segments)?.without_active();
        let Self { segment, mut time, memory, .. } = self;
        let mut memory = PolicyState::from(memory);
        for record in records.read_next_segment() {
            let record = record?;
            time = Timestamp::deserialize(&record["time"]).ok().or(time);
            apply_record(&record, &mut memory);
        }
        memory.remove_expired(time.unwrap_or(Timestamp::MIN));
        let verified = records.verified();
        Ok(Self {
            v: VERSION,
            segment: segment + 1,
            records: verified.records,
            head: verified.head.clone(),
            time,
            memory: SavedPolicyState::from(&memory),
        })
    }

    fn store(&self, segments: &LogFiles) -> io::Result<()> {
        let path = segments.checkpoint_path();
        let part = path.with_extension("checkpoint.part");
        let text = serde_json::to_vec(self)?;
        remove_if_present(&part)?;
        let mut file = open_private(&part)?;
        file.write_all(&text)?;
        writeln!(file, "\n{}", digest_of(&text))?;
        file.sync_all()?;
        std::fs::rename(&part, &path)?;
        segments.sync_folder()
    }
}

fn read(path: &Path) -> Result<Option<Checkpoint>, String> {
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let text = text.strip_suffix(b"\n").ok_or("it is incomplete")?;
    let line = text.iter().rposition(|&byte| byte == b'\n').ok_or("it has no digest")?;
    if text.get(line + 1..) != Some(digest_of(&text[..line]).as_bytes()) {
        return Err("its digest is wrong".to_owned());
    }
    let checkpoint: Checkpoint =
        serde_json::from_slice(&text[..line]).map_err(|error| error.to_string())?;
    if checkpoint.v != VERSION {
        return Err(format!("its version {} is unknown", checkpoint.v));
    }
    Ok(Some(checkpoint))
}

/// Extends the checkpoint to the last closed segment.
fn catch_up(segments: &LogFiles) -> Result<(), String> {
    let mut checkpoint = Checkpoint::load(segments);
    loop {
        let closed = segments.closed_numbers().map_err(|error| error.to_string())?;
        if !closed.iter().any(|number| checkpoint.segment < *number) {
            return Ok(());
        }
        checkpoint = checkpoint.with_next_segment(segments).map_err(|broken| broken.to_string())?;
        checkpoint.store(segments).map_err(|error| error.to_string())?;
    }
}

/// Writes checkpoints on a thread of its own.
#[derive(Debug, Default)]
pub(super) struct CheckpointWriter(Option<JoinHandle<()>>);

impl CheckpointWriter {
    /// Starts to extend the checkpoint to the last closed segment. If this is running already, the next
    /// rotation or the next start does the rest.
    pub(super) fn start(&mut self, segments: &LogFiles) {
        if self.0.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return;
        }
        self.finish();
        let segments = segments.clone();
        let thread = thread::Builder::new().name("audit-checkpoint".to_owned()).spawn(move || {
            if let Err(error) = catch_up(&segments) {
                tracing::warn!(
                    error,
                    "the checkpoint of the audit log could not be written; the next start reads more of the log"
                );
            }
        });
        self.0 = thread.ok();
    }

    /// Waits until the checkpoint is written.
    pub(super) fn finish(&mut self) {
        if let Some(thread) = self.0.take() {
            let _ = thread.join();
        }
    }
}
