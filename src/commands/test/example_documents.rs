//! The documents of `a2s test`: those that were named, and those of the registry.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use a2s::{CapabilityName, DependencyIndex, Digest, Document};
use executor::{ErrorKind, ExampleRunner};

use super::super::dependency_loader;
use crate::cli_error::{CliError, CliExitCode};
use crate::client::ServiceClient;

/// Documents that are available as dependencies of others.
#[derive(Debug, Default)]
pub(in super::super) struct DocumentSet {
    index: DependencyIndex,
    documents: BTreeMap<Digest, Arc<Document>>,
    /// The names that were requested from the registry.
    asked: BTreeSet<CapabilityName>,
}

impl DocumentSet {
    /// Makes a document available to the others.
    pub(in super::super) fn add(&mut self, document: &Arc<Document>) {
        self.index.add_document(document);
        self.documents.insert(document.digest(), Arc::clone(document));
    }

    /// Combines a document with its dependencies. It requests only missing ones from the registry.
    ///
    /// # Errors
    /// A dependency is missing or does not fit, or the registry does not answer.
    pub(in super::super) async fn load_runner(
        &mut self,
        document: &Arc<Document>,
        client: &ServiceClient,
    ) -> Result<ExampleRunner, CliError> {
        let refused = match self.build_runner(document) {
            Err(error) if error.kind == ErrorKind::DependencyRefused => error,
            made => return made.map_err(to_failure),
        };
        let mut fetched = Vec::new();
        let keep = |document: Document| fetched.push(Arc::new(document));
        let capability = document.capability();
        let filled = dependency_loader::load_dependencies(
            &mut self.index,
            &mut self.asked,
            capability,
            client,
            keep,
        )
        .await;
        self.documents.extend(fetched.into_iter().map(|document| (document.digest(), document)));
        filled.map_err(|failure| CliError {
            message: format!("{refused} ({})", failure.message),
            ..failure
        })?;
        self.build_runner(document).map_err(to_failure)
    }

    fn build_runner(&self, document: &Arc<Document>) -> Result<ExampleRunner, executor::Error> {
        ExampleRunner::new(document, &self.documents, |dependency| {
            let versions = self.index.versions(&dependency.capability)?;
            dependency.select_version(versions).map(|listing| listing.checksum)
        })
    }
}

fn to_failure(error: executor::Error) -> CliError {
    let executor::Error { kind, message, hint, .. } = error;
    CliError::new(CliExitCode::Bad, *kind.code(), message).with_hint(hint)
}
