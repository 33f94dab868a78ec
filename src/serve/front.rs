//! What stands in front of every service: who may call it, its metrics, its description and the
//! pages of its error codes.

use std::net::SocketAddr;
use std::sync::Arc;

use a2s::api::{PROBLEM_JSON, Problem};
use a2s::{Door, Refusal};
use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, ORIGIN};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use url::Url;
use utoipa::openapi::OpenApi;
use utoipa_swagger_ui::SwaggerUi;

use super::linger::read_rest;
use crate::errors;
use crate::failure::{BAD_HOST, NO_ROUTE};

/// Who may call a service.
#[derive(Debug)]
pub(super) struct Access {
    /// Whether the service listens on loopback alone.
    loopback: bool,
    hosts: Vec<String>,
    door: Door,
}

impl Access {
    pub(super) fn new(listen: SocketAddr, allow_hosts: &[String], door: Door) -> Self {
        let hosts = allow_hosts.iter().cloned().chain([listen.ip().to_string()]);
        Self { loopback: listen.ip().is_loopback(), hosts: hosts.collect(), door }
    }

    /// Whether a `Host` or the host of an `Origin` is this service. On loopback this stops pages of
    /// other sites whose name was made to resolve to this machine (DNS rebinding).
    fn allows_host(&self, host: &str) -> bool {
        let bare = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((address, _)) => address,
            None => host.split(':').next().unwrap_or(host),
        };
        let local = bare.eq_ignore_ascii_case("localhost")
            || bare.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
        let named = self.hosts.iter().any(|known| known.eq_ignore_ascii_case(bare));
        // A service that others reach has names that only its operator knows; without a list of
        // them, its token is what guards it.
        local || named || (!self.loopback && self.hosts.len() == 1)
    }

    /// Beyond loopback nothing but the signs of life is open without a token. What it opens is for
    /// each service to say.
    async fn admit(&self, path: &str, shown: Option<&str>) -> Result<(), Refusal> {
        const OPEN: [&str; 2] = ["/healthz", "/readyz"];
        if self.loopback || OPEN.contains(&path) {
            return Ok(());
        }
        self.door.identify(shown).await.map(drop)
    }
}

/// Puts metrics, description, error pages and the check of callers in front of `services`.
pub(super) fn front(
    services: Router,
    metrics: Registry,
    description: OpenApi,
    access: Access,
) -> Router {
    let metrics = Arc::new(metrics);
    let own = Router::new()
        .route("/metrics", get(show_metrics).with_state(metrics))
        .route("/errors", get(async || errors::list_page()))
        .route("/errors/{code}", get(show_error))
        .route("/", get(async || Redirect::temporary("/docs/")))
        .merge(SwaggerUi::new("/docs").url("/openapi.json", description));
    services
        .merge(own)
        .fallback(no_route)
        .layer(from_fn_with_state(Arc::new(access), check_caller))
        .layer(from_fn(read_rest))
}

async fn check_caller(State(access): State<Arc<Access>>, request: Request, next: Next) -> Response {
    let headers = request.headers();
    let host = text(headers, HOST).or_else(|| request.uri().authority().map(|a| a.to_string()));
    if !host.is_some_and(|host| access.allows_host(&host)) {
        return problem(StatusCode::FORBIDDEN, &BAD_HOST, "the header `Host` names another host");
    }
    if let Some(origin) = text(headers, ORIGIN) {
        let url = Url::parse(&origin).ok();
        let allowed =
            url.as_ref().and_then(Url::host_str).is_some_and(|host| access.allows_host(host));
        if !allowed {
            return problem(
                StatusCode::FORBIDDEN,
                &BAD_HOST,
                "pages of other sites may not call this",
            );
        }
    }
    let shown = text(headers, AUTHORIZATION);
    if let Err(refusal) = access.admit(request.uri().path(), shown.as_deref()).await {
        let (status, kind) = match &refusal {
            Refusal::Unavailable(_) => {
                (StatusCode::SERVICE_UNAVAILABLE, executor::Kind::CallerUnknown)
            }
            _ => (StatusCode::UNAUTHORIZED, executor::Kind::Unauthorized),
        };
        return problem(status, kind.code(), &refusal.to_string());
    }
    next.run(request).await
}

fn text(headers: &HeaderMap, name: axum::http::HeaderName) -> Option<String> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

pub(super) fn problem(status: StatusCode, code: &a2s::Code, detail: &str) -> Response {
    let problem = Problem::new(status.as_u16(), code, detail);
    (status, [(CONTENT_TYPE, PROBLEM_JSON)], axum::Json(problem)).into_response()
}

async fn no_route(uri: Uri) -> Response {
    problem(StatusCode::NOT_FOUND, &NO_ROUTE, &format!("there is no `{}`", uri.path()))
}

async fn show_metrics(State(metrics): State<Arc<Registry>>) -> Response {
    const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    let mut text = String::new();
    match encode(&mut text, &metrics) {
        Ok(()) => ([(CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

async fn show_error(Path(code): Path<String>) -> Response {
    match errors::page(&code) {
        Some(page) => page.into_response(),
        None => problem(StatusCode::NOT_FOUND, &NO_ROUTE, "there is no such code"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(listen: &str, hosts: &[&str]) -> Access {
        let hosts: Vec<String> = hosts.iter().map(|&host| host.to_owned()).collect();
        let door = Door::new(Some(a2s::Secret::new("t")));
        Access::new(listen.parse().unwrap(), &hosts, door)
    }

    #[test]
    fn on_loopback_only_local_names_are_this_service() {
        let access = access("127.0.0.1:8740", &["a2s.test"]);
        for good in ["localhost:8740", "127.0.0.1", "[::1]:8740", "A2S.test:1", "127.9.9.9:80"] {
            assert!(access.allows_host(good), "{good}");
        }
        for bad in ["evil.example", "localhost.evil.example", "", "10.0.0.1:8740", "[::2]"] {
            assert!(!access.allows_host(bad), "{bad}");
        }
    }

    #[tokio::test]
    async fn beyond_loopback_the_token_is_needed() {
        let open = access("0.0.0.0:8740", &[]);
        assert!(open.allows_host("registry:8740"));
        assert_eq!(open.admit("/v1/search", Some("Bearer t")).await, Ok(()));
        assert_eq!(open.admit("/v1/search", Some("Bearer u")).await, Err(Refusal::Unknown));
        assert_eq!(open.admit("/v1/search", None).await, Err(Refusal::Missing));
        assert_eq!(open.admit("/healthz", None).await, Ok(()));
        assert!(!access("0.0.0.0:8740", &["a2s.test"]).allows_host("registry:8740"));
        assert_eq!(access("127.0.0.1:8740", &[]).admit("/v1/search", None).await, Ok(()));
    }
}
