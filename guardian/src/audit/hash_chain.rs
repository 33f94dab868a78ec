//! The chained files: open, append, rotate. The one place that writes the log.

use std::fs::{File, TryLockError};
use std::io::{self, BufRead as _, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::audit_record::AuditRecord;
use super::checkpoint::CheckpointWriter;
use super::log_file::LogFile;
use super::records::{MAX_LINE, digest_of, read_link, segment_number};
use super::redo_file::{self, RedoFile};
use super::segments::{LogFiles, file_name, open_private};
use crate::error::Error;

/// The settings for writing a log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// Set when each record is flushed to the disk itself, in the log or in the redo file.
    pub(crate) sync: bool,
    /// The maximum size of all segments together, in bytes.
    pub(crate) max_bytes: Option<u64>,
    /// The length from which a segment is closed, in bytes.
    pub(crate) segment_bytes: u64,
}

/// A log that is open for writing. It holds a lock on the log and a lock on the current segment.
#[derive(Debug)]
pub(crate) struct HashChain {
    checkpoints: CheckpointWriter,
    _lock: File,
    segments: LogFiles,
    file: LogFile,
    /// The second copy of the last records, when each record is flushed.
    redo: Option<RedoFile>,
    options: Options,
    /// The current segment, and its last record.
    end: ChainEnd,
    /// Set when the current segment was closed and the next one does not exist yet.
    is_closed: bool,
    /// The total length of the closed segments, in bytes.
    closed_bytes: u64,
    /// The length of the whole records in the file, in bytes.
    length: u64,
    /// Set when the file may hold more than that, because a write failed.
    is_torn: bool,
}

impl Drop for HashChain {
    fn drop(&mut self) {
        self.checkpoints.finish();
        if self.redo.is_some() {
            // If this fails, the next start finds the records in the redo file.
            let flushed = self.remove_torn_end().and_then(|()| self.flush());
            let _ = flushed.and_then(|()| redo_file::remove(&self.segments));
        }
    }
}

/// The end of a chain.
#[derive(Debug)]
pub(super) struct ChainEnd {
    /// The number of the segment that the next record belongs to.
    segment: u64,
    /// The number of the last record.
    pub(super) number: u64,
    /// The digest of the last record.
    pub(super) head: Option<String>,
}

impl HashChain {
    /// Opens or creates the log. Records that a crash lost are restored from the redo file. An unfinished
    /// record that a crash left at its end is moved to a file with `.torn` added to the name; the second value
    /// is its length.
    pub(crate) fn open(path: &Path, options: Options) -> Result<(Self, Option<u64>), Error> {
        let segments = LogFiles::new(path);
        let unavailable = |source| Error::AuditUnavailable { path: path.to_owned(), source };
        let lock = open_private(&segments.lock_path()).map_err(unavailable)?;
        lock_file(&lock, path)?;
        let file = LogFile::open(path).map_err(unavailable)?;
        // A guardian of a version without segments locks this one alone.
        lock_file(file.file(), path)?;
        let tail = match redo_file::restore_lost_records(&segments, &file)? {
            Some(end) => FileTail::read_before(file.file(), path, end)?,
            None => FileTail::read(file.file(), path)?,
        };
        let end = match tail.last(path)? {
            Some((number, head)) => {
                let segment = read_segment_number(file.file()).map_err(unavailable)?;
                ChainEnd { segment, number, head: Some(head) }
            }
            None => find_end_of_closed(&segments)?,
        };
        let length = tail.whole_length();
        let torn = file.read_at(length, u64::MAX).map_err(unavailable)?;
        let torn_length = (!torn.is_empty()).then_some(torn.len() as u64);
        if torn_length.is_some() {
            save_torn_line(path, &torn)
                .and_then(|()| file.set_length(length))
                .map_err(unavailable)?;
        }
        let closed_bytes = sum_closed_bytes(&segments).map_err(unavailable)?;
        let redo = if options.sync {
            let redo = file.flush().and_then(|()| RedoFile::open(&segments, length));
            Some(redo.map_err(unavailable)?)
        } else {
            redo_file::remove(&segments).map_err(unavailable)?;
            None
        };
        let chain = Self {
            checkpoints: CheckpointWriter::default(),
            _lock: lock,
            segments,
            file,
            redo,
            options,
            end,
            is_closed: false,
            closed_bytes,
            length,
            is_torn: false,
        };
        Ok((chain, torn_length))
    }

