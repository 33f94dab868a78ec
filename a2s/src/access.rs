//! Who calls a service, and what they may do there: the one place that decides it, for all of them.
//!
//! A [`Door`] is shown the header `Authorization` and a [`Scope`]. The owner's token opens
//! everything, and is compared without asking anybody. Every other token is looked up by whoever
//! knows tokens ([`Identify`]): a registry in its database, other services by asking a registry.

use std::collections::BTreeSet;
use std::fmt;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use crate::secret::Secret;

/// The longest name of a subject, in bytes.
const LONGEST_SUBJECT: usize = 64;
/// The longest token that is looked at, in bytes.
const LONGEST_TOKEN: usize = 512;

/// What a token opens.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Publishing under names that are free or one's own, and what follows: yank, deprecate,
    /// owners.
    Publish,
    /// Planning, starting, reading and cancelling runs, talking with the agent, and reporting
    /// outcomes.
    Execute,
    /// Tokens, credentials for services, the audit, and names of others.
    Admin,
}

impl Scope {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Publish, Self::Execute, Self::Admin];

    /// As it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Publish => "publish",
            Self::Execute => "execute",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Scope {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|scope| scope.as_str() == text)
            .ok_or_else(|| format!("`{text}` is no scope; there are publish, execute and admin"))
    }
}

/// Who a token stands for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, ToSchema)]
pub struct Subject(String);

impl Subject {
    /// Reads a name: 1 to 64 ASCII letters, digits and `. _ - @`, beginning with a letter or
    /// digit.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(text: &str) -> Result<Self, String> {
        let is_good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '@');
        let begins = text.starts_with(|c: char| c.is_ascii_alphanumeric());
        if begins && text.len() <= LONGEST_SUBJECT && text.chars().all(is_good) {
            return Ok(Self(text.to_owned()));
        }
        let shown: String = text.chars().take(LONGEST_SUBJECT).collect();
        Err(format!(
            "`{shown}` is no name of a token: 1 to {LONGEST_SUBJECT} letters, digits and `. _ - @`, \
             beginning with a letter or digit"
        ))
    }

    /// Whoever holds the owner's token.
    #[must_use]
    pub fn owner() -> Self {
        Self("owner".to_owned())
    }

    /// Whether this is whoever holds the owner's token.
    #[must_use]
    pub fn is_owner(&self) -> bool {
        *self == Self::owner()
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Subject {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::new(text)
    }
}

impl<'de> Deserialize<'de> for Subject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::new(&text).map_err(serde::de::Error::custom)
    }
}

/// Who calls, and what their token opens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// Who it is.
    pub subject: Subject,
    /// What they may do.
    pub scopes: BTreeSet<Scope>,
}

impl Caller {
    /// Whoever holds the owner's token: everything is open.
    #[must_use]
    pub fn owner() -> Self {
        Self { subject: Subject::owner(), scopes: Scope::ALL.into() }
    }

    /// Whether a scope is open.
    #[must_use]
    pub fn may(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope)
    }
}

/// A caller whom a door in front of the services of one process has let in.
///
/// It is an extension of the request: services behind it that would ask the same registry ask nobody
/// again. It never comes from outside: what stands in front leaves the one that it has found itself,
/// or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identified(pub Caller);

/// Why a door stays shut.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is no token.
    #[error("there is no token")]
    Missing,
    /// Nobody knows the token, or it has ended.
    #[error("the token is not known, has ended, or was revoked")]
    Unknown,
    /// The token does not open this.
    #[error("the token of `{subject}` does not have the scope `{scope}`")]
    Lacks {
        /// Who it stands for.
        subject: Subject,
        /// What it would have to open.
        scope: Scope,
    },
    /// Whoever knows tokens does not answer.
    #[error("it cannot be found out whose token this is: {0}")]
    Unavailable(String),
}

/// An answer that comes later.
pub type Later<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Knows tokens.
pub trait Identify: fmt::Debug + Send + Sync {
    /// Who shows this token; nobody when it is not known, has ended or was revoked.
    ///
    /// # Errors
    /// Why that cannot be found out now.
    fn identify<'a>(&'a self, token: &'a Secret) -> Later<'a, Result<Option<Caller>, String>>;
}

/// What stands in front of routes.
#[derive(Debug, Clone, Default)]
pub struct Door {
    /// The owner's token; without one nobody is asked for any.
    pub owner: Option<Secret>,
    /// Who knows all other tokens; without it there are none.
    pub others: Option<Arc<dyn Identify>>,
}

impl Door {
    /// A door that the owner's token alone opens; without one it is open.
    #[must_use]
    pub fn new(owner: Option<Secret>) -> Self {
        Self { owner, others: None }
    }

    /// The same, also for tokens that `others` knows.
    #[must_use]
    pub fn with(self, others: Arc<dyn Identify>) -> Self {
        Self { others: Some(others), ..self }
    }

