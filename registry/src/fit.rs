//! The probability that a hit is meant, and the decision that nothing fits. Pure arithmetic.
//!
//! Both come from one model: the probability that a hit does what the intent asks for. It depends on
//! absolute measures (how near the hit is, how near operations elsewhere are, how many capabilities and
//! clauses were compared) and on the relevance of the hit beside the others. It is a logistic regression on
//! the tuning sets; `docs/search-evaluation.md` has its calibration.

/// The minimum score of a strong match.
pub const STRONG_SCORE: f64 = 0.4;
/// The factor for the odds of a hit that does something else than the intent asks for.
const CONTRADICTION_ODDS: f64 = 0.2;
/// The minimum lead over operations elsewhere. A lower lead counts as this one, because a difference of the
/// descriptions alone can make operations elsewhere much nearer.
const MIN_LEAD: f64 = -0.25;
/// The maximum height that counts: about that of equal texts by the built-in embedders. Heights are infinite
/// for an embedder to which all texts are equal.
const MAX_HEIGHT: f64 = 12.0;

/// The names of the [features](FitEvidence::features), in their order.
pub const FEATURES: [&str; 6] = ["start", "height", "nearest", "lead", "among", "compared"];

/// The weights of the evidence in the logarithm of the odds.
struct ScoreModel {
    /// For each of the [`FEATURES`].
    weights: [f64; FEATURES.len()],
    relevance: f64,
    /// The minimum score of the best hit. With a lower one, nothing fits: then 8 % of the intents that
    /// something fits are turned away.
    minimum: f64,
}

/// Without the sentence encoder.
const FAST: ScoreModel = ScoreModel {
    weights: [-6.343, 0.898, 0.0, 0.0, -0.322, -0.389],
    relevance: 3.277,
    minimum: 0.13,
};
/// With it.
const QUALITY: ScoreModel = ScoreModel {
    weights: [-4.295, 1.623, -1.142, 0.552, -0.214, -0.097],
    relevance: 2.509,
    minimum: 0.17,
};

/// The evidence for and against that something fits an intent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FitEvidence {
    /// The best height of a capability, over all probes.
    pub nearest: f64,
    /// The best lead of a capability over operations elsewhere, over all probes, as a height. `None` without
    /// the sentence encoder.
    pub lead: Option<f64>,
    /// The number of searched capabilities.
    pub among: f64,
    /// The number of probes that were compared; 0 when the embedder knows no word of the intent.
    pub compared: f64,
}

impl FitEvidence {
    /// Returns the features of a hit at this height, apart from its relevance, as the model takes them. Without
    /// the sentence encoder, the best height and the lead are 0.
    #[must_use]
    pub fn features(&self, height: f64) -> [f64; FEATURES.len()] {
        let (nearest, lead) = match self.lead {
            Some(lead) => (self.nearest.min(MAX_HEIGHT), lead.clamp(MIN_LEAD, MAX_HEIGHT)),
            None => (0.0, 0.0),
        };
        [1.0, height.min(MAX_HEIGHT), nearest, lead, self.among.ln(), self.compared.ln()]
    }

    /// Returns the evidence for a hit at this height.
    pub(crate) fn at(&self, height: f64) -> HitEvidence {
        if self.compared == 0.0 {
            return HitEvidence::WordsAlone;
        }
        let model = if self.lead.is_some() { &QUALITY } else { &FAST };
        let terms = self.features(height).into_iter().zip(model.weights);
        let start = terms.map(|(feature, weight)| weight * feature).sum();
        HitEvidence::LogOdds { start, relevance: model.relevance, minimum: model.minimum }
    }
}

/// The evidence that one hit does what an intent asks for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum HitEvidence {
    /// The logarithm of the odds of a hit without relevance, and its rise with the relevance.
    LogOdds {
        /// Without relevance.
        start: f64,
        /// For a relevance of 1.
        relevance: f64,
        /// The minimum score of the best hit.
        minimum: f64,
    },
    /// The embedder knows no word of the intent, so only equal words were found.
    WordsAlone,
}

impl HitEvidence {
    /// Returns the minimum score of the best hit. With a lower one, nothing fits.
    #[must_use]
    pub fn minimum(self) -> f64 {
        match self {
            Self::WordsAlone => QUALITY.minimum,
            Self::LogOdds { minimum, .. } => minimum,
        }
    }

