mod copies;
mod power_cut;
mod queue;
mod start;

use std::collections::BTreeMap;

use a2s::CapabilityName;
use a2s_api::{CapabilityRef, EventKind, RunError, StepResolution};
use tempfile::TempDir;
use test_support::PostgresDatabase;

use super::*;
use crate::journal::lease::RunLease;
use crate::journal::recorded_exchange::ExchangeRequest;
use crate::journal::run_state::tests::started;
use crate::tests::database::{Behind, make};
use crate::trust::TrustedVersions;

/// A database, in a file or on a server.
struct Fixture {
    store: RunStore,
    trust: TrustedVersions,
    database: ExecutorDatabase,
    _made: Option<PostgresDatabase>,
    _folder: TempDir,
}

const FREE: TenantQuota = TenantQuota { max_begun: None, max_queued: 1_000 };
const ONE: Uuid = Uuid::from_u128(1);
const OTHER: Uuid = Uuid::from_u128(2);

impl Fixture {
    async fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let (database, made) = make(folder.path().join("a/b/runs.sqlite")).await;
        let store = RunStore::open(&database, Durability::Normal).await.unwrap();
        let trust = trust_of(&database).await;
        Self { store, trust, database, _made: made, _folder: folder }
    }

    /// Runs in a database, and runs in memory: what holds for one holds for the other.
    async fn each() -> [Self; 2] {
        let database = Self::new().await;
        let store = database.open(Durability::Memory).await;
        let memory = Self {
            store,
            trust: trust_of(&database.database).await,
            database: database.database.clone(),
            _made: None,
            _folder: TempDir::new().unwrap(),
        };
        [database, memory]
    }

    fn is_memory(&self) -> bool {
        matches!(self.store.backend, StoreBackend::Memory(_))
    }

    /// Another executor on the same database.
    async fn open(&self, durability: Durability) -> RunStore {
        RunStore::open(&self.database, durability).await.unwrap()
    }

    /// Lets the lease of a run expire.
    async fn expire(&self, run: u128) {
        let run = Uuid::from_u128(run);
        if let StoreBackend::Memory(memory) = &self.store.backend {
            return memory.expire(run);
        }
        let mut behind = Behind::to(&self.database).await;
        behind.change(&format!("UPDATE run SET lease_until = 1 WHERE id = '{run}'")).await;
        behind.close().await;
    }

    async fn create(&self, run: u128, key: Option<&str>) -> CreateResult {
        self.create_planned(run, key, None).await
    }

    async fn create_planned(
        &self,
        run: u128,
        key: Option<&str>,
        plan: Option<Digest>,
    ) -> CreateResult {
        let new = NewRun {
            key: key.map(str::to_owned),
            request_digest: Digest::of_bytes(key.unwrap_or_default().as_bytes()),
            plan,
            ..new_run(run)
        };
        self.store.create_durably(new, &self.trust).await.unwrap()
    }

    /// The same of a tenant, with a place at an executor or without.
    async fn create_of(
        &self,
        run: u128,
        tenant: &str,
        is_placed: bool,
        room: TenantQuota,
    ) -> CreateResult {
        let new = NewRun {
            tenant: tenant.parse().unwrap(),
            lease: is_placed.then(|| lease(ONE)),
            quota: room,
            ..new_run(run)
        };
        self.store.create_durably(new, &self.trust).await.unwrap()
    }

    async fn append(&self, run: u128, seq: u64, kind: EventKind) -> Result<(), ErrorKind> {
        self.append_in(LeaseEpoch::FIRST, run, seq, kind).await
    }

    async fn append_in(
        &self,
        epoch: LeaseEpoch,
        run: u128,
        seq: u64,
        kind: EventKind,
    ) -> Result<(), ErrorKind> {
        let committed = Arc::new(watch::Sender::new(0));
        let event = event(run, seq, kind);
        let appended =
            self.store.append(event, epoch, SealedChanges::default(), Arc::clone(&committed)).await;
        assert_eq!(*committed.borrow(), if appended.is_ok() { seq } else { 0 });
        appended.map_err(|error| error.kind)
    }

    /// Runs that an executor has taken over, with their epochs.
    async fn claim(&self, owner: Uuid) -> Vec<(u128, i64)> {
        claim(&self.store, owner).await
    }

    async fn read(&self, run: u128) -> RunRow {
        self.store.read_run(Uuid::from_u128(run)).await.unwrap().unwrap()
    }
}

