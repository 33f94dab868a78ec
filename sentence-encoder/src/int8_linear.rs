//! A linear layer with weights in 8 bits, whose inputs are brought to 8 bits row by row.

use rten_gemm::{GemmInputA, GemmInputB, GemmOptions, PackedBMatrix};
use rten_tensor::Matrix;

use crate::vector_ops::greatest_size;
use crate::weights::{Weights, WeightsError};
use crate::{ByteGemm, with_gemm};

/// The value that stands for zero in a row of inputs: they are unsigned.
const ZERO: i32 = 128;
/// The greatest distance of an input from [`ZERO`].
const MOST: f32 = 127.0;
/// The number from which floats are whole numbers, each in its last bits: 2 to the power of 23.
const WHOLE: f32 = 8_388_608.0;

/// Rows in 8 bits, each with a scale, with which vectors are multiplied.
pub struct ByteMatrix(Int8Linear);

impl ByteMatrix {
    /// Creates a matrix of rows with this number of columns. `None` when the sizes do not fit.
    #[must_use]
    pub fn new(values: &[i8], scale: Vec<f32>, columns: usize) -> Option<Self> {
        let rows = scale.len();
        if columns == 0 || rows == 0 || rows.checked_mul(columns)? != values.len() {
            return None;
        }
        Some(Self(Int8Linear::new(values, columns, scale, vec![0.0; rows])))
    }

    /// The number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.0.outputs()
    }

    /// Returns the product of each row with each vector of `x`, which is brought to 8 bits: the products of
    /// the first vector, then those of the next. Empty when `x` is not made of vectors as long as the rows.
    #[must_use]
    pub fn apply(&self, x: &[f32]) -> Vec<f32> {
        match x.len().is_multiple_of(self.0.inputs) {
            true => self.0.apply(x),
            false => Vec::new(),
        }
    }
}

impl std::fmt::Debug for ByteMatrix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ByteMatrix({} x {})", self.rows(), self.0.inputs)
    }
}

/// A linear layer.
pub(crate) struct Int8Linear {
    inputs: usize,
    /// The weights, in the order in which the processor reads them.
    weight: PackedBMatrix<i8>,
    /// The scale of each output.
    scale: Vec<f32>,
    bias: Vec<f32>,
    /// The sum of each output for inputs that are all [`ZERO`].
    offset: Vec<i32>,
}

impl Int8Linear {
    /// Reads layers with the same inputs as one layer that has the outputs of all.
    pub(crate) fn load(
        weights: &Weights<'_>,
        names: &[String],
        inputs: usize,
    ) -> Result<Self, WeightsError> {
        let (mut values, mut scale, mut bias) = (Vec::new(), Vec::new(), Vec::new());
        for name in names {
            values.extend(weights.signed_bytes(&format!("{name}.weight.q8"), inputs)?);
            scale.extend(weights.floats(&format!("{name}.weight.scale"))?);
            bias.extend(weights.floats(&format!("{name}.bias"))?);
        }
        let outputs = values.len() / inputs;
        if scale.len() != outputs || bias.len() != outputs {
            return Err(WeightsError::Shape(names.join(", ")));
        }
        Ok(Self::new(&values, inputs, scale, bias))
    }

    /// Creates a layer. `values` has a row for each output.
    fn new(values: &[i8], inputs: usize, scale: Vec<f32>, bias: Vec<f32>) -> Self {
        let sum = |row: &[i8]| row.iter().map(|value| i32::from(*value)).sum::<i32>();
        let offset = values.chunks_exact(inputs).map(|row| ZERO * sum(row)).collect();
        let matrix = Matrix::from_data([scale.len(), inputs], values);
        let weight = with_gemm(|gemm| gemm.prepack_b(matrix.transposed()));
        Self { inputs, weight, scale, bias, offset }
    }

    /// The number of outputs.
    pub(crate) fn outputs(&self) -> usize {
        self.bias.len()
    }

