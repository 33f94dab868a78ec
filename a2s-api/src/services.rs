//! Services as the registry reports them: the hosts that capabilities talk to.

use a2s::{CapabilityName, Domain, Permission, TaskFormat};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{CapabilitySummary, SearchMetadata};

/// A host that capabilities talk to. Only the live version of each capability counts. A capability that
/// uses others also counts for their hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Service)]
pub struct ServiceSummary {
    /// The host name, with a port if documents state one.
    pub host: Domain,
    /// The titles of the service in its descriptions, the most frequent first; at most 5.
    pub titles: Vec<String>,
    /// The number of capabilities that talk to it.
    pub capabilities: u64,
    /// The formats of its tasks.
    pub formats: Vec<TaskFormat>,
    /// The permissions that callers of these capabilities need; each capability may need other ones. At
    /// most 50.
    pub permissions: Vec<Permission>,
}

/// A page of services, in order of host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServiceList {
    /// The services of this page.
    pub services: Vec<ServiceSummary>,
    /// Pass as `after` for the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A service, and a page of the capabilities that talk to it, in order of name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ServiceCapabilities {
    /// The service.
    pub service: ServiceSummary,
    /// The capabilities of this page.
    pub capabilities: Vec<CapabilitySummary>,
    /// Pass as `after` for the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// The response to a search for services.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ServiceSearchResponse {
    /// The services that fitting capabilities talk to, best first.
    pub services: Vec<ServiceHit>,
    /// Facts about the search itself; `total_matches` counts services.
    pub metadata: SearchMetadata,
}

/// A service that fits the intent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ServiceHit {
    /// The service.
    #[serde(flatten)]
    pub service: ServiceSummary,
    /// The score of its best match, 0 to 1.
    pub score: f64,
    /// The number of its capabilities among the 100 that fit best.
    pub matching_capabilities: usize,
    /// The best matches; at most 3.
    pub matches: Vec<ServiceMatch>,
}

/// A fitting capability of a service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ServiceMatch {
    /// Name of the capability.
    pub name: CapabilityName,
    /// The function that it performs.
    #[serde(deserialize_with = "super::single_line::deserialize")]
    pub description: String,
    /// The probability that the capability does what the intent asks for, 0 to 1.
    pub score: f64,
    /// The absolute similarity of meaning, 0 to 1.
    pub similarity: f64,
}
