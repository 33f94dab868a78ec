//! Documents made from the description of a service, over HTTP.

use a2s_api::{Draft, DraftList, DraftRequest, SkippedOperation};
use a2s_authoring::{
    ImportError, ImportResult, OpenApiOptions, import_openapi, list_openapi, read_description,
};
use axum::Json;
use url::Url;

use super::MAX_DESCRIPTION_BODY;
use super::request::{AuthorizedCaller, JsonBody, Publish};
use crate::Error;

/// The most operations that become documents at once.
const MAX_OPERATIONS: usize = 200;
/// The maximum length of a description, in bytes.
const MAX_BYTES: usize = 4 << 20;

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
        (status = 422, description = "The text is not an OpenAPI description, or it does not have a requested operation"),
    ),
)]
pub(super) async fn create_drafts(
    _: AuthorizedCaller<Publish>,
    JsonBody(request): JsonBody<DraftRequest, MAX_DESCRIPTION_BODY>,
) -> Result<Json<DraftList>, Error> {
    if MAX_BYTES < request.description.len() {
        return Err(Error::BodyTooLarge { limit: MAX_BYTES });
    }
    let drafts = tokio::task::spawn_blocking(move || create(request)).await;
    drafts.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic())).map(Json)
}

fn create(request: DraftRequest) -> Result<DraftList, Error> {
    let description = read_description(request.description.as_bytes())
        .map_err(|error| Error::DescriptionRefused(format!("`description`: {error}")))?;
    let server = request.server.as_deref().map(Url::parse).transpose();
    let server = server
        .map_err(|error| Error::DescriptionRefused(format!("`server` is no address: {error}")))?;
    let mut options = OpenApiOptions {
        operations: request.operations,
        prefix: request.prefix,
        server,
        base: None,
        author: None,
    };
    let mut left_out = Vec::new();
    if options.operations.is_empty() {
        let mut all = list_openapi(&description, &options).map_err(|error| refuse(&error))?;
        if MAX_OPERATIONS < all.len() {
            left_out = all.split_off(MAX_OPERATIONS);
            options.operations = all.into_iter().map(|operation| operation.name).collect();
        }
    }
    let imported = import_openapi(&description, &options).map_err(|error| refuse(&error))?;
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

fn to_list(imported: ImportResult) -> DraftList {
    let drafts = imported.documents.into_iter().map(|document| Draft {
        name: document.name,
        operation: document.source,
        document: document.text,
        checksum: document.checksum,
        remarks: document
            .remarks
            .into_iter()
            .map(|remark| format!("{}: {}", remark.place, remark.reason))
            .collect(),
    });
    let skipped = imported
        .refused
        .into_iter()
        .map(|refusal| SkippedOperation { operation: refusal.source, reason: refusal.reason });
    DraftList { drafts: drafts.collect(), skipped: skipped.collect() }
}
