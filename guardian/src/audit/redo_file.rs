//! The redo file: a second copy of the records that may not be on the disk in the log itself.
//!
//! To flush a file that has grown, the system also writes its length and its blocks, and waits for the journal
//! of the file system. The redo file is written over and over within a fixed length, so its flush writes data
//! alone. The log has no filling, because other programs read and follow it.
//!
//! The records are written in passes. A pass begins when the log is on the disk, with a line that has the
//! length of the log at that time, and ends when the file is full. After a crash, the start writes the records of
//! the last pass to the log again. The chain shows where the pass ends, and that it belongs to the log. A log
//! that is closed has no redo file.
//!
//! A system that could not flush a file may give up the bytes, and report success the next time. After a failed
//! flush of the log, its bytes since the beginning of the pass are therefore written again before the next one.
//! After a failed flush of the redo file, a new pass begins.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use super::hash_chain::{FileTail, find_end_of_closed};
use super::log_file::LogFile;
use super::records::{MAX_LINE, read_link};
use super::segments::{LogFiles, file_name, remove_if_present};
use crate::error::Error;

/// The length of the file, in bytes.
const CAPACITY: u64 = if cfg!(test) { 4 << 10 } else { 256 << 10 };
/// The longest part of a log after the beginning of a pass.
const MAX_REST: u64 = 2 * MAX_LINE;

/// A redo file that is open for writing.
#[derive(Debug)]
pub(super) struct RedoFile {
    file: LogFile,
    pass: Pass,
    /// Set when the pass cannot be continued.
    is_pass_over: bool,
    /// Set when a flush of the log failed: its part that the pass has must be written again.
    is_log_unflushed: bool,
}

/// The records of the redo file that may not be on the disk in the log.
#[derive(Clone, Copy, Debug, Default)]
struct Pass {
    /// The length of the log at the beginning of the pass.
    log_length: u64,
    /// The beginning of the records in the redo file.
    start: u64,
    /// Their end.
    end: u64,
}

impl RedoFile {
    /// Opens or creates the redo file of a log that is on the disk, and begins a pass.
    pub(super) fn open(files: &LogFiles, log_length: u64) -> io::Result<Self> {
        let file = LogFile::open(&files.redo_path())?;
        let length = file.length()?;
        if length < CAPACITY {
            file.write_at(length, &vec![0; (CAPACITY - length) as usize])?;
        }
        let pass = Pass::default();
        let mut redo = Self { file, pass, is_pass_over: true, is_log_unflushed: false };
        redo.begin_pass(log_length)?;
        redo.file.flush()?;
        files.sync_folder()?;
        Ok(redo)
    }

    /// Prepares to write `lines` to a log that is `length` bytes long: begins a pass if this one has no room.
    pub(super) fn make_room(&mut self, lines: &[u8], log: &LogFile, length: u64) -> io::Result<()> {
        let is_full =
            CAPACITY < self.pass.end + lines.len() as u64 && self.pass.start < self.pass.end;
        if is_full || self.is_pass_over || self.is_log_unflushed {
            self.flush_log(log)?;
            self.begin_pass(length)?;
        }
        Ok(())
    }

    /// Makes lines durable that were appended to the log, after `count` records.
    pub(super) fn write(&mut self, lines: &[u8], log: &LogFile, count: u64) -> io::Result<()> {
        self.is_pass_over = true;
        let end = self.pass.end + lines.len() as u64;
        // The first record of a log has no link to one before it: it would fit every other log.
        if CAPACITY < end || count == 0 {
            return self.flush_log(log);
        }
        self.file.write_at(self.pass.end, lines)?;
        self.file.flush()?;
        self.pass.end = end;
        self.is_pass_over = false;
        Ok(())
    }

    /// Makes the log durable, and writes the records of the pass to it again if an earlier flush failed.
    pub(super) fn flush_log(&mut self, log: &LogFile) -> io::Result<()> {
        if self.is_log_unflushed {
            let Pass { log_length, start, end } = self.pass;
            log.write_at(log_length, &self.file.read_at(start, end - start)?)?;
        }
        self.is_log_unflushed = true;
        log.flush()?;
        self.is_log_unflushed = false;
        Ok(())
    }

    /// Begins a pass for an empty segment. The segment before it is on the disk.
    pub(super) fn begin_segment(&mut self) -> io::Result<()> {
        self.begin_pass(0)?;
        // The redo file must belong to the segment before its first record can be lost.
        self.is_pass_over = true;
        self.file.flush()?;
        self.is_pass_over = false;
        Ok(())
    }

    /// Begins a pass. The next write flushes its first line.
    fn begin_pass(&mut self, log_length: u64) -> io::Result<()> {
        self.is_pass_over = true;
        let header = format!("{log_length}\n");
        let start = header.len() as u64;
        self.pass = Pass { log_length, start, end: start };
        // A record of the last pass must not follow it.
        self.file.write_at(0, format!("{header}\0").as_bytes())?;
        self.is_pass_over = false;
        Ok(())
    }
}

