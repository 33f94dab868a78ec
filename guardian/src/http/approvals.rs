//! Approvals over HTTP, for callers with the guardian's token.

mod follow;

use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{DefaultBodyLimit, Path, Query, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse as _, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{ApproverToken, has_token, problem, problem_with_detail};
use crate::App;
use crate::error::{ApprovalError, RejectionCode};
use crate::policy::{Approval, ApprovalDecision, ApprovalState as Approved};

const MAX_BODY: usize = 16 << 10;

/// Returns the routes of approvals.
pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list_approvals))
        .routes(routes!(get_approval))
        .routes(routes!(approve))
        .routes(routes!(reject))
        .layer(DefaultBodyLimit::max(MAX_BODY))
}

/// The approvals that wait for a person, or that are decided and not used yet.
#[derive(Debug, Serialize, ToSchema)]
struct ApprovalList {
    approvals: Vec<Approval>,
}

/// The person who decides, and the reason.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ApprovalDecisionRequest {
    /// The name of the person who decides, as they state it.
    #[serde(alias = "by")]
    decided_by: Option<String>,
    /// The reason.
    reason: Option<String>,
}

/// The status of an approval.
#[derive(Debug, Serialize, ToSchema)]
struct ApprovalStatus {
    id: String,
    /// `pending`, `approved`, `rejected`, `used`, `expired` or `withdrawn`.
    status: &'static str,
    /// The time when the approval expires, decided or not.
    #[serde(rename = "expiresAt")]
    #[schema(value_type = String, format = DateTime)]
    expires_at: jiff::Timestamp,
    /// The complete approval, for callers who may approve.
    #[serde(skip_serializing_if = "Option::is_none")]
    approval: Option<Approval>,
}

/// The query parameters of the list of approvals.
#[derive(Debug, Default, Deserialize)]
struct ApprovalListQuery {
    status: Option<String>,
    follow: Option<String>,
}

/// List approvals that wait for a person
///
/// With `follow` the response is a stream of server-sent events that stays open. The guardian first sends
/// each approval that waits (`pending`), then each change (`pending`, `approved`, `rejected`, `used`,
/// `expired`, `withdrawn`). A client that reconnects with the header Last-Event-ID receives the changes that it has
/// missed, or again all approvals that wait.
#[utoipa::path(
    get, path = "/v1/approvals", tag = "guardian", security(("token" = [])),
    params(
        ("status" = Option<String>, Query, pattern = "^(pending|approved|rejected|used|expired|withdrawn|all)$", description = "Only approvals with this status, or all; without it, pending approvals and approvals that are decided but not used. The guardian keeps only the latest 1,000 approvals that are used, expired or withdrawn"),
        ("follow" = Option<String>, Query, description = "Continue with a stream of changes as server-sent events"),
    ),
    responses(
        (status = 200, description = "The approvals, the oldest first; or with `follow`, the changes", content(
            (ApprovalList = "application/json"),
            (String = "text/event-stream"),
        )),
        (status = 400, description = "Unknown status"),
        (status = 503, description = "Too many clients follow the approvals"),
    ),
)]
async fn list_approvals(
    State(app): State<App>,
    _: ApproverToken,
    wanted: Result<Query<ApprovalListQuery>, QueryRejection>,
    headers: HeaderMap,
) -> Response {
    let Ok(Query(wanted)) = wanted else { return problem(RejectionCode::BadStatus) };
    let state = |status: &String| match status.as_str() {
        "all" => Some(None),
        status => Approved::ALL.into_iter().find(|state| state.status() == status).map(Some),
    };
    let status = wanted.status.as_ref().map(state);
    if status == Some(None) {
        return problem(RejectionCode::BadStatus);
    }
    if wanted.follow.is_some() {
        let last_id = headers.get("last-event-id").and_then(|value| value.to_str().ok());
        return follow::stream_approvals(&app, last_id).unwrap_or_else(problem);
    }
    let approvals = match status.flatten() {
        None => app.approvals(),
        Some(state) => app.approval_history(state),
    };
    axum::Json(ApprovalList { approvals }).into_response()
}

