//! Quotas for streams and sessions that stay open: a share for each caller and each token, and the total.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{Principal, TokenSubject};

/// The maximum numbers of streams that are open at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamLimits {
    /// The maximum for all callers.
    pub total: usize,
    /// The maximum for one principal. All principals of one token have [`token_share`] together.
    pub principal: usize,
    /// The maximum for all callers without a known token together.
    pub anonymous: usize,
}

/// The share of one token, whose holder may name any number of end users, in a `total` of which each
/// principal may have `principal`: half, so that there is room for others.
#[must_use]
pub fn token_share(total: usize, principal: usize) -> usize {
    (total / 2).max(principal)
}

/// The open streams of one service, by caller.
#[derive(Debug, Clone)]
pub struct StreamQuota {
    limits: StreamLimits,
    open: Arc<Mutex<BTreeMap<Option<Principal>, usize>>>,
}

/// The permit for one open stream. Dropping it makes room for another one.
#[derive(Debug)]
pub struct StreamPermit {
    quota: StreamQuota,
    caller: Option<Principal>,
}

/// The rejection of one more stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StreamRejection {
    /// All callers together have the maximum number of streams.
    #[error("{0} streams are open, which is the limit")]
    Total(usize),
    /// The caller has the maximum number of streams for one principal.
    #[error("{0} streams of this caller are open, which is the limit for one caller")]
    Principal(usize),
    /// The end users of the caller's token together have the maximum number of streams.
    #[error(
        "{0} streams of the end users of this token are open, which is the limit for one token"
    )]
    Token(usize),
    /// All callers without a known token together have the maximum number of streams.
    #[error("{0} streams of callers without a token are open, which is the limit for all of them")]
    Anonymous(usize),
}

impl StreamQuota {
    /// Creates a quota without open streams.
    #[must_use]
    pub fn new(limits: StreamLimits) -> Self {
        Self { limits, open: Arc::default() }
    }

    /// Reserves one stream for a caller; `None` is a caller without a known token.
    ///
    /// # Errors
    /// Returns the limit that is reached. The caller's own limit has priority, because other callers cannot
    /// change it.
    pub fn reserve(&self, caller: Option<Principal>) -> Result<StreamPermit, StreamRejection> {
        let mut open = self.lock();
        let own = open.get(&caller).copied().unwrap_or_default();
        let StreamLimits { total, principal, anonymous } = self.limits;
        let of_token = token_share(total, principal);
        match &caller {
            Some(_) if principal <= own => return Err(StreamRejection::Principal(principal)),
            Some(caller) if of_token <= count_of_token(&open, &caller.token) => {
                return Err(StreamRejection::Token(of_token));
            }
            None if anonymous <= own => return Err(StreamRejection::Anonymous(anonymous)),
            _ if total <= open.values().sum() => return Err(StreamRejection::Total(total)),
            _ => {}
        }
        open.insert(caller.clone(), own + 1);
        drop(open);
        Ok(StreamPermit { quota: self.clone(), caller })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Option<Principal>, usize>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the number of streams of all principals of a token.
fn count_of_token(open: &BTreeMap<Option<Principal>, usize>, token: &TokenSubject) -> usize {
    let is_own = |caller: &Option<Principal>| caller.as_ref().is_some_and(|it| it.token == *token);
    open.iter().filter(|(caller, _)| is_own(caller)).map(|(_, count)| count).sum()
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        let mut open = self.quota.lock();
        if let Some(own) = open.get_mut(&self.caller) {
            *own -= 1;
            if *own == 0 {
                open.remove(&self.caller);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_has_a_share_and_all_have_a_total() {
        let quota = StreamQuota::new(StreamLimits { total: 4, principal: 2, anonymous: 1 });
        let reserve = |name: &str| {
            let caller = (!name.is_empty()).then(|| TokenSubject::new(name).unwrap().into());
            quota.reserve(caller)
        };
        let anonymous = reserve("").unwrap();
        assert_eq!(reserve("").unwrap_err(), StreamRejection::Anonymous(1));
        let _alice = [reserve("alice").unwrap(), reserve("alice").unwrap()];
        assert_eq!(reserve("alice").unwrap_err(), StreamRejection::Principal(2));
        let bob = reserve("bob").unwrap();
        assert_eq!(reserve("bob").unwrap_err(), StreamRejection::Total(4));

        drop(anonymous);
        let _bob = [bob, reserve("bob").unwrap()];
        assert_eq!(quota.lock().len(), 2, "callers without a stream are forgotten");
    }

    #[test]
    fn end_users_of_a_token_leave_half_to_others() {
        let quota = StreamQuota::new(StreamLimits { total: 8, principal: 2, anonymous: 0 });
        let reserve = |name: &str| quota.reserve(Some(name.parse().unwrap()));
        let _taken: Vec<_> = (0..4).map(|user| reserve(&format!("svc/u{user}")).unwrap()).collect();
        assert_eq!(reserve("svc/u4").unwrap_err(), StreamRejection::Token(4));
        assert_eq!(reserve("svc").unwrap_err(), StreamRejection::Token(4));
        reserve("owner").unwrap();
    }
}
