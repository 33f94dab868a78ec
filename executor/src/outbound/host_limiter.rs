//! One lane for each host: how many requests are under way, how fast they follow one another, and
//! when the host is left alone. Nothing is sent without a turn.

mod circuit_breaker;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use a2s::Domain;
use a2s_api::{HostHealth, HostState, WaitReason};
use governor::clock::Clock as _;
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use url::Url;

use super::SendError;
use crate::config::{HostLimitSet, HostLimits};
use crate::error::ErrorKind;
use crate::request::authority;
pub(super) use circuit_breaker::HostSignal;
use circuit_breaker::{BreakerState, CircuitBreaker};

/// The most hosts with limits in memory. Unused limits without anything to remember are removed first.
const MAX_HOSTS: usize = 1_024;

/// The most tenants of one host with a failure count of their own; further ones share one count.
const MAX_TENANTS: usize = 256;

/// The time for which the health of a host is reported: older data says little about its current state.
const HEALTH_WINDOW: Duration = Duration::from_secs(60);

/// The limiters of all hosts.
#[derive(Debug)]
pub(super) struct HostLimiters {
    hosts: HostLimitSet,
    limiters: Mutex<BTreeMap<String, Arc<HostLimiter>>>,
}

/// The limiter of one host.
#[derive(Debug)]
struct HostLimiter {
    host: String,
    limits: HostLimits,
    slots: Arc<Semaphore>,
    rate: Option<DefaultDirectRateLimiter>,
    /// The lock that queues requests: they wait for the rate one after another.
    next: tokio::sync::Mutex<()>,
    state: Mutex<LimiterState>,
}

#[derive(Debug, Default)]
struct LimiterState {
    /// The state of each tenant. The failures of one tenant do not block the host for the others, because
    /// that tenant may have caused them.
    tenants: BTreeMap<String, TenantState>,
    /// The end of the time for which the host asked for no requests.
    quiet_until: Option<Instant>,
}

/// The failures of one tenant's requests to a host.
#[derive(Debug)]
struct TenantState {
    breaker: CircuitBreaker,
    /// The time at which a request last gave information about the host.
    settled_at: Option<Instant>,
}

impl TenantState {
    /// Returns true when removing it would lose information about the host.
    fn has_history(&self) -> bool {
        self.breaker.state() != BreakerState::Closed
    }
}

impl LimiterState {
    /// Returns the state of a tenant. Above the maximum number, tenants without failures are removed first;
    /// then further tenants share the state of the empty name.
    fn tenant(&mut self, name: &str, limits: &HostLimits) -> &mut TenantState {
        let mut name = name;
        if !self.tenants.contains_key(name) && MAX_TENANTS <= self.tenants.len() {
            self.tenants.retain(|_, state| state.breaker.failures() != 0 || state.has_history());
            if MAX_TENANTS <= self.tenants.len() {
                name = "";
            }
        }
        self.tenants.entry(name.to_owned()).or_insert_with(|| TenantState {
            breaker: CircuitBreaker::new(limits.breaker_failures, limits.breaker_pause),
            settled_at: None,
        })
    }
}

/// The permit for one request to a host. Its holder reports the outcome with `settle`; a dropped permit
/// counts as given up.
#[derive(Debug)]
pub(crate) struct SendPermit {
    limiter: Arc<HostLimiter>,
    tenant: String,
    _slot: OwnedSemaphorePermit,
    signal: HostSignal,
}

/// The wait of a request for its turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Throttle {
    /// Host and port.
    pub(crate) host: String,
    /// The reason for the wait.
    pub(crate) reason: WaitReason,
    /// The length of the wait, when it is known.
    pub(crate) time: Option<Duration>,
}

impl HostLimiters {
    pub(super) fn new(hosts: HostLimitSet) -> Self {
        Self { hosts, limiters: Mutex::default() }
    }

