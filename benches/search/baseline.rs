//! The bare index: every point compared one by one, in memory.

use std::path::Path;

use registry::embed::{EmbeddingSource, index_text};
use registry::retrieval::{
    BruteForceIndex, BuiltInEmbedders, CANDIDATE_LIMIT, CapabilityId, SearchQuery,
};

use crate::corpus::Corpus;

pub(crate) struct Bare(BruteForceIndex);

impl Bare {
    /// An index of the names and descriptions of so many capabilities.
    pub(crate) fn new(corpus: &Corpus, size: usize) -> Self {
        let (embedders, mut index) = (BuiltInEmbedders::fast(), BruteForceIndex::default());
        for (id, number) in (1..).zip(0..size) {
            let document = corpus.document(number);
            let text = |member: &str| document[member].as_str().unwrap().to_owned();
            let (name, description) = (text("name"), text("description"));
            let source = EmbeddingSource {
                name: &name,
                description: &description,
                ..EmbeddingSource::default()
            };
            let text = index_text(&source);
            index.add(CapabilityId(id), &text.sparse, embedders.embed_document(&text.dense));
        }
        Self(index)
    }

    /// The number of points that a query finds.
    pub(crate) fn query(&self, probe: &SearchQuery) -> usize {
        self.0.find(probe, CANDIDATE_LIMIT).len()
    }
}

pub(crate) fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy_folder(&entry.path(), &target),
            false => drop(std::fs::copy(entry.path(), target).unwrap()),
        }
    }
}
