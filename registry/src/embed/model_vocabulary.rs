//! The vocabulary of a model of the uncased BERT family.

use std::collections::BTreeMap;

use super::wordpiece_tokenizer::{PiecePosition, Vocabulary, visit_pieces};

/// The pieces of a model, by their text.
#[derive(Debug)]
pub(super) struct ModelVocabulary {
    starts: BTreeMap<Box<str>, u32>,
    insides: BTreeMap<Box<str>, u32>,
    /// The length of the longest piece, in bytes.
    longest: usize,
    /// Begins every text.
    first: u32,
    /// Ends every text.
    last: u32,
    unknown: u32,
}

impl ModelVocabulary {
    /// Creates a vocabulary of pieces and their numbers; `##` begins a piece that continues a word.
    ///
    /// # Errors
    /// Fails when a marker is missing: `[CLS]`, `[SEP]` or `[UNK]`.
    pub(super) fn from_pieces<'p>(
        pieces: impl IntoIterator<Item = (&'p str, u32)>,
    ) -> Result<Self, String> {
        let (mut starts, mut insides, mut longest) = (BTreeMap::new(), BTreeMap::new(), 0);
        for (piece, number) in pieces {
            let (pieces, letters) = match piece.strip_prefix("##") {
                Some(letters) if !letters.is_empty() => (&mut insides, letters),
                Some(_) | None => (&mut starts, piece),
            };
            longest = longest.max(letters.len());
            pieces.insert(letters.into(), number);
        }
        let marker = |piece: &str| {
            starts.get(piece).copied().ok_or_else(|| format!("its vocabulary lacks {piece}"))
        };
        let (first, last, unknown) = (marker("[CLS]")?, marker("[SEP]")?, marker("[UNK]")?);
        Ok(Self { starts, insides, longest, first, last, unknown })
    }

    /// Returns the largest number of a piece plus one.
    #[cfg(feature = "local-embedder")]
    pub(super) fn size(&self) -> usize {
        let numbers = self.starts.values().chain(self.insides.values());
        numbers.max().map_or(0, |largest| *largest as usize + 1)
    }

    /// Returns the pieces of a text between the two markers, at most `most` of them.
    pub(super) fn tokenize(&self, text: &str, most: usize) -> Vec<u32> {
        let mut pieces = vec![self.first];
        visit_pieces(self, text, most.saturating_sub(2), |piece| {
            pieces.push(piece.unwrap_or(self.unknown));
        });
        pieces.push(self.last);
        pieces
    }
}

/// Splits tokenized texts into batches of at most `most` pieces; a longer text is a batch of its own.
pub(super) fn batches(texts: &[Vec<u32>], most: usize) -> impl Iterator<Item = &[Vec<u32>]> {
    let mut rest = texts;
    std::iter::from_fn(move || {
        let mut pieces = 0;
        let fits = rest.iter().take_while(|text| {
            pieces += text.len();
            pieces <= most
        });
        let (batch, behind) = rest.split_at_checked(fits.count().max(1))?;
        rest = behind;
        Some(batch)
    })
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
