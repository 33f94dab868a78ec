//! The middleware of every service: who may call it, its metrics, its description and the
//! pages of its error codes.

use std::net::SocketAddr;
use std::sync::Arc;

use a2s_api::{AuthError, AuthGuard, AuthenticatedCaller, CallerHeaders};
use a2s_api::{PROBLEM_JSON, Problem};
use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::header::{
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, ORIGIN, REFERRER_POLICY, RETRY_AFTER,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri};
use axum::middleware::{Next, from_fn, from_fn_with_state};
#[cfg(feature = "console")]
use axum::response::Redirect;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus_client::registry::Registry;
use url::Url;
use utoipa::openapi::OpenApi;
#[cfg(feature = "console")]
use utoipa_swagger_ui::SwaggerUi;

#[cfg(feature = "console")]
use super::console::Console;
use super::drain_body::drain_on_drop;
use super::metrics::{self, HttpMetrics};
use crate::cli_error::{BAD_HOST, NO_ROUTE};
use crate::errors;

/// The access policy of a service.
#[derive(Debug)]
pub(super) struct AccessPolicy {
    /// Set when the service listens on loopback alone.
    is_loopback: bool,
    hosts: Vec<String>,
    auth: AuthGuard,
    /// The console, whose pages and sign-in need no token.
    #[cfg(feature = "console")]
    console: Option<Arc<Console>>,
}

impl AccessPolicy {
    pub(super) fn new(listen: SocketAddr, allow_hosts: &[String], auth: AuthGuard) -> Self {
        let hosts = allow_hosts.iter().cloned().chain([listen.ip().to_string()]);
        Self {
            is_loopback: listen.ip().is_loopback(),
            hosts: hosts.collect(),
            auth,
            #[cfg(feature = "console")]
            console: None,
        }
    }

    /// Adds the console.
    #[cfg(feature = "console")]
    pub(super) fn with_console(self, console: Arc<Console>) -> Self {
        Self { console: Some(console), ..self }
    }

    /// Returns true when a `Host` or the host of an `Origin` is this service. On loopback this stops pages
    /// of other sites with a name that resolves to this machine (DNS rebinding).
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
        local || named || (!self.is_loopback && self.hosts.len() == 1)
    }

    /// Requires a token for everything but the signs of life, unless the service listens on loopback alone.
    /// Each service checks the scopes of the token, and need not look up its caller again. Without a
    /// look-up here, the services look it up themselves.
    async fn authenticate(
        &self,
        path: &str,
        shown: CallerHeaders<'_>,
    ) -> Result<Option<AuthenticatedCaller>, AuthError> {
        const OPEN: [&str; 2] = ["/healthz", "/readyz"];
        if self.is_loopback || OPEN.contains(&path) {
            return Ok(None);
        }
        self.auth.authenticate(None, shown).await.map(|caller| Some(AuthenticatedCaller(caller)))
    }
}

/// Adds metrics, the API description, error pages and the check of callers to `services`; `name` describes
/// them, such as "an executor".
pub(super) fn with_middleware(
    services: Router,
    mut registry: Registry,
    description: OpenApi,
    access: AccessPolicy,
    name: &'static str,
) -> Router {
    let counted = HttpMetrics::register(&mut registry);
    let registry = Arc::new(registry);
    let access = Arc::new(access);
    let own = Router::new()
        .route("/metrics", get(metrics::show).with_state(registry))
        .route("/llms.txt", get(async || include_str!("llms.txt")))
        .route("/errors", get(async || errors::list_page()))
        .route("/errors/{code}", get(show_error))
        .merge(describe_api(description));
    let services = services
        .merge(own)
        .fallback(async move |uri: Uri| no_route(&uri, name))
        .layer(from_fn_with_state(Arc::clone(&access), check_caller));
    #[cfg(feature = "console")]
    let services = match &access.console {
        Some(console) => services.merge(console.routes()),
        None => services.route("/", get(async || Redirect::temporary("/docs/"))),
    };
    services
        .layer(from_fn_with_state(access, check_host))
        .layer(from_fn(protect_browser))
        .layer(from_fn_with_state(counted, metrics::count))
}

/// The description of the API, and a page that shows it.
#[cfg(feature = "console")]
fn describe_api(description: OpenApi) -> Router {
    SwaggerUi::new("/docs").url("/openapi.json", description).into()
}

