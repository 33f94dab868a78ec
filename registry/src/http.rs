//! The registry over HTTP. A handler unpacks, asks the catalog once, and wraps; it decides
//! nothing.

#![expect(unused_qualifications, reason = "`params(Page)` expands to one")]

mod document;
mod drafts;
mod findability;
mod graph;
mod history;
mod lifecycle;
mod request;
mod services;
mod tokens;

use std::sync::Arc;
use std::time::Duration;

use a2s_api::AuthGuard;
use a2s_api::{
    CapabilityList, CapabilityStats, CapabilityVersions, IndexStatus, OutcomeReport, PROBLEM_JSON,
    Problem, PublishResponse, SearchCounts, SearchRequest, StrategyWeights, StreamQuota,
    VerifyRequest, VerifyResponse,
};
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use serde::Deserialize;
use tower_http::catch_panic::CatchPanicLayer;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{IntoParams, OpenApi};
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouterExt as _};
use utoipa_axum::routes;

use self::document::DocumentRepresentation;
pub(crate) use self::drafts::IMPORT_LIMITS;
use self::request::{
    Admin, AuthorizedCaller, CapabilityNameParam, DocumentBody, JsonBody, NameAndSelector, Publish,
    QueryParams, Service,
};
use crate::Error;
use crate::catalog::{AnySearchResponse, Catalog};
use crate::mirror::MirrorSource;
use crate::tokens::TokenService;

/// The maximum size of a body that is not a document, in bytes.
const MAX_REQUEST_BYTES: usize = 64 * 1024;
/// The maximum size of a body with the description of a service: 4 MiB, of which each character may be
/// escaped.
const MAX_DESCRIPTION_BODY: usize = 8 << 20;
/// The default number of capabilities on a page, and the maximum.
const DEFAULT_PAGE_SIZE: u32 = 50;
const MAX_PAGE_SIZE: u32 = 100;

/// The state that handlers share.
#[derive(Debug)]
pub(crate) struct HttpState {
    pub(crate) catalog: Catalog,
    pub(crate) tokens: TokenService,
    pub(crate) auth_guard: AuthGuard,
    /// The imports of descriptions in progress.
    pub(crate) imports: StreamQuota,
}

type App = State<Arc<HttpState>>;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "A2S registry",
        description = "Publish capabilities, and find them by intent. Every error is problem \
            details (RFC 9457) with a stable code.",
    ),
    tags(
        (name = "capabilities", description = "Publish and read documents."),
        (name = "search", description = "Find capabilities, and report the outcomes of runs."),
        (name = "services", description = "The hosts that capabilities send requests to."),
        (name = "tokens", description = "Access tokens and their scopes."),
        (name = "changes", description = "Changes of the registry, with their authors."),
    ),
    components(schemas(Problem, a2s_api::RegistryChange, a2s_api::schema::VersionSelector, StrategyWeights)),
)]
struct RegistryApi;

/// Returns the routes under `/v1` with their description.
fn api(document_bytes: usize) -> OpenApiRouter<Arc<HttpState>> {
    let documents = DefaultBodyLimit::max(document_bytes);
    let requests = DefaultBodyLimit::max(MAX_REQUEST_BYTES);
    OpenApiRouter::with_openapi(RegistryApi::openapi())
        .routes(routes!(list_capabilities, publish_capability).layer(documents))
        .routes(routes!(list_versions))
        .routes(routes!(get_document))
        .routes(routes!(get_stats))
        .routes(routes!(lifecycle::yank_version).layer(requests))
        .routes(routes!(lifecycle::unyank_version).layer(requests))
        .routes(routes!(lifecycle::deprecate_version).layer(requests))
        .routes(routes!(lifecycle::list_owners, lifecycle::change_owners).layer(requests))
        .routes(routes!(lifecycle::forget_intents).layer(requests))
        .routes(routes!(search_capabilities).layer(requests))
        .routes(routes!(count_searches))
        .routes(routes!(findability::report_findability).layer(documents))
        .routes(routes!(drafts::create_drafts).layer(DefaultBodyLimit::max(MAX_DESCRIPTION_BODY)))
        .routes(routes!(graph::get_graph))
        .routes(routes!(graph::get_graph_of_version))
        .routes(routes!(services::list_services))
        .routes(routes!(services::list_capabilities_of_service))
        .routes(routes!(get_index))
        .routes(routes!(verify_capability).layer(requests))
        .routes(routes!(record_outcome).layer(requests))
        .routes(routes!(tokens::list_tokens, tokens::create_token).layer(requests))
        .routes(routes!(tokens::introspect_token).layer(requests))
        .routes(routes!(tokens::revoke_token))
        .routes(routes!(history::list_changes))
        .routes(routes!(history::list_mirrors))
        .routes(routes!(history::read_audit))
        .routes(routes!(history::trim_audit))
}

