//! A copy of a log that may be in use.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use super::records::{LogCorruption, LogStart, VerifiedLog, verify_from};
use super::segments::{LogFiles, open_private};

/// The most attempts to copy the files. An attempt fails when a segment is closed during it.
const MAX_ATTEMPTS: usize = 5;
/// The bytes that are read at a time to find the end of the last whole record.
const BLOCK_SIZE: u64 = 1 << 16;

/// Copies the log at `from` to `to`, where no log may exist, and checks the chain of the copy.
///
/// The copy has all segments and the checkpoint. A record that is being written is left out. The log may
/// begin with a later segment, when earlier ones were archived.
///
/// # Errors
/// Fails when a file cannot be read or written, or the chain is broken.
pub fn copy(from: &Path, to: &Path) -> Result<VerifiedLog, LogCorruption> {
    let (from, to) = (LogFiles::new(from), LogFiles::new(to));
    let mut tries = 1;
    loop {
        match copy_once(&from, &to) {
            Err(LogCorruption::Line { .. } | LogCorruption::Missing { .. })
                if tries < MAX_ATTEMPTS =>
            {
                tries += 1
            }
            outcome => return outcome,
        }
    }
}

fn copy_once(from: &LogFiles, to: &LogFiles) -> Result<VerifiedLog, LogCorruption> {
    // The checkpoint first: the records that come later are no harm, earlier ones would be missing.
    if from.checkpoint_path().exists() {
        copy_file(&from.checkpoint_path(), &to.checkpoint_path(), false)?;
    }
    for number in from.closed_numbers()? {
        copy_file(&from.closed_path(number), &to.closed_path(number), false)?;
    }
    copy_file(from.active_path(), to.active_path(), true)?;
    to.sync_folder()?;
    verify_from(to.active_path(), &LogStart::Oldest)
}

/// Copies a file, whole or up to the end of its last line, and flushes it to disk.
fn copy_file(from: &Path, to: &Path, whole_lines: bool) -> io::Result<()> {
    let mut from = File::open(from)?;
    let length = if whole_lines { end_of_last_line(&mut from)? } else { from.metadata()?.len() };
    let mut to = open_private(to)?;
    to.set_len(0)?;
    io::copy(&mut from.take(length), &mut to)?;
    to.sync_all()
}

/// Returns the length of a file without an unfinished last line. Afterwards the file is at its beginning.
fn end_of_last_line(file: &mut File) -> io::Result<u64> {
    let mut end = file.metadata()?.len();
    let mut block = Vec::new();
    while 0 < end {
        let start = end.saturating_sub(BLOCK_SIZE);
        file.seek(SeekFrom::Start(start))?;
        block.clear();
        file.by_ref().take(end - start).read_to_end(&mut block)?;
        if let Some(at) = block.iter().rposition(|byte| *byte == b'\n') {
            end = start + at as u64 + 1;
            break;
        }
        end = start;
    }
    file.rewind()?;
    Ok(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unfinished_last_line_is_left_out() {
        for (text, expected) in [("", 0), ("x", 0), ("a\n", 2), ("a\nb", 2), ("a\nb\n", 4)] {
            let mut file = tempfile::tempfile().unwrap();
            io::Write::write_all(&mut file, text.as_bytes()).unwrap();
            assert_eq!(end_of_last_line(&mut file).unwrap(), expected, "{text:?}");
        }
        let mut file = tempfile::tempfile().unwrap();
        let long = format!("a\n{}", "x".repeat(3 * BLOCK_SIZE as usize));
        io::Write::write_all(&mut file, long.as_bytes()).unwrap();
        assert_eq!(end_of_last_line(&mut file).unwrap(), 2);
    }
}
