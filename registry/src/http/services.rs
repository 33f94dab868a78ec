//! Services over HTTP.

#![expect(unused_qualifications, reason = "`params(ServicePage)` expands to one")]

use a2s::Domain;
use a2s_api::{ServiceCapabilities, ServiceList};
use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use utoipa::IntoParams;

use super::request::{HostParam, QueryParams};
use super::{App, PageParams, page_size};
use crate::Error;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ServicePage {
    /// The host after which the page starts: `next` of the page before.
    after: Option<Domain>,
    /// The most services on the page: 1 to 100, 50 when absent.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u32>,
}

/// List services
///
/// Returns the hosts that live capabilities use, in order of host, with the titles in their descriptions,
/// their formats, and the permissions that callers need.
#[utoipa::path(
    get, path = "/v1/services", tag = "services", params(ServicePage),
    responses(
        (status = 200, description = "A page of services", body = ServiceList),
    ),
)]
pub(super) async fn list_services(
    State(app): App,
    QueryParams(page): QueryParams<ServicePage>,
) -> Result<Json<ServiceList>, Error> {
    let limit = page_size(page.limit)?;
    Ok(Json(app.catalog.versions.list_services(page.after.as_ref(), limit).await?))
}

/// Read a service
///
/// The host, and the capabilities that talk to it, in order of name.
#[utoipa::path(
    get, path = "/v1/services/{host}", tag = "services",
    params(("host" = a2s::Domain, Path, description = "The host name, with its port if documents name one"), PageParams),
    responses(
        (status = 200, description = "The service and a page of its capabilities", body = ServiceCapabilities),
        (status = 404, description = "No live capability uses this host"),
    ),
)]
pub(super) async fn list_capabilities_of_service(
    State(app): App,
    HostParam(host): HostParam,
    QueryParams(page): QueryParams<PageParams>,
) -> Result<Json<ServiceCapabilities>, Error> {
    let limit = page_size(page.limit)?;
    let answer =
        app.catalog.versions.list_capabilities_at(&host, page.after.as_ref(), limit).await?;
    Ok(Json(answer))
}