/// The description of the API. This build has no page that shows it.
#[cfg(not(feature = "console"))]
fn describe_api(description: OpenApi) -> Router {
    Router::new().route("/openapi.json", get(async || axum::Json(description)))
}

/// The content security policy of pages and of everything else that a browser may show: the browser loads
/// nothing.
const STRICT_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; \
                             form-action 'none'; frame-ancestors 'none'";
/// The content security policy of Swagger UI, which uses style attributes and embedded pictures, and sends
/// requests to this service.
const DOCS_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
                           img-src 'self' data:; font-src 'self' data:; connect-src 'self'; \
                           base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Adds the headers that restrict a browser's use of a response, unless its page has a policy of its own.
async fn protect_browser(request: Request, next: Next) -> Response {
    let is_docs = request.uri().path().starts_with("/docs/");
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    let policy = if is_docs { DOCS_POLICY } else { STRICT_POLICY };
    headers.entry(CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static(policy));
    for (name, value) in [
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Refuses requests for another host, and of pages of other sites.
async fn check_host(
    State(access): State<Arc<AccessPolicy>>,
    request: Request,
    next: Next,
) -> Response {
    // Drains rejected requests too.
    let request = request.map(drain_on_drop);
    let headers = request.headers();
    let host = text(headers, HOST).or_else(|| request.uri().authority().map(Authority::as_str));
    if !host.is_some_and(|host| access.allows_host(host)) {
        return problem(StatusCode::FORBIDDEN, &BAD_HOST, "the header `Host` names another host");
    }
    if let Some(origin) = text(headers, ORIGIN) {
        let url = Url::parse(origin).ok();
        let allowed =
            url.as_ref().and_then(Url::host_str).is_some_and(|host| access.allows_host(host));
        if !allowed {
            return problem(
                StatusCode::FORBIDDEN,
                &BAD_HOST,
                "pages of other sites must not call this service",
            );
        }
    }
    next.run(request).await
}

/// Finds out who calls.
async fn check_caller(
    State(access): State<Arc<AccessPolicy>>,
    mut request: Request,
    next: Next,
) -> Response {
    #[cfg(feature = "console")]
    if let Some(console) = &access.console {
        console.add_token(&mut request);
    }
    let (path, headers) = (request.uri().path(), caller_headers(request.headers()));
    let identified = match access.authenticate(path, headers).await {
        Ok(identified) => identified,
        Err(refusal) => return auth_error_response(&refusal),
    };
    let extensions = request.extensions_mut();
    extensions.remove::<AuthenticatedCaller>();
    identified.map(|identified| extensions.insert(identified));
    next.run(request).await
}

/// Creates the response to a caller who is not authorized.
pub(super) fn auth_error_response(refusal: &AuthError) -> Response {
    let (status, kind) = match refusal {
        AuthError::Unavailable(_) => {
            (StatusCode::SERVICE_UNAVAILABLE, executor::ErrorKind::CallerUnknown)
        }
        AuthError::MissingScope { .. } => (StatusCode::FORBIDDEN, executor::ErrorKind::Forbidden),
        AuthError::InvalidEndUser(_) | AuthError::RepeatedHeader(_) => {
            (StatusCode::BAD_REQUEST, executor::ErrorKind::BadRequest)
        }
        AuthError::MissingToken | AuthError::UnknownToken => {
            (StatusCode::UNAUTHORIZED, executor::ErrorKind::Unauthorized)
        }
    };
    problem(status, kind.code(), &refusal.to_string())
}

pub(super) fn caller_headers(headers: &HeaderMap) -> CallerHeaders<'_> {
    CallerHeaders::from_headers(|name| headers.get_all(name).iter().map(HeaderValue::as_bytes))
}

pub(super) fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

pub(super) fn problem(status: StatusCode, code: &a2s::ErrorCode, detail: &str) -> Response {
    let problem = Problem::new(status.as_u16(), code, detail);
    let later = problem.retry_after().map(|seconds| [(RETRY_AFTER, seconds)]);
    (status, [(CONTENT_TYPE, PROBLEM_JSON)], later, axum::Json(problem)).into_response()
}

fn no_route(uri: &Uri, name: &str) -> Response {
    let detail = format!("unknown path `{}`: this is {name}", uri.path());
    problem(StatusCode::NOT_FOUND, &NO_ROUTE, &detail)
}

async fn show_error(Path(code): Path<String>) -> Response {
    match errors::page(&code) {
        Some(page) => page.into_response(),
        None => problem(StatusCode::NOT_FOUND, &NO_ROUTE, "unknown code"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use a2s::Secret;
    use a2s_api::{BoxFuture, Caller, TokenIntrospector, TokenScope};
    use tower::ServiceExt as _;

    use super::*;
    use crate::clock;
    use crate::serve::agent::clock_and_ids;

    fn access(listen: &str, hosts: &[&str]) -> AccessPolicy {
        let hosts: Vec<String> = hosts.iter().map(|&host| host.to_owned()).collect();
        let auth = AuthGuard::new(Some(Secret::new("t")));
        AccessPolicy::new(listen.parse().unwrap(), &hosts, auth)
    }

    fn shown(authorization: &'static [u8]) -> CallerHeaders<'static> {
        CallerHeaders::from_headers(|name| (name == "authorization").then_some(authorization))
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
        let owner = AuthenticatedCaller(Caller::owner());
        assert_eq!(open.authenticate("/v1/search", shown(b"Bearer t")).await, Ok(Some(owner)));
        assert_eq!(
            open.authenticate("/v1/search", shown(b"Bearer u")).await,
            Err(AuthError::UnknownToken)
        );
        assert_eq!(
            open.authenticate("/v1/search", CallerHeaders::default()).await,
            Err(AuthError::MissingToken)
        );
        assert_eq!(open.authenticate("/healthz", CallerHeaders::default()).await, Ok(None));
        assert!(!access("0.0.0.0:8740", &["a2s.test"]).allows_host("registry:8740"));
        assert_eq!(
            access("127.0.0.1:8740", &[])
                .authenticate("/v1/search", CallerHeaders::default())
                .await,
            Ok(None)
        );
    }

    /// Knows one guest, and counts how often it is asked.
    #[derive(Debug, Default)]
    struct Counter(AtomicUsize);

    impl TokenIntrospector for Counter {
        fn introspect<'a>(
            &'a self,
            token: &'a Secret,
        ) -> BoxFuture<'a, Result<Option<Caller>, String>> {
            self.0.fetch_add(1, Ordering::Relaxed);
            let guest = token.matches("guest").then(guest);
            Box::pin(async move { Ok(guest) })
        }
    }

    fn guest() -> Caller {
        let scopes = [TokenScope::Execute].into();
        Caller { subject: "guest".parse().unwrap(), end_user: None, scopes }
    }

    /// Registry, executor and agent, each of which knows the owner alone.
    async fn services(folder: &std::path::Path) -> Router {
        let (owner, url) = (Some(Secret::new("owner")), "http://127.0.0.1:1".parse().unwrap());
        let mut metrics = Registry::default();
        let config = registry::Config::in_folder(folder, owner.clone());
        let registry =
            registry::App::open(config, Arc::new(clock::now), &mut metrics).await.unwrap();
        let guardian = executor::GuardianSettings::Off;
        let config = executor::Config::new(folder.join("executor.sqlite"), url, guardian);
        let config = executor::Config { token: owner.clone(), ..config };
        let system = Arc::new(clock::SystemClockAndIds);
        let executor = executor::App::open(config, system.clone(), system, &mut metrics).await;
        let agent = agent::App::new(agent::Agent::new(clock_and_ids()), owner);
        registry.routes().merge(executor.unwrap().router()).merge(agent.routes())
    }

    #[tokio::test]
    async fn a_token_is_looked_up_once_for_a_request() {
        let folder = tempfile::tempdir().unwrap();
        let services = services(folder.path()).await;
        let ask = async |listen: &str, token: Option<&str>, forged: bool| {
            let counter = Arc::new(Counter::default());
            let door =
                AuthGuard::new(Some(Secret::new("owner"))).with_introspector(counter.clone());
            let access = AccessPolicy::new(listen.parse().unwrap(), &[], door);
            let description = OpenApi::default();
            let app = with_middleware(
                services.clone(),
                Registry::default(),
                description,
                access,
                "a test",
            );
            let mut statuses = Vec::new();
            for (method, path) in [
                ("GET", "/v1/executions"),
                ("GET", "/v1/secrets"),
                ("GET", "/v1/tokens"),
                ("POST", "/v1/agent"),
            ] {
                let request = Request::builder().method(method).uri(path).header(HOST, "localhost");
                let request = match token {
                    Some(token) => request.header("authorization", format!("Bearer {token}")),
                    None => request,
                };
                let mut request = request.body(axum::body::Body::empty()).unwrap();
                if forged {
                    request.extensions_mut().insert(AuthenticatedCaller(Caller::owner()));
                }
                statuses.push(app.clone().oneshot(request).await.unwrap().status().as_u16());
            }
            (statuses, counter.0.load(Ordering::Relaxed))
        };
        // The agent rejects an empty message. The registry still checks its own tokens: a revoked
        // one ends there at once.
        assert_eq!(ask("0.0.0.0:1", Some("guest"), false).await, (vec![200, 403, 401, 400], 4));
        assert_eq!(ask("0.0.0.0:1", Some("guest"), true).await, (vec![200, 403, 401, 400], 4));
        assert_eq!(ask("0.0.0.0:1", Some("other"), true).await, (vec![401; 4], 4));
        assert_eq!(ask("0.0.0.0:1", None, true).await, (vec![401; 4], 0));
        // Without a check in front, each service checks.
        assert_eq!(ask("127.0.0.1:1", Some("guest"), true).await, (vec![401; 4], 0));
        assert_eq!(ask("127.0.0.1:1", None, true).await, (vec![401; 4], 0));
        assert_eq!(ask("127.0.0.1:1", Some("owner"), false).await, (vec![200, 200, 200, 400], 0));
    }

    #[tokio::test]
    async fn a_browser_is_told_what_it_may_do_with_every_response() {
        let access = access("127.0.0.1:1", &[]);
        let app = with_middleware(
            Router::new(),
            Registry::default(),
            OpenApi::default(),
            access,
            "a test",
        );
        for (path, host, status, policy) in [
            ("/docs/", "localhost", 200, DOCS_POLICY),
            ("/docs/swagger-ui-bundle.js", "localhost", 200, DOCS_POLICY),
            ("/errors", "localhost", 200, STRICT_POLICY),
            ("/errors/A2S500", "localhost", 200, STRICT_POLICY),
            ("/", "localhost", 307, STRICT_POLICY),
            ("/no", "localhost", 404, STRICT_POLICY),
            ("/docs/", "evil.example", 403, DOCS_POLICY),
        ] {
            let request = Request::builder().uri(path).header(HOST, host);
            let request = request.body(axum::body::Body::empty()).unwrap();
            let response = app.clone().oneshot(request).await.unwrap();
            assert_eq!(response.status(), status, "{path}");
            let header = |name: &str| response.headers()[name].to_str().unwrap();
            assert_eq!(header("content-security-policy"), policy, "{path}");
            assert!(policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe-eval"));
            assert_eq!(header("x-content-type-options"), "nosniff", "{path}");
            assert_eq!(header("x-frame-options"), "DENY", "{path}");
            assert_eq!(header("referrer-policy"), "no-referrer", "{path}");
        }
    }

    #[tokio::test]
    async fn docs_page_obeys_its_content_security_policy() {
        let access = access("127.0.0.1:1", &[]);
        let app = with_middleware(
            Router::new(),
            Registry::default(),
            OpenApi::default(),
            access,
            "a test",
        );
        let request = Request::builder().uri("/docs/").header(HOST, "localhost");
        let response = app.oneshot(request.body(axum::body::Body::empty()).unwrap()).await;
        let page = axum::body::to_bytes(response.unwrap().into_body(), 1 << 20).await.unwrap();
        let page = String::from_utf8(page.to_vec()).unwrap();
        // Every script is a file of this service; none is inline.
        let scripts: Vec<&str> = page.split("<script").skip(1).collect();
        assert!(!scripts.is_empty());
        for script in scripts {
            assert!(script.starts_with(" src=\"./"), "{script}");
            let (_, text) = script.split_once('>').unwrap();
            let (text, _) = text.split_once("</script>").unwrap();
            assert!(text.trim().is_empty(), "{script}");
        }
        assert!(!page.contains("http://") && !page.contains("https://"), "{page}");
    }
}
