//! The redo file: a second copy of the records that may not be on the disk in the log itself.
//!
//! To flush a file that has grown, the system also writes its length and its blocks, and waits for the journal
//! of the file system. The redo file is written over and over within a fixed length, so its flush writes data
//! alone. The log has no filling, because other programs read and follow it.
//!
//! The records are written in passes. A pass begins when the log is on the disk, with a line that has the
//! length of the log at that time, and ends when the file is full. After a crash, the start writes the records of
//! the last pass to the log again, if they are missing there. The chain shows where the pass ends, and that it
//! belongs to the log. A log that is closed has no redo file.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use super::hash_chain::{FileTail, find_end_of_closed};
use super::records::{MAX_LINE, read_link};
use super::segments::{LogFiles, open_private_with};
use crate::error::Error;

/// The length of the file, in bytes.
const CAPACITY: u64 = if cfg!(test) { 4 << 10 } else { 256 << 10 };
/// The longest part of a log after the beginning of a pass.
const MAX_REST: u64 = 2 * MAX_LINE;

/// A redo file that is open for writing.
#[derive(Debug)]
pub(super) struct RedoFile {
    file: File,
    /// The end of the pass in the file; `None` before its beginning.
    position: Option<u64>,
}

impl RedoFile {
    /// Opens or creates the redo file of a log. The records of an earlier pass are lost with the next write.
    pub(super) fn open(files: &LogFiles) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(false);
        let mut file = open_private_with(options, &files.redo_path())?;
        let length = file.seek(SeekFrom::End(0))?;
        if length < CAPACITY {
            io::copy(&mut io::repeat(0).take(CAPACITY - length), &mut file)?;
            file.sync_all()?;
            files.sync_folder()?;
        }
        Ok(Self { file, position: None })
    }

    /// Makes lines durable that were appended to the log, which is now `length` bytes long.
    pub(super) fn write(&mut self, lines: &[u8], log: &File, length: u64) -> io::Result<()> {
        if let Some(position) = self.position
            && position + lines.len() as u64 <= CAPACITY
        {
            self.write_at(position, lines)?;
            self.file.sync_data()?;
            self.position = Some(position + lines.len() as u64);
            return Ok(());
        }
        self.position = None;
        log.sync_data()?;
        let header = format!("{length}\n");
        // The next write flushes it. A record of the last pass must not follow it.
        self.write_at(0, format!("{header}\0").as_bytes())?;
        self.position = Some(header.len() as u64);
        Ok(())
    }

    /// Ends the pass: the log is on the disk, and continues in another file.
    pub(super) fn end_pass(&mut self) {
        self.position = None;
    }

    fn write_at(&mut self, position: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(position))?;
        self.file.write_all(bytes)
    }
}

/// Deletes the redo file of a log that is on the disk.
pub(super) fn remove(files: &LogFiles) -> io::Result<()> {
    match std::fs::remove_file(files.redo_path()) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Writes the records of the last pass to the log again, if a crash has lost some of them. Returns the length of
/// the log up to its last whole record: what follows was not acknowledged. `None` when there is no redo file, or
/// it belongs to another log.
pub(super) fn restore_lost_records(files: &LogFiles, log: &mut File) -> Result<Option<u64>, Error> {
    let path = files.active_path();
    let unavailable = |source| Error::AuditUnavailable { path: path.to_owned(), source };
    let Some((offset, pass)) = read_pass(&files.redo_path()).map_err(unavailable)? else {
        return Ok(None);
    };
    let Some(before) = record_before(files, log, offset)? else {
        tracing::warn!(path = %path.display(), "the redo file belongs to another audit log; the guardian does not use it");
        return Ok(None);
    };
    let lines = &pass[..chained_length(&pass, &before)];
    let mut rest = Vec::new();
    log.seek(SeekFrom::Start(offset)).map_err(unavailable)?;
    let reader = &mut Read::by_ref(log).take(MAX_REST + 1);
    reader.read_to_end(&mut rest).map_err(unavailable)?;
    if MAX_REST < rest.len() as u64 {
        // A program without redo files has continued the log.
        return Ok(None);
    }
    if rest.starts_with(lines) {
        return Ok(Some(offset + chained_length(&rest, &before) as u64));
    }
    let mut restore = || {
        log.set_len(offset)?;
        log.write_all(lines)?;
        log.sync_all()
    };
    restore().map_err(unavailable)?;
    tracing::warn!(path = %path.display(), "a crash lost records of the audit log; the guardian restored them");
    Ok(Some(offset + lines.len() as u64))
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
    log: &mut File,
    offset: u64,
) -> Result<Option<RecordLink>, Error> {
    let path = files.active_path();
    if offset == 0 {
        return find_end_of_closed(files).map(|end| Some((end.number, end.head)));
    }
    let length = log.metadata().map(|metadata| metadata.len());
    if length.map_err(|source| Error::AuditUnavailable { path: path.to_owned(), source })? < offset
    {
        return Ok(None);
    }
    let tail = FileTail::read_before(log, path, offset)?;
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
