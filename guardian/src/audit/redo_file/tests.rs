//! Faults of the disk: acknowledged records survive failed writes and flushes, crashes and power cuts.

use std::collections::BTreeSet;
use std::path::PathBuf;

use proptest::prelude::*;
use serde_json::json;

use super::super::disk_model::{self, Fault};
use super::super::hash_chain::{HashChain, Options};
use super::super::records::{LogStart, RecordReader, verify};
use super::*;

const OPTIONS: Options = Options { sync: true, max_bytes: None, segment_bytes: 3_000 };

/// A log on a modelled disk, with the numbers of its acknowledged records.
struct TestLog {
    folder: tempfile::TempDir,
    chain: Option<HashChain>,
    acknowledged: BTreeSet<u64>,
    /// The number of records that were written or lost.
    entries: u64,
}

impl Drop for TestLog {
    fn drop(&mut self) {
        self.chain = None;
        disk_model::end();
    }
}

impl TestLog {
    fn begin() -> Self {
        disk_model::begin();
        // In memory, the flushes of the folder and of the checkpoint take no time.
        let memory = Path::new("/dev/shm");
        let folder = match memory.exists() {
            true => tempfile::tempdir_in(memory).unwrap(),
            false => tempfile::tempdir().unwrap(),
        };
        let mut log = Self { folder, chain: None, acknowledged: BTreeSet::new(), entries: 0 };
        log.open();
        log
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("audit.jsonl")
    }

    fn open(&mut self) {
        self.chain = HashChain::open(&self.path(), OPTIONS).ok().map(|(chain, _)| chain);
    }

    /// Appends records with texts of these lengths. Returns true when they are acknowledged.
    fn append(&mut self, lengths: &[usize]) -> bool {
        let Some(chain) = &mut self.chain else { return false };
        let numbers = self.entries..self.entries + lengths.len() as u64;
        self.entries = numbers.end;
        let entry = |(n, length): (u64, &usize)| json!({ "n": n, "text": "x".repeat(*length) });
        let entries: Vec<_> =
            numbers.clone().zip(lengths).map(|pair| entry(pair).to_string()).collect();
        let is_acknowledged = chain.append(&entries).is_ok();
        if is_acknowledged {
            self.acknowledged.extend(numbers);
        }
        is_acknowledged
    }

    /// Stops the process at once, after a power cut if there is a mask, and starts it again on a healthy disk.
    fn crash(&mut self, power_cut: Option<u64>) {
        disk_model::stop_after(0);
        self.chain = None;
        disk_model::restart(self.folder.path(), power_cut);
        self.open();
    }

    /// Checks that the log is open, whole, and has each acknowledged record.
    fn check(&self) -> Result<(), TestCaseError> {
        prop_assert!(self.chain.is_some(), "the log does not open");
        let mut found = BTreeSet::new();
        for record in RecordReader::open(&self.path(), &LogStart::First).unwrap() {
            let record = record.map_err(|broken| TestCaseError::fail(broken.to_string()))?;
            found.extend(record["n"].as_u64());
        }
        let lost: Vec<_> = self.acknowledged.difference(&found).collect();
        prop_assert!(lost.is_empty(), "lost records: {lost:?}");
        Ok(())
    }
}

#[derive(Clone, Debug)]
enum Step {
    Append(Vec<usize>),
    Fail(Fault),
    StopAfter(u32),
    Crash(Option<u64>),
    /// Stops the process in order, and starts it again.
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let length = prop_oneof![20 => 1_usize..400, 1 => 1_000_usize..6_000];
    let append = prop::collection::vec(length, 1..5).prop_map(Step::Append);
    let fault = (0_u32..8, 1_u32..4, any::<u64>(), any::<bool>());
    let fault = fault.prop_map(|(after, times, mask, is_forgetful)| {
        Step::Fail(Fault { after, times, mask, is_forgetful })
    });
    let step = prop_oneof![
        12 => append,
        3 => fault,
        2 => (0_u32..12).prop_map(Step::StopAfter),
        2 => any::<Option<u64>>().prop_map(Step::Crash),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 1..60)
}

/// Takes steps, and checks the log after each start.
fn check_steps(steps: &[Step], last_cut: u64) -> Result<(), TestCaseError> {
    let mut log = TestLog::begin();
    for (step, cut) in steps.iter().zip((0..).map(|n| last_cut.rotate_left(n))) {
        match step {
            Step::Append(lengths) => drop(log.append(lengths)),
            Step::Fail(fault) => disk_model::set_fault(*fault),
            Step::StopAfter(operations) => disk_model::stop_after(*operations),
            Step::Crash(power_cut) => {
                log.crash(*power_cut);
                log.check()?;
            }
            Step::Restart => {
                log.chain = None;
                log.open();
            }
        }
        if disk_model::is_stopped() || log.chain.is_none() {
            log.crash((cut & 1 == 1).then_some(cut));
            log.check()?;
        }
    }
    log.crash(Some(last_cut));
    log.check()?;
    log.append(&[1]);
    log.crash(Some(0));
    log.check()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn faults_of_the_disk_lose_no_acknowledged_record(steps in steps(), last_cut: u64) {
        check_steps(&steps, last_cut)?;
    }
}

