//! Relations between documents, in rows: who uses whom, who talks to which host, who
//! takes and gives values of which name.
//!
//! Rows find, documents decide: they lead to versions quickly, and what is told of a version is
//! then read in its checked document. Counts and titles of services are told as the rows have them.

use std::collections::BTreeSet;

use a2s::{CapabilityName, Domain, Permission, TaskFormat};
use async_trait::async_trait;

use super::{Error, VersionEntry, VersionId};

/// The rules by which [`Relations`] are made of a document. A change raises it, and rows that were
/// made by others are made anew at the start.
pub(crate) const RULES: i64 = 1;

/// The rows of one version.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct RelationRows {
    /// The capabilities that it uses.
    pub(crate) uses: BTreeSet<CapabilityName>,
    /// The hosts that it talks to.
    pub(crate) services: BTreeSet<ServiceUse>,
    /// What its callers must hold.
    pub(crate) permissions: BTreeSet<Permission>,
    /// The names of what it takes and gives, as [`port_name`] writes them.
    pub(crate) ports: BTreeSet<(PortDirection, String)>,
}

/// A host that a version talks to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ServiceUse {
    pub(crate) host: Domain,
    /// What the description of a task calls it.
    pub(crate) title: Option<String>,
    /// The format of its own tasks there; none when only others that it uses go there.
    pub(crate) format: Option<TaskFormat>,
}

/// Where a value passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PortDirection {
    /// Into a capability.
    Input = 0,
    /// Out of it.
    Output = 1,
}

/// The name of an input or output without case and separators: `city_name` and `cityName` are one.
pub(crate) fn normalize_port_name(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Questions across documents.
#[async_trait]
pub(crate) trait RelationStore: Send + Sync {
    /// Puts rows in the place of those that these versions have.
    async fn replace_relations(&self, rows: &[(VersionId, RelationRows)]) -> Result<(), Error>;

    /// Versions behind one, in order of id: all, or those without rows of the current rules.
    async fn list_versions_after(
        &self,
        after: VersionId,
        which: VersionScope,
        limit: u32,
    ) -> Result<Vec<VersionEntry>, Error>;

    /// At most `limit` versions that use one of these capabilities; those that are not yanked first,
    /// and newer ones before older.
    async fn list_dependents(
        &self,
        names: &[CapabilityName],
        limit: u32,
    ) -> Result<Vec<VersionEntry>, Error>;

    /// Services of live versions in order of host, behind a host; or one host alone.
    async fn list_services(
        &self,
        hosts: ServiceQuery<'_>,
    ) -> Result<Vec<a2s::api::ServiceSummary>, Error>;

    /// Live versions that talk to a host, in order of name, behind a name.
    async fn live_versions_of_service(
        &self,
        host: &Domain,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<VersionEntry>, Error>;

    /// At most `limit` live versions that take or give something of one of these names, in order
    /// of name.
    async fn live_versions_with_port(
        &self,
        side: PortDirection,
        names: &[String],
        limit: u32,
    ) -> Result<Vec<VersionEntry>, Error>;
}

/// Which versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VersionScope {
    All,
    /// Those without rows of the current rules.
    WithoutCurrentRows,
}

/// Which services.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ServiceQuery<'a> {
    /// So many behind a host.
    AfterHost(Option<&'a str>, u32),
    /// These.
    ByHosts(&'a [Domain]),
}