    /// Brings the checkpoint up to the closed segments, in the background.
    pub(crate) fn write_checkpoint(&mut self) {
        if 1 < self.end.segment {
            self.checkpoints.start(&self.segments);
        }
    }

    /// Returns true when an appended record is on the disk itself.
    pub(crate) fn is_flushed(&self) -> bool {
        self.options.sync
    }

    /// Appends entries, all or none. Each is the text of a JSON object that is not empty, on one line. When
    /// this returns `Ok`, they are written as [`Options::sync`] requires.
    pub(crate) fn append(&mut self, entries: &[impl AsRef<[u8]>]) -> io::Result<()> {
        self.remove_torn_end()?;
        if self.options.segment_bytes <= self.length {
            self.close_segment()?;
        }
        if self.is_closed {
            self.begin_segment()?;
        }
        let is_later_segment = 1 < self.end.segment && self.length == 0;
        let header = is_later_segment.then(|| AuditRecord::new_segment(self.end.segment, entries));
        let texts = header.iter().map(AuditRecord::as_ref).chain(entries.iter().map(AsRef::as_ref));
        let (lines, number, head) = self.chain_lines(texts)?;
        let length = self.length + lines.len() as u64;
        self.check_size(length)?;
        if let Some(redo) = &mut self.redo {
            redo.make_room(&lines, &self.file, self.length)?;
        }
        self.is_torn = true;
        self.file.write_at(self.length, &lines)?;
        if let Some(redo) = &mut self.redo {
            redo.write(&lines, &self.file, self.end.number)?;
        }
        self.is_torn = false;
        (self.end.number, self.end.head, self.length) = (number, head, length);
        Ok(())
    }

