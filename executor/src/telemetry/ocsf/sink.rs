//! The sinks of security events: a file, an endpoint, or both.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::super::export_queue::ExportSink;
use super::super::http_sink::HttpReceiver;
use crate::config::{self, OtlpExport};
use crate::error::{Error, ErrorKind};

/// An event as JSON, without the line end.
pub(crate) type JsonLine = Arc<str>;

/// A file with one event on each line.
#[derive(Debug)]
pub(crate) struct EventFile(Arc<Mutex<RotatingFile>>);

/// An endpoint that takes arrays of events.
#[derive(Debug)]
pub(crate) struct EventReceiver(HttpReceiver);

#[derive(Debug)]
struct RotatingFile {
    config: config::OcsfFile,
    file: File,
    /// The number of bytes in it.
    size: u64,
    /// Set when its last line has no end, because something failed while it was written.
    is_torn: bool,
}

impl EventFile {
    /// Opens the configured file, or creates it.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Configuration`] when it cannot be written, or when another process writes it.
    pub(crate) fn open_for_append(config: &config::OcsfFile) -> Result<Self, Error> {
        let lines = RotatingFile::open(config).map_err(|error| {
            let path = config.path.display();
            let message = format!("the file of security events, {path}: {error}");
            Error::new(ErrorKind::Configuration, message)
        })?;
        Ok(Self(Arc::new(Mutex::new(lines))))
    }
}

impl ExportSink for EventFile {
    type Item = JsonLine;
    const ITEMS: &'static str = "security events for the file";
    const MAX_WAITING: usize = 16_384;
    const BATCH: usize = 256;

    async fn export(&self, batch: Vec<JsonLine>) -> Result<usize, String> {
        let lines = Arc::clone(&self.0);
        let written = tokio::task::spawn_blocking(move || {
            let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
            batch.iter().filter(|line| lines.write(line).is_err()).count()
        });
        written.await.map_err(|error| error.to_string())
    }
}

impl EventReceiver {
    /// Creates the endpoint from the configuration. Nothing is sent yet.
    ///
    /// # Errors
    /// Fails when its address or a header cannot be used, or when a client cannot be created.
    pub(crate) fn new(export: &OtlpExport) -> Result<Self, Error> {
        HttpReceiver::new(export, "security events", "application/json").map(Self)
    }
}

impl ExportSink for EventReceiver {
    type Item = JsonLine;
    const ITEMS: &'static str = "security events for the endpoint";
    const MAX_WAITING: usize = 16_384;
    const BATCH: usize = 256;

    async fn export(&self, batch: Vec<JsonLine>) -> Result<usize, String> {
        let body = format!("[{}]", batch.join(","));
        self.0.send(body.into_bytes()).await.map(|_| 0)
    }
}

impl RotatingFile {
    fn open(config: &config::OcsfFile) -> io::Result<Self> {
        let (file, size) = open(&config.path)?;
        let is_torn = size > 0 && !ends_with_newline(&file)?;
        Ok(Self { config: config.clone(), file, size, is_torn })
    }

    /// Writes a line. After a write that failed halfway, the partial line is ended first, so that readers
    /// do not mistake it for an event.
    fn write(&mut self, line: &str) -> io::Result<()> {
        let bytes = [if self.is_torn { "\n" } else { "" }, line, "\n"].concat();
        let length = bytes.len() as u64;
        if self.size > 0 && self.size + length > self.config.max_bytes {
            self.rotate()?;
        }
        let written = self.file.write_all(bytes.as_bytes());
        self.is_torn = written.is_err();
        self.size += length;
        written
    }

    /// Renames the file, and begins a new one. The oldest one is lost.
    fn rotate(&mut self) -> io::Result<()> {
        let path = &self.config.path;
        for n in (1..self.config.max_rotated_files).rev() {
            match std::fs::rename(numbered_path(path, n), numbered_path(path, n + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        match self.config.max_rotated_files {
            0 => std::fs::remove_file(path)?,
            _ => std::fs::rename(path, numbered_path(path, 1))?,
        }
        (self.file, self.size) = open(path)?;
        self.is_torn = false;
        Ok(())
    }
}

/// Opens a file for appending, and locks it against other processes. Only its owner can read a new file.
fn open(path: &Path) -> io::Result<(File, u64)> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    let data = file.metadata()?;
    if !data.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    file.try_lock().map_err(|error| match error {
        std::fs::TryLockError::WouldBlock => io::Error::other("another process writes to it"),
        std::fs::TryLockError::Error(error) => error,
    })?;
    Ok((file, data.len()))
}

fn ends_with_newline(mut file: &File) -> io::Result<bool> {
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

/// `events.jsonl.1` next to `events.jsonl`.
fn numbered_path(path: &Path, n: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{n}"));
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(folder: &Path) -> config::OcsfFile {
        config::OcsfFile { path: folder.join("events.jsonl"), max_bytes: 20, max_rotated_files: 2 }
    }

    fn read(folder: &Path, name: &str) -> Option<String> {
        std::fs::read_to_string(folder.join(name)).ok()
    }

    #[test]
    fn a_full_file_is_put_beside_and_the_oldest_one_is_lost() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let mut lines = RotatingFile::open(&config(folder)).unwrap();
        for n in 1..=7 {
            lines.write(&format!("event {n}")).unwrap();
        }
        // A line that is longer than a file has one of its own.
        lines.write("an event that is longer than a file").unwrap();
        let name = |n: &str| format!("events.jsonl{n}");
        let content = |n: &str| read(folder, &name(n));
        assert_eq!(content("").unwrap(), "an event that is longer than a file\n");
        assert_eq!(content(".1").unwrap(), "event 7\n");
        assert_eq!(content(".2").unwrap(), "event 5\nevent 6\n");
        assert_eq!(content(".3"), None);
    }

    #[test]
    fn a_file_is_continued_behind_a_line_that_was_torn() {
        let folder = tempfile::tempdir().unwrap();
        let config = config::OcsfFile { max_bytes: 1_000, ..config(folder.path()) };
        std::fs::write(&config.path, "whole\nto").unwrap();
        for line in ["next", "last"] {
            RotatingFile::open(&config).unwrap().write(line).unwrap();
        }
        assert_eq!(read(folder.path(), "events.jsonl").unwrap(), "whole\nto\nnext\nlast\n");
    }

    #[test]
    fn a_file_belongs_to_one_process_and_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let config = config(folder.path());
        let held = RotatingFile::open(&config).unwrap();
        assert!(RotatingFile::open(&config).unwrap_err().to_string().contains("another process"));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = held.file.metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        drop(held);
        let nowhere = config::OcsfFile { path: folder.path().to_owned(), ..config };
        assert!(RotatingFile::open(&nowhere).is_err());
    }
}
