//! The tensors of a model, read by name and checked.

use half::f16;
use safetensors::{Dtype, SafeTensors, tensor::TensorView};

/// The number of word embeddings' values that share a scale.
const GROUP: usize = 32;

/// The reason why bytes are not a model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WeightsError {
    /// The bytes are not a file of tensors.
    #[error("this is no file of tensors: {0}")]
    File(String),
    /// A tensor is missing.
    #[error("the tensor `{0}` is missing")]
    Missing(String),
    /// A tensor has a type or a size that does not fit the others.
    #[error("the tensor `{0}` has an unexpected type or size")]
    Shape(String),
}

/// The tensors of a model.
pub(crate) struct Weights<'f>(SafeTensors<'f>);

/// A vector for each word piece, in 4 bits.
pub(crate) struct WordTable {
    /// Two values a byte, the low nibble first, each plus 8.
    values: &'static [u8],
    /// A scale for each [`GROUP`] of values.
    scales: Vec<f32>,
    width: usize,
}

impl<'f> Weights<'f> {
    pub(crate) fn parse(file: &'f [u8]) -> Result<Self, WeightsError> {
        let tensors = SafeTensors::deserialize(file);
        tensors.map(Self).map_err(|error| WeightsError::File(error.to_string()))
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.tensor(name).is_ok()
    }

    /// Returns the numbers of a tensor with 16 or 32 bits.
    pub(crate) fn floats(&self, name: &str) -> Result<Vec<f32>, WeightsError> {
        let tensor = self.tensor(name)?;
        let data = tensor.data();
        match tensor.dtype() {
            Dtype::F32 => Ok(data.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect()),
            Dtype::F16 => {
                Ok(data.as_chunks().0.iter().map(|b| f16::from_le_bytes(*b).to_f32()).collect())
            }
            _ => Err(WeightsError::Shape(name.to_owned())),
        }
    }

    /// Returns the values of a matrix in 8 bits with this number of columns.
    pub(crate) fn signed_bytes(
        &self,
        name: &str,
        columns: usize,
    ) -> Result<impl Iterator<Item = i8>, WeightsError> {
        let tensor = self.tensor(name)?;
        let is_matrix = matches!(tensor.shape(), [_, found] if *found == columns);
        if tensor.dtype() != Dtype::I8 || !is_matrix {
            return Err(WeightsError::Shape(name.to_owned()));
        }
        Ok(tensor.data().iter().map(|byte| byte.cast_signed()))
    }

    /// Returns the word pieces, in the order of their numbers.
    pub(crate) fn vocabulary(&self) -> Result<Vec<String>, WeightsError> {
        let text = str::from_utf8(self.tensor("vocabulary")?.data())
            .map_err(|_| WeightsError::Shape("vocabulary".to_owned()))?;
        Ok(text.split('\n').map(str::to_owned).collect())
    }

    fn tensor(&self, name: &str) -> Result<TensorView<'f>, WeightsError> {
        self.0.tensor(name).map_err(|_| WeightsError::Missing(name.to_owned()))
    }
}

impl Weights<'static> {
    /// Returns the table of word embeddings.
    pub(crate) fn words(&self, name: &str) -> Result<WordTable, WeightsError> {
        let tensor = self.tensor(&format!("{name}.q4"))?;
        let scales = self.floats(&format!("{name}.scale"))?;
        let width = match tensor.shape() {
            [rows, half] if *rows > 0 && scales.len() * GROUP == rows * half * 2 => 2 * half,
            _ => return Err(WeightsError::Shape(name.to_owned())),
        };
        Ok(WordTable { values: tensor.data(), scales, width })
    }
}

impl WordTable {
    /// The length of a vector.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// Adds the vector of a piece to a row.
    pub(crate) fn add_to(&self, piece: u32, row: &mut [f32]) {
        let start = piece as usize * self.width;
        let start = if start / 2 < self.values.len() { start } else { 0 };
        let bytes = self.values[start / 2..].iter();
        let values = bytes.flat_map(|byte| [byte & 15, byte >> 4]);
        let scales = self.scales[start / GROUP..].iter();
        let scales = scales.flat_map(|scale| std::iter::repeat_n(scale, GROUP));
        for ((place, value), scale) in row.iter_mut().zip(values).zip(scales) {
            *place += (f32::from(value) - 8.0) * scale;
        }
    }
}
