//! A set: capabilities, queries, and which of the first answer which of the second.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use registry::embed::{EmbeddingSource, IndexedText, SimilarityScale, index_text};
use registry::retrieval::{
    BruteForceIndex, CANDIDATE_LIMIT, CapabilityId, FusedCandidate, VectorHit, fuse,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::model::Model;

/// Sets that constants are chosen on.
pub(crate) const TUNING: [&str; 3] = ["apibank", "toole_multi", "azure"];
/// Sets that nothing is chosen on.
pub(crate) const TEST: [&str; 5] =
    ["toole", "sealtools", "stabletoolbench", "bfcl", "restbench_tmdb"];

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Tool {
    pub(crate) group: String,
    #[serde(default)]
    namespace: Option<String>,
    name: String,
    description_200: String,
    parameters: Vec<Parameter>,
}

impl Tool {
    /// What the registry indexes, with the intents of its group.
    fn text(&self, intents: &BTreeMap<String, Vec<String>>) -> IndexedText {
        let name = format!("{} {}", self.namespace.as_deref().unwrap_or_default(), self.name);
        let parameters: Vec<_> = self
            .parameters
            .iter()
            .map(|p| (p.name.as_str(), p.description.as_deref().unwrap_or_default()))
            .collect();
        let intents = intents.get(&self.group).into_iter().flatten();
        index_text(&EmbeddingSource {
            name: &name,
            description: &self.description_200,
            parameters: &parameters,
            domains: &[],
            intents: &intents.map(String::as_str).collect::<Vec<_>>(),
        })
    }
}

#[derive(Debug, Clone, Deserialize)]
struct Parameter {
    name: String,
    #[serde(default)]
    description: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Query {
    pub(crate) query: String,
    pub(crate) gold: BTreeSet<String>,
}

#[derive(Debug)]
pub(crate) struct Set {
    pub(crate) tools: Vec<Tool>,
    pub(crate) queries: Vec<Query>,
}

impl Set {
    /// The set of a name; none when the folder has no such set.
    pub(crate) fn read(folder: &Path, name: &str) -> Option<Self> {
        let folder = folder.join(name);
        folder.is_dir().then(|| Self {
            tools: read_lines(&folder.join("tools.jsonl")),
            queries: read_lines(&folder.join("queries.jsonl")),
        })
    }

    /// Those of some names that the folder has.
    pub(crate) fn read_all<'n>(folder: &Path, names: &[&'n str]) -> Vec<(&'n str, Self)> {
        let sets: Vec<_> =
            names.iter().filter_map(|name| Some((*name, Self::read(folder, name)?))).collect();
        assert!(!sets.is_empty(), "{} has none of the sets {}", folder.display(), names.join(", "));
        sets
    }
}

pub(crate) fn read_lines<T: DeserializeOwned>(path: &Path) -> Vec<T> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The capabilities of a set, searchable.
pub(crate) struct Shelf<'s> {
    scan: BruteForceIndex,
    groups: BTreeMap<CapabilityId, &'s str>,
    scale: SimilarityScale,
}

impl<'s> Shelf<'s> {
    pub(crate) fn of(
        tools: impl IntoIterator<Item = &'s Tool>,
        intents: &BTreeMap<String, Vec<String>>,
        model: &Model,
    ) -> Self {
        let (groups, texts): (Vec<_>, Vec<_>) =
            tools.into_iter().map(|tool| (tool.group.as_str(), tool.text(intents))).unzip();
        let mut shelf = Self {
            scan: BruteForceIndex::default(),
            groups: BTreeMap::new(),
            scale: model.scale(),
        };
        let all = groups.into_iter().zip(&texts).zip(model.embed_all(&texts));
        for (id, ((group, text), vector)) in (1..).map(CapabilityId).zip(all) {
            shelf.scan.add(id, &text.sparse, vector);
            shelf.groups.insert(id, group);
        }
        shelf
    }

    pub(crate) fn len(&self) -> usize {
        self.scan.len()
    }

    /// What each probe of an intent finds.
    pub(crate) fn find(&self, intent: &str, model: &Model) -> Vec<Vec<VectorHit>> {
        model.probes(intent).iter().map(|probe| self.scan.query(probe, CANDIDATE_LIMIT)).collect()
    }

    /// What the registry makes of that.
    pub(crate) fn fuse(&self, found: &[Vec<VectorHit>]) -> Vec<FusedCandidate> {
        fuse(found, self.scan.len(), self.scale)
    }

    /// The groups of an order of capabilities, each at its first place.
    pub(crate) fn groups(&self, order: impl IntoIterator<Item = CapabilityId>) -> Vec<&'s str> {
        let mut seen = BTreeSet::new();
        order.into_iter().map(|id| self.groups[&id]).filter(|group| seen.insert(*group)).collect()
    }
}
