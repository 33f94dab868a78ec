//! Calibration of cosines, which differ from embedder to embedder.

use serde::{Deserialize, Serialize};

use super::Embedding;

/// Short texts about many different subjects, one in a line. They are about the subjects of capabilities,
/// but none of them describes a capability. Only [`SimilarityScale`] depends on them.
static UNRELATED: &str = include_str!("../../data/unrelated.txt");

/// The minimum deviation. With a smaller one, the embedder finds all texts alike.
const MIN_DEVIATION: f64 = 1e-3;

/// The distribution of an embedder's cosines between unrelated texts.
///
/// One embedder gives such texts cosines around 0.05, another around 0.75. So the nearness of two texts is
/// measured in standard deviations above the mean of such pairs, which means the same with every embedder.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SimilarityScale {
    mean: f64,
    deviation: f64,
}

impl SimilarityScale {
    /// Returns the texts that have little to do with each other.
    pub fn texts() -> impl Iterator<Item = &'static str> {
        UNRELATED.lines()
    }

    /// The scale of an embedder that has embedded the texts of [`Self::texts`], as queries and as
    /// documents.
    #[must_use]
    pub fn from_vectors(queries: &[Embedding], documents: &[Embedding]) -> Self {
        let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
        for (place, query) in queries.iter().enumerate() {
            for (other, document) in documents.iter().enumerate() {
                let (Some(query), Some(document)) = (query, document) else { continue };
                if place == other {
                    continue;
                }
                let products = query.iter().zip(document).map(|(a, b)| f64::from(a * b));
                let cosine: f64 = products.sum();
                (count, sum, squares) = (count + 1.0, sum + cosine, squares + cosine * cosine);
            }
        }
        let mean = sum / f64::max(count, 1.0);
        let variance = squares / f64::max(count, 1.0) - mean * mean;
        Self { mean, deviation: variance.max(0.0).sqrt() }
    }

    /// The number of standard deviations of a cosine above the mean. Infinite when the embedder gives all
    /// texts the same cosine: then it cannot separate unrelated texts.
    #[must_use]
    pub fn height(self, cosine: f64) -> f64 {
        if self.deviation < MIN_DEVIATION {
            return f64::INFINITY;
        }
        (cosine - self.mean) / self.deviation
    }

    /// Returns the cosine at a height.
    #[must_use]
    pub fn cosine(self, height: f64) -> f64 {
        self.mean + height * self.deviation
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embed::BuiltIn;

    #[test]
    fn text_is_compared_only_with_other_vectors() {
        let texts = [Some(vec![1.0, 0.0]), Some(vec![0.6, 0.8]), None, Some(vec![0.0, 1.0])];
        let scale = SimilarityScale::from_vectors(&texts, &texts);
        // 0.6, 0 and 0.8, both ways.
        let mean: f64 = 1.4 / 3.0;
        let deviation = (1.0 / 3.0 - mean * mean).sqrt();
        assert!((scale.height(1.0) - (1.0 - mean) / deviation).abs() < 1e-5);
        assert!((scale.height(scale.cosine(2.5)) - 2.5).abs() < 1e-9);
    }

    #[test]
    fn who_finds_all_texts_alike_cannot_tell_what_is_far_off() {
        let alike = vec![Some(vec![1.0, 0.0]); 5];
        assert_eq!(SimilarityScale::from_vectors(&alike, &alike).height(0.0), f64::INFINITY);
        assert_eq!(SimilarityScale::from_vectors(&[], &[]).height(0.0), f64::INFINITY);
    }

    #[test]
    fn built_in_embedder_separates_different_texts() {
        let texts: std::collections::BTreeSet<_> = SimilarityScale::texts().collect();
        assert!(texts.len() == 64 && texts.len() == SimilarityScale::texts().count());
        let scale = BuiltIn::new().scale();
        assert!((0.0..0.1).contains(&scale.mean), "{scale:?}");
        assert!((0.05..0.12).contains(&scale.deviation), "{scale:?}");
    }
}
