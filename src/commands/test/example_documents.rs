//! The documents of `a2s test`: those that were named, and those of the registry.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use a2s::{CapabilityName, Digest, Document, Shelf};
use executor::{ExampleRunner, Kind};

use super::super::dependency_loader;
use crate::cli_error::{Exit, Failure};
use crate::client::Client;

/// Documents that others may use.
#[derive(Debug, Default)]
pub(in super::super) struct Bench {
    shelf: Shelf,
    documents: BTreeMap<Digest, Arc<Document>>,
    /// The names that the registry was asked for.
    asked: BTreeSet<CapabilityName>,
}

impl Bench {
    /// Lets the others use a document.
    pub(in super::super) fn add(&mut self, document: &Arc<Document>) {
        self.shelf.add(document);
        self.documents.insert(document.digest(), Arc::clone(document));
    }

    /// Puts a document together with what it uses. The registry is asked for what is not at hand, and
    /// for nothing else.
    ///
    /// # Errors
    /// When something that it uses is nowhere, does not fit, or the registry does not answer.
    pub(in super::super) async fn trial(
        &mut self,
        document: &Arc<Document>,
        client: &Client,
    ) -> Result<ExampleRunner, Failure> {
        let refused = match self.put_together(document) {
            Err(error) if error.kind == Kind::DependencyRefused => error,
            made => return made.map_err(to_failure),
        };
        let mut fetched = Vec::new();
        let keep = |document: Document| fetched.push(Arc::new(document));
        let capability = document.capability();
        let filled =
            dependency_loader::fill(&mut self.shelf, &mut self.asked, capability, client, keep)
                .await;
        self.documents.extend(fetched.into_iter().map(|document| (document.digest(), document)));
        filled.map_err(|failure| Failure {
            message: format!("{refused} ({})", failure.message),
            ..failure
        })?;
        self.put_together(document).map_err(to_failure)
    }

    fn put_together(&self, document: &Arc<Document>) -> Result<ExampleRunner, executor::Error> {
        ExampleRunner::new(document, &self.documents, |dependency| {
            let versions = self.shelf.versions(&dependency.capability)?;
            dependency.choose(versions).map(|listing| listing.checksum)
        })
    }
}

fn to_failure(error: executor::Error) -> Failure {
    let executor::Error { kind, message, hint, .. } = error;
    Failure::new(Exit::Bad, *kind.code(), message).with_hint(hint)
}
