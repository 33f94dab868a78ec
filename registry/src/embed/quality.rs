//! The sentence encoder in the binary, which tells capabilities apart better than the table does.
//!
//! It is all-MiniLM-L6-v2 with weights in 8 bits (`tools/embedding/quantize.py`). It costs milliseconds
//! where the table costs microseconds, so searches compare only their candidates with it.

use std::ops::Range;
use std::sync::{Arc, LazyLock};

use sentence_encoder::SentenceEncoder;

use super::model_vocabulary::{ModelVocabulary, batches};
use super::{Embedding, RULES, SimilarityScale, combine_parts, to_unit};

static WEIGHTS: &[u8] = include_bytes!("../../data/minilm.safetensors");
/// The SHA-256 of the weights, from `sha256sum`. A test checks that they match.
static WEIGHTS_DIGEST: &str = include_str!("../../data/minilm.safetensors.sha256");

/// The number of attention heads, which the file of weights does not state.
const HEADS: usize = 12;
/// The maximum number of positions that are encoded together.
const BATCH_POSITIONS: usize = 512;

/// The sentence encoder in the binary. Copies share it; the first one reads the weights.
#[derive(Debug, Clone)]
pub struct QualityEmbedder {
    model: Arc<QualityModel>,
}

#[derive(Debug)]
struct QualityModel {
    encoder: SentenceEncoder,
    vocabulary: ModelVocabulary,
    id: String,
}

impl Default for QualityEmbedder {
    fn default() -> Self {
        Self::new()
    }
}

impl QualityEmbedder {
    /// Creates the embedder.
    #[must_use]
    pub fn new() -> Self {
        static MODEL: LazyLock<Arc<QualityModel>> =
            LazyLock::new(|| Arc::new(QualityModel::load()));
        Self { model: Arc::clone(&MODEL) }
    }

    /// A name that changes whenever the vectors would.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.model.id
    }

    /// Returns the length of the vectors.
    #[must_use]
    pub fn dimensions(&self) -> usize {
        self.model.encoder.width()
    }

    /// Returns the vectors of texts, in their order, each of length one. Of a long text, the beginning
    /// counts.
    #[must_use]
    pub fn embed(&self, texts: &[&str]) -> Vec<Embedding> {
        let tokenized: Vec<_> = texts.iter().map(|text| self.model.tokenize(text)).collect();
        let mut vectors = Vec::with_capacity(texts.len());
        for batch in batches(&tokenized, BATCH_POSITIONS) {
            let batch: Vec<_> = batch.iter().map(Vec::as_slice).collect();
            let rows = self.model.encoder.encode(&batch);
            let mut at = 0;
            for text in batch {
                vectors.push(self.model.pool(&rows, at..at + text.len()));
                at += text.len();
            }
        }
        vectors
    }

    /// Returns the vectors of a text and of spans of it, given in bytes. The model reads the text once; a
    /// span is what it made of the pieces of the span within the whole.
    ///
    /// `None` when the text has more pieces than the model reads.
    #[must_use]
    pub fn embed_spans(&self, text: &str, spans: &[Range<usize>]) -> Option<Vec<Embedding>> {
        let model = &self.model;
        let pieces = model.vocabulary.tokenize(text, usize::MAX);
        if pieces.len() > model.encoder.positions() {
            return None;
        }
        let rows = model.encoder.encode(&[&pieces]);
        // Without the markers, the first position is that of the first piece.
        let piece_at = |byte: usize| {
            let before = text.get(..byte).unwrap_or(text);
            model.vocabulary.tokenize(before, usize::MAX).len() - 1
        };
        let whole = std::iter::once(0..pieces.len());
        let spans = spans.iter().map(|span| piece_at(span.start)..piece_at(span.end));
        Some(whole.chain(spans).map(|span| model.pool(&rows, span)).collect())
    }

    /// Returns the vector of a text in parts; see [`combine_parts`].
    #[must_use]
    pub fn embed_parts(&self, parts: &[(String, f32)]) -> Embedding {
        let texts: Vec<_> = parts.iter().map(|(text, _)| text.as_str()).collect();
        let weights = parts.iter().map(|(_, weight)| *weight);
        combine_parts(self.embed(&texts).into_iter().zip(weights))
    }

    /// The scale of its cosines.
    #[must_use]
    pub fn scale(&self) -> SimilarityScale {
        static SCALE: LazyLock<SimilarityScale> = LazyLock::new(|| {
            let texts: Vec<_> = SimilarityScale::texts().collect();
            let vectors = QualityEmbedder::new().embed(&texts);
            SimilarityScale::from_vectors(&vectors, &vectors)
        });
        *SCALE
    }
}

