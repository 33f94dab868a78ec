//! The forward pass of a BERT encoder: pieces in, one vector per position out.
//!
//! Texts of different lengths go through together without padding: what concerns one position alone
//! is one product over the positions of all texts, and attention looks at one text at a time.
//!
//! Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers" (2018).

use std::ops::Range;

use ndarray::{Array1, Array2, ArrayView2, Axis, Slice};
use safetensors::{Dtype, SafeTensors};
use serde::Deserialize;

/// The limits of a model. Larger models are rejected.
const MAX_WIDTH: usize = 4096;
const MAX_LAYERS: usize = 64;
const MAX_POSITIONS: usize = 8192;

/// The content of `config.json`.
#[derive(Debug, Deserialize)]
pub(super) struct Config {
    model_type: String,
    hidden_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    intermediate_size: usize,
    vocab_size: usize,
    max_position_embeddings: usize,
    #[serde(default = "usual_epsilon")]
    layer_norm_eps: f32,
    #[serde(default = "usual_activation")]
    hidden_act: String,
    position_embedding_type: Option<String>,
}

fn usual_epsilon() -> f32 {
    1e-12
}

fn usual_activation() -> String {
    "gelu".to_owned()
}

#[derive(Debug)]
pub(super) struct BertEncoder {
    words: Array2<f32>,
    /// The vector of each position, plus the vector of the first sentence type.
    positions: Array2<f32>,
    norm: LayerNorm,
    layers: Vec<EncoderLayer>,
    heads: usize,
    activation: fn(f32) -> f32,
}

#[derive(Debug)]
struct EncoderLayer {
    query: LinearLayer,
    key: LinearLayer,
    value: LinearLayer,
    attended: LinearLayer,
    attended_norm: LayerNorm,
    inner: LinearLayer,
    outer: LinearLayer,
    norm: LayerNorm,
}

#[derive(Debug)]
struct LinearLayer {
    /// The weights, with one row for each output.
    weight: Array2<f32>,
    bias: Array1<f32>,
}

#[derive(Debug)]
struct LayerNorm {
    weight: Array1<f32>,
    bias: Array1<f32>,
    epsilon: f32,
}

impl Config {
    /// Checks everything that does not depend on the weights.
    ///
    /// # Errors
    /// Fails when the family of the model is not supported, or a size is out of bounds.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.model_type != "bert" {
            return Err(format!("`{}` models are not supported, only `bert`", self.model_type));
        }
        if self.position_embedding_type.as_deref().is_some_and(|kind| kind != "absolute") {
            return Err("only `absolute` positions are supported".to_owned());
        }
        let heads = self.num_attention_heads;
        let is_bounded = (1..=MAX_WIDTH).contains(&self.hidden_size)
            && (1..=4 * MAX_WIDTH).contains(&self.intermediate_size)
            && (1..=MAX_LAYERS).contains(&self.num_hidden_layers)
            && (3..=MAX_POSITIONS).contains(&self.max_position_embeddings);
        if !is_bounded || heads == 0 || !self.hidden_size.is_multiple_of(heads) {
            return Err("its sizes are out of bounds".to_owned());
        }
        self.activation().map(drop)
    }

    fn activation(&self) -> Result<fn(f32) -> f32, String> {
        match self.hidden_act.as_str() {
            "gelu" => Ok(|x| 0.5 * x * (1.0 + libm::erff(x * std::f32::consts::FRAC_1_SQRT_2))),
            "gelu_new" | "gelu_pytorch_tanh" => Ok(|x| {
                let inner = (2.0 / std::f32::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3));
                0.5 * x * (1.0 + inner.tanh())
            }),
            "relu" => Ok(|x| x.max(0.0)),
            other => Err(format!("the activation `{other}` is not supported")),
        }
    }

    /// The number of positions that it distinguishes.
    pub(super) fn positions(&self) -> usize {
        self.max_position_embeddings
    }

    /// Returns the number of pieces in the vocabulary.
    pub(super) fn vocabulary(&self) -> usize {
        self.vocab_size
    }
}