async fn trust_of(database: &ExecutorDatabase) -> TrustedVersions {
    let pool = crate::database::open(database).await.unwrap();
    TrustedVersions::new(pool, Arc::new(crate::tests::world::TestClock::default()))
}

/// A run with a slot, of a document that other runs use, too.
fn new_run(run: u128) -> NewRun {
    NewRun {
        name: CapabilityName::new("Dogs").unwrap(),
        tenant: Principal::owner(),
        choices: "{}".to_owned(),
        documents: BTreeMap::from([(Digest::of_bytes(b"doc"), b"doc".as_slice().into())]),
        unknown: Vec::new(),
        key: None,
        request_digest: Digest::of_bytes(b""),
        plan: None,
        first: event(run, 1, started("s")),
        sealed: None,
        lease: Some(lease(ONE)),
        quota: FREE,
    }
}

/// What an executor is given.
async fn give(store: &RunStore, owner: Uuid, live: Vec<Uuid>, limit: usize) -> Vec<ClaimedRun> {
    store.claim(lease(owner), live, Arc::default(), limit).await.unwrap().0
}

async fn claim(store: &RunStore, owner: Uuid) -> Vec<(u128, i64)> {
    let mut claimed = give(store, owner, Vec::new(), 10).await;
    claimed.sort();
    claimed.iter().map(|claimed| (claimed.run.as_u128(), claimed.epoch.0)).collect()
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn lease(owner: Uuid) -> LeaseTerms {
    LeaseTerms { owner, length: Duration::from_secs(3_600) }
}

fn event(run: u128, seq: u64, kind: EventKind) -> RunEvent {
    RunEvent { v: 1, seq, run: Uuid::from_u128(run), at: at(0), kind }
}

fn step() -> EventKind {
    EventKind::StepStarted { step: "a".to_owned(), kind: "task".to_owned(), capability: None }
}

fn sending() -> EventKind {
    EventKind::Sending {
        step: "a".to_owned(),
        execution_id: ONE,
        attempt: 1,
        method: "GET".to_owned(),
        url: "https://dogs.example/".to_owned(),
        upstream: None,
        request_digest: Digest::of_bytes(b""),
        repeat_safe: true,
        redirect: None,
    }
}

fn resolved() -> EventKind {
    let outputs = serde_json::Map::new();
    EventKind::StepResolved {
        step: "a".to_owned(),
        decision: StepResolution::Skip,
        outputs,
        resolved_by: None,
    }
}

fn step_finished() -> EventKind {
    let outputs = serde_json::Map::new();
    EventKind::StepFinished { step: "a".to_owned(), outputs, duration_ms: 0 }
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
    for fixture in Fixture::each().await {
        fixture.create(1, None).await;
        assert_eq!(fixture.append(1, 3, step()).await, Err(ErrorKind::LeaseLost), "a gap");
        assert_eq!(fixture.append(1, 2, step()).await, Ok(()));
        assert_eq!(
            fixture.append(1, 2, step()).await,
            Err(ErrorKind::LeaseLost),
            "a second writer"
        );
        assert_eq!(fixture.append(9, 1, step()).await, Err(ErrorKind::LeaseLost), "no such run");
        assert_eq!(fixture.append(1, 3, finished(RunStatus::Failed)).await, Ok(()));
        assert_eq!(fixture.append(1, 4, step()).await, Err(ErrorKind::LeaseLost), "after the end");
        let events = fixture.store.read_events(Uuid::from_u128(1), 0, 10).await.unwrap();
        assert_eq!(events.iter().map(|event| event.seq).collect::<Vec<_>>(), [1, 2, 3]);
        let page = fixture.store.read_events(Uuid::from_u128(1), 1, 1).await.unwrap();
        assert_eq!(page, events[1..2]);
        let row = fixture.store.read_run(Uuid::from_u128(1)).await.unwrap().unwrap();
        assert_eq!((row.status, row.choices.as_str()), (RunStatus::Failed, "{}"));
        assert!(fixture.store.read_run(Uuid::from_u128(9)).await.unwrap().is_none());
    }
}

#[tokio::test]
async fn when_an_event_was_lost_every_later_one_fails() {
    for fixture in Fixture::each().await {
        fixture.create(1, None).await;
        let nobody = || Arc::new(watch::Sender::new(0));
        // The second of three is out of turn, and nobody waits for it.
        fixture.store.append_later(
            event(1, 2, step()),
            LeaseEpoch::FIRST,
            SealedChanges::default(),
            nobody(),
        );
        fixture.store.append_later(
            event(1, 4, step()),
            LeaseEpoch::FIRST,
            SealedChanges::default(),
            nobody(),
        );
        assert_eq!(fixture.append(1, 5, step()).await, Err(ErrorKind::LeaseLost));
    }
}

#[tokio::test]
async fn a_run_is_driven_by_one_executor_until_its_lease_runs_out() {
    for fixture in Fixture::each().await {
        fixture.create(1, None).await;
        fixture.create(2, None).await;
        assert_eq!(fixture.claim(OTHER).await, []);
        fixture.expire(1).await;
        fixture.expire(2).await;
        let live = vec![(Uuid::from_u128(1), LeaseEpoch::FIRST)];
        let held = fixture.store.renew(lease(ONE), live).await.unwrap();
        assert_eq!(held, [RenewedRun { run: Uuid::from_u128(1), cancel_requested: false }]);
        // The second was not renewed; whoever drives a run takes it over from nobody.
        let spared = vec![Uuid::from_u128(2)];
        assert_eq!(give(&fixture.store, OTHER, spared, 10).await, []);
        assert_eq!(fixture.claim(OTHER).await, [(2, 2)]);
        assert_eq!(fixture.claim(ONE).await, [], "the other one has it now");
        fixture.expire(1).await;
        assert_eq!(fixture.claim(OTHER).await, [(1, 2)]);
        fixture.store.release(OTHER).await.unwrap();
        let claimed = fixture.claim(ONE).await;
        assert_eq!(claimed.iter().map(|(run, _)| *run).collect::<Vec<_>>(), [1, 2]);
        // What waits or has ended is nobody's.
        let epoch = LeaseEpoch(claimed[0].1);
        assert_eq!(fixture.append_in(epoch, 1, 2, waiting()).await, Ok(()));
        assert_eq!(fixture.append_in(epoch, 2, 2, finished(RunStatus::Succeeded)).await, Ok(()));
        assert_eq!(fixture.claim(OTHER).await, []);
    }
}

#[tokio::test]
async fn takeovers_count_until_progress_or_resume() {
    for fixture in Fixture::each().await {
        fixture.create(1, None).await;
        let mut owners = (10..).map(Uuid::from_u128);
        let mut lose = async |count: u32| {
            let mut epoch = LeaseEpoch::FIRST;
            for number in 1..=count {
                fixture.expire(1).await;
                let claimed = give(&fixture.store, owners.next().unwrap(), Vec::new(), 10).await;
                assert_eq!(claimed.len(), 1);
                assert_eq!(claimed[0].takeovers, number);
                epoch = claimed[0].epoch;
            }
            (epoch, owners.next().unwrap())
        };
        let count = async |owner: Uuid| {
            let claimed = give(&fixture.store, owner, Vec::new(), 10).await;
            claimed.iter().map(|claimed| claimed.takeovers).collect::<Vec<_>>()
        };
        let (epoch, other) = lose(3).await;
        // That it was begun is no progress.
        fixture.append_in(epoch, 1, 2, step()).await.unwrap();
        fixture.append_in(epoch, 1, 3, EventKind::RunResumed {}).await.unwrap();
        fixture.expire(1).await;
        assert_eq!(count(other).await, [4]);
        // It was away itself, and nobody else has come.
        fixture.expire(1).await;
        assert_eq!(count(other).await, [4]);
        // Given back in order.
        fixture.store.release(other).await.unwrap();
        assert_eq!(count(ONE).await, [4]);
        let epoch = fixture.read(1).await.epoch;
        fixture.append_in(epoch, 1, 4, step_finished()).await.unwrap();
        let (epoch, other) = lose(2).await;
        fixture.append_in(epoch, 1, 5, waiting()).await.unwrap();
        fixture.append_in(epoch, 1, 6, EventKind::RunQueued {}).await.unwrap();
        assert_eq!(count(other).await, [0]);
    }
}

#[tokio::test]
async fn nothing_is_written_for_an_epoch_that_has_passed() {
    for fixture in Fixture::each().await {
        fixture.create(1, None).await;
        let run = Uuid::from_u128(1);
        assert_eq!(fixture.read(1).await.epoch, LeaseEpoch::FIRST);
        // Late, and nobody else has come: it is its run all the same.
        fixture.expire(1).await;
        assert_eq!(fixture.append(1, 2, step()).await, Ok(()));
        assert_eq!(fixture.claim(OTHER).await, [(1, 2)]);
        let exchange = |body: &str| RecordedExchange {
            question: ExchangeRequest {
                operation: body.to_owned(),
                inputs: serde_json::Map::new(),
            },
            answer: None,
        };
        // Whoever had it before writes no event, no end, no answer, and prolongs nothing.
        assert_eq!(fixture.append(1, 3, step()).await, Err(ErrorKind::LeaseLost));
        assert_eq!(
            fixture.append(1, 3, finished(RunStatus::Failed)).await,
            Err(ErrorKind::LeaseLost)
        );
        fixture.store.append_exchange_later(
            run,
            LeaseEpoch::FIRST,
            "late".to_owned(),
            exchange("late"),
        );
        let renewed =
            fixture.store.renew(lease(ONE), vec![(run, LeaseEpoch::FIRST)]).await.unwrap();
        assert_eq!(renewed, []);
        fixture.store.append_exchange_later(run, LeaseEpoch(2), "a".to_owned(), exchange("a"));
        assert_eq!(fixture.append_in(LeaseEpoch(2), 1, 3, step()).await, Ok(()));
        let kept = fixture.store.read_exchanges(run).await.unwrap();
        assert_eq!(kept, BTreeMap::from([("a".to_owned(), exchange("a"))]));
        // Neither does one that has given it back.
        fixture.store.release(OTHER).await.unwrap();
        assert_eq!(fixture.append_in(LeaseEpoch(2), 1, 4, step()).await, Err(ErrorKind::LeaseLost));
        assert_eq!(fixture.read(1).await.status, RunStatus::Running);
    }
}

#[tokio::test]
async fn a_wish_to_cancel_reaches_the_one_who_drives() {
    for fixture in Fixture::each().await {
        let (run, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        fixture.create(1, None).await;
        fixture.create(2, None).await;
        fixture.store.request_cancel(run).await.unwrap();
        let live = vec![(run, LeaseEpoch::FIRST), (other, LeaseEpoch::FIRST)];
        let mut held = fixture.store.renew(lease(ONE), live).await.unwrap();
        held.sort_by_key(|held| held.run);
        let told: Vec<_> = held.iter().map(|held| (held.run, held.cancel_requested)).collect();
        assert_eq!(told, [(run, true), (other, false)]);
        assert!(fixture.read(1).await.cancel_requested);
    }
}

#[tokio::test]
async fn cancelled_run_does_not_wait_for_an_approval() {
    for fixture in Fixture::each().await {
        fixture.create(1, None).await;
        fixture.create(2, None).await;
        fixture.store.request_cancel(Uuid::from_u128(1)).await.unwrap();
        // In one batch, with events of its own and of another run before it.
        for run in [1, 2] {
            let event = event(run, 2, step());
            let (changes, committed) = (SealedChanges::default(), Arc::default());
            fixture.store.append_later(event, LeaseEpoch::FIRST, changes, committed);
        }
        let approval = || {
            let EventKind::RunWaiting { error } = waiting() else { unreachable!() };
            EventKind::RunWaiting { error: RunError { code: "A2S346".to_owned(), ..error } }
        };
        let [cancelled, other] =
            [fixture.append(1, 3, approval()), fixture.append(2, 3, approval())];
        let (cancelled, other) = tokio::join!(cancelled, other);
        assert_eq!((cancelled, other), (Err(ErrorKind::LeaseLost), Ok(())));
        let row = fixture.read(1).await;
        assert_eq!((row.status, row.epoch), (RunStatus::Running, LeaseEpoch::FIRST));
        assert_eq!(fixture.read(2).await.status, RunStatus::Waiting);
        // A request with an unknown outcome needs a person all the same.
        fixture.append(1, 3, waiting()).await.unwrap();
        fixture.append(1, 4, finished(RunStatus::Cancelled)).await.unwrap();
        assert_eq!(fixture.read(1).await.status, RunStatus::Cancelled);
    }
}

#[tokio::test]
async fn a_key_belongs_to_the_first_run_that_has_it() {
    for fixture in Fixture::each().await {
        let digest = Digest::of_bytes(b"key");
        assert_eq!(fixture.create(1, Some("key")).await, CreateResult::New);
        let existing = CreateResult::Existing(Uuid::from_u128(1), digest);
        assert_eq!(fixture.create(2, Some("key")).await, existing);
        assert!(fixture.store.read_run(Uuid::from_u128(2)).await.unwrap().is_none());
        assert_eq!(
            fixture.store.find_by_key("key").await.unwrap(),
            Some((Uuid::from_u128(1), digest))
        );
        assert_eq!(fixture.store.find_by_key("other").await.unwrap(), None);
        assert_eq!(fixture.create(3, None).await, CreateResult::New);
        assert_eq!(fixture.create(4, None).await, CreateResult::New);
    }
}

#[tokio::test]
async fn file_leases_are_dropped_after_process_death() {
    let folder = TempDir::new().unwrap();
    let database = ExecutorDatabase::File(folder.path().join("runs.sqlite"));
    let open = async || RunStore::open(&database, Durability::Normal).await.unwrap();
    let store = open().await;
    let fixture = Fixture {
        store,
        trust: trust_of(&database).await,
        database: database.clone(),
        _made: None,
        _folder: TempDir::new().unwrap(),
    };
    fixture.create(1, None).await;
    let second = open().await;
    assert_eq!(claim(&second, OTHER).await, []);
    drop((second, fixture));
    let third = open().await;
    assert_eq!(claim(&third, OTHER).await, [(1, 3)]);
    let documents = third.read_documents(&[Digest::of_bytes(b"doc"), Digest::of_bytes(b"x")]).await;
    assert_eq!(documents.unwrap(), BTreeMap::from([(Digest::of_bytes(b"doc"), b"doc".to_vec())]));
}

#[tokio::test]
async fn a_page_of_lives_has_the_newest_runs_and_only_their_turns() {
    for fixture in Fixture::each().await {
        for run in 1..=3 {
            fixture.create(run, None).await;
            fixture.append(run, 2, step()).await.unwrap();
            fixture.append(run, 3, finished(RunStatus::Succeeded)).await.unwrap();
        }
        let lives = async |before: Option<u128>, limit| -> Vec<Vec<(u128, u64)>> {
            let lives = fixture
                .store
                .read_summary_events(
                    &RunFilter { before: before.map(Uuid::from_u128), ..RunFilter::default() },
                    limit,
                )
                .await
                .unwrap();
            let turns = |life: &RunSummaryEvents| {
                life.events.iter().map(|e| (e.run.as_u128(), e.seq)).collect()
            };
            lives.iter().map(turns).collect()
        };
        assert_eq!(lives(None, 2).await, [[(3, 1), (3, 3)], [(2, 1), (2, 3)]]);
        assert_eq!(lives(Some(2), 2).await, [[(1, 1), (1, 3)]]);
    }
}

#[tokio::test]
async fn every_event_kind_is_in_its_outline() {
    for fixture in Fixture::each().await {
        fixture.create(1, None).await;
        let told = [
            EventKind::RunQueued {},
            EventKind::RunResumed {},
            step(),
            sending(),
            step_finished(),
            waiting(),
            resolved(),
            finished(RunStatus::Succeeded),
        ];
        for (kind, seq) in told.into_iter().zip(2..) {
            fixture.append(1, seq, kind).await.unwrap();
        }
        let lives = fixture.store.read_summary_events(&RunFilter::default(), 1).await.unwrap();
        let outline = fixture.store.read_outline(Uuid::from_u128(1)).await.unwrap();
        let numbers =
            |events: &[RunEvent]| events.iter().map(|event| event.seq).collect::<Vec<_>>();
        assert_eq!(numbers(&lives[0].events), [1, 2, 3, 7, 8, 9]);
        assert_eq!(numbers(&outline), [1, 5, 9]);
    }
}

#[tokio::test]
async fn out_of_turn_events_fail_alone_in_a_batch() {
    for fixture in Fixture::each().await {
        fixture.create(1, None).await;
        fixture.create(2, None).await;
        fixture.append(1, 2, step()).await.unwrap();
        let committed = Arc::new(watch::Sender::new(0));
        // Sent before the writer wakes: one transaction.
        let told = [(1, 3), (1, 2), (2, 2), (1, 4), (3, 2), (1, 4), (2, 4), (1, 5), (2, 3)];
        let told = told.map(|(run, seq)| {
            let event = event(run, seq, step());
            fixture.store.append(
                event,
                LeaseEpoch::FIRST,
                SealedChanges::default(),
                Arc::clone(&committed),
            )
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
}

#[tokio::test]
async fn no_event_follows_the_end_of_a_run() {
    for fixture in Fixture::each().await {
        fixture.create(1, None).await;
        let committed = Arc::new(watch::Sender::new(0));
        let told = [step(), finished(RunStatus::Succeeded), step()].into_iter().zip(2..);
        let told = told.map(|(kind, seq)| (event(1, seq, kind), Arc::clone(&committed))).map(
            |(event, committed)| {
                fixture.store.append(event, LeaseEpoch::FIRST, SealedChanges::default(), committed)
            },
        );
        let ended = futures::future::join_all(told.collect::<Vec<_>>()).await;
        assert_eq!(ended.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, true, false]);
    }
}

#[tokio::test]
async fn what_is_sealed_beside_an_event_goes_with_a_later_one() {
    for fixture in Fixture::each().await {
        fixture.create(1, None).await;
        let run = Uuid::from_u128(1);
        let nobody = || Arc::new(watch::Sender::new(0));
        let sealed =
            |byte| Ciphertext { key_id: "k".to_owned(), nonce: vec![0], bytes: vec![byte] };
        let kept = async || {
            let sealed = fixture.store.read_sealed(run).await.unwrap().into_keys();
            sealed.collect::<Vec<_>>()
        };
        for (seq, obsolete, expected) in
            [(2, None, vec![2]), (3, None, vec![2, 3]), (4, Some(2), vec![3, 4])]
        {
            let besides = SealedChanges { sealed: Some(sealed(1)), obsolete };
            let event = event(1, seq, step_finished());
            fixture.store.append(event, LeaseEpoch::FIRST, besides, nobody()).await.unwrap();
            assert_eq!(kept().await, expected);
        }
        // An event that is not written changes nothing.
        let besides = SealedChanges { sealed: None, obsolete: Some(3) };
        let late =
            fixture.store.append(event(1, 4, step()), LeaseEpoch::FIRST, besides, nobody()).await;
        assert_eq!(late.unwrap_err().kind, ErrorKind::LeaseLost);
        assert_eq!(kept().await, [3, 4]);
        fixture.store.append_later(
            event(1, 5, step()),
            LeaseEpoch::FIRST,
            SealedChanges { sealed: None, obsolete: Some(3) },
            nobody(),
        );
        fixture.append(1, 6, step()).await.unwrap();
        assert_eq!(kept().await, [4]);
    }
}

#[tokio::test]
async fn what_events_do_not_tell_is_kept_until_the_run_is_over() {
    for fixture in Fixture::each().await {
        fixture.create(1, None).await;
        let run = Uuid::from_u128(1);
        let sealed = Ciphertext { key_id: "k".to_owned(), nonce: vec![0], bytes: vec![1] };
        let (event, nobody) = (event(1, 2, step_finished()), Arc::new(watch::Sender::new(0)));
        let told = SealedChanges { sealed: Some(sealed.clone()), obsolete: None };
        fixture.store.append(event, LeaseEpoch::FIRST, told, nobody).await.unwrap();
        let kept = async || fixture.store.read_sealed(run).await.unwrap();
        assert_eq!(kept().await.keys().collect::<Vec<_>>(), [&2]);
        assert_eq!(kept().await[&2].bytes, sealed.bytes);
        fixture.append(1, 3, waiting()).await.unwrap();
        assert_eq!(kept().await.len(), 1, "it may go on");
        fixture.append(1, 4, finished(RunStatus::Cancelled)).await.unwrap();
        assert!(kept().await.is_empty());
    }
}

#[tokio::test]
async fn what_is_over_waits_to_be_reported_until_that_is_marked() {
    for fixture in Fixture::each().await {
        for run in 1..=4 {
            fixture.create(run, None).await;
        }
        for run in [1, 2, 3] {
            fixture.append(run, 2, finished(RunStatus::Succeeded)).await.unwrap();
        }
        let unreported = async |store: &RunStore, after: u128, limit: u32| -> Vec<u128> {
            let runs = store.read_unreported(Uuid::from_u128(after), limit).await.unwrap();
            runs.iter().map(Uuid::as_u128).collect()
        };
        assert_eq!(unreported(&fixture.store, 0, 10).await, [1, 2, 3]);
        assert_eq!(unreported(&fixture.store, 1, 1).await, [2]);
        fixture.store.mark_reported(vec![Uuid::from_u128(2)]).await.unwrap();
        assert_eq!(unreported(&fixture.store, 0, 10).await, [1, 3]);
        if fixture.is_memory() {
            continue;
        }
        // Whoever opens the database next knows as much of its runs, and has the same name.
        let next = fixture.open(Durability::Normal).await;
        assert_eq!(unreported(&next, 0, 10).await, [1, 3]);
        assert_eq!(next.identity(), fixture.store.identity());
        let in_memory = fixture.open(Durability::Memory).await;
        assert_eq!(in_memory.identity(), fixture.store.identity());
    }
}

#[tokio::test]
async fn what_is_over_is_forgotten_with_its_key_and_nothing_else_is() {
    for fixture in Fixture::each().await {
        for (run, key) in [(1, Some("key")), (2, None), (3, None), (4, None)] {
            fixture.create(run, key).await;
        }
        for run in [1, 2, 4] {
            fixture.append(run, 2, finished(RunStatus::Failed)).await.unwrap();
        }
        assert!(!fixture.store.delete(Uuid::from_u128(3)).await.unwrap(), "under way");
        assert!(!fixture.store.delete(Uuid::from_u128(9)).await.unwrap(), "not there");
        assert!(fixture.store.delete(Uuid::from_u128(1)).await.unwrap());
        assert_eq!(fixture.store.find_by_key("key").await.unwrap(), None);
        assert_eq!(fixture.create(5, Some("key")).await, CreateResult::New);
        // All of them ended at 0.
        assert!(fixture.store.forget(at(0), 10).await.unwrap().is_empty());
        let forgotten = fixture.store.forget(at(1), 1).await.unwrap();
        assert_eq!(forgotten.len(), 1);
        let rest = fixture.store.forget(at(1), 10).await.unwrap();
        assert_eq!(rest.len(), 1);
        let left = fixture.store.read_summary_events(&RunFilter::default(), 10).await.unwrap();
        let left: Vec<_> = left.iter().map(|life| life.events[0].run.as_u128()).collect();
        assert_eq!(left, [5, 3]);
    }
}

#[tokio::test]
async fn a_plan_begins_one_run_and_none_when_it_has_ended() {
    for fixture in Fixture::each().await {
        let keep = async |name: &str, expires_at: i64| {
            let id = Digest::of_bytes(name.as_bytes());
            let sealed = Ciphertext { key_id: "k".to_owned(), nonce: vec![0], bytes: vec![1] };
            let plan = NewPlan {
                id,
                tenant: Principal::owner(),
                now: at(-20),
                expires_at: at(expires_at),
                sealed,
                most: 5,
                most_own: 5,
                most_of_token: 5,
            };
            assert!(fixture.store.store_plan(plan).await.unwrap());
            id
        };
        // Runs begin at 0 here.
        let (ended, good) = (keep("ended", -1).await, keep("good", 1).await);
        assert_eq!(fixture.create_planned(1, None, Some(ended)).await, CreateResult::PlanGone);
        assert_eq!(fixture.create_planned(2, None, Some(good)).await, CreateResult::New);
        assert_eq!(fixture.create_planned(3, None, Some(good)).await, CreateResult::PlanGone);
        assert_eq!(
            fixture.create_planned(4, None, Some(Digest::of_bytes(b"none"))).await,
            CreateResult::PlanGone
        );
        fixture.expire(2).await;
        assert_eq!(fixture.claim(OTHER).await, [(2, 2)]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unowned_run_is_claimed_by_one_executor() {
    let fixture = Fixture::new().await;
    for run in 1..=60 {
        fixture.create(run, None).await;
    }
    fixture.store.release(ONE).await.unwrap();
    let stores = [fixture.open(Durability::Normal).await, fixture.open(Durability::Normal).await];
    let takers = [(ONE, 0), (OTHER, 1), (Uuid::from_u128(3), 0), (Uuid::from_u128(4), 1)];
    let takers = takers.map(|(owner, at)| {
        let store = stores[at].clone();
        tokio::spawn(async move {
            let mut taken = Vec::new();
            loop {
                let claimed = give(&store, owner, Vec::new(), 7).await;
                if claimed.is_empty() {
                    return taken;
                }
                taken.extend(claimed);
            }
        })
    });
    let mut taken = Vec::new();
    for taker in takers {
        taken.extend(taker.await.unwrap());
    }
    // A few may have been skipped while somebody else looked at them.
    taken.extend(give(&fixture.store, ONE, Vec::new(), 60).await);
    taken.sort();
    // Created in the first epoch, given back in the second, taken in the third, once.
    let taken: Vec<_> = taken.iter().map(|taken| (taken.run.as_u128(), taken.epoch)).collect();
    let expected: Vec<_> = (1..=60).map(|run| (run, LeaseEpoch(3))).collect();
    assert_eq!(taken, expected);
}

#[tokio::test]
async fn late_writer_confirms_its_lease_first() {
    for fixture in Fixture::each().await {
        let run = Uuid::from_u128(1);
        fixture.create(1, None).await;
        let long_ago = tokio::time::Instant::now();
        let short = LeaseTerms { owner: ONE, length: Duration::ZERO };
        let tenure = RunLease::granted_after(long_ago, short, LeaseEpoch::FIRST);
        // Late, and nobody has come: the lease is prolonged.
        fixture.expire(1).await;
        tenure.ensure_valid(run, lease(ONE), &fixture.store).await.unwrap();
        assert_eq!(fixture.claim(OTHER).await, []);
        // Late, and somebody has.
        let tenure = RunLease::granted_after(long_ago, short, LeaseEpoch::FIRST);
        fixture.expire(1).await;
        assert_eq!(fixture.claim(OTHER).await, [(1, 2)]);
        let lost = tenure.ensure_valid(run, lease(ONE), &fixture.store).await.unwrap_err();
        assert_eq!(lost.kind, ErrorKind::LeaseLost);
    }
}
