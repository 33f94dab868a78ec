//! The graph of capabilities, over HTTP.

#![expect(unused_qualifications, reason = "`params(Extent)` expands to one")]

use a2s_api::CapabilityGraph;
use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use utoipa::IntoParams;

use super::App;
use super::request::{CapabilityNameParam, NameAndSelector, QueryParams};
use crate::Error;
use crate::catalog::{VersionSelection, build_graph};

/// The maximum distance from the root, in steps.
const MAX_DEPTH: usize = 2 * a2s::MAX_DEPENDENCY_DEPTH;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct GraphParams {
    /// The most steps between the root and a version: 0 to 16, 16 when absent.
    #[param(minimum = 0, maximum = 16)]
    depth: Option<usize>,
    /// Set to include the impact on dependents if this version were yanked.
    #[serde(default)]
    impact: bool,
}

/// Read the graph of a capability
///
/// The dependencies and dependents of its live version as they resolve today, the other capabilities that
/// talk to its services, and compatible inputs and outputs of other capabilities. With `impact`: the
/// dependents that would break, change or stay if it were yanked.
#[utoipa::path(
    get, path = "/v1/capabilities/{name}/graph", tag = "capabilities",
    params(("name" = a2s::CapabilityName, Path, description = "Name in PascalCase"), GraphParams),
    responses(
        (status = 200, description = "The graph", body = CapabilityGraph),
        (status = 422, description = "The graph has too many documents (A2S213)"),
    ),
)]
pub(super) async fn get_graph(
    State(app): App,
    CapabilityNameParam(name): CapabilityNameParam,
    QueryParams(extent): QueryParams<GraphParams>,
) -> Result<Json<CapabilityGraph>, Error> {
    read_graph(&app, &name, &VersionSelection::Latest, &extent).await
}

/// Read the graph of a version
///
/// Returns the graph of the named version, or of the version that the range selects.
#[utoipa::path(
    get, path = "/v1/capabilities/{name}/{version}/graph", tag = "capabilities",
    params(
        ("name" = a2s::CapabilityName, Path, description = "Name in PascalCase"),
        ("version" = a2s_api::schema::VersionSelector, Path, description = "A version `1.2.0`, a range `^1.2`, or `latest`"),
        GraphParams,
    ),
    responses(
        (status = 200, description = "The graph", body = CapabilityGraph),
        (status = 422, description = "The graph has too many documents (A2S213)"),
    ),
)]
pub(super) async fn get_graph_of_version(
    State(app): App,
    NameAndSelector(name, selector): NameAndSelector,
    QueryParams(extent): QueryParams<GraphParams>,
) -> Result<Json<CapabilityGraph>, Error> {
    read_graph(&app, &name, &selector, &extent).await
}

async fn read_graph(
    app: &super::HttpState,
    name: &a2s::CapabilityName,
    selector: &VersionSelection,
    extent: &GraphParams,
) -> Result<Json<CapabilityGraph>, Error> {
    let depth = extent.depth.unwrap_or(MAX_DEPTH);
    if depth > MAX_DEPTH {
        return Err(Error::MalformedParameter(format!(
            "`depth` must be a number from 0 to {MAX_DEPTH}"
        )));
    }
    Ok(Json(build_graph(&app.catalog.versions, name, selector, depth, extent.impact).await?))
}
