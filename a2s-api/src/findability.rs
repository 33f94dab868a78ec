//! Findability: the ranks of a document in searches for its own example intents.

use a2s::CapabilityName;
use semver::Version;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::schema;

/// The result of searches for the texts of a document, as if the document were the live version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FindabilityReport {
    /// Name of the capability.
    pub name: CapabilityName,
    /// The version in the document.
    #[schema(value_type = schema::Version)]
    pub version: Version,
    /// The results: one for each of the first 20 example intents, or one for the description when the
    /// document has no example intents.
    pub texts: Vec<TextFindability>,
    /// The reason why the search was limited: the embedder of the index did not respond, so the registry
    /// searched by words only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub degraded: Option<String>,
}

/// The result of a search for one text of a document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TextFindability {
    /// The text that was searched.
    pub text: String,
    /// The part of the document that the text comes from.
    pub from: TextOrigin,
    /// The place of the capability under the strategy `most_similar`, 1 for the first. Absent when the
    /// capability is not among the candidates of the search.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<usize>,
    /// The probability that the capability does what the text asks for, 0 to 1, as in a search hit.
    #[serde(default)]
    pub score: f64,
    /// The absolute similarity of meaning, 0 to 1, as in a search hit.
    pub similarity: f64,
    /// True when the capability is close enough to the text to be a hit of the search.
    pub fits: bool,
    /// The capabilities that users may get instead, the best first, at most 3: those that rank before this
    /// one, or, when this one is the first, those that follow it closely.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub confused_with: Vec<Rival>,
    /// Words of the text that are not in the name, the description and the parameters of the document, at
    /// most 8. A description with them is closer to the text. Empty when the capability is the first and
    /// no other follows closely.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_words: Vec<String>,
    /// Words of the name, the description and the parameters of the document that none of `confused_with`
    /// has, at most 8. Example intents with them are less likely confused. Empty without `confused_with`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub distinct_words: Vec<String>,
}

impl TextFindability {
    /// Returns true when the capability is the first hit and no other follows closely.
    #[must_use]
    pub fn is_clear(&self) -> bool {
        self.fits && self.rank == Some(1) && self.confused_with.is_empty()
    }
}

/// The part of a document that a text comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TextOrigin {
    /// The intent of an example.
    Intent,
    /// The description.
    Description,
}

/// A published capability that a search returns before a document, or directly after it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Rival {
    /// Name of the capability.
    pub name: CapabilityName,
    /// Its live version.
    #[schema(value_type = schema::Version)]
    pub version: Version,
    /// The purpose of the capability.
    #[serde(deserialize_with = "super::single_line::deserialize")]
    pub description: String,
    /// Its place in the same search, 1 for the first.
    pub rank: usize,
}
