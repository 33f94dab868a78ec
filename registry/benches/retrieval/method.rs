//! Ways to make one order of what the probes found.

use std::collections::BTreeMap;

use registry::retrieval::{CapabilityId, ProbeHits, VectorHit, fuse};

use crate::set::Shelf;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scores {
    Bm25,
    /// The index's cosines.
    Dense,
    /// The sentence encoder's cosines, of what the index found.
    Sentence,
    /// Reciprocal ranks of BM25 and cosines, each plus 60.
    Rrf,
    /// Fused, before services and prerequisites count.
    Fused,
    /// Before prerequisites count.
    WithServices,
    /// What the registry does.
    Product,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Method {
    pub(crate) name: &'static str,
    scores: Scores,
    has_clauses: bool,
}

const fn method(name: &'static str, scores: Scores, has_clauses: bool) -> Method {
    Method { name, scores, has_clauses }
}

/// The first is what the others are compared with, the last is the product.
pub(crate) const METHODS: [Method; 10] = [
    method("BM25", Scores::Bm25, false),
    method("BM25, clauses", Scores::Bm25, true),
    method("dense, clauses", Scores::Dense, true),
    method("sentences, clauses", Scores::Sentence, true),
    method("RRF60", Scores::Rrf, false),
    method("RRF60, clauses", Scores::Rrf, true),
    method("fused", Scores::Fused, false),
    method("fused, clauses", Scores::Fused, true),
    method("with services", Scores::WithServices, true),
    method("product", Scores::Product, true),
];

impl Method {
    /// The best first.
    pub(crate) fn order(&self, shelf: &Shelf<'_>, probes: &[ProbeHits]) -> Vec<CapabilityId> {
        let probes = if self.has_clauses { probes } else { &probes[..1] };
        if self.scores == Scores::Rrf {
            return reciprocal(probes);
        }
        // With one of the scores missing everywhere, fusion keeps the order of the others.
        let kept = |hit: &VectorHit| match self.scores {
            Scores::Bm25 => VectorHit { cosine: 0.0, sentence: None, ..*hit },
            Scores::Dense => VectorHit { bm25: 0.0, sentence: None, ..*hit },
            Scores::Sentence => {
                VectorHit { bm25: 0.0, cosine: hit.sentence.unwrap_or(hit.cosine), ..*hit }
            }
            _ => *hit,
        };
        let keep = |probe: &ProbeHits| ProbeHits {
            hits: probe.hits.iter().map(kept).collect(),
            elsewhere: probe.elsewhere,
        };
        let probes: Vec<_> = probes.iter().map(keep).collect();
        let mut found = fuse(&probes, shelf.scales());
        let has_services = match self.scores {
            Scores::WithServices => true,
            Scores::Product => shelf.scales().counts_services(),
            _ => false,
        };
        if has_services {
            shelf.lift_services(&mut found);
        }
        if self.scores == Scores::Product {
            shelf.lift_prerequisites(&mut found);
        }
        let found = found.into_iter().filter(|candidate| candidate.relevance > 0.0);
        found.map(|candidate| candidate.capability).collect()
    }
}

/// The sum of the reciprocal ranks of both lists; of several probes the best counts.
fn reciprocal(probes: &[ProbeHits]) -> Vec<CapabilityId> {
    let mut best: BTreeMap<CapabilityId, f64> = BTreeMap::new();
    for (index, probe) in probes.iter().enumerate() {
        let discount = if index == 0 { 1.0 } else { 0.9 };
        let mut sums: BTreeMap<CapabilityId, f64> = BTreeMap::new();
        for score in [|found: &VectorHit| found.cosine, |found: &VectorHit| found.bm25] {
            let mut list: Vec<_> = probe.hits.iter().filter(|found| score(found) > 0.0).collect();
            list.sort_by(|a, b| score(b).total_cmp(&score(a)));
            for (rank, found) in (1u32..).zip(list) {
                *sums.entry(found.capability).or_default() += 1.0 / (60.0 + f64::from(rank));
            }
        }
        for (capability, sum) in sums {
            let place = best.entry(capability).or_default();
            *place = place.max(discount * sum);
        }
    }
    let mut order: Vec<_> = best.into_iter().collect();
    order.sort_by(|a, b| b.1.total_cmp(&a.1));
    order.into_iter().map(|(capability, _)| capability).collect()
}
