//! Introspection of tokens, by asking a registry (RFC 7662).
//!
//! A known token is cached for a few seconds, so that the registry is not asked for every request of a
//! caller, and a revoked token soon stops working. An unknown token is not cached: a token that was just
//! created works at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use a2s::{Digest, Secret};
use a2s_api::{BoxFuture, Caller, TokenIntrospector, TokenScope, TokenSubject};
use a2s_api::{IntrospectionRequest, IntrospectionResponse};
use jiff::{SignedDuration, Timestamp};

use crate::client::{Error, ServiceClient};
use crate::clock_and_ids::ClockAndIds;

/// The time that a response of the registry is cached.
const CACHE_TIME: SignedDuration = SignedDuration::from_secs(10);
/// The most callers in the cache.
const MAX_CALLERS: usize = 1_024;
/// The maximum size of a response, in bytes.
const MAX_ANSWER: usize = 16 << 10;
/// The statuses of a registry that this service may not ask, or that does not know tokens. Then the tokens
/// of the callers are not known to it either.
const NO_INTROSPECTION: [u16; 4] = [401, 403, 404, 405];

/// Asks a registry for the holders of tokens.
#[derive(Debug)]
pub struct RegistryTokenIntrospector {
    client: ServiceClient,
    clock: ClockAndIds,
    /// The caller with the token of this digest, and the end of its cache time.
    known: Mutex<BTreeMap<Digest, (Caller, Timestamp)>>,
    /// Set when the owner of the registry is also a caller.
    with_owner: bool,
    /// The scopes that the registry can give at this service.
    scopes: BTreeSet<TokenScope>,
}

impl RegistryTokenIntrospector {
    /// Creates an introspector that uses the registry and the token of `client`.
    #[must_use]
    pub fn new(client: ServiceClient, clock: ClockAndIds) -> Self {
        Self {
            client: client.with_max_bytes(MAX_ANSWER),
            clock,
            known: Mutex::default(),
            with_owner: false,
            scopes: TokenScope::ALL.into(),
        }
    }

    /// Returns an introspector for a service without its own owner token: it accepts the owner of the
    /// registry as a caller.
    #[must_use]
    pub fn with_owner(self) -> Self {
        Self { with_owner: true, ..self }
    }

    /// Returns an introspector for a service with an owner of its own: of the scopes that the registry
    /// states, it takes only these.
    #[must_use]
    pub fn with_scopes(self, scopes: impl Into<BTreeSet<TokenScope>>) -> Self {
        Self { scopes: scopes.into(), ..self }
    }

    async fn introspect_cached(&self, token: &Secret) -> Result<Option<Caller>, String> {
        let key = Digest::of_bytes(token.expose_secret().as_bytes());
        let now = self.clock.now();
        let remembered = self.known().get(&key).cloned();
        if let Some((caller, _)) = remembered.filter(|(_, until)| now < *until) {
            return Ok(Some(caller));
        }
        let request = IntrospectionRequest { token: token.clone() };
        let answer: IntrospectionResponse = match self
            .client
            .post(&["v1", "tokens", "introspect"], &request)
            .await
        {
            Ok(answer) => answer,
            Err(Error::Refused { problem }) if NO_INTROSPECTION.contains(&problem.status) => {
                tracing::warn!(%problem, "the registry does not allow this service to look up tokens");
                IntrospectionResponse::default()
            }
            Err(error) => return Err(error.to_string()),
        };
        let IntrospectionResponse { active, scope, sub, exp } = answer;
        let mut known = self.known();
        // The owner of the registry is not the owner of this service, and each service knows the
        // callers of the other reserved names by itself.
        let is_caller = |subject: &TokenSubject| {
            !subject.is_reserved() || (self.with_owner && subject.is_owner())
        };
        let subject = sub.filter(|_| active).filter(is_caller);
        let Some(subject) = subject else {
            known.remove(&key);
            return Ok(None);
        };
        // Scopes that this version does not know open nothing in it.
        let scope = scope.unwrap_or_default();
        let scopes = scope.split_whitespace().filter_map(|scope| scope.parse().ok());
        let scopes = scopes.filter(|scope| self.scopes.contains(scope)).collect();
        let caller = Caller { subject, end_user: None, scopes };
        let until = now.checked_add(CACHE_TIME).unwrap_or(now);
        let end = exp.and_then(|end| Timestamp::from_second(end).ok());
        if known.len() >= MAX_CALLERS {
            known.retain(|_, (_, until)| now < *until);
        }
        if known.len() >= MAX_CALLERS {
            known.clear();
        }
        known.insert(key, (caller.clone(), end.map_or(until, |end| until.min(end))));
        Ok(Some(caller))
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<Digest, (Caller, Timestamp)>> {
        // Nothing panics while it is held, and a missing entry is requested.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TokenIntrospector for RegistryTokenIntrospector {
    fn introspect<'a>(
        &'a self,
        token: &'a Secret,
    ) -> BoxFuture<'a, Result<Option<Caller>, String>> {
        Box::pin(self.introspect_cached(token))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, AtomicU16, AtomicUsize, Ordering};

    use axum::Router;
    use axum::extract::State;
    use axum::http::StatusCode;
    use axum::response::{IntoResponse as _, Response};
    use axum::routing::post;
    use serde_json::{Value, json};

    use super::*;

