//! The identities that services have towards each other: the token that each one shows, and the
//! callers that each one knows.
//!
//! The token of a service's owner never leaves it. An executor shows a registry a token of the scope
//! `service`, and a guardian one of the scope `guard`.

use std::sync::Arc;

use a2s::Secret;
use a2s_api::{
    AuthError, AuthGuard, AuthenticatedCaller, BoxFuture, Caller, CallerHeaders, TokenIntrospector,
    TokenScope, TokenSubject,
};
use axum::Router;
use axum::extract::{Request, State};
use axum::http::HeaderValue;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;

use super::agent::clock_and_ids;
use super::middleware::auth_error_response;
use crate::cli_error::CliError;
use crate::client::{ServiceClient, client};
use crate::settings::RegistryAccess;

impl RegistryAccess {
    /// Returns the token introspection of the registry, if a token for it exists.
    pub(super) fn callers(&self) -> Result<Option<Arc<dyn TokenIntrospector>>, CliError> {
        Ok(self.introspection()?.map(|callers| Arc::new(callers) as Arc<dyn TokenIntrospector>))
    }

    /// Returns the token introspection of the registry for an executor, which has an owner of its own: from the
    /// registry it takes only the scopes for running capabilities, unless the configuration allows all.
    pub(super) fn executor_callers(&self) -> Result<Option<Arc<dyn TokenIntrospector>>, CliError> {
        let callers = self.introspection()?.map(|callers| match self.admins {
            true => callers,
            false => callers.with_scopes([TokenScope::Execute, TokenScope::Delegate]),
        });
        Ok(callers.map(|callers| Arc::new(callers) as Arc<dyn TokenIntrospector>))
    }

    /// Returns the client that looks up tokens at the registry; none without a token for it.
    pub(super) fn introspection(
        &self,
    ) -> Result<Option<agent::RegistryTokenIntrospector>, CliError> {
        if self.token.is_none() {
            return Ok(None);
        }
        Ok(Some(agent::RegistryTokenIntrospector::new(self.client()?, clock_and_ids())))
    }

    /// Creates a client for the registry with the token.
    pub(super) fn client(&self) -> Result<ServiceClient, CliError> {
        Ok(client(&self.url, None, None)?.with_token(self.token.clone()))
    }
}

/// Knows the one token of a standalone guardian's agents, and then the callers that `others` knows.
#[derive(Debug)]
pub(super) struct GuardianTokenIntrospector {
    token: Option<Secret>,
    others: Option<Arc<dyn TokenIntrospector>>,
}

impl GuardianTokenIntrospector {
    pub(super) fn new(token: Option<Secret>, others: Option<Arc<dyn TokenIntrospector>>) -> Self {
        Self { token, others }
    }
}

impl TokenIntrospector for GuardianTokenIntrospector {
    fn introspect<'a>(
        &'a self,
        token: &'a Secret,
    ) -> BoxFuture<'a, Result<Option<Caller>, String>> {
        if self.token.as_ref().is_some_and(|own| own.matches(token.expose_secret())) {
            let scopes = [TokenScope::Guard].into();
            let caller =
                Caller { subject: TokenSubject::guardian_client(), end_user: None, scopes };
            return Box::pin(async move { Ok(Some(caller)) });
        }
        match &self.others {
            Some(others) => others.introspect(token),
            None => Box::pin(async { Ok(None) }),
        }
    }
}

/// Protects the protocol of a guardian: every message needs a token of the scope `guard`, on loopback as
/// well.
pub(super) fn guard_protocol(protocol: Router, guard: AuthGuard) -> Router {
    protocol.route_layer(from_fn_with_state(Arc::new(guard), check_guardian_client))
}

async fn check_guardian_client(
    State(guard): State<Arc<AuthGuard>>,
    request: Request,
    next: Next,
) -> Response {
    let admitted = authorize_client(&guard, &request).await;
    match admitted {
        Ok(_) => next.run(request).await,
        Err(refusal) => auth_error_response(&refusal),
    }
}

fn authorize_client<'a>(
    guard: &'a AuthGuard,
    request: &'a Request,
) -> BoxFuture<'a, Result<Caller, AuthError>> {
    let headers = request.headers();
    let shown =
        CallerHeaders::from_headers(|name| headers.get_all(name).iter().map(HeaderValue::as_bytes));
    guard.authorize(request.extensions().get::<AuthenticatedCaller>(), shown, TokenScope::Guard)
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

    impl TokenIntrospector for ByScope {
        fn introspect<'a>(
            &'a self,
            token: &'a Secret,
        ) -> BoxFuture<'a, Result<Option<Caller>, String>> {
            let scope = token.expose_secret().parse::<TokenScope>().ok();
            let caller = scope.map(|scope| Caller {
                subject: TokenSubject::new("someone").unwrap(),
                end_user: None,
                scopes: [scope].into(),
            });
            Box::pin(async move { Ok(caller) })
        }
    }

    #[tokio::test]
    async fn a_guardian_is_asked_with_the_scope_guard_or_by_its_owner() {
        let asking =
            GuardianTokenIntrospector::new(Some(Secret::new("ask")), Some(Arc::new(ByScope)));
        let guard = AuthGuard::new(Some(Secret::new("own"))).with_introspector(Arc::new(asking));
        let routes = Router::new().route("/aos", post(async || "asked"));
        let app = guard_protocol(routes, guard);
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
}
