//! Sums and maxima in as many partial results as the widest vector registers hold.
//!
//! One sum after the other would have to wait for each addition. The number of partial results is the same
//! on every processor, and so is the result.

/// The number of partial results.
pub(crate) const VECTOR_WIDTH: usize = 16;

/// Returns the sum of a function of the values.
#[inline(always)]
pub(crate) fn sum(values: &[f32], of: impl Fn(f32) -> f32) -> f32 {
    let (chunks, rest) = values.as_chunks::<VECTOR_WIDTH>();
    let mut partials = [0.0; VECTOR_WIDTH];
    for chunk in chunks {
        partials.iter_mut().zip(chunk).for_each(|(partial, value)| *partial += of(*value));
    }
    partials.iter().sum::<f32>() + rest.iter().map(|value| of(*value)).sum::<f32>()
}

/// Sets `out` to the sum of rows, each of at least its length and with a weight. Only full groups of
/// [`VECTOR_WIDTH`] values are set.
#[inline(always)]
pub(crate) fn weighted_sum<'r, I>(out: &mut [f32], rows: impl Fn() -> I)
where
    I: Iterator<Item = (f32, &'r [f32])>,
{
    let (chunks, _) = out.as_chunks_mut::<VECTOR_WIDTH>();
    for (number, chunk) in chunks.iter_mut().enumerate() {
        // It stays in a register until all rows are added.
        let mut partials = [0.0; VECTOR_WIDTH];
        for (weight, row) in rows() {
            let row = &row[number * VECTOR_WIDTH..][..VECTOR_WIDTH];
            partials.iter_mut().zip(row).for_each(|(partial, value)| *partial += weight * value);
        }
        *chunk = partials;
    }
}

/// Returns the greatest distance of a value from zero.
#[inline(always)]
pub(crate) fn greatest_size(values: &[f32]) -> f32 {
    let (chunks, rest) = values.as_chunks::<VECTOR_WIDTH>();
    let greater = |most: &mut f32, value: &f32| {
        let size = value.abs();
        *most = if *most < size { size } else { *most };
    };
    let mut partials = [0.0; VECTOR_WIDTH];
    for chunk in chunks {
        partials.iter_mut().zip(chunk).for_each(|(partial, value)| greater(partial, value));
    }
    let mut most = 0.0;
    partials.iter().chain(rest).for_each(|value| greater(&mut most, value));
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_added_by_their_weights() {
        let (ones, twos) = ([1.0; 2 * VECTOR_WIDTH], [2.0; 2 * VECTOR_WIDTH]);
        let mut out = [9.0; 2 * VECTOR_WIDTH];
        weighted_sum(&mut out, || [(0.5, &ones[..]), (2.0, &twos[..])].into_iter());
        assert_eq!(out, [4.5; 2 * VECTOR_WIDTH]);
        weighted_sum(&mut out, std::iter::empty);
        assert_eq!(out, [0.0; 2 * VECTOR_WIDTH]);
    }

    #[test]
    fn every_value_counts() {
        let values: Vec<f32> = (0u8..39).map(|value| f32::from(value) - 30.0).collect();
        assert_eq!(sum(&values, |value| 2.0 * value), 2.0 * (741.0 - 30.0 * 39.0));
        assert_eq!(greatest_size(&values), 30.0);
        assert_eq!(greatest_size(&values[20..]), 10.0);
        assert_eq!((sum(&[], |value| value), greatest_size(&[])), (0.0, 0.0));
    }
}
