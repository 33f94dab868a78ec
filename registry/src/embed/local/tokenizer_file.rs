//! The file `tokenizer.json` of a model.

use serde::Deserialize;

use crate::embed::model_vocabulary::ModelVocabulary;

/// The maximum number of pieces of a vocabulary.
const MAX_PIECES: usize = 1_000_000;

#[derive(Deserialize)]
struct TokenizerFile {
    model: TokenizerModel,
    normalizer: Option<Normalizer>,
    pre_tokenizer: Option<PreTokenizer>,
}

#[derive(Deserialize)]
struct TokenizerModel {
    #[serde(rename = "type")]
    kind: Option<String>,
    /// The number of each piece. Other kinds of models have lists here.
    vocab: serde_json::Value,
    continuing_subword_prefix: Option<String>,
}

#[derive(Deserialize)]
struct PreTokenizer {
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
struct Normalizer {
    #[serde(rename = "type")]
    kind: String,
    lowercase: Option<bool>,
    strip_accents: Option<bool>,
}

/// Reads the vocabulary of `tokenizer.json`.
///
/// # Errors
/// Fails when the file is broken, or splits texts differently from [`super::super::wordpiece_tokenizer`].
pub(super) fn read_vocabulary(file: &[u8]) -> Result<ModelVocabulary, String> {
    let file: TokenizerFile = serde_json::from_slice(file).map_err(|error| error.to_string())?;
    let is_word_piece = match &file.model.kind {
        Some(kind) => kind == "WordPiece",
        // Older files leave it out.
        None => file.model.continuing_subword_prefix.is_some(),
    };
    if !is_word_piece || file.model.continuing_subword_prefix.as_deref() != Some("##") {
        return Err(
            "its tokenizer is not supported; only the word pieces of BERT are supported".to_owned()
        );
    }
    let is_uncased = file.normalizer.as_ref().is_some_and(|normalizer| {
        normalizer.kind == "BertNormalizer"
            && normalizer.lowercase == Some(true)
            && normalizer.strip_accents != Some(false)
    });
    let is_bert = file.pre_tokenizer.is_some_and(|kind| kind.kind == "BertPreTokenizer");
    if !is_uncased || !is_bert {
        let why =
            "it keeps case or accents, or splits words differently; only uncased BERT is supported";
        return Err(why.to_owned());
    }
    let serde_json::Value::Object(words) = file.model.vocab else {
        return Err("its vocabulary is not a list of word pieces".to_owned());
    };
    if words.len() > MAX_PIECES {
        return Err(format!("its vocabulary has more than {MAX_PIECES} pieces"));
    }
    let number = |piece: &str, value: &serde_json::Value| {
        let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
        number.ok_or_else(|| format!("the piece {piece:?} has no number"))
    };
    let numbered = words.iter().map(|(piece, value)| Ok((piece.as_str(), number(piece, value)?)));
    ModelVocabulary::from_pieces(numbered.collect::<Result<Vec<_>, String>>()?)
}
