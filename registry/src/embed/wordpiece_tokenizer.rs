//! Text to word pieces, as the uncased BERT tokenizer does it.
//!
//! Control characters vanish, accents and case are dropped, every punctuation mark and every
//! ideograph is a word of its own, and a word is cut into the longest pieces of the vocabulary,
//! from the left. A word that cannot be cut completely is unknown as a whole. The one difference:
//! names in brackets such as `[CLS]` are ordinary text here, never markers.

use std::ops::ControlFlow;

use unicode_normalization::UnicodeNormalization as _;
use unicode_properties::{GeneralCategory, GeneralCategoryGroup, UnicodeGeneralCategory as _};

/// The maximum number of bytes of a text that are read. The rest is ignored.
const MAX_TEXT_BYTES: usize = 64 * 1024;
/// The maximum number of characters of a word. A longer word is unknown.
const MAX_WORD_LENGTH: usize = 100;

/// The position of a piece in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PiecePosition {
    /// At the beginning of a word.
    Start,
    /// After another piece; vocabularies write `##` before it.
    Inside,
}

/// A set of word pieces.
pub(crate) trait Vocabulary {
    /// The representation of a piece.
    type Piece;

    /// Returns the longest piece at the start of `text`, and its length in bytes.
    fn find_longest(&self, place: PiecePosition, text: &str) -> Option<(Self::Piece, usize)>;
}

/// Calls `visit` with each piece of `text` in order, at most `most` times; `None` stands for an unknown
/// word.
pub(crate) fn visit_pieces<V: Vocabulary>(
    vocabulary: &V,
    text: &str,
    most: usize,
    mut visit: impl FnMut(Option<V::Piece>),
) {
    let mut left = most;
    let mut take = |piece| {
        if left == 0 {
            return ControlFlow::Break(());
        }
        left -= 1;
        visit(piece);
        ControlFlow::Continue(())
    };
    let _ = visit_words(text, |word| visit_word(vocabulary, word, &mut take));
}

/// Calls `visit` with each word. A word is normalised and never empty.
fn visit_words(text: &str, mut visit: impl FnMut(&str) -> ControlFlow<()>) -> ControlFlow<()> {
    let text = &text[..text.floor_char_boundary(MAX_TEXT_BYTES)];
    let bare = text.chars().filter(|c| !is_dropped(*c)).nfd().filter(|c| !is_accent(*c));
    let mut word = String::new();
    for character in bare.flat_map(char::to_lowercase) {
        let alone = is_punctuation(character) || is_ideograph(character);
        if (alone || character.is_whitespace()) && !word.is_empty() {
            visit(&word)?;
            word.clear();
        }
        if alone {
            visit(character.encode_utf8(&mut [0; 4]))?;
        } else if !character.is_whitespace() {
            word.push(character);
        }
    }
    if word.is_empty() { ControlFlow::Continue(()) } else { visit(&word) }
}

/// Splits one word into pieces. It splits the word twice, because only the end shows that all pieces are
/// known.
fn visit_word<V: Vocabulary>(
    vocabulary: &V,
    word: &str,
    take: &mut impl FnMut(Option<V::Piece>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let known = word.chars().count() <= MAX_WORD_LENGTH
        && split_word(vocabulary, word).all(|p| p.is_some());
    if !known {
        return take(None);
    }
    split_word(vocabulary, word).try_for_each(take)
}

/// Returns the pieces of a word. The last one is `None` when the rest of the word has no piece.
fn split_word<'w, V: Vocabulary>(
    vocabulary: &'w V,
    word: &'w str,
) -> impl Iterator<Item = Option<V::Piece>> + 'w {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = word.get(at..).filter(|rest| !rest.is_empty())?;
        let place = if at == 0 { PiecePosition::Start } else { PiecePosition::Inside };
        let found = vocabulary.find_longest(place, rest);
        at += found.as_ref().map_or(rest.len(), |(_, length)| *length);
        Some(found.map(|(piece, _)| piece))
    })
}

/// Returns true when the character is removed before anything else. Tabs and line ends become spaces
/// instead.
fn is_dropped(character: char) -> bool {
    match character {
        '\t' | '\n' | '\r' => false,
        ' '..='~' => false,
        '\u{fffd}' => true,
        _ => matches!(
            character.general_category(),
            GeneralCategory::Control | GeneralCategory::Format | GeneralCategory::PrivateUse
        ),
    }
}

fn is_accent(character: char) -> bool {
    !character.is_ascii() && character.general_category() == GeneralCategory::NonspacingMark
}

fn is_punctuation(character: char) -> bool {
    if character.is_ascii() {
        return character.is_ascii_punctuation();
    }
    character.general_category_group() == GeneralCategoryGroup::Punctuation
}

/// Returns true when the character is a Han ideograph. They are written without spaces.
fn is_ideograph(character: char) -> bool {
    matches!(
        character,
        '\u{3400}'..='\u{4dbf}'
            | '\u{4e00}'..='\u{9fff}'
            | '\u{f900}'..='\u{faff}'
            | '\u{20000}'..='\u{2a6df}'
            | '\u{2a700}'..='\u{2b73f}'
            | '\u{2b740}'..='\u{2b81f}'
            | '\u{2b820}'..='\u{2ceaf}'
            | '\u{2f800}'..='\u{2fa1f}'
    )
}
