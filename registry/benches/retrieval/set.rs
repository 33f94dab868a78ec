//! A set: capabilities, queries, and which of the first answer which of the second.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use a2s_intent::entity::Entity;
use registry::embed::{EmbeddingSource, IndexedText, index_text};
use registry::retrieval::{
    BruteForceIndex, CANDIDATE_LIMIT, CapabilityId, CapabilityVectors, FusedCandidate,
    FusionScales, ProbeHits, SERVICE_LIMIT, fuse, lift_prerequisites, lift_services,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::model::Model;

/// Sets that constants are chosen on.
pub(crate) const TUNING: [&str; 3] = ["apibank", "toole_multi", "azure"];
/// Sets that nothing is chosen on.
pub(crate) const TEST: [&str; 6] =
    ["toole", "sealtools", "stabletoolbench", "bfcl", "restbench_tmdb", "arazzo"];

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
    tools: BTreeMap<CapabilityId, ShelvedTool<'s>>,
    scales: FusionScales,
}

/// Accepted intents by group, each with its reporter.
pub(crate) type Accepted<'a> = BTreeMap<&'a str, Vec<(u8, &'a str)>>;

/// A capability, and what ranking knows of it.
struct ShelvedTool<'s> {
    group: &'s str,
    service: Option<&'s str>,
    needs: Vec<Entity>,
    searches: Option<Entity>,
}

impl<'s> Shelf<'s> {
    pub(crate) fn of(
        tools: impl IntoIterator<Item = &'s Tool>,
        intents: &BTreeMap<String, Vec<String>>,
        model: &Model,
    ) -> Self {
        Self::build(
            tools,
            |tool| {
                let text = tool.text(intents);
                let vectors = model.embed(&text);
                (text, vectors)
            },
            model,
        )
    }

    /// The same with accepted intents in the place of those of documents.
    pub(crate) fn with_accepted(
        tools: impl IntoIterator<Item = &'s Tool>,
        accepted: &Accepted<'_>,
        model: &Model,
    ) -> Self {
        Self::build(
            tools,
            |tool| {
                let text = tool.text(&BTreeMap::new());
                let intents = accepted.get(tool.group.as_str()).map_or(&[][..], Vec::as_slice);
                let vectors = model.embed_learned(&text, intents);
                (text, vectors)
            },
            model,
        )
    }

    fn build(
        tools: impl IntoIterator<Item = &'s Tool>,
        embed: impl Fn(&Tool) -> (IndexedText, CapabilityVectors),
        model: &Model,
    ) -> Self {
        let mut shelf = Self {
            scan: BruteForceIndex::default(),
            tools: BTreeMap::new(),
            scales: model.scales(1),
        };
        for (id, tool) in (1..).map(CapabilityId).zip(tools) {
            let (text, vectors) = embed(tool);
            shelf.scan.add(id, &text.sparse, vectors);
            let parameters = tool.parameters.iter();
            let shelved = ShelvedTool {
                group: &tool.group,
                // A set of one service does not name it.
                service: tool.namespace.as_deref(),
                needs: parameters.filter_map(|p| Entity::of_parameter(&p.name)).collect(),
                searches: Entity::of_search(&tool.name),
            };
            shelf.tools.insert(id, shelved);
        }
        shelf.scales.among = shelf.scan.len();
        shelf
    }

    pub(crate) fn scales(&self) -> &FusionScales {
        &self.scales
    }

    /// What each probe of an intent finds.
    pub(crate) fn find(&self, intent: &str, model: &Model) -> Vec<ProbeHits> {
        model.probes(intent).iter().map(|probe| self.scan.query(probe, CANDIDATE_LIMIT)).collect()
    }

    /// What the registry makes of that.
    pub(crate) fn fuse(&self, found: &[ProbeHits]) -> Vec<FusedCandidate> {
        let mut candidates = fuse(found, &self.scales);
        if self.scales.counts_services() {
            self.lift_services(&mut candidates);
        }
        self.lift_prerequisites(&mut candidates);
        candidates
    }

    /// Returns true when nothing fits an intent.
    pub(crate) fn fits_nothing(&self, intent: &str, model: &Model) -> bool {
        !self.fuse(&self.find(intent, model)).iter().any(|candidate| candidate.fits)
    }

    pub(crate) fn lift_services(&self, candidates: &mut [FusedCandidate]) {
        let most = candidates.len().min(SERVICE_LIMIT);
        lift_services(&mut candidates[..most], |id| self.tools[&id].service.into_iter().collect());
    }

    pub(crate) fn lift_prerequisites(&self, candidates: &mut Vec<FusedCandidate>) {
        lift_prerequisites(candidates, |id| self.prerequisites(id));
    }

    /// The searches of the same service for what a capability takes.
    fn prerequisites(&self, id: CapabilityId) -> Vec<(CapabilityId, String)> {
        let tool = &self.tools[&id];
        let is_needed = |other: &ShelvedTool<'_>| {
            tool.service.is_some()
                && other.service == tool.service
                && other.searches.as_ref().is_some_and(|found| tool.needs.contains(found))
        };
        let others = self.tools.iter().filter(|(other, tool)| **other != id && is_needed(tool));
        others.map(|(other, _)| (*other, String::new())).collect()
    }

    pub(crate) fn group(&self, id: CapabilityId) -> &'s str {
        self.tools[&id].group
    }

    /// The groups of an order of capabilities, each at its first place.
    pub(crate) fn groups(&self, order: impl IntoIterator<Item = CapabilityId>) -> Vec<&'s str> {
        let mut seen = BTreeSet::new();
        let groups = order.into_iter().map(|id| self.tools[&id].group);
        groups.filter(|group| seen.insert(*group)).collect()
    }
}