    /// Who shows this header `Authorization`, unless that is `known` already.
    ///
    /// # Errors
    /// When it cannot be said who it is.
    pub fn identify<'a>(
        &'a self,
        known: Option<&'a Identified>,
        authorization: Option<&'a str>,
    ) -> Later<'a, Result<Caller, Refusal>> {
        Box::pin(async move {
            if let Some(Identified(caller)) = known {
                return Ok(caller.clone());
            }
            let Some(owner) = &self.owner else { return Ok(Caller::owner()) };
            let token = bearer(authorization).ok_or(Refusal::Missing)?;
            if owner.matches(token) {
                return Ok(Caller::owner());
            }
            let others = self.others.as_ref().filter(|_| token.len() <= LONGEST_TOKEN);
            let others = others.ok_or(Refusal::Unknown)?;
            let found = others.identify(&Secret::new(token)).await;
            found.map_err(Refusal::Unavailable)?.ok_or(Refusal::Unknown)
        })
    }

    /// The same, if they may do what `scope` says.
    ///
    /// # Errors
    /// Why they may not.
    pub fn admit<'a>(
        &'a self,
        known: Option<&'a Identified>,
        authorization: Option<&'a str>,
        scope: Scope,
    ) -> Later<'a, Result<Caller, Refusal>> {
        Box::pin(async move {
            let caller = self.identify(known, authorization).await?;
            if caller.may(scope) {
                return Ok(caller);
            }
            Err(Refusal::Lacks { subject: caller.subject, scope })
        })
    }
}

/// The token of a header `Authorization: Bearer …` (RFC 6750, section 2.1).
#[must_use]
pub fn bearer(authorization: Option<&str>) -> Option<&str> {
    let (scheme, token) = authorization?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim()).filter(|token| !token.is_empty())
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// The value of a future that has nothing to wait for.
    fn now<T>(mut later: Later<'_, T>) -> T {
        match later.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => value,
            Poll::Pending => panic!("nothing of it takes time"),
        }
    }

    /// Knows one token, or nothing at all.
    #[derive(Debug)]
    struct Knows(Result<&'static str, ()>);

    impl Identify for Knows {
        fn identify<'a>(&'a self, token: &'a Secret) -> Later<'a, Result<Option<Caller>, String>> {
            let found = match self.0 {
                Ok(known) => Ok(token.matches(known).then(|| Caller {
                    subject: Subject::new("ci").unwrap(),
                    scopes: [Scope::Publish].into(),
                })),
                Err(()) => Err("it is away".to_owned()),
            };
            Box::pin(async move { found })
        }
    }

    #[track_caller]
    fn check(door: &Door, header: Option<&str>, scope: Scope, expected: Result<&str, &str>) {
        let admitted = now(door.admit(None, header, scope));
        let admitted =
            admitted.map(|caller| caller.subject.to_string()).map_err(|refusal| match refusal {
                Refusal::Missing => "missing",
                Refusal::Unknown => "unknown",
                Refusal::Lacks { .. } => "lacks",
                Refusal::Unavailable(_) => "unavailable",
            });
        assert_eq!(admitted.as_deref().map_err(|refusal| *refusal), expected, "{header:?}");
    }

    #[test]
    fn a_door_opens_for_whoever_may() {
        let own = Door::new(Some(Secret::new("mine")));
        let door = own.clone().with(Arc::new(Knows(Ok("theirs"))));
        check(&Door::default(), None, Scope::Admin, Ok("owner"));
        for good in ["Bearer mine", "bearer mine", "BEARER  mine "] {
            check(&own, Some(good), Scope::Admin, Ok("owner"));
        }
        check(&door, Some("Bearer theirs"), Scope::Publish, Ok("ci"));
        check(&door, Some("Bearer theirs"), Scope::Execute, Err("lacks"));
        check(&own, Some("Bearer theirs"), Scope::Publish, Err("unknown"));
        for bad in [None, Some(""), Some("Bearer"), Some("Bearer "), Some("Basic mine")] {
            check(&door, bad, Scope::Publish, Err("missing"));
        }
        check(&door, Some("Bearer other"), Scope::Publish, Err("unknown"));
        let long = format!("Bearer {}", "x".repeat(LONGEST_TOKEN + 1));
        let away = own.with(Arc::new(Knows(Err(()))));
        check(&away, Some(&long), Scope::Publish, Err("unknown"));
        check(&away, Some("Bearer theirs"), Scope::Publish, Err("unavailable"));
        check(&away, Some("Bearer mine"), Scope::Publish, Ok("owner"));
    }

    #[test]
    fn subjects_are_short_and_plain() {
        for good in ["ci", "Jane.Smith@example", "a-b_c", "9"] {
            assert_eq!(Subject::new(good).unwrap().as_str(), good);
        }
        for bad in ["", "-x", "two words", "a/b", "ä", "x\n", &"x".repeat(65)] {
            assert!(Subject::new(bad).is_err(), "{bad}");
        }
    }
}
