//! Vectors that can be compared: all are of length one.

/// The vector of a text, of length one; `None` when the text has no meaning to its embedder.
pub type Embedding = Option<Vec<f32>>;

/// The number of sums that a processor can add to at once.
const SUMS: usize = 8;

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

/// Returns the cosine of two vectors of length one; 0 when one of them is missing.
pub(crate) fn cosine(probe: Option<&[f32]>, point: Option<&[f32]>) -> f32 {
    let (Some(probe), Some(point)) = (probe, point) else { return 0.0 };
    let (probe, rest_of_probe) = probe.as_chunks::<SUMS>();
    let (point, rest_of_point) = point.as_chunks::<SUMS>();
    let mut sums = [0.0; SUMS];
    for (probe, point) in probe.iter().zip(point) {
        for ((sum, a), b) in sums.iter_mut().zip(probe).zip(point) {
            *sum += a * b;
        }
    }
    let rest = rest_of_probe.iter().zip(rest_of_point).map(|(a, b)| a * b);
    sums.into_iter().chain(rest).sum()
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