/// Returns the OpenAPI description of the routes under `/v1`.
pub(crate) fn openapi() -> utoipa::openapi::OpenApi {
    let mut openapi = api(0).split_for_parts().1;
    let bearer = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some("The owner's token, or a token with the scope that the route requires."))
        .build();
    openapi
        .components
        .get_or_insert_default()
        .add_security_scheme("token", SecurityScheme::Http(bearer));
    a2s_api::add_error_responses(&mut openapi);
    openapi
}

/// Returns the routes under `/v1`, to be merged with those of other services.
pub(crate) fn routes(shared: &Arc<HttpState>) -> Router {
    let limits = shared.catalog.writer.limits;
    add_error_layers(api(limits.document_bytes).split_for_parts().0, limits.request_time)
        .with_state(Arc::clone(shared))
}

/// Returns all routes of a registry that runs alone.
pub(crate) fn router(shared: &Arc<HttpState>) -> Router {
    let health = Router::new()
        .route("/healthz", axum::routing::get(healthz))
        .route("/readyz", axum::routing::get(readyz));
    let limits = shared.catalog.writer.limits;
    add_error_layers(health, limits.request_time)
        .with_state(Arc::clone(shared))
        .merge(routes(shared))
        .fallback(not_found)
}

/// Adds the layers that turn a wrong method, a missed deadline and a panic into an error response of the
/// registry.
fn add_error_layers(router: Router<Arc<HttpState>>, deadline: Duration) -> Router<Arc<HttpState>> {
    router
        .method_not_allowed_fallback(|| async { Error::MethodNotAllowed })
        .layer(from_fn_with_state(deadline, stop_at_deadline))
        .layer(CatchPanicLayer::custom(|_panic: Box<dyn std::any::Any + Send>| {
            Error::Internal("a handler panicked".into()).into_response()
        }))
}

/// Responds to a request that no route matches.
pub async fn not_found() -> Response {
    Error::UnknownRoute.into_response()
}

async fn stop_at_deadline(
    State(deadline): State<Duration>,
    request: Request,
    next: Next,
) -> Response {
    match tokio::time::timeout(deadline, next.run(request)).await {
        Ok(response) => response,
        Err(_) => Error::TimedOut(deadline.as_secs()).into_response(),
    }
}

/// Publish a document
///
/// The registry compiles the document and reports every problem in one response. A published version never
/// changes: the same content again changes nothing, and other content under the same version is a conflict.
/// A mirror names the registry that it copies in the header A2S-Mirror, and publishes under names that are
/// free or that it has created from there.
#[utoipa::path(
    post, path = "/v1/capabilities", tag = "capabilities", security(("token" = [])),
    request_body(content(
        (String = "application/yaml"),
        (Object = "application/json"),
    )),
    responses(
        (status = 201, description = "Published", body = PublishResponse),
        (status = 200, description = "The same content is published already; nothing changed", body = PublishResponse),
        (status = 403, description = "The token lacks the required scope, or others own the name"),
        (status = 409, description = "The version or the id is taken"),
        (status = 413, description = "Larger than 1 MiB"),
        (status = 415, description = "Neither YAML nor JSON"),
        (status = 422, description = "The document has errors; the response lists all of them"),
    ),
)]
async fn publish_capability(
    State(app): App,
    AuthorizedCaller(caller, _): AuthorizedCaller<Publish>,
    headers: HeaderMap,
    DocumentBody(source): DocumentBody,
) -> Result<Response, Error> {
    let mirror = MirrorSource::from_headers(&headers, &caller)?;
    let answer = app.catalog.writer.publish(source, &caller, mirror.as_ref()).await?;
    let status = if answer.created { StatusCode::CREATED } else { StatusCode::OK };
    let location = location(&answer.name, &answer.version);
    Ok((status, [(header::LOCATION, location)], Json(answer)).into_response())
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct PageParams {
    /// The name after which the page starts: `next` of the page before.
    after: Option<a2s::CapabilityName>,
    /// The most capabilities on the page: 1 to 100, 50 when absent.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u32>,
}

/// List capabilities
///
/// Returns the live version of each, in order of name.
#[utoipa::path(
    get, path = "/v1/capabilities", tag = "capabilities", params(PageParams),
    responses(
        (status = 200, description = "A page of capabilities", body = CapabilityList),
    ),
)]
async fn list_capabilities(
    State(app): App,
    QueryParams(page): QueryParams<PageParams>,
) -> Result<Json<CapabilityList>, Error> {
    let limit = page_size(page.limit)?;
    Ok(Json(app.catalog.versions.list(page.after.as_ref(), limit).await?))
}

