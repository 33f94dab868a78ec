//! Reading a log back: every record of every segment, checked to follow the one before it.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::Path;

use data_encoding::HEXLOWER;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::segments::{LogFiles, file_name};

/// The maximum length of a line that is read, in bytes. It is well above the longest line that is written.
pub(super) const MAX_LINE: u64 = 4 << 20;
/// The most attempts to list the files. An attempt fails when a rotation happens during it.
const MAX_ATTEMPTS: usize = 8;

pub(super) fn digest_of(record: &[u8]) -> String {
    format!("sha256:{}", HEXLOWER.encode(&Sha256::digest(record)))
}

/// A record with the values that link it to its neighbours.
pub(super) struct ChainLink {
    pub(super) number: u64,
    pub(super) previous: Option<String>,
    pub(super) digest: String,
    pub(super) record: Value,
}

/// Reads one line and checks its digest.
pub(super) fn read_link(line: &[u8]) -> Result<ChainLink, String> {
    if line.contains(&0) {
        return Err("has zero bytes: the disk has lost a part of it".to_owned());
    }
    let record: Value = serde_json::from_slice(line).map_err(|_| "is not JSON".to_owned())?;
    let digest = record["digest"].as_str().ok_or("has no digest")?.to_owned();
    let seal = format!(",\"digest\":\"{digest}\"}}");
    let body = line.strip_suffix(seal.as_bytes()).ok_or("does not end with its digest")?;
    if digest_of(&[body, b"}"].concat()) != digest {
        return Err("has a wrong digest".to_owned());
    }
    let number = record["seq"].as_u64().ok_or("has no number")?;
    let previous = record["previous"].as_str().map(str::to_owned);
    Ok(ChainLink { number, previous, digest, record })
}

/// Returns the number of the segment that a record begins. Only the first record of a later segment has
/// one.
pub(super) fn segment_number(record: &Value) -> Option<u64> {
    if record["event"] == "segment" { record["segment"].as_u64() } else { None }
}

/// A log with an unbroken chain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifiedLog {
    /// The number of the last record. If no segment is missing, it is also the number of records that were
    /// read.
    pub records: u64,
    /// The digest of the last record, as `sha256:…`.
    pub head: Option<String>,
    /// The number of segments that were read.
    pub segments: u64,
    /// The digest of the record before the first that was read, where earlier segments are elsewhere.
    pub follows: Option<String>,
}

/// A log with a broken chain, or one that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LogCorruption {
    /// A file cannot be read.
    #[error("the audit log cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    /// The first invalid line.
    #[error("line {line} of {file} {reason}")]
    Line {
        /// The file of the segment.
        file: String,
        /// The line in it, counted from 1.
        line: u64,
        /// The problem with the line.
        reason: String,
    },
    /// A segment is missing, but later ones exist.
    #[error("{file}, segment {segment}, is missing")]
    Missing {
        /// The number of the segment.
        segment: u64,
        /// The name of its file.
        file: String,
    },
}

/// The point of a log at which reading begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogStart {
    /// At the first record of the log: every segment must exist.
    First,
    /// At the oldest segment that exists. It must follow the record with this digest, which is the head of
    /// an archived segment.
    After(String),
    /// At the oldest segment that exists.
    Oldest,
}

/// Verifies the whole chain of a log, with all of its segments. The log may be in use.
///
/// # Errors
/// When a record does not follow the one before it, a segment is missing, or a file cannot be read.
pub fn verify(path: &Path) -> Result<VerifiedLog, LogCorruption> {
    verify_from(path, &LogStart::First)
}

/// Verifies the chain of a log from `start`. The log may be in use.
///
/// # Errors
/// When a record does not follow the one before it, a segment is missing, or a file cannot be read.
pub fn verify_from(path: &Path, start: &LogStart) -> Result<VerifiedLog, LogCorruption> {
    let mut records = RecordReader::open(path, start)?;
    records.by_ref().try_for_each(|record| record.map(drop))?;
    Ok(records.verified)
}

