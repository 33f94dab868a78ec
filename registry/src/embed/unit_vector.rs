//! Vectors that can be compared: all are of length one.

/// The vector of a text, of length one; `None` when the text has no meaning to its embedder.
pub type Embedding = Option<Vec<f32>>;

/// Scales a vector to length one. Returns `None` when its length is too small or not finite.
pub(crate) fn to_unit(mut vector: Vec<f32>) -> Embedding {
    // In double precision, because squares of what others send may be out of range.
    let length = vector.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
    if !length.is_finite() || length <= f64::from(f32::EPSILON) {
        return None;
    }
    vector.iter_mut().for_each(|x| *x = (f64::from(*x) / length) as f32);
    Some(vector)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_keeps_its_direction_and_has_length_one() {
        assert_eq!(to_unit(vec![3.0, -4.0]), Some(vec![0.6, -0.8]));
        assert_eq!(to_unit(vec![f32::MAX, 0.0]), Some(vec![1.0, 0.0]));
        for none in [vec![], vec![0.0, 0.0], vec![f32::NAN, 1.0], vec![f32::INFINITY]] {
            assert_eq!(to_unit(none), None);
        }
    }
}
