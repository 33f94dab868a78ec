//! Rotation and checkpoints, also where a crash comes between.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::hash_chain::{HashChain, Options};
use super::records::{LogCorruption, LogStart, RecordReader, verify};
use super::restore_state::{apply_record, restore_state};
use crate::policy::{PolicyState, SavedPolicyState};

const NOW: &str = "2026-05-06T08:00:00Z";

/// The files of a folder by name.
type Files = BTreeMap<String, Vec<u8>>;

fn options(segment_bytes: u64) -> Options {
    Options { sync: false, max_bytes: None, segment_bytes }
}

fn open(path: &Path) -> (HashChain, Option<u64>) {
    HashChain::open(path, options(900)).unwrap()
}

/// A decision that uses up, asks for or uses something; and what a person says between.
fn entry(n: u64) -> String {
    let time = format!("2026-05-06T07:{:02}:{:02}Z", n / 60, n % 60);
    let approval = |state: &str| {
        json!({
            "id": format!("a{}", n / 4), "rule": "r", "binding": "sha256:b", "state": state,
            "asked": time, "until": "2026-05-06T09:00:00Z", "within_seconds": 3600,
        })
    };
    let mut entry = json!({
        "event": "decision", "time": time,
        "charges": [{"rule": "r", "key": "session:s", "amount": n}],
    });
    match n % 4 {
        0 => {
            entry["approval"] = approval("waiting");
            entry["approval"]["is"] = "asked".into();
        }
        1 => entry = json!({"event": "approval", "time": time, "approval": approval("approved")}),
        2 if n % 8 == 2 => entry["approval"] = json!({"is": "used", "id": format!("a{}", n / 4)}),
        _ => {}
    }
    entry.to_string()
}

fn files_of(dir: &Path) -> Files {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    let files = entries.map(|entry| {
        let name = entry.file_name().into_string().unwrap();
        (name, std::fs::read(entry.path()).unwrap())
    });
    files.filter(|(name, _)| name != "audit.lock").collect()
}

fn put(files: &Files) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        std::fs::write(dir.path().join(name), bytes).unwrap();
    }
    let path = dir.path().join("audit.jsonl");
    (dir, path)
}

/// The files of a log of so many entries, one written after the other.
fn log_of(entries: u64) -> Files {
    let (dir, path) = put(&Files::new());
    let (mut chain, _) = open(&path);
    (0..entries).for_each(|n| chain.append(&[entry(n)]).unwrap());
    drop(chain);
    files_of(dir.path())
}

/// What the whole records of all segments come to, read without any of the code under test.
fn fold(files: &Files) -> (usize, SavedPolicyState) {
    let closed =
        files.iter().filter(|(name, _)| name.ends_with(".jsonl") && *name != "audit.jsonl");
    let all = closed.chain(files.get_key_value("audit.jsonl"));
    let text: Vec<u8> = all.flat_map(|(_, bytes)| bytes.clone()).collect();
    let text = String::from_utf8(text).unwrap();
    let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
    let mut memory = PolicyState::default();
    for line in whole.lines() {
        apply_record(&serde_json::from_str::<Value>(line).unwrap(), &mut memory);
    }
    memory.remove_expired(NOW.parse().unwrap());
    (whole.lines().count(), SavedPolicyState::from(&memory))
}

