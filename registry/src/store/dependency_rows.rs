//! Relations between documents, in rows: who uses whom, who talks to which host, who
//! takes and gives values of which name.
//!
//! Rows find, documents decide: they lead to versions quickly, and what is told of a version is
//! then read in its checked document. Counts and titles of services are told as the rows have them.

use std::collections::BTreeSet;

use a2s::{CapabilityName, Domain, Format, Permission};
use async_trait::async_trait;

use super::{Entry, Error, VersionId};

/// The rules by which [`Relations`] are made of a document. A change raises it, and rows that were
/// made by others are made anew at the start.
pub(crate) const RULES: i64 = 1;

/// The rows of one version.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Relations {
    /// The capabilities that it uses.
    pub(crate) uses: BTreeSet<CapabilityName>,
    /// The hosts that it talks to.
    pub(crate) services: BTreeSet<ServiceUse>,
    /// What its callers must hold.
    pub(crate) permissions: BTreeSet<Permission>,
    /// The names of what it takes and gives, as [`port_name`] writes them.
    pub(crate) ports: BTreeSet<(Side, String)>,
}

/// A host that a version talks to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ServiceUse {
    pub(crate) host: Domain,
    /// What the description of a task calls it.
    pub(crate) title: Option<String>,
    /// The format of its own tasks there; none when only others that it uses go there.
    pub(crate) format: Option<Format>,
}

/// Where a value passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    /// Into a capability.
    Taken = 0,
    /// Out of it.
    Given = 1,
}

/// The name of an input or output without case and separators: `city_name` and `cityName` are one.
pub(crate) fn port_name(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Questions across documents.
#[async_trait]
pub(crate) trait RelationStore: Send + Sync {
    /// Puts rows in the place of those that these versions have.
    async fn relate(&self, rows: &[(VersionId, Relations)]) -> Result<(), Error>;

    /// Versions behind one, in order of id: all, or those without rows of the current rules.
    async fn versions_behind(
        &self,
        after: VersionId,
        which: Which,
        limit: u32,
    ) -> Result<Vec<Entry>, Error>;

    /// At most `limit` versions that use one of these capabilities; those that are not yanked first,
    /// and newer ones before older.
    async fn users(&self, names: &[CapabilityName], limit: u32) -> Result<Vec<Entry>, Error>;

    /// Services of live versions in order of host, behind a host; or one host alone.
    async fn services(&self, hosts: Hosts<'_>) -> Result<Vec<a2s::api::Service>, Error>;

    /// Live versions that talk to a host, in order of name, behind a name.
    async fn heads_at(
        &self,
        host: &Domain,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<Entry>, Error>;

    /// At most `limit` live versions that take or give something of one of these names, in order
    /// of name.
    async fn heads_with(
        &self,
        side: Side,
        names: &[String],
        limit: u32,
    ) -> Result<Vec<Entry>, Error>;
}

/// Which versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    All,
    /// Those without rows of the current rules.
    Unrelated,
}

/// Which services.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Hosts<'a> {
    /// So many behind a host.
    After(Option<&'a str>, u32),
    /// These.
    Of(&'a [Domain]),
}