    /// Waits for the turn of a request of `tenant` to `url`, at most `time`. `redirected` is true when the
    /// configuration sends the host's requests to another address. Each kind of wait is reported when it
    /// begins.
    ///
    /// # Errors
    /// When it takes too long, or the host is paused. Nothing was sent then.
    pub(super) async fn acquire(
        &self,
        tenant: &str,
        (url, redirected): (&Url, bool),
        time: Duration,
        on_wait: &(dyn Fn(Throttle) + Sync),
    ) -> Result<SendPermit, SendError> {
        let limiter = self.limiter(url, redirected);
        timeout(time, limiter.acquire(tenant, on_wait)).await.unwrap_or_else(|_| {
            let seconds = time.as_secs_f32();
            let message =
                format!("no free slot for a request to {} within {seconds} s", limiter.host);
            Err(SendError::not_sent(ErrorKind::Timeout, message))
        })
    }

    /// The state of each host, by name.
    pub(super) fn states(&self) -> Vec<HostState> {
        let limiters: Vec<_> = lock(&self.limiters).values().cloned().collect();
        limiters.iter().map(|limiter| limiter.state()).collect()
    }

    /// The health of the hosts that received a request recently.
    pub(super) fn recent_health(&self) -> Vec<HostHealth> {
        let limiters: Vec<_> = lock(&self.limiters).values().cloned().collect();
        limiters.iter().filter_map(|limiter| limiter.health()).collect()
    }

    fn limiter(&self, url: &Url, redirected: bool) -> Arc<HostLimiter> {
        let host = authority(url);
        let mut limiters = lock(&self.limiters);
        if MAX_HOSTS <= limiters.len() {
            limiters.retain(|_, limiter| 1 < Arc::strong_count(limiter) || limiter.has_history());
        }
        if let Some(limiter) = limiters.get(&host) {
            return Arc::clone(limiter);
        }
        let limiter =
            Arc::new(HostLimiter::new(host.clone(), self.hosts.limits_of(url, redirected)));
        limiters.insert(host, Arc::clone(&limiter));
        limiter
    }
}

impl HostLimitSet {
    /// The limits of the host of `url`. A host with a configured upstream has no default rate, because the
    /// upstream belongs to the operator.
    fn limits_of(&self, url: &Url, redirected: bool) -> HostLimits {
        let own = self.by_host.iter().find(|(domain, _)| domain.covers(url));
        match own {
            Some((_, limits)) => limits.clone(),
            None if redirected => HostLimits { requests_per_second: None, ..self.default.clone() },
            None => self.default.clone(),
        }
    }
}

impl HostLimiter {
    fn new(host: String, limits: HostLimits) -> Self {
        let rate = limits
            .requests_per_second
            .map(|rate| RateLimiter::direct(Quota::per_second(rate).allow_burst(limits.burst)));
        Self {
            host,
            slots: Arc::new(Semaphore::new(limits.max_concurrency.get() as usize)),
            rate,
            next: tokio::sync::Mutex::default(),
            state: Mutex::default(),
            limits,
        }
    }

    async fn acquire(
        self: &Arc<Self>,
        tenant: &str,
        on_wait: &(dyn Fn(Throttle) + Sync),
    ) -> Result<SendPermit, SendError> {
        let report = |reason, time| on_wait(Throttle { host: self.host.clone(), reason, time });
        self.check_breaker(tenant)?;
        let slots = Arc::clone(&self.slots);
        let slot = match Arc::clone(&slots).try_acquire_owned() {
            Ok(slot) => slot,
            Err(_) => {
                report(WaitReason::Concurrency, None);
                // Never closed.
                slots
                    .acquire_owned()
                    .await
                    .map_err(|_| self.to_pause_error(tenant, Duration::ZERO))?
            }
        };
        let next = self.next.lock().await;
        if let Some(time) = self.remaining_quiet_time() {
            report(WaitReason::RetryAfter, Some(time));
            tokio::time::sleep(time).await;
        }
        if let Some(rate) = &self.rate {
            let mut is_reported = false;
            while let Err(early) = rate.check() {
                let time = early.wait_time_from(rate.clock().now());
                if !std::mem::replace(&mut is_reported, true) {
                    report(WaitReason::Rate, Some(time));
                }
                tokio::time::sleep(time).await;
            }
        }
        drop(next);
        let admitted = lock(&self.state).tenant(tenant, &self.limits).breaker.admit(Instant::now());
        admitted.map_err(|pause| self.to_pause_error(tenant, pause))?;
        let tenant = tenant.to_owned();
        Ok(SendPermit {
            limiter: Arc::clone(self),
            tenant,
            _slot: slot,
            signal: HostSignal::Unknown,
        })
    }

