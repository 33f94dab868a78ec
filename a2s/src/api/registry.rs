//! Requests to a registry and its responses.

use super::schema;
use jiff::Timestamp;
use semver::{Version, VersionReq};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::checksum::Digest;
use crate::diagnostic::Diagnostic;
use crate::interface::{Complexity, InputField};
use crate::name::{CapabilityName, Domain, Permission};
use crate::task::Format;

use super::lifecycle::Deprecation;
use super::strategy::Strategy;

/// The answer to a publish.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PublishResponse {
    /// Name of the capability.
    pub name: CapabilityName,
    /// Version that was published.
    #[schema(value_type = schema::Version)]
    pub version: Version,
    /// Digest of the document.
    pub checksum: Digest,
    /// False when this very content was there before.
    pub created: bool,
    /// Remarks that did not stand in the way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Diagnostic>,
}

/// One version of a capability, without its document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CapabilitySummary {
    /// Name of the capability.
    pub name: CapabilityName,
    /// This version.
    #[schema(value_type = schema::Version)]
    pub version: Version,
    /// Digest of the document.
    pub checksum: Digest,
    /// What the capability does, in a sentence.
    pub description: String,
    /// The services it talks to.
    pub domains: Vec<Domain>,
    /// When it was published.
    #[schema(value_type = String, format = DateTime)]
    pub published_at: Timestamp,
    /// Withdrawn: kept for those who pin it, never offered.
    #[serde(default)]
    pub yanked: bool,
    /// What its publisher says to whoever would begin to use it, when it is deprecated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<Deprecation>,
}

impl CapabilitySummary {
    /// What the capability does, for whoever chooses among several: a deprecated one says so first.
    #[must_use]
    pub fn told(&self) -> String {
        match &self.deprecated {
            Some(deprecated) => format!("[{}] {}", deprecated.in_a_line(), self.description),
            None => self.description.clone(),
        }
    }
}

/// A page of capabilities, the newest live version of each, in order of name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CapabilityList {
    /// The capabilities of this page.
    pub capabilities: Vec<CapabilitySummary>,
    /// Pass as `after` for the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Every version of one capability, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CapabilityVersions {
    /// Name of the capability.
    pub name: CapabilityName,
    /// The version that an unpinned user gets: the newest stable one not yanked, else the newest
    /// pre-release not yanked.
    #[schema(value_type = Option<schema::Version>)]
    pub latest: Option<Version>,
    /// All versions, newest first.
    pub versions: Vec<CapabilitySummary>,
}

/// A search by intent, or by several at once.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchRequest {
    /// What is to be done, in words: "check the weather in Paris and post it".
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub intent: String,
    /// Several intents in place of one, at most 16: each gets an answer of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub intents: Vec<String>,
    /// How many hits at most, for each intent: 1 to 100, 10 when absent.
    #[serde(
        default,
        deserialize_with = "super::whole_number::optional",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 1, maximum = 100)]
    pub limit: Option<usize>,
    /// `next` of the page before. It goes on with the same intent, strategy and filters alone;
    /// `limit` may differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// What is looked for: capabilities, when it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<SearchLevel>,
    /// How to choose among what fits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<Strategy>,
    /// What must hold for every hit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filters: Option<SearchFilters>,
}

/// What a search looks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SearchLevel {
    /// Capabilities.
    Capabilities,
    /// The services that fitting capabilities talk to.
    Services,
}

/// What must hold for every hit. Of a capability that uses others, what is true of all of it
/// counts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchFilters {
    /// Only capabilities that talk to one of these services; also written `services`.
    #[serde(default, skip_serializing_if = "Vec::is_empty", alias = "services")]
    pub domains: Vec<String>,
    /// What the caller holds: a capability that needs more is no hit. An empty list holds nothing;
    /// when it is absent, nobody asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permissions: Option<Vec<Permission>>,
    /// Only capabilities that change nothing: every task is a safe HTTP method (RFC 9110, section
    /// 9.2.1) or a GraphQL query, or a tool of which its document says so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
    /// Only capabilities with a task in one of these formats.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub formats: Vec<Format>,
    /// The most complex that is wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_complexity: Option<Complexity>,
    /// Only capabilities with this author: a name, an organization or an account on GitHub, whole,
    /// in upper or lower case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// Only capabilities whose live version lies in this range: `^1.2`, `>=2, <4`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::VersionRange>)]
    pub version: Option<VersionReq>,
}

