//! The vectors of accepted intents, and the part that they have in the vector of a capability. Pure
//! arithmetic.
//!
//! An accepted intent is the text of a search after which the run of a capability succeeded. Only its vector
//! is kept. Three bounds: a reporter has at most [`SLOTS`] vectors for a capability, and the same intent again
//! takes the same slot; no reporter counts more than twice the average one, as for outcomes; and the intents
//! of few reporters count less than those of many.

use crate::embed::{Embedding, to_unit};
use crate::outcome_weighting::{fair_limit, limit_factor};

/// The maximum number of vectors of one reporter for a capability.
pub(crate) const SLOTS: u8 = 8;
/// The maximum number of vectors for a capability: at least one for each possible reporter.
pub(crate) const MAX_VECTORS: usize = 256;
/// The distance between the used part and the current part after which the index takes the current one.
const MATERIAL_DISTANCE: f32 = 0.1;

/// The weight of learned intents in the vectors of an embedder, beside the text of the capability with 1. It
/// is reached with many reporters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LearnedWeight(pub f32);

impl LearnedWeight {
    /// The weight for the vectors of the index.
    pub const INDEX: Self = Self(1.0);
    /// The weight for the vectors of the sentence encoder.
    pub const SENTENCE: Self = Self(1.0);
}

/// The vector of an accepted intent, of length one.
#[derive(Debug, Clone, PartialEq)]
pub struct AcceptedIntent {
    /// The slot of the reporter.
    pub reporter: u8,
    /// The vector.
    pub vector: Vec<f32>,
}

/// The mean of the accepted intents of a capability. It is shorter than 1 when they differ, and when few
/// reporters have reported them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LearnedMean(pub(crate) Vec<f32>);

impl LearnedMean {
    /// Returns the mean of intents, in any order; empty without intents.
    #[must_use]
    pub fn from_intents(intents: &[AcceptedIntent]) -> Self {
        let mut counts = std::collections::BTreeMap::<u8, f64>::new();
        for intent in intents {
            *counts.entry(intent.reporter).or_default() += 1.0;
        }
        let limit = fair_limit(counts.values().copied());
        let (mut sum, mut total) = (Vec::<f32>::new(), 0.0);
        for intent in intents {
            let count = counts.get(&intent.reporter).copied().unwrap_or(1.0);
            let weight = limit_factor(limit, count);
            total += weight;
            sum.resize(sum.len().max(intent.vector.len()), 0.0);
            for (place, value) in sum.iter_mut().zip(&intent.vector) {
                *place += weight as f32 * value;
            }
        }
        let reporters = counts.len() as f64;
        let factor = reporters / (reporters + 1.0) / f64::max(total, f64::MIN_POSITIVE);
        sum.iter_mut().for_each(|value| *value *= factor as f32);
        Self(sum)
    }

    /// Adds the mean to the vector of a capability's text. A mean of another length changes nothing.
    #[must_use]
    pub fn add_to(&self, text: Embedding, weight: LearnedWeight) -> Embedding {
        let mut vector = text?;
        if vector.len() == self.0.len() {
            vector.iter_mut().zip(&self.0).for_each(|(to, value)| *to += weight.0 * value);
        }
        to_unit(vector)
    }

    /// Returns true when the index should take this mean in the place of the one that it uses.
    pub(crate) fn differs_from(&self, used: &Self) -> bool {
        if self.0.len() != used.0.len() {
            return true;
        }
        let squares = self.0.iter().zip(&used.0).map(|(a, b)| (a - b).powi(2));
        squares.sum::<f32>().sqrt() > MATERIAL_DISTANCE
    }
}
