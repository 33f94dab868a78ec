//! Changes over HTTP: page by page, or as it happens.

#![expect(unused_qualifications, reason = "`params(Since)` expands to one")]

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use a2s::CapabilityName;
use a2s_api::{
    AuditPage, ChangePage, MirrorList, RegistryChange, TrimAuditRequest, TrimAuditResponse,
};
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures::stream;
use serde::Deserialize;
use utoipa::IntoParams;

use super::request::{Admin, AuthorizedCaller, JsonBody, OptionalCaller, QueryParams};
use super::{App, HttpState};
use crate::Error;
use crate::change_feed::FeedFollower;

/// The default number of changes on a page, and the maximum.
const DEFAULT_PAGE_SIZE: u32 = 100;
const MAX_PAGE_SIZE: u32 = 1_000;
/// The interval of the messages that keep proxies from closing an idle stream.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ChangesParams {
    /// The number after which the page starts: `next` of the page before. All changes when absent.
    #[serde(default)]
    since: u64,
    /// The most changes on the page: 1 to 1000, 100 when absent.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// List changes
///
/// Returns every publish, yank, unyank and deprecation, in order, from the beginning or after a number.
/// With `Accept: text/event-stream` the registry sends changes as they happen: `id` is the number, `event`
/// the action, `data` the change. With the header Last-Event-ID the stream continues after that change.
#[utoipa::path(
    get, path = "/v1/changes", tag = "changes",
    params(
        ChangesParams,
        ("Last-Event-ID" = Option<u64>, Header, description = "The last change that the client received"),
    ),
    responses(
        (status = 200, description = "A page of changes, or a stream of future changes", content(
            (ChangePage = "application/json"),
            (String = "text/event-stream"),
        )),
        (status = 429, description = "This caller has too many open streams; read the changes in pages"),
        (status = 503, description = "Too many streams are open"),
    ),
)]
pub(super) async fn list_changes(
    State(app): App,
    QueryParams(ChangesParams { since, limit }): QueryParams<ChangesParams>,
    OptionalCaller(caller): OptionalCaller,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let limit = page_size(limit)?;
    let since = match headers.get("last-event-id") {
        None => check_number("since", since)?,
        Some(id) => {
            let number = id.to_str().ok().and_then(|id| id.trim().parse().ok());
            let malformed =
                || Error::MalformedParameter("`Last-Event-ID` must be a number".to_owned());
            check_number("Last-Event-ID", number.ok_or_else(malformed)?)?
        }
    };
    if !wants_events(&headers) {
        return Ok(Json(app.catalog.log.changes(since, limit).await?).into_response());
    }
    let follower = app.catalog.log.feed.follow(caller)?;
    let following = ChangeStream { app, follower, since, waiting: VecDeque::new() };
    // An error breaks the connection off.
    let events = stream::try_unfold(following, async |mut following: ChangeStream| {
        let Some(change) = following.next().await? else { return Ok::<_, Error>(None) };
        let message = sse::Event::default().id(change.seq.to_string());
        let message = message.event(change.action.as_str());
        let data = serde_json::to_string(&change).map_err(|error| Error::Internal(error.into()))?;
        Ok(Some((message.data(data), following)))
    });
    let keep_alive = KeepAlive::new().interval(KEEP_ALIVE);
    Ok(Sse::new(events).keep_alive(keep_alive).into_response())
}

/// One stream of changes.
struct ChangeStream {
    app: Arc<HttpState>,
    follower: FeedFollower,
    since: u64,
    waiting: VecDeque<RegistryChange>,
}

impl ChangeStream {
    /// Returns the next change. Returns `None` when the registry stops, and an error when its store fails:
    /// the client then reconnects with the last number.
    async fn next(&mut self) -> Result<Option<RegistryChange>, Error> {
        loop {
            if let Some(change) = self.waiting.pop_front() {
                return Ok(Some(change));
            }
            let page = self.app.catalog.log.changes(self.since, DEFAULT_PAGE_SIZE).await?;
            self.since = page.next;
            self.waiting = page.changes.into();
            if self.waiting.is_empty() && !page.has_more && !self.follower.wait().await {
                return Ok(None);
            }
        }
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct AuditParams {
    /// The number before which the page ends: `next` of the previous page. When absent, the page has the
    /// newest entries.
    before: Option<u64>,
    /// Only entries about this capability.
    name: Option<CapabilityName>,
    /// The most entries on the page: 1 to 1000, 100 when absent.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// Read who changed what
///
/// Returns every publish, yank, deprecation and change of owners, and every created or revoked token; the
/// newest first.
#[utoipa::path(
    get, path = "/v1/audit", tag = "changes", security(("token" = [])), params(AuditParams),
    responses(
        (status = 200, description = "A page of audit entries", body = AuditPage),
    ),
)]
pub(super) async fn read_audit(
    State(app): App,
    _: AuthorizedCaller<Admin>,
    QueryParams(AuditParams { before, name, limit }): QueryParams<AuditParams>,
) -> Result<Json<AuditPage>, Error> {
    let before = before.map(|number| check_number("before", number)).transpose()?;
    Ok(Json(app.catalog.log.audit(before, name.as_ref(), page_size(limit)?).await?))
}

/// List the registries that this one has copies of
///
/// A mirror (`a2s mirror`) states the registry that it copies. Each comes with the numbers of its
/// capabilities and versions here, and the time of the last copy.
#[utoipa::path(
    get, path = "/v1/mirrors", tag = "changes",
    responses(
        (status = 200, description = "The registries", body = MirrorList),
    ),
)]
pub(super) async fn list_mirrors(State(app): App) -> Result<Json<MirrorList>, Error> {
    Ok(Json(MirrorList { mirrors: app.catalog.log.mirrors().await? }))
}

/// Remove old entries of the audit
///
/// Removes entries from before a time, and records that in the audit. Entries that a new mirror needs stay:
/// each publish, and of each version the last yank or unyank and the last deprecation or its end.
#[utoipa::path(
    post, path = "/v1/audit/trim", tag = "changes", security(("token" = [])),
    request_body = TrimAuditRequest,
    responses(
        (status = 200, description = "The entries are removed", body = TrimAuditResponse),
        (status = 415),
        (status = 422, description = "The time is in the future"),
    ),
)]
pub(super) async fn trim_audit(
    State(app): App,
    AuthorizedCaller(caller, _): AuthorizedCaller<Admin>,
    JsonBody(TrimAuditRequest { before }): JsonBody<TrimAuditRequest>,
) -> Result<Json<TrimAuditResponse>, Error> {
    let removed = app.catalog.log.trim_audit(before, &caller).await?;
    Ok(Json(TrimAuditResponse { removed }))
}

/// Checks the number of an entry: the description of the API states 64-bit integers with a sign.
fn check_number(parameter: &str, number: u64) -> Result<u64, Error> {
    let too_large =
        |_| Error::MalformedParameter(format!("`{parameter}` must be at most {}", i64::MAX));
    i64::try_from(number).map(|_| number).map_err(too_large)
}

fn page_size(limit: Option<u32>) -> Result<u32, Error> {
    let limit = limit.unwrap_or(DEFAULT_PAGE_SIZE);
    if (1..=MAX_PAGE_SIZE).contains(&limit) {
        return Ok(limit);
    }
    Err(Error::MalformedParameter(format!("`limit` must be a number from 1 to {MAX_PAGE_SIZE}")))
}

fn wants_events(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    accept.is_some_and(|accept| {
        accept
            .split(',')
            .any(|kind| kind.split(';').next().unwrap_or_default().trim() == "text/event-stream")
    })
}
