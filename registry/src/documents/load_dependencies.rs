//! Loads the dependencies of a document for the resolver.

use std::collections::BTreeMap;
use std::sync::Arc;

use a2s::{
    ClosureSummary, Dependency, DependencyIndex, DependencyInterface, MissingDependency,
    VersionInfo,
};

use super::DocumentReader;
use crate::Error;
use crate::store::VersionEntry;

/// The maximum number of documents that are read for one document. A larger tree of dependencies is
/// rejected.
const MAX_DOCUMENTS: usize = 512;

impl DocumentReader {
    /// All published versions of each direct and indirect dependency, with the interfaces of the selected
    /// ones from their verified documents.
    ///
    /// # Errors
    /// When the store does not answer, or the document of a dependency is damaged.
    pub(crate) async fn load_dependencies(
        &self,
        dependencies: &[Dependency],
    ) -> Result<DependencyIndex, Error> {
        let mut dependency_index = DependencyIndex::default();
        self.load_missing(&mut dependency_index, dependencies, MAX_DOCUMENTS).await?;
        Ok(dependency_index)
    }

    /// Loads the versions and documents that an index of dependencies lacks to resolve `dependencies`, at
    /// most `most` documents in total.
    ///
    /// # Errors
    /// Fails for the same reasons as [`Self::load_dependencies`].
    pub(crate) async fn load_missing(
        &self,
        index: &mut DependencyIndex,
        dependencies: &[Dependency],
        most: usize,
    ) -> Result<(), Error> {
        let mut entries = BTreeMap::new();
        loop {
            let needs = index.missing_dependencies(dependencies);
            if needs.is_empty() {
                return Ok(());
            }
            for need in needs {
                match need {
                    MissingDependency::Versions(name) => {
                        let found = self.store.list_versions(&name).await?;
                        let listings = found.iter().map(VersionEntry::to_version_info);
                        index.add_versions(&name, listings);
                        entries.extend(found.into_iter().map(|entry| (entry.digest, entry)));
                    }
                    MissingDependency::Document(name, VersionInfo { checksum, .. }) => {
                        if index.len() >= most {
                            return Err(Error::TooManyDependencies { most });
                        }
                        if !entries.contains_key(&checksum) {
                            // The versions were listed before.
                            let found = self.store.list_versions(&name).await?;
                            entries.extend(found.into_iter().map(|entry| (entry.digest, entry)));
                        }
                        let entry = entries
                            .get(&checksum)
                            .ok_or_else(|| Error::CapabilityMissing(name.to_string()))?;
                        let facts = self.open_one(entry).await?.facts;
                        index.add_interface(checksum, Arc::clone(&facts.dependency_interface));
                    }
                }
            }
        }
    }

    /// The summary of a document with all its current dependencies. If a dependency is damaged or there are
    /// too many, the document does not count as read-only.
    ///
    /// # Errors
    /// When the store does not answer.
    pub(crate) async fn summarize_closure(
        &self,
        unit: &DependencyInterface,
    ) -> Result<ClosureSummary, Error> {
        match self.load_dependencies(&unit.dependencies).await {
            Ok(index) => Ok(index.summarize_closure(unit)),
            Err(Error::DocumentDamaged { .. } | Error::TooManyDependencies { .. }) => {
                Ok(DependencyIndex::default().summarize_closure(unit))
            }
            Err(error) => Err(error),
        }
    }
}
