use std::collections::BTreeMap as Map;
use std::path::PathBuf;

use a2s::CapabilityName;
use a2s::api::{EventKind, Pin, RunError};
use tempfile::TempDir;

use super::*;

/// A database, and a clock that stands where a test puts it.
struct Fixture {
    store: Store,
    path: PathBuf,
    _folder: TempDir,
}

const ONE: Uuid = Uuid::from_u128(1);
const OTHER: Uuid = Uuid::from_u128(2);

impl Fixture {
    async fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("a/b/runs.sqlite");
        let store = Store::open(&path, Durability::Normal).await.unwrap();
        Self { store, path, _folder: folder }
    }

    async fn create(&self, run: u128, key: Option<&str>, until: i64) -> Created {
        self.create_planned(run, key, until, None).await
    }

    async fn create_planned(
        &self,
        run: u128,
        key: Option<&str>,
        until: i64,
        plan: Option<Digest>,
    ) -> Created {
        let asked = Digest::of_bytes(key.unwrap_or_default().as_bytes());
        let new = NewRun {
            name: CapabilityName::new("Dogs").unwrap(),
            choices: "{}".to_owned(),
            documents: vec![(Digest::of_bytes(b"doc"), b"doc".to_vec())],
            key: key.map(str::to_owned),
            request_digest: asked,
            plan,
            first: event(run, 1, started()),
            sealed: None,
            lease: lease(ONE, until),
        };
        self.store.create(new).await.unwrap()
    }

    async fn append(&self, run: u128, seq: u64, kind: EventKind) -> Result<(), Kind> {
        let committed = Arc::new(watch::Sender::new(0));
        let appended = self.store.append(event(run, seq, kind), None, Arc::clone(&committed)).await;
        assert_eq!(*committed.borrow(), if appended.is_ok() { seq } else { 0 });
        appended.map_err(|error| error.kind)
    }

    async fn claim(&self, owner: Uuid, now: i64) -> Vec<u128> {
        let claimed = self.store.claim(lease(owner, now + 30), at(now), 10).await.unwrap();
        claimed.iter().map(Uuid::as_u128).collect()
    }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn lease(owner: Uuid, until: i64) -> Lease {
    Lease { owner, until: at(until) }
}

fn event(run: u128, seq: u64, kind: EventKind) -> Event {
    Event { v: 1, seq, run: Uuid::from_u128(run), at: at(0), kind }
}

fn started() -> EventKind {
    let capability = Pin {
        name: CapabilityName::new("Dogs").unwrap(),
        version: "1.0.0".parse().unwrap(),
        checksum: Digest::of_bytes(b"doc"),
    };
    EventKind::RunStarted {
        capability,
        dependencies: Vec::new(),
        notices: Vec::new(),
        inputs: serde_json::Map::new(),
        secrets: Vec::new(),
        recalled: BTreeMap::new(),
        trigger: None,
        decisions: Vec::new(),
        session: "s".to_owned(),
        guarding: Vec::new(),
        upstreams: Map::new(),
        plan: None,
        trace: None,
    }
}

fn step() -> EventKind {
    EventKind::StepStarted { step: "a".to_owned(), kind: "task".to_owned(), capability: None }
}

fn finished(status: RunStatus) -> EventKind {
    EventKind::RunFinished { status, output: None, error: None, duration_ms: 0 }
}

fn waiting() -> EventKind {
    let error = RunError {
        code: "A2S371".to_owned(),
        step: None,
        attempt: None,
        status: None,
        message: String::new(),
        hint: String::new(),
        cause: None,
        next: None,
        repeat_safe: false,
    };
    EventKind::RunWaiting { error }
}

#[tokio::test]
async fn the_journal_has_one_writer_and_no_gap() {
    let fixture = Fixture::new().await;
    fixture.create(1, None, 30).await;
    assert_eq!(fixture.append(1, 3, step()).await, Err(Kind::LeaseLost), "a gap");
    assert_eq!(fixture.append(1, 2, step()).await, Ok(()));
    assert_eq!(fixture.append(1, 2, step()).await, Err(Kind::LeaseLost), "a second writer");
    assert_eq!(fixture.append(9, 1, step()).await, Err(Kind::LeaseLost), "no such run");
    assert_eq!(fixture.append(1, 3, finished(RunStatus::Failed)).await, Ok(()));
    assert_eq!(fixture.append(1, 4, step()).await, Err(Kind::LeaseLost), "after the end");
    let events = fixture.store.read_events(Uuid::from_u128(1), 0, 10).await.unwrap();
    assert_eq!(events.iter().map(|event| event.seq).collect::<Vec<_>>(), [1, 2, 3]);
    let page = fixture.store.read_events(Uuid::from_u128(1), 1, 1).await.unwrap();
    assert_eq!(page, events[1..2]);
    let row = fixture.store.read_run(Uuid::from_u128(1)).await.unwrap().unwrap();
    assert_eq!((row.status, row.choices.as_str()), (RunStatus::Failed, "{}"));
    assert!(fixture.store.read_run(Uuid::from_u128(9)).await.unwrap().is_none());
}

