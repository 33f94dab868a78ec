//! A sentence transformer of the BERT family with weights in 8 bits: word pieces in, one vector per
//! position out.
//!
//! Matrices are multiplied in whole numbers, by the instructions that the processor has, so that the
//! products are the same on every processor. What is left to rounding differs by less than 1e-5. All other
//! loops are plain code that is compiled several times, for the widths of registers that processors have
//! ([`LayerPass`]); no sum depends on the width.
//!
//! The file of weights is what `tools/embedding/quantize.py` writes.
//!
//! Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers" (2018).

mod int8_linear;
mod vector_ops;
mod weights;

use std::ops::Range;

use rten_gemm::GemmExecutor;
use rten_simd::{Isa, SimdOp, SimdUnaryOp as _};
use rten_vecmath::{Gelu, Softmax};

pub use self::int8_linear::ByteMatrix;
use self::int8_linear::Int8Linear;
use self::vector_ops::{VECTOR_WIDTH, sum, weighted_sum};
pub use self::weights::WeightsError;
use self::weights::{Weights, WordTable};

/// The variance that is added before a norm, as BERT was trained.
const EPSILON: f32 = 1e-12;

/// The product of unsigned and signed bytes in whole numbers.
type ByteGemm = GemmExecutor<u8, i8, i32>;

/// Calls `work` with the means of this thread to multiply. They cannot be shared between threads, and the
/// instructions of the processor are looked up when they are made: in a virtual machine that takes long.
fn with_gemm<R>(work: impl FnOnce(&ByteGemm) -> R) -> R {
    thread_local!(static GEMM: ByteGemm = ByteGemm::new());
    GEMM.with(work)
}

/// A sentence transformer.
pub struct SentenceEncoder {
    words: WordTable,
    /// The vector of each position, plus the vector of the first sentence type.
    positions: Vec<f32>,
    norm: LayerNorm,
    layers: Vec<EncoderLayer>,
    shape: Shape,
    vocabulary: Vec<String>,
}

/// The sizes of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    /// The length of a vector.
    width: usize,
    /// The number of attention heads.
    heads: usize,
}

struct EncoderLayer {
    /// Query, key and value, side by side.
    attention: Int8Linear,
    attended: Int8Linear,
    attended_norm: LayerNorm,
    inner: Int8Linear,
    outer: Int8Linear,
    norm: LayerNorm,
}

/// One layer applied to some texts. What is inlined into `eval` is compiled for each instruction set.
struct LayerPass<'a> {
    layer: &'a EncoderLayer,
    x: &'a [f32],
    ranges: &'a [Range<usize>],
    shape: Shape,
}

impl SimdOp for LayerPass<'_> {
    type Output = Vec<f32>;

    #[inline(always)]
    fn eval<I: Isa>(self, _: I) -> Vec<f32> {
        self.layer.forward(self.x, self.ranges, self.shape)
    }
}

struct LayerNorm {
    weight: Vec<f32>,
    bias: Vec<f32>,
}

impl SentenceEncoder {
    /// Reads a model from the bytes of a file.
    ///
    /// # Errors
    /// Fails when a tensor is missing or has another type or size than its neighbours require.
    pub fn parse(file: &'static [u8], heads: usize) -> Result<Self, WeightsError> {
        let weights = Weights::parse(file)?;
        let words = weights.words("embeddings.word_embeddings.weight")?;
        let width = words.width();
        if heads == 0 || !width.is_multiple_of(heads * VECTOR_WIDTH) {
            return Err(WeightsError::Shape("the number of attention heads".to_owned()));
        }
        let mut positions = weights.floats("embeddings.position_embeddings.weight")?;
        let kinds = weights.floats("embeddings.token_type_embeddings.weight")?;
        for position in positions.chunks_exact_mut(width) {
            position.iter_mut().zip(&kinds).for_each(|(value, kind)| *value += kind);
        }
        let mut layers = Vec::new();
        while weights.has(&format!("encoder.layer.{}.output.dense.bias", layers.len())) {
            layers.push(EncoderLayer::load(&weights, layers.len(), width)?);
        }
        Ok(Self {
            words,
            positions,
            norm: LayerNorm::load(&weights, "embeddings.LayerNorm", width)?,
            layers,
            shape: Shape { width, heads },
            vocabulary: weights.vocabulary()?,
        })
    }

    /// The length of a vector.
    #[must_use]
    pub fn width(&self) -> usize {
        self.shape.width
    }

    /// The number of pieces of a text that the model distinguishes.
    #[must_use]
    pub fn positions(&self) -> usize {
        self.positions.len() / self.shape.width
    }

    /// The word pieces, in the order of their numbers.
    #[must_use]
    pub fn vocabulary(&self) -> &[String] {
        &self.vocabulary
    }