    fn check_breaker(&self, tenant: &str) -> Result<(), SendError> {
        let checked = lock(&self.state).tenant(tenant, &self.limits).breaker.check(Instant::now());
        checked.map_err(|pause| self.to_pause_error(tenant, pause))
    }

    fn to_pause_error(&self, tenant: &str, pause: Duration) -> SendError {
        let mut shared = lock(&self.state);
        let breaker = &shared.tenant(tenant, &self.limits).breaker;
        let (failures, seconds) = (breaker.failures(), pause.as_secs().max(1));
        let (kind, what) = match breaker.is_unreachable() {
            true => (ErrorKind::HostUnreachable, "could not be reached from here"),
            false => (ErrorKind::HostPaused, "failed"),
        };
        let message = format!(
            "{} {what} {failures} times in a row; the executor sends it no requests for {seconds} s",
            self.host
        );
        SendError::not_sent(kind, message)
    }

    /// The remaining time for which the host wants no requests.
    fn remaining_quiet_time(&self) -> Option<Duration> {
        let until = lock(&self.state).quiet_until?;
        Some(until.saturating_duration_since(Instant::now())).filter(|time| !time.is_zero())
    }

    /// Returns true when removing the lane would lose information about the host.
    fn has_history(&self) -> bool {
        self.remaining_quiet_time().is_some()
            || lock(&self.state).tenants.values().any(TenantState::has_history)
    }

    /// `None` when the last request is too long ago, or when no connection was made: then this machine
    /// knows nothing about the host. One failure may be chance; each further failure in a row makes that
    /// less likely. Of several tenants, the one with the best health of the host counts.
    fn health(&self) -> Option<HostHealth> {
        let host = Domain::new(&self.host).ok()?;
        let shared = lock(&self.state);
        let is_fresh = |state: &&TenantState| {
            state.settled_at.is_some_and(|at| at.elapsed() < HEALTH_WINDOW)
                && !state.breaker.is_unreachable()
        };
        let fresh = shared.tenants.values().filter(is_fresh);
        let health = fresh.map(|state| match state.breaker.state() {
            BreakerState::Open(_) => 0.0,
            BreakerState::Closed | BreakerState::Trial => {
                1.0 / (1.0 + f64::from(state.breaker.failures()))
            }
        });
        Some(HostHealth { host, health: health.reduce(f64::max)? })
    }