impl BertEncoder {
    /// Loads the weights from `model.safetensors`.
    ///
    /// # Errors
    /// Fails when a tensor is missing, or its size differs from the configuration.
    pub(super) fn load(config: &Config, weights: &SafeTensors<'_>) -> Result<Self, String> {
        // Models that were saved with a head have their encoder below a name.
        let prefix = match weights.tensor("embeddings.LayerNorm.weight") {
            Ok(_) => "",
            Err(_) => "bert.",
        };
        let source = TensorSource { weights, prefix, epsilon: config.layer_norm_eps };
        let (width, inner) = (config.hidden_size, config.intermediate_size);
        let table = |name: &str, rows: usize| source.matrix(name, rows, width);
        let words = table("embeddings.word_embeddings.weight", config.vocab_size)?;
        let mut positions =
            table("embeddings.position_embeddings.weight", config.max_position_embeddings)?;
        let kinds = source.vector_of_rows("embeddings.token_type_embeddings.weight", width)?;
        positions += &kinds;
        let layer = |number: usize| {
            let at = |part: &str| format!("encoder.layer.{number}.{part}");
            Ok(EncoderLayer {
                query: source.linear(&at("attention.self.query"), width, width)?,
                key: source.linear(&at("attention.self.key"), width, width)?,
                value: source.linear(&at("attention.self.value"), width, width)?,
                attended: source.linear(&at("attention.output.dense"), width, width)?,
                attended_norm: source.norm(&at("attention.output.LayerNorm"), width)?,
                inner: source.linear(&at("intermediate.dense"), inner, width)?,
                outer: source.linear(&at("output.dense"), width, inner)?,
                norm: source.norm(&at("output.LayerNorm"), width)?,
            })
        };
        Ok(Self {
            words,
            positions,
            norm: source.norm("embeddings.LayerNorm", width)?,
            layers: (0..config.num_hidden_layers).map(layer).collect::<Result<_, String>>()?,
            heads: config.num_attention_heads,
            activation: config.activation()?,
        })
    }

    /// Returns the length of a vector.
    pub(super) fn width(&self) -> usize {
        self.words.ncols()
    }

    /// The last layer, with a row for each position of each text, and the range of rows of each text.
    /// Pieces or positions that the model does not have count as its first ones.
    pub(super) fn forward(&self, texts: &[Vec<u32>]) -> (Array2<f32>, Vec<Range<usize>>) {
        let mut ranges = Vec::with_capacity(texts.len());
        let total = texts.iter().map(Vec::len).sum();
        let mut x = Array2::zeros((total, self.width()));
        let mut row = 0;
        for text in texts {
            ranges.push(row..row + text.len());
            for (position, piece) in text.iter().enumerate() {
                let piece = Some(*piece as usize).filter(|piece| *piece < self.words.nrows());
                let position = Some(position).filter(|at| *at < self.positions.nrows());
                let mut place = x.row_mut(row);
                place += &self.words.row(piece.unwrap_or(0));
                place += &self.positions.row(position.unwrap_or(0));
                row += 1;
            }
        }
        self.norm.apply(&mut x);
        for layer in &self.layers {
            x = layer.forward(x, &ranges, self.heads, self.activation);
        }
        (x, ranges)
    }
}

impl EncoderLayer {
    fn forward(
        &self,
        x: Array2<f32>,
        ranges: &[Range<usize>],
        heads: usize,
        activation: fn(f32) -> f32,
    ) -> Array2<f32> {
        let (query, key, value) = (self.query.apply(&x), self.key.apply(&x), self.value.apply(&x));
        let size = x.ncols() / heads;
        let scale = 1.0 / (size as f32).sqrt();
        let mut mixed = Array2::zeros(x.raw_dim());
        for rows in ranges {
            for head in 0..heads {
                let columns = head * size..(head + 1) * size;
                let part = |x| part(x, rows, &columns);
                let mut scores = part(&query).dot(&part(&key).t());
                scores *= scale;
                softmax(&mut scores);
                let mut place = mixed.view_mut();
                place.slice_axis_inplace(Axis(0), Slice::from(rows.clone()));
                place.slice_axis_inplace(Axis(1), Slice::from(columns.clone()));
                place.assign(&scores.dot(&part(&value)));
            }
        }
        let mut x = self.attended.apply(&mixed) + x;
        self.attended_norm.apply(&mut x);
        let mut inner = self.inner.apply(&x);
        inner.mapv_inplace(activation);
        let mut out = self.outer.apply(&inner) + x;
        self.norm.apply(&mut out);
        out
    }
}

