//! The readers of the registry double: what they show, and whether they have to; and the owners of
//! names that they read.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};

use serde_json::json;

use super::RegistryDouble;

impl RegistryDouble {
    /// Asks for a token where documents are read, as a registry beyond loopback does.
    pub(crate) fn ask_readers(&self) {
        self.asks_readers.store(true, Ordering::SeqCst);
    }

    /// The `Authorization` of each request that has read since this was asked last.
    pub(crate) fn readers(&self) -> Vec<Option<String>> {
        std::mem::take(&mut *self.readers.lock().unwrap())
    }

    /// Sets the owners of a name.
    pub(crate) fn set_owners(&self, name: &str, owners: &[&str]) {
        let owners = owners.iter().map(|&owner| owner.to_owned()).collect();
        self.owners.lock().unwrap().insert(name.to_owned(), owners);
    }

    /// Notes a reader; an answer when it is not let in.
    pub(super) fn note_reader(&self, headers: &HeaderMap) -> Option<Response> {
        let authorization = headers.get(header::AUTHORIZATION);
        let authorization = authorization.map(|value| value.to_str().unwrap().to_owned());
        let is_shut = self.asks_readers.load(Ordering::SeqCst) && authorization.is_none();
        self.readers.lock().unwrap().push(authorization);
        is_shut.then(|| StatusCode::UNAUTHORIZED.into_response())
    }
}

/// Answers who owns a name.
pub(super) async fn list_owners(
    State(registry): State<Arc<RegistryDouble>>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Response {
    if let Some(shut) = registry.note_reader(&headers) {
        return shut;
    }
    match registry.owners.lock().unwrap().get(&name) {
        Some(owners) => axum::Json(json!({"name": name, "owners": owners})).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}