#[tokio::test]
async fn when_an_event_was_lost_every_later_one_fails() {
    let fixture = Fixture::new().await;
    fixture.create(1, None, 30).await;
    let nobody = || Arc::new(watch::Sender::new(0));
    // The second of three is out of turn, and nobody waits for it.
    fixture.store.append_soon(event(1, 2, step()), nobody());
    fixture.store.append_soon(event(1, 4, step()), nobody());
    assert_eq!(fixture.append(1, 5, step()).await, Err(Kind::LeaseLost));
}

#[tokio::test]
async fn a_run_is_driven_by_one_executor_until_its_lease_runs_out() {
    let fixture = Fixture::new().await;
    fixture.create(1, None, 30).await;
    fixture.create(2, None, 30).await;
    assert_eq!(fixture.claim(OTHER, 29).await, []);
    let cancelled = fixture.store.renew(lease(ONE, 60), vec![Uuid::from_u128(1)]).await.unwrap();
    assert!(cancelled.is_empty());
    // The second was not renewed.
    assert_eq!(fixture.claim(OTHER, 31).await, [2]);
    assert_eq!(fixture.claim(ONE, 31).await, [], "the other one has it now");
    assert_eq!(fixture.claim(OTHER, 61).await, [1]);
    fixture.store.release(OTHER).await.unwrap();
    assert_eq!(fixture.claim(ONE, 62).await, [1, 2]);
    // What waits or has ended is nobody's.
    assert_eq!(fixture.append(1, 2, waiting()).await, Ok(()));
    assert_eq!(fixture.append(2, 2, finished(RunStatus::Succeeded)).await, Ok(()));
    assert_eq!(fixture.claim(OTHER, 1_000).await, []);
}

#[tokio::test]
async fn a_wish_to_cancel_reaches_the_one_who_drives() {
    let fixture = Fixture::new().await;
    let run = Uuid::from_u128(1);
    fixture.create(1, None, 30).await;
    fixture.create(2, None, 30).await;
    fixture.store.request_cancel(run).await.unwrap();
    let live = vec![run, Uuid::from_u128(2)];
    assert_eq!(fixture.store.renew(lease(ONE, 60), live.clone()).await.unwrap(), [run]);
    assert_eq!(fixture.store.renew(lease(OTHER, 60), live).await.unwrap(), [] as [Uuid; 0]);
    assert!(fixture.store.read_run(run).await.unwrap().unwrap().cancel_requested);
}

#[tokio::test]
async fn a_key_belongs_to_the_first_run_that_has_it() {
    let fixture = Fixture::new().await;
    let digest = Digest::of_bytes(b"key");
    assert_eq!(fixture.create(1, Some("key"), 30).await, Created::New);
    let existing = Created::Existing(Uuid::from_u128(1), digest);
    assert_eq!(fixture.create(2, Some("key"), 30).await, existing);
    assert!(fixture.store.read_run(Uuid::from_u128(2)).await.unwrap().is_none());
    assert_eq!(fixture.store.find_key("key").await.unwrap(), Some((Uuid::from_u128(1), digest)));
    assert_eq!(fixture.store.find_key("other").await.unwrap(), None);
    assert_eq!(fixture.create(3, None, 30).await, Created::New);
    assert_eq!(fixture.create(4, None, 30).await, Created::New);
}

#[tokio::test]
async fn leases_of_dead_processes_are_dropped_and_those_of_living_ones_are_not() {
    let fixture = Fixture::new().await;
    fixture.create(1, None, 30).await;
    let second = Store::open(&fixture.path, Durability::Normal).await.unwrap();
    assert_eq!(second.claim(lease(OTHER, 60), at(0), 10).await.unwrap(), [] as [Uuid; 0]);
    drop(second);
    let Fixture { store, path, _folder } = fixture;
    drop(store);
    let third = Store::open(&path, Durability::Normal).await.unwrap();
    assert_eq!(third.claim(lease(OTHER, 60), at(0), 10).await.unwrap(), [Uuid::from_u128(1)]);
    let documents = third.read_documents(&[Digest::of_bytes(b"doc"), Digest::of_bytes(b"x")]).await;
    assert_eq!(documents.unwrap(), Map::from([(Digest::of_bytes(b"doc"), b"doc".to_vec())]));
}

