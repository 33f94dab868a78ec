//! Authentication and authorization of callers, for every service.
//!
//! A [`AuthGuard`] receives the header `Authorization` and a [`TokenScope`]. The owner's token grants every scope,
//! and the service compares it locally. An [`TokenIntrospector`] looks up every other token: a registry in its
//! database, other services by a request to a registry.

use std::collections::BTreeSet;
use std::fmt;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;

use a2s::Secret;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

/// The maximum length of a subject, in bytes.
const MAX_SUBJECT_LENGTH: usize = 64;
/// The maximum length of an end user's name, in bytes.
const MAX_END_USER_LENGTH: usize = 128;
/// The maximum length of a token that is looked up, in bytes.
const MAX_TOKEN_LENGTH: usize = 512;

/// The header in which a service with the scope `delegate` names the end user it acts for.
pub const ON_BEHALF_OF: &str = "a2s-on-behalf-of";

/// A scope of a token: a set of operations that it permits.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[schema(as = Scope)]
pub enum TokenScope {
    /// Publishing under names that are free or belong to the caller, and managing them: yank, deprecate,
    /// owners.
    Publish,
    /// Planning, starting, reading and cancelling runs, and talking with the agent.
    Execute,
    /// Tokens, credentials for services, the audit, and names that belong to others.
    Admin,
    /// Naming the end user that a request is made for (`A2S-On-Behalf-Of`).
    Delegate,
    /// Another service of the same installation: introspects tokens and reports outcomes.
    Service,
    /// Asking a guardian (`POST /aos`).
    Guard,
}

impl TokenScope {
    /// All variants.
    pub const ALL: [Self; 6] =
        [Self::Publish, Self::Execute, Self::Admin, Self::Delegate, Self::Service, Self::Guard];

    /// Returns the name that JSON uses.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Publish => "publish",
            Self::Execute => "execute",
            Self::Admin => "admin",
            Self::Delegate => "delegate",
            Self::Service => "service",
            Self::Guard => "guard",
        }
    }
}

impl fmt::Display for TokenScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for TokenScope {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == text).ok_or_else(|| {
            let known = Self::ALL.map(Self::as_str).join(", ");
            let shown: String = text.chars().take(MAX_SUBJECT_LENGTH).collect();
            format!("`{shown}` is not a scope; the scopes are {known}")
        })
    }
}

/// The subject of a token.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, ToSchema)]
#[schema(max_length = 64, pattern = "^[A-Za-z0-9][A-Za-z0-9._@-]*$", example = "ci")]
#[schema(as = Subject)]
pub struct TokenSubject(String);

impl TokenSubject {
    /// Reads a name: 1 to 64 ASCII letters, digits and `. _ - @`, beginning with a letter or digit.
    ///
    /// # Errors
    /// A message that describes the problem.
    pub fn new(text: &str) -> Result<Self, String> {
        let is_good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '@');
        let begins = text.starts_with(|c: char| c.is_ascii_alphanumeric());
        if begins && text.len() <= MAX_SUBJECT_LENGTH && text.chars().all(is_good) {
            return Ok(Self(text.to_owned()));
        }
        let shown: String = text.chars().take(MAX_SUBJECT_LENGTH).collect();
        Err(format!(
            "`{shown}` is not a valid token name: use 1 to {MAX_SUBJECT_LENGTH} letters, digits and `. _ - @`, \
             starting with a letter or digit"
        ))
    }

    /// The subject of the owner's token.
    #[must_use]
    pub fn owner() -> Self {
        Self("owner".to_owned())
    }

    /// Returns the subject of a service that gets a token with the scope `service` by configuration.
    #[must_use]
    pub fn service() -> Self {
        Self("service".to_owned())
    }

    /// Returns the subject of an agent that gets the token of a guardian by configuration.
    #[must_use]
    pub fn guardian_client() -> Self {
        Self("asking".to_owned())
    }

    /// True when services use this name for callers without a created token. A token with this name could
    /// not be distinguished from them.
    #[must_use]
    pub fn is_reserved(&self) -> bool {
        const RESERVED: [&str; 4] = ["owner", "anonymous", "asking", "service"];
        RESERVED.iter().any(|name| self.0.eq_ignore_ascii_case(name))
    }

    /// True for the subject of the owner's token.
    #[must_use]
    pub fn is_owner(&self) -> bool {
        *self == Self::owner()
    }

    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TokenSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for TokenSubject {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::new(text)
    }
}

