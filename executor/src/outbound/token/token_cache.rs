//! The cache of tokens, with a lock for each token, so that requests wait for one fetch.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

use a2s::{Domain, Secret};
use jiff::Timestamp;

use super::super::SendError;

/// The most tokens that are kept; unused ones are removed first.
const MAX_TOKENS: usize = 1_024;

/// The cache of tokens.
#[derive(Debug, Default)]
pub(in crate::outbound) struct TokenCache {
    slots: Mutex<BTreeMap<TokenKey, Arc<TokenSlot>>>,
    refresh_locks: Mutex<BTreeMap<(Domain, String), RefreshLock>>,
}

/// The lock for using the refresh token of a credential.
type RefreshLock = Arc<tokio::sync::Mutex<()>>;

/// The key of a cached token.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TokenKey {
    pub(super) host: Domain,
    pub(super) scheme: String,
    pub(super) set_at: Timestamp,
    pub(super) url: String,
    pub(super) scopes: Vec<String>,
}

/// One token, with the lock for it: only one request fetches it at a time.
#[derive(Debug, Default)]
pub(super) struct TokenSlot {
    pub(super) state: Arc<tokio::sync::Mutex<TokenState>>,
    pub(super) fetches: AtomicU64,
}

#[derive(Debug, Default)]
pub(super) struct TokenState {
    pub(super) token: Option<CachedToken>,
    /// Set when there was one before.
    pub(super) had_token: bool,
    /// The reason for which the last fetch failed.
    pub(super) failure: Option<SendError>,
}

#[derive(Debug, Clone)]
pub(super) struct CachedToken {
    pub(super) value: Secret,
    /// The time at which it was issued.
    pub(super) from: Timestamp,
    /// The time from which it is not used any more.
    pub(super) until: Timestamp,
}

impl CachedToken {
    /// Returns true when it can be used. After the clock was set back, the age of a token from the future
    /// is unknown, so it is not used.
    pub(super) fn is_usable(&self, now: Timestamp) -> bool {
        (self.from..self.until).contains(&now)
    }
}

impl TokenCache {
    /// Returns the slot of the token for `key`. Slots for an older credential of the same name are removed.
    pub(super) fn slot(&self, key: TokenKey) -> Arc<TokenSlot> {
        // Nothing panics while it holds the lock.
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if !slots.contains_key(&key) {
            let is_older = |known: &TokenKey| {
                known.host == key.host && known.scheme == key.scheme && known.set_at < key.set_at
            };
            slots.retain(|known, _| !is_older(known));
            if MAX_TOKENS <= slots.len() {
                slots.retain(|_, slot| 1 < Arc::strong_count(slot));
            }
        }
        Arc::clone(slots.entry(key).or_default())
    }

    /// Returns the lock for using the refresh token of a credential.
    pub(super) fn refresh_lock(&self, host: &Domain, scheme: &str) -> RefreshLock {
        let mut renewals = self.refresh_locks.lock().unwrap_or_else(PoisonError::into_inner);
        if MAX_TOKENS <= renewals.len() {
            renewals.retain(|_, renewal| 1 < Arc::strong_count(renewal));
        }
        Arc::clone(renewals.entry((host.clone(), scheme.to_owned())).or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_valid_only_between_its_dates() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let token = CachedToken { value: Secret::new("t"), from: at(100), until: at(200) };
        let good = [99, 100, 199, 200].map(|second| token.is_usable(at(second)));
        assert_eq!(good, [false, true, true, false]);
    }

    #[test]
    fn a_credential_that_is_set_anew_leaves_no_token_of_the_old_one() {
        let key = |scheme: &str, set_at| TokenKey {
            host: Domain::new("api.example").unwrap(),
            scheme: scheme.to_owned(),
            set_at: Timestamp::from_second(set_at).unwrap(),
            url: String::new(),
            scopes: Vec::new(),
        };
        let tokens = TokenCache::default();
        for (scheme, set_at) in [("a", 1), ("b", 1), ("a", 2)] {
            tokens.slot(key(scheme, set_at));
        }
        let kept = tokens.slots.lock().unwrap();
        assert!(kept.keys().eq([&key("a", 2), &key("b", 1)]), "{kept:?}");
    }
}