    /// A registry that counts how often it is asked.
    #[derive(Debug, Default)]
    struct Asked {
        times: AtomicUsize,
        /// The status of its response; 0 for 200.
        status: AtomicU16,
        revoked: AtomicU16,
    }

    async fn answer(State(asked): State<Arc<Asked>>, body: axum::Json<Value>) -> Response {
        asked.times.fetch_add(1, Ordering::Relaxed);
        let status = asked.status.load(Ordering::Relaxed);
        if status != 0 {
            let problem =
                json!({"type": "x", "title": "x", "status": status, "code": "A2S2", "detail": "x"});
            return (StatusCode::from_u16(status).unwrap(), axum::Json(problem)).into_response();
        }
        let known = asked.revoked.load(Ordering::Relaxed) == 0;
        let told = match body["token"].as_str().unwrap() {
            "good" if known => json!({"active": true, "sub": "ci", "scope": "execute fly"}),
            "brief" => json!({"active": true, "sub": "ci", "scope": "execute", "exp": 1_003}),
            "forged" => json!({"active": true, "sub": "owner", "scope": "publish execute admin"}),
            "service" => json!({"active": true, "sub": "service", "scope": "service"}),
            "root" => json!({"active": true, "sub": "root", "scope": "admin"}),
            _ => json!({"active": false}),
        };
        axum::Json(told).into_response()
    }

    #[tokio::test]
    async fn what_is_known_is_believed_for_a_while_and_nothing_else_is() {
        let (asked, now) = (Arc::new(Asked::default()), Arc::new(AtomicI64::new(1_000)));
        let routes = Router::new().route("/v1/tokens/introspect", post(answer));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
        let serving = axum::serve(listener, routes.with_state(Arc::clone(&asked)));
        tokio::spawn(async move { serving.await.unwrap() });
        let clock = Arc::clone(&now);
        let time = move || Timestamp::from_second(clock.load(Ordering::Relaxed)).unwrap();
        let clock = ClockAndIds::new(time, uuid::Uuid::nil);
        let callers =
            RegistryTokenIntrospector::new(ServiceClient::new(&url, None).unwrap(), clock);
        let ask = async |token: &str| callers.introspect(&Secret::new(token)).await;
        let times = || asked.times.swap(0, Ordering::Relaxed);

        let caller = ask("good").await.unwrap().unwrap();
        // A scope of another version opens nothing here.
        assert_eq!((caller.subject.as_str(), caller.scopes), ("ci", [TokenScope::Execute].into()));
        now.fetch_add(9, Ordering::Relaxed);
        asked.revoked.store(1, Ordering::Relaxed);
        assert!(ask("good").await.unwrap().is_some());
        assert_eq!(times(), 1);
        now.fetch_add(1, Ordering::Relaxed);
        assert_eq!(ask("good").await, Ok(None), "nothing is believed for longer");
        assert_eq!(times(), 1);

        // An earlier expiry ends the caching, and an unknown token is looked up each time.
        now.store(1_000, Ordering::Relaxed);
        assert!(ask("brief").await.unwrap().is_some());
        now.store(1_003, Ordering::Relaxed);
        ask("brief").await.unwrap();
        assert_eq!(times(), 2);
        for _ in 0..3 {
            assert_eq!(ask("wrong").await, Ok(None));
        }
        assert_eq!(times(), 3);

        // A registry cannot make a caller the owner of another service; its tokens may have the
        // scope `admin`, under their own names.
        for forged in ["forged", "service"] {
            assert_eq!(ask(forged).await, Ok(None), "{forged}");
        }
        let forged = Secret::new("forged");
        let with_owner =
            RegistryTokenIntrospector::new(callers.client.clone(), callers.clock.clone())
                .with_owner();
        let owner = with_owner.introspect(&forged).await.unwrap().unwrap();
        assert!(owner.subject.is_owner(), "a service without an owner takes the registry's");
        assert_eq!(with_owner.introspect(&Secret::new("service")).await, Ok(None));
        let root = ask("root").await.unwrap().unwrap();
        assert!(!root.subject.is_owner() && root.has_scope(TokenScope::Admin));
        let with_scopes =
            RegistryTokenIntrospector::new(callers.client.clone(), callers.clock.clone())
                .with_scopes([TokenScope::Execute, TokenScope::Delegate]);
        let root = with_scopes.introspect(&Secret::new("root")).await.unwrap().unwrap();
        assert_eq!(root.scopes, BTreeSet::new(), "an executor has administrators of its own");

        // A registry error does not mean an unknown token.
        for (status, is_known) in [(401, true), (404, true), (500, false), (503, false)] {
            asked.status.store(status, Ordering::Relaxed);
            assert_eq!(ask("other").await.is_ok(), is_known, "{status}");
        }

        // However many there are, few are remembered.
        asked.status.store(0, Ordering::Relaxed);
        let caller =
            Caller { subject: "ci".parse().unwrap(), end_user: None, scopes: BTreeSet::new() };
        for number in 0..MAX_CALLERS {
            let key = Digest::of_bytes(&number.to_le_bytes());
            callers.known().insert(key, (caller.clone(), Timestamp::MAX));
        }
        asked.revoked.store(0, Ordering::Relaxed);
        ask("good").await.unwrap();
        assert!(callers.known().len() <= MAX_CALLERS);
    }
}