impl<'de> Deserialize<'de> for TokenSubject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::new(&text).map_err(serde::de::Error::custom)
    }
}

/// The end user that a service acts for, as the service names them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, ToSchema)]
#[schema(max_length = 128, pattern = "^[!-~]+$", example = "ann")]
pub struct EndUser(String);

impl EndUser {
    /// Reads a name: 1 to 128 visible ASCII characters.
    ///
    /// # Errors
    /// A message that describes the problem.
    pub fn new(text: &str) -> Result<Self, String> {
        if (1..=MAX_END_USER_LENGTH).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_graphic())
        {
            return Ok(Self(text.to_owned()));
        }
        Err(format!(
            "the name of an end user must have 1 to {MAX_END_USER_LENGTH} visible ASCII characters"
        ))
    }

    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EndUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for EndUser {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::new(&text).map_err(serde::de::Error::custom)
    }
}

/// The party that owns the things that a request creates: a token, and the end user for whom it acts.
///
/// Runs, plans, approvals, remembered values, tasks, credentials and audit records belong to one principal.
/// Its text is `token`, or `token/end user`: a token's name contains no slash, so the text is unambiguous.
/// Databases store this text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Principal {
    /// The name of the token, or `owner`.
    pub token: TokenSubject,
    /// The end user for whom the holder of the token acts.
    pub end_user: Option<EndUser>,
}

impl Principal {
    /// Creates the principal for the holder of the owner's token, without an end user.
    #[must_use]
    pub fn owner() -> Self {
        TokenSubject::owner().into()
    }

    /// True for the holder of the owner's token, without an end user.
    #[must_use]
    pub fn is_owner(&self) -> bool {
        self.token.is_owner() && self.end_user.is_none()
    }

    /// Returns the name of the user: the end user, or else the token (`context.user.id` of AOS).
    #[must_use]
    pub fn user_id(&self) -> &str {
        self.end_user.as_ref().map_or_else(|| self.token.as_str(), EndUser::as_str)
    }

    /// Returns the name of the token when it acts for an end user (`context.caller.id` of guardian
    /// messages).
    #[must_use]
    pub fn caller_id(&self) -> Option<&str> {
        self.end_user.as_ref().map(|_| self.token.as_str())
    }
}

impl From<TokenSubject> for Principal {
    fn from(token: TokenSubject) -> Self {
        Self { token, end_user: None }
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.end_user {
            Some(end_user) => write!(f, "{}/{end_user}", self.token),
            None => self.token.fmt(f),
        }
    }
}

impl FromStr for Principal {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (token, end_user) = match text.split_once('/') {
            Some((token, end_user)) => (token, Some(EndUser::new(end_user)?)),
            None => (text, None),
        };
        Ok(Self { token: TokenSubject::new(token)?, end_user })
    }
}

impl Serialize for Principal {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Principal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// The caller of a request, and the scopes of their token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The subject of the caller's token.
    pub subject: TokenSubject,
    /// The end user for whom the caller acts.
    pub end_user: Option<EndUser>,
    /// The scopes of the caller's token.
    pub scopes: BTreeSet<TokenScope>,
}

impl Caller {
    /// The holder of the owner's token, with all scopes.
    #[must_use]
    pub fn owner() -> Self {
        Self { subject: TokenSubject::owner(), end_user: None, scopes: TokenScope::ALL.into() }
    }

    /// Returns the party that owns the things that this caller creates.
    #[must_use]
    pub fn principal(&self) -> Principal {
        Principal { token: self.subject.clone(), end_user: self.end_user.clone() }
    }

    /// The same caller, acting for the end user in the header `A2S-On-Behalf-Of`. The scope `admin` is
    /// removed: an end user is never an administrator.
    fn act_for(mut self, end_user: Option<&[u8]>) -> Result<Self, AuthError> {
        let Some(end_user) = end_user else { return Ok(self) };
        if !self.has_scope(TokenScope::Delegate) {
            return Err(AuthError::MissingScope {
                subject: self.subject,
                scope: TokenScope::Delegate,
            });
        }
        let end_user = str::from_utf8(end_user).map_err(|error| error.to_string());
        let end_user = end_user.and_then(EndUser::new).map_err(AuthError::InvalidEndUser)?;
        self.end_user = Some(end_user);
        self.scopes.remove(&TokenScope::Admin);
        Ok(self)
    }

