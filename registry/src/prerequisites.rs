//! Prerequisites: a capability that takes the id of something needs a search for it first. Pure.
//!
//! Who says "in which films did she play" does not say "search the person", but `GetMovieCredits` takes a
//! `person_id`, and `SearchPerson` of the same service finds it. So a hit brings the searches for what its
//! parameters name.

use crate::rank_fusion::{FusedCandidate, sort_by_relevance};
use crate::store::CapabilityId;

/// The number of the best hits that bring their prerequisites.
pub const DEMANDING_HITS: usize = 3;
/// The share of its hit's relevance that a prerequisite gets at least.
const PREREQUISITE_SHARE: f64 = 0.9;

/// A search for something that a hit takes.
#[derive(Debug, Clone, PartialEq)]
pub struct Prerequisite {
    /// The search.
    pub capability: CapabilityId,
    /// The hit that needs it.
    pub needed_by: CapabilityId,
    /// The input of the hit that takes the id.
    pub input: String,
}

/// Moves the prerequisites of the best candidates up, to the places after the hits that need them. Adds the
/// prerequisites that the search did not find. The first place never changes.
///
/// `find` names the searches for what a candidate takes, each with the input that takes it. Returns the prerequisites that got their relevance
/// from a hit, with its evidence: they are meant as probably as the hit is.
pub fn lift_prerequisites(
    candidates: &mut Vec<FusedCandidate>,
    find: impl Fn(CapabilityId) -> Vec<(CapabilityId, String)>,
) -> Vec<Prerequisite> {
    let demanding: Vec<_> = candidates
        .iter()
        .take(DEMANDING_HITS)
        .filter(|candidate| candidate.fits)
        .copied()
        .collect();
    let mut lifted: Vec<Prerequisite> = Vec::new();
    for hit in demanding {
        let needed_by = hit.capability;
        for (capability, input) in find(needed_by) {
            let least = PREREQUISITE_SHARE * hit.relevance;
            let known = candidates.iter_mut().find(|known| known.capability == capability);
            match known {
                Some(known) if known.relevance >= least => {
                    known.fits = true;
                    continue;
                }
                Some(known) => {
                    (known.relevance, known.evidence, known.fits) = (least, hit.evidence, true);
                }
                None => candidates.push(FusedCandidate {
                    capability,
                    relevance: least,
                    similarity: 0.0,
                    contradicts: false,
                    ..hit
                }),
            }
            lifted.retain(|other| other.capability != capability);
            lifted.push(Prerequisite { capability, needed_by, input });
        }
    }
    sort_by_relevance(candidates);
    lifted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::HitEvidence;

    fn candidate(id: i64, relevance: f64) -> FusedCandidate {
        FusedCandidate {
            capability: CapabilityId(id),
            relevance,
            similarity: 0.5,
            height: 3.0,
            evidence: HitEvidence::WordsAlone,
            contradicts: false,
            fits: true,
        }
    }

    #[test]
    fn what_a_hit_needs_comes_behind_it() {
        let mut found = vec![candidate(1, 0.9), candidate(2, 0.5), candidate(3, 0.85)];
        found.sort_by(|a, b| b.relevance.total_cmp(&a.relevance));
        let needs = |id: CapabilityId| match id.0 {
            1 => [2, 3, 7].map(|id| (CapabilityId(id), "person_id".to_owned())).to_vec(),
            _ => Vec::new(),
        };
        let lifted = lift_prerequisites(&mut found, needs);
        let order: Vec<_> = found.iter().map(|found| found.capability.0).collect();
        assert_eq!(order, [1, 3, 2, 7]);
        let lifted: Vec<_> = lifted.iter().map(|l| (l.capability.0, l.needed_by.0)).collect();
        assert_eq!(lifted, [(2, 1), (7, 1)]);
    }
}