/// The answer to a search, in the shape that the A2S text prints, and more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SearchResponse {
    /// What fits, best first.
    pub capabilities: Vec<SearchHit>,
    /// Pass as `cursor` for the next page; absent when nothing more fits, and behind the 1,000th
    /// hit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// About the search itself.
    pub metadata: SearchMetadata,
}

/// The answers to several intents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BatchSearchResponse {
    /// One for each intent, in their order.
    #[serde(alias = "answers")]
    pub responses: Vec<IntentSearchResponse>,
}

/// The answer to one of several intents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct IntentSearchResponse {
    /// The intent, as it was asked.
    pub intent: String,
    /// What fits it.
    #[serde(flatten)]
    pub answer: SearchResponse,
}

/// About a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SearchMetadata {
    /// How many capabilities fit, beyond those listed too.
    pub total_matches: usize,
    /// How long it took, in milliseconds.
    pub search_time_ms: f64,
    /// The strategy that ranked the hits: the name of a preset, or `weights`. With a list of
    /// strategies its place comes first: `2: most_similar`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<String>,
    /// Says that nothing was close enough, and what was nearest, or that nothing meets the strategy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What was nearest when nothing was close enough, the nearest first: three at most. They are no
    /// hits; nobody should run one without a second look.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nearest: Vec<NearMiss>,
    /// Says that less was done than usual, and why: the embedder of the index did not answer, so
    /// that the hits were found by words alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub degraded: Option<String>,
}

/// A capability that does not fit an intent, but less badly than others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NearMiss {
    /// Name of the capability.
    pub name: CapabilityName,
    /// Its live version.
    #[schema(value_type = schema::Version)]
    pub version: Version,
    /// Absolute similarity of meaning, 0 to 1: too little to be a hit.
    pub similarity: f64,
    /// What the capability does.
    pub description: String,
}

/// A capability that fits an intent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SearchHit {
    /// The name in kebab-case.
    pub id: String,
    /// The score under the chosen strategy, 0 to 1: comparable within one answer only.
    pub score: f64,
    /// What the capability does.
    pub description: String,
    /// How often this version was run.
    pub usage_count: u64,
    /// The share of runs that succeeded, by weight: recent ones count more, those of one reporter
    /// only so much. Null before a run tells anything.
    pub success_rate: Option<f64>,
    /// By number of steps.
    pub complexity: Complexity,
    /// What the caller must hold, for the capabilities that it uses, too.
    pub required_permissions: Vec<Permission>,
    /// Name of the capability.
    pub name: CapabilityName,
    /// The version that will run.
    #[schema(value_type = schema::Version)]
    pub version: Version,
    /// The digest that will run.
    pub checksum: Digest,
    /// What its publisher says, when the version is deprecated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<Deprecation>,
    /// What the capability asks for.
    pub parameters: Vec<InputField>,
    /// Absolute similarity of meaning, 0 to 1: comparable between answers.
    pub similarity: f64,
    /// How the score came about; the contributions add up to it.
    pub explanation: Vec<ScoreTerm>,
}

/// One term of a score.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ScoreTerm {
    /// `similarity`, `success_rate`, `usage`, `simplicity`, `permissions` or `service_health`.
    pub term: String,
    /// Its value, 0 to 1.
    pub value: f64,
    /// Its share of the strategy, all shares adding up to 1.
    pub weight: f64,
    /// Value times weight.
    pub contribution: f64,
}

/// Ask whether a published version, or a document, is what its checksum says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VerifyRequest {
    /// Name of the capability.
    pub name: CapabilityName,
    /// Version; the newest stable one when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Version>)]
    pub version: Option<Version>,
}

/// The answer to a verification.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct VerifyResponse {
    /// Whether the content has the recorded digest.
    pub valid: bool,
    /// Name of the capability.
    pub name: CapabilityName,
    /// Its version.
    #[schema(value_type = schema::Version)]
    pub version: Version,
    /// The digest that was recorded when it was published.
    pub checksum: Digest,
    /// The digest of the content as it is now; absent when the content is not readable any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub computed: Option<Digest>,
    /// What is wrong, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}
