//! Events that start runs, over HTTP.

use a2s_api::AuthenticatedCaller;
use a2s_api::{Run, TriggerRequest};
use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, StatusCode};

use super::{read_json, start_run};
use crate::App;
use crate::error::{Error, ErrorKind};

/// The maximum number of characters in the kind and in the id of an event.
const MAX_EVENT: usize = 100;

/// Start a run because of an event
///
/// For mail, chat and scheduling systems: the data from the event are the inputs of the run. The guardian
/// is asked first (`steps/agentTrigger`): it may refuse (A2S345), or change the inputs. The same event with
/// the same request gives the same run, however often it is delivered; with another request it is refused.
#[utoipa::path(
    post, path = "/v1/triggers", tag = "executor", security(("token" = [])),
    params(
        ("traceparent" = Option<String>, Header, description = "The trace that the run continues (W3C Trace Context)"),
        ("tracestate" = Option<String>, Header, description = "The data that tracing systems have added to the trace"),
    ),
    request_body = TriggerRequest,
    responses(
        (status = 200, description = "The run, finished or waiting for a person", body = Run),
        (status = 202, description = "The run, in progress or waiting for a free slot", body = Run),
        (status = 429, description = "Too many runs of this caller wait for a free slot; `Retry-After` states when to try again"),
        (status = 404),
        (status = 409),
        (status = 410),
        (status = 422),
        (status = 502),
    ),
)]
pub(super) async fn trigger_execution(
    State(app): State<App>,
    Extension(AuthenticatedCaller(caller)): Extension<AuthenticatedCaller>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<(StatusCode, Json<Run>), Error> {
    let TriggerRequest { event, execution } = read_json(body)?;
    for (member, text) in [("type", &event.kind), ("id", &event.id)] {
        if !(1..=MAX_EVENT).contains(&text.len())
            || !text.bytes().all(|byte| byte.is_ascii_graphic())
        {
            let message =
                format!("`event.{member}` must have 1 to {MAX_EVENT} visible ASCII characters");
            return Err(Error::new(ErrorKind::BadRequest, message));
        }
    }
    let Some(name) = &execution.name else {
        let message =
            "an event requires `execution.name`; a plan is valid for one run of a person only";
        return Err(Error::new(ErrorKind::BadRequest, message));
    };
    // No header can have such a key.
    let key = format!("trigger\n{}\n{}\n{name}", event.kind, event.id);
    start_run(app, caller, execution, Some(event), Some(key), &headers).await
}