    /// Returns the probability that a hit with this relevance does what the intent asks for, 0 to 1. Words
    /// alone are enough to fit, but never for a strong match.
    #[must_use]
    pub fn score(self, relevance: f64, contradicts: bool) -> f64 {
        let contradiction = if contradicts { CONTRADICTION_ODDS } else { 1.0 };
        match self {
            Self::WordsAlone => QUALITY.minimum * contradiction,
            Self::LogOdds { start, relevance: rise, .. } => {
                1.0 / (1.0 + (-(start + rise * relevance)).exp() / contradiction)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::*;
    use crate::embed::{BuiltIn, SimilarityScale};
    use crate::rank_fusion::{FusedCandidate, FusionScales, ProbeHits, fuse};
    use crate::store::CapabilityId;
    use crate::vectors::VectorHit;

    fn scale() -> SimilarityScale {
        static SCALE: LazyLock<SimilarityScale> = LazyLock::new(|| BuiltIn::new().scale());
        *SCALE
    }

    /// Hits with the ids 1, 2, … at the same distance by words.
    fn probe(cosines: &[f32]) -> ProbeHits {
        let hit = |(id, cosine): (i64, &f32)| VectorHit {
            capability: CapabilityId(id),
            cosine: *cosine,
            bm25: 3.0,
            sentence: None,
        };
        ProbeHits { hits: (1..).zip(cosines).map(hit).collect(), elsewhere: None }
    }

    fn fuse_among(probes: &[ProbeHits], among: usize) -> Vec<FusedCandidate> {
        fuse(probes, &FusionScales { among, cosine: scale(), sentence: None })
    }

    fn fitting(probes: &[ProbeHits], among: usize) -> Vec<i64> {
        let candidates = fuse_among(probes, among);
        candidates.iter().filter(|c| c.fits).map(|c| c.capability.0).collect()
    }

    #[test]
    fn what_is_far_off_does_not_fit_even_as_the_best() {
        assert_eq!(fitting(&[probe(&[0.15])], 1), [0; 0]);
        assert_eq!(fitting(&[probe(&[0.35, 0.3])], 1_000), [0; 0]);
        // If one is near, others may be further off, but not far.
        assert_eq!(fitting(&[probe(&[0.5, 0.3, 0.1])], 1_000), [1, 2]);
    }

    #[test]
    fn words_alone_fit_but_are_weak() {
        let candidates = fuse_among(&[probe(&[0.0, 0.0])], 1_000);
        assert!(candidates.iter().all(|candidate| candidate.fits));
        assert!(candidates.iter().all(|candidate| candidate.score() < STRONG_SCORE));
    }

    #[test]
    fn the_best_of_many_must_be_nearer() {
        assert_eq!(fitting(&[probe(&[0.35])], 5), [1]);
        assert_eq!(fitting(&[probe(&[0.35])], 5_000), [0; 0]);
        assert_eq!(fitting(&[probe(&[0.55])], 5_000), [1]);
    }

    #[test]
    fn the_best_for_one_of_many_clauses_must_be_nearer() {
        let clauses = |number: usize, cosine: f32| {
            let mut probes = vec![probe(&[cosine]); number];
            probes.insert(0, probe(&[0.45]));
            fitting(&probes, 1_000).len()
        };
        assert_eq!([clauses(0, 0.4), clauses(10, 0.4)], [1, 0]);
        // Clauses in a script that the embedder does not know were compared with nothing.
        assert_eq!(clauses(10, 0.0), 1);
    }

    #[test]
    fn a_clause_that_fits_is_enough() {
        let whole = probe(&[0.35, 0.3]);
        assert_eq!(fitting(std::slice::from_ref(&whole), 1_000), [0; 0]);
        assert_eq!(fitting(&[whole, probe(&[0.0, 0.6])], 1_000), [1, 2]);
    }

    #[test]
    fn embedder_with_high_cosines_gets_equal_scores() {
        // One direction that all vectors share, as some models have it: 0.1 becomes 0.775.
        let share = |vector: &[f32]| {
            let own = vector.iter().map(|x| x * 0.5);
            Some(own.chain([0.75f32.sqrt()]).collect::<Vec<f32>>())
        };
        let texts: Vec<_> = SimilarityScale::texts()
            .map(|text| share(&BuiltIn::new().embed(text).unwrap()))
            .collect();
        let high = SimilarityScale::from_vectors(&texts, &texts);
        for cosine in [0.15, 0.35, 0.5] {
            let score = |cosine: f32, scale| {
                let scales = FusionScales { among: 1_000, cosine: scale, sentence: None };
                fuse(&[probe(&[cosine])], &scales)[0].score()
            };
            let difference = score(cosine, scale()) - score(0.75 + 0.25 * cosine, high);
            assert!(difference.abs() < 1e-3, "{cosine}: {difference}");
        }
    }

    #[test]
    fn embedder_to_which_all_texts_are_equal_rejects_nothing() {
        let equal = Some(vec![1.0]);
        let cosine =
            SimilarityScale::from_vectors(&[equal.clone(), equal.clone()], &[equal.clone(), equal]);
        let scales = FusionScales { among: 1_000, cosine, sentence: None };
        assert!(fuse(&[probe(&[1.0, 1.0])], &scales).iter().all(|candidate| candidate.fits));
    }

    #[test]
    fn what_is_nearer_elsewhere_is_less_probable() {
        let score = |elsewhere: f64| {
            let probe = ProbeHits { elsewhere: Some(elsewhere), ..probe(&[0.35]) };
            fuse_among(&[probe], 100)[0].score()
        };
        assert!(score(2.0) > 1.2 * score(3.5));
        // Much nearer says no more than nearer.
        assert_eq!(score(7.0), score(9.0));
    }
}
