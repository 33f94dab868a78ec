//! Documents made from the description of a service, over HTTP.

use std::sync::Arc;

use a2s_api::{Draft, DraftList, DraftRequest, SkippedOperation, StreamLimits};
use a2s_authoring::{
    ApiDescription, ImportError, ImportResult, ImportStop, ImportWarning, OpenApiOptions,
    import_openapi, list_openapi, read_description,
};
use axum::Json;
use axum::extract::State;
use url::Url;

use super::request::{AuthorizedCaller, JsonBody, Publish};
use super::{HttpState, MAX_DESCRIPTION_BODY};
use crate::Error;

/// The most operations that become documents at once.
const MAX_OPERATIONS: usize = 200;
/// The maximum length of a description, in bytes.
const MAX_BYTES: usize = 4 << 20;
/// The maximum numbers of imports at the same time. Each takes a processor.
pub(crate) const IMPORT_LIMITS: StreamLimits =
    StreamLimits { total: 4, principal: 1, anonymous: 0 };

/// Ends an import when the request is dropped: at its deadline, or because the client is gone.
struct StopOnDrop(ImportStop);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Create drafts from an OpenAPI description
///
/// Returns a complete document for each operation, with its checksum, and the operations that cannot become
/// one. Nothing is published, and nothing is fetched: references to other files are not followed.
#[utoipa::path(
    post, path = "/v1/drafts", tag = "capabilities", security(("token" = [])),
    request_body = DraftRequest,
    responses(
        (status = 200, description = "The drafts", body = DraftList),
        (status = 403, description = "The token lacks the required scope"),
        (status = 413, description = "Larger than 4 MiB"),
        (status = 429, description = "Another import of the caller is in progress"),
        (status = 422, description = "The text is not an OpenAPI description, or it does not have a requested operation"),
    ),
)]
pub(super) async fn create_drafts(
    State(app): State<Arc<HttpState>>,
    AuthorizedCaller(caller, _): AuthorizedCaller<Publish>,
    JsonBody(request): JsonBody<DraftRequest, MAX_DESCRIPTION_BODY>,
) -> Result<Json<DraftList>, Error> {
    if MAX_BYTES < request.description.len() {
        return Err(Error::BodyTooLarge { limit: MAX_BYTES });
    }
    let permit = app.imports.reserve(Some(caller.principal())).map_err(Error::TooManyImports)?;
    let stop = StopOnDrop(ImportStop::default());
    let stopped = stop.0.clone();
    let drafts = tokio::task::spawn_blocking(move || {
        // The permit is for the work, which may go on for a moment after its request.
        let _permit = permit;
        create(request, stopped)
    });
    let drafts = drafts.await;
    drafts.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic())).map(Json)
}

fn create(request: DraftRequest, stop: ImportStop) -> Result<DraftList, Error> {
    let ApiDescription { value: description, remarks } =
        read_description(request.description.as_bytes())
            .map_err(|error| Error::DescriptionRefused(format!("`description`: {error}")))?;
    let server = request.server.as_deref().map(Url::parse).transpose();
    let server = server
        .map_err(|error| Error::DescriptionRefused(format!("`server` is no address: {error}")))?;
    let mut options = OpenApiOptions {
        operations: request.operations,
        prefix: request.prefix,
        server,
        stop,
        ..OpenApiOptions::default()
    };
    let mut left_out = Vec::new();
    if options.operations.is_empty() {
        let mut all = list_openapi(&description, &options).map_err(|error| refuse(&error))?;
        if MAX_OPERATIONS < all.len() {
            left_out = all.split_off(MAX_OPERATIONS);
            options.operations = all.into_iter().map(|operation| operation.name).collect();
        }
    }
    let mut imported = import_openapi(&description, &options).map_err(|error| refuse(&error))?;
    imported.remarks.splice(0..0, remarks);
    let mut list = to_list(imported);
    list.skipped.extend(left_out.into_iter().map(|operation| SkippedOperation {
        operation: format!("{} {}", operation.method, operation.path),
        reason: format!("only {MAX_OPERATIONS} operations become drafts at once"),
    }));
    Ok(list)
}

fn refuse(error: &ImportError) -> Error {
    Error::DescriptionRefused(format!("`description`: {}", error.message))
}

fn to_line(remark: &ImportWarning) -> String {
    format!("{}: {}", remark.place, remark.reason)
}

fn to_list(imported: ImportResult) -> DraftList {
    let drafts = imported.documents.into_iter().map(|document| Draft {
        name: document.name,
        operation: document.source,
        document: document.text,
        checksum: document.checksum,
        // The list has no remarks of its own: those about the whole description are about each draft.
        remarks: imported.remarks.iter().chain(&document.remarks).map(to_line).collect(),
    });
    let skipped = imported
        .refused
        .into_iter()
        .map(|refusal| SkippedOperation { operation: refusal.source, reason: refusal.reason });
    DraftList { drafts: drafts.collect(), skipped: skipped.collect() }
}