    /// Removes what a failed write may have left.
    fn remove_torn_end(&mut self) -> io::Result<()> {
        if self.is_torn {
            self.file.set_length(self.length)?;
            self.is_torn = false;
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.redo {
            Some(redo) => redo.flush_log(&self.file),
            None => self.file.flush(),
        }
    }

    /// Builds the lines of the records that follow the last one.
    fn chain_lines<'e>(
        &self,
        texts: impl Iterator<Item = &'e [u8]>,
    ) -> io::Result<(Vec<u8>, u64, Option<String>)> {
        let (mut number, mut head) = (self.end.number, self.end.head.clone());
        let mut lines = Vec::new();
        for text in texts {
            number += 1;
            let start = lines.len();
            match &head {
                Some(head) => {
                    write!(lines, r#"{{"v":1,"seq":{number},"previous":"{head}","#)?;
                }
                None => write!(lines, r#"{{"v":1,"seq":{number},"previous":null,"#)?,
            }
            lines.extend_from_slice(&text[1..]);
            let digest = digest_of(&lines[start..]);
            lines.pop();
            writeln!(lines, r#","digest":"{digest}"}}"#)?;
            head = Some(digest);
        }
        Ok((lines, number, head))
    }

    fn check_size(&mut self, length: u64) -> io::Result<()> {
        let Some(most) = self.options.max_bytes else { return Ok(()) };
        if most < self.closed_bytes + length {
            // Segments may have been archived since.
            self.closed_bytes = sum_closed_bytes(&self.segments)?;
        }
        if most < self.closed_bytes + length {
            return Err(io::Error::other("the audit log has reached its largest size"));
        }
        Ok(())
    }

    /// Renames the current segment to its name as a closed one. After a crash at this point, there is no
    /// current segment, and the next start begins one.
    fn close_segment(&mut self) -> io::Result<()> {
        let path = self.segments.closed_path(self.end.segment);
        if path.try_exists()? {
            let name = file_name(&path);
            return Err(io::Error::other(format!("the segment {name} exists already")));
        }
        self.flush()?;
        std::fs::rename(self.segments.active_path(), &path)?;
        self.is_closed = true;
        self.end.segment += 1;
        self.closed_bytes += self.length;
        self.length = 0;
        self.segments.sync_folder()
    }

    fn begin_segment(&mut self) -> io::Result<()> {
        let file = LogFile::open(self.segments.active_path())?;
        file.file().try_lock()?;
        // Remains of a failed start of this segment are not records.
        file.set_length(0)?;
        self.segments.sync_folder()?;
        if let Some(redo) = &mut self.redo {
            redo.begin_segment()?;
        }
        self.file = file;
        self.is_closed = false;
        self.checkpoints.start(&self.segments);
        Ok(())
    }
}

fn lock_file(file: &File, path: &Path) -> Result<(), Error> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(Error::AuditInUse { path: path.to_owned() }),
        Err(TryLockError::Error(source)) => {
            Err(Error::AuditUnavailable { path: path.to_owned(), source })
        }
    }
}

/// The end of a file: its last records, and the unfinished line that a crash left after them.
pub(super) struct FileTail {
    bytes: Vec<u8>,
    /// The number of bytes that are whole lines.
    whole: usize,
    /// The length of the file, in bytes.
    end: u64,
}

impl FileTail {
    pub(super) fn read(file: &File, path: &Path) -> Result<Self, Error> {
        let end = file.metadata().map(|metadata| metadata.len());
        let end =
            end.map_err(|source| Error::AuditUnavailable { path: path.to_owned(), source })?;
        Self::read_before(file, path, end)
    }

    /// The end of a file that is cut at a length.
    pub(super) fn read_before(file: &File, path: &Path, end: u64) -> Result<Self, Error> {
        let bytes = read_tail(file, end)
            .map_err(|source| Error::AuditUnavailable { path: path.to_owned(), source })?;
        let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        let tail = Self { bytes, whole, end };
        if tail.whole == 0 && (tail.bytes.len() as u64) < tail.end {
            let reason = "its last line is too long to be a record".to_owned();
            return Err(Error::AuditBroken { path: path.to_owned(), reason });
        }
        Ok(tail)
    }

    pub(super) fn torn(&self) -> &[u8] {
        &self.bytes[self.whole..]
    }

    fn whole_length(&self) -> u64 {
        self.end - self.torn().len() as u64
    }