/// Reads the records of a log in order, over all of its segments, and checks that each one follows the one
/// before it. After an error, the reader returns no further records.
#[derive(Debug)]
pub struct RecordReader {
    segments: LogFiles,
    /// The closed segments that are not opened yet.
    closed: VecDeque<u64>,
    active: Option<File>,
    current: Option<CurrentSegment>,
    /// The number of the segment that must come next.
    next: u64,
    line: Vec<u8>,
    verified: VerifiedLog,
    /// Set when the reader accepts any digest that the first record states for the record before it.
    accepts_any_start: bool,
    is_finished: bool,
}

/// The segment that is being read.
#[derive(Debug)]
struct CurrentSegment {
    name: String,
    is_closed: bool,
    lines: BufReader<File>,
    line: u64,
}

impl RecordReader {
    /// Opens the records of the log at `path` and of its closed segments in the same folder.
    ///
    /// # Errors
    /// A file cannot be read, or the segments that `start` requires are missing.
    pub fn open(path: &Path, start: &LogStart) -> Result<Self, LogCorruption> {
        let mut records = Self::start_after(LogFiles::new(path), 0, VerifiedLog::default())?;
        let first = records.first_segment()?;
        if 1 < first {
            match start {
                LogStart::First => return Err(records.missing(1)),
                LogStart::After(digest) => records.verified.head = Some(digest.clone()),
                LogStart::Oldest => records.accepts_any_start = true,
            }
            records.verified.follows.clone_from(&records.verified.head);
            records.next = first;
        }
        Ok(records)
    }

    /// Opens the records after a segment with a known last record.
    pub(super) fn after_segment(
        segments: LogFiles,
        segment: u64,
        records: u64,
        head: Option<String>,
    ) -> Result<Self, LogCorruption> {
        let verified = VerifiedLog { records, head, ..VerifiedLog::default() };
        Self::start_after(segments, segment, verified)
    }

    /// Returns the reader without the segment that is being written.
    pub(super) fn without_active(mut self) -> Self {
        self.active = None;
        self
    }