/// Show the status of one approval
///
/// Clients of the guardian may read the status with their token; callers who may approve see the complete
/// approval.
#[utoipa::path(
    get, path = "/v1/approvals/{id}", tag = "guardian", security(("token" = [])),
    params(("id" = String, Path, description = "The id of the approval, from the denial")),
    responses(
        (status = 200, description = "The status of the approval", body = ApprovalStatus),
    ),
)]
async fn get_approval(
    State(app): State<App>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Response {
    let may_approve = has_token(&headers, app.config.token.as_ref());
    if !may_approve && !has_token(&headers, app.config.client_token.as_ref()) {
        return problem(RejectionCode::Unauthorized);
    }
    let Some(approval) = app.approval(&id) else { return problem(RejectionCode::UnknownApproval) };
    let status = ApprovalStatus {
        id: approval.id.clone(),
        status: approval.state.status(),
        expires_at: approval.expires_at,
        approval: may_approve.then_some(approval),
    };
    axum::Json(status).into_response()
}

/// Approve a pending action: it may be done once, before the approval expires
#[utoipa::path(
    post, path = "/v1/approvals/{id}/approve", tag = "guardian", security(("token" = [])),
    params(("id" = String, Path, description = "The id of the approval, from the denial")),
    request_body(content = Option<ApprovalDecisionRequest>, content_type = "application/json"),
    responses(
        (status = 200, description = "The approval; also after the same decision before", body = Approval),
        (status = 404, description = "Unknown approval"),
        (status = 409, description = "The approval was decided otherwise, has expired, or was withdrawn because its run ended"),
        (status = 503, description = "The guardian cannot write the audit log"),
    ),
)]
async fn approve(
    State(app): State<App>,
    _: ApproverToken,
    Path(id): Path<String>,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    settle_request(&app, &id, body, true).await
}

/// Reject a pending action: it is denied until the approval expires
#[utoipa::path(
    post, path = "/v1/approvals/{id}/reject", tag = "guardian", security(("token" = [])),
    params(("id" = String, Path, description = "The id of the approval, from the denial")),
    request_body(content = Option<ApprovalDecisionRequest>, content_type = "application/json"),
    responses(
        (status = 200, description = "The approval; also after the same decision before", body = Approval),
        (status = 404, description = "Unknown approval"),
        (status = 409, description = "The approval was decided otherwise, has expired, or was withdrawn because its run ended"),
        (status = 503, description = "The guardian cannot write the audit log"),
    ),
)]
async fn reject(
    State(app): State<App>,
    _: ApproverToken,
    Path(id): Path<String>,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    settle_request(&app, &id, body, false).await
}

async fn settle_request(
    app: &App,
    id: &str,
    body: Result<Bytes, BytesRejection>,
    is_approved: bool,
) -> Response {
    let decided: Result<_, ApprovalError> = async {
        let body = body.map_err(|_| RejectionCode::TooLarge)?;
        let words = match body.is_empty() {
            true => ApprovalDecisionRequest::default(),
            false => serde_json::from_slice::<Option<ApprovalDecisionRequest>>(&body)
                .map_err(|_| RejectionCode::BadDecision)?
                .unwrap_or_default(),
        };
        app.decide_approval(
            id,
            ApprovalDecision { is_approved, decided_by: words.decided_by, reason: words.reason },
        )
        .await
    }
    .await;
    match decided {
        Ok(approval) => axum::Json(approval).into_response(),
        Err(ApprovalError::Rejected(code)) => problem(code),
        Err(ApprovalError::NotPending(approval)) => {
            problem_with_detail(RejectionCode::ApprovalNotPending, &approval.describe_state())
        }
    }
}
