//! The documents that were verified last, so that a run need not fetch, hash and compile them again.

use std::sync::{Arc, Mutex};

use a2s::{Digest, Document};
use a2s_api::CapabilityRef;
use indexmap::IndexMap;

use crate::journal::lock;

/// The maximum number of documents in the cache.
const MAX_DOCUMENTS: usize = 256;
/// The maximum size of the documents in the cache, in bytes as they were sent.
const MAX_BYTES: usize = 32 << 20;

/// A document with the checksum under which it was announced.
#[derive(Debug, Clone)]
pub(crate) struct VerifiedDocument {
    pub(crate) document: Arc<Document>,
    /// The document as the registry sent it.
    pub(crate) source: Arc<[u8]>,
}

/// The verified documents by checksum. A checksum covers everything that a document says, so what is found
/// here needs no further check.
#[derive(Debug, Default)]
pub(super) struct VerifiedDocuments(Mutex<IndexMap<Digest, VerifiedDocument>>);

impl VerifiedDocuments {
    /// Returns the document of a pin.
    pub(super) fn get(&self, pin: &CapabilityRef) -> Option<VerifiedDocument> {
        let verified = lock(&self.0).get(&pin.checksum).cloned()?;
        let capability = verified.document.capability();
        (capability.name == pin.name && capability.version == pin.version).then_some(verified)
    }

    /// Adds a verified document, and removes the oldest ones while there are too many.
    pub(super) fn insert(&self, verified: VerifiedDocument) {
        let mut documents = lock(&self.0);
        documents.insert(verified.document.digest(), verified);
        let size = |all: &IndexMap<_, VerifiedDocument>| -> usize {
            all.values().map(|verified| verified.source.len()).sum()
        };
        while documents.len() > MAX_DOCUMENTS || size(&documents) > MAX_BYTES {
            documents.shift_remove_index(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tests::world::{document, sequence, task};

    fn verified(name: &str, padding: usize) -> (CapabilityRef, VerifiedDocument) {
        let step = task("a", "GET /echo/x", json!({}), json!({}));
        let execution = sequence(json!([step]));
        let mut source = document(name, "1.0.0", &json!({ "execution": execution }));
        source.resize(source.len() + padding, b'\n');
        let document = Document::open(&source).unwrap();
        let capability = document.capability();
        let (name, version) = (capability.name.clone(), capability.version.clone());
        let pin = CapabilityRef { name, version, checksum: document.digest() };
        (pin, VerifiedDocument { document: Arc::new(document), source: source.into() })
    }

    #[test]
    fn a_document_is_found_by_its_whole_pin() {
        let documents = VerifiedDocuments::default();
        let (pin, one) = verified("One", 0);
        assert!(documents.get(&pin).is_none());
        documents.insert(one);
        assert!(documents.get(&pin).is_some());
        let renamed = CapabilityRef { name: verified("Two", 0).0.name, ..pin.clone() };
        assert!(documents.get(&renamed).is_none());
        let later = CapabilityRef { version: "1.0.1".parse().unwrap(), ..pin };
        assert!(documents.get(&later).is_none());
    }

    #[test]
    fn the_oldest_documents_leave_when_there_are_too_many_bytes() {
        let documents = VerifiedDocuments::default();
        let length = (1 << 20) - 4096;
        let all: Vec<_> = (0..MAX_BYTES / length + 1)
            .map(|number| verified(&format!("Name{number}"), length))
            .collect();
        for (_, document) in &all {
            documents.insert(document.clone());
        }
        let known: Vec<_> = all.iter().map(|(pin, _)| documents.get(pin).is_some()).collect();
        let newer = known.iter().skip_while(|known| !**known);
        assert!(!known[0] && newer.clone().count() > all.len() / 2, "{known:?}");
        assert!(newer.clone().all(|known| *known), "{known:?}");
    }
}