    /// Returns true when the caller has a scope.
    #[must_use]
    pub fn has_scope(&self, scope: TokenScope) -> bool {
        self.scopes.contains(&scope)
    }
}

/// A caller that an authentication layer in front of the services of one process has accepted.
///
/// It is a request extension: inner services that use the same registry need not ask it again. It never
/// comes from outside: the outer layer sets the caller that it has authenticated itself, or removes the
/// extension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthenticatedCaller(pub Caller);

/// The reason for a failed authentication or authorization.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// The request has no token.
    #[error("the request has no token")]
    MissingToken,
    /// The token is unknown, expired or revoked.
    #[error("the token is unknown, expired or revoked")]
    UnknownToken,
    /// The token does not have the required scope.
    #[error("the token of `{subject}` does not have the scope `{scope}`")]
    MissingScope {
        /// The subject of the token.
        subject: TokenSubject,
        /// The scope that is missing.
        scope: TokenScope,
    },
    /// The header `A2S-On-Behalf-Of` does not contain a valid end user.
    #[error("`A2S-On-Behalf-Of`: {0}")]
    InvalidEndUser(String),
    /// A header that identifies the caller is there more than once. A proxy may read another one of them.
    #[error("the header `{0}` is there more than once")]
    RepeatedHeader(&'static str),
    /// The service that looks up tokens does not respond.
    #[error("the token cannot be looked up: {0}")]
    Unavailable(String),
}

/// The headers of a request that identify the caller.
#[derive(Debug, Clone, Copy, Default)]
pub struct CallerHeaders<'a> {
    authorization: Option<&'a [u8]>,
    on_behalf_of: Option<&'a [u8]>,
    /// The name of a header that is there more than once. It has no value then.
    repeated: Option<&'static str>,
}

impl<'a> CallerHeaders<'a> {
    /// Reads the two headers with `get`, which receives names in lower case and returns all values.
    pub fn from_headers<I: IntoIterator<Item = &'a [u8]>>(get: impl Fn(&str) -> I) -> Self {
        let mut repeated = None;
        let mut read = |name: &'static str| {
            let mut values = get(name).into_iter();
            let first = values.next();
            if values.next().is_some() {
                repeated = Some(name);
                return None;
            }
            first
        };
        let (authorization, on_behalf_of) = (read("authorization"), read(ON_BEHALF_OF));
        Self { authorization, on_behalf_of, repeated }
    }

    /// Returns the token of `Authorization: Bearer …` (RFC 6750, section 2.1).
    #[must_use]
    pub fn token(&self) -> Option<&'a str> {
        bearer_token(str::from_utf8(self.authorization?).ok())
    }
}

/// A boxed future.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Looks up tokens.
pub trait TokenIntrospector: fmt::Debug + Send + Sync {
    /// Finds the caller with this token; none when the token is unknown, expired or revoked.
    ///
    /// # Errors
    /// The reason why the lookup is impossible now.
    fn introspect<'a>(&'a self, token: &'a Secret)
    -> BoxFuture<'a, Result<Option<Caller>, String>>;
}

/// Checks the token and scope of each request to a group of routes.
#[derive(Debug, Clone, Default)]
pub struct AuthGuard {
    /// The owner's token; without one, no request needs a token.
    pub owner_token: Option<Secret>,
    /// The lookup of all other tokens; without it, no other token is valid.
    pub introspector: Option<Arc<dyn TokenIntrospector>>,
}

impl AuthGuard {
    /// Creates a guard that accepts only the owner's token. Without an owner's token, the guard accepts
    /// every request.
    #[must_use]
    pub fn new(owner: Option<Secret>) -> Self {
        Self { owner_token: owner, introspector: None }
    }

    /// Returns the same guard, which also accepts the tokens that `others` knows.
    #[must_use]
    pub fn with_introspector(self, others: Arc<dyn TokenIntrospector>) -> Self {
        Self { introspector: Some(others), ..self }
    }

