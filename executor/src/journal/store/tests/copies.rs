//! Copies of a run database: each run in it can be restored, or is set aside alone.

use super::*;
use crate::backup::{RestoredRuns, check_runs, copy_runs, restore_runs};
use crate::tests::world::TestClock;

/// A run database in a file, and the path of a copy.
struct Copied {
    store: RunStore,
    trust: TrustedVersions,
    database: ExecutorDatabase,
    copy: ExecutorDatabase,
    folder: TempDir,
}

impl Copied {
    async fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let [database, copy] =
            ["a.sqlite", "b.sqlite"].map(|name| ExecutorDatabase::File(folder.path().join(name)));
        let store = RunStore::open(&database, Durability::Full).await.unwrap();
        Self { store, trust: trust_of(&database).await, database, copy, folder }
    }

    async fn create(&self, run: u128, lease: Option<LeaseTerms>) {
        let new = NewRun { documents: BTreeMap::new(), lease, ..new_run(run) };
        self.store.create_durably(new, &self.trust).await.unwrap();
    }

    async fn append(&self, run: u128, seq: u64, kind: EventKind) {
        let (event, changes) = (event(run, seq, kind), SealedChanges::default());
        self.store.append(event, LeaseEpoch::FIRST, changes, Arc::default()).await.unwrap();
    }

    /// Changes the database, copies it, checks the copy and restores it. Returns the result, and the store of
    /// the copy.
    async fn restore(&self, change: &str) -> (RestoredRuns, RunStore) {
        let mut behind = Behind::to(&self.database).await;
        behind.change(change).await;
        behind.close().await;
        let [from, to] = ["a.sqlite", "b.sqlite"].map(|name| self.folder.path().join(name));
        copy_runs(&from, &to).await.unwrap();
        let bytes = std::fs::read(&to).unwrap();
        let checked = check_runs(&to).await.unwrap();
        assert_eq!(std::fs::read(&to).unwrap(), bytes, "a check changes nothing");
        assert_eq!(restore_runs(&to, &TestClock::default()).await.unwrap(), checked);
        (checked, RunStore::open(&self.copy, Durability::Full).await.unwrap())
    }
}

/// The status in the row of a run, and its last event.
async fn read(store: &RunStore, run: u128) -> (RunStatus, Option<EventKind>) {
    let run = Uuid::from_u128(run);
    let row = store.read_run(run).await.unwrap().unwrap();
    let last = store.read_all_events(run, 10).await.unwrap().pop();
    (row.status, last.map(|event| event.kind))
}

#[tokio::test]
async fn run_that_just_left_the_queue_can_be_restored() {
    let copied = Copied::new().await;
    copied.create(1, None).await;
    // The claim is committed, and its event is not.
    assert_eq!(claim(&copied.store, ONE).await, [(1, 2)]);
    let (restored, store) = copied.restore("SELECT 1").await;
    assert_eq!(restored, RestoredRuns { runs: 1, suspended: 1, damaged: 0 });
    let (status, last) = read(&store, 1).await;
    assert_eq!(status, RunStatus::Waiting);
    assert!(matches!(last, Some(EventKind::RunWaiting { error }) if error.code == "A2S379"));
}

#[tokio::test]
async fn damaged_run_in_a_copy_is_set_aside_alone() {
    for (damage, events) in [
        ("DELETE FROM event WHERE run = '{1}' AND seq = 3", 3),
        ("DELETE FROM event WHERE run = '{1}' AND seq = 1", 0),
        ("UPDATE event SET event = '{' WHERE run = '{1}' AND seq = 2", 2),
        ("DELETE FROM event WHERE run = '{1}'", 0),
        ("UPDATE run SET status = 'succeeded', ended_at = 1 WHERE id = '{1}'", 5),
    ] {
        let copied = Copied::new().await;
        for run in [1, 2] {
            copied.create(run, Some(lease(ONE))).await;
            for (seq, kind) in [(2, step()), (3, sending()), (4, step_finished())] {
                copied.append(run, seq, kind).await;
            }
        }
        copied.append(2, 5, finished(RunStatus::Succeeded)).await;
        let damage = damage.replace("{1}", &Uuid::from_u128(1).to_string());
        let (restored, store) = copied.restore(&damage).await;
        assert_eq!(restored, RestoredRuns { runs: 2, suspended: 0, damaged: 1 }, "{damage}");
        let (status, last) = read(&store, 1).await;
        assert_eq!(status, RunStatus::Failed, "{damage}");
        let all = store.read_all_events(Uuid::from_u128(1), 10).await.unwrap();
        assert_eq!(all.len(), events, "{damage}");
        let is_failed = |last| matches!(last, EventKind::RunFinished { error: Some(error), .. } if error.code == "A2S379");
        assert!(last.is_none_or(is_failed), "{damage}");
        assert_eq!(claim(&store, OTHER).await, [], "{damage}");
        assert_eq!(read(&store, 2).await.0, RunStatus::Succeeded, "{damage}");
    }
}

#[tokio::test]
async fn journal_of_a_run_decides_about_its_end() {
    let copied = Copied::new().await;
    copied.create(1, Some(lease(ONE))).await;
    copied.append(1, 2, finished(RunStatus::Succeeded)).await;
    let change = "UPDATE run SET status = 'running', ended_at = NULL";
    let (restored, store) = copied.restore(change).await;
    assert_eq!(restored, RestoredRuns { runs: 1, suspended: 0, damaged: 1 });
    assert_eq!(read(&store, 1).await.0, RunStatus::Succeeded);
}
