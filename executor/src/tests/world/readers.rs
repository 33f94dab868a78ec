//! The readers of the registry double: what they show, and whether they have to.

use std::sync::atomic::Ordering;

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};

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

    /// Notes a reader; an answer when it is not let in.
    pub(super) fn note_reader(&self, headers: &HeaderMap) -> Option<Response> {
        let authorization = headers.get(header::AUTHORIZATION);
        let authorization = authorization.map(|value| value.to_str().unwrap().to_owned());
        let is_shut = self.asks_readers.load(Ordering::SeqCst) && authorization.is_none();
        self.readers.lock().unwrap().push(authorization);
        is_shut.then(|| StatusCode::UNAUTHORIZED.into_response())
    }
}