    /// Returns the records of the next segment alone, and reads no later ones.
    pub(super) fn read_next_segment(
        &mut self,
    ) -> impl Iterator<Item = Result<Value, LogCorruption>> + '_ {
        let first = self.next;
        self.closed.retain(|number| *number <= first);
        self.by_ref()
    }

    fn start_after(
        segments: LogFiles,
        behind: u64,
        verified: VerifiedLog,
    ) -> Result<Self, LogCorruption> {
        let (closed, active) = list_files(&segments)?;
        let closed = closed.into_iter().filter(|number| behind < *number).collect();
        Ok(Self {
            segments,
            closed,
            active,
            current: None,
            next: behind + 1,
            line: Vec::new(),
            verified,
            accepts_any_start: false,
            is_finished: false,
        })
    }

    /// Returns the number of the oldest segment that exists.
    fn first_segment(&self) -> Result<u64, LogCorruption> {
        if let Some(&first) = self.closed.front() {
            return Ok(first);
        }
        let Some(active) = &self.active else { return Ok(1) };
        let mut line = Vec::new();
        let mut file = active.try_clone()?;
        BufReader::new((&mut file).take(MAX_LINE)).read_until(b'\n', &mut line)?;
        io::Seek::rewind(&mut file)?;
        let record = serde_json::from_slice::<Value>(&line).unwrap_or_default();
        Ok(segment_number(&record).unwrap_or(1))
    }

    /// The facts about the part of the chain that was read so far.
    pub fn verified(&self) -> &VerifiedLog {
        &self.verified
    }

    fn missing(&self, segment: u64) -> LogCorruption {
        LogCorruption::Missing { segment, file: file_name(&self.segments.closed_path(segment)) }
    }

    /// Opens the next segment, if there is one.
    fn advance(&mut self) -> Result<bool, LogCorruption> {
        let is_closed = !self.closed.is_empty();
        let (path, file) = match self.closed.pop_front() {
            Some(number) if number != self.next => return Err(self.missing(self.next)),
            Some(number) => {
                let path = self.segments.closed_path(number);
                let file = File::open(&path)?;
                (path, file)
            }
            None => match self.active.take() {
                Some(file) => (self.segments.active_path().to_owned(), file),
                None => return Ok(false),
            },
        };
        let (name, lines) = (file_name(&path), BufReader::new(file));
        self.current = Some(CurrentSegment { name, is_closed, lines, line: 0 });
        Ok(true)
    }

    fn read(&mut self) -> Result<Option<Value>, LogCorruption> {
        loop {
            if self.current.is_none() && !self.advance()? {
                return Ok(None);
            }
            let Some(current) = &mut self.current else { return Ok(None) };
            self.line.clear();
            if (&mut current.lines).take(MAX_LINE).read_until(b'\n', &mut self.line)? == 0 {
                // The segment in use may be empty; a closed one never is.
                if current.line == 0 && current.is_closed {
                    let (file, reason) = (current.name.clone(), "is missing".to_owned());
                    return Err(LogCorruption::Line { file, line: 1, reason });
                }
                if 0 < current.line {
                    self.verified.segments += 1;
                }
                self.current = None;
                self.next += 1;
                continue;
            }
            current.line += 1;
            let (file, number) = (current.name.clone(), current.line);
            return self.check(&file, number).map(Some);
        }
    }

    /// Checks that the line follows the record before it, and returns its record.
    fn check(&mut self, file: &str, number: u64) -> Result<Value, LogCorruption> {
        let broken = |reason: &str| {
            let (file, reason) = (file.to_owned(), reason.to_owned());
            LogCorruption::Line { file, line: number, reason }
        };
        let line = self.line.strip_suffix(b"\n").ok_or_else(|| broken("is incomplete"))?;
        let link = read_link(line).map_err(|reason| broken(&reason))?;
        if number == 1 {
            let segment = segment_number(&link.record).unwrap_or(1);
            if self.next < segment {
                return Err(self.missing(self.next));
            }
            if segment != self.next {
                return Err(broken("starts a segment with the wrong number"));
            }
        }
        // The first record that is there says how many were before it.
        let is_first = self.verified.segments == 0 && number == 1 && 1 < self.next;
        if is_first && self.verified.records == 0 {
            self.verified.records = link.number.saturating_sub(1);
        }
        if self.accepts_any_start {
            self.accepts_any_start = false;
            self.verified.head.clone_from(&link.previous);
            self.verified.follows.clone_from(&link.previous);
        }
        if link.number != self.verified.records + 1 {
            return Err(broken("has the wrong number"));
        }
        if link.previous != self.verified.head {
            return Err(broken("does not follow the record before it"));
        }
        (self.verified.records, self.verified.head) = (link.number, Some(link.digest));
        Ok(link.record)
    }
}

/// Returns the closed segments and the current one, as they were at one time.
pub(super) fn list_files(segments: &LogFiles) -> Result<(Vec<u64>, Option<File>), LogCorruption> {
    let mut missing = None;
    for _ in 0..MAX_ATTEMPTS {
        let before = segments.closed_numbers()?;
        let active = match File::open(segments.active_path()) {
            Ok(file) => Some(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                missing = Some(error);
                None
            }
            Err(error) => return Err(error.into()),
        };
        if segments.closed_numbers()? != before {
            continue;
        }
        return match (active, before.is_empty(), missing) {
            // A crash between two segments leaves none in use.
            (None, true, Some(error)) => Err(error.into()),
            (active, ..) => Ok((before, active)),
        };
    }
    Err(io::Error::other("the audit log is rotated too fast to list its files").into())
}

impl Iterator for RecordReader {
    type Item = Result<Value, LogCorruption>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_finished {
            return None;
        }
        let record = self.read().transpose();
        self.is_finished = !matches!(record, Some(Ok(_)));
        record
    }
}
