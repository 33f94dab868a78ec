//! The identities that services have towards each other: the token that each one shows, and the
//! callers that each one knows.
//!
//! The token of a service's owner never leaves it. An executor shows a registry a token of the scope
//! `service`, and a guardian one of the scope `guard`.

use std::path::Path;
use std::sync::Arc;

use a2s::{
    Caller, CallerHeaders, Door, Identified, Identify, Later, Refusal, Scope, Secret, Subject,
};
use axum::Router;
use axum::extract::{Request, State};
use axum::http::HeaderValue;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use url::Url;

use super::agent::outside;
use super::guardian_settings::read_token;
use super::middleware::refuse;
use crate::cli_error::Failure;
use crate::client::{Client, client};

/// A registry, and the token of the scope `service` that it is asked with.
#[derive(Debug, Clone)]
pub(crate) struct RegistryAccess {
    pub(crate) url: Url,
    pub(crate) token: Option<Secret>,
}

impl RegistryAccess {
    /// The callers that the registry knows, as far as it can be asked.
    pub(super) fn callers(&self) -> Result<Option<Arc<dyn Identify>>, Failure> {
        Ok(self.introspection()?.map(|callers| Arc::new(callers) as Arc<dyn Identify>))
    }

    /// The registry as the one that knows the callers; none without a token for it.
    pub(super) fn introspection(&self) -> Result<Option<agent::RegistryTokens>, Failure> {
        if self.token.is_none() {
            return Ok(None);
        }
        Ok(Some(agent::RegistryTokens::new(self.client()?, outside())))
    }

    /// Reaches the registry, and shows it the token.
    pub(super) fn client(&self) -> Result<Client, Failure> {
        Ok(client(&self.url, None, None)?.with_token(self.token.clone()))
    }
}

/// Reads a token that is given by itself or in a file.
pub(super) fn read_given(
    token: Option<String>,
    file: Option<&Path>,
) -> Result<Option<Secret>, Failure> {
    match (token.filter(|token| !token.is_empty()), file) {
        (Some(token), _) => Ok(Some(Secret::new(token))),
        (None, Some(file)) => read_token(file).map(Some),
        (None, None) => Ok(None),
    }
}

/// Refuses `token`, which `setting` gives, when it is the owner's.
pub(super) fn check_not_owner(
    token: Option<&Secret>,
    setting: &str,
    owner: &str,
) -> Result<(), Failure> {
    if token.is_none_or(|token| !token.matches(owner)) {
        return Ok(());
    }
    let message = format!("the token of {setting} is the owner's");
    Err(Failure::argument(message).with_hint(
        "Choose another token: the owner's opens everything here, and never leaves this service \
         (docs/operations.md, \"Three services on three machines\").",
    ))
}

/// Knows the one token of a standalone guardian's agents, and then whom `others` knows.
#[derive(Debug)]
pub(super) struct Asking {
    token: Option<Secret>,
    others: Option<Arc<dyn Identify>>,
}

impl Asking {
    pub(super) fn new(token: Option<Secret>, others: Option<Arc<dyn Identify>>) -> Self {
        Self { token, others }
    }
}

impl Identify for Asking {
    fn identify<'a>(&'a self, token: &'a Secret) -> Later<'a, Result<Option<Caller>, String>> {
        if self.token.as_ref().is_some_and(|own| own.matches(token.reveal())) {
            let scopes = [Scope::Guard].into();
            let caller = Caller { subject: Subject::asking(), end_user: None, scopes };
            return Box::pin(async move { Ok(Some(caller)) });
        }
        match &self.others {
            Some(others) => others.identify(token),
            None => Box::pin(async { Ok(None) }),
        }
    }
}

/// The protocol of a guardian behind `door`: every message needs a token of the scope `guard`, on
/// loopback as well.
pub(super) fn guard_protocol(protocol: Router, door: Door) -> Router {
    protocol.route_layer(from_fn_with_state(Arc::new(door), check_asker))
}

async fn check_asker(State(door): State<Arc<Door>>, request: Request, next: Next) -> Response {
    let admitted = admit_asker(&door, &request).await;
    match admitted {
        Ok(_) => next.run(request).await,
        Err(refusal) => refuse(&refusal),
    }
}

fn admit_asker<'a>(door: &'a Door, request: &'a Request) -> Later<'a, Result<Caller, Refusal>> {
    let headers = request.headers();
    let shown = CallerHeaders::read(|name| headers.get(name).map(HeaderValue::as_bytes));
    door.admit(request.extensions().get::<Identified>(), shown, Scope::Guard)
}

#[cfg(test)]
mod tests {
    use axum::http::{Request, StatusCode, header};
    use axum::routing::post;
    use tower::ServiceExt as _;

    use super::*;

    /// Knows a token for each scope, by the name of the scope.
    #[derive(Debug)]
    struct ByScope;

    impl Identify for ByScope {
        fn identify<'a>(&'a self, token: &'a Secret) -> Later<'a, Result<Option<Caller>, String>> {
            let scope = token.reveal().parse::<Scope>().ok();
            let caller = scope.map(|scope| Caller {
                subject: Subject::new("someone").unwrap(),
                end_user: None,
                scopes: [scope].into(),
            });
            Box::pin(async move { Ok(caller) })
        }
    }

    #[tokio::test]
    async fn a_guardian_is_asked_with_the_scope_guard_or_by_its_owner() {
        let asking = Asking::new(Some(Secret::new("ask")), Some(Arc::new(ByScope)));
        let door = Door::new(Some(Secret::new("own"))).with(Arc::new(asking));
        let routes = Router::new().route("/aos", post(async || "asked"));
        let app = guard_protocol(routes, door);
        let ask = async |token: Option<&str>| {
            let request = Request::post("/aos");
            let request = match token {
                Some(token) => request.header(header::AUTHORIZATION, format!("Bearer {token}")),
                None => request,
            };
            let request = request.body(axum::body::Body::empty()).unwrap();
            app.clone().oneshot(request).await.unwrap().status()
        };
        for good in ["own", "ask", "guard"] {
            assert_eq!(ask(Some(good)).await, StatusCode::OK, "{good}");
        }
        for lacking in ["publish", "execute", "admin", "delegate", "service"] {
            assert_eq!(ask(Some(lacking)).await, StatusCode::FORBIDDEN, "{lacking}");
        }
        for bad in [None, Some("other")] {
            assert_eq!(ask(bad).await, StatusCode::UNAUTHORIZED, "{bad:?}");
        }
    }

    #[test]
    fn the_owners_token_is_no_token_for_other_services() {
        let own = Secret::new("own");
        let refused = check_not_owner(Some(&own), "--guardian-token", "own").unwrap_err();
        assert!(format!("{refused:?}").contains("the owner's"), "{refused:?}");
        assert!(check_not_owner(Some(&own), "--guardian-token", "other").is_ok());
        assert!(check_not_owner(None, "--guardian-token", "own").is_ok());
    }
}
