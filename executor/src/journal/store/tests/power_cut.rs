//! Power cuts: what was written after the last flush may be missing, from any byte on.

use std::path::{Path, PathBuf};

use super::start::pin;
use super::*;

/// The distance between the tested cuts, which is no multiple of a page.
const CUT_DISTANCE: usize = 509;

/// The files of a database.
#[derive(Clone)]
struct DiskState {
    database: Vec<u8>,
    lock: Vec<u8>,
    log: Vec<u8>,
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    PathBuf::from(format!("{}{suffix}", path.display()))
}

impl DiskState {
    fn read(path: &Path) -> Self {
        let read = |suffix| std::fs::read(with_suffix(path, suffix)).unwrap();
        Self { database: read(""), lock: read(".lock"), log: read("-wal") }
    }

    fn write(&self, path: &Path) {
        let write = |suffix, bytes| std::fs::write(with_suffix(path, suffix), bytes).unwrap();
        write("", &self.database);
        write(".lock", &self.lock);
        write("-wal", &self.log);
    }

    /// The states that a power cut between two states of a growing log leaves.
    fn cuts(&self, later: &Self) -> Vec<Self> {
        assert!(later.log.starts_with(&self.log) && later.database == self.database);
        let ends = (self.log.len()..later.log.len()).step_by(CUT_DISTANCE);
        let ends = ends.chain([later.log.len()]);
        ends.map(|end| Self { log: later.log[..end].to_vec(), ..self.clone() }).collect()
    }
}

/// A store in a file, as an executor finds it after a power cut.
struct Restart {
    store: RunStore,
    trust: TrustedVersions,
    _folder: TempDir,
}

impl Restart {
    async fn after(cut: &DiskState) -> Self {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("runs.sqlite");
        cut.write(&path);
        let database = ExecutorDatabase::File(path);
        let store = RunStore::open(&database, Durability::Full).await.unwrap();
        Self { store, trust: trust_of(&database).await, _folder: folder }
    }

    async fn numbers(&self) -> Vec<u64> {
        let events = self.store.read_events(Uuid::from_u128(1), 0, 10).await.unwrap();
        events.iter().map(|event| event.seq).collect()
    }
}

#[tokio::test]
async fn a_power_cut_loses_no_acknowledged_event() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("runs.sqlite");
    let database = ExecutorDatabase::File(path.clone());
    let store = RunStore::open(&database, Durability::Full).await.unwrap();
    let trust = trust_of(&database).await;
    let nobody = || Arc::new(watch::Sender::new(0));
    let later = |seq, kind| {
        let besides = SealedChanges::default();
        store.append_later(event(1, seq, kind), LeaseEpoch::FIRST, besides, nobody());
    };

    let opened = DiskState::read(&path);
    let new = NewRun { unknown: vec![pin("a")], ..new_run(1) };
    assert_eq!(store.create_durably(new, &trust).await.unwrap(), CreateResult::New);
    let started = DiskState::read(&path);
    // A step that changes nothing: nobody waits for its events.
    later(2, step());
    later(3, step_finished());
    store.check_writer().await.unwrap();
    let recorded = DiskState::read(&path);
    let (sent, besides) = (event(1, 4, sending()), SealedChanges::default());
    store.append(sent, LeaseEpoch::FIRST, besides, nobody()).await.unwrap();
    let acknowledged = DiskState::read(&path);

    for cut in opened.cuts(&started) {
        let restart = Restart::after(&cut).await;
        let unknown = restart.trust.check(&[pin("a")]).await.unwrap().len();
        let documents = restart.store.read_documents(&[Digest::of_bytes(b"doc")]).await.unwrap();
        // All of a start, or nothing.
        let written = (restart.numbers().await.len(), documents.len(), 1 - unknown);
        assert!([(0, 0, 0), (1, 1, 1)].contains(&written), "{written:?}");
    }
    for cut in started.cuts(&recorded) {
        let restart = Restart::after(&cut).await;
        let numbers = restart.numbers().await;
        assert!([&[1][..], &[1, 2, 3]].contains(&numbers.as_slice()), "{numbers:?}");
        // The run continues from there.
        assert_eq!(claim(&restart.store, OTHER).await, [(1, 3)]);
        let next = event(1, numbers.len() as u64 + 1, EventKind::RunResumed {});
        let besides = SealedChanges::default();
        restart.store.append(next, LeaseEpoch(3), besides, nobody()).await.unwrap();
    }
    for cut in recorded.cuts(&acknowledged) {
        let numbers = Restart::after(&cut).await.numbers().await;
        assert!([&[1, 2, 3][..], &[1, 2, 3, 4]].contains(&numbers.as_slice()), "{numbers:?}");
    }
    assert_eq!(Restart::after(&acknowledged).await.numbers().await, [1, 2, 3, 4]);
}

#[tokio::test]
async fn damaged_log_that_loses_the_last_event_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("executor.sqlite");
    let database = ExecutorDatabase::File(path.clone());
    let store = RunStore::open(&database, Durability::Full).await.unwrap();
    let trust = trust_of(&database).await;
    store.create_durably(new_run(1), &trust).await.unwrap();
    let append = async |seq, kind| {
        let (event, changes) = (event(1, seq, kind), SealedChanges::default());
        store.append(event, LeaseEpoch::FIRST, changes, Arc::default()).await.unwrap();
    };
    append(2, step()).await;
    // As a process leaves it that was killed.
    let copy_all = || {
        let copies = tempfile::tempdir().unwrap();
        for suffix in ["", ".lock", "-wal", "-shm"] {
            let copy = copies.path().join("executor.sqlite");
            std::fs::copy(with_suffix(&path, suffix), with_suffix(&copy, suffix)).unwrap();
        }
        copies
    };
    let open = async |copies: &TempDir| {
        let database = ExecutorDatabase::File(copies.path().join("executor.sqlite"));
        RunStore::open(&database, Durability::Full).await.map(drop)
    };
    open(&copy_all()).await.unwrap();
    let copies = copy_all();
    let log = copies.path().join("executor.sqlite-wal");
    let mut bytes = std::fs::read(&log).unwrap();
    let at = bytes.len() - 100;
    bytes[at] ^= 1;
    std::fs::write(&log, bytes).unwrap();
    for _ in 0..2 {
        let refused = open(&copies).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::DatabaseMissing);
        let run = Uuid::from_u128(1).to_string();
        assert!(refused.message.contains(&run), "{}", refused.message);
    }
    // A deleted run is not missed.
    append(3, finished(RunStatus::Failed)).await;
    assert!(store.delete(Uuid::from_u128(1)).await.unwrap());
    open(&copy_all()).await.unwrap();
}
