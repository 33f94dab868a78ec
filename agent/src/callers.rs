//! Whose token a service was shown, by asking a registry (RFC 7662).
//!
//! What is known is remembered for a few seconds, so that a registry is not asked for every request
//! of a caller; and no longer, so that what was revoked ends. That a token is not known is not
//! remembered: one that was made just now opens at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use a2s::api::{Introspection, IntrospectionRequest};
use a2s::{Caller, Digest, Identify, Later, Scope, Secret};
use jiff::{SignedDuration, Timestamp};

use crate::client::{Client, Error};
use crate::outside::Outside;

/// How long an answer of the registry is believed.
const BELIEVED: SignedDuration = SignedDuration::from_secs(10);
/// How many callers are remembered at once.
const MOST: usize = 1_024;
/// The most bytes of an answer.
const MAX_ANSWER: usize = 16 << 10;
/// What a registry says to whoever may not ask it, or that knows of no tokens: the tokens of its
/// callers are not known to it either.
const KNOWS_NOTHING: [u16; 4] = [401, 403, 404, 405];

/// Asks a registry whose tokens these are.
#[derive(Debug)]
pub struct Callers {
    client: Client,
    outside: Outside,
    /// Who shows the token with this digest, and how long that is believed.
    known: Mutex<BTreeMap<Digest, (Caller, Timestamp)>>,
}

impl Callers {
    /// Asks the registry that `client` reaches, with the token that `client` shows.
    #[must_use]
    pub fn new(client: Client, outside: Outside) -> Self {
        Self { client: client.up_to(MAX_ANSWER), outside, known: Mutex::default() }
    }

    async fn find(&self, token: &Secret) -> Result<Option<Caller>, String> {
        let key = Digest::of_bytes(token.reveal().as_bytes());
        let now = self.outside.now();
        let remembered = self.known().get(&key).cloned();
        if let Some((caller, _)) = remembered.filter(|(_, until)| now < *until) {
            return Ok(Some(caller));
        }
        let request = IntrospectionRequest { token: token.clone() };
        let answer: Introspection =
            match self.client.post(&["v1", "tokens", "introspect"], &request).await {
                Ok(answer) => answer,
                Err(Error::Refused { problem }) if KNOWS_NOTHING.contains(&problem.status) => {
                    tracing::warn!(%problem, "the registry tells this service of no tokens");
                    Introspection::default()
                }
                Err(error) => return Err(error.to_string()),
            };
        let Introspection { active, scope, sub, exp } = answer;
        let mut known = self.known();
        let Some(subject) = sub.filter(|_| active) else {
            known.remove(&key);
            return Ok(None);
        };
        // Scopes that this version does not know open nothing in it.
        let scope = scope.unwrap_or_default();
        let scopes = scope.split_whitespace().filter_map(|scope| scope.parse().ok());
        let caller = Caller { subject, scopes: scopes.collect::<BTreeSet<Scope>>() };
        let until = now.checked_add(BELIEVED).unwrap_or(now);
        let end = exp.and_then(|end| Timestamp::from_second(end).ok());
        if known.len() >= MOST {
            known.retain(|_, (_, until)| now < *until);
        }
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(key, (caller.clone(), end.map_or(until, |end| until.min(end))));
        Ok(Some(caller))
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<Digest, (Caller, Timestamp)>> {
        // Nothing panics while it is held, and what is missing is asked for.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Identify for Callers {
    fn identify<'a>(&'a self, token: &'a Secret) -> Later<'a, Result<Option<Caller>, String>> {
        Box::pin(self.find(token))
    }
}