    /// Finds the caller by these headers, unless the caller is `known` already.
    ///
    /// # Errors
    /// Fails when the token is missing or not known, or when the caller may not act for the end user.
    pub fn authenticate<'a>(
        &'a self,
        known: Option<&'a AuthenticatedCaller>,
        headers: CallerHeaders<'a>,
    ) -> BoxFuture<'a, Result<Caller, AuthError>> {
        Box::pin(async move {
            if let Some(AuthenticatedCaller(caller)) = known {
                return Ok(caller.clone());
            }
            if let Some(name) = headers.repeated {
                return Err(AuthError::RepeatedHeader(name));
            }
            self.find_caller(headers).await?.act_for(headers.on_behalf_of)
        })
    }

    /// Finds the caller by the token only, without the end user.
    fn find_caller<'a>(
        &'a self,
        headers: CallerHeaders<'a>,
    ) -> BoxFuture<'a, Result<Caller, AuthError>> {
        Box::pin(async move {
            let Some(owner) = &self.owner_token else { return Ok(Caller::owner()) };
            let token = headers.token().ok_or(AuthError::MissingToken)?;
            if owner.matches(token) {
                return Ok(Caller::owner());
            }
            let others = self.introspector.as_ref().filter(|_| token.len() <= MAX_TOKEN_LENGTH);
            let others = others.ok_or(AuthError::UnknownToken)?;
            let found = others.introspect(&Secret::new(token)).await;
            found.map_err(AuthError::Unavailable)?.ok_or(AuthError::UnknownToken)
        })
    }

    /// Authenticates the caller and checks that the caller has `scope`.
    ///
    /// # Errors
    /// Fails when the authentication fails, or when the scope is missing.
    pub fn authorize<'a>(
        &'a self,
        known: Option<&'a AuthenticatedCaller>,
        headers: CallerHeaders<'a>,
        scope: TokenScope,
    ) -> BoxFuture<'a, Result<Caller, AuthError>> {
        Box::pin(async move {
            let caller = self.authenticate(known, headers).await?;
            if caller.has_scope(scope) {
                return Ok(caller);
            }
            Err(AuthError::MissingScope { subject: caller.subject, scope })
        })
    }
}

