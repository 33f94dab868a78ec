//! Usage over HTTP.

use a2s_api::{AuthenticatedCaller, UsageReport, UsageUnit};
use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Extension, Query, State};
use jiff::Timestamp;
use serde::Deserialize;

use crate::App;
use crate::error::{Error, ErrorKind};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UsageQuery {
    since: Option<Timestamp>,
    unit: Option<UsageUnit>,
}

/// Count runs over time
///
/// Counts the runs that were started in a period, by interval, capability, principal and error: those of the
/// caller; with the scope `admin`, those of all principals. Deleted runs are not counted, and at most the
/// latest 20,000 are.
#[utoipa::path(
    get, path = "/v1/usage", tag = "executor", security(("token" = [])),
    params(
        ("since" = Option<String>, Query, format = DateTime, description = "The start of the period; 24 hours ago by default"),
        ("unit" = Option<UsageUnit>, Query, description = "The length of an interval, `hour` by default; of a period with more than 400 intervals, the latest 400 are counted"),
    ),
    responses((status = 200, description = "The counts", body = UsageReport)),
)]
pub(super) async fn count_usage(
    State(app): State<App>,
    Extension(AuthenticatedCaller(caller)): Extension<AuthenticatedCaller>,
    query: Result<Query<UsageQuery>, QueryRejection>,
) -> Result<Json<UsageReport>, Error> {
    let Query(UsageQuery { since, unit }) =
        query.map_err(|rejection| Error::new(ErrorKind::BadRequest, rejection.body_text()))?;
    app.runs().usage(since, unit.unwrap_or_default(), &caller).await.map(Json)
}
