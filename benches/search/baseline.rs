//! The index by itself: a copy of its files, opened by the engine.

use std::path::Path;

use qdrant_edge::{
    EdgeShard, NamedQuery, QueryEnum, QueryRequest, ScoringQuery, Vector, VectorInternal,
    WithPayloadInterface, WithVector,
};
use registry::retrieval::{CANDIDATE_LIMIT, SearchQuery};
use tempfile::TempDir;

pub(crate) struct Bare {
    shard: EdgeShard,
    _copy: TempDir,
}

impl Bare {
    /// The index of a registry in `folder` that is closed.
    pub(crate) fn open(folder: &Path) -> Self {
        let copy = tempfile::tempdir().unwrap();
        let generations = std::fs::read_dir(folder.join("index")).unwrap();
        let generation = generations
            .map(|entry| entry.unwrap().path())
            .find(|path| path.is_dir())
            .expect("the index has a generation");
        copy_folder(&generation, copy.path());
        Self { shard: EdgeShard::load(copy.path(), None).unwrap(), _copy: copy }
    }

    /// One dense and one sparse query; how many points they give.
    pub(crate) fn query(&self, probe: &SearchQuery) -> usize {
        let dense = probe.dense.clone().map(VectorInternal::Dense);
        let (indices, values) = (probe.sparse.indices.clone(), probe.sparse.values.clone());
        let sparse = Vector::new_sparse(indices, values).ok().map(|Vector(sparse)| sparse);
        let dense = dense.map_or(0, |query| self.nearest("dense", query));
        let sparse = sparse.map_or(0, |query| self.nearest("sparse", query));
        dense + sparse
    }

    fn nearest(&self, vector: &str, query: VectorInternal) -> usize {
        let query = NamedQuery { query, using: Some(vector.to_owned()) };
        let request = QueryRequest {
            prefetches: Vec::new(),
            query: Some(ScoringQuery::Vector(QueryEnum::Nearest(query))),
            filter: None,
            score_threshold: None,
            limit: CANDIDATE_LIMIT,
            offset: 0,
            params: None,
            with_vector: WithVector::Bool(false),
            with_payload: WithPayloadInterface::Bool(false),
        };
        self.shard.query(request).unwrap().len()
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
