//! The vector of a capability by the sentence encoder, in 8 bits.

/// The greatest value.
const MOST: f32 = 127.0;

/// A vector of length one in 8 bits: a search compares hundreds, and a registry keeps one for each
/// capability in memory.
#[derive(Debug, Clone, PartialEq)]
pub struct SentenceVector {
    values: Box<[i8]>,
    scale: f32,
}

impl SentenceVector {
    /// Rounds a vector of length one.
    #[must_use]
    pub fn from_unit(vector: &[f32]) -> Self {
        let most = vector.iter().fold(f32::MIN_POSITIVE, |most, value| most.max(value.abs()));
        let values = vector.iter().map(|value| (value / most * MOST).round() as i8).collect();
        Self { values, scale: most / MOST }
    }

    /// Returns the cosine to a vector of length one.
    #[must_use]
    pub fn cosine(&self, vector: &[f32]) -> f32 {
        let products = self.values.iter().zip(vector).map(|(a, b)| f32::from(*a) * b);
        products.sum::<f32>() * self.scale
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cosine_survives_the_rounding() {
        let (a, b) = ([0.6, -0.8, 0.0], [0.8, 0.0, 0.6]);
        let vector = SentenceVector::from_unit(&a);
        assert!((vector.cosine(&a) - 1.0).abs() < 0.01);
        assert!((vector.cosine(&b) - 0.48).abs() < 0.01);
        assert_eq!(SentenceVector::from_unit(&[0.0; 3]).cosine(&a), 0.0);
    }
}
