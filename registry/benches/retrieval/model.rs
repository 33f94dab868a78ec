//! The embedders that are measured, with a memory: several measures ask for the same texts.

use std::cell::RefCell;
use std::collections::BTreeMap;

use registry::embed::IndexedText;
use registry::retrieval::{
    BuiltInEmbedders, CapabilityVectors, FusionScales, LearnedWeight, Probe,
};

pub(crate) struct Model {
    embedders: BuiltInEmbedders,
    /// Probes by intent.
    probes: RefCell<BTreeMap<String, Vec<Probe>>>,
    /// Vectors by the text for the term index, which holds all parts.
    documents: RefCell<BTreeMap<String, CapabilityVectors>>,
}

impl Model {
    pub(crate) fn new(is_fast: bool) -> Self {
        let embedders =
            if is_fast { BuiltInEmbedders::fast() } else { BuiltInEmbedders::quality() };
        Self { embedders, probes: RefCell::default(), documents: RefCell::default() }
    }

    pub(crate) fn scales(&self, among: usize) -> FusionScales {
        self.embedders.scales(among)
    }

    /// What to search for an intent with.
    pub(crate) fn probes(&self, intent: &str) -> Vec<Probe> {
        let mut known = self.probes.borrow_mut();
        let probes = || self.embedders.probes(intent);
        known.entry(intent.to_owned()).or_insert_with(probes).clone()
    }

    /// The vectors of a capability.
    pub(crate) fn embed(&self, text: &IndexedText) -> CapabilityVectors {
        let mut known = self.documents.borrow_mut();
        let vectors = || self.embedders.embed_document(&text.dense);
        known.entry(text.sparse.clone()).or_insert_with(vectors).clone()
    }

    /// The same with accepted intents, each with its reporter.
    pub(crate) fn embed_learned(
        &self,
        text: &IndexedText,
        accepted: &[(u8, &str)],
        weights: [LearnedWeight; 2],
    ) -> CapabilityVectors {
        match accepted {
            [] => self.embed(text),
            _ => self.embedders.embed_learned(&text.dense, accepted, weights),
        }
    }
}
