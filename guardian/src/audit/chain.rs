//! The chained file: open, append, verify.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::error::Error;

/// Longest line that is read back, well above the longest that is written.
const MAX_LINE: u64 = 4 << 20;

/// How a log is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// Whether each record is flushed to the disk itself, not to the system only.
    pub(crate) sync: bool,
    /// The file is not made longer than this.
    pub(crate) max_bytes: Option<u64>,
}

/// A log that is open for writing. It holds a lock on the file.
#[derive(Debug)]
pub(crate) struct Chain {
    file: File,
    options: Options,
    /// How much of the file is whole records.
    length: u64,
    /// Whether the file may hold more than that, since a write failed.
    is_torn: bool,
    /// The number of the last record.
    number: u64,
    /// The digest of the last record.
    head: Option<String>,
}

impl Chain {
    /// Open or make the log. What a crash left unfinished at its end is moved to a file with
    /// `.torn` added to the name; the second value is its length.
    pub(crate) fn open(path: &Path, options: Options) -> Result<(Self, Option<u64>), Error> {
        let unavailable = |source| Error::AuditUnavailable { path: path.to_owned(), source };
        let mut file = open_private(path).map_err(unavailable)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Error::AuditInUse { path: path.to_owned() });
            }
            Err(TryLockError::Error(source)) => return Err(unavailable(source)),
        }
        let end = file.metadata().map_err(unavailable)?.len();
        let tail = read_tail(&mut file, end).map_err(unavailable)?;
        let whole = tail.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        if whole == 0 && (tail.len() as u64) < end {
            let reason = "its last line is too long to be a record".to_owned();
            return Err(Error::AuditBroken { path: path.to_owned(), reason });
        }
        let torn = &tail[whole..];
        let length = end - torn.len() as u64;
        let last = tail[..whole]
            .strip_suffix(b"\n")
            .map(|lines| lines.rsplit(|&byte| byte == b'\n').next());
        let (number, head) = match last.flatten() {
            None => (0, None),
            Some(line) => {
                let link = read_link(line).map_err(|reason| Error::AuditBroken {
                    path: path.to_owned(),
                    reason: format!("its last record {reason}"),
                })?;
                (link.number, Some(link.digest))
            }
        };
        let torn_length = (!torn.is_empty()).then_some(torn.len() as u64);
        if torn_length.is_some() {
            set_aside(path, torn)
                .and_then(|()| file.set_len(length))
                .and_then(|()| file.sync_all())
                .map_err(unavailable)?;
        }
        Ok((Self { file, options, length, is_torn: false, number, head }, torn_length))
    }

    /// Whether a record is on the disk itself when it is appended.
    pub(crate) fn is_flushed(&self) -> bool {
        self.options.sync
    }

    /// Append entries, all or none. Each is the text of a JSON object that is not empty, on one line.
    /// When this returns `Ok`, they are where [`Options::sync`] says.
    pub(crate) fn append(&mut self, entries: &[impl AsRef<[u8]>]) -> io::Result<()> {
        if self.is_torn {
            self.file.set_len(self.length)?;
            self.is_torn = false;
        }
        let (mut number, mut head) = (self.number, self.head.clone());
        let mut lines = Vec::new();
        for entry in entries {
            number += 1;
            let start = lines.len();
            match &head {
                Some(head) => {
                    write!(lines, r#"{{"v":1,"seq":{number},"previous":"{head}","#)?;
                }
                None => write!(lines, r#"{{"v":1,"seq":{number},"previous":null,"#)?,
            }
            lines.extend_from_slice(&entry.as_ref()[1..]);
            let digest = digest_of(&lines[start..]);
            lines.pop();
            writeln!(lines, r#","digest":"{digest}"}}"#)?;
            head = Some(digest);
        }
        let length = self.length + lines.len() as u64;
        if self.options.max_bytes.is_some_and(|most| most < length) {
            return Err(io::Error::other("the audit log has reached its largest size"));
        }
        self.is_torn = true;
        self.file.write_all(&lines)?;
        if self.options.sync {
            self.file.sync_data()?;
        }
        self.is_torn = false;
        (self.number, self.head, self.length) = (number, head, length);
        Ok(())
    }
}

fn open_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
        let file = options.mode(0o600).open(path)?;
        if file.metadata()?.permissions().mode() & 0o077 != 0 {
            file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
        }
        Ok(file)
    }
    #[cfg(not(unix))]
    options.open(path)
}

/// The last bytes of the file, at most [`MAX_LINE`] of them twice over.
fn read_tail(file: &mut File, end: u64) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(end.saturating_sub(2 * MAX_LINE)))?;
    let mut tail = Vec::new();
    file.take(2 * MAX_LINE).read_to_end(&mut tail)?;
    Ok(tail)
}

fn set_aside(path: &Path, torn: &[u8]) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".torn");
    let mut file = open_private(&PathBuf::from(name))?;
    file.write_all(torn)?;
    file.write_all(b"\n")?;
    file.sync_all()
}

fn digest_of(record: &[u8]) -> String {
    format!("sha256:{}", HEXLOWER.encode(&Sha256::digest(record)))
}

/// What ties a record to its neighbours.
struct Link {
    number: u64,
    previous: Option<String>,
    digest: String,
    record: Value,
}