fn page_size(limit: Option<u32>) -> Result<u32, Error> {
    let limit = limit.unwrap_or(DEFAULT_PAGE_SIZE);
    if !(1..=MAX_PAGE_SIZE).contains(&limit) {
        let text = format!("`limit` must be a number from 1 to {MAX_PAGE_SIZE}");
        return Err(Error::MalformedParameter(text));
    }
    Ok(limit)
}

/// List the versions of a capability
#[utoipa::path(
    get, path = "/v1/capabilities/{name}", tag = "capabilities",
    params(("name" = a2s::CapabilityName, Path, description = "Name in PascalCase")),
    responses(
        (status = 200, description = "The versions, the newest first", body = CapabilityVersions),
    ),
)]
async fn list_versions(
    State(app): App,
    CapabilityNameParam(name): CapabilityNameParam,
) -> Result<Json<CapabilityVersions>, Error> {
    Ok(Json(app.catalog.versions.list_versions(&name).await?))
}

/// Read a document
///
/// Returns the source text as it was published, or its content as JSON. The weak `ETag` is the checksum.
/// For a range, `Content-Location` names the exact version.
#[utoipa::path(
    get, path = "/v1/capabilities/{name}/{version}", tag = "capabilities",
    params(
        ("name" = a2s::CapabilityName, Path, description = "Name in PascalCase"),
        ("version" = a2s_api::schema::VersionSelector, Path, description = "A version `1.2.0`, a range `^1.2`, or `latest`"),
        ("Accept" = Option<String>, Header, description = "`application/yaml` (default) or `application/json`"),
        ("If-None-Match" = Option<String>, Header, description = "The `ETag` of an earlier response"),
    ),
    responses(
        (status = 200, description = "The document", content(
            (Object = "application/yaml"),
            (Object = "application/json"),
        )),
        (status = 304, description = "The document has not changed"),
        (status = 406, description = "`Accept` allows neither YAML nor JSON"),
        (status = 500, description = "The stored document was changed outside the registry (A2S222)"),
    ),
)]
async fn get_document(
    State(app): App,
    NameAndSelector(name, selector): NameAndSelector,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let representation = DocumentRepresentation::from_accept_header(&headers)?;
    let fetched = app.catalog.versions.fetch(&name, &selector).await?;
    let entry = fetched.entry;
    let tag = document::etag(entry.digest);
    let head = [
        (header::ETAG, tag.clone()),
        (header::CONTENT_LOCATION, location(&entry.name, &entry.version)),
        (header::VARY, HeaderValue::from_static("accept")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
    ];
    if document::matches_etag(&headers, &tag) {
        return Ok((StatusCode::NOT_MODIFIED, head).into_response());
    }
    let source = fetched.document.source;
    let body = match representation {
        DocumentRepresentation::Yaml => source,
        DocumentRepresentation::Json => {
            app.catalog.versions.documents.compute(move || document::to_json(source)).await??
        }
    };
    let kind = [(header::CONTENT_TYPE, HeaderValue::from_static(representation.media_type()))];
    Ok((head, kind, body).into_response())
}

/// Show how the runs of a version ended
///
/// Counts since it was published, and their weights today: after two weeks a run has half its weight, and
/// the weight of one session or one executor is limited.
#[utoipa::path(
    get, path = "/v1/capabilities/{name}/{version}/stats", tag = "capabilities",
    params(
        ("name" = a2s::CapabilityName, Path, description = "Name in PascalCase"),
        ("version" = a2s_api::schema::VersionSelector, Path, description = "A version `1.2.0`, a range `^1.2`, or `latest`"),
    ),
    responses(
        (status = 200, description = "The outcomes of the runs", body = CapabilityStats),
    ),
)]
async fn get_stats(
    State(app): App,
    NameAndSelector(name, selector): NameAndSelector,
) -> Result<Json<CapabilityStats>, Error> {
    Ok(Json(app.catalog.outcomes.load_stats(&name, &selector).await?))
}