/// Deletes the redo file of a log that is on the disk.
pub(super) fn remove(files: &LogFiles) -> io::Result<()> {
    remove_if_present(&files.redo_path())
}

/// Writes the records of the last pass, and those that follow them in the log, to the log again, and flushes
/// it. Returns the length of the log up to its last whole record: what follows was not acknowledged. `None` when
/// there is no redo file, or it belongs to another log.
pub(super) fn restore_lost_records(files: &LogFiles, log: &LogFile) -> Result<Option<u64>, Error> {
    let path = files.active_path();
    let unavailable = |source| Error::AuditUnavailable { path: path.to_owned(), source };
    let Some((offset, pass)) = read_pass(&files.redo_path()).map_err(unavailable)? else {
        return Ok(None);
    };
    let before = record_before(files, log, offset)?;
    let lines = before.as_ref().map_or(&[][..], |before| &pass[..chained_length(&pass, before)]);
    if lines.is_empty() {
        check_first_record(files, log, &pass)?;
    }
    let Some(before) = before else { return Ok(None) };
    let mut rest = log.read_at(offset, MAX_REST + 1).map_err(unavailable)?;
    let is_complete = rest.starts_with(lines);
    if MAX_REST < rest.len() as u64 && lines.len() <= chained_length(&rest, &before) {
        // More than one batch: a program without redo files has continued the log.
        return Ok(None);
    }
    if !is_complete {
        rest.resize(rest.len().max(lines.len()), 0);
        rest[..lines.len()].copy_from_slice(lines);
    }
    let whole = chained_length(&rest, &before);
    // Also what the log has already: the flush of an earlier process may have failed.
    log.write_at(offset, &rest[..whole]).map_err(unavailable)?;
    log.flush().map_err(unavailable)?;
    if !is_complete {
        tracing::warn!(path = %path.display(), "a crash lost records of the audit log; the guardian restored them");
    }
    Ok(Some(offset + whole as u64))
}

/// Checks that a log has the first record of a pass that does not continue it. That is so for a pass of an
/// earlier segment.
fn check_first_record(files: &LogFiles, log: &LogFile, pass: &[u8]) -> Result<(), Error> {
    let path = files.active_path();
    let line = pass.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let Ok(first) = read_link(line) else { return Ok(()) };
    let closed = find_end_of_closed(files)?.number;
    let last = FileTail::read(log.file(), path)?.last(path)?.map_or(closed, |(number, _)| number);
    if last < first.number {
        let (path, redo) = (path.to_owned(), file_name(&files.redo_path()));
        return Err(Error::AuditIncomplete { path, redo, last, first: first.number });
    }
    if closed < first.number {
        tracing::warn!(path = %path.display(), "the redo file belongs to another audit log; the guardian does not use it");
    }
    Ok(())
}

/// Reads the last pass of a redo file: the length of the log at its beginning, and what follows.
fn read_pass(path: &Path) -> io::Result<Option<(u64, Vec<u8>)>> {
    let mut bytes = Vec::new();
    match File::open(path) {
        Ok(file) => file.take(CAPACITY).read_to_end(&mut bytes)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let Some(end) = bytes.iter().position(|&byte| byte == b'\n') else { return Ok(None) };
    let offset = std::str::from_utf8(&bytes[..end]).ok().and_then(|text| text.parse().ok());
    Ok(offset.map(|offset| (offset, bytes.split_off(end + 1))))
}

/// The number and digest of a record. There is no digest before the first record.
type RecordLink = (u64, Option<String>);

/// Returns the record that ends at an offset of the log. `None` when none ends there.
fn record_before(
    files: &LogFiles,
    log: &LogFile,
    offset: u64,
) -> Result<Option<RecordLink>, Error> {
    let path = files.active_path();
    if offset == 0 {
        return find_end_of_closed(files).map(|end| Some((end.number, end.head)));
    }
    let length = log.length();
    if length.map_err(|source| Error::AuditUnavailable { path: path.to_owned(), source })? < offset
    {
        return Ok(None);
    }
    let tail = FileTail::read_before(log.file(), path, offset)?;
    if !tail.torn().is_empty() {
        return Ok(None);
    }
    Ok(tail.last(path)?.map(|(number, digest)| (number, Some(digest))))
}

/// Returns the length of the lines that follow a record and each other. They end at an older record, at one whose
/// write was interrupted, and at the filling.
fn chained_length(bytes: &[u8], before: &RecordLink) -> usize {
    let (mut number, mut head) = before.clone();
    let mut length = 0;
    for line in bytes.split_inclusive(|&byte| byte == b'\n') {
        let Some(Ok(link)) = line.strip_suffix(b"\n").map(read_link) else { break };
        if link.number != number + 1 || link.previous != head {
            break;
        }
        (number, head) = (link.number, Some(link.digest));
        length += line.len();
    }
    length
}

#[cfg(test)]
mod tests;
