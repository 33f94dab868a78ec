//! The policy, the audit log, and trials of policies over HTTP, for callers with the guardian's token.

use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{DefaultBodyLimit, Query, State};
use axum::response::{IntoResponse as _, Response};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{ApproverToken, problem, problem_with_detail};
use crate::App;
use crate::audit::{NewestRecords, RecordFilter, RecordRange};
use crate::error::RejectionCode;
use crate::policy::{self, Policy};
use crate::policy_trial::PolicyTrial;

/// The most records in one response, and the default.
const MAX_RECORDS: usize = 500;
const DEFAULT_RECORDS: usize = 50;
/// The most decisions that a policy is tried on, and the default.
const MAX_TRIED: usize = 5_000;
const DEFAULT_TRIED: usize = 1_000;

/// Returns the routes of the log.
pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(get_policy))
        .routes(routes!(list_records))
        .routes(routes!(verify_log))
        .routes(routes!(try_policy))
        // A policy as a JSON text: every character may be escaped.
        .layer(DefaultBodyLimit::max(2 * policy::MAX_BYTES + 1024))
}

/// The policies of a guardian.
#[derive(Debug, Serialize, ToSchema)]
struct GuardianPolicies {
    #[serde(flatten)]
    in_force: GuardianPolicy,
    /// The shadow policy, which is only tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    shadow: Option<GuardianPolicy>,
}

/// A policy of a guardian.
#[derive(Debug, Serialize, ToSchema)]
struct GuardianPolicy {
    /// The digest of the text, as `sha256:` and hex.
    digest: String,
    /// The ids of the rules, in order.
    rules: Vec<String>,
    /// The text of the policy, in YAML.
    text: String,
}

impl GuardianPolicy {
    fn new(policy: &Policy) -> Self {
        Self {
            digest: policy.digest().to_owned(),
            rules: policy.rule_ids().map(str::to_owned).collect(),
            text: policy.text().to_owned(),
        }
    }
}

/// Records of the audit log.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct GuardianRecordList {
    /// The records as they are in the log, the newest first. Secrets, long texts and what the policy
    /// redacts are left out.
    #[schema(value_type = Vec<serde_json::Map<String, Value>>)]
    pub records: Vec<Value>,
    /// The value of `before` for the records before these; absent at the beginning of the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// The part of the log to list, beside the filter.
#[derive(Debug, Default, Deserialize)]
struct RecordRangeQuery {
    before: Option<u64>,
    after: Option<u64>,
    limit: Option<usize>,
}

/// The result of a check of the audit log.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct LogVerification {
    /// Set when every record follows the one before it.
    pub valid: bool,
    /// The number of the last record.
    pub records: u64,
    /// The number of segments that were read.
    pub segments: u64,
    /// The digest of the last record, as `sha256:` and hex. Keep it somewhere else: a chain alone does not
    /// show that its end was cut off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    /// The first error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A policy to try.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct PolicyTrialRequest {
    /// The text of the policy, in YAML.
    policy: String,
    /// The number of decisions to try it on, the latest ones; at most 5,000, and 1,000 by default.
    #[schema(minimum = 1, maximum = 5000)]
    last: Option<usize>,
}

/// Read the policy in force
#[utoipa::path(
    get, path = "/v1/guardian/policy", tag = "guardian", security(("token" = [])),
    responses((status = 200, description = "The policy, and the shadow policy if there is one", body = GuardianPolicies)),
)]
async fn get_policy(State(app): State<App>, _: ApproverToken) -> Response {
    let shadow = app.shadow_policy();
    Json(GuardianPolicies {
        in_force: GuardianPolicy::new(&app.policy()),
        shadow: shadow.as_deref().map(GuardianPolicy::new),
    })
    .into_response()
}