/// Read one line and check its digest.
fn read_link(line: &[u8]) -> Result<Link, String> {
    let record: Value = serde_json::from_slice(line).map_err(|_| "is not JSON".to_owned())?;
    let digest = record["digest"].as_str().ok_or("has no digest")?.to_owned();
    let seal = format!(",\"digest\":\"{digest}\"}}");
    let body = line.strip_suffix(seal.as_bytes()).ok_or("does not end with its digest")?;
    if digest_of(&[body, b"}"].concat()) != digest {
        return Err("does not have the digest it says".to_owned());
    }
    let number = record["seq"].as_u64().ok_or("has no number")?;
    let previous = record["previous"].as_str().map(str::to_owned);
    Ok(Link { number, previous, digest, record })
}

/// A log whose chain is whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// How many records it has.
    pub records: u64,
    /// The digest of the last one, as `sha256:…`.
    pub head: Option<String>,
}

/// A log whose chain is not whole, or that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    /// The file cannot be read.
    #[error("the audit log cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    /// The first line that does not fit.
    #[error("line {line} of the audit log {reason}")]
    Line {
        /// The line, counted from 1.
        line: u64,
        /// What is wrong with it.
        reason: String,
    },
}

/// Check the whole chain of a log file. It may be in use.
///
/// # Errors
/// The first record that does not fit, or the file cannot be read.
pub fn verify(path: &Path) -> Result<Verified, Broken> {
    let mut records = Records::open(path)?;
    records.by_ref().try_for_each(|record| record.map(drop))?;
    Ok(records.verified)
}

/// The records of a log file in order, each checked to follow the one before it. After one that does
/// not, nothing more comes.
#[derive(Debug)]
pub struct Records {
    lines: BufReader<File>,
    line: Vec<u8>,
    verified: Verified,
    is_over: bool,
}

impl Records {
    /// Those of a file, which may be in use.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn open(path: &Path) -> Result<Self, Broken> {
        let lines = BufReader::new(File::open(path)?);
        let verified = Verified { records: 0, head: None };
        Ok(Self { lines, line: Vec::new(), verified, is_over: false })
    }

    /// What was read of the chain until now.
    pub fn verified(&self) -> &Verified {
        &self.verified
    }

    fn read(&mut self) -> Result<Option<Value>, Broken> {
        self.line.clear();
        if (&mut self.lines).take(MAX_LINE).read_until(b'\n', &mut self.line)? == 0 {
            return Ok(None);
        }
        let number = self.verified.records + 1;
        let broken = |reason: &str| Broken::Line { line: number, reason: reason.to_owned() };
        let line = self.line.strip_suffix(b"\n").ok_or_else(|| broken("is unfinished"))?;
        let link = read_link(line).map_err(|reason| broken(&reason))?;
        if link.number != number {
            return Err(broken("has another number than its place"));
        }
        if link.previous != self.verified.head {
            return Err(broken("does not follow the record before it"));
        }
        self.verified = Verified { records: number, head: Some(link.digest) };
        Ok(Some(link.record))
    }
}

impl Iterator for Records {
    type Item = Result<Value, Broken>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let record = self.read().transpose();
        self.is_over = !matches!(record, Some(Ok(_)));
        record
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const OPTIONS: Options = Options { sync: false, max_bytes: None };

    fn open(path: &Path) -> (Chain, Option<u64>) {
        Chain::open(path, OPTIONS).unwrap()
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
        check_broken(&path, 2, "another number");
        write(&[lines[1], lines[0], lines[2]]);
        check_broken(&path, 1, "another number");
        write(&[lines[1], lines[2]]);
        check_broken(&path, 1, "another number");
    }

    /// A forger who computes digests anew still has to change every record after the one he changed.
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
        chain.file.write_all(b"{\"v\":1,\"seq\":3").unwrap();
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
            check_broken(&path, 2, "unfinished");
            let (mut chain, torn) = open(&path);
            assert_eq!(torn, Some((cut - first) as u64));
            chain.append(&[r#"{"n":9}"#]).unwrap();
            assert_eq!(verify(&path).unwrap().records, 2);
            let aside = std::fs::read(path.with_extension("jsonl.torn")).unwrap();
            assert_eq!(aside, [&whole[first..cut], b"\n"].concat());
        }
    }

    #[test]
    fn a_changed_last_record_is_not_built_upon() {
        let (_dir, path) = log_of(2);
        let text = std::fs::read_to_string(&path).unwrap().replace("\"n\":1", "\"n\":2");
        std::fs::write(&path, text).unwrap();
        assert!(matches!(Chain::open(&path, OPTIONS), Err(Error::AuditBroken { .. })));
    }

    #[test]
    fn only_one_writes() {
        let (_dir, path) = log_of(1);
        let (_chain, _) = open(&path);
        assert!(matches!(Chain::open(&path, OPTIONS), Err(Error::AuditInUse { .. })));
    }

    #[test]
    fn a_refused_append_leaves_the_log_as_it_was() {
        let (_dir, path) = log_of(1);
        let length = std::fs::metadata(&path).unwrap().len();
        let (mut chain, _) =
            Chain::open(&path, Options { max_bytes: Some(length + 10), ..OPTIONS }).unwrap();
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
