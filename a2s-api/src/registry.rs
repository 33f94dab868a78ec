//! Requests to a registry and its responses.

use super::schema;
use a2s::{
    CandidateVersion, CapabilityName, Complexity, Deprecation, Diagnostic, Digest, Domain,
    InputField, Permission, TaskFormat,
};
use jiff::Timestamp;
use semver::{Version, VersionReq};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::strategy::SelectionStrategy;

/// The response to a publish request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PublishResponse {
    /// Name of the capability.
    pub name: CapabilityName,
    /// Version that was published.
    #[schema(value_type = schema::Version)]
    pub version: Version,
    /// The checksum of the document.
    pub checksum: Digest,
    /// True when the request created the version; false when a version with the same content was already
    /// published.
    pub created: bool,
    /// The warnings, which did not prevent the publication.
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
    /// The checksum of the document.
    pub checksum: Digest,
    /// The purpose of the capability, in one sentence.
    #[serde(deserialize_with = "super::single_line::deserialize")]
    pub description: String,
    /// The services it talks to.
    pub domains: Vec<Domain>,
    /// The time of publication.
    #[schema(value_type = String, format = DateTime)]
    pub published_at: Timestamp,
    /// True when the version is yanked: dependents that pin it can still use it, but the registry never
    /// offers it.
    #[serde(default)]
    pub yanked: bool,
    /// The publisher's advice against new use, when the version is deprecated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<Deprecation>,
}

impl CandidateVersion for CapabilitySummary {
    fn version(&self) -> &Version {
        &self.version
    }

    fn checksum(&self) -> Digest {
        self.checksum
    }

    fn is_yanked(&self) -> bool {
        self.yanked
    }
}

impl CapabilitySummary {
    /// The description of the capability for a choice among several; a deprecated capability states its
    /// deprecation first.
    #[must_use]
    pub fn description_with_deprecation(&self) -> String {
        match &self.deprecated {
            Some(deprecated) => format!("[{}] {}", deprecated.to_single_line(), self.description),
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
    /// The version that a user without a pin gets: the newest stable version that is not yanked, else the
    /// newest pre-release that is not yanked.
    #[schema(value_type = Option<schema::Version>)]
    pub latest: Option<Version>,
    /// All versions, newest first.
    pub versions: Vec<CapabilitySummary>,
}

/// The maximum length of an intent, in characters.
pub const MAX_INTENT_LENGTH: usize = 2000;

/// Returns true when a text can be an intent: it has a character that is not white space, and at most
/// [`MAX_INTENT_LENGTH`] characters.
#[must_use]
pub fn is_intent(text: &str) -> bool {
    !text.trim().is_empty() && text.chars().nth(MAX_INTENT_LENGTH).is_none()
}

/// A search by intent, or by several at once.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchRequest {
    /// The task in words: "check the weather in Paris and tweet it".
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub intent: String,
    /// Several intents instead of `intent`, at most 16. Each one gets its own response.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 16)]
    pub intents: Vec<String>,
    /// The maximum number of hits for each intent: 1 to 100, 10 when absent.
    #[serde(
        default,
        deserialize_with = "super::whole_number::optional",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 1, maximum = 100)]
    pub limit: Option<usize>,
    /// The `next` value of the previous page. The intent, the strategy and the filters must be the same as
    /// before; `limit` may differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// The kind of results: capabilities when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<SearchLevel>,
    /// The strategy that ranks the capabilities that fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<SelectionStrategy>,
    /// The conditions that every hit must meet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filters: Option<SearchFilters>,
}

/// The kind of results of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SearchLevel {
    /// Capabilities.
    Capabilities,
    /// The services that fitting capabilities talk to.
    Services,
}

/// The conditions that every hit must meet. For a capability that uses others, they apply to the whole
/// closure.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchFilters {
    /// Only capabilities that talk to one of these services; also written `services`.
    #[serde(default, skip_serializing_if = "Vec::is_empty", alias = "services")]
    pub domains: Vec<String>,
    /// The caller's permissions: a capability that needs more is not a hit. An empty list means no
    /// permissions; when absent, permissions are not checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permissions: Option<Vec<Permission>>,
    /// Only capabilities that change nothing: every task uses a safe HTTP method (RFC 9110, section 9.2.1),
    /// is a GraphQL query, or calls a tool that its document declares read-only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
    /// Only capabilities with a task in one of these formats.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub formats: Vec<TaskFormat>,
    /// The maximum complexity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_complexity: Option<Complexity>,
    /// Only capabilities with this author: the complete name, organization or GitHub account; upper and
    /// lower case are equal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 200, pattern = r"\S")]
    pub author: Option<String>,
    /// Only capabilities whose live version is in this range: `^1.2`, `>=2, <4`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::VersionRange>)]
    pub version: Option<VersionReq>,
}

/// The response to a search. It has the members that the A2S text shows, and further ones.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SearchResponse {
    /// The fitting capabilities, best first.
    pub capabilities: Vec<SearchHit>,
    /// Pass as `cursor` for the next page; absent when nothing more fits, and after the 1,000th hit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Facts about the search itself.
    pub metadata: SearchMetadata,
}

/// The response to a search with several intents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BatchSearchResponse {
    /// The responses, one for each intent, in the order of the intents.
    #[serde(alias = "answers")]
    pub responses: Vec<IntentSearchResponse>,
}

/// The response to one of several intents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct IntentSearchResponse {
    /// The intent, as in the request.
    pub intent: String,
    /// The results for the intent.
    #[serde(flatten)]
    pub answer: SearchResponse,
}