    fn state(&self) -> HostState {
        let max_concurrency = self.limits.max_concurrency.get();
        let free = u32::try_from(self.slots.available_permits()).unwrap_or(u32::MAX);
        let quiet = self.remaining_quiet_time();
        let shared = lock(&self.state);
        // Of several tenants, shows the one with the worst breaker state.
        let severity = |state: &BreakerState| match state {
            BreakerState::Closed => 0,
            BreakerState::Trial => 1,
            BreakerState::Open(_) => 2,
        };
        let states = shared.tenants.values().map(|tenant| tenant.breaker.state());
        let state = states.max_by_key(severity).unwrap_or(BreakerState::Closed);
        let failures = shared.tenants.values().map(|tenant| tenant.breaker.failures()).max();
        let until = |tenant: &TenantState| match tenant.breaker.state() {
            BreakerState::Open(until) => Some(until.saturating_duration_since(Instant::now())),
            BreakerState::Closed | BreakerState::Trial => None,
        };
        let open = shared.tenants.values().filter_map(until).max();
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        HostState {
            host: self.host.clone(),
            in_flight: max_concurrency.saturating_sub(free),
            max_concurrency,
            failures: failures.unwrap_or(0),
            breaker: match state {
                BreakerState::Closed => "closed",
                BreakerState::Open(_) => "open",
                BreakerState::Trial => "half_open",
            }
            .to_owned(),
            paused_ms: open.max(quiet).map(milliseconds),
        }
    }
}

impl SendPermit {
    /// Records the end of a request, and its meaning for the health of the host.
    pub(super) fn settle(mut self, health: HostSignal, quiet: Option<Duration>) {
        self.signal = health;
        if let Some(quiet) = quiet {
            let until = Instant::now() + quiet;
            let mut shared = lock(&self.limiter.state);
            shared.quiet_until = shared.quiet_until.max(Some(until));
        }
    }
}

impl Drop for SendPermit {
    fn drop(&mut self) {
        let now = Instant::now();
        let mut shared = lock(&self.limiter.state);
        let state = shared.tenant(&self.tenant, &self.limiter.limits);
        state.breaker.settle(self.signal, now);
        if self.signal != HostSignal::Unknown {
            state.settled_at = Some(now);
        }
    }
}

