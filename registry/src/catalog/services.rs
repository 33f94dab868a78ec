//! The hosts that capabilities talk to.

use a2s::{CapabilityName, Domain};
use a2s_api::{ServiceCapabilities, ServiceList};

use super::Catalog;
use crate::Error;
use crate::store::dependency_rows::ServiceQuery;

impl Catalog {
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
}
