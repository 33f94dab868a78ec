//! The embedders that are measured, with a memory: several measures ask for the same texts.

use std::cell::RefCell;
use std::collections::BTreeMap;

use registry::embed::{
    BuiltIn, Embedding, IndexedText, QualityEmbedder, SentenceVector, combine_parts,
};
use registry::retrieval::{
    AcceptedIntent, BuiltInEmbedders, CapabilityVectors, FusionScales, LearnedMean, LearnedWeight,
    Probe,
};

pub(crate) struct Model {
    embedders: BuiltInEmbedders,
    table: BuiltIn,
    sentence: Option<QualityEmbedder>,
    /// Probes by intent.
    probes: RefCell<BTreeMap<String, Vec<Probe>>>,
    /// Vectors by the text for the term index, which holds all parts.
    documents: RefCell<BTreeMap<String, CapabilityVectors>>,
    /// Vectors of parts and accepted intents.
    texts: RefCell<BTreeMap<String, [Embedding; 2]>>,
}

impl Model {
    pub(crate) fn new(is_fast: bool) -> Self {
        let embedders =
            if is_fast { BuiltInEmbedders::fast() } else { BuiltInEmbedders::quality() };
        Self {
            embedders,
            table: BuiltIn::new(),
            sentence: (!is_fast).then(QualityEmbedder::new),
            probes: RefCell::default(),
            documents: RefCell::default(),
            texts: RefCell::default(),
        }
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
    ) -> CapabilityVectors {
        let parts = |at: usize| {
            combine_parts(
                text.dense
                    .iter()
                    .map(|(part, weight)| (self.embed_text(part)[at].clone(), *weight)),
            )
        };
        let learned = |at: usize| {
            let intents = accepted.iter().filter_map(|(reporter, intent)| {
                let vector = self.embed_text(intent)[at].clone()?;
                Some(AcceptedIntent { reporter: *reporter, vector })
            });
            LearnedMean::from_intents(&intents.collect::<Vec<_>>())
        };
        let sentence = learned(1).add_to(parts(1), LearnedWeight::SENTENCE);
        CapabilityVectors {
            dense: learned(0).add_to(parts(0), LearnedWeight::INDEX),
            sentence: sentence.map(|vector| SentenceVector::from_unit(&vector)),
        }
    }

    /// The vectors of a text by the table and by the sentence encoder, when it is used.
    fn embed_text(&self, text: &str) -> [Embedding; 2] {
        let mut known = self.texts.borrow_mut();
        let vectors = || {
            let sentence = self.sentence.as_ref().map(|model| model.embed(&[text]));
            [self.table.embed(text), sentence.and_then(|vectors| vectors.into_iter().next()?)]
        };
        known.entry(text.to_owned()).or_insert_with(vectors).clone()
    }
}