/// The first failed operation after `after` others, each forgetting or keeping what it had written.
fn failures(after: std::ops::Range<u32>) -> impl Iterator<Item = Fault> {
    after.flat_map(|after| {
        let fault = move |is_forgetful| Fault { after, times: 1, mask: 0, is_forgetful };
        [fault(true), fault(false)]
    })
}

#[test]
fn one_failed_flush_and_a_power_cut_lose_no_record() {
    // Enough for several passes and segments.
    for fault in failures(0..80) {
        let mut steps = vec![Step::Append(vec![100]); 60];
        steps.insert(0, Step::Fail(fault));
        check_steps(&steps, 0).unwrap();
    }
}

#[test]
fn stop_at_any_operation_of_a_rotation_loses_no_record() {
    for (operations, cut) in (0..60).flat_map(|n| [(n, 0), (n, 1), (n, u64::MAX)]) {
        let mut steps = vec![Step::Append(vec![600]); 20];
        steps.insert(0, Step::StopAfter(operations));
        check_steps(&steps, cut).unwrap();
    }
}

/// The files of a log that a process without an ordered end leaves, after these entries.
fn files_of(entries: &[&str]) -> (tempfile::TempDir, LogFiles) {
    let folder = tempfile::tempdir().unwrap();
    let files = LogFiles::new(&folder.path().join("audit.jsonl"));
    let (mut chain, _) = HashChain::open(files.active_path(), OPTIONS).unwrap();
    for entry in entries {
        chain.append(&[json!({ "text": entry }).to_string()]).unwrap();
    }
    let redo = std::fs::read(files.redo_path()).unwrap();
    drop(chain);
    std::fs::write(files.redo_path(), redo).unwrap();
    (folder, files)
}

fn open(files: &LogFiles) -> Result<HashChain, Error> {
    HashChain::open(files.active_path(), OPTIONS).map(|(chain, _)| chain)
}

#[test]
fn a_redo_file_with_later_records_than_the_log_is_a_loss() {
    let (_folder, files) = files_of(&["a"]);
    drop(open(&files).unwrap());
    // The next process begins its pass after the first record.
    let mut chain = open(&files).unwrap();
    for _ in 0..3 {
        chain.append(&[json!({ "text": "b" }).to_string()]).unwrap();
    }
    let redo = std::fs::read(files.redo_path()).unwrap();
    drop(chain);
    let log = std::fs::read(files.active_path()).unwrap();
    let first = log.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    for left in [0, 10, first - 1] {
        std::fs::write(files.redo_path(), &redo).unwrap();
        std::fs::write(files.active_path(), &log[..left]).unwrap();
        let error = open(&files).unwrap_err().to_string();
        assert!(error.contains("ends with record 0, but audit.redo has record 2"), "{error}");
        assert_eq!(std::fs::read(files.redo_path()).unwrap(), redo);
    }
    std::fs::write(files.active_path(), &log[..first]).unwrap();
    drop(open(&files).unwrap());
    assert_eq!(std::fs::read(files.active_path()).unwrap(), log);
}

#[test]
fn a_hole_of_zeros_is_filled_from_the_redo_file() {
    let (_folder, files) = files_of(&["a", "b", "c"]);
    let log = std::fs::read(files.active_path()).unwrap();
    let mut damaged = log.clone();
    damaged[log.len() / 3..log.len() * 2 / 3].fill(0);
    std::fs::write(files.active_path(), &damaged).unwrap();
    let broken = verify(files.active_path()).unwrap_err().to_string();
    assert!(broken.contains("line 2 of audit.jsonl has zero bytes"), "{broken}");
    drop(open(&files).unwrap());
    assert_eq!(std::fs::read(files.active_path()).unwrap(), log);
}

#[test]
fn a_redo_file_of_another_log_is_not_used() {
    let (_folder, files) = files_of(&["a", "b", "c"]);
    let (_other_folder, other) = files_of(&["d", "e"]);
    std::fs::copy(other.redo_path(), files.redo_path()).unwrap();
    let log = std::fs::read(files.active_path()).unwrap();
    let mut chain = open(&files).unwrap();
    assert_eq!(std::fs::read(files.active_path()).unwrap(), log);
    chain.append(&[r#"{"n":1}"#]).unwrap();
    assert_eq!(verify(files.active_path()).unwrap().records, 4);
}

#[test]
fn an_unusable_redo_file_is_replaced() {
    for redo in ["", "x", "\n", "x\n", "9999999\n", "18446744073709551615\n"] {
        let (_folder, files) = files_of(&["a", "b"]);
        std::fs::write(files.redo_path(), redo).unwrap();
        open(&files).unwrap().append(&[r#"{"n":1}"#]).unwrap();
        assert_eq!(verify(files.active_path()).unwrap().records, 3);
    }
}
