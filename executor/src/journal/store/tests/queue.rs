//! Whose turn it is among runs that wait.

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU32;

use a2s_api::TokenSubject;
use proptest::prelude::*;
use proptest::sample::Index;

use super::*;

const TENANTS: [&str; 5] = ["a", "b", "c/x", "d", "d/x"];

fn cap(most: u32) -> TenantQuota {
    TenantQuota { max_begun: NonZeroU32::new(most), ..FREE }
}

/// The only token with limits of its own is the last; they hold for each of its principals.
fn caps() -> TenantCaps {
    let own = BTreeMap::from([(TokenSubject::new("d").unwrap(), NonZeroU32::new(2).unwrap())]);
    TenantCaps { default: None, by_tenant: own }
}

fn room_of(tenant: &str) -> TenantQuota {
    if tenant.starts_with('d') { cap(2) } else { FREE }
}

/// The runs that an executor with room for so many is given, and whether any still wait.
async fn begin(fixture: &Fixture, caps: TenantCaps, room: usize) -> (Vec<u128>, bool) {
    let claimed = fixture.store.claim(lease(ONE), Vec::new(), Arc::new(caps), room).await;
    let (claimed, left) = claimed.unwrap();
    let mut runs: Vec<_> = claimed.iter().map(|claimed| claimed.run.as_u128()).collect();
    runs.sort_unstable();
    (runs, left)
}

async fn end(fixture: &Fixture, run: u128) {
    let events = fixture.store.read_events(Uuid::from_u128(run), 0, 9).await.unwrap();
    let epoch = fixture.read(run).await.epoch;
    let next = events.last().unwrap().seq + 1;
    fixture.append_in(epoch, run, next, finished(RunStatus::Succeeded)).await.unwrap();
}

#[tokio::test]
async fn one_slot_serves_every_tenant_in_turn() {
    for fixture in Fixture::each().await {
        let waiting = [("a", 1..=6_u128), ("b", 7..=7), ("c", 8..=9)];
        let tenant_of = |run| waiting.iter().find(|(_, runs)| runs.contains(&run)).unwrap().0;
        for run in 1..=9 {
            assert_eq!(
                fixture.create_of(run, tenant_of(run), false, FREE).await,
                CreateResult::Queued
            );
            assert_eq!(fixture.read(run).await.status, RunStatus::Queued);
        }
        let mut order = Vec::new();
        for left in (0..9).rev() {
            let (begun, any) = begin(&fixture, TenantCaps::default(), 1).await;
            assert_eq!((begun.len(), any), (1, left > 0));
            assert_eq!(fixture.read(begun[0]).await.status, RunStatus::Running);
            order.push(begun[0]);
            end(&fixture, begun[0]).await;
        }
        assert_eq!(order, [1, 7, 8, 2, 9, 3, 4, 5, 6]);
    }
}

#[tokio::test]
async fn runs_beyond_the_tenant_quota_wait_or_are_refused() {
    for fixture in Fixture::each().await {
        let room = TenantQuota { max_begun: NonZeroU32::new(1), max_queued: 2 };
        let create = async |run, is_placed| fixture.create_of(run, "d", is_placed, room).await;
        assert_eq!(create(1, true).await, CreateResult::New);
        assert_eq!(create(2, true).await, CreateResult::Queued);
        assert_eq!(create(3, false).await, CreateResult::Queued);
        assert_eq!(create(4, true).await, CreateResult::Full);
        assert!(fixture.store.read_run(Uuid::from_u128(4)).await.unwrap().is_none());
        assert_eq!(fixture.create_of(5, "a", true, FREE).await, CreateResult::New);
        let load = async |tenant: &str| {
            let load = fixture.store.read_load(&tenant.parse().unwrap()).await.unwrap();
            (load.begun, load.queued)
        };
        assert_eq!((load("d").await, load("a").await), ((1, 2), (1, 0)));
        let own = BTreeMap::from([(TokenSubject::new("d").unwrap(), NonZeroU32::MIN)]);
        let by_name = || TenantCaps { default: None, by_tenant: own.clone() };
        let by_default =
            || TenantCaps { default: Some(NonZeroU32::MIN), by_tenant: BTreeMap::new() };
        assert_eq!(begin(&fixture, by_name(), 9).await, (vec![], true));
        assert_eq!(begin(&fixture, by_default(), 9).await, (vec![], true));
        end(&fixture, 1).await;
        // There is room, and yet the one that has come before is the first.
        assert_eq!(create(6, true).await, CreateResult::Full);
        assert_eq!(begin(&fixture, by_name(), 9).await, (vec![2], true));
        assert_eq!(create(6, true).await, CreateResult::Queued);
        end(&fixture, 2).await;
        assert_eq!(begin(&fixture, by_default(), 9).await, (vec![3], true));
        end(&fixture, 3).await;
        // A limit of its own wins over that of all, also a higher one.
        let higher = TenantCaps { default: Some(NonZeroU32::MIN), by_tenant: caps().by_tenant };
        assert_eq!(create(7, true).await, CreateResult::Queued);
        assert_eq!(begin(&fixture, higher, 9).await, (vec![6, 7], false));
    }
}

