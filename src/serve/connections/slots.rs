//! The slots of connections: so many in total, and so many for one remote address.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::ConnectionLimits;

/// The connection slots of a server.
#[derive(Debug)]
pub(super) struct ConnectionSlots {
    total: Arc<Semaphore>,
    max_per_address: u32,
    addresses: Mutex<BTreeMap<IpAddr, u32>>,
}

/// The slot of one connection; dropping it makes the slot free.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    _permit: OwnedSemaphorePermit,
    slots: Arc<ConnectionSlots>,
    address: Option<IpAddr>,
}

impl ConnectionSlots {
    pub(super) fn new(limits: &ConnectionLimits) -> Arc<Self> {
        let total = (limits.max_connections as usize).min(Semaphore::MAX_PERMITS);
        Arc::new(Self {
            total: Arc::new(Semaphore::new(total)),
            max_per_address: limits.max_connections_per_address,
            addresses: Mutex::default(),
        })
    }

    /// Takes a slot for a connection of `address`; returns none when all slots are taken, or all slots of
    /// this address.
    pub(super) fn take(self: &Arc<Self>, address: IpAddr) -> Option<ConnectionSlot> {
        let permit = Arc::clone(&self.total).try_acquire_owned().ok()?;
        let address = network_of(address);
        if let Some(address) = address {
            let mut addresses = self.lock();
            let count = addresses.get(&address).copied().unwrap_or(0);
            if self.max_per_address <= count {
                return None;
            }
            addresses.insert(address, count + 1);
        }
        Some(ConnectionSlot { _permit: permit, slots: Arc::clone(self), address })
    }

    /// Locks the state. Its counters are still valid after a panic.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<IpAddr, u32>> {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let Some(address) = self.address else { return };
        let mut addresses = self.slots.lock();
        match addresses.get(&address).copied() {
            Some(count) if 1 < count => {
                addresses.insert(address, count - 1);
            }
            _ => {
                addresses.remove(&address);
            }
        }
    }
}

/// Returns the address for counting connections: with IPv6 the /64 network, which one customer has; none
/// for loopback.
fn network_of(address: IpAddr) -> Option<IpAddr> {
    let address = address.to_canonical();
    match address {
        _ if address.is_loopback() => None,
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Some(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into())
        }
        IpAddr::V4(_) => Some(address),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remote_address_has_a_share_and_loopback_has_all() {
        let limits = ConnectionLimits {
            max_connections: 5,
            max_connections_per_address: 2,
            ..ConnectionLimits::default()
        };
        let slots = ConnectionSlots::new(&limits);
        let take = |address: &str| slots.take(address.parse().unwrap());
        let first = take("2001:db8::1").unwrap();
        let _second = take("2001:db8::ffff:2").unwrap();
        assert!(take("2001:db8::3").is_none());
        let _other = take("2001:db8:0:1::1").unwrap();
        drop(first);
        let _third = take("2001:db8::3").unwrap();
        assert!(take("2001:db8::4").is_none());
        let local = [take("127.0.0.1").unwrap(), take("127.0.0.1").unwrap()];
        assert!(take("127.0.0.1").is_none() && take("192.0.2.1").is_none());
        drop(local);
        let _mapped = take("::ffff:192.0.2.1").unwrap();
        let _same = take("192.0.2.1").unwrap();
        assert!(slots.total.available_permits() == 0);
    }
}
