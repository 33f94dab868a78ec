//! Power cuts: the part of the log that is not flushed may be missing or empty, in any sectors.

use std::path::PathBuf;

use proptest::prelude::*;
use serde_json::json;

use super::super::hash_chain::{HashChain, Options};
use super::super::records::verify;
use super::*;

const OPTIONS: Options = Options { sync: true, max_bytes: None, segment_bytes: 3_000 };
/// The length that a disk writes whole or not at all.
const SECTOR: usize = 512;

/// The files of a log on the disk.
#[derive(Clone, Debug, Default)]
struct DiskState {
    closed: Vec<Vec<u8>>,
    log: Vec<u8>,
    redo: Vec<u8>,
}

impl DiskState {
    fn read(files: &LogFiles) -> Self {
        let read = |path: PathBuf| std::fs::read(path).unwrap();
        let numbers = files.closed_numbers().unwrap();
        Self {
            closed: numbers.into_iter().map(|number| read(files.closed_path(number))).collect(),
            log: read(files.active_path().to_owned()),
            redo: read(files.redo_path()),
        }
    }

    fn write(&self, files: &LogFiles) {
        for (number, bytes) in (1..).zip(&self.closed) {
            std::fs::write(files.closed_path(number), bytes).unwrap();
        }
        std::fs::write(files.active_path(), &self.log).unwrap();
        std::fs::write(files.redo_path(), &self.redo).unwrap();
    }

    /// All records, as one text.
    fn text(&self) -> Vec<u8> {
        self.closed.iter().chain([&self.log]).flatten().copied().collect()
    }

    /// The length of the log that is flushed.
    fn flushed(&self) -> usize {
        let end = self.redo.iter().position(|&byte| byte == b'\n').unwrap();
        std::str::from_utf8(&self.redo[..end]).unwrap().parse().unwrap()
    }
}

/// Sectors of the first file or of the second one, by the bits of a mask.
fn mix(one: &[u8], other: &[u8], mask: u64) -> Vec<u8> {
    let sectors = one.chunks(SECTOR).zip(other.chunks(SECTOR)).enumerate();
    let choose = |(at, (one, other))| if mask >> (at % 64) & 1 == 0 { one } else { other };
    sectors.flat_map(|sector| choose(sector).to_vec()).collect()
}

/// The log with its part that is not flushed cut, and empty in some of its sectors.
fn lose(log: &[u8], flushed: usize, cut: usize, mask: u64) -> Vec<u8> {
    let mut left = log[..flushed + cut % (log.len() - flushed + 1)].to_vec();
    for (at, sector) in left.chunks_mut(SECTOR).enumerate() {
        let kept = flushed.saturating_sub(at * SECTOR).min(sector.len());
        if mask >> (at % 64) & 1 == 1 {
            sector[kept..].fill(0);
        }
    }
    left
}

fn log_in(folder: &Path) -> LogFiles {
    LogFiles::new(&folder.join("audit.jsonl"))
}

/// Writes batches of entries with these lengths. Returns the states after each of them.
fn write_log(batches: &[Vec<usize>]) -> Vec<DiskState> {
    let folder = tempfile::tempdir().unwrap();
    let files = log_in(folder.path());
    let (mut chain, _) = HashChain::open(files.active_path(), OPTIONS).unwrap();
    let write = |batch: &Vec<usize>| {
        let entry = |length: &usize| json!({ "text": "x".repeat(*length) }).to_string();
        chain.append(&batch.iter().map(entry).collect::<Vec<_>>()).unwrap();
        DiskState::read(&files)
    };
    batches.iter().map(write).collect()
}

/// A guardian that starts over these files has all acknowledged records, and continues the chain.
fn check_start(disk: &DiskState, acknowledged: &[u8]) -> Result<(), TestCaseError> {
    let folder = tempfile::tempdir().unwrap();
    let files = log_in(folder.path());
    disk.write(&files);
    let (mut chain, _) = HashChain::open(files.active_path(), OPTIONS).unwrap();
    let found = DiskState::read(&files).text();
    prop_assert!(found.starts_with(acknowledged), "acknowledged records are lost");
    let records = |text: &[u8]| text.split(|&byte| byte == b'\n').count() as u64 - 1;
    prop_assert_eq!(verify(files.active_path()).unwrap().records, records(&found));
    chain.append(&[r#"{"n":1}"#]).unwrap();
    drop(chain);
    prop_assert!(records(&found) < verify(files.active_path()).unwrap().records);
    prop_assert!(!files.redo_path().exists(), "a closed log needs no redo file");
    Ok(())
}

fn batches() -> impl Strategy<Value = Vec<Vec<usize>>> {
    let batch = prop::collection::vec(1_usize..400, 1..5);
    prop::collection::vec(batch, 2..20)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_power_cut_loses_no_acknowledged_record(
        batches in batches(), at: prop::sample::Index, cut: usize, masks: (u64, u64),
    ) {
        let states = write_log(&batches);
        let at = at.index(states.len());
        let (last, acknowledged) = (&states[at], states[at].text());
        // After the acknowledgment.
        let log = lose(&last.log, last.flushed(), cut, masks.0);
        check_start(&DiskState { log, ..last.clone() }, &acknowledged)?;
        if last.flushed() == last.log.len() && 0 < at {
            // The beginning of its pass is flushed with the next records.
            let redo = mix(&states[at - 1].redo, &last.redo, masks.1);
            check_start(&DiskState { redo, ..last.clone() }, &acknowledged)?;
        }
        let Some(next) = states.get(at + 1) else { return Ok(()) };
        if next.closed.len() != last.closed.len() {
            return Ok(());
        }
        // While the next records are written.
        let log = lose(&next.log, last.flushed(), cut, masks.0);
        if next.flushed() == last.flushed() {
            let redo = mix(&last.redo, &next.redo, masks.1);
            check_start(&DiskState { log, redo, ..last.clone() }, &acknowledged)?;
        } else {
            // The log is flushed before a pass begins.
            check_start(&DiskState { log, ..last.clone() }, &acknowledged)?;
            let redo = mix(&last.redo, &next.redo, masks.1);
            check_start(&DiskState { log: next.log.clone(), redo, ..last.clone() }, &next.text())?;
        }
    }
}

#[test]
fn a_redo_file_of_another_log_is_not_used() {
    let states = write_log(&[vec![10], vec![20], vec![30]]);
    let other = write_log(&[vec![11], vec![21], vec![31]]);
    for cut in (0..=states[2].log.len()).step_by(37) {
        let log = states[2].log[..cut].to_vec();
        let whole = log.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        let disk = DiskState { log, redo: other[2].redo.clone(), ..DiskState::default() };
        check_start(&disk, &states[2].log[..whole]).unwrap();
    }
}

#[test]
fn an_unusable_redo_file_is_replaced() {
    let states = write_log(&[vec![10], vec![20]]);
    for redo in ["", "x", "\n", "x\n", "9999999\n", "18446744073709551615\n"] {
        let disk = DiskState { redo: redo.into(), ..states[1].clone() };
        check_start(&disk, &states[1].log).unwrap();
    }
}