/// The part of a matrix for one head and one text.
fn part<'x>(
    x: &'x Array2<f32>,
    rows: &Range<usize>,
    columns: &Range<usize>,
) -> ArrayView2<'x, f32> {
    let mut part = x.view();
    part.slice_axis_inplace(Axis(0), Slice::from(rows.clone()));
    part.slice_axis_inplace(Axis(1), Slice::from(columns.clone()));
    part
}

/// Converts each row to shares that add up to one.
fn softmax(scores: &mut Array2<f32>) {
    for mut row in scores.rows_mut() {
        let most = row.fold(f32::NEG_INFINITY, |most, score| most.max(*score));
        row.mapv_inplace(|score| (score - most).exp());
        let sum = row.sum();
        row /= sum;
    }
}

impl LinearLayer {
    fn apply(&self, x: &Array2<f32>) -> Array2<f32> {
        x.dot(&self.weight.t()) + &self.bias
    }
}

impl LayerNorm {
    fn apply(&self, x: &mut Array2<f32>) {
        let width = x.ncols() as f32;
        for mut row in x.rows_mut() {
            let mean = row.sum() / width;
            row -= mean;
            let variance = row.iter().map(|value| value * value).sum::<f32>() / width;
            row /= (variance + self.epsilon).sqrt();
            row *= &self.weight;
            row += &self.bias;
        }
    }
}

/// A source of tensors by name that checks their sizes.
struct TensorSource<'w> {
    weights: &'w SafeTensors<'w>,
    prefix: &'static str,
    epsilon: f32,
}

impl TensorSource<'_> {
    fn read(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, String> {
        let name = format!("{}{name}", self.prefix);
        let tensor = self.weights.tensor(&name).map_err(|_| format!("`{name}` is missing"))?;
        if tensor.shape() != shape {
            return Err(format!("`{name}` is {:?}, not {shape:?}", tensor.shape()));
        }
        let data = tensor.data();
        let numbers: Vec<f32> = match tensor.dtype() {
            Dtype::F32 => data.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect(),
            Dtype::F16 => {
                data.as_chunks().0.iter().map(|b| half::f16::from_le_bytes(*b).to_f32()).collect()
            }
            Dtype::BF16 => {
                data.as_chunks().0.iter().map(|b| half::bf16::from_le_bytes(*b).to_f32()).collect()
            }
            other => return Err(format!("`{name}` has numbers of the unsupported type {other:?}")),
        };
        if !numbers.iter().all(|number| number.is_finite()) {
            return Err(format!("`{name}` has a number that is not finite"));
        }
        Ok(numbers)
    }

    fn matrix(&self, name: &str, rows: usize, columns: usize) -> Result<Array2<f32>, String> {
        let numbers = self.read(name, &[rows, columns])?;
        Array2::from_shape_vec((rows, columns), numbers).map_err(|error| error.to_string())
    }

    fn vector(&self, name: &str, length: usize) -> Result<Array1<f32>, String> {
        self.read(name, &[length]).map(Array1::from)
    }

    /// Returns the first row of a table with one or two rows.
    fn vector_of_rows(&self, name: &str, columns: usize) -> Result<Array1<f32>, String> {
        let table = self.matrix(name, 2, columns).or_else(|_| self.matrix(name, 1, columns))?;
        Ok(table.index_axis(Axis(0), 0).to_owned())
    }

    fn linear(&self, name: &str, outputs: usize, inputs: usize) -> Result<LinearLayer, String> {
        Ok(LinearLayer {
            weight: self.matrix(&format!("{name}.weight"), outputs, inputs)?,
            bias: self.vector(&format!("{name}.bias"), outputs)?,
        })
    }

    fn norm(&self, name: &str, width: usize) -> Result<LayerNorm, String> {
        Ok(LayerNorm {
            weight: self.vector(&format!("{name}.weight"), width)?,
            bias: self.vector(&format!("{name}.bias"), width)?,
            epsilon: self.epsilon,
        })
    }
}
