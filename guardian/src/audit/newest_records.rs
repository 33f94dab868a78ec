//! Reading a log from its end, without its beginning.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use serde_json::Value;

use super::RecordFilter;
use super::records::{MAX_LINE, list_files};
use super::segments::LogFiles;

/// The length of a part of a file that is read at once, in bytes.
const BLOCK: u64 = 64 << 10;
/// The most records that one search reads.
const MAX_READ: usize = 20_000;

/// The part of a log to search, and the number of records to return.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordRange {
    /// Only records with a smaller number.
    pub(crate) before: Option<u64>,
    /// Only records with a larger number.
    pub(crate) after: u64,
    /// The most records to return.
    pub(crate) limit: usize,
}

/// The latest records of a log.
#[derive(Debug, Default)]
pub(crate) struct NewestRecords {
    /// The records, the newest first.
    pub(crate) records: Vec<Value>,
    /// The number of the last record that was read, when there may be earlier ones: the search goes on
    /// before it.
    pub(crate) next: Option<u64>,
}

/// Returns the latest records that a filter chooses, the newest first. A record that cannot be read is left
/// out: [`super::verify`] finds it.
///
/// # Errors
/// A file cannot be read.
pub(crate) fn read_newest(
    path: &Path,
    range: RecordRange,
    filter: &RecordFilter,
) -> io::Result<NewestRecords> {
    let mut found = NewestRecords::default();
    let mut read = 0;
    for record in read_from_end(path)? {
        let record = record?;
        let Some(number) = record["seq"].as_u64() else { continue };
        if range.before.is_some_and(|before| before <= number) {
            continue;
        }
        if number <= range.after || filter.is_too_old(&record) {
            return Ok(found);
        }
        read += 1;
        if filter.matches(&record) {
            found.records.push(record);
        }
        if range.limit <= found.records.len() || MAX_READ <= read {
            found.next = (1 < number).then_some(number);
            return Ok(found);
        }
    }
    Ok(found)
}

/// Returns the records of all segments, the last first. A record that cannot be read is left out.
fn read_from_end(path: &Path) -> io::Result<impl Iterator<Item = io::Result<Value>>> {
    let files = LogFiles::new(path);
    let (closed, active) =
        list_files(&files).map_err(|error| io::Error::other(error.to_string()))?;
    let closed = closed.into_iter().rev().map(move |number| File::open(files.closed_path(number)));
    let lines = active.map(Ok).into_iter().chain(closed).flat_map(|file| {
        let (lines, error) = match file.and_then(LinesFromEnd::new) {
            Ok(lines) => (Some(lines), None),
            Err(error) => (None, Some(Err(error))),
        };
        lines.into_iter().flatten().chain(error)
    });
    Ok(lines.filter_map(|line| line.map(|line| serde_json::from_slice(&line).ok()).transpose()))
}

/// The lines of a file, the last first.
struct LinesFromEnd {
    file: File,
    /// The position in the file at which `text` begins.
    position: u64,
    /// The text that was read and is not returned yet.
    text: Vec<u8>,
}

impl LinesFromEnd {
    fn new(mut file: File) -> io::Result<Self> {
        let position = file.seek(SeekFrom::End(0))?;
        Ok(Self { file, position, text: Vec::new() })
    }

    /// Reads the block before what was read.
    fn read_block(&mut self) -> io::Result<()> {
        if MAX_LINE < self.text.len() as u64 {
            return Err(io::Error::other("a line of the audit log is too long"));
        }
        let length = BLOCK.min(self.position);
        self.position -= length;
        self.file.seek(SeekFrom::Start(self.position))?;
        let mut block = Vec::new();
        (&mut self.file).take(length).read_to_end(&mut block)?;
        block.append(&mut self.text);
        self.text = block;
        Ok(())
    }
}

impl Iterator for LinesFromEnd {
    type Item = io::Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(end) = self.text.iter().rposition(|&byte| byte == b'\n') {
                let line = self.text.split_off(end + 1);
                self.text.pop();
                if line.is_empty() {
                    continue;
                }
                return Some(Ok(line));
            }
            if self.position == 0 {
                let line = std::mem::take(&mut self.text);
                return (!line.is_empty()).then_some(Ok(line));
            }
            if let Err(error) = self.read_block() {
                self.position = 0;
                self.text.clear();
                return Some(Err(error));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three segments with the records 1 to 90, of which every third is a denial.
    fn log() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, from) in [("audit.000001", 1), ("audit.000002", 31), ("audit", 61)] {
            let line = |number: u64| {
                let decision = if number.is_multiple_of(3) { "deny" } else { "allow" };
                let filling = "x".repeat(5000);
                let record = serde_json::json!({
                    "seq": number, "event": "decision", "decision": decision, "filling": filling,
                });
                format!("{record}\n")
            };
            let text: String = (from..from + 30).map(line).collect();
            std::fs::write(folder.path().join(format!("{name}.jsonl")), text).unwrap();
        }
        folder
    }

    fn numbers(found: &NewestRecords) -> Vec<u64> {
        found.records.iter().map(|record| record["seq"].as_u64().unwrap()).collect()
    }

    #[test]
    fn the_newest_come_first_over_all_segments() {
        let folder = log();
        let path = folder.path().join("audit.jsonl");
        let read = |before, after, limit, filter: &RecordFilter| {
            read_newest(&path, RecordRange { before, after, limit }, filter).unwrap()
        };
        let all = RecordFilter::default();
        let found = read(None, 0, 100, &all);
        assert_eq!(numbers(&found), (1..=90).rev().collect::<Vec<_>>());
        assert_eq!(found.next, None);
        let found = read(None, 0, 4, &all);
        assert_eq!((numbers(&found), found.next), (vec![90, 89, 88, 87], Some(87)));
        assert_eq!(numbers(&read(Some(32), 0, 3, &all)), [31, 30, 29]);
        assert_eq!(numbers(&read(None, 88, 10, &all)), [90, 89]);
        let denied = RecordFilter { decision: Some("deny".to_owned()), ..RecordFilter::default() };
        assert_eq!(numbers(&read(Some(70), 0, 3, &denied)), [69, 66, 63]);
    }

    /// A guardian may be writing the last line.
    #[test]
    fn an_unfinished_line_is_left_out() {
        let folder = log();
        let path = folder.path().join("audit.jsonl");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, format!("{text}{{\"seq\": 91, \"ev")).unwrap();
        let range = RecordRange { before: None, after: 0, limit: 1 };
        let found = read_newest(&path, range, &RecordFilter::default()).unwrap();
        assert_eq!(numbers(&found), [90]);
    }
}