#[tokio::test]
async fn end_users_of_a_token_have_twice_its_queue() {
    for fixture in Fixture::each().await {
        let room = TenantQuota { max_begun: None, max_queued: 1 };
        let cases = [
            ("d/ann", CreateResult::Queued),
            ("d/ann", CreateResult::Full),
            ("d/ben", CreateResult::Queued),
            ("d/eve", CreateResult::Full),
            ("e", CreateResult::Queued),
        ];
        for (run, (tenant, expected)) in (1..).zip(cases) {
            assert_eq!(fixture.create_of(run, tenant, false, room).await, expected, "{tenant}");
        }
    }
}

#[tokio::test]
async fn what_others_have_left_goes_before_what_waits() {
    for fixture in Fixture::each().await {
        fixture.create_of(1, "a", false, FREE).await;
        fixture.create_of(2, "b", true, FREE).await;
        fixture.create_of(3, "b", true, FREE).await;
        fixture.store.release(ONE).await.unwrap();
        assert_eq!(begin(&fixture, TenantCaps::default(), 2).await, (vec![2, 3], true));
        assert_eq!(begin(&fixture, TenantCaps::default(), 2).await, (vec![1], false));
    }
}

#[tokio::test]
async fn a_run_that_waits_keeps_its_key_and_ends_like_others() {
    for fixture in Fixture::each().await {
        fixture.create_of(1, "a", false, FREE).await;
        assert_eq!(fixture.append(1, 3, finished(RunStatus::Cancelled)).await, Ok(()));
        assert_eq!(fixture.read(1).await.status, RunStatus::Cancelled);
        assert_eq!(begin(&fixture, TenantCaps::default(), 1).await, (vec![], false));
        // Whoever comes with a key that is known gets its run, also when no more may wait.
        let full = TenantQuota { max_begun: None, max_queued: 0 };
        assert_eq!(fixture.create(2, Some("key")).await, CreateResult::New);
        let new = NewRun {
            key: Some("key".to_owned()),
            request_digest: Digest::of_bytes(b"key"),
            lease: None,
            quota: full,
            ..new_run(3)
        };
        let existing = CreateResult::Existing(Uuid::from_u128(2), Digest::of_bytes(b"key"));
        assert_eq!(fixture.store.create_durably(new, &fixture.trust).await.unwrap(), existing);
        assert_eq!(fixture.create_of(3, "a", false, full).await, CreateResult::Full);
    }
}

/// Runs by tenant, as they should be.
#[derive(Debug, Default)]
struct Model {
    begun: BTreeMap<&'static str, Vec<u128>>,
    waiting: BTreeMap<&'static str, VecDeque<u128>>,
    turns: BTreeMap<&'static str, usize>,
    given: usize,
}

impl Model {
    fn begun(&self, tenant: &str) -> usize {
        self.begun.get(tenant).map_or(0, Vec::len)
    }

    /// Tenants that have a run which waits for nothing but room.
    fn ready(&self) -> Vec<&'static str> {
        let most =
            |tenant: &str| room_of(tenant).max_begun.map_or(usize::MAX, |most| most.get() as usize);
        let waits = |tenant: &str| self.waiting.get(tenant).is_some_and(|runs| !runs.is_empty());
        let is_ready = |tenant: &&str| waits(tenant) && self.begun(tenant) < most(tenant);
        TENANTS.into_iter().filter(is_ready).collect()
    }

    /// The run that begins when there is room for one: of the tenant with the fewest that have begun, of
    /// several such of the one whose turn is the longest ago, and then of the one that waits the longest.
    fn begin(&mut self) -> Option<u128> {
        let turn = |tenant: &&str| {
            let last = self.turns.get(tenant).copied().unwrap_or_default();
            (self.begun(tenant), last, self.waiting[tenant][0])
        };
        let tenant = self.ready().into_iter().min_by_key(turn)?;
        let run = self.waiting.get_mut(tenant)?.pop_front()?;
        self.begun.entry(tenant).or_default().push(run);
        self.given += 1;
        self.turns.insert(tenant, self.given);
        Some(run)
    }
}

