//! The embedder that is measured: the built-in one, or a sentence transformer in a folder.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;

use registry::embed::{
    BuiltIn, EmbedDeadline, EmbedPurpose, Embedder, Embedding, IndexedText, PromptPrefixes,
    SimilarityScale, combine_parts,
};
use registry::retrieval::{SearchQuery, query_vector, to_texts};
use tokio::runtime::Runtime;

/// Texts that are embedded in one go.
const BATCH: usize = 256;

pub(crate) struct Model {
    embedder: Embedder,
    scale: SimilarityScale,
    runtime: Runtime,
    /// Vectors by text; of queries and of documents.
    known: RefCell<[BTreeMap<String, Embedding>; 2]>,
}

impl Model {
    pub(crate) fn open(folder: Option<&Path>) -> Self {
        let runtime = Runtime::new().unwrap();
        let embedder = match folder {
            None => Embedder::built_in(),
            Some(folder) => Embedder::local(folder, PromptPrefixes::default()).unwrap(),
        };
        let scale = BuiltIn::new().scale();
        let mut model = Self { embedder, scale, runtime, known: RefCell::default() };
        let texts: Vec<_> = SimilarityScale::texts().map(str::to_owned).collect();
        let [queries, documents] = [EmbedPurpose::Query, EmbedPurpose::Document]
            .map(|purpose| model.embed(&texts, purpose));
        model.scale = SimilarityScale::from_vectors(&queries, &documents);
        model
    }

    pub(crate) fn scale(&self) -> SimilarityScale {
        self.scale
    }

    /// What to search for an intent with.
    pub(crate) fn probes(&self, intent: &str) -> Vec<SearchQuery> {
        let texts = to_texts(intent);
        let vectors = self.embed(&texts, EmbedPurpose::Query);
        let probe = |(text, dense): (&String, _)| SearchQuery { dense, sparse: query_vector(text) };
        texts.iter().zip(vectors).map(probe).collect()
    }

    /// The vectors of capabilities.
    pub(crate) fn embed_all(&self, texts: &[IndexedText]) -> Vec<Embedding> {
        let parts: Vec<_> =
            texts.iter().flat_map(|text| &text.dense).map(|(part, _)| part.clone()).collect();
        let mut vectors = self.embed(&parts, EmbedPurpose::Document).into_iter();
        let of_one = |text: &IndexedText| {
            let weights = text.dense.iter().map(|(_, weight)| *weight);
            combine_parts(weights.zip(vectors.by_ref()).map(|(weight, vector)| (vector, weight)))
        };
        texts.iter().map(of_one).collect()
    }

    fn embed(&self, texts: &[String], purpose: EmbedPurpose) -> Vec<Embedding> {
        let known = &mut self.known.borrow_mut()[usize::from(purpose == EmbedPurpose::Document)];
        let missing: Vec<_> =
            texts.iter().filter(|text| !known.contains_key(*text)).cloned().collect();
        for batch in missing.chunks(BATCH) {
            let asked = self.embedder.embed(batch.to_vec(), purpose, EmbedDeadline::Long);
            known.extend(batch.iter().cloned().zip(self.runtime.block_on(asked).unwrap()));
        }
        texts.iter().map(|text| known[text].clone()).collect()
    }
}
