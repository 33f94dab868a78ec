//! A copy of a log that may be in use.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use super::records::{LogCorruption, LogStart, VerifiedLog, list_files, verify_from};
use super::segments::{LogFiles, open_private, remove_if_present};

/// The most attempts to copy the files. An attempt fails when a segment is closed during it.
const MAX_ATTEMPTS: usize = 5;
/// The bytes that are read at a time to find the end of the last whole record.
const BLOCK_SIZE: u64 = 1 << 16;

/// Returns true when a log has a segment at `path`, or a closed one.
///
/// # Errors
/// Fails when its folder cannot be read.
pub fn has_log(path: &Path) -> io::Result<bool> {
    let has_closed = match LogFiles::new(path).closed_numbers() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        numbers => !numbers?.is_empty(),
    };
    Ok(has_closed || path.exists())
}

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
        copy_file(File::open(from.checkpoint_path())?, &to.checkpoint_path(), false)?;
    }
    let (closed, active) = list_files(from)?;
    for number in closed {
        // A closed segment does not change: an earlier attempt has copied it.
        if !to.closed_path(number).exists() {
            copy_file(File::open(from.closed_path(number))?, &to.closed_path(number), false)?;
        }
    }
    match active {
        Some(active) => copy_file(active, to.active_path(), true)?,
        None => remove_if_present(to.active_path())?,
    }
    to.sync_folder()?;
    verify_from(to.active_path(), &LogStart::Oldest)
}

/// Copies a file, whole or up to the end of its last line, and flushes it to disk.
fn copy_file(mut from: File, to: &Path, whole_lines: bool) -> io::Result<()> {
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