#[derive(Debug, Clone)]
enum Happens {
    /// A run of a tenant comes, where there is a place for it or not.
    Comes(&'static str, bool),
    /// An executor has room.
    Room(usize),
    /// A run ends.
    Ends(Index),
}

fn any_day() -> impl Strategy<Value = Vec<Happens>> {
    let tenant = || prop::sample::select(&TENANTS[..]);
    let happens = prop_oneof![
        4 => (tenant(), prop::bool::weighted(0.2)).prop_map(|(who, placed)| Happens::Comes(who, placed)),
        // One that comes with many.
        1 => prop::bool::weighted(0.2).prop_map(|placed| Happens::Comes("a", placed)),
        2 => (1..5_usize).prop_map(Happens::Room),
        3 => any::<Index>().prop_map(Happens::Ends),
    ];
    prop::collection::vec(happens, 1..80)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// In whatever order runs come and end: whenever a place is given to a run that waits, its tenant has
    /// no more begun than any other whose run waits for nothing but room. So behind it no such tenant has
    /// two fewer than one that was given a place.
    #[test]
    fn no_tenant_that_waits_is_left_behind(day in any_day()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            for fixture in Fixture::each().await {
            let mut model = Model::default();
            for (happens, run) in day.iter().cloned().zip(1..) {
                match happens {
                    Happens::Comes(tenant, is_placed) => {
                        let created = fixture.create_of(run, tenant, is_placed, room_of(tenant)).await;
                        let waits = model.waiting.entry(tenant).or_default();
                        let begins = is_placed
                            && (!tenant.starts_with('d') || (waits.is_empty() && model.begun(tenant) < 2));
                        if begins {
                            assert_eq!(created, CreateResult::New);
                            model.begun.entry(tenant).or_default().push(run);
                        } else {
                            assert_eq!(created, CreateResult::Queued);
                            model.waiting.entry(tenant).or_default().push_back(run);
                        }
                    }
                    Happens::Room(room) => {
                        let before: BTreeMap<_, _> =
                            TENANTS.map(|tenant| (tenant, model.begun(tenant))).into();
                        let mut expected: Vec<_> = (0..room).map_while(|_| model.begin()).collect();
                        expected.sort_unstable();
                        let (begun, left) = begin(&fixture, caps(), room).await;
                        assert_eq!(begun, expected);
                        assert_eq!(left, model.waiting.values().any(|runs| !runs.is_empty()));
                        for served in TENANTS.into_iter().filter(|who| before[who] < model.begun(who)) {
                            for other in model.ready() {
                                assert!(model.begun(served) <= model.begun(other) + 1, "{served}, {other}");
                            }
                        }
                    }
                    Happens::Ends(index) => {
                        let begun = model.begun.values_mut().filter(|runs| !runs.is_empty());
                        let mut begun: Vec<_> = begun.collect();
                        if !begun.is_empty() {
                            let chosen = index.index(begun.len());
                            let runs = &mut *begun[chosen];
                            let run = runs.remove(index.index(runs.len()));
                            end(&fixture, run).await;
                        }
                    }
                }
            }
            }
        });
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_executors_hold_the_tenant_quota() {
    let fixture = Fixture::new().await;
    for run in 1..=20 {
        fixture.create_of(run, "d", false, cap(2)).await;
        fixture.create_of(100 + run, "a", false, FREE).await;
    }
    let stores = [fixture.open(Durability::Normal).await, fixture.open(Durability::Normal).await];
    let takers = [0, 1, 0, 1].map(|at| {
        let store = stores[at].clone();
        tokio::spawn(async move {
            let mut taken = Vec::new();
            for _ in 0..3 {
                let owner = lease(Uuid::from_u128(at as u128 + 50));
                taken.extend(store.claim(owner, Vec::new(), Arc::new(caps()), 1).await.unwrap().0);
            }
            taken
        })
    });
    let mut taken = Vec::new();
    for taker in takers {
        taken.extend(taker.await.unwrap());
    }
    let mut runs: Vec<_> = taken.iter().map(|taken| taken.run.as_u128()).collect();
    runs.sort_unstable();
    let expected: Vec<u128> = [1, 2].into_iter().chain(101..=110).collect();
    assert_eq!(runs, expected);
}
