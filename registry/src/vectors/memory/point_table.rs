//! The points of an index in memory: the vectors in one list, and for each term the points that have it.
//!
//! A query is compared with every point, so its result is exact. A point keeps its position until it is
//! removed; a free position is used again.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Range;

use rayon::iter::{IntoParallelIterator as _, ParallelIterator as _};

use crate::bm25::{SparseVector, rarity};
use crate::embed::cosine;
use crate::store::CapabilityId;
use crate::vectors::{Error, IndexPoint, PointFilter, QueryResults, SearchQuery, VectorHit};

/// The number of points that one thread compares at a time.
const CHUNK: usize = 8192;

#[derive(Debug)]
pub(super) struct PointTable {
    dimensions: usize,
    /// The points without their dense vectors, which are in `vectors` at the same position.
    points: Vec<Option<Entry>>,
    vectors: Vec<f32>,
    positions: BTreeMap<CapabilityId, usize>,
    free: Vec<usize>,
    /// The positions of the points with each term, in ascending order, with its weights.
    postings: BTreeMap<u32, Vec<(usize, f32)>>,
}

#[derive(Debug)]
struct Entry {
    point: IndexPoint,
    has_vector: bool,
}

impl PointTable {
    pub(super) fn new(dimensions: usize) -> Self {
        Self {
            dimensions,
            points: Vec::new(),
            vectors: Vec::new(),
            positions: BTreeMap::new(),
            free: Vec::new(),
            postings: BTreeMap::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.positions.len()
    }

    /// Adds a point, or replaces the point of its capability.
    ///
    /// # Errors
    /// When its vector has another length than those of this table; then nothing changes.
    pub(super) fn insert(&mut self, mut point: IndexPoint) -> Result<(), Error> {
        let dense = point.dense.take();
        if let Some(dense) = &dense
            && dense.len() != self.dimensions
        {
            let (length, expected) = (dense.len(), self.dimensions);
            return Err(Error::Failed(format!(
                "a vector has {length} numbers instead of {expected}"
            )));
        }
        self.remove(point.capability);
        let position = self.free.pop().unwrap_or_else(|| {
            self.points.push(None);
            self.vectors.resize(self.points.len() * self.dimensions, 0.0);
            self.points.len() - 1
        });
        for (term, weight) in point.sparse.indices.iter().zip(&point.sparse.values) {
            let posting = self.postings.entry(*term).or_default();
            let at = posting.partition_point(|(other, _)| *other < position);
            posting.insert(at, (position, *weight));
        }
        if let Some(dense) = &dense {
            let range = self.vector_range(position);
            self.vectors[range].copy_from_slice(dense);
        }
        self.positions.insert(point.capability, position);
        self.points[position] = Some(Entry { point, has_vector: dense.is_some() });
        Ok(())
    }

    pub(super) fn remove(&mut self, capability: CapabilityId) {
        let Some(position) = self.positions.remove(&capability) else { return };
        let Some(Entry { point, .. }) = self.points[position].take() else { return };
        for term in &point.sparse.indices {
            let Some(posting) = self.postings.get_mut(term) else { continue };
            if let Ok(at) = posting.binary_search_by_key(&position, |(position, _)| *position) {
                posting.remove(at);
            }
            if posting.is_empty() {
                self.postings.remove(term);
            }
        }
        self.free.push(position);
    }

    /// Returns the point of a capability with its vector.
    pub(super) fn get(&self, capability: CapabilityId) -> Option<IndexPoint> {
        let position = *self.positions.get(&capability)?;
        let mut point = self.points[position].as_ref()?.point.clone();
        point.dense = self.vector(position).map(<[f32]>::to_vec);
        Some(point)
    }

    pub(super) fn card(&self, capability: CapabilityId) -> Option<String> {
        let position = *self.positions.get(&capability)?;
        self.points[position].as_ref()?.point.card.clone()
    }

    /// For each probe the `limit` points nearest by cosine and the `limit` best by BM25, each with both
    /// scores.
    pub(super) fn query(
        &self,
        probes: Vec<SearchQuery>,
        filter: &PointFilter,
        limit: usize,
    ) -> QueryResults {
        let allowed = (*filter != PointFilter::default()).then(|| self.allowed(filter));
        let allowed = allowed.as_deref();
        let matching_points = match allowed {
            Some(allowed) => allowed.iter().filter(|is_allowed| **is_allowed).count(),
            None => self.len(),
        };
        let find = |probe: SearchQuery| self.find(&probe, allowed, limit);
        QueryResults { found: probes.into_par_iter().map(find).collect(), matching_points }
    }

    /// Tells for each position whether its point passes the filter.
    fn allowed(&self, filter: &PointFilter) -> Vec<bool> {
        let passes = |entry: &Entry| filter.matches(&entry.point);
        self.points.iter().map(|point| point.as_ref().is_some_and(passes)).collect()
    }

    fn find(&self, probe: &SearchQuery, allowed: Option<&[bool]>, limit: usize) -> Vec<VectorHit> {
        let dense = probe.dense.as_deref();
        let is_allowed = |position: usize| allowed.is_none_or(|allowed| allowed[position]);
        let mut hits = BTreeMap::new();
        for scored in dense.into_iter().flat_map(|dense| self.nearest(dense, is_allowed, limit)) {
            hits.insert(scored.capability, (scored.score, 0.0));
        }
        for scored in self.best(&probe.sparse, is_allowed, limit) {
            let cosine = || cosine(dense, self.vector(scored.position));
            hits.entry(scored.capability).or_insert_with(|| (cosine(), 0.0)).1 = scored.score;
        }
        let to_hit =
            |(capability, (cosine, bm25))| VectorHit { capability, cosine, bm25, sentence: None };
        hits.into_iter().map(to_hit).collect()
    }

    /// The points nearest by cosine.
    fn nearest(
        &self,
        probe: &[f32],
        is_allowed: impl Fn(usize) -> bool + Sync,
        limit: usize,
    ) -> Vec<Scored> {
        let scan = |range: Range<usize>| {
            let mut best = BestPoints::new(limit);
            for position in range.filter(|position| is_allowed(*position)) {
                if let (Some(entry), Some(vector)) = (&self.points[position], self.vector(position))
                {
                    let score = cosine(Some(probe), Some(vector));
                    best.add(Scored { score, capability: entry.point.capability, position });
                }
            }
            best
        };
        let chunks = self.points.len().div_ceil(CHUNK);
        let to_range = |chunk: usize| chunk * CHUNK..((chunk + 1) * CHUNK).min(self.points.len());
        let chunks = (0..chunks).into_par_iter().map(|chunk| scan(to_range(chunk)));
        chunks.reduce(|| BestPoints::new(limit), BestPoints::merge).into_points()
    }

    /// The points that are best by BM25.
    fn best(
        &self,
        probe: &SparseVector,
        is_allowed: impl Fn(usize) -> bool,
        limit: usize,
    ) -> Vec<Scored> {
        let mut scores = vec![0.0; if probe.is_empty() { 0 } else { self.points.len() }];
        let mut touched = Vec::new();
        for (term, probed) in probe.indices.iter().zip(&probe.values) {
            let Some(posting) = self.postings.get(term) else { continue };
            let rarity = rarity(self.len(), posting.len());
            for (position, weight) in posting {
                if scores[*position] == 0.0 {
                    touched.push(*position);
                }
                scores[*position] += probed * weight * rarity;
            }
        }
        let mut best = BestPoints::new(limit);
        for position in touched.into_iter().filter(|position| is_allowed(*position)) {
            let score = std::mem::take(&mut scores[position]);
            if let Some(entry) = self.points[position].as_ref().filter(|_| score > 0.0) {
                best.add(Scored { score, capability: entry.point.capability, position });
            }
        }
        best.into_points()
    }

    fn vector(&self, position: usize) -> Option<&[f32]> {
        self.points[position].as_ref().filter(|entry| entry.has_vector)?;
        Some(&self.vectors[self.vector_range(position)])
    }

    fn vector_range(&self, position: usize) -> Range<usize> {
        position * self.dimensions..(position + 1) * self.dimensions
    }
}

#[derive(Debug, Clone, Copy)]
struct Scored {
    score: f32,
    capability: CapabilityId,
    position: usize,
}

impl Scored {
    /// The highest score first; of equal ones the older capability.
    fn compare(&self, other: &Self) -> Ordering {
        other.score.total_cmp(&self.score).then(self.capability.cmp(&other.capability))
    }
}

/// The best points so far.
#[derive(Debug)]
struct BestPoints {
    limit: usize,
    /// At most twice as many as wanted.
    points: Vec<Scored>,
    /// A lower score is not among the best.
    least: f32,
}

impl BestPoints {
    fn new(limit: usize) -> Self {
        Self { limit, points: Vec::new(), least: f32::NEG_INFINITY }
    }

    fn add(&mut self, point: Scored) {
        if point.score < self.least {
            return;
        }
        self.points.push(point);
        if self.points.len() >= 2 * self.limit.max(1) {
            self.shrink();
        }
    }

    fn shrink(&mut self) {
        if self.points.len() > self.limit {
            self.points.select_nth_unstable_by(self.limit, Scored::compare);
            self.points.truncate(self.limit);
            let scores = self.points.iter().map(|point| point.score);
            self.least = scores.min_by(f32::total_cmp).unwrap_or(self.least);
        }
    }

    fn merge(mut self, other: Self) -> Self {
        for point in other.points {
            self.add(point);
        }
        self
    }

    fn into_points(mut self) -> Vec<Scored> {
        self.shrink();
        self.points
    }
}