/// Locks a mutex. A panic while it is locked leaves counters that can still be used.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    const SOON: Duration = Duration::from_millis(5);

    fn limiters(change: impl FnOnce(&mut HostLimits)) -> HostLimiters {
        let mut hosts = HostLimitSet::default();
        change(&mut hosts.default);
        HostLimiters::new(hosts)
    }

    fn number(n: u32) -> NonZeroU32 {
        NonZeroU32::new(n).unwrap()
    }

    /// A turn that comes soon or not at all, and the reasons for its waits.
    async fn turn_at(
        limiters: &HostLimiters,
        url: &str,
        redirected: bool,
    ) -> (Result<SendPermit, ErrorKind>, Vec<WaitReason>) {
        let waits = Mutex::<Vec<WaitReason>>::default();
        let on_wait = |wait: Throttle| lock(&waits).push(wait.reason);
        let url = url.parse().unwrap();
        let turn = limiters.acquire("owner", (&url, redirected), SOON, &on_wait).await;
        let turn = turn.map_err(|failure| {
            assert!(!failure.sent);
            failure.error.kind
        });
        let waits = lock(&waits).clone();
        (turn, waits)
    }

    async fn turn(limiters: &HostLimiters) -> (Result<SendPermit, ErrorKind>, Vec<WaitReason>) {
        turn_at(limiters, "https://api.example/", false).await
    }

    #[tokio::test]
    async fn so_many_requests_are_under_way_at_a_time() {
        let limiters = limiters(|limits| limits.max_concurrency = number(2));
        let first = turn(&limiters).await.0.unwrap();
        let _second = turn(&limiters).await.0.unwrap();
        assert_eq!(limiters.states()[0].in_flight, 2);
        let (third, waits) = turn(&limiters).await;
        assert_eq!(
            (third.unwrap_err(), waits),
            (ErrorKind::Timeout, vec![WaitReason::Concurrency])
        );
        assert!(turn_at(&limiters, "https://other.example/", false).await.0.is_ok());
        assert!(turn_at(&limiters, "https://api.example:8443/", false).await.0.is_ok());
        drop(first);
        let (third, waits) = turn(&limiters).await;
        assert!(third.is_ok() && waits.is_empty());
    }

    #[tokio::test]
    async fn requests_follow_one_another_no_faster_than_the_rate() {
        let slow = |limits: &mut HostLimits| {
            limits.requests_per_second = Some(number(1));
            limits.burst = number(3);
        };
        let limiters = limiters(slow);
        for _ in 0..3 {
            assert!(turn(&limiters).await.0.is_ok());
        }
        let (fourth, waits) = turn(&limiters).await;
        assert_eq!((fourth.unwrap_err(), waits), (ErrorKind::Timeout, vec![WaitReason::Rate]));
        // An upstream is the operator's: no default rate.
        for _ in 0..200 {
            let (turn, waits) = turn_at(&limiters, "https://led.example/", true).await;
            assert!(turn.is_ok() && waits.is_empty());
        }
    }

    #[tokio::test]
    async fn a_host_has_limits_of_its_own() {
        let mut hosts = HostLimitSet::default();
        let one = HostLimits { max_concurrency: number(1), ..HostLimits::default() };
        hosts.by_host.insert(Domain::new("api.example").unwrap(), one);
        let limiters = HostLimiters::new(hosts);
        let _first = turn(&limiters).await.0.unwrap();
        assert!(turn(&limiters).await.0.is_err());
        let _other = turn_at(&limiters, "https://other.example/", false).await.0.unwrap();
        assert!(turn_at(&limiters, "https://other.example/", false).await.0.is_ok());
    }

    #[tokio::test]
    async fn a_host_that_asks_for_a_rest_gets_it_from_everybody() {
        let limiters = limiters(|_| {});
        let rest = Some(Duration::from_secs(60));
        turn(&limiters).await.0.unwrap().settle(HostSignal::Good, rest);
        turn(&limiters).await.0.unwrap_err();
        let (refused, waits) = turn(&limiters).await;
        assert_eq!(
            (refused.unwrap_err(), waits),
            (ErrorKind::Timeout, vec![WaitReason::RetryAfter])
        );
        // A shorter one asked for later does not make it shorter.
        let limiter = limiters.limiter(&"https://api.example/".parse().unwrap(), false);
        let slot = Arc::clone(&limiter.slots).acquire_owned().await.unwrap();
        let tenant = "owner".to_owned();
        let late = SendPermit { limiter, tenant, _slot: slot, signal: HostSignal::Unknown };
        late.settle(HostSignal::Good, Some(Duration::ZERO));
        assert!(limiters.states()[0].paused_ms > Some(30_000));
    }

    #[tokio::test]
    async fn a_host_that_fails_again_and_again_is_left_alone() {
        let limiters = limiters(|limits| limits.breaker_failures = 3);
        for _ in 0..3 {
            turn(&limiters).await.0.unwrap().settle(HostSignal::Bad, None);
        }
        let (refused, waits) = turn(&limiters).await;
        assert_eq!((refused.unwrap_err(), waits), (ErrorKind::HostPaused, vec![]));
        let state = &limiters.states()[0];
        assert_eq!((state.breaker.as_str(), state.failures, state.in_flight), ("open", 3, 0));
        assert!(state.paused_ms.is_some());
        assert!(turn_at(&limiters, "https://other.example/", false).await.0.is_ok());
    }

    /// A network that is away says nothing about any service: no run and no report blames one for it.
    #[tokio::test]
    async fn unreachable_host_opens_circuit_without_blame() {
        let limiters = limiters(|limits| limits.breaker_failures = 3);
        for _ in 0..3 {
            turn(&limiters).await.0.unwrap().settle(HostSignal::Unreachable, None);
        }
        let (refused, _) = turn(&limiters).await;
        assert_eq!(refused.unwrap_err(), ErrorKind::HostUnreachable);
        assert_eq!(limiters.states()[0].breaker, "open");
        assert_eq!(limiters.recent_health(), []);
    }

    #[tokio::test]
    async fn the_failures_of_one_tenant_close_a_host_for_no_other() {
        let limiters = limiters(|limits| {
            limits.breaker_failures = 3;
            // Those many requests do not wait for the rate.
            limits.requests_per_second = None;
        });
        let url = "https://api.example/".parse().unwrap();
        let turn =
            async |tenant: &str| limiters.acquire(tenant, (&url, false), SOON, &|_| {}).await;
        for _ in 0..3 {
            turn("bob").await.unwrap().settle(HostSignal::Bad, None);
        }
        assert_eq!(turn("bob").await.unwrap_err().error.kind, ErrorKind::HostPaused);
        turn("alice").await.unwrap().settle(HostSignal::Good, None);
        // The success of one opens it for no other, either.
        assert_eq!(turn("bob").await.unwrap_err().error.kind, ErrorKind::HostPaused);
        assert_eq!(
            (limiters.states()[0].breaker.as_str(), limiters.states()[0].failures),
            ("open", 3)
        );
        assert_eq!(limiters.recent_health()[0].health, 1.0);
        // The state is bounded, however many tenants there are. Alice, who had no failure, is
        // forgotten; the tenants beyond the bound share one count, which three of them use up.
        let mut refused = Vec::new();
        for n in 0..2 * MAX_TENANTS {
            match turn(&format!("t{n}")).await {
                Ok(turn) => turn.settle(HostSignal::Bad, None),
                Err(failure) => refused.push((n, failure.error.kind)),
            }
        }
        let beyond = MAX_TENANTS - 1..2 * MAX_TENANTS;
        let expected: Vec<_> = beyond.skip(3).map(|n| (n, ErrorKind::HostPaused)).collect();
        assert_eq!(refused, expected);
        let limiter = limiters.limiter(&url, false);
        assert_eq!(lock(&limiter.state).tenants.len(), MAX_TENANTS + 1);
        drop(turn("t0").await.unwrap());
        assert_eq!(turn("bob").await.unwrap_err().error.kind, ErrorKind::HostPaused);
    }

    #[tokio::test]
    async fn health_tells_of_hosts_that_were_asked_just_now() {
        let limiters = limiters(|limits| limits.breaker_failures = 3);
        let health = || -> Vec<_> {
            limiters
                .recent_health()
                .iter()
                .map(|host| (host.host.to_string(), host.health))
                .collect()
        };
        let host = "api.example".to_owned();
        // A dropped permit reports nothing.
        drop(turn(&limiters).await.0.unwrap());
        assert_eq!(health(), []);
        turn(&limiters).await.0.unwrap().settle(HostSignal::Good, None);
        assert_eq!(health(), [(host.clone(), 1.0)]);
        for expected in [0.5, 1.0 / 3.0, 0.0] {
            turn(&limiters).await.0.unwrap().settle(HostSignal::Bad, None);
            assert_eq!(health(), [(host.clone(), expected)]);
        }
        let limiter = limiters.limiter(&"https://api.example/".parse().unwrap(), false);
        let old = Instant::now().checked_sub(HEALTH_WINDOW);
        lock(&limiter.state).tenants.values_mut().for_each(|state| state.settled_at = old);
        assert_eq!(health(), []);
    }

    #[tokio::test]
    async fn only_idle_host_limiters_are_dropped() {
        let limiters = limiters(|limits| limits.breaker_failures = 1);
        let busy = turn_at(&limiters, "https://busy.example/", false).await.0.unwrap();
        turn_at(&limiters, "https://bad.example/", false)
            .await
            .0
            .unwrap()
            .settle(HostSignal::Bad, None);
        for n in 0..2 * MAX_HOSTS {
            turn_at(&limiters, &format!("https://h{n}.example/"), false).await.0.unwrap();
        }
        let states = limiters.states();
        assert!(states.len() <= MAX_HOSTS + 1, "{}", states.len());
        for host in ["busy.example", "bad.example"] {
            assert!(states.iter().any(|state| state.host == host), "{host}");
        }
        drop(busy);
    }
}
