//! Import: documents out of other descriptions of services and workflows.
//!
//! Each document is complete: its checksum is filled in and the compiler accepted it. What cannot
//! be carried over is listed with its place and the reason.

mod arazzo;
mod draft;
mod duplicate_keys;
mod graphql;
mod jsonpath;
#[cfg(test)]
mod mutate;
mod openapi;
mod ref_resolver;
mod schema;
mod spec_reader;
mod variable;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use a2s::Digest;
use serde::Serialize;

use super::{naming, sanitize};

pub use arazzo::{ArazzoOptions, ArazzoSource, SourceDescription, arazzo_sources, import_arazzo};
pub use graphql::{GraphqlOptions, import_graphql};
pub use openapi::{OpenApiOptions, OperationSummary, import_openapi, list_openapi};
pub use spec_reader::{
    ApiDescription, DescriptionError, MAX_DESCRIPTION_BYTES, decode_text, read_description,
};

/// The longest text of a remark.
const MAX_REASON: usize = 400;
/// The most text of all documents of an import, in bytes.
const MAX_TEXT: usize = 256 << 20;

/// A flag that ends an import from another thread, before its next operation.
#[derive(Debug, Clone, Default)]
pub struct ImportStop(Arc<AtomicBool>);

impl ImportStop {
    /// Ends the import.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns true when the import must end.
    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The result of an import.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ImportResult {
    /// The documents, in the order of the description.
    pub documents: Vec<ImportedDocument>,
    /// The operations or workflows that could not become a document.
    pub refused: Vec<ImportRejection>,
    /// The remarks about the description as a whole.
    pub remarks: Vec<ImportWarning>,
    /// The total size of the documents' text, in bytes.
    #[serde(skip)]
    bytes: usize,
}

impl ImportResult {
    /// Adds what becomes of `source`, unless there are too many documents already.
    fn add(
        &mut self,
        source: &str,
        import: impl FnOnce() -> Result<ImportedDocument, ImportRejection>,
    ) {
        if self.bytes > MAX_TEXT {
            let reason =
                format!("the documents before this one have {} MiB in total", MAX_TEXT >> 20);
            let refusal = ImportRejection::new(source, "", reason);
            self.refused.push(refusal.with_hint("Import fewer operations at once."));
            return;
        }
        match import() {
            Ok(document) => {
                self.bytes += document.text.len();
                self.documents.push(document);
            }
            Err(refusal) => self.refused.push(refusal),
        }
    }
}

/// A document that was imported.
#[derive(Debug, Clone, Serialize)]
pub struct ImportedDocument {
    /// The capability's name.
    pub name: String,
    /// The source of the document: `GET /users/{id}`.
    pub source: String,
    /// The document as YAML.
    #[serde(skip)]
    pub text: String,
    /// Its digest, which stands in it as its checksum.
    pub checksum: Digest,
    /// True when its steps can find the values that they read; false when a step reads a location in a
    /// response that the description does not declare.
    pub can_work: bool,
    /// Parts of the description that the document omits or changes.
    pub remarks: Vec<ImportWarning>,
}

/// Something that was not carried over, or was carried over changed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ImportWarning {
    /// The place in the description.
    pub place: String,
    /// The change and its reason.
    pub reason: String,
}

/// Something that could not be made a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ImportRejection {
    /// The rejected source: `GET /users/{id}`.
    pub source: String,
    /// The place in the description.
    pub place: String,
    /// The reason.
    pub reason: String,
    /// The suggested fix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// The reason why nothing was imported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ImportError {
    /// The problem.
    pub message: String,
    /// The suggested fix.
    pub hint: String,
}

impl ImportError {
    fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { message: message.into(), hint: hint.into() }
    }
}

/// The prefix of every name.
///
/// # Errors
/// When the prefix or the author does not contain a valid name.
fn name_prefix(prefix: Option<&str>, author: Option<&str>) -> Result<String, ImportError> {
    if let Some(author) =
        author.filter(|author| sanitize::description(author, MAX_REASON).is_none())
    {
        let message = format!("the author `{}` has no name", sanitize::clean_line(author, 80));
        return Err(ImportError::new(message, "Give the name of the author of the documents."));
    }
    let Some(prefix) = prefix else { return Ok(String::new()) };
    naming::capability_name(prefix).ok_or_else(|| {
        let message = format!("the prefix `{}` has no letter", sanitize::clean_line(prefix, 80));
        ImportError::new(message, "Use a prefix of letters and digits, such as `Shop`.")
    })
}

impl ImportWarning {
    fn new(place: &str, reason: impl Into<String>) -> Self {
        let reason = sanitize::clean_line(&reason.into(), MAX_REASON);
        Self { place: sanitize::clean_line(place, MAX_REASON), reason }
    }

    /// The same warning about the description that an Arazzo document names `source`.
    #[must_use]
    pub fn in_source(self, source: &str) -> Self {
        Self::new(&format!("source {source}: {}", self.place), self.reason)
    }
}

impl ImportRejection {
    fn new(source: &str, place: &str, reason: impl Into<String>) -> Self {
        let ImportWarning { place, reason } = ImportWarning::new(place, reason);
        Self { source: sanitize::clean_line(source, MAX_REASON), place, reason, hint: None }
    }

    fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}
