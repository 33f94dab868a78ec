//! The findability of a document over HTTP.

use a2s_api::FindabilityReport;
use axum::Json;
use axum::extract::State;

use super::App;
use super::request::{AuthorizedCaller, DocumentBody, Publish};
use crate::Error;

/// Report the findability of a document
///
/// Searches for each example intent of a document, or for its description when it has none, as if the
/// document were the live version, and returns its rank, the capabilities that it is confused with, and
/// words that would tell them apart. The document need not be published or have a checksum; nothing is
/// published. The scope is that of publishing, because the registry compiles and embeds the document.
#[utoipa::path(
    post, path = "/v1/findability", tag = "search", security(("token" = [])),
    request_body(content(
        (String = "application/yaml"),
        (Object = "application/json"),
    )),
    responses(
        (status = 200, description = "The result for each text", body = FindabilityReport),
        (status = 403, description = "The token lacks the required scope"),
        (status = 413, description = "Larger than 1 MiB"),
        (status = 415, description = "Neither YAML nor JSON"),
        (status = 422, description = "The document has errors; the response lists all of them"),
        (status = 503, description = "The registry is building the index, or the embedder does not respond"),
    ),
)]
pub(super) async fn report_findability(
    State(app): App,
    _: AuthorizedCaller<Publish>,
    DocumentBody(source): DocumentBody,
) -> Result<Json<FindabilityReport>, Error> {
    Ok(Json(app.catalog.search.report_findability(source).await?))
}