/// Facts about a search: its duration, its strategy and the number of matches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SearchMetadata {
    /// The number of fitting capabilities, including those that are not listed.
    pub total_matches: usize,
    /// The duration in milliseconds.
    pub search_time_ms: f64,
    /// The strategy that ranked the hits: the name of a preset, or `weights`. If the request has a list of
    /// strategies, the position in the list comes first: `2: most_similar`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<String>,
    /// A message that nothing was close enough, with the nearest capability, or that nothing meets the
    /// strategy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The nearest capabilities when nothing was close enough, the nearest first; at most three. They are
    /// not hits: check them before a run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nearest: Vec<NearMiss>,
    /// The language or script of the intent, when nothing was close enough and the built-in embedder does not
    /// know it: `German`, `Cyrillic`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    /// The score that the best capability needed, when nothing was close enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needed_score: Option<f64>,
    /// The way in which the built-in embedder compared the hits; absent with another embedder. An intent of
    /// more than about two hundred words, and searches beyond the queue, are always answered `fast`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<SearchMode>,
    /// The reason why the search was limited: the embedder of the index did not respond, so the registry
    /// searched by words only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub degraded: Option<String>,
}

/// The way in which the built-in embedder compares hits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SearchMode {
    /// The sentence encoder has read the intent, and compared what the index found.
    Quality,
    /// The index alone.
    Fast,
}

/// A capability that does not fit an intent, but comes closer to it than others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NearMiss {
    /// Name of the capability.
    pub name: CapabilityName,
    /// Its live version.
    #[schema(value_type = schema::Version)]
    pub version: Version,
    /// The probability that it does what the intent asks for, 0 to 1. It is too low for a search hit.
    #[serde(default)]
    pub score: f64,
    /// The absolute similarity of meaning, 0 to 1.
    pub similarity: f64,
    /// The purpose of the capability.
    #[serde(deserialize_with = "super::single_line::deserialize")]
    pub description: String,
}

/// The hit that needs another one, and its input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NeededBy {
    /// The capability that needs the id.
    pub name: CapabilityName,
    /// The input that takes the id: `person_id`.
    pub input: String,
}

/// A capability that fits an intent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SearchHit {
    /// The name in kebab-case.
    pub id: String,
    /// The probability that the capability does what the intent asks for, 0 to 1. It is comparable between
    /// responses and between registries.
    pub score: f64,
    /// `strong` for a score of 0.4 and more without a contradiction.
    #[serde(default, rename = "match")]
    pub strength: MatchStrength,
    /// The value by which the hits are sorted, 0 to 1: the weighed terms of the strategy. It is comparable
    /// only within one response.
    #[serde(default)]
    pub rank_score: f64,
    /// The purpose of the capability.
    #[serde(deserialize_with = "super::single_line::deserialize")]
    pub description: String,
    /// The number of runs of this version.
    pub usage_count: u64,
    /// The share of successful runs by weight: recent runs count more, and the weight of one reporter is
    /// bounded. Null while no run says anything about the capability.
    pub success_rate: Option<f64>,
    /// The complexity, by the number of steps.
    pub complexity: Complexity,
    /// The permissions that the caller must hold, including those for the capabilities that it uses.
    pub required_permissions: Vec<Permission>,
    /// Name of the capability.
    pub name: CapabilityName,
    /// The version that will run.
    #[schema(value_type = schema::Version)]
    pub version: Version,
    /// The checksum of the document that will run.
    pub checksum: Digest,
    /// The publisher's deprecation of the version, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<Deprecation>,
    /// The inputs of the capability.
    pub parameters: Vec<InputField>,
    /// The absolute similarity of meaning, 0 to 1. It is comparable between responses.
    pub similarity: f64,
    /// The hit that needs this one, because it takes an id that this capability finds. Absent for a hit that
    /// fits by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needed_by: Option<NeededBy>,
    /// The contradiction between the effect that the intent asks for and those of the capability, in
    /// words. Absent when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contradiction: Option<String>,
    /// The inputs that the intent gives, by name. Each fits the schema of its input.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extracted: Map<String, Value>,
    /// The names of the required inputs that the intent does not give and that have no default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// The terms of the rank score; their contributions add up to it.
    pub explanation: Vec<ScoreTerm>,
}

/// The strength of a match.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum MatchStrength {
    /// The capability may do something else: check it before a run. Registries before `match` existed do not
    /// say it, so their hits are weak.
    #[default]
    Weak,
    /// The capability probably does what the intent asks for.
    Strong,
}

impl MatchStrength {
    /// The strength as the API writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Weak => "weak",
            Self::Strong => "strong",
        }
    }
}

/// One term of a rank score.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ScoreTerm {
    /// `relevance`, `success_rate`, `usage`, `simplicity`, `permissions` or `service_health`.
    pub term: String,
    /// Its value, 0 to 1.
    pub value: f64,
    /// Its share of the strategy, all shares adding up to 1.
    pub weight: f64,
    /// Value times weight.
    pub contribution: f64,
}

/// A request to verify that a published version, or a document, matches its checksum.
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

/// The response to a verification.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct VerifyResponse {
    /// True when the content has the recorded digest.
    pub valid: bool,
    /// Name of the capability.
    pub name: CapabilityName,
    /// Its version.
    #[schema(value_type = schema::Version)]
    pub version: Version,
    /// The checksum that the registry recorded at publication.
    pub checksum: Digest,
    /// The checksum of the current content; absent when the content is not readable any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub computed: Option<Digest>,
    /// The problem, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}