    /// Returns the last layer for several texts, each given by the numbers of its pieces: one vector of
    /// [`Self::width`] per piece, text after text.
    ///
    /// A piece that the model does not have counts as the first one, and so does a position.
    ///
    /// The work is done on as many threads as the current pool of `rayon` has. One is best for the texts of
    /// searches: to hand their small products over costs more than it saves.
    #[must_use]
    pub fn encode(&self, texts: &[&[u32]]) -> Vec<f32> {
        let width = self.shape.width;
        let mut rows = 0..0;
        let ranges: Vec<Range<usize>> = texts
            .iter()
            .map(|text| {
                rows = rows.end..rows.end + text.len();
                rows.clone()
            })
            .collect();
        let mut x = vec![0.0; rows.end * width];
        let pieces = texts.iter().flat_map(|text| text.iter().copied().zip(0..));
        for (row, (piece, position)) in x.chunks_exact_mut(width).zip(pieces) {
            let known = if position < self.positions() { position } else { 0 };
            row.copy_from_slice(&self.positions[known * width..][..width]);
            self.words.add_to(piece, row);
        }
        self.norm.apply(&mut x);
        for layer in &self.layers {
            x = LayerPass { layer, x: &x, ranges: &ranges, shape: self.shape }.dispatch();
        }
        x
    }
}

impl std::fmt::Debug for SentenceEncoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Shape { width, heads } = self.shape;
        let layers = self.layers.len();
        write!(f, "SentenceEncoder({layers} layers, {heads} heads, {width} wide)")
    }
}

impl EncoderLayer {
    fn load(weights: &Weights<'_>, number: usize, width: usize) -> Result<Self, WeightsError> {
        let at = |part: &str| format!("encoder.layer.{number}.{part}");
        let linear = |names: &[&str], inputs: usize| {
            let names: Vec<_> = names.iter().map(|name| at(name)).collect();
            Int8Linear::load(weights, &names, inputs)
        };
        let inner = linear(&["intermediate.dense"], width)?;
        Ok(Self {
            attention: linear(
                &["attention.self.query", "attention.self.key", "attention.self.value"],
                width,
            )?,
            attended: linear(&["attention.output.dense"], width)?,
            attended_norm: LayerNorm::load(weights, &at("attention.output.LayerNorm"), width)?,
            outer: linear(&["output.dense"], inner.outputs())?,
            inner,
            norm: LayerNorm::load(weights, &at("output.LayerNorm"), width)?,
        })
    }

    #[inline(always)]
    fn forward(&self, x: &[f32], ranges: &[Range<usize>], shape: Shape) -> Vec<f32> {
        let projected = self.attention.apply(x);
        let mixed = attend(&projected, ranges, shape);
        let mut attended = self.attended.apply(&mixed);
        add(&mut attended, x);
        self.attended_norm.apply(&mut attended);
        let mut inner = self.inner.apply(&attended);
        Gelu {}.map_mut(&mut inner);
        let mut out = self.outer.apply(&inner);
        add(&mut out, &attended);
        self.norm.apply(&mut out);
        out
    }
}

impl LayerNorm {
    fn load(weights: &Weights<'_>, name: &str, width: usize) -> Result<Self, WeightsError> {
        let read = |part: &str| {
            let name = format!("{name}.{part}");
            let values = weights.floats(&name)?;
            if values.len() == width { Ok(values) } else { Err(WeightsError::Shape(name)) }
        };
        Ok(Self { weight: read("weight")?, bias: read("bias")? })
    }

    #[inline(always)]
    fn apply(&self, x: &mut [f32]) {
        let width = self.weight.len();
        for row in x.chunks_exact_mut(width) {
            let mean = sum(row, |value| value) / width as f32;
            let variance = sum(row, |value| (value - mean) * (value - mean)) / width as f32;
            let scale = 1.0 / (variance + EPSILON).sqrt();
            for ((value, weight), bias) in row.iter_mut().zip(&self.weight).zip(&self.bias) {
                *value = (*value - mean) * scale * weight + bias;
            }
        }
    }
}

/// Mixes the values of each text by the attention of its positions to each other. A row of `projected`
/// has the queries of all heads, then their keys, then their values.
#[inline(always)]
fn attend(projected: &[f32], ranges: &[Range<usize>], shape: Shape) -> Vec<f32> {
    let Shape { width, heads } = shape;
    let size = width / heads;
    let scale = 1.0 / (size as f32).sqrt();
    let part = |row: usize, which: usize, head: usize| {
        &projected[row * 3 * width + which * width + head * size..][..size]
    };
    let mut mixed = vec![0.0; projected.len() / 3];
    let (mut keys, mut scores) = (Vec::new(), Vec::new());
    for rows in ranges {
        // With one key in each column, a query is compared with many keys at once.
        let columns = rows.len().next_multiple_of(VECTOR_WIDTH);
        keys.clear();
        keys.resize(size * columns, 0.0);
        scores.resize(columns, 0.0);
        for head in 0..heads {
            for (column, row) in rows.clone().enumerate() {
                let key = part(row, 1, head);
                for (value, line) in key.iter().zip(keys.chunks_exact_mut(columns)) {
                    line[column] = *value;
                }
            }
            for row in rows.clone() {
                let query = part(row, 0, head);
                let lines = || query.iter().copied().zip(keys.chunks_exact(columns));
                weighted_sum(&mut scores, lines);
                let scores = &mut scores[..rows.len()];
                scores.iter_mut().for_each(|score| *score *= scale);
                Softmax::new_mut(scores).dispatch();
                let scores = &*scores;
                let values = || {
                    let values = rows.clone().map(|other| part(other, 2, head));
                    scores.iter().copied().zip(values)
                };
                weighted_sum(&mut mixed[row * width + head * size..][..size], values);
            }
        }
    }
    mixed
}

#[inline(always)]
fn add(x: &mut [f32], more: &[f32]) {
    x.iter_mut().zip(more).for_each(|(value, more)| *value += more);
}
