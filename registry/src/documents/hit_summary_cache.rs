//! A cache of summaries for searches, and cards that carry them.

use std::sync::Arc;

use a2s::{CapabilityName, Complexity, DependencyIndex, Digest, Domain, InputField, Permission};
use semver::Version;
use serde::{Deserialize, Serialize};

use super::CapabilityFacts;
use crate::store::VersionEntry;

/// The version of the program. Cards of another version are ignored, because it may read documents
/// differently.
const PROGRAM_VERSION: &str = env!("CARGO_PKG_VERSION");
/// The longest card in bytes; a longer summary gets no card.
const MAX_CARD_BYTES: usize = 4 * 1024;

/// The summary of a document in a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct HitSummary {
    pub(crate) description: String,
    pub(crate) domains: Vec<Domain>,
    pub(crate) complexity: Complexity,
    pub(crate) parameters: Vec<InputField>,
    /// The permissions that its callers must hold, including those of its dependencies.
    pub(crate) permissions: Vec<Permission>,
    /// Set when a run changes nothing, not even through its dependencies.
    pub(crate) read_only: bool,
}

impl HitSummary {
    pub(super) fn from_facts(facts: &CapabilityFacts, whole: a2s::ClosureSummary) -> Self {
        Self {
            description: facts.description.clone(),
            domains: facts.domains.clone(),
            complexity: facts.complexity,
            parameters: facts.parameters.clone(),
            permissions: whole.permissions.into_iter().collect(),
            read_only: whole.read_only,
        }
    }
}

/// The summary of one verified text. The index stores it, where the database cannot change it, so that a
/// search need not compile its hits. It is valid only for exactly these bytes.
///
/// A document with dependencies has no card, because its permissions depend on them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SummaryCard {
    program: String,
    /// The SHA-256 of the bytes.
    text: Digest,
    /// The digest of the content.
    digest: Digest,
    name: CapabilityName,
    version: Version,
    #[serde(rename = "told")]
    pub(super) summary: Arc<HitSummary>,
}

impl SummaryCard {
    /// The card of a document that equals the published one; none when it has dependencies.
    pub(super) fn from_facts(
        text: Digest,
        entry: &VersionEntry,
        facts: &CapabilityFacts,
    ) -> Option<Self> {
        let is_alone = facts.dependency_interface.dependencies.is_empty();
        is_alone.then(|| Self {
            program: PROGRAM_VERSION.to_owned(),
            text,
            digest: entry.digest,
            name: facts.name.clone(),
            version: facts.version.clone(),
            summary: Arc::new(HitSummary::from_facts(
                facts,
                DependencyIndex::default().summarize_closure(&facts.dependency_interface),
            )),
        })
    }

    /// Returns the JSON that the index stores, or `None` when it is too long.
    pub(super) fn to_json(&self) -> Option<String> {
        serde_json::to_string(self).ok().filter(|card| card.len() <= MAX_CARD_BYTES)
    }

    /// Parses a card from the index. Returns `None` when the card is damaged or of another version of the
    /// program.
    pub(super) fn from_json(card: &str) -> Option<Self> {
        serde_json::from_str(card).ok().filter(|card: &Self| card.program == PROGRAM_VERSION)
    }

    /// Returns true when the card belongs to this text and to the version of this entry.
    pub(super) fn is_valid_for(&self, text: Digest, entry: &VersionEntry) -> bool {
        self.text == text && self.is_of(entry)
    }

    /// Returns true when the card belongs to the version of this entry.
    pub(super) fn is_of(&self, entry: &VersionEntry) -> bool {
        let Self { program: _, text: _, digest, name, version, summary: _ } = self;
        (*digest, name, version) == (entry.digest, &entry.name, &entry.version)
    }
}

#[cfg(test)]
mod tests {
    use a2s::Document;
    use jiff::Timestamp;

    use super::*;
    use crate::store::{CapabilityId, RunStats, VersionId};
    use crate::tests::world::document;

    #[test]
    fn a_card_is_of_one_text_of_one_version() {
        let source = document("Tool", "1.0.0", "Waters the plants");
        let opened = Document::open(source.as_bytes()).unwrap();
        let facts = CapabilityFacts::from_document(&opened);
        let entry = VersionEntry {
            capability: CapabilityId(1),
            id: VersionId(1),
            name: facts.name.clone(),
            version: facts.version.clone(),
            digest: opened.digest(),
            complexity: facts.complexity,
            permissions: 0,
            published_at: Timestamp::UNIX_EPOCH,
            yanked: false,
            deprecated: None,
            stats: RunStats::default(),
        };
        let text = Digest::of_bytes(source.as_bytes());
        let written = SummaryCard::from_facts(text, &entry, &facts).unwrap().to_json().unwrap();
        let card = SummaryCard::from_json(&written).unwrap();
        assert_eq!(card.summary.description, "Waters the plants");
        assert!(card.is_valid_for(text, &entry));

        assert!(!card.is_valid_for(Digest::of_bytes(b"another text"), &entry));
        for other in [
            VersionEntry { digest: text, ..entry.clone() },
            VersionEntry { name: "Other".parse().unwrap(), ..entry.clone() },
            VersionEntry { version: Version::new(1, 0, 1), ..entry },
        ] {
            assert!(!card.is_valid_for(text, &other), "{other:?}");
        }
        let program = format!("\"program\":\"{PROGRAM_VERSION}\"");
        assert!(written.contains(&program));
        assert_eq!(SummaryCard::from_json(&written.replace(&program, "\"program\":\"0\"")), None);
    }
}