/// Search by intent
///
/// Finds capabilities that fit an intent in words, by meaning and by terms, the best first. When no
/// capability is close enough, the response is empty and states that. With `intents` the response has a
/// result for each of them; with `level: services` the hits are the services that fitting capabilities use.
#[utoipa::path(
    post, path = "/v1/search", tag = "search", request_body = SearchRequest,
    responses(
        (status = 200, description = "The results: for `intent`, for `intents`, or for `level: services`", body = AnySearchResponse),
        (status = 422),
        (status = 503, description = "The registry is building the index"),
        (status = 415),
    ),
)]
async fn search_capabilities(
    State(app): App,
    JsonBody(request): JsonBody<SearchRequest>,
) -> Result<Json<AnySearchResponse>, Error> {
    Ok(Json(app.catalog.search.search(&request).await?))
}

/// Count the searches of each hour
///
/// Returns the numbers of searches, of those with a weak best hit, and of those without a hit, for a week at
/// most. The registry counts searches in memory, begins anew when it starts, and stores no intents. With
/// several registries each counts its own.
#[utoipa::path(
    get, path = "/v1/search-counts", tag = "search", security(("token" = [])),
    responses((status = 200, description = "The counts", body = SearchCounts)),
)]
async fn count_searches(State(app): App, _: AuthorizedCaller<Admin>) -> Json<SearchCounts> {
    Json(app.catalog.search.counts())
}

/// Show the search index
///
/// Returns the embedder of the index, the number of its capabilities, and the progress of a new index that
/// is being built, for instance because the registry started with another embedder.
#[utoipa::path(
    get, path = "/v1/index", tag = "search",
    responses(
        (status = 200, description = "The index that serves searches", body = IndexStatus),
        (status = 503, description = "The registry is building its first index"),
    ),
)]
async fn get_index(State(app): App) -> Result<Json<IndexStatus>, Error> {
    Ok(Json(app.catalog.index_status().await?))
}

/// Verify a stored document
///
/// Computes the checksum of the stored document and compares it with the published one.
#[utoipa::path(
    post, path = "/v1/verify", tag = "search", request_body = VerifyRequest,
    responses(
        (status = 200, description = "The result of the verification", body = VerifyResponse),
        (status = 415),
        (status = 404),
    ),
)]
async fn verify_capability(
    State(app): App,
    JsonBody(request): JsonBody<VerifyRequest>,
) -> Result<Json<VerifyResponse>, Error> {
    Ok(Json(app.catalog.versions.verify(&request).await?))
}

/// Report the outcome of a run
///
/// A run counts once, however often it is reported. Failures for which the caller, a guardian or the
/// executor is to blame do not count against the capability. The time of a run is its end; the registry
/// rejects a run that ended more than 30 days ago. Requires a token with the scope `service`, which
/// executors have.
#[utoipa::path(
    post, path = "/v1/outcomes", tag = "search", security(("token" = [])),
    request_body = OutcomeReport,
    responses(
        (status = 204, description = "The outcome is recorded"),
        (status = 409, description = "The version has another checksum"),
        (status = 422, description = "The report is invalid"),
        (status = 415),
        (status = 404),
    ),
)]
async fn record_outcome(
    State(app): App,
    _: AuthorizedCaller<Service>,
    JsonBody(report): JsonBody<OutcomeReport>,
) -> Result<StatusCode, Error> {
    app.catalog.outcomes.record(report).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn healthz() -> StatusCode {
    StatusCode::NO_CONTENT
}

async fn readyz(State(app): App) -> Result<StatusCode, Error> {
    app.catalog.check_ready().await?;
    Ok(StatusCode::NO_CONTENT)
}

fn location(name: &a2s::CapabilityName, version: &semver::Version) -> HeaderValue {
    // Names and versions are ASCII; a path may have the `+` of build metadata.
    HeaderValue::try_from(format!("/v1/capabilities/{name}/{version}"))
        .unwrap_or_else(|_| HeaderValue::from_static("/v1/capabilities"))
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status()).unwrap_or_default();
        if status.is_server_error() {
            tracing::error!(code = self.code().id, error = %self, cause = error_chain(&self), "request failed");
        }
        let problem = self.to_problem();
        let later = problem.retry_after().map(|seconds| [(header::RETRY_AFTER, seconds)]);
        let mut response = (status, later, Json(problem)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// The chain of causes of an error, for the log.
fn error_chain(error: &Error) -> Option<String> {
    let mut cause = std::error::Error::source(error)?;
    let mut text = cause.to_string();
    while let Some(deeper) = cause.source() {
        cause = deeper;
        let deeper = cause.to_string();
        if !text.contains(&deeper) {
            text = format!("{text}: {deeper}");
        }
    }
    Some(text)
}
