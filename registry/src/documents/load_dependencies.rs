//! Loads the dependencies of a document for the resolver.

use std::collections::BTreeMap;
use std::sync::Arc;

use a2s::{Dependency, Listing, Need, Shelf, Unit, Whole};

use super::Documents;
use crate::Error;
use crate::store::Entry;

/// Documents that are looked at for one document; a tree that is larger is refused.
const MOST_DOCUMENTS: usize = 512;

impl Documents {
    /// All published versions of each dependency, and of everything below, with what the chosen
    /// ones take and need by their own, checked documents.
    ///
    /// # Errors
    /// When the store does not answer, or a document below is damaged.
    pub(crate) async fn shelve(&self, dependencies: &[Dependency]) -> Result<Shelf, Error> {
        let mut shelf = Shelf::default();
        self.fill(&mut shelf, dependencies, MOST_DOCUMENTS).await?;
        Ok(shelf)
    }

    /// Brings what is missing on a shelf to say everything about these dependencies, at most so
    /// many documents in all.
    ///
    /// # Errors
    /// As [`Self::shelve`] does.
    pub(crate) async fn fill(
        &self,
        shelf: &mut Shelf,
        dependencies: &[Dependency],
        most: usize,
    ) -> Result<(), Error> {
        let mut entries = BTreeMap::new();
        loop {
            let needs = shelf.needs(dependencies);
            if needs.is_empty() {
                return Ok(());
            }
            for need in needs {
                match need {
                    Need::Versions(name) => {
                        let found = self.store.versions(&name).await?;
                        let listings = found.iter().map(Entry::to_listing);
                        shelf.list(&name, listings);
                        entries.extend(found.into_iter().map(|entry| (entry.digest, entry)));
                    }
                    Need::Document(name, Listing { checksum, .. }) => {
                        if shelf.len() >= most {
                            return Err(Error::TooManyBelow { most });
                        }
                        if !entries.contains_key(&checksum) {
                            // The versions were listed before.
                            let found = self.store.versions(&name).await?;
                            entries.extend(found.into_iter().map(|entry| (entry.digest, entry)));
                        }
                        let entry = entries
                            .get(&checksum)
                            .ok_or_else(|| Error::CapabilityMissing(name.to_string()))?;
                        let facts = self.open_one(entry).await?.facts;
                        shelf.open(checksum, Arc::clone(&facts.unit));
                    }
                }
            }
        }
    }

    /// What a document amounts to together with everything that it leads to today. Where that
    /// cannot be followed, as something below is damaged, it is not known to only read.
    ///
    /// # Errors
    /// When the store does not answer.
    pub(crate) async fn whole(&self, unit: &Unit) -> Result<Whole, Error> {
        match self.shelve(&unit.dependencies).await {
            Ok(shelf) => Ok(shelf.whole(unit)),
            Err(Error::Damaged { .. } | Error::TooManyBelow { .. }) => {
                Ok(Shelf::default().whole(unit))
            }
            Err(error) => Err(error),
        }
    }
}
