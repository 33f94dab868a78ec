//! The health of hosts, as executors report it. Kept in memory, because it is valid only for minutes.
//!
//! The health of a host is the average over the executors, one value for each, so that an executor without
//! a network does not make every service look down.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use a2s::Domain;
use a2s_api::HostHealth;

/// The half-life of a bad report in milliseconds. Reports must fade, because a host without traffic gets no
/// new ones.
const HALF_LIFE: f64 = 120_000.0;
/// The age in milliseconds after which a report is removed: five half-lives.
const MAX_AGE: i64 = 600_000;
/// The maximum number of hosts, and of executors that report about each.
const MAX_HOSTS: usize = 4_096;
const MAX_REPORTERS: usize = 64;

/// The reported health of hosts.
#[derive(Debug, Default)]
pub(crate) struct HostHealthTracker {
    hosts: Mutex<BTreeMap<Domain, HostReports>>,
}

/// The last report of each executor about one host, with its time.
type HostReports = BTreeMap<u8, (f64, i64)>;

/// The unhealthy hosts at one time, with their health, 0 to 1.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct UnhealthyHosts(BTreeMap<Domain, f64>);

impl HostHealthTracker {
    /// Records the reports of the executor `voice` at `now`, in milliseconds since 1970.
    pub(crate) fn record_reports(&self, voice: u8, reports: &[HostHealth], now: i64) {
        let mut hosts = self.lock();
        for HostHealth { host, health } in reports {
            if MAX_HOSTS <= hosts.len() && !hosts.contains_key(host) {
                remove_old(&mut hosts, now);
                if MAX_HOSTS <= hosts.len() {
                    continue;
                }
            }
            let voices = hosts.entry(host.clone()).or_default();
            if voices.len() < MAX_REPORTERS || voices.contains_key(&voice) {
                voices.insert(voice, (health.clamp(0.0, 1.0), now));
            }
        }
    }

    /// Returns the unhealthy hosts at `now`; usually there are none.
    pub(crate) fn unhealthy_hosts(&self, now: i64) -> UnhealthyHosts {
        let mut hosts = self.lock();
        remove_old(&mut hosts, now);
        let unhealthy = hosts
            .iter()
            .map(|(host, voices)| (host.clone(), average_health(voices, now)))
            .filter(|(_, health)| *health < 1.0);
        UnhealthyHosts(unhealthy.collect())
    }

    /// Locks the hosts. No code panics while it holds this lock; after a panic, a part of a report would be
    /// left.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Domain, HostReports>> {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl UnhealthyHosts {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the lowest health of these hosts, for a capability that needs all of them.
    pub(crate) fn worst_health<'d>(&self, domains: impl IntoIterator<Item = &'d Domain>) -> f64 {
        domains.into_iter().filter_map(|domain| self.0.get(domain)).copied().fold(1.0, f64::min)
    }
}

fn average_health(voices: &HostReports, now: i64) -> f64 {
    let badness = voices.values().map(|(health, at)| {
        let age = now.saturating_sub(*at).max(0) as f64;
        (1.0 - health) * (-age / HALF_LIFE).exp2()
    });
    1.0 - badness.sum::<f64>() / voices.len().max(1) as f64
}

fn remove_old(hosts: &mut BTreeMap<Domain, HostReports>, now: i64) {
    hosts.retain(|_, voices| {
        voices.retain(|_, (_, at)| now.saturating_sub(*at) < MAX_AGE);
        !voices.is_empty()
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn domain(text: &str) -> Domain {
        Domain::new(text).unwrap()
    }

    fn reports(host: &str, health: f64) -> Vec<HostHealth> {
        vec![HostHealth { host: domain(host), health }]
    }

    #[test]
    fn bad_news_fades_within_minutes_and_good_news_ends_it() {
        let services = HostHealthTracker::default();
        let health = |now| {
            services.unhealthy_hosts(now).worst_health(&[domain("a.example"), domain("b.example")])
        };
        services.record_reports(1, &reports("a.example", 0.0), 0);
        assert_eq!(health(0), 0.0);
        assert!((health(120_000) - 0.5).abs() < 1e-9);
        assert!(services.unhealthy_hosts(MAX_AGE).is_empty());
        services.record_reports(1, &reports("a.example", 0.25), 0);
        assert_eq!(services.unhealthy_hosts(0).worst_health(&[domain("b.example")]), 1.0);
        services.record_reports(1, &reports("a.example", 1.0), 1);
        assert!(services.unhealthy_hosts(1).is_empty());
    }

    #[test]
    fn one_executor_without_a_network_is_one_voice() {
        let services = HostHealthTracker::default();
        for voice in 0..9 {
            services.record_reports(voice, &reports("a.example", 1.0), 0);
        }
        for _ in 0..100 {
            services.record_reports(9, &reports("a.example", 0.0), 0);
        }
        assert!(
            (services.unhealthy_hosts(0).worst_health(&[domain("a.example")]) - 0.9).abs() < 1e-9
        );
    }

    #[test]
    fn memory_is_bounded_and_old_news_makes_room() {
        let services = HostHealthTracker::default();
        for n in 0..2 * MAX_HOSTS {
            services.record_reports(0, &reports(&format!("h{n}.example"), 0.0), 0);
        }
        assert_eq!(services.lock().len(), MAX_HOSTS);
        services.record_reports(0, &reports("new.example", 0.0), MAX_AGE);
        assert_eq!(services.lock().len(), 1);
    }
}
