//! Relations between documents, in rows: dependencies, hosts, and the names of inputs and outputs.
//!
//! Rows find, documents decide: rows lead to versions quickly, and responses about a version are then read
//! from its verified document. Only counts and titles of services come from the rows.

use std::collections::BTreeSet;

use a2s::{CapabilityName, Domain, Permission, TaskFormat};
use async_trait::async_trait;

use super::{Error, VersionEntry, VersionId};

/// The version of the rules that derive [`RelationRows`] from a document. Raise it when the rules change;
/// the start then rewrites rows of other versions.
pub(crate) const RULES: i64 = 1;

/// The relation rows of one version.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct RelationRows {
    /// The capabilities that it uses.
    pub(crate) uses: BTreeSet<CapabilityName>,
    /// The hosts that it talks to.
    pub(crate) services: BTreeSet<ServiceUse>,
    /// The permissions that its callers must hold.
    pub(crate) permissions: BTreeSet<Permission>,
    /// The names of its inputs and outputs, normalised by [`normalize_port_name`].
    pub(crate) ports: BTreeSet<(PortDirection, String)>,
}

/// A host that a version talks to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ServiceUse {
    pub(crate) host: Domain,
    /// The title in the description of a task.
    pub(crate) title: Option<String>,
    /// The format of its own tasks there; `None` when only its dependencies use the host.
    pub(crate) format: Option<TaskFormat>,
}

/// The direction of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PortDirection {
    /// An input of a capability.
    Input = 0,
    /// An output of a capability.
    Output = 1,
}

/// Normalises the name of an input or output: without case and separators, so that `city_name` and
/// `cityName` are equal.
pub(crate) fn normalize_port_name(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// The store of the relations between documents.
#[async_trait]
pub(crate) trait RelationStore: Send + Sync {
    /// Replaces the rows of these versions.
    async fn replace_relations(&self, rows: &[(VersionId, RelationRows)]) -> Result<(), Error>;

    /// Versions after an id, in order of id: all, or those without rows of the current rules.
    async fn list_versions_after(
        &self,
        after: VersionId,
        which: VersionScope,
        limit: u32,
    ) -> Result<Vec<VersionEntry>, Error>;

    /// Returns at most `limit` versions that use one of these capabilities. Versions that are not yanked
    /// come first, and newer ones before older ones.
    async fn list_dependents(
        &self,
        names: &[CapabilityName],
        limit: u32,
    ) -> Result<Vec<VersionEntry>, Error>;

    /// Services of live versions in order of host, after a host; or those of the given hosts.
    async fn list_services(
        &self,
        hosts: ServiceQuery<'_>,
    ) -> Result<Vec<a2s_api::ServiceSummary>, Error>;

    /// Live versions that talk to a host, in order of name, after a name.
    async fn live_versions_of_service(
        &self,
        host: &Domain,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<VersionEntry>, Error>;

    /// Returns at most `limit` live versions that talk to one of these hosts and have one of these words in
    /// their name, in order of name. A word begins with a capital letter, as in names.
    async fn live_versions_with_word(
        &self,
        hosts: &[Domain],
        words: &[&str],
        limit: u32,
    ) -> Result<Vec<VersionEntry>, Error>;

    /// Returns at most `limit` live versions with an input or output of one of these names, in order of
    /// name.
    async fn live_versions_with_port(
        &self,
        side: PortDirection,
        names: &[String],
        limit: u32,
    ) -> Result<Vec<VersionEntry>, Error>;
}

/// A selection of versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VersionScope {
    All,
    /// Versions without rows of the current rules.
    WithoutCurrentRows,
}

/// A selection of services.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ServiceQuery<'a> {
    /// At most a number of services after a host.
    AfterHost(Option<&'a str>, u32),
    /// The services of these hosts.
    ByHosts(&'a [Domain]),
}
