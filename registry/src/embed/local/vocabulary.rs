//! The vocabulary of a model: `tokenizer.json` of the uncased BERT family.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::super::wordpiece_tokenizer::{PiecePosition, Vocabulary};

/// The maximum number of pieces of a vocabulary.
const MAX_PIECES: usize = 1_000_000;

/// The pieces of a model, by their text.
#[derive(Debug)]
pub(super) struct ModelVocabulary {
    starts: BTreeMap<Box<str>, u32>,
    insides: BTreeMap<Box<str>, u32>,
    /// The length of the longest piece, in bytes.
    longest: usize,
    /// Begins every text.
    pub(super) first: u32,
    /// Ends every text.
    pub(super) last: u32,
    pub(super) unknown: u32,
}

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

impl ModelVocabulary {
    /// Parses `tokenizer.json`.
    ///
    /// # Errors
    /// Fails when the file is broken, or splits texts differently from [`super::wordpiece_tokenizer`].
    pub(super) fn parse(file: &[u8]) -> Result<Self, String> {
        let file: TokenizerFile =
            serde_json::from_slice(file).map_err(|error| error.to_string())?;
        let is_word_piece = match &file.model.kind {
            Some(kind) => kind == "WordPiece",
            // Older files leave it out.
            None => file.model.continuing_subword_prefix.is_some(),
        };
        if !is_word_piece || file.model.continuing_subword_prefix.as_deref() != Some("##") {
            return Err(
                "its tokenizer is not supported; only the word pieces of BERT are supported"
                    .to_owned(),
            );
        }
        let is_uncased = file.normalizer.as_ref().is_some_and(|normalizer| {
            normalizer.kind == "BertNormalizer"
                && normalizer.lowercase == Some(true)
                && normalizer.strip_accents != Some(false)
        });
        let is_bert = file.pre_tokenizer.is_some_and(|kind| kind.kind == "BertPreTokenizer");
        if !is_uncased || !is_bert {
            let why = "it keeps case or accents, or splits words differently; only uncased BERT is supported";
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
        let special = |piece: &str| match words.get(piece) {
            Some(value) => number(piece, value),
            None => Err(format!("its vocabulary lacks {piece}")),
        };
        let (first, last, unknown) = (special("[CLS]")?, special("[SEP]")?, special("[UNK]")?);
        let (mut starts, mut insides, mut longest) = (BTreeMap::new(), BTreeMap::new(), 0);
        for (piece, value) in &words {
            let number = number(piece, value)?;
            let (pieces, letters) = match piece.strip_prefix("##") {
                Some(letters) if !letters.is_empty() => (&mut insides, letters),
                Some(_) | None => (&mut starts, piece.as_str()),
            };
            longest = longest.max(letters.len());
            pieces.insert(letters.into(), number);
        }
        Ok(Self { starts, insides, longest, first, last, unknown })
    }

    /// Returns the largest number of a piece plus one.
    pub(super) fn size(&self) -> usize {
        let numbers = self.starts.values().chain(self.insides.values());
        numbers.max().map_or(0, |largest| *largest as usize + 1)
    }
}

impl Vocabulary for ModelVocabulary {
    type Piece = u32;

    fn find_longest(&self, place: PiecePosition, text: &str) -> Option<(u32, usize)> {
        let pieces = match place {
            PiecePosition::Start => &self.starts,
            PiecePosition::Inside => &self.insides,
        };
        let mut end = text.floor_char_boundary(self.longest);
        while end > 0 {
            if let Some(piece) = pieces.get(&text[..end]) {
                return Some((*piece, end));
            }
            end = text.floor_char_boundary(end - 1);
        }
        None
    }
}