/// List records of the audit log: decisions, outcomes, approvals and policies
///
/// The newest come first. One request reads at most 20,000 records; when `next` is there, the search goes
/// on with `before` set to it, even if no record was found.
#[utoipa::path(
    get, path = "/v1/guardian/records", tag = "guardian", security(("token" = [])),
    params(
        ("before" = Option<u64>, Query, description = "Only records with a smaller number (`seq`)"),
        ("after" = Option<u64>, Query, description = "Only records with a larger number"),
        ("limit" = Option<usize>, Query, minimum = 1, maximum = 500, description = "The most records; 50 by default"),
        ("event" = Option<String>, Query, description = "Only this event: `decision`, `outcome`, `approval`, `policy`, `shadow_policy`, `recovery` or `segment`"),
        ("decision" = Option<String>, Query, description = "Only this decision: `allow`, `deny` or `modify`"),
        ("tool" = Option<String>, Query, description = "Only tools with this text in their name"),
        ("capability" = Option<String>, Query, description = "Only this capability"),
        ("rule" = Option<String>, Query, description = "Only decisions that this rule took part in"),
        ("session" = Option<String>, Query, description = "Only this session"),
        ("user" = Option<String>, Query, description = "Only this user, or this token that acts for one"),
        ("execution" = Option<String>, Query, description = "Only this execution"),
        ("run" = Option<String>, Query, description = "Only this run of an executor"),
        ("since" = Option<String>, Query, format = DateTime, description = "Only records from this time on"),
        ("differs" = Option<bool>, Query, description = "Only decisions that the shadow policy would have made differently"),
    ),
    responses(
        (status = 200, description = "The records", body = GuardianRecordList),
        (status = 400, description = "Invalid query"),
    ),
)]
async fn list_records(
    State(app): State<App>,
    _: ApproverToken,
    filter: Result<Query<RecordFilter>, QueryRejection>,
    range: Result<Query<RecordRangeQuery>, QueryRejection>,
) -> Response {
    let (Query(filter), Query(range)) = match (filter, range) {
        (Ok(filter), Ok(range)) => (filter, range),
        (Err(error), _) | (_, Err(error)) => {
            return problem_with_detail(RejectionCode::BadQuery, &error.body_text());
        }
    };
    let mut numbers = [range.before, range.after].into_iter().flatten();
    if numbers.any(|number| i64::try_from(number).is_err()) {
        let detail = format!("`before` and `after` must be at most {}.", i64::MAX);
        return problem_with_detail(RejectionCode::BadQuery, &detail);
    }
    let limit = range.limit.unwrap_or(DEFAULT_RECORDS);
    if !(1..=MAX_RECORDS).contains(&limit) {
        let detail = format!("`limit` must be from 1 to {MAX_RECORDS}.");
        return problem_with_detail(RejectionCode::BadQuery, &detail);
    }
    let range = RecordRange { before: range.before, after: range.after.unwrap_or(0), limit };
    match app.log_reader.read_records(range, filter).await {
        Ok(NewestRecords { records, next }) => {
            Json(GuardianRecordList { records, next }).into_response()
        }
        Err(code) => problem(code),
    }
}

/// Check the audit log: every record follows the one before it
///
/// The guardian reads the whole log, from its oldest segment.
#[utoipa::path(
    get, path = "/v1/guardian/verification", tag = "guardian", security(("token" = [])),
    responses((status = 200, description = "The result; a broken log has `valid` false and an `error`", body = LogVerification)),
)]
async fn verify_log(State(app): State<App>, _: ApproverToken) -> Response {
    match app.log_reader.verify().await {
        Ok((verified, error)) => Json(LogVerification {
            valid: error.is_none(),
            records: verified.records,
            segments: verified.segments,
            head: verified.head,
            error,
        })
        .into_response(),
        Err(code) => problem(code),
    }
}

/// Try a policy on decisions of the past, before it is in force
///
/// The guardian builds the messages of its latest decisions again from the audit log, decides on them by
/// the given policy as if none had come before, and lists the decisions that would be different. Nothing is
/// recorded and nothing is done. The log leaves out secrets, long texts and what the policy of that time
/// redacts: such a decision has `partial` set.
#[utoipa::path(
    post, path = "/v1/guardian/trials", tag = "guardian", security(("token" = [])),
    request_body = PolicyTrialRequest,
    responses(
        (status = 200, description = "The result", body = PolicyTrial),
        (status = 400, description = "The body is not valid"),
        (status = 422, description = "The policy is not valid; `detail` has all of its errors with their lines"),
    ),
)]
async fn try_policy(
    State(app): State<App>,
    _: ApproverToken,
    body: Result<Json<PolicyTrialRequest>, JsonRejection>,
) -> Response {
    let wanted = match body {
        Ok(Json(wanted)) => wanted,
        Err(error) => return problem_with_detail(RejectionCode::BadQuery, &error.body_text()),
    };
    let limit = wanted.last.unwrap_or(DEFAULT_TRIED);
    if !(1..=MAX_TRIED).contains(&limit) {
        let detail = format!("`last` must be from 1 to {MAX_TRIED}.");
        return problem_with_detail(RejectionCode::BadQuery, &detail);
    }
    let policy = match Policy::parse(&wanted.policy) {
        Ok(policy) => policy,
        Err(errors) => {
            return problem_with_detail(RejectionCode::PolicyInvalid, &errors.to_string());
        }
    };
    match app.log_reader.try_policy(policy, limit).await {
        Ok(trial) => Json(trial).into_response(),
        Err(code) => problem(code),
    }
}
