//! Tokens: created here, shown once, and stored only as digests.
//!
//! A token is 256 random bits, so its digest needs no salt and no slow hash: the token cannot be found from
//! the digest, and a partial match of two digests says nothing about their tokens. A wrong token costs its
//! sender as much as the registry: one hash, and one lookup without a row.

use std::sync::Arc;

use a2s::{Digest, Secret};
use a2s_api::{AuthError, BoxFuture, Caller, TokenIntrospector, TokenScope, TokenSubject};
use a2s_api::{IntrospectionResponse, NewToken, TokenEntry, TokenRequest};
use jiff::{SignedDuration, Timestamp};

use crate::store::RegistryStore;
use crate::store::lifecycle::AuditActor;
use crate::store::tokens::{MAX_TOKENS, TokenResult, TokenRow};
use crate::{Clock, Error};

/// The prefix of tokens, so that secret scanners recognise them.
const PREFIX: &str = "a2s_";

/// The longest lifetime of a token: 1,000 years of 365 days.
const MAX_TOKEN_SECONDS: i64 = 31_536_000_000;

/// The tokens in a store.
#[derive(Clone)]
pub(crate) struct TokenService {
    store: Arc<dyn RegistryStore>,
    clock: Clock,
    /// The owner's token, which is not in the store.
    owner: Option<Secret>,
    /// The configured token of the scope `service`, which is not in the store either.
    service: Option<Secret>,
}

impl TokenService {
    pub(crate) fn new(store: Arc<dyn RegistryStore>, clock: Clock, owner: Option<Secret>) -> Self {
        Self { store, clock, owner, service: None }
    }

    /// Returns the service with a configured token of the scope `service`.
    pub(crate) fn with_service(self, service: Option<Secret>) -> Self {
        Self { service, ..self }
    }

    /// Creates a token.
    ///
    /// # Errors
    /// Fails when the request is invalid, the name is taken, or there are too many tokens.
    pub(crate) async fn create(
        &self,
        request: TokenRequest,
        caller: &Caller,
    ) -> Result<NewToken, Error> {
        let TokenRequest { name, scopes, expires_in_s } = request;
        let bad = |text: &str| Err(Error::BadToken(text.to_owned()));
        if scopes.is_empty() {
            return bad("a token must have at least one scope");
        }
        if name.is_reserved() {
            let message = format!("`{name}` is a reserved name; choose another name");
            return Err(Error::BadToken(message));
        }
        // A token opens nothing that its maker's does not.
        if let Some(scope) = scopes.iter().copied().find(|scope| !caller.has_scope(*scope)) {
            return Err(AuthError::MissingScope { subject: caller.subject.clone(), scope }.into());
        }
        let now = (self.clock)();
        let expires_at = match expires_in_s {
            None => None,
            Some(seconds) => {
                let end =
                    i64::try_from(seconds).ok().filter(|s| (1..=MAX_TOKEN_SECONDS).contains(s));
                let end = end.and_then(|s| now.checked_add(SignedDuration::from_secs(s)).ok());
                let Some(end) = end else { return bad("`expires_in_s` is out of range") };
                Some(end)
            }
        };
        let token = generate_token();
        let digest = Digest::of_bytes(token.expose_secret().as_bytes());
        let row = TokenRow { name, scopes, created_at: now, expires_at };
        match self.store.insert_token(&row, digest, &AuditActor::from_caller(caller, now)).await? {
            TokenResult::Created => Ok(NewToken { entry: to_entry(row, now), token }),
            TokenResult::NameTaken => Err(Error::TokenTaken(row.name)),
            TokenResult::TooMany => Err(Error::BadToken(format!(
                "the registry has {MAX_TOKENS} tokens, which is the limit"
            ))),
        }
    }

    /// Revokes a token. It is invalid from now on.
    ///
    /// # Errors
    /// Fails when no token has this name.
    pub(crate) async fn revoke(&self, name: &TokenSubject, caller: &Caller) -> Result<(), Error> {
        let by = AuditActor::from_caller(caller, (self.clock)());
        if self.store.revoke_token(name, &by).await? {
            return Ok(());
        }
        Err(Error::TokenMissing(name.clone()))
    }

    /// Returns all tokens, in order of name.
    pub(crate) async fn list(&self) -> Result<Vec<TokenEntry>, Error> {
        let now = (self.clock)();
        Ok(self.store.list_tokens().await?.into_iter().map(|row| to_entry(row, now)).collect())
    }

    /// The scopes of a token, for other services.
    pub(crate) async fn introspect(&self, token: &Secret) -> Result<IntrospectionResponse, Error> {
        if self.owner.as_ref().is_some_and(|owner| owner.matches(token.expose_secret())) {
            return Ok(to_introspection(Caller::owner(), None));
        }
        if let Some(caller) = self.service_caller(token) {
            return Ok(to_introspection(caller, None));
        }
        let Some(row) = self.find(token).await? else {
            return Ok(IntrospectionResponse::default());
        };
        let caller = Caller { subject: row.name, end_user: None, scopes: row.scopes };
        Ok(to_introspection(caller, row.expires_at))
    }

    /// Returns the caller of the configured token, if this is that token.
    fn service_caller(&self, token: &Secret) -> Option<Caller> {
        let service = self.service.as_ref()?;
        let scopes = [TokenScope::Service].into();
        service.matches(token.expose_secret()).then(|| Caller {
            subject: TokenSubject::service(),
            end_user: None,
            scopes,
        })
    }

    /// Returns the token, when it has not expired.
    async fn find(&self, token: &Secret) -> Result<Option<TokenRow>, Error> {
        let row = self.store.find_token(Digest::of_bytes(token.expose_secret().as_bytes())).await?;
        let now = (self.clock)();
        Ok(row.filter(|row| row.expires_at.is_none_or(|end| now < end)))
    }
}

impl TokenIntrospector for TokenService {
    fn introspect<'a>(
        &'a self,
        token: &'a Secret,
    ) -> BoxFuture<'a, Result<Option<Caller>, String>> {
        Box::pin(async move {
            if let Some(caller) = self.service_caller(token) {
                return Ok(Some(caller));
            }
            let found = self.find(token).await.map_err(|error| {
                tracing::error!(%error, "a token could not be looked up");
                "the database did not respond".to_owned()
            })?;
            Ok(found.map(|row| Caller { subject: row.name, end_user: None, scopes: row.scopes }))
        })
    }
}

impl std::fmt::Debug for TokenService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokens").field("store", &self.store).finish_non_exhaustive()
    }
}

fn to_introspection(caller: Caller, expires_at: Option<Timestamp>) -> IntrospectionResponse {
    let scopes: Vec<_> = caller.scopes.iter().map(|scope| scope.as_str()).collect();
    IntrospectionResponse {
        active: true,
        scope: Some(scopes.join(" ")),
        sub: Some(caller.subject),
        exp: expires_at.map(Timestamp::as_second),
    }
}

fn to_entry(row: TokenRow, now: Timestamp) -> TokenEntry {
    let TokenRow { name, scopes, created_at, expires_at } = row;
    let expired = expires_at.is_some_and(|end| end <= now);
    TokenEntry { name, scopes, created_at, expires_at, expired }
}

/// A new random token.
fn generate_token() -> Secret {
    let mut bytes = [0; 32];
    // Without randomness there are no safe tokens: the process ends.
    #[expect(clippy::expect_used, reason = "the operating system always has randomness")]
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Secret::new(format!("{PREFIX}{digits}"))
}