/// Whether a guardian that starts over these files knows what they say, and goes on with the chain.
#[track_caller]
fn check_start(files: &Files, what: &str) {
    let (records, expected) = fold(files);
    let (_dir, path) = put(files);
    let (mut chain, _) = open(&path);
    let memory =
        restore_state(&path, NOW.parse().unwrap()).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert_eq!(SavedPolicyState::from(&memory), expected, "{what}");
    chain.write_checkpoint();
    chain.append(&[r#"{"event":"next","time":"2026-05-06T07:59:00Z"}"#]).unwrap();
    drop(chain);
    let verified = verify(&path).unwrap_or_else(|broken| panic!("{what}: {broken}"));
    let more = usize::try_from(verified.records).unwrap() - records;
    assert!((1..=2).contains(&more), "{what}: one record more, and that of a segment: {more}");
    let memory = restore_state(&path, NOW.parse().unwrap()).unwrap();
    assert_eq!(SavedPolicyState::from(&memory), expected, "{what}: after the checkpoint");
}

/// Every state that the files have while one entry is written, if the machine stops there.
fn cuts(before: &Files, after: &Files) -> Vec<(String, Files)> {
    let mut cuts = Vec::new();
    let mut state = before.clone();
    let closed = |files: &Files| files.keys().filter(|name| name.len() == 18).count();
    if closed(before) < closed(after) {
        let name = format!("audit.{:06}.jsonl", closed(after));
        let bytes = state.remove("audit.jsonl").unwrap();
        state.insert(name, bytes);
        cuts.push(("renamed".to_owned(), state.clone()));
        state.insert("audit.jsonl".to_owned(), Vec::new());
        cuts.push(("begun".to_owned(), state.clone()));
    }
    let from = state.get("audit.jsonl").map_or(0, Vec::len);
    let to = &after["audit.jsonl"];
    for cut in from..=to.len() {
        state.insert("audit.jsonl".to_owned(), to[..cut].to_vec());
        cuts.push((format!("byte {cut} of the segment"), state.clone()));
    }
    if let Some(checkpoint) = after.get("audit.checkpoint")
        && before.get("audit.checkpoint") != Some(checkpoint)
    {
        for cut in (0..=checkpoint.len()).step_by(13) {
            state.insert("audit.checkpoint.part".to_owned(), checkpoint[..cut].to_vec());
            cuts.push((format!("byte {cut} of the checkpoint"), state.clone()));
        }
        state.remove("audit.checkpoint.part");
        state.insert("audit.checkpoint".to_owned(), checkpoint.clone());
        cuts.push(("checkpoint renamed".to_owned(), state));
    }
    cuts
}

#[test]
fn a_crash_at_any_point_loses_nothing() {
    let states: Vec<_> = (0..=24).map(log_of).collect();
    let rotations = states.last().unwrap().keys().filter(|name| name.len() == 18).count();
    assert!(3 <= rotations, "the test rotates: {rotations}");
    let mut had_rotation = false;
    for (n, pair) in states.windows(2).enumerate() {
        let is_rotation = pair[0].len() < pair[1].len();
        // Cuts within a segment are alike; those of rotations are all tried.
        if n % 6 != 3 && !is_rotation || !pair[0].contains_key("audit.jsonl") {
            continue;
        }
        had_rotation |= is_rotation;
        let cuts = cuts(&pair[0], &pair[1]);
        for (place, (what, files)) in cuts.iter().enumerate() {
            if what.starts_with("byte") && place % 29 != 0 {
                continue;
            }
            check_start(files, &format!("entry {n}, {what}"));
        }
    }
    assert!(had_rotation);
}

#[test]
fn a_start_reads_what_came_after_the_checkpoint_alone() {
    let files = log_of(24);
    let mut spoilt = files.clone();
    // What the checkpoint covers is not read again: it could not be.
    let first = spoilt.get_mut("audit.000001.jsonl").unwrap();
    first.iter_mut().for_each(|byte| *byte = b'x');
    let (_dir, path) = put(&spoilt);
    let memory = restore_state(&path, NOW.parse().unwrap()).unwrap();
    assert_eq!(SavedPolicyState::from(&memory), fold(&files).1);
    assert!(verify(&path).unwrap_err().to_string().contains("line 1 of audit.000001.jsonl"));
}

#[test]
fn a_damaged_checkpoint_is_made_again() {
    let mut files = log_of(24);
    let whole = files["audit.checkpoint"].clone();
    for place in (0..whole.len()).step_by(37) {
        let mut damaged = whole.clone();
        damaged[place] ^= 1;
        files.insert("audit.checkpoint".to_owned(), damaged);
        check_start(&files, &format!("byte {place}"));
    }
    files.remove("audit.checkpoint");
    check_start(&files, "none");
    // Without the segments it cannot be made, and nothing is forgotten for it.
    files.remove("audit.000001.jsonl");
    let (_dir, path) = put(&files);
    let broken = restore_state(&path, NOW.parse().unwrap()).unwrap_err();
    assert!(matches!(broken, LogCorruption::Missing { segment: 1, .. }), "{broken}");
}

#[test]
fn verify_checks_all_segments_and_names_the_one_that_is_damaged() {
    let files = log_of(24);
    let (_dir, path) = put(&files);
    let whole = verify(&path).unwrap();
    assert_eq!(whole.segments, files.keys().filter(|name| name.ends_with(".jsonl")).count() as u64);
    for name in files.keys().filter(|name| name.ends_with(".jsonl")) {
        let bytes = &files[name];
        for place in (0..bytes.len()).step_by(101) {
            let mut changed = files.clone();
            changed.get_mut(name).unwrap()[place] ^= 1;
            let (_dir, path) = put(&changed);
            let broken = verify(&path).unwrap_err().to_string();
            let number = &name["audit.".len()..];
            assert!(broken.contains(name) || broken.contains("missing"), "{number} {broken}");
        }
        // Its end cut off, and gone altogether.
        let cut = bytes.iter().take(bytes.len() - 1).rposition(|&b| b == b'\n').unwrap() + 1;
        for kept in [cut, 0] {
            let mut changed = files.clone();
            changed.get_mut(name).unwrap().truncate(kept);
            let (_dir, path) = put(&changed);
            let verified = verify(&path);
            match name.as_str() {
                // A chain does not show that its very end is gone; its head is kept elsewhere.
                "audit.jsonl" => assert_ne!(verified.unwrap().head, whole.head),
                _ => assert!(verified.is_err(), "{name} cut to {kept}"),
            }
        }
    }
}

#[test]
fn a_missing_segment_is_found() {
    let files = log_of(24);
    for number in 1..=3_u64 {
        let mut without = files.clone();
        without.remove(&format!("audit.{number:06}.jsonl")).unwrap();
        let (_dir, path) = put(&without);
        let broken = verify(&path).unwrap_err();
        assert!(
            matches!(&broken, LogCorruption::Missing { segment, .. } if *segment == number),
            "{number}: {broken}"
        );
    }
}

#[test]
fn archived_segments_are_followed_from_their_head() {
    let files = log_of(24);
    let (_dir, path) = put(&files);
    let whole = verify(&path).unwrap();
    let last = |name: &str| {
        let text = String::from_utf8(files[name].clone()).unwrap();
        let record: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        record["digest"].as_str().unwrap().to_owned()
    };
    let head = last("audit.000002.jsonl");
    let mut kept = files.clone();
    kept.retain(|name, _| !["audit.000001.jsonl", "audit.000002.jsonl"].contains(&name.as_str()));
    let (_dir, path) = put(&kept);
    let read = |start: &LogStart| {
        let mut records = RecordReader::open(&path, start)?;
        records.by_ref().try_for_each(|record| record.map(drop))?;
        Ok::<_, LogCorruption>(records.verified().clone())
    };
    assert!(matches!(read(&LogStart::First), Err(LogCorruption::Missing { segment: 1, .. })));
    let verified = read(&LogStart::After(head.clone())).unwrap();
    assert_eq!((verified.records, &verified.head), (whole.records, &whole.head));
    assert_eq!(verified.follows.as_deref(), Some(head.as_str()));
    assert_eq!(read(&LogStart::Oldest).unwrap(), verified);
    assert!(
        read(&LogStart::After(last("audit.000001.jsonl"))).is_err(),
        "a segment between is gone"
    );
    // The guardian goes on without them.
    let expected = fold(&files).1;
    let (mut chain, _) = open(&path);
    assert_eq!(
        SavedPolicyState::from(&restore_state(&path, NOW.parse().unwrap()).unwrap()),
        expected
    );
    chain.append(&[entry(25)]).unwrap();
    drop(chain);
    assert!(read(&LogStart::After(head)).is_ok());
}

/// A log of before there were segments is the first of them.
#[test]
fn a_single_file_is_taken_as_the_first_segment() {
    let (dir, path) = put(&Files::new());
    let (mut chain, _) = HashChain::open(&path, options(u64::MAX)).unwrap();
    (0..24).for_each(|n| chain.append(&[entry(n)]).unwrap());
    drop(chain);
    let single = files_of(dir.path());
    assert_eq!(single.len(), 1);
    check_start(&single, "a single file");
    let (dir, path) = put(&single);
    open(&path).0.append(&[entry(25)]).unwrap();
    let files = files_of(dir.path());
    assert_eq!(files["audit.000001.jsonl"], single["audit.jsonl"]);
    assert_eq!(verify(&path).unwrap().segments, 2);
}

/// What is in the way of a rotation is not overwritten, and nothing is written elsewhere.
#[test]
fn a_rotation_that_fails_is_tried_again() {
    let (dir, path) = put(&Files::new());
    let (mut chain, _) = open(&path);
    let mut n = 0;
    while std::fs::metadata(&path).unwrap().len() < 900 {
        chain.append(&[entry(n)]).unwrap();
        n += 1;
    }
    let obstacle = dir.path().join("audit.000001.jsonl");
    std::fs::write(&obstacle, "x").unwrap();
    let before = std::fs::read(&path).unwrap();
    assert!(chain.append(&[entry(n)]).is_err());
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert_eq!(std::fs::read(&obstacle).unwrap(), b"x");
    std::fs::remove_file(&obstacle).unwrap();
    chain.append(&[entry(n)]).unwrap();
    assert_eq!(verify(&path).unwrap().segments, 2);
}
