//! The tokens that are kept, each with whoever waits for it.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

use a2s::{Domain, Secret};
use jiff::Timestamp;

use super::super::Failure;

/// Tokens that are kept; those that nobody uses are forgotten first.
const MAX_KEPT: usize = 1_024;

/// The tokens that are kept.
#[derive(Debug, Default)]
pub(in crate::outbound) struct Tokens {
    slots: Mutex<BTreeMap<Key, Arc<Slot>>>,
}

/// What a token was got for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) host: Domain,
    pub(super) scheme: String,
    pub(super) set_at: Timestamp,
    pub(super) url: String,
    pub(super) scopes: Vec<String>,
}

/// One token, and whoever waits for it: it is fetched once at a time.
#[derive(Debug, Default)]
pub(super) struct Slot {
    pub(super) state: Arc<tokio::sync::Mutex<State>>,
    pub(super) fetches: AtomicU64,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) token: Option<Token>,
    /// Why the last one could not be fetched.
    pub(super) failure: Option<Failure>,
}

#[derive(Debug, Clone)]
pub(super) struct Token {
    pub(super) value: Secret,
    /// When it is not used any more; none when nobody said.
    pub(super) until: Option<Timestamp>,
}

impl Tokens {
    pub(super) fn slot(&self, key: Key) -> Arc<Slot> {
        // Nothing panics while it holds the lock.
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if MAX_KEPT <= slots.len() && !slots.contains_key(&key) {
            slots.retain(|_, slot| 1 < Arc::strong_count(slot));
        }
        Arc::clone(slots.entry(key).or_default())
    }
}
