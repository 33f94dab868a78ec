//! Reads versions and their documents: lists, one version, the services that they use.

use std::sync::Arc;

use a2s::{CapabilityName, Domain};
use a2s_api::{
    CapabilityList, CapabilitySummary, CapabilityVersions, ServiceCapabilities, ServiceList,
    VerifyRequest, VerifyResponse,
};

use super::VersionSelection;
use crate::Error;
use crate::documents::{CapabilityFacts, DocumentReader, VerifiedDocument};
use crate::store::dependency_rows::ServiceQuery;
use crate::store::{LiveVersionQuery, RegistryStore, VersionEntry};

/// The maximum number of documents of one capability that are in memory at the same time.
const VERSION_BATCH: usize = 64;

/// A reader of published versions.
#[derive(Debug, Clone)]
pub(crate) struct VersionReader {
    pub(crate) store: Arc<dyn RegistryStore>,
    pub(crate) documents: Arc<DocumentReader>,
}

/// A requested version with its document.
#[derive(Debug)]
pub(crate) struct FetchedVersion {
    pub(crate) entry: VersionEntry,
    pub(crate) document: VerifiedDocument,
}

impl VersionReader {
    /// Returns a page of live versions, in order of name. Leaves out damaged ones.
    pub(crate) async fn list(
        &self,
        after: Option<&CapabilityName>,
        limit: u32,
    ) -> Result<CapabilityList, Error> {
        let heads = LiveVersionQuery::AfterName(after.map(CapabilityName::as_str), limit + 1);
        let mut entries = self.store.live_versions(heads).await?;
        let has_more = entries.len() > limit as usize;
        entries.truncate(limit as usize);
        let next = entries.last().filter(|_| has_more).map(|entry| entry.name.to_string());
        Ok(CapabilityList { capabilities: self.summarize(&entries).await?, next })
    }

    /// Returns all versions of a capability, the newest first. Leaves out damaged ones.
    ///
    /// # Errors
    /// Fails when the capability is unknown.
    pub(crate) async fn list_versions(
        &self,
        name: &CapabilityName,
    ) -> Result<CapabilityVersions, Error> {
        let entries = self.known_versions(name).await?;
        let latest = VersionSelection::Latest.select(&entries).map(|entry| entry.version.clone());
        let mut versions = Vec::with_capacity(entries.len());
        for batch in entries.chunks(VERSION_BATCH) {
            versions.extend(self.summarize(batch).await?);
        }
        Ok(CapabilityVersions { name: name.clone(), latest, versions })
    }

    /// Returns one version with its document.
    ///
    /// # Errors
    /// Fails when the version does not exist, or its document is damaged.
    pub(crate) async fn fetch(
        &self,
        name: &CapabilityName,
        selector: &VersionSelection,
    ) -> Result<FetchedVersion, Error> {
        let entry = self.select_version(name, selector).await?;
        let opened = self.documents.open_one(&entry).await?;
        Ok(FetchedVersion { entry, document: opened })
    }

    /// Checks that a stored document still is the published one.
    ///
    /// # Errors
    /// When there is no such version.
    pub(crate) async fn verify(&self, request: &VerifyRequest) -> Result<VerifyResponse, Error> {
        let selector =
            request.version.clone().map_or(VersionSelection::Latest, VersionSelection::Exact);
        let entry = self.select_version(&request.name, &selector).await?;
        let opened = self.documents.open([&entry]).await?;
        let damage = opened.into_iter().find_map(|(_, result)| result.err());
        Ok(VerifyResponse {
            valid: damage.is_none(),
            computed: match &damage {
                None => Some(entry.digest),
                Some(damage) => damage.computed,
            },
            message: damage.map(|damage| format!("the stored document {}", damage.reason)),
            name: entry.name,
            version: entry.version,
            checksum: entry.digest,
        })
    }

    /// Returns a page of services, in order of host.
    pub(crate) async fn list_services(
        &self,
        after: Option<&Domain>,
        limit: u32,
    ) -> Result<ServiceList, Error> {
        let hosts = ServiceQuery::AfterHost(after.map(Domain::as_str), limit + 1);
        let mut services = self.store.list_services(hosts).await?;
        let has_more = services.len() > limit as usize;
        services.truncate(limit as usize);
        let next = services.last().filter(|_| has_more).map(|service| service.host.to_string());
        Ok(ServiceList { services, next })
    }

    /// Returns a service and a page of the capabilities that use it, in order of name. Leaves out damaged
    /// ones.
    ///
    /// # Errors
    /// Fails when no live capability uses the service.
    pub(crate) async fn list_capabilities_at(
        &self,
        host: &Domain,
        after: Option<&CapabilityName>,
        limit: u32,
    ) -> Result<ServiceCapabilities, Error> {
        let services =
            self.store.list_services(ServiceQuery::ByHosts(std::slice::from_ref(host))).await?;
        let Some(service) = services.into_iter().next() else {
            return Err(Error::ServiceMissing(host.to_string()));
        };
        let after = after.map(CapabilityName::as_str);
        let mut entries = self.store.live_versions_of_service(host, after, limit + 1).await?;
        let has_more = entries.len() > limit as usize;
        entries.truncate(limit as usize);
        let next = entries.last().filter(|_| has_more).map(|entry| entry.name.to_string());
        Ok(ServiceCapabilities { service, capabilities: self.summarize(&entries).await?, next })
    }

    pub(super) async fn known_versions(
        &self,
        name: &CapabilityName,
    ) -> Result<Vec<VersionEntry>, Error> {
        let entries = self.store.list_versions(name).await?;
        if entries.is_empty() {
            return Err(Error::CapabilityMissing(name.to_string()));
        }
        Ok(entries)
    }

    pub(super) async fn select_version(
        &self,
        name: &CapabilityName,
        selector: &VersionSelection,
    ) -> Result<VersionEntry, Error> {
        let entries = self.known_versions(name).await?;
        selector.select(&entries).cloned().ok_or_else(|| selector.missing_error(name, &entries))
    }

    pub(super) async fn version_missing_error(
        &self,
        name: &CapabilityName,
        selector: &VersionSelection,
    ) -> Error {
        match self.known_versions(name).await {
            Ok(entries) => selector.missing_error(name, &entries),
            Err(error) => error,
        }
    }

    async fn summarize(&self, entries: &[VersionEntry]) -> Result<Vec<CapabilitySummary>, Error> {
        let opened = self.documents.open(entries).await?;
        Ok(opened
            .into_iter()
            .filter_map(|(entry, opened)| Some(to_summary(entry, &opened.ok()?.facts)))
            .collect())
    }
}

fn to_summary(entry: &VersionEntry, facts: &CapabilityFacts) -> CapabilitySummary {
    CapabilitySummary {
        name: entry.name.clone(),
        version: entry.version.clone(),
        checksum: entry.digest,
        description: facts.description.clone(),
        domains: facts.domains.clone(),
        published_at: entry.published_at,
        yanked: entry.yanked,
        deprecated: entry.deprecated.clone(),
    }
}