impl QualityModel {
    fn load() -> Self {
        let encoder = SentenceEncoder::parse(WEIGHTS, HEADS)
            .expect("the weights in the binary are the committed ones");
        let pieces = encoder.vocabulary().iter().map(String::as_str).zip(0..);
        let vocabulary = ModelVocabulary::from_pieces(pieces)
            .expect("the weights in the binary are the committed ones");
        let digest = WEIGHTS_DIGEST.get(..12).unwrap_or(WEIGHTS_DIGEST);
        let id = format!("minilm-{}-int8-{digest}-{RULES}", encoder.width());
        Self { encoder, vocabulary, id }
    }

    /// The pieces of the beginning of a text; none of a blank one.
    fn tokenize(&self, text: &str) -> Vec<u32> {
        match text.trim().is_empty() {
            true => Vec::new(),
            false => self.vocabulary.tokenize(text, self.encoder.positions()),
        }
    }

    /// The mean of the rows of some positions, of length one.
    fn pool(&self, rows: &[f32], positions: Range<usize>) -> Embedding {
        let width = self.encoder.width();
        let mut sum = vec![0.0; width];
        for row in rows.get(positions.start * width..positions.end * width)?.chunks_exact(width) {
            sum.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
        }
        to_unit(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cosine(a: &Embedding, b: &Embedding) -> f32 {
        let (a, b) = (a.as_ref().unwrap(), b.as_ref().unwrap());
        a.iter().zip(b).map(|(a, b)| a * b).sum()
    }

    #[test]
    fn the_digest_is_that_of_the_weights() {
        let digest = a2s::Digest::of_bytes(WEIGHTS).to_hex();
        assert_eq!(WEIGHTS_DIGEST, format!("{digest}  minilm.safetensors\n"));
    }

    #[test]
    fn a_text_has_the_same_vector_alone_and_beside_others() {
        let model = QualityEmbedder::new();
        let texts = ["kinds of pooches", "", "List Dog Breeds", "the level of a river in Cologne"];
        let together = model.embed(&texts);
        for (text, vector) in texts.iter().zip(&together) {
            assert_eq!(&model.embed(&[text])[0], vector, "{text}");
        }
        assert_eq!(together[1], None);
        assert!(cosine(&together[0], &together[2]) > cosine(&together[0], &together[3]) + 0.3);
    }

    #[test]
    fn a_span_is_near_to_its_text_alone() {
        let model = QualityEmbedder::new();
        let text = "Convert 20 dollars to yen, and then post a message with the amount";
        let spans = [0..25, 36..text.len()];
        let vectors = model.embed_spans(text, &spans).unwrap();
        assert_eq!(vectors[0], model.embed(&[text])[0]);
        for (span, vector) in spans.into_iter().zip(&vectors[1..]) {
            let alone = &model.embed(&[&text[span]])[0];
            assert!(cosine(alone, vector) > 0.7);
            let other = &model.embed(&["currency exchange rates of the day"])[0];
            assert!(cosine(alone, vector) > cosine(other, vector));
        }
        assert_eq!(model.embed_spans(&"word ".repeat(300), &[]), None);
    }
}
