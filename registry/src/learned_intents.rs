//! The vectors of accepted intents, and the part that they have in the vector of a capability. Pure
//! arithmetic.
//!
//! An accepted intent is the text of a search after which the run of a capability succeeded. Only its vector
//! is kept. Three bounds: a reporter has at most [`SLOTS`] vectors for a capability, and the same intent again
//! takes the same slot; all reporters count alike, however many intents they report; and few reporters count less
//! than many.

use std::collections::BTreeMap;

use crate::embed::{Embedding, to_unit};

/// The maximum number of vectors of one reporter for a capability.
pub(crate) const SLOTS: u8 = 16;
/// The maximum number of vectors for a capability: at least one for each possible reporter.
pub(crate) const MAX_VECTORS: i64 = 256;
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
        let mut counts = BTreeMap::<u8, f32>::new();
        for intent in intents {
            *counts.entry(intent.reporter).or_default() += 1.0;
        }
        let reporters = counts.len() as f32;
        let mut mean = Vec::new();
        for AcceptedIntent { reporter, vector } in intents {
            // Each reporter counts 1.
            let share = 1.0 / counts.get(reporter).copied().unwrap_or(1.0) / (reporters + 1.0);
            mean.resize(mean.len().max(vector.len()), 0.0);
            mean.iter_mut().zip(vector).for_each(|(sum, value)| *sum += share * value);
        }
        Self(mean)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn intent(reporter: u8, vector: [f32; 2]) -> AcceptedIntent {
        AcceptedIntent { reporter, vector: vector.to_vec() }
    }

    fn mean(intents: &[AcceptedIntent]) -> Vec<f32> {
        let LearnedMean(mean) = LearnedMean::from_intents(intents);
        mean.into_iter().map(|value| (value * 1000.0).round() / 1000.0).collect()
    }

    #[test]
    fn more_reporters_count_more_and_repetition_does_not() {
        assert_eq!(mean(&[]), [0.0; 0]);
        assert_eq!(mean(&[intent(1, [1.0, 0.0])]), [0.5, 0.0]);
        let same = [intent(1, [1.0, 0.0]), intent(1, [1.0, 0.0])];
        assert_eq!(mean(&same), [0.5, 0.0]);
        let two = [intent(1, [1.0, 0.0]), intent(2, [1.0, 0.0])];
        assert_eq!(mean(&two), [0.667, 0.0]);
        // Those that differ dilute each other.
        assert_eq!(mean(&[intent(1, [1.0, 0.0]), intent(2, [0.0, 1.0])]), [0.333, 0.333]);
    }

    #[test]
    fn loud_reporter_counts_like_the_others() {
        let mut intents: Vec<_> = (1..10).map(|reporter| intent(reporter, [1.0, 0.0])).collect();
        intents.extend((0..16).map(|_| intent(0, [0.0, 1.0])));
        assert_eq!(mean(&intents), [0.818, 0.091]);
    }

    #[test]
    fn the_sum_is_a_vector_of_length_one() {
        let learned = LearnedMean(vec![0.0, 0.75]);
        let text = || Some(vec![1.0, 0.0]);
        assert_eq!(learned.add_to(text(), LearnedWeight(1.0)), Some(vec![0.8, 0.6]));
        assert_eq!(learned.add_to(text(), LearnedWeight(0.0)), text());
        assert_eq!(LearnedMean::default().add_to(text(), LearnedWeight(1.0)), text());
        assert_eq!(LearnedMean(vec![1.0]).add_to(text(), LearnedWeight(1.0)), text());
        assert_eq!(learned.add_to(None, LearnedWeight(1.0)), None);
    }

    #[test]
    fn the_index_follows_what_changes_much() {
        let used = LearnedMean(vec![0.5, 0.0]);
        assert!(!LearnedMean(vec![0.55, 0.05]).differs_from(&used));
        assert!(LearnedMean(vec![0.6, 0.1]).differs_from(&used));
        assert!(used.differs_from(&LearnedMean::default()));
    }
}