    /// Returns the number and the digest of the last record.
    pub(super) fn last(&self, path: &Path) -> Result<Option<(u64, String)>, Error> {
        let lines = self.bytes[..self.whole].strip_suffix(b"\n");
        let last = lines.and_then(|lines| lines.rsplit(|&byte| byte == b'\n').next());
        let Some(line) = last else { return Ok(None) };
        let link = read_link(line).map_err(|reason| Error::AuditBroken {
            path: path.to_owned(),
            reason: format!("its last record {reason}"),
        })?;
        Ok(Some((link.number, link.digest)))
    }
}

/// Returns the number of the segment in a file that has records.
fn read_segment_number(mut file: &File) -> io::Result<u64> {
    let mut line = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    io::BufReader::new(file.take(MAX_LINE)).read_until(b'\n', &mut line)?;
    let record: Value = serde_json::from_slice(&line).unwrap_or_default();
    Ok(segment_number(&record).unwrap_or(1))
}

/// Finds the end of the closed segments, when the current one has no record yet.
pub(super) fn find_end_of_closed(segments: &LogFiles) -> Result<ChainEnd, Error> {
    let unavailable =
        |source| Error::AuditUnavailable { path: segments.active_path().to_owned(), source };
    let Some(&last) = segments.closed_numbers().map_err(unavailable)?.last() else {
        return Ok(match super::checkpoint::Checkpoint::load(segments) {
            // Everything but the checkpoint was archived.
            checkpoint if 0 < checkpoint.segment => ChainEnd {
                segment: checkpoint.segment + 1,
                number: checkpoint.records,
                head: checkpoint.head,
            },
            _ => ChainEnd { segment: 1, number: 0, head: None },
        });
    };
    let path = segments.closed_path(last);
    let file = File::open(&path).map_err(unavailable)?;
    let tail = FileTail::read(&file, &path)?;
    match tail.last(&path)? {
        Some((number, head)) if tail.torn().is_empty() => {
            Ok(ChainEnd { segment: last + 1, number, head: Some(head) })
        }
        _ => {
            let reason = "its last line is incomplete".to_owned();
            Err(Error::AuditBroken { path, reason })
        }
    }
}

fn sum_closed_bytes(segments: &LogFiles) -> io::Result<u64> {
    let paths = segments.closed_numbers()?.into_iter().map(|number| segments.closed_path(number));
    paths.map(|path| Ok(std::fs::metadata(path)?.len())).sum()
}

/// Reads the last bytes of the file, at most twice [`MAX_LINE`].
fn read_tail(mut file: &File, end: u64) -> io::Result<Vec<u8>> {
    let start = end.saturating_sub(2 * MAX_LINE);
    file.seek(SeekFrom::Start(start))?;
    let mut tail = Vec::new();
    file.take(end - start).read_to_end(&mut tail)?;
    Ok(tail)
}

fn save_torn_line(path: &Path, torn: &[u8]) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".torn");
    let mut file = open_private(&PathBuf::from(name))?;
    file.write_all(torn)?;
    file.write_all(b"\n")?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::super::records::verify;
    use super::*;
    use serde_json::json;

    const OPTIONS: Options = Options { sync: false, max_bytes: None, segment_bytes: u64::MAX };

    fn open(path: &Path) -> (HashChain, Option<u64>) {
        HashChain::open(path, OPTIONS).unwrap()
    }

    fn log_of(entries: u32) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.jsonl");
        let entries = (0..entries).map(|n| json!({"n": n, "text": "a\nb"}).to_string());
        open(&path).0.append(&entries.collect::<Vec<_>>()).unwrap();
        (dir, path)
    }

    #[track_caller]
    fn check_broken(path: &Path, line: u64, reason: &str) {
        let broken = verify(path).unwrap_err().to_string();
        assert!(
            broken.starts_with(&format!("line {line} ")) && broken.contains(reason),
            "{broken}"
        );
    }

    #[test]
    fn the_chain_goes_on_after_reopening() {
        let (_dir, path) = log_of(3);
        let before = verify(&path).unwrap();
        assert_eq!(before.records, 3);
        let (mut chain, torn) = open(&path);
        assert_eq!(torn, None);
        chain.append(&[r#"{"n":3}"#]).unwrap();
        let after = verify(&path).unwrap();
        assert_eq!(after.records, 4);
        let text = std::fs::read_to_string(&path).unwrap();
        let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        assert_eq!(last["previous"].as_str(), before.head.as_deref());
        assert_eq!(last["digest"].as_str(), after.head.as_deref());
    }

    #[test]
    fn every_change_of_one_byte_is_found() {
        let (_dir, path) = log_of(3);
        let whole = std::fs::read(&path).unwrap();
        for place in 0..whole.len() {
            let mut changed = whole.clone();
            changed[place] ^= 1;
            std::fs::write(&path, &changed).unwrap();
            assert!(verify(&path).is_err(), "byte {place}");
        }
    }

    #[test]
    fn a_record_cannot_be_taken_out_or_moved() {
        let (_dir, path) = log_of(3);
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<_> = text.lines().collect();
        let write = |lines: &[&str]| std::fs::write(&path, lines.join("\n") + "\n").unwrap();
        write(&[lines[0], lines[2]]);
        check_broken(&path, 2, "the wrong number");
        write(&[lines[1], lines[0], lines[2]]);
        check_broken(&path, 1, "the wrong number");
        write(&[lines[1], lines[2]]);
        check_broken(&path, 1, "the wrong number");
    }

    /// A forger who computes the digest of a changed record again still has to change every record after
    /// it.
    #[test]
    fn a_forged_record_does_not_fit_its_neighbour() {
        let (_dir, path) = log_of(3);
        let text = std::fs::read_to_string(&path).unwrap();
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        let (body, _) = lines[1].split_once(",\"digest\"").unwrap();
        let forged = body.replace("\"n\":1", "\"n\":7") + "}";
        let digest = digest_of(forged.as_bytes());
        lines[1] = format!("{},\"digest\":\"{digest}\"}}", forged.strip_suffix('}').unwrap());
        std::fs::write(&path, lines.join("\n") + "\n").unwrap();
        check_broken(&path, 3, "does not follow");
    }

    /// A disk that was full for a while leaves no half of a record between two.
    #[test]
    fn what_a_failed_write_has_left_is_taken_away() {
        let (_dir, path) = log_of(2);
        let (mut chain, _) = open(&path);
        chain.file.write_at(chain.length, b"{\"v\":1,\"seq\":3").unwrap();
        chain.is_torn = true;
        chain.append(&[r#"{"n":2}"#]).unwrap();
        assert_eq!(verify(&path).unwrap().records, 3);
    }

    #[test]
    fn a_torn_line_is_set_aside_and_the_chain_goes_on() {
        let (_dir, path) = log_of(2);
        let whole = std::fs::read(&path).unwrap();
        let first = whole.iter().position(|&byte| byte == b'\n').unwrap() + 1;
        for cut in first + 1..whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let _ = std::fs::remove_file(path.with_extension("jsonl.torn"));
            check_broken(&path, 2, "incomplete");
            let (mut chain, torn) = open(&path);
            assert_eq!(torn, Some((cut - first) as u64));
            chain.append(&[r#"{"n":9}"#]).unwrap();
            assert_eq!(verify(&path).unwrap().records, 2);
            let saved = std::fs::read(path.with_extension("jsonl.torn")).unwrap();
            assert_eq!(saved, [&whole[first..cut], b"\n"].concat());
        }
    }

    #[test]
    fn a_changed_last_record_is_not_built_upon() {
        let (_dir, path) = log_of(2);
        let text = std::fs::read_to_string(&path).unwrap().replace("\"n\":1", "\"n\":2");
        std::fs::write(&path, text).unwrap();
        assert!(matches!(HashChain::open(&path, OPTIONS), Err(Error::AuditBroken { .. })));
    }

    #[test]
    fn only_one_writes() {
        let (_dir, path) = log_of(1);
        let (_chain, _) = open(&path);
        assert!(matches!(HashChain::open(&path, OPTIONS), Err(Error::AuditInUse { .. })));
    }

    #[test]
    fn a_refused_append_leaves_the_log_as_it_was() {
        let (_dir, path) = log_of(1);
        let length = std::fs::metadata(&path).unwrap().len();
        let (mut chain, _) =
            HashChain::open(&path, Options { max_bytes: Some(length + 10), ..OPTIONS }).unwrap();
        assert!(chain.append(&[r#"{"n":1}"#]).is_err());
        assert_eq!(verify(&path).unwrap().records, 1);
    }

    #[cfg(unix)]
    #[test]
    fn nobody_else_may_read_it() {
        use std::os::unix::fs::PermissionsExt as _;
        let (_dir, path) = log_of(1);
        let mode = || std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(), 0o600);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let _ = open(&path);
        assert_eq!(mode(), 0o600);
    }
}
