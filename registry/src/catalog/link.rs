//! What a document's dependencies stand for, as the linker wants to know it.

use std::collections::BTreeMap;
use std::sync::Arc;

use a2s::{Capability, Listing, Need, Shelf};

use super::Catalog;
use crate::Error;

/// Documents that are looked at for one document; a tree that is larger is refused.
const MOST_DOCUMENTS: usize = 512;

impl Catalog {
    /// All published versions of each dependency, and of everything below, with what the chosen
    /// ones take and need by their own, checked documents.
    ///
    /// # Errors
    /// When the store does not answer, or a document below is damaged.
    pub(super) async fn shelve(&self, capability: &Capability) -> Result<Shelf, Error> {
        let mut shelf = Shelf::default();
        let mut entries = BTreeMap::new();
        loop {
            let needs = shelf.needs(capability);
            if needs.is_empty() {
                return Ok(shelf);
            }
            for need in needs {
                match need {
                    Need::Versions(name) => {
                        let found = self.store.versions(&name).await?;
                        let listings = found.iter().map(|entry| Listing {
                            version: entry.version.clone(),
                            checksum: entry.digest,
                            yanked: entry.yanked,
                        });
                        shelf.list(&name, listings);
                        entries.extend(found.into_iter().map(|entry| (entry.digest, entry)));
                    }
                    Need::Document(name, Listing { checksum, .. }) => {
                        if shelf.len() >= MOST_DOCUMENTS {
                            return Err(Error::TooManyBelow { most: MOST_DOCUMENTS });
                        }
                        let entry = entries
                            .get(&checksum)
                            .ok_or_else(|| Error::CapabilityMissing(name.to_string()))?;
                        let facts = self.documents.open_one(entry).await?.facts;
                        shelf.open(checksum, Arc::clone(&facts.unit));
                    }
                }
            }
        }
    }
}