/// Returns the token of a header `Authorization: Bearer …` (RFC 6750, section 2.1).
#[must_use]
pub fn bearer_token(authorization: Option<&str>) -> Option<&str> {
    let (scheme, token) = authorization?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim()).filter(|token| !token.is_empty())
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// The value of a future that has nothing to wait for.
    fn now<T>(mut later: BoxFuture<'_, T>) -> T {
        match later.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => value,
            Poll::Pending => panic!("nothing of it takes time"),
        }
    }

    /// Knows one token, or nothing at all.
    #[derive(Debug)]
    struct Knows(Result<&'static str, ()>);

    impl TokenIntrospector for Knows {
        fn introspect<'a>(
            &'a self,
            token: &'a Secret,
        ) -> BoxFuture<'a, Result<Option<Caller>, String>> {
            let found = match self.0 {
                Ok(known) => Ok(token.matches(known).then(|| Caller {
                    subject: TokenSubject::new("ci").unwrap(),
                    end_user: None,
                    scopes: [TokenScope::Publish, TokenScope::Delegate, TokenScope::Admin].into(),
                })),
                Err(()) => Err("it is away".to_owned()),
            };
            Box::pin(async move { found })
        }
    }

    #[track_caller]
    fn check(
        guard: &AuthGuard,
        header: Option<&str>,
        scope: TokenScope,
        expected: Result<&str, &str>,
    ) {
        let headers = CallerHeaders::from_headers(|name| {
            header.filter(|_| name == "authorization").map(str::as_bytes)
        });
        let admitted = now(guard.authorize(None, headers, scope));
        let admitted =
            admitted.map(|caller| caller.subject.to_string()).map_err(|refusal| match refusal {
                AuthError::MissingToken => "missing",
                AuthError::UnknownToken => "unknown",
                AuthError::MissingScope { .. } => "lacks",
                AuthError::InvalidEndUser(_) | AuthError::RepeatedHeader(_) => "malformed",
                AuthError::Unavailable(_) => "unavailable",
            });
        assert_eq!(admitted.as_deref().map_err(|refusal| *refusal), expected, "{header:?}");
    }

    #[test]
    fn a_door_opens_for_whoever_may() {
        let own = AuthGuard::new(Some(Secret::new("mine")));
        let guard = own.clone().with_introspector(Arc::new(Knows(Ok("theirs"))));
        check(&AuthGuard::default(), None, TokenScope::Admin, Ok("owner"));
        for good in ["Bearer mine", "bearer mine", "BEARER  mine "] {
            check(&own, Some(good), TokenScope::Admin, Ok("owner"));
        }
        check(&guard, Some("Bearer theirs"), TokenScope::Publish, Ok("ci"));
        check(&guard, Some("Bearer theirs"), TokenScope::Execute, Err("lacks"));
        check(&own, Some("Bearer theirs"), TokenScope::Publish, Err("unknown"));
        for bad in [None, Some(""), Some("Bearer"), Some("Bearer "), Some("Basic mine")] {
            check(&guard, bad, TokenScope::Publish, Err("missing"));
        }
        check(&guard, Some("Bearer other"), TokenScope::Publish, Err("unknown"));
        let long = format!("Bearer {}", "x".repeat(MAX_TOKEN_LENGTH + 1));
        let away = own.with_introspector(Arc::new(Knows(Err(()))));
        check(&away, Some(&long), TokenScope::Publish, Err("unknown"));
        check(&away, Some("Bearer theirs"), TokenScope::Publish, Err("unavailable"));
        check(&away, Some("Bearer mine"), TokenScope::Publish, Ok("owner"));
    }

    #[test]
    fn only_delegate_tokens_name_an_end_user() {
        let guard = AuthGuard::new(Some(Secret::new("mine")))
            .with_introspector(Arc::new(Knows(Ok("theirs"))));
        let identify = |token: &str, user: &[u8]| {
            let token = format!("Bearer {token}");
            let headers = CallerHeaders::from_headers(|name| match name {
                "authorization" => Some(token.as_bytes()),
                ON_BEHALF_OF => Some(user),
                _ => None,
            });
            now(guard.authenticate(None, headers))
        };
        let caller = identify("theirs", b"ann@example.org").unwrap();
        assert_eq!(caller.principal().to_string(), "ci/ann@example.org");
        assert!(caller.has_scope(TokenScope::Publish) && !caller.has_scope(TokenScope::Admin));
        assert!(!identify("mine", b"ann").unwrap().principal().is_owner());
        for bad in [&b""[..], b"two words", b"line\n", "\u{e4}".as_bytes(), &[b'x'; 129], b"\xff"] {
            assert!(
                matches!(identify("theirs", bad), Err(AuthError::InvalidEndUser(_))),
                "{bad:?}"
            );
        }
        let plain = Caller { scopes: [TokenScope::Execute].into(), ..Caller::owner() };
        let refused = plain.act_for(Some(b"ann")).unwrap_err();
        assert!(
            matches!(refused, AuthError::MissingScope { scope: TokenScope::Delegate, .. }),
            "{refused}"
        );
    }

    #[test]
    fn a_repeated_header_of_the_caller_is_refused() {
        for (repeated, guard) in [
            ("authorization", AuthGuard::new(Some(Secret::new("mine")))),
            (ON_BEHALF_OF, AuthGuard::default()),
        ] {
            let headers = CallerHeaders::from_headers(|name| {
                let value: &[u8] = if name == "authorization" { b"Bearer mine" } else { b"ann" };
                vec![value; if name == repeated { 2 } else { 1 }]
            });
            let refused = now(guard.authenticate(None, headers)).unwrap_err();
            assert_eq!(refused, AuthError::RepeatedHeader(repeated));
        }
    }

    #[test]
    fn the_text_of_a_principal_has_one_reading() {
        for text in ["owner", "ci", "ci/ann", "ci/auth0|a/b"] {
            let principal: Principal = text.parse().unwrap();
            assert_eq!(principal.to_string(), text);
        }
        let both: Principal = "ci/ann".parse().unwrap();
        assert_eq!((both.user_id(), both.caller_id()), ("ann", Some("ci")));
        let alone: Principal = "ci".parse().unwrap();
        assert_eq!((alone.user_id(), alone.caller_id()), ("ci", None));
        for bad in ["", "/", "ci/", "/ann", "a b", "ci/a b"] {
            assert!(bad.parse::<Principal>().is_err(), "{bad}");
        }
    }

    #[test]
    fn subjects_are_short_and_plain() {
        for good in ["ci", "Jane.Smith@example", "a-b_c", "9"] {
            assert_eq!(TokenSubject::new(good).unwrap().as_str(), good);
        }
        for bad in ["", "-x", "two words", "a/b", "ä", "x\n", &"x".repeat(65)] {
            assert!(TokenSubject::new(bad).is_err(), "{bad}");
        }
    }
}
