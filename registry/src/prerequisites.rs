//! Prerequisites: a capability that takes the id of something needs a search for it first. Pure.
//!
//! Who says "in which films did she play" does not say "search the person", but `GetMovieCredits` takes a
//! `person_id`, and `SearchPerson` of the same service finds it. So a hit brings the searches for what its
//! parameters name.

use std::collections::BTreeSet;

use crate::bm25::terms;
use crate::rank_fusion::{FusedCandidate, sort_by_relevance};
use crate::store::CapabilityId;

/// The words by which the name of a capability says that it searches, as names write them.
pub const SEARCH_WORDS: [&str; 4] = ["Find", "Lookup", "Query", "Search"];
/// The stems of the words by which the name of a capability says that it searches.
const SEARCH_VERBS: [&str; 4] = ["find", "lookup", "queri", "search"];
/// The number of the best hits that bring their prerequisites.
pub const DEMANDING_HITS: usize = 3;
/// The share of its hit's relevance that a prerequisite gets at least.
const PREREQUISITE_SHARE: f64 = 0.9;

/// The stems of the words for something that has an id.
pub type Entity = BTreeSet<String>;

/// Returns the entity whose id a parameter takes: `person` for `person_id` and `personIds`.
#[must_use]
pub fn entity_of_parameter(name: &str) -> Option<Entity> {
    let mut words = terms(name);
    let is_id = words.pop()? == "id";
    (is_id && !words.is_empty()).then(|| words.into_iter().collect())
}

/// Returns the words for what a capability searches, by its name. Empty when it is no search.
#[must_use]
pub fn searched_words(name: &str) -> Entity {
    let mut words: Entity = terms(name).into_iter().collect();
    let all = words.len();
    words.retain(|word| !SEARCH_VERBS.contains(&word.as_str()));
    if words.len() < all { words } else { Entity::new() }
}

/// A search for something that a hit takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prerequisite {
    /// The search.
    pub capability: CapabilityId,
    /// The hit that needs it.
    pub needed_by: CapabilityId,
}

/// Moves the prerequisites of the best candidates up, to the places after the hits that need them. Adds the
/// prerequisites that the search did not find. The first place never changes.
///
/// `find` names the searches for what a candidate takes. Returns the prerequisites that got their relevance
/// from a hit, with its evidence: they are meant as probably as the hit is.
pub fn lift_prerequisites(
    candidates: &mut Vec<FusedCandidate>,
    find: impl Fn(CapabilityId) -> Vec<CapabilityId>,
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
        for capability in find(needed_by) {
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
            lifted.push(Prerequisite { capability, needed_by });
        }
    }
    sort_by_relevance(candidates);
    lifted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::HitEvidence;

    fn entity(words: &[&str]) -> Entity {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn a_parameter_names_what_it_takes_the_id_of() {
        for (name, words) in [
            ("person_id", &["person"][..]),
            ("personIds", &["person"]),
            ("tv_show_id", &["tv", "show"]),
        ] {
            assert_eq!(entity_of_parameter(name), Some(entity(words)), "{name}");
        }
        for name in ["id", "ids", "person", "identity", "paid", ""] {
            assert_eq!(entity_of_parameter(name), None, "{name}");
        }
    }

    #[test]
    fn a_search_is_known_by_its_name() {
        assert_eq!(searched_words("SearchPersons"), entity(&["person"]));
        assert_eq!(searched_words("find_tv_show"), entity(&["tv", "show"]));
        assert_eq!(searched_words("GetPerson"), Entity::new());
        assert!(SEARCH_VERBS.is_sorted());
    }

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
            1 => vec![CapabilityId(2), CapabilityId(3), CapabilityId(7)],
            _ => Vec::new(),
        };
        let lifted = lift_prerequisites(&mut found, needs);
        let order: Vec<_> = found.iter().map(|found| found.capability.0).collect();
        assert_eq!(order, [1, 3, 2, 7]);
        let lifted: Vec<_> = lifted.iter().map(|l| (l.capability.0, l.needed_by.0)).collect();
        assert_eq!(lifted, [(2, 1), (7, 1)]);
    }
}