    /// Applies the layer to each row of `x`.
    #[inline(always)]
    pub(crate) fn apply(&self, x: &[f32]) -> Vec<f32> {
        let mut bytes = vec![0; x.len()];
        let mut scales = Vec::with_capacity(x.len() / self.inputs);
        for (row, bytes) in x.chunks_exact(self.inputs).zip(bytes.chunks_exact_mut(self.inputs)) {
            scales.push(to_bytes(row, bytes));
        }
        let products = with_gemm(|gemm| self.multiply(gemm, &bytes));
        let mut out = Vec::with_capacity(products.len());
        for (products, row_scale) in products.chunks_exact(self.outputs()).zip(scales) {
            let outputs = products.iter().zip(&self.offset).zip(&self.scale).zip(&self.bias);
            out.extend(outputs.map(|(((product, offset), scale), bias)| {
                (product - offset) as f32 * (row_scale * scale) + bias
            }));
        }
        out
    }

    fn multiply(&self, gemm: &ByteGemm, bytes: &[u8]) -> Vec<i32> {
        if !gemm.may_saturate() {
            return self.multiply_exactly(gemm, bytes);
        }
        // Some processors add two products in 16 bits: they fit when an input has 7 bits.
        let halves: Vec<_> = bytes.iter().map(|byte| byte >> 1).collect();
        let rests: Vec<_> = bytes.iter().map(|byte| byte & 1).collect();
        let halves = self.multiply_exactly(gemm, &halves);
        let rests = self.multiply_exactly(gemm, &rests);
        halves.into_iter().zip(rests).map(|(half, rest)| 2 * half + rest).collect()
    }

    fn multiply_exactly(&self, gemm: &ByteGemm, bytes: &[u8]) -> Vec<i32> {
        let rows = bytes.len() / self.inputs;
        let mut products = vec![0; rows * self.outputs()];
        gemm.gemm(
            &mut products,
            GemmInputA::Unpacked(Matrix::from_data([rows, self.inputs], bytes)),
            GemmInputB::Packed(&self.weight),
            GemmOptions::default(),
        )
        .expect("the sizes are those of the layer");
        products
    }
}

/// Brings a row to 8 bits. Returns the size of a step.
#[inline(always)]
fn to_bytes(row: &[f32], bytes: &mut [u8]) -> f32 {
    let most = greatest_size(row);
    let steps = if most > 0.0 { MOST / most } else { 0.0 };
    for (value, byte) in row.iter().zip(bytes) {
        // At this size, a float has no fraction: the sum is rounded, and its last bits are the number.
        *byte = (value * steps + (ZERO as f32 + WHOLE)).to_bits() as u8;
    }
    most / MOST
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values that repeat after a long time, from -1 to 1.
    fn values(count: usize, seed: u32) -> Vec<f32> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        };
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn products_are_those_of_plain_arithmetic() {
        let (inputs, outputs, rows) = (96, 40, 7);
        let weights: Vec<i8> =
            values(inputs * outputs, 1).iter().map(|value| (value * 127.0) as i8).collect();
        let layer = Int8Linear::new(&weights, inputs, values(outputs, 2), values(outputs, 3));
        let x = values(rows * inputs, 4);
        let mut expected = Vec::new();
        for row in x.chunks_exact(inputs) {
            let mut bytes = vec![0; inputs];
            let step = to_bytes(row, &mut bytes);
            for (output, weights) in weights.chunks_exact(inputs).enumerate() {
                let pairs = bytes.iter().zip(weights);
                let sum: i32 =
                    pairs.map(|(byte, w)| (i32::from(*byte) - ZERO) * i32::from(*w)).sum();
                expected.push(sum as f32 * (step * layer.scale[output]) + layer.bias[output]);
            }
        }
        assert_eq!(layer.apply(&x), expected);
    }

    #[test]
    fn inputs_keep_their_sign_and_size() {
        let mut bytes = [0; 4];
        let step = to_bytes(&[0.0, 1.0, -1.0, 0.5], &mut bytes);
        assert_eq!(bytes, [128, 255, 1, 192]);
        assert!((step - 1.0 / 127.0).abs() < 1e-9);
        assert_eq!((to_bytes(&[0.0; 4], &mut bytes), bytes), (0.0, [128; 4]));
    }
}