#[tokio::test]
async fn a_page_of_lives_has_the_newest_runs_and_only_their_turns() {
    let fixture = Fixture::new().await;
    for run in 1..=3 {
        fixture.create(run, None, 30).await;
        fixture.append(run, 2, step()).await.unwrap();
        fixture.append(run, 3, finished(RunStatus::Succeeded)).await.unwrap();
    }
    let lives = async |before: Option<u128>, limit| -> Vec<Vec<(u128, u64)>> {
        let lives = fixture
            .store
            .read_lives(
                &RunFilter { before: before.map(Uuid::from_u128), ..RunFilter::default() },
                limit,
            )
            .await
            .unwrap();
        let turns = |life: &Vec<Event>| life.iter().map(|e| (e.run.as_u128(), e.seq)).collect();
        lives.iter().map(turns).collect()
    };
    assert_eq!(lives(None, 2).await, [[(3, 1), (3, 3)], [(2, 1), (2, 3)]]);
    assert_eq!(lives(Some(2), 2).await, [[(1, 1), (1, 3)]]);
}

#[tokio::test]
async fn events_that_are_out_of_turn_take_none_with_them_that_is_told_together_with_them() {
    let fixture = Fixture::new().await;
    fixture.create(1, None, 30).await;
    fixture.create(2, None, 30).await;
    fixture.append(1, 2, step()).await.unwrap();
    let committed = Arc::new(watch::Sender::new(0));
    // Sent before the writer wakes: one transaction.
    let told = [(1, 3), (1, 2), (2, 2), (1, 4), (3, 2), (1, 4), (2, 4), (1, 5), (2, 3)];
    let told = told.map(|(run, seq)| {
        fixture.store.append(event(run, seq, step()), None, Arc::clone(&committed))
    });
    let ended = futures::future::join_all(told).await;
    let ended: Vec<bool> = ended.iter().map(Result::is_ok).collect();
    assert_eq!(ended, [true, false, true, true, false, false, false, true, true]);
    for (run, last) in [(1, 5), (2, 3)] {
        let events = fixture.store.read_events(Uuid::from_u128(run), 0, 10).await.unwrap();
        assert_eq!(
            events.iter().map(|e| e.seq).collect::<Vec<_>>(),
            (1..=last).collect::<Vec<_>>()
        );
    }
}

#[tokio::test]
async fn nothing_follows_the_end_of_a_run_not_even_what_is_told_together_with_it() {
    let fixture = Fixture::new().await;
    fixture.create(1, None, 30).await;
    let committed = Arc::new(watch::Sender::new(0));
    let told = [step(), finished(RunStatus::Succeeded), step()].into_iter().zip(2..);
    let told = told
        .map(|(kind, seq)| fixture.store.append(event(1, seq, kind), None, Arc::clone(&committed)));
    let ended = futures::future::join_all(told.collect::<Vec<_>>()).await;
    assert_eq!(ended.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, true, false]);
}

#[tokio::test]
async fn what_is_over_waits_to_be_reported_until_that_is_marked() {
    let fixture = Fixture::new().await;
    for run in 1..=4 {
        fixture.create(run, None, 100).await;
    }
    for run in [1, 2, 3] {
        fixture.append(run, 2, finished(RunStatus::Succeeded)).await.unwrap();
    }
    let unreported = async |store: &Store, after: u128, limit: u32| -> Vec<u128> {
        let runs = store.read_unreported(Uuid::from_u128(after), limit).await.unwrap();
        runs.iter().map(Uuid::as_u128).collect()
    };
    assert_eq!(unreported(&fixture.store, 0, 10).await, [1, 2, 3]);
    assert_eq!(unreported(&fixture.store, 1, 1).await, [2]);
    fixture.store.mark_reported(vec![Uuid::from_u128(2)]).await.unwrap();
    // It is known to whoever opens the database next, who has the same name.
    let next = Store::open(&fixture.path, Durability::Normal).await.unwrap();
    assert_eq!(unreported(&next, 0, 10).await, [1, 3]);
    assert_eq!(next.identity(), fixture.store.identity());
    let in_memory = Store::open(&fixture.path, Durability::Memory).await.unwrap();
    assert_eq!(in_memory.identity(), fixture.store.identity());
}

#[tokio::test]
async fn a_plan_begins_one_run_and_none_when_it_has_ended() {
    let fixture = Fixture::new().await;
    let keep = async |name: &str, expires_at: i64| {
        let id = Digest::of_bytes(name.as_bytes());
        let sealed = Sealed { key_id: "k".to_owned(), nonce: vec![0], bytes: vec![1] };
        let plan = NewPlan { id, now: at(-20), expires_at: at(expires_at), sealed, most: 5 };
        assert!(fixture.store.keep_plan(plan).await.unwrap());
        id
    };
    // Runs begin at 0 here.
    let (ended, good) = (keep("ended", -1).await, keep("good", 1).await);
    assert_eq!(fixture.create_planned(1, None, 30, Some(ended)).await, Created::PlanGone);
    assert_eq!(fixture.create_planned(2, None, 30, Some(good)).await, Created::New);
    assert_eq!(fixture.create_planned(3, None, 30, Some(good)).await, Created::PlanGone);
    assert_eq!(
        fixture.create_planned(4, None, 30, Some(Digest::of_bytes(b"none"))).await,
        Created::PlanGone
    );
    assert_eq!(fixture.claim(OTHER, 100).await, [2]);
}
